//! Texts that are equal only for expressions of the same meaning, in whichever compilation they were made.

use std::fmt::Write as _;

use super::Expr;

impl Expr {
    /// Its [definition](Expr::define) alone.
    pub fn definition(&self) -> String {
        let mut text = String::new();
        self.define(&mut text);
        text
    }

    /// Adds a text that no expression of another meaning has. Variables are known by their numbers, functions by their
    /// [identities](nlog_data::Function::identity).
    pub fn define(&self, text: &mut String) {
        match self {
            Expr::Variable(variable) => {
                let _ = write!(text, " {variable:?}");
            }
            Expr::Constant(value) => {
                let _ = write!(text, " {value:?}");
            }
            Expr::Call { function, arguments } => {
                let _ = write!(text, " {} (", function.identity());
                define_all(arguments, text);
                text.push(')');
            }
            Expr::If { condition, then, otherwise } => {
                text.push_str(" if");
                for part in [condition, then, otherwise] {
                    part.define(text);
                }
            }
        }
    }
}

/// Adds a text that no other expressions have.
pub fn define_all(exprs: &[Expr], text: &mut String) {
    for expr in exprs {
        expr.define(text);
    }
}

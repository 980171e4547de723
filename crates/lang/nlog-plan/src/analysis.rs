//! The variables and possible outcomes of expressions.

use nlog::program::{Expr, VariableId};

use crate::dependency::Variables;

/// The function that tests equality.
pub(crate) const EQUAL: &str = "==";

/// The variables in an expression.
pub(crate) fn variables_of(expr: &Expr) -> Variables {
    let mut variables = Variables::new();
    expr.variables(&mut variables);
    variables
}

/// Whether any function in the expression can fail.
pub(crate) fn may_fail(expr: &Expr) -> bool {
    match expr {
        Expr::Variable(_) | Expr::Constant(_) => false,
        Expr::Call { function, arguments } => function.may_fail || arguments.iter().any(may_fail),
        Expr::If { condition, then, otherwise } => {
            may_fail(condition) || may_fail(then) || may_fail(otherwise)
        }
    }
}

/// Whether the expression can have no value for some arguments.
pub(crate) fn may_be_none(expr: &Expr) -> bool {
    match expr {
        Expr::Variable(_) | Expr::Constant(_) => false,
        Expr::Call { function, arguments } => {
            function.multiplicity != nlog_data::function::Multiplicity::One
                || arguments.iter().any(may_be_none)
        }
        Expr::If { condition, then, otherwise } => {
            may_be_none(condition) || may_be_none(then) || may_be_none(otherwise)
        }
    }
}

/// The ways to read an expression as an equation: a variable and the other side.
pub(crate) fn equations(expr: &Expr) -> Vec<(VariableId, &Expr)> {
    let Expr::Call { function, arguments } = expr else { return Vec::new() };
    let [a, b] = arguments.as_slice() else { return Vec::new() };
    if function.name != EQUAL {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (one, other) in [(a, b), (b, a)] {
        if let Expr::Variable(variable) = one
            && !variables_of(other).contains(variable)
            && !matches!(other, Expr::Constant(_))
        {
            found.push((*variable, other));
        }
    }
    found
}

//! Prints expressions approximately as written in the rule.

use std::collections::BTreeSet;

use nlog::program::{Expr, Rule};
use nlog_data::Value;

use crate::expression::Values;

/// The expression with the names of its variables.
pub(crate) fn expression(expr: &Expr, rule: &Rule) -> String {
    match expr {
        Expr::Variable(variable) => rule.variables[variable.0 as usize].name.clone(),
        Expr::Constant(value) => value.to_string(),
        Expr::If { condition, then, otherwise } => format!(
            "if {} then {} else {}",
            expression(condition, rule),
            expression(then, rule),
            expression(otherwise, rule)
        ),
        Expr::Call { function, arguments } => {
            let name = &*function.name;
            let parts: Vec<String> = arguments.iter().map(|argument| operand(argument, rule)).collect();
            let is_operator = !name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            match parts.as_slice() {
                [left, right] if is_operator => format!("{left} {name} {right}"),
                [operand] if is_operator => format!("{name}{operand}"),
                _ => {
                    let arguments: Vec<String> =
                        arguments.iter().map(|argument| expression(argument, rule)).collect();
                    format!("{name}({})", arguments.join(", "))
                }
            }
        }
    }
}

/// An operand, in brackets if it contains operators.
fn operand(expr: &Expr, rule: &Rule) -> String {
    let text = expression(expr, rule);
    let compound = match expr {
        Expr::If { .. } => true,
        Expr::Call { function, .. } => !function.name.starts_with(|c: char| c.is_alphabetic() || c == '_'),
        Expr::Variable(_) | Expr::Constant(_) => false,
    };
    if compound { format!("({text})") } else { text }
}

/// The values of an expression's variables.
pub(crate) fn values(expr: &Expr, rule: &Rule, values: &Values) -> Vec<(String, Value)> {
    let mut variables = BTreeSet::new();
    expr.variables(&mut variables);
    let pairs = variables.into_iter().filter_map(|variable| {
        let value = values[variable.0 as usize].clone()?;
        Some((rule.variables[variable.0 as usize].name.clone(), value))
    });
    pairs.collect()
}

/// The variables with values, except those that the compiler made.
pub(crate) fn named(rule: &Rule, values: &Values) -> Vec<(String, Value)> {
    let pairs = rule.variables.iter().zip(values).filter(|(variable, _)| !variable.name.contains('.'));
    pairs.filter_map(|(variable, value)| Some((variable.name.clone(), value.clone()?))).collect()
}

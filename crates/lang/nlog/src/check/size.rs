//! Limits on the size of values while a program is checked and within its functions: a few lines that repeatedly
//! double a string could exhaust memory.

use nlog_data::function::Function;
use nlog_data::{Failure, Value};

/// The maximum weight of a function's arguments together, in bytes of text and in elements.
const HEAVIEST: usize = 1 << 18;
/// The same for `replace`, whose result can weigh the product of its arguments.
const HEAVIEST_TO_REPLACE: usize = 1 << 14;

/// Refuses arguments whose result could be too large. A function that makes nothing larger takes whatever there is: objects may be large.
pub(super) fn check(function: &Function, arguments: &[Value]) -> Result<(), Failure> {
    if !grows(function) {
        return Ok(());
    }
    let most = if function.name == "replace" { HEAVIEST_TO_REPLACE } else { HEAVIEST };
    let weight: usize = arguments.iter().map(weight).sum();
    if weight <= most {
        return Ok(());
    }
    Err(Failure::range(format!(
        "the argument of `{}` has more than {most} characters or elements",
        function.name
    )))
}

/// Whether the function's result can be larger than each of its arguments.
pub(super) fn grows(function: &Function) -> bool {
    matches!(&*function.name, "++" | "replace" | "join")
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Match(matched) => matched.text().len(),
        Value::Actions(actions) => actions.text().len(),
        Value::Set(values) | Value::List(values) | Value::Record(values) => {
            values.len() + values.iter().map(weight).sum::<usize>()
        }
        _ => 1,
    }
}

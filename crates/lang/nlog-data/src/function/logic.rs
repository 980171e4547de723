//! Boolean operators.

use super::Function;
use super::define::entry;

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry("&(a, b) -> both", "True if both are true.")
            .example("true, true", "true")
            .example("true, false", "false")
            .binary(|a: bool, b: bool| a & b),
        entry("|(a, b) -> either", "True if at least one of them is true.")
            .example("false, true", "true")
            .example("false, false", "false")
            .binary(|a: bool, b: bool| a | b),
        entry("^(a, b) -> one", "True if exactly one of them is true.")
            .example("true, false", "true")
            .example("true, true", "false")
            .binary(|a: bool, b: bool| a ^ b),
        entry("to_string(value) -> text", "`true` or `false`.")
            .example("true", r#""true""#)
            .example("false", r#""false""#)
            .unary(|value: bool| value.to_string()),
    ]
}

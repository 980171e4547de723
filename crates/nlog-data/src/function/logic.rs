//! Truth values.

use super::Function;
use super::define::entry;

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry("&(a, b) -> both", "Whether both hold.")
            .example("true, true", "true")
            .example("true, false", "false")
            .binary(|a: bool, b: bool| a & b),
        entry("|(a, b) -> either", "Whether one of them holds, or both.")
            .example("false, true", "true")
            .example("false, false", "false")
            .binary(|a: bool, b: bool| a | b),
        entry("^(a, b) -> one", "Whether exactly one of them holds.")
            .example("true, false", "true")
            .example("true, true", "false")
            .binary(|a: bool, b: bool| a ^ b),
        entry("to_string(value) -> text", "`true` or `false`.")
            .example("true", r#""true""#)
            .example("false", r#""false""#)
            .unary(|value: bool| value.to_string()),
    ]
}

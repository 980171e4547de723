//! Optional values.

use super::Function;
use super::define::{Any, AnyOpt, entry};

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry("none() -> opt", "No value.").example("", "none").nullary(|| AnyOpt(None)),
        entry("some(x) -> opt", "The value as an optional value.")
            .example("5", "5")
            .example("[]", "[]")
            .unary(|Any(x): Any| AnyOpt(Some(x))),
        entry("value(opt) -> x", "The value. No result if it is absent.")
            .example("5", "5")
            .example("none", "none")
            .unary(|AnyOpt(opt): AnyOpt| opt.map(Any)),
        entry("or_else(opt, x) -> value", "The value, or x if it is absent. x is always evaluated.")
            .example("5, 7", "5")
            .example("none, 7", "7")
            .binary(|AnyOpt(opt): AnyOpt, Any(x): Any| Any(opt.unwrap_or(x))),
        entry("is_some(opt) -> holds", "True if the value is present.")
            .example("5", "true")
            .example("none", "false")
            .unary(|AnyOpt(opt): AnyOpt| opt.is_some()),
        entry("is_none(opt) -> holds", "True if the value is absent.")
            .example("5", "false")
            .example("none", "true")
            .unary(|AnyOpt(opt): AnyOpt| opt.is_none()),
    ]
}

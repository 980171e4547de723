//! Optional values.

use super::Function;
use super::define::{Any, AnyOpt, entry};

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry("none() -> opt", "No value.").example("", "none").nullary(|| AnyOpt(None)),
        entry("some(x) -> opt", "The value, where an optional one is wanted.")
            .example("5", "5")
            .example("[]", "[]")
            .unary(|Any(x): Any| AnyOpt(Some(x))),
        entry("value(opt) -> x", "The value; no result if there is none.")
            .example("5", "5")
            .example("none", "none")
            .unary(|AnyOpt(opt): AnyOpt| opt.map(Any)),
        entry(
            "or_else(opt, x) -> value",
            "The value; x, which is computed either way, if there is no value.",
        )
        .example("5, 7", "5")
        .example("none, 7", "7")
        .binary(|AnyOpt(opt): AnyOpt, Any(x): Any| Any(opt.unwrap_or(x))),
        entry("is_some(opt) -> holds", "Whether there is a value.")
            .example("5", "true")
            .example("none", "false")
            .unary(|AnyOpt(opt): AnyOpt| opt.is_some()),
        entry("is_none(opt) -> holds", "Whether there is no value.")
            .example("5", "false")
            .example("none", "true")
            .unary(|AnyOpt(opt): AnyOpt| opt.is_none()),
    ]
}

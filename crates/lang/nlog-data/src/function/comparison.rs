//! Comparisons of two values of one type, in the order of values; minimum and maximum.

use super::Function;
use super::define::{Any, entry};

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry("==(a, b) -> holds", "True if the values are equal.")
            .example(r#""a", "a""#, "true")
            .example("{1, 2}, {2, 1}", "true")
            .example("[1, 2], [2, 1]", "false")
            .example(r#"ip"10.0.0.1", ip"::ffff:10.0.0.1""#, "false")
            .binary(|Any(a): Any, Any(b): Any| a == b),
        entry("!=(a, b) -> holds", "True if the values differ.")
            .example("1, 2", "true")
            .example("1, 1", "false")
            .binary(|Any(a): Any, Any(b): Any| a != b),
        entry("not_equal(a, b) -> holds", "True if the values differ; the notation of the literature.")
            .example(r#""hv1", "hv2""#, "true")
            .example(r#""hv1", "hv1""#, "false")
            .binary(|Any(a): Any, Any(b): Any| a != b),
        entry("<(a, b) -> holds", "True if a is less than b.")
            .example("1, 2", "true")
            .example("2, 2", "false")
            .example(r#"ip"255.255.255.255", ip"::1""#, "true")
            .example(r#""B", "a""#, "true")
            .binary(|Any(a): Any, Any(b): Any| a < b),
        entry("<=(a, b) -> holds", "True if a is less than or equal to b.")
            .example("2, 2", "true")
            .example("3, 2", "false")
            .binary(|Any(a): Any, Any(b): Any| a <= b),
        entry(">(a, b) -> holds", "True if a is greater than b.")
            .example("-1, -2", "true")
            .example("2, 2", "false")
            .binary(|Any(a): Any, Any(b): Any| a > b),
        entry(">=(a, b) -> holds", "True if a is greater than or equal to b.")
            .example("[1, 2], [1]", "true")
            .example(r#"net"10.0.0.0/8", net"10.0.0.0/16""#, "false")
            .binary(|Any(a): Any, Any(b): Any| a >= b),
        entry("min_of(a, b) -> least", "The smaller of two values.")
            .example("1, 2", "1")
            .example(r#""b", "a""#, r#""a""#)
            .binary(|Any(a): Any, Any(b): Any| Any(a.min(b))),
        entry("max_of(a, b) -> greatest", "The larger of two values.")
            .example("1, 2", "2")
            .example(r#"mac"02:00:00:00:00:02", mac"02:00:00:00:01:00""#, r#"mac"02:00:00:00:01:00""#)
            .binary(|Any(a): Any, Any(b): Any| Any(a.max(b))),
    ]
}

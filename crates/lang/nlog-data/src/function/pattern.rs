//! Regular expressions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use super::define::entry;
use super::{Failure, Function};
use crate::quotation::{grouped, quote_text};

/// The most bytes of a compiled pattern, so that nested repetitions do not exhaust memory.
const LARGEST: usize = 1 << 20;

/// The most patterns that a thread keeps. Programs have few; patterns that are data must not accumulate.
const KEPT: usize = 64;

thread_local! {
    static COMPILED: RefCell<HashMap<Arc<str>, Result<Regex, Failure>>> = RefCell::default();
}

/// Compiles a pattern so that it matches whole texts.
fn compile(pattern: &str) -> Result<Regex, Failure> {
    let build = |text: &str| {
        RegexBuilder::new(text).size_limit(LARGEST).build().map_err(|error| {
            let pattern = quote_text(pattern);
            if let regex::Error::CompiledTooBig(most) = error {
                let most = grouped(most);
                return Failure::range(format!("matches: {pattern} compiles to more than {most} bytes"));
            }
            // Before the reason, the crate draws the pattern on lines of their own.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason).trim_end_matches('.');
            Failure::range(format!("matches: {pattern} is not a regular expression: {reason}"))
        })
    };
    // Alone first: in the group below, `a)|(b` would be a pattern.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

fn is_match(text: &str, pattern: &Arc<str>) -> Result<bool, Failure> {
    COMPILED.with_borrow_mut(|compiled| {
        if !compiled.contains_key(pattern) {
            if compiled.len() >= KEPT {
                compiled.clear();
            }
            compiled.insert(pattern.clone(), compile(pattern));
        }
        match compiled.get(pattern) {
            Some(Ok(regex)) => Ok(regex.is_match(text)),
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(false),
        }
    })
}

/// `matches(text, pattern)`.
pub(super) fn matches() -> Function {
    entry(
        "matches(text, pattern) -> holds",
        "True if the whole string matches the regular expression, in the \
        [syntax of the Rust crate regex](https://docs.rs/regex/1/regex/#syntax): without back references and \
        look-around, so the time is linear in the length of the string. `\\d`, `\\w` and `\\s` include other \
        scripts; write `[0-9]` for the digits of numbers. A string literal writes `\\` twice. The compiled pattern has \
        at most 1 MiB.",
    )
    .example(r#""hv-1", "[a-z][a-z0-9-]*""#, "true")
    .example(r#""hv-1.example", "[a-z][a-z0-9-]*""#, "false")
    .example(r#""tcp:hv1:6640", "(tcp|ssl):[^:]+:[0-9]+""#, "true")
    .example(r#""ab", "a|ab""#, "true")
    .example(r#""1.5", "[0-9]+\\.[0-9]+""#, "true")
    .example(r#""", "[a-z]*""#, "true")
    .example(r#""a\n", "a""#, "false")
    .example(r#""größe", "gr..e""#, "true")
    .example(r#""a", "[a-z""#, "error range")
    .example(r#""a", "a)|(b""#, "error range")
    .example(r#""a", "(a{1000}){1000}""#, "error range")
    .binary(|text: Arc<str>, pattern: Arc<str>| is_match(&text, &pattern))
}

//! The documentation of functions: one function as text, all of them as Markdown.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use openflow_rs::field::Format;
use openflow_rs::{Field, Match, Prerequisite};

use super::openflow_actions::settable;
use super::openflow_field::{Form, forms, names};
use super::openflow_match::{over_ipv6, prerequisite};
use super::{Example, Function, Multiplicity, SUBJECTS, Shape, lookup};
use crate::literal;

/// The signatures, descriptions and examples of the functions of this name, as plain text; none if there is no such
/// function.
///
/// ```
/// let text = nlog_data::function::describe("starts_with");
/// assert_eq!(
///     text.as_deref(),
///     Some(concat!(
///         "starts_with(text: string, start: string) -> holds: bool\n",
///         "    True if the string starts with the prefix.\n\n",
///         "    starts_with(\"weft-geneve\", \"weft-\")   # true\n",
///         "    starts_with(\"we\", \"weft-\")            # false\n",
///         "    starts_with(\"we\", \"\")                 # true\n",
///     ))
/// );
/// ```
pub fn describe(name: &str) -> Option<String> {
    let functions = lookup(name);
    let parts: Vec<String> = functions
        .iter()
        .map(|function| {
            let mut text = format!("{}\n    {}\n\n", function.signature(), function.doc);
            for line in examples(function) {
                let _ = writeln!(text, "    {line}");
            }
            text
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// All functions and operators as Markdown, by subject; the functions of OpenFlow fields are one table of fields.
pub fn reference_markdown() -> String {
    let (mut contents, mut sections) = (String::new(), String::new());
    for (title, functions) in SUBJECTS {
        let functions = functions();
        let mut names: Vec<&str> = Vec::new();
        for function in &functions {
            if !names.contains(&&*function.name) {
                names.push(&function.name);
            }
        }
        let listed: Vec<String> = names.iter().map(quoted).collect();
        let anchor = title.to_lowercase().replace(' ', "-");
        let _ = writeln!(contents, "- [{title}](#{anchor}): {}", listed.join(" "));
        let _ = write!(sections, "\n## {title}\n");
        for name in names {
            let same: Vec<&Function> = functions.iter().filter(|function| function.name == name).collect();
            section(&mut sections, name, &same);
        }
    }
    let mut page = format!("{INTRODUCTION}\n{contents}{CONTENTS_OF_FIELDS}{sections}");
    fields(&mut page);
    page
}

const INTRODUCTION: &str = "\
# Functions and operators of nlog

Generated from the table of functions in `crates/lang/nlog-data/src/function`. Tests run every example.

A function can be used as an expression, `n = length(text)`, or as an atom whose last terms are its results, `length(text, n)`. A function with a `bool` result can be used as a condition: `starts_with(text, \"hv\")`. `T` is any type, the same throughout a signature. The comment after an example shows its value, or:

- `no result`: the function has no result, so the rule derives nothing for these arguments;
- `error: overflow`, `error: range`: evaluation fails, and the transaction is refused if the rest of the body holds for these arguments;
- `(1) (2)`: several results, each in parentheses. Such a function is used as an atom: `element({2, 1}, x)`.

By subject:
";

const CONTENTS_OF_FIELDS: &str = "- [OpenFlow fields](#openflow-fields): `match_F` `match_F_masked` `set_F` \
`set_F_masked` for every field `F`, \
    `flow_expr_match_regN`\n";

/// The functions of one subject that share a name.
fn section(page: &mut String, name: &str, functions: &[&Function]) {
    let _ = write!(page, "\n### `{name}`\n");
    for function in functions {
        let _ = write!(page, "\n`{}`\n\n{}\n\n", function.signature(), function.doc);
        page.push_str("```nlog\n");
        for line in examples(function) {
            let _ = writeln!(page, "{line}");
        }
        page.push_str("```\n");
    }
}

/// A line for each example: the call, and its result as a comment. Comments are aligned.
fn examples(function: &Function) -> Vec<String> {
    let calls: Vec<String> = function.examples.iter().map(|example| call(function, example)).collect();
    let width = calls.iter().map(|call| call.chars().count()).max().unwrap_or(0).min(WIDEST_CALL);
    let results = function.examples.iter().map(|example| result(function, example));
    calls.iter().zip(results).map(|(call, result)| format!("{call:width$}   # {result}")).collect()
}

/// Comments of longer calls are not aligned.
const WIDEST_CALL: usize = 60;

/// The text of a call. An operator is between its operands, or before its only one.
fn call(function: &Function, example: &Example) -> String {
    let (name, arguments) = (&function.name, &*example.arguments);
    // The comma that separates the arguments has a literal on either side.
    let pair = arguments.match_indices(", ").find_map(|(at, comma)| {
        let (left, right) = (&arguments[..at], &arguments[at + comma.len()..]);
        (literal::parse(left).is_ok() && literal::parse_list(right).is_ok()).then_some((left, right))
    });
    let optional = function.parameters.first().is_some_and(|first| matches!(first.shape, Shape::OptOf(_)));
    match pair {
        Some((left, right)) if is_operator(name) => format!("{left} {name} {right}"),
        Some((first, others)) if optional => format!("{name}({}, {others})", as_optional(first)),
        None if optional => format!("{name}({})", as_optional(arguments)),
        _ => format!("{name}({arguments})"),
    }
}

fn is_operator(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// A literal of an optional value as rules write it.
fn as_optional(literal: &str) -> String {
    if literal == "none" { "none()".to_string() } else { format!("some({literal})") }
}

/// The result of an example, as comment text.
fn result(function: &Function, example: &Example) -> String {
    let optional = function.results.first().is_some_and(|first| matches!(first.shape, Shape::OptOf(_)));
    match (&*example.result, function.multiplicity) {
        ("none", Multiplicity::Many) => "no results".to_string(),
        ("none", Multiplicity::AtMostOne) => "no result".to_string(),
        (result, _) => match result.strip_prefix("error ") {
            Some(code) => format!("error: {code}"),
            None if optional => as_optional(result),
            None => result.to_string(),
        },
    }
}

const FIELDS: &str = "
## OpenFlow fields

For every field `F` below there are these functions:

- `match_F(value) -> match` matches packets whose field has this value, together with the prerequisite in the column “with it”. If the value is a `net`, `match_F(net) -> match` matches packets whose field is in the prefix.
- `match_F_masked(value, mask) -> match`, if the field is maskable, matches packets whose field equals the value in the bits of the mask.
- `set_F(value) -> actions`, if the field is writable, writes it. If it is also maskable, `set_F_masked(value, mask) -> actions` writes the bits of the mask; bits of the value outside the mask must be zero. A switch accepts the action only in a flow that matches the prerequisite in the column “with it”.

A value that does not fit in the field is `error: range`. `flow_expr_match_reg0(value)` to `flow_expr_match_reg15(value)`, the names used in the literature, are the same as `match_reg0(value)` to `match_reg15(value)`.

| F | bits | value | mask | written | with it |
|---|---|---|---|---|---|
";

/// The table of fields. Neighbours that differ only in a number, such as registers, share a row.
fn fields(page: &mut String) {
    page.push_str(FIELDS);
    let mut rows: Vec<(Vec<String>, String)> = Vec::new();
    for field in Field::all() {
        rows.push((names(field).map(quoted).collect(), properties(field, false)));
        let six: Vec<String> = names(field).filter_map(over_ipv6).map(|name| quoted(&name)).collect();
        if !six.is_empty() {
            rows.push((six, properties(field, true)));
        }
    }
    let stem = |names: &[String]| match names {
        [name] => Some(name.trim_end_matches('`').trim_end_matches(|c: char| c.is_ascii_digit()).to_string()),
        _ => None,
    };
    for alike in rows.chunk_by(|a, b| a.1 == b.1 && stem(&a.0).is_some() && stem(&a.0) == stem(&b.0)) {
        let Some(((first, properties), rest)) = alike.split_first() else { continue };
        let mut names = first.join(", ");
        if let Some((last, _)) = rest.last() {
            let _ = write!(names, " … {}", last.join(", "));
        }
        let _ = writeln!(page, "| {names} | {properties} |");
    }
}

fn quoted(name: impl std::fmt::Display) -> String {
    format!("`{name}`")
}

/// The types, masks and prerequisites of the field's functions, as cells.
fn properties(field: Field, six: bool) -> String {
    let info = field.info();
    let prefixes = matches!(info.format, Format::Ipv4 | Format::Ipv6);
    let twin = field.for_address(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let version = match field.bits() {
        _ if twin != field => "",
        32 => " (IPv4)",
        _ => " (IPv6)",
    };
    let values = forms(field).iter().map(|form| match form {
        Form::Int => "`int`".to_string(),
        Form::Mac => "`mac`".to_string(),
        Form::Ip if prefixes => format!("`ip`, `net`{version}"),
        Form::Ip => format!("`ip`{version}"),
    });
    let values: Vec<String> = values.collect();
    let yes = |holds: bool| if holds { "yes" } else { "" };
    let added = |field| prerequisite(field, six).unwrap_or_default();
    let needs = match info.prerequisite {
        Prerequisite::Ip => "add `match_ip()` or `match_ipv6()`".to_string(),
        _ if added(field) == Match::any() => String::new(),
        _ if twin != field => format!("`{}` or `{}`, as the address is", added(field), added(twin)),
        _ => quoted(added(field)),
    };
    // Writing does not depend on the protocol, so one function serves both.
    let (mask, written) = (yes(info.maskable), yes(settable(field) && !six));
    format!("{} | {} | {mask} | {written} | {needs}", field.bits(), values.join(" or "))
}

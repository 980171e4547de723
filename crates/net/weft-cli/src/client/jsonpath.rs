//! `-o jsonpath=EXPRESSION`: values in the JSON of objects, by RFC 9535, or in the braces of kubectl.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use nlog_data::quotation::quote_text;
use serde_json::{Value as Json, json};
use serde_json_path::JsonPath;
use weft_core::shown;

use super::objects::{Form, unreadable};
use crate::exit::{Failure, say};

/// What the value of `-o` begins with.
const PREFIX: &str = "jsonpath=";

/// The value of `-o`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    /// Whole objects.
    Form(Form),
    /// Values in their JSON.
    Path(Path),
}

/// An expression that selects values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Path {
    written: String,
    path: JsonPath,
}

/// Reads the value of `-o`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputParser;

impl Output {
    /// The form of whole objects.
    pub(super) fn form(&self) -> Form {
        match self {
            Output::Form(form) => *form,
            Output::Path(_) => Form::Json,
        }
    }
}

impl TypedValueParser for OutputParser {
    type Value = Output;

    fn parse_ref(
        &self,
        command: &Command,
        option: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Output, clap::Error> {
        let path = value.to_str().and_then(|text| text.strip_prefix(PREFIX));
        if let Some(expression) = path {
            let fault = |fault| clap::Error::raw(ErrorKind::ValueValidation, fault).with_cmd(command);
            return Path::parse(expression).map(Output::Path).map_err(fault);
        }
        EnumValueParser::<Form>::new().parse_ref(command, option, value).map(Output::Form)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let forms = EnumValueParser::<Form>::new().possible_values()?.collect::<Vec<_>>();
        let path = PossibleValue::new(PREFIX).help("The values at a JSONPath, such as {.items[*].id}");
        Some(Box::new(forms.into_iter().chain([path])))
    }
}

impl Path {
    /// Reads an expression: `$.items[*].id`, or kubectl's forms, `{.items[*].id}` and `.items[*].id`.
    fn parse(written: &str) -> Result<Path, String> {
        let inner = written.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(written);
        // What stands before the expression that the library reads, for the place of a mistake.
        let before = usize::from(inner.len() < written.len());
        let fault = |place: usize, message: &str| {
            // A template of kubectl has several braces.
            let is_template = written.starts_with('{') && inner.contains('}');
            let message = if is_template {
                "one expression is possible, with nothing around its braces"
            } else {
                message
            };
            fault(written, place, message)
        };
        let root = match inner.chars().next() {
            Some('$') => "",
            Some('.' | '[') => "$",
            _ => {
                return Err(fault(
                    before,
                    "an expression begins with `$`, `.` or `[`, such as {.items[*].id}",
                ));
            }
        };
        let path = JsonPath::parse(&format!("{root}{inner}")).map_err(|error| {
            // The position counts from 0, whatever its documentation says.
            let place = (before + error.position()).saturating_sub(root.len());
            let message = Some(error.message()).filter(|message| *message != "parser error");
            fault(place, message.unwrap_or("this is no part of an expression"))
        })?;
        Ok(Path { written: written.to_owned(), path })
    }

    /// The values in objects, one a line: texts as they are, others as JSON. One object that was asked for is the root itself.
    pub(super) fn of(&self, objects: &[String], is_one: bool) -> Result<String, Failure> {
        let read = |object: &String| serde_json::from_str::<Json>(object).map_err(unreadable);
        let mut objects = objects.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
        let root = match objects.pop() {
            Some(object) if is_one => object,
            last => {
                objects.extend(last);
                json!({"items": objects})
            }
        };
        let found = self.path.query(&root);
        if found.is_empty() {
            say(format_args!("nothing is at {}", quote_text(&self.written)));
        }
        let line = |value: &Json| match value {
            Json::String(text) => format!("{}\n", shown(text)),
            value => format!("{value}\n"),
        };
        Ok(found.iter().map(|value| line(value)).collect())
    }
}

/// What is said of a mistake at a place, in bytes from the start.
fn fault(written: &str, place: usize, message: &str) -> String {
    let before = written.get(..place).unwrap_or(written);
    let column = before.chars().count();
    let shown = shown(written);
    format!(
        "the expression after {PREFIX} is wrong at character {}: {message}\n  {shown}\n  {:column$}^\n",
        column + 1,
        ""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects() -> Vec<String> {
        let object = |id: &str, number: u32| {
            format!(
                r#"{{"kind":"desk","id":"{id}","number":{number},"labels":{{"a.b":"x\ny"}},"on":[true]}}"#
            )
        };
        vec![object("a", 1), object("b", 20)]
    }

    #[test]
    fn values_are_selected_as_the_standard_and_kubectl_write_it() {
        for (expression, wanted) in [
            ("$.items[*].id", "a\nb\n"),
            ("{.items[*].id}", "a\nb\n"),
            (".items[*].id", "a\nb\n"),
            ("{$.items[-1:].number}", "20\n"),
            ("['items'][0]['labels']['a.b']", "x\\ny\n"),
            ("{.items[?(@.number>2)].id}", "b\n"),
            ("$.items[?@.id=='a' && length(@.on)==1].on", "[true]\n"),
            ("$..number", "1\n20\n"),
            ("$.items[7]", ""),
        ] {
            assert_eq!(
                Path::parse(expression).unwrap().of(&objects(), false).unwrap(),
                wanted,
                "{expression}"
            );
        }
        let one = &objects()[1..];
        assert_eq!(Path::parse("{.id}").unwrap().of(one, true).unwrap(), "b\n");
        assert_eq!(Path::parse("$.items").unwrap().of(&[], false).unwrap(), "[]\n");
    }

    #[test]
    fn a_mistake_is_shown_at_its_place() {
        for (expression, message, column) in [
            ("{.items[*.id}", "expected closing ']'", 9),
            ("$.items[?@.id='a']", "expected closing ']'", 13),
            ("$.é[", "this is no part of an expression", 3),
            ("items", "begins with `$`, `.` or `[`", 0),
            ("", "begins with `$`, `.` or `[`", 0),
            ("{}", "begins with `$`, `.` or `[`", 1),
            ("{.items[*].id} text", "one expression is possible", 0),
            ("{range .items[*]}{.id}{end}", "one expression is possible", 1),
            ("{.items[*].id}{.kind}", "one expression is possible", 13),
            ("$.items[?match(@.id, 'a')]", "", 9),
        ] {
            let told = Path::parse(expression).unwrap_err();
            println!("{told}");
            let lines: Vec<&str> = told.lines().collect();
            assert!(lines[0].contains(message), "{told}");
            assert_eq!(lines[2].find('^'), Some(2 + column), "{told}");
        }
    }
}

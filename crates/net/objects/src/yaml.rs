//! Values, read from the documents of a YAML text in bounded memory and time.
//!
//! The text is read event by event, so that neither its events nor its text are held a second time, and so that an object that
//! is nested too deeply ends the reading before the parser has looked far ahead. The form of YAML is that of JSON with fewer
//! quotes: anchors, aliases and tags of other types than JSON's are refused.

use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr as _;

use libyaml_safer::{Encoding, Error, Event, EventData, Mark, Parser, ScalarStyle};
use nlog_data::quotation::cut;
use serde_json::Number;

use crate::Cancel;
use crate::field::form;
use crate::tree::{Count, Fields, Tree};

/// The size limit of one object's text, in bytes. It is far beyond any real object.
const BYTES_MAX: usize = 1 << 20;
/// The most levels of lists and mappings in one object, as in JSON. The parser and this reader call themselves for each level.
const LEVELS_MAX: usize = 128;
/// The part of the text that the parser takes at a time, in bytes. It keeps each character in four bytes.
const WINDOW: usize = 4096;
/// The beginning of the tags that YAML itself defines: `!!str` is short for `tag:yaml.org,2002:str`.
const OWN_TAGS: &str = "tag:yaml.org,2002:";

/// The documents of a YAML text, one after another. The first fault ends them.
pub(crate) struct Documents<'a> {
    parser: Parser<BufReader<&'a [u8]>>,
    cancel: &'a Cancel,
    /// Whether the end of the text or a fault has been reached.
    ended: bool,
    /// The number of the current document, from 1 on.
    number: u32,
    /// The place of the current document in the text, in bytes.
    begin: usize,
    /// The line in which its value begins, from 1 on.
    line: u32,
}

impl<'a> Documents<'a> {
    pub(crate) fn new(text: &'a str, cancel: &'a Cancel) -> Self {
        let mut parser = Parser::new();
        parser.set_encoding(Encoding::Utf8);
        parser.set_input(BufReader::with_capacity(WINDOW, text.as_bytes()));
        Documents { parser, cancel, ended: false, number: 0, begin: 0, line: 1 }
    }

    /// The next event.
    fn event(&mut self) -> Result<Event, String> {
        let event = next_event(&mut self.parser)?;
        let end = usize::try_from(event.end_mark.index).unwrap_or(usize::MAX);
        if matches!(event.data, EventData::DocumentStart { .. }) {
            self.number += 1;
            self.line = line(event.start_mark);
            self.begin = usize::try_from(event.start_mark.index).unwrap_or(usize::MAX);
        } else if end.saturating_sub(self.begin) > BYTES_MAX {
            return Err(format!("is longer than {} MiB, the limit of one object", BYTES_MAX >> 20));
        }
        Ok(event)
    }

    /// The value of the next document; none after the last one.
    fn document(&mut self) -> Result<Option<Tree>, String> {
        loop {
            match self.event()?.data {
                EventData::StreamEnd => return Ok(None),
                EventData::DocumentStart { .. } => break,
                _ => {}
            }
        }
        let count = Count::new(self.cancel);
        let event = self.event()?;
        self.line = line(event.start_mark);
        self.value(event, &count, LEVELS_MAX).map(Some)
    }

    /// The value that begins with an event.
    fn value(&mut self, event: Event, count: &Count, levels: usize) -> Result<Tree, String> {
        count.one().map_err(|why| invalid(&why))?;
        let mark = event.start_mark;
        let anchored = match &event.data {
            EventData::Alias { anchor } => Some(format!("*{anchor}")),
            EventData::Scalar { anchor, .. }
            | EventData::SequenceStart { anchor, .. }
            | EventData::MappingStart { anchor, .. } => anchor.as_ref().map(|anchor| format!("&{anchor}")),
            _ => None,
        };
        if let Some(anchored) = anchored {
            return Err(format!(
                "has `{}`{}: objects have no anchors and aliases; write the value out wherever it is meant",
                cut(&anchored),
                at(mark)
            ));
        }
        let deeper = || {
            levels.checked_sub(1).ok_or_else(|| {
                format!("is nested deeper than {LEVELS_MAX} levels{}, the limit of one object", at(mark))
            })
        };
        match event.data {
            EventData::Scalar { tag, value, style, .. } => {
                scalar(tag.as_deref(), value, style).map_err(|why| located(&why, mark))
            }
            EventData::SequenceStart { tag, .. } => {
                own_tag(tag.as_deref()).map_err(|why| located(&why, mark))?;
                self.list(count, deeper()?)
            }
            EventData::MappingStart { tag, .. } => {
                own_tag(tag.as_deref()).map_err(|why| located(&why, mark))?;
                self.mapping(count, deeper()?)
            }
            other => Err(invalid(&format!("unexpected {other:?}"))),
        }
    }

    fn list(&mut self, count: &Count, levels: usize) -> Result<Tree, String> {
        let mut list = Vec::new();
        loop {
            let event = self.event()?;
            if event.data == EventData::SequenceEnd {
                return Ok(Tree::List(list.into()));
            }
            list.push(self.value(event, count, levels)?);
        }
    }

    fn mapping(&mut self, count: &Count, levels: usize) -> Result<Tree, String> {
        let mut fields = Fields::default();
        loop {
            let event = self.event()?;
            if event.data == EventData::MappingEnd {
                return Ok(fields.finish());
            }
            let mark = event.start_mark;
            let key = match self.value(event, count, levels)? {
                Tree::Text(key) => key,
                key => {
                    return Err(located(&format!("a field's name must be text, not {}", form(&key)), mark));
                }
            };
            let event = self.event()?;
            let value = self.value(event, count, levels)?;
            if fields.has(&key) {
                return Err(located(&format!("field `{}` is given twice", cut(&key)), mark));
            }
            fields.push(key, value);
        }
    }
}

impl Iterator for Documents<'_> {
    /// The number of the document and its first line, from 1 on, and its value or why it cannot be read.
    type Item = (u32, u32, Result<Tree, String>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let before = self.number;
        let read = self.document().transpose();
        self.ended = !matches!(read, Some(Ok(_)));
        // A fault before the first event of a document is one of that document.
        Some((self.number.max(before + 1), self.line, read?))
    }
}

/// The value of a text that is no list or mapping.
fn scalar(tag: Option<&str>, value: String, style: ScalarStyle) -> Result<Tree, String> {
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { plain(value) } else { Ok(Tree::Text(value.into())) };
    };
    let tag = own_tag(Some(tag))?;
    if matches!(tag, "str" | "!") {
        return Ok(Tree::Text(value.into()));
    }
    let read = plain(value)?;
    let fits = match tag {
        "null" => read.is_null(),
        "bool" => matches!(read, Tree::Bool(_)),
        "int" => matches!(&read, Tree::Number(number) if !number.is_f64()),
        "float" => matches!(read, Tree::Number(_)),
        _ => false,
    };
    if fits { Ok(read) } else { Err(format!("{} is not of type `!!{}`", form(&read), cut(tag))) }
}

/// The name of a tag that YAML defines, or nothing if there is no tag.
fn own_tag(tag: Option<&str>) -> Result<&str, String> {
    let Some(tag) = tag else { return Ok("") };
    if tag == "!" {
        return Ok(tag);
    }
    tag.strip_prefix(OWN_TAGS).ok_or_else(|| format!("tag `{}` means nothing to an object", cut(tag)))
}

/// The value of a text without quotes.
fn plain(value: String) -> Result<Tree, String> {
    match &*value {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Tree::Null),
        "true" | "True" | "TRUE" => return Ok(Tree::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Tree::Bool(false)),
        _ => {}
    }
    let digits = value.strip_prefix(['-', '+']).unwrap_or(&value);
    // All numbers begin with a digit or a point, which spares most texts the attempts below.
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(Tree::Text(value.into()));
    }
    let refused = || format!("{} is not a number that an object can have", cut(&value));
    let Ok(number) = serde_norway::Number::from_str(&value) else {
        // Digits after a zero are text, as YAML 1.2 has it. Other digits are a number that is too long.
        let too_long = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
        return if too_long { Err(refused()) } else { Ok(Tree::Text(value.into())) };
    };
    if let Some(number) = number.as_u64() {
        Ok(Tree::Number(number.into()))
    } else if let Some(number) = number.as_i64() {
        Ok(Tree::Number(number.into()))
    } else {
        let float = number.as_f64().and_then(Number::from_f64);
        float.map(Tree::Number).ok_or_else(refused)
    }
}

/// The next event of a parser. It panics on a tag in front of a comma, as in `[!a,b]`, which must end the reading and not the reader: texts
/// come from anybody. After a fault, the parser must not be used any more.
pub(crate) fn next_event(parser: &mut Parser<BufReader<&[u8]>>) -> Result<Event, String> {
    match catch_unwind(AssertUnwindSafe(|| parser.parse())) {
        Ok(event) => event.map_err(|error| invalid(&fault(&error))),
        Err(_) => {
            Err(invalid("a tag (`!`) that cannot be read; put quotes around a text that begins with `!`"))
        }
    }
}

fn invalid(why: &str) -> String {
    format!("not valid YAML: {}", cut(why))
}

fn located(why: &str, mark: Mark) -> String {
    invalid(&format!("{why}{}", at(mark)))
}

/// The line of a mark, from 1 on.
fn line(mark: Mark) -> u32 {
    u32::try_from(mark.line).unwrap_or(u32::MAX).saturating_add(1)
}

/// ` at line 3 column 5`, or nothing at the beginning of a text, which says nothing.
fn at(mark: Mark) -> String {
    if (mark.line, mark.column) == (0, 0) { String::new() } else { format!(" at {mark}") }
}

/// The fault that the parser found: the thing, its place, and what the parser was reading.
fn fault(error: &Error) -> String {
    let mark = error.problem_mark().unwrap_or_default();
    let mut text = format!("{}{}", error.problem(), at(mark));
    if let Some(context) = error.context() {
        text.push_str(", ");
        text.push_str(context);
        if let Some(begin) = error.context_mark().filter(|begin| *begin != mark) {
            text.push_str(&at(begin));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize as _;
    use serde_json::Value as Json;

    use super::*;

    /// On which the parser panics.
    #[test]
    fn a_tag_in_front_of_a_comma_is_a_fault() {
        for text in ["[!0.0.0.0,1]", "{a: [!b,c]}", "- [x, !,y]"] {
            let why = read(text).unwrap_err();
            assert!(why.starts_with("not valid YAML: ") && why.contains("tag"), "{text}: {why}");
        }
    }

    fn read(text: &str) -> Result<Vec<Json>, String> {
        Documents::new(text, &Cancel::default())
            .map(|(_, _, document)| document.map(|tree| json(&tree)))
            .collect()
    }

    fn json(tree: &Tree) -> Json {
        match tree {
            Tree::Null => Json::Null,
            Tree::Bool(value) => Json::Bool(*value),
            Tree::Number(number) => Json::Number(number.clone()),
            Tree::Text(text) => Json::String(text.to_string()),
            Tree::List(list) => list.iter().map(json).collect(),
            Tree::Mapping(map) => {
                Json::Object(map.iter().map(|(name, value)| (name.to_owned(), json(value))).collect())
            }
        }
    }

    /// The same text, read by serde's YAML.
    fn expected(text: &str) -> Result<Vec<Json>, String> {
        let documents = serde_norway::Deserializer::from_str(text);
        documents.map(|document| Json::deserialize(document).map_err(|error| error.to_string())).collect()
    }

    fn agree(text: &str) -> Result<(), TestCaseError> {
        let ours = read(text);
        let theirs = match expected(text) {
            // A text without documents is nothing at all there.
            Ok(values) if ours == Ok(Vec::new()) => {
                values.into_iter().filter(|value| !value.is_null()).map(Ok).collect()
            }
            other => other,
        };
        match (&ours, &theirs) {
            (Err(why), Ok(_)) => {
                let stricter =
                    ["anchors", "is given twice", "means nothing", "an object can have", "is not of type"];
                prop_assert!(stricter.iter().any(|reason| why.contains(reason)), "{text:?}: {why}");
            }
            (Err(_), Err(_)) => {}
            _ => prop_assert_eq!(&ours, &theirs, "{:?}", text),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_serde_reads(pieces in prop::collection::vec(
            prop::sample::select(vec![
                "a", "b: ", "- ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ", ", ",", ": ", ":", "? ", "'x'", "\"y\\n\"", "'", "\"",
                "1", "-2", "0x1f", "0o17", "007", "1.5", "1e3", ".inf", "~", "null", "true", "No", "#c", " #c\n", "|\n  l\n", ">-\n  f\n",
                "\n---\n", "\n...\n", "&a ", "*a", "!!str ", "!!int ", "!t ", "%", "@", "é", "\u{85}", "\t", " ", "18446744073709551616", "=", "<<: ",
            ]),
            0..24,
        )) {
            agree(&pieces.concat())?;
        }
    }
}

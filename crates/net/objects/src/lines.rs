//! The lines of the fields of objects, found in the text of a file once a fault is known.
//!
//! Values are read without their places, which would take more memory than the values. Faults are few, so their files are read
//! again, by the parser of YAML, of which JSON is a part.

use std::collections::BTreeMap;
use std::io::BufReader;

use libyaml_safer::{Encoding, Event, EventData, Parser};
use serde_json::value::RawValue;

use crate::document::{is_json_file, without_mark};
use crate::yaml::next_event;
use crate::{Cancel, ObjectError, Place};

/// The most levels that are looked at: deeper objects are not read.
const LEVELS_MAX: usize = 128;

/// The lines of fields by their paths, of the objects that are wanted by number.
type Found = BTreeMap<(u32, String), u32>;

/// Gives each fault of an object in this file the line of its field, or of the nearest part around it that the file has.
pub fn locate(name: &str, text: &str, faults: &mut [ObjectError]) {
    let of_file = |place: &Place| *place.document == *name;
    let mut wanted: Found = BTreeMap::new();
    for fault in faults.iter() {
        if let Some(place) = fault.place.as_ref().filter(|place| of_file(place)) {
            wanted.extend(ways_out(&fault.path).map(|path| ((place.number, path.to_owned()), 0)));
        }
    }
    if wanted.is_empty() {
        return;
    }
    find(name, text, &mut wanted);
    for fault in faults {
        let Some(place) = fault.place.as_mut().filter(|place| of_file(place)) else { continue };
        let line = |path: &str| wanted.get(&(place.number, path.to_owned())).filter(|line| **line > 0);
        if let Some(line) = ways_out(&fault.path).find_map(line) {
            place.line = Some(*line);
        }
    }
}

/// A path and those around it, up to the empty one of the object itself.
fn ways_out(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| (!path.is_empty()).then(|| around(path)))
}

/// The path of what a field is a part of; empty for a field of the object itself.
fn around(path: &str) -> &str {
    let at = path.rfind(['.', '[']).unwrap_or_default();
    &path[..at]
}

/// Finds the lines of the wanted paths in the text.
fn find(name: &str, text: &str, wanted: &mut Found) {
    let text = without_mark(text);
    if !is_json_file(name, text, &Cancel::default()) {
        let mut walk = Walk::new(text, 0, wanted);
        // What cannot be read has no lines.
        let _ends_at_a_fault = walk.documents(0);
        return;
    }
    let mut number = 0;
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let Ok(value) = value else { return };
        let part = value.get();
        let begin = part.as_ptr().addr() - text.as_ptr().addr();
        let before = text[..begin].matches('\n').count();
        let mut walk = Walk::new(part, u32::try_from(before).unwrap_or(u32::MAX), wanted);
        match walk.json(number) {
            Some(objects) => number += objects,
            None => return,
        }
    }
}

/// Goes through the events of a text.
struct Walk<'t, 'w> {
    parser: Parser<BufReader<&'t [u8]>>,
    /// The lines before the text.
    before: u32,
    wanted: &'w mut Found,
}

impl<'t, 'w> Walk<'t, 'w> {
    fn new(text: &'t str, before: u32, wanted: &'w mut Found) -> Self {
        let mut parser = Parser::new();
        parser.set_encoding(Encoding::Utf8);
        parser.set_input(BufReader::new(text.as_bytes()));
        Walk { parser, before, wanted }
    }

    fn event(&mut self) -> Option<Event> {
        next_event(&mut self.parser).ok()
    }

    /// Goes through documents, of which each is an object.
    fn documents(&mut self, mut number: u32) -> Option<()> {
        loop {
            match self.event()?.data {
                EventData::StreamEnd => return Some(()),
                EventData::DocumentStart { .. } => {
                    number += 1;
                    let event = self.event()?;
                    self.object(event, number)?;
                }
                _ => {}
            }
        }
    }

    /// Goes through a JSON value: an object or an array of objects. Returns their number.
    fn json(&mut self, number: u32) -> Option<u32> {
        while !matches!(self.event()?.data, EventData::DocumentStart { .. }) {}
        let first = self.event()?;
        if !matches!(first.data, EventData::SequenceStart { .. }) {
            self.object(first, number + 1)?;
            return Some(1);
        }
        for objects in 0.. {
            let event = self.event()?;
            if event.data == EventData::SequenceEnd {
                return Some(objects);
            }
            self.object(event, number + objects + 1)?;
        }
        None
    }

    fn object(&mut self, event: Event, number: u32) -> Option<()> {
        self.note(&event, number, "");
        self.value(event, number, &mut String::new(), LEVELS_MAX)
    }

    /// Goes through a value at a path, and notes the lines of its parts.
    fn value(&mut self, event: Event, number: u32, path: &mut String, levels: usize) -> Option<()> {
        let length = path.len();
        let levels = levels.checked_sub(1)?;
        match event.data {
            EventData::MappingStart { .. } => loop {
                let key = self.event()?;
                let EventData::Scalar { value: name, .. } = &key.data else {
                    // Another key than a text is a fault, and the end of all.
                    return (key.data == EventData::MappingEnd).then_some(());
                };
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                self.note(&key, number, path);
                let value = self.event()?;
                self.value(value, number, path, levels)?;
                path.truncate(length);
            },
            EventData::SequenceStart { .. } => {
                for index in 0.. {
                    let item = self.event()?;
                    if item.data == EventData::SequenceEnd {
                        return Some(());
                    }
                    path.push_str(&format!("[{index}]"));
                    self.note(&item, number, path);
                    self.value(item, number, path, levels)?;
                    path.truncate(length);
                }
                Some(())
            }
            _ => Some(()),
        }
    }

    fn note(&mut self, event: &Event, number: u32, path: &str) {
        if let Some(line) = self.wanted.get_mut(&(number, path.to_owned())) {
            let own = u32::try_from(event.start_mark.line).unwrap_or(u32::MAX);
            *line = own.saturating_add(self.before).saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::FaultCode;

    fn fault(number: u32, path: &str) -> ObjectError {
        let place = Place { document: Arc::from("net.yaml"), unit: "document", number, line: Some(1) };
        ObjectError {
            code: FaultCode::BadValue,
            place: Some(place),
            kind: None,
            id: None,
            path: path.to_owned(),
            message: String::new(),
            expected: None,
        }
    }

    fn lines(name: &str, text: &str, wanted: &[(u32, &str)]) -> Vec<Option<u32>> {
        let mut faults: Vec<ObjectError> = wanted.iter().map(|(number, path)| fault(*number, path)).collect();
        for fault in &mut faults {
            fault.place.iter_mut().for_each(|place| place.document = Arc::from(name));
        }
        locate(name, text, &mut faults);
        faults.into_iter().map(|fault| fault.place.unwrap().line).collect()
    }

    const YAML: &str = "kind: switch\nid: blue\n---\nkind: switch_port\nid: p\naddresses:\n  - mac: m\n    ips:\n      - a\n      - b\n\
                        # a comment\nlearning: {limit: 3,\n  age: 5}\n";

    #[test]
    fn fields_of_yaml_have_their_lines() {
        let wanted = [
            (1, "id"),
            (2, "id"),
            (2, "addresses[0].mac"),
            (2, "addresses[0].ips[1]"),
            (2, "learning.limit"),
            (2, "learning.age"),
        ];
        let found = lines("net.yaml", YAML, &wanted);
        assert_eq!(found, [2, 5, 7, 10, 12, 13].map(Some));
    }

    #[test]
    fn what_the_file_lacks_has_the_line_of_what_is_around_it() {
        let wanted = [(2, "addresses[0].ips[7]"), (2, "addresses[3].mac"), (2, "tag"), (2, ""), (1, "")];
        assert_eq!(lines("net.yaml", YAML, &wanted), [8, 6, 4, 4, 1].map(Some));
    }

    #[test]
    fn fields_of_json_have_their_lines_also_in_arrays() {
        let text = "{\"kind\": \"switch\",\n \"id\": \"a\"}\n[{\"kind\": \"switch\",\n\t\"id\": \"b\"},\n {\"id\": \"c\",\n  \"x\": [1,\n 2]}]\n";
        assert_eq!(
            lines("net.json", text, &[(1, "id"), (2, "id"), (3, "x[1]")]),
            [Some(2), Some(4), Some(7)]
        );
    }

    #[test]
    fn a_text_that_ends_in_a_fault_has_lines_before_it() {
        let text = "id: a\nmtu: 5\n---\nid: [b\n";
        assert_eq!(lines("net.yaml", text, &[(1, "mtu"), (2, "id")]), [Some(2), Some(4)]);
        assert_eq!(lines("other.yaml", "a: 1\n", &[(9, "a")]), [Some(1)]);
    }
}

//! An object whose kind and id are known besides its document: from a URL, for example.

use serde::de::DeserializeSeed as _;

use crate::document::{is_json_file, without_mark};
use crate::field::Fault;
use crate::read::{DELETE, ID, KIND};
use crate::tree::{Tree, TreeSeed};
use crate::yaml::Documents;
use crate::{Batch, FaultCode, Place};

impl Batch {
    /// Reads the text of one object of this kind and id, which the text need not have. Its format is that of
    /// [`Batch::add_document`].
    pub fn add_named(&mut self, name: &str, text: &str, kind: &str, id: &str) {
        let is_json = is_json_file(name, text, &self.cancel);
        let unit = if is_json { "object" } else { "document" };
        let place = Place { document: name.into(), unit, number: 1, line: None };
        let tree = match self.one_value(text, is_json) {
            Ok(Tree::Mapping(map)) => map,
            // The fault says what it must be.
            Ok(other) => return self.add(place, &other),
            Err(why) => return self.unreadable(place, why),
        };
        let (mut map, mut faults) = (tree, Vec::new());
        for (member, meant) in [(KIND, kind), (ID, id)] {
            match map.get(member) {
                None | Some(Tree::Null) => {}
                Some(Tree::Text(given)) if **given == *meant => continue,
                Some(_) => {
                    let message =
                        format!("is not `{meant}`, the {member} that the request names; leave it out");
                    faults.push(Fault { code: FaultCode::BadValue, path: member.to_owned(), message });
                }
            }
            map = map.with(member, Some(Tree::Text(meant.into())));
        }
        if map.get(DELETE).is_some_and(|delete| !matches!(delete, Tree::Null | Tree::Bool(false))) {
            let message =
                "is not for a request that writes the object; delete it by a request of its own".to_owned();
            faults.push(Fault { code: FaultCode::BadValue, path: DELETE.to_owned(), message });
            map = map.with(DELETE, None);
        }
        self.add_with_faults(place, &Tree::Mapping(map), faults);
    }

    /// The only value of a text.
    fn one_value(&self, text: &str, is_json: bool) -> Result<Tree, String> {
        if is_json {
            let mut parser = serde_json::Deserializer::from_str(without_mark(text));
            let value = TreeSeed::new(&self.cancel).deserialize(&mut parser);
            let value = value.and_then(|value| parser.end().map(|()| value));
            return value.map_err(|error| format!("not valid JSON: {error}"));
        }
        let mut values = Documents::new(without_mark(text), &self.cancel)
            .map(|(_, _, value)| value)
            .filter(|value| !matches!(value, Ok(Tree::Null)));
        match (values.next(), values.next()) {
            (Some(value), None) => value,
            (None, _) => Err("has no object".to_owned()),
            (Some(_), Some(_)) => Err("has more than one object, and the request names one".to_owned()),
        }
    }
}

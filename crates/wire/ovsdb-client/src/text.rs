//! JSON that is read part by part: the members of an object, the elements of an array, each as text.
//!
//! A server decides what it sends, and a tree of its values takes up to a hundred bytes for each byte of text. So nothing
//! large becomes a tree: the parts are counted and measured first, and each small part is parsed on its own.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest text of a value that is made a tree.
pub(crate) const TREE_BYTES_MAX: usize = 64 << 10;

/// Why a text is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartsError {
    /// It is no object, or no array.
    Form,
    /// It has more parts than this.
    TooMany(usize),
}

/// The members of an object. Neither their names nor their values are checked.
pub(crate) fn members(text: &str, max: usize) -> Result<Vec<(String, &str)>, PartsError> {
    struct Members<'a>(usize, PhantomData<&'a str>);
    impl<'de> Visitor<'de> for Members<'de> {
        type Value = Option<Vec<(String, &'de str)>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut members = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                if members.len() == self.0 {
                    return Err(M::Error::custom(TOO_MANY));
                }
                members.push((name, value.get()));
            }
            Ok(Some(members))
        }
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    parts(parser.deserialize_map(Members(max, PhantomData)), max)
}

/// The elements of an array.
pub(crate) fn elements(text: &str, max: usize) -> Result<Vec<&str>, PartsError> {
    struct Elements<'a>(usize, PhantomData<&'a str>);
    impl<'de> Visitor<'de> for Elements<'de> {
        type Value = Option<Vec<&'de str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
            let mut elements = Vec::new();
            while let Some(value) = seq.next_element::<&'de RawValue>()? {
                if elements.len() == self.0 {
                    return Err(S::Error::custom(TOO_MANY));
                }
                elements.push(value.get());
            }
            Ok(Some(elements))
        }
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    parts(parser.deserialize_seq(Elements(max, PhantomData)), max)
}

const TOO_MANY: &str = "too many parts";

fn parts<T>(read: Result<Option<T>, serde_json::Error>, max: usize) -> Result<T, PartsError> {
    match read {
        Ok(Some(parts)) => Ok(parts),
        Err(error) if error.to_string().starts_with(TOO_MANY) => Err(PartsError::TooMany(max)),
        _ => Err(PartsError::Form),
    }
}

/// One member of an object, or `null`.
pub(crate) fn member<'a>(members: &[(String, &'a str)], name: &str) -> &'a str {
    members.iter().rev().find(|(member, _)| member == name).map_or("null", |(_, text)| *text)
}

/// A small value as a tree; none if it is too large for one.
pub(crate) fn tree(text: &str) -> Option<Value> {
    if text.len() > TREE_BYTES_MAX {
        return None;
    }
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_before_they_are_kept() {
        let object = r#"{"a": [1, 2], "b\u0041": {"c": null}, "a": 3}"#;
        let read = members(object, 3).expect("an object");
        assert_eq!(
            read,
            [("a".to_owned(), "[1, 2]"), ("bA".to_owned(), r#"{"c": null}"#), ("a".to_owned(), "3")]
        );
        assert_eq!((member(&read, "a"), member(&read, "x")), ("3", "null"));
        assert_eq!(members(object, 2), Err(PartsError::TooMany(2)));
        assert_eq!(elements("[[], {}, 1]", 3), Ok(vec!["[]", "{}", "1"]));
        assert_eq!(elements("[[], {}, 1]", 2), Err(PartsError::TooMany(2)));
        for text in ["null", "1", "[]"] {
            assert_eq!(members(text, 9), Err(PartsError::Form));
        }
        assert_eq!(elements("{}", 9), Err(PartsError::Form));
        assert_eq!(tree(&"9".repeat(TREE_BYTES_MAX + 1)), None);
    }
}

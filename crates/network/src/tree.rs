//! JSON values, read from JSON in bounded memory, and the count of values that bounds an object of either format.

use std::cell::Cell;
use std::fmt;

use nlog_data::Cancel;
use nlog_data::quotation::cut;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

use crate::field::form;

/// The most values in one object, including names of fields.
const VALUES_MAX: usize = 100_000;

/// Counts the values of one object, while it is read.
pub(crate) struct Count<'a> {
    cancel: &'a Cancel,
    /// The number of further values allowed.
    left: Cell<usize>,
}

impl<'a> Count<'a> {
    pub(crate) fn new(cancel: &'a Cancel) -> Self {
        Count { cancel, left: Cell::new(VALUES_MAX) }
    }

    /// Counts a value. The error says why it is one too many.
    pub(crate) fn one(&self) -> Result<(), String> {
        if self.cancel.is_cancelled() {
            return Err("cancelled".to_owned());
        }
        let left = self.left.get().checked_sub(1);
        self.left
            .set(left.ok_or_else(|| format!("has more than {VALUES_MAX} values, the limit of one object"))?);
        Ok(())
    }
}

/// Reads one value. Keys of mappings must be texts and unique.
pub(crate) struct Tree<'a>(Count<'a>);

impl<'a> Tree<'a> {
    pub(crate) fn new(cancel: &'a Cancel) -> Self {
        Tree(Count::new(cancel))
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        (&self).deserialize(deserializer)
    }
}

impl<'de> DeserializeSeed<'de> for &Tree<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        self.0.one().map_err(de::Error::custom)?;
        deserializer.deserialize_any(self)
    }
}

/// Reads the items of a list one by one. If an item is the last one wanted, the rest is not read, which counts as a
/// fault.
pub(crate) struct Items<'a> {
    /// Whether the next item is wanted.
    each: &'a mut dyn FnMut(&Json) -> bool,
    cancel: &'a Cancel,
}

impl<'a> Items<'a> {
    pub(crate) fn new(each: &'a mut dyn FnMut(&Json) -> bool, cancel: &'a Cancel) -> Self {
        Items { each, cancel }
    }
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element_seed(Tree::new(self.cancel))? {
            if !(self.each)(&item) {
                break;
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for &Tree<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a mapping, a list, text, a number, `true`, `false` or nothing")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        match serde_json::Number::from_f64(value) {
            Some(number) => Ok(Json::Number(number)),
            None => Err(E::custom(format_args!("{value} is not a number that an object can have"))),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(self)? {
            let Json::String(key) = key else {
                return Err(de::Error::custom(format_args!(
                    "a field's name must be text, not {}",
                    form(&key)
                )));
            };
            let value = entries.next_value_seed(self)?;
            if map.insert(key.clone(), value).is_some() {
                return Err(de::Error::custom(format_args!("field `{}` is given twice", cut(&key))));
            }
        }
        Ok(Json::Object(map))
    }
}

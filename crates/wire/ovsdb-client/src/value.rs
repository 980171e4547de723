//! Atoms and data (RFC 7047, section 5.1): the values of columns and their JSON notation.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::collections::{Atoms, Pairs};

/// One value of a basic type.
///
/// Atoms are ordered by type, then by value. Reals are ordered by [`f64::total_cmp`], so that sets are well defined.
#[derive(Debug, Clone)]
pub enum Atom {
    /// A signed 64-bit integer.
    Integer(i64),
    /// A double-precision number.
    Real(f64),
    /// A boolean.
    Boolean(bool),
    /// A string.
    String(String),
    /// The UUID of a row.
    Uuid(Uuid),
    /// The `uuid-name` of a row that the same transaction inserts. A server never sends one.
    NamedUuid(String),
}

/// A value of an unexpected type or form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("wanted {wanted}, got {got}")]
pub struct ValueError {
    /// The expected type.
    pub wanted: String,
    /// The value found, as shortened JSON.
    pub got: String,
}

impl ValueError {
    pub(crate) fn new(wanted: impl Into<String>, got: &Value) -> Self {
        ValueError::of_text(wanted, &got.to_string())
    }

    /// The same of a value that is text.
    pub(crate) fn of_text(wanted: impl Into<String>, got: &str) -> Self {
        ValueError { wanted: wanted.into(), got: shorten(got) }
    }
}

/// Cuts a text from outside to 120 characters.
pub(crate) fn shorten(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(120).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

impl Atom {
    fn rank(&self) -> u8 {
        match self {
            Atom::Integer(_) => 0,
            Atom::Real(_) => 1,
            Atom::Boolean(_) => 2,
            Atom::String(_) => 3,
            Atom::Uuid(_) => 4,
            Atom::NamedUuid(_) => 5,
        }
    }

    /// Converts to the JSON notation.
    pub fn to_json(&self) -> Value {
        match self {
            Atom::Integer(integer) => json!(integer),
            Atom::Real(real) => json!(real),
            Atom::Boolean(boolean) => json!(boolean),
            Atom::String(string) => json!(string),
            Atom::Uuid(uuid) => json!(["uuid", uuid.to_string()]),
            Atom::NamedUuid(name) => json!(["named-uuid", name]),
        }
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Atom::Integer(a), Atom::Integer(b)) => a.cmp(b),
            (Atom::Real(a), Atom::Real(b)) => a.total_cmp(b),
            (Atom::Boolean(a), Atom::Boolean(b)) => a.cmp(b),
            (Atom::String(a), Atom::String(b)) | (Atom::NamedUuid(a), Atom::NamedUuid(b)) => a.cmp(b),
            (Atom::Uuid(a), Atom::Uuid(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

/// The value of a column: a set of atoms or a map. As in RFC 7047, a plain value is a set with one element, and an
/// optional value is a set with at most one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    /// A set. A set with one element is written as the bare atom.
    Set(Atoms),
    /// A map.
    Map(Pairs),
}

impl Datum {
    /// A set of these atoms.
    pub fn set<A: Into<Atom>>(atoms: impl IntoIterator<Item = A>) -> Self {
        Datum::Set(atoms.into_iter().map(Into::into).collect())
    }

    /// A map of these pairs.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Datum::Map(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// A reference to the row that the same transaction inserts with this `uuid-name`.
    pub fn named_uuid(name: impl Into<String>) -> Self {
        Datum::set([Atom::NamedUuid(name.into())])
    }

    /// The number of elements or pairs.
    pub fn len(&self) -> usize {
        match self {
            Datum::Set(set) => set.len(),
            Datum::Map(map) => map.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts to the JSON notation.
    pub fn to_json(&self) -> Value {
        match self {
            Datum::Set(set) => match set.first() {
                Some(atom) if set.len() == 1 => atom.to_json(),
                _ => json!(["set", set.iter().map(Atom::to_json).collect::<Vec<_>>()]),
            },
            Datum::Map(map) => {
                let pairs: Vec<_> =
                    map.iter().map(|(key, value)| json!([key.to_json(), value.to_json()])).collect();
                json!(["map", pairs])
            }
        }
    }

    /// Parses the JSON notation by its form alone. A number without a fraction becomes an integer, which
    /// [`ColumnType::decode`](crate::schema::ColumnType::decode) converts if the column holds reals.
    pub fn from_json(value: &Value) -> Result<Self, ValueError> {
        Datum::deserialize(value).map_err(|error| ValueError::new(error.to_string(), value))
    }

    /// The same of text.
    pub(crate) fn from_text(text: &str) -> Result<Self, ValueError> {
        serde_json::from_str(text).map_err(|_| ValueError::of_text(DATUM, text))
    }

    /// About the memory that it takes beyond itself, in bytes.
    pub(crate) fn memory(&self) -> usize {
        const ATOM: usize = size_of::<Atom>();
        let atom = |atom: &Atom| match atom {
            Atom::String(text) | Atom::NamedUuid(text) => ATOM + text.capacity(),
            _ => ATOM,
        };
        match self {
            Datum::Set(set) => set.iter().map(atom).sum(),
            Datum::Map(map) => map.iter().map(|(key, value)| atom(key) + atom(value)).sum(),
        }
    }

    /// Applies the difference in a `modify` of a column that can have several elements (`ovsdb-server(7)`, "Update2
    /// Notification"). An element of the difference is removed from a set that has it, and added to a set that does
    /// not. A pair is removed from a map that has it; any other pair is set.
    pub(crate) fn apply_difference(&mut self, difference: Datum) {
        match (self, difference) {
            (Datum::Set(set), Datum::Set(toggled)) => {
                let mut atoms: BTreeSet<Atom> = std::mem::take(set).into_iter().collect();
                for atom in toggled {
                    if !atoms.remove(&atom) {
                        atoms.insert(atom);
                    }
                }
                *set = atoms.into();
            }
            (Datum::Map(map), Datum::Map(changed)) => {
                let mut pairs: BTreeMap<Atom, Atom> = std::mem::take(map).into_iter().collect();
                for (key, value) in changed {
                    if pairs.get(&key) == Some(&value) {
                        pairs.remove(&key);
                    } else {
                        pairs.insert(key, value);
                    }
                }
                *map = pairs.into();
            }
            (other, new) => *other = new,
        }
    }
}

/// What errors call the value of a column.
const DATUM: &str = "an atom, a set or a map";

impl<'de> Deserialize<'de> for Atom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(Notation { may_be_many: false })? {
            Notated::Atom(atom) => Ok(atom),
            Notated::Many(_) => Err(D::Error::custom(DATUM)),
        }
    }
}

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match deserializer.deserialize_any(Notation { may_be_many: true })? {
            Notated::Atom(atom) => atom.into(),
            Notated::Many(datum) => datum,
        })
    }
}

/// Reads the notation of an atom or a datum.
struct Notation {
    may_be_many: bool,
}

enum Notated {
    Atom(Atom),
    Many(Datum),
}

impl<'de> Visitor<'de> for Notation {
    type Value = Notated;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.may_be_many { DATUM } else { "an atom" })
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Notated, E> {
        Ok(Notated::Atom(boolean.into()))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Notated, E> {
        Ok(Notated::Atom(integer.into()))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Notated, E> {
        Ok(Notated::Atom(i64::try_from(integer).map_or_else(|_| Atom::Real(integer as f64), Atom::Integer)))
    }

    fn visit_f64<E>(self, real: f64) -> Result<Notated, E> {
        Ok(Notated::Atom(real.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Notated, E> {
        Ok(Notated::Atom(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Notated, A::Error> {
        let wrong = || A::Error::custom(if self.may_be_many { DATUM } else { "an atom" });
        let tag: String = array.next_element()?.ok_or_else(wrong)?;
        let notated = match tag.as_str() {
            "uuid" => {
                let text: String = array.next_element()?.ok_or_else(wrong)?;
                Notated::Atom(Atom::Uuid(text.parse().map_err(|_| wrong())?))
            }
            "named-uuid" => Notated::Atom(Atom::NamedUuid(array.next_element()?.ok_or_else(wrong)?)),
            "set" if self.may_be_many => {
                let atoms: Vec<Atom> = array.next_element()?.ok_or_else(wrong)?;
                Notated::Many(Datum::Set(atoms.into_iter().collect()))
            }
            "map" if self.may_be_many => {
                let pairs: Vec<(Atom, Atom)> = array.next_element()?.ok_or_else(wrong)?;
                Notated::Many(Datum::Map(pairs.into_iter().collect()))
            }
            _ => return Err(wrong()),
        };
        match array.next_element::<IgnoredAny>()? {
            None => Ok(notated),
            Some(_) => Err(wrong()),
        }
    }
}

/// A Rust type for atoms.
pub(crate) trait FromAtom: Sized {
    /// The name of the basic type in RFC 7047.
    const TYPE: &'static str;

    /// The value, if the atom has this type.
    fn from_atom(atom: &Atom) -> Option<Self>;
}

/// A Rust type for column values: a basic type (exactly one element), `Option` (at most one), `BTreeSet`,
/// `BTreeMap`, or [`Datum`] itself.
pub trait FromDatum: Sized {
    /// The name of the type in errors.
    fn wanted() -> String;

    /// The value, if the datum has this type.
    fn from_datum(datum: &Datum) -> Option<Self>;
}

macro_rules! basic_type {
    ($rust:ty, $variant:ident, $name:literal, $atom:ident => $value:expr) => {
        impl FromAtom for $rust {
            const TYPE: &'static str = $name;

            fn from_atom(atom: &Atom) -> Option<Self> {
                match atom {
                    Atom::$variant($atom) => Some($value),
                    _ => None,
                }
            }
        }

        impl FromDatum for $rust {
            fn wanted() -> String {
                format!("one {}", $name)
            }

            fn from_datum(datum: &Datum) -> Option<Self> {
                Option::<$rust>::from_datum(datum).flatten()
            }
        }

        impl From<$rust> for Atom {
            fn from(value: $rust) -> Self {
                Atom::$variant(value)
            }
        }

        impl From<$rust> for Datum {
            fn from(value: $rust) -> Self {
                Datum::set([Atom::from(value)])
            }
        }
    };
}

basic_type!(i64, Integer, "integer", atom => *atom);
basic_type!(f64, Real, "real", atom => *atom);
basic_type!(bool, Boolean, "boolean", atom => *atom);
basic_type!(String, String, "string", atom => atom.clone());
basic_type!(Uuid, Uuid, "uuid", atom => *atom);

impl From<&str> for Atom {
    fn from(value: &str) -> Self {
        Atom::String(value.to_owned())
    }
}

impl From<&str> for Datum {
    fn from(value: &str) -> Self {
        Datum::set([value])
    }
}

impl From<Atom> for Datum {
    fn from(atom: Atom) -> Self {
        Datum::Set(Atoms::one(atom))
    }
}

impl<T: Into<Atom>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Self {
        Datum::set(value)
    }
}

impl<T: Into<Atom>> From<BTreeSet<T>> for Datum {
    fn from(value: BTreeSet<T>) -> Self {
        Datum::set(value)
    }
}

impl<K: Into<Atom>, V: Into<Atom>> From<BTreeMap<K, V>> for Datum {
    fn from(value: BTreeMap<K, V>) -> Self {
        Datum::map(value)
    }
}

impl FromDatum for Datum {
    fn wanted() -> String {
        "any datum".to_owned()
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        Some(datum.clone())
    }
}

impl<T: FromAtom> FromDatum for Option<T> {
    fn wanted() -> String {
        format!("at most one {}", T::TYPE)
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        let Datum::Set(set) = datum else { return None };
        match (set.first(), set.len()) {
            (None, _) => Some(None),
            (Some(atom), 1) => T::from_atom(atom).map(Some),
            _ => None,
        }
    }
}

impl<T: FromAtom + Ord> FromDatum for BTreeSet<T> {
    fn wanted() -> String {
        format!("a set of {}", T::TYPE)
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        let Datum::Set(set) = datum else { return None };
        set.iter().map(T::from_atom).collect()
    }
}

impl<K: FromAtom + Ord, V: FromAtom> FromDatum for BTreeMap<K, V> {
    fn wanted() -> String {
        format!("a map from {} to {}", K::TYPE, V::TYPE)
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        let Datum::Map(map) = datum else { return None };
        map.iter().map(|(key, value)| Some((K::from_atom(key)?, V::from_atom(value)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_notation_of_rfc_7047() {
        let uuid: Uuid = "550e8400-e29b-41d4-a716-446655440000".parse().expect("a uuid");
        for (datum, notation) in [
            (Datum::from("x"), json!("x")),
            (Datum::from(-7), json!(-7)),
            (Datum::from(0.5), json!(0.5)),
            (Datum::from(true), json!(true)),
            (Datum::from(uuid), json!(["uuid", "550e8400-e29b-41d4-a716-446655440000"])),
            (Datum::named_uuid("i1"), json!(["named-uuid", "i1"])),
            (Datum::from(None::<i64>), json!(["set", []])),
            (Datum::set([2, 1]), json!(["set", [1, 2]])),
            (Datum::map([("k", "v")]), json!(["map", [["k", "v"]]])),
            (Datum::map([("uuid", 1)]), json!(["map", [["uuid", 1]]])),
            (Datum::set(["uuid", "set"]), json!(["set", ["set", "uuid"]])),
        ] {
            assert_eq!(datum.to_json(), notation);
            assert_eq!(Datum::from_json(&notation), Ok(datum));
        }
    }

    #[test]
    fn a_malformed_datum_is_refused_with_the_value() {
        for notation in [
            json!(null),
            json!({}),
            json!([]),
            json!(["set", 1]),
            json!(["set", [["set", []]]]),
            json!(["map", [["k"]]]),
            json!(["uuid", "not-one"]),
            json!(["set", [null]]),
            json!(["map", {"k": "v"}]),
        ] {
            let error = Datum::from_json(&notation).expect_err("no datum");
            assert!(!error.got.is_empty(), "{notation}");
        }
        let long = Value::String("x".repeat(1000));
        assert!(ValueError::new("an integer", &long).to_string().len() < 200);
    }

    #[test]
    fn reading_as_a_type_checks_number_and_type() {
        assert_eq!(i64::from_datum(&Datum::from(5)), Some(5));
        assert_eq!(i64::from_datum(&Datum::set([5, 6])), None);
        assert_eq!(i64::from_datum(&Datum::from("5")), None);
        assert_eq!(Option::<i64>::from_datum(&Datum::set::<i64>([])), Some(None));
        assert_eq!(Option::<i64>::from_datum(&Datum::set([5, 6])), None);
        assert_eq!(BTreeSet::<i64>::from_datum(&Datum::set([5, 6])), Some([5, 6].into()));
        assert_eq!(BTreeSet::<i64>::from_datum(&Datum::map([(5, 6)])), None);
        assert_eq!(BTreeMap::<i64, i64>::from_datum(&Datum::map([(5, 6)])), Some([(5, 6)].into()));
    }

    fn atom() -> impl Strategy<Value = Atom> {
        prop_oneof![
            any::<i64>().prop_map(Atom::Integer),
            any::<bool>().prop_map(Atom::Boolean),
            any::<String>().prop_map(Atom::String),
            // Reals with a fraction, since a real without one is written like an integer.
            (-1000i32..1000).prop_map(|n| Atom::Real(f64::from(n) + 0.25)),
            any::<u128>().prop_map(|n| Atom::Uuid(Uuid::from_u128(n))),
            "[a-z]{1,8}".prop_map(Atom::NamedUuid),
        ]
    }

    fn datum() -> impl Strategy<Value = Datum> {
        prop_oneof![
            proptest::collection::btree_set(atom(), 0..5).prop_map(|set| Datum::Set(set.into())),
            proptest::collection::btree_map(atom(), atom(), 0..5).prop_map(|map| Datum::Map(map.into())),
        ]
    }

    fn small_map() -> impl Strategy<Value = BTreeMap<i64, i64>> {
        proptest::collection::btree_map(0i64..6, 0i64..3, 0..6)
    }

    proptest! {
            #[test]
        fn json_round_trip(datum in datum()) {
            let text = datum.to_json().to_string();
            let value = serde_json::from_str(&text).expect("JSON");
            prop_assert_eq!(Datum::from_json(&value), Ok(datum));
        }

        #[test]
        fn the_difference_of_two_maps_leads_from_one_to_the_other(old in small_map(), new in small_map()) {
            // The server's form of the difference: removed keys with their old values, other keys with the new ones.
            let mut difference: BTreeMap<i64, i64> =
                old.iter().filter(|(key, _)| !new.contains_key(key)).map(|(key, value)| (*key, *value)).collect();
            difference.extend(new.iter().filter(|(key, value)| old.get(key) != Some(value)).map(|(k, v)| (*k, *v)));
            let mut datum = Datum::from(old);
            datum.apply_difference(Datum::from(difference));
            prop_assert_eq!(datum, Datum::from(new));
        }

        #[test]
        fn the_difference_of_two_sets_leads_from_one_to_the_other(
            old in proptest::collection::btree_set(0i64..8, 0..8),
            new in proptest::collection::btree_set(0i64..8, 0..8),
        ) {
            let difference: BTreeSet<i64> = old.symmetric_difference(&new).copied().collect();
            let mut datum = Datum::from(old);
            datum.apply_difference(Datum::from(difference));
            prop_assert_eq!(datum, Datum::from(new));
        }
    }
}

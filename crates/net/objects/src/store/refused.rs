//! What rules refuse of objects, as faults of the objects of a request.
//!
//! A rule may name either of two objects that contradict each other, and often both rows are there. A user who applies one of
//! them looks for the mistake in that one, and wants to read of it once. So a refusal whose text names an object of the request
//! as `kind id` is shown at that object if its own object is none of the request, and not at all if the other one says the same.

use std::collections::{BTreeSet, HashMap};

use nlog_data::{ForbiddenRows, Row, TransactionError, Value};

use super::ChangeSet;
use crate::field::{Path, Step};
use crate::print::text_of;
use crate::walk::descend;
use crate::{FaultCode, Object, ObjectError, ObjectKey, Place};

/// The table whose rows refuse objects: kind, id, path of the field, and text.
pub const REFUSE: &str = "refuse";

/// The refusal of an object by a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The object. It need not be one that the request names.
    pub key: ObjectKey,
    /// The path of the field; empty for the whole object.
    pub path: String,
    /// Cause and remedy.
    pub text: String,
}

/// An object that the request names.
#[derive(Clone, Copy)]
struct Named<'a> {
    number: usize,
    place: &'a Place,
    object: Option<&'a Object>,
}

/// A refusal, with what its text says.
struct Told<'a> {
    refusal: &'a Refusal,
    /// The addresses in its text, in its order.
    addresses: Vec<&'a str>,
    /// The objects that its text names.
    others: Vec<ObjectKey>,
}

impl Told<'_> {
    /// Whether another refusal says the same from the other side.
    fn is_other_side_of(&self, other: &Told<'_>) -> bool {
        self.refusal.key != other.refusal.key
            && self.others.contains(&other.refusal.key)
            && other.others.contains(&self.refusal.key)
            && (self.addresses == other.addresses
                || self.addresses.iter().any(|address| other.addresses.contains(address)))
    }
}

impl ChangeSet {
    /// The faults of objects that rules refuse, if the transaction with these changes is refused for that, among other errors.
    pub fn refused_by(&self, error: &TransactionError) -> Option<Vec<ObjectError>> {
        let ForbiddenRows { rows, count, .. } =
            error.forbidden.iter().find(|forbidden| forbidden.table == REFUSE)?;
        self.refused_rows(rows, *count)
    }

    /// The faults that these rows of [`REFUSE`] are, of so many. None if they do not have its columns.
    pub fn refused_rows(&self, rows: &[Row], count: usize) -> Option<Vec<ObjectError>> {
        let refusal = |row: &Row| match row.as_slice() {
            [Value::String(kind), Value::String(id), Value::String(path), Value::String(text)] => {
                Some(Refusal {
                    key: ObjectKey::new(kind.clone(), id.clone()),
                    path: path.to_string(),
                    text: text.to_string(),
                })
            }
            _ => None,
        };
        let refusals: Vec<Refusal> = rows.iter().map(refusal).collect::<Option<_>>()?;
        let mut faults = self.refused(&refusals);
        let more = count.saturating_sub(refusals.len());
        if more > 0 {
            let message = format!("{more} more refusals are not listed; correct those above first");
            let (code, path) = (FaultCode::Refused, String::new());
            faults.push(ObjectError {
                code,
                place: None,
                kind: None,
                id: None,
                path,
                message,
                expected: None,
            });
        }
        Some(faults)
    }

    /// The faults of refused objects: those that the request names first, in its order and with their places.
    pub fn refused(&self, refusals: &[Refusal]) -> Vec<ObjectError> {
        let told: Vec<Told<'_>> = refusals.iter().map(told).collect();
        let mentioned: BTreeSet<&ObjectKey> =
            told.iter().flat_map(|told| std::iter::once(&told.refusal.key).chain(&told.others)).collect();
        let mut named: HashMap<&ObjectKey, Named<'_>> = HashMap::new();
        for (number, change) in self.changes.iter().enumerate() {
            if let Some(place) = change.place.as_ref().filter(|_| mentioned.contains(&change.key)) {
                named.insert(&change.key, Named { number, place, object: change.after.as_deref() });
            }
        }
        let is_named = |told: &&Told<'_>| named.contains_key(&told.refusal.key);
        let (own, others): (Vec<&Told<'_>>, Vec<&Told<'_>>) = told.iter().partition(is_named);
        let mut kept: Vec<&Told<'_>> = Vec::new();
        for told in own.into_iter().chain(others) {
            if !kept.iter().any(|before| told.is_other_side_of(before)) {
                kept.push(told);
            }
        }
        let mut faults: Vec<(usize, ObjectError)> =
            kept.into_iter().map(|told| fault(told, &named)).collect();
        faults.sort_by_key(|(number, _)| *number);
        faults.into_iter().map(|(_, error)| error).collect()
    }
}

/// The fault that a refusal is, and the number of its object in the request.
fn fault(told: &Told<'_>, named: &HashMap<&ObjectKey, Named<'_>>) -> (usize, ObjectError) {
    let Refusal { key, path, text } = told.refusal;
    let other = || told.others.iter().find_map(|other| Some((other, *named.get(other)?)));
    if let Some(Named { number, place, object }) = named.get(key).copied() {
        let path = object.and_then(|object| path_of(object, path, &told.addresses)).unwrap_or(path.clone());
        let error = ObjectError::of_object(FaultCode::Refused, key, text.clone());
        (number, ObjectError { place: Some(place.clone()), path, ..error })
    } else if let Some((other, Named { number, place, object })) = other() {
        let of_other = object.and_then(|object| path_of(object, "", &told.addresses)).unwrap_or_default();
        let field = if path.is_empty() { String::new() } else { format!("{path}: ") };
        let message = format!("contradicts {key}, which is in force: {field}{text}");
        let error = ObjectError::of_object(FaultCode::Refused, other, message);
        (number, ObjectError { place: Some(place.clone()), path: of_other, ..error })
    } else {
        let error = ObjectError::of_object(FaultCode::Refused, key, text.clone());
        (usize::MAX, ObjectError { path: path.clone(), ..error })
    }
}

/// A refusal, with what its text says: words that look like addresses, and pairs of words that are kind and id.
fn told(refusal: &Refusal) -> Told<'_> {
    let words: Vec<&str> = refusal.text.split_whitespace().collect();
    let is_address = |word: &&str| {
        word.contains(['.', ':']) && word.chars().all(|c| c.is_ascii_hexdigit() || ".:/".contains(c))
    };
    let addresses = words.iter().map(|word| bare(word)).filter(is_address).collect();
    Told { refusal, addresses, others: named_in(&refusal.text) }
}

/// The objects that a text names, as any text may: pairs of words that are kind and id.
pub fn named_in(text: &str) -> Vec<ObjectKey> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let others = words.windows(2).flat_map(|pair| {
        // An id may end in a full stop or a colon itself.
        let ids = BTreeSet::from([pair[1], bare(pair[1])]);
        ids.into_iter().map(|id| ObjectKey::new(pair[0], id))
    });
    others.collect()
}

/// A word without the marks that follow it.
fn bare(word: &str) -> &str {
    word.trim_end_matches([',', ';', ':', '.', ')'])
}

/// The path in an object, below another path, of the first address in a text that the object has.
fn path_of(object: &Object, below: &str, addresses: &[&str]) -> Option<String> {
    let mut found: Option<(usize, String)> = None;
    let mut path = Vec::new();
    for (field, value) in object.kind().declared().fields.iter().zip(object.values()) {
        path.push(Step::Member(&field.name));
        descend(&field.ty, value, &mut path, &mut |_, value, path| {
            let forms = match value {
                Value::Mac(_) | Value::Ip(_) | Value::Net(_) | Value::InterfaceAddress(_) => forms(value),
                // An element of a set has no path.
                Value::Set(_) => return false,
                _ => return true,
            };
            let Some(at) = addresses.iter().position(|address| forms.iter().any(|form| form == address))
            else {
                return false;
            };
            let text = Path(path).to_string();
            if text.starts_with(below) && found.as_ref().is_none_or(|(first, _)| at < *first) {
                found = Some((at, text));
            }
            false
        });
        path.pop();
    }
    found.map(|(_, path)| path)
}

/// The texts in which a rule may name an address.
fn forms(value: &Value) -> Vec<String> {
    match value {
        Value::InterfaceAddress(address) => {
            vec![address.to_string(), address.ip().to_string(), address.net().to_string()]
        }
        value => vec![text_of(value)],
    }
}

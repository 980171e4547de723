//! Reads the fields of an object and records every fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use nlog_data::quotation::quote_text;
use openflow_rs::{MacAddr, nearest};
use serde_json::{Map, Value as Json};

use crate::FaultCode;

/// A fault, and the path of the field from the object's root.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: FaultCode,
    pub(crate) path: String,
    pub(crate) message: String,
}

/// The member that `weft get --json` adds to an object. It is accepted and ignored, so that printed objects can be
/// applied again.
const STATE: &str = "state";

/// The most characters of a label's value.
const LABEL_CHARS_MAX: usize = 255;

/// The labels of an object, by key.
pub type Labels = BTreeMap<String, String>;

/// The field of an object that says whether the object is deleted.
const DELETE: &str = "delete";

/// The fields of an object or of a part of one.
///
/// A reader requests each field that it knows by name; [`Fields::finish`] then reports all other fields. A read that
/// finds a fault records it and returns `None`. The object is then discarded, so readers need not distinguish a
/// faulty field from an absent one.
pub(crate) struct Fields<'a> {
    /// The path of the object, ending with a period; empty at the root.
    prefix: String,
    map: &'a Map<String, Json>,
    known: Vec<&'static str>,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(map: &'a Map<String, Json>, faults: &'a mut Vec<Fault>) -> Self {
        Fields { prefix: String::new(), map, known: Vec::new(), faults }
    }

    /// Records a fault of a field.
    pub(crate) fn fault(&mut self, code: FaultCode, field: &str, message: impl Into<String>) {
        self.faults.push(Fault { code, path: format!("{}{field}", self.prefix), message: message.into() });
    }

    /// Whether a field is present, valid or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Reads an optional field; `null` counts as absent.
    pub(crate) fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a Json) -> Result<T, String>,
    ) -> Option<T> {
        self.known.push(name);
        let map = self.map;
        let value = map.get(name).filter(|value| !value.is_null())?;
        match read(value) {
            Ok(value) => Some(value),
            Err(message) => {
                self.fault(FaultCode::BadValue, name, message);
                None
            }
        }
    }

    /// Reads a required field.
    pub(crate) fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&'a Json) -> Result<T, String>,
    ) -> Option<T> {
        if self.map.get(name).is_none_or(Json::is_null) {
            self.known.push(name);
            self.fault(FaultCode::MissingField, name, "is missing");
            return None;
        }
        self.optional(name, read)
    }

    /// Reads a list of single values, if it is present and has no fault.
    pub(crate) fn list<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&Json) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let items = self.optional(name, array)?;
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match read(item) {
                Ok(value) => values.push(value),
                Err(message) => self.fault(FaultCode::BadValue, &format!("{name}[{index}]"), message),
            }
        }
        (values.len() == items.len()).then_some(values)
    }

    /// Reads a list of parts with fields, if it is present and has no fault.
    pub(crate) fn parts<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&mut Fields) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.optional(name, array)?;
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let Json::Object(map) = item else {
                let message = format!("must be a mapping of fields, not {}", form(item));
                self.fault(FaultCode::BadValue, &format!("{name}[{index}]"), message);
                continue;
            };
            let prefix = format!("{}{name}[{index}].", self.prefix);
            let mut fields = Fields { prefix, map, known: Vec::new(), faults: self.faults };
            values.extend(read(&mut fields));
            fields.finish();
        }
        (values.len() == items.len()).then_some(values)
    }

    /// Reads a mapping from names to values, if it is present and has no fault.
    pub(crate) fn mapping<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(&Json) -> Result<T, String>,
    ) -> Option<BTreeMap<String, T>> {
        let items = self.optional(name, mapping)?;
        let mut values = BTreeMap::new();
        for (key, item) in items {
            match check_name(key) {
                Ok(()) => {}
                Err(message) => self.fault(FaultCode::BadValue, name, message),
            }
            match read(item) {
                Ok(value) => drop(values.insert(key.clone(), value)),
                Err(message) => self.fault(FaultCode::BadValue, &format!("{name}.{key}"), message),
            }
        }
        (values.len() == items.len()).then_some(values)
    }

    /// Reads the labels of an object; those of a faulty object are incomplete.
    pub(crate) fn labels(&mut self) -> Labels {
        self.mapping("labels", label).unwrap_or_default()
    }

    /// Whether the object says that it is deleted. Its other fields do not count then.
    pub(crate) fn deleted(&mut self) -> bool {
        let deleted = self.optional(DELETE, flag);
        // Not a field of a kind, so messages do not list it.
        self.known.retain(|name| *name != DELETE);
        deleted.unwrap_or(false)
    }

    /// Reports fields that were not requested.
    pub(crate) fn finish(mut self) {
        let is_of_all = |name: &str| self.prefix.is_empty() && matches!(name, STATE | DELETE);
        let known = |name: &str| self.known.contains(&name) || is_of_all(name);
        let unknown: Vec<&String> = self.map.keys().filter(|name| !known(name)).collect();
        for name in unknown {
            let message = match nearest(name, self.known.iter().copied()) {
                Some(near) => format!("unknown field; did you mean `{near}`?"),
                None => format!("unknown field; valid fields are {}", list(&self.known)),
            };
            self.fault(FaultCode::UnknownField, name, message);
        }
    }
}

/// Names, joined as in a sentence.
pub(crate) fn list(names: &[&str]) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        let joint = if index == 0 {
            ""
        } else if index + 1 == names.len() {
            " and "
        } else {
            ", "
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{joint}`{name}`");
    }
    text
}

/// The noun for the type of a value.
pub(crate) fn form(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

fn array(value: &Json) -> Result<&[Json], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("must be a list, not {}", form(value)))
}

fn mapping(value: &Json) -> Result<&Map<String, Json>, String> {
    value.as_object().ok_or_else(|| format!("must be a mapping, not {}", form(value)))
}

/// The greatest VLAN tag; 0 and 4095 are not tags.
pub(crate) const TAG_MAX: u16 = 4094;

/// A whole number in a range.
pub(crate) fn number(value: &Json, range: RangeInclusive<u16>) -> Result<u16, String> {
    let (least, greatest) = (range.start(), range.end());
    if !value.is_number() {
        return Err(format!("must be a number from {least} to {greatest}, not {}", form(value)));
    }
    let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("{value} is not a number from {least} to {greatest}"))
}

/// The value of a label: text of one line.
fn label(value: &Json) -> Result<String, String> {
    let text = text(value)?;
    if text.chars().count() > LABEL_CHARS_MAX {
        Err(format!("is longer than {LABEL_CHARS_MAX} characters"))
    } else if let Some(odd) = text.chars().find(|c| c.is_control()) {
        Err(format!("{} contains the character {odd:?}; write a text of one line", quote_text(text)))
    } else {
        Ok(text.to_owned())
    }
}

/// Text.
pub(crate) fn text(value: &Json) -> Result<&str, String> {
    let quote = if value.is_number() || value.is_boolean() { "; write it in quotes" } else { "" };
    value.as_str().ok_or_else(|| format!("must be text, not {}{quote}", form(value)))
}

/// `true` or `false`.
pub(crate) fn flag(value: &Json) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("must be `true` or `false`, not {}", form(value)))
}

/// Reads a name: text that needs no quoting in a URL path, a log line or a shell.
pub(crate) fn name(value: &Json) -> Result<String, String> {
    let text = text(value)?;
    check_name(text).map(|()| text.to_owned())
}

fn check_name(text: &str) -> Result<(), String> {
    const LENGTH_MAX: usize = 255;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if text.is_empty() {
        Err("must not be empty".to_owned())
    } else if text.len() > LENGTH_MAX {
        Err(format!("is longer than {LENGTH_MAX} characters"))
    } else if let Some(odd) = text.chars().find(|c| !fits(*c)) {
        Err(format!(
            "{} contains the character {odd:?}; use only letters, digits and - _ . : @",
            quote_text(text)
        ))
    } else if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        Err(format!("{} must begin with a letter or a digit", quote_text(text)))
    } else {
        Ok(())
    }
}

/// One of several names.
pub(crate) fn one_of<T: Copy>(value: &Json, choices: &[(&'static str, T)]) -> Result<T, String> {
    let text = text(value)?;
    if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(*choice);
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    Err(match nearest(text, names.iter().copied()) {
        Some(near) => format!("{} is not one of {}; did you mean `{near}`?", quote_text(text), list(&names)),
        None => format!("{} is not one of {}", quote_text(text), list(&names)),
    })
}

/// Reads the address of an interface, which is unicast and not zero.
pub(crate) fn mac(value: &Json) -> Result<MacAddr, String> {
    let text = text(value)?;
    let mac: MacAddr = text.parse().map_err(|_| {
        format!("{} is not a MAC address; write it as \"02:00:00:00:00:01\"", quote_text(text))
    })?;
    if mac.0[0] & 1 == 1 {
        return Err(format!(
            "{mac} is a multicast address; the address of an interface must be unicast (first byte even)"
        ));
    }
    if mac == MacAddr::default() {
        return Err(format!("{mac} is the null address; use the address of an interface"));
    }
    Ok(mac)
}

/// Reads the address of an interface, which is unicast, not unspecified and not a loopback address.
pub(crate) fn ip(value: &Json) -> Result<IpAddr, String> {
    let text = text(value)?;
    let ip: IpAddr = text.parse().map_err(|_| {
        let prefix = if text.contains('/') { " (a prefix is not allowed here)" } else { "" };
        format!("{} is not an IP address{prefix}; write it as \"10.0.0.1\" or \"fd00::1\"", quote_text(text))
    })?;
    let mapped = matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    if ip.is_multicast() || broadcast {
        Err(format!("{ip} is a multicast or broadcast address; must be unicast"))
    } else if ip.is_unspecified() {
        Err(format!("{ip} is the unspecified address; use the address of an interface"))
    } else if mapped {
        Err(format!("{ip} is an IPv4-mapped address; write the IPv4 address"))
    } else if ip.is_loopback() {
        Err(format!("{ip} is a loopback address, which other hosts cannot reach"))
    } else {
        Ok(ip)
    }
}

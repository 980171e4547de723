//! The walk through a state: which of its texts are names, and which have addresses inside.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use nlog_data::json::{from_json, to_json};
use nlog_data::{InterfaceAddress, Memories, Type, Value};
use objects::{Labels, Object, ObjectKey, ObjectStore};
use openflow_rs::MacAddr;
use packet_filter::PacketFilter;
use serde_json::Value as Json;

use super::AnonymiseError;
use crate::record::{AnnouncementChanges, BASE, JsonRows, ObjectChanges, ObjectText, Record, RowChanges};
use crate::reports::{PATCH, TUNNEL};
use crate::rules::Rules;

/// What is collected of a state, or what replaces it.
pub(super) trait Leaves {
    /// Whether the rules contain this text.
    fn is_word(&self, text: &str) -> bool;
    /// Whether the text is that of a name as a whole, as far as is known.
    fn is_name(&self, text: &str) -> bool;
    fn name(&mut self, name: &str) -> String;
    fn mac(&mut self, mac: MacAddr) -> MacAddr;
    fn ip(&mut self, ip: IpAddr) -> IpAddr;
    fn net(&mut self, net: IpNet) -> IpNet;
    /// The new hash for that of a name, if a name with this hash is known.
    fn hash(&mut self, hash: u32) -> Option<u32>;
}

/// The state that a record has, except its base.
pub(super) fn state(
    leaves: &mut impl Leaves,
    record: &Record,
    objects: &ObjectStore,
    rules: &Rules,
) -> Result<Record, AnonymiseError> {
    let put = objects.iter().map(|(_, old)| Ok(ObjectText::of(&object(leaves, old)?)));
    let put = put.collect::<Result<_, AnonymiseError>>()?;
    let mut insert = rows(leaves, &record.insert, rules, false)?;
    let reports = record.reports.as_ref().map(|reports| rows(leaves, &reports.insert, rules, false));
    let reports = reports.transpose()?.map(|insert| RowChanges { insert, delete: JsonRows::new() });
    // Rules make the names that hooks have, of those before.
    insert.extend(rows(leaves, &record.insert, rules, true)?);
    let memory: Memories = (record.memory.iter())
        .map(|(table, memory)| (table.clone(), json(memory, &mut |text| made_text(leaves, text))))
        .collect();
    let begun = record.announcements.begun.iter().map(|name| made_text(leaves, name)).collect();
    Ok(Record {
        txn: record.txn,
        at: record.at.clone(),
        by: BASE.to_owned(),
        peer: None,
        key: None,
        insert,
        delete: JsonRows::new(),
        objects: ObjectChanges { put, delete: Vec::new() },
        reports,
        filled: None,
        memory,
        announcements: AnnouncementChanges { ended: BTreeSet::new(), begun },
        observation: false,
        rules: None,
        base: None,
    })
}

/// An object with other names.
pub(super) fn object(leaves: &mut impl Leaves, object: &Object) -> Result<Object, AnonymiseError> {
    let labels: Labels =
        object.labels().iter().map(|(key, value)| (text(leaves, key), text(leaves, value))).collect();
    let kind = object.kind();
    let mut values = Vec::with_capacity(object.values().len());
    for (field, old) in kind.declared().fields.iter().zip(object.values()) {
        values.push(value(leaves, old, &field.ty, &format!("{kind}.{}", field.name))?);
    }
    Ok(object.with(&text(leaves, object.id()), labels, values))
}

/// The key of an object with another name.
pub(super) fn key(leaves: &mut impl Leaves, key: &ObjectKey) -> ObjectKey {
    ObjectKey::new(key.kind.clone(), text(leaves, &key.id))
}

/// The rows of the tables that hooks fill, or of the others.
fn rows(
    leaves: &mut impl Leaves,
    tables: &JsonRows,
    rules: &Rules,
    of_hooks: bool,
) -> Result<JsonRows, AnonymiseError> {
    let program = rules.program();
    let mut new = JsonRows::new();
    for (table, rows) in tables {
        let id = program.schema.find(table);
        let is_of_hook = id.is_some_and(|id| program.hook_of(id).is_some());
        if is_of_hook != of_hooks {
            continue;
        }
        let columns: &[_] = id.map_or(&[], |id| &program.schema.table(id).columns);
        let mut list = Vec::with_capacity(rows.len());
        for row in rows {
            let cells = row.iter().enumerate().map(|(at, cell)| {
                if at == 1
                    && let Json::String(name) = cell
                    && [TUNNEL, PATCH].contains(&&**table)
                {
                    return Ok(port_of_rules(leaves, table, name).into());
                }
                let Some(column) = columns.get(at) else {
                    return Ok(json(cell, &mut |old| text(leaves, old)));
                };
                let misfit = |why: String| AnonymiseError::Misfit { place: table.to_string(), why };
                let old = from_json(cell, &column.ty).map_err(|why| misfit(why.to_string()))?;
                if is_of_hook {
                    let new = json(cell, &mut |old| made_text(leaves, old));
                    let new = from_json(&new, &column.ty).map_err(|why| misfit(why.to_string()))?;
                    return Ok(to_json(&new));
                }
                Ok(to_json(&value(leaves, &old, &column.ty, &format!("{table}.{}", column.name))?))
            });
            list.push(cells.collect::<Result<_, AnonymiseError>>()?);
        }
        new.insert(table.clone(), list);
    }
    Ok(new)
}

/// A value of a column or a field, `place`.
fn value(leaves: &mut impl Leaves, old: &Value, ty: &Type, place: &str) -> Result<Value, AnonymiseError> {
    let new = replaced(leaves, old, ty, place)?;
    match ty.violation(&new) {
        Some(why) if ty.violation(old).is_none() => {
            Err(AnonymiseError::Names { place: place.to_owned(), why })
        }
        _ => Ok(new),
    }
}

fn replaced(leaves: &mut impl Leaves, old: &Value, ty: &Type, place: &str) -> Result<Value, AnonymiseError> {
    let mut all = |values: &[Value], ty: &Type| -> Result<Vec<Value>, AnonymiseError> {
        values.iter().map(|value| replaced(leaves, value, ty, place)).collect()
    };
    Ok(match (ty.base(), old) {
        (_, Value::None | Value::Bool(_) | Value::Int(_)) | (Type::Enum(_), _) => old.clone(),
        (Type::Opt(of), old) => replaced(leaves, old, of, place)?,
        (Type::Set(of), Value::Set(values)) => Value::set(all(values, of)?),
        (Type::List(of), Value::List(values)) => Value::list(all(values, of)?),
        (Type::Record(of), Value::Record(values)) => {
            let fields = of.fields.iter().zip(values.iter());
            let fields = fields.map(|((_, ty), value)| replaced(leaves, value, ty, place));
            Value::record(fields.collect::<Result<Vec<_>, _>>()?)
        }
        (_, Value::String(name)) => Value::String(fitting(ty, name, text(leaves, name)).into()),
        (_, Value::Mac(mac)) => Value::Mac(leaves.mac(*mac)),
        (_, Value::Ip(ip)) => Value::Ip(leaves.ip(*ip)),
        (_, Value::Net(net)) => Value::Net(with_length(leaves, *net)),
        (_, Value::InterfaceAddress(old)) => {
            let new = IpNet::new(old.ip(), old.length()).ok().map(|net| with_length(leaves, net));
            let new = new.and_then(|net| InterfaceAddress::new(net.addr(), net.prefix_len()));
            Value::InterfaceAddress(new.unwrap_or(*old))
        }
        (_, Value::PacketFilter(filter)) => packet_filter(leaves, filter).into(),
        _ => return Err(AnonymiseError::OpenFlow { place: place.to_owned() }),
    })
}

/// A new text, as bytes in hexadecimal where the type of the old one takes only such.
fn fitting(ty: &Type, old: &str, new: String) -> String {
    let takes = |text: &str| ty.violation(&Value::String(text.into())).is_none();
    if takes(&new) || !takes(old) {
        return new;
    }
    let digits = new.bytes().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    let bytes: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
    if takes(&bytes) { bytes } else { new }
}

/// The new address with the length of its prefix, or the new prefix, if it has no host bits.
fn with_length(leaves: &mut impl Leaves, old: IpNet) -> IpNet {
    let is_address = old.prefix_len() == old.max_prefix_len() || old.trunc() != old;
    let new = leaves.net(old.trunc());
    if is_address { IpNet::new(leaves.ip(old.addr()), old.prefix_len()).unwrap_or(new) } else { new }
}

/// A filter with the addresses that it names replaced. Masked MAC addresses stay: a mask means a form of address, not a machine.
fn packet_filter(leaves: &mut impl Leaves, filter: &PacketFilter) -> PacketFilter {
    let items: Vec<(&str, String)> =
        filter.items().map(|(field, text)| (field, address_text(leaves, &text).unwrap_or(text))).collect();
    let new = PacketFilter::new(items.iter().map(|(field, text)| (*field, text.as_str())));
    // Neither the fields nor the lengths of prefixes are others than before.
    new.unwrap_or_else(|faults| unreachable!("{filter}: {faults:?}"))
}

/// A JSON document with other texts. Keys stay.
fn json(old: &Json, text: &mut impl FnMut(&str) -> String) -> Json {
    match old {
        Json::String(old) => text(old).into(),
        Json::Array(items) => items.iter().map(|item| json(item, text)).collect(),
        Json::Object(members) => {
            Json::Object(members.iter().map(|(key, item)| (key.clone(), json(item, text))).collect())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => old.clone(),
    }
}

/// A text of a user or of a switch: an address, something with an address or a name inside, or a name as a whole.
pub(super) fn text(leaves: &mut impl Leaves, old: &str) -> String {
    if old.is_empty() || leaves.is_word(old) {
        return old.to_owned();
    }
    let found = address_text(leaves, old).or_else(|| endpoint(leaves, old)).or_else(|| {
        let filter = old.contains('=').then(|| old.parse::<PacketFilter>().ok()).flatten()?;
        Some(packet_filter(leaves, &filter).to_string())
    });
    found.unwrap_or_else(|| leaves.name(old))
}

/// A MAC address, an IP address, or one with the length of its prefix.
fn address_text(leaves: &mut impl Leaves, old: &str) -> Option<String> {
    if let Ok(mac) = old.parse() {
        return Some(leaves.mac(mac).to_string());
    }
    if let Ok(ip) = old.parse() {
        return Some(leaves.ip(ip).to_string());
    }
    Some(with_length(leaves, old.parse().ok()?).to_string())
}

/// `unix:/PATH`, `tcp:HOST:PORT` and the like, or `ADDRESS:PORT`.
fn endpoint(leaves: &mut impl Leaves, old: &str) -> Option<String> {
    if let Some(path) = old.strip_prefix("unix:") {
        return Some(format!("unix:/{}", leaves.name(path)));
    }
    let (scheme, rest) = ["tcp:", "ssl:"]
        .into_iter()
        .find_map(|scheme| Some((scheme, old.strip_prefix(scheme)?)))
        .unwrap_or(("", old));
    let (host, port) = rest.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match (inside.unwrap_or(host).parse::<IpAddr>(), inside) {
        (Ok(ip), Some(_)) => Some(format!("{scheme}[{}]:{port}", leaves.ip(ip))),
        (Ok(ip), None) if ip.is_ipv4() => Some(format!("{scheme}{}:{port}", leaves.ip(ip))),
        _ if scheme.is_empty() => None,
        _ => Some(format!("{scheme}{}:{port}", text(leaves, host))),
    }
}

/// A text that the rules have made: a name, or names and numbers with something between them.
fn made_text(leaves: &mut impl Leaves, old: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if leaves.is_name(old) || old.chars().all(is_of_name) || old.contains('=') {
        return text(leaves, old);
    }
    // An address with the length of its prefix has no other character.
    if let Some(address) = address_text(leaves, old) {
        return address;
    }
    let mut new = String::new();
    let mut rest = old;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_of_name(c) != is_of_name(first)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let stays = !is_of_name(first) || part.bytes().all(|byte| byte.is_ascii_digit());
        new += &if stays { part.to_owned() } else { text(leaves, part) };
        rest = after;
    }
    new
}

/// The name of a tunnel port or a patch port, which the rules have made of words and of numbers. In that of a patch port, a number is the
/// hash of a name.
fn port_of_rules(leaves: &mut impl Leaves, table: &str, old: &str) -> String {
    let part = |part: &str| {
        let number = part.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match number {
            Some(hash) if table == PATCH => leaves.hash(hash).map(|hash| format!("{hash:#x}")),
            Some(_) => Some(part.to_owned()),
            None => {
                [part, &format!("{part}-")].iter().any(|word| leaves.is_word(word)).then(|| part.to_owned())
            }
        }
    };
    let parts: Option<Vec<String>> = old.split('-').map(part).collect();
    parts.map_or_else(|| text(leaves, old), |parts| parts.join("-"))
}

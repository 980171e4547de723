//! Packet filters: what users say of packets, as matches.
//!
//! A [`PacketFilter`] says values of header fields by name. Unlike a [`Match`], it can speak of both IP versions at once and
//! of ranges of ports, and it has no prerequisites to spell out, so it can need several matches:
//!
//! ```
//! use packet_filter::PacketFilter;
//! let filter: PacketFilter = "ip_proto=tcp,tp_dst=8000-8015".parse()?;
//! let matches: Vec<String> = filter.matches().iter().map(ToString::to_string).collect();
//! assert_eq!(matches, ["tcp,tp_dst=0x1f40/0xfff0", "tcp6,tp_dst=0x1f40/0xfff0"]);
//! # Ok::<(), packet_filter::FilterFaults>(())
//! ```
//!
//! A packet is meant if it has every field of the filter with the value that the filter says; the matches admit exactly these
//! packets. As in Open vSwitch, a fragment that is not the first has ports 0.

#![forbid(unsafe_code)]

mod connection;
mod expand;
mod names;
mod value;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use names::{Said, canonical_name, said};
use openflow_rs::{Field, Match};
use value::FilterValue;

pub use names::{field_names, refused_names};

/// Values of header fields, by name; without any, a filter means all packets. Filters are ordered by their text.
#[derive(Clone)]
pub struct PacketFilter {
    /// The canonical text.
    text: String,
    /// Sorted by field, one for each.
    items: Vec<Item>,
}

/// What a filter says of one field. A field of several protocols or versions is that of TCP, `ICMPv4` or IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    field: Field,
    value: FilterValue,
}

/// An item, and the name under which it was given.
type Named<'a> = (Item, &'a str);

/// What is wrong with a field of a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FilterFault {
    /// The field's name, as given.
    pub field: String,
    /// What is wrong, and the remedy.
    pub message: String,
}

/// What is wrong with the text of a filter: at least one fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct FilterFaults(pub Vec<FilterFault>);

impl FilterFault {
    fn new(field: &str, message: impl Into<String>) -> FilterFault {
        FilterFault { field: field.to_owned(), message: message.into() }
    }
}

impl PacketFilter {
    /// Reads names of fields and their values.
    ///
    /// # Errors
    /// The faults of all fields: unknown names, values that a field cannot have; if there is none of these, the first
    /// contradiction.
    pub fn new<'a>(
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<PacketFilter, Vec<FilterFault>> {
        let (mut items, mut faults): (Vec<Named<'a>>, _) = (Vec::new(), Vec::new());
        let mut implied = Vec::new();
        for (name, text) in given {
            match read(name, text) {
                Ok((item, said)) => {
                    let twice = items.iter().find(|(other, _)| other.field == item.field);
                    if let Some((_, other)) = twice {
                        let message = format!("says the same field as `{other}`; remove one of the two");
                        faults.push(FilterFault::new(name, message));
                    } else {
                        items.push((item, name));
                        implied.extend(said.map(|value| (Item { field: Field::IpProto, value }, name)));
                    }
                }
                Err(message) => faults.push(FilterFault::new(name, message)),
            }
        }
        for (item, name) in implied {
            match items.iter().find(|(other, _)| other.field == item.field) {
                None => items.push((item, name)),
                Some((other, _)) if other.value == item.value => {}
                Some((other, by)) => {
                    let message = format!(
                        "belongs to {}, but `{by}` says {}; remove one of the two",
                        item.value.text(item.field),
                        other.value.text(other.field)
                    );
                    faults.push(FilterFault::new(name, message));
                }
            }
        }
        items.sort_by_key(|(item, _)| item.field);
        if faults.is_empty()
            && let Err(fault) = expand::matches(&items)
        {
            faults.push(fault);
        }
        if faults.is_empty() { Ok(PacketFilter::of(items)) } else { Err(faults) }
    }

    fn of(items: Vec<Named<'_>>) -> PacketFilter {
        let items: Vec<Item> = items.into_iter().map(|(item, _)| item).collect();
        let texts = items.iter().map(|item| format!("{}={}", item.name(), item.value.text(item.field)));
        PacketFilter { text: texts.collect::<Vec<_>>().join(","), items }
    }

    /// The fields and their values in canonical form.
    pub fn items(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.items.iter().map(|item| (item.name(), item.value.text(item.field)))
    }

    /// The canonical text: `ip_proto=tcp,tp_dst=22`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The matches that together admit exactly the packets that the filter means: at least one, none twice. Each port
    /// range becomes the fewest prefixes, at most 30.
    pub fn matches(&self) -> Vec<Match> {
        let named: Vec<Named<'_>> = self.items.iter().map(|item| (*item, item.name())).collect();
        // A filter without matches is not made.
        expand::matches(&named).unwrap_or_default()
    }

    /// The matches that together mean the same at a port that tracks connections: where a switch looks up the
    /// connection of every IP packet but messages of neighbour discovery (`ICMPv6` types 133 to 136) and of multicast
    /// listeners (130, 131, 132 and 143), and where it has dropped invalid ones. At least one, none twice.
    ///
    /// IP addresses, protocol, ports, and types and codes of ICMP are those of the first packet of the connection;
    /// fields of other kinds are the packet's own. A packet that is not tracked has nothing but its own fields. A filter
    /// that says nothing of a connection has its ordinary [`matches`](PacketFilter::matches).
    ///
    /// ```
    /// use packet_filter::PacketFilter;
    /// let filter: PacketFilter = "ip_proto=tcp,tp_dst=22".parse()?;
    /// let matches: Vec<String> = filter.connection_matches().iter().map(ToString::to_string).collect();
    /// assert_eq!(matches, ["ct_state=-inv+trk,ct_nw_proto=6,ct_tp_dst=22"]);
    /// # Ok::<(), packet_filter::FilterFaults>(())
    /// ```
    pub fn connection_matches(&self) -> Vec<Match> {
        let named: Vec<Named<'_>> = self.items.iter().map(|item| (*item, item.name())).collect();
        // What has ordinary matches has these.
        connection::matches(&named).unwrap_or_default()
    }
}

impl Item {
    fn name(&self) -> &'static str {
        canonical_name(self.field)
    }
}

/// Checks the name of a field and its value, apart from other fields.
///
/// # Errors
/// The reason why no filter has it, and the remedy.
pub fn check(name: &str, text: &str) -> Result<(), String> {
    read(name, text).map(drop)
}

/// Reads a field: what it says of itself, and the protocol that its name says.
fn read(name: &str, text: &str) -> Result<(Item, Option<FilterValue>), String> {
    let Said { field, protocol, ipv6 } = said(name)?;
    let (field, value) = value::read(field, text)?;
    if ipv6 && matches!(value, FilterValue::Address(ip, _) if ip.is_ipv4()) {
        return Err(format!("`{text}` is an IPv4 address, and {name} takes IPv6"));
    }
    Ok((Item { field, value }, protocol.map(FilterValue::Protocol)))
}

impl FromStr for PacketFilter {
    type Err = FilterFaults;

    /// Reads `name=value` items with commas between; no items are the filter of all packets.
    fn from_str(text: &str) -> Result<PacketFilter, FilterFaults> {
        let mut items = Vec::new();
        for item in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            let Some((name, value)) = item.split_once('=') else {
                let fault = FilterFault::new(item, "is not a field with its value; write it as tp_dst=22");
                return Err(FilterFaults(vec![fault]));
            };
            items.push((name.trim(), value.trim()));
        }
        PacketFilter::new(items).map_err(FilterFaults)
    }
}

impl fmt::Display for PacketFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PacketFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl PartialEq for PacketFilter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PacketFilter {}

impl Hash for PacketFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for PacketFilter {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PacketFilter {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

#[cfg(test)]
mod tests;

//! The forms of values.

use std::net::Ipv4Addr;

use crate::DomainName;

/// What the value of an option is, and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// One IPv4 address.
    Address,
    /// IPv4 addresses, separated by commas.
    Addresses,
    /// A text of printable ASCII.
    Text,
    /// A domain name or a part of one, as text.
    Domain,
    /// Domain names, separated by commas.
    Domains,
    /// An MTU: at least 68 (RFC 2132, 5.1).
    Mtu,
    /// Seconds, perhaps negative.
    Seconds,
    /// Bytes as hexadecimal digits, perhaps with colons or blanks between.
    Bytes,
    /// Routes, separated by commas: destination, `via` and router (RFC 3442).
    Routes,
}

impl Form {
    /// What a value is, for messages.
    pub fn what(self) -> &'static str {
        match self {
            Form::Address => "an IPv4 address",
            Form::Addresses => "IPv4 addresses separated by commas",
            Form::Text => "a text of printable ASCII",
            Form::Domain => "a domain name",
            Form::Domains => "domain names separated by commas",
            Form::Mtu => "a number from 68 to 65535",
            Form::Seconds => "a number of seconds",
            Form::Bytes => "bytes as pairs of hexadecimal digits",
            Form::Routes => "routes separated by commas",
        }
    }

    /// A value of this form.
    pub fn example(self) -> &'static str {
        match self {
            Form::Address => "10.0.0.1",
            Form::Addresses => "10.0.0.1, 10.0.0.2",
            Form::Text => "server.example.com",
            Form::Domain => "example.com",
            Form::Domains => "example.com, example.net",
            Form::Mtu => "1442",
            Form::Seconds => "-3600",
            Form::Bytes => "01:ff:20",
            Form::Routes => "192.0.2.0/24 via 10.0.0.1, 0.0.0.0/0 via 10.0.0.254",
        }
    }

    /// The bytes of a value, or what is wrong with it and how to do better.
    pub(super) fn bytes(self, value: &str) -> Result<Vec<u8>, String> {
        let bytes = match self {
            Form::Address => value.parse().ok().map(|address: Ipv4Addr| address.octets().to_vec()),
            Form::Addresses => {
                joined(value, |item| item.parse().ok().map(|item: Ipv4Addr| item.octets().to_vec()))
            }
            Form::Text => {
                let is_text = !value.is_empty() && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                is_text.then(|| value.as_bytes().to_vec())
            }
            Form::Domain => labels(value).map(|_| value.trim_end_matches('.').as_bytes().to_vec()),
            Form::Domains => joined(value, labels),
            Form::Mtu => {
                value.parse().ok().filter(|mtu: &u16| *mtu >= 68).map(|mtu| mtu.to_be_bytes().to_vec())
            }
            Form::Seconds => value.parse().ok().map(|seconds: i32| seconds.to_be_bytes().to_vec()),
            Form::Bytes => hexadecimal(value),
            Form::Routes => joined(value, route),
        };
        bytes.ok_or_else(|| format!("this is not {}: write it as in {}", self.what(), self.example()))
    }
}

/// The bytes of all items between commas, if each is in order.
fn joined(value: &str, item: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let items: Option<Vec<Vec<u8>>> = value.split(',').map(|text| item(text.trim())).collect();
    items.map(|items| items.concat())
}

/// A domain name as labels with their lengths, and the root (RFC 1035, 3.1).
fn labels(name: &str) -> Option<Vec<u8>> {
    name.parse().ok().map(|name: DomainName| name.bytes().to_vec())
}

/// Bytes of hexadecimal digits; at least one.
fn hexadecimal(value: &str) -> Option<Vec<u8>> {
    let value = value.strip_prefix("0x").unwrap_or(value);
    let digits: Option<Vec<u8>> = value
        .chars()
        .filter(|c| *c != ':' && !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len().is_multiple_of(2))?;
    let (pairs, _) = digits.as_chunks::<2>();
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// `192.0.2.0/24 via 10.0.0.1`: the bits of the destination, those of its bytes that have some, and the router (RFC 3442). A destination
/// has no bits behind its prefix.
fn route(text: &str) -> Option<Vec<u8>> {
    let (destination, router) = text.split_once(" via ")?;
    let (address, bits) = destination.trim().split_once('/')?;
    let (address, bits): (Ipv4Addr, u8) =
        (address.parse().ok()?, bits.parse().ok().filter(|bits| *bits <= 32)?);
    let router: Ipv4Addr = router.trim().parse().ok()?;
    let behind = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
    if address.to_bits() & behind != 0 {
        return None;
    }
    let octets = address.octets();
    let significant = octets.get(..usize::from(bits.div_ceil(8)))?;
    Some([&[bits], significant, &router.octets()].concat())
}

//! The values of a filter's fields, as text.

use std::net::IpAddr;

use openflow_rs::field::Format;
use openflow_rs::field::{number, prefix_mask};
use openflow_rs::protocol::{ETH_TYPE_IP, KEYWORDS, PROTO_ICMP, PROTO_ICMPV6};
use openflow_rs::{Field, Match, nearest};

/// What a filter says of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterValue {
    /// Of `ip_proto`.
    Protocol(Protocol),
    /// A prefix of addresses, by its first address and its length.
    Address(IpAddr, u8),
    /// Ports from the first to the last.
    Ports(u16, u16),
    /// A value and the mask of its bits that count, which is not 0.
    Bits(u128, u128),
}

/// An IP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// ICMP of the packet's IP version.
    Icmp,
    /// ICMP of IPv6.
    Icmp6,
    /// This number in both versions.
    Number(u8),
}

impl Protocol {
    pub(super) const TCP: Protocol = Protocol::Number(6);
    pub(super) const UDP: Protocol = Protocol::Number(17);
    pub(super) const SCTP: Protocol = Protocol::Number(132);

    /// The number in packets of an Ethernet type.
    pub(super) fn number(self, eth: u128) -> u128 {
        match self {
            Protocol::Icmp if eth == ETH_TYPE_IP => PROTO_ICMP,
            Protocol::Icmp | Protocol::Icmp6 => PROTO_ICMPV6,
            Protocol::Number(number) => number.into(),
        }
    }
}

/// Protocols with names.
const PROTOCOLS: [(&str, Protocol); 5] = [
    ("tcp", Protocol::TCP),
    ("udp", Protocol::UDP),
    ("sctp", Protocol::SCTP),
    ("icmp", Protocol::Icmp),
    ("icmp6", Protocol::Icmp6),
];

/// Ethernet types with names.
fn ethernet_types() -> impl Iterator<Item = (&'static str, u128)> {
    KEYWORDS.iter().filter(|(_, _, protocol)| protocol.is_none()).map(|(name, eth, _)| (*name, *eth))
}

/// Reads the value of a field: returns the field in whose terms a filter says it, and the value.
pub(super) fn read(field: Field, text: &str) -> Result<(Field, FilterValue), String> {
    let value = match field {
        Field::IpProto => FilterValue::Protocol(protocol(text)?),
        Field::IpSrc | Field::IpDst => address(text)?,
        Field::TcpSrc | Field::TcpDst => ports(text)?,
        Field::EthType => ethernet_type(text)?,
        Field::VlanVid => match number(text) {
            Ok(id) if id < 0x1000 => FilterValue::Bits(id, 0xfff),
            _ => return Err(format!("`{text}` is not the id of a VLAN, which is a number from 0 to 4095")),
        },
        field => bits(field, text)?,
    };
    match (field, value) {
        // The same six bits, beside two that are always 0.
        (Field::IpTos, FilterValue::Bits(value, mask)) => {
            Ok((Field::IpDscp, FilterValue::Bits(value >> 2, mask >> 2)))
        }
        _ => Ok((field, value)),
    }
}

fn bits(field: Field, text: &str) -> Result<FilterValue, String> {
    let (value, mask) = field.read(text).map_err(|error| error.to_string())?;
    if mask == 0 {
        return Err("a mask of 0 says nothing; remove the field".to_owned());
    }
    Match::any().with_masked(field, value, mask).map_err(|error| error.to_string())?;
    Ok(FilterValue::Bits(value & mask, mask))
}

fn protocol(text: &str) -> Result<Protocol, String> {
    if let Some((_, protocol)) = PROTOCOLS.iter().find(|(name, _)| *name == text) {
        return Ok(*protocol);
    }
    if let Some(number) = number(text).ok().and_then(|number| u8::try_from(number).ok()) {
        return Ok(Protocol::Number(number));
    }
    Err(match nearest(text, PROTOCOLS.iter().map(|(name, _)| *name)) {
        Some(near) => format!("`{text}` is not an IP protocol; did you mean `{near}`?"),
        None => format!(
            "`{text}` is not an IP protocol; write tcp, udp, sctp, icmp (of both IP versions), icmp6, or a number up \
            to 255"
        ),
    })
}

fn ethernet_type(text: &str) -> Result<FilterValue, String> {
    let named = ethernet_types().find(|(name, _)| *name == text).map(|(_, eth)| eth);
    let eth = named.or_else(|| number(text).ok().filter(|eth| *eth <= 0xffff));
    eth.map(|eth| FilterValue::Bits(eth, 0xffff)).ok_or_else(|| {
        let names: Vec<&str> = ethernet_types().map(|(name, _)| name).collect();
        format!("`{text}` is not an Ethernet type; write {} or a number up to 0xffff", names.join(", "))
    })
}

fn address(text: &str) -> Result<FilterValue, String> {
    let bad = || {
        format!("`{text}` is not an IP address or a prefix; write it as 10.0.0.1, 10.0.0.0/24 or fd00::/64")
    };
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
    let ip: IpAddr = ip.parse().map_err(|_| bad())?;
    let width = if ip.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => width,
        Some(length) => {
            let length = number(length).ok().and_then(|length| u8::try_from(length).ok());
            length.filter(|length| *length <= width).ok_or_else(bad)?
        }
    };
    let first = match ip {
        IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() & prefix_mask(32, length.into()) as u32).into()),
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() & prefix_mask(128, length.into())).into()),
    };
    if first != ip {
        return Err(format!("`{text}` has host bits; write it as {first}/{length}"));
    }
    Ok(FilterValue::Address(ip, length))
}

fn ports(text: &str) -> Result<FilterValue, String> {
    let bad = || format!("`{text}` is not a port or a range of ports; write 22 or 8000-8999");
    let port = |text: &str| {
        let port = number(text.trim()).ok().and_then(|port| u16::try_from(port).ok());
        port.ok_or_else(bad)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(format!("`{text}` begins after its end; write {last}-{first}"));
    }
    Ok(FilterValue::Ports(first, last))
}

impl FilterValue {
    /// The canonical text, which [`read`] reads.
    pub(super) fn text(self, field: Field) -> String {
        match self {
            FilterValue::Protocol(protocol) => {
                match (PROTOCOLS.iter().find(|(_, known)| *known == protocol), protocol) {
                    (Some((name, _)), _) => (*name).to_owned(),
                    (None, Protocol::Number(number)) => number.to_string(),
                    (None, protocol) => format!("{protocol:?}"),
                }
            }
            FilterValue::Address(ip, length) if length == if ip.is_ipv4() { 32 } else { 128 } => {
                ip.to_string()
            }
            FilterValue::Address(ip, length) => format!("{ip}/{length}"),
            FilterValue::Ports(first, last) if first == last => first.to_string(),
            FilterValue::Ports(first, last) => format!("{first}-{last}"),
            FilterValue::Bits(value, mask) => bits_text(field, value, mask),
        }
    }
}

fn bits_text(field: Field, value: u128, mask: u128) -> String {
    if field == Field::VlanVid {
        return value.to_string();
    }
    if field == Field::EthType
        && let Some((name, _)) = ethernet_types().find(|(_, eth)| *eth == value)
    {
        return name.to_owned();
    }
    let mut text = String::new();
    // Writing to a string cannot fail. A match writes DSCP in another field's terms.
    let _ = match field.info().format {
        Format::Dscp => field.write_set(&mut text, value, mask),
        _ => field.write_match(&mut text, value, mask),
    };
    text
}

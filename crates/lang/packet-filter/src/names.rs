//! The fields of filters, by name.

use crate::value::Protocol;
use openflow_rs::literal;
use openflow_rs::{Field, nearest};

/// What a name says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// The field. One of several protocols or versions is that of TCP, `ICMPv4` or IPv4, but for the TOS byte.
    pub(super) field: Field,
    /// The protocol of a field that one protocol has.
    pub(super) protocol: Option<Protocol>,
    /// Whether it takes addresses of IPv6 alone.
    pub(super) ipv6: bool,
}

/// The meaning of a name.
///
/// # Errors
/// A message that says why filters cannot have the field.
pub(super) fn said(name: &str) -> Result<Said, String> {
    let Some(field) = field(name) else {
        let near = nearest(name, field_names());
        return Err(match near {
            Some(near) => format!("unknown field; did you mean `{near}`?"),
            None => "unknown field; ovs-fields(7) lists the names".to_owned(),
        });
    };
    if let Some(reason) = refusal(name, field) {
        return Err(format!("cannot be matched: {reason}"));
    }
    let ipv6 = matches!(field, Field::Ipv6Src | Field::Ipv6Dst);
    let (field, protocol) = match (field, name) {
        (_, "tp_src" | "tp_dst") => (field, None),
        (Field::TcpSrc | Field::TcpDst, _) => (field, Some(Protocol::TCP)),
        (Field::UdpSrc, _) => (Field::TcpSrc, Some(Protocol::UDP)),
        (Field::UdpDst, _) => (Field::TcpDst, Some(Protocol::UDP)),
        (Field::SctpSrc, _) => (Field::TcpSrc, Some(Protocol::SCTP)),
        (Field::SctpDst, _) => (Field::TcpDst, Some(Protocol::SCTP)),
        (Field::Icmpv6Type, _) => (Field::IcmpType, Some(Protocol::Icmp6)),
        (Field::Icmpv6Code, _) => (Field::IcmpCode, Some(Protocol::Icmp6)),
        (Field::Ipv6Src, _) => (Field::IpSrc, None),
        (Field::Ipv6Dst, _) => (Field::IpDst, None),
        _ => (field, None),
    };
    Ok(Said { field, protocol, ipv6 })
}

/// The field of a name in a match, words such as `tcp` apart. A name of several fields yields one of them.
fn field(name: &str) -> Option<Field> {
    literal::field_names().find(|known| known.name == name)?.field
}

/// Why a filter cannot have a field of a flow's match; none if it can. All packets of a network have the fields that filters
/// can have, and nobody but their senders decides about them.
fn refusal(name: &str, field: Field) -> Option<&'static str> {
    const HEADERS: std::ops::RangeInclusive<Field> = Field::VlanTci..=Field::TcpFlags;
    match field {
        Field::VlanVid if name != "dl_vlan" => {
            Some("it contains OpenFlow's bit for a tag; write `dl_vlan`, the id of the VLAN")
        }
        Field::EthType | Field::IpProto => None,
        _ if HEADERS.contains(&field) => None,
        Field::InPort | Field::InPortOxm => {
            Some("numbers of ports differ from host to host; write `eth_src` or `ip_src`")
        }
        Field::PacketType => Some("all packets are Ethernet packets"),
        _ if field.name().starts_with("tun_") => Some("tunnels between hosts belong to the network"),
        _ if field.name().starts_with("ct_") => Some("the network itself tracks connections"),
        _ => Some("the network itself uses it on the way of a packet"),
    }
}

/// The name of a field in canonical form.
pub(super) fn canonical_name(field: Field) -> &'static str {
    match field {
        Field::IpProto => "ip_proto",
        Field::TcpSrc => "tp_src",
        Field::TcpDst => "tp_dst",
        Field::VlanVid => "dl_vlan",
        field => field.name(),
    }
}

/// The names of fields in filters.
pub fn field_names() -> impl Iterator<Item = &'static str> {
    names().filter(|(name, field)| refusal(name, *field).is_none()).map(|(name, _)| name)
}

/// The names of fields that matches of flows can have, and filters cannot.
pub fn refused_names() -> impl Iterator<Item = &'static str> {
    names().filter(|(name, field)| refusal(name, *field).is_some()).map(|(name, _)| name)
}

fn names() -> impl Iterator<Item = (&'static str, Field)> {
    literal::field_names().filter_map(|known| Some((known.name, known.field?)))
}

//! A filter as matches of packets whose connection is tracked.

use crate::expand::{self, Part, join};
use crate::value::{FilterValue, Protocol};
use crate::{FilterFault, Named};
use openflow_rs::protocol::{ETH_TYPE_IPV6, PROTO_ICMPV6};
use openflow_rs::{Field, Match, Prerequisite};

/// `ct_state=+trk-inv`: the packet belongs to a connection, or could begin one.
const TRACKED: Part = (Field::CtState, 0x20, 0x30);
/// `ct_state=-trk`.
const UNTRACKED: Part = (Field::CtState, 0, 0x20);
/// The `ICMPv6` types that are not tracked: of multicast listeners and of neighbour discovery.
const UNTRACKED_TYPES: [u128; 8] = [130, 131, 132, 133, 134, 135, 136, 143];
/// The protocol that Open vSwitch cannot match in a connection, as 0 is that of none. The packet's own stands for it.
const NO_PROTOCOL: Protocol = Protocol::Number(0);

/// The matches that together mean what the items say, at a port that tracks connections.
///
/// # Errors
/// The first contradiction, as a fault of one of its fields.
pub(super) fn matches(items: &[Named<'_>]) -> Result<Vec<Match>, FilterFault> {
    let protocol = expand::protocol(items)?;
    if protocol.is_none() && !items.iter().any(says_address) {
        return expand::matches(items);
    }
    let versions = expand::ethernet_types(items, protocol)?;
    let six = versions.contains(&Some(ETH_TYPE_IPV6));
    let may_be_untracked = six && has_untracked(items, protocol);
    let mut found = Vec::new();
    if is_for_all_versions(items, protocol, &versions) {
        found.extend(tracked(items, None, protocol)?);
    } else {
        for eth in versions {
            if eth != Some(ETH_TYPE_IPV6) || has_tracked_six(items) {
                found.extend(tracked(items, eth, protocol)?);
            }
        }
    }
    if may_be_untracked {
        let eth = Some(ETH_TYPE_IPV6);
        let base = demand(expand::base(eth, protocol), UNTRACKED);
        found.extend(join(base, items, |named| expand::parts(named, eth, protocol))?);
    }
    Ok(found)
}

/// Whether an item restricts the addresses of a connection. A prefix without bits says no more than an Ethernet type.
fn says_address((item, _): &Named<'_>) -> bool {
    matches!(item.value, FilterValue::Address(_, length) if length > 0)
}

fn icmp_type(items: &[Named<'_>]) -> Option<u128> {
    items.iter().find_map(|(item, _)| match (item.field, item.value) {
        (Field::IcmpType, FilterValue::Bits(value, _)) => Some(value),
        _ => None,
    })
}

/// Whether an IPv6 packet with all fields can be tracked.
fn has_tracked_six(items: &[Named<'_>]) -> bool {
    icmp_type(items).is_none_or(|kind| !UNTRACKED_TYPES.contains(&kind))
}

/// Whether an IPv6 packet with all fields can be untracked.
fn has_untracked(items: &[Named<'_>], protocol: Option<Protocol>) -> bool {
    protocol.is_none_or(|protocol| protocol.number(ETH_TYPE_IPV6) == PROTO_ICMPV6)
        && icmp_type(items).is_none_or(|kind| UNTRACKED_TYPES.contains(&kind))
}

/// Whether one match means the tracked packets of both IP versions.
fn is_for_all_versions(items: &[Named<'_>], protocol: Option<Protocol>, versions: &[Option<u128>]) -> bool {
    // The versions have different protocols of this name.
    let differs = protocol.is_none_or(|protocol| protocol == Protocol::Icmp || protocol == NO_PROTOCOL);
    let needs_version = |(item, _): &Named<'_>| match item.field {
        Field::IpProto | Field::TcpSrc | Field::TcpDst => false,
        field => !matches!(field.info().prerequisite, Prerequisite::None | Prerequisite::Vlan),
    };
    versions.len() > 1 && !differs && !items.iter().any(needs_version)
}

/// The matches of tracked packets of a version, or of both.
fn tracked(
    items: &[Named<'_>],
    eth: Option<u128>,
    protocol: Option<Protocol>,
) -> Result<Vec<Match>, FilterFault> {
    let of_connection = match protocol {
        Some(NO_PROTOCOL) | None => None,
        Some(protocol) => Some(protocol.number(eth.unwrap_or(ETH_TYPE_IPV6))),
    };
    // The packet's own protocol; that of a connection may differ in an ICMP error about it.
    let is_own =
        |(item, _): &Named<'_>| item.field.info().prerequisite == Prerequisite::Tcp && !is_port(item.field);
    let own = protocol.filter(|protocol| *protocol == NO_PROTOCOL || items.iter().any(is_own));
    let base = demand(expand::base(eth, own), TRACKED);
    let base = match of_connection {
        Some(number) => demand(base, (Field::CtNwProto, number, Field::CtNwProto.max_value())),
        None => base,
    };
    join(base, items, |named| expand::parts(named, eth, protocol).into_iter().map(original).collect())
}

fn is_port(field: Field) -> bool {
    original_field(field).is_some()
}

/// A part as that of the connection's first packet, or as it is if a connection does not have the field.
fn original((field, value, mask): Part) -> Part {
    match (original_field(field), field) {
        // A type or a code is in 16 bits, like a port.
        (Some(new), Field::IcmpType | Field::IcmpCode | Field::Icmpv6Type | Field::Icmpv6Code) => {
            (new, value, new.max_value())
        }
        (Some(new), _) => (new, value, mask),
        (None, _) => (field, value, mask),
    }
}

fn original_field(field: Field) -> Option<Field> {
    Some(match field {
        Field::IpSrc => Field::CtNwSrc,
        Field::IpDst => Field::CtNwDst,
        Field::Ipv6Src => Field::CtIpv6Src,
        Field::Ipv6Dst => Field::CtIpv6Dst,
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc | Field::IcmpType | Field::Icmpv6Type => {
            Field::CtTpSrc
        }
        Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::IcmpCode | Field::Icmpv6Code => {
            Field::CtTpDst
        }
        _ => return None,
    })
}

/// A match with a part that fits and that nothing in it contradicts.
fn demand(base: Match, (field, value, mask): Part) -> Match {
    base.clone().with_masked(field, value, mask).unwrap_or(base)
}

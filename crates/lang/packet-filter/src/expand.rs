//! A filter as matches: for each Ethernet type and port prefix that it means, one.

use crate::value::{FilterValue, Protocol};
use crate::{FilterFault, Item, Named};
use openflow_rs::field::prefix_mask;
use openflow_rs::protocol::{
    ETH_TYPE_ARP, ETH_TYPE_IP, ETH_TYPE_IPV6, ETH_TYPE_MPLS, ETH_TYPE_MPLS_MCAST, ETH_TYPE_RARP,
};
use openflow_rs::{Field, Match, MatchError, Prerequisite};

/// A part of a match: a field, its value and the mask of the bits that count.
pub(super) type Part = (Field, u128, u128);

const IP: &[u128] = &[ETH_TYPE_IP, ETH_TYPE_IPV6];

/// The matches that together mean what the items say.
///
/// # Errors
/// The first contradiction, as a fault of one of its fields.
pub(super) fn matches(items: &[Named<'_>]) -> Result<Vec<Match>, FilterFault> {
    let protocol = protocol(items)?;
    let mut found = Vec::new();
    for eth in ethernet_types(items, protocol)? {
        let parts = |named: &Named<'_>| parts(named, eth, protocol);
        found.extend(join(base(eth, protocol), items, parts)?);
    }
    Ok(found)
}

/// The matches that extend a base by one part of each item.
///
/// # Errors
/// Parts that contradict each other or the base, and fields without their prerequisites.
pub(super) fn join(
    base: Match,
    items: &[Named<'_>],
    parts: impl Fn(&Named<'_>) -> Vec<Part>,
) -> Result<Vec<Match>, FilterFault> {
    let mut found = vec![base];
    for named in items {
        let parts = parts(named);
        let joined = found.iter().flat_map(|whole| parts.iter().map(move |part| (whole, part)));
        let joined = joined.map(|(whole, (field, value, mask))| {
            whole.clone().with_masked(*field, *value, *mask).map_err(|error| misfit(named, &error))
        });
        found = joined.collect::<Result<_, _>>()?;
    }
    for matches in &found {
        matches.validate().map_err(|error| lacking(items, &error))?;
    }
    Ok(found)
}

/// The protocol that the items mean. A field that one protocol alone has implies it.
pub(super) fn protocol(items: &[Named<'_>]) -> Result<Option<Protocol>, FilterFault> {
    // The protocol, and what says so.
    let mut meant = match items.iter().find(|(item, _)| item.field == Field::IpProto) {
        Some((Item { field, value: FilterValue::Protocol(protocol) }, name)) => {
            let says = FilterValue::Protocol(*protocol).text(*field);
            Some((*protocol, format!("`{name}` says {says}")))
        }
        _ => None,
    };
    for (item, name) in items {
        let (fits, implied, wanted): (fn(Protocol) -> bool, _, _) = match item.field {
            Field::TcpSrc | Field::TcpDst => (has_ports, None, "tcp, udp or sctp"),
            Field::IcmpType | Field::IcmpCode => (is_icmp, Some(Protocol::Icmp), "icmp"),
            Field::TcpFlags => (|protocol| protocol == Protocol::TCP, Some(Protocol::TCP), "tcp"),
            _ => continue,
        };
        match (&meant, implied) {
            (Some((protocol, _)), _) if fits(*protocol) => {}
            (Some((_, says)), _) => {
                let message = format!("belongs to {wanted}, but {says}; remove one of the two");
                return Err(FilterFault::new(name, message));
            }
            (None, Some(implied)) => meant = Some((implied, format!("`{name}` belongs to {wanted}"))),
            (None, None) => {
                return Err(FilterFault::new(name, format!("needs a protocol: add `ip_proto`, {wanted}")));
            }
        }
    }
    Ok(meant.map(|(protocol, _)| protocol))
}

fn has_ports(protocol: Protocol) -> bool {
    [Protocol::TCP, Protocol::UDP, Protocol::SCTP].contains(&protocol)
}

fn is_icmp(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Icmp | Protocol::Icmp6 | Protocol::Number(1 | 58))
}

/// The Ethernet types of the packets that can have all fields; `None` stands for all types.
pub(super) fn ethernet_types(
    items: &[Named<'_>],
    protocol: Option<Protocol>,
) -> Result<Vec<Option<u128>>, FilterFault> {
    let mut common: Option<Vec<u128>> = None;
    for (at, named) in items.iter().enumerate() {
        let Some(own) = types_of(named, protocol) else { continue };
        let rest: Vec<u128> = match &common {
            None => own.clone(),
            Some(common) => common.iter().copied().filter(|eth| own.contains(eth)).collect(),
        };
        if rest.is_empty() {
            let apart = |other: &&Named<'_>| {
                types_of(other, protocol).is_some_and(|types| types.iter().all(|eth| !own.contains(eth)))
            };
            let (other, types) = match items[..at].iter().find(apart) {
                Some(other) => (other.1, types_of(other, protocol).unwrap_or_default()),
                None => ("another field", Vec::new()),
            };
            let message = format!(
                "is about {}, but `{other}` is about {}; remove one of the two",
                in_words(&own),
                in_words(&types)
            );
            return Err(FilterFault::new(named.1, message));
        }
        common = Some(rest);
    }
    Ok(common.map_or_else(|| vec![None], |common| common.into_iter().map(Some).collect()))
}

/// The Ethernet types of the packets that can have a field with its value; `None` if any packet can.
fn types_of((item, _): &Named<'_>, protocol: Option<Protocol>) -> Option<Vec<u128>> {
    let types: &[u128] = match (item.field, item.value) {
        (Field::EthType, FilterValue::Bits(eth, _)) => return Some(vec![eth]),
        (_, FilterValue::Address(ip, _)) => &IP[usize::from(ip.is_ipv6())..][..1],
        (_, FilterValue::Protocol(Protocol::Icmp6)) => &IP[1..],
        (Field::IcmpType | Field::IcmpCode, _) => match protocol {
            Some(Protocol::Number(1)) => &IP[..1],
            Some(Protocol::Number(58)) => &IP[1..],
            _ => IP,
        },
        _ => match item.field.info().prerequisite {
            Prerequisite::None | Prerequisite::Vlan | Prerequisite::Ct | Prerequisite::CtAddress => {
                return None;
            }
            Prerequisite::Arp => &[ETH_TYPE_ARP, ETH_TYPE_RARP],
            Prerequisite::Mpls => &[ETH_TYPE_MPLS, ETH_TYPE_MPLS_MCAST],
            Prerequisite::Ipv4 => &IP[..1],
            Prerequisite::Ipv6
            | Prerequisite::Icmp6
            | Prerequisite::Nd
            | Prerequisite::NdSolicit
            | Prerequisite::NdAdvert => &IP[1..],
            Prerequisite::Ip
            | Prerequisite::Icmp
            | Prerequisite::Tcp
            | Prerequisite::Udp
            | Prerequisite::Sctp => IP,
        },
    };
    Some(types.to_vec())
}

fn in_words(types: &[u128]) -> String {
    let name = match types {
        [ETH_TYPE_IP] => "IPv4",
        [ETH_TYPE_IPV6] => "IPv6",
        [ETH_TYPE_IP, ..] => "IP",
        [ETH_TYPE_ARP | ETH_TYPE_RARP, ..] => "ARP",
        [ETH_TYPE_MPLS | ETH_TYPE_MPLS_MCAST, ..] => "MPLS",
        [eth, ..] => return format!("packets of Ethernet type {eth:#06x}"),
        [] => "other",
    };
    format!("{name} packets")
}

/// The match of an Ethernet type and a protocol.
pub(super) fn base(eth: Option<u128>, protocol: Option<Protocol>) -> Match {
    let protocol = protocol.zip(eth).map(|(protocol, eth)| protocol.number(eth));
    let demands = [(Field::EthType, eth), (Field::IpProto, protocol)];
    demands.into_iter().fold(Match::any(), |found, (field, value)| match value {
        // Both values fit, and nothing is there that they could contradict.
        Some(value) => found.clone().with(field, value).unwrap_or(found),
        None => found,
    })
}

/// The parts of a match that mean an item, of which a packet needs to meet one.
pub(super) fn parts((item, _): &Named<'_>, eth: Option<u128>, protocol: Option<Protocol>) -> Vec<Part> {
    let six = eth == Some(ETH_TYPE_IPV6);
    match (item.field, item.value) {
        // The base has it.
        (Field::EthType | Field::IpProto, _) => vec![(item.field, 0, 0)],
        (field, FilterValue::Ports(first, last)) => {
            let field = match (field, protocol) {
                (Field::TcpSrc, Some(Protocol::UDP)) => Field::UdpSrc,
                (Field::TcpSrc, Some(Protocol::SCTP)) => Field::SctpSrc,
                (Field::TcpDst, Some(Protocol::UDP)) => Field::UdpDst,
                (Field::TcpDst, Some(Protocol::SCTP)) => Field::SctpDst,
                _ => field,
            };
            let prefixes = prefixes(first, last).into_iter();
            prefixes.map(|(value, mask)| (field, value.into(), mask.into())).collect()
        }
        (field, FilterValue::Address(ip, length)) => {
            let field = field.for_address(ip);
            let bits = match ip {
                std::net::IpAddr::V4(ip) => ip.to_bits().into(),
                std::net::IpAddr::V6(ip) => ip.to_bits(),
            };
            vec![(field, bits, prefix_mask(field.bits(), length.into()))]
        }
        (Field::VlanVid, FilterValue::Bits(id, _)) => vec![(Field::VlanVid, 0x1000 | id, 0x1fff)],
        (Field::IcmpType, FilterValue::Bits(value, mask)) if six => vec![(Field::Icmpv6Type, value, mask)],
        (Field::IcmpCode, FilterValue::Bits(value, mask)) if six => vec![(Field::Icmpv6Code, value, mask)],
        (field, FilterValue::Bits(value, mask)) => vec![(field, value, mask)],
        (field, FilterValue::Protocol(_)) => vec![(field, 0, 0)],
    }
}

/// The fewest prefixes that together are a range, each a value and its mask. Masks that are no prefixes could
/// sometimes be fewer, but Open vSwitch looks up prefixes of ports faster, and ranges share them.
fn prefixes(first: u16, last: u16) -> Vec<(u16, u16)> {
    let (mut next, end) = (u32::from(first), u32::from(last) + 1);
    let mut found = Vec::new();
    while next < end {
        let aligned = if next == 0 { 1 << 16 } else { 1 << next.trailing_zeros() };
        let mut size: u32 = aligned;
        while next + size > end {
            size >>= 1;
        }
        found.push((next as u16, !((size - 1) as u16)));
        next += size;
    }
    found
}

/// The fault of a field that contradicts another.
fn misfit((_, name): &Named<'_>, error: &MatchError) -> FilterFault {
    FilterFault::new(name, format!("{error}; remove this field or the other"))
}

/// The fault of a field that needs another one.
fn lacking(items: &[Named<'_>], error: &MatchError) -> FilterFault {
    let MatchError::Prerequisite { field, needs } = error else {
        return FilterFault::new("filter", error.to_string());
    };
    let is_it = |own: Field| {
        own == *field
            || matches!(
                (own, field),
                (Field::TcpSrc, Field::UdpSrc | Field::SctpSrc)
                    | (Field::TcpDst, Field::UdpDst | Field::SctpDst)
                    | (Field::IcmpType, Field::Icmpv6Type)
                    | (Field::IcmpCode, Field::Icmpv6Code)
            )
    };
    let name = items.iter().find(|(item, _)| is_it(item.field)).map_or("filter", |(_, name)| *name);
    let message = match needs {
        Prerequisite::Tcp | Prerequisite::Udp | Prerequisite::Sctp => {
            "is a field that later fragments do not have, but `ip_frag` says later; remove one of the two"
                .to_owned()
        }
        Prerequisite::Nd => {
            "needs `ip_proto: icmp6` and `icmp_type: 135` (solicitation) or 136 (advertisement), with no \
            `icmp_code` but 0"
                .to_owned()
        }
        Prerequisite::NdSolicit => {
            "needs `ip_proto: icmp6` and `icmp_type: 135` (solicitation), with no `icmp_code` but 0"
                .to_owned()
        }
        Prerequisite::NdAdvert => {
            "needs `ip_proto: icmp6` and `icmp_type: 136` (advertisement), with no `icmp_code` but 0"
                .to_owned()
        }
        needs => format!("needs {needs}"),
    };
    FilterFault::new(name, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least number of aligned blocks that make `first..=last`, by trying all blocks at each place.
    fn least(first: u32, last: u32) -> usize {
        let mut counts = vec![usize::MAX; (last - first + 2) as usize];
        counts[0] = 0;
        for place in 0..=(last - first) {
            let Some(next) = counts[place as usize].checked_add(1) else { continue };
            for size in (0..=16).map(|bits| 1u32 << bits) {
                let at = first + place;
                if at.is_multiple_of(size) && at + size <= last + 1 {
                    let count = &mut counts[(place + size) as usize];
                    *count = next.min(*count);
                }
            }
        }
        counts[(last - first + 1) as usize]
    }

    #[track_caller]
    fn check(first: u16, last: u16, probes: impl Iterator<Item = u16>) {
        let found = prefixes(first, last);
        for (value, mask) in &found {
            assert_eq!(value & !mask, 0, "{first}-{last}: {value:#x}/{mask:#x}");
            assert_eq!(mask.leading_ones() + mask.trailing_zeros(), 16, "{first}-{last}: {mask:#x}");
        }
        for port in probes {
            let count = found.iter().filter(|(value, mask)| port & mask == *value).count();
            assert_eq!(count, usize::from((first..=last).contains(&port)), "{first}-{last}: {port}");
        }
    }

    #[test]
    fn a_range_is_exactly_its_fewest_prefixes() {
        // All ranges of 6 bits, at the lower end, in the middle and at the upper end.
        for base in [0u16, 0x7fe0, 0xffc0] {
            for first in 0..64 {
                for last in first..64 {
                    let (first, last) = (base + first, base + last);
                    check(first, last, base.saturating_sub(2)..=base.saturating_add(65));
                    assert_eq!(
                        prefixes(first, last).len(),
                        least(first.into(), last.into()),
                        "{first}-{last}"
                    );
                }
            }
        }
    }

    #[test]
    fn ranges_of_all_widths_are_exact() {
        for (first, last) in [(0, 65535), (1, 65534), (1024, 65535), (8000, 8999), (0, 0), (65535, 65535)] {
            check(first, last, 0..=65535);
            assert_eq!(prefixes(first, last).len(), least(first.into(), last.into()));
        }
        assert_eq!(prefixes(1, 65534).len(), 30);
        assert_eq!(prefixes(0, 65535), [(0, 0)]);
    }
}

//! Ethernet types, IP protocols, and the keywords that stand for them in matches.

/// IPv4.
pub const ETH_TYPE_IP: u128 = 0x0800;
/// ARP.
pub const ETH_TYPE_ARP: u128 = 0x0806;
/// Reverse ARP.
pub const ETH_TYPE_RARP: u128 = 0x8035;
/// IPv6.
pub const ETH_TYPE_IPV6: u128 = 0x86dd;
/// MPLS, unicast.
pub const ETH_TYPE_MPLS: u128 = 0x8847;
/// MPLS, multicast.
pub const ETH_TYPE_MPLS_MCAST: u128 = 0x8848;
/// `ICMPv4`.
pub const PROTO_ICMP: u128 = 1;
pub(crate) const PROTO_TCP: u128 = 6;
pub(crate) const PROTO_UDP: u128 = 17;
/// `ICMPv6`.
pub const PROTO_ICMPV6: u128 = 58;
pub(crate) const PROTO_SCTP: u128 = 132;

/// Protocol keywords: name, Ethernet type, IP protocol.
pub const KEYWORDS: &[(&str, u128, Option<u128>)] = &[
    ("ip", ETH_TYPE_IP, None),
    ("icmp", ETH_TYPE_IP, Some(PROTO_ICMP)),
    ("tcp", ETH_TYPE_IP, Some(PROTO_TCP)),
    ("udp", ETH_TYPE_IP, Some(PROTO_UDP)),
    ("sctp", ETH_TYPE_IP, Some(PROTO_SCTP)),
    ("ipv6", ETH_TYPE_IPV6, None),
    ("icmp6", ETH_TYPE_IPV6, Some(PROTO_ICMPV6)),
    ("tcp6", ETH_TYPE_IPV6, Some(PROTO_TCP)),
    ("udp6", ETH_TYPE_IPV6, Some(PROTO_UDP)),
    ("sctp6", ETH_TYPE_IPV6, Some(PROTO_SCTP)),
    ("arp", ETH_TYPE_ARP, None),
    ("rarp", ETH_TYPE_RARP, None),
    ("mpls", ETH_TYPE_MPLS, None),
    ("mplsm", ETH_TYPE_MPLS_MCAST, None),
];

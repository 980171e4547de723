//! Packet filters.

use std::sync::Arc;

use super::Function;
use super::define::entry;

pub(super) fn functions() -> Vec<Function> {
    vec![
        entry(
            "packet_filter(filter) -> match",
            "The matches that together admit exactly the packets that the filter means: one for each IP version, or \
            other Ethernet type, that can have all of its fields, and for each prefix of its ranges of ports, of \
            which there are as few as possible. No packet satisfies two of them. Fragments after the first count as \
            having ports 0.",
        )
        .example(
            r#"packet_filter"ip_proto=tcp,tp_dst=22""#,
            r#"(match"tcp,tp_dst=22") (match"tcp6,tp_dst=22")"#,
        )
        .example(
            r#"packet_filter"ip_proto=tcp,ip_src=10.0.9.0/24,tp_dst=22""#,
            r#"(match"tcp,nw_src=10.0.9.0/24,tp_dst=22")"#,
        )
        .example(
            r#"packet_filter"ip_proto=udp,eth_type=ipv6,tp_src=4-6""#,
            r#"(match"udp6,tp_src=0x4/0xfffe") (match"udp6,tp_src=6")"#,
        )
        .example(r#"packet_filter"icmp_type=8""#, r#"(match"icmp,icmp_type=8") (match"icmp6,icmp_type=8")"#)
        .example(r#"packet_filter"""#, r#"(match"")"#)
        .unary(|filter: Arc<packet_filter::PacketFilter>| filter.matches()),
        entry(
            "connection_filter(filter) -> match",
            "The matches that together admit what the filter means at a port that tracks connections: where every IP \
            packet but messages of neighbour discovery (ICMPv6 types 133 to 136) and of multicast listeners (130, 131, \
            132 and 143) has gone through `ct`, and invalid ones were dropped. The IP addresses, protocol and ports, and \
            the type and code of ICMP, are those of the first packet of the connection, also for answers and for ICMP \
            errors; fields of other kinds, such as `nw_ttl` or `tcp_flags`, are the packet's own. A packet that is not \
            tracked has its own fields. No packet satisfies two of the matches. A filter without address, protocol or \
            ports says nothing of a connection: its matches are those of `packet_filter`. Fragments after the first count \
            as having ports 0, and so do all packets of SCTP where Open vSwitch has its datapath in user space. Protocol \
            0, which Open vSwitch does not match in a connection, is the packet's own.",
        )
        .example(
            r#"packet_filter"ip_proto=tcp,tp_dst=22""#,
            r#"(match"ct_state=-inv+trk,ct_nw_proto=6,ct_tp_dst=22")"#,
        )
        .example(
            r#"packet_filter"ip_proto=udp,ip_src=10.0.9.0/24,tp_dst=4-6""#,
            r#"(match"ct_state=-inv+trk,ct_nw_src=10.0.9.0/24,ct_nw_proto=17,ct_tp_dst=0x4/0xfffe,ip") (match"ct_state=-inv+trk,ct_nw_src=10.0.9.0/24,ct_nw_proto=17,ct_tp_dst=6,ip")"#,
        )
        .example(
            r#"packet_filter"ip_src=fd00::/64""#,
            r#"(match"ct_state=-inv+trk,ct_ipv6_src=fd00::/64,ipv6") (match"ct_state=-trk,ipv6,ipv6_src=fd00::/64")"#,
        )
        .example(
            r#"packet_filter"icmp_type=8""#,
            r#"(match"ct_state=-inv+trk,ct_nw_proto=1,ct_tp_src=8,ip") (match"ct_state=-inv+trk,ct_nw_proto=58,ct_tp_src=8,ipv6")"#,
        )
        .example(r#"packet_filter"icmpv6_type=135""#, r#"(match"ct_state=-trk,icmp6,icmp_type=135")"#)
        .example(r#"packet_filter"eth_type=arp""#, r#"(match"arp")"#)
        .unary(|filter: Arc<packet_filter::PacketFilter>| filter.connection_matches()),
        entry("to_string(filter) -> text", "The packet filter as a string, in canonical form.")
            .example(r#"packet_filter"tp_dst=22,nw_proto=6""#, r#""ip_proto=tcp,tp_dst=22""#)
            .example(r#"packet_filter"ipv6_src=FD00::/8""#, r#""ip_src=fd00::/8""#)
            .unary(|filter: Arc<packet_filter::PacketFilter>| filter.text().to_owned()),
    ]
}

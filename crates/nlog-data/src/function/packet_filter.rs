//! Packet filters.

use std::sync::Arc;

use openflow_rs::filter;

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
        .unary(|filter: Arc<filter::PacketFilter>| filter.matches()),
        entry("to_string(filter) -> text", "The packet filter as a string, in canonical form.")
            .example(r#"packet_filter"tp_dst=22,nw_proto=6""#, r#""ip_proto=tcp,tp_dst=22""#)
            .example(r#"packet_filter"ipv6_src=FD00::/8""#, r#""ip_src=fd00::/8""#)
            .unary(|filter: Arc<filter::PacketFilter>| filter.text().to_owned()),
    ]
}

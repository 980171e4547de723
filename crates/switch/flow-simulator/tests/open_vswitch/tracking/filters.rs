//! The matches of packet filters at a port that tracks connections, in the switch and here.

use frame_builder::{BROADCAST, ethernet};
use packet_filter::PacketFilter;

use super::packets::*;
use super::{Both, lines};

/// What the port does not track goes on with its own fields. Port 1 begins connections.
const TRACKING: [&str; 6] = [
    "priority=2,icmp6,icmp_type=130 actions=resubmit(,1)",
    "priority=2,icmp6,icmp_type=135 actions=resubmit(,1)",
    "priority=1,in_port=1,ip actions=ct(commit,zone=5,table=1)",
    "priority=1,in_port=1,ipv6 actions=ct(commit,zone=5,table=1)",
    "priority=1,in_port=2,ip actions=ct(zone=5,table=1)",
    "priority=0 actions=resubmit(,1)",
];

/// Packets with names, in order, and the ports that receive them.
fn packets() -> Vec<(&'static str, u16, Vec<u8>)> {
    let listeners = [&[0; 4][..], &[0; 16]].concat();
    vec![
        ("udp", 1, AB.frame(&AB.udp(7, 8))),
        ("udp-back", 2, BA.frame(&BA.udp(8, 7))),
        ("udp-error", 2, CA.frame(&CA.error(3, &AB.udp(7, 8)))),
        ("udp6", 1, AB.v6().frame(&AB.v6().udp(7, 8))),
        ("echo", 1, AB.frame(&AB.echo(false, 7))),
        ("echo6", 1, AB.v6().frame(&AB.v6().echo(false, 7))),
        ("nd", 1, AB.v6().frame(&AB.v6().icmp(135, 0, &listeners))),
        ("mld", 1, AB.v6().frame(&AB.v6().icmp(130, 0, &listeners))),
        ("other", 1, ethernet(BROADCAST, TO, 0x88cc, &[7; 46])),
    ]
}

#[test]
fn a_switch_takes_the_matches_of_filters_of_connections_and_admits_what_they_mean() {
    let mut both = Both::start();
    for (filter, expected) in [
        ("", "udp udp-back udp-error udp6 echo echo6 nd mld other"),
        ("eth_type=ip", "udp udp-back udp-error echo"),
        ("ip_proto=udp", "udp udp-back udp-error udp6"),
        ("ip_proto=udp,tp_dst=8-9", "udp udp-back udp-error udp6"),
        ("ip_proto=udp,tp_src=8", ""),
        ("ip_proto=udp,eth_type=ipv6", "udp6"),
        ("ip_proto=udp,nw_ttl=64", "udp udp-back udp-error"),
        ("ip_proto=udp,nw_ttl=255", "udp6"),
        ("ip_src=10.0.0.1", "udp udp-back udp-error echo"),
        ("ip_src=10.0.0.0/8,ip_dst=10.0.0.1", ""),
        ("ip_src=fd00::/64", "udp6 echo6 nd mld"),
        ("ip_proto=icmp", "echo echo6 nd mld"),
        ("ip_proto=58", "echo6 nd mld"),
        ("icmp_type=8", "echo"),
        ("icmp_type=128,icmp_code=0", "echo6"),
        ("icmp_type=135", "nd"),
        ("icmp_type=3", ""),
        ("ip_proto=0", ""),
        ("ip_proto=tcp,tcp_flags=+syn,dl_vlan=5", ""),
        ("eth_type=0x88cc", "other"),
    ] {
        let matches = filter.parse::<PacketFilter>().expect("a filter").connection_matches();
        let mut flows = lines(&TRACKING);
        for matches in matches.iter().map(ToString::to_string) {
            let comma = if matches.is_empty() { "" } else { "," };
            flows.push(format!("table=1,priority=1{comma}{matches} actions=output:3"));
        }
        both.load(&flows).unwrap_or_else(|refused| panic!("{filter}: {refused}"));
        let mut admitted = Vec::new();
        for (name, port, frame) in packets() {
            let sent =
                both.receive(port, &frame).unwrap_or_else(|difference| panic!("{filter}: {difference}"));
            admitted.extend((!sent.is_empty()).then_some(name));
        }
        assert_eq!(admitted.join(" "), expected, "{filter}: {matches:?}");
    }
}

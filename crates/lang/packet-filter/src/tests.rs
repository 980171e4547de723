//! What filters read, how they print, and the matches that they become.

use super::*;

fn filter(text: &str) -> PacketFilter {
    text.parse().unwrap_or_else(|faults| panic!("{text}: {faults}"))
}

#[track_caller]
fn becomes(text: &str, matches: &[&str]) {
    let filter = filter(text);
    let found: Vec<String> = filter.matches().iter().map(ToString::to_string).collect();
    assert_eq!(found, matches, "{text}");
    // What a filter prints is the filter.
    assert_eq!(filter.text().parse(), Ok(filter.clone()));
    let items: Vec<(&str, String)> = filter.items().collect();
    let again = PacketFilter::new(items.iter().map(|(name, value)| (*name, value.as_str())));
    assert_eq!(again, Ok(filter));
}

#[track_caller]
fn faults(text: &str, messages: &[&str]) {
    let found = match text.parse::<PacketFilter>() {
        Ok(filter) => panic!("{text} is read as {filter}"),
        Err(FilterFaults(faults)) => faults,
    };
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), messages, "{text}");
}

#[test]
fn fields_of_both_versions_become_a_match_for_each() {
    becomes("", &[""]);
    becomes("ip_proto=tcp,tp_dst=22", &["tcp,tp_dst=22", "tcp6,tp_dst=22"]);
    becomes("ip_proto=udp,tp_src=53", &["udp,tp_src=53", "udp6,tp_src=53"]);
    becomes("ip_proto=sctp,tp_dst=1", &["sctp,tp_dst=1", "sctp6,tp_dst=1"]);
    becomes("ip_proto=icmp", &["icmp", "icmp6"]);
    becomes("icmp_type=8,icmp_code=0", &["icmp,icmp_type=8,icmp_code=0", "icmp6,icmp_type=8,icmp_code=0"]);
    becomes("ip_proto=1", &["icmp", "ipv6,nw_proto=1"]);
    becomes("ip_proto=47", &["ip,nw_proto=47", "ipv6,nw_proto=47"]);
    becomes("nw_ttl=1", &["ip,nw_ttl=1", "ipv6,nw_ttl=1"]);
    becomes("ip_dscp=46,nw_ecn=1", &["ip,nw_tos=184,nw_ecn=1", "ipv6,nw_tos=184,nw_ecn=1"]);
    becomes("ip_frag=later", &["ip,nw_frag=later", "ipv6,nw_frag=later"]);
    becomes("tcp_flags=+syn-ack", &["tcp,tcp_flags=+syn-ack", "tcp6,tcp_flags=+syn-ack"]);
}

#[test]
fn addresses_and_ethernet_types_decide_the_version() {
    becomes("ip_src=10.0.9.0/24", &["ip,nw_src=10.0.9.0/24"]);
    becomes("ip_proto=tcp,ip_src=10.0.9.0/24,tp_dst=22", &["tcp,nw_src=10.0.9.0/24,tp_dst=22"]);
    becomes("ip_dst=FD00::/8,ip_proto=tcp", &["tcp6,ipv6_dst=fd00::/8"]);
    becomes("ip_src=0.0.0.0/0", &["ip"]);
    becomes("ip_src=::/0,ip_dst=fd00::1", &["ipv6,ipv6_dst=fd00::1"]);
    becomes("ip_proto=tcp,eth_type=ip", &["tcp"]);
    becomes("icmp_type=8,eth_type=0x0800", &["icmp,icmp_type=8"]);
    becomes("ip_proto=1,icmp_type=8", &["icmp,icmp_type=8"]);
    becomes("ip_proto=58,icmp_type=128", &["icmp6,icmp_type=128"]);
    becomes("ip_proto=icmp6", &["icmp6"]);
    becomes("ipv6_label=5", &["ipv6,ipv6_label=0x00005"]);
}

#[test]
fn ranges_of_ports_become_prefixes_and_multiply() {
    becomes("ip_proto=tcp,eth_type=ip,tp_dst=80-83", &["tcp,tp_dst=0x50/0xfffc"]);
    becomes(
        "ip_proto=udp,ip_src=10.0.0.1,tp_src=1-2,tp_dst=4-6",
        &[
            "udp,nw_src=10.0.0.1,tp_src=1,tp_dst=0x4/0xfffe",
            "udp,nw_src=10.0.0.1,tp_src=1,tp_dst=6",
            "udp,nw_src=10.0.0.1,tp_src=2,tp_dst=0x4/0xfffe",
            "udp,nw_src=10.0.0.1,tp_src=2,tp_dst=6",
        ],
    );
    becomes("ip_proto=tcp,tp_dst=0-65535", &["tcp", "tcp6"]);
    assert_eq!(filter("ip_proto=tcp,tp_src=1-65534,tp_dst=1-65534").matches().len(), 2 * 30 * 30);
}

#[test]
fn other_fields_are_those_of_open_vswitch() {
    becomes("eth_dst=01:00:00:00:00:00/01:00:00:00:00:00", &["dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"]);
    becomes("dl_src=02:00:00:00:00:01,dl_type=0x88cc", &["dl_src=02:00:00:00:00:01,dl_type=0x88cc"]);
    becomes("dl_vlan=5,vlan_pcp=3", &["dl_vlan=5,dl_vlan_pcp=3"]);
    becomes("vlan_tci=0/0x1000", &["vlan_tci=0x0000/0x1000"]);
    becomes("eth_type=arp,arp_tpa=10.0.0.1", &["arp,arp_tpa=10.0.0.1"]);
    becomes("arp_op=1", &["arp,arp_op=1", "rarp,arp_op=1"]);
    becomes("mpls_label=5", &["mpls,mpls_label=5", "mplsm,mpls_label=5"]);
    becomes("icmpv6_type=135,nd_target=fd00::1", &["icmp6,icmp_type=135,nd_target=fd00::1"]);
}

#[track_caller]
fn tracks(text: &str, matches: &[&str]) {
    let found: Vec<String> = filter(text).connection_matches().iter().map(ToString::to_string).collect();
    let state = "ct_state=-inv+trk,";
    let expected: Vec<String> = matches
        .iter()
        .map(|text| {
            text.strip_prefix("+ ").map_or_else(|| (*text).to_owned(), |rest| format!("{state}{rest}"))
        })
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn a_protocol_of_a_connection_is_one_match_for_both_versions() {
    tracks("ip_proto=tcp,tp_dst=22", &["+ ct_nw_proto=6,ct_tp_dst=22"]);
    tracks("ip_proto=udp,tp_src=53", &["+ ct_nw_proto=17,ct_tp_src=53"]);
    tracks("ip_proto=sctp,tp_dst=1", &["+ ct_nw_proto=132,ct_tp_dst=1"]);
    tracks("ip_proto=47", &["+ ct_nw_proto=47"]);
    tracks("ip_proto=1", &["+ ct_nw_proto=1"]);
    tracks("ip_proto=tcp,tp_dst=80-83", &["+ ct_nw_proto=6,ct_tp_dst=0x50/0xfffc"]);
    tracks(
        "ip_proto=tcp,tp_src=1-2,tp_dst=4-6",
        &[
            "+ ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=0x4/0xfffe",
            "+ ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=6",
            "+ ct_nw_proto=6,ct_tp_src=2,ct_tp_dst=0x4/0xfffe",
            "+ ct_nw_proto=6,ct_tp_src=2,ct_tp_dst=6",
        ],
    );
    tracks("ip_proto=tcp,tp_dst=0-65535", &["+ ct_nw_proto=6"]);
    // Open vSwitch takes protocol 0 of a connection for none.
    tracks("ip_proto=0", &["+ ip,nw_proto=0", "+ ipv6,nw_proto=0"]);
}

#[test]
fn versions_of_connections_are_apart_where_they_differ() {
    tracks("ip_proto=tcp,eth_type=ip,tp_dst=22", &["+ ct_nw_proto=6,ct_tp_dst=22,ip"]);
    tracks("ip_proto=tcp,eth_type=ipv6", &["+ ct_nw_proto=6,ipv6"]);
    tracks("ip_src=10.0.9.0/24", &["+ ct_nw_src=10.0.9.0/24,ip"]);
    tracks("ip_proto=tcp,ip_dst=10.0.0.1,tp_dst=22", &["+ ct_nw_dst=10.0.0.1,ct_nw_proto=6,ct_tp_dst=22,ip"]);
    tracks("ip_proto=tcp,ip_src=0.0.0.0/0", &["+ ct_nw_proto=6,ip"]);
    tracks("ip_proto=tcp,ip_src=FD00::/8", &["+ ct_ipv6_src=fd00::/8,ct_nw_proto=6,ipv6"]);
    tracks("icmp_type=8", &["+ ct_nw_proto=1,ct_tp_src=8,ip", "+ ct_nw_proto=58,ct_tp_src=8,ipv6"]);
    tracks("ip_proto=1,icmp_type=8,icmp_code=0", &["+ ct_nw_proto=1,ct_tp_src=8,ct_tp_dst=0,ip"]);
    tracks("icmpv6_type=128", &["+ ct_nw_proto=58,ct_tp_src=128,ipv6"]);
}

#[test]
fn packets_that_are_not_tracked_have_their_own_fields() {
    tracks("ip_proto=icmp", &["+ ct_nw_proto=1,ip", "+ ct_nw_proto=58,ipv6", "ct_state=-trk,icmp6"]);
    tracks("ip_proto=icmp6", &["+ ct_nw_proto=58,ipv6", "ct_state=-trk,icmp6"]);
    tracks("ip_proto=58", &["+ ct_nw_proto=58", "ct_state=-trk,icmp6"]);
    tracks(
        "ip_proto=icmp6,icmp_code=0,ip_src=fe80::/64",
        &[
            "+ ct_ipv6_src=fe80::/64,ct_nw_proto=58,ct_tp_dst=0,ipv6",
            "ct_state=-trk,icmp6,ipv6_src=fe80::/64,icmp_code=0",
        ],
    );
    tracks("ip_dst=fd00::1", &["+ ct_ipv6_dst=fd00::1,ipv6", "ct_state=-trk,ipv6,ipv6_dst=fd00::1"]);
    for kind in [130, 131, 132, 133, 134, 135, 136, 143] {
        let own = format!("ct_state=-trk,icmp6,icmp_type={kind}");
        tracks(&format!("icmpv6_type={kind}"), &[&own]);
        let four = format!("+ ct_nw_proto=1,ct_tp_src={kind},ip");
        tracks(&format!("icmp_type={kind}"), &[&four, &own]);
    }
    tracks("icmpv6_type=135,nd_target=fd00::1", &["ct_state=-trk,icmp6,icmp_type=135,nd_target=fd00::1"]);
}

#[test]
fn what_says_nothing_of_a_connection_is_matched_whether_or_not_it_is_tracked() {
    for text in [
        "",
        "eth_type=ip",
        "eth_type=ipv6",
        "eth_type=arp",
        "eth_type=0x88cc",
        "ip_src=0.0.0.0/0",
        "ip_src=::/0",
        "arp_op=1",
        "eth_src=02:00:00:00:00:01,dl_vlan=5",
        "ip_dscp=46",
        "nw_ttl=1",
        "ip_frag=later",
        "ipv6_label=5",
        "mpls_label=5",
    ] {
        assert_eq!(filter(text).connection_matches(), filter(text).matches(), "{text}");
    }
}

#[test]
fn fields_that_a_connection_lacks_are_those_of_each_packet() {
    tracks("eth_src=02:00:00:00:00:01,ip_proto=tcp", &["+ ct_nw_proto=6,dl_src=02:00:00:00:00:01"]);
    tracks("dl_vlan=5,ip_proto=tcp", &["+ ct_nw_proto=6,dl_vlan=5"]);
    tracks("ip_proto=tcp,nw_ttl=1", &["+ ct_nw_proto=6,ip,nw_ttl=1", "+ ct_nw_proto=6,ipv6,nw_ttl=1"]);
    let flags = ["+ ct_nw_proto=6,tcp,tcp_flags=+syn-ack", "+ ct_nw_proto=6,tcp6,tcp_flags=+syn-ack"];
    tracks("tcp_flags=+syn-ack", &flags);
    tracks("ip_proto=tcp,tcp_flags=+syn-ack", &flags);
    tracks(
        "ip_proto=tcp,tcp_flags=+syn,ip_src=10.0.0.1,tp_dst=22",
        &["+ ct_nw_src=10.0.0.1,ct_nw_proto=6,ct_tp_dst=22,tcp,tcp_flags=+syn"],
    );
    tracks(
        "ip_src=fd00::1,ip_dscp=46",
        &["+ ct_ipv6_src=fd00::1,ipv6,nw_tos=184", "ct_state=-trk,ipv6,ipv6_src=fd00::1,nw_tos=184"],
    );
}

#[test]
fn spellings_of_one_filter_are_one_value() {
    for (text, canonical) in [
        ("tp_dst=22,ip_proto=6", "ip_proto=tcp,tp_dst=22"),
        (" nw_proto = tcp , tcp_dst = 0x16 ", "ip_proto=tcp,tp_dst=22"),
        ("udp_src=53", "ip_proto=udp,tp_src=53"),
        ("icmpv6_type=128", "ip_proto=icmp6,icmp_type=128"),
        ("ipv6_src=FD00:0::/16", "ip_src=fd00::/16"),
        ("nw_dst=10.0.0.1/32", "ip_dst=10.0.0.1"),
        ("nw_tos=184", "ip_dscp=46"),
        ("dl_type=0x0806", "eth_type=arp"),
        ("ip_proto=tcp,tp_dst=80-80", "ip_proto=tcp,tp_dst=80"),
        ("dl_src=02:00:00:00:00:01/ff:ff:ff:00:00:00", "eth_src=02:00:00:00:00:00/ff:ff:ff:00:00:00"),
    ] {
        assert_eq!(filter(text).text(), canonical);
        assert_eq!(filter(text), filter(canonical));
    }
}

#[test]
fn faults_name_the_field_and_the_remedy() {
    faults("tp_dts=22", &["tp_dts: unknown field; did you mean `tp_dst`?"]);
    faults("tcp", &["tcp: is not a field with its value; write it as tp_dst=22"]);
    faults(
        "ip_proto=tpc,tp_dst=70000,tp_src=9-8,ip_src=10.0.0.1/24,ip_dst=here",
        &[
            "ip_proto: `tpc` is not an IP protocol; did you mean `tcp`?",
            "tp_dst: `70000` is not a port or a range of ports; write 22 or 8000-8999",
            "tp_src: `9-8` begins after its end; write 8-9",
            "ip_src: `10.0.0.1/24` has host bits; write it as 10.0.0.0/24",
            "ip_dst: `here` is not an IP address or a prefix; write it as 10.0.0.1, 10.0.0.0/24 or fd00::/64",
        ],
    );
    faults(
        "ip_proto=300",
        &[
            "ip_proto: `300` is not an IP protocol; write tcp, udp, sctp, icmp (of both IP versions), icmp6, or a number up to 255",
        ],
    );
    faults(
        "eth_type=ethernet",
        &[
            "eth_type: `ethernet` is not an Ethernet type; write ip, ipv6, arp, rarp, mpls, mplsm or a number up to 0xffff",
        ],
    );
    faults("ipv6_src=10.0.0.1", &["ipv6_src: `10.0.0.1` is an IPv4 address, and ipv6_src takes IPv6"]);
    faults("dl_vlan=4096", &["dl_vlan: `4096` is not the id of a VLAN, which is a number from 0 to 4095"]);
    faults("nw_ttl=256", &["nw_ttl: 0x100 does not fit nw_ttl: the largest value is 0xff"]);
    faults("eth_src=0:0:0:0:0:0/0:0:0:0:0:0", &["eth_src: a mask of 0 says nothing; remove the field"]);
}

#[test]
fn contradictions_are_faults_of_a_field() {
    faults("tp_dst=22", &["tp_dst: needs a protocol: add `ip_proto`, tcp, udp or sctp"]);
    faults(
        "ip_proto=icmp,tp_dst=22",
        &["tp_dst: belongs to tcp, udp or sctp, but `ip_proto` says icmp; remove one of the two"],
    );
    faults(
        "ip_proto=tcp,icmp_type=8",
        &["icmp_type: belongs to icmp, but `ip_proto` says tcp; remove one of the two"],
    );
    faults(
        "nw_proto=udp,tcp_dst=80",
        &["tcp_dst: belongs to tcp, but `nw_proto` says udp; remove one of the two"],
    );
    faults(
        "tcp_flags=+syn,icmp_type=8",
        &["tcp_flags: belongs to tcp, but `icmp_type` belongs to icmp; remove one of the two"],
    );
    faults(
        "ip_src=10.0.0.1,ip_dst=fd00::1",
        &["ip_dst: is about IPv6 packets, but `ip_src` is about IPv4 packets; remove one of the two"],
    );
    faults(
        "nw_src=10.0.0.1,eth_type=arp",
        &["nw_src: is about IPv4 packets, but `eth_type` is about ARP packets; remove one of the two"],
    );
    faults(
        "ip_proto=icmp6,ip_dst=10.0.0.1",
        &["ip_dst: is about IPv4 packets, but `ip_proto` is about IPv6 packets; remove one of the two"],
    );
    faults(
        "eth_type=0x88cc,nw_ttl=1",
        &[
            "nw_ttl: is about IP packets, but `eth_type` is about packets of Ethernet type 0x88cc; remove one of the two",
        ],
    );
    faults(
        "ip_src=10.0.0.1,nw_src=10.0.0.1",
        &["nw_src: says the same field as `ip_src`; remove one of the two"],
    );
    faults(
        "ip_proto=tcp,tp_dst=1,tcp_dst=1",
        &["tcp_dst: says the same field as `tp_dst`; remove one of the two"],
    );
    faults(
        "ip_proto=tcp,tp_dst=1,ip_frag=later",
        &[
            "tp_dst: is a field that later fragments do not have, but `ip_frag` says later; remove one of the two",
        ],
    );
    faults(
        "icmp_type=135,eth_type=ipv6,nd_tll=02:00:00:00:00:01",
        &["nd_tll: needs `ip_proto: icmp6` and `icmp_type: 136` (advertisement), with no `icmp_code` but 0"],
    );
    faults(
        "dl_vlan=5,vlan_tci=0/0x1000",
        &[
            "dl_vlan: vlan_tci cannot be both 0x0 and 0x1005: no packet would match; remove this field or the other",
        ],
    );
}

#[test]
fn fields_of_the_network_itself_are_refused_with_a_reason() {
    for (name, reason) in [
        ("reg0", "the network itself uses it on the way of a packet"),
        ("xxreg1", "the network itself uses it on the way of a packet"),
        ("metadata", "the network itself uses it on the way of a packet"),
        ("conj_id", "the network itself uses it on the way of a packet"),
        ("in_port", "numbers of ports differ from host to host; write `eth_src` or `ip_src`"),
        ("tun_id", "tunnels between hosts belong to the network"),
        ("tunnel_id", "tunnels between hosts belong to the network"),
        ("ct_state", "the network itself tracks connections"),
        ("packet_type", "all packets are Ethernet packets"),
        ("vlan_vid", "it contains OpenFlow's bit for a tag; write `dl_vlan`, the id of the VLAN"),
    ] {
        faults(&format!("{name}=1"), &[&format!("{name}: cannot be matched: {reason}")]);
    }
    // Every name of the field table is in one of the two lists.
    let allowed: Vec<&str> = field_names().collect();
    let all = openflow_rs::literal::field_names().filter(|known| known.field.is_some()).count();
    assert_eq!(allowed.len() + refused_names().count(), all);
    for name in ["ip_proto", "nw_proto", "ip_src", "ipv6_src", "tp_dst", "icmp_type", "dl_vlan", "eth_type"] {
        assert!(allowed.contains(&name), "{name}");
    }
}

//! The packets of tests as bytes.

use openflow_rs::MacAddr;
use packet_trace::frame::{Addresses, frame, text};

fn own() -> Addresses {
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let ips = ["10.0.0.1", "fd00::1"].map(|ip| (ip.parse().expect("an address"), mac));
    Addresses { macs: vec![mac], ips: ips.to_vec() }
}

fn built(fields: &str) -> Result<String, String> {
    let fields = fields.parse().unwrap_or_else(|error| panic!("{fields}: {error}"));
    frame(&fields, &own()).map(|bytes| text(&bytes))
}

#[test]
fn what_is_left_out_is_the_sender_s_or_usual() {
    for (fields, whole) in [
        (
            "dl_dst=ff:ff:ff:ff:ff:ff",
            "udp,dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,nw_src=10.0.0.1,nw_dst=192.0.2.2,nw_ttl=64,\
             tp_src=49152,tp_dst=49153",
        ),
        (
            "arp,arp_tpa=10.0.0.2",
            "arp,dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_op=1,\
             arp_sha=02:00:00:00:00:01",
        ),
        (
            "icmp6,icmp_type=135,nd_target=fd00::2",
            "icmp6,dl_src=02:00:00:00:00:01,dl_dst=33:33:ff:00:00:02,ipv6_src=fd00::1,ipv6_dst=ff02::1:ff00:2,\
             nw_ttl=255,icmp_type=135,nd_target=fd00::2,nd_sll=02:00:00:00:00:01,nd_options_type=1",
        ),
        (
            "dl_vlan=7,dl_dst=02:00:00:00:00:02,tcp,tp_dst=80",
            "tcp,dl_vlan=7,dl_vlan_pcp=0,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=10.0.0.1,\
             nw_dst=192.0.2.2,nw_ttl=64,tp_src=49152,tp_dst=80,tcp_flags=syn",
        ),
        (
            "dl_type=0x88cc,dl_dst=02:00:00:00:00:02",
            "dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,dl_type=0x88cc",
        ),
    ] {
        assert_eq!(built(fields).as_deref(), Ok(whole), "{fields}");
    }
}

#[test]
fn every_field_that_is_given_is_that_of_the_frame() {
    for fields in [
        "dl_src=02:00:00:00:00:09,dl_dst=02:00:00:00:00:02,ip,nw_src=1.2.3.4,nw_tos=184,nw_ecn=2,nw_ttl=1",
        "dl_dst=02:00:00:00:00:02,icmp,icmp_type=3,icmp_code=4",
        "dl_dst=02:00:00:00:00:02,udp6,ipv6_src=fd00::9,ipv6_dst=fd00::8,ipv6_label=0x12345,tp_src=1,tp_dst=2",
        "dl_dst=02:00:00:00:00:02,icmp6,icmp_type=136,nd_target=fd00::2,nd_tll=02:00:00:00:00:07",
        "dl_dst=02:00:00:00:00:02,arp,arp_op=2,arp_sha=02:00:00:00:00:03,arp_tha=02:00:00:00:00:04,arp_spa=1.1.1.1",
        "dl_dst=02:00:00:00:00:02,dl_vlan=7,dl_vlan_pcp=3",
        "dl_dst=02:00:00:00:00:02,ip,nw_proto=47",
        "dl_dst=02:00:00:00:00:02,tcp,tcp_flags=+fin+ack",
    ] {
        // `frame` compares.
        assert!(built(fields).is_ok(), "{fields}: {:?}", built(fields));
    }
}

#[test]
fn a_packet_that_cannot_be_is_refused_by_name() {
    for (fields, part) in [
        ("tcp", "write eth_dst"),
        ("dl_dst=02:00:00:00:00:02,sctp,tp_dst=7", "sctp_dst"),
        ("dl_dst=02:00:00:00:00:02,ip,nw_frag=later", "ip_frag"),
    ] {
        let why = built(fields).expect_err("no such packet");
        assert!(why.contains(part), "{fields}: {why}");
    }
}

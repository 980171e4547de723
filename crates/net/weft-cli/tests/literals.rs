//! `match{…}` and `actions[…]` from outside: every program runs in every way to evaluate
//! ([`crate::support::eval`]).

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::support::eval;

/// Checks the rows that a rule derives from these rows of `p(port: int, mac: mac, ip: ip, net:
/// net)`.
#[track_caller]
fn gives(head: &str, ty: &str, rows: &str, wanted: &str) {
    let program = format!(
        "input table p(port: int, mac: mac, ip: ip, net: net); output table o(x: {ty});
         o({head}) :- p(port, mac, ip, net), port == port, mac == mac, ip == ip, net == net;"
    );
    let outcome = eval(&program, &format!("{{\"insert\":{{\"p\":[{rows}]}}}}\n"));
    let insert = if wanted.is_empty() { String::new() } else { format!("\"o\":[{wanted}]") };
    let line = format!("{{\"txn\":1,\"insert\":{{{insert}}},\"delete\":{{}}}}\n");
    assert_eq!(outcome.has_status(0).stdout, line, "{head}");
}

const ONE: &str = r#"[3,"02:00:00:00:00:01","10.0.0.1","10.0.0.0/24"]"#;
const SIX: &str = r#"[4,"02:00:00:00:00:02","fe80::1","fe80::/64"]"#;

#[test]
fn a_literal_is_what_its_functions_are() {
    for (literal, functions) in [
        ("match{}", "match_any()"),
        ("match{in_port: port, eth_dst: mac}", "match_in_port(port) & match_eth_dst(mac)"),
        ("match{arp, arp_op: 1, arp_tpa: ip}", "match_arp_op(1) & match_arp_tpa(ip)"),
        ("match{tcp, ip_dst: net, tcp_dst: 80}", "match_ip_dst(net) & match_tcp_dst(80)"),
        ("match{reg2: port / 0xff, untagged}", "match_reg2_masked(port, 0xff) & match_untagged()"),
        ("match{reg4: ip, xreg0: mac}", "match_reg4(ip) & match_xreg0(mac)"),
        (
            "match{vlan_tci: 0x1000/0x1000} & match{metadata: port}",
            "match_vlan_tci_masked(0x1000, 0x1000) & match_metadata(port)",
        ),
    ] {
        gives(&format!("{literal} == ({functions})"), "bool", ONE, "[true]");
    }
    for (literal, functions) in [
        ("actions[set(reg15, port), resubmit(32)]", "set_reg15(port) ++ resubmit(32)"),
        (
            "actions[move(xreg3[0..47], eth_src), output_field(reg12)]",
            r#"move_field("xreg3[0..47]", "eth_src") ++ output_field("reg12")"#,
        ),
        ("actions[set(tun_dst, ip)] ++ actions[output(port)]", "set_tun_dst(ip) ++ flow_output_action(port)"),
        ("actions[set(reg0, 0x10/0xf0)]", "set_reg0_masked(0x10, 0xf0)"),
    ] {
        gives(&format!("{literal} == ({functions})"), "bool", ONE, "[true]");
    }
}

#[test]
fn bits_masks_and_flags_are_those_of_the_switch() {
    gives("match{reg5[0..15]: port, reg5[31]: 1}", "match", ONE, r#"["reg5=0x80000003/0x8000ffff"]"#);
    gives(
        "match{ct_state: \"+trk+est-rel\", tcp, tcp_flags: \"+syn-ack\"}",
        "match",
        ONE,
        r#"["ct_state=+est-rel+trk,tcp,tcp_flags=+syn-ack"]"#,
    );
    gives(
        "match{eth_dst: mac\"01:00:00:00:00:00\"/mac\"01:00:00:00:00:00\"}",
        "match",
        ONE,
        r#"["dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"]"#,
    );
    gives("actions[]", "actions", ONE, r#"["drop"]"#);
}

/// The address decides whether the packet is IPv4 or IPv6; a match that no packet satisfies yields
/// no row.
#[test]
fn one_rule_serves_both_versions() {
    let both = format!("{ONE},{SIX}");
    gives("match{ip_dst: ip}", "match", &both, r#"["ip,nw_dst=10.0.0.1"],["ipv6,ipv6_dst=fe80::1"]"#);
    gives("match{tcp, ip_dst: ip, tcp_dst: 80}", "match", &both, r#"["tcp,nw_dst=10.0.0.1,tp_dst=80"]"#);
    gives("match{ipv6, ip_src: net}", "match", &both, r#"["ipv6,ipv6_src=fe80::/64"]"#);
    gives("match{arp} & match{ip_src: net}", "match", &both, "");
}

#[test]
fn a_value_that_does_not_fit_refuses_the_transaction() {
    let program = "input table p(port: int); output table o(x: match);
                   o(match{ip, nw_ttl: port}) :- p(port);";
    let outcome = eval(program, "{\"insert\":{\"p\":[[256]]}}\n{\"insert\":{\"p\":[[255]]}}\n");
    let lines: Vec<&str> = outcome.has_status(1).stdout.lines().collect();
    assert!(lines[0].starts_with(r#"{"txn":1,"error":{"code":"range","message":"#), "{}", lines[0]);
    assert!(lines[0].contains("256 does not fit nw_ttl, which has 8 bits"), "{}", lines[0]);
    assert_eq!(lines[1], r#"{"txn":2,"insert":{"o":[["ip,nw_ttl=255"]]},"delete":{}}"#);
}

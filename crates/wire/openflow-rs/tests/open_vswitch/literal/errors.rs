//! Each kind of mistake is found, in its place, with a remedy.

use openflow_rs::literal::{self, Kind, MatchItem, TemplateError, Term, Value, Where};

use super::read;

/// One line for each error: problem, path, `name` if the name is at fault, message; remedy.
fn show(errors: &[TemplateError]) -> Vec<String> {
    let line = |e: &TemplateError| {
        let at = if e.at == Where::Name { " name" } else { "" };
        format!("{:?} {:?}{at}: {}; {}", e.problem, e.path, e.message, e.remedy)
    };
    errors.iter().map(line).collect()
}

#[track_caller]
fn actions(text: &str, expected: &[&str]) {
    let errors = literal::actions(&read::actions(text)).err().unwrap_or_default();
    assert_eq!(show(&errors), expected, "{text}");
}

#[track_caller]
fn matches(text: &str, expected: &[&str]) {
    let errors = literal::matches(&read::matches(text)).err().unwrap_or_default();
    assert_eq!(show(&errors), expected, "{text}");
}

#[test]
fn unknown_names() {
    actions(
        "frobnicate(1), resubmitt(3)",
        &[
            "UnknownAction [0] name: `frobnicate` is not an action; the actions here are output, local, in_port, \
             normal, flood, all, output_field, set, move, resubmit, group, dec_ttl, mod_nw_ttl, push_vlan, \
             pop_vlan, ct_clear, check_pkt_larger, note, exit, push, pop, set_queue, pop_queue, clone, \
             conjunction, ct, learn, meter, sample, controller, clear_actions, write_actions, write_metadata, \
             goto_table",
            "UnknownAction [1] name: `resubmitt` is not an action; did you mean `resubmit`?",
        ],
    );
    actions(
        "nat",
        &[
            "UnknownAction [0] name: `nat` cannot be used in the action list of a flow; it can be used within `ct`",
        ],
    );
    actions("set(regg0, 5)", &["UnknownField [0, 0] name: `regg0` is not a field; did you mean `reg0`?"]);
    actions("ct(comit)", &["Argument [0, 0]: `ct` has no flag `comit`; did you mean `commit`?"]);
    actions("ct(zon: 5)", &["Argument [0, 0] name: `ct` has no argument `zon`; did you mean `zone`?"]);
    actions(
        "ct(commit, exec(resubmit(3)))",
        &[
            "UnknownAction [0, 1, 0] name: `resubmit` cannot be used within `exec`; it can be used in the action list of a flow or within `clone` or within `write_actions`",
        ],
    );
    matches("eth_dts: 5", &["UnknownField [0] name: `eth_dts` is not a field; did you mean `eth_dst`?"]);
    matches("tcpp", &["UnknownField [0] name: `tcpp` is not a field; did you mean `tcp`?"]);
}

#[test]
fn wrong_arguments() {
    actions(
        "set(reg0)",
        &["Argument [0] name: `set` is missing its argument `value`; write set(field, value)"],
    );
    actions(
        "dec_ttl(1)",
        &["Argument [0, 0]: `dec_ttl` takes no further positional argument; write dec_ttl"],
    );
    actions(
        "resubmit(1, 2)",
        &[
            "Argument [0, 1]: `resubmit` takes no further positional argument; write resubmit(table, [port: …], [ct])",
        ],
    );
    actions(
        "ct(zone: 5, zone: 6)",
        &[
            "Argument [0, 1]: `zone` is given twice; remove one of them: ct([commit], [force], [table: …], [zone: …], [zone_field: …], [alg: …], [actions…])",
        ],
    );
    actions(
        "ct(commit: 5)",
        &[
            "Argument [0, 0] name: `commit` of `ct` takes no value; write ct([commit], [force], [table: …], [zone: …], [zone_field: …], [alg: …], [actions…])",
        ],
    );
    actions(
        "move(reg0, metadata)",
        &[
            "Argument [0]: `move`: reg0 has 32 bits and metadata has 64; select the same number of bits in both, as in xreg3[0..47]",
        ],
    );
    actions(
        "output_field(5)",
        &[
            "Argument [0, 0]: `field` of `output_field` must be a field; name a field or bits of one, as in reg5[0..15]",
        ],
    );
    actions(
        "check_pkt_larger(5, reg0)",
        &["Argument [0]: `check_pkt_larger`: the result must be one bit, not 32; name a bit, as in reg0[0]"],
    );
    actions(
        "goto_table(4), goto_table(5)",
        &[
            "Argument [1] name: `goto_table` is given twice, but a flow can contain it only once; remove it or move it",
        ],
    );
    actions(
        "set(reg0, 1), meter(4)",
        &[
            "Argument [1] name: `meter` must be the first action in the list and may occur only once; remove it or move it",
        ],
    );
    actions(
        "conjunction(1, 1, 2), drop_it, output(3)",
        &[
            "UnknownAction [1] name: `drop_it` is not an action; the actions here are output, local, in_port, \
             normal, flood, all, output_field, set, move, resubmit, group, dec_ttl, mod_nw_ttl, push_vlan, \
             pop_vlan, ct_clear, check_pkt_larger, note, exit, push, pop, set_queue, pop_queue, clone, \
             conjunction, ct, learn, meter, sample, controller, clear_actions, write_actions, write_metadata, \
             goto_table",
            "Argument [0] name: `conjunction` can be combined only with other conjunctions and `note`; remove it or move it",
        ],
    );
    actions(
        "ct(exec(set(ct_mark, 1)))",
        &["Argument [0]: `ct`: an action on new connections needs commit; add `commit`"],
    );
    actions(
        "ct(commit, nat(hash))",
        &["Argument [0, 1]: `nat`: neither src nor dst is given; add `src: address` or `dst: address`"],
    );
    actions(
        "learn(idle_timeout: 5)",
        &[
            "Argument [0] name: `learn` is missing its argument `table`; write learn(table: …, [priority: …], \
             [idle_timeout: …], [hard_timeout: …], [fin_idle_timeout: …], [fin_hard_timeout: …], [cookie: \
             …], [limit: …], [result: …], [send_flow_rem], [delete_learned], [actions…])",
        ],
    );
    actions(
        "learn(table: 5, match(reg0, 1/1))",
        &["Argument [0, 1, 1]: `value` of `match` takes no mask; give the value alone"],
    );
    actions(
        "set(vlan_pcp[0..1], 1)",
        &[
            "Argument [0]: `set`: vlan_pcp takes no mask, but 0x3 was given: match the whole field or not at all; see ovs-actions(7)",
        ],
    );
    actions(
        "write_actions()",
        &["Argument [0]: `write_actions`: it contains no action; add an action or remove this one"],
    );
    matches("reg0", &["Argument [0] name: `reg0` needs a value; write `reg0: value`"]);
    matches("tcp: 5", &["Argument [0]: `tcp` takes no value; write `tcp` alone"]);
    matches("eth_type: 5/5", &["Argument [0, 0]: `eth_type` takes no mask; give the value alone"]);
    matches(
        "eth_type[0..3]: 5",
        &["Argument [0]: eth_type can only be matched as a whole, not by bits; write `eth_type: value`"],
    );
}

#[test]
fn what_is_nested_too_deep() {
    let nested = |depth: usize| format!("{}dec_ttl{}", "clone(".repeat(depth), ")".repeat(depth));
    let built = literal::actions(&read::actions(&nested(7))).unwrap().fill(&[]).unwrap();
    assert_eq!(built.to_string().parse(), Ok(built));
    let errors = literal::actions(&read::actions(&nested(9))).unwrap_err();
    assert_eq!(
        show(&errors),
        ["Argument [0, 0, 0, 0, 0, 0, 0, 0, 0]: actions are nested too deeply; reduce the nesting"]
    );
}

#[test]
fn wrong_types() {
    actions(
        "output(\"p1\")",
        &["Type [0, 0]: `port` of `output` is of type int, not a string; give a value of type int"],
    );
    actions(
        "set(eth_src, 5)",
        &["Type [0, 1]: `value` of `set` is of type mac, not int; give a value of type mac"],
    );
    actions(
        "set(reg0, 5/ip\"1.2.3.4\")",
        &[
            "Type [0, 1, 1]: `value` of `set` has a value of type int and a mask of type ip; use the same type for both",
        ],
    );
    matches(
        "eth_dst: ip\"1.2.3.4\"",
        &["Type [0, 0]: `eth_dst` is of type mac, not ip; give a value of type mac"],
    );
    matches(
        "in_port: \"p1\"",
        &["Type [0, 0]: `in_port` is of type int, not a string; give a value of type int"],
    );
    matches(
        "reg0: 5/mac\"00:00:00:00:00:01\"",
        &["Type [0, 0, 1]: `reg0` is of type int or ip, not mac; give a value of type int or ip"],
    );
}

#[test]
fn fields_that_cannot_be_written() {
    actions(
        "set(eth_type, 5)",
        &["ReadOnly [0, 0] name: eth_type cannot be written; write another field, such as a register"],
    );
    actions(
        "move(reg0, in_port_oxm)",
        &["ReadOnly [0, 1] name: in_port_oxm cannot be written; write in_port"],
    );
    actions(
        "set(ct_mark, 5)",
        &[
            "ReadOnly [0, 0] name: ct_mark belongs to the connection, not to the packet; write it within ct(commit, exec(set(ct_mark, …)))",
        ],
    );
    actions(
        "ct(commit, exec(set(reg0, 5)))",
        &[
            "ReadOnly [0, 1, 0, 0] name: reg0 is not a field of the connection; exec can write only ct_mark and ct_label",
        ],
    );
}

#[test]
fn constants_that_do_not_fit() {
    actions(
        "set(reg0, 0x100000000), set(nw_ttl, 256), set(reg0[0..3], 16), set(reg0, 0x11/0x10)",
        &[
            "Range [0, 1]: 4294967296 does not fit reg0, which has 32 bits; give a value that fits",
            "Range [1, 1]: 256 does not fit nw_ttl, which has 8 bits; give a value that fits",
            "Range [2, 1]: 16 does not fit reg0[0..3], which has 4 bits; give a value that fits",
            "Range [3]: `set`: 0x11/0x10 does not set a part of reg0: the mask must not be zero and must cover the value; give a value that fits",
        ],
    );
    actions(
        "resubmit(255), group(0xffffff01), output(65280), push_vlan(0x800)",
        &[
            "Range [0, 0]: 255 does not fit `table` of `resubmit`: it is 0 to 254; give a value that fits",
            "Range [1, 0]: 4294967041 does not fit `id` of `group`: it is 0 to 4294967040; give a value that fits",
            "Range [2, 0]: 65280 is not a port number: ports are 0 to 65279, or a reserved port such as 65534 (LOCAL); give a value that fits",
            "Range [3]: `push_vlan`: 0x0800 is not the Ethernet type of a VLAN tag; give 0x8100, or 0x88a8 for the outer of two tags",
        ],
    );
    actions(
        "set(vlan_vid, 5)",
        &[
            "Range [0]: `set`: set vlan_vid to 4096 + id: bit 0x1000 must be set in value and mask, not 0x5/0x1fff; give a value that fits",
        ],
    );
    actions(
        "set(reg0[30..32], 1)",
        &["Range [0, 0]: reg0 has no bits 30..32; its bits are 0..31, the lowest first"],
    );
    matches(
        "reg0: 0x100000000, reg1[5..4]: 1, dl_vlan: 4096, ct_state: \"+nosuch\"",
        &[
            "Range [0, 0]: 4294967296 does not fit reg0, which has 32 bits; give a value that fits",
            "Range [1]: reg1 has no bits 5..4; its bits are 0..31, the lowest first",
            "Range [2, 0]: 4096 does not fit dl_vlan, which has 12 bits; give a value that fits",
            "Range [3, 0]: `+nosuch` is not a connection state such as +trk-new; see ovs-fields(7)",
        ],
    );
    matches(
        "vlan_vid: 5",
        &[
            "Range [0, 0]: 5 is not a valid vlan_vid (4096 + VLAN id); use dl_vlan for the VLAN id; give a value that fits",
        ],
    );
    matches(
        "arp, arp_spa: ip\"fe80::1\"",
        &["Range [1, 0]: fe80::1 is an IPv6 address, and arp_spa takes IPv4; give a value that fits"],
    );
}

#[test]
fn what_a_field_needs_must_be_said() {
    matches(
        "tcp_dst: 80",
        &[
            "Prerequisite [0] name: `tcp_dst` requires tcp or tcp6; add `tcp` (IPv4) or `tcp6`; later fragments have no ports",
        ],
    );
    matches(
        "tp_dst: 80",
        &["Prerequisite [0] name: `tp_dst` needs a protocol in the same match: one of tcp, udp, sctp (or \
             with 6); add `tcp`, `udp` or `sctp` (IPv4), or `tcp6`, `udp6` or `sctp6`"],
    );
    matches("ipv6_src: ip\"fe80::1\"", &["Prerequisite [0] name: `ipv6_src` requires ipv6; add `ipv6`"]);
    matches(
        "ip_src: ip\"10.0.0.1\", tcp_dst: 80",
        &[
            "Prerequisite [1] name: `tcp_dst` requires tcp or tcp6; add `tcp` (IPv4) or `tcp6`; later fragments have no ports",
        ],
    );
    matches(
        "tcp, ip_frag: \"later\", tcp_dst: 80",
        &[
            "Prerequisite [2] name: `tcp_dst` requires tcp or tcp6; add `tcp` (IPv4) or `tcp6`; later fragments have no ports",
        ],
    );
    actions(
        "learn(table: 1, match(ip_src, ip\"1.2.3.4\"))",
        &[
            "Prerequisite [0]: `learn`: ip_src needs ip in the learned flow; match that by value before it, as in match(eth_type, 0x800)",
        ],
    );
}

#[test]
fn contradictions_and_repetitions() {
    matches(
        "tcp, udp",
        &[
            "Contradiction [1]: nw_proto cannot be both 0x6 and 0x11: no packet would match; remove one of the two",
        ],
    );
    matches(
        "tcp, ip_dst: ip\"fe80::1\"",
        &[
            "Contradiction [1]: eth_type cannot be both 0x800 and 0x86dd: no packet would match; remove one of the two",
        ],
    );
    matches(
        "reg0: 5, xreg0: 5",
        &["Contradiction [1]: reg0 cannot be both 0x5 and 0x0: no packet would match; remove one of the two"],
    );
    matches(
        "reg0: 5, reg0: 5",
        &["DuplicateField [1] name: reg0 is given twice; remove one, or give both a value and a mask"],
    );
    matches("tcp, tcp", &["DuplicateField [1] name: `tcp` is given twice; remove one"]);
    matches(
        "ip, nw_src: ip\"10.0.0.1\", ip_src: ip\"10.0.0.2\"",
        &["DuplicateField [1] name: ip_src is given twice; remove one, or give both a value and a mask"],
    );
    matches(
        "reg0[0..15]: 5, reg0[15..31]: 6",
        &["DuplicateField [1] name: reg0 is given twice; remove one, or give both a value and a mask"],
    );
    assert!(literal::matches(&read::matches("reg0[0..15]: 5, reg0[16..31]: 6")).is_ok());
    assert!(literal::matches(&read::matches("reg0: 0x10/0x10, reg0: 0x20/0x20")).is_ok());
}

#[test]
fn what_values_decide_is_no_error_of_the_literal() {
    let ip = |name| MatchItem::field(name, Term::Hole(0, Kind::Ip));
    let tcp = literal::matches(&[MatchItem::word("tcp"), ip("ip_dst")]).unwrap();
    assert_eq!(tcp.fill(&[Value::Ip("fe80::1".parse().unwrap())]), Ok(None));
    let either = literal::matches(&[
        ip("ip_dst"),
        MatchItem::field("ip_proto", Term::Constant(Value::Int(6))),
        MatchItem::field("tp_dst", Term::Constant(Value::Int(80))),
    ]);
    let either = either.unwrap();
    for (address, printed) in
        [("10.0.0.1", "tcp,nw_dst=10.0.0.1,tp_dst=80"), ("fe80::1", "tcp6,ipv6_dst=fe80::1,tp_dst=80")]
    {
        let filled = either.fill(&[Value::Ip(address.parse().unwrap())]).unwrap().unwrap();
        assert_eq!(filled.to_string(), printed);
        assert_eq!(filled.validate(), Ok(()));
    }
    // A later fragment has no ports, and neighbour discovery uses only code 0.
    let frag = literal::matches(&[
        MatchItem::word("tcp"),
        MatchItem::field("tcp_dst", Term::Constant(Value::Int(80))),
        MatchItem::field("ip_frag", Term::Hole(0, Kind::Int)),
    ]);
    let frag = frag.unwrap();
    assert_eq!(frag.fill(&[Value::Int(3)]), Ok(None));
    assert!(frag.fill(&[Value::Int(0)]).unwrap().is_some());
}

/// The address selects the field. If the field belongs to the packet itself, the address also decides
/// the version of IP.
#[test]
fn addresses_of_both_versions_go_to_their_own_fields() {
    for (text, printed) in [
        (r#"ip_src: ip"10.0.0.1""#, "ip,nw_src=10.0.0.1"),
        (r#"ip_src: ip"fe80::1""#, "ipv6,ipv6_src=fe80::1"),
        (r#"nw_dst: net"10.0.0.0/8""#, "ip,nw_dst=10.0.0.0/8"),
        (r#"ip_dst: net"fd00::/8""#, "ipv6,ipv6_dst=fd00::/8"),
        (r#"ip_dst: net"0.0.0.0/0""#, "ip"),
        (r#"tun_dst: ip"fd00::1""#, "tun_ipv6_dst=fd00::1"),
        (r#"ip, tun_src: ip"fd00::1""#, "ip,tun_ipv6_src=fd00::1"),
        (r#"ct_state: "+est+trk", ct_nw_src: ip"fd00::1""#, "ct_state=+est+trk,ct_ipv6_src=fd00::1,ipv6"),
        (r#"arp, nw_src: ip"10.0.0.1""#, "arp,arp_spa=10.0.0.1"),
        (r#"ip_dst: ip"fd00::1", nw_proto: 6, tp_dst: 80"#, "tcp6,ipv6_dst=fd00::1,tp_dst=80"),
        (r#"icmp6, icmp_type: 135, nd_target: ip"fd00::1""#, "icmp6,icmp_type=135,nd_target=fd00::1"),
        ("untagged", "vlan_tci=0x0000/0x1000"),
        ("tagged, dl_vlan_pcp: 3", "dl_vlan_pcp=3"),
        ("dl_vlan: 7", "dl_vlan=7"),
        (r#"tcp, tcp_flags: "+syn-ack", ip_frag: "no""#, "tcp,nw_frag=no,tcp_flags=+syn-ack"),
        ("reg5[0..15]: 7", "reg5=0x7/0xffff"),
        ("reg5[4..7]: 1/1", "reg5=0x10/0x10"),
    ] {
        let template =
            literal::matches(&read::matches(text)).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        assert_eq!(template.fill(&[]).unwrap().unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn values_that_do_not_fit_are_told_with_their_place() {
    let set = |text: &str| {
        let mut values = Vec::new();
        let terms: Vec<_> = read::actions(text).iter().map(|t| read::hollow_action(t, &mut values)).collect();
        let error = literal::actions(&terms).unwrap().fill(&values).unwrap_err();
        format!("{:?} {}", error.path, error.message)
    };
    for (text, expected) in [
        ("set(reg0, 4294967296)", "[0, 1] 4294967296 does not fit reg0, which has 32 bits"),
        ("set(reg0[0..3], 16)", "[0, 1] 16 does not fit reg0[0..3], which has 4 bits"),
        (
            "set(reg0, 0x11/0x10)",
            "[0] `set`: 0x11/0x10 does not set a part of reg0: the mask must not be zero and must cover the value",
        ),
        ("set(arp_spa, ip\"fe80::1\")", "[0, 1] fe80::1 is an IPv6 address, and arp_spa takes IPv4"),
        (
            "output(1), output(65280)",
            "[1, 0] 65280 is not a port number: ports are 0 to 65279, or a reserved port such as 65534 (LOCAL)",
        ),
        ("resubmit(255)", "[0, 0] 255 does not fit `table` of `resubmit`: it is 0 to 254"),
        ("ct(commit, zone: 65536)", "[0, 1] 65536 does not fit `zone` of `ct`, which has 16 bits"),
        (
            "ct(commit, nat(src: ip\"10.0.0.9\", to: ip\"10.0.0.1\"))",
            "[0, 1] `nat`: the addresses or ports do not form a range",
        ),
        (
            "learn(table: 3, set(reg0, 4294967296))",
            "[0, 1, 1] 4294967296 does not fit reg0, which has 32 bits",
        ),
        (
            "set(vlan_vid, 5)",
            "[0] `set`: set vlan_vid to 4096 + id: bit 0x1000 must be set in value and mask, not 0x5/0x1fff",
        ),
        ("conjunction(1, 3, 2)", "[0] `conjunction`: clause 3 of 2 does not exist"),
    ] {
        assert_eq!(set(text), expected, "{text}");
    }
}

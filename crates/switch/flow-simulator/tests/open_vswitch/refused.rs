//! What a real switch refuses because match and actions do not fit, the simulator refuses too.

use flow_simulator::{Bridge, Refused};
use openflow_rs::{FlowMod, PortNo};
use ovs_testing::DummySwitch;

use crate::open_vswitch::PORTS;

/// Matches, and whether they are of IP packets.
const MATCHES: [(&str, bool); 9] = [
    ("", false),
    ("arp,", false),
    ("dl_type=0x1234,", false),
    ("vlan_tci=0x1000/0x1000,", false),
    ("ip,", true),
    ("ipv6,", true),
    ("tcp,tp_dst=80,", true),
    ("icmp6,icmp_type=135,", true),
    ("ip,vlan_tci=0x1000/0x1000,", true),
];

/// Actions, and whether they are for IP packets alone.
const ACTIONS: [(&str, bool); 9] = [
    ("output:2", false),
    ("resubmit(,7)", false),
    ("clone(output:3)", false),
    ("check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,7)", false),
    ("ct_clear,output:2", false),
    ("dec_ttl,output:2", true),
    ("mod_nw_ttl:7,output:2", true),
    ("ct(table=7)", true),
    ("output:3,clone(output:2,clone(dec_ttl,output:3))", true),
];

#[test]
fn an_action_for_ip_packets_needs_a_match_on_them() {
    let mut switch = DummySwitch::start(1..=PORTS);
    for (matches, is_ip) in MATCHES {
        for (actions, needs_ip) in ACTIONS {
            let flow = format!("table=3,{matches}actions={actions}");
            let mut bridge = Bridge::new((1..=PORTS).map(PortNo));
            let there = bridge.add_flow(flow.parse().expect("a flow"));
            assert_eq!(matches!(there, Err(Refused::NotIp(_))), needs_ip && !is_ip, "{flow}: {there:?}");
            let real = switch.load(&[], std::slice::from_ref(&flow));
            assert_eq!(real.is_err(), there.is_err(), "{flow}: {real:?}");
            if let Err(error) = real {
                // ovs-ofctl finds actions that OpenFlow 1.0 would allow itself.
                let texts = ["OFPBAC_MATCH_INCONSISTENT", "none of the usable flow formats"];
                assert!(texts.iter().any(|text| error.contains(text)), "{flow}: {error}");
            }

            // A change of the actions of a flow that is there.
            let first = format!("table=3,{matches}actions=output:9");
            bridge.add_flow(first.parse().expect("a flow")).expect("taken");
            let there = bridge.apply(&FlowMod::modify_strict(flow.parse().expect("a flow")));
            assert_eq!(matches!(there, Err(Refused::NotIp(_))), needs_ip && !is_ip, "{flow}: {there:?}");
        }
    }
    // A bucket has no match: a switch takes the action, and it does nothing to other packets.
    let bucket = "group_id=7,type=all,bucket=actions=dec_ttl,output:2";
    switch.load(&[bucket.to_owned()], &["actions=group:7".to_owned()]).expect("the switch takes the group");
    let mut bridge = Bridge::new((1..=PORTS).map(PortNo));
    bridge.add_group(bucket.parse().expect("a group")).expect("taken");
}

//! The MAC address of a neighbour, which the responder asks for and a flow learns.

use super::*;

const MAC: &str = "mac=02:00:00:00:ff:09";

/// Replies to the address that asks go no further than the flow that learns from them: which address has which MAC address.
const LEARNS: &str = "
table=0,priority=40000,arp,arp_op=2,dl_dst=02:00:00:00:ff:09 actions=learn(table=20,eth_type=0x800,NXM_OF_IP_DST[]=NXM_OF_ARP_SPA[],load:NXM_NX_ARP_SHA[]->NXM_OF_ETH_DST[])
table=0,priority=40000,icmp6,icmp_type=136,dl_dst=02:00:00:00:ff:09 actions=learn(table=20,eth_type=0x86dd,NXM_NX_IPV6_DST[]=NXM_NX_ND_TARGET[],load:NXM_NX_ND_TLL[]->NXM_OF_ETH_DST[])
";
/// What is learned of machine `b`.
const LEARNED: [&str; 2] = ["nw_dst=10.0.2.1", "ipv6_dst=fd02::1"];

impl Routed {
    /// Waits until both addresses of machine `b` are known.
    fn wait_until_learned(&self) {
        let begun = Instant::now();
        loop {
            let flows = self.host().dump_flows("br-int").unwrap();
            let is_known = |address: &&str| {
                flows
                    .iter()
                    .any(|flow| flow.contains(*address) && flow.contains("02:00:00:00:00:02->eth_dst"))
            };
            if LEARNED.iter().all(is_known) {
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "{flows:#?}");
        }
    }
}

#[test]
fn the_mac_address_of_a_neighbour_is_asked_for_and_learned() {
    let mut routed = Routed::start("respasks");
    routed.answer();
    let solicit = |number: u32, from: &str, target: &str| {
        let settings =
            [MAC, &format!("from={from}"), &format!("target={target}"), "interval=3600", "watch=2"];
        unmet(number, "solicit", &settings, "output:2")
    };
    let asks = solicit(1, "10.0.2.99", "10.0.2.1") + &solicit(2, "fd02::99", "fd02::1");
    routed.host().add_flows("br-int", &(LEARNS.to_owned() + &asks)).unwrap();
    routed.wait_until_learned();
    // Nothing is asked for an hour, unless the port that it watches changes.
    for state in ["down", "up"] {
        assert!(routed.lab.exec("b", &["ip", "link", "set", "eth0", state]).unwrap().success());
        if state == "down" {
            routed.host().ofctl(&["del-flows", "br-int", "table=20"]).unwrap();
        }
    }
    // A machine loses its IPv6 addresses with its link.
    let address = ["ip", "address", "replace", "fd02::1/64", "dev", "eth0", "nodad"];
    assert!(routed.lab.exec("b", &address).unwrap().success());
    routed.wait_until_learned();
    assert!(routed.count("solicitation") >= 4, "{}", routed.counts);
}

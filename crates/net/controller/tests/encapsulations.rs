//! Every encapsulation is known everywhere: to network objects, to the rules, and to the switch driver.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog_data::Type;
use tunnel_encap::Encap;
use weft_core::Rules;
use weft_core::core::{Core, History};

use crate::support::*;

/// The members of the rules' `encap` type.
fn declared(rules: &Rules) -> BTreeSet<String> {
    let schema = &rules.program().schema;
    let table = schema.find("ovsdb_tunnel").unwrap();
    let column = schema.table(table).columns.iter().find(|column| column.name == "encap").unwrap();
    match &column.ty {
        Type::Enum(of) => of.members.iter().map(ToString::to_string).collect(),
        other => panic!("ovsdb_tunnel's encap is of type {other}"),
    }
}

/// Two hosts that offer one encapsulation, with a port of a switch on each.
fn network(encap: Encap, prefix: &str) -> String {
    let mut text = "{kind: switch, id: blue}\n".to_owned();
    for number in 1..=2 {
        text += &format!(
            "---\n{{kind: transport_node, id: hv{number}, ip: '{prefix}{number}', encaps: [{encap}]}}\n\
             ---\n{{kind: switch_port, id: p{number}, switch: blue}}\n"
        );
    }
    text
}

/// The network of two hosts, whose tunnel ports are up.
fn running(rules: &Arc<Rules>, encap: Encap, prefix: &str) -> Core {
    let mut core = Core::restore(reference(rules), rules.clone(), History::new(rules), now()).unwrap().0;
    apply(&mut core, &network(encap, prefix));
    for (node, port) in [("hv1", "p1"), ("hv2", "p2")] {
        let tunnels: Vec<String> = core.desired(node).tunnels.keys().cloned().collect();
        let tunnels: Vec<(&str, u16)> = tunnels.iter().map(String::as_str).zip(1..).collect();
        core.report(node, &report(&[(port, 101)], &tunnels), now()).unwrap();
    }
    core
}

#[test]
fn the_rules_declare_the_same_encapsulations_as_the_controller() {
    let rules = Rules::built_in().unwrap();
    assert_eq!(declared(&rules), Encap::ALL.map(|encap| encap.name().to_owned()).into());
}

#[test]
fn every_encapsulation_gets_tunnel_ports_and_has_an_overhead() {
    let rules = Arc::new(Rules::built_in().unwrap());
    for encap in Encap::ALL {
        let [over_ipv4, over_ipv6] = ["172.16.0.", "fd00::"].map(|prefix| running(&rules, encap, prefix));
        let tunnels: Vec<Encap> =
            over_ipv4.desired("hv1").tunnels.values().map(|tunnel| tunnel.encap).collect();
        assert_eq!(tunnels, [encap]);
        let said =
            |core: &Core| core.state_of("switch", "blue").get("mtu").and_then(serde_json::Value::as_i64);
        let mtu = said(&over_ipv4);
        assert!(
            mtu.is_some(),
            "{encap} has no row in table tunnel_header of rules/logical/encapsulation.nlog"
        );
        assert_eq!(said(&over_ipv6), mtu.map(|mtu| mtu - 20), "{encap}");
    }
}

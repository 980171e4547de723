//! The whole chain on real Open vSwitch: objects and vNICs in, packets across, told apart by where they arrive.
//!
//! Each test has a lab of its own. Where the machine cannot make one the tests say so loudly and do nothing.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use lab::{Host, Migration, Order};
use testbed::reach::{echoes_received, who_reaches_whom};
use testbed::tenants::{Departures, MACHINES, NAMES, NETWORK, machines};
use testbed::{DEADLINE, Settings, Testbed};

/// A lab of two hosts with a controller and switches in order; `None` where the machine has no way to make one.
fn testbed(name: &str, encaps: &[&str], rules: Option<&Path>) -> Option<Testbed> {
    start(name, encaps, rules, true)
}

/// The same, with or without waiting for the switches to be in order.
fn start(name: &str, encaps: &[&str], rules: Option<&Path>, in_order: bool) -> Option<Testbed> {
    if let Err(missing) = lab::preflight() {
        assert!(std::env::var_os("WEFT_REQUIRE_OVS").is_none(), "{name} needs Open vSwitch: {missing}");
        eprintln!("\n*** NOT TESTED: {name} needs real Open vSwitch in network namespaces.\n*** {missing}\n");
        return None;
    }
    let settings = Settings {
        encaps: encaps.iter().map(|&encap| encap.to_owned()).collect(),
        rules: rules.map(Path::to_owned),
        ..Settings::new(format!("{name}-{}", std::process::id()), env!("CARGO_BIN_EXE_weft"))
    };
    let testbed = Testbed::start(settings).unwrap();
    if in_order {
        testbed.wait_in_order(0).unwrap();
    }
    Some(testbed)
}

/// Applies the two tenants, plugs their machines in, and waits for the switches.
fn bring_up(testbed: &Testbed) {
    testbed.apply("two-tenants.yaml", NETWORK).unwrap();
    testbed.plug_in(&machines()).unwrap();
    testbed.wait_in_order(MACHINES.len() as u64).unwrap();
}

/// What departs from "all pairs of a tenant, none across".
fn departures(testbed: &Testbed) -> Departures {
    Departures::of(&who_reaches_whom(testbed.lab().unwrap(), &NAMES).unwrap())
}

fn reaches_all_and_none_across(encap: &str) {
    let Some(testbed) = testbed(encap, &[encap], None) else { return };
    bring_up(&testbed);
    assert_eq!(departures(&testbed), Departures::default());
    let kind = testbed.lab().unwrap().host("hv1").unwrap();
    let kind = kind.vsctl(&["get", "interface", &format!("weft-{encap}"), "type"]).unwrap();
    assert_eq!(kind.trim(), encap, "the packets crossed in another encapsulation");
}

#[test]
fn geneve_carries_each_tenant_and_nobody_else() {
    reaches_all_and_none_across("geneve");
}

#[test]
fn vxlan_carries_each_tenant_and_nobody_else() {
    reaches_all_and_none_across("vxlan");
}

#[test]
fn gre_carries_each_tenant_and_nobody_else() {
    reaches_all_and_none_across("gre");
}

#[test]
fn hosts_use_the_first_encapsulation_that_both_switches_have() {
    // The userspace datapath cannot do stt: it is wanted first, and must not be waited for.
    let Some(testbed) = start("fallback", &["stt", "vxlan"], None, false) else { return };
    testbed.apply("two-tenants.yaml", NETWORK).unwrap();
    wait_for(|| testbed.lab().unwrap().host("hv1").unwrap().ofport("weft-vxlan").ok());
    wait_for(|| testbed.lab().unwrap().host("hv2").unwrap().ofport("weft-vxlan").ok());
    testbed.plug_in(&machines()).unwrap();
    for (from, to) in [("acme-1", "acme-3"), ("umbra-1", "umbra-3")] {
        let to = testbed.lab().unwrap().vm(to).unwrap().ip().unwrap();
        testbed.lab().unwrap().wait_ping(from, to, DEADLINE).unwrap();
    }
    assert_eq!(departures(&testbed), Departures::default());
    let status = testbed.status().unwrap();
    assert!(status.switches.iter().all(|switch| switch.last_error.contains("stt")), "{status:#?}");
}

#[test]
fn a_port_with_port_security_cannot_send_from_other_addresses() {
    let Some(testbed) = testbed("spoof", &["geneve"], None) else { return };
    let secured = NETWORK.replace("id: acme-1\n", "id: acme-1\nport_security: true\n");
    testbed.apply("secured.yaml", &secured).unwrap();
    testbed.plug_in(&machines()).unwrap();
    testbed.wait_in_order(MACHINES.len() as u64).unwrap();
    // What it may send goes through, ARP and probes for duplicates included.
    assert_eq!(departures(&testbed), Departures::default());
    let lab = testbed.lab().unwrap();
    let stranger = "10.0.0.77";
    for machine in ["acme-1", "acme-2"] {
        lab.exec(machine, &["ip", "address", "add", &format!("{stranger}/32"), "dev", "eth0"]).unwrap();
    }
    let arrives = |from: &str, to: &str| {
        let before = echoes_received(lab, to).unwrap();
        let to_ip = lab.vm(to).unwrap().ip().unwrap().to_string();
        // Nobody answers the stranger; whether requests arrive is what counts.
        let _ = lab.exec(from, &["ping", "-c", "2", "-i", "0.2", "-W", "1", "-I", stranger, &to_ip]);
        echoes_received(lab, to).unwrap() > before
    };
    assert!(!arrives("acme-1", "acme-2"), "a secured port sent from an address that is not its own");
    assert!(arrives("acme-2", "acme-3"), "a port without port security may send from any address");
}

/// The repository's rules with passages changed: file, what stands there, what instead.
fn broken_rules(changes: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules");
    let copy = tempfile::tempdir().unwrap();
    for folder in fs::read_dir(rules).unwrap() {
        let folder = folder.unwrap();
        fs::create_dir(copy.path().join(folder.file_name())).unwrap();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.path().join(folder.file_name()).join(entry.file_name())).unwrap();
        }
    }
    for (file, passage, instead) in changes {
        let path = copy.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(passage), "{file} has no `{passage}` to break");
        fs::write(path, text.replace(passage, instead)).unwrap();
    }
    copy
}

#[test]
fn a_wrong_tunnel_label_is_noticed() {
    let rules =
        broken_rules(&[("physical/local_ports.nlog", "match{tun_id: label}", "match{tun_id: label + 1000}")]);
    let Some(testbed) = testbed("label", &["geneve"], Some(rules.path())) else { return };
    bring_up(&testbed);
    let Departures { missing, leaks } = departures(&testbed);
    let wanted = [
        "acme-1 to acme-3",
        "acme-2 to acme-3",
        "acme-3 to acme-1",
        "acme-3 to acme-2",
        "umbra-1 to umbra-2",
        "umbra-1 to umbra-3",
        "umbra-2 to umbra-1",
        "umbra-3 to umbra-1",
    ];
    assert_eq!(
        missing,
        wanted.map(ToOwned::to_owned).into(),
        "every pair on two hosts must fail, and no other"
    );
    assert_eq!(leaks, BTreeSet::new());
}

#[test]
fn one_datapath_for_all_tenants_is_noticed() {
    // Of ports, so on entry, in port security both ways and on exit; their switches keep what tells them apart.
    let rules = broken_rules(&[(
        "logical/ports.nlog",
        "datapath_label(sw, datapath)",
        "datapath_label(sw, _), datapath = 1",
    )]);
    let Some(testbed) = testbed("datapath", &["geneve"], Some(rules.path())) else { return };
    bring_up(&testbed);
    let Departures { leaks, .. } = departures(&testbed);
    assert!(
        leaks.contains("umbra-1 to acme-2"),
        "all packets were of one datapath, and did not cross: {leaks:?}"
    );
}

#[test]
fn a_flow_without_its_datapath_is_refused_before_any_switch_sees_it() {
    let passage = "match{metadata: datapath, eth_dst: mac}";
    let rules = broken_rules(&[("logical/switching.nlog", passage, "match{eth_dst: mac}")]);
    let Some(testbed) = testbed("match", &["geneve"], Some(rules.path())) else { return };
    // One tenant alone works: nothing is there to be told apart.
    let (acme, umbra) = NETWORK.split_once("kind: switch\nid: umbra").unwrap();
    testbed.apply("acme.yaml", acme.trim_end().trim_end_matches("---")).unwrap();
    testbed.apply("umbra.yaml", &format!("kind: switch\nid: umbra{umbra}")).unwrap();
    let machine = |name: &str| machines().into_iter().find(|machine| machine.name == name).unwrap();
    assert_eq!(machine("acme-1").mac, machine("umbra-1").mac);
    // Both tenants' port with this MAC on one host: two flows with one match.
    testbed.plug_in(&[machine("acme-1"), machine("umbra-1")]).unwrap();
    let log = wait_for(|| {
        let log = fs::read_to_string(testbed.log()).unwrap();
        log.contains("key-conflict").then_some(log)
    });
    assert!(log.contains("of_flow"), "{log}");
}

/// Looks until there is an answer.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "it did not come about within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_machine_migrates_under_ping_and_is_found_again() {
    let Some(testbed) = testbed("migrate", &["geneve"], None) else { return };
    bring_up(&testbed);
    let lab = testbed.lab().unwrap();
    let to = lab.vm("acme-3").unwrap().ip().unwrap();
    for (target, order) in [("hv1", Order::PlugFirst), ("hv2", Order::UnplugFirst)] {
        let ping = lab.spawn_ping("acme-1", to, Duration::from_millis(10)).unwrap();
        ping.wait_received(20, DEADLINE).unwrap();
        lab.migrate_vm("acme-3", target, Migration { order, gap: Duration::ZERO }).unwrap();
        testbed.wait_in_order(MACHINES.len() as u64).unwrap();
        let received = ping.received();
        ping.wait_received(received + 50, DEADLINE).unwrap();
        let result = ping.stop().unwrap();
        assert_eq!(result.duplicates, 0, "{result:?}");
    }
    assert_eq!(departures(&testbed), Departures::default());
}

#[test]
fn packets_go_on_without_a_controller_and_a_restart_sends_no_flow_mod() {
    let Some(mut testbed) = testbed("restart", &["geneve", "vxlan"], None) else { return };
    bring_up(&testbed);
    testbed.kill_controller().unwrap();
    let to = testbed.lab().unwrap().vm("acme-3").unwrap().ip().unwrap();
    let ping = testbed.lab().unwrap().spawn_ping("acme-1", to, Duration::from_millis(10)).unwrap();
    ping.wait_received(50, DEADLINE).unwrap();
    let hosts = testbed.lab().unwrap().hosts().unwrap();
    let marks: Vec<_> = hosts.iter().map(|host| host.mark_openflow().unwrap()).collect();
    testbed.start_controller().unwrap();
    testbed.wait_in_order(MACHINES.len() as u64).unwrap();
    for (host, mark) in hosts.iter().zip(&marks) {
        let count = host.openflow_since(mark).unwrap();
        assert_eq!(count.modifications(), 0, "{}: {count:?}", host.name);
        assert!(count.others > 0, "{}: the controller did not even ask", host.name);
        host.unmark_openflow().unwrap();
    }
    let received = ping.received();
    ping.wait_received(received + 20, DEADLINE).unwrap();
    assert_eq!(ping.stop().unwrap().lost(), 0);
}

#[test]
fn a_switch_that_lost_its_flows_gets_them_back() {
    let Some(testbed) = testbed("heal", &["geneve"], None) else { return };
    bring_up(&testbed);
    let host = testbed.lab().unwrap().host("hv2").unwrap();
    let before = flows(&host);
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    wait_for(|| (flows(&host) == before).then_some(()));
    testbed.wait_in_order(MACHINES.len() as u64).unwrap();
    testbed.lab().unwrap().warm_underlay().unwrap();
    assert_eq!(departures(&testbed), Departures::default());
}

/// The flows of br-int without what changes by itself.
fn flows(host: &Host) -> BTreeSet<String> {
    let Ok(flows) = host.dump_flows("br-int") else { return BTreeSet::new() };
    flows
        .iter()
        .map(|flow| {
            let parts = flow.split(", ").filter(|part| {
                !["duration=", "n_packets=", "n_bytes=", "idle_age="]
                    .iter()
                    .any(|name| part.trim().starts_with(name))
            });
            parts.collect::<Vec<_>>().join(", ")
        })
        .collect()
}

#[test]
fn a_bad_file_is_refused_whole_and_the_network_goes_on() {
    let Some(testbed) = testbed("refuse", &["geneve"], None) else { return };
    bring_up(&testbed);
    let before = testbed.status().unwrap().last_txn;
    let bad = "kind: switch\nid: third\n---\nkind: switch_port\nid: third-1\nswitch: thrid\n\
               addresses: [{mac: '02:00:00:00:00', ips: [10.0.0.300]}]\n";
    let error = testbed.apply("bad.yaml", bad).unwrap_err().to_string();
    for wanted in ["bad.yaml: document 2: switch_port third-1", "addresses[0].mac", "addresses[0].ips[0]"] {
        assert!(error.contains(wanted), "{wanted} is not in: {error}");
    }
    assert_eq!(testbed.status().unwrap().last_txn, before);
    assert_eq!(departures(&testbed), Departures::default());
}

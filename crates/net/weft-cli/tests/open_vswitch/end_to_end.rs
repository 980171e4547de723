//! The whole chain on real Open vSwitch: objects and vNICs in, packets across, checked by where they arrive.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use lab::{Host, Migration, Order};
use testbed::reach::{echoes_received, who_reaches_whom};
use testbed::tenants::{Departures, NAMES, NETWORK, machines};
use testbed::{DEADLINE, Settings, Testbed};

use super::network::wait_for;

/// A lab of two hosts with a controller, and switches in sync.
pub(super) fn testbed(name: &str, encaps: &[&str], rules: Option<&Path>) -> Testbed {
    let testbed = start(name, encaps, rules.as_slice());
    testbed.wait_in_sync().unwrap();
    testbed
}

/// The same without waiting for the switches.
fn start(name: &str, encaps: &[&str], rules: &[&Path]) -> Testbed {
    let settings = Settings {
        encaps: encaps.iter().map(|&encap| encap.to_owned()).collect(),
        rules: rules.iter().map(|path| path.to_path_buf()).collect(),
        ..Settings::new(format!("{name}-{}", std::process::id()), env!("CARGO_BIN_EXE_weft"))
    };
    Testbed::start(settings).unwrap()
}

/// Applies the two tenants, plugs their machines in, and waits for the switches.
pub(super) fn bring_up(testbed: &Testbed) {
    testbed.apply("two-tenants.yaml", NETWORK).unwrap();
    testbed.plug_in(&machines()).unwrap();
    testbed.wait_in_sync().unwrap();
}

/// Exceptions to "all pairs within a tenant, none between tenants".
pub(super) fn departures(testbed: &Testbed) -> Departures {
    departures_once(testbed, |departures| departures.missing.is_empty())
}

/// The same, once `enough` has arrived.
fn departures_once(testbed: &Testbed, enough: impl Fn(&Departures) -> bool) -> Departures {
    let enough = |reach: &BTreeMap<_, _>| enough(&Departures::of(reach));
    Departures::of(&who_reaches_whom(testbed.lab().unwrap(), &NAMES, enough).unwrap())
}

fn reaches_all_and_none_across(encap: &str) {
    let testbed = testbed(encap, &[encap], None);
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

/// The example of the book: a kind of object, a refusal, a number and a state, all from a package beside the built-in rules.
#[test]
fn a_package_adds_a_feature_to_the_built_in_rules() {
    let rules =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/own-feature").canonicalize().unwrap();
    let testbed = start("own-feature", &["geneve"], &[Path::new("builtin"), &rules]);
    testbed.wait_in_sync().unwrap();
    bring_up(&testbed);
    let log = fs::read_to_string(testbed.log()).unwrap();
    assert!(log.contains(&format!("rules=\"builtin, {}\"", rules.display())), "{log}");
    assert_eq!(departures(&testbed), Departures::default());

    let labelled =
        |labels: &str| NETWORK.replace("id: acme-1\n", &format!("id: acme-1\nlabels: {{{labels}}}\n"));
    testbed.apply("infected.yaml", &labelled("state: infected")).unwrap();
    let quarantine = fs::read_to_string(rules.join("quarantine.yaml")).unwrap();
    testbed.apply("quarantine.yaml", &quarantine).unwrap();
    testbed.wait_in_sync().unwrap();
    // It neither sends nor receives; all others are as before.
    let cut: BTreeSet<String> = ["acme-2", "acme-3"]
        .iter()
        .flat_map(|other| [format!("acme-1 to {other}"), format!("{other} to acme-1")])
        .collect();
    let found = departures_once(&testbed, |departures| departures.missing == cut);
    assert_eq!(found, Departures { missing: cut, leaks: BTreeSet::new() });
    let weft = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weft"));
        let output = command.args(arguments).args(["--controller", &testbed.controller_address()]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = weft(&["get", "quarantine", "infected"]);
    let object = "kind: quarantine\nid: infected\nlabel: state\nvalue: infected\n";
    assert!(shown.starts_with("# number: 1\n# ports: 1\n# packets: ") && shown.ends_with(object), "{shown}");
    // Its listing and its counter, which no part of the program knows.
    let ports = weft(&["get", "quarantined-ports", "infected"]);
    assert_eq!(ports, "PORT    SWITCH\nacme-1  acme\n");
    let dropped = || {
        let text = weft(&["get", "quarantine-drops", "infected", "--json"]);
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let on_hv1 = rows.iter().find(|row| row["node"] == "hv1" && row["port"] == "acme-1")?;
        (on_hv1["packets"].as_u64()? > 0 && on_hv1["bytes"].as_u64()? > 0).then_some(())
    };
    wait_for("packets that the quarantine drops", dropped);
    // A label protects a port from quarantines; the request that gives it changes nothing else either.
    let protected = labelled("state: infected, protected: 'yes'");
    let refusal = testbed.apply("protected.yaml", &protected).unwrap_err();
    let said = "switch_port acme-1: contradicts quarantine infected, which is in force: label: would cut off switch_port acme-1, \
                which has the label protected";
    assert!(format!("{refusal:#}").contains(said), "{refusal:#}");

    weft(&["delete", "quarantine", "infected"]);
    testbed.wait_in_sync().unwrap();
    assert_eq!(departures(&testbed), Departures::default());
}

#[test]
fn hosts_use_the_first_encapsulation_that_both_switches_have() {
    // The userspace datapath does not support stt: although preferred, it must not be waited for.
    let testbed = start("fallback", &["stt", "vxlan"], &[]);
    testbed.apply("two-tenants.yaml", NETWORK).unwrap();
    wait_for("the tunnel port of hv1", || {
        testbed.lab().unwrap().host("hv1").unwrap().ofport("weft-vxlan").ok()
    });
    wait_for("the tunnel port of hv2", || {
        testbed.lab().unwrap().host("hv2").unwrap().ofport("weft-vxlan").ok()
    });
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
    let testbed = testbed("spoof", &["geneve"], None);
    let secured = NETWORK.replace("id: acme-1\n", "id: acme-1\nport_security: true\n");
    testbed.apply("secured.yaml", &secured).unwrap();
    testbed.plug_in(&machines()).unwrap();
    testbed.wait_in_sync().unwrap();
    // Permitted frames pass, including ARP and probes for duplicates.
    assert_eq!(departures(&testbed), Departures::default());
    let lab = testbed.lab().unwrap();
    let stranger = "10.0.0.77";
    for machine in ["acme-1", "acme-2"] {
        lab.exec(machine, &["ip", "address", "add", &format!("{stranger}/32"), "dev", "eth0"]).unwrap();
    }
    let arrive = |from: &str, to: &str| {
        let before = echoes_received(lab, to).unwrap();
        let to_ip = lab.vm(to).unwrap().ip().unwrap().to_string();
        let ping = ["ping", "-c", "2", "-i", "0.2", "-W", "1", "-I", stranger, &to_ip];
        // Nobody answers an unknown sender; only the requests count.
        let output = lab.exec(from, &ping).unwrap();
        assert!(output.stdout.contains("2 packets transmitted"), "{output:?}");
        lab.drain().unwrap();
        echoes_received(lab, to).unwrap() - before
    };
    assert_eq!(arrive("acme-1", "acme-2"), 0, "a secured port sent from an address that is not its own");
    assert_eq!(arrive("acme-2", "acme-3"), 2, "a port without port security may send from any address");
}

/// Copies a folder with all in it into another, which exists.
fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&copy).unwrap();
            copy_folder(&entry.path(), &copy);
        } else {
            fs::copy(entry.path(), copy).unwrap();
        }
    }
}

/// The repository's rules with changed passages: file, old text, new text.
fn broken_rules(changes: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules");
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&rules, copy.path());
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
    let testbed = testbed("label", &["geneve"], Some(rules.path()));
    bring_up(&testbed);
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
    let wanted: BTreeSet<String> = wanted.map(ToOwned::to_owned).into();
    let Departures { missing, leaks } =
        departures_once(&testbed, |departures| departures.missing.is_subset(&wanted));
    assert_eq!(missing, wanted, "every pair on two hosts must fail, and no other");
    assert_eq!(leaks, BTreeSet::new());
}

#[test]
fn one_datapath_for_all_tenants_is_noticed() {
    // Only for ports, that is, on entry, in port security in both directions and on exit; their switches stay
    // distinct.
    let rules = broken_rules(&[(
        "physical/local_ports.nlog",
        "datapath_label(sw, datapath_label)",
        "datapath_label(sw, _), datapath_label = 1",
    )]);
    let testbed = testbed("datapath", &["geneve"], Some(rules.path()));
    bring_up(&testbed);
    let crossed = |departures: &Departures| departures.leaks.contains("umbra-1 to acme-2");
    let departures = departures_once(&testbed, crossed);
    assert!(crossed(&departures), "all packets were of one datapath, and did not cross: {departures:?}");
}

#[test]
fn a_flow_without_its_datapath_is_refused_before_any_switch_sees_it() {
    // The rule that adds the datapath to deliveries of all switches forgets it.
    let passage = "match{datapath: label} & match) :-\n    logical_delivery(";
    let instead = "match) :-\n    logical_delivery(";
    let rules = broken_rules(&[("logical/isolation.nlog", passage, instead)]);
    let testbed = testbed("match", &["geneve"], Some(rules.path()));
    // One tenant alone works: there is nothing to confuse.
    let (acme, umbra) = NETWORK.split_once("kind: switch\nid: umbra").unwrap();
    testbed.apply("acme.yaml", acme.trim_end().trim_end_matches("---")).unwrap();
    let machine = |name: &str| machines().into_iter().find(|machine| machine.name == name).unwrap();
    assert_eq!(machine("acme-1").mac, machine("umbra-1").mac);
    // Ports of both tenants with this MAC: two deliveries with the same match.
    let refused = testbed.apply("umbra.yaml", &format!("kind: switch\nid: umbra{umbra}")).unwrap_err();
    assert!(format!("{refused:#}").contains("isolated_delivery"), "{refused:#}");
}

#[test]
fn a_machine_migrates_under_ping_and_is_found_again() {
    let testbed = testbed("migrate", &["geneve"], None);
    bring_up(&testbed);
    let lab = testbed.lab().unwrap();
    let to = lab.vm("acme-3").unwrap().ip().unwrap();
    for (target, order) in [("hv1", Order::PlugFirst), ("hv2", Order::UnplugFirst)] {
        let ping = lab.spawn_ping("acme-1", to, Duration::from_millis(10)).unwrap();
        ping.wait_received(20, DEADLINE).unwrap();
        lab.migrate_vm("acme-3", target, Migration { order, gap: Duration::ZERO }).unwrap();
        testbed.wait_in_sync().unwrap();
        let after = lab.spawn_ping("acme-1", to, Duration::from_millis(10)).unwrap();
        after.wait_received(50, DEADLINE).unwrap();
        let after = after.stop().unwrap();
        assert_eq!(after.lost(), 0, "the switches are in sync: {after:?}");
        let result = ping.stop().unwrap();
        assert_eq!((result.duplicates, after.duplicates), (0, 0), "{result:?}");
    }
    assert_eq!(departures(&testbed), Departures::default());
}

#[test]
fn packets_go_on_without_a_controller_and_a_restart_sends_no_flow_mod() {
    let mut testbed = testbed("restart", &["geneve", "vxlan"], None);
    bring_up(&testbed);
    testbed.kill_controller().unwrap();
    let to = testbed.lab().unwrap().vm("acme-3").unwrap().ip().unwrap();
    let ping = testbed.lab().unwrap().spawn_ping("acme-1", to, Duration::from_millis(10)).unwrap();
    ping.wait_received(50, DEADLINE).unwrap();
    let hosts = testbed.lab().unwrap().hosts().unwrap();
    let marks: Vec<_> = hosts.iter().map(|host| host.mark_openflow().unwrap()).collect();
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    for (host, mark) in hosts.iter().zip(&marks) {
        let count = host.openflow_since(mark).unwrap();
        assert_eq!(count.modifications(), 0, "{}: {count:?}", host.name);
        assert!(count.others > 0, "{}: the controller did not even ask", host.name);
        host.unmark_openflow().unwrap();
    }
    ping.wait_received(20, DEADLINE).unwrap();
    assert_eq!(ping.stop().unwrap().lost(), 0);
}

#[test]
fn a_switch_that_lost_its_flows_gets_them_back() {
    let testbed = testbed("heal", &["geneve"], None);
    bring_up(&testbed);
    let host = testbed.lab().unwrap().host("hv2").unwrap();
    let before = flows(&host);
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    wait_for("the flows of before", || (flows(&host) == before).then_some(()));
    testbed.wait_in_sync().unwrap();
    testbed.lab().unwrap().warm_underlay().unwrap();
    assert_eq!(departures(&testbed), Departures::default());
}

/// The flows of br-int without counters and durations.
pub(super) fn flows(host: &Host) -> BTreeSet<String> {
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
    let testbed = testbed("refuse", &["geneve"], None);
    bring_up(&testbed);
    let before = testbed.status().unwrap().last_txn;
    let bad = "kind: switch\nid: third\n---\nkind: switch_port\nid: third-1\nswitch: thrid\n\
               addresses: [{mac: '02:00:00:00:00', ips: [10.0.0.300]}]\n";
    let error = testbed.apply("bad.yaml", bad).unwrap_err().to_string();
    for wanted in ["bad.yaml:4: switch_port third-1", "addresses[0].mac", "addresses[0].ips[0]"] {
        assert!(error.contains(wanted), "{wanted} is not in: {error}");
    }
    assert_eq!(testbed.status().unwrap().last_txn, before);
    assert_eq!(departures(&testbed), Departures::default());
}

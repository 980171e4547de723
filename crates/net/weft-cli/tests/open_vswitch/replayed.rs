//! `weft replay --lab` against real Open vSwitch: hosts of a recording are built with the fault that they had.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::process::{Command, Output};
use std::time::Duration;

use lab::{Lab, PingOptions, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::network::wait_for;
use crate::support::Folder;

/// An id that is too long for the name of a machine.
const LONG: &str = "2E2A9F4C-8e0e-4f1c-a8f2-000000000005";

/// A network with two faults: an ACL closes `db`, and the machine of [`LONG`], a secured port, has another MAC address.
fn network() -> String {
    let port = |id: &str, switch: &str, number: u8, other: &str| {
        let third = match switch {
            "blue" => 0,
            "green" => 1,
            _ => 2,
        };
        let address = format!("{{mac: '02:00:00:00:00:{number:02x}', ips: [10.0.{third}.{number}]}}");
        format!("---\n{{kind: switch_port, id: {id}, switch: {switch}, addresses: [{address}]{other}}}\n")
    };
    let router_port = |switch: &str, third: u8| {
        format!(
            "---\n{{kind: router_port, id: r-{switch}, router: r, switch: {switch}, mac: '02:00:00:00:ff:0{third}', networks: [10.0.{third}.254/24]}}\n"
        )
    };
    [
        "{kind: switch, id: blue}\n---\n{kind: switch, id: green}\n---\n{kind: switch, id: yellow}\n---\n{kind: router, id: r}\n".to_owned(),
        router_port("blue", 0),
        router_port("green", 1),
        port("web", "blue", 1, ""),
        port("db", "blue", 2, ""),
        port("app", "blue", 3, ""),
        port("far", "blue", 4, ""),
        port(LONG, "blue", 5, ", port_security: true"),
        port("pod", "blue", 6, ", parent: web, tag: 5"),
        port("cache", "green", 7, ""),
        port("yard", "yellow", 8, ""),
        "---\n{kind: acl, id: close-db, switch: blue, direction: to_port, priority: 10, match: {ip_dst: 10.0.0.2}, action: drop}\n".to_owned(),
        "---\n{kind: localnet_port, id: uplink, switch: yellow, physical_network: rack, tag: 7}\n".to_owned(),
    ]
    .concat()
}

fn machines() -> Vec<VmSpec> {
    let on = |name: &str, host: &str, address: &str, mac: u8| {
        let mac = format!("02:00:00:00:00:{mac:02x}");
        let gateway = IpAddr::from([10, 0, u8::from(address.starts_with("10.0.1.")), 254]);
        VmSpec::new(name, host, name, mac).address(format!("{address}/24")).gateway(gateway)
    };
    let mut wrong = on("wrong", "hv1", "10.0.0.5", 0x55);
    LONG.clone_into(&mut wrong.iface_id);
    let mut pod = on("pod", "hv1", "10.0.0.6", 6);
    pod.link = lab::Link::Tag { parent: "web".to_owned(), tag: 5 };
    vec![
        on("web", "hv1", "10.0.0.1", 1).trunk(),
        on("db", "hv2", "10.0.0.2", 2),
        on("app", "hv2", "10.0.0.3", 3),
        on("far", "hv3", "10.0.0.4", 4),
        wrong,
        pod,
        on("cache", "hv1", "10.0.1.7", 7),
        VmSpec::new("yard", "hv2", "yard", "02:00:00:00:00:08").address("10.0.2.8/24"),
    ]
}

/// Who pings whom, and whether an answer comes.
const PINGS: [(&str, [u8; 4], bool); 5] = [
    ("web", [10, 0, 0, 3], true),
    ("app", [10, 0, 1, 7], true),
    ("pod", [10, 0, 0, 3], true),
    ("web", [10, 0, 0, 2], false),
    ("wrong", [10, 0, 0, 3], false),
];

/// Checks all pings; `wrong` is the name of the machine with the wrong MAC address.
fn check_pings(lab: &Lab, wrong: &str) {
    for (from, to, answered) in PINGS {
        let from = if from == "wrong" { wrong } else { from };
        if answered {
            lab.wait_ping(from, to.into(), DEADLINE).unwrap();
        }
        // What is to arrive has arrived before, so it comes soon.
        let options = PingOptions { deadline: Duration::from_secs(2), ..PingOptions::default() };
        let result = lab.ping(from, to.into(), &options).unwrap();
        assert_eq!(result.received > 0, answered, "{from} to {to:?}: {result:?}");
    }
}

/// The lab that a test has made by the command, which removes it too.
struct Replayed {
    folder: Folder,
    name: String,
}

impl Replayed {
    fn weft(&self, arguments: &[&str]) -> Output {
        let mut command: Command = self.folder.command(arguments);
        command.env("WEFT_LAB", &self.name).env("WEFT_CONTROLLER", self.address());
        command.output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.weft(arguments);
        assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    fn address(&self) -> String {
        format!("unix:{}", self.folder.path("weft.sock").display())
    }
}

impl Drop for Replayed {
    fn drop(&mut self) {
        let _ = self.weft(&["lab", "down"]);
    }
}

#[test]
fn recorded_hosts_are_built_with_their_fault_and_reach_no_recorded_switch() {
    let name = format!("past-{}", std::process::id());
    let settings = Settings {
        hosts: 3,
        physical: vec!["rack".to_owned()],
        ..Settings::new(&name, env!("CARGO_BIN_EXE_weft"))
    };
    let replayed = Replayed { folder: Folder::new(), name: format!("again-{}", std::process::id()) };
    let snapshot = replayed.folder.path("net.weft").display().to_string();

    let original = Testbed::start(settings).unwrap();
    original.apply("network.yaml", &network()).unwrap();
    original.lab().unwrap().add_vms(&machines()).unwrap();
    original.wait_in_sync().unwrap();
    check_pings(original.lab().unwrap(), "wrong");
    let flows = |lab: &Lab| -> BTreeMap<&'static str, Vec<String>> {
        let of = |host: &'static str| (host, lab.host(host).unwrap().dump_flows("br-int").unwrap());
        ["hv1", "hv2"].map(of).into()
    };
    let recorded = flows(original.lab().unwrap());
    let taken = replayed
        .folder
        .command(&["snapshot", "take", &snapshot, "--controller", &original.controller_address()])
        .output();
    assert!(taken.unwrap().status.success());
    let sockets = original.lab().unwrap().host("hv3").unwrap().ovsdb_endpoint();

    // The recorded switches still run. Nobody else may dial them.
    let text = replayed.done(&["replay", &snapshot, "--lab", "--hosts", "hv2,hv1"]);
    let lab = Lab::open(&replayed.name).unwrap();
    let wrong = lab.vms().unwrap().into_iter().find(|vm| vm.iface_id == LONG).unwrap();
    assert_eq!((wrong.mac.as_str(), wrong.host.as_str()), ("02:00:00:00:00:55", "hv1"));
    for line in [
        "host hv1: tunnel address 172.31.0.1",
        "machine web: on hv1, 02:00:00:00:00:01 10.0.0.1/24 via 10.0.0.254",
        "machine pod: behind web, VLAN 5, 02:00:00:00:00:06 10.0.0.6/24 via 10.0.0.254",
        "  weft lab host hv1 ovs-ofctl -O OpenFlow15 dump-flows br-int",
        &format!(
            "machine {} (port {LONG}): on hv1, 02:00:00:00:00:55 10.0.0.5/24 via 10.0.0.254",
            wrong.name
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    check_pings(&lab, &wrong.name);
    check_pings(original.lab().unwrap(), "wrong");
    let rebuilt = flows(&lab);
    for (host, flows) in &recorded {
        let missing: Vec<_> = flows.iter().filter(|flow| !rebuilt[host].contains(flow)).collect();
        let new: Vec<_> = rebuilt[host].iter().filter(|flow| !flows.contains(flow)).collect();
        assert!(missing.is_empty() && new.is_empty(), "{host}\n{missing:#?}\n{new:#?}");
    }
    let printed = replayed.done(&[
        "lab",
        "host",
        "hv1",
        "ovs-ofctl",
        "-O",
        "OpenFlow15",
        "--no-stats",
        "dump-flows",
        "br-int",
    ]);
    assert_eq!(printed.lines().count(), rebuilt["hv1"].len());

    // The host that is not built keeps its ports; its switch is sought where none is.
    let place = replayed.done(&["get", "switch_port", "far"]);
    assert!(place.contains("# node: hv3"), "{place}");
    wait_for("the host that is not built to be sought", || {
        let status = replayed.done(&["get", "status"]);
        status.contains("/controller/not-built/").then_some(())
    });
    let node = replayed.done(&["get", "transport_node", "hv3"]);
    assert!(!node.contains(&sockets) && node.contains("/controller/not-built/"), "{node}");

    let refused = replayed.weft(&["replay", &snapshot, "--lab", "--hosts", "hv1"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("`weft lab down again-"), "{said}");
    replayed.done(&["lab", "down"]);
    assert!(Lab::open(&replayed.name).is_err());
    assert!(
        !fs::exists(replayed.folder.path("weft.sock")).unwrap()
            || replayed.weft(&["status"]).status.code() != Some(0)
    );
}

//! Two hosts claim one port: the latest claim has it, both are shown, and what a stale interface does is no new claim.

use std::net::IpAddr;

use lab::{Host, VmSpec};
use testbed::{DEADLINE, Testbed};

use super::support::{bring_up, settings, wait_for};

const NETWORK: &str = "
kind: switch
id: red
---
{kind: switch_port, id: stays, switch: red, addresses: [{mac: '02:00:00:00:07:01', ips: [10.7.0.1]}]}
---
{kind: switch_port, id: moves, switch: red, addresses: [{mac: '02:00:00:00:07:02', ips: [10.7.0.2]}]}
";

/// The problems, as code and text.
fn problems(testbed: &Testbed) -> Vec<(String, String)> {
    let problems = testbed.status().unwrap().problems;
    problems.into_iter().map(|problem| (problem.code, problem.text)).collect()
}

/// Waits until `moves` is on `host`, and `other` claims it too and nobody else has a problem.
#[track_caller]
fn wait_for_claims(testbed: &Testbed, host: &str, other: &str) {
    let text = format!(
        "transport node {host} has the port, because its claim is the latest, but transport node {other} reports an \
         interface of it too; detach the interface on one of them, or set requested_hosts"
    );
    let wanted = vec![("claimed-twice".to_owned(), text)];
    wait_for("the problem", || (problems(testbed) == wanted).then_some(()));
}

/// Does something at a host, and waits until the controller has the report of it, which is a transaction.
fn and_report(testbed: &Testbed, act: impl FnOnce()) {
    let before = testbed.status().unwrap().last_txn;
    act();
    wait_for("a report", || (testbed.status().unwrap().last_txn > before).then_some(()));
}

/// An interface of `moves` without a machine.
fn plug_stale(host: &Host) {
    let add = ["--if-exists", "del-port", "stale", "--", "add-port", "br-int", "stale"];
    let set = ["--", "set", "interface", "stale", "type=internal", "external_ids:iface-id=moves"];
    host.vsctl(&[&add[..], &set[..]].concat()).unwrap();
}

fn renumber(host: &Host, interface: &str, ofport: u16) {
    host.vsctl(&["set", "interface", interface, &format!("ofport_request={ofport}")]).unwrap();
    wait_for("the number", || {
        let now = host.vsctl(&["get", "interface", interface, "ofport"]).unwrap();
        (now.trim() == ofport.to_string()).then_some(())
    });
}

#[test]
fn a_stale_interface_does_not_win_its_port_back() {
    let mut testbed = Testbed::start(settings("claims")).unwrap();
    bring_up(&testbed, NETWORK, &[]);
    let hv1 = testbed.lab().unwrap().host("hv1").unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:07:{n:02x}")).address(format!("10.7.0.{n}/24"))
    };
    let to: IpAddr = [10, 7, 0, 2].into();
    testbed.lab().unwrap().add_vms(&[vm("stays", "hv1", 1)]).unwrap();
    and_report(&testbed, || plug_stale(&hv1));
    assert_eq!(problems(&testbed), [], "only one host claims the port");
    testbed.lab().unwrap().add_vms(&[vm("moves", "hv2", 2)]).unwrap();
    wait_for_claims(&testbed, "hv2", "hv1");
    testbed.lab().unwrap().wait_ping("stays", to, DEADLINE).unwrap();

    // Another port number, with the controller and without it.
    and_report(&testbed, || renumber(&hv1, "stale", 777));
    wait_for_claims(&testbed, "hv2", "hv1");
    let before = testbed.status().unwrap().last_txn;
    testbed.kill_controller().unwrap();
    renumber(&hv1, "stale", 778);
    testbed.start_controller().unwrap();
    wait_for("a report", || (testbed.status().unwrap().last_txn > before).then_some(()));
    wait_for_claims(&testbed, "hv2", "hv1");
    // What else changes of it.
    and_report(&testbed, || {
        hv1.vsctl(&["set", "interface", "stale", "external_ids:attached-mac=02:00:00:00:07:99"]).unwrap();
    });
    wait_for_claims(&testbed, "hv2", "hv1");
    testbed.lab().unwrap().wait_ping("stays", to, DEADLINE).unwrap();

    // Plugged in anew, although under its number and name, it is a claim.
    and_report(&testbed, || plug_stale(&hv1));
    wait_for_claims(&testbed, "hv1", "hv2");
    // No claim of a host that the port does not request takes it.
    let requests = NETWORK.replace("id: moves,", "id: moves, requested_hosts: [hv2],");
    testbed.apply("requested.yaml", &requests).unwrap();
    wait_for("the remedy", || match &problems(&testbed)[..] {
        [(code, text)] => (code == "unrequested-host" && text.contains("transport node hv1")).then_some(()),
        _ => None,
    });
    testbed.lab().unwrap().wait_ping("stays", to, DEADLINE).unwrap();

    // Of two interfaces on one host, the latest counts, if its link is up, and the node and the port show the other.
    let hv2 = testbed.lab().unwrap().host("hv2").unwrap();
    plug_stale(&hv2);
    wait_for("the second interface", || {
        let switches = testbed.status().unwrap().switches;
        let errors =
            switches.into_iter().filter(|switch| switch.node == "hv2").map(|switch| switch.last_error);
        errors.into_iter().find(|error| error.contains("have the same iface-id"))
    });
    testbed.lab().unwrap().wait_ping("stays", to, DEADLINE).unwrap();
}

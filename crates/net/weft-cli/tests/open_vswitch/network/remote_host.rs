//! A host that the controller reaches over TCP alone, both its database and its flows, as every host that is not the controller's own.
//! Whatever heals on unix sockets heals there.

use lab::{Host, Lab, ManagementLink, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{ask, bring_up, settings, wait_for};

const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch_port, id: red-1, switch: red, addresses: [{mac: '02:00:00:00:06:01', ips: [10.6.0.1]}]}
";

/// The second port, with one more MAC address, which tells flows in force from earlier ones.
fn second_port(mark: &str) -> String {
    format!(
        "{{kind: switch_port, id: red-2, switch: red, addresses: [{{mac: '02:00:00:00:06:02', ips: [10.6.0.2]}}, \
         {{mac: '{mark}', ips: []}}]}}\n"
    )
}

struct Remote {
    testbed: Testbed,
    link: ManagementLink,
    changes: u8,
}

impl Remote {
    fn start() -> Remote {
        let testbed = Testbed::start(Settings { hosts: 1, remote: true, ..settings("remote") }).unwrap();
        let machines = [1, 2].map(|n| {
            let name = format!("red-{n}");
            VmSpec::new(&name, "hv1", &name, format!("02:00:00:00:06:0{n}")).address(format!("10.6.0.{n}/24"))
        });
        bring_up(&testbed, &(NETWORK.to_owned() + "---\n" + &second_port("02:00:00:00:06:ff")), &machines);
        let link = testbed.lab().unwrap().management_links().unwrap().remove(0);
        Remote { testbed, link, changes: 0 }
    }

    fn lab(&self) -> &Lab {
        self.testbed.lab().unwrap()
    }

    fn host(&self) -> &Host {
        self.link.host()
    }

    fn is_connected(&self) -> bool {
        self.testbed.status().unwrap().switches.iter().all(|switch| switch.connected)
    }

    /// Changes the network. Returns what the flows of the host have once that is in force.
    fn change(&mut self) -> String {
        self.changes += 1;
        let mark = format!("02:00:00:00:06:{:02x}", 0x10 + self.changes);
        self.testbed.apply("change.yaml", &second_port(&mark)).unwrap();
        mark
    }

    /// The change comes into force, and machines reach each other by the flows then.
    fn has(&self, mark: &str) {
        let has =
            || self.host().dump_flows("br-int").ok()?.iter().any(|flow| flow.contains(mark)).then_some(());
        wait_for("the flows of a change", has);
        self.testbed.wait_in_sync().unwrap();
        self.lab().wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    }

    /// Flows follow changes of the network, and the controller hears of ports.
    fn is_whole(&mut self) {
        let mark = self.change();
        self.has(&mark);
        for plugged in [false, true] {
            let change = if plugged { Lab::attach } else { Lab::detach };
            change(self.lab(), "red-2").unwrap();
            self.testbed.wait_in_sync().unwrap();
        }
        self.lab().wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    }

    fn log_has(&self, text: &str) -> Option<()> {
        std::fs::read_to_string(self.host().vswitchd_log()).unwrap().contains(text).then_some(())
    }
}

#[test]
fn d27_a_host_over_tcp_heals_as_one_on_unix_sockets_does() {
    let mut remote = Remote::start();
    let host = remote.host().clone();
    let target = host.vsctl(&["get-controller", "br-int"]).unwrap();
    assert_eq!(target.trim(), "ptcp:6653:198.18.1.2");
    remote.is_whole();

    // A crash of ovs-vswitchd, and a restart of ovsdb-server.
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    remote.is_whole();
    host.stop_ovsdb().unwrap();
    host.start_ovsdb().unwrap();
    remote.is_whole();

    // The cable is out for as long as it takes to notice. What changes meanwhile comes into force afterwards.
    remote.link.unplug().unwrap();
    wait_for("the end of the connections", || (!remote.is_connected()).then_some(()));
    let mark = remote.change();
    remote.link.plug().unwrap();
    remote.has(&mark);
    remote.is_whole();

    // Somebody deletes the bridge, with the ports of the machines.
    host.vsctl(&["del-br", "br-int"]).unwrap();
    host.wait_for_bridge("br-int", DEADLINE).unwrap();
    for machine in ["red-1", "red-2"] {
        remote.lab().attach(machine).unwrap();
    }
    remote.is_whole();
}

/// Both daemons start before the host has its address, as while it boots.
#[test]
fn d27_an_address_that_comes_late_is_listened_at() {
    let mut remote = Remote::start();
    let host = remote.host().clone();
    host.kill_vswitchd().unwrap();
    host.stop_ovsdb().unwrap();
    remote.link.take_address().unwrap();
    host.start_ovsdb().unwrap();
    host.start_vswitchd().unwrap();
    let refused = "6653:198.18.1.2: bind";
    wait_for("the refusal of the address", || remote.log_has(refused));
    remote.link.give_address().unwrap();
    remote.is_whole();
}

#[test]
fn d27_a_deleted_node_leaves_nothing_on_its_remote_host() {
    let mut remote = Remote::start();
    let host = remote.host().clone();
    // Its machines run there.
    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["delete", "transport_node", "hv1"])
        .env("WEFT_CONTROLLER", remote.testbed.controller_address())
        .output()
        .unwrap();
    assert_eq!(
        (refused.status.code(), String::from_utf8_lossy(&refused.stderr).as_ref()),
        (
            Some(1),
            "error: 2 ports have their interfaces on hv1: red-1, red-2\nnothing was changed; give --yes if this is meant\n"
        )
    );
    remote.is_whole();
    ask(&remote.testbed, &["delete", "transport_node", "hv1", "--yes"]);
    let left = || {
        let flows = host.dump_flows("br-int").unwrap().len();
        let target = host.vsctl(&["get-controller", "br-int"]).unwrap();
        (flows == 0 && target.trim().is_empty()).then_some(())
    };
    wait_for("the removal of flows and of the controller's target", left);
    // It can become one again.
    let node = remote.testbed.hosts_as_objects().unwrap();
    remote.testbed.apply("node.yaml", &node).unwrap();
    remote.is_whole();
}

//! A host whose connections are encrypted: the change from clear text while machines talk, and certificates that change.

use std::time::Duration;

use test_authority::Authority;
use testbed::{DEADLINE, Testbed};
use weft_client::CredentialFiles;

use super::secured::{
    NETWORK, OPENFLOW, OVSDB, controller_of, dial_by_tls, host_certificate, machines, node_that_dials_in,
    only_host, set_ssl, target, with_certificate,
};
use super::support::{bring_up, wait_for};

/// Time between two probes of a machine.
const EVERY: Duration = Duration::from_millis(5);
/// The probes before and after each step.
const PROBES: u64 = 100;
/// The longest time without an answer.
const GAP_MAX: Duration = Duration::from_secs(1);

#[test]
fn a_host_changes_to_tls_while_it_forwards_and_no_other_certificate_is_taken() {
    // Whoever has a certificate of the authority that a switch trusts can control it, so that of controllers is another one.
    let (controllers, members) = (Authority::new(), Authority::new());
    let files = controller_of(&controllers, &members);
    let testbed = Testbed::start(with_certificate("secure", &files)).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let host = only_host(&testbed);
    let status = || testbed.status().unwrap().switches.remove(0);

    let lab = testbed.lab().unwrap();
    lab.wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    let ping = lab.spawn_ping("red-1", [10, 6, 0, 2].into(), EVERY).unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();

    // The host gets its certificate, its database listens for TLS as well, and the controller changes over.
    let set_ssl = |files: &CredentialFiles| set_ssl(&host, files, &controllers.path("ca.pem"));
    set_ssl(&members.issue(&host_certificate("hv1", 11)));
    dial_by_tls(&testbed);
    ping.wait_received(PROBES, DEADLINE).unwrap();

    // A new certificate in the same files, and the former one revoked: the controller connects again.
    members.issue(&host_certificate("hv1", 12));
    members.revoke(&[11], 2);
    wait_for("the end of the connection of a revoked certificate", || {
        let status = status();
        (!status.connected || status.last_error.contains("Revoked")).then_some(())
    });
    testbed.wait_in_sync().unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();

    // The certificate of another host.
    set_ssl(&members.issue(&host_certificate("hv2", 13)));
    members.revoke(&[11, 12], 3);
    let other = "its certificate names hv2, not hv1";
    wait_for("the refusal of another host's certificate", || {
        let status = status();
        (!status.connected && status.last_error.contains(other)).then_some(())
    });
    ping.wait_received(PROBES, DEADLINE).unwrap();
    set_ssl(&members.issue(&host_certificate("hv1", 14)));
    testbed.wait_in_sync().unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    // A bridge that listens elsewhere may lose its flows for as long as it takes to get them back.
    assert!(result.longest_gap < GAP_MAX && result.duplicates == 0, "{result:?}");
}

#[test]
fn a_host_changes_to_dialling_in_and_survives_restarts_of_the_controller() {
    let (controllers, members) = (Authority::new(), Authority::new());
    let files = controller_of(&controllers, &members);
    let mut testbed = Testbed::start(with_certificate("secure", &files)).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let host = only_host(&testbed);
    let lab = testbed.lab().unwrap();
    lab.wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    let ping = lab.spawn_ping("red-1", [10, 6, 0, 2].into(), EVERY).unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();

    // The database dials in beside its endpoint in clear text, and with another name than its certificate's.
    set_ssl(&host, &members.issue(&host_certificate("hv1", 11)), &controllers.path("ca.pem"));
    host.vsctl(&["set", "open_vswitch", ".", "external_ids:system-id=hv7"]).unwrap();
    let clear = host.vsctl(&["get-manager"]).unwrap();
    host.vsctl(&["set-manager", clear.trim(), OVSDB]).unwrap();
    testbed.apply("nodes.yaml", &node_that_dials_in(&testbed)).unwrap();
    let status = |testbed: &Testbed| testbed.status().unwrap().switches.remove(0);
    wait_for("the refusal of another name", || {
        status(&testbed).last_error.contains("its external_ids:system-id is hv7").then_some(())
    });
    ping.wait_received(PROBES, DEADLINE).unwrap();
    host.vsctl(&["set", "open_vswitch", ".", "external_ids:system-id=hv1"]).unwrap();

    // Its bridge dials in too.
    wait_for("a bridge that dials in", || (target(&host) == OPENFLOW).then_some(()));
    testbed.wait_in_sync().unwrap();
    host.vsctl(&["set-manager", OVSDB]).unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    // The first controller that a bridge dials makes it discard its flows.
    assert!(result.longest_gap < GAP_MAX && result.duplicates == 0, "{result:?}");
    // No hidden flows let packets for the controller pass.
    let flows = host.appctl(&["bridge/dump-flows", "br-int"]).unwrap();
    assert!(!flows.contains("priority=18000"), "{flows}");

    // The controller is away and comes back; the host dials it again, and nothing is written.
    let ping = lab.spawn_ping("red-1", [10, 6, 0, 2].into(), EVERY).unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();
    testbed.kill_controller().unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    assert_eq!(status(&testbed).sync_flow_mods, Some(0));
    ping.wait_received(PROBES, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    assert!(result.longest_gap < GAP_MAX && result.duplicates == 0, "{result:?}");
    assert_eq!(target(&host), OPENFLOW);
}

//! Certificates of a controller and of a host that are renewed while both talk, on real Open vSwitch.

use std::time::Duration;

use test_authority::{Authority, Leaf, controller};
use testbed::{DEADLINE, Testbed};

use super::secured::{
    NETWORK, begun, controller_of, dial_by_tls, host_certificate, machines, only_host, set_ssl,
    with_certificate,
};
use super::support::{bring_up, wait_for};

/// Time between two probes of a machine.
const EVERY: Duration = Duration::from_millis(5);
/// The changes of the network before and after each step.
const CHANGES: u8 = 20;

/// Changes the network again and again, each time until the switch has confirmed it.
fn change(testbed: &Testbed) {
    for number in 0..CHANGES {
        let port = format!(
            "{{kind: switch_port, id: red-2, switch: red, addresses: [{{mac: '02:00:00:00:06:02', ips: [10.6.0.2]}}, \
             {{mac: '02:00:00:00:07:{number:02x}', ips: []}}]}}"
        );
        testbed.apply("change.yaml", &port).unwrap();
        testbed.wait_in_sync().unwrap();
    }
}

#[test]
fn certificates_of_both_sides_change_and_no_connection_to_a_switch_ends() {
    let (controllers, members) = (Authority::new(), Authority::new());
    let testbed =
        Testbed::start(with_certificate("renewal", &controller_of(&controllers, &members))).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let host = only_host(&testbed);
    set_ssl(&host, &members.issue(&host_certificate("hv1", 11)), &controllers.path("ca.pem"));
    dial_by_tls(&testbed);
    let lab = testbed.lab().unwrap();
    lab.wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    let ping = lab.spawn_ping("red-1", [10, 6, 0, 2].into(), EVERY).unwrap();
    change(&testbed);
    let before = begun(&testbed).len();

    let read_again = || {
        let log = std::fs::read_to_string(testbed.log()).unwrap();
        log.matches("certificates read again").count()
    };
    for (round, serial) in (1..).zip([12, 13, 14]) {
        members.issue(&host_certificate("hv1", serial));
        controllers.issue(&Leaf { serial, ..controller() });
        change(&testbed);
        wait_for("the certificates to be read again", || (read_again() >= round).then_some(()));
    }
    change(&testbed);
    assert_eq!(begun(&testbed).len(), before, "connections have ended: {:#?}", begun(&testbed));
    let status = testbed.status().unwrap().switches.remove(0);
    assert!(status.synced && status.foreign_changes == 0, "{status:?}");

    // The next connections are by the new certificates, since the former ones are not good any more.
    members.revoke(&[11, 12, 13], 2);
    wait_for("connections with the new certificate", || (begun(&testbed).len() >= before + 2).then_some(()));
    testbed.wait_in_sync().unwrap();
    change(&testbed);
    let result = ping.stop().unwrap();
    assert_eq!((result.sent, result.duplicates), (result.received, 0), "{result:?}");
}

//! The versions of TLS that Open vSwitch can be limited to: a host is managed over each, whoever dials.

use lab::Stop;
use test_authority::Authority;
use testbed::{DEADLINE, Testbed};

use super::secured::{
    NETWORK, begun, controller_of, dial_by_tls, dial_in, host_certificate, machines, only_host, set_ssl,
    with_certificate,
};
use super::support::bring_up;

/// The database and the bridge.
const CONNECTIONS: usize = 2;

/// A host whose daemons have these options is managed over this version and cipher.
fn is_managed(test: &str, options: &[&str], version: &str) {
    let (controllers, members) = (Authority::new(), Authority::new());
    let testbed = Testbed::start(with_certificate(test, &controller_of(&controllers, &members))).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let host = only_host(&testbed);
    host.stop_vswitchd(Stop::Exit).unwrap();
    host.stop_ovsdb().unwrap();
    host.start_ovsdb_with(options).unwrap();
    host.start_vswitchd_with(options).unwrap();
    set_ssl(&host, &members.issue(&host_certificate("hv1", 11)), &controllers.path("ca.pem"));

    let talks = || testbed.lab().unwrap().wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    let mut earlier = 0;
    for change in [dial_by_tls, dial_in] {
        change(&testbed);
        talks();
        let begun = begun(&testbed).split_off(earlier);
        assert!(begun.len() >= CONNECTIONS, "{begun:#?}");
        for line in &begun {
            assert!(line.contains("hv1 (node)") && line.contains(version), "{line}");
        }
        earlier += begun.len();
    }
}

#[test]
fn a_host_that_speaks_tls_1_2_alone_is_managed_whoever_dials() {
    is_managed(
        "tls12",
        &["--ssl-protocols=TLSv1.2"],
        "protocol=\"TLSv1_2\" cipher=\"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"",
    );
}

#[test]
fn a_host_with_the_settings_of_debian_is_managed_over_tls_1_3_whoever_dials() {
    is_managed("tls13", &[], "protocol=\"TLSv1_3\" cipher=\"TLS13_AES_256_GCM_SHA384\"");
}

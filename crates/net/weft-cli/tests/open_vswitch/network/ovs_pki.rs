//! Certificates that `ovs-pki` has made, as many installations of Open vSwitch have them.

use test_authority::ovs_pki::{OvsPki, Signer};
use testbed::{DEADLINE, Testbed};

use super::secured::{NETWORK, begun, dial_by_tls, dial_in, machines, only_host, set_ssl, with_certificate};
use super::support::{bring_up, wait_for};

#[test]
fn a_controller_and_a_host_with_certificates_of_ovs_pki_connect_whoever_dials() {
    let pki = OvsPki::new();
    let controllers = pki.authority(Signer::Controllers);
    // With a number in its name, which makes it no valid DNS name.
    let files = pki.issue("ctl", Signer::Controllers);
    let testbed = Testbed::start(with_certificate("ovspki", &files)).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let host = only_host(&testbed);
    set_ssl(&host, &pki.issue("hv1", Signer::Switches), &controllers);
    for change in [dial_by_tls, dial_in] {
        change(&testbed);
        testbed.lab().unwrap().wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    }
    let begun = begun(&testbed);
    assert!(begun.len() >= 4, "{begun:#?}");
    for line in &begun {
        // The certificate says nothing of a role.
        let wanted = "peer=\"hv1\" protocol=\"TLSv1_3\" cipher=\"TLS13_AES_256_GCM_SHA384\"";
        assert!(line.contains(wanted), "{line}");
    }

    // That of another host is refused here as well, when the host dials the next time.
    set_ssl(&host, &pki.issue("hv2", Signer::Switches), &controllers);
    host.stop_ovsdb().unwrap();
    host.start_ovsdb().unwrap();
    wait_for("the refusal of another host's certificate", || {
        let status = testbed.status().unwrap();
        let unexpected =
            |text: &str| text.contains("with the certificate of hv2, and no transport node hv2 awaits it");
        status.problems.iter().any(|problem| unexpected(&problem.text)).then_some(())
    });
}

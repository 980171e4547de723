//! A host whose connections are encrypted: the change from clear text while machines talk, and certificates that change.

use std::time::Duration;

use lab::{Host, VmSpec};
use test_authority::{Authority, Leaf, controller};
use testbed::{DEADLINE, Settings, Testbed};
use weft_client::CredentialFiles;

use super::support::{bring_up, settings, wait_for};

/// Time between two probes of a machine.
const EVERY: Duration = Duration::from_millis(5);
/// The probes before and after each step.
const PROBES: u64 = 100;
/// The longest time without an answer.
const GAP_MAX: Duration = Duration::from_secs(1);

const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch_port, id: red-1, switch: red, addresses: [{mac: '02:00:00:00:06:01', ips: [10.6.0.1]}]}
---
{kind: switch_port, id: red-2, switch: red, addresses: [{mac: '02:00:00:00:06:02', ips: [10.6.0.2]}]}
";

/// The certificate of a host.
fn host_certificate(name: &'static str, serial: u64) -> Leaf<'static> {
    Leaf { role: Some("weft:node"), serial, ..Leaf::new(name) }
}

/// The settings of a controller with a certificate of one authority, which trusts those of another.
fn with_certificate(controllers: &Authority, members: &Authority) -> Settings {
    let own = controllers.issue(&controller()).own.unwrap();
    let line = |key: &str, file: &std::path::Path| format!("{key} = {:?}", file.display().to_string());
    let configuration = vec![
        line("tls_certificate", &own.certificate),
        line("tls_key", &own.key),
        line("tls_authorities", &members.path("ca.pem")),
        line("tls_revoked", &members.path("revoked.pem")),
    ];
    Settings { hosts: 1, remote: true, configuration, ..settings("secure") }
}

/// Two machines of the network, on the host.
fn machines() -> [VmSpec; 2] {
    [1, 2].map(|n| {
        let name = format!("red-{n}");
        VmSpec::new(&name, "hv1", &name, format!("02:00:00:00:06:0{n}")).address(format!("10.6.0.{n}/24"))
    })
}

/// Gives a host its certificate, and the authority of controllers.
fn set_ssl(host: &Host, files: &CredentialFiles, controllers: &Authority) {
    let (own, authority) = (files.own.as_ref().unwrap(), controllers.path("ca.pem"));
    let files = [&own.key, &own.certificate, &authority].map(|file| file.to_str().unwrap());
    host.vsctl(&["set-ssl", files[0], files[1], files[2]]).unwrap();
}

#[test]
fn a_host_changes_to_tls_while_it_forwards_and_no_other_certificate_is_taken() {
    // Whoever has a certificate of the authority that a switch trusts can control it, so that of controllers is another one.
    let (controllers, members) = (Authority::new(), Authority::new());
    let testbed = Testbed::start(with_certificate(&controllers, &members)).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let link = testbed.lab().unwrap().management_links().unwrap().remove(0);
    let host = link.host();
    let status = || testbed.status().unwrap().switches.remove(0);

    let lab = testbed.lab().unwrap();
    lab.wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    let ping = lab.spawn_ping("red-1", [10, 6, 0, 2].into(), EVERY).unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();

    // The host gets its certificate, and its database listens for TLS as well.
    let hv1 = members.issue(&host_certificate("hv1", 11));
    let set_ssl = |files: &CredentialFiles| set_ssl(host, files, &controllers);
    set_ssl(&hv1);
    let clear = host.vsctl(&["get-manager"]).unwrap();
    let secure = format!("pssl:6641:{}", link.address);
    host.vsctl(&["set-manager", clear.trim(), &secure]).unwrap();

    // The controller changes over; then nothing listens in clear text any more.
    let nodes = testbed.hosts_as_objects().unwrap();
    let nodes = nodes.replace("ovsdb: tcp:198.18.1.2:6640", "ovsdb: ssl:198.18.1.2:6641");
    // At another port: Open vSwitch cannot listen for TLS where it still listens in clear text.
    let nodes = nodes.replace("openflow: tcp:198.18.1.2:6653", "openflow: ssl:198.18.1.2:6654");
    assert_eq!(nodes.matches("ssl:").count(), 2, "{nodes}");
    testbed.apply("nodes.yaml", &nodes).unwrap();
    let target = || host.vsctl(&["get-controller", "br-int"]).unwrap().trim().to_owned();
    wait_for("a bridge that listens for TLS", || (target() == "pssl:6654:198.18.1.2").then_some(()));
    testbed.wait_in_sync().unwrap();
    host.vsctl(&["set-manager", &secure]).unwrap();
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
    const OVSDB: &str = "ssl:198.18.1.1:6640";
    const OPENFLOW: &str = "ssl:198.18.1.1:6653";
    let (controllers, members) = (Authority::new(), Authority::new());
    let mut settings = with_certificate(&controllers, &members);
    settings.configuration.push("listen_ovsdb = \"0.0.0.0:6640\"".to_owned());
    settings.configuration.push("listen_openflow = \"0.0.0.0:6653\"".to_owned());
    settings.configuration.push("advertise = \"198.18.1.1\"".to_owned());
    let mut testbed = Testbed::start(settings).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let link = testbed.lab().unwrap().management_links().unwrap().remove(0);
    let host = link.host();
    let lab = testbed.lab().unwrap();
    lab.wait_ping("red-1", [10, 6, 0, 2].into(), DEADLINE).unwrap();
    let ping = lab.spawn_ping("red-1", [10, 6, 0, 2].into(), EVERY).unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();

    // The database dials in beside its endpoint in clear text, and with another name than its certificate's.
    set_ssl(host, &members.issue(&host_certificate("hv1", 11)), &controllers);
    host.vsctl(&["set", "open_vswitch", ".", "external_ids:system-id=hv7"]).unwrap();
    let clear = host.vsctl(&["get-manager"]).unwrap();
    host.vsctl(&["set-manager", clear.trim(), OVSDB]).unwrap();
    let nodes = testbed.hosts_as_objects().unwrap();
    let without = nodes.lines().filter(|line| !line.starts_with("ovsdb:") && !line.starts_with("openflow:"));
    let without: Vec<&str> = without.collect();
    testbed.apply("nodes.yaml", &without.join("\n")).unwrap();
    let status = |testbed: &Testbed| testbed.status().unwrap().switches.remove(0);
    wait_for("the refusal of another name", || {
        status(&testbed).last_error.contains("its external_ids:system-id is hv7").then_some(())
    });
    ping.wait_received(PROBES, DEADLINE).unwrap();
    host.vsctl(&["set", "open_vswitch", ".", "external_ids:system-id=hv1"]).unwrap();

    // Its bridge dials in too.
    let target = || host.vsctl(&["get-controller", "br-int"]).unwrap().trim().to_owned();
    wait_for("a bridge that dials in", || (target() == OPENFLOW).then_some(()));
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
    let host = host.clone();
    testbed.kill_controller().unwrap();
    ping.wait_received(PROBES, DEADLINE).unwrap();
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    assert_eq!(status(&testbed).sync_flow_mods, Some(0));
    ping.wait_received(PROBES, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    assert!(result.longest_gap < GAP_MAX && result.duplicates == 0, "{result:?}");
    assert_eq!(host.vsctl(&["get-controller", "br-int"]).unwrap().trim(), OPENFLOW);
}

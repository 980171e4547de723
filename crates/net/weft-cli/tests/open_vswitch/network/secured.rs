//! A controller with a certificate, and a host that changes from clear text to TLS, whoever dials.

use std::path::Path;

use lab::{Host, VmSpec};
use test_authority::{Authority, Leaf, controller};
use testbed::{Settings, Testbed};
use weft_client::CredentialFiles;

use super::support::{settings, wait_for};

/// Where the database and the bridge of the host dial the controller.
pub(crate) const OVSDB: &str = "ssl:198.18.1.1:6640";
pub(crate) const OPENFLOW: &str = "ssl:198.18.1.1:6653";

/// Two ports on one switch.
pub(crate) const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch_port, id: red-1, switch: red, addresses: [{mac: '02:00:00:00:06:01', ips: [10.6.0.1]}]}
---
{kind: switch_port, id: red-2, switch: red, addresses: [{mac: '02:00:00:00:06:02', ips: [10.6.0.2]}]}
";

/// Two machines of the network, on the host.
pub(crate) fn machines() -> [VmSpec; 2] {
    [1, 2].map(|n| {
        let name = format!("red-{n}");
        VmSpec::new(&name, "hv1", &name, format!("02:00:00:00:06:0{n}")).address(format!("10.6.0.{n}/24"))
    })
}

/// The certificate of a host.
pub(crate) fn host_certificate(name: &'static str, serial: u64) -> Leaf<'static> {
    Leaf { role: Some("weft:node"), serial, ..Leaf::new(name) }
}

/// The files of a controller whose certificate is of one authority, and which trusts another.
pub(crate) fn controller_of(controllers: &Authority, members: &Authority) -> CredentialFiles {
    CredentialFiles { own: controllers.issue(&controller()).own, ..members.trust() }
}

/// The lines of a controller's configuration that name these files.
pub(crate) fn lines_of(files: &CredentialFiles) -> Vec<String> {
    let own = files.own.as_ref().unwrap();
    let line = |key: &str, file: &Path| format!("{key} = {:?}", file.display().to_string());
    let mut lines = vec![
        line("tls_certificate", &own.certificate),
        line("tls_key", &own.key),
        line("tls_authorities", &files.authorities),
    ];
    lines.extend(files.revoked.as_ref().map(|revoked| line("tls_revoked", revoked)));
    lines
}

/// The settings of a controller with these files, for one host. The host can dial it.
pub(crate) fn with_certificate(test: &str, files: &CredentialFiles) -> Settings {
    let mut configuration = lines_of(files);
    configuration.extend(
        [
            "listen_ovsdb = \"0.0.0.0:6640\"",
            "listen_openflow = \"0.0.0.0:6653\"",
            "advertise = \"198.18.1.1\"",
            "log = \"info,mutual_tls=debug\"",
        ]
        .map(str::to_owned),
    );
    Settings { hosts: 1, remote: true, configuration, ..settings(test) }
}

/// Gives a host its certificate, and the authority of controllers.
pub(crate) fn set_ssl(host: &Host, files: &CredentialFiles, controllers: &Path) {
    let own = files.own.as_ref().unwrap();
    let files = [&own.key, &own.certificate, controllers].map(|file| file.to_str().unwrap());
    host.vsctl(&["set-ssl", files[0], files[1], files[2]]).unwrap();
}

/// The one host of a testbed.
pub(crate) fn only_host(testbed: &Testbed) -> Host {
    testbed.lab().unwrap().management_links().unwrap().remove(0).host().clone()
}

/// The host's database and bridge listen for TLS, and the controller dials them there. Nothing listens in clear text any more.
pub(crate) fn dial_by_tls(testbed: &Testbed) {
    let host = only_host(testbed);
    let (clear, secure) = (host.vsctl(&["get-manager"]).unwrap(), "pssl:6641:198.18.1.2");
    host.vsctl(&["set-manager", clear.trim(), secure]).unwrap();
    testbed.apply("nodes.yaml", &node_by_tls(testbed)).unwrap();
    wait_for("a bridge that listens for TLS", || (target(&host) == "pssl:6654:198.18.1.2").then_some(()));
    testbed.wait_in_sync().unwrap();
    host.vsctl(&["set-manager", secure]).unwrap();
}

/// The host as an object that is dialled by TLS.
pub(crate) fn node_by_tls(testbed: &Testbed) -> String {
    let nodes = testbed.hosts_as_objects().unwrap();
    let nodes = nodes.replace("ovsdb: tcp:198.18.1.2:6640", "ovsdb: ssl:198.18.1.2:6641");
    // At another port: Open vSwitch cannot listen for TLS where it still listens in clear text.
    let nodes = nodes.replace("openflow: tcp:198.18.1.2:6653", "openflow: ssl:198.18.1.2:6654");
    assert_eq!(nodes.matches("ssl:").count(), 2, "{nodes}");
    nodes
}

/// The host's database and bridge dial the controller.
pub(crate) fn dial_in(testbed: &Testbed) {
    let host = only_host(testbed);
    host.vsctl(&["set", "open_vswitch", ".", "external_ids:system-id=hv1"]).unwrap();
    let before = host.vsctl(&["get-manager"]).unwrap();
    host.vsctl(&["set-manager", before.trim(), OVSDB]).unwrap();
    testbed.apply("nodes.yaml", &node_that_dials_in(testbed)).unwrap();
    wait_for("a bridge that dials in", || (target(&host) == OPENFLOW).then_some(()));
    testbed.wait_in_sync().unwrap();
    host.vsctl(&["set-manager", OVSDB]).unwrap();
}

/// The host as an object without endpoints.
pub(crate) fn node_that_dials_in(testbed: &Testbed) -> String {
    let nodes = testbed.hosts_as_objects().unwrap();
    let lines = nodes.lines().filter(|line| !line.starts_with("ovsdb:") && !line.starts_with("openflow:"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Where the bridge listens, or dials.
pub(crate) fn target(host: &Host) -> String {
    host.vsctl(&["get-controller", "br-int"]).unwrap().trim().to_owned()
}

/// What the controller's log says of each TLS connection that has begun.
pub(crate) fn begun(testbed: &Testbed) -> Vec<String> {
    let log = std::fs::read_to_string(testbed.log()).unwrap();
    log.lines().filter(|line| line.contains("TLS connection begun")).map(str::to_owned).collect()
}

//! Hosts that dial the controller over TLS, with certificates of authorities that are made for the bench.

use std::net::{Ipv4Addr, SocketAddr};

use mutual_tls::Files;
use sim_switches::DialIn;
use test_authority::{Authority, Leaf, controller};

/// Where the controller awaits the hosts: not at the ports where they listen.
const OVSDB: SocketAddr = local(16640);
const OPENFLOW: SocketAddr = local(16653);

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// The authority of controllers, and that of hosts.
pub(super) struct Authorities {
    controllers: Authority,
    members: Authority,
}

impl Authorities {
    pub(super) fn new() -> Authorities {
        Authorities { controllers: Authority::new(), members: Authority::new() }
    }

    /// What the configuration of the controller says.
    pub(super) fn configuration(&self) -> String {
        let own = self.controllers.issue(&Leaf { host: Some("127.0.0.1"), ..controller() }).own;
        let files = own.map(|own| [("tls_certificate", own.certificate), ("tls_key", own.key)]);
        let trusted = [
            ("tls_authorities", self.members.path("ca.pem")),
            ("tls_revoked", self.members.path("revoked.pem")),
        ];
        let paths = files.into_iter().flatten().chain(trusted);
        let mut lines = format!("listen_ovsdb = '{OVSDB}'\nlisten_openflow = '{OPENFLOW}'\n");
        for (key, path) in paths {
            lines += &format!("{key} = '{}'\n", path.display());
        }
        lines
    }

    /// How the hosts dial.
    pub(super) fn dial_in(&self) -> DialIn<'_> {
        let files =
            |name: &str| Files { own: self.members.issue(&Leaf::new(name)).own, ..self.controllers.trust() };
        DialIn { manager: OVSDB, files: Box::new(files) }
    }
}

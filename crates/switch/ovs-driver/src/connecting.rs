//! How the bridge gets its OpenFlow connection: it waits at the port of the endpoint if the driver dials a remote host, it dials the
//! controller if the switch dials in, and needs nothing if the driver dials its own socket.

use std::net::IpAddr;

use ovsdb_client::open_vswitch::{Connecting, Controller};
use peer_connection::Endpoint;

/// The mark of the driver's rows of `Controller`.
const MARK: (&str, &str) = ("weft", "openflow");

/// Where the bridge waits for the driver that uses this endpoint, or dials it.
pub(crate) fn connecting(openflow: &Endpoint) -> Connecting {
    let (method, host, port) = match openflow {
        Endpoint::Unix(_) => return nowhere(),
        Endpoint::DialIn { target, .. } => {
            return Connecting { mark: MARK, target: Some(target.clone()) };
        }
        Endpoint::Tcp { host, port } => ("ptcp", host, port),
        Endpoint::Ssl { host, port, .. } => ("pssl", host, port),
    };
    let target = match host.parse() {
        // At this address alone. A port of TCP is open to whoever reaches it.
        Ok(IpAddr::V4(address)) => format!("{method}:{port}:{address}"),
        Ok(IpAddr::V6(address)) => format!("{method}:{port}:[{address}]"),
        // The host may resolve its own name to another address.
        Err(_) => format!("{method}:{port}"),
    };
    Connecting { mark: MARK, target: Some(target) }
}

/// Whether the bridge waits for the driver at an address of its own.
pub(crate) fn waits(openflow: &Endpoint) -> bool {
    matches!(openflow, Endpoint::Tcp { .. } | Endpoint::Ssl { .. })
}

/// Nowhere: for a driver that dials the bridge's own socket, or one that leaves.
pub(crate) fn nowhere() -> Connecting {
    Connecting { mark: MARK, target: None }
}

/// Whether a row is the driver's.
pub(crate) fn is_own(controller: &Controller) -> bool {
    controller.external_ids.get(MARK.0).is_some_and(|value| value == MARK.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d27_the_bridge_waits_where_the_driver_dials() {
        for (endpoint, target) in [
            ("unix:/run/openvswitch/br-int.mgmt", None),
            ("tcp:10.0.0.1:6653", Some("ptcp:6653:10.0.0.1")),
            ("tcp:[fd00::1]:6654", Some("ptcp:6654:[fd00::1]")),
            ("tcp:hv1.example:6653", Some("ptcp:6653")),
            ("ssl:10.0.0.1:6653", Some("pssl:6653:10.0.0.1")),
            ("ssl:hv1.example:6653", Some("pssl:6653")),
        ] {
            let endpoint = endpoint.parse().expect("an endpoint");
            assert_eq!(connecting(&endpoint).target.as_deref(), target);
            assert_eq!(waits(&endpoint), target.is_some());
        }
        let target = "ssl:10.0.0.254:6653".to_owned();
        let dials_in = Endpoint::DialIn { name: "hv1".to_owned(), target: target.clone() };
        assert_eq!(connecting(&dials_in).target, Some(target));
        assert!(!waits(&dials_in));
    }
}

//! Where the bridge waits for OpenFlow connections: nowhere if the driver dials the bridge's own socket, at the port of the endpoint
//! if it dials a remote host.

use std::net::IpAddr;

use ovsdb_client::open_vswitch::{Controller, Listening};
use peer_connection::Endpoint;

/// The mark of the driver's rows of `Controller`.
const MARK: (&str, &str) = ("weft", "openflow");

/// Where the bridge waits for the driver that dials this endpoint.
pub(crate) fn listening(openflow: &Endpoint) -> Listening {
    let (method, host, port) = match openflow {
        Endpoint::Unix(_) => return nowhere(),
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
    Listening { mark: MARK, target: Some(target) }
}

/// Nowhere: for a driver that dials the bridge's own socket, or one that leaves.
pub(crate) fn nowhere() -> Listening {
    Listening { mark: MARK, target: None }
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
            assert_eq!(listening(&endpoint).target.as_deref(), target);
        }
    }
}

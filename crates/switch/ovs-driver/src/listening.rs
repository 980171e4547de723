//! Where the bridge waits for OpenFlow connections: nowhere if the driver dials the bridge's own socket, at the port of the endpoint
//! if it dials a remote host.

use std::net::IpAddr;

use ovsdb_client::open_vswitch::{Controller, Listening};
use peer_connection::Endpoint;

/// The mark of the driver's rows of `Controller`.
const MARK: (&str, &str) = ("weft", "openflow");

/// Where the bridge waits for the driver that dials this endpoint.
pub(crate) fn listening(openflow: &Endpoint) -> Listening {
    let target = match openflow {
        Endpoint::Unix(_) => None,
        Endpoint::Tcp { host, port } => Some(match host.parse() {
            // At this address alone. The port is open to whoever reaches it.
            Ok(IpAddr::V4(address)) => format!("ptcp:{port}:{address}"),
            Ok(IpAddr::V6(address)) => format!("ptcp:{port}:[{address}]"),
            // The host may resolve its own name to another address.
            Err(_) => format!("ptcp:{port}"),
        }),
    };
    Listening { mark: MARK, target }
}

/// For a driver that leaves.
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
        ] {
            let endpoint = endpoint.parse().expect("an endpoint");
            assert_eq!(listening(&endpoint).target.as_deref(), target);
        }
    }
}

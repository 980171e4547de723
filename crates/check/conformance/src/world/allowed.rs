//! Whether ports may be allowed addresses.

use frame_builder::Mac;
use network_spec::{Address, Network, Port};

use super::NumberedWorld;

impl NumberedWorld {
    /// Whether a port may be allowed what it is, and whether others may be allowed what they are beside its own addresses.
    pub(super) fn accepts_allowed(&self, name: &str, port: &Port) -> bool {
        let is_own = |mac: Mac| port.addresses.iter().any(|address| address.mac == mac);
        let is_complete = port.allowed.iter().all(|one| match one.mac {
            None => !port.addresses.is_empty() && !one.ips.is_empty(),
            Some(mac) => !is_own(mac) || !one.ips.is_empty(),
        });
        let has_its_own = !allowed_alone(port).iter().any(|one| self.is_taken(&port.switch, name, one));
        let others = self.ports_of(&port.switch).filter(|(other, _)| *other != name);
        let leaves_others_theirs = others.flat_map(|(_, other)| allowed_alone(other)).all(|shared| {
            port.addresses
                .iter()
                .all(|own| own.mac != shared.mac && (own.ips.iter().all(|ip| !shared.ips.contains(ip))))
        });
        is_complete && has_its_own && leaves_others_theirs
    }

    /// Whether a port is allowed one of these addresses of a switch, which somebody else is to have.
    pub(super) fn is_shared(&self, switch: &str, address: &Address) -> bool {
        let mut shared = self.ports_of(switch).flat_map(|(_, port)| allowed_alone(port));
        shared.any(|shared| shared.mac == address.mac || shared.ips.iter().any(|ip| address.ips.contains(ip)))
    }
}

/// The MACs that are not the port's own, and the IP addresses that are no prefixes, of what a port is allowed.
fn allowed_alone(port: &Port) -> Vec<Address> {
    const NO_MAC: Mac = [0; 6];
    let own = |mac: &Mac| port.addresses.iter().any(|address| address.mac == *mac);
    let alone = |network: &&Network| **network == Network::host(network.ip);
    port.allowed
        .iter()
        .map(|one| Address {
            mac: one.mac.filter(|mac| !own(mac)).unwrap_or(NO_MAC),
            ips: one.ips.iter().filter(alone).map(|network| network.ip).collect(),
        })
        .collect()
}

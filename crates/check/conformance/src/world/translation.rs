//! Address translation: what rows are valid beside each other and beside what else there is.

use std::collections::BTreeSet;
use std::net::IpAddr;

use network_spec::{Nat, NatKind, NatService};

use super::{Change, NumberedWorld};

impl NumberedWorld {
    /// Whether a change leaves the rows of address translation valid.
    pub(super) fn keeps_nats(&self, change: &Change) -> bool {
        if self.nats.is_empty() && !matches!(change, Change::Nat(..)) {
            return true;
        }
        let mut after = self.clone();
        after.make(change.clone());
        after.nats_agree()
    }

    fn nats_agree(&self) -> bool {
        let mut claims = BTreeSet::new();
        self.nats.iter().all(|(name, nat)| {
            self.routers.contains_key(&nat.router)
                && except_of(nat).is_none_or(|group| self.address_groups.contains_key(group))
                && self.goes_inside(nat)
                && claim(nat).is_none_or(|claim| claims.insert(claim))
                && self.is_alone_outside(nat)
                && self.nats.iter().all(|(other, of)| other == name || agree(nat, of))
        })
    }

    /// Whether what becomes the destination of packets is the address of a machine.
    fn goes_inside(&self, nat: &Nat) -> bool {
        let (NatKind::Dnat { internal, .. } | NatKind::Floating { internal, .. }) = &nat.kind else {
            return true;
        };
        let mut own = self.nats.values().filter(|other| other.router == nat.router);
        let mut ports = self.ports_of_router(&nat.router).flat_map(|(_, port)| &port.networks);
        !own.any(|other| other.has_external(*internal)) && !ports.any(|network| network.ip == *internal)
    }

    /// Whether nobody else has its external addresses: no port of another router with gateways, and no port of a switch that is on the
    /// physical network.
    fn is_alone_outside(&self, nat: &Nat) -> bool {
        let mut others = self.router_ports.values().filter(|port| port.router != nat.router);
        let of_router = others.any(|port| {
            !port.gateways.is_empty() && port.networks.iter().any(|network| nat.has_external(network.ip))
        });
        let own = self.ports_of_router(&nat.router).filter(|(_, port)| !port.gateways.is_empty());
        let mut near = own.flat_map(|(_, port)| self.addresses_but(&port.switch, ""));
        !of_router && !near.any(|address| address.ips.iter().any(|ip| nat.has_external(*ip)))
    }
}

/// The name of the address group that a row leaves alone.
pub(super) fn except_of(nat: &Nat) -> Option<&String> {
    if let NatKind::Snat { except, .. } = &nat.kind { except.as_ref() } else { None }
}

/// A router, an external address, and the protocol and the port of it that are meant, if not all are.
type Claim = (String, IpAddr, Option<(u8, u16)>);

/// What of an address outside goes inside by a row: two rows may not say it of the same.
fn claim(nat: &Nat) -> Option<Claim> {
    let of = |ip: IpAddr, what| Some((nat.router.clone(), ip, what));
    match &nat.kind {
        NatKind::Snat { .. } => None,
        NatKind::Floating { external, .. } => of(*external, None),
        NatKind::Dnat { external, service, .. } => {
            let port = |service: &NatService| Some((service.protocol, service.ports?.0));
            of(*external, service.as_ref().and_then(port))
        }
    }
}

/// Whether there can be both rows.
fn agree(one: &Nat, other: &Nat) -> bool {
    if one.router != other.router {
        let (first, last) = one.kind.external();
        let (theirs, _) = other.kind.external();
        return !one.has_external(theirs) && !other.has_external(first) && !other.has_external(last);
    }
    match (&one.kind, &other.kind) {
        (NatKind::Snat { internal, .. }, NatKind::Snat { internal: theirs, .. }) => internal != theirs,
        (NatKind::Floating { internal, .. }, NatKind::Floating { internal: theirs, .. }) => {
            internal != theirs
        }
        _ => true,
    }
}

//! What the ACLs of a port say of a packet, without any connection.

use std::net::IpAddr;

use super::headers::Headers;
use super::objects::{Acl, AclAction, AclPlace, Default, Direction, Peers};
use crate::World;

/// The last tier.
const LAST_TIER: u8 = 3;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is dropped, by an ACL or by the default.
    Drop,
    /// It is dropped by an ACL, and its sender hears of it.
    Reject,
    /// An ACL allows it, and nothing else.
    Allow,
    /// It may begin a connection: an ACL says so, or no ACL matches it and the default allows it.
    Begin,
}

impl Verdict {
    /// Whether the packet may pass.
    pub(super) fn passes(self) -> bool {
        !matches!(self, Verdict::Drop | Verdict::Reject)
    }
}

impl World {
    /// The ACLs for a port: its own, those of its switch, and those of its port groups.
    fn acls_at<'a>(&'a self, port: &'a str) -> impl Iterator<Item = &'a Acl> {
        let switch = self.ports.get(port).map(|port| port.switch.as_str());
        self.acls.values().filter(move |acl| match &acl.place {
            AclPlace::Switch(of) => switch == Some(of),
            AclPlace::Port(of) => of == port,
            AclPlace::PortGroup(group) => {
                self.port_groups.get(group).is_some_and(|members| members.contains(port))
            }
        })
    }

    /// Whether a port keeps connections, in both directions: any of its ACLs allows what is related.
    pub(super) fn is_stateful(&self, port: &str) -> bool {
        self.acls_at(port).any(|acl| acl.action == AclAction::AllowRelated)
    }

    /// What the ACLs of a direction say of a packet at a port. In each tier, of the ACLs that match, the one with the highest
    /// priority decides, or the strictest of those; a `pass` leaves it to the next tier, as a tier without a match does. What no
    /// tier decides, the switch's default does, except about exempt messages.
    pub(super) fn verdict(&self, port: &str, direction: Direction, headers: &Headers) -> Verdict {
        let exempt = headers.exempt();
        let Some(switch) = self.ports.get(port).map(|port| port.switch.as_str()) else {
            return Verdict::Begin;
        };
        let tenant = self.tenant_of(switch);
        let is_for = |acl: &&Acl| {
            acl.direction == direction
                && exempt.is_none_or(|exempt| acl.matches.asks_for(exempt))
                && self.matches(acl, port, tenant, headers)
        };
        let matching: Vec<&Acl> = self.acls_at(port).filter(is_for).collect();
        for tier in 0..=LAST_TIER {
            let of_tier = matching.iter().filter(|acl| acl.tier == tier);
            // The strictest action is the least.
            let deciding = of_tier.min_by_key(|acl| (std::cmp::Reverse(acl.priority), acl.action));
            match deciding.map(|acl| acl.action) {
                Some(AclAction::Drop) => return Verdict::Drop,
                Some(AclAction::Reject) => return Verdict::Reject,
                Some(AclAction::AllowRelated) => return Verdict::Begin,
                Some(AclAction::Allow) => return Verdict::Allow,
                Some(AclAction::Pass) | None => {}
            }
        }
        let default = self.switches.get(switch).map(|switch| switch.acl_default).unwrap_or_default();
        if default == Default::Drop && exempt.is_none() { Verdict::Drop } else { Verdict::Begin }
    }

    /// Whether an ACL matches a packet at a port. What is from the port comes from it, and what is to the port goes to it, whatever
    /// addresses it carries, and also if it carries none.
    fn matches(&self, acl: &Acl, port: &str, tenant: &str, headers: &Headers) -> bool {
        let (src, dst) = headers.addresses.unzip();
        let are = |peers: &Option<Peers>, ip: Option<IpAddr>, is_at: Direction| {
            peers.as_ref().is_none_or(|peers| {
                (acl.direction == is_at && self.is_among(peers, tenant, port))
                    || ip.is_some_and(|ip| self.are(peers, tenant, ip))
            })
        };
        acl.matches.admits(headers)
            && are(&acl.from, src, Direction::FromPort)
            && are(&acl.to, dst, Direction::ToPort)
    }
}

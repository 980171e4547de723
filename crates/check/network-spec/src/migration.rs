//! Migration: the hosts that have an interface of one port at the same time, and the frames by which a machine says that it runs
//! at one of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::World;
use crate::frame::{Body, Frame, Packet, Payload, is_group};
use crate::guard;
use crate::world::Port;

impl World {
    /// The host that `port` is on: its home, where its interface or its parent's is. Reports of hosts that are not nodes do not
    /// count, nor do reports of a trunk member, nor those of hosts that the interface's port does not request. A disabled port
    /// is nowhere, and so is a port behind one.
    ///
    /// Several hosts may report one interface. If nobody has said that several may have it, the machine was started where it
    /// appeared last. No port moves to a host that is not schedulable: what appeared there counts if no schedulable host has
    /// an interface of the port, because then its machine can run nowhere else.
    ///
    /// If the port requests several hosts, an interface is plugged in long before the machine runs there: the machine is where it
    /// announced itself last, and if it did nowhere, on the first host of the list that has an interface. What was announced before
    /// a list of one other host does not count ([`World::overruled`]). Whether these hosts are schedulable makes no difference:
    /// machines migrate away from such hosts in this way.
    pub fn location(&self, port: &str) -> Option<&str> {
        let owner = self.owner(port)?;
        let claims = self.claims_of(port);
        let may_move_to = |host: &str| self.nodes.get(host).is_some_and(|node| node.schedulable);
        let requested = &self.ports.get(owner)?.requested_hosts;
        if requested.len() > 1 {
            let announced = claims.iter().filter_map(|(host, plugged)| {
                let known = self.announced.get(&((*host).to_owned(), owner.to_owned()))?;
                let overruled = self.overruled.get(&((*host).to_owned(), owner.to_owned()));
                let counts = known >= plugged && overruled.is_none_or(|until| known > until);
                counts.then_some((*host, *known))
            });
            let first = || requested.iter().find_map(|host| Some(*claims.get_key_value(host.as_str())?.0));
            announced.max_by_key(|(_, known)| *known).map(|(host, _)| host).or_else(first)
        } else {
            claims.iter().max_by_key(|(host, since)| (may_move_to(host), **since)).map(|(host, _)| *host)
        }
    }

    /// Whether the machine of a port lives on the physical network, as far as anybody knows: no host has an interface for it, and
    /// its switch has a localnet port, so others may be on this network whom Weft knows nothing of. On the day that a machine moves
    /// in, its port is declared before it comes, and on the day that it moves out, the port is there when the machine has gone. A
    /// disabled port, or one behind a disabled one, is nowhere: whoever disabled it wants that nothing gets there.
    pub(crate) fn lives_outside(&self, port: &str) -> bool {
        let is_enabled = |id: &str| self.ports.get(id).is_some_and(|port| port.enabled);
        let on_physical = self.switch_of(port).is_some_and(|switch| self.localnet_of(switch).is_some());
        let enabled = is_enabled(port) && self.owner(port).is_some_and(is_enabled);
        on_physical && enabled && self.location(port).is_none()
    }

    /// A list of one host says where a port is. What its interfaces elsewhere have announced before that is overruled, also by a
    /// later list of several.
    pub(crate) fn overrule(&mut self) {
        for ((host, port), since) in &self.announced {
            let requested = self.ports.get(port).map_or(&[][..], |port| &port.requested_hosts);
            if requested.len() == 1 && !requested.contains(host) {
                self.overruled.insert((host.clone(), port.clone()), *since);
            }
        }
        self.overruled.retain(|key, _| self.announced.contains_key(key) && self.ports.contains_key(&key.1));
    }

    /// The hosts that stand by for a port: they have its interface too, because it requests several hosts, and are not its home.
    pub fn standbys(&self, port: &str) -> BTreeSet<&str> {
        let requests_several = self
            .owner(port)
            .and_then(|owner| self.ports.get(owner))
            .is_some_and(|of| of.requested_hosts.len() > 1);
        let home = self.location(port);
        let claims = self.claims_of(port).into_keys();
        claims.filter(|host| requests_several && Some(*host) != home).collect()
    }

    /// The home of a port, and the hosts that stand by for it.
    pub(crate) fn hosts_with(&self, port: &str) -> BTreeSet<&str> {
        let mut hosts = self.standbys(port);
        hosts.extend(self.location(port));
        hosts
    }

    /// The hosts that have the interface of a port and may have it, each with the number of its claim.
    fn claims_of(&self, port: &str) -> BTreeMap<&str, u64> {
        let owner = self.owner(port).and_then(|owner| self.ports.get_key_value(owner));
        let (Some((owner, of_owner)), Some(own)) = (owner, self.ports.get(port)) else {
            return BTreeMap::new();
        };
        if !own.enabled || !of_owner.enabled {
            return BTreeMap::new();
        }
        let counts = |host: &String| self.nodes.contains_key(host) && of_owner.may_be_on(host);
        let claims = self.vnics.iter().filter(|((host, of), _)| of == owner && counts(host));
        claims.map(|((host, _), since)| (host.as_str(), *since)).collect()
    }
}

impl Port {
    /// Whether a host may have the interface of this port.
    pub(crate) fn may_be_on(&self, host: &String) -> bool {
        self.requested_hosts.is_empty() || self.requested_hosts.contains(host)
    }
}

/// The interfaces of standbys that have announced themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Those that have been heard: host and port, and the claim of the interface.
    Heard(BTreeMap<(String, String), u64>),
    /// It is not known which: each may have.
    Any,
}

impl Default for Announced {
    fn default() -> Announced {
        Announced::Heard(BTreeMap::new())
    }
}

impl Announced {
    /// Whether the interface that `host` has for `owner` must not yet send and receive: the host stands by for it, and has heard
    /// no announcement from it.
    pub(crate) fn is_silent(&self, world: &World, host: &str, owner: &str) -> bool {
        let heard = match self {
            Announced::Any => return false,
            Announced::Heard(heard) => heard.contains_key(&(host.to_owned(), owner.to_owned())),
        };
        !heard && world.standbys(owner).contains(host)
    }

    /// A host that stands by hears an announcement from its interface of `owner`.
    pub(crate) fn hear(&mut self, world: &World, host: &str, owner: &str) {
        let key = (host.to_owned(), owner.to_owned());
        let Some(claim) = world.vnics.get(&key).copied() else { return };
        match self {
            Announced::Any => {}
            Announced::Heard(heard) => drop(heard.insert(key, claim)),
        }
    }

    /// Forgets what was heard where the host stands by no more, by another interface, or for a port that is another one now.
    pub(crate) fn revise(&mut self, world: &World, others: &BTreeSet<String>) {
        if let Announced::Heard(heard) = self {
            heard.retain(|(host, owner), claim| {
                world.standbys(owner).contains(host.as_str())
                    && !others.contains(owner)
                    && world.vnics.get(&(host.clone(), owner.clone())) == Some(claim)
            });
        }
    }

    /// The hosts and ports of these interfaces, if they are known.
    pub(crate) fn heard(&self) -> BTreeSet<(String, String)> {
        match self {
            Announced::Heard(heard) => heard.keys().cloned().collect(),
            Announced::Any => BTreeSet::new(),
        }
    }
}

/// Whether a frame says that its sender runs where it comes from. Hypervisors send RARP in the name of a machine that has moved.
/// A machine that knows of it sends gratuitous ARP (RFC 5944, 4.6) or unsolicited neighbour advertisements (RFC 4861, 7.2.6).
/// Gratuitous ARP is what asks for one's own address; here all ARP to a group counts, because who sends any runs. A frame that no
/// port may send says nothing.
pub(crate) fn announces(frame: &Frame) -> bool {
    let says_so = match &frame.body {
        Body::Rarp(_) => true,
        Body::Arp(_) => is_group(frame.dst),
        Body::Ipv6(Some(Packet {
            dst,
            payload: Payload::Advertisement(_) | Payload::Icmpv6(136, _),
            ..
        })) => dst.segments() == [0xff02, 0, 0, 0, 0, 0, 0, 1],
        _ => false,
    };
    says_so && frame.vlan.is_none() && guard::is_forwarded(frame)
}

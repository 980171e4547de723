//! The network between hosts: the ports into it that hosts have, and the ways of floods through it.

use std::collections::{BTreeMap, BTreeSet};

use crate::World;
use crate::world::{Encap, Form, Tunnel};

/// The hosts that a tree reaches together: those of one zone, IP version and part that can use the same encapsulations.
type Branch<'a> = (&'a str, bool, i64, Vec<Option<Encap>>);

/// A copy of a flood on its way between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hop<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
}

impl World {
    /// The tunnel ports that hosts must have: not one more, which would accept frames of strangers, and not one less.
    ///
    /// A host in a zone of [`Form::Flow`] has one for each of its encapsulations. In a zone of [`Form::Port`], a pair of
    /// hosts that exchange frames of a switch through tunnels has one at either end for each encapsulation of both.
    pub fn tunnels(&self) -> BTreeSet<Tunnel> {
        let mut tunnels = BTreeSet::new();
        for (host, node) in &self.nodes {
            let form = self.zone(&node.zone).map(|zone| zone.form);
            let peers: Vec<Option<&String>> = match form {
                Some(Form::Flow) => vec![None],
                Some(Form::Port) => self.nodes.keys().map(Some).collect(),
                None => vec![],
            };
            for peer in peers {
                let wanted = node
                    .encaps
                    .iter()
                    .filter(|encap| peer.is_none_or(|peer| self.wants_tunnel_to(host, **encap, peer)));
                let tunnel =
                    |encap: &Encap| Tunnel { host: host.clone(), encap: *encap, peer: peer.cloned() };
                tunnels.extend(wanted.map(tunnel));
            }
        }
        tunnels
    }

    /// The patch ports that hosts must have between br-int and the bridges of physical networks: (host, network). A host has
    /// one for each of its mapped networks that a switch that it knows is on.
    pub fn patches(&self) -> BTreeSet<(String, String)> {
        let mut patches = BTreeSet::new();
        for localnet in self.localnets.values() {
            let attached = self.nodes.keys().filter(|host| self.attached(host, &localnet.switch));
            patches.extend(attached.map(|host| (host.clone(), localnet.network.clone())));
        }
        patches
    }

    /// Whether a host of a zone of [`Form::Port`] must have a tunnel port of an encapsulation for a peer.
    fn wants_tunnel_to(&self, host: &str, encap: Encap, peer: &str) -> bool {
        let (Some(one), Some(other)) = (self.nodes.get(host), self.nodes.get(peer)) else { return false };
        let both = one.encaps.contains(&encap) && other.encaps.contains(&encap);
        host != peer && one.meets(other) && both && self.share_overlay(host, peer)
    }

    /// Whether a host has a tunnel port that leads to a peer in an encapsulation.
    pub(crate) fn has_tunnel(&self, host: &str, encap: Encap, peer: &str) -> bool {
        let form = self.nodes.get(host).and_then(|node| self.zone(&node.zone)).map(|zone| zone.form);
        match form {
            Some(Form::Flow) => self.can_use(host, encap),
            Some(Form::Port) => {
                let tunnel = Tunnel { host: host.to_owned(), encap, peer: Some(peer.to_owned()) };
                self.wants_tunnel_to(host, encap, peer)
                    && self.can_use(host, encap)
                    && !self.failing.contains(&tunnel)
            }
            None => false,
        }
    }

    /// Whether a host offers an encapsulation and its switch can create tunnel ports of it.
    pub(crate) fn can_use(&self, host: &str, encap: Encap) -> bool {
        self.nodes.get(host).is_some_and(|node| node.encaps.contains(&encap))
            && !self.failing.contains(&Tunnel { host: host.to_owned(), encap, peer: None })
    }

    /// The branch of a host. A place in its list counts, even if the encapsulations before it cannot be used. In a zone of
    /// [`Form::Port`], the ports of a pair are not known before there is a pair, so what a host offers counts there.
    fn branch(&self, host: &str) -> Option<Branch<'_>> {
        let node = self.nodes.get(host)?;
        let form = self.zone(&node.zone)?.form;
        let usable = |encap: &Encap| form == Form::Port || self.can_use(host, *encap);
        let usable: Vec<Option<Encap>> =
            node.encaps.iter().map(|encap| usable(encap).then_some(*encap)).collect();
        let last = usable.iter().rposition(Option::is_some)?;
        let part = self.trees.parts.get(host).copied().unwrap_or(0);
        Some((&node.zone, node.ip.is_ipv4(), part, usable[..=last].to_vec()))
    }

    /// Whether some floods of a switch take a tree.
    pub(crate) fn takes_tree(&self, switch: &str) -> bool {
        self.hosts_of(switch).len() > self.trees.copies
    }

    /// The ways of a flood from one host to others, each after those that it depends on.
    ///
    /// A flood to few hosts goes to each directly. Otherwise the sender sends to the other hosts of its own branch, and to
    /// the leader of each other branch, which sends to the rest of it. No host is reached twice.
    pub(crate) fn ways<'a>(
        &'a self,
        switch: &str,
        from: &'a str,
        members: &BTreeSet<&'a str>,
    ) -> Vec<Hop<'a>> {
        let others = members.iter().copied().filter(|host| *host != from);
        if members.len() <= self.trees.copies {
            return others.map(|to| Hop { from, to }).collect();
        }
        let Some(own) = self.branch(from) else { return vec![] };
        let mut branches: BTreeMap<Branch<'_>, Vec<&str>> = BTreeMap::new();
        for host in others {
            if let Some(branch) = self.branch(host) {
                branches.entry(branch).or_default().push(host);
            }
        }
        let mut ways = Vec::new();
        for (branch, hosts) in branches {
            let rank = |host: &str| self.trees.ranks.get(&(switch.to_owned(), host.to_owned()));
            let first = hosts.iter().copied().min_by_key(|host| (rank(host), *host));
            let leader = if branch == own { Some(from) } else { first };
            let Some(leader) = leader else { continue };
            ways.extend((branch != own).then_some(Hop { from, to: leader }));
            let rest = hosts.into_iter().filter(|host| *host != leader);
            ways.extend(rest.map(|to| Hop { from: leader, to }));
        }
        ways
    }
}

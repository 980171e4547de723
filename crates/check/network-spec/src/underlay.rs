//! The network between hosts: the ports into it that hosts have, and the ways of floods through it.

use std::collections::{BTreeMap, BTreeSet};

use crate::World;
use crate::world::{Encap, Form, Trees, Tunnel};

/// What the hosts of a branch have in common: the zone, the IP version, and the encapsulations that they can use. So whoever
/// has a tunnel to one of them has a tunnel to all.
type Reach<'a> = (&'a str, bool, BTreeSet<Encap>);

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
                Some(Form::Flow) => {
                    let gateways = self.nodes.keys().filter(|peer| self.are_linked_by_gateway(host, peer));
                    [None].into_iter().chain(gateways.map(Some)).collect()
                }
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

    /// Whether a host must have a tunnel port of an encapsulation for a peer, with which it exchanges packets by such ports.
    fn wants_tunnel_to(&self, host: &str, encap: Encap, peer: &str) -> bool {
        let (Some(one), Some(other)) = (self.nodes.get(host), self.nodes.get(peer)) else { return false };
        let both = one.encaps.contains(&encap) && other.encaps.contains(&encap);
        // In a zone of the other form, a pair has such ports only where one is the gateway of the other.
        let is_able = self.zone(&one.zone).is_some_and(|zone| zone.form == Form::Port)
            || (self.can_use(host, encap) && self.can_use(peer, encap));
        host != peer && one.meets(other) && both && is_able && self.share_overlay(host, peer)
    }

    /// Whether a host has a tunnel port that leads to a peer in an encapsulation.
    pub(crate) fn has_tunnel(&self, host: &str, encap: Encap, peer: &str) -> bool {
        let form = self.nodes.get(host).and_then(|node| self.zone(&node.zone)).map(|zone| zone.form);
        match form {
            Some(Form::Flow) => self.can_use(host, encap),
            Some(Form::Port) => {
                self.wants_tunnel_to(host, encap, peer) && self.can_make_tunnel_to(host, encap, peer)
            }
            None => false,
        }
    }

    /// Whether a host offers an encapsulation and its switch can create a tunnel port of it for a peer alone.
    pub(crate) fn can_make_tunnel_to(&self, host: &str, encap: Encap, peer: &str) -> bool {
        let tunnel = Tunnel { host: host.to_owned(), encap, peer: Some(peer.to_owned()) };
        self.can_use(host, encap) && !self.failing.contains(&tunnel)
    }

    /// Whether a host offers an encapsulation and its switch can create tunnel ports of it.
    pub(crate) fn can_use(&self, host: &str, encap: Encap) -> bool {
        self.nodes.get(host).is_some_and(|node| node.encaps.contains(&encap))
            && !self.failing.contains(&Tunnel { host: host.to_owned(), encap, peer: None })
    }

    /// Which hosts have tunnels to a host; none if there are none. In a zone of [`Form::Port`], the ports of a pair are not
    /// known before there is a pair, so what a host offers counts there.
    fn reach(&self, host: &str) -> Option<Reach<'_>> {
        let node = self.nodes.get(host)?;
        let form = self.zone(&node.zone)?.form;
        let usable = |encap: &Encap| form == Form::Port || self.can_use(host, *encap);
        let usable: BTreeSet<Encap> = node.encaps.iter().copied().filter(usable).collect();
        (!usable.is_empty()).then_some((&*node.zone, node.ip.is_ipv4(), usable))
    }

    /// The hosts that have ports of a switch, and those that only report the interface of an enabled one: they are about to
    /// get or to lose it.
    fn reporters(&self, switch: &str) -> BTreeSet<&str> {
        let interfaces: BTreeSet<&str> = self
            .ports_of(switch)
            .filter(|(_, port)| port.enabled)
            .map(|(id, port)| port.parent.as_ref().map_or(id, |(parent, _)| parent))
            .collect();
        let reported = self.vnics.keys().filter(|(_, port)| interfaces.contains(port.as_str()));
        reported.map(|(host, _)| host.as_str()).collect()
    }

    /// Whether some floods of a switch may take a tree: it is on many hosts, or was on more.
    pub(crate) fn may_take_tree(&self, switch: &str) -> bool {
        self.trees.with_slack(self.reporters(switch).len(), 2) > self.trees.hosts
    }

    /// What is wrong about the trees: a switch on many hosts without one, a tree for few, a host in no branch, hosts of one
    /// branch that not all senders of the others reach, so many branches that a sender has more leaders than hosts of its
    /// own branch to copy to, or a leader that does not serve while another host of its branch does ([`Node::serves`]).
    pub fn tree_faults(&self) -> Vec<String> {
        let mut faults = self.leader_faults();
        let none = BTreeMap::new();
        for switch in self.switches.keys() {
            let present = self.hosts_with_ports_of(switch);
            let reporters = self.reporters(switch);
            let used = self.trees.used.contains(switch);
            let branches = self.trees.branches.get(switch).unwrap_or(&none);
            let mut fault = |what: String| faults.push(format!("switch {switch}: {what}"));
            if present.len() > self.trees.hosts && !used {
                fault(format!("no tree for {} hosts", present.len()));
            }
            if used && self.trees.with_slack(reporters.len(), 1) <= self.trees.hosts {
                fault(format!("a tree for {} hosts", reporters.len()));
            }
            let mut classes: BTreeMap<Reach<'_>, BTreeSet<&str>> = BTreeMap::new();
            let mut seen: BTreeMap<&str, Reach<'_>> = BTreeMap::new();
            for host in present {
                let branch = branches.get(host);
                let (Some(reach), Some(branch)) = (self.reach(host), branch) else {
                    if used && (branch.is_some() || self.reach(host).is_some()) {
                        fault(format!(
                            "{host} is in branch {branch:?} and has tunnels of {:?}",
                            self.reach(host)
                        ));
                    }
                    continue;
                };
                if seen.entry(branch).or_insert_with(|| reach.clone()) != &reach {
                    fault(format!("{host} is in {branch} with hosts that others reach"));
                }
                classes.entry(reach).or_default().insert(branch);
            }
            for (reach, branches) in classes {
                let alike = reporters.iter().filter(|host| self.reach(host).as_ref() == Some(&reach)).count();
                let most = self.trees.with_slack(alike, 1);
                if (branches.len() - 1).pow(2) >= most {
                    fault(format!("{} branches of at most {most} hosts", branches.len()));
                }
            }
        }
        faults
    }

    /// The ways of a flood from one host to others, each after those that it depends on.
    ///
    /// A flood in a switch on few hosts goes to each directly. Otherwise the sender sends to the other hosts of its own branch, and to
    /// the leader of each other branch, which sends to the rest of it. No host is reached twice.
    pub(crate) fn ways<'a>(
        &'a self,
        switch: &str,
        from: &'a str,
        members: &BTreeSet<&'a str>,
    ) -> Vec<Hop<'a>> {
        let others = members.iter().copied().filter(|host| *host != from);
        if !self.trees.used.contains(switch) {
            return others.map(|to| Hop { from, to }).collect();
        }
        let none = BTreeMap::new();
        let of = self.trees.branches.get(switch).unwrap_or(&none);
        let Some(own) = of.get(from) else { return vec![] };
        let mut branches: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for host in others {
            if let Some(branch) = of.get(host) {
                branches.entry(branch).or_default().push(host);
            }
        }
        let mut ways = Vec::new();
        for (branch, hosts) in branches {
            let leader = if branch == own { Some(from) } else { self.trees.first(switch, &hosts) };
            let Some(leader) = leader else { continue };
            ways.extend((branch != own).then_some(Hop { from, to: leader }));
            let rest = hosts.into_iter().filter(|host| *host != leader);
            ways.extend(rest.map(|to| Hop { from: leader, to }));
        }
        ways
    }
}

impl Trees {
    /// The host that leads these of a branch.
    pub(crate) fn first<'a>(&self, switch: &str, hosts: &[&'a str]) -> Option<&'a str> {
        let rank = |host: &str| self.ranks.get(&(switch.to_owned(), host.to_owned()));
        hosts.iter().copied().min_by_key(|host| (rank(host), *host))
    }

    /// The hosts of the branch that a host is in, by name.
    pub(crate) fn branch_of(&self, switch: &str, host: &str) -> Option<Vec<&str>> {
        let branches = self.branches.get(switch)?;
        let own = branches.get(host)?;
        Some(branches.iter().filter(|(_, branch)| *branch == own).map(|(host, _)| host.as_str()).collect())
    }

    /// So many hosts, and this many times the slack more.
    fn with_slack(&self, hosts: usize, times: usize) -> usize {
        hosts + hosts * times * self.slack / 100
    }
}

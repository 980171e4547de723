//! Shrinks a failing history while it keeps failing in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use network_spec::{
    Acl, AclAction, Encap, Localnet, Node, PacketMatch, PolicyAction, PolicyMatch, Port, Reach, Route,
    RoutePolicy, Router, Target,
};

use crate::generate::{History, Step};
use crate::run::{Failure, Runner};
use crate::world::Change;

/// The smallest history found that fails in the same way, and its failure. The runner keeps the state of that failure.
pub fn smallest(runner: &mut Runner, history: History, failure: Failure) -> (History, Failure) {
    let mut shrinking = Shrinking { runner, history, failure, tries: 4000 };
    shrinking.cut();
    loop {
        let before = shrinking.history.clone();
        shrinking.without_chunks();
        shrinking.without_frames();
        shrinking.without_changes();
        shrinking.with_simpler_changes();
        shrinking.with_simpler_frames();
        if shrinking.history == before || shrinking.tries == 0 {
            break;
        }
    }
    // Run it once more, so that the runner holds the state of this failure.
    let _ = shrinking.runner.clear();
    let failed = shrinking.runner.run(&shrinking.history).err();
    let failure = failed.map_or(shrinking.failure, |failure| *failure);
    (shrinking.history, failure)
}

struct Shrinking<'a> {
    runner: &'a mut Runner,
    history: History,
    failure: Failure,
    /// The number of candidates left to try.
    tries: u32,
}

impl Shrinking<'_> {
    /// Takes a candidate if it fails in the same way.
    fn take(&mut self, candidate: History) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let _ = self.runner.clear();
        let Err(failure) = self.runner.run(&candidate) else { return false };
        if !failure.difference.is_like(&self.failure.difference) {
            return false;
        }
        (self.history, self.failure) = (candidate, *failure);
        self.cut();
        true
    }

    /// Drops the steps after the failure.
    fn cut(&mut self) {
        self.history.steps.truncate(self.failure.step + 1);
    }

    fn without_chunks(&mut self) {
        let mut size = self.history.steps.len().div_ceil(2);
        while size > 0 {
            let mut end = self.history.steps.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut less = self.history.clone();
                less.steps.drain(start..end.min(less.steps.len()));
                self.take(less);
                end = start.min(self.history.steps.len());
            }
            size /= 2;
        }
    }

    /// Drops frames that are sent while hosts change one after another; without any, they change together.
    fn without_frames(&mut self) {
        for step in (0..self.history.steps.len()).rev() {
            let Some(Step::OneByOne { changes, frames, .. }) = self.history.steps.get(step) else { continue };
            let (changes, count) = (changes.clone(), frames.len());
            let mut together = self.history.clone();
            together.steps[step] = Step::Change(changes);
            if self.take(together) {
                continue;
            }
            for frame in (0..count).rev() {
                let mut less = self.history.clone();
                if let Some(Step::OneByOne { frames, .. }) = less.steps.get_mut(step) {
                    frames.remove(frame);
                    self.take(less);
                }
            }
        }
    }

    fn without_changes(&mut self) {
        for step in (0..self.history.steps.len()).rev() {
            let changes = self.changes(step).len();
            for change in (0..changes).rev() {
                let mut less = self.history.clone();
                if let Step::Change(changes) | Step::OneByOne { changes, .. } = &mut less.steps[step]
                    && changes.len() > 1
                {
                    changes.remove(change);
                    self.take(less);
                }
                if step >= self.history.steps.len() {
                    break;
                }
            }
        }
    }

    fn with_simpler_changes(&mut self) {
        for step in (0..self.history.steps.len()).rev() {
            let mut at = 0;
            while at < self.changes(step).len() {
                let change = self.changes(step)[at].clone();
                let taken = simpler(&change).into_iter().any(|change| {
                    let mut less = self.history.clone();
                    if let Some(Step::Change(changes) | Step::OneByOne { changes, .. }) =
                        less.steps.get_mut(step)
                    {
                        changes[at] = change;
                    }
                    self.take(less)
                });
                at += usize::from(!taken);
            }
        }
    }

    fn with_simpler_frames(&mut self) {
        for step in (0..self.history.steps.len()).rev() {
            let Some(Step::Send(_, frame)) = self.history.steps.get(step) else { continue };
            let mut candidates = Vec::new();
            for length in
                [14, 42, frame.len() / 2, frame.len().saturating_sub(8), frame.len().saturating_sub(1)]
            {
                if length >= 14 && length < frame.len() {
                    candidates.push(frame[..length].to_vec());
                }
            }
            if frame.len() >= 18 && frame[12] == 0x81 {
                candidates.push([&frame[..12], &frame[16..]].concat());
            }
            for candidate in candidates {
                let mut less = self.history.clone();
                if let Some(Step::Send(_, frame)) = less.steps.get_mut(step) {
                    *frame = candidate;
                }
                if self.take(less) {
                    break;
                }
            }
        }
    }

    fn changes(&self, step: usize) -> &[Change] {
        self.history.steps.get(step).map_or(&[], Step::changes)
    }
}

/// All slightly simpler versions of a change.
fn simpler(change: &Change) -> Vec<Change> {
    let mut all = Vec::new();
    match change {
        Change::Node(name, node) => {
            let mut add = |simpler| {
                if simpler != *node {
                    all.push(Change::Node(name.clone(), simpler));
                }
            };
            add(Node { encaps: vec![Encap::Geneve], ..node.clone() });
            add(Node { zone: String::new(), ..node.clone() });
            let last = match node.ip {
                IpAddr::V4(ip) => ip.octets()[3],
                IpAddr::V6(ip) => ip.octets()[15],
            };
            add(Node { ip: [172, 16, 0, last].into(), ..node.clone() });
            add(Node { roles: vec!["hypervisor".to_owned()], ..node.clone() });
            add(Node { mappings: BTreeMap::new(), ..node.clone() });
            add(Node { schedulable: true, ..node.clone() });
            add(Node { drain: false, ..node.clone() });
            for at in 0..node.encaps.len() {
                let mut less = node.clone();
                less.encaps.remove(at);
                add(less);
            }
        }
        Change::Port(name, port) => {
            let mut add = |simpler| {
                if simpler != *port {
                    all.push(Change::Port(name.clone(), simpler));
                }
            };
            add(Port { parent: None, ..port.clone() });
            add(Port { port_security: false, ..port.clone() });
            for at in 0..port.allowed.len() {
                let mut less = port.clone();
                less.allowed.remove(at);
                add(less);
                for ip in 0..port.allowed[at].ips.len() {
                    let mut less = port.clone();
                    less.allowed[at].ips.remove(ip);
                    add(less);
                }
            }
            add(Port { unknown_addresses: false, ..port.clone() });
            add(Port { trust: BTreeSet::new(), ..port.clone() });
            add(Port { enabled: true, ..port.clone() });
            add(Port { requested_hosts: Vec::new(), ..port.clone() });
            for at in 0..port.requested_hosts.len() {
                let mut less = port.clone();
                less.requested_hosts.remove(at);
                add(less);
            }
            for at in 0..port.addresses.len() {
                let mut less = port.clone();
                less.addresses.remove(at);
                add(less);
                for ip in 0..port.addresses[at].ips.len() {
                    let mut less = port.clone();
                    less.addresses[at].ips.remove(ip);
                    add(less);
                }
            }
        }
        Change::Router(..) | Change::RouterPort(..) | Change::Route(..) | Change::Policy(..) => {
            all = simpler_routing(change);
        }
        Change::Acl(..) | Change::AddressGroup(..) | Change::PortGroup(..) => all = simpler_filtering(change),
        Change::Localnet(name, localnet) if localnet.tag != 0 => {
            all.push(Change::Localnet(name.clone(), Localnet { tag: 0, ..localnet.clone() }));
        }
        _ => {}
    }
    all
}

/// All slightly simpler versions of a change of ACLs.
fn simpler_filtering(change: &Change) -> Vec<Change> {
    let mut all = Vec::new();
    match change {
        Change::Acl(name, acl) => {
            let mut add = |simpler| all.push(Change::Acl(name.clone(), simpler));
            add(Acl { from: None, ..acl.clone() });
            add(Acl { to: None, ..acl.clone() });
            add(Acl { tier: 0, ..acl.clone() });
            add(Acl { priority: 0, ..acl.clone() });
            let matches = || acl.matches.clone();
            add(Acl { matches: PacketMatch::default(), ..acl.clone() });
            add(Acl { matches: PacketMatch { source: None, ..matches() }, ..acl.clone() });
            add(Acl { matches: PacketMatch { destination: None, ..matches() }, ..acl.clone() });
            add(Acl { matches: PacketMatch { source_ports: None, ..matches() }, ..acl.clone() });
            add(Acl { matches: PacketMatch { destination_ports: None, ..matches() }, ..acl.clone() });
            add(Acl { matches: PacketMatch { icmp_code: None, ..matches() }, ..acl.clone() });
            add(Acl { action: AclAction::Drop, ..acl.clone() });
        }
        Change::AddressGroup(name, addresses) => {
            for at in 0..addresses.len() {
                let mut less = addresses.clone();
                less.remove(at);
                all.push(Change::AddressGroup(name.clone(), less));
            }
        }
        Change::PortGroup(name, ports) => {
            for port in ports {
                let less = ports.iter().filter(|other| *other != port).cloned().collect();
                all.push(Change::PortGroup(name.clone(), less));
            }
        }
        _ => {}
    }
    all.retain(|simpler| simpler != change);
    all
}

/// All slightly simpler versions of a change of routers.
fn simpler_routing(change: &Change) -> Vec<Change> {
    let mut all = Vec::new();
    match change {
        Change::Router(name, router) => {
            let mut add = |simpler| all.push(Change::Router(name.clone(), simpler));
            add(Router { reach: Reach::Direct, ..router.clone() });
            add(Router { proxy_arp: Vec::new(), ..router.clone() });
            add(Router { tenant: String::new(), ..router.clone() });
        }
        Change::RouterPort(name, port) => {
            for at in 0..port.networks.len() {
                let mut less = port.clone();
                less.networks.remove(at);
                all.push(Change::RouterPort(name.clone(), less));
            }
            for at in 0..port.gateways.len() {
                let mut less = port.clone();
                less.gateways.remove(at);
                all.push(Change::RouterPort(name.clone(), less));
            }
        }
        Change::Route(name, route) if route.hops().len() > 1 => {
            for at in 0..route.hops().len() {
                let mut hops = route.hops().to_vec();
                hops.remove(at);
                all.push(Change::Route(name.clone(), Route { target: Target::of(hops), ..route.clone() }));
            }
        }
        Change::Policy(name, policy) => {
            let mut add = |simpler| all.push(Change::Policy(name.clone(), simpler));
            let matches = || policy.matches.clone();
            add(RoutePolicy { matches: PolicyMatch { source: None, ..matches() }, ..policy.clone() });
            add(RoutePolicy { matches: PolicyMatch { destination: None, ..matches() }, ..policy.clone() });
            add(RoutePolicy { matches: PolicyMatch { protocol: None, ..matches() }, ..policy.clone() });
            add(RoutePolicy { action: PolicyAction::Drop, ..policy.clone() });
            for at in 0..policy.hops().len() {
                let mut hops = policy.hops().to_vec();
                hops.remove(at);
                add(RoutePolicy { action: PolicyAction::Reroute(hops), ..policy.clone() });
            }
        }
        _ => {}
    }
    all.retain(|simpler| simpler != change);
    all
}

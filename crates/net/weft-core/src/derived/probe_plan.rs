//! Which hosts measure the tunnels between them, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nlog_data::{Committed, Packed, Row, TableId, Value};
use openflow_rs::{Actions, Field, Match};

use crate::rules::Rules;

/// A host that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeHost {
    /// Its tunnel endpoint.
    pub(crate) ip: IpAddr,
    /// The largest IP packet of the network between the hosts.
    pub(crate) mtu: u32,
    /// How often it sends.
    pub(crate) interval: Duration,
}

/// What one host sends to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) encap: Arc<str>,
    /// The bytes that fit into the tunnel, without the Ethernet header.
    pub(crate) bytes: usize,
    /// What the switch does with the frame.
    pub(crate) actions: Packed<Actions>,
}

/// What the rules say of probes.
#[derive(Debug, Default)]
pub(crate) struct ProbePlan {
    hosts: BTreeMap<Arc<str>, ProbeHost>,
    by_ip: BTreeMap<IpAddr, Arc<str>>,
    /// By sender and receiver.
    probes: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Probe>>,
    /// By receiver.
    senders: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    pairs: usize,
    /// The flows that count what arrives: their table, and a match that covers them.
    counters: BTreeMap<u8, Match>,
    /// How often hosts or pairs have gone, or hosts come.
    version: u64,
}

impl ProbePlan {
    /// Applies the changes of the rules' tables.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        let delta = |table: Option<TableId>| committed.delta.tables.get(&table?);
        if let Some(delta) = delta(rules.probe_hosts) {
            self.version += 1;
            for (name, host) in delta.delete.iter().filter_map(host) {
                self.hosts.remove(&name);
                self.by_ip.remove(&host.ip);
            }
            for (name, host) in delta.insert.iter().filter_map(host) {
                self.by_ip.insert(host.ip, name.clone());
                self.hosts.insert(name, host);
            }
        }
        if let Some(delta) = delta(rules.tunnel_probes) {
            self.version += u64::from(!delta.delete.is_empty());
            for (from, to, _) in delta.delete.iter().filter_map(probe) {
                self.remove(&from, &to);
            }
            for (from, to, probe) in delta.insert.iter().filter_map(probe) {
                self.insert(from, to, probe);
            }
        }
        if let Some(delta) = delta(rules.probe_counters) {
            for (table, _) in delta.delete.iter().filter_map(counter) {
                self.counters.remove(&table);
            }
            self.counters.extend(delta.insert.iter().filter_map(counter));
        }
    }

    fn insert(&mut self, from: Arc<str>, to: Arc<str>, probe: Probe) {
        self.senders.entry(to.clone()).or_default().insert(from.clone());
        if self.probes.entry(from).or_default().insert(to, probe).is_none() {
            self.pairs += 1;
        }
    }

    fn remove(&mut self, from: &str, to: &str) {
        let Some(probes) = self.probes.get_mut(from) else { return };
        self.pairs -= usize::from(probes.remove(to).is_some());
        if probes.is_empty() {
            self.probes.remove(from);
        }
        if let Some(senders) = self.senders.get_mut(to) {
            senders.remove(from);
            if senders.is_empty() {
                self.senders.remove(to);
            }
        }
    }

    /// Changes when hosts or pairs go, or hosts come.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The number of pairs of a sender and a receiver.
    pub(crate) fn pairs(&self) -> usize {
        self.pairs
    }

    pub(crate) fn hosts(&self) -> &BTreeMap<Arc<str>, ProbeHost> {
        &self.hosts
    }

    /// The host with this tunnel endpoint.
    pub(crate) fn host_at(&self, ip: IpAddr) -> Option<&Arc<str>> {
        self.by_ip.get(&ip)
    }

    /// What a host sends, by receiver.
    pub(crate) fn from(&self, host: &str) -> Option<&BTreeMap<Arc<str>, Probe>> {
        self.probes.get(host)
    }

    /// What one host sends to another.
    pub(crate) fn probe(&self, from: &str, to: &str) -> Option<&Probe> {
        self.probes.get(from)?.get(to)
    }

    /// The hosts that send to a host.
    pub(crate) fn senders(&self, to: &str) -> Option<&BTreeSet<Arc<str>>> {
        self.senders.get(to)
    }

    /// All senders, with what they send.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Probe)> {
        self.probes.iter().flat_map(|(from, probes)| probes.iter().map(move |(to, probe)| (from, to, probe)))
    }

    /// The flows that count what arrives.
    pub(crate) fn counter(&self) -> Option<(u8, &Match)> {
        self.counters.first_key_value().map(|(table, matches)| (*table, matches))
    }
}

/// The address whose probes a flow with this match counts.
pub(crate) fn source(matches: &Match) -> Option<IpAddr> {
    if let Some((ip, _)) = matches.get(Field::TunSrc) {
        return u32::try_from(ip).ok().map(|ip| IpAddr::V4(ip.into()));
    }
    matches.get(Field::TunIpv6Src).map(|(ip, _)| IpAddr::V6(ip.into()))
}

fn host(row: &Row) -> Option<(Arc<str>, ProbeHost)> {
    let [Value::String(name), Value::Ip(ip), Value::Int(mtu), Value::Int(interval)] = row.as_slice() else {
        return None;
    };
    let (mtu, interval) = (u32::try_from(*mtu).ok()?, u64::try_from(*interval).ok()?);
    Some((name.clone(), ProbeHost { ip: *ip, mtu, interval: Duration::from_secs(interval.max(1)) }))
}

fn probe(row: &Row) -> Option<(Arc<str>, Arc<str>, Probe)> {
    let [
        Value::String(from),
        Value::String(to),
        Value::String(encap),
        Value::Int(bytes),
        Value::Actions(actions),
    ] = row.as_slice()
    else {
        return None;
    };
    let bytes = u16::try_from(*bytes).ok()?.into();
    Some((from.clone(), to.clone(), Probe { encap: encap.clone(), bytes, actions: actions.clone() }))
}

fn counter(row: &Row) -> Option<(u8, Match)> {
    let [Value::Int(table), Value::Match(matches)] = row.as_slice() else { return None };
    Some((u8::try_from(*table).ok()?, matches.get()))
}

#[cfg(test)]
impl ProbePlan {
    /// The plan of these hosts, of which each sends to those for which `sends` holds.
    pub(crate) fn between(
        hosts: impl Iterator<Item = (Arc<str>, ProbeHost)>,
        sends: impl Fn(&str, &str) -> bool,
        actions: impl Fn(IpAddr) -> Actions,
    ) -> ProbePlan {
        let hosts: BTreeMap<Arc<str>, ProbeHost> = hosts.collect();
        let covers = Match::any().with(Field::TunId, 1).unwrap_or_default();
        let version = hosts.len() as u64;
        let mut plan = ProbePlan { counters: [(1, covers)].into(), version, ..ProbePlan::default() };
        for (from, to) in hosts.keys().flat_map(|from| hosts.keys().map(move |to| (from, to))) {
            if from != to && sends(from, to) {
                let actions = Packed::new(&actions(hosts[to].ip));
                let probe = Probe { encap: "geneve".into(), bytes: 1442, actions };
                plan.insert(from.clone(), to.clone(), probe);
            }
        }
        plan.by_ip = hosts.iter().map(|(name, host)| (host.ip, name.clone())).collect();
        plan.hosts = hosts;
        plan
    }

    /// The same, with probes from each host to itself.
    pub(crate) fn with_responders(mut self, actions: impl Fn(IpAddr) -> Actions) -> ProbePlan {
        for (name, ip) in self.hosts.iter().map(|(name, host)| (name.clone(), host.ip)).collect::<Vec<_>>() {
            let actions = Packed::new(&actions(ip));
            let probe = Probe { encap: "geneve".into(), bytes: 1280, actions };
            self.insert(name.clone(), name, probe);
        }
        self
    }
}

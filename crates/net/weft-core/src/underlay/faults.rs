//! The problems that the probes show, each stated of one host. A probe to the host itself is for its responder. Of the others: of two hosts between which nothing arrives, the one that has more such
//! peers is more likely to be at fault.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use nlog_data::quotation::grouped;

use super::Verdict;
use crate::core::Problem;
use crate::derived::probe_plan::ProbePlan;
use crate::text::shown;

/// How many hosts a problem names.
const NAMED: usize = 3;

/// The problem of a host whose responder does not give its probes back.
const RESPONDER_SILENT: &str = "responder-silent";
const NO_RESPONDER: &str = "its responder does not answer, so nobody there gets ICMP errors, resets of ACLs that reject, router advertisements, \
                            DHCP and DNS; forwarding is untouched. Start it on the host (`systemctl enable --now weft-responder`), or read its \
                            log (`journalctl -u weft-responder`)";

/// The hosts between which something is at fault.
#[derive(Debug, Default)]
struct Peers<'p> {
    /// Those whose packets do not arrive at the host.
    from: BTreeSet<&'p str>,
    /// Those that the packets of the host do not arrive at.
    to: BTreeSet<&'p str>,
}

impl Peers<'_> {
    fn count(&self) -> usize {
        self.from.len() + self.to.len()
    }
}

/// The problems of the ways that are at fault, given as sender and receiver.
pub(super) fn problems<'p>(
    faulty: impl Iterator<Item = (&'p Arc<str>, &'p Arc<str>, Verdict)>,
    plan: &ProbePlan,
    kind: &str,
) -> BTreeSet<Arc<Problem>> {
    let mut problems = BTreeSet::new();
    let mut by_verdict: BTreeMap<Verdict, BTreeMap<&str, Peers<'_>>> = BTreeMap::new();
    for (from, to, verdict) in faulty {
        if from == to {
            let (kind, id) = (kind.to_owned(), from.to_string());
            let (code, text) = (RESPONDER_SILENT.to_owned(), NO_RESPONDER.to_owned());
            problems.insert(Arc::new(Problem { kind, id, code, text }));
            continue;
        }
        let hosts = by_verdict.entry(verdict).or_default();
        hosts.entry(to).or_default().from.insert(from);
        hosts.entry(from).or_default().to.insert(to);
    }
    for (verdict, hosts) in by_verdict {
        for (host, peers) in most_likely(hosts) {
            let code = verdict.code().to_owned();
            let text = match verdict {
                Verdict::TooNarrow => narrow(host, &peers, plan),
                _ => silent(host, &peers, plan),
            };
            let problem = Problem { kind: kind.to_owned(), id: host.to_owned(), code, text };
            problems.insert(Arc::new(problem));
        }
    }
    problems
}

/// Gives each way to one of its hosts: first all ways of the host that has the most, then those that are left.
fn most_likely<'p>(mut hosts: BTreeMap<&'p str, Peers<'p>>) -> Vec<(&'p str, Peers<'p>)> {
    // Of equals, the first by name.
    let entry = |host: &'p str, peers: &Peers<'_>| (peers.count(), std::cmp::Reverse(host));
    let mut heap: BinaryHeap<_> = hosts.iter().map(|(host, peers)| entry(host, peers)).collect();
    let mut found = Vec::new();
    while let Some((count, std::cmp::Reverse(host))) = heap.pop() {
        match hosts.get(host).map(Peers::count) {
            None | Some(0) => continue,
            Some(left) if left < count => {
                heap.push((left, std::cmp::Reverse(host)));
                continue;
            }
            Some(_) => {}
        }
        let Some(peers) = hosts.remove(host) else { continue };
        for peer in &peers.from {
            if let Some(of) = hosts.get_mut(peer) {
                of.to.remove(host);
            }
        }
        for peer in &peers.to {
            if let Some(of) = hosts.get_mut(peer) {
                of.from.remove(host);
            }
        }
        found.push((host, peers));
    }
    found
}

fn silent(host: &str, Peers { from, to }: &Peers<'_>, plan: &ProbePlan) -> String {
    let ip = plan.hosts().get(host).map(|host| host.ip.to_string()).unwrap_or_default();
    let what = match (from.is_empty(), to.is_empty()) {
        (false, true) => format!("packets from {} to its `ip` {ip} do not arrive", several(from)),
        (true, _) => format!("its packets to {} do not arrive", several(to)),
        (false, false) if from == to => {
            format!("packets between {} and its `ip` {ip} do not arrive", several(from))
        }
        (false, false) => format!(
            "packets from {} to its `ip` {ip} do not arrive, nor do its packets to {}",
            several(from),
            several(to)
        ),
    };
    let encaps: BTreeSet<&str> = from
        .iter()
        .filter_map(|peer| plan.probe(peer, host))
        .chain(to.iter().filter_map(|peer| plan.probe(host, peer)))
        .map(|probe| &*probe.encap)
        .collect();
    let passes: Vec<&str> = encaps.into_iter().map(protocol).collect();
    format!(
        "{what}: check that the host has the address {ip}, that a route leads from each host to the other, and that {} passes; \
         `weft get tunnels {}` shows each tunnel",
        passes.join(" and "),
        shown(host)
    )
}

fn narrow(host: &str, Peers { from, to }: &Peers<'_>, plan: &ProbePlan) -> String {
    let probe = from.first().and_then(|peer| plan.probe(peer, host));
    let probe = probe.or_else(|| to.first().and_then(|peer| plan.probe(host, peer)));
    let bytes = probe.map_or(0, |probe| probe.bytes);
    let mtu = plan.hosts().get(host).map_or(0, |host| host.mtu as usize);
    let peers: BTreeSet<&str> = from.union(to).copied().collect();
    format!(
        "between it and {}, small packets arrive and packets of {} bytes do not: raise the MTU of the network between the hosts to {}, or \
         lower `mtu` of the transport_zone; `weft get tunnels {}` shows each tunnel",
        several(&peers),
        grouped(bytes),
        grouped(mtu),
        shown(host)
    )
}

/// What a firewall has to let pass.
fn protocol(encap: &str) -> &'static str {
    match encap {
        "geneve" => "UDP port 6081 (geneve)",
        "vxlan" => "UDP port 4789 (vxlan)",
        "gre" => "IP protocol 47 (gre)",
        _ => "TCP port 7471 (stt)",
    }
}

/// The number of hosts, and the names of the first.
fn several(hosts: &BTreeSet<&str>) -> String {
    let names: Vec<_> = hosts.iter().take(NAMED).map(|host| shown(host)).collect();
    let names = names.join(", ");
    match hosts.len() {
        1 => names,
        count if count <= NAMED => format!("{count} hosts ({names})"),
        count => format!("{} hosts ({names} and {} more)", grouped(count), grouped(count - NAMED)),
    }
}

//! The reports of switches: interfaces, tunnel ports and patch ports.
//!
//! A report is complete; its difference from the previous report becomes rows. The last report holds until the switch
//! reports again, also across restarts of the controller, because an unreachable switch still forwards, and if the node gets other
//! endpoints, because they may lead to the same switch.
//!
//! A host *claims* a port by an interface with the port's id, from the transaction in which that interface is first reported.
//! The latest claim has the port. What an interface does while it stays plugged is no new claim: it gets another port
//! number, has none for a while, or its switch, the connection to it or the controller restarts.
//!
//! A switch is *lost* as long as `levels` says so. That is observed of a transport node, not reported by its switch, so it outlives
//! the reports of a node that loses its switch, and its rows are in records of their own, which nothing depends on.
//!
//! An interface *announces* itself when its switch learns a flow from one of its frames. That holds for the claim: as long as the
//! interface is plugged and has a port number, whatever becomes of the flow.

mod joint;
mod journal;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use hashbrown::HashSet;
use nlog_data::{Row, Value};
use objects::Rows;
use switch_model::{Conflict, InterfaceId};

pub(crate) use joint::Joint;

/// A port in a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Port {
    /// A virtual interface, by its port's id.
    Vif(String),
    /// A tunnel port, by its name.
    Tunnel(String),
    /// A patch port, by its name.
    Patch(String),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Port::Vif(port) => write!(f, "vif {port}"),
            Port::Tunnel(name) => write!(f, "tunnel {name}"),
            Port::Patch(name) => write!(f, "patch {name}"),
        }
    }
}

/// An interface that a host has reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its `iface-id`: the id of its port.
    pub port: String,
    /// Its OpenFlow port number.
    pub ofport: u16,
    /// Its `attached-mac`; empty if it has none.
    pub mac: String,
}

/// The last report of every switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports {
    nodes: BTreeMap<String, NodeReport>,
}

/// The last report of one switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeReport {
    /// Interfaces by the id of their port.
    vifs: BTreeMap<String, Vif>,
    /// OpenFlow port numbers by tunnel name.
    tunnels: BTreeMap<String, u16>,
    /// OpenFlow port numbers by patch name.
    patches: BTreeMap<String, u16>,
    /// Whether it is connected and since when, if it was ever lost.
    connection: Option<Connection>,
    /// The claims of all interfaces, whether or not they have a port number and count. `None`, until the switch reports, after
    /// a restart of the controller: the journal does not have them.
    claims: Option<Claims>,
    /// The last announcement by the id of the port.
    announced: BTreeMap<String, Announced>,
    /// The names of the interfaces that claim one port, the one that counts first, by the id of the port.
    contested: BTreeMap<String, String>,
    /// The interfaces that the switch could not open, and why, by the id of the port.
    unopened: BTreeMap<String, (String, String)>,
    /// What probes of the host have found, by their ids.
    probes: BTreeMap<String, Probed>,
    /// Machines that are going to use the address of somebody else.
    conflicts: BTreeSet<Conflict>,
}

/// What a probe has found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Probed {
    up: bool,
    /// Why it is down; empty while it is up.
    cause: String,
    /// The transaction in which it went up or down.
    since: u64,
}

/// The announcement of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Announced {
    /// The transaction.
    since: u64,
    /// The claim of the interface.
    claim: u64,
}

/// The connection to a switch that was lost once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connection {
    connected: bool,
    /// The transaction in which that was found.
    since: u64,
}

/// Claims by the id of the port and the interface.
type Claims = BTreeMap<(String, InterfaceId), Claim>;

/// A claim of a port by an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    /// The transaction. If the claim has had no effect so far, the last one before it.
    since: u64,
    /// Whether it has ever had effect: the interface had a port number, and counted among those of its host.
    counted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Vif {
    ofport: u16,
    mac: String,
    /// The transaction of its claim.
    since: u64,
}

impl Reports {
    /// The effect of a report in transaction `txn`: the state to [commit](Reports::commit), inserted and deleted rows.
    pub(crate) fn plan(&self, node: &str, report: &switch_model::Report, txn: u64) -> (NodeReport, Rows) {
        let empty = NodeReport::default();
        let before = self.nodes.get(node).unwrap_or(&empty);
        let claims = before.claims(report, txn, &|port| self.latest_elsewhere(node, port));
        let vif = |(port, vif): (&String, &switch_model::Vif)| {
            let since = claims.get(&(port.clone(), vif.interface)).map_or(txn, |claim| claim.since);
            (port.clone(), Vif { ofport: vif.ofport, mac: vif.mac.clone(), since })
        };
        let stays = |(port, announced): &(&String, &Announced)| {
            claims.iter().any(|((claimed, _), claim)| claimed == *port && claim.since == announced.claim)
        };
        let announced = before.announced.iter().filter(stays);
        let after = NodeReport {
            vifs: report.vifs.iter().map(vif).collect(),
            tunnels: report.tunnels.clone(),
            patches: report.patches.clone(),
            connection: before.connection,
            announced: announced.map(|(port, announced)| (port.clone(), *announced)).collect(),
            claims: Some(claims),
            contested: report.contested.clone(),
            unopened: report.unopened.clone(),
            probes: before.probed(report, txn),
            conflicts: report.conflicts.as_deref().unwrap_or(&before.conflicts).clone(),
        };
        let rows = difference(&before.rows(node), &after.rows(node));
        (after, rows)
    }

    /// The effect of transaction `txn`, which makes the object of an interface that its host reports already. `None` if the interface is
    /// in force, or the host has not reported it since the controller started.
    pub(crate) fn plan_adoption(
        &self,
        before: &NodeReport,
        (node, port): (&str, &str),
        vif: &switch_model::Vif,
        txn: u64,
    ) -> Option<NodeReport> {
        if before.vifs.contains_key(port) {
            return None;
        }
        let mut after = before.clone();
        let claim = after.claims.as_mut()?.get_mut(&(port.to_owned(), vif.interface))?;
        if !claim.counted && self.latest_elsewhere(node, port) == Some(claim.since) {
            claim.since = txn;
        }
        claim.counted = true;
        let since = claim.since;
        after.vifs.insert(port.to_owned(), Vif { ofport: vif.ofport, mac: vif.mac.clone(), since });
        Some(after)
    }

    /// What is known of a switch.
    pub(crate) fn of(&self, node: &str) -> NodeReport {
        self.nodes.get(node).cloned().unwrap_or_default()
    }

    /// The transaction of the latest claim of a port by another host than `node`.
    fn latest_elsewhere(&self, node: &str, port: &str) -> Option<u64> {
        let others = self.nodes.iter().filter(|(other, _)| *other != node);
        others.filter_map(|(_, report)| report.vifs.get(port)).map(|vif| vif.since).max()
    }

    /// The same for a switch that is lost, or connected again, in transaction `txn`. `None` if that is known, or if a switch
    /// connects that was never lost.
    pub(crate) fn plan_connection(
        &self,
        node: &str,
        connected: bool,
        txn: u64,
    ) -> Option<(NodeReport, Rows)> {
        if connected != self.is_lost(node) {
            return None;
        }
        Some(self.with_connection(node, Some(Connection { connected, since: txn })))
    }

    /// The same for a transport node that is not managed any more. `None` if nothing is known of its connection.
    pub(crate) fn plan_forgotten(&self, node: &str) -> Option<(NodeReport, Rows)> {
        self.nodes.get(node)?.connection?;
        Some(self.with_connection(node, None))
    }

    fn with_connection(&self, node: &str, connection: Option<Connection>) -> (NodeReport, Rows) {
        let before = self.nodes.get(node).cloned().unwrap_or_default();
        let after = NodeReport { connection, ..before.clone() };
        let rows = difference(&before.rows(node), &after.rows(node));
        (after, rows)
    }

    /// Whether a switch is lost.
    pub(crate) fn is_lost(&self, node: &str) -> bool {
        let connection = self.nodes.get(node).and_then(|report| report.connection);
        connection.is_some_and(|connection| !connection.connected)
    }

    /// The transport nodes of whose connection something is known.
    pub(crate) fn with_known_connection(&self) -> impl Iterator<Item = &str> {
        let known = self.nodes.iter().filter(|(_, report)| report.connection.is_some());
        known.map(|(node, _)| node.as_str())
    }

    /// The effect of an announcement in transaction `txn`: the state to [commit](Reports::commit), inserted and deleted rows.
    /// `None` if it has none: without the interface, or if it is not new and the interface has announced itself before.
    pub(crate) fn plan_announced(
        &self,
        node: &str,
        port: &str,
        is_new: bool,
        txn: u64,
    ) -> Option<(NodeReport, Rows)> {
        let before = self.nodes.get(node)?;
        let claim = before.vifs.get(port)?.since;
        if !is_new && before.announced.get(port).is_some_and(|announced| announced.claim == claim) {
            return None;
        }
        let mut after = before.clone();
        after.announced.insert(port.to_owned(), Announced { since: txn, claim });
        let rows = difference(&before.rows(node), &after.rows(node));
        Some((after, rows))
    }

    /// The ports of a report that are unknown or differ from the known ones.
    pub(crate) fn missing(&self, node: &str, report: &switch_model::Report) -> Vec<Port> {
        let known = self.nodes.get(node);
        let vifs = report.vifs.keys().map(|port| Port::Vif(port.clone()));
        let tunnels = report.tunnels.keys().map(|name| Port::Tunnel(name.clone()));
        let patches = report.patches.keys().map(|name| Port::Patch(name.clone()));
        let ports = vifs.chain(tunnels).chain(patches);
        ports.filter(|port| !known.is_some_and(|known| known.has(report, port))).collect()
    }

    /// Whether a report has all known ports of its switch, with the same numbers.
    pub(crate) fn has_only_ports_of(&self, node: &str, report: &switch_model::Report) -> bool {
        self.nodes.get(node).is_none_or(|known| {
            let vif = |(port, vif): (&String, &Vif)| {
                report.vifs.get(port).is_some_and(|of| of.ofport == vif.ofport)
            };
            let is_in = |known: &BTreeMap<String, u16>, reported: &BTreeMap<String, u16>| {
                known.iter().all(|(name, ofport)| reported.get(name) == Some(ofport))
            };
            known.vifs.iter().all(vif)
                && is_in(&known.tunnels, &report.tunnels)
                && is_in(&known.patches, &report.patches)
        })
    }

    /// A report reduced to known ports and the listed ones.
    pub(crate) fn partial(
        &self,
        node: &str,
        report: &switch_model::Report,
        ports: &[Port],
    ) -> switch_model::Report {
        let known = self.nodes.get(node);
        let mut part = report.clone();
        let stays = |port: Port| known.is_some_and(|known| known.has(report, &port)) || ports.contains(&port);
        part.vifs.retain(|port, _| stays(Port::Vif(port.clone())));
        // A refused interface claims its port when it is accepted, as the journal has it.
        part.interfaces.retain(|(port, _)| !report.vifs.contains_key(port) || part.vifs.contains_key(port));
        part.contested.retain(|port, _| part.vifs.contains_key(port));
        part.tunnels.retain(|name, _| stays(Port::Tunnel(name.clone())));
        part.patches.retain(|name, _| stays(Port::Patch(name.clone())));
        part
    }

    /// The rows that are deleted with a switch: all that it reported.
    pub(crate) fn plan_removal(&self, node: &str) -> Rows {
        let before = self.nodes.get(node).map(|report| report.rows(node)).unwrap_or_default();
        let observed = before.get_key_value(CONNECTION).map(|(table, rows)| (*table, rows.clone()));
        difference(&before, &observed.into_iter().collect())
    }

    /// Stores the last report of a switch, and returns the previous one.
    pub(crate) fn commit(&mut self, node: &str, report: NodeReport) -> Option<NodeReport> {
        self.nodes.insert(node.to_owned(), report)
    }

    /// Removes all that is known of a switch.
    pub(crate) fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Removes what a switch has reported, and returns all that was known of it.
    pub(crate) fn remove(&mut self, node: &str) -> Option<NodeReport> {
        let before = self.nodes.remove(node)?;
        if before.connection.is_some() {
            let left = NodeReport { connection: before.connection, ..NodeReport::default() };
            self.nodes.insert(node.to_owned(), left);
        }
        Some(before)
    }

    /// The rows of all reports.
    pub(crate) fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        for (node, report) in &self.nodes {
            for (table, list) in report.rows(node) {
                rows.insert.entry(table.into()).or_default().extend(list);
            }
        }
        rows
    }

    /// The rows of one report.
    pub(crate) fn rows_of(&self, node: &str) -> Rows {
        let mut rows = Rows::default();
        for (table, list) in self.nodes.get(node).map(|report| report.rows(node)).unwrap_or_default() {
            rows.insert.insert(table.into(), list);
        }
        rows
    }

    /// The transport nodes with an interface of one of these ports.
    pub(crate) fn nodes_with<'a>(&'a self, ports: &HashSet<&str>) -> impl Iterator<Item = &'a str> {
        let has = |report: &NodeReport| report.vifs.keys().any(|port| ports.contains(port.as_str()));
        self.nodes.iter().filter(move |(_, report)| has(report)).map(|(node, _)| node.as_str())
    }

    /// The interfaces of these ports: host and port. Costs as many look-ups for each host as it has interfaces, or as there are ports.
    pub(crate) fn interfaces_of<'a>(
        &'a self,
        ports: &'a BTreeSet<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.nodes.iter().flat_map(move |(node, NodeReport { vifs, .. })| {
            let found: Vec<&str> = if ports.len() < vifs.len() {
                ports.iter().filter_map(|port| vifs.get_key_value(*port)).map(|(port, _)| &**port).collect()
            } else {
                vifs.keys().map(String::as_str).filter(|port| ports.contains(port)).collect()
            };
            found.into_iter().map(move |port| (node.as_str(), port))
        })
    }

    /// The ports that a host has claimed last, in order.
    pub(crate) fn ports_on(&self, node: &str) -> impl Iterator<Item = &str> {
        let vifs = self.nodes.get(node).into_iter().flat_map(|report| &report.vifs);
        let is_latest = move |port: &str, vif: &Vif| {
            self.latest_elsewhere(node, port).is_none_or(|since| since < vif.since)
        };
        vifs.filter(move |(port, vif)| is_latest(port, vif)).map(|(port, _)| port.as_str())
    }

    /// Whether a switch has reported anything.
    pub(crate) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// The number of interfaces that a switch has reported.
    pub(crate) fn vif_count(&self, node: &str) -> usize {
        self.nodes.get(node).map_or(0, |report| report.vifs.len())
    }

    /// The virtual interfaces that a switch has reported, by the ids of their ports.
    pub(crate) fn interfaces(&self, node: &str) -> Vec<Interface> {
        let vifs = self.nodes.get(node).into_iter().flat_map(|report| &report.vifs);
        let interface = |(port, vif): (&String, &Vif)| Interface {
            port: port.clone(),
            ofport: vif.ofport,
            mac: vif.mac.clone(),
        };
        vifs.map(interface).collect()
    }
}

/// The table of what probes have found.
const PROBED: &str = "probe_result";

/// The table of machines that are going to use the address of somebody else.
const CONFLICTS: &str = "address_conflict";

/// The tables of the ports that the driver makes with the names that the rules give them, in their second column.
pub(crate) const PATCH: &str = "patch_port";
pub(crate) const TUNNEL: &str = "tunnel_port";

/// The table of what was observed of connections, with one row at most for each transport node, which is its first column. The
/// records of its rows may be missing from a journal.
pub(crate) const CONNECTION: &str = "node_connection";

impl NodeReport {
    /// The claims of the interfaces in the next report, which is that of transaction `txn`. `elsewhere` says which transaction has
    /// the latest claim of a port by another host.
    fn claims(
        &self,
        report: &switch_model::Report,
        txn: u64,
        elsewhere: &dyn Fn(&str) -> Option<u64>,
    ) -> Claims {
        let before = |port: &String, interface: InterfaceId| match &self.claims {
            Some(claims) => claims.get(&(port.clone(), interface)).copied(),
            // What a host reports again after a restart of the controller counts as what it reported before.
            None => self.vifs.get(port).map(|vif| Claim { since: vif.since, counted: true }),
        };
        let claim = |(port, interface): &(String, InterfaceId)| {
            let counts = report.vifs.get(port).is_some_and(|vif| vif.interface == *interface);
            let claim = match before(port, *interface) {
                // What has had no effect so far came after the transaction whose number it has. If that is also the number of the
                // latest claim elsewhere, it is later than that one.
                Some(Claim { since, counted: false }) if counts && elsewhere(port) == Some(since) => {
                    Claim { since: txn, counted: true }
                }
                Some(Claim { since, counted }) => Claim { since, counted: counted || counts },
                None if counts => Claim { since: txn, counted: true },
                // It may come without a transaction. It is older than that of the next one.
                None => Claim { since: txn.saturating_sub(1), counted: false },
            };
            ((port.clone(), *interface), claim)
        };
        report.interfaces.iter().map(claim).collect()
    }

    /// What probes have found by the next report, which is that of transaction `txn`.
    fn probed(&self, report: &switch_model::Report, txn: u64) -> BTreeMap<String, Probed> {
        let probed = |(probe, found): (&String, &switch_model::ProbeFound)| {
            let before = self.probes.get(probe).filter(|before| before.up == found.up);
            let since = before.map_or(txn, |before| before.since);
            (probe.clone(), Probed { up: found.up, cause: found.cause.clone(), since })
        };
        report.probes.iter().map(probed).collect()
    }

    /// Whether a port is known and equal to the reported one.
    fn has(&self, report: &switch_model::Report, port: &Port) -> bool {
        match port {
            Port::Vif(port) => {
                let same = |(known, vif): (&Vif, &switch_model::Vif)| {
                    known.ofport == vif.ofport && known.mac == vif.mac
                };
                self.vifs.get(port).zip(report.vifs.get(port)).is_some_and(same)
            }
            Port::Tunnel(name) => self.tunnels.get(name) == report.tunnels.get(name),
            Port::Patch(name) => self.patches.get(name) == report.patches.get(name),
        }
    }

    /// The switch has said before that it could not open the interface of this port, and the object of the port comes.
    pub(crate) fn note_unopened(&mut self, port: &str, why: (String, String)) {
        self.unopened.insert(port.to_owned(), why);
    }

    pub(crate) fn rows(&self, node: &str) -> BTreeMap<&'static str, Vec<Row>> {
        let text = |text: &str| Value::String(text.into());
        let txn = |txn: u64| Value::Int(i64::try_from(txn).unwrap_or(i64::MAX));
        let connection = |Connection { connected, since }: &Connection| {
            vec![text(node), Value::Bool(*connected), txn(*since)]
        };
        let vif = |(port, vif): (&String, &Vif)| {
            vec![text(node), text(port), Value::Int(vif.ofport.into()), text(&vif.mac), txn(vif.since)]
        };
        let announced = |(port, announced): (&String, &Announced)| {
            let since = Value::Int(i64::try_from(announced.since).unwrap_or(i64::MAX));
            let vif = self.vifs.get(port).filter(|vif| vif.since == announced.claim);
            vif.map(|_| vec![text(node), text(port), since])
        };
        let contested = |(port, names): (&String, &String)| vec![text(node), text(port), text(names)];
        let unopened = |(port, (name, error)): (&String, &(String, String))| {
            vec![text(node), text(port), text(name), text(error)]
        };
        let probed = |(probe, found): (&String, &Probed)| {
            vec![text(node), text(probe), Value::Bool(found.up), text(&found.cause), txn(found.since)]
        };
        let conflict = |Conflict { label, address }: &Conflict| {
            vec![text(node), Value::Int((*label).into()), Value::Ip(*address)]
        };
        let port =
            |(name, ofport): (&String, &u16)| vec![text(node), text(name), Value::Int((*ofport).into())];
        BTreeMap::from([
            ("vif", self.vifs.iter().map(vif).collect()),
            (TUNNEL, self.tunnels.iter().map(port).collect()),
            (PATCH, self.patches.iter().map(port).collect()),
            (CONNECTION, self.connection.iter().map(connection).collect()),
            ("announced", self.announced.iter().filter_map(announced).collect()),
            ("contested", self.contested.iter().map(contested).collect()),
            ("unopened", self.unopened.iter().map(unopened).collect()),
            (PROBED, self.probes.iter().map(probed).collect()),
            (CONFLICTS, self.conflicts.iter().map(conflict).collect()),
        ])
    }
}

/// The rows inserted and deleted between two states. Both are sorted, since they come from sorted maps.
pub(crate) fn difference(
    before: &BTreeMap<&'static str, Vec<Row>>,
    after: &BTreeMap<&'static str, Vec<Row>>,
) -> Rows {
    let missing = |from: &BTreeMap<&'static str, Vec<Row>>, other: &BTreeMap<&'static str, Vec<Row>>| {
        let mut tables = BTreeMap::new();
        for (table, rows) in from {
            let there = other.get(table).map(Vec::as_slice).unwrap_or_default();
            let gone: Vec<Row> =
                rows.iter().filter(|row| there.binary_search(row).is_err()).cloned().collect();
            if !gone.is_empty() {
                tables.insert(Arc::from(*table), gone);
            }
        }
        tables
    };
    Rows { insert: missing(after, before), delete: missing(before, after) }
}

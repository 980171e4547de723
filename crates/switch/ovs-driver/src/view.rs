//! The state of the integration bridge in the database, read from the replica. No I/O here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ovsdb_client::open_vswitch::{
    self, Bridge, BridgeSpec, Controller, FlowTable, Interface, OpenVswitch, Port, PortStatus, TunnelSpec,
};
use ovsdb_client::{ColumnError, Condition, Datum, MonitorSpec, Mutation, Mutator, Operation, Replica, Row};
use packet_answers::{PROBE_KEY, PROBES_MAX, ProbeResult, is_probe_id};
use peer_connection::Endpoint;
use uuid::Uuid;

use crate::arrivals::Arrivals;
use crate::config::Config;
use crate::connecting::{self, connecting};
use crate::in_database::{self, Here, Support};
use crate::intent::Database;
use crate::ownership::{self, Refused, SwitchId};
use crate::ports::{Port as Wanted, Ports};
use switch_model::{Encap, InterfaceId, Patch, ProbeFound, Problem, Remote, Report, Tunnel, Vif};

/// The mark of the driver's tunnel ports: `external_ids:weft=tunnel` on the interface.
pub(crate) const OWNER: (&str, &str) = ("weft", "tunnel");
/// The mark of the driver's patch ports, at both ends.
pub(crate) const PATCH_OWNER: (&str, &str) = ("weft", "patch");

/// The most characters of a version of Open vSwitch.
const VERSION_MAX: usize = 64;

/// The OpenFlow version that the driver speaks, in the spelling of the database.
const PROTOCOL: &str = "OpenFlow15";

/// The greatest number of an ordinary port.
const OFPORT_MAX: u32 = switch_model::rows::PORT_MAX as u32;

/// The monitored columns: all that this module reads.
pub(crate) fn monitor() -> MonitorSpec {
    in_database::monitor(open_vswitch::monitor())
}

/// The integration bridge and its interfaces, according to the database.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    pub(crate) switch: Option<OpenVswitch>,
    pub(crate) bridge: Option<Bridge>,
    /// The controllers of the bridge.
    controllers: Vec<Controller>,
    /// The settings of the bridge's OpenFlow tables.
    flow_tables: BTreeMap<i64, FlowTable>,
    /// The interfaces of the bridge, by name.
    interfaces: BTreeMap<String, Interface>,
    /// The interfaces of other bridges, by name and bridge.
    elsewhere: BTreeMap<(String, String), Interface>,
    /// The kinds of things besides ports.
    pub(crate) things: in_database::View,
    /// The names of all bridges.
    bridges: BTreeSet<String>,
    /// Rows that violate the schema's documentation; the view omits them.
    unreadable: Vec<ColumnError>,
}

/// The settings of the bridge whose change can make ovs-vswitchd discard all flows: the bridge itself, its fail mode,
/// and the controllers that it connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlowKeeping {
    bridge: Uuid,
    fail_mode: Option<String>,
    datapath_type: String,
    controllers: BTreeSet<Uuid>,
}

impl View {
    pub(crate) fn read(replica: &Replica, support: Support, bridge: &str) -> View {
        let mut view = View::default();
        let mut unreadable = Vec::new();
        view.switch =
            rows(replica, OpenVswitch::TABLE, OpenVswitch::from_row, &mut unreadable).into_iter().next();
        let bridges = rows(replica, Bridge::TABLE, Bridge::from_row, &mut unreadable);
        for row in &bridges {
            view.bridges.insert(row.name.clone());
            for interface in interfaces(replica, row, &mut unreadable) {
                let name = interface.name.clone();
                if row.name == bridge {
                    view.interfaces.insert(name, interface);
                } else {
                    view.elsewhere.insert((name, row.name.clone()), interface);
                }
            }
        }
        view.bridge = bridges.into_iter().find(|row| row.name == bridge);
        if let Some(bridge) = &view.bridge {
            let tunnels = view.interfaces.values().filter(|interface| mark(interface) == Some(OWNER.1));
            let datapath_type = normal_datapath(&bridge.datapath_type);
            let here = Here { replica, bridge, datapath_type, tunnels: tunnels.collect() };
            view.things = in_database::View::read(&here, support);
            for (number, uuid) in &bridge.flow_tables {
                match replica.row(FlowTable::TABLE, *uuid).map(FlowTable::from_row) {
                    Some(Ok(settings)) => drop(view.flow_tables.insert(*number, settings)),
                    Some(Err(error)) => unreadable.push(error),
                    None => {}
                }
            }
            for uuid in &bridge.controllers {
                match replica.row(Controller::TABLE, *uuid).map(|row| Controller::from_row(*uuid, row)) {
                    Some(Ok(controller)) => view.controllers.push(controller),
                    Some(Err(error)) => unreadable.push(error),
                    None => {}
                }
            }
        }
        view.unreadable = unreadable;
        view
    }

    /// The desired settings of the bridge, if the database has others. `None` also while they are undecided: a
    /// missing bridge is not created until the switch has reported its datapath types, unless `config` names one.
    pub(crate) fn correction(&self, config: &Config) -> Option<BridgeSpec> {
        let limit = |table: &u8| Some((*table, config.learned_limit.clone()?));
        let flow_tables = config.learned_tables.iter().filter_map(limit).collect();
        let connecting = connecting(&config.openflow);
        let Some(bridge) = &self.bridge else {
            let datapath_type = config.datapath_type.clone().or_else(|| self.default_datapath())?;
            let external_ids =
                config.owner.as_ref().map(|owner| owner.mark(&config.name)).unwrap_or_default();
            return Some(BridgeSpec {
                flow_tables,
                connecting: Some(connecting),
                external_ids,
                ..BridgeSpec::secure(&config.bridge, datapath_type)
            });
        };
        let connects = connecting.is_met(self.controllers.iter());
        let mut spec = BridgeSpec {
            flow_tables,
            connecting: Some(connecting),
            ..BridgeSpec::secure(&config.bridge, &bridge.datapath_type)
        };
        if bridge.protocols.contains(PROTOCOL) {
            // Keep other versions that the bridge also offers.
            spec.protocols.clone_from(&bridge.protocols);
        } else if !bridge.protocols.is_empty() {
            spec.protocols.extend(bridge.protocols.iter().cloned());
        }
        let limited =
            |(table, settings): (&u8, _)| self.flow_tables.get(&i64::from(*table)) == Some(settings);
        let right = bridge.protocols == spec.protocols
            && bridge.fail_mode.as_ref() == Some(&spec.fail_mode)
            && spec.flow_tables.iter().all(limited)
            && spec.other_config.iter().all(|(key, value)| bridge.other_config.get(key) == Some(value))
            && connects;
        (!right).then_some(spec)
    }

    /// The targets of the controllers that others have set for the bridge, sorted.
    pub(crate) fn controllers(&self) -> Vec<String> {
        let others = self.controllers.iter().filter(|controller| !connecting::is_own(controller));
        let mut targets: Vec<String> = others.map(|controller| controller.target.clone()).collect();
        targets.sort();
        targets
    }

    /// The switch, once it is known which one it is.
    pub(crate) fn switch_id(&self) -> Option<SwitchId> {
        let (bridge, datapath_id) = (self.bridge.as_ref()?.uuid, self.datapath_id()?);
        let system_id = self.switch.as_ref().and_then(|switch| switch.system_id().map(str::to_owned));
        Some(SwitchId { bridge, datapath_id, system_id })
    }

    /// Why this is not the switch that dials in to this endpoint: it must give itself the name that its certificate has.
    pub(crate) fn stranger(&self, ovsdb: &Endpoint) -> Option<Refused> {
        let Endpoint::DialIn { name, .. } = ovsdb else { return None };
        let system_id = self.switch.as_ref().and_then(OpenVswitch::system_id);
        (system_id != Some(name)).then(|| ownership::other_system_id(name, system_id))
    }

    /// The operations that remove the traces of the driver from the bridge itself: its mark, and where the bridge waits for it or dials it.
    pub(crate) fn departure(&self) -> Vec<Operation> {
        let Some(bridge) = &self.bridge else { return Vec::new() };
        let mut operations = connecting::nowhere().corrections(bridge.uuid, self.controllers.iter());
        let keys: Vec<&str> =
            ownership::KEYS.into_iter().filter(|key| bridge.external_ids.contains_key(*key)).collect();
        if !keys.is_empty() {
            let mutation = Mutation::new("external_ids", Mutator::Delete, Datum::set(keys));
            let here = vec![Condition::uuid(bridge.uuid)];
            operations.push(Operation::mutate(Bridge::TABLE, here, vec![mutation]));
        }
        operations
    }

    /// The OpenFlow datapath id of the bridge, once ovs-vswitchd has written it.
    pub(crate) fn datapath_id(&self) -> Option<u64> {
        u64::from_str_radix(self.bridge.as_ref()?.datapath_id.as_ref()?, 16).ok()
    }

    fn default_datapath(&self) -> Option<String> {
        let types = &self.switch.as_ref()?.datapath_types;
        if types.contains("system") {
            return Some("system".to_owned());
        }
        (!types.is_empty()).then(|| "netdev".to_owned())
    }

    pub(crate) fn flow_keeping(&self) -> Option<FlowKeeping> {
        let bridge = self.bridge.as_ref()?;
        Some(FlowKeeping {
            bridge: bridge.uuid,
            fail_mode: bridge.fail_mode.clone(),
            datapath_type: bridge.datapath_type.clone(),
            controllers: self
                .controllers
                .iter()
                .filter(|controller| !controller.is_passive())
                .map(|controller| controller.uuid)
                .collect(),
        })
    }

    /// Why this switch does not support the port; `None` if it does.
    pub(crate) fn unsupported(&self, port: &Wanted) -> Option<String> {
        let bridge = self.bridge.as_ref()?;
        match port {
            Wanted::Tunnel(tunnel) => unsupported(tunnel.encap, &bridge.datapath_type),
            Wanted::Patch(patch) => (!self.bridges.contains(&patch.bridge)).then(|| {
                format!(
                    "there is no bridge {} on this switch: create it, or correct the bridge_mappings of this node",
                    patch.bridge
                )
            }),
        }
    }

    /// Compares the ports in the database with the desired ones.
    pub(crate) fn port_plan(&self, want: &Ports) -> PortPlan {
        let mut plan = PortPlan { unwanted: self.unwanted(want), ..PortPlan::default() };
        for (name, port) in want {
            if let Some(why) = self.unsupported(port) {
                plan.unsupported.insert(name.clone(), why);
                continue;
            }
            let ends = ends(name, port);
            let present: Vec<Option<PortStatus>> =
                ends.iter().map(|end| self.present(end).map(Interface::status)).collect();
            if present.iter().any(Option::is_none) {
                plan.missing.push(MissingPort { name: name.clone(), ends });
            } else if present.contains(&Some(PortStatus::Pending)) {
                plan.pending.push(name.clone());
            } else if present.iter().any(|status| matches!(status, Some(PortStatus::Failed { .. }))) {
                plan.failed.insert(name.clone());
            }
        }
        plan
    }

    /// The interfaces, on any bridge, that currently have the names of the port's ends, without their status.
    pub(crate) fn namesakes(&self, name: &str, port: &Wanted) -> Vec<Interface> {
        let mut found = Vec::new();
        for end in ends(name, port) {
            found.extend(self.interfaces.get(&end.name).cloned());
            let elsewhere = self.elsewhere.range((end.name.clone(), String::new())..);
            let elsewhere = elsewhere.take_while(|((name, _), _)| *name == end.name);
            found.extend(elsewhere.map(|(_, interface)| interface.clone()));
        }
        for interface in &mut found {
            (interface.ofport, interface.error, interface.mac_in_use) = (None, None, None);
            interface.link_state = None;
        }
        found
    }

    /// The interface of one end, if it exists with the desired settings.
    fn present(&self, end: &TunnelSpec) -> Option<&Interface> {
        let interface = match &end.bridge {
            None => self.interfaces.get(&end.name),
            Some(bridge) => self.elsewhere.get(&(end.name.clone(), bridge.clone())),
        }?;
        let right = mark(interface).is_some()
            && interface.interface_type == end.tunnel_type
            && interface.options == end.options;
        right.then_some(interface)
    }

    /// Ports that the driver made and that are no longer desired, each with its bridge.
    pub(crate) fn unwanted(&self, want: &Ports) -> Vec<(String, String)> {
        let wanted = |name: &str| want.get(name).filter(|port| self.unsupported(port).is_none());
        let bridge = self.bridge.iter().map(|bridge| &bridge.name);
        let here =
            bridge.flat_map(|bridge| self.interfaces.values().map(move |interface| (bridge, interface)));
        let here = here
            .filter(|(_, interface)| mark(interface).is_some() && wanted(&interface.name).is_none())
            .map(|(bridge, interface)| (bridge.clone(), interface.name.clone()));
        let ends: BTreeSet<(&String, &String)> = want
            .values()
            .filter_map(|port| match port {
                Wanted::Patch(Patch { bridge, peer }) => Some((bridge, peer)),
                Wanted::Tunnel(_) => None,
            })
            .collect();
        let elsewhere = self
            .elsewhere
            .iter()
            .filter(|((name, bridge), interface)| {
                mark(interface) == Some(PATCH_OWNER.1) && !ends.contains(&(bridge, name))
            })
            .map(|((name, bridge), _)| (bridge.clone(), name.clone()));
        here.chain(elsewhere).collect()
    }

    /// The interfaces with the id of a port, by this id.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (String, Uuid)> {
        let others = self.interfaces.values().filter(|interface| mark(interface).is_none());
        others.filter_map(|interface| Some((interface.external_ids.get("iface-id")?.clone(), interface.uuid)))
    }

    /// The attached interfaces and ports, and their problems. `arrivals` has seen this view.
    pub(crate) fn report(&self, config: &Config, arrivals: &Arrivals, want: &Database) -> Report {
        let Database { ports: want, things } = want;
        let version = self.switch.as_ref().and_then(|switch| switch.ovs_version.as_deref());
        let ovs_version = version.unwrap_or_default().chars().take(VERSION_MAX).collect();
        let mut report = Report { ovs_version, ..Report::default() };
        report.problems.extend(self.unreadable.iter().map(|error| problem(&error.table, error.to_string())));
        report.problems.extend(self.other_datapath(config));
        if self.bridge.is_some() {
            let lacks = self.things.problems(things);
            report.problems.extend(lacks.map(|why| problem("Open vSwitch", why)));
        }
        for (name, port) in want {
            report.problems.extend(self.unsupported(port).map(|why| problem(name, why)));
        }
        let mut candidates: BTreeMap<&str, Vec<(u16, &Interface)>> = BTreeMap::new();
        for interface in self.interfaces.values() {
            let mark = mark(interface);
            let iface_id = interface.external_ids.get("iface-id").filter(|_| mark.is_none());
            if mark.is_none() && iface_id.is_none() {
                continue;
            }
            report.interfaces.extend(iface_id.map(|id| (id.clone(), identity(interface))));
            let ofport = match ofport(interface) {
                Ok(Some(ofport)) => ofport,
                Ok(None) => continue,
                Err(problem) => {
                    if let Some(iface_id) = iface_id {
                        let why = (problem.what.clone(), problem.why.clone());
                        report.unopened.entry(iface_id.clone()).or_insert(why);
                    }
                    report.problems.push(problem);
                    continue;
                }
            };
            if let Some(iface_id) = iface_id {
                candidates.entry(iface_id).or_default().push((ofport, interface));
            } else if want.get(&interface.name).is_none_or(|port| self.unsupported(port).is_none()) {
                let patch = mark == Some(PATCH_OWNER.1);
                let ports = if patch { &mut report.patches } else { &mut report.tunnels };
                ports.insert(interface.name.clone(), ofport);
            }
        }
        for (iface_id, interfaces) in candidates {
            report.unopened.remove(iface_id);
            plug_in(&mut report, arrivals, iface_id, interfaces);
        }
        report.probes = self.probes();
        report.problems.sort();
        report
    }

    /// What probes have found. Whatever is no result is left out, since others may write there; so are more than a responder has probes.
    fn probes(&self) -> BTreeMap<String, ProbeFound> {
        let keys = self.bridge.iter().flat_map(|bridge| &bridge.external_ids);
        let found = keys.filter_map(|(key, text)| {
            let id = key.strip_prefix(PROBE_KEY).filter(|id| is_probe_id(id))?;
            let (up, cause) = match ProbeResult::parse(text)? {
                ProbeResult::Up => (true, String::new()),
                ProbeResult::Down(cause) => (false, cause),
            };
            Some((id.to_owned(), ProbeFound { up, cause }))
        });
        found.take(PROBES_MAX).collect()
    }

    fn other_datapath(&self, config: &Config) -> Option<Problem> {
        let (bridge, wanted) = self.bridge.as_ref().zip(config.datapath_type.as_ref())?;
        let has = normal_datapath(&bridge.datapath_type);
        let why =
            format!("has datapath type {has}, not {wanted}; left as it is, since a change drops its flows");
        (has != normal_datapath(wanted)).then(|| problem(&bridge.name, why))
    }
}

fn problem(what: &str, why: String) -> Problem {
    Problem { what: what.to_owned(), why }
}

/// The port number of an interface; `None` while it has none.
fn ofport(interface: &Interface) -> Result<Option<u16>, Problem> {
    match interface.status() {
        PortStatus::Assigned(ofport @ 1..=OFPORT_MAX) => Ok(Some(ofport as u16)),
        PortStatus::Assigned(other) => {
            Err(problem(&interface.name, format!("has the reserved port number {other}")))
        }
        PortStatus::Failed { error } => Err(problem(&interface.name, error)),
        PortStatus::Pending => Ok(None),
    }
}

/// Reports the virtual interface of an `iface-id`. If several interfaces have the id, one whose link is up counts before those
/// that are down: the device of a machine that has gone may stay for long. Among these, it is the one that came last, as
/// between hosts. Those that a driver finds when it starts came in the order of their port numbers, as far as it knows: Open
/// vSwitch counts upwards.
fn plug_in(report: &mut Report, arrivals: &Arrivals, iface_id: &str, mut interfaces: Vec<(u16, &Interface)>) {
    interfaces.sort_by_cached_key(|(ofport, interface)| {
        (is_down(interface), Reverse((arrivals.of(iface_id, interface.uuid), *ofport)))
    });
    let Some(((ofport, chosen), others)) = interfaces.split_first() else { return };
    if !others.is_empty() {
        let names: Vec<&str> = interfaces.iter().map(|(_, interface)| interface.name.as_str()).collect();
        let why = if !is_down(chosen) && others.iter().all(|(_, other)| is_down(other)) {
            "because it is the only one whose link is up"
        } else {
            "because it was attached last"
        };
        let why = format!(
            "{} have the same iface-id; {} is used, {why}: remove external_ids:iface-id from the others",
            names.join(" and "),
            chosen.name
        );
        report.contested.insert(iface_id.to_owned(), names.join(" and "));
        report.problems.push(problem(iface_id, why));
    }
    let mac = chosen.external_ids.get("attached-mac").cloned().unwrap_or_default();
    report.vifs.insert(iface_id.to_owned(), Vif { ofport: *ofport, mac, interface: identity(chosen) });
}

fn is_down(interface: &Interface) -> bool {
    interface.link_state.as_deref() == Some("down")
}

fn identity(interface: &Interface) -> InterfaceId {
    InterfaceId(interface.uuid.as_u128())
}

/// The differences between the ports of a switch and the desired ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PortPlan {
    /// Ports to create or to change.
    pub(crate) missing: Vec<MissingPort>,
    /// Ports that the database has as desired, but that ovs-vswitchd has not configured yet.
    pub(crate) pending: Vec<String>,
    /// Ports that the database has as desired, but for which ovs-vswitchd reports an error.
    pub(crate) failed: BTreeSet<String>,
    /// Ports to remove, each with its bridge.
    pub(crate) unwanted: Vec<(String, String)>,
    /// Desired ports that the switch does not support: name and reason.
    pub(crate) unsupported: BTreeMap<String, String>,
}

/// A desired port that is missing or has other settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingPort {
    /// The name of the port.
    pub(crate) name: String,
    /// The tunnel port, or both ends of the patch.
    pub(crate) ends: Vec<TunnelSpec>,
}

/// The mark of a driver's port; `None` for other ports.
fn mark(interface: &Interface) -> Option<&'static str> {
    let owner = interface.external_ids.get(OWNER.0)?;
    [OWNER.1, PATCH_OWNER.1].into_iter().find(|mark| mark == owner)
}

/// Why a bridge of this datapath type does not support the encapsulation; `None` if it does.
fn unsupported(encap: Encap, datapath_type: &str) -> Option<String> {
    match encap {
        Encap::Geneve | Encap::Vxlan | Encap::Gre => None,
        Encap::Stt => (datapath_type == "netdev").then(|| {
            "the userspace datapath (netdev) does not carry stt, although the switch accepts the port: give this node \
             another encapsulation, or a kernel datapath that supports stt"
                .to_owned()
        }),
    }
}

/// An empty datapath type means `system`.
fn normal_datapath(datapath_type: &str) -> &str {
    if datapath_type.is_empty() { "system" } else { datapath_type }
}

/// The interfaces to create: the tunnel port, or both ends of the patch.
fn ends(name: &str, port: &Wanted) -> Vec<TunnelSpec> {
    let tunnel = |tunnel: &Tunnel| {
        let spec = TunnelSpec::by_flow(name, tunnel.encap.name()).external_id(OWNER.0, OWNER.1);
        match tunnel.remote {
            Remote::Flow => spec,
            Remote::Address(address) => spec.option("remote_ip", address.to_string()),
        }
    };
    let end =
        |name: &str, peer: &str| TunnelSpec::patch(name, peer).external_id(PATCH_OWNER.0, PATCH_OWNER.1);
    match port {
        Wanted::Tunnel(port) => vec![tunnel(port)],
        Wanted::Patch(Patch { bridge, peer }) => vec![end(name, peer), end(peer, name).on(bridge)],
    }
}

/// The interfaces of a bridge.
fn interfaces(replica: &Replica, bridge: &Bridge, unreadable: &mut Vec<ColumnError>) -> Vec<Interface> {
    let mut found = Vec::new();
    for port in &bridge.ports {
        let Some(row) = replica.row(Port::TABLE, *port) else { continue };
        let interfaces = match Port::from_row(*port, row) {
            Ok(port) => port.interfaces,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        for uuid in interfaces {
            match replica.row(Interface::TABLE, uuid).map(|row| Interface::from_row(uuid, row)) {
                Some(Ok(interface)) => found.push(interface),
                Some(Err(error)) => unreadable.push(error),
                None => {}
            }
        }
    }
    found
}

fn rows<T>(
    replica: &Replica,
    table: &str,
    from_row: impl Fn(Uuid, &Row) -> Result<T, ColumnError>,
    unreadable: &mut Vec<ColumnError>,
) -> Vec<T> {
    let mut readable = Vec::new();
    for (uuid, row) in replica.rows(table) {
        match from_row(uuid, row) {
            Ok(row) => readable.push(row),
            Err(error) => unreadable.push(error),
        }
    }
    readable
}

#[cfg(test)]
mod tests;

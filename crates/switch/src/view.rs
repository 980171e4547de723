//! What the database says about the integration bridge, read from the replica; no input or output here.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb_client::open_vswitch::{self, Bridge, BridgeSpec, Interface, OpenVswitch, Port, PortStatus, TunnelSpec};
use ovsdb_client::{ColumnError, MonitorSpec, Replica, Row};
use uuid::Uuid;

use crate::config::Config;
use crate::desired::{Encap, Remote, Tunnel};
use crate::event::{Problem, Report, Vif};

/// The mark of a tunnel port that a driver made: `external_ids:weft=tunnel` on its interface.
pub(crate) const OWNER: (&str, &str) = ("weft", "tunnel");

/// The only version that the driver speaks, as the database spells it.
const PROTOCOL: &str = "OpenFlow15";

/// The greatest number of an ordinary port.
const OFPORT_MAX: u32 = 65279;

/// What is monitored: all that is read here.
pub(crate) fn monitor() -> MonitorSpec {
    let bridge: Vec<&str> = Bridge::COLUMNS.iter().copied().chain(["controller"]).collect();
    open_vswitch::monitor().table(Bridge::TABLE, &bridge)
}

/// The integration bridge and its interfaces, as they stand in the database.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    pub(crate) switch: Option<OpenVswitch>,
    pub(crate) bridge: Option<Bridge>,
    controllers: BTreeSet<Uuid>,
    /// By name.
    interfaces: BTreeMap<String, Interface>,
    /// Rows that are not as the schema's documentation says; they are left out.
    unreadable: Vec<ColumnError>,
}

/// Settings of the bridge whose change may make ovs-vswitchd throw all flows away: the bridge itself, its fail mode,
/// and the first controller that is set or the last that is taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlowKeeping {
    bridge: Uuid,
    fail_mode: Option<String>,
    datapath_type: String,
    controllers: BTreeSet<Uuid>,
}

impl View {
    pub(crate) fn read(replica: &Replica, bridge: &str) -> View {
        let mut view = View::default();
        let mut unreadable = Vec::new();
        view.switch =
            rows(replica, OpenVswitch::TABLE, OpenVswitch::from_row, &mut unreadable).into_iter().next();
        let bridges = rows(replica, Bridge::TABLE, Bridge::from_row, &mut unreadable);
        view.bridge = bridges.into_iter().find(|row| row.name == bridge);
        if let Some(bridge) = &view.bridge {
            let controllers = replica.row(Bridge::TABLE, bridge.uuid).map(|row| row.get("controller"));
            match controllers {
                Some(Ok(controllers)) => view.controllers = controllers,
                Some(Err(error)) => unreadable.push(error),
                None => {}
            }
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
                        Some(Ok(interface)) => {
                            view.interfaces.insert(interface.name.clone(), interface);
                        }
                        Some(Err(error)) => unreadable.push(error),
                        None => {}
                    }
                }
            }
        }
        view.unreadable = unreadable;
        view
    }

    /// The bridge as it should be, if it is not so. `None` also while it cannot be told: a bridge that is missing
    /// is not created before the switch has said which datapaths it has, unless `config` says which.
    pub(crate) fn correction(&self, config: &Config) -> Option<BridgeSpec> {
        let Some(bridge) = &self.bridge else {
            let datapath_type = config.datapath_type.clone().or_else(|| self.default_datapath())?;
            return Some(BridgeSpec::secure(&config.bridge, datapath_type));
        };
        let mut spec = BridgeSpec::secure(&config.bridge, &bridge.datapath_type);
        if bridge.protocols.contains(PROTOCOL) {
            // Others may be spoken beside ours.
            spec.protocols.clone_from(&bridge.protocols);
        } else if !bridge.protocols.is_empty() {
            spec.protocols.extend(bridge.protocols.iter().cloned());
        }
        let right = bridge.protocols == spec.protocols && bridge.fail_mode.as_ref() == Some(&spec.fail_mode);
        (!right).then_some(spec)
    }

    fn default_datapath(&self) -> Option<String> {
        let types = &self.switch.as_ref()?.datapath_types;
        match types.contains("system") {
            true => Some("system".to_owned()),
            false => (!types.is_empty()).then(|| "netdev".to_owned()),
        }
    }

    pub(crate) fn flow_keeping(&self) -> Option<FlowKeeping> {
        let bridge = self.bridge.as_ref()?;
        Some(FlowKeeping {
            bridge: bridge.uuid,
            fail_mode: bridge.fail_mode.clone(),
            datapath_type: bridge.datapath_type.clone(),
            controllers: self.controllers.clone(),
        })
    }

    /// Why this switch cannot carry the tunnel, if it cannot.
    pub(crate) fn unsupported(&self, tunnel: &Tunnel) -> Option<String> {
        let bridge = self.bridge.as_ref()?;
        (tunnel.encap == Encap::Stt && bridge.datapath_type == "netdev").then(|| {
            "stt cannot be carried by the userspace datapath (netdev), although the switch would accept the port: \
             give this node another encapsulation, or a kernel datapath with stt"
                .to_owned()
        })
    }

    /// What must be done to the tunnel ports.
    pub(crate) fn tunnel_plan(&self, want: &BTreeMap<String, Tunnel>) -> TunnelPlan {
        let mut plan = TunnelPlan::default();
        for (name, tunnel) in want {
            if let Some(why) = self.unsupported(tunnel) {
                plan.unsupported.insert(name.clone(), why);
                continue;
            }
            let spec = spec(name, tunnel);
            let right = self.interfaces.get(name).is_some_and(|interface| {
                is_ours(interface)
                    && interface.interface_type == spec.tunnel_type
                    && interface.options == spec.options
            });
            if !right {
                plan.missing.push(spec);
            }
        }
        let unwanted = |name: &str| !want.contains_key(name) || plan.unsupported.contains_key(name);
        plan.unwanted = self.owned().map(|interface| interface.name.clone()).filter(|name| unwanted(name)).collect();
        plan
    }

    fn owned(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.values().filter(|interface| is_ours(interface))
    }

    /// What is plugged in, and what is wrong.
    pub(crate) fn report(&self, config: &Config, want: &BTreeMap<String, Tunnel>) -> Report {
        let mut report = Report::default();
        let problem = |what: &str, why: String| Problem { what: what.to_owned(), why };
        report.problems.extend(self.unreadable.iter().map(|error| problem(&error.table, error.to_string())));
        if let (Some(bridge), Some(wanted)) = (&self.bridge, &config.datapath_type)
            && normal_datapath(&bridge.datapath_type) != normal_datapath(wanted)
        {
            let has = normal_datapath(&bridge.datapath_type);
            let why = format!("has datapath type {has}, not {wanted}; left as it is, since a change drops its flows");
            report.problems.push(problem(&bridge.name, why));
        }
        for (name, tunnel) in want {
            report.problems.extend(self.unsupported(tunnel).map(|why| problem(name, why)));
        }
        let mut candidates: BTreeMap<&str, Vec<(u16, &Interface)>> = BTreeMap::new();
        for interface in self.interfaces.values() {
            let iface_id = interface.external_ids.get("iface-id");
            let ours = is_ours(interface);
            if !ours && iface_id.is_none() {
                continue;
            }
            let ofport = match interface.status() {
                PortStatus::Assigned(ofport @ 1..=OFPORT_MAX) => ofport as u16,
                PortStatus::Assigned(other) => {
                    report.problems.push(problem(&interface.name, format!("has the reserved port number {other}")));
                    continue;
                }
                PortStatus::Failed { error } => {
                    report.problems.push(problem(&interface.name, error));
                    continue;
                }
                PortStatus::Pending => continue,
            };
            if ours {
                let usable = want.get(&interface.name).is_none_or(|tunnel| self.unsupported(tunnel).is_none());
                if usable {
                    report.tunnels.insert(interface.name.clone(), ofport);
                }
            } else if let Some(iface_id) = iface_id {
                candidates.entry(iface_id).or_default().push((ofport, interface));
            }
        }
        for (iface_id, mut interfaces) in candidates {
            interfaces.sort_by_key(|(ofport, _)| *ofport);
            let Some((ofport, chosen)) = interfaces.first() else { continue };
            if interfaces.len() > 1 {
                let names: Vec<&str> = interfaces.iter().map(|(_, interface)| interface.name.as_str()).collect();
                let why = format!(
                    "{} have the same iface-id; {} counts, which has the lowest port number",
                    names.join(" and "),
                    chosen.name
                );
                report.problems.push(problem(iface_id, why));
            }
            let mac = chosen.external_ids.get("attached-mac").cloned().unwrap_or_default();
            report.vifs.insert(iface_id.to_owned(), Vif { ofport: *ofport, mac });
        }
        report.problems.sort();
        report
    }
}

/// What must be done to the tunnel ports of a switch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TunnelPlan {
    /// To be created or changed.
    pub(crate) missing: Vec<TunnelSpec>,
    /// To be removed.
    pub(crate) unwanted: Vec<String>,
    /// Wanted, but the switch cannot carry them: name and reason.
    pub(crate) unsupported: BTreeMap<String, String>,
}

fn is_ours(interface: &Interface) -> bool {
    interface.external_ids.get(OWNER.0).is_some_and(|owner| owner == OWNER.1)
}

/// The empty text means `system`.
fn normal_datapath(datapath_type: &str) -> &str {
    if datapath_type.is_empty() { "system" } else { datapath_type }
}

fn spec(name: &str, tunnel: &Tunnel) -> TunnelSpec {
    let spec = TunnelSpec::by_flow(name, tunnel.encap.name()).external_id(OWNER.0, OWNER.1);
    match tunnel.remote {
        Remote::Flow => spec,
        Remote::Address(address) => spec.option("remote_ip", address.to_string()),
    }
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

//! What the database says about the integration bridge, read from the replica; no input or output here.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb_client::open_vswitch::{
    self, Bridge, BridgeSpec, Interface, OpenVswitch, Port, PortStatus, TunnelSpec,
};
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
            let present = self.interfaces.get(name).filter(|interface| {
                is_ours(interface)
                    && interface.interface_type == spec.tunnel_type
                    && interface.options == spec.options
            });
            match present.map(Interface::status) {
                None => plan.missing.push(spec),
                Some(PortStatus::Pending) => plan.pending.push(name.clone()),
                Some(_) => {}
            }
        }
        let unwanted = |name: &str| !want.contains_key(name) || plan.unsupported.contains_key(name);
        plan.unwanted =
            self.owned().map(|interface| interface.name.clone()).filter(|name| unwanted(name)).collect();
        plan
    }

    fn owned(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.values().filter(|interface| is_ours(interface))
    }

    /// What is plugged in, and what is wrong.
    pub(crate) fn report(&self, config: &Config, want: &BTreeMap<String, Tunnel>) -> Report {
        let mut report = Report::default();
        report.problems.extend(self.unreadable.iter().map(|error| problem(&error.table, error.to_string())));
        report.problems.extend(self.other_datapath(config));
        for (name, tunnel) in want {
            report.problems.extend(self.unsupported(tunnel).map(|why| problem(name, why)));
        }
        let mut candidates: BTreeMap<&str, Vec<(u16, &Interface)>> = BTreeMap::new();
        for interface in self.interfaces.values() {
            let ours = is_ours(interface);
            let iface_id = interface.external_ids.get("iface-id").filter(|_| !ours);
            if !ours && iface_id.is_none() {
                continue;
            }
            let ofport = match ofport(interface) {
                Ok(Some(ofport)) => ofport,
                Ok(None) => continue,
                Err(problem) => {
                    report.problems.push(problem);
                    continue;
                }
            };
            if let Some(iface_id) = iface_id {
                candidates.entry(iface_id).or_default().push((ofport, interface));
            } else if want.get(&interface.name).is_none_or(|tunnel| self.unsupported(tunnel).is_none()) {
                report.tunnels.insert(interface.name.clone(), ofport);
            }
        }
        for (iface_id, interfaces) in candidates {
            plug_in(&mut report, iface_id, interfaces);
        }
        report.problems.sort();
        report
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

/// The number of an ordinary port; `None` as long as it has none.
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

/// Reports the virtual interface of an `iface-id`. If several have it, the one with the lowest port number counts.
fn plug_in(report: &mut Report, iface_id: &str, mut interfaces: Vec<(u16, &Interface)>) {
    interfaces.sort_by_key(|(ofport, _)| *ofport);
    let Some((ofport, chosen)) = interfaces.first() else { return };
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

/// What must be done to the tunnel ports of a switch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TunnelPlan {
    /// To be created or changed.
    pub(crate) missing: Vec<TunnelSpec>,
    /// As they should be in the database, but not taken up by ovs-vswitchd yet.
    pub(crate) pending: Vec<String>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use ovsdb_client::{Change, Datum};
    use proptest::prelude::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn map(pairs: &[(&str, &str)]) -> Datum {
        Datum::map(pairs.iter().copied())
    }

    /// A database with one bridge, built row by row.
    struct Rows {
        changes: Vec<Change>,
        ports: Vec<Uuid>,
        bridge: Row,
    }

    impl Rows {
        fn new() -> Rows {
            let bridge = Row::new("Bridge")
                .with("name", "br-int")
                .with("datapath_type", "netdev")
                .with("fail_mode", Some("secure".to_owned()))
                .with("protocols", "OpenFlow15")
                .with("external_ids", map(&[]))
                .with("controller", Datum::set::<Uuid>([]));
            Rows { changes: Vec::new(), ports: Vec::new(), bridge }
        }

        fn add(&mut self, table: &str, uuid: Uuid, row: Row) {
            self.changes.push(Change { table: table.into(), uuid, old: None, new: Some(row) });
        }

        fn interface(&mut self, n: u128, name: &str, set: impl FnOnce(Row) -> Row) {
            let row = Row::new("Interface")
                .with("name", name)
                .with("type", "")
                .with("ofport", Some(n as i64))
                .with("error", None::<String>)
                .with("external_ids", map(&[]))
                .with("options", map(&[]))
                .with("mac_in_use", None::<String>);
            self.add("Interface", id(n), set(row));
            let port =
                Row::new("Port").with("name", name).with("interfaces", id(n)).with("external_ids", map(&[]));
            self.add("Port", id(1000 + n), port);
            self.ports.push(id(1000 + n));
        }

        fn view(mut self) -> View {
            let bridge = self.bridge.clone().with("ports", Datum::set(self.ports.clone()));
            self.add("Bridge", id(1), bridge);
            let mut replica = Replica::default();
            replica.apply(&self.changes);
            View::read(&replica, "br-int")
        }
    }

    fn config() -> Config {
        let endpoint = || "unix:/nowhere".parse().expect("an endpoint");
        Config {
            name: "hv1".to_owned(),
            ovsdb: endpoint(),
            openflow: endpoint(),
            bridge: "br-int".to_owned(),
            datapath_type: None,
        }
    }

    fn tunnel(encap: &str, remote: &str) -> Tunnel {
        Tunnel { encap: encap.parse().expect("an encap"), remote: remote.parse().expect("a remote") }
    }

    #[test]
    fn a_report_tells_vifs_tunnels_and_problems_apart() {
        let mut rows = Rows::new();
        let vif = |id: &'static str| move |row: Row| row.with("external_ids", map(&[("iface-id", id)]));
        rows.interface(7, "tap7", vif("blue-1"));
        rows.interface(5, "tap5", vif("blue-1"));
        rows.interface(8, "tap8", |row| {
            row.with("external_ids", map(&[("iface-id", "blue-2"), ("attached-mac", "02:00:00:00:00:02")]))
        });
        rows.interface(9, "new", |row| vif("blue-3")(row).with("ofport", None::<i64>));
        rows.interface(10, "gone", |row| {
            vif("blue-4")(row).with("ofport", Some(-1)).with("error", Some("No such device".to_owned()))
        });
        rows.interface(65534, "br-int", vif("blue-5"));
        rows.interface(11, "uplink", |row| row);
        rows.interface(12, "gnv", |row| row.with("type", "geneve").with("external_ids", map(&[OWNER])));
        rows.interface(13, "theirs", |row| row.with("type", "geneve"));
        let report = rows.view().report(&config(), &BTreeMap::new());
        let vif = |ofport, mac: &str| Vif { ofport, mac: mac.to_owned() };
        assert_eq!(
            report.vifs,
            [("blue-1".to_owned(), vif(5, "")), ("blue-2".to_owned(), vif(8, "02:00:00:00:00:02"))].into()
        );
        assert_eq!(report.tunnels, [("gnv".to_owned(), 12)].into());
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "blue-1: tap5 and tap7 have the same iface-id; tap5 counts, which has the lowest port number",
                "br-int: has the reserved port number 65534",
                "gone: No such device",
            ]
        );
    }

    #[test]
    fn a_tunnel_without_a_port_number_is_pending_and_one_with_an_error_is_not() {
        let want: BTreeMap<String, Tunnel> =
            ["new", "bad", "good"].map(|name| (name.to_owned(), tunnel("gre", "flow"))).into();
        let mut rows = Rows::new();
        for (n, name, ofport) in [(3, "new", None), (4, "bad", Some(-1)), (5, "good", Some(5))] {
            let spec = spec(name, &want[name]);
            rows.interface(n, name, |row| {
                let row = row.with("type", "gre").with("options", spec.options).with("ofport", ofport);
                row.with("external_ids", map(&[OWNER]))
            });
        }
        let plan = rows.view().tunnel_plan(&want);
        assert_eq!(plan, TunnelPlan { pending: vec!["new".to_owned()], ..TunnelPlan::default() });
    }

    #[test]
    fn stt_is_a_problem_of_the_userspace_datapath_alone() {
        let want: BTreeMap<String, Tunnel> = [("s".to_owned(), tunnel("stt", "172.31.0.2"))].into();
        let view = Rows::new().view();
        let plan = view.tunnel_plan(&want);
        assert!(plan.missing.is_empty() && plan.unsupported["s"].contains("netdev"));
        assert!(
            view.report(&config(), &want).problems[0].to_string().starts_with("s: stt cannot be carried")
        );
        let mut rows = Rows::new();
        rows.bridge = rows.bridge.with("datapath_type", "");
        let view = rows.view();
        assert_eq!(view.tunnel_plan(&want).missing.len(), 1);
        assert!(view.report(&config(), &want).problems.is_empty());
    }

    #[test]
    fn a_bridge_is_corrected_where_it_is_wrong_and_left_alone_where_it_is_right() {
        let corrected = |set: fn(Row) -> Row| {
            let mut rows = Rows::new();
            rows.bridge = set(rows.bridge);
            rows.view().correction(&config())
        };
        assert_eq!(corrected(|row| row), None);
        assert_eq!(corrected(|row| row.with("protocols", Datum::set(["OpenFlow13", "OpenFlow15"]))), None);
        assert_eq!(corrected(|row| row.with("datapath_type", "")), None);
        let spec = corrected(|row| row.with("fail_mode", None::<String>)).expect("a correction");
        assert_eq!((spec.fail_mode.as_str(), spec.datapath_type.as_str()), ("secure", "netdev"));
        let spec = corrected(|row| row.with("protocols", Datum::set::<&str>([]))).expect("a correction");
        assert_eq!(spec.protocols, ["OpenFlow15".to_owned()].into());
        let spec = corrected(|row| row.with("protocols", "OpenFlow13")).expect("a correction");
        assert_eq!(spec.protocols, ["OpenFlow13".to_owned(), "OpenFlow15".to_owned()].into());
    }

    #[test]
    fn a_missing_bridge_waits_until_the_switch_has_said_which_datapaths_it_has() {
        let with_types = |types: &[&str]| View {
            switch: Some(OpenVswitch {
                uuid: id(2),
                next_cfg: 0,
                cur_cfg: 0,
                external_ids: BTreeMap::new(),
                datapath_types: types.iter().map(|name| (*name).to_owned()).collect(),
                iface_types: BTreeSet::new(),
                ovs_version: None,
            }),
            ..View::default()
        };
        let chosen = |view: View, config: &Config| view.correction(config).map(|spec| spec.datapath_type);
        assert_eq!(chosen(with_types(&[]), &config()), None);
        assert_eq!(chosen(with_types(&["netdev"]), &config()).as_deref(), Some("netdev"));
        assert_eq!(chosen(with_types(&["netdev", "system"]), &config()).as_deref(), Some("system"));
        let fixed = Config { datapath_type: Some("netdev".to_owned()), ..config() };
        assert_eq!(chosen(with_types(&["netdev", "system"]), &fixed).as_deref(), Some("netdev"));
        assert_eq!(chosen(with_types(&[]), &fixed).as_deref(), Some("netdev"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_plan_for_tunnels_leads_from_any_state_to_the_wanted_one(
            have in proptest::collection::btree_map(0u8..6, (0u8..3, any::<bool>()), 0..6),
            want in proptest::collection::btree_map(0u8..6, 0u8..3, 0..6),
        ) {
            let kind = |n: u8| tunnel(["geneve", "vxlan", "gre"][usize::from(n)], "172.31.0.9");
            let mut rows = Rows::new();
            for (name, (encap, ours)) in &have {
                let spec = spec(&name.to_string(), &kind(*encap));
                rows.interface(u128::from(*name) + 1, &name.to_string(), |row| {
                    let ids = if *ours { map(&[OWNER]) } else { map(&[]) };
                    row.with("type", spec.tunnel_type.as_str()).with("options", spec.options.clone()).with("external_ids", ids)
                });
            }
            let wanted = want.iter().map(|(name, encap)| (name.to_string(), kind(*encap))).collect();
            let plan = rows.view().tunnel_plan(&wanted);
            let right = |name: &u8| have.get(name) == want.get(name).map(|encap| (*encap, true)).as_ref();
            let missing: Vec<String> = want.keys().filter(|name| !right(name)).map(ToString::to_string).collect();
            let unwanted: Vec<String> = have
                .iter()
                .filter(|(name, (_, ours))| *ours && !want.contains_key(*name))
                .map(|(name, _)| name.to_string())
                .collect();
            prop_assert_eq!(plan.missing.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>(), missing);
            prop_assert_eq!(plan.unwanted, unwanted);
        }
    }
}

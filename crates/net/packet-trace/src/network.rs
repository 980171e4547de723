//! A network at one moment: the rules, the rows of their input tables, and simulated hosts with the derived flow tables.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use flow_simulator::{Crossing, Lost};
use nlog::Program;
use nlog_data::{Cancel, Row, Schema, TableDelta, TableId, Value};
use nlog_explain::OnDemand;
use openflow_rs::MacAddr;
use pipeline::Names;
use simulated_hosts::{Hosts, Number, Outputs, Place, Site, Wanted};
use switch_model::SwitchTable;
use switch_model::interface::{
    BRIDGES, DATAPATH_LABELS, DECIDES, ENDPOINTS, IPS, LACKS, LOCALNETS, MACS, MANAGED, PARENTS, PATCH_PORT,
    PORT_HOMES, PROBLEMS, ROUTING_TABLE, STANDS_FOR, TUNNEL_PORT, UNDERLAY_MTUS, VIF,
};
use switch_model::rows::{self, Vif};

use crate::meaning::{Deciding, SaidFlows};
use crate::response::SentOut;
use crate::{HostTables, Origins};

/// Says whether somebody knows a port.
type KnowsPort = Box<dyn Fn(&str) -> bool>;

/// A network, ready to carry packets.
pub struct Network {
    /// Derives and explains the rows that are asked for.
    pub(crate) state: OnDemand,
    /// The flow tables of hosts, if they need not be derived.
    pub(crate) ready: Option<Box<dyn HostTables>>,
    pub(crate) origins: Origins,
    /// Whether some rows are left out, so that the absence of a row proves nothing.
    pub(crate) is_part: bool,
    /// What stages, fields and priorities are called.
    pub(crate) names: Names,
    pub(crate) tables: Tables,
    pub(crate) deciding: Deciding,
    pub(crate) said: SaidFlows,
    pub(crate) hosts: Hosts,
    /// The hosts that the controller computes.
    managed: BTreeSet<String>,
    /// Those whose flow tables are loaded so far.
    loaded: BTreeSet<String>,
    /// The ports among which the owner of an address is looked for, if not among all.
    known_ports: Option<KnowsPort>,
}

/// The tables that are read here. Other rules than the built-in ones may lack some.
pub(crate) struct Tables {
    pub(crate) outputs: Outputs,
    managed: TableId,
    vif: TableId,
    tunnel_port: TableId,
    patch_port: TableId,
    endpoints: TableId,
    underlay_mtus: Option<TableId>,
    bridges: Option<TableId>,
    parents: Option<TableId>,
    localnets: Option<TableId>,
    macs: Option<TableId>,
    pub(crate) ips: Option<TableId>,
    pub(crate) datapaths: Option<TableId>,
    pub(crate) routes: Option<TableId>,
    pub(crate) homes: Option<TableId>,
    pub(crate) problems: Option<TableId>,
    pub(crate) stands_for: Option<TableId>,
    decides: Option<TableId>,
    pub(crate) lacks: Option<TableId>,
}

impl Tables {
    fn of(schema: &Schema) -> Result<Tables, String> {
        let optional = |table: &SwitchTable| table.find(schema).map_err(|misfit| misfit.to_string());
        let needed = |table: &SwitchTable| {
            let remedy = "a packet needs the rules of a whole network: name `builtin`";
            optional(table)?.ok_or_else(|| format!("the program has no {table}; {remedy}"))
        };
        Ok(Tables {
            outputs: Outputs::of(schema)?,
            managed: needed(&MANAGED)?,
            vif: needed(&VIF)?,
            tunnel_port: needed(&TUNNEL_PORT)?,
            patch_port: needed(&PATCH_PORT)?,
            endpoints: needed(&ENDPOINTS)?,
            underlay_mtus: optional(&UNDERLAY_MTUS)?,
            bridges: optional(&BRIDGES)?,
            parents: optional(&PARENTS)?,
            localnets: optional(&LOCALNETS)?,
            macs: optional(&MACS)?,
            ips: optional(&IPS)?,
            datapaths: optional(&DATAPATH_LABELS)?,
            routes: optional(&ROUTING_TABLE)?,
            homes: optional(&PORT_HOMES)?,
            problems: optional(&PROBLEMS)?,
            stands_for: optional(&STANDS_FOR)?,
            decides: optional(&DECIDES)?,
            lacks: optional(&LACKS)?,
        })
    }
}

impl Network {
    /// The network with these rows, which the program has accepted. No host has flows until a packet comes to it.
    ///
    /// # Errors
    /// The program lacks a table.
    pub fn new(program: &Arc<Program>, origins: Origins) -> Result<Network, String> {
        Network::start(program, origins, None)
    }

    /// The network with these rows, where packets go through flow tables that are there already. The rows explain these: rows
    /// that are left out cost explanations and change no way. With `is_part`, some are, so nothing is said of rows that are not there.
    ///
    /// # Errors
    /// The program lacks a table.
    pub fn over(
        program: &Arc<Program>,
        origins: Origins,
        ready: Box<dyn HostTables>,
        is_part: bool,
    ) -> Result<Network, String> {
        Ok(Network { is_part, ..Network::start(program, origins, Some(ready))? })
    }

    fn start(
        program: &Arc<Program>,
        origins: Origins,
        ready: Option<Box<dyn HostTables>>,
    ) -> Result<Network, String> {
        let tables = Tables::of(&program.schema)?;
        let state = OnDemand::new(Arc::clone(program), origins.keys().cloned());
        let managed = state.rows(tables.managed).iter().filter_map(|row| match row.first() {
            Some(Value::String(host)) => Some(host.to_string()),
            _ => None,
        });
        let mut network = Network {
            managed: managed.collect(),
            state,
            ready,
            origins,
            is_part: false,
            names: Names::of(program),
            deciding: Deciding::default(),
            said: SaidFlows::of(program),
            tables,
            hosts: Hosts::default(),
            loaded: BTreeSet::new(),
            known_ports: None,
        };
        let sites = network.sites();
        let vifs = network.read(Some(network.tables.vif), rows::vif);
        let vnics = vifs.into_iter().map(|vif| ((vif.host, vif.ofport), vif.port)).collect();
        network.hosts.update(sites, vnics);
        for (host, mtu) in network.read(network.tables.underlay_mtus, rows::underlay_mtu) {
            if let Some(host) = network.hosts.fabric_mut().host_mut(&host) {
                host.set_underlay_mtu(mtu);
            }
        }
        network.deciding = Deciding::of(&network.read(network.tables.decides, |row| Some(row.clone())));
        Ok(network)
    }

    /// From now on, whoever sends a packet knows these ports alone: the port that has an address is looked for among them.
    pub fn know(&mut self, ports: impl Fn(&str) -> bool + 'static) {
        self.known_ports = Some(Box::new(ports));
    }

    /// Whether whoever sends a packet knows a port.
    pub(crate) fn knows(&self, port: &str) -> bool {
        self.known_ports.as_ref().is_none_or(|knows| knows(port))
    }

    /// Tries at most so many combinations of rows from now on, and none after a cancellation. What is said once these do not
    /// suffice is wrong: see [`Network::is_exhausted`].
    pub fn bound(&mut self, combinations: u64, cancel: &Cancel) {
        self.state.bound(combinations, cancel);
    }

    /// Whether more combinations were needed.
    pub fn is_exhausted(&self) -> bool {
        self.state.is_exhausted()
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        self.state.program()
    }

    /// The simulated hosts load what the rules derive for them, or what is ready for them.
    fn load(&mut self, hosts: Vec<String>) -> Result<(), String> {
        let reported: [BTreeMap<(String, String), u16>; 2] =
            [self.tables.tunnel_port, self.tables.patch_port]
                .map(|table| self.read(Some(table), rows::port).into_iter().collect());
        for host in &hosts {
            if self.is_exhausted() {
                return Err("too many combinations of rows were tried".to_owned());
            }
            let Some(ready) = &self.ready else {
                self.hosts.apply(&self.tables.outputs, &self.derived(host))?;
                continue;
            };
            self.hosts.apply(&self.tables.outputs, &ready.others(host)?)?;
            for flow in ready.flows(host)? {
                self.hosts.load_flow(host, flow)?;
            }
        }
        self.loaded.extend(hosts);
        self.hosts.make_ports(|key, wanted| {
            let [tunnels, patches] = &reported;
            let own = match wanted {
                Wanted::Tunnel(..) => tunnels,
                Wanted::Patch => patches,
            };
            own.get(key).map_or(Number::Fails, |number| Number::Given(*number))
        })
    }

    /// What the switch of a host is to do, as inserted rows.
    fn derived(&self, host: &str) -> BTreeMap<TableId, TableDelta> {
        let of_table = |table| {
            let insert = self.rows_with(Some(table), 0, host.into()).into_iter().cloned().collect();
            (table, TableDelta { insert, ..TableDelta::default() })
        };
        self.tables.outputs.tables().map(of_table).collect()
    }

    fn sites(&self) -> BTreeMap<String, Site> {
        let site = |address| Site { address, bridges: BTreeMap::new() };
        let ends = self.read(Some(self.tables.endpoints), rows::endpoint);
        let mut sites: BTreeMap<String, Site> =
            ends.into_iter().map(|(host, address)| (host, site(address))).collect();
        for (host, network, bridge) in self.read(self.tables.bridges, rows::bridge) {
            if let Some(site) = sites.get_mut(&host) {
                site.bridges.insert(network, bridge);
            }
        }
        sites
    }

    /// The rows of a table as typed values.
    pub(crate) fn read<T>(&self, table: Option<TableId>, one: impl Fn(&Row) -> Option<T>) -> Vec<T> {
        table.into_iter().flat_map(|table| self.state.rows(table)).filter_map(one).collect()
    }

    /// The rows of a table with this value in this column.
    pub(crate) fn rows_with(&self, table: Option<TableId>, column: usize, value: Value) -> Vec<&Row> {
        let Some(table) = table else { return Vec::new() };
        let mut columns = vec![None; self.program().schema.table(table).columns.len()];
        columns[column] = Some(value);
        self.state.matching(table, &columns)
    }

    fn vifs(&self, column: usize, value: &str) -> impl Iterator<Item = Vif> {
        self.rows_with(Some(self.tables.vif), column, value.into()).into_iter().filter_map(rows::vif)
    }

    /// The MAC addresses of a port.
    pub(crate) fn macs(&self, port: &str) -> Vec<MacAddr> {
        let rows = self.rows_with(self.tables.macs, 0, port.into()).into_iter();
        rows.filter_map(|row| rows::port_mac(row).map(|(_, mac)| mac)).collect()
    }

    /// The IP addresses of a port, each with its MAC address.
    pub(crate) fn addresses_of(&self, port: &str) -> Vec<(IpAddr, MacAddr)> {
        let rows = self.rows_with(self.tables.ips, 0, port.into()).into_iter();
        rows.filter_map(|row| rows::port_ip(row).map(|(_, ip, mac)| (ip, mac))).collect()
    }

    /// The ports with an IP address, each with the MAC address that goes with it.
    pub(crate) fn ports_at(&self, ip: IpAddr) -> Vec<(String, MacAddr)> {
        let rows = self.rows_with(self.tables.ips, 1, Value::Ip(ip)).into_iter();
        rows.filter_map(|row| rows::port_ip(row).map(|(port, _, mac)| (port.to_owned(), mac))).collect()
    }

    /// The parent and VLAN tag of a port that has no interface of its own.
    fn parent(&self, port: &str) -> Option<(String, u16)> {
        let rows = self.rows_with(self.tables.parents, 0, port.into()).into_iter();
        rows.filter_map(rows::parent).map(|(_, parent, tag)| (parent, tag)).next()
    }

    /// Where frames of a port enter, and the VLAN tag that they have there, or 0. None if no host has its interface.
    pub(crate) fn place(&self, port: &str) -> Option<(Place, u16)> {
        let localnets = self.rows_with(self.tables.localnets, 0, port.into());
        if let Some((_, network, tag)) = localnets.into_iter().find_map(rows::localnet) {
            return Some((Place::Tap(network), tag));
        }
        let (owner, tag) = self.parent(port).unwrap_or((port.to_owned(), 0));
        let home = self.home(&owner);
        let latest =
            self.vifs(1, &owner).max_by_key(|vif| (home.as_deref() == Some(&*vif.host), vif.since))?;
        Some((Place::Vnic(latest.host, owner), tag))
    }

    /// Whether a port is the way to a physical network, and has no machine.
    pub fn is_physical(&self, port: &str) -> bool {
        !self.rows_with(self.tables.localnets, 0, port.into()).is_empty()
    }

    /// The ports that are this VLAN of a physical network; 0 is none.
    pub(crate) fn ports_to(&self, network: &str, tag: u16) -> impl Iterator<Item = String> {
        let ports = self.read(self.tables.localnets, rows::localnet).into_iter();
        ports.filter(move |(_, to, own)| *to == network && *own == tag).map(|(port, ..)| port)
    }

    /// The host where the rules say that a port lives.
    pub(crate) fn home(&self, port: &str) -> Option<String> {
        let homes = self.rows_with(self.tables.homes, 0, port.into());
        homes.into_iter().find_map(rows::port_home).map(|(_, host)| host.to_string())
    }

    /// The port that receives a frame with this tag from an interface of a host, and the port whose interface it is.
    pub(crate) fn receiver(&self, host: &str, number: u16, tag: u16) -> (String, String) {
        let vif = self.vifs(0, host).find(|vif| vif.ofport == number);
        let Some(Vif { port: interface, .. }) = vif else {
            let port = format!("port {number} of the switch");
            return (port.clone(), port);
        };
        let children = self.rows_with(self.tables.parents, 1, interface.as_str().into()).into_iter();
        let child = children.filter_map(rows::parent).find(|(.., own)| *own == tag);
        (child.map_or_else(|| interface.clone(), |(port, ..)| port), interface)
    }

    /// The way of a frame. Derives the flow tables of the hosts that it comes to, until it comes to no other one.
    pub(crate) fn crossing(&mut self, place: &Place, bytes: &[u8]) -> Result<Crossing, String> {
        let first = match place {
            Place::Vnic(host, _) => [host.clone()].into(),
            Place::Tap(network) => self.hosts_on(network),
        };
        self.crossing_from(first, |hosts| hosts.trace(place, bytes))
    }

    /// The way of a frame that a responder sends out.
    pub(crate) fn crossing_of_answer(&mut self, host: &str, sent: &SentOut) -> Result<Crossing, String> {
        self.crossing_from([host.to_owned()].into(), |hosts| {
            hosts.trace_out(host, sent.frame.clone(), &sent.actions)
        })
    }

    fn crossing_from(
        &mut self,
        first: BTreeSet<String>,
        trace: impl Fn(&Hosts) -> Crossing,
    ) -> Result<Crossing, String> {
        let mut wanted = first;
        loop {
            let new: Vec<String> = wanted
                .into_iter()
                .filter(|host| self.is_computable(host) && !self.loaded.contains(host))
                .collect();
            if !new.is_empty() {
                self.load(new)?;
            }
            let crossing = trace(&self.hosts);
            wanted = crossing.hops.iter().map(|(host, _)| host.clone()).collect();
            wanted.extend(crossing.tunnelled.iter().map(|(_, to)| to.clone()));
            wanted.extend(crossing.lost.iter().filter_map(|lost| match lost {
                Lost::NoTunnel { host, .. } => Some(host.clone()),
                _ => None,
            }));
            for tapped in &crossing.tapped {
                wanted.extend(self.hosts_on(&tapped.network));
            }
            if wanted.iter().all(|host| self.loaded.contains(host) || !self.is_computable(host)) {
                return Ok(crossing);
            }
        }
    }

    /// Whether flows of a host can be derived and loaded: a host without a tunnel endpoint is no transport node.
    fn is_computable(&self, host: &str) -> bool {
        self.managed.contains(host) && self.hosts.fabric().host(host).is_some()
    }

    /// The hosts with a bridge to a physical network.
    fn hosts_on(&self, network: &str) -> BTreeSet<String> {
        let bridges = self.read(self.tables.bridges, rows::bridge).into_iter();
        bridges.filter(|(_, own, _)| own == network).map(|(host, ..)| host).collect()
    }

    /// Whether the controller computes a host.
    pub(crate) fn manages(&self, host: &str) -> bool {
        self.managed.contains(host)
    }

    /// The rows of the table with this name; none if the program has no such table.
    pub(crate) fn named(&self, table: &str) -> &[Row] {
        self.program().schema.find(table).map_or(&[], |table| self.state.rows(table))
    }

    /// Those with this value in the column with this name.
    pub(crate) fn named_with(&self, table: &str, column: &str, value: Value) -> Vec<&Row> {
        let schema = &self.program().schema;
        let Some(id) = schema.find(table) else { return Vec::new() };
        let column = schema.table(id).columns.iter().position(|own| own.name == column);
        column.map_or(Vec::new(), |column| self.rows_with(Some(id), column, value))
    }

    /// A column of a row of the table with this name.
    pub(crate) fn column<'a>(&self, table: &str, row: &'a Row, column: &str) -> Option<&'a Value> {
        let schema = &self.program().schema;
        let columns = &schema.table(schema.find(table)?).columns;
        row.get(columns.iter().position(|own| own.name == column)?)
    }
}

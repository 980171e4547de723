//! A network at one moment: the rules, the rows of their input tables, and simulated hosts with the derived flow tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flow_simulator::{Crossing, Lost};
use nlog::Program;
use nlog_data::{Committed, Evaluator as _, Row, Schema, TableId, Tables as Observed, Transaction, Value};
use nlog_dataflow::{Dataflow, Options};
use nlog_reference::Reference;
use pipeline::Pipeline;
use simulated_hosts::{Hosts, Number, Outputs, Place, Site, Wanted};
use switch_tables::rows::{self, Vif};
use switch_tables::{
    BRIDGES, DATAPATH_LABELS, EFFECTIVE_ROUTES, ENDPOINTS, IPS, LOCALNETS, MACS, MANAGED, PARENTS,
    PATCH_PORT, PORT_HOMES, PROBLEMS, SwitchTable, TUNNEL_PORT, VIF,
};

use crate::HostTables;

/// The rows of the input tables, those of hooks included, each with the transaction that inserted it.
pub type Origins = BTreeMap<(TableId, Row), u64>;

/// Stands for the number of a transaction that is not known.
pub const UNKNOWN: u64 = 0;

/// A network, ready to carry packets.
pub struct Network {
    /// What derives the rows.
    engine: Dataflow,
    /// What explains them.
    pub(crate) state: Reference,
    /// The flow tables of hosts, if they need not be derived.
    pub(crate) ready: Option<Box<dyn HostTables>>,
    pub(crate) origins: Origins,
    /// Whether some rows are left out, so that the absence of a row proves nothing.
    pub(crate) is_part: bool,
    pub(crate) pipeline: Pipeline,
    pub(crate) tables: Tables,
    pub(crate) hosts: Hosts,
    /// The hosts that the controller computes.
    managed: BTreeSet<String>,
    /// Those whose flow tables are derived here so far.
    computed: BTreeSet<String>,
}

/// The tables that are read here. Other rules than the built-in ones may lack some.
pub(crate) struct Tables {
    pub(crate) outputs: Outputs,
    managed: TableId,
    vif: TableId,
    tunnel_port: TableId,
    patch_port: TableId,
    endpoints: TableId,
    bridges: Option<TableId>,
    parents: Option<TableId>,
    localnets: Option<TableId>,
    macs: Option<TableId>,
    pub(crate) ips: Option<TableId>,
    pub(crate) datapaths: Option<TableId>,
    pub(crate) routes: Option<TableId>,
    pub(crate) homes: Option<TableId>,
    pub(crate) problems: Option<TableId>,
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
            bridges: optional(&BRIDGES)?,
            parents: optional(&PARENTS)?,
            localnets: optional(&LOCALNETS)?,
            macs: optional(&MACS)?,
            ips: optional(&IPS)?,
            datapaths: optional(&DATAPATH_LABELS)?,
            routes: optional(&EFFECTIVE_ROUTES)?,
            homes: optional(&PORT_HOMES)?,
            problems: optional(&PROBLEMS)?,
        })
    }
}

impl Network {
    /// The network with these rows. No host has flows until a packet comes to it.
    ///
    /// # Errors
    /// The program lacks a table, or refuses the rows.
    pub fn new(program: &Arc<Program>, origins: Origins) -> Result<Network, String> {
        Network::start(program, origins, None)
    }

    /// The network with these rows, where packets go through flow tables that are there already. The rows explain these: rows
    /// that are left out cost explanations and change no way. With `is_part`, some are, so nothing is said of rows that are not there.
    ///
    /// # Errors
    /// The program lacks a table, or refuses the rows.
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
        let mut inputs = Transaction::default();
        let mut managed = BTreeSet::new();
        for (table, row) in origins.keys() {
            match row.first() {
                Some(Value::String(host)) if *table == tables.managed => {
                    managed.insert(host.to_string());
                }
                _ => inputs.insert.entry(*table).or_default().push(row.clone()),
            }
        }
        let observe = Observed::These(program.schema.iter().map(|(id, _)| id).collect());
        let options = Options { observe, ..Options::default() };
        let engine = Dataflow::new(Arc::clone(program), options).map_err(|error| error.to_string())?;
        let mut network = Network {
            engine,
            state: Reference::new(Arc::clone(program), Observed::All),
            ready,
            origins,
            is_part: false,
            pipeline: Pipeline::new(program),
            tables,
            hosts: Hosts::default(),
            managed,
            computed: BTreeSet::new(),
        };
        let committed = network.commit(&inputs)?;
        let sites = network.sites();
        let vnics = network.vifs().into_iter().map(|vif| ((vif.host, vif.ofport), vif.port)).collect();
        network.hosts.update(sites, vnics);
        network.follow(&committed, &[])?;
        Ok(network)
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        self.state.program()
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, String> {
        let committed = self.engine.commit(transaction);
        let committed = committed.map_err(|error| format!("the rules refuse the rows: {error}"))?;
        self.state.follow(&committed.delta);
        Ok(committed)
    }

    /// The simulated hosts load what the rules derive for them, or those that are new what is ready for them.
    fn follow(&mut self, committed: &Committed, new: &[String]) -> Result<(), String> {
        let reported: [BTreeMap<(String, String), u16>; 2] =
            [self.tables.tunnel_port, self.tables.patch_port]
                .map(|table| self.read(Some(table), rows::port).into_iter().collect());
        let outputs = &self.tables.outputs;
        match &self.ready {
            None => self.hosts.apply(outputs, &committed.delta.tables)?,
            Some(ready) => {
                for host in new {
                    self.hosts.apply(outputs, &ready.of(host)?)?;
                }
            }
        }
        self.hosts.make_ports(|key, wanted| {
            let [tunnels, patches] = &reported;
            let own = match wanted {
                Wanted::Tunnel(..) => tunnels,
                Wanted::Patch => patches,
            };
            own.get(key).map_or(Number::Fails, |number| Number::Given(*number))
        })
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

    fn vifs(&self) -> Vec<Vif> {
        self.read(Some(self.tables.vif), rows::vif)
    }

    /// The MAC addresses of a port.
    pub(crate) fn macs(&self, port: &str) -> Vec<openflow_rs::MacAddr> {
        self.read(self.tables.macs, |row| {
            rows::port_mac(row).filter(|(own, _)| *own == port).map(|(_, mac)| mac)
        })
    }

    /// The ports with IP addresses: port, address, MAC address.
    pub(crate) fn addresses(&self) -> Vec<(String, std::net::IpAddr, openflow_rs::MacAddr)> {
        self.read(self.tables.ips, |row| rows::port_ip(row).map(|(port, ip, mac)| (port.to_owned(), ip, mac)))
    }

    /// Where frames of a port enter, and the VLAN tag that they have there, or 0. None if no host has its interface.
    pub(crate) fn place(&self, port: &str) -> Option<(Place, u16)> {
        let localnets = self.read(self.tables.localnets, rows::localnet);
        if let Some((_, network, tag)) = localnets.into_iter().find(|(own, ..)| own == port) {
            return Some((Place::Tap(network), tag));
        }
        let parents = self.read(self.tables.parents, rows::parent);
        let parent = parents.into_iter().find(|(own, ..)| own == port);
        let (owner, tag) = parent.map_or((port.to_owned(), 0), |(_, parent, tag)| (parent, tag));
        let vifs = self.vifs().into_iter().filter(|vif| vif.port == owner);
        let home = self.home(&owner);
        let latest = vifs.max_by_key(|vif| (home.as_deref() == Some(&*vif.host), vif.since))?;
        Some((Place::Vnic(latest.host, owner), tag))
    }

    /// The host where the rules say that a port lives.
    pub(crate) fn home(&self, port: &str) -> Option<String> {
        let homes = self.read(self.tables.homes, rows::port_home);
        homes.into_iter().find(|(own, _)| **own == *port).map(|(_, host)| host.to_string())
    }

    /// The port that receives a frame with this tag from an interface of a host, and the port whose interface it is.
    pub(crate) fn receiver(&self, host: &str, number: u16, tag: u16) -> (String, String) {
        let vif = self.vifs().into_iter().find(|vif| vif.host == host && vif.ofport == number);
        let Some(Vif { port: interface, .. }) = vif else {
            let port = format!("port {number} of the switch");
            return (port.clone(), port);
        };
        let parents = self.read(self.tables.parents, rows::parent);
        let child = parents.into_iter().find(|(_, parent, own)| *parent == interface && *own == tag);
        (child.map_or_else(|| interface.clone(), |(port, ..)| port), interface)
    }

    /// The way of a frame. Derives the flow tables of the hosts that it comes to, until it comes to no other one.
    pub(crate) fn crossing(&mut self, place: &Place, bytes: &[u8]) -> Result<Crossing, String> {
        let mut wanted: BTreeSet<String> = match place {
            Place::Vnic(host, _) => [host.clone()].into(),
            Place::Tap(network) => self.hosts_on(network),
        };
        loop {
            let new: Vec<String> = wanted
                .into_iter()
                .filter(|host| self.is_computable(host) && !self.computed.contains(host))
                .collect();
            if !new.is_empty() {
                self.compute(new)?;
            }
            let crossing = self.hosts.trace(place, bytes);
            wanted = crossing.hops.iter().map(|(host, _)| host.clone()).collect();
            wanted.extend(crossing.tunnelled.iter().map(|(_, to)| to.clone()));
            wanted.extend(crossing.lost.iter().filter_map(|lost| match lost {
                Lost::NoTunnel { host, .. } => Some(host.clone()),
                _ => None,
            }));
            for tapped in &crossing.tapped {
                wanted.extend(self.hosts_on(&tapped.network));
            }
            if wanted.iter().all(|host| self.computed.contains(host) || !self.is_computable(host)) {
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

    fn compute(&mut self, hosts: Vec<String>) -> Result<(), String> {
        let mut transaction = Transaction::default();
        let rows = hosts.iter().map(|host| rows::managed_row(host)).collect();
        transaction.insert.insert(self.tables.managed, rows);
        let committed = self.commit(&transaction)?;
        self.follow(&committed, &hosts)?;
        self.computed.extend(hosts);
        Ok(())
    }

    /// Whether the controller computes a host.
    pub(crate) fn manages(&self, host: &str) -> bool {
        self.managed.contains(host)
    }

    /// The rows of a table by its name; none if the program has no such table.
    pub(crate) fn named(&self, table: &str) -> Vec<Row> {
        self.read(self.program().schema.find(table), |row| Some(row.clone()))
    }

    /// A column of a row of the table with this name.
    pub(crate) fn column<'a>(&self, table: &str, row: &'a Row, column: &str) -> Option<&'a Value> {
        let schema = &self.program().schema;
        let columns = &schema.table(schema.find(table)?).columns;
        row.get(columns.iter().position(|own| own.name == column)?)
    }
}

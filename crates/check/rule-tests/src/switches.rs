//! The switches of a test that says where ports are, or sends packets.
//!
//! A test that says where ports are (`given port`) has switches that make and report the ports that rules want of them. In a
//! test that gives all reports as rows, a switch has the ports that these rows name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog::Program;
use nlog::program::{Place, Test, TestStepKind};
use nlog_data::{Delta, Row, Schema, TableId, Transaction};
use simulated_hosts::{Hosts, Number, Outputs, Reports, Site, Wanted};
use switch_model::SwitchTable;
use switch_model::interface::{
    BRIDGES, ENDPOINTS, IPS, LOCALNETS, MACS, MANAGED, PARENTS, PATCH_PORT, TUNNEL_PORT, VIF,
};
use switch_model::rows::{self, Vif};

use crate::run::{Failure, Stage};

/// Simulated switches, and the tables of the program that they read and report in.
pub(crate) struct Switches {
    pub(crate) tables: Tables,
    pub(crate) hosts: Hosts,
    /// Whether they make ports themselves.
    reporting: bool,
}

/// The tables between rules and switches.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) outputs: Outputs,
    managed: TableId,
    pub(crate) vif: TableId,
    tunnel_port: TableId,
    patch_port: TableId,
    endpoints: TableId,
    bridges: Option<TableId>,
    pub(crate) parents: Option<TableId>,
    pub(crate) localnets: Option<TableId>,
    pub(crate) macs: Option<TableId>,
    pub(crate) ips: Option<TableId>,
}

impl Tables {
    /// The tables of a program. What rules need not have may be missing: trunks, physical networks, addresses.
    fn of(schema: &Schema) -> Result<Tables, String> {
        let optional = |table: &SwitchTable| table.find(schema).map_err(|misfit| misfit.to_string());
        let needed = |table: &SwitchTable| {
            optional(table)?.ok_or_else(|| {
                format!(
                    "a test with ports or packets needs the {table}, which its program does not have: import the rules of \
                     the whole network, or test a package with `weft test builtin FOLDER`"
                )
            })
        };
        Ok(Tables {
            managed: needed(&MANAGED)?,
            vif: needed(&VIF)?,
            tunnel_port: needed(&TUNNEL_PORT)?,
            patch_port: needed(&PATCH_PORT)?,
            endpoints: needed(&ENDPOINTS)?,
            outputs: Outputs::of(schema)
                .map_err(|why| format!("{why}: import the rules of the whole network"))?,
            bridges: optional(&BRIDGES)?,
            parents: optional(&PARENTS)?,
            localnets: optional(&LOCALNETS)?,
            macs: optional(&MACS)?,
            ips: optional(&IPS)?,
        })
    }
}

impl Switches {
    /// The switches of a test; none if it neither says where ports are nor sends packets.
    pub(crate) fn of_test(program: &Arc<Program>, test: &Test) -> Result<Option<Switches>, Failure> {
        let is_port = |kind: &TestStepKind| matches!(kind, TestStepKind::Port { .. });
        let is_packet = |kind: &TestStepKind| matches!(kind, TestStepKind::Packet(_));
        let needs = test.steps.iter().find(|step| is_port(&step.kind) || is_packet(&step.kind));
        let Some(first) = needs else { return Ok(None) };
        let tables = Tables::of(&program.schema).map_err(|why| Failure::new(&first.place, why))?;
        let reporting = test.steps.iter().any(|step| is_port(&step.kind));
        Ok(Some(Switches { tables, hosts: Hosts::default(), reporting }))
    }

    /// Follows a change of the tables. Returns what the switches report then, if it is new.
    pub(crate) fn follow(
        &mut self,
        stage: &mut Stage<'_>,
        delta: &Delta,
        place: &Place,
    ) -> Result<Option<Transaction>, Failure> {
        let sites = self.sites(stage, place)?;
        let vifs = read(stage, self.tables.vif, place, rows::vif)?;
        let vnics = vifs.into_iter().map(|vif| ((vif.host, vif.ofport), vif.port)).collect();
        self.hosts.update(sites, vnics);
        let reported = Reports {
            tunnels: read(stage, self.tables.tunnel_port, place, rows::port)?.into_iter().collect(),
            patches: read(stage, self.tables.patch_port, place, rows::port)?.into_iter().collect(),
        };
        let number = |key: &(String, String), wanted: Wanted<'_>| {
            let given = match wanted {
                Wanted::Tunnel(..) => &reported.tunnels,
                Wanted::Patch => &reported.patches,
            };
            match given.get(key) {
                _ if self.reporting => Number::Any,
                Some(number) => Number::Given(*number),
                None => Number::Fails,
            }
        };
        let failed =
            |why: String| Failure::new(place, format!("the switches cannot do what the rules want: {why}"));
        self.hosts.apply(&self.tables.outputs, &delta.tables).map_err(failed)?;
        self.hosts.make_ports(number).map_err(failed)?;
        let reports = self.reports(&reported);
        Ok(Some(reports).filter(|reports| self.reporting && !reports.is_empty()))
    }

    /// The hosts of the network.
    fn sites(&self, stage: &mut Stage<'_>, place: &Place) -> Result<BTreeMap<String, Site>, Failure> {
        let endpoints = read(stage, self.tables.endpoints, place, rows::endpoint)?;
        let site = |address| Site { address, bridges: BTreeMap::new() };
        let mut sites: BTreeMap<String, Site> =
            endpoints.into_iter().map(|(host, address)| (host, site(address))).collect();
        for (host, network, bridge) in read_optional(stage, self.tables.bridges, place, rows::bridge)? {
            if let Some(site) = sites.get_mut(&host) {
                site.bridges.insert(network, bridge);
            }
        }
        Ok(sites)
    }

    /// The transaction from the reports that are known to those of the switches.
    fn reports(&self, known: &Reports) -> Transaction {
        let mut transaction = Transaction::default();
        let own = self.hosts.reports();
        let tables = [
            (self.tables.tunnel_port, &known.tunnels, &own.tunnels),
            (self.tables.patch_port, &known.patches, &own.patches),
        ];
        for (table, known, own) in tables {
            let rows = |from: &BTreeMap<(String, String), u16>, but: &BTreeMap<(String, String), u16>| {
                let rest = from.iter().filter(|(key, ofport)| but.get(*key) != Some(*ofport));
                rest.map(|(key, ofport)| rows::port_row(key, *ofport)).collect::<Vec<Row>>()
            };
            let (delete, insert) = (rows(known, own), rows(own, known));
            if !delete.is_empty() {
                transaction.delete.insert(table, delete);
            }
            if !insert.is_empty() {
                transaction.insert.insert(table, insert);
            }
        }
        transaction
    }

    /// The transaction in which the interface of a port appears on a host. The later of two reports of a port counts, as when
    /// a machine migrates.
    pub(crate) fn port_appears(
        stage: &mut Stage<'_>,
        port: &str,
        host: &str,
        place: &Place,
    ) -> Result<Transaction, Failure> {
        let Some(tables) = stage.switches.as_ref().map(|switches| switches.tables) else {
            return Ok(Transaction::default());
        };
        let hosts: BTreeSet<String> =
            read(stage, tables.endpoints, place, rows::endpoint)?.into_iter().map(|(host, _)| host).collect();
        if !hosts.contains(host) {
            let known = match hosts.len() {
                0 => "there are no hosts yet".to_owned(),
                _ => format!("the hosts are {}", listed(hosts.iter().map(String::as_str))),
            };
            let message = format!("there is no host {host:?}: give its object before its ports; {known}");
            return Err(Failure::new(place, message));
        }
        let vifs = read(stage, tables.vif, place, rows::vif)?;
        if vifs.iter().any(|vif| vif.host == host && vif.port == port) {
            return Err(Failure::new(place, format!("port {port:?} is already on {host:?}")));
        }
        let here = vifs.iter().filter(|vif| vif.host == host);
        let ofport = here.map(|vif| vif.ofport).max().unwrap_or(0) + 1;
        let since = vifs.iter().map(|vif| vif.since).max().unwrap_or(0) + 1;
        let vif = Vif { host: host.to_owned(), port: port.to_owned(), ofport, since };
        let mut transaction = Transaction::default();
        transaction.insert.insert(tables.vif, vec![rows::vif_row(&vif)]);
        let managed = rows::managed_row(host);
        if !stage.contents(tables.managed, place)?.contains(&managed) {
            transaction.insert.insert(tables.managed, vec![managed]);
        }
        Ok(transaction)
    }
}

/// `"a", "b" and "c"`
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    match names.pop() {
        Some(last) if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// The rows of a table as typed values. Rows that no switch can report are left out.
pub(crate) fn read<T>(
    stage: &mut Stage<'_>,
    table: TableId,
    place: &Place,
    one: fn(&Row) -> Option<T>,
) -> Result<Vec<T>, Failure> {
    Ok(stage.contents(table, place)?.iter().filter_map(one).collect())
}

/// The same of a table that the program need not have.
pub(crate) fn read_optional<T>(
    stage: &mut Stage<'_>,
    table: Option<TableId>,
    place: &Place,
    one: fn(&Row) -> Option<T>,
) -> Result<Vec<T>, Failure> {
    table.map_or(Ok(Vec::new()), |table| read(stage, table, place, one))
}

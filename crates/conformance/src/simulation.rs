//! The rules on simulated hosts: the engine derives flows from a world's rows, hosts load them, frames pass through them.

mod hosts;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flow_simulator::Crossing;
use nlog::Program;
use nlog_data::{Row, TableDelta, TableId};

use crate::derivation::{Contents, Derivation};
use crate::generate::Place;
use crate::rows::rows;
use crate::world::World;

pub use hosts::Hosts;
use tables::{bucket, flow, patch, tunnel};

/// A delivered frame and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Out {
    /// The place.
    pub at: Place,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The rules and their hosts.
pub struct Simulation {
    rules: Derivation,
    tables: Outputs,
    hosts: Hosts,
    /// The rows of the other output tables: MTUs and problems.
    status: BTreeSet<(TableId, Row)>,
}

/// The output tables.
struct Outputs {
    flow: TableId,
    bucket: TableId,
    tunnel: TableId,
    patch: TableId,
}

/// The maximum rounds of reports after a change: rules request a port, a host reports it, rules react. More rounds mean a
/// loop.
const ROUNDS: usize = 6;

impl Simulation {
    /// The rules without hosts.
    ///
    /// # Errors
    /// The program does not start, or lacks one of the output tables.
    pub fn new(program: Arc<Program>) -> Result<Simulation, String> {
        let find = |name: &str| program.schema.find(name).ok_or_else(|| format!("there is no table {name}"));
        let tables = Outputs {
            flow: find("of_flow")?,
            bucket: find("of_bucket")?,
            tunnel: find("ovsdb_tunnel")?,
            patch: find("ovsdb_patch")?,
        };
        let rules = Derivation::new(program)?;
        Ok(Simulation { rules, tables, hosts: Hosts::default(), status: BTreeSet::new() })
    }

    /// The hosts.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The hosts, to change their switches.
    pub fn hosts_mut(&mut self) -> &mut Hosts {
        &mut self.hosts
    }

    /// The rows of the rules' output tables.
    ///
    /// # Errors
    /// The engine fails.
    pub fn contents(&mut self) -> Result<Contents, String> {
        self.rules.contents()
    }

    /// Gives rules and hosts a new world, and lets hosts report until nothing changes. The rules compute only the hosts
    /// that `managed` selects.
    ///
    /// # Errors
    /// The rules refuse the change, or ask hosts for something impossible.
    pub fn change(&mut self, world: &World, managed: &dyn Fn(&str) -> bool) -> Result<(), String> {
        self.hosts.update(world);
        for _ in 0..ROUNDS {
            let wanted = rows(world, self.rules.kinds(), self.hosts.reports(), managed);
            let Some(mut delta) = self.rules.replace(wanted)? else {
                return self.hosts.check_requests(world);
            };
            let mut changed = |table: TableId| delta.remove(&table).unwrap_or_default();
            let (tunnels, patches) = (changed(self.tables.tunnel), changed(self.tables.patch));
            let (buckets, flows) = (changed(self.tables.bucket), changed(self.tables.flow));
            self.hosts.change_tunnels(read(&tunnels, tunnel)?);
            self.hosts.change_patches(read(&patches, patch)?);
            self.hosts.change_flows(read(&buckets, bucket)?, read(&flows, flow)?)?;
            self.say(delta);
            self.hosts.make_ports(world)?;
        }
        Err(format!("after {ROUNDS} rounds of reports the rules still ask for other ports"))
    }

    fn say(&mut self, delta: BTreeMap<TableId, TableDelta>) {
        for (table, delta) in delta {
            for row in delta.delete {
                self.status.remove(&(table, row));
            }
            self.status.extend(delta.insert.into_iter().map(|row| (table, row)));
        }
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        self.hosts.wait(time);
    }

    /// Sends a frame and returns the delivered frames, sorted.
    ///
    /// # Errors
    /// The flow tables lost a copy, or sent it to a controller.
    pub fn send(&mut self, place: &Place, bytes: &[u8]) -> Result<Vec<Out>, String> {
        self.hosts.send(place, bytes)
    }

    /// The trace of a frame on each host.
    pub fn trace(&self, place: &Place, bytes: &[u8]) -> Crossing {
        self.hosts.trace(place, bytes)
    }

    /// The ids of the objects with a problem of this code.
    pub fn problems(&self, code: &str) -> BTreeSet<&str> {
        let Some(table) = self.rules.schema().find("problem") else { return BTreeSet::new() };
        let with_code = self.status.iter().filter_map(|(id, row)| match &row[..] {
            [_, nlog_data::Value::String(object), nlog_data::Value::String(of), _]
                if *id == table && **of == *code =>
            {
                Some(&**object)
            }
            _ => None,
        });
        with_code.collect()
    }

    /// The MTU of a switch that the rules report.
    pub fn mtu(&self, switch: &str) -> Option<i64> {
        let table = self.rules.schema().find("switch_state")?;
        self.status.iter().find_map(|(id, row)| match &row[..] {
            [nlog_data::Value::String(of), nlog_data::Value::Int(mtu)] if *id == table && **of == *switch => {
                Some(*mtu)
            }
            _ => None,
        })
    }
}

/// Inserted and deleted rows, converted to typed values.
struct Changed<T> {
    insert: Vec<T>,
    delete: Vec<T>,
}

fn read<T>(delta: &TableDelta, one: fn(&Row) -> Option<T>) -> Result<Changed<T>, String> {
    let list = |rows: &[Row]| {
        let read = |row: &Row| one(row).ok_or_else(|| format!("a row of the rules cannot be read: {row:?}"));
        rows.iter().map(read).collect::<Result<Vec<T>, String>>()
    };
    Ok(Changed { insert: list(&delta.insert)?, delete: list(&delta.delete)? })
}

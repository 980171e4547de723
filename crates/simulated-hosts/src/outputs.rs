//! The changes of the rules' output tables.

use std::collections::BTreeMap;

use nlog_data::{Row, Schema, TableDelta, TableId};
use switch_tables::rows::{
    ConntrackZone, Flow, Meter, Patch, Tunnel, bucket, candidate, conntrack_zone, flow, group, meter, patch,
    tunnel,
};
use switch_tables::{
    BUCKETS, CANDIDATES, CONNTRACK_ZONES, FLOWS, GROUPS, METERS, PATCHES, SwitchTable, TUNNELS,
};

use crate::groups::GroupChanges;

/// The output tables for switches.
#[derive(Debug, Clone, Copy)]
pub struct Outputs {
    flow: TableId,
    bucket: TableId,
    /// Rules need no groups that choose a bucket.
    group: Option<TableId>,
    candidate: Option<TableId>,
    /// Rules need no meters.
    meter: Option<TableId>,
    /// Nor conntrack zones.
    zone: Option<TableId>,
    tunnel: TableId,
    patch: TableId,
}

/// The changes of these tables.
pub(crate) struct Changes {
    pub(crate) flows: Changed<Flow>,
    pub(crate) groups: GroupChanges,
    pub(crate) meters: Changed<Meter>,
    pub(crate) zones: Changed<ConntrackZone>,
    pub(crate) tunnels: Changed<Tunnel>,
    pub(crate) patches: Changed<Patch>,
}

/// Inserted and deleted rows, converted to typed values.
pub(crate) struct Changed<T> {
    pub(crate) insert: Vec<T>,
    pub(crate) delete: Vec<T>,
}

impl Outputs {
    /// The tables of a program.
    ///
    /// # Errors
    /// The program lacks one, or has another of that name; the text says which.
    pub fn of(schema: &Schema) -> Result<Outputs, String> {
        let find = |table: &SwitchTable| match table.find(schema) {
            Ok(found) => found.ok_or_else(|| format!("there is no {table}")),
            Err(misfit) => Err(misfit.to_string()),
        };
        let find_any = |table: &SwitchTable| table.find(schema).map_err(|misfit| misfit.to_string());
        Ok(Outputs {
            flow: find(&FLOWS)?,
            bucket: find(&BUCKETS)?,
            group: find_any(&GROUPS)?,
            candidate: find_any(&CANDIDATES)?,
            meter: find_any(&METERS)?,
            zone: find_any(&CONNTRACK_ZONES)?,
            tunnel: find(&TUNNELS)?,
            patch: find(&PATCHES)?,
        })
    }

    /// All these tables. The first column of each is the host.
    pub fn tables(&self) -> impl Iterator<Item = TableId> + use<> {
        let optional = [self.group, self.candidate, self.meter, self.zone].into_iter().flatten();
        [self.flow, self.bucket, self.tunnel, self.patch].into_iter().chain(optional)
    }

    /// The table of flows.
    pub fn flows(&self) -> TableId {
        self.flow
    }

    /// Whether this is one of them.
    pub fn contains(&self, table: TableId) -> bool {
        [self.flow, self.bucket, self.tunnel, self.patch].contains(&table)
            || [self.group, self.candidate, self.meter, self.zone].contains(&Some(table))
    }

    pub(crate) fn changes(&self, delta: &BTreeMap<TableId, TableDelta>) -> Result<Changes, String> {
        let none = TableDelta::default();
        let of = |table: TableId| delta.get(&table).unwrap_or(&none);
        Ok(Changes {
            flows: read(of(self.flow), flow)?,
            groups: GroupChanges {
                buckets: read(of(self.bucket), bucket)?,
                groups: read(self.group.map_or(&none, of), group)?,
                candidates: read(self.candidate.map_or(&none, of), candidate)?,
            },
            meters: read(self.meter.map_or(&none, of), meter)?,
            zones: read(self.zone.map_or(&none, of), conntrack_zone)?,
            tunnels: read(of(self.tunnel), tunnel)?,
            patches: read(of(self.patch), patch)?,
        })
    }
}

fn read<T>(delta: &TableDelta, one: fn(&Row) -> Option<T>) -> Result<Changed<T>, String> {
    let list = |rows: &[Row]| {
        let read = |row: &Row| one(row).ok_or_else(|| format!("a row of the rules cannot be read: {row:?}"));
        rows.iter().map(read).collect::<Result<Vec<T>, String>>()
    };
    Ok(Changed { insert: list(&delta.insert)?, delete: list(&delta.delete)? })
}

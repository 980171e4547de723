//! The changes of the rules' output tables.

use std::collections::BTreeMap;

use nlog_data::{Row, Schema, TableDelta, TableId};
use switch_model::{
    BucketRow, CandidateRow, Choices, FlowRow, Kind, Meters, Patches, Pool, Reader, RowError, SwitchTable,
    Tables, Tunnels, Zones,
};

use crate::groups::GroupChanges;

/// The output tables for switches. Rules need neither groups that choose a bucket nor meters nor conntrack zones.
#[derive(Debug, Clone, Copy)]
pub struct Outputs {
    tables: Tables,
    flow: TableId,
}

/// The changes of these tables.
pub(crate) struct Changes<'r> {
    pub(crate) flows: Changed<FlowRow<'r>>,
    pub(crate) groups: GroupChanges<'r>,
    pub(crate) meters: Changed<Of<'r, Meters>>,
    pub(crate) zones: Changed<Of<'r, Zones>>,
    pub(crate) tunnels: Changed<Of<'r, Tunnels>>,
    pub(crate) patches: Changed<Of<'r, Patches>>,
}

/// A thing of a kind: its host, its key and its value.
pub(crate) type Of<'r, K> = (&'r str, <K as Kind>::Key, <K as Kind>::Value);

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
        let tables = Tables::find(schema).map_err(|misfit| misfit.to_string())?;
        let needed =
            |found: Option<TableId>, table: SwitchTable| found.ok_or_else(|| format!("there is no {table}"));
        let flow = needed(tables.flows, switch_model::Flows::TABLE)?;
        needed(tables.buckets, switch_model::Buckets::TABLE)?;
        needed(tables.tunnels, Tunnels::TABLE)?;
        needed(tables.patches, Patches::TABLE)?;
        Ok(Outputs { tables, flow })
    }

    /// All these tables. The first column of each is the host.
    pub fn tables(&self) -> impl Iterator<Item = TableId> + use<> {
        let Tables { flows, buckets, choices, candidates, meters, zones, tunnels, patches, .. } = self.tables;
        [flows, buckets, tunnels, patches, choices, candidates, meters, zones].into_iter().flatten()
    }

    /// The table of flows.
    pub fn flows(&self) -> TableId {
        self.flow
    }

    /// Whether this is one of them.
    pub fn contains(&self, table: TableId) -> bool {
        self.tables().any(|own| own == table)
    }

    pub(crate) fn changes<'r>(
        &self,
        delta: &'r BTreeMap<TableId, TableDelta>,
    ) -> Result<Changes<'r>, RowError> {
        let of = |table: Option<TableId>| table.and_then(|table| delta.get(&table));
        let tables = &self.tables;
        Ok(Changes {
            flows: read(of(tables.flows), FlowRow::read)?,
            groups: GroupChanges {
                buckets: read(of(tables.buckets), BucketRow::read)?,
                groups: things::<Choices>(of(tables.choices))?,
                candidates: read(of(tables.candidates), CandidateRow::read)?,
            },
            meters: things::<Meters>(of(tables.meters))?,
            zones: things::<Zones>(of(tables.zones))?,
            tunnels: things::<Tunnels>(of(tables.tunnels))?,
            patches: things::<Patches>(of(tables.patches))?,
        })
    }
}

/// Reads rows of a kind.
pub(crate) fn things<K: Kind>(delta: Option<&TableDelta>) -> Result<Changed<Of<'_, K>>, RowError> {
    let mut pool = Pool::default();
    let mut reader = Reader::new(&mut pool);
    read(delta, |row| K::read(row, &mut reader))
}

pub(crate) fn read<'r, T>(
    delta: Option<&'r TableDelta>,
    mut one: impl FnMut(&'r Row) -> Result<T, RowError>,
) -> Result<Changed<T>, RowError> {
    let mut list = |rows: &'r [Row]| rows.iter().map(&mut one).collect::<Result<Vec<T>, RowError>>();
    let Some(delta) = delta else { return Ok(Changed { insert: Vec::new(), delete: Vec::new() }) };
    Ok(Changed { insert: list(&delta.insert)?, delete: list(&delta.delete)? })
}

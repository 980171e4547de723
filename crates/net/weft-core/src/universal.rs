//! The tables of universal flows: flows that name no host, which other rules place on hosts.
//!
//! They are found by their columns, so that a package can add a form of its own.

use std::sync::Arc;

use nlog::Program;
use nlog_data::{Packed, Row, TableId, Type, Value};
use openflow_rs::Match;

/// A table of universal flows.
#[derive(Debug)]
pub(crate) struct Universal {
    pub(crate) table: TableId,
    /// Its name.
    pub(crate) name: String,
    /// The name of the column with the ids of the objects that own its flows, which is that of their id space. None if no
    /// object owns them.
    pub(crate) space: Option<String>,
    owner: Option<usize>,
    stage: usize,
    priority: usize,
    matching: usize,
    /// The other columns.
    rest: Vec<usize>,
    /// The names of the other columns.
    pub(crate) names: Vec<String>,
}

/// A row of such a table.
#[derive(Debug, Clone)]
pub(crate) struct UniversalFlow {
    /// The id of the owner; empty if there is none.
    pub(crate) owner: Arc<str>,
    pub(crate) key: Key,
    /// The values of the other columns: the value itself if there is one.
    pub(crate) rest: Value,
}

/// Table, priority and match. The match is shared with the engine: encoded again as a [`FlowKey`](switch_model::FlowKey), the
/// matches of a large network would take twice the memory.
pub(crate) type Key = (u8, u16, Packed<Match>);

/// The tables of universal flows of a program, in name order. Tables whose rows are made of others' flows only pass these
/// on.
pub(crate) fn tables(program: &Program) -> Vec<Universal> {
    pipeline::forms(program).into_iter().filter_map(|table| Universal::of(program, table)).collect()
}

impl Universal {
    fn of(program: &Program, table: TableId) -> Option<Universal> {
        let declared = program.schema.table(table);
        let columns = &declared.columns;
        let of = |name: &str, ty: &Type| {
            columns.iter().position(|column| column.name == name && column.ty.base() == ty)
        };
        let (stage, priority) = (of("table_id", &Type::Int)?, of("priority", &Type::Int)?);
        let matching = of("match", &Type::Match)?;
        let is_owner = |name: &String| program.objects.iter().any(|kind| kind.id_space == *name);
        // A delivery names a datapath first and then a port. Other rules than the built-in ones may name their columns
        // otherwise.
        let owner = columns.iter().position(|column| is_owner(&column.name));
        let owner = owner.or_else(|| columns.iter().position(|column| *column.ty.base() == Type::String));
        let known = [Some(stage), Some(priority), Some(matching), owner];
        let rest: Vec<usize> = (0..columns.len()).filter(|column| !known.contains(&Some(*column))).collect();
        Some(Universal {
            table,
            name: declared.name.clone(),
            space: owner.map(|owner| columns[owner].name.clone()),
            owner,
            stage,
            priority,
            matching,
            names: rest.iter().map(|column| columns[*column].name.clone()).collect(),
            rest,
        })
    }

    /// The flow of a row. None for a row that no switch supports: it yields no flow either, and the transaction that
    /// inserts it is refused elsewhere.
    pub(crate) fn flow(&self, row: &Row) -> Option<UniversalFlow> {
        let (Value::Int(stage), Value::Int(priority), Value::Match(matching)) =
            (&row[self.stage], &row[self.priority], &row[self.matching])
        else {
            return None;
        };
        let owner = match self.owner.map(|owner| &row[owner]) {
            Some(Value::String(owner)) => owner.clone(),
            _ => Arc::from(""),
        };
        let key = (u8::try_from(*stage).ok()?, u16::try_from(*priority).ok()?, matching.clone());
        let rest = match self.rest.as_slice() {
            [only] => row[*only].clone(),
            several => Value::record(several.iter().map(|column| row[*column].clone())),
        };
        Some(UniversalFlow { owner, key, rest })
    }

    /// The other columns of a flow, by name.
    pub(crate) fn rest<'a>(&'a self, rest: &'a Value) -> Vec<(&'a str, &'a Value)> {
        let values = match rest {
            Value::Record(values) if self.names.len() != 1 => &**values,
            one => std::slice::from_ref(one),
        };
        self.names.iter().map(String::as_str).zip(values).collect()
    }
}

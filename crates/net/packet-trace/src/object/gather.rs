//! Finds what there is to say of an object.

use std::collections::BTreeMap;

use nlog::program::Counter;
use nlog_data::object::ObjectKind;
use nlog_data::{Role, Row, Schema, TableId, Type, Value};
use nlog_explain::Origin;
use openflow_rs::{Action, Field, FlowEntry, Subfield};
use pipeline::{Names, forms, one_line};
use switch_model::SwitchTable;
use switch_model::interface::{ADDRESSES, LACKS, PARENTS, PORT_HOMES, PROBLEMS, STANDS_FOR, VIF};

use super::{AskedObject, ObjectAnswer, ObjectExplainer, Shown};
use crate::findings::{lack, word};
use crate::meaning::has_interface;
use crate::packet::string;

/// The most combinations of rows that are tried to find the rows of one table.
const EACH_TABLE: u64 = 20_000;
/// The most hosts whose flows are counted.
const HOSTS: usize = 2;

/// An object, while what there is to say of it is gathered.
pub(super) struct Gathering<'a> {
    by: &'a ObjectExplainer<'a>,
    id: &'a str,
    kind: ObjectKind,
    row: (TableId, Row),
    names: &'a Names,
    /// The numbers that stand for it, by the bits that carry them.
    numbers: Vec<(Subfield, u128)>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(
        by: &'a ObjectExplainer<'a>,
        asked: &'a AskedObject,
        row: (TableId, Row),
        names: &'a Names,
    ) -> Result<Gathering<'a>, String> {
        let kinds = &by.state.program().objects;
        let kind = kinds.iter().find(|kind| kind.table == row.0).cloned();
        let kind = kind.ok_or_else(|| format!("there is no kind {:?}", asked.kind))?;
        let mut gathering = Gathering { by, id: &asked.id, kind, row, names, numbers: Vec::new() };
        gathering.numbers = gathering.numbers()?;
        Ok(gathering)
    }

    pub(super) fn answer(&self) -> Result<ObjectAnswer, String> {
        let has_interface = has_interface(&self.kind);
        let homes = if has_interface { self.texts(&PORT_HOMES, 0, 1)? } else { Vec::new() };
        let on_hosts = if self.is_host()? { vec![self.id.to_owned()] } else { homes.clone() };
        let on_hosts = on_hosts.into_iter().take(HOSTS).map(|host| Ok((self.flows_on(&host)?, host)));
        let on_hosts = on_hosts.map(|found: Result<_, String>| found.map(|(flows, host)| (host, flows)));
        let doc = one_line(Some(&self.kind.doc));
        let tables = self.tables();
        Ok(ObjectAnswer {
            kind: self.kind.name.clone(),
            id: self.id.to_owned(),
            doc: doc.split_once(". ").map_or(doc.clone(), |(first, _)| format!("{first}.")),
            fields: self.fields(),
            own: self.shown(self.row.0, &self.row.1, String::new()),
            has_interface,
            places: if has_interface { self.places()? } else { Vec::new() },
            homes,
            numbers: self.numbered(),
            reported: self.reported(has_interface)?,
            referrers: self.referrers(),
            flows: self.flows(),
            on_hosts: on_hosts.collect::<Result<_, String>>()?,
            problems: self.problems()?,
            lacks: self.lacks()?,
            example: tables.first().and_then(|(table, _)| self.example(table)),
            tables,
            is_part: self.by.is_part,
        })
    }

    fn schema(&self) -> &Schema {
        &self.by.state.program().schema
    }

    /// The rows of a table with this text in this column.
    fn rows_with(&self, table: TableId, column: usize, text: &str) -> Vec<&Row> {
        let mut columns = vec![None; self.schema().table(table).columns.len()];
        columns[column] = Some(text.into());
        self.by.state.matching(table, &columns)
    }

    fn find(&self, table: &SwitchTable) -> Result<Option<TableId>, String> {
        table.find(self.schema()).map_err(|misfit| misfit.to_string())
    }

    /// The texts in a column of the rows that have the object's id in another.
    fn texts(&self, table: &SwitchTable, id: usize, text: usize) -> Result<Vec<String>, String> {
        let Some(table) = self.find(table)? else { return Ok(Vec::new()) };
        let rows = self.rows_with(table, id, self.id).into_iter();
        Ok(rows.filter_map(|row| string(row.get(text)).map(str::to_owned)).collect())
    }

    /// The texts of rows that name an object by its kind and its id.
    fn said(&self, table: &SwitchTable, text: usize) -> Result<Vec<String>, String> {
        let Some(table) = self.find(table)? else { return Ok(Vec::new()) };
        let rows = self.rows_with(table, 1, self.id).into_iter().filter(|row| self.is_kind(row));
        Ok(rows.filter_map(|row| string(row.get(text)).map(str::to_owned)).collect())
    }

    fn is_kind(&self, row: &Row) -> bool {
        string(row.first()) == Some(&*self.kind.name)
    }

    fn problems(&self) -> Result<Vec<String>, String> {
        let (codes, texts) = (self.said(&PROBLEMS, 2)?, self.said(&PROBLEMS, 3)?);
        Ok(codes.into_iter().zip(texts).map(|(code, text)| format!("{code}: {text}")).collect())
    }

    fn lacks(&self) -> Result<Vec<String>, String> {
        let Some(table) = self.find(&LACKS)? else { return Ok(Vec::new()) };
        let rows = self.rows_with(table, 1, self.id).into_iter().filter(|row| self.is_kind(row));
        Ok(rows.filter_map(lack).collect())
    }

    /// Whether it is a host: the kind to which the table of switches refers.
    fn is_host(&self) -> Result<bool, String> {
        let Some(table) = self.find(&ADDRESSES)? else { return Ok(false) };
        let kinds = self.schema().table(table).columns[0].ty.kinds();
        Ok(kinds.is_some_and(|kinds| kinds.contains(&self.kind.name)))
    }

    fn shown(&self, table: TableId, row: &Row, text: String) -> Shown {
        let origin = (self.by.origin)(table, row).map(Origin::numbered);
        Shown { text, input: (table, row.clone()), origin }
    }

    /// The fields that were given another value than the default.
    fn fields(&self) -> Vec<(String, String)> {
        let given = self.kind.fields.iter().zip(self.row.1.iter().skip(1));
        let told =
            given.filter(|(field, value)| **value != Value::None && field.default.as_ref() != Some(value));
        told.map(|(field, value)| (field.name.clone(), word(value))).collect()
    }

    /// What hosts report of the interface, and whose interface it shares.
    fn places(&self) -> Result<Vec<Shown>, String> {
        let mut places = Vec::new();
        if let Some(table) = self.find(&VIF)? {
            places.extend(self.rows_with(table, 1, self.id).into_iter().filter_map(|row| {
                let (host, number) = (string(row.first())?, row.get(2)?);
                Some(self.shown(
                    table,
                    row,
                    format!("{host} reports its interface as port {number} of the switch"),
                ))
            }));
        }
        if let Some(table) = self.find(&PARENTS)? {
            places.extend(self.rows_with(table, 0, self.id).into_iter().filter_map(|row| {
                let (parent, tag) = (string(row.get(1))?, row.get(2)?);
                let text = format!("it shares the interface of port {parent}, with VLAN tag {tag}");
                Some(Shown { text, input: self.row.clone(), origin: None })
            }));
        }
        Ok(places)
    }

    /// The columns of a table in which an id can be.
    fn text_columns(&self, table: TableId) -> Vec<usize> {
        let columns = self.schema().table(table).columns.iter().enumerate();
        columns.filter(|(_, column)| *column.ty.base() == Type::String).map(|(at, _)| at).collect()
    }

    /// The rows of a table that name the object, once each; none if that takes long.
    fn naming(&self, table: TableId) -> Vec<&Row> {
        let look = || {
            let columns = self.text_columns(table).into_iter();
            let mut rows: Vec<&Row> =
                columns.flat_map(|column| self.rows_with(table, column, self.id)).collect();
            rows.sort_unstable();
            rows.dedup();
            rows
        };
        self.by.state.within(EACH_TABLE, look).unwrap_or_default()
    }

    /// The rows that hooks keep for the object, as the columns beside its id.
    fn numbered(&self) -> Vec<String> {
        let hooks = self.by.state.program().hooks.iter().map(|wiring| wiring.to);
        let mut shown = Vec::new();
        for table in hooks {
            let declared = self.schema().table(table);
            for row in self.naming(table) {
                let others = declared
                    .columns
                    .iter()
                    .zip(row)
                    .filter(|(_, value)| string(Some(value)) != Some(self.id));
                let words: Vec<String> =
                    others.map(|(column, value)| format!("{} {}", column.name, word(value))).collect();
                if !words.is_empty() {
                    shown.push(format!("{} ({})", declared.name, words.join(", ")));
                }
            }
        }
        shown
    }

    /// How many rows of the tables that switches fill name the object.
    fn reported(&self, has_interface: bool) -> Result<Vec<(String, usize)>, String> {
        let told = if has_interface { self.find(&VIF)? } else { None };
        let program = self.by.state.program();
        let is_report = |table: TableId| {
            program.hook_of(table).is_none() && program.objects.iter().all(|kind| kind.table != table)
        };
        let inputs = self.schema().iter().filter(|(_, table)| table.role == Role::Input).map(|(id, _)| id);
        let reports = inputs.filter(|id| is_report(*id) && Some(*id) != told);
        Ok(self.counted(reports))
    }

    /// The tables among these with rows that name the object, and how many.
    fn counted(&self, tables: impl Iterator<Item = TableId>) -> Vec<(String, usize)> {
        let counts = tables.map(|table| (self.schema().table(table).name.clone(), self.naming(table).len()));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// A pattern of the rows of a table that name the object.
    fn example(&self, table: &str) -> Option<String> {
        let row = self.naming(self.schema().find(table)?).into_iter().next()?;
        let before = row.iter().position(|value| string(Some(value)) == Some(self.id))?;
        let after = if before + 1 == row.len() { "" } else { ", .." };
        Some(format!("{table}({}{:?}{after})", "_, ".repeat(before), self.id))
    }

    /// Other tables of rules with rows about it.
    fn tables(&self) -> Vec<(String, usize)> {
        let flows = forms(self.by.state.program());
        let derived =
            self.schema().iter().filter(|(_, table)| table.role == Role::Internal).map(|(id, _)| id);
        self.counted(derived.filter(|id| !flows.contains(id)))
    }

    /// The objects that refer to it, in the order of their kinds.
    fn referrers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for kind in &self.by.state.program().objects {
            let fields = kind.fields.iter().enumerate();
            let fields = fields.filter(|(_, field)| field.ty.kinds_within().contains(&*self.kind.name));
            let fields: Vec<usize> = fields.map(|(at, _)| at + 1).collect();
            if fields.is_empty() {
                continue;
            }
            let refers = |row: &&Row| fields.iter().any(|field| names(&row[*field], self.id));
            let rows = self.by.state.rows(kind.table).iter().filter(refers);
            found
                .extend(rows.map(|row| format!("{} {}", kind.name, string(row.first()).unwrap_or_default())));
        }
        found
    }

    /// The flows that rules say for the object, by stage: those of the tables with its name space as a column, and those whose
    /// counters are its own.
    fn flows(&self) -> Vec<(String, usize)> {
        let mut stages = BTreeMap::new();
        let mut count = |row: &Row, at: usize| {
            if let Some(stage) = row.get(at).and_then(stage) {
                *stages.entry(stage).or_insert(0) += 1;
            }
        };
        for table in forms(self.by.state.program()) {
            let column =
                |name: &str| self.schema().table(table).columns.iter().position(|own| own.name == name);
            let (Some(owner), Some(stage)) = (column(&self.kind.id_space), column("table_id")) else {
                continue;
            };
            self.rows_with(table, owner, self.id).into_iter().for_each(|row| count(row, stage));
        }
        for listing in &self.by.state.program().listings {
            let is_ours = listing.kinds(self.schema()).contains(&self.kind.name);
            if let Some(Counter::Flow { table: stage, .. }) =
                listing.reads.as_ref().map(|reads| reads.counter)
                && is_ours
            {
                self.rows_with(listing.table, 0, self.id).into_iter().for_each(|row| count(row, stage));
            }
        }
        self.by_stage(stages)
    }

    fn by_stage(&self, stages: BTreeMap<u8, usize>) -> Vec<(String, usize)> {
        stages.into_iter().map(|(stage, count)| (self.names.stage(stage), count)).collect()
    }

    /// The numbers that stand for the object, and the bits of packets that carry them.
    fn numbers(&self) -> Result<Vec<(Subfield, u128)>, String> {
        let Some(table) = self.find(&STANDS_FOR)? else { return Ok(Vec::new()) };
        let bits = |name: &str| {
            let named = self.by.state.program().fields.iter().find(|named| named.name == name);
            let whole = || Field::all().find(|field| field.name() == name).map(Subfield::whole);
            named.map(|named| named.field).or_else(whole)
        };
        let one = |row: &Row| match &row[..] {
            [Value::String(field), Value::Int(number), ..] => {
                Some((bits(field)?, u128::try_from(*number).ok()?))
            }
            _ => None,
        };
        Ok(self.rows_with(table, 3, self.id).into_iter().filter_map(one).collect())
    }

    /// The flows of a host that name the object in what they match or write, by stage; all flows of the object itself, if it is the host.
    fn flows_on(&self, host: &str) -> Result<Vec<(String, usize)>, String> {
        let mut stages = BTreeMap::new();
        let is_host = self.is_host()?;
        let flows = (self.by.flows)(host)?;
        for flow in flows.iter().filter(|flow| is_host || self.is_named_by(flow)) {
            *stages.entry(flow.table).or_insert(0) += 1;
        }
        Ok(self.by_stage(stages))
    }

    fn is_named_by(&self, flow: &FlowEntry) -> bool {
        self.numbers.iter().any(|(bits, number)| {
            let (mask, value) = (bits.mask(), number << bits.start());
            let matches = flow.matches.iter().any(|demand| {
                demand.field == bits.field() && demand.mask & mask == mask && demand.value & mask == value
            });
            let writes = flow.actions.0.iter().any(|action| match action {
                Action::SetField(set) => {
                    set.field() == bits.field() && set.mask() & mask == mask && set.value() & mask == value
                }
                _ => false,
            });
            matches || writes
        })
    }
}

/// The number of a stage.
fn stage(value: &Value) -> Option<u8> {
    match value {
        Value::Int(number) => u8::try_from(*number).ok(),
        _ => None,
    }
}

/// Whether a value or a part of it is this id.
fn names(value: &Value, id: &str) -> bool {
    match value {
        Value::String(text) => **text == *id,
        Value::List(values) | Value::Set(values) | Value::Record(values) => {
            values.iter().any(|value| names(value, id))
        }
        _ => false,
    }
}

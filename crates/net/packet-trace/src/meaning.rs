//! What numbers and flows mean to readers, as the rules declare it beside them: what a number in a field stands for, and which of the
//! objects behind a flow decide about a packet.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use nlog::Program;
use nlog_data::object::ObjectKind;
use nlog_data::{Packed, Row, TableId, Type, Value};
use openflow_rs::{Action, Actions, Field, FlowEntry, Match};
use pipeline::{Reading, forms};
use switch_model::interface::VIF;

use crate::{FlowView, Leaf, LookupView, Network};

/// Whether the ids of a kind are those of ports: the name of a name space is that of columns with its ids.
pub(crate) fn has_interface(kind: &ObjectKind) -> bool {
    VIF.columns.iter().any(|(name, _)| *name == kind.id_space)
}

/// Which kinds of objects decide, by the flows behind which they are.
#[derive(Debug, Default)]
pub(crate) struct Deciding(Vec<(String, i64, RangeInclusive<i64>)>);

impl Deciding {
    pub(crate) fn of(rows: &[Row]) -> Deciding {
        let one = |row: &Row| match &row[..] {
            [Value::String(kind), Value::Int(table), Value::Int(first), Value::Int(last)] => {
                Some((kind.to_string(), *table, *first..=*last))
            }
            _ => None,
        };
        Deciding(rows.iter().filter_map(one).collect())
    }

    /// The kinds that decide behind flows of a table and a priority.
    fn kinds(&self, table: u8, priority: u16) -> impl Iterator<Item = &str> {
        let of_flow = move |(_, own, priorities): &&(String, i64, RangeInclusive<i64>)| {
            *own == i64::from(table) && priorities.contains(&i64::from(priority))
        };
        self.0.iter().filter(of_flow).map(|(kind, ..)| &**kind)
    }
}

/// The tables in which rules say flows without their hosts, with the places of what tells these flows apart.
#[derive(Debug, Default)]
pub(crate) struct SaidFlows(Vec<SaidFlow>);

#[derive(Debug)]
struct SaidFlow {
    table: TableId,
    columns: usize,
    owner: usize,
    stage: usize,
    priority: usize,
    matching: usize,
}

impl SaidFlows {
    pub(crate) fn of(program: &Program) -> SaidFlows {
        let form = |table: TableId| {
            let columns = &program.schema.table(table).columns;
            let named = |name: &str| columns.iter().position(|column| column.name == name);
            Some(SaidFlow {
                table,
                columns: columns.len(),
                owner: columns.iter().position(|column| *column.ty.base() == Type::String)?,
                stage: named("table_id")?,
                priority: named("priority")?,
                matching: named("match")?,
            })
        };
        SaidFlows(forms(program).into_iter().filter_map(form).collect())
    }
}

impl Network {
    /// A match as rules write it, with what its numbers stand for.
    pub(crate) fn match_text(&self, of: &Match) -> String {
        self.read_as(|reading| reading.match_text(of))
    }

    /// A list of actions as rules write it, with what its numbers stand for.
    pub(crate) fn actions_text(&self, of: &Actions) -> String {
        self.read_as(|reading| reading.actions_text(of))
    }

    /// An action as rules write it, with what its numbers stand for.
    pub(crate) fn action_text(&self, of: &Action) -> String {
        self.read_as(|reading| reading.action(of))
    }

    fn read_as<T>(&self, read: impl FnOnce(&Reading<'_>) -> T) -> T {
        read(&self.names.reading(&|field, value| self.meaning(field, value)))
    }

    /// What a number in a field stands for; none if it is just a number. Fields whose names end in a version of IP hold addresses.
    pub(crate) fn meaning(&self, field: &str, value: u128) -> Option<String> {
        if field.ends_with("ipv4") {
            return u32::try_from(value)
                .ok()
                .filter(|value| *value != 0)
                .map(|bits| Ipv4Addr::from(bits).to_string());
        }
        if field.ends_with("ipv6") {
            return Some(value).filter(|value| *value != 0).map(|bits| Ipv6Addr::from(bits).to_string());
        }
        let table = self.tables.stands_for?;
        let number = Value::Int(i64::try_from(value).ok()?);
        let rows = self.state.matching(table, &[Some(field.into()), Some(number), None, None]);
        match &rows.first()?[..] {
            [_, _, Value::String(role), Value::String(id)] => Some(format!("{role}{id}")),
            _ => None,
        }
    }

    /// Whether an object behind a flow is of a kind that decides there.
    pub(crate) fn decides(&self, flow: &FlowView, leaf: &Leaf) -> bool {
        let entry = &flow.on.1;
        let kind = self.kind(leaf);
        kind.is_some_and(|kind| self.deciding.kinds(entry.table, entry.priority).any(|own| own == kind))
    }

    /// Whether the ids of a kind are those of ports, which interfaces can be for.
    pub(crate) fn is_port_kind(&self, kind: &str) -> bool {
        let kinds = self.program().objects.iter();
        kinds.filter(|own| own.name == kind).any(has_interface)
    }

    /// The kind of an object; none for a report.
    pub(crate) fn kind(&self, leaf: &Leaf) -> Option<&str> {
        let program = self.program();
        program.objects.iter().find(|kind| kind.table == leaf.input.0).map(|kind| &*kind.name)
    }

    /// The object that decides what a flow does to a packet; none if no kind is declared to.
    pub(crate) fn decided_by(&self, flow: &FlowView) -> Option<String> {
        self.deciding.kinds(flow.on.1.table, flow.on.1.priority).next()?;
        let leaves = self.said(&flow.on.1).map_or_else(
            // To find the flow's own row takes long where many objects have flows of this priority.
            || if self.ready.is_some() { Vec::new() } else { self.leaves_of(flow) },
            |(table, row)| self.leaves_of_row(flow, table, &row),
        );
        leaves.into_iter().next().filter(|leaf| self.decides(flow, leaf)).map(|leaf| leaf.what)
    }

    /// The row in which a rule says a flow without its host, looked for among the flows of the datapath and the ports that it names.
    fn said(&self, flow: &FlowEntry) -> Option<(TableId, Row)> {
        let (table, priority) = (Value::Int(flow.table.into()), Value::Int(flow.priority.into()));
        let of_datapath = flow.matches.iter().filter(|demand| demand.field != Field::Metadata);
        let rest = of_datapath
            .into_iter()
            .try_fold(Match::any(), |rest, demand| rest.with_masked(demand.field, demand.value, demand.mask));
        let matches = Value::Match(Packed::new(&rest.ok()?));
        for id in self.named_by(flow) {
            for form in &self.said.0 {
                let mut columns = vec![None; form.columns];
                columns[form.owner] = Some(id.as_str().into());
                columns[form.stage] = Some(table.clone());
                columns[form.priority] = Some(priority.clone());
                columns[form.matching] = Some(matches.clone());
                if let Some(row) = self.state.matching(form.table, &columns).first() {
                    return Some((form.table, (*row).clone()));
                }
            }
        }
        None
    }

    /// What the numbers in a flow's match stand for.
    fn named_by(&self, flow: &FlowEntry) -> Vec<String> {
        let named = self.program().fields.iter();
        let numbers = named.filter_map(|named| {
            let bits = named.field;
            let demand = flow.matches.iter().find(|demand| demand.field == bits.field())?;
            let number = (demand.value & bits.mask()) >> bits.start();
            (demand.mask & bits.mask() == bits.mask()).then_some((&*named.name, number))
        });
        numbers.filter_map(|(field, number)| self.meaning(field, number)).collect()
    }

    /// Puts the first object that decides first, and reports last.
    pub(crate) fn order_leaves(&self, flow: &FlowView, leaves: &mut [Leaf]) {
        leaves.sort_by_key(|leaf| leaf.object.is_none());
        if let Some(place) = leaves.iter().position(|leaf| self.decides(flow, leaf)) {
            leaves[..=place].rotate_right(1);
        }
    }

    /// The objects behind a flow that only carries out what other flows have decided: first those that decided. Others of their kinds
    /// come last, since the flow is there because of them, but the packet does not meet it because of them.
    pub(crate) fn after_decisions(
        &self,
        leaves: Vec<Leaf>,
        written: &[(String, LookupView, Vec<Leaf>)],
    ) -> Vec<Leaf> {
        let decided = written.iter().filter_map(|(_, lookup, because)| {
            let flow = lookup.flow.as_ref()?;
            because.first().filter(|leaf| self.decides(flow, leaf)).cloned()
        });
        let decided: Vec<Leaf> = decided.collect();
        let kinds: Vec<Option<&str>> = decided.iter().map(|leaf| self.kind(leaf)).collect();
        let mut others: Vec<Leaf> = leaves.into_iter().filter(|leaf| !decided.contains(leaf)).collect();
        others.sort_by_key(|leaf| kinds.contains(&self.kind(leaf)));
        decided.iter().cloned().chain(others).collect()
    }
}

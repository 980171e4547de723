//! What coordinator and workers have to agree on about a plan's tables.

use std::collections::BTreeSet;

use nlog_data::TableId;
use nlog_plan::{Keep, NARROW, Plan, Source};

use crate::graph::NO_RULE;
use crate::row::Row;
use crate::symbol::{Symbol, Symbols};

/// Which kind of row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Narrow,
    Wide,
}

impl Width {
    fn of(columns: usize) -> Self {
        if columns <= NARROW { Width::Narrow } else { Width::Wide }
    }
}

/// How a derived table is made a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Row by row: as it is, or distinct.
    Rows,
    /// Key by key, in pairs of this width: a key is checked or rules are attributed.
    Keyed(Width),
}

/// A plan and what is asked of it.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) plan: Plan,
    pub(crate) wanted: BTreeSet<TableId>,
    /// Whether changes of output tables name their rules.
    pub(crate) attribute: bool,
    read: Vec<bool>,
}

impl Layout {
    pub(crate) fn new(plan: Plan, wanted: BTreeSet<TableId>, attribute: bool) -> Self {
        let mut read = vec![false; plan.program.schema.len()];
        let of_rules = plan.rules.iter().flat_map(|rule| std::iter::once(&rule.chain).chain(&rule.failures));
        for chain in plan.arrangements.iter().map(|arrangement| &arrangement.chain).chain(of_rules) {
            if let Source::Table { table, .. } = &chain.source {
                read[table.0 as usize] = true;
            }
        }
        Layout { plan, wanted, attribute, read }
    }

    pub(crate) fn arity(&self, id: TableId) -> usize {
        self.plan.program.schema.table(id).columns.len()
    }

    pub(crate) fn width(&self, id: TableId) -> Width {
        Width::of(self.arity(id))
    }

    /// Whether the table's changes are to be reported.
    pub(crate) fn is_wanted(&self, id: TableId) -> bool {
        self.wanted.contains(&id)
    }

    /// Whether some rule reads the table.
    pub(crate) fn is_read(&self, id: TableId) -> bool {
        self.read[id.0 as usize]
    }

    /// Whether the rules of the table's rows have to be told apart: they are asked for, and there are several.
    fn is_attributed(&self, id: TableId) -> bool {
        self.attribute && self.is_wanted(id) && self.plan.program.rules_of(id).count() > 1
    }

    pub(crate) fn form(&self, id: TableId) -> Form {
        let keeps_key = matches!(self.plan.tables[id.0 as usize].keep, Keep::Key(_));
        if keeps_key || self.is_attributed(id) {
            let keyed = self.keyed(id);
            let value = keyed.rest.len() + usize::from(keyed.attributed);
            Form::Keyed(Width::of(keyed.key.len().max(value)))
        } else {
            Form::Rows
        }
    }

    /// How the table's rows are split.
    pub(crate) fn keyed(&self, table: TableId) -> Keyed {
        let columns = 0..self.arity(table);
        let (key, checked) = match &self.plan.tables[table.0 as usize].keep {
            Keep::Key(key) => (key.clone(), true),
            Keep::AsIs | Keep::Distinct => (columns.clone().collect(), false),
        };
        let rest = columns.filter(|column| !key.contains(column)).collect();
        Keyed { table, key, rest, checked, attributed: self.is_attributed(table) }
    }
}

/// A table's rows as key and rest, with the rule last if rows are attributed.
#[derive(Debug, Clone)]
pub(crate) struct Keyed {
    pub(crate) table: TableId,
    pub(crate) key: Vec<usize>,
    pub(crate) rest: Vec<usize>,
    pub(crate) checked: bool,
    pub(crate) attributed: bool,
}

impl Keyed {
    /// How many columns a value has.
    pub(crate) fn value_columns(&self) -> usize {
        self.rest.len() + usize::from(self.attributed)
    }

    /// Puts a row together again, and gives its rule.
    pub(crate) fn row<P: Row>(&self, key: &P, value: &P, symbols: &Symbols, into: &mut Vec<Symbol>) -> u32 {
        let mut parts = Vec::with_capacity(self.key.len() + self.value_columns());
        key.unpack(self.key.len(), symbols, &mut parts);
        value.unpack(self.value_columns(), symbols, &mut parts);
        into.clear();
        into.resize(self.key.len() + self.rest.len(), 0);
        for (column, word) in self.key.iter().chain(&self.rest).zip(&parts) {
            into[*column] = *word;
        }
        if self.attributed { parts.pop().unwrap_or(NO_RULE) } else { NO_RULE }
    }
}

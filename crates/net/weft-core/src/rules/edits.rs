//! Which rules can take the place of others by an edit of the engine.

use std::collections::BTreeSet;

use nlog::program::Listing;
use nlog_data::{Column, Role, TableId};

use super::Rules;

/// A table as it is declared: its name, role, columns and key.
type Declared<'r> = (&'r str, Role, &'r [Column], Option<&'r [usize]>, &'r [Vec<usize>]);

impl Rules {
    /// Whether these rules differ from others in what they derive alone. Both then declare the same objects, inputs, hooks and tables that
    /// the controller reads, so what it keeps of the tables of one is what it would keep of those of the other.
    pub(crate) fn differ_in_rules_alone(&self, others: &Rules) -> bool {
        let tables = |rules: &Rules| rules.tables_of_controller();
        self.kinds.are(&others.kinds)
            && self.conventions == others.conventions
            && tables(self)
                .into_iter()
                .map(|table| self.declared(table))
                .eq(tables(others).into_iter().map(|table| others.declared(table)))
            && self.order().eq(others.order())
            && self.hooks().eq(others.hooks())
            && self.listings().eq(others.listings())
    }

    /// The tables that the controller fills or reads, and those that hooks read, in the order of their names.
    fn tables_of_controller(&self) -> BTreeSet<TableId> {
        let inputs = self.program.schema.iter().filter(|(_, table)| table.role == Role::Input);
        let sources = self.program.hooks.iter().map(|wiring| wiring.from);
        inputs.map(|(id, _)| id).chain(sources).chain(self.observed()).collect()
    }

    fn declared(&self, table: TableId) -> Declared<'_> {
        let table = self.program.schema.table(table);
        (&table.name, table.role, &table.columns, table.key.as_deref(), &table.uniques)
    }

    fn name(&self, table: TableId) -> &str {
        &self.program.schema.table(table).name
    }

    /// The names of the tables that the controller numbers, in the order of their numbers.
    fn order(&self) -> impl Iterator<Item = &str> {
        let states = self.states.iter().map(|state| state.table);
        states.chain(self.universal.iter().map(|universal| universal.table)).map(|table| self.name(table))
    }

    fn hooks(&self) -> impl Iterator<Item = (&str, String)> {
        let schema = &self.program.schema;
        self.program.hooks.iter().map(|wiring| (self.name(wiring.to), wiring.text(schema)))
    }

    fn listings(&self) -> impl Iterator<Item = impl PartialEq> {
        self.program.listings.iter().map(|Listing { table, reads, otherwise }| {
            let reads = reads.as_ref().map(|reads| {
                (reads.host, reads.counter, reads.on.map(|on| self.name(on)), reads.counts.as_slice())
            });
            (self.name(*table), reads, otherwise)
        })
    }
}

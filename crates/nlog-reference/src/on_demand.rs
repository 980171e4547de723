//! Explains the rows of a state, and derives for this only the rows that an answer needs.
//!
//! A table is asked for its rows with given values in some columns. Its rules are then evaluated with these values bound,
//! which asks the tables of their bodies in turn: top-down evaluation with memory (tabling; Ullman, "Principles of Database
//! and Knowledge-Base Systems", volume II, 1989, chapter 12). Rules have no recursion, so it ends. What was derived once is kept.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use elsa::FrozenMap;
use hashbrown::{DefaultHashBuilder, HashMap};
use nlog::Program;
use nlog::program::{Pattern, Rule};
use nlog_data::{Role, Row, RuleId, TableId, Value};

use crate::derivation::{self, Body};
use crate::hidden::{HiddenPart, hidden_part};
use crate::join::Source;
use crate::project::given;
use crate::rule;

/// Whose rows are known in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Table(TableId),
    Rule(RuleId),
}

/// Rows by the values of some columns, as places among the rows of their owner.
type Index = HashMap<Vec<Value>, Vec<u32>>;

/// What has been asked of a table: its rows, by the values asked for.
type Asked = FrozenMap<Vec<Value>, Vec<Row>, DefaultHashBuilder>;

/// The combinations of values that a bounded question may try.
const BOUND: u64 = 50_000;

/// The rows of the input tables, and those derived from them so far.
///
/// The rows are those of a state that a program has accepted: nothing is checked, and failures of functions are not reported.
pub struct OnDemand {
    program: Arc<Program>,
    rules: Vec<Vec<RuleId>>,
    /// The rows of each input table, ascending.
    inputs: Vec<Vec<Row>>,
    /// What is known of derived tables in full, ascending.
    whole: FrozenMap<Owner, Vec<Row>>,
    indexes: FrozenMap<(Owner, Vec<usize>), Box<Index>>,
    asked: FrozenMap<(TableId, Vec<usize>), Box<Asked>>,
    /// The combinations of values that may still be tried; none: any number.
    left: Cell<Option<u64>>,
    /// The questions whose answers take long.
    long: RefCell<Vec<Pattern>>,
}

/// One way in which a rule derives a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The rule.
    pub rule: RuleId,
    /// The rows of its atoms, in the order of the body: one list for each binding. For a rule with aggregates,
    /// these are all bindings of the row's group; otherwise each of them derives the row.
    pub bodies: Vec<Vec<(TableId, Row)>>,
    /// Whether the rule has more of them.
    pub more: bool,
}

impl fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: usize = self.inputs.iter().map(Vec::len).sum();
        f.debug_struct("OnDemand").field("inputs", &inputs).finish_non_exhaustive()
    }
}

impl OnDemand {
    /// The state with these rows in the input tables, those of hooks included.
    pub fn new(program: Arc<Program>, inputs: impl IntoIterator<Item = (TableId, Row)>) -> OnDemand {
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); program.schema.len()];
        for (table, row) in inputs {
            rows[table.0 as usize].push(row);
        }
        for rows in &mut rows {
            rows.sort_unstable();
            rows.dedup();
        }
        let mut rules: Vec<Vec<RuleId>> = vec![Vec::new(); program.schema.len()];
        for (rule, id) in program.rules.iter().zip(0..) {
            rules[rule.head.0 as usize].push(RuleId(id));
        }
        OnDemand {
            program,
            rules,
            inputs: rows,
            whole: FrozenMap::new(),
            indexes: FrozenMap::new(),
            asked: FrozenMap::new(),
            left: Cell::new(None),
            long: RefCell::default(),
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The rows of a table, ascending. A derived table is derived in full.
    pub fn rows(&self, table: TableId) -> &[Row] {
        if let Some(rows) = self.known(table) {
            return rows;
        }
        let all = vec![None; self.program.schema.table(table).columns.len()];
        let rows = self.derive(table, &all);
        if self.is_exhausted() {
            return &[];
        }
        self.whole.insert(Owner::Table(table), rows)
    }

    /// The rows of a table that have these values, ascending; none is any value.
    pub fn matching(&self, table: TableId, columns: &[Option<Value>]) -> Vec<&Row> {
        let known = columns.iter().enumerate().filter(|(_, value)| value.is_some());
        let known: Vec<usize> = known.map(|(column, _)| column).collect();
        let key: Vec<Value> = columns.iter().flatten().cloned().collect();
        self.with(table, &known, &key)
    }

    /// Whether the row is there.
    pub fn holds(&self, table: TableId, row: &Row) -> bool {
        let columns: Vec<usize> = (0..row.len()).collect();
        !self.with(table, &columns, row).is_empty()
    }

    /// The same as [`OnDemand::matching`]; none if the answer takes long.
    pub(crate) fn matching_soon(&self, pattern: &Pattern) -> Option<Vec<&Row>> {
        if self.long.borrow().contains(pattern) {
            return None;
        }
        let rows = self.within(BOUND, || self.matching(pattern.table, &pattern.columns));
        if rows.is_none() {
            self.long.borrow_mut().push(pattern.clone());
        }
        rows
    }

    /// Looks for something, and tries at most so many combinations of rows for it; none if these do not suffice.
    pub fn within<T>(&self, combinations: u64, look: impl FnOnce() -> T) -> Option<T> {
        let before = self.left.get();
        self.left.set(Some(before.map_or(combinations, |left| left.min(combinations))));
        let found = look();
        let is_exhausted = self.is_exhausted();
        self.left.set(before);
        (!is_exhausted).then_some(found)
    }

    /// Counts the combinations that a rule has tried. Once there are too many, tables give no more rows, and nothing is kept.
    pub(crate) fn count(&self, combinations: usize) {
        self.left.set(self.left.get().map(|left| left.saturating_sub(combinations as u64)));
    }

    fn is_exhausted(&self) -> bool {
        self.left.get() == Some(0)
    }

    /// All rows, if nothing needs to be derived for them.
    fn known(&self, table: TableId) -> Option<&[Row]> {
        match self.program.schema.table(table).role {
            Role::Input => Some(&self.inputs[table.0 as usize]),
            _ => self.whole.get(&Owner::Table(table)),
        }
    }

    /// The rows with these values in these columns, ascending.
    pub(crate) fn with(&self, table: TableId, columns: &[usize], key: &[Value]) -> Vec<&Row> {
        if self.is_exhausted() {
            return Vec::new();
        }
        if columns.is_empty() {
            return self.rows(table).iter().collect();
        }
        if let Some(rows) = self.known(table) {
            return self.indexed(Owner::Table(table), rows, columns, key);
        }
        if let Some(rows) = self.wider(table, columns, key) {
            return rows;
        }
        let of_columns = (table, columns.to_vec());
        let asked = self.asked.get(&of_columns);
        let asked = asked.unwrap_or_else(|| self.asked.insert(of_columns, Box::default()));
        if let Some(rows) = asked.get(key) {
            return rows.iter().collect();
        }
        let mut pattern = vec![None; self.program.schema.table(table).columns.len()];
        for (column, value) in columns.iter().zip(key) {
            pattern[*column] = Some(value.clone());
        }
        let rows = self.derive(table, &pattern);
        if self.is_exhausted() {
            return Vec::new();
        }
        asked.insert(key.to_vec(), rows).iter().collect()
    }

    /// The rows with these values, if those with one of the values are there.
    fn wider(&self, table: TableId, columns: &[usize], key: &[Value]) -> Option<Vec<&Row>> {
        if columns.len() == 1 {
            return None;
        }
        let mut wider = columns.iter().zip(key).filter_map(|(column, value)| {
            self.asked.get(&(table, vec![*column]))?.get(std::slice::from_ref(value))
        });
        let agrees = |row: &&Row| columns.iter().zip(key).all(|(column, value)| row[*column] == *value);
        wider.next().map(|rows| rows.iter().filter(agrees).collect())
    }

    /// Those of an owner's rows that have these values in these columns.
    fn indexed<'a>(
        &'a self,
        owner: Owner,
        rows: &'a [Row],
        columns: &[usize],
        key: &[Value],
    ) -> Vec<&'a Row> {
        let of_columns = (owner, columns.to_vec());
        let index = self.indexes.get(&of_columns).unwrap_or_else(|| {
            let mut index = Index::default();
            for (row, place) in rows.iter().zip(0..) {
                let key = columns.iter().map(|column| row[*column].clone()).collect();
                index.entry(key).or_default().push(place);
            }
            self.indexes.insert(of_columns, Box::new(index))
        });
        let places = index.get(key).into_iter().flatten();
        places.map(|place| &rows[*place as usize]).collect()
    }

    fn derive(&self, table: TableId, columns: &[Option<Value>]) -> Vec<Row> {
        let mut rows = BTreeSet::new();
        for id in &self.rules[table.0 as usize] {
            rows.extend(self.derived_by(*id, columns));
        }
        rows.into_iter().collect()
    }

    /// The rows that a rule derives, with these values; none is any value.
    pub(crate) fn derived_by(&self, id: RuleId, columns: &[Option<Value>]) -> BTreeSet<Row> {
        let rule = self.program.rule(id);
        let Some(given) = given(rule, columns) else { return BTreeSet::new() };
        if given.iter().any(Option::is_some) {
            let mut rows = rule::derive_with(rule, Source::OnDemand(self), given).rows;
            rows.retain(|row| {
                columns
                    .iter()
                    .zip(row)
                    .all(|(wanted, value)| wanted.as_ref().is_none_or(|wanted| wanted == value))
            });
            return rows;
        }
        // The values restrict nothing before the head is computed. So the rule is evaluated once, for all that is asked of it.
        let owner = Owner::Rule(id);
        let rows = self.whole.get(&owner).unwrap_or_else(|| {
            let rows = rule::derive_with(rule, Source::OnDemand(self), given).rows;
            if self.is_exhausted() { &[] } else { self.whole.insert(owner, rows.into_iter().collect()) }
        });
        let known: Vec<usize> = (0..columns.len()).filter(|column| columns[*column].is_some()).collect();
        let key: Vec<Value> = columns.iter().flatten().cloned().collect();
        match &known[..] {
            [] => rows.iter().cloned().collect(),
            known => self.indexed(owner, rows, known, &key).into_iter().cloned().collect(),
        }
    }

    /// The rules of a table.
    pub(crate) fn rules_of(&self, table: TableId) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.rules[table.0 as usize].iter().map(|id| (*id, self.program.rule(*id)))
    }

    /// The row, or, if its table is hidden, the rows from which a default derives it.
    pub(crate) fn visible(&self, table: TableId, row: Row) -> Vec<(TableId, Row)> {
        match hidden_part(self.program.schema.table(table)) {
            None => vec![(table, row)],
            Some((_, HiddenPart::Level)) => Vec::new(),
            Some((_, HiddenPart::Other)) => {
                let ways = self.derivations(table, &row, 1);
                ways.into_iter().next().and_then(|way| way.bodies.into_iter().next()).unwrap_or_default()
            }
        }
    }

    /// The derivations of a row; none for rows of inputs and absent rows. Rows of hidden tables are replaced by the
    /// rows that they are derived from. Of each rule, the first `most` bodies are returned.
    pub fn derivations(&self, table: TableId, row: &Row, most: usize) -> Vec<Derivation> {
        let visible =
            |body: Body| body.into_iter().flat_map(|(table, row)| self.visible(table, row)).collect();
        let ways = self.rules[table.0 as usize].iter().map(|id| {
            let (bodies, more) = derivation::bodies(*id, self, row, most);
            Derivation { rule: *id, bodies: bodies.into_iter().map(visible).collect(), more }
        });
        ways.filter(|way| !way.bodies.is_empty()).collect()
    }
}

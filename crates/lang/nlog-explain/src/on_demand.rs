//! Explains the rows of a state, and derives for this only the rows that an answer needs.
//!
//! A table is asked for its rows with given values in some columns. Its rules are then evaluated with these values bound,
//! which asks the tables of their bodies in turn: top-down evaluation with memory (tabling; Ullman, "Principles of Database
//! and Knowledge-Base Systems", volume II, 1989, chapter 12). Rules have no recursion, so it ends. What was derived once is kept.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use elsa::FrozenMap;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use nlog::Program;
use nlog::program::{BodyItem, HeadTerm, Pattern, Rule, Term};
use nlog_data::{Cancel, Role, Row, RuleId, TableId, Value};

use crate::derivation::{self, Body};
use crate::expression::Values;
use crate::hidden::{HiddenPart, hidden_part};
use crate::join::Source;
use crate::plan::Plan;
use crate::project::{chosen, for_each_combination, given};
use crate::rule;

/// Rows by the values of some columns, as places among all rows.
type Index = HashMap<Vec<Value>, Vec<u32>>;

/// Rows that are known, ascending, and their indexes by columns.
struct Known {
    rows: Vec<Row>,
    indexes: FrozenMap<Vec<usize>, Box<Index>, DefaultHashBuilder>,
}

/// What has been asked of a table: its rows, by the values asked for.
type Asked = FrozenMap<Vec<Value>, Box<Known>, DefaultHashBuilder>;

/// What is known of a table.
#[derive(Default)]
struct Table {
    rules: Vec<RuleId>,
    /// All its rows, if they are known.
    whole: OnceCell<Known>,
    /// Those with some values, by columns.
    asked: FrozenMap<Vec<usize>, Box<Asked>, DefaultHashBuilder>,
}

/// What is known of a rule.
#[derive(Default)]
struct OfRule {
    /// Whether it derives nothing, whatever is asked of it.
    is_void: OnceCell<bool>,
    /// All its rows, if they are known.
    whole: OnceCell<Known>,
    /// By the variables that have values.
    plans: FrozenMap<Vec<bool>, Box<Plan>, DefaultHashBuilder>,
}

impl Table {
    /// The rows with one of these values, if they are known.
    fn wider(&self, columns: &[usize], key: &[Value]) -> Option<&Known> {
        if columns.len() == 1 {
            return None;
        }
        let of_one = |(column, value): (&usize, &Value)| {
            self.asked.get(std::slice::from_ref(column))?.get(std::slice::from_ref(value))
        };
        columns.iter().zip(key).find_map(of_one)
    }
}

impl Known {
    fn new(rows: Vec<Row>) -> Known {
        Known { rows, indexes: FrozenMap::default() }
    }

    /// The rows that have these values in these columns, ascending.
    fn with(&self, columns: &[usize], key: &[Value]) -> Vec<&Row> {
        let all = || self.rows.iter();
        if self.rows.len() <= FEW {
            let agrees = |row: &&Row| columns.iter().zip(key).all(|(column, value)| row[*column] == *value);
            return all().filter(agrees).collect();
        }
        let index = self.indexes.get(columns).unwrap_or_else(|| {
            let mut index = Index::default();
            for (row, place) in all().zip(0..) {
                let key = columns.iter().map(|column| row[*column].clone()).collect();
                index.entry(key).or_default().push(place);
            }
            self.indexes.insert(columns.to_vec(), Box::new(index))
        });
        let places = index.get(key).into_iter().flatten();
        places.map(|place| &self.rows[*place as usize]).collect()
    }
}

/// The columns that have a value, and these values.
fn known(columns: &[Option<Value>]) -> (Vec<usize>, Vec<Value>) {
    let known = columns.iter().enumerate().filter_map(|(column, value)| Some((column, value.clone()?)));
    known.unzip()
}

/// The combinations of values that a bounded question may try.
const BOUND: u64 = 20_000;
/// So few rows need no index.
const FEW: usize = 8;

/// The rows of the input tables, and those derived from them so far.
///
/// The rows are those of a state that a program has accepted: nothing is checked, and failures of functions are not reported.
pub struct OnDemand {
    program: Arc<Program>,
    tables: Vec<Table>,
    rules: Vec<OfRule>,
    /// The combinations of values that rules have tried so far.
    tried: Cell<u64>,
    /// How many they may have tried before tables give no more rows.
    most: Cell<Option<u64>>,
    /// Then they give no more rows either.
    cancel: RefCell<Cancel>,
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
        let rows: usize =
            self.tables.iter().filter_map(|table| table.whole.get()).map(|known| known.rows.len()).sum();
        f.debug_struct("OnDemand").field("rows", &rows).finish_non_exhaustive()
    }
}

impl OnDemand {
    /// The state with these rows in the input tables, those of hooks included.
    pub fn new(program: Arc<Program>, inputs: impl IntoIterator<Item = (TableId, Row)>) -> OnDemand {
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); program.schema.len()];
        for (table, row) in inputs {
            rows[table.0 as usize].push(row);
        }
        let mut tables: Vec<Table> = Vec::new();
        for ((_, table), mut rows) in program.schema.iter().zip(rows) {
            rows.sort_unstable();
            rows.dedup();
            let is_input = table.role == Role::Input;
            let whole = if is_input { OnceCell::from(Known::new(rows)) } else { OnceCell::new() };
            tables.push(Table { whole, ..Table::default() });
        }
        for (rule, id) in program.rules.iter().zip(0..) {
            tables[rule.head.0 as usize].rules.push(RuleId(id));
        }
        let rules = program.rules.iter().map(|_| OfRule::default()).collect();
        OnDemand {
            program,
            tables,
            rules,
            tried: Cell::new(0),
            most: Cell::new(None),
            cancel: RefCell::default(),
            long: RefCell::default(),
        }
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The rows of a table, ascending. A derived table is derived in full.
    pub fn rows(&self, table: TableId) -> &[Row] {
        self.whole(table).map_or(&[], |known| &known.rows)
    }

    /// The rows of a table that have these values, ascending; none is any value.
    pub fn matching(&self, table: TableId, columns: &[Option<Value>]) -> Vec<&Row> {
        let (known, key) = known(columns);
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
        let bound = self.tried.get() + combinations;
        let before = self.most.replace(Some(self.most.get().map_or(bound, |most| most.min(bound))));
        let found = look();
        let is_exhausted = self.is_exhausted();
        self.most.set(before);
        (!is_exhausted).then_some(found)
    }

    /// Looks for nothing more once this is cancelled.
    pub fn cancelled_by(&self, cancel: &Cancel) {
        self.cancel.replace(cancel.clone());
    }

    /// Tries at most so many combinations of rows from now on, for whatever is asked, and none after a cancellation. Tables give no
    /// more rows once they do not suffice: see [`OnDemand::is_exhausted`].
    pub fn bound(&self, combinations: u64, cancel: &Cancel) {
        self.most.set(Some(self.tried.get() + combinations));
        self.cancelled_by(cancel);
    }

    /// Counts the combinations that a rule has tried. Once there are too many, tables give no more rows, and nothing is kept.
    pub(crate) fn count(&self, combinations: usize) {
        self.tried.set(self.tried.get() + combinations as u64);
    }

    /// The combinations of values that rules have tried so far: a measure of the work for all answers.
    pub fn tried(&self) -> u64 {
        self.tried.get()
    }

    /// Whether the combinations that may be tried do not suffice, or nobody waits for the answer. Then rows may seem to be missing.
    pub fn is_exhausted(&self) -> bool {
        self.cancel.borrow().is_cancelled() || self.most.get().is_some_and(|most| self.tried.get() >= most)
    }

    fn table(&self, table: TableId) -> &Table {
        &self.tables[table.0 as usize]
    }

    /// All rows of a table; none if that takes too long.
    fn whole(&self, table: TableId) -> Option<&Known> {
        self.once(&self.table(table).whole, || self.derive(&self.any(table)))
    }

    /// What a cell keeps. If it is empty, it keeps what is derived now; none if that takes too long.
    fn once<'a>(
        &self,
        cell: &'a OnceCell<Known>,
        derive: impl FnOnce() -> BTreeSet<Row>,
    ) -> Option<&'a Known> {
        if cell.get().is_none() {
            let rows = derive();
            if self.is_exhausted() {
                return None;
            }
            // It is still empty: rules have no recursion, so nothing on the way has asked for it.
            let _ = cell.set(Known::new(rows.into_iter().collect()));
        }
        cell.get()
    }

    /// The pattern of all rows of a table.
    fn any(&self, table: TableId) -> Pattern {
        Pattern { table, columns: vec![None; self.program.schema.table(table).columns.len()] }
    }

    /// The rows with these values in these columns, ascending.
    pub(crate) fn with(&self, table: TableId, columns: &[usize], key: &[Value]) -> Vec<&Row> {
        if self.is_exhausted() {
            return Vec::new();
        }
        if columns.is_empty() {
            return self.rows(table).iter().collect();
        }
        let of_table = self.table(table);
        if let Some(known) = of_table.whole.get().or_else(|| of_table.wider(columns, key)) {
            return known.with(columns, key);
        }
        let asked = of_table.asked.get(columns);
        let asked = asked.unwrap_or_else(|| of_table.asked.insert(columns.to_vec(), Box::default()));
        if let Some(known) = asked.get(key) {
            return known.rows.iter().collect();
        }
        let mut pattern = self.any(table);
        for (column, value) in columns.iter().zip(key) {
            pattern.columns[*column] = Some(value.clone());
        }
        let rows = self.derive(&pattern).into_iter().collect();
        if self.is_exhausted() {
            return Vec::new();
        }
        asked.insert(key.to_vec(), Box::new(Known::new(rows))).rows.iter().collect()
    }

    /// Whether a rule needs rows that are not there whatever is asked: of an empty table, or with the constants of an atom. Most
    /// networks leave features unused, and rules about these need not be evaluated for each value.
    fn is_void(&self, id: RuleId) -> bool {
        let of_rule = &self.rules[id.0 as usize];
        let finds_none = |item: &BodyItem| match item {
            BodyItem::Atom { table, terms, .. } => {
                self.is_empty(*table) || self.lacks_constants(*table, terms)
            }
            _ => false,
        };
        *of_rule.is_void.get_or_init(|| self.program.rule(id).body.iter().any(finds_none))
    }

    fn is_empty(&self, table: TableId) -> bool {
        let of_table = self.table(table);
        of_table.whole.get().map_or_else(
            || of_table.rules.iter().all(|rule| self.is_void(*rule)),
            |known| known.rows.is_empty(),
        )
    }

    /// Whether no row of a table has the names that an atom asks for; not if that takes long to say.
    fn lacks_constants(&self, table: TableId, terms: &[Term]) -> bool {
        let constant = |term: &Term| match term {
            Term::Constant(value @ Value::String(_)) => Some(value.clone()),
            _ => None,
        };
        let columns: Vec<Option<Value>> = terms.iter().map(constant).collect();
        columns.iter().any(Option::is_some)
            && self.matching_soon(&Pattern { table, columns }).is_some_and(|rows| rows.is_empty())
    }

    /// The plan for a rule where these variables have values.
    pub(crate) fn plan(&self, id: RuleId, given: &Values) -> &Plan {
        let bound: Vec<bool> = given.iter().map(Option::is_some).collect();
        let plans = &self.rules[id.0 as usize].plans;
        plans.get(&bound).unwrap_or_else(|| {
            let plan = Plan::new(self.program.rule(id), Source::OnDemand(self), bound.clone());
            plans.insert(bound, Box::new(plan))
        })
    }

    fn derive(&self, pattern: &Pattern) -> BTreeSet<Row> {
        self.table(pattern.table).rules.iter().flat_map(|id| self.derived_by(*id, pattern)).collect()
    }

    /// The rows like this that a rule derives.
    pub(crate) fn derived_by(&self, id: RuleId, pattern: &Pattern) -> BTreeSet<Row> {
        let rule = self.program.rule(id);
        if self.is_void(id) {
            return BTreeSet::new();
        }
        let Some(given) = given(rule, &pattern.columns) else { return BTreeSet::new() };
        let is_restricted = given.iter().any(Option::is_some);
        let derive =
            || rule::derive_with(rule, self.plan(id, &given), Source::OnDemand(self), given.clone()).rows;
        if is_restricted {
            let mut rows = derive();
            rows.retain(|row| pattern.admits(row));
            return rows;
        }
        if let Some(rows) = self.of_groups(id, pattern) {
            return rows;
        }
        // The values restrict nothing before the head is computed. So the rule is evaluated once, for all that is asked of it.
        let Some(whole) = self.once(&self.rules[id.0 as usize].whole, derive) else { return BTreeSet::new() };
        let (columns, key) = known(&pattern.columns);
        whole.with(&columns, &key).into_iter().cloned().collect()
    }

    /// The rows like this that a rule derives, of which one value is the least or the greatest of a group: only groups with
    /// this value among theirs are looked at. None if there is no such value, or if nothing tells the groups apart.
    fn of_groups(&self, id: RuleId, pattern: &Pattern) -> Option<BTreeSet<Row>> {
        let rule = self.program.rule(id);
        let chosen = chosen(rule, &pattern.columns)?;
        let mut groups: HashSet<Vec<Value>> = HashSet::new();
        for_each_combination(
            rule,
            self.plan(id, &chosen),
            Source::OnDemand(self),
            chosen,
            0,
            &mut |values, failure, _| {
                if let Some(Ok(head)) = rule::head(rule, values, failure) {
                    groups.insert(head.group);
                }
            },
        );
        let mut rows = BTreeSet::new();
        for group in groups {
            let mut group = group.into_iter();
            let of_group: Vec<Option<Value>> = (rule.terms.iter().zip(&pattern.columns))
                .map(|(term, wanted)| match term {
                    HeadTerm::Value(_) => group.next(),
                    HeadTerm::Aggregate { .. } => wanted.clone(),
                })
                .collect();
            let is_wanted =
                |(wanted, own): (&Option<Value>, &Option<Value>)| wanted.is_none() || wanted == own;
            if !pattern.columns.iter().zip(&of_group).all(is_wanted) {
                continue;
            }
            if !given(rule, &of_group)?.iter().any(Option::is_some) {
                return None;
            }
            rows.extend(self.derived_by(id, &Pattern { table: pattern.table, columns: of_group }));
        }
        Some(rows)
    }

    /// The rules of a table.
    pub(crate) fn rules_of(&self, table: TableId) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.table(table).rules.iter().map(|id| (*id, self.program.rule(*id)))
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
        let ways = self.table(table).rules.iter().map(|id| {
            let (bodies, more) = derivation::bodies(*id, self, row, most);
            Derivation { rule: *id, bodies: bodies.into_iter().map(visible).collect(), more }
        });
        ways.filter(|way| !way.bodies.is_empty()).collect()
    }
}

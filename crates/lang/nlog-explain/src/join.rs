//! The parts of a rule's body: rows of an atom by the values that are known, and the items after the atoms.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use nlog::program::{BodyItem, Term};
use nlog_data::{Column, Failure, Row, RuleId, TableId, Type, Value};

use crate::OnDemand;
use crate::expression::{Outcome, Values, call, evaluate};
use crate::plan::Columns;

/// The rows of each table by number, with the rule that each is attributed to (none for rows of inputs).
pub type Contents = Vec<BTreeMap<Row, Option<RuleId>>>;

/// Where the rows of atoms come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// All tables are there.
    Contents(&'a Contents),
    /// They are derived when they are asked for.
    OnDemand(&'a OnDemand),
}

impl<'a> Source<'a> {
    /// An atom whose columns are for this.
    pub(crate) fn atom(self, table: TableId, terms: &'a [Term], columns: Cow<'a, Columns>) -> Atom<'a> {
        let rows = match self {
            Source::Contents(contents) => Rows::Indexed(index(&columns, contents[table.0 as usize].keys())),
            Source::OnDemand(state) => Rows::OnDemand(state),
        };
        Atom { table, terms, columns, rows }
    }

    /// How much is known of an atom: the more, the fewer rows it seems to have.
    pub(crate) fn weight(self, table: TableId, terms: &[Term], bound: &[bool]) -> u32 {
        let Source::OnDemand(state) = self else { return 0 };
        let table = state.program().schema.table(table);
        let is_bound = |term: &Term| matches!(term, Term::Variable(variable) if bound[variable.0 as usize]);
        let of_column = |(column, term): (&Column, &Term)| {
            let is_name = !matches!(column.ty.base(), Type::Bool | Type::Int | Type::Match | Type::Actions);
            match term {
                Term::Any => 0,
                Term::Variable(_) if !is_bound(term) => 0,
                // One of two values: what the rule names first is the better guess.
                _ if *column.ty.base() == Type::Bool => 0,
                // Names and addresses restrict an atom more than numbers of tables and the like, which many rows share.
                Term::Variable(_) if is_name => 8,
                Term::Variable(_) | Term::Constant(_) => 1,
            }
        };
        let known: u32 = table.columns.iter().zip(terms).map(of_column).sum();
        // Matches and actions are mostly computed: nothing can be looked up by them before they are.
        let is_plain =
            |column: &usize| !matches!(table.columns[*column].ty.base(), Type::Match | Type::Actions);
        let has_key = table
            .key
            .as_ref()
            .is_some_and(|key| key.iter().all(|column| is_plain(column) && is_bound(&terms[*column])));
        known + if has_key { 16 } else { 0 }
    }

    /// Notes that a rule has tried so many combinations of values.
    pub(crate) fn count(self, combinations: usize) {
        if let Source::OnDemand(state) = self {
            state.count(combinations);
        }
    }
}

/// Values of variables, and the failures that they lead to.
pub(crate) struct Binding {
    /// The variables' values.
    pub(crate) values: Values,
    /// The failures in the body.
    pub(crate) failures: Vec<Failure>,
}

/// An atom, with its rows by the values that are known when it is reached.
pub(crate) struct Atom<'a> {
    pub(crate) table: TableId,
    terms: &'a [Term],
    pub(crate) columns: Cow<'a, Columns>,
    rows: Rows<'a>,
}

enum Rows<'a> {
    /// Rows by the values of the known columns.
    Indexed(HashMap<Vec<Value>, Vec<&'a Row>>),
    OnDemand(&'a OnDemand),
}

fn index<'a>(
    columns: &Columns,
    of_table: impl Iterator<Item = &'a Row>,
) -> HashMap<Vec<Value>, Vec<&'a Row>> {
    let mut rows: HashMap<Vec<Value>, Vec<&Row>> = HashMap::new();
    for row in of_table.filter(|row| is_equal(columns, row)) {
        let key = columns.known.iter().map(|column| row[*column].clone()).collect();
        rows.entry(key).or_default().push(row);
    }
    rows
}

/// Whether no variable would have two values.
fn is_equal(columns: &Columns, row: &Row) -> bool {
    columns.equal.iter().all(|(a, b)| row[*a] == row[*b])
}

impl<'a> Atom<'a> {
    /// The rows that agree with what is known, ascending.
    pub(crate) fn matching(&self, values: &Values) -> Cow<'_, [&'a Row]> {
        let value = |column: &usize| match &self.terms[*column] {
            Term::Constant(value) => Some(value.clone()),
            Term::Variable(variable) => values[variable.0 as usize].clone(),
            Term::Any => None,
        };
        let Some(key) = self.columns.known.iter().map(value).collect::<Option<Vec<Value>>>() else {
            return Cow::Borrowed(&[]);
        };
        match &self.rows {
            Rows::Indexed(rows) => Cow::Borrowed(rows.get(&key).map_or(&[][..], Vec::as_slice)),
            Rows::OnDemand(state) => {
                let mut rows = state.with(self.table, &self.columns.known, &key);
                rows.retain(|row| is_equal(&self.columns, row));
                Cow::Owned(rows)
            }
        }
    }
}

/// Evaluates an item that is no atom: calls `each` for the results that the item does not reject.
pub(crate) fn check(item: &BodyItem, binding: &mut Binding, each: &mut dyn FnMut(&Binding)) {
    match item {
        BodyItem::Atom { .. } => {}
        BodyItem::Let { variable, expr } => {
            let value = match evaluate(expr, &binding.values, &mut binding.failures) {
                Outcome::Value(value) => Some(value),
                Outcome::Undetermined => None,
                Outcome::Nothing => return,
            };
            binding.values[variable.0 as usize] = value;
            each(binding);
        }
        BodyItem::Filter(condition) => match evaluate(condition, &binding.values, &mut binding.failures) {
            Outcome::Value(Value::Bool(true)) | Outcome::Undetermined => each(binding),
            Outcome::Value(_) | Outcome::Nothing => {}
        },
        BodyItem::Generate { function, arguments, results } => {
            let mut assign = |tuple: Option<Vec<Value>>, binding: &mut Binding| {
                for (column, variable) in results.iter().enumerate() {
                    if let Some(variable) = variable {
                        let value = tuple.as_ref().and_then(|tuple| tuple.get(column).cloned());
                        binding.values[variable.0 as usize] = value;
                    }
                }
                each(binding);
            };
            match call(function, arguments, &binding.values, &mut binding.failures) {
                Outcome::Value(tuples) => tuples.into_iter().for_each(|tuple| assign(Some(tuple), binding)),
                Outcome::Undetermined => assign(None, binding),
                Outcome::Nothing => {}
            }
        }
    }
}

//! The parts of a rule's body: rows of an atom by the values that are known, and the items after the atoms.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use nlog::program::{BodyItem, Term, VariableId};
use nlog_data::{Column, Failure, Row, RuleId, TableId, Type, Value};

use crate::OnDemand;
use crate::expression::{Outcome, Values, call, evaluate};

/// The rows of each table by number, with the rule that each is attributed to (none for rows of inputs).
pub(crate) type Contents = Vec<BTreeMap<Row, Option<RuleId>>>;

/// Where the rows of atoms come from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// All tables are there.
    Contents(&'a Contents),
    /// They are derived when they are asked for.
    OnDemand(&'a OnDemand),
}

impl<'a> Source<'a> {
    /// Prepares an atom where these variables have values, and notes the variables that it binds.
    pub(crate) fn atom(self, table: TableId, terms: &'a [Term], bound: &mut [bool]) -> Atom<'a> {
        let mut atom = Atom::new(table, terms, bound);
        atom.rows = match self {
            Source::Contents(contents) => Rows::Indexed(atom.index(contents[table.0 as usize].keys())),
            Source::OnDemand(state) => Rows::OnDemand(state),
        };
        atom
    }

    /// How much is known of an atom: the more, the fewer rows it seems to have.
    pub(crate) fn weight(self, table: TableId, terms: &[Term], bound: &[bool]) -> u32 {
        let Source::OnDemand(state) = self else { return 0 };
        let table = state.program().schema.table(table);
        let is_bound = |term: &Term| matches!(term, Term::Variable(variable) if bound[variable.0 as usize]);
        let of_column = |(column, term): (&Column, &Term)| match term {
            Term::Any => 0,
            Term::Constant(_) => 1,
            Term::Variable(_) if !is_bound(term) => 0,
            // Names and addresses restrict an atom more than numbers of tables and the like, which many rows share.
            Term::Variable(_) => match column.ty {
                Type::Bool | Type::Int | Type::Match | Type::Actions => 1,
                _ => 8,
            },
        };
        let known: u32 = table.columns.iter().zip(terms).map(of_column).sum();
        let has_key =
            table.key.as_ref().is_some_and(|key| key.iter().all(|column| is_bound(&terms[*column])));
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
    /// The known terms: constants and variables of earlier atoms.
    known: Vec<&'a Term>,
    /// Their columns.
    known_columns: Vec<usize>,
    /// Columns that bind a variable.
    pub(crate) binds: Vec<(usize, VariableId)>,
    /// Columns in which a variable that the atom binds stands again.
    equal_columns: Vec<(usize, usize)>,
    rows: Rows<'a>,
}

enum Rows<'a> {
    /// Rows by the values of the known columns.
    Indexed(HashMap<Vec<Value>, Vec<&'a Row>>),
    OnDemand(&'a OnDemand),
}

impl<'a> Atom<'a> {
    fn new(table: TableId, terms: &'a [Term], bound: &mut [bool]) -> Atom<'a> {
        let (mut known, mut known_columns) = (Vec::new(), Vec::new());
        let mut binds: Vec<(usize, VariableId)> = Vec::new();
        let mut equal_columns = Vec::new();
        for (column, term) in terms.iter().enumerate() {
            match term {
                Term::Any => {}
                Term::Variable(variable) if !bound[variable.0 as usize] => {
                    match binds.iter().find(|(_, other)| other == variable) {
                        Some((first, _)) => equal_columns.push((*first, column)),
                        None => binds.push((column, *variable)),
                    }
                }
                Term::Variable(_) | Term::Constant(_) => {
                    known.push(term);
                    known_columns.push(column);
                }
            }
        }
        for (_, variable) in &binds {
            bound[variable.0 as usize] = true;
        }
        Atom { table, known, known_columns, binds, equal_columns, rows: Rows::Indexed(HashMap::new()) }
    }

    fn index(&self, of_table: impl Iterator<Item = &'a Row>) -> HashMap<Vec<Value>, Vec<&'a Row>> {
        let mut rows: HashMap<Vec<Value>, Vec<&Row>> = HashMap::new();
        for row in of_table.filter(|row| self.is_equal(row)) {
            let key = self.known_columns.iter().map(|column| row[*column].clone()).collect();
            rows.entry(key).or_default().push(row);
        }
        rows
    }

    /// Whether no variable would have two values.
    fn is_equal(&self, row: &Row) -> bool {
        self.equal_columns.iter().all(|(a, b)| row[*a] == row[*b])
    }

    /// The rows that agree with what is known, ascending.
    pub(crate) fn matching(&self, values: &Values) -> Cow<'_, [&'a Row]> {
        let key: Option<Vec<Value>> = (self.known.iter())
            .map(|term| match term {
                Term::Constant(value) => Some(value.clone()),
                Term::Variable(variable) => values[variable.0 as usize].clone(),
                Term::Any => None,
            })
            .collect();
        let Some(key) = key else { return Cow::Borrowed(&[]) };
        match &self.rows {
            Rows::Indexed(rows) => Cow::Borrowed(rows.get(&key).map_or(&[][..], Vec::as_slice)),
            Rows::OnDemand(state) => {
                let mut rows = state.with(self.table, &self.known_columns, &key);
                rows.retain(|row| self.is_equal(row));
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

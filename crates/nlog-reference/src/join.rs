//! The parts of a rule's body: rows of an atom by the values that are known, and the items after the atoms.

use std::collections::{BTreeMap, HashMap};

use nlog::program::{BodyItem, Term, VariableId};
use nlog_data::{Failure, Row, RuleId, TableId, Value};

use crate::expression::{Outcome, Values, call, evaluate};

/// The rows of each table by number, with the rule that each is attributed to (none for rows of inputs).
pub(crate) type Contents = Vec<BTreeMap<Row, Option<RuleId>>>;

/// A binding of a rule's variables that satisfies all determined items of the body.
pub(crate) struct Binding<'a> {
    /// The variables' values.
    pub(crate) values: Values,
    /// The rows of the body's atoms, in their order.
    pub(crate) rows: Vec<(TableId, &'a Row)>,
    /// The failures in the body.
    pub(crate) failures: Vec<Failure>,
}

/// An atom, with its rows indexed by the values that are known when it is reached.
pub(crate) struct Atom<'a> {
    pub(crate) table: TableId,
    /// The known terms: constants and variables of earlier atoms.
    known: Vec<&'a Term>,
    /// Columns that bind a variable.
    pub(crate) binds: Vec<(usize, VariableId)>,
    /// Rows by the values of the known columns.
    rows: HashMap<Vec<Value>, Vec<&'a Row>>,
}

impl<'a> Atom<'a> {
    /// The rows that agree with what is known.
    pub(crate) fn matching(&self, values: &Values) -> &[&'a Row] {
        let key: Option<Vec<Value>> = (self.known.iter())
            .map(|term| match term {
                Term::Constant(value) => Some(value.clone()),
                Term::Variable(variable) => values[variable.0 as usize].clone(),
                Term::Any => None,
            })
            .collect();
        key.and_then(|key| self.rows.get(&key)).map_or(&[][..], Vec::as_slice)
    }
}

/// Indexes an atom's rows by the known columns, without rows in which a variable would have two values.
pub(crate) fn index<'a>(
    table: TableId,
    terms: &'a [Term],
    bound: &mut [bool],
    contents: &'a Contents,
) -> Atom<'a> {
    index_rows(table, terms, bound, contents[table.0 as usize].keys())
}

/// The same for some of the table's rows.
pub(crate) fn index_rows<'a>(
    table: TableId,
    terms: &'a [Term],
    bound: &mut [bool],
    of_table: impl IntoIterator<Item = &'a Row>,
) -> Atom<'a> {
    let mut known = Vec::new();
    let mut known_columns = Vec::new();
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
    let mut rows: HashMap<Vec<Value>, Vec<&Row>> = HashMap::new();
    for row in of_table {
        if equal_columns.iter().all(|(a, b)| row[*a] == row[*b]) {
            rows.entry(known_columns.iter().map(|column| row[*column].clone()).collect())
                .or_default()
                .push(row);
        }
    }
    Atom { table, known, binds, rows }
}

/// The items after the atoms.
pub(crate) fn check<'a>(others: &[&BodyItem], binding: &mut Binding<'a>, each: &mut dyn FnMut(&Binding<'a>)) {
    let Some((item, others)) = others.split_first() else {
        return each(binding);
    };
    let before = binding.failures.len();
    match item {
        // The atoms are joined before.
        BodyItem::Atom { .. } => check(others, binding, each),
        BodyItem::Let { variable, expr } => {
            let outcome = evaluate(expr, &binding.values, &mut binding.failures);
            let value = match outcome {
                Outcome::Value(value) => Some(Some(value)),
                Outcome::Undetermined => Some(None),
                Outcome::Nothing => None,
            };
            if let Some(value) = value {
                binding.values[variable.0 as usize] = value;
                check(others, binding, each);
            }
        }
        BodyItem::Filter(condition) => match evaluate(condition, &binding.values, &mut binding.failures) {
            Outcome::Value(Value::Bool(true)) | Outcome::Undetermined => check(others, binding, each),
            Outcome::Value(_) | Outcome::Nothing => {}
        },
        BodyItem::Generate { function, arguments, results } => {
            let mut assign = |tuple: Option<Vec<Value>>, binding: &mut Binding<'a>| {
                for (column, variable) in results.iter().enumerate() {
                    if let Some(variable) = variable {
                        let value = tuple.as_ref().and_then(|tuple| tuple.get(column).cloned());
                        binding.values[variable.0 as usize] = value;
                    }
                }
                check(others, binding, each);
            };
            match call(function, arguments, &binding.values, &mut binding.failures) {
                Outcome::Value(tuples) => tuples.into_iter().for_each(|tuple| assign(Some(tuple), binding)),
                Outcome::Undetermined => assign(None, binding),
                Outcome::Nothing => {}
            }
        }
    }
    binding.failures.truncate(before);
}

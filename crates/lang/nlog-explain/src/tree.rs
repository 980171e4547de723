//! Why rows are present: the tree of the rules and rows from which each follows, down to rows of input tables.

use std::collections::BTreeSet;

use nlog::Program;
use nlog::program::{BodyItem, HeadTerm, Place, Rule};
use nlog_data::{Role, Row, TableId};
use serde_json::{Value as Json, json};

use crate::explanation::{Body, WAYS, at_least, atom};
use crate::hidden::{HiddenPart, hidden_part};
use crate::json::{place_json, row_json};
use crate::{Derivation, OnDemand, Origin, ShowsInputs};

/// The explanation of some rows.
#[derive(Debug)]
pub struct Explanation {
    trees: Vec<Tree>,
    /// How many more rows were asked about.
    more: usize,
}

/// A row and what it follows from.
#[derive(Debug)]
struct Tree {
    table: TableId,
    row: Row,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    /// It is a row of an input table; the transaction that inserted it, if that is known.
    Input(Option<Origin>),
    /// A rule derives it.
    Rule {
        place: Place,
        from: Vec<Tree>,
        more_rows: usize,
        other_ways: usize,
        /// Whether there are more rows or ways than are counted.
        more: bool,
        /// Whether it is a count, a default or the like that rows which were left out could make another row.
        is_unsure: bool,
    },
    /// It was explained above.
    Told,
    /// No rule derives it from the rows that were not left out.
    Open,
}

/// What an explanation can say of a state.
pub struct Explainer<'a> {
    /// The state.
    pub state: &'a OnDemand,
    /// The transaction that inserted a row of an input table, itself or through a hook; none if it is not known.
    pub origin: &'a dyn Fn(TableId, &Row) -> Option<u64>,
    /// Whether rows of input tables were left out. What follows from some rows follows from more of them as well, except for
    /// aggregates and defaults.
    pub is_part: bool,
}

impl Explainer<'_> {
    /// Explains the first `most` of these rows of a table.
    pub fn explain(&self, table: TableId, rows: &[Row], most: usize) -> Explanation {
        let mut told = BTreeSet::new();
        let trees: Vec<Tree> = rows.iter().take(most).map(|row| self.tree(table, row, &mut told)).collect();
        Explanation { more: rows.len() - trees.len(), trees }
    }

    /// A program has no recursion, so this terminates.
    fn tree(&self, table: TableId, row: &Row, told: &mut BTreeSet<(TableId, Row)>) -> Tree {
        let program = self.state.program();
        let reason = if program.schema.table(table).role == Role::Input {
            Reason::Input((self.origin)(table, row).map(Origin::numbered))
        } else if told.insert((table, row.clone())) {
            let ways = self.state.derivations(table, row, WAYS);
            self.derived(&ways, told).unwrap_or(Reason::Open)
        } else {
            Reason::Told
        };
        Tree { table, row: row.clone(), reason }
    }

    /// The first of some ways, with the number of the others.
    fn derived(&self, ways: &[Derivation], told: &mut BTreeSet<(TableId, Row)>) -> Option<Reason> {
        let program = self.state.program();
        let mut bodies = ways.iter().map(|way| (program.rule(way.rule), Body::of(program, way)));
        let (rule, body) = bodies.next()?;
        Some(Reason::Rule {
            place: rule.place.clone(),
            from: body.rows.iter().map(|(table, row)| self.tree(*table, row, told)).collect(),
            more_rows: body.more_rows,
            other_ways: bodies.map(|(_, other)| other.other_ways + 1).sum::<usize>() + body.other_ways,
            more: self.is_part || ways.iter().any(|way| way.more),
            is_unsure: self.is_part && takes_all(program, rule),
        })
    }
}

/// Whether a rule needs all rows of a table: for an aggregate, or to know that no ordinary rule overrides a default.
fn takes_all(program: &Program, rule: &Rule) -> bool {
    let is_level = |item: &BodyItem| match item {
        BodyItem::Atom { table, .. } => {
            matches!(hidden_part(program.schema.table(*table)), Some((_, HiddenPart::Level)))
        }
        _ => false,
    };
    rule.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. })) || rule.body.iter().any(is_level)
}

impl ShowsInputs for Explanation {
    fn for_each_input(&mut self, visit: &mut dyn FnMut(TableId, &Row, &mut Option<Origin>)) {
        for tree in &mut self.trees {
            tree.for_each_input(visit);
        }
    }
}

impl Explanation {
    /// For people: a line for each row, those that it follows from below it.
    pub fn text(&self, program: &Program) -> String {
        let mut lines = Vec::new();
        for tree in &self.trees {
            tree.text(program, "", &mut lines);
        }
        if self.more > 0 {
            lines.push(format!("and {} more matching rows; --rows shows more", self.more));
        }
        lines.join("\n")
    }

    /// For programs.
    pub fn json(&self, program: &Program) -> Json {
        let rows: Vec<Json> = self.trees.iter().map(|tree| tree.json(program)).collect();
        json!({"rows": rows, "more": self.more})
    }
}

impl Tree {
    fn for_each_input(&mut self, visit: &mut dyn FnMut(TableId, &Row, &mut Option<Origin>)) {
        match &mut self.reason {
            Reason::Input(origin) => visit(self.table, &self.row, origin),
            Reason::Rule { from, .. } => from.iter_mut().for_each(|tree| tree.for_each_input(visit)),
            Reason::Told | Reason::Open => {}
        }
    }

    fn text(&self, program: &Program, indent: &str, lines: &mut Vec<String>) {
        let row = atom(program, self.table, &self.row);
        match &self.reason {
            Reason::Input(origin) => {
                let hook = program.hook_of(self.table);
                let hook = hook.map(|wiring| format!("hook {}", wiring.text(&program.schema)));
                let transaction = origin.as_ref().map(ToString::to_string);
                let origin: Vec<String> = hook.into_iter().chain(transaction).collect();
                let line = format!("{indent}{row}  {}", origin.join(", "));
                lines.push(line.trim_end().to_owned());
            }
            Reason::Told => lines.push(format!("{indent}{row}  as above")),
            Reason::Open => lines.push(format!("{indent}{row}  from rows that were not looked at")),
            Reason::Rule { place, from, more_rows, other_ways, more, is_unsure } => {
                let at_least = at_least(*more);
                let others = match other_ways {
                    0 => String::new(),
                    1 => format!(", and {at_least}one other way"),
                    others => format!(", and {at_least}{others} other ways"),
                };
                let unsure = if *is_unsure { ", of the rows that were looked at" } else { "" };
                lines.push(format!("{indent}{row}  {place}{others}{unsure}"));
                let deeper = format!("{indent}    ");
                for tree in from {
                    tree.text(program, &deeper, lines);
                }
                if *more_rows > 0 {
                    lines.push(format!("{deeper}and {at_least}{more_rows} more rows"));
                }
            }
        }
    }

    fn json(&self, program: &Program) -> Json {
        let mut object = row_json(program, self.table, &self.row);
        match &self.reason {
            Reason::Input(origin) => {
                Origin::add_to(origin.as_ref(), "txn", &mut object);
                if let Some(wiring) = program.hook_of(self.table) {
                    object["hook"] = json!(wiring.text(&program.schema));
                }
            }
            Reason::Told => object["told"] = json!(true),
            Reason::Open => object["open"] = json!(true),
            Reason::Rule { place, from, more_rows, other_ways, more, is_unsure } => {
                for (name, holds) in [("more", more), ("unsure", is_unsure)] {
                    if *holds {
                        object[name] = json!(true);
                    }
                }
                object["more_rows"] = json!(more_rows);
                object["rule"] = place_json(place);
                object["from"] = from.iter().map(|tree| tree.json(program)).collect();
                object["other_ways"] = json!(other_ways);
            }
        }
        object
    }
}

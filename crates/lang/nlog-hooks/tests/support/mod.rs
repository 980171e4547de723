//! Shared by the tests of hooks: numbers, programs, evaluators, and simple, slow implementations of hooks.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use composed_engine::Composed;
use nlog::Program;
use nlog_data::{
    CommitError, Committed, Evaluator, Row, Schema, TableDelta, Tables, Transaction, Value, json,
};
use nlog_dataflow::Dataflow;
use nlog_reference::{Hooked, Reference};
pub(crate) use test_random::Random;

/// Compiles a program that is right.
pub(crate) fn compile(text: &str) -> Arc<Program> {
    let compilation = nlog::compile(&nlog::Sources::from_texts([("test.nlog", text)]));
    match compilation.program {
        Some(program) => program,
        None => panic!("{text}\ndoes not compile: {:?}", compilation.diagnostics),
    }
}

/// Reads a transaction.
pub(crate) fn transaction(schema: &Schema, text: &str) -> Transaction {
    json::parse_line(text.as_bytes(), 1, schema).expect("the test's line is right").transaction
}

/// The program in which a hook fills an input table.
pub(crate) fn with_hook(program: &str, table: &str, hook: &str) -> String {
    let declared = program.find(&format!("input table {table}(")).expect("the test declares it");
    let end = declared + program[declared..].find(';').expect("a declaration ends");
    format!("{} from {hook}{}", &program[..end], &program[end..])
}

/// Ways to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Reference,
    /// Standard operators, by so many workers.
    Composed(usize),
    /// By so many workers.
    Fused(usize),
}

pub(crate) const ENGINES: [Engine; 6] = [
    Engine::Reference,
    Engine::Composed(1),
    Engine::Composed(2),
    Engine::Fused(1),
    Engine::Fused(2),
    Engine::Fused(3),
];

impl Engine {
    pub(crate) fn start(
        self,
        program: Arc<Program>,
        observe: Tables,
        attribute: bool,
    ) -> Result<Box<dyn Evaluator>, String> {
        match self {
            Engine::Reference => {
                let reference = Reference::new(program, observe);
                Ok(if attribute { Box::new(reference.with_attribution()) } else { Box::new(reference) })
            }
            Engine::Composed(workers) => {
                let options = composed_engine::Options { workers, observe, attribute, ..Default::default() };
                Ok(Box::new(Composed::new(program, options)?))
            }
            Engine::Fused(workers) => {
                let options = nlog_dataflow::Options { workers, observe, attribute, ..Default::default() };
                Ok(Box::new(Dataflow::new(program, options).map_err(|error| error.to_string())?))
            }
        }
    }

    /// The program with hooks.
    pub(crate) fn hooked(
        self,
        program: &Arc<Program>,
        observe: Tables,
        attribute: bool,
    ) -> Box<dyn Evaluator> {
        let evaluator = self.start(Arc::clone(program), observe, attribute).expect("it starts");
        if let Engine::Fused(_) = self {
            return evaluator;
        }
        let hooked = Hooked::new(program, evaluator, move |part, tables| self.start(part, tables, false));
        Box::new(hooked.expect("it starts"))
    }
}

/// A result as `weft eval` prints it, with the parts that `weft eval` omits.
pub(crate) fn said(result: &Result<Committed, CommitError>, schema: &Schema) -> String {
    let mut line = Vec::new();
    match result {
        Ok(committed) => {
            json::write_delta_line(&mut line, 1, &committed.delta, schema);
            let rules = committed.delta.tables.values().map(|table| (&table.rules, &table.reattributed));
            let rest = (committed.redundant_inserts, committed.redundant_deletes, rules.collect::<Vec<_>>());
            line.extend(format!("{rest:?}").bytes());
        }
        Err(CommitError::Refused(error)) => {
            json::write_error_line(&mut line, 1, error);
            line.extend(format!("{:?}", error.rule).bytes());
        }
        Err(error @ (CommitError::Stopped(_) | CommitError::Engine(_))) => {
            line.extend(error.to_string().bytes());
        }
    }
    String::from_utf8(line).expect("JSON is text")
}

/// The line alone.
pub(crate) fn line(result: &Result<Committed, CommitError>, schema: &Schema) -> String {
    said(result, schema).lines().next().unwrap_or_default().to_owned()
}

/// The difference between two sets of rows.
pub(crate) fn difference(before: &BTreeSet<Row>, after: &BTreeSet<Row>) -> TableDelta {
    TableDelta {
        insert: after.difference(before).cloned().collect(),
        delete: before.difference(after).cloned().collect(),
        ..TableDelta::default()
    }
}

/// The components of a graph, by propagating the least node until nothing changes.
pub(crate) fn components(edges: &BTreeSet<Row>) -> BTreeSet<Row> {
    let mut least: BTreeMap<&Value, &Value> = edges.iter().flatten().map(|node| (node, node)).collect();
    loop {
        let before = least.clone();
        for edge in edges {
            let both = least[&edge[0]].min(least[&edge[1]]);
            least.insert(&edge[0], both);
            least.insert(&edge[1], both);
        }
        if least == before {
            return least.into_iter().map(|(node, least)| vec![node.clone(), least.clone()]).collect();
        }
    }
}

/// The contents of a table after a transaction, and the time if it was a tick.
pub(crate) type Moment = (BTreeSet<Row>, Option<u64>);

/// The rows that hysteresis shows at the end of a history, from each row's whole history, moment by
/// moment.
pub(crate) fn hysteresis(history: &[Moment], rise: u64, fall: u64) -> BTreeSet<Row> {
    let all: BTreeSet<&Row> = history.iter().flat_map(|(rows, _)| rows).collect();
    all.into_iter().filter(|row| is_shown(row, history, rise, fall)).cloned().collect()
}

fn is_shown(row: &Row, history: &[Moment], rise: u64, fall: u64) -> bool {
    let mut shown = false;
    for at in 0..history.len() {
        let there = history[at].0.contains(row);
        if there == shown {
            continue;
        }
        let wait = if there { rise } else { fall };
        let begin = (0..at).rev().find(|earlier| history[*earlier].0.contains(row) != there);
        let since = begin.map_or(0, |before| before + 1);
        // The ticks since which the row has been in its current state without a break.
        let ticks: Vec<u64> = history[since..=at].iter().filter_map(|(_, tick)| *tick).collect();
        let long_enough = match (ticks.first(), history[at].1) {
            (Some(first), Some(now)) => now - first >= wait,
            _ => false,
        };
        if wait == 0 || long_enough {
            shown = there;
        }
    }
    shown
}

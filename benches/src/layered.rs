//! A program of 1,224 rules over 889 tables in 10 layers, and one changed row: the cost of a transaction that touches
//! few of many rules.
//!
//! A rule's first atom is a table of an earlier layer, usually the previous one; the others are usually *hubs*, inputs
//! in which many rules look something up. Every table has two columns: `head(a, d) :- first(a, b), second(b, c),
//! third(c, d);`. A new row in an input that is not a hub then passes through a dozen rules and changes a few rows of
//! the outputs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use clap::ValueEnum;
use composed_engine::Composed;
use nlog_data::{TableId, Transaction, Value};
use serde::{Deserialize, Serialize};

use crate::engine;
use crate::figure6::Latency;
use crate::inside::{Inside, Running};
use crate::measure;
use crate::nvp::random::Random;
use crate::report::{Aim, Line};

const RULES: usize = 1224;
const TABLES: usize = 889;
const LAYERS: usize = 10;
const INPUTS: usize = TABLES / 4;
const HUBS: usize = INPUTS / 5;
const SEED: u64 = 99;
/// Rules that a changed row reaches.
const REACH: std::ops::RangeInclusive<usize> = 5..=20;

struct Rule {
    head: usize,
    /// The body's tables; the rule starts from the first one.
    body: Vec<usize>,
}

struct Program {
    rules: Vec<Rule>,
    layer: Vec<usize>,
}

impl Program {
    fn generate(seed: u64) -> Program {
        let mut random = Random::new(seed);
        let layer: Vec<usize> = (0..TABLES)
            .map(|table| table.checked_sub(INPUTS).map_or(0, |at| 1 + at * LAYERS / (TABLES - INPUTS)))
            .collect();
        // Hubs are used only for lookups.
        let of_layer: Vec<Vec<usize>> =
            (0..=LAYERS).map(|of| (HUBS..TABLES).filter(|table| layer[*table] == of).collect()).collect();
        let mut rules: Vec<Rule> = Vec::new();
        let mut bodies = BTreeSet::new();
        while rules.len() < RULES {
            // Every table gets a rule before any gets a second one.
            let derived = TABLES - INPUTS;
            let head = INPUTS + if rules.len() < derived { rules.len() } else { random.below(derived) };
            let below = layer[head];
            let from = if random.percent(60) { below - 1 } else { random.below(below) };
            let mut body = vec![*random.pick(&of_layer[from])];
            let atoms = *random.pick(&[2, 2, 3, 3, 4]);
            while body.len() < atoms {
                let table = if random.percent(90) {
                    random.below(HUBS)
                } else {
                    let from = random.below(below);
                    *random.pick(&of_layer[from])
                };
                if !body.contains(&table) {
                    body.push(table);
                }
            }
            if bodies.insert((head, body.clone())) {
                rules.push(Rule { head, body });
            }
        }
        Program { rules, layer }
    }

    /// Tables that nothing reads, and all of the last layer.
    fn is_output(&self, table: usize) -> bool {
        table >= INPUTS
            && (self.layer[table] == LAYERS || self.rules.iter().all(|rule| !rule.body.contains(&table)))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for table in 0..TABLES {
            let role = match table {
                input if input < INPUTS => "input ",
                output if self.is_output(output) => "output ",
                _ => "",
            };
            let _ = writeln!(text, "{role}table t{table}(x: int, y: int);");
        }
        for rule in &self.rules {
            let atoms = rule.body.iter().enumerate();
            let atoms: Vec<String> =
                atoms.map(|(at, table)| format!("t{table}(v{at}, v{})", at + 1)).collect();
            let _ = writeln!(text, "t{}(v0, v{}) :- {};", rule.head, atoms.len(), atoms.join(", "));
        }
        text
    }

    /// The number of rules that a new row of this table passes through, and whether it reaches an output.
    fn reach(&self, table: usize) -> (usize, bool) {
        let mut reached = BTreeSet::from([table]);
        let (mut rules, mut comes_out) = (0, false);
        // Heads have greater numbers than the first tables of their rules, so no table comes twice.
        while let Some(table) = reached.pop_first() {
            for rule in self.rules.iter().filter(|rule| rule.body[0] == table) {
                rules += 1;
                reached.insert(rule.head);
            }
            comes_out |= self.is_output(table);
        }
        (rules, comes_out)
    }

    /// Inputs whose rows pass through about a dozen rules.
    fn candidates(&self) -> Vec<usize> {
        (HUBS..INPUTS)
            .filter(|table| {
                let (rules, comes_out) = self.reach(*table);
                comes_out && REACH.contains(&rules)
            })
            .collect()
    }
}

/// What runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// The engine that users get.
    Fused,
    /// The composition of differential's standard operators, over plain values.
    Composed,
    /// The first of them as an operator of a timely dataflow.
    Inside,
}

impl Side {
    fn start(self, program: Arc<nlog::Program>) -> Result<Running> {
        Ok(match self {
            Side::Fused => Running::Outside(Box::new(engine::start(program, 1)?)),
            Side::Composed => Running::Outside(Box::new(
                Composed::new(program, composed_engine::Options::default()).map_err(Error::msg)?,
            )),
            Side::Inside => Running::Inside(Inside::new(program, 1)?),
        })
    }
}

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Rows of each input.
    pub(crate) rows: usize,
    /// Transactions of one row that count.
    pub(crate) transactions: usize,
    /// Transactions before those that count.
    pub(crate) warm_up: usize,
}

/// The measurements of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From the program's text to a ready engine, in seconds.
    ready_s: f64,
    /// Rows in memory to deltas in memory, in seconds.
    load_s: f64,
    /// Memory after the load, in mebibytes.
    rest_mib: f64,
    /// Transactions of one row.
    row: Latency,
    /// Processor time in a second in which nothing happens, in milliseconds.
    idle_ms: f64,
    /// The number of all output rows, and their checksum.
    output: (u64, u64),
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(side: Side, run: Run) -> Result<Figures> {
    let program = Program::generate(SEED);
    let text = program.text();
    let start = Instant::now();
    let compiled = engine::compile("layered.nlog", &text)?;
    let schema = compiled.schema.clone();
    let mut engine = side.start(compiled)?;
    let ready_s = start.elapsed().as_secs_f64();

    let find = |table: usize| schema.find(&format!("t{table}")).context("a table is not declared");
    let number = |number: usize| Value::Int(number as i64);
    let mut load = Transaction::default();
    for table in 0..INPUTS {
        load.insert.insert(find(table)?, (0..run.rows).map(|row| vec![number(row), number(row)]).collect());
    }
    let start = Instant::now();
    let loaded = engine.commit(&load)?;
    let load_s = start.elapsed().as_secs_f64();
    let mut output = (0, 0);
    count(&mut output, &loaded);
    drop((loaded, load));
    let rest_mib = measure::resident_mib();

    let candidates = program.candidates();
    ensure!(candidates.len() > 10, "only {} inputs reach {REACH:?} rules", candidates.len());
    let mut took = Vec::new();
    for step in 0..run.warm_up + run.transactions {
        // Each row is inserted, and deleted in the next transaction.
        let row = vec![number(1_000_000 + step / 2), number(0)];
        let table = find(candidates[step / 2 * 7 % candidates.len()])?;
        let mut transaction = Transaction::default();
        let side = if step % 2 == 0 { &mut transaction.insert } else { &mut transaction.delete };
        side.insert(table, vec![row]);
        let start = Instant::now();
        let delta = engine.commit(&transaction)?;
        let elapsed = start.elapsed();
        if step >= run.warm_up {
            took.push(elapsed);
        }
        count(&mut output, &delta);
        // As in a controller, nothing waits after a transaction.
        engine.idle()?;
    }
    let before = measure::cpu();
    std::thread::sleep(Duration::from_secs(1));
    let idle_ms = measure::cpu().saturating_sub(before).as_secs_f64() * 1e3;
    Ok(Figures { ready_s, load_s, rest_mib, row: Latency::new(took), idle_ms, output })
}

/// Adds a delta to the count and the checksum of the output.
fn count(output: &mut (u64, u64), delta: &nlog_data::Delta) {
    for (TableId(table), delta) in &delta.tables {
        for (rows, sign) in [(&delta.insert, 1), (&delta.delete, -1_i64)] {
            for row in rows {
                let mut hash = u64::from(*table);
                for value in row {
                    let Value::Int(number) = value else { continue };
                    hash = (hash ^ *number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
                }
                output.0 += 1;
                output.1 = output.1.wrapping_add(hash.wrapping_mul(sign as u64));
            }
        }
    }
}

/// Compares the fused engine with the composition of standard operators, and inside timely with outside.
pub(crate) fn lines(runs: usize, run: Run) -> Result<Vec<Line>> {
    let child = |side: Side| -> Result<Figures> {
        let side = side.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let [rows, transactions] = [run.rows, run.transactions].map(|number| number.to_string());
        measure::child(&["layered-run", &side, "--rows", &rows, "--transactions", &transactions])
    };
    let agree = |ours: &Figures, baseline: &Figures| {
        ensure!(ours.output == baseline.output, "engines disagree: {:?}, {:?}", ours.output, baseline.output);
        Ok(())
    };
    let pairs = measure::in_turns(runs, || child(Side::Fused), || child(Side::Composed), agree)?;
    let inside = measure::in_turns(runs, || child(Side::Inside), || child(Side::Fused), agree)?;
    let compared =
        |pairs: &(Vec<Figures>, Vec<Figures>), what: &str, digits, aim, of: fn(&Figures) -> f64| {
            let column = |side: &[Figures]| side.iter().map(of).collect::<Vec<_>>();
            Line::compared(what, digits, column(&pairs.0), column(&pairs.1), aim)
        };
    let line = |what: &str, digits, aim, of| compared(&pairs, what, digits, aim, of);
    Ok(vec![
        line("1,224 rules in 10 layers: one row changed, median ms", 4, Aim::AtMost(0.04), |run| {
            run.row.median_ms
        }),
        line("… one row changed, p99 ms", 4, Aim::AtMost(0.12), |run| run.row.p99_ms),
        line("… processor time in an idle second, ms", 3, Aim::AtMost(0.1), |run| run.idle_ms),
        line("… text to ready, s", 3, Aim::AtMost(0.5), |run| run.ready_s),
        line(&format!("… load of {} rows in each input, s", run.rows), 3, Aim::None, |run| run.load_s),
        line("… memory at rest, MiB", 0, Aim::None, |run| run.rest_mib),
        compared(
            &inside,
            "… inside timely beside outside: one row changed, median ms",
            4,
            Aim::None,
            |run| run.row.median_ms,
        ),
        compared(&inside, "… inside timely: one row changed, p99 ms", 4, Aim::None, |run| run.row.p99_ms),
        compared(&inside, "… inside timely: load, s", 3, Aim::None, |run| run.load_s),
        compared(&inside, "… inside timely: memory at rest, MiB", 0, Aim::None, |run| run.rest_mib),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_has_its_size_and_the_row_its_reach() {
        let program = Program::generate(SEED);
        let compiled = engine::compile("layered.nlog", &program.text()).expect("it compiles");
        assert_eq!((compiled.schema.len(), compiled.rules.len()), (TABLES, RULES));
        let candidates = program.candidates();
        let reach: usize = candidates.iter().map(|table| program.reach(*table).0).sum();
        let mean = reach as f64 / candidates.len() as f64;
        assert!((8.0..16.0).contains(&mean), "{} inputs reach {mean} rules each", candidates.len());
    }

    #[test]
    fn all_sides_say_the_same() {
        let small = Run { rows: 2, transactions: 4, warm_up: 0 };
        let [ours, composed, inside] =
            [Side::Fused, Side::Composed, Side::Inside].map(|side| run(side, small).expect("it runs"));
        assert_eq!(ours.output, composed.output);
        assert_eq!(ours.output, inside.output);
        assert!(ours.output.0 > 0, "nothing came out");
    }
}

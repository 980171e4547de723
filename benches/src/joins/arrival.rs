//! The same rules and rows, but the rows come in small transactions to an engine that starts empty: how much more its
//! last transactions touch than if the plan had been made from the statistics of all rows.
//!
//! The measure is rows touched, as the engine counts them: rows that pipelines begin with and bindings that their probes
//! find. It does not depend on the machine.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use nlog::Program;
use nlog_data::{Evaluator as _, Row, TableId, Transaction, Value};
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::Settings;

use super::generate::{self, Case, MOST_ROWS};
use super::{RANDOM, statistics};
use crate::engine;
use crate::nvp::random::Random;
use crate::report::{Aim, Line};

/// Rows of a transaction.
const ROWS: usize = 100;

/// The last one in so many of the transactions are looked at.
const PART: usize = 10;

/// How rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// In any order.
    Mixed,
    /// One table after the other.
    ByTable,
}

/// Rows touched by the last transactions, times those of the plan made from the final statistics.
#[derive(Debug, Clone, Copy)]
struct Ratios {
    planning_anew: f64,
    /// The engine has no idle time: it plans anew between transactions alone.
    busy: f64,
    /// The plan that was made without statistics stays.
    without: f64,
}

/// Engines that start empty against engines that know what will come.
pub(crate) fn lines(seed: u64) -> Result<Vec<Line>> {
    let sets = [
        ("six-way joins", generate::random(seed, RANDOM, MOST_ROWS)),
        ("load balancers × datapaths", generate::like_ovn(seed, 1)),
    ];
    let mut lines = Vec::new();
    for (name, cases) in sets {
        for (arrival, how) in [(Arrival::Mixed, "mixed"), (Arrival::ByTable, "by table")] {
            let ratios = ratios(&cases, arrival, seed)?;
            let mut add = |plan: &str, aim, of: fn(&Ratios) -> f64| {
                let name = format!(
                    "{} {name}, {ROWS} rows at a time, {how}, {plan}: rows touched by the last tenth, times those of \
                     the plan for the final rows",
                    ratios.len()
                );
                lines.push(Line::worst(name, 2, ratios.iter().map(of).collect(), aim));
            };
            add("planned anew", Aim::AtMost(2.0), |ratios| ratios.planning_anew);
            add("planned anew, never idle", Aim::AtMost(2.0), |ratios| ratios.busy);
            add("plan of the start", Aim::None, |ratios| ratios.without);
        }
    }
    Ok(lines)
}

fn ratios(cases: &[Case], arrival: Arrival, seed: u64) -> Result<Vec<Ratios>> {
    let ratio = |case: &Case| -> Result<Ratios> {
        let program = engine::compile("join.nlog", &case.text())?;
        let transactions = transactions(case, &program, arrival, seed)?;
        let options = |planning| engine::options(1, planning);
        let informed =
            Settings { statistics: Some(statistics(case, &program)?.into()), ..Settings::default() };
        let informed = touched(&program, options(informed), &transactions, true)?;
        let by = |options: Options, idle: bool| -> Result<f64> {
            let here = touched(&program, options, &transactions, idle)?;
            ensure!(
                here.rows == informed.rows,
                "another plan derives {} rows, not {}",
                here.rows,
                informed.rows
            );
            Ok(here.last as f64 / informed.last as f64)
        };
        let kept = Options { plan_anew_from: usize::MAX, ..options(Settings::default()) };
        Ok(Ratios {
            planning_anew: by(options(Settings::default()), true)?,
            busy: by(options(Settings::default()), false)?,
            without: by(kept, false)?,
        })
    };
    cases.iter().map(|case| ratio(case).with_context(|| case.text())).collect()
}

/// The rows, some at a time.
fn transactions(case: &Case, program: &Program, arrival: Arrival, seed: u64) -> Result<Vec<Transaction>> {
    let mut rows: Vec<(TableId, Row)> = Vec::new();
    for atom in &case.atoms {
        let table = program.schema.find(&atom.table).context("an atom's table is not declared")?;
        let value = |value: &u32| Value::Int(i64::from(*value));
        rows.extend(atom.rows.iter().map(|row| (table, row.iter().map(value).collect())));
    }
    if arrival == Arrival::Mixed {
        let mut random = Random::new(seed ^ 0x0061_7272);
        for at in (1..rows.len()).rev() {
            rows.swap(at, random.below(at + 1));
        }
    }
    let transactions = rows.chunks(ROWS).map(|rows| {
        let mut transaction = Transaction::default();
        for (table, row) in rows {
            transaction.insert.entry(*table).or_default().push(row.clone());
        }
        transaction
    });
    // A controller begins with an empty transaction.
    Ok(std::iter::once(Transaction::default()).chain(transactions).collect())
}

/// What an engine did.
struct Touched {
    /// Rows that it derived in all.
    rows: usize,
    /// Rows that its last transactions touched.
    last: u64,
}

fn touched(
    program: &Arc<Program>,
    options: Options,
    transactions: &[Transaction],
    idle: bool,
) -> Result<Touched> {
    let mut engine = Dataflow::new(program.clone(), options)?;
    let all = |engine: &mut Dataflow| -> Result<u64> {
        let profile = engine.profile()?;
        Ok(profile.workers.iter().map(|load| load.rows + load.bindings).sum())
    };
    let first = transactions.len() - transactions.len().div_ceil(PART);
    let mut touched = Touched { rows: 0, last: 0 };
    for (at, transaction) in transactions.iter().enumerate() {
        let before = all(&mut engine)?;
        let delta = engine.commit(transaction)?.delta;
        touched.rows += delta.tables.values().map(|table| table.insert.len()).sum::<usize>();
        if at >= first {
            touched.last += all(&mut engine)? - before;
        }
        if idle {
            engine.idle()?;
        }
    }
    Ok(touched)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counted rows, not time: the aim of the bench, on fewer rules.
    #[test]
    fn an_engine_that_starts_empty_comes_to_the_plan_for_its_rows() {
        let cases = [generate::random(3, 8, 1500), generate::like_ovn(3, 3)].concat();
        for arrival in [Arrival::Mixed, Arrival::ByTable] {
            let ratios = ratios(&cases, arrival, 3).expect("they run");
            for (case, ratios) in cases.iter().zip(&ratios) {
                let worst = ratios.planning_anew.max(ratios.busy);
                assert!(worst <= 2.0, "{arrival:?}: {ratios:?}\n{}", case.text());
            }
            // Else there was nothing to gain.
            let worst = ratios.iter().map(|ratios| ratios.without).fold(0.0, f64::max);
            assert!(worst > 8.0, "{arrival:?}: {worst}");
        }
    }
}

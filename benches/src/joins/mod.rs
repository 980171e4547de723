//! Six-way joins whose written order is bad: compares the planner's order with the best of all 720.
//!
//! The measure is the number of rows touched: the rows that a pipeline starts with and those that each probe finds.
//! They determine the time and are the same on every machine. The engine's time is reported too, with the planner's
//! orders and with the best ones pinned. The join of every set of atoms is computed once, by separate code ([`count`]),
//! so that all orders can be compared. In reading order: [`generate`] (programs and rows), [`count`], this file,
//! [`arrival`] (the same rows in small transactions).

mod arrival;
mod count;
mod generate;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use nlog::Program;
use nlog_data::{ColumnDelta, ColumnTransaction, Columns, Evaluator as _, Role, Row, Value};
use nlog_plan::query::{Plan, RelationId, RulePlan, Start, Step};
use nlog_plan::{Counter, Pinned, PinnedJoins, Settings, Statistics};

use crate::engine;
use crate::measure::Clock;
use crate::report::{Aim, Line};
use count::Sizes;
use generate::{Atom, Case, MOST_ROWS};

/// The number of random programs, besides those similar to OVN's.
const RANDOM: usize = 40;
/// The number of loads with each plan; the fastest counts.
const LOADS: usize = 3;

/// How the planner's order compares with the best one.
#[derive(Debug, Clone, Copy)]
struct Ratios {
    with_statistics: f64,
    without: f64,
    /// The ratio for the written order.
    written: f64,
    /// The time of a load with statistics, relative to one with the best orders pinned.
    time: f64,
}

pub(crate) use arrival::lines as lines_of_arrival;

/// Compares the planner's orders with the best ones.
pub(crate) fn lines(seed: u64) -> Result<Vec<Line>> {
    let random = ratios(&generate::random(seed, RANDOM, MOST_ROWS))?;
    let like_ovn = ratios(&generate::like_ovn(seed, 1))?;
    let mut lines = Vec::new();
    for (name, ratios) in [("six-way joins", random), ("load balancers × datapaths", like_ovn)] {
        let mut add = |order: &str, aim, of: fn(&Ratios) -> f64| {
            let ratios: Vec<f64> = ratios.iter().map(of).collect();
            let name = format!("{} {name}, {order}: rows touched, times the best order's", ratios.len());
            lines.push(Line::worst(name, 2, ratios, aim));
        };
        add("with statistics", Aim::AtMost(2.0), |ratios| ratios.with_statistics);
        add("without statistics", Aim::None, |ratios| ratios.without);
        add("as written", Aim::None, |ratios| ratios.written);
        let times = ratios.iter().map(|ratios| ratios.time).collect();
        let name = format!(
            "{} {name}, with statistics: time of the load, times that of the best order",
            ratios.len()
        );
        lines.push(Line::alone(name, 2, times, Aim::None));
    }
    Ok(lines)
}

fn ratios(cases: &[Case]) -> Result<Vec<Ratios>> {
    let ratio = |case: &Case| -> Result<Ratios> {
        let sizes = Sizes::new(&case.atoms);
        let best = sizes.best();
        let program = engine::compile("join.nlog", &case.text())?;
        let (head, _) =
            program.schema.iter().find(|(_, table)| table.role == Role::Output).context("no head")?;
        let wanted = BTreeSet::from([head]);
        let plan = |settings: &Settings| Plan::new(program.clone(), &wanted, settings);
        let informed =
            Settings { statistics: Some(statistics(case, &program)?.into()), ..Settings::default() };
        let (with_statistics, without) = (plan(&informed), plan(&Settings::default()));
        let pinned = Settings { pinned: Some(best_pinned(&without, case, &sizes)), ..Settings::default() };
        let best_plan = plan(&pinned);
        ensure!(best_plan.warnings.is_empty(), "the best orders are not taken: {:?}", best_plan.warnings);
        let found = cost(&best_plan, case, &sizes)?;
        ensure!((found / best - 1.0).abs() < 1e-6, "the pinned plan touches {found} rows, not {best}");
        let time = {
            let (planned, pinned) = in_turns(case, &program, &informed, &pinned)?;
            planned / pinned
        };
        Ok(Ratios {
            with_statistics: cost(&with_statistics, case, &sizes)? / best,
            without: cost(&without, case, &sizes)? / best,
            written: sizes.cost(&(0..case.atoms.len()).collect::<Vec<_>>()) / best,
            time,
        })
    };
    cases.iter().map(|case| ratio(case).with_context(|| case.text())).collect()
}

/// The best order from each atom, with the best of all for the full load.
fn best_pinned(plan: &Plan, case: &Case, sizes: &Sizes) -> Pinned {
    let name = |at: &usize| case.atoms[*at].table.clone();
    let pipelines = (0..case.atoms.len()).map(|at| sizes.best_order(Some(at)).iter().map(name).collect());
    let orders = PinnedJoins {
        pipelines: pipelines.collect(),
        full: sizes.best_order(None).first().map(name),
        ..PinnedJoins::default()
    };
    let mut pinned = plan.pinned();
    for rule in pinned.rules.values_mut() {
        rule.stages = Vec::new();
        rule.orders = orders.clone();
    }
    pinned
}

/// The engine's time to load the rows, in seconds: the minimum of several alternating runs, planned and pinned.
fn in_turns(
    case: &Case,
    program: &Arc<Program>,
    planned: &Settings,
    pinned: &Settings,
) -> Result<(f64, f64)> {
    let mut transaction = ColumnTransaction::default();
    for atom in &case.atoms {
        let table = program.schema.find(&atom.table).context("an atom's table is not declared")?;
        transaction.insert.insert(table, columns(atom)?);
    }
    let load = |settings: &Settings| -> Result<(f64, ColumnDelta)> {
        let mut engine = engine::start_with(program.clone(), 1, settings.clone())?;
        let clock = Clock::start();
        let committed = engine.commit_columns(&transaction)?;
        Ok((clock.stop().1.as_secs_f64(), committed.delta))
    };
    let mut least = (f64::INFINITY, f64::INFINITY);
    for _ in 0..LOADS {
        let (planned, pinned) = (load(planned)?, load(pinned)?);
        ensure!(planned.1 == pinned.1, "the two plans derive different rows");
        least = (least.0.min(planned.0), least.1.min(pinned.0));
    }
    Ok(least)
}

/// The statistics of a state with exactly these rows.
fn statistics(case: &Case, program: &Program) -> Result<Statistics> {
    let counter = Counter::new(program);
    let mut statistics = Statistics::default();
    for atom in &case.atoms {
        let table = program.schema.find(&atom.table).context("an atom's table is not declared")?;
        statistics.tables.insert(atom.table.clone(), counter.count(table, &columns(atom)?));
    }
    Ok(statistics)
}

/// An atom's rows.
fn columns(atom: &Atom) -> Result<Columns> {
    let value = |value: &u32| Value::Int(i64::from(*value));
    let rows: Vec<Row> = atom.rows.iter().map(|row| row.iter().map(value).collect()).collect();
    Ok(Columns::from_rows(&rows)?)
}

/// Rows that the plan touches when all are loaded at once: stages first, then the rule. Stages count with all their
/// bindings, although a stage may have fewer rows.
fn cost(plan: &Plan, case: &Case, sizes: &Sizes) -> Result<f64> {
    let atom_of: BTreeMap<&str, usize> =
        case.atoms.iter().enumerate().map(|(at, atom)| (atom.table.as_str(), at)).collect();
    let mut covers: BTreeMap<RelationId, u32> = BTreeMap::new();
    for (at, relation) in plan.relations.iter().enumerate() {
        if let Some(atom) = atom_of.get(relation.name.as_str()) {
            covers.insert(RelationId(at as u32), 1 << atom);
        }
    }
    let mut rules: Vec<&RulePlan> = plan.rules.iter().collect();
    rules.sort_by_key(|rule| plan.relations[rule.head.0 as usize].level);
    let mut total = 0.0;
    for rule in rules {
        let mut set = 0;
        for atom in order(rule)? {
            set |= covers.get(&rule.body.atoms[atom]).context("an atom of unknown rows")?;
            total += sizes.of(set);
        }
        covers.insert(rule.head, set);
    }
    Ok(total)
}

/// The order of a rule's atoms in the full load.
fn order(rule: &RulePlan) -> Result<Vec<usize>> {
    let pipeline = rule.body.pipelines.get(rule.body.full).context("a rule without pipelines")?;
    let mut order = match pipeline.start {
        Start::Row { atom, .. } => vec![atom],
        Start::Once => Vec::new(),
    };
    order.extend(pipeline.steps.iter().filter_map(|step| match step {
        Step::Probe(probe) => Some(probe.atom),
        _ => None,
    }));
    ensure!(order.len() == rule.body.atoms.len(), "a pipeline that leaves atoms out");
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nlog_data::{Tables, Transaction};

    #[test]
    fn planned_orders_are_bounded_by_the_best_and_the_worst() {
        let cases = [generate::random(1, 4, 60), generate::like_ovn(1, 5)].concat();
        for (case, ratios) in cases.iter().zip(ratios(&cases).expect("they compile")) {
            assert!(
                ratios.with_statistics >= 0.999 && ratios.without >= 0.999,
                "{ratios:?}\n{}",
                case.text()
            );
            assert!(ratios.written >= generate::BAD, "{ratios:?}\n{}", case.text());
        }
    }

    #[test]
    fn counted_rows_are_those_that_the_reference_derives() {
        for case in generate::random(2, 3, 60) {
            let program = engine::compile("join.nlog", &case.text()).expect("it compiles");
            let schema = program.schema.clone();
            let head = schema.find("joined").expect("the head");
            let mut transaction = Transaction::default();
            for atom in &case.atoms {
                let table = schema.find(&atom.table).expect("declared");
                let rows =
                    atom.rows.iter().map(|row| row.iter().map(|n| Value::Int(i64::from(*n))).collect());
                transaction.insert.insert(table, rows.collect());
            }
            let mut reference = nlog_reference::Reference::new(program, Tables::Outputs);
            let delta = reference.commit(&transaction).expect("it is accepted").delta;
            let rows = delta.tables.get(&head).map_or(0, |delta| delta.insert.len());
            let all = (1 << case.atoms.len()) - 1;
            assert_eq!(rows, Sizes::new(&case.atoms).of(all) as usize, "{}", case.text());
        }
    }
}

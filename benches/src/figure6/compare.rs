//! Many runs of both sides in turns, and the resulting figures.

use anyhow::Result;
use clap::ValueEnum as _;

use super::{Figures, Run, Side};
use crate::measure;
use crate::report::{Aim, Line};

/// A run in a separate process.
fn child(side: Side, run: Run) -> Result<Figures> {
    let side = side.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let [divisor, workers, steps] = [run.divisor, run.workers, run.steps].map(|number| number.to_string());
    measure::child(&["figure6-run", &side, "--divisor", &divisor, "--workers", &workers, "--steps", &steps])
}

type Pairs = (Vec<Figures>, Vec<Figures>);

fn in_turns(runs: usize, ours: (Side, Run), baseline: (Side, Run)) -> Result<Pairs> {
    let agree = |ours: &Figures, baseline: &Figures| super::agree(&ours.output, &baseline.output);
    measure::in_turns(runs, || child(ours.0, ours.1), || child(baseline.0, baseline.1), agree)
}

fn line(what: &str, digits: usize, pairs: &Pairs, aim: Aim, of: fn(&Figures) -> f64) -> Line {
    let column = |side: &[Figures]| side.iter().map(of).collect::<Vec<_>>();
    Line::compared(what, digits, column(&pairs.0), column(&pairs.1), aim)
}

/// Compares with the handwritten dataflow: numbers to numbers, with targets, then values to values.
pub(crate) fn by_hand(runs: usize, run: Run) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let ids = in_turns(runs, (Side::WeftIds, run), (Side::HandIds, run))?;
    let mut add = |what, digits, aim, of| lines.push(line(what, digits, &ids, aim, of));
    add("Figure 6, numbers in memory to deltas in memory, s", 3, Aim::Ratio(0.6), |run| run.load_s);
    add("… processor time, s", 3, Aim::None, |run| run.load_cpu_s);
    add("… peak memory, MiB", 0, Aim::Ratio(1.3), |run| run.peak_mib);
    add("… memory at rest, MiB", 0, Aim::None, |run| run.rest_mib);
    add("… 10 ports moved, median ms", 3, Aim::Ratio(0.8), |run| run.moved.median_ms);
    add("… 10 ports moved, p99 ms", 3, Aim::Ratio(0.8), |run| run.moved.p99_ms);
    add("… 10 ports added, median ms", 3, Aim::Ratio(0.8), |run| run.added.median_ms);
    add("… 10 ports added, p99 ms", 3, Aim::Ratio(0.8), |run| run.added.p99_ms);
    add("… 10 ports removed, median ms", 3, Aim::None, |run| run.removed.median_ms);
    add("… 10 ports removed, p99 ms", 3, Aim::None, |run| run.removed.p99_ms);
    let after = |of: fn(&Figures) -> f64| ids.0.iter().map(of).collect::<Vec<_>>();
    lines.push(Line::alone(
        "… idle work after 10 ports moved, median ms",
        3,
        after(|run| run.idle.median_ms),
        Aim::None,
    ));
    lines.push(Line::alone(
        "… idle work after 10 ports moved, p99 ms",
        3,
        after(|run| run.idle.p99_ms),
        Aim::None,
    ));
    let columns = in_turns(runs, (Side::WeftColumns, run), (Side::HandValues, run))?;
    let rows = in_turns(runs, (Side::WeftRows, run), (Side::HandValues, run))?;
    let of_columns = [Aim::Ratio(1.2), Aim::Ratio(1.3)];
    let both = [("by columns", columns, of_columns), ("by rows", rows, [Aim::None, Aim::None])];
    for (name, pairs, [load, moved]) in both {
        let mut add = |what, digits, aim, of| {
            let what = format!("Figure 6 verbatim, values in memory {name}: {what}");
            lines.push(line(&what, digits, &pairs, aim, of));
        };
        add("load, s", 3, load, |run| run.load_s);
        add("peak memory, MiB", 0, Aim::None, |run| run.peak_mib);
        add("memory at rest, MiB", 0, Aim::None, |run| run.rest_mib);
        add("10 ports moved, median ms", 3, moved, |run| run.moved.median_ms);
        add("10 ports moved, p99 ms", 3, Aim::None, |run| run.moved.p99_ms);
        add("10 ports added, median ms", 3, Aim::None, |run| run.added.median_ms);
        add("10 ports added, p99 ms", 3, Aim::None, |run| run.added.p99_ms);
    }
    lines.extend(inside(runs, run)?);
    Ok(lines)
}

/// The engine as an operator of a timely dataflow beside the engine outside of it.
fn inside(runs: usize, run: Run) -> Result<Vec<Line>> {
    let pairs = in_turns(runs, (Side::WeftInside, run), (Side::WeftWords, run))?;
    let line = |what: &str, of| {
        let what = format!("Figure 6 verbatim, inside timely beside outside: {what}");
        line(&what, 3, &pairs, Aim::None, of)
    };
    Ok(vec![
        line("load, s", |run| run.load_s),
        line("peak memory, MiB", |run| run.peak_mib),
        line("10 ports moved, median ms", |run| run.moved.median_ms),
        line("10 ports moved, p99 ms", |run| run.moved.p99_ms),
        line("10 ports added, median ms", |run| run.added.median_ms),
    ])
}

/// Two workers of ours against one.
pub(crate) fn workers(runs: usize, run: Run) -> Result<Vec<Line>> {
    let two = (Side::WeftIds, Run { workers: 2, ..run });
    let pairs = in_turns(runs, two, (Side::WeftIds, Run { workers: 1, ..run }))?;
    Ok(vec![
        line("Figure 6, 2 workers against 1: load, s", 3, &pairs, Aim::Ratio(0.75), |run| run.load_s),
        line("… processor time, s", 3, &pairs, Aim::None, |run| run.load_cpu_s),
        line("… peak memory, MiB", 0, &pairs, Aim::None, |run| run.peak_mib),
        line("… 10 ports moved, median ms", 3, &pairs, Aim::None, |run| run.moved.median_ms),
    ])
}

/// Compares the load on numbers with that of another engine.
#[cfg(feature = "datalog")]
pub(crate) fn against(runs: usize, run: Run, side: Side, name: &str) -> Result<Vec<Line>> {
    let pairs = in_turns(runs, (Side::WeftIds, run), (side, run))?;
    Ok(vec![
        line(&format!("{name}, s"), 3, &pairs, Aim::Ratio(0.6), |run| run.load_s),
        line("… peak memory, MiB", 0, &pairs, Aim::Ratio(1.0), |run| run.peak_mib),
    ])
}

/// Compares the load, and transactions after it, with those of another program, whose runs `theirs` makes.
pub(crate) fn beside(
    runs: usize,
    run: Run,
    name: &str,
    theirs: impl FnMut() -> Result<Figures>,
) -> Result<Vec<Line>> {
    let agree = |ours: &Figures, theirs: &Figures| super::agree(&ours.output, &theirs.output);
    let pairs = measure::in_turns(runs, || child(Side::WeftIds, run), theirs, agree)?;
    let mut lines = Vec::new();
    let mut add = |what: &str, digits, aim, of| lines.push(line(what, digits, &pairs, aim, of));
    add(&format!("{name}, s"), 3, Aim::Ratio(0.6), |run| run.load_s);
    add("… processor time, s", 3, Aim::None, |run| run.load_cpu_s);
    add("… peak memory, MiB", 0, Aim::Ratio(1.0), |run| run.peak_mib);
    add("… 10 ports moved, median ms", 3, Aim::Ratio(0.6), |run| run.moved.median_ms);
    add("… 10 ports moved, p99 ms", 3, Aim::Ratio(0.6), |run| run.moved.p99_ms);
    add("… 10 ports added, median ms", 3, Aim::Ratio(0.6), |run| run.added.median_ms);
    add("… 10 ports added, p99 ms", 3, Aim::Ratio(0.6), |run| run.added.p99_ms);
    Ok(lines)
}

//! The network's own rules, hooks included, as an operator of a timely dataflow: beside the engine alone, and with two
//! workers of timely beside one.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use anyhow::{Result, ensure};
use nlog_data::{ColumnTransaction, Schema, Value};
use nlog_dataflow::fused::RawDelta;
use serde::{Deserialize, Serialize};

use super::drive::{ports, store};
use super::world::{Step, World};
use super::{Run, program};
use crate::figure6::Latency;
use crate::figure6::workload::Network;
use crate::inside::ByWords;
use crate::measure::{self, Clock};
use crate::nvp::random::Random;
use crate::report::{Aim, Line};

/// The measurements of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From columns in memory to changes in memory, in seconds.
    load_s: f64,
    /// The peak memory until then, in mebibytes.
    peak_mib: f64,
    /// Ten ports added, and removed again.
    ports: Latency,
    /// The number of rows that have changed, and their checksum.
    output: (u64, u64),
}

/// Adds the rows to a count and a checksum, whatever their order.
fn count(words: &RawDelta<'_>, output: &mut (u64, u64)) {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut hashes: HashMap<u32, u64> = HashMap::new();
    for changed in words.tables() {
        for (row, inserted) in changed.rows() {
            let mut hash = u64::from(changed.table.0);
            for word in row {
                let of_value = *hashes.entry(*word).or_insert_with(|| {
                    let value: Value = words.value(*word);
                    hasher.hash_one(value.to_string())
                });
                hash = (hash ^ of_value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            }
            output.0 += 1;
            output.1 = if inserted { output.1.wrapping_add(hash) } else { output.1.wrapping_sub(hash) };
        }
    }
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(run: Run, inside: bool) -> Result<Figures> {
    let network = Network::nvp_eval(run.divisor);
    let program = program()?;
    let schema = program.schema.clone();
    let start = if inside { ByWords::inside } else { ByWords::outside };
    let mut engine = start(program, run.workers)?;
    let mut store = store()?;
    let (mut world, load) = World::new(&network, run);
    let mut columns = |step: &Step, schema: &Schema| -> Result<Arc<ColumnTransaction>> {
        Ok(Arc::new(ColumnTransaction::from_rows(&step.transaction(&mut store, schema)?)?))
    };
    let transaction = columns(&load, &schema)?;
    drop(load);
    let mut output = (0, 0);
    let mut add = |words: &RawDelta<'_>| {
        count(words, &mut output);
        Ok(())
    };
    let clock = Clock::start();
    let changed = engine.commit(&transaction)?;
    let (took, _) = clock.stop();
    let peak_mib = measure::peak_mib();
    changed.each(&mut add)?;
    drop((changed, transaction));

    let (mut random, mut latencies) = (Random::new(0x696e_7369_6465), Vec::new());
    for _ in 0..run.steps {
        let step = ports(&network, &mut world, &mut random);
        for step in [&step, &step.inverse()] {
            let transaction = columns(step, &schema)?;
            let clock = Clock::start();
            let changed = engine.commit(&transaction)?;
            latencies.push(clock.stop().0);
            changed.each(&mut add)?;
        }
    }
    Ok(Figures { load_s: took.as_secs_f64(), peak_mib, ports: Latency::new(latencies), output })
}

/// The engine inside timely beside alone, and two workers of timely beside one.
pub(crate) fn lines(runs: usize, run: Run) -> Result<Vec<Line>> {
    let child = |workers: usize, inside: bool| -> Result<Figures> {
        let arguments = Run { workers, ..run }.arguments("operator-run");
        let inside = inside.then_some("--inside");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(inside).collect();
        measure::child(&arguments)
    };
    let same = |ours: &Figures, baseline: &Figures| {
        ensure!(ours.output == baseline.output, "the rows differ: {:?}, {:?}", ours.output, baseline.output);
        Ok(())
    };
    let compared = |what: &str, [load, memory]: [Aim; 2], (ours, baseline): &(Vec<Figures>, Vec<Figures>)| {
        let line = |figure: &str, digits, aim, of: fn(&Figures) -> f64| {
            let column = |side: &[Figures]| side.iter().map(of).collect::<Vec<_>>();
            Line::compared(format!("{what}: {figure}"), digits, column(ours), column(baseline), aim)
        };
        vec![
            line("load, s", 2, load, |run| run.load_s),
            line("peak memory, MiB", 0, memory, |run| run.peak_mib),
            line("10 ports added or removed, median ms", 2, Aim::None, |run| run.ports.median_ms),
            line("10 ports added or removed, p99 ms", 2, Aim::None, |run| run.ports.p99_ms),
        ]
    };
    let alone = measure::in_turns(runs, || child(1, true), || child(1, false), same)?;
    let two = measure::in_turns(runs, || child(2, true), || child(1, true), same)?;
    let mut lines =
        compared("network rules inside timely beside alone", [Aim::Ratio(1.1), Aim::Ratio(1.1)], &alone);
    lines.extend(compared("… two of timely's workers beside one", [Aim::Ratio(0.75), Aim::Ratio(1.2)], &two));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_says_what_the_engine_says() {
        let of = |workers, inside| super::run(Run::plain(100, 3, workers), inside).expect("it runs").output;
        let alone = of(1, false);
        assert!(alone.0 > 1000, "{alone:?}");
        assert_eq!(alone, of(1, true));
        assert_eq!(alone, of(2, true));
    }
}

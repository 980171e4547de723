//! A restart from saved derived rows: a process loads a network and saves what its engine holds; another one, which starts with the
//! program and the file, goes on from there. Ten ports are then added in both, with the same answer.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash as _, Hasher as _};
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use nlog_data::{Delta, Evaluator as _, Memories};
use serde::{Deserialize, Serialize};

use super::drive::{Driver, ports, start, store};
use super::world::{Step, World};
use super::{Run, line};
use crate::figure6::workload::Network;
use crate::measure::{self, Clock};
use crate::nvp::random::Random;
use crate::report::{Aim, Line};

/// The measurements of the process that saves.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    load_s: f64,
    save_s: f64,
    file_mib: f64,
    answer: u64,
    memories: Memories,
}

/// The measurements of the process that goes on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Restarted {
    /// From the compiled program to the answer for ten ports, in seconds.
    answered_s: f64,
    /// Until the engine holds all rows, in seconds.
    restored_s: f64,
    /// The transaction of the ten ports, in milliseconds.
    ports_ms: f64,
    /// The memory of the process then, in mebibytes, without the objects of the network.
    rest_mib: f64,
    answer: u64,
}

/// A number for a delta, whatever the order of its rows.
fn number_of(delta: &Delta) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (table, changes) in &delta.tables {
        for rows in [&changes.insert, &changes.delete] {
            let mut rows: Vec<_> = rows.iter().collect();
            rows.sort_unstable();
            (table, rows).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Ten ports that both processes add.
fn ten_ports(network: &Network, world: &mut World) -> Step {
    ports(network, world, &mut Random::new(0x7265_7374_6172_7400))
}

/// Loads a network in this process, saves what the engine holds, and adds the ports.
pub(crate) fn save(run: Run, file: &Path) -> Result<Saved> {
    let network = Network::nvp_eval(run.divisor);
    let (mut driver, load) = Driver::load(&network, run)?;
    let clock = Clock::start();
    let memories = driver.engine.memories();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    driver.engine.save_derived(&mut out).map_err(anyhow::Error::msg)?;
    out.flush()?;
    let (save, _) = clock.stop();
    let step = ten_ports(&network, &mut driver.world);
    let committed = driver.engine.commit(&step.transaction(&mut driver.store, &driver.schema)?)?;
    Ok(Saved {
        load_s: load.time_s,
        save_s: save.as_secs_f64(),
        file_mib: file.metadata()?.len() as f64 / f64::from(1 << 20),
        answer: number_of(&committed.delta),
        memories,
    })
}

/// Goes on in this process, which ends after it. The memories are in a file beside the rows.
pub(crate) fn run(run: Run, file: &Path, memories: &Path) -> Result<Restarted> {
    let network = Network::nvp_eval(run.divisor);
    // The objects are the caller's; what becomes of them is the engine's.
    let mut store = store()?;
    let (mut world, load) = World::new(&network, run);
    let schema = super::program()?.schema.clone();
    drop(load.transaction(&mut store, &schema)?);
    drop(load);
    let ports = ten_ports(&network, &mut world).transaction(&mut store, &schema)?;
    let before = measure::resident_mib();

    let clock = Clock::start();
    let memories: Memories = serde_json::from_slice(&std::fs::read(memories)?)?;
    let mut engine = start(run)?;
    engine.restore(&memories)?;
    let rows = File::open(file)?;
    let length = rows.metadata()?.len();
    // As `weft eval` reads them.
    let mut rows = BufReader::new(rows);
    engine
        .restore_derived(&mut (&mut rows as &mut dyn Read).take(length))
        .map_err(anyhow::Error::msg)
        .context("the saved rows cannot be used")?;
    let (restored, _) = clock.stop();
    let one = Clock::start();
    let committed = engine.commit(&ports)?;
    let (took, _) = one.stop();
    let (answered, _) = clock.stop();
    Ok(Restarted {
        answered_s: answered.as_secs_f64(),
        restored_s: restored.as_secs_f64(),
        ports_ms: took.as_secs_f64() * 1e3,
        rest_mib: measure::resident_mib() - before,
        answer: number_of(&committed.delta),
    })
}

/// The figures of several restarts from one file.
pub(crate) fn lines(runs: usize, settings: Run) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the rows")?;
    let [file, memories] = ["rows", "memories"].map(|name| folder.path().join(name));
    let (divisor, paths) =
        (settings.divisor.to_string(), [file.to_string_lossy(), memories.to_string_lossy()]);
    let mut arguments = vec!["restart-run", "--divisor", &divisor, &*paths[0], &*paths[1]];
    arguments.extend(settings.reach.iter().flat_map(|reach| ["--reach", reach.name()]));
    arguments.push("--save");
    let saved: Saved = measure::child(&arguments)?;
    std::fs::write(&memories, serde_json::to_vec(&saved.memories)?)?;
    arguments.pop();
    let all: Result<Vec<Restarted>> = (0..=runs).map(|_| measure::child(&arguments)).collect();
    let all = all?.split_off(1);
    ensure!(all.iter().all(|run| run.answer == saved.answer), "a restarted engine answers otherwise");
    let alone = |what: &str, digits, figure| Line::alone(what, digits, vec![figure], Aim::None);
    Ok(vec![
        line(
            &all,
            "network rules, restart from saved rows until ten ports are answered, s",
            2,
            Aim::AtMost(1.0),
            |run| run.answered_s,
        ),
        line(&all, "… until the rows are there, s", 2, Aim::None, |run| run.restored_s),
        line(&all, "… the ten ports, ms", 1, Aim::AtMost(50.0), |run| run.ports_ms),
        line(&all, "… memory then, MiB", 0, Aim::None, |run| run.rest_mib),
        alone("… the load before that, s", 2, saved.load_s),
        alone("… saving, s", 2, saved.save_s),
        alone("… the file, MiB", 0, saved.file_mib),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_network_answers_as_the_one_that_went_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, memories] = ["rows", "memories"].map(|name| folder.path().join(name));
        let settings = Run::plain(100, 1, 1);
        let saved = save(settings, &file).expect("it loads");
        std::fs::write(&memories, serde_json::to_vec(&saved.memories).expect("JSON")).expect("a file");
        assert_eq!(run(settings, &file, &memories).expect("it goes on").answer, saved.answer);
    }
}

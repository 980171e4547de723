//! The start of a whole controller on nvp-eval: from saved rows, against one that derives all rows.
//!
//! Each pair is two processes on one journal, whose hosts have reported their ports and cannot be reached. The first one derives its rows,
//! answers a transaction and is stopped in order, which saves them; the second begins with these.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::Run;
use super::traced::record;
use crate::daemon::Daemon;
use crate::report::{Aim, Line};

/// The file of saved rows below the folder.
const ROWS: &str = "state/engine.rows";

/// One life of a controller.
struct Life {
    /// Until the first transaction is answered.
    answered_s: f64,
    /// At rest.
    rest_mib: f64,
    peak_mib: f64,
    /// From the signal to the end of the process.
    stopped_s: f64,
    /// The flows of a host, as a checksum.
    flows: usize,
}

/// Starts a controller in a folder, applies a switch of this name, and stops it.
fn live(folder: &Path, name: &str) -> Result<Life> {
    let begun = Instant::now();
    let mut daemon = Daemon::start(folder)?;
    let object = format!("{{kind: switch, id: {name}}}");
    daemon.ask(async |client| Ok(client.apply([("net.yaml".to_owned(), object)], "bench").await?))?;
    let answered_s = begun.elapsed().as_secs_f64();
    let (rest_mib, peak_mib) = (daemon.at_rest()?, daemon.peak_mib()?);
    let flows = daemon.ask(async |client| Ok(client.flows("hv-0").await?))?.flows.len();
    let begun = Instant::now();
    daemon.stop()?;
    Ok(Life { answered_s, rest_mib, peak_mib, stopped_s: begun.elapsed().as_secs_f64(), flows })
}

/// The figures.
pub(crate) fn lines(runs: usize, settings: Run) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().context("cannot make a folder for the controller")?;
    record(settings, folder.path())?.0.write(folder.path())?;
    let rows = folder.path().join(ROWS);
    let (mut derived, mut restored, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=runs {
        if run > 0 {
            fs::remove_file(&rows)?;
        }
        let one = live(folder.path(), &format!("derived-{run}"))?;
        sizes.push(fs::metadata(&rows)?.len() as f64 / f64::from(1 << 20));
        let other = live(folder.path(), &format!("restored-{run}"))?;
        ensure!(one.flows == other.flows && one.flows > 0, "the starts find different flows");
        if run > 0 {
            derived.push(one);
            restored.push(other);
        }
    }
    let each = |lives: &[Life], figure: fn(&Life) -> f64| lives.iter().map(figure).collect::<Vec<f64>>();
    let compared = |what: &str, digits, aim, figure: fn(&Life) -> f64| {
        Line::compared(what, digits, each(&restored, figure), each(&derived, figure), aim)
    };
    Ok(vec![
        compared(
            "a controller's start until the first transaction is answered, s (from saved rows, against deriving them)",
            2,
            Aim::AtMost(2.0),
            |life| life.answered_s,
        ),
        compared("… resident memory at rest, MiB", 0, Aim::Ratio(1.2), |life| life.rest_mib),
        compared("… peak memory, MiB", 0, Aim::None, |life| life.peak_mib),
        Line::alone(
            "… the stop, which saves the rows, s",
            2,
            each(&derived, |life| life.stopped_s),
            Aim::None,
        ),
        Line::alone("… the file, MiB", 0, sizes, Aim::None),
    ])
}

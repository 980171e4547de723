//! The journal alone: what it costs above a plain write and sync, how many transactions share a sync, how many bytes a change has.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use controller::journal::Replay;
use serde_json::{Value as Json, json};
use weft_client::Client;

use crate::daemon::{Daemon, write_journal};
use crate::recorded::Recorded;
use crate::report::{Aim, Line};

/// Appends of each side in a run.
const APPENDS: usize = 500;
/// Clients that change objects at the same time, and the changes of each.
const WRITERS: usize = 100;
const CHANGES: usize = 20;
/// Hosts of the controller that they ask.
const HOSTS: usize = 10;

/// The figures.
pub(crate) fn lines(runs: usize) -> Result<Vec<Line>> {
    let (mut ours, mut plain, mut above, mut shared, mut bytes) = Default::default();
    for run in 0..=runs {
        let appends = appends()?;
        let [with_writers, of_port] = writers()?;
        if run > 0 {
            let sides: [&mut Vec<f64>; 5] = [&mut ours, &mut plain, &mut above, &mut shared, &mut bytes];
            let figures = [appends[0], appends[1], appends[0] - appends[1], with_writers, of_port];
            sides.into_iter().zip(figures).for_each(|(side, figure)| side.push(figure));
        }
    }
    Ok(vec![
        Line::compared(
            "a record in the journal, ms (against one write and fdatasync of the same bytes)",
            3,
            ours,
            plain,
            Aim::None,
        ),
        Line::alone("… above it, ms", 3, above, Aim::AtMost(0.2)),
        Line::alone(
            format!("transactions a sync with {WRITERS} writers (aim: at least 20)"),
            1,
            shared,
            Aim::None,
        ),
        Line::alone("bytes of a changed port in the journal", 0, bytes, Aim::AtMost(200.0)),
    ])
}

/// A port as somebody changes it: `round` gives it another value.
fn port(number: usize, round: usize) -> Json {
    let secure = round.is_multiple_of(2);
    json!({"kind": "switch_port", "id": format!("w{number}"), "switch": "s0", "port_security": secure,
        "addresses": [{"mac": format!("06:00:00:00:00:{number:02x}"), "ips": [format!("10.200.0.{number}")]}]})
}

/// The milliseconds of a record in the journal, and of a plain write and sync of the same bytes: medians, by turns.
fn appends() -> Result<[f64; 2]> {
    let folder = tempfile::tempdir()?;
    let mut recorded = Recorded::new()?;
    recorded.apply([json!({"kind": "switch", "id": "s0"})])?;
    for round in 0..APPENDS {
        recorded.apply([port(1, round)])?;
    }
    let records = recorded.records();
    let mut journal = Replay::open(&folder.path().join("state"))?.finish()?;
    let path = journal.path().to_owned();
    let plain = folder.path().join("plain");
    let mut plain = OpenOptions::new().create_new(true).append(true).open(plain)?;
    let (mut times, mut len) = ([Vec::new(), Vec::new()], 0);
    for record in records {
        let begun = Instant::now();
        journal.append([record])?;
        times[0].push(begun.elapsed().as_secs_f64() * 1e3);
        let now = std::fs::metadata(&path)?.len();
        let bytes = vec![b'x'; usize::try_from(now - len)?];
        len = now;
        times[1].push(write(&mut plain, &bytes)?);
    }
    Ok(times.map(median))
}

/// The milliseconds of a plain write and sync.
fn write(file: &mut File, bytes: &[u8]) -> Result<f64> {
    let begun = Instant::now();
    file.write_all(bytes)?;
    file.sync_data()?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The transactions for each sync while many clients change a port each, and the bytes of such a change.
fn writers() -> Result<[f64; 2]> {
    let folder = tempfile::tempdir()?;
    write_journal(folder.path(), HOSTS)?;
    let mut daemon = Daemon::start(folder.path())?;
    let all: Vec<Json> = (0..WRITERS).map(|number| port(number, 1)).collect();
    daemon.ask(async |client| Ok(client.apply([file(&all)], "bench").await?))?;
    let journal = folder.path().join("state/journal.jsonl");
    let before = records(&journal)?.len();
    let endpoint = format!("unix:{}", folder.path().join("weft.sock").display());
    daemon.ask(async |_| {
        let mut writers = Vec::new();
        for number in 0..WRITERS {
            let endpoint = endpoint.clone();
            writers.push(tokio::spawn(async move {
                let mut client = Client::connect(&endpoint).await?;
                for round in 0..CHANGES {
                    client.apply([file(&[port(number, round)])], "bench").await?;
                }
                Ok::<_, anyhow::Error>(())
            }));
        }
        for writer in writers {
            writer.await??;
        }
        Ok(())
    })?;
    daemon.stop()?;
    let changed = &records(&journal)?[before..];
    ensure!(changed.len() == WRITERS * CHANGES, "{} transactions instead of all", changed.len());
    let syncs = changed.iter().map(|(group, _)| group).collect::<BTreeSet<_>>().len();
    let bytes = median(changed.iter().map(|(_, bytes)| *bytes as f64).collect());
    Ok([changed.len() as f64 / syncs as f64, bytes])
}

/// Objects as a file.
fn file(objects: &[Json]) -> (String, String) {
    let lines: Vec<String> = objects.iter().map(Json::to_string).collect();
    ("net.jsonl".to_owned(), lines.join("\n"))
}

/// The group of each line of a journal, and the length of the line in bytes.
fn records(journal: &Path) -> Result<Vec<(u64, usize)>> {
    let group = |line: &str| -> Result<u64> {
        let line: Json = serde_json::from_str(line)?;
        line["group"].as_u64().context("a record has a group")
    };
    let text = std::fs::read_to_string(journal)?;
    text.lines().map(|line| Ok((group(line)?, line.len() + 1))).collect()
}

//! The start of a whole controller on nvp-eval: from saved rows, against one that derives all rows.
//!
//! Each pair is two processes on one journal, whose hosts have reported their ports and cannot be reached. The first one derives its rows,
//! answers a transaction and is stopped in order, which saves them; the second begins with these. Further processes have a snapshot taken of
//! them and go on with other rules, while a client changes objects.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use weft_client::pb::{LoadRulesRequest, RulesFile};
use weft_client::{Changes, Client};
use weft_core::Rules;
use weft_core::record::RulesText;

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

/// Work on a controller that takes transactions meanwhile.
struct Beside {
    took_s: f64,
    /// The longest of the transactions.
    transaction_ms: f64,
}

/// What a controller does beside its transactions.
struct Aside {
    snapshot: Beside,
    snapshot_mib: f64,
    diff: Beside,
    edit: Beside,
    replace: Beside,
}

/// What is known of transactions beside some work.
#[derive(Default)]
struct Transactions {
    count: Cell<u64>,
    longest: Cell<Duration>,
    is_over: Cell<bool>,
}

impl Transactions {
    /// Applies one switch after another, each of which waits for the one before, until it is over.
    async fn run(&self, endpoint: &str) -> Result<()> {
        let mut client = Client::connect(endpoint).await?;
        while !self.is_over.get() {
            let object = format!("{{kind: switch, id: beside, tenant: t{}}}", self.count.get());
            let begun = Instant::now();
            client.apply([("net.yaml".to_owned(), object)], "bench").await?;
            self.longest.set(self.longest.get().max(begun.elapsed()));
            self.count.set(self.count.get() + 1);
        }
        Ok(())
    }
}

/// Does some work while a second client changes objects. The transaction that waits when the work ends counts too.
async fn beside<T>(endpoint: &str, work: impl Future<Output = Result<T>>) -> Result<(Beside, T)> {
    let (begun, transactions) = (Instant::now(), Transactions::default());
    let work = Box::pin(async {
        let worked = work.await;
        transactions.is_over.set(true);
        (worked, begun.elapsed())
    });
    let ((worked, took), ran) = tokio::join!(work, transactions.run(endpoint));
    ran?;
    ensure!(transactions.count.get() > 0, "no transaction was answered meanwhile");
    let transaction_ms = transactions.longest.get().as_secs_f64() * 1e3;
    Ok((Beside { took_s: took.as_secs_f64(), transaction_ms }, worked?))
}

/// The request that goes on with the built-in rules, of which each text is another one.
fn rules(edit: impl Fn(String) -> String) -> Result<Changes> {
    let RulesText { packages, files } =
        Rules::built_in()?.text().context("the built-in rules have a text")?;
    let files = files.into_iter().map(|(name, text)| RulesFile { name: name.to_string(), text: edit(text) });
    let (files, by) = (files.collect(), "bench".to_owned());
    Ok(Changes::LoadRules(LoadRulesRequest { files, packages, by, terms: None }))
}

/// The question of `weft rules diff`: the same, tried out and undone.
fn diff(edit: impl Fn(String) -> String) -> Result<Changes> {
    let mut changes = rules(edit)?;
    changes.terms().dry_run = true;
    Ok(changes)
}

/// One rule is another one: a flow of each host gets another priority.
fn one_changed(text: String) -> String {
    text.replace("NEVER_FORWARDED of PORT_SECURITY = 200;", "NEVER_FORWARDED of PORT_SECURITY = 201;")
}

/// One more input table is declared: the engine cannot be edited.
fn one_declared(text: String) -> String {
    text.replace("priority NEVER_FORWARDED ", "input table of_bench(x: int);\npriority NEVER_FORWARDED ")
}

/// Goes on with other rules, which change switches, while a client changes objects.
fn load(daemon: &mut Daemon, endpoint: &str, rules: Changes) -> Result<Beside> {
    let load = async |client: &mut Client| {
        let load = Box::pin(client.change(rules));
        beside(endpoint, async { Ok(load.await?) }).await
    };
    let (load, done) = daemon.ask(load)?;
    ensure!(done.delta.is_some_and(|delta| delta.switches > 0), "no switch changes");
    Ok(load)
}

fn asides(folder: &Path) -> Result<Aside> {
    let mut daemon = Daemon::start(folder)?;
    // It has started when it answers a transaction, for which clients wait longer than for other answers.
    daemon.ask(async |client| {
        Ok(client.apply([("net.yaml".to_owned(), "{kind: switch, id: beside}".to_owned())], "bench").await?)
    })?;
    // What a start leaves for later is no part of these figures.
    daemon.at_rest()?;
    let endpoint = format!("unix:{}", folder.join("weft.sock").display());
    let (snapshot, file) =
        daemon.ask(async |client| beside(&endpoint, async { Ok(client.snapshot().await?) }).await)?;
    let diff = load(&mut daemon, &endpoint, diff(one_changed)?)?;
    let edit = load(&mut daemon, &endpoint, rules(one_changed)?)?;
    let replace = load(&mut daemon, &endpoint, rules(one_declared)?)?;
    // The next run begins with these.
    daemon.ask(async |client| Ok(client.change(rules(|text| text)?).await?))?;
    daemon.stop()?;
    Ok(Aside { snapshot, snapshot_mib: file.len() as f64 / f64::from(1 << 20), diff, edit, replace })
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
    let asides = (0..runs).map(|_| asides(folder.path())).collect::<Result<Vec<Aside>>>()?;
    let of_asides = |figure: fn(&Aside) -> f64| asides.iter().map(figure).collect::<Vec<f64>>();
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
        Line::alone(
            "a snapshot of a running controller, s",
            2,
            of_asides(|aside| aside.snapshot.took_s),
            Aim::AtMost(5.0),
        ),
        Line::alone("… its file, MiB", 1, of_asides(|aside| aside.snapshot_mib), Aim::AtMost(60.0)),
        Line::alone(
            "… the longest transaction meanwhile, ms",
            1,
            of_asides(|aside| aside.snapshot.transaction_ms),
            Aim::None,
        ),
        Line::alone(
            "the diff of one changed rule, s",
            2,
            of_asides(|aside| aside.diff.took_s),
            Aim::AtMost(0.3),
        ),
        Line::alone(
            "… the longest transaction meanwhile, ms",
            0,
            of_asides(|aside| aside.diff.transaction_ms),
            Aim::None,
        ),
        Line::alone(
            "one changed rule, until it is in effect, s (the engine is edited)",
            2,
            of_asides(|aside| aside.edit.took_s),
            Aim::AtMost(1.0),
        ),
        Line::alone(
            "… the longest transaction meanwhile, ms",
            0,
            of_asides(|aside| aside.edit.transaction_ms),
            Aim::None,
        ),
        Line::alone(
            "one more input table, until the rules run, s (another engine)",
            2,
            of_asides(|aside| aside.replace.took_s),
            Aim::None,
        ),
        Line::alone(
            "… the longest transaction meanwhile, ms",
            0,
            of_asides(|aside| aside.replace.transaction_ms),
            Aim::None,
        ),
    ])
}

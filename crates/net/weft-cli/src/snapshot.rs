//! `weft snapshot`: all that a controller has recorded, as one file.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use controller::journal::FoldError;
use controller::snapshots::{self, RestoreSnapshotError};
use nlog_data::Cancel;
use nlog_data::quotation::grouped;
use serde_json::{Value as Json, json};
use weft_core::anonymise::{Mapping, Secret, anonymise};
use weft_core::record::Record;
use weft_core::rules::Rules;

use crate::client::{Address, failed};
use crate::exit::{Failure, print_as, say};
use crate::recorded::{self, Head, Recorded};
use crate::replacement::Replacement;

/// Arguments of `weft snapshot`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft snapshot take net.weft                 of the running controller\n  \
        weft snapshot take net.weft --of STATE      of a state folder or a journal\n  \
        weft snapshot take net.weft --anonymise     for somebody who must not see names and addresses\n  \
        weft snapshot show net.weft                 its moment, rules, objects and rows\n  \
        weft replay net.weft --host hv1             the flows of a host in it\n  \
        weft snapshot restore net.weft STATE        a folder in which a controller can start\n\n\
        A snapshot is one line of a journal, compressed by Zstandard (`zstdcat net.weft`). What takes\n\
        transactions takes it too: `weft trace builtin -i net.weft web-1`.")]
pub(crate) struct SnapshotCommand {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write a file with the state of a controller: objects, reports, numbers, rules
    Take(Take),
    /// Say what is in such a file
    Show(Show),
    /// Make a state folder of such a file, to start a controller in
    Restore(Restore),
}

/// What an anonymised state keeps, and what it loses.
const ANONYMISED: &str = "\
    --anonymise replaces ids, labels and other texts by numbered names, and MAC and IP addresses and\n\
    prefixes by others, each one everywhere by the same. Prefixes still contain what they did, and all\n\
    that rules choose by an order of names is chosen as before. So faults stay: objects, problems,\n\
    refusals, flows, and what traces say.\n\n\
    These stay as they are: numbers (VLANs, ports, limits, transactions), times, words that the rules\n\
    contain, private, loopback, link-local and multicast blocks, the last 8 bits of IPv4 and 16 of IPv6\n\
    addresses; and the text and the file names of your own rules, so read these before you send them.\n\n\
    What is chosen by a hash of names can differ: which hosts lead branches of replication trees or\n\
    relay. So can what is chosen by an order of addresses.";

#[derive(Args)]
#[command(after_help = ANONYMISED)]
struct Take {
    /// The file to write
    file: PathBuf,
    /// Of this state folder, journal or snapshot; without, of a controller
    #[arg(long, value_name = "RECORDED")]
    of: Option<PathBuf>,
    /// Replace names and addresses, so that others can have the file
    #[arg(long)]
    anonymise: bool,
    /// Write what was replaced by what to this file, for yourself
    #[arg(long, value_name = "FILE", requires = "anonymise")]
    names: Option<PathBuf>,
    #[command(flatten)]
    address: Address,
}

#[derive(Args)]
struct Show {
    /// A snapshot, a journal or a state folder
    #[arg(value_name = "RECORDED")]
    file: PathBuf,
    /// Show it with other names and addresses, as `take --anonymise` would write it
    #[arg(long)]
    anonymise: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Restore {
    /// A snapshot or a journal
    #[arg(value_name = "RECORDED")]
    file: PathBuf,
    /// The folder, which is empty or does not exist: a controller's `state`
    folder: PathBuf,
}

impl SnapshotCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.task {
            Task::Take(take) => take.run(),
            Task::Show(show) => show.run(),
            Task::Restore(restore) => restore.run(),
        }
    }
}

impl Take {
    fn run(self) -> Result<(), Failure> {
        let Take { file, of, anonymise, names, address } = self;
        let cannot = |error| Failure::outside(format!("cannot write {}", file.display()), error);
        // First, so that nobody waits in vain.
        let replacement = Replacement::of(&file).map_err(cannot)?;
        let names = names.map(Names::begin).transpose()?;
        let snapshot_of = |recorded: &Recorded| {
            let (record, rules, _) = state(recorded)?;
            if anonymise { anonymous(&record, &rules, names) } else { compressed(&record) }
        };
        let bytes = if let Some(of) = of {
            snapshot_of(&Recorded::open(&of, None)?)?
        } else {
            let taken = address.with(|mut client| async move { client.snapshot().await.map_err(failed) })?;
            if anonymise {
                snapshot_of(&Recorded::open(&recorded::temporary(&taken)?, None)?)?
            } else {
                taken
            }
        };
        replacement.file().write_all(&bytes).map_err(cannot)?;
        replacement.finish().map_err(cannot)?;
        let written = Recorded::open(&file, None)?;
        let Head { txn, at, .. } = written.first();
        say(format_args!("{}: {}, {} bytes", file.display(), moment(*txn, at), grouped(bytes.len())));
        Ok(())
    }
}

/// The state at the end of what is recorded, its rules, and how many transactions there are one by one.
fn state(recorded: &Recorded) -> Result<(Record, Rules, u64), Failure> {
    let rules = recorded.rules(&recorded.last_until(None)?)?;
    let sum = snapshots::sum(recorded.records()?, None, &rules, &Cancel::default());
    let (record, transactions) = sum.map_err(|error| fold_failure(&error))?;
    Ok((record, rules, transactions))
}

fn compressed(record: &Record) -> Result<Vec<u8>, Failure> {
    snapshots::of_record(record).map_err(|error| Failure::outside("cannot compress the snapshot", error))
}

/// The snapshot of a state under other names. Its secret is forgotten.
fn anonymous(record: &Record, rules: &Rules, names: Option<Names>) -> Result<Vec<u8>, Failure> {
    let (record, mapping) = anonymised(record, rules)?;
    let bytes = compressed(&record)?;
    names.map_or(Ok(()), |names| names.write(&mapping))?;
    Ok(bytes)
}

/// The snapshot of what is recorded under other names, and which these are.
pub(crate) fn renamed(recorded: &Recorded) -> Result<(Vec<u8>, Mapping), Failure> {
    let (record, rules, _) = state(recorded)?;
    let (record, mapping) = anonymised(&record, &rules)?;
    Ok((compressed(&record)?, mapping))
}

fn anonymised(record: &Record, rules: &Rules) -> Result<(Record, Mapping), Failure> {
    const SOURCE: &str = "/dev/urandom";
    let mut secret = Secret::default();
    let random = File::open(SOURCE).and_then(|mut random| random.read_exact(&mut secret));
    random.map_err(|error| Failure::outside(format!("cannot read {SOURCE}"), error))?;
    anonymise(record, rules, secret).map_err(|error| Failure::Rejected(error.to_string()))
}

/// A file for what was replaced, which its owner alone can read.
pub(crate) struct Names {
    path: PathBuf,
    replacement: Replacement,
}

impl Names {
    /// Begins to write it.
    pub(crate) fn begin(path: PathBuf) -> Result<Names, Failure> {
        let begun = Replacement::of(&path).and_then(|replacement| {
            replacement.file().set_permissions(Permissions::from_mode(0o600))?;
            Ok(replacement)
        });
        let cannot = |error| Failure::outside(format!("cannot write {}", path.display()), error);
        Ok(Names { replacement: begun.map_err(cannot)?, path })
    }

    /// Writes a line of JSON for each name and address: the old one and the new one.
    pub(crate) fn write(self, mapping: &Mapping) -> Result<(), Failure> {
        let lines: Vec<String> =
            mapping.pairs().map(|(old, new)| format!("{}\n", json!([old, new]))).collect();
        let written = self.replacement.file().write_all(lines.concat().as_bytes());
        let written = written.and_then(|()| self.replacement.finish());
        written.map_err(|error| Failure::outside(format!("cannot write {}", self.path.display()), error))
    }
}

/// The failure of adding records up.
pub(crate) fn fold_failure(error: &FoldError) -> Failure {
    match error {
        FoldError::Journal(error) => recorded::failure(error),
        error => Failure::Rejected(error.to_string()),
    }
}

fn moment(txn: u64, at: &str) -> String {
    format!("transaction {} of {at}", grouped(txn as usize))
}

impl Show {
    fn run(self) -> Result<(), Failure> {
        let (record, rules, transactions) = state(&Recorded::open(&self.file, None)?)?;
        let record = if self.anonymise { anonymised(&record, &rules)?.0 } else { record };
        let rows = |record: &Record| -> BTreeMap<String, usize> {
            record.insert.iter().map(|(table, rows)| (table.to_string(), rows.len())).collect()
        };
        let found = Found { objects: objects(&record), rows: rows(&record), record, transactions };
        print_as(self.json, &if self.json { format!("{}\n", found.json()) } else { found.text() })
    }
}

/// What is in a file.
struct Found {
    /// The state at its end.
    record: Record,
    /// The transactions that it has one by one.
    transactions: u64,
    objects: BTreeMap<String, usize>,
    rows: BTreeMap<String, usize>,
}

/// The number of objects of each kind.
fn objects(record: &Record) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for object in &record.objects.put {
        let kind = serde_json::from_str::<Json>(object.text()).ok();
        let kind = kind.as_ref().and_then(|object| object.get("kind")).and_then(Json::as_str);
        *counts.entry(kind.unwrap_or("?").to_owned()).or_default() += 1;
    }
    counts
}

impl Found {
    fn json(&self) -> Json {
        let Found { record, transactions, objects, rows } = self;
        let rules = record.base.as_ref().and_then(|base| base.rules.as_ref());
        let rules = rules.map(|rules| json!({"packages": rules.packages, "files": rules.files.len()}));
        json!({
            "txn": record.txn,
            "at": record.at,
            "journal": record.base.as_ref().map(|base| &base.journal),
            "transactions": transactions,
            "rules": rules,
            "objects": objects,
            "rows": rows,
            "memories": record.memory.keys().collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let Found { record, transactions, objects, rows } = self;
        let journal = record.base.as_ref().map_or("", |base| &base.journal);
        let mut text = format!("{}\njournal {journal}\n", moment(record.txn, &record.at));
        let one_by_one = match transactions {
            0 => "no transaction before it one by one: deltas begin after it".to_owned(),
            count => format!("the last {} one by one", grouped(*count as usize)),
        };
        text += &format!("transactions: {one_by_one}\n");
        if let Some(rules) = record.base.as_ref().and_then(|base| base.rules.as_ref()) {
            text += &format!("rules: {} ({} files)\n", rules.packages.join(", "), rules.files.len());
        }
        text += &format!("objects: {}\n", counts(objects));
        text += &format!("rows: {}\n", counts(rows));
        let memories: Vec<&str> = record.memory.keys().map(String::as_str).collect();
        text + &format!(
            "hooks with a memory: {}\n",
            if memories.is_empty() { "none".to_owned() } else { memories.join(", ") }
        )
    }
}

/// Numbers by name, the greatest first.
fn counts(counts: &BTreeMap<String, usize>) -> String {
    let mut counts: Vec<(&String, &usize)> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let all: Vec<String> =
        counts.iter().map(|(name, count)| format!("{} {name}", grouped(**count))).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

impl Restore {
    fn run(self) -> Result<(), Failure> {
        let Restore { file, folder } = self;
        let txn = snapshots::restore(&file, &folder).map_err(|error| match error {
            RestoreSnapshotError::Journal(error) => recorded::failure(&error),
            error => Failure::Rejected(error.to_string()),
        })?;
        say(format_args!(
            "{}: a controller can start with `state = {:?}`, at transaction {}; the switches belong to the journal that the snapshot was taken \
             of, so no other controller of it may run",
            folder.display(),
            folder.display().to_string(),
            grouped(txn as usize)
        ));
        Ok(())
    }
}

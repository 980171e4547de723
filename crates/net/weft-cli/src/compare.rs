//! Two states of a network, compared by their objects, by what switches should have, and by problems: `weft rules diff`, and
//! `weft diff --from A --to B`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use clap::Args;
use controller::delta_message;
use objects::{Object, ObjectKey};
use serde_json::{Value as Json, json};
use weft_client::{message_json, pb};
use weft_core::core::{Core, History, Problem};
use weft_core::rules::Rules;
use weft_core::switch_delta::SwitchDelta;

use crate::client::{Address, delta, failed};
use crate::exit::{Failure, print_as, say};
use crate::recorded::{self, Head, Recorded};

/// Arguments of `weft rules diff`.
#[derive(Args)]
pub(crate) struct RulesDiff {
    /// The other rules, as one program; `builtin` is the built-in ones
    #[arg(required = true, value_name = "RULES")]
    rules: Vec<PathBuf>,
    /// In this snapshot, journal or state folder; without, in a controller
    #[arg(long, value_name = "RECORDED")]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    address: Address,
}

/// How a comparison is shown, and when it counts as too much.
#[derive(Args, Clone, Copy)]
pub(crate) struct Form {
    /// Exit with 1 if more than this changes in switches
    #[arg(long, value_name = "N")]
    max_changes: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Form {
    /// The form of a command that has an option `--json` of its own.
    pub(crate) fn new(max_changes: Option<u64>, json: bool) -> Self {
        Form { max_changes, json }
    }
}

impl RulesDiff {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let RulesDiff { rules, snapshot, form, address } = self;
        // Mistakes in the rules first: they need no controller.
        let rules = Rules::load(&rules).map_err(|error| Failure::Rejected(error.to_string()))?;
        let taken;
        let file = if let Some(file) = &snapshot {
            file.as_path()
        } else {
            let bytes = address.with(|mut client| async move { client.snapshot().await.map_err(failed) })?;
            taken = recorded::temporary(&bytes)?;
            &*taken
        };
        let recorded = Recorded::open(file, None)?;
        let at = recorded.last_until(None)?;
        let before = core_at(&recorded, &at, recorded.rules(&at)?, 1)?;
        for table in forgotten(before.rules(), &rules) {
            say(format_args!(
                "warning: no hook of these rules fills {table}: the numbers that it has given are forgotten, and others may get them"
            ));
        }
        compare(&before, &core_at(&recorded, &at, rules, 1)?, form)
    }
}

/// The tables of hooks with a memory that other rules do not have.
fn forgotten<'r>(before: &'r Rules, after: &Rules) -> Vec<&'r str> {
    let tables = |rules: &'r Rules| -> BTreeSet<&'r str> { rules.remembered_tables().collect() };
    let after: BTreeSet<&str> = after.remembered_tables().collect();
    tables(before).into_iter().filter(|table| !after.contains(table)).collect()
}

/// Compares what two files have recorded, each at its end and with its own rules.
pub(crate) fn files(from: &std::path::Path, to: &std::path::Path, form: Form) -> Result<(), Failure> {
    let core = |file| {
        let recorded = Recorded::open(file, None)?;
        let at = recorded.last_until(None)?;
        core_at(&recorded, &at, recorded.rules(&at)?, 1)
    };
    compare(&core(from)?, &core(to)?, form)
}

/// The network after a transaction, with these rules.
pub(crate) fn core_at(recorded: &Recorded, at: &Head, rules: Rules, workers: usize) -> Result<Core, Failure> {
    let rejected =
        |error: &dyn std::fmt::Display| Failure::Rejected(format!("{}: {error}", recorded.file().display()));
    let rules = Arc::new(rules);
    let mut history = History::new(&rules);
    for record in recorded.records()? {
        let record = record.map_err(|error| recorded::failure(&error))?;
        if record.txn > at.txn {
            break;
        }
        history.add(&record).map_err(|error| rejected(&error))?;
    }
    let evaluator = controller::evaluator(&rules, workers).map_err(Failure::Outside)?;
    let restored = Core::restore(evaluator, rules, history, SystemTime::UNIX_EPOCH);
    restored.map(|(core, _)| core).map_err(|error| rejected(&error))
}

/// Prints what differs.
fn compare(before: &Core, after: &Core, form: Form) -> Result<(), Failure> {
    let difference = Difference::between(before, after);
    let pb::SwitchDelta { added, replaced, deleted, others, .. } = difference.switches;
    let changes = added + replaced + deleted + others;
    print_as(form.json, &if form.json { format!("{}\n", difference.json()) } else { difference.text() })?;
    match form.max_changes {
        Some(most) if changes > most => Err(Failure::Rejected(format!(
            "{changes} things change in switches, more than --max-changes {most}"
        ))),
        _ => Ok(()),
    }
}

struct Difference {
    /// Objects, and what becomes of them.
    objects: BTreeMap<ObjectKey, &'static str>,
    switches: pb::SwitchDelta,
    new_problems: Vec<Arc<Problem>>,
    resolved: Vec<Arc<Problem>>,
}

impl Difference {
    fn between(before: &Core, after: &Core) -> Self {
        let objects = |core: &Core| -> BTreeMap<ObjectKey, Arc<Object>> {
            core.objects().iter().map(|(key, object)| (key, object.clone())).collect()
        };
        let (was, is) = (objects(before), objects(after));
        let text = |object: &Object| serde_json::to_string(object).unwrap_or_default();
        let word = |key: &ObjectKey| match (was.get(key), is.get(key)) {
            (None, _) => Some("created"),
            (_, None) => Some("deleted"),
            (Some(was), Some(is)) => (text(was) != text(is)).then_some("updated"),
        };
        let keys: BTreeSet<&ObjectKey> = was.keys().chain(is.keys()).collect();
        let changed = keys.into_iter().filter_map(|key| Some((key.clone(), word(key)?))).collect();
        let [old, new] =
            [before, after].map(|core| core.problems().cloned().collect::<BTreeSet<Arc<Problem>>>());
        let rules = [after, before].map(|core| core.rules().clone());
        Difference {
            objects: changed,
            switches: delta_message(&SwitchDelta::between(before, after), &rules),
            new_problems: new.difference(&old).cloned().collect(),
            resolved: old.difference(&new).cloned().collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (key, word) in &self.objects {
            text += &format!("{key}: {word}\n");
        }
        text += &delta::to_text(&self.switches);
        text + &problem_lines(&self.new_problems, &self.resolved)
    }

    fn json(&self) -> Json {
        let object = |(key, outcome): (&ObjectKey, &&str)| json!({"kind": &*key.kind, "id": &*key.id, "outcome": outcome});
        json!({
            "objects": self.objects.iter().map(object).collect::<Vec<_>>(),
            "delta": message_json::to_json(&self.switches),
            "new_problems": self.new_problems.iter().map(problem_json).collect::<Vec<_>>(),
            "resolved_problems": self.resolved.iter().map(problem_json).collect::<Vec<_>>(),
        })
    }
}

/// A line for each problem that comes or goes.
pub(crate) fn problem_lines(new: &[Arc<Problem>], resolved: &[Arc<Problem>]) -> String {
    let line = |word: &str, problem: &Arc<Problem>| {
        format!("{word}: {} {}: {}\n", problem.kind, problem.id, problem.text)
    };
    let new = new.iter().map(|problem| line("new problem", problem));
    new.chain(resolved.iter().map(|problem| line("problem resolved", problem))).collect()
}

/// A problem as JSON.
pub(crate) fn problem_json(problem: &Arc<Problem>) -> Json {
    let Problem { kind, id, code, text } = &**problem;
    json!({"kind": kind, "id": id, "code": code, "text": text})
}

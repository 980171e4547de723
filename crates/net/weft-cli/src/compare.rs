//! What differs between two states of a network: objects, what switches should have, and problems. `weft diff --from A --to B` compares
//! two files, and `weft rules diff` prints the same of other rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use clap::Args;
use controller::delta_message;
use objects::{Object, ObjectKey};
use serde_json::{Value as Json, json};
use weft_client::{message_json, pb};
use weft_core::core::{Core, Problem};
use weft_core::rules::Rules;
use weft_core::shown;
use weft_core::switch_delta::SwitchDelta;

use crate::client::{cost, delta};
use crate::exit::{Failure, print_as, say};
use crate::recorded::{Head, Recorded};

/// How a comparison is shown, and when it counts as too much.
#[derive(Args, Clone, Copy)]
pub(crate) struct Form {
    /// Exit with 1 if more than this changes in switches
    #[arg(long, value_name = "N")]
    max_changes: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Form {
    /// The form of a command that has an option `--json` of its own.
    pub(crate) fn new(max_changes: Option<u64>, json: bool) -> Self {
        Form { max_changes, json }
    }
}

/// Compares what two files have recorded, each at its end and with its own rules.
pub(crate) fn files(from: &Path, to: &Path, form: Form) -> Result<(), Failure> {
    let core = |file| {
        let recorded = Recorded::open(file, None)?;
        let at = recorded.last_until(None)?;
        core_at(&recorded, &at, recorded.rules(&at)?, 1)
    };
    Difference::between(&core(from)?, &core(to)?).print(form)
}

/// The network after a transaction, with these rules.
pub(crate) fn core_at(recorded: &Recorded, at: &Head, rules: Rules, workers: usize) -> Result<Core, Failure> {
    let rules = Arc::new(rules);
    let history = recorded.history(at.txn, &rules)?;
    let evaluator = controller::evaluator(&rules, workers).map_err(Failure::Outside)?;
    let restored = Core::restore(evaluator, rules, history, SystemTime::UNIX_EPOCH);
    restored.map(|(core, _)| core).map_err(|error| recorded.rejected(error))
}

/// What differs between two states of a network.
#[derive(Default)]
pub(crate) struct Difference {
    /// Objects, and what becomes of them.
    pub(crate) objects: BTreeMap<ObjectKey, &'static str>,
    pub(crate) switches: pb::SwitchDelta,
    pub(crate) new_problems: BTreeSet<Arc<Problem>>,
    pub(crate) resolved: BTreeSet<Arc<Problem>>,
    /// If the rules differ: how an engine comes from one state to the other.
    pub(crate) engine: Option<pb::EngineTransition>,
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
            engine: None,
        }
    }

    /// Prints it. Fails if more changes than the form allows.
    pub(crate) fn print(&self, form: Form) -> Result<(), Failure> {
        let pb::SwitchDelta { added, replaced, deleted, others, .. } = self.switches;
        let changes = added + replaced + deleted + others;
        print_as(form.json, &if form.json { format!("{}\n", self.json()) } else { self.text() })?;
        if let Some(engine) = self.engine.as_ref().filter(|_| !form.json) {
            say(cost(engine));
        }
        match form.max_changes {
            Some(most) if changes > most => Err(Failure::Rejected(format!(
                "{changes} things change in switches, more than --max-changes {most}"
            ))),
            _ => Ok(()),
        }
    }

    /// What a person reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (key, word) in &self.objects {
            text += &format!("{key}: {word}\n");
        }
        text += &delta::to_text(&self.switches);
        text + &problem_lines(&self.new_problems, &self.resolved)
    }

    /// The same as JSON.
    pub(crate) fn json(&self) -> Json {
        let object = |(key, outcome): (&ObjectKey, &&str)| json!({"kind": &*key.kind, "id": &*key.id, "outcome": outcome});
        let mut difference = json!({
            "objects": self.objects.iter().map(object).collect::<Vec<_>>(),
            "delta": message_json::to_json(&self.switches),
            "new_problems": self.new_problems.iter().map(problem_json).collect::<Vec<_>>(),
            "resolved_problems": self.resolved.iter().map(problem_json).collect::<Vec<_>>(),
        });
        if let Some(engine) = &self.engine {
            difference["engine"] = message_json::to_json(engine);
        }
        difference
    }
}

/// A line for each problem that comes or goes.
fn problem_lines(new: &BTreeSet<Arc<Problem>>, resolved: &BTreeSet<Arc<Problem>>) -> String {
    let line = |word: &str, problem: &Arc<Problem>| {
        format!("{word}: {} {}: {}\n", problem.kind, problem.id, shown(&problem.text))
    };
    let new = new.iter().map(|problem| line("new problem", problem));
    new.chain(resolved.iter().map(|problem| line("problem resolved", problem))).collect()
}

/// A problem as JSON.
fn problem_json(problem: &Arc<Problem>) -> Json {
    let Problem { kind, id, code, text } = &**problem;
    json!({"kind": kind, "id": id, "code": code, "text": text})
}

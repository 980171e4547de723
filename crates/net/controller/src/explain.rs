//! Why rows and flows exist or are missing in the network as it is now, for whoever asks. Nothing is kept for it.
//!
//! As for a trace, the engine thread hands out a [`Snapshot`], and rows are derived on demand away from it. Flows are not derived:
//! the desired states have them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use nlog::diagnostic::{Style, to_text};
use nlog::program::Pattern;
use nlog::{ATOM, Severity};
use nlog_data::{Cancel, Row, Value};
use nlog_explain::tree::Explainer;
use nlog_explain::{OnDemand, explanation, printed};
use packet_trace::{AskedFlow, AskedObject, FlowName, ObjectExplainer, Question};
use serde_json::{Value as Json, json};
use switch_model::{Desired, FlowKey, Flows, Lasting as _};
use tonic::Status;
use tracing::debug;
use weft_client::pb;
use weft_client::pb::row_question::About;
use weft_core::builtin;
use weft_core::neighbourhood::WHOLE_MAX;
use weft_core::rules::Rules;
use weft_core::snapshot::Snapshot;

use crate::aside::{COMBINATIONS, Place, asked_for};
use crate::engine::Engine;
use crate::trace::flows_of;

/// The most rows that are explained if the request names no number.
const ROWS: usize = 10;

/// What is wanted of a question.
pub(crate) enum Form {
    /// Why the rows exist.
    Explanation {
        /// The most rows; zero stands for the usual number.
        rows: u32,
        json: bool,
    },
    /// Why there is none.
    WhyNot { json: bool },
}

/// The answer to a question, for which this is the place.
///
/// # Errors
/// The question cannot be read, or has no answer; or the controller stops.
pub(crate) async fn answer(
    engine: &Engine,
    rules: &Arc<Rules>,
    question: Option<pb::RowQuestion>,
    form: Form,
    journal: Arc<Path>,
    place: Place,
) -> Result<String, Status> {
    let about = question.and_then(|question| question.about);
    let about = about.ok_or_else(|| Status::invalid_argument("the request asks about nothing"))?;
    if let About::Object(object) = about {
        return of_object(engine, object, form, journal, place).await;
    }
    let of_rules = rules.clone();
    let question = blocking(move || read(&of_rules, about)).await?.map_err(Status::invalid_argument)?;
    let names = names(engine, &question).await?;
    let snapshot = engine.snapshot(names.clone(), None).await.map_err(stopping)?;
    let snapshot = snapshot.map_err(|error| Status::internal(error.to_string()))?;
    let answer = move |cancel: &Cancel| {
        Case { names: &names, question: &question, snapshot, journal: &journal }.answer(&form, cancel)
    };
    place.work(answer).await
}

/// The answer about an object.
async fn of_object(
    engine: &Engine,
    object: pb::ObjectRef,
    form: Form,
    journal: Arc<Path>,
    place: Place,
) -> Result<String, Status> {
    let asked = AskedObject { kind: object.kind, id: object.id };
    let Form::Explanation { json, .. } = form else {
        let why = format!("weft explain {}/{} says what an object lacks to work", asked.kind, asked.id);
        return Err(Status::invalid_argument(why));
    };
    let snapshot = engine.snapshot(vec![asked.id.clone()], None).await.map_err(stopping)?;
    let snapshot = snapshot.map_err(|error| Status::internal(error.to_string()))?;
    place.work(move |cancel| object_answer(snapshot, &asked, json, &journal, cancel)).await
}

#[allow(clippy::result_large_err, reason = "as tonic has it")]
fn object_answer(
    mut snapshot: Snapshot,
    asked: &AskedObject,
    json: bool,
    journal: &Path,
    cancel: &Cancel,
) -> Result<String, Status> {
    let origins = std::mem::take(&mut snapshot.origins);
    let state = OnDemand::new(Arc::clone(snapshot.rules.program()), origins.into_keys());
    state.bound(COMBINATIONS, cancel);
    let flows = |host: &str| flows_of(&snapshot.desired, host);
    let explainer =
        ObjectExplainer { state: &state, origin: &|_, _| None, flows: &flows, is_part: !snapshot.is_whole };
    let answer = explainer.explain(asked);
    if state.is_exhausted() {
        let why = format!(
            "the answer takes too long for a running controller: name a program and the journal: builtin -i STATE/journal.jsonl {}/{}",
            asked.kind, asked.id
        );
        return Err(Status::resource_exhausted(why));
    }
    let mut answer = answer.map_err(Status::not_found)?;
    asked_for(&mut answer, state.program(), journal);
    Ok(if json { answer.json().to_string() } else { answer.text() })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Status::internal(error.to_string()))
}

fn stopping(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

fn read(rules: &Rules, about: About) -> Result<Question, String> {
    match about {
        About::Row(row) => Ok(Question::Rows(pattern(rules, &row)?)),
        About::Flow(pb::HostFlow { node, flow }) => Question::of_flow(rules.program(), &node, &flow),
        About::Object(pb::ObjectRef { kind, id }) => {
            Err(format!("{kind} {id} is an object, and no row or flow"))
        }
    }
}

/// Reads a row with the rules that the controller has read at its start. It keeps their meaning only, so they are read again.
fn pattern(rules: &Rules, row: &str) -> Result<Pattern, String> {
    if let Some(pattern) = printed::pattern(rules.program(), row) {
        return Ok(pattern);
    }
    let other = "the files of the rules are not those that the controller runs: they have changed since it started; restart it, or name \
                 the former files and the journal: FILES -i STATE/journal.jsonl ROW";
    let sources = builtin::load(rules.packages()).map_err(|error| format!("{other} ({error})"))?;
    let (sources, compilation, pattern) = nlog::compile_with_atom(&sources, row);
    let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let (of_row, of_rules): (Vec<_>, Vec<_>) = errors.partition(|error| *error.file == *ATOM);
    if !of_rules.is_empty() {
        return Err(other.to_owned());
    }
    let Some(program) = compilation.program else {
        let texts = of_row.iter().map(|error| to_text(error, &sources, Style::Plain));
        return Err(format!("the row has mistakes\n{}", texts.collect::<String>().trim_end()));
    };
    let runs = rules.program();
    let fingerprint = |rule: &nlog::program::Rule| rule.fingerprint;
    let are_same = program.schema == runs.schema
        && program.rules.iter().map(fingerprint).eq(runs.rules.iter().map(fingerprint));
    if !are_same {
        return Err(other.to_owned());
    }
    pattern.ok_or_else(|| format!("{row:?} is not a row; write one such as location(\"p1\", ..)"))
}

/// The names in a question, around which rows are looked for in a large network.
async fn names(engine: &Engine, question: &Question) -> Result<Vec<String>, Status> {
    let flow = match question {
        Question::Rows(pattern) => {
            let text = |value: &Value| match value {
                Value::String(text) => Some(text.to_string()),
                _ => None,
            };
            return Ok(pattern.columns.iter().flatten().filter_map(text).collect());
        }
        Question::Flow(flow) => flow,
    };
    let listing = engine.list(flow.host.clone()).await.map_err(stopping)?;
    Ok(listing.map_or(vec![flow.host.clone()], |listing| {
        names_of(flow, &listing.desired, &|key| listing.owners(key))
    }))
}

/// The names around a flow: those that its owner says, and the host.
fn names_of(flow: &AskedFlow, desired: &Desired, owners: &dyn Fn(&FlowKey) -> Vec<String>) -> Vec<String> {
    let keys: Vec<FlowKey> = match &flow.by {
        // It may be missing, but its match can name a datapath.
        FlowName::Key { table, priority, matches } => {
            FlowKey::new(*table, *priority, matches).into_iter().collect()
        }
        FlowName::Cookie(_) => present(desired, flow).take(ROWS).cloned().collect(),
    };
    let mut names: Vec<String> = keys.iter().flat_map(owners).collect();
    names.push(flow.host.clone());
    let mut seen = BTreeSet::new();
    // Flows that no object owns have an owner without a name.
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    names
}

/// The flows of a switch that are meant.
fn present<'a>(desired: &'a Desired, flow: &'a AskedFlow) -> Box<dyn Iterator<Item = &'a FlowKey> + 'a> {
    match &flow.by {
        FlowName::Key { table, priority, matches } => {
            let key = FlowKey::new(*table, *priority, matches).ok();
            let found = key.and_then(|key| desired.flows.get_key_value(&key));
            Box::new(found.into_iter().map(|(key, _)| key))
        }
        FlowName::Cookie(cookie) => {
            let flows = desired.flows.iter().filter(|(_, flow)| flow.cookie() == *cookie);
            Box::new(flows.map(|(key, _)| key))
        }
    }
}

/// A question with what is known.
struct Case<'a> {
    names: &'a [String],
    question: &'a Question,
    snapshot: Snapshot,
    journal: &'a Path,
}

impl Case<'_> {
    #[allow(clippy::result_large_err, reason = "as tonic has it")]
    fn answer(mut self, form: &Form, cancel: &Cancel) -> Result<String, Status> {
        if !self.snapshot.is_whole && self.names.is_empty() {
            let why = format!(
                "the network has more than {WHOLE_MAX} objects, and the question names none around which to look: name one in the row, or name a \
                 program and the journal: builtin -i STATE/journal.jsonl ROW"
            );
            return Err(Status::invalid_argument(why));
        }
        let begun = std::time::Instant::now();
        let origins = std::mem::take(&mut self.snapshot.origins);
        let rows = origins.len();
        let state = OnDemand::new(Arc::clone(self.snapshot.rules.program()), origins.into_keys());
        state.cancelled_by(cancel);
        let answer = state.within(COMBINATIONS, || self.answer_in(&state, form));
        debug!(rows, answered = ?begun.elapsed(), "rows explained");
        answer.unwrap_or_else(|| {
            let why = "the answer takes too long for a running controller: name more values of the row, or name a program and the journal: \
                       builtin -i STATE/journal.jsonl ROW";
            Err(Status::invalid_argument(why))
        })
    }

    #[allow(clippy::result_large_err, reason = "as tonic has it")]
    fn answer_in(&self, state: &OnDemand, form: &Form) -> Result<String, Status> {
        let program = state.program();
        let rows = self.rows(state).map_err(Status::internal)?;
        let with_note = |why: String| match self.note() {
            Some(note) => format!("{why}\nnote: {note}"),
            None => why,
        };
        let (text, object, json) = match form {
            Form::Explanation { rows: most, json } => {
                let most = if *most == 0 { ROWS } else { *most as usize };
                let explainer = Explainer { state, origin: &|_, _| None, is_part: !self.snapshot.is_whole };
                let answer = self.question.explain(&explainer, &rows, most);
                let mut answer = answer.map_err(|why| Status::not_found(with_note(why)))?;
                asked_for(&mut answer, program, self.journal);
                (answer.text(program), answer.json(program), json)
            }
            Form::WhyNot { json } => {
                let answer = self.question.why_not(state, || rows).map_err(Status::invalid_argument)?;
                let text = explanation::why_not(program, &answer).join("\n");
                (text, answer.json(program), json)
            }
        };
        Ok(if *json { self.noted(object).to_string() } else { with_note(text) })
    }

    /// The rows that are meant. Flows are at hand.
    fn rows(&self, state: &OnDemand) -> Result<Vec<Row>, String> {
        let Question::Flow(flow) = self.question else { return Ok(self.question.rows(state)) };
        let Some(desired) = self.snapshot.desired.get(&flow.host) else { return Ok(Vec::new()) };
        let row = |key: &FlowKey| Flows::row(&flow.host, key, &desired.flows[key]);
        let mut rows: Vec<Row> = present(desired, flow)
            .map(row)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the flows of {} cannot be read: {error}", flow.host))?;
        rows.sort_unstable();
        Ok(rows)
    }

    /// What the answer does not know.
    fn note(&self) -> Option<String> {
        let around = self.names.join(", ");
        (!self.snapshot.is_whole).then(|| {
            format!(
                "the network has more than {WHOLE_MAX} objects, and only the rows around these were looked at: {around}; to look at all, \
                 name a program and the journal: builtin -i STATE/journal.jsonl"
            )
        })
    }

    fn noted(&self, mut object: Json) -> Json {
        if let Some(note) = self.note() {
            object["notes"] = json!([note]);
        }
        object
    }
}

#[cfg(test)]
mod tests;

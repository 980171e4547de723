//! What is printed of a change: the outcome for each object, the fields that changed, the problems that came and went.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weft_client::Client;
use weft_client::message_json::to_json;
use weft_client::pb::{Accepted, FieldChange, ObjectOutcome, Outcome, Problem};
use weft_core::harm::CutOff;
use weft_core::shown;

use super::{cost, delta};
use crate::exit::{Failure, print, print_as, say};
use crate::wait::Wait;

/// About so many lines of objects, and of problems, are for a person to read.
const LINES_MAX: usize = 20;
/// The most characters of a value, and of what a deleted object was.
const VALUE_MAX: usize = 60;
const OBJECT_MAX: usize = 160;

/// The command that made the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Apply,
    Prune,
    Set,
    Delete,
    Diff,
    Rollback,
    Rules,
}

impl Form {
    /// Whether what changes in switches is printed.
    fn shows_delta(self) -> bool {
        matches!(self, Form::Diff | Form::Rules)
    }
}

/// The answer to a change.
pub(super) struct Answer<'a> {
    pub(super) accepted: &'a Accepted,
    pub(super) form: Form,
    pub(super) json: bool,
    /// How long the controller took.
    pub(super) took: Duration,
}

impl Answer<'_> {
    /// Prints the answer, and waits for the switches if that is asked for.
    pub(super) async fn print(&self, client: &mut Client, wait: Wait) -> Result<(), Failure> {
        let accepted = self.accepted;
        for warning in &accepted.warnings {
            say(format_args!("warning: {warning}"));
        }
        for cut_off in &accepted.cut_off {
            let cut_off = CutOff { node: cut_off.node.clone(), ports: cut_off.ports.clone() };
            say(format_args!("warning: {cut_off}"));
        }
        if !self.json {
            let delta = accepted.delta.as_ref().filter(|_| self.form.shows_delta());
            print(&(self.text() + &delta.map(|delta| delta::to_text(delta)).unwrap_or_default()))?;
        }
        for line in self.notes() {
            say(line);
        }
        let settled = wait.settle(client, accepted).await;
        if self.json {
            let mut answer = self.json();
            if wait.is_given() {
                answer["unconfirmed"] = json!(settled.unconfirmed);
            }
            print_as(true, &format!("{answer}\n"))?;
        }
        settled.result()
    }

    /// A line for each object, with lines for what changed. Of many, those that were there before come first, and the others are counted.
    fn text(&self) -> String {
        let mut blocks: Vec<(&str, Vec<String>)> =
            self.accepted.objects.iter().map(|object| (word(object), self.block(object))).collect();
        let count: usize = blocks.iter().map(|(_, lines)| lines.len()).sum();
        if count > LINES_MAX {
            blocks.sort_by_key(|(word, _)| !matches!(*word, "updated" | "deleted"));
        }
        let (mut text, mut left, mut rest) = (String::new(), LINES_MAX, BTreeMap::<&str, usize>::new());
        for (word, lines) in blocks {
            if left == 0 {
                *rest.entry(word).or_default() += 1;
                continue;
            }
            let fields = lines.len().saturating_sub(left);
            let fit = &lines[..lines.len() - fields];
            left -= fit.len();
            for line in fit {
                text += line;
                text.push('\n');
            }
            if fields > 0 {
                text += &format!("  and {fields} more fields\n");
            }
        }
        if !rest.is_empty() {
            let words = rest.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>();
            text += &format!("and {} (--json lists all)\n", words.join(", "));
        }
        text
    }

    /// The lines of one object.
    fn block(&self, object: &ObjectOutcome) -> Vec<String> {
        let key = object.object.clone().unwrap_or_default();
        let mut lines = vec![format!("{} {}: {}", key.kind, key.id, word(object))];
        if object.outcome() == Outcome::Deleted {
            let was = |field: &FieldChange| format!("{}: {}", field.field, value(field.before.as_deref()));
            let was = object.fields.iter().map(was).collect::<Vec<_>>().join(", ");
            lines.extend((!was.is_empty()).then(|| format!("  was {}", short(&was, OBJECT_MAX))));
        } else {
            lines.extend(object.fields.iter().map(|field| self.field(field)));
        }
        lines
    }

    fn field(&self, FieldChange { field, before, after, left_out }: &FieldChange) -> String {
        let [before, after] = [before, after].map(|text| short(&value(text.as_deref()), VALUE_MAX));
        let why = match self.form {
            Form::Apply | Form::Prune | Form::Diff if *left_out => " (not in the file)",
            _ => "",
        };
        format!("  {field}: {before} -> {after}{why}")
    }

    /// What is said besides, to a person.
    fn notes(&self) -> Vec<String> {
        let Accepted { objects, objects_before, new_problems, resolved_problems, dry_run, engine, .. } =
            self.accepted;
        let mut lines = Vec::new();
        let deleted = objects.iter().filter(|object| object.outcome() == Outcome::Deleted);
        let mut kinds = BTreeMap::<&str, usize>::new();
        for object in deleted.clone().filter_map(|object| object.object.as_ref()) {
            *kinds.entry(&object.kind).or_default() += 1;
        }
        if self.form == Form::Prune && !kinds.is_empty() {
            let kinds = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>();
            lines.push(format!(
                "deleted {} of {objects_before} objects: {}",
                deleted.count(),
                kinds.join(", ")
            ));
        }
        lines.extend(problem_lines("new problem", new_problems));
        lines.extend(problem_lines("problem resolved", resolved_problems));
        lines.extend(engine.as_ref().filter(|_| *dry_run).map(cost));
        lines.extend(dry_run.then(|| "dry run: nothing was changed".to_owned()));
        if self.form == Form::Rules && !dry_run {
            let took = self.took.as_secs_f64();
            lines.push(match self.accepted.txn {
                Some(txn) => format!("transaction {txn}: the rules run, after {took:.1} s"),
                None => "nothing changes: these rules run already".to_owned(),
            });
        }
        lines
    }

    fn json(&self) -> Json {
        let accepted = self.accepted;
        let cut_off = accepted.cut_off.iter();
        let cut_off: Vec<Json> =
            cut_off.map(|cut_off| json!({"node": cut_off.node, "ports": cut_off.ports})).collect();
        let mut answer = json!({
            "txn": accepted.txn,
            "objects": accepted.objects.iter().map(object_json).collect::<Vec<_>>(),
            "new_problems": problems_json(&accepted.new_problems),
            "resolved_problems": problems_json(&accepted.resolved_problems),
            "cut_off": cut_off,
        });
        if accepted.dry_run {
            answer["dry_run"] = json!(true);
        }
        if let Some(delta) = accepted.delta.as_ref().filter(|_| self.form.shows_delta()) {
            answer["delta"] = to_json(&**delta);
        }
        answer
    }
}

/// A word for the outcome of an object.
pub(super) fn word(object: &ObjectOutcome) -> &'static str {
    match object.outcome() {
        Outcome::Created => "created",
        Outcome::Updated => "updated",
        Outcome::Unchanged => "unchanged",
        Outcome::Deleted => "deleted",
        Outcome::Absent => "absent",
        Outcome::Unspecified => "done",
    }
}

fn problem_lines(what: &str, problems: &[Problem]) -> Vec<String> {
    let line = |problem: &Problem| {
        let object = problem.object.clone().unwrap_or_default();
        format!("{what}: {} {}: {}", object.kind, object.id, shown(&problem.text))
    };
    let mut lines: Vec<String> = problems.iter().take(LINES_MAX).map(line).collect();
    if let Some(more) = problems.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        lines.push(format!("{what}: and {more} more (--json lists all)"));
    }
    lines
}

fn problems_json(problems: &[Problem]) -> Vec<Json> {
    let json = |Problem { object, text, code, since: _ }: &Problem| {
        let object = object.clone().unwrap_or_default();
        json!({"kind": object.kind, "id": object.id, "code": code, "text": text})
    };
    problems.iter().map(json).collect()
}

fn object_json(object: &ObjectOutcome) -> Json {
    let key = object.object.clone().unwrap_or_default();
    let mut members = json!({"kind": key.kind, "id": key.id, "outcome": word(object)});
    let is_deleted = object.outcome() == Outcome::Deleted;
    if !object.fields.is_empty() && !is_deleted {
        let field = |FieldChange { field, before, after, left_out }: &FieldChange| {
            let [before, after] = [before, after].map(|text| parsed(text.as_deref()));
            json!({"field": field, "before": before, "after": after, "left_out": left_out})
        };
        members["fields"] = object.fields.iter().map(field).collect();
    }
    if is_deleted && !object.before.is_empty() {
        members["before"] = parsed(Some(&object.before));
    }
    members
}

/// A value as the controller sends it: JSON.
fn parsed(text: Option<&str>) -> Json {
    let Some(text) = text else { return Json::Null };
    serde_json::from_str(text).unwrap_or_else(|_| Json::from(text))
}

/// A value for a person: YAML on one line.
fn value(text: Option<&str>) -> String {
    text.map_or_else(|| "none".to_owned(), |text| flow(&parsed(Some(text))))
}

pub(super) fn flow(value: &Json) -> String {
    match value {
        Json::String(text) if is_plain(text) => text.clone(),
        Json::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Json::Object(members) => {
            let member = |(name, value): (&String, &Json)| format!("{}: {}", name, flow(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// Whether YAML reads a text without quotes as this text.
fn is_plain(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(fits)
        && serde_norway::from_str::<Json>(text).is_ok_and(|read| read == *text)
}

/// The text, or its beginning if it is long.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use weft_client::pb::{FlowDelta, ObjectRef, SwitchDelta};

    use super::*;

    fn object(
        id: &str,
        outcome: Outcome,
        fields: &[(&str, Option<&str>, Option<&str>, bool)],
    ) -> ObjectOutcome {
        let field =
            |&(field, before, after, left_out): &(&str, Option<&str>, Option<&str>, bool)| FieldChange {
                field: field.to_owned(),
                before: before.map(str::to_owned),
                after: after.map(str::to_owned),
                left_out,
            };
        ObjectOutcome {
            object: Some(ObjectRef { kind: "switch".to_owned(), id: id.to_owned() }),
            outcome: outcome.into(),
            fields: fields.iter().map(field).collect(),
            before: String::new(),
        }
    }

    fn text(objects: Vec<ObjectOutcome>, form: Form) -> String {
        let accepted = Accepted { objects, ..Accepted::default() };
        Answer { accepted: &accepted, form, json: false, took: Duration::ZERO }.text()
    }

    #[test]
    fn a_change_is_told_field_by_field() {
        let long = format!("[{}]", vec!["\"10.0.0.1\""; 50].join(","));
        let fields = [
            ("acl_default", Some("\"drop\""), Some("\"allow\""), false),
            ("addresses", Some(long.as_str()), Some("[]"), true),
            ("labels.app", None, Some("\"7\""), false),
            ("learning", Some("{\"limit\":7}"), None, true),
        ];
        let updated = || vec![object("front", Outcome::Updated, &fields)];
        let wanted = "switch front: updated\n  acl_default: drop -> allow\n  \
            addresses: [10.0.0.1, 10.0.0.1, 10.0.0.1, 10.0.0.1, 10.0.0.1, 10.0.0.1,… -> [] (not in the file)\n  \
            labels.app: none -> \"7\"\n  learning: {limit: 7} -> none (not in the file)\n";
        assert_eq!(text(updated(), Form::Apply), wanted);
        assert_eq!(text(updated(), Form::Set), wanted.replace(" (not in the file)", ""));
        let deleted =
            object("front", Outcome::Deleted, &[("tenant", Some("\"acme\""), None, false), fields[1]]);
        let end = "…\n";
        let text = text(vec![deleted], Form::Delete);
        assert!(
            text.starts_with("switch front: deleted\n  was tenant: acme, addresses: [10.0.0.1, "),
            "{text}"
        );
        assert!(text.ends_with(end) && text.lines().all(|line| line.chars().count() < 170), "{text}");
    }

    #[test]
    fn of_many_objects_those_that_were_there_are_told_and_the_others_counted() {
        let mut objects: Vec<_> =
            (0..500).map(|number| object(&format!("s{number}"), Outcome::Created, &[])).collect();
        objects.extend((0..3).map(|number| object(&format!("u{number}"), Outcome::Unchanged, &[])));
        objects.push(object(
            "front",
            Outcome::Updated,
            &[("acl_default", Some("\"drop\""), Some("\"allow\""), false)],
        ));
        let text = text(objects, Form::Apply);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            ["switch front: updated", "  acl_default: drop -> allow", "switch s0: created"]
        );
        assert_eq!(lines[19..], ["switch s17: created", "and 482 created, 3 unchanged (--json lists all)"]);
    }

    #[test]
    fn the_delta_of_a_diff_is_the_message_as_json() {
        let flows = vec![FlowDelta { node: "hv1".to_owned(), rule: 255, ..FlowDelta::default() }];
        let delta = Some(Box::new(SwitchDelta { flows, switches: 1, ..SwitchDelta::default() }));
        let accepted = Accepted { delta, ..Accepted::default() };
        let json = |form| Answer { accepted: &accepted, form, json: true, took: Duration::ZERO }.json();
        assert_eq!(
            (&json(Form::Diff)["delta"]["switches"], &json(Form::Diff)["delta"]["flows"][0]["rule"]),
            (&1.into(), &"0xff".into())
        );
        assert_eq!(json(Form::Apply)["delta"], Json::Null);
    }

    #[test]
    fn one_object_with_many_fields_does_not_fill_the_screen() {
        let names: Vec<String> = (0..50).map(|number| format!("labels.l{number}")).collect();
        let fields: Vec<_> = names.iter().map(|name| (name.as_str(), None, Some("1"), false)).collect();
        let text = text(
            vec![object("a", Outcome::Updated, &fields), object("b", Outcome::Created, &[])],
            Form::Apply,
        );
        assert_eq!(text.lines().count(), 22);
        assert!(text.ends_with("  and 31 more fields\nand 1 created (--json lists all)\n"), "{text}");
    }
}

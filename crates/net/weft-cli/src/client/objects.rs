//! Objects as `weft get` prints them: those of a kind, listed once or watched.

use clap::ValueEnum;
use serde_json::{Map, Value as Json};
use weft_client::Client;
use weft_client::pb::{Happened, ObjectState};
use weft_client::{FlowCounts, Seen, Selection, Watched};
use weft_core::shown;

use super::failed;
use super::jsonpath::Path;
use super::table::{self, Entry, Layout};
use crate::exit::{Failure, print, print_as, say};
use crate::flow_counts;

/// How objects are printed.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A line for each object, with the columns that fit
    Table,
    /// The same with all columns and whole values
    Wide,
    /// Documents for `weft apply`, with state and problems as comments
    Yaml,
    /// One JSON object per line
    Json,
    /// `KIND/ID` of each object
    Name,
}

/// Which objects of a kind are asked for, and how they are printed.
pub(super) struct Question {
    pub(super) id: Option<String>,
    pub(super) selection: Selection,
    pub(super) form: Form,
    /// What is printed of the JSON, if not all of it.
    pub(super) path: Option<Path>,
}

impl Question {
    /// Prints the objects.
    pub(super) async fn list(&self, client: &mut Client) -> Result<(), Failure> {
        let (objects, counts) = self.found(client).await?;
        if objects.is_empty() && self.form != Form::Json {
            self.say_empty();
        }
        if let Some(path) = &self.path {
            let lines = objects.iter().map(|(object, state)| json_with_state(object, state, &counts));
            return print(&path.of(&lines.collect::<Vec<_>>(), self.id.is_some())?);
        }
        match self.form {
            Form::Table | Form::Wide if objects.is_empty() => Ok(()),
            Form::Table | Form::Wide => print(&table::to_text(entries(&objects)?, self.form == Form::Wide)),
            Form::Yaml => {
                let documents = objects.iter().map(|seen| document(seen, &counts));
                print(&documents.collect::<Result<Vec<_>, Failure>>()?.join("---\n"))
            }
            Form::Json => {
                let lines = objects.iter().map(|(object, state)| json_with_state(object, state, &counts));
                print_as(true, &lines.collect::<String>())
            }
            Form::Name => {
                let names = objects.iter().map(|seen| Ok(Entry::read(seen)?.name() + "\n"));
                print(&names.collect::<Result<String, Failure>>()?)
            }
        }
    }

    /// The objects, and what hosts have counted if one object is asked for and the form shows it.
    async fn found(&self, client: &mut Client) -> Result<(Vec<Seen>, FlowCounts), Failure> {
        let Selection { kind, labels, fields } = &self.selection;
        let Some(id) = &self.id else {
            return Ok((client.select(&self.selection).await.map_err(failed)?, FlowCounts::default()));
        };
        let objects = if labels.is_empty() && fields.is_empty() {
            client.get_with_states(kind, Some(id)).await
        } else {
            client.select(&self.of_id()).await
        };
        let objects = objects.map_err(failed)?;
        let counts = match self.form {
            Form::Yaml | Form::Json if !objects.is_empty() => {
                client.flow_counts(kind, id).await.map_err(failed)?
            }
            _ => FlowCounts::default(),
        };
        Ok((objects, counts))
    }

    /// The selection, in which the id is a condition like others.
    fn of_id(&self) -> Selection {
        let mut selection = self.selection.clone();
        selection.fields.extend(self.id.iter().map(|id| format!("id={id}")));
        selection
    }

    fn say_empty(&self) {
        let Selection { kind, labels, fields } = self.of_id();
        let conditions = [labels, fields].concat().join(", ");
        say(match conditions.as_str() {
            "" => format!("no {kind}"),
            conditions => format!("no {kind} with {conditions}"),
        });
    }

    /// Prints the objects, and then what happens to them, until the command is interrupted.
    pub(super) async fn watch(&self, client: &Client) -> Result<(), Failure> {
        let mut watching = client.watch(self.of_id());
        let mut printer = Printer { form: self.form, layout: None, printed: false };
        loop {
            match watching.next().await.map_err(failed)? {
                Watched::Listed(objects) => {
                    if let (true, Some(id)) = (objects.is_empty(), &self.id) {
                        let kind = &self.selection.kind;
                        return Err(Failure::Rejected(format!("{kind} {} does not exist", shown(id))));
                    }
                    if objects.is_empty() && self.form != Form::Json {
                        self.say_empty();
                    }
                    printer.listed(&objects)?;
                }
                Watched::Happened(happened, seen) => printer.happened(happened, &seen)?,
                Watched::Interrupted(why) => {
                    say(format_args!(
                        "warning: the watch was interrupted and goes on with a new list: {why}"
                    ));
                }
            }
        }
    }
}

/// Prints what a watch tells.
struct Printer {
    form: Form,
    /// The columns of a table, once there is an object.
    layout: Option<Layout>,
    /// Whether there is a document before.
    printed: bool,
}

impl Printer {
    fn listed(&mut self, objects: &[Seen]) -> Result<(), Failure> {
        if objects.is_empty() || !matches!(self.form, Form::Table | Form::Wide) {
            return objects.iter().try_for_each(|seen| self.event("listed", seen));
        }
        let mut entries = entries(objects)?;
        table::problems_first(&mut entries);
        let layout = Layout::of(&entries, true, self.form == Form::Wide);
        print(&(layout.table(&entries, "listed") + &table::count(&entries)))?;
        self.layout = Some(layout);
        Ok(())
    }

    fn happened(&mut self, happened: Happened, seen: &Seen) -> Result<(), Failure> {
        self.event(
            match happened {
                Happened::Created => "created",
                Happened::Deleted => "deleted",
                Happened::Updated | Happened::Unspecified => "updated",
            },
            seen,
        )
    }

    fn event(&mut self, event: &str, seen: &Seen) -> Result<(), Failure> {
        let (object, state) = seen;
        match self.form {
            Form::Table | Form::Wide => {
                let entry = Entry::read(seen)?;
                if let Some(layout) = self.layout.as_mut().filter(|layout| layout.covers(&entry)) {
                    return print(&layout.line(&entry, event));
                }
                // What no object had before has no column yet.
                let layout = match self.layout.take() {
                    Some(layout) => layout.extended(&entry),
                    None => Layout::of(std::slice::from_ref(&entry), true, self.form == Form::Wide),
                };
                let text = layout.table(&[entry], event);
                self.layout = Some(layout);
                print(&text)
            }
            Form::Yaml => {
                let separator = if std::mem::replace(&mut self.printed, true) { "---\n" } else { "" };
                let document = match event {
                    // So that it can be applied as well.
                    "deleted" => document(seen, &FlowCounts::default())? + "delete: true\n",
                    _ => document(seen, &FlowCounts::default())?,
                };
                let event = if event == "listed" { String::new() } else { format!("# {event}\n") };
                print(&format!("{separator}{event}{document}"))
            }
            Form::Json => {
                let object = json_with_state(object, state, &FlowCounts::default());
                print_as(true, &format!("{{\"type\":\"{event}\",\"object\":{}}}\n", object.trim_end()))
            }
            Form::Name if event == "listed" => print(&(Entry::read(seen)?.name() + "\n")),
            Form::Name => print(&format!("{} {event}\n", Entry::read(seen)?.name())),
        }
    }
}

fn entries(objects: &[Seen]) -> Result<Vec<Entry>, Failure> {
    objects.iter().map(Entry::read).collect()
}

/// An object as a document, with its state and what hosts have counted as comments.
pub(super) fn document((object, state): &Seen, counts: &FlowCounts) -> Result<String, Failure> {
    Ok(state_comments(state) + &flow_counts::to_comments(counts) + &yaml(object)?)
}

/// The failure of an answer that is no object.
pub(crate) fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::outside("the controller returned an object that is not valid JSON", error)
}

/// The state of an object as comments before it, so that the output can be applied again.
pub(super) fn state_comments(state: &ObjectState) -> String {
    let columns = columns(state).into_iter().map(|(name, value)| match value {
        Json::String(text) => format!("# {name}: {}\n", shown(&text)),
        value => format!("# {name}: {value}\n"),
    });
    let problems = state.problems.iter().map(|problem| format!("# problem: {}\n", shown(problem)));
    columns.chain(problems).collect()
}

/// What the rules say of an object, by the names of the columns.
pub(super) fn columns(state: &ObjectState) -> Map<String, Json> {
    // A controller of another version may send none.
    serde_json::from_str(&state.columns).unwrap_or_default()
}

/// An object as JSON, with its state as an additional field.
pub(super) fn json_with_state(object: &str, state: &ObjectState, counts: &FlowCounts) -> String {
    let mut members = columns(state);
    if !state.problems.is_empty() {
        members.insert("problems".to_owned(), serde_json::json!(state.problems));
    }
    members.extend(flow_counts::to_members(counts));
    match object.strip_suffix('}') {
        Some(fields) if !members.is_empty() => format!("{fields},\"state\":{}}}\n", Json::Object(members)),
        _ => format!("{object}\n"),
    }
}

/// An object as YAML, the form of files.
pub(super) fn yaml(json: &str) -> Result<String, Failure> {
    let yaml = serde_json::from_str::<serde_norway::Value>(json).map_err(|error| error.to_string());
    let yaml = yaml.and_then(|value| serde_norway::to_string(&value).map_err(|error| error.to_string()));
    yaml.map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_of_an_object_can_be_applied_with_what_rules_say_of_it() {
        let object = r#"{"kind":"switch","id":"blue"}"#;
        let plain = ObjectState::default();
        assert_eq!(json_with_state(object, &plain, &FlowCounts::default()), format!("{object}\n"));
        assert_eq!(state_comments(&plain), "");

        let state = ObjectState {
            columns: r#"{"mtu":1442}"#.into(),
            problems: vec!["no \"way\"".into(), "other".into()],
            ..ObjectState::default()
        };
        let json = json_with_state(object, &state, &FlowCounts::default());
        assert_eq!(
            json,
            "{\"kind\":\"switch\",\"id\":\"blue\",\"state\":{\"mtu\":1442,\"problems\":[\"no \\\"way\\\"\",\"other\"]}}\n"
        );
        let text = state_comments(&state) + &yaml(object).unwrap();
        assert_eq!(text, "# mtu: 1442\n# problem: no \"way\"\n# problem: other\nkind: switch\nid: blue\n");
        let read: serde_norway::Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(read, serde_json::from_str::<serde_norway::Value>(object).unwrap());
    }
}

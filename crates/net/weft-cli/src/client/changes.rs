//! `weft apply`, `weft set`, `weft delete`: changes of objects.

use std::cell::RefCell;
use std::io::{self, BufRead, IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use weft_client::pb::{self, Accepted};
use weft_client::{Changes, documents_of};
use weft_client::{Client, ClientError};

use super::answer::{Answer, Form};
use super::{Address, read_document};
use crate::compare;
use crate::exit::{Failure, say};
use crate::faults;
use crate::wait::Wait;

/// The refusal of what may not be meant.
const UNCONFIRMED: &str = "unconfirmed";

/// How a change is made, and what is printed of it.
#[derive(Args, Clone)]
pub(super) struct Terms {
    /// Print what the change would do, and change nothing
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Refuse the change if it brings problems that are not there without it
    #[arg(long)]
    strict: bool,
    /// Do not ask, even if ports lose their host or much is pruned
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    wait: Wait,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl Terms {
    /// Makes the change and prints the answer.
    pub(super) fn carry_out(
        self,
        changes: Changes,
        documents: &[(String, String)],
        form: Form,
    ) -> Result<(), Failure> {
        let json = self.json;
        self.carry_out_at(changes, None, form, |error| faults::refused(error, documents, json))
    }

    /// The same, if this is the revision of the objects; refusals are as `refused` tells them.
    fn carry_out_at(
        self,
        mut changes: Changes,
        revision: Option<u64>,
        form: Form,
        refused: impl Fn(ClientError) -> Failure,
    ) -> Result<(), Failure> {
        let Terms { dry_run, strict, yes, wait, json, address } = self;
        *changes.terms() = pb::Terms { strict, dry_run, careful: !yes, revision, ..pb::Terms::default() };
        address.with(|mut client| async move {
            let begun = Instant::now();
            let accepted = make(&mut client, changes, form, refused).await?;
            let answer = Answer { accepted: &accepted, form, json, took: begun.elapsed() };
            answer.print(&mut client, wait).await
        })
    }

    /// Makes the change if this is the revision of the objects. Prints the answer, or returns the refusal.
    pub(super) fn refusal_of(
        &self,
        changes: Changes,
        revision: Option<u64>,
        form: Form,
    ) -> Result<Option<pb::Refusal>, Failure> {
        let told = RefCell::new(None);
        let refused = |error| {
            if let ClientError::Refused(refusal) = &error
                && !faults::is_journal(refusal)
            {
                told.replace(Some(refusal.clone()));
            }
            faults::refused(error, &[], false)
        };
        let result = self.clone().carry_out_at(changes, revision, form, refused);
        match told.into_inner() {
            Some(refusal) => Ok(Some(refusal)),
            None => result.map(|()| None),
        }
    }

    /// Where the controller is.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }
}

/// Makes a change; asks if it may not be meant.
async fn make(
    client: &mut Client,
    changes: Changes,
    form: Form,
    refused: impl Fn(ClientError) -> Failure,
) -> Result<Accepted, Failure> {
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    let again = can_ask.then(|| changes.clone());
    let refusal = match client.change(changes).await {
        Err(ClientError::Refused(refusal)) if refusal.code == UNCONFIRMED => refusal,
        result => return result.map_err(refused),
    };
    let message = refusal.message;
    let Some(mut changes) = again else {
        let narrow = match form {
            Form::Prune => ", or let --kind, --label or --tenant say what may be pruned",
            _ => "",
        };
        return Err(Failure::Rejected(format!(
            "{message}\nnothing was changed; give --yes if this is meant{narrow}"
        )));
    };
    say(&message);
    if !confirmed(&mut io::stdin().lock(), &mut io::stderr().lock()) {
        return Err(Failure::Rejected("nothing was changed".to_owned()));
    }
    changes.terms().careful = false;
    client.change(changes).await.map_err(refused)
}

/// Asks whether to go on.
fn confirmed(answers: &mut impl BufRead, questions: &mut impl Write) -> bool {
    let mut line = String::new();
    // Who cannot be asked has not agreed.
    let asked = write!(questions, "Go on? [y/N] ").and_then(|()| questions.flush());
    asked.and_then(|()| answers.read_line(&mut line)).is_ok()
        && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Arguments of `weft apply`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft apply -f network.yaml             create or change the objects in a file\n  \
        weft apply --wait -f network.yaml      ... and wait until the switches have confirmed\n  \
        weft apply --prune -f network.yaml     ... and delete all objects that are not in the file\n\n\
        To delete an object in a file, give it the field `delete: true`. `weft get all` prints all objects\n\
        as such a file. The exit status is 1 if the objects are refused; then nothing changes. With --wait\n\
        it is 4 if some switches have not confirmed in time.")]
pub(crate) struct Apply {
    /// Objects (YAML or JSON), as one transaction; `-` is standard input
    #[arg(short = 'f', long = "file", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also delete all objects that are not in the files
    #[arg(long)]
    prune: bool,
    /// Prune only objects of this kind. May be repeated: of these kinds
    #[arg(long = "kind", value_name = "KIND", requires = "prune")]
    kinds: Vec<String>,
    /// Prune only objects with this label. May be repeated: with all of them
    #[arg(long = "label", value_name = "KEY=VALUE", requires = "prune", value_parser = label)]
    labels: Vec<String>,
    /// Prune only objects of this tenant, with what refers to them
    #[arg(long = "tenant", value_name = "TENANT", requires = "prune")]
    tenants: Vec<String>,
    #[command(flatten)]
    terms: Terms,
}

fn label(text: &str) -> Result<String, String> {
    let is_label = text.split_once('=').is_some_and(|(key, _)| !key.is_empty());
    if is_label { Ok(text.to_owned()) } else { Err("write it as KEY=VALUE".to_owned()) }
}

impl Apply {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let documents = self.files.iter().map(read_document).collect::<Result<Vec<_>, Failure>>()?;
        let request = pb::ApplyRequest {
            documents: documents_of(documents.clone()),
            by: "weft apply".to_owned(),
            prune: self.prune,
            prune_kinds: self.kinds,
            prune_labels: self.labels,
            prune_tenants: self.tenants,
            ..pb::ApplyRequest::default()
        };
        let form = if self.prune { Form::Prune } else { Form::Apply };
        self.terms.carry_out(Changes::Apply(request), &documents, form)
    }
}

/// Arguments of `weft diff`.
#[derive(Args)]
#[command(
    override_usage = "weft diff [OPTIONS] --file <FILE>\n       \
        weft diff [OPTIONS] --from <RECORDED> --to <RECORDED>",
    after_help = "Examples:\n  \
        weft diff -f network.yaml             what `weft apply -f network.yaml` would change\n  \
        weft diff --prune -f network.yaml     ... and delete\n  \
        weft diff --from A.weft --to B.weft   what differs between two snapshots\n\n\
        Nothing is changed. First come the objects, then the flows of each host by table and rule, with\n\
        one of the flows as an example. The exit status is 1 if the objects are refused."
)]
pub(crate) struct Diff {
    /// Objects (YAML or JSON); `-` is standard input
    #[arg(short = 'f', long = "file", required_unless_present = "from", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also as if all objects that are not in the files were deleted
    #[arg(long, requires = "files")]
    prune: bool,
    /// Instead, compare this snapshot, journal or state folder
    #[arg(long, value_name = "RECORDED", requires = "to", conflicts_with = "files")]
    from: Option<PathBuf>,
    /// … with this
    #[arg(long, value_name = "RECORDED", requires = "from")]
    to: Option<PathBuf>,
    /// With --from: exit with 1 if more than this changes in switches
    #[arg(long, value_name = "N", requires = "from")]
    max_changes: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl Diff {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Diff { files, prune, from, to, max_changes, json, address } = self;
        if let Some((from, to)) = from.zip(to) {
            return compare::files(&from, &to, compare::Form::new(max_changes, json));
        }
        let documents = files.iter().map(read_document).collect::<Result<Vec<_>, Failure>>()?;
        let request = pb::ApplyRequest {
            documents: documents_of(documents.clone()),
            by: "weft diff".to_owned(),
            prune,
            ..pb::ApplyRequest::default()
        };
        let terms = Terms { dry_run: true, strict: false, yes: true, wait: Wait::default(), json, address };
        terms.carry_out(Changes::Apply(request), &documents, Form::Diff)
    }
}

/// Arguments of `weft rollback`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft history                        which transactions there were\n  \
        weft rollback --to 41 --dry-run     what would change\n  \
        weft rollback --to 41               undo all that changed objects after transaction 41\n\n\
        It is a transaction like others, and can itself be undone. It is refused as a whole if some object\n\
        cannot be as it was: because the rules have changed, for example.")]
pub(crate) struct Rollback {
    /// Objects get back what they were after this transaction
    #[arg(long, value_name = "TXN")]
    to: u64,
    #[command(flatten)]
    terms: Terms,
}

impl Rollback {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Rollback { to, terms } = self;
        let request = pb::RollbackRequest { to, by: "weft rollback".to_owned(), terms: None };
        terms.carry_out(Changes::Rollback(request), &[], Form::Rollback)
    }
}

/// Arguments of `weft set`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft set switch_port web-1 enabled=false                         one field\n  \
        weft set switch_port web-1 'addresses=[{mac: \"02:00:00:00:00:01\"}]'\n  \
        weft set switch web learning.limit=100 labels.app=web            a member, and a label")]
pub(crate) struct Set {
    /// The kind of the object
    kind: String,
    /// The id of the object
    id: String,
    /// Fields and their values, as YAML; `FIELD=` is `--unset FIELD`
    #[arg(value_name = "FIELD=VALUE", required_unless_present = "unset")]
    fields: Vec<String>,
    /// Give this field its default again, or remove this label
    #[arg(long, value_name = "FIELD")]
    unset: Vec<String>,
    #[command(flatten)]
    terms: Terms,
}

impl Set {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut fields = self.fields.iter().map(|text| field(text)).collect::<Result<Vec<_>, Failure>>()?;
        fields.extend(self.unset.into_iter().map(|field| pb::FieldValue { field, value: None }));
        let request = pb::SetRequest {
            object: Some(pb::ObjectRef { kind: self.kind, id: self.id }),
            fields,
            by: "weft set".to_owned(),
            ..pb::SetRequest::default()
        };
        self.terms.carry_out(Changes::Set(request), &[], Form::Set)
    }
}

/// A field and its value.
fn field(text: &str) -> Result<pb::FieldValue, Failure> {
    let (field, value) = text.split_once('=').ok_or_else(|| {
        let text = nlog_data::quotation::quote_text(text);
        Failure::Usage(format!("{text} is no FIELD=VALUE; to give a field its default, write FIELD="))
    })?;
    let value = Some(value.to_owned()).filter(|value| !value.is_empty());
    Ok(pb::FieldValue { field: field.to_owned(), value })
}

/// Arguments of `weft delete`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft delete switch_port web-1          one object\n  \
        weft delete -f network.yaml            all objects in a file")]
pub(crate) struct Delete {
    /// The kind of the object
    #[arg(required_unless_present = "files")]
    kind: Option<String>,
    /// The id of the object
    #[arg(required_unless_present = "files")]
    id: Option<String>,
    /// Delete the objects in files, as one transaction; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with_all = ["kind", "id"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    terms: Terms,
}

impl Delete {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let documents = self.files.iter().map(read_document).collect::<Result<Vec<_>, Failure>>()?;
        let named = self.kind.zip(self.id).map(|(kind, id)| pb::ObjectRef { kind, id });
        let request = pb::DeleteRequest {
            objects: named.into_iter().collect(),
            by: "weft delete".to_owned(),
            documents: documents_of(documents.clone()),
            terms: None,
        };
        self.terms.carry_out(Changes::Delete(request), &documents, Form::Delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        let ask = |answer: &str| {
            let mut question = Vec::new();
            let goes_on = confirmed(&mut answer.as_bytes(), &mut question);
            assert_eq!(question, b"Go on? [y/N] ");
            goes_on
        };
        assert!(["y\n", "Yes\n", " YES", "y"].into_iter().all(ask));
        assert!(!["", "\n", "n\n", "no\n", "yellow\n", "y y\n"].into_iter().any(ask));
    }
}

//! `weft edit`: an object in an editor.

use std::process::Command;

use clap::Args;
use tempfile::TempPath;
use weft_client::pb::{self, ObjectRef, Refusal};
use weft_client::{Changes, Seen};
use weft_core::shown;

use super::answer::Form;
use super::changes::Terms;
use super::describe::one;
use super::objects::yaml;
use crate::exit::{Failure, say};

/// The code of a fault of a change before which another one came.
const STALE: &str = "stale";
/// The member of a document that says which transaction had changed the object last when it was read.
const REVISION: &str = "revision: ";

/// Arguments of `weft edit`.
#[derive(Args)]
#[command(after_help = "Example:\n  \
        EDITOR=nano weft edit switch_port web-1\n\n\
        The editor is $VISUAL, or $EDITOR, or vi. If the controller refuses the object, or somebody else has\n\
        changed it meanwhile, the editor opens again, with the reasons as comments. To give up, leave the\n\
        file as it is, or empty it: then nothing changes.")]
pub(crate) struct Edit {
    /// The kind of the object
    kind: String,
    /// The id of the object
    id: String,
    #[command(flatten)]
    terms: Terms,
}

/// An object that is edited.
struct Session {
    object: ObjectRef,
    file: TempPath,
    /// The comments on top of the file, and what follows them.
    notes: String,
    text: String,
    /// The transaction that had changed the object last when the text was made.
    revision: u64,
    /// Why the last text was refused.
    refused: Option<String>,
}

/// What has become of an edited text.
enum Step {
    Done,
    Again,
}

impl Edit {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let asked = ObjectRef { kind: self.kind.clone(), id: self.id.clone() };
        let (seen, object) = self.read(asked)?;
        let file = tempfile::Builder::new().prefix("weft-").suffix(".yaml").tempfile();
        let file = file.map_err(|error| Failure::outside("cannot create a temporary file", error))?;
        let notes = comments(&format!(
            "Edit {} {}, save the file and leave the editor. To change nothing, leave it as it is.",
            object.kind, object.id
        ));
        let (text, revision) = (document(&seen)?, seen.1.changed);
        let mut session =
            Session { object, file: file.into_temp_path(), notes, text, revision, refused: None };
        loop {
            let edited = match session.edited() {
                Ok(edited) => edited,
                Err(failure) if session.refused.is_some() => return Err(session.kept(failure)),
                Err(failure) => return Err(failure),
            };
            if edited == session.text || edited.trim().is_empty() {
                return session.gives_up();
            }
            session.text = edited;
            match self.apply(&mut session) {
                Ok(Step::Done) => return Ok(()),
                Ok(Step::Again) => {}
                Err(failure) => return Err(session.kept(failure)),
            }
        }
    }

    fn read(&self, object: ObjectRef) -> Result<(Seen, ObjectRef), Failure> {
        self.terms.address().with(|mut client| async move { one(&mut client, object).await })
    }

    /// Applies the text. The file then has the reasons of a refusal.
    fn apply(&self, session: &mut Session) -> Result<Step, Failure> {
        let document = pb::Document {
            name: "the edited text".to_owned(),
            text: session.text.clone(),
            object: Some(session.object.clone()),
        };
        let request =
            pb::ApplyRequest { documents: vec![document], by: "weft edit".to_owned(), ..Default::default() };
        // Whoever removes the revision from the text has the same condition.
        let revision = Some(session.revision);
        let Some(refusal) = self.terms.refusal_of(Changes::Apply(request), revision, Form::Apply)? else {
            return Ok(Step::Done);
        };
        let mut told = reasons(&refusal);
        session.refused = Some(told.clone());
        if refusal.faults.iter().any(|fault| fault.code == STALE) {
            let (now, _) = self.read(session.object.clone())?;
            session.revision = now.1.changed;
            session.text = with_revision(&session.text, session.revision);
            told += &format!(
                "\nThe object is now as follows. If you save your text, it takes the place of this:\n{}",
                yaml(&now.0)?
            );
        }
        session.notes = comments(&told);
        Ok(Step::Again)
    }
}

impl Session {
    /// Opens the editor, and returns the text that it leaves, without the comments on top.
    fn edited(&self) -> Result<String, Failure> {
        let name = self.file.display();
        let written = std::fs::write(&self.file, format!("{}{}", self.notes, self.text));
        written.map_err(|error| Failure::outside(format!("cannot write {name}"), error))?;
        let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
        let editor =
            editor.into_iter().find(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
        // A shell reads it, since it may have arguments.
        let ended =
            Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(&*self.file).status();
        let ended = ended.map_err(|error| Failure::outside(format!("cannot start {editor}"), error))?;
        if !ended.success() {
            return Err(Failure::Outside(format!(
                "the editor {editor:?} failed ({ended}); nothing was changed"
            )));
        }
        let read = std::fs::read_to_string(&self.file);
        let text = read.map_err(|error| Failure::outside(format!("cannot read {name}"), error))?;
        Ok(text.split_inclusive('\n').skip_while(|line| line.starts_with('#')).collect())
    }

    /// Nothing was edited.
    fn gives_up(self) -> Result<(), Failure> {
        let ObjectRef { kind, id } = &self.object;
        match &self.refused {
            None => {
                say(format_args!("{kind} {}: unchanged", shown(id)));
                Ok(())
            }
            Some(why) => {
                let failure = Failure::Rejected(format!("{kind} {}: {why}\nnothing was changed", shown(id)));
                Err(self.kept(failure))
            }
        }
    }

    /// The failure, after which the text is still there.
    fn kept(self, failure: Failure) -> Failure {
        match std::fs::write(&self.file, &self.text).and_then(|()| Ok(self.file.keep()?)) {
            Ok(path) => say(format_args!("your text is in {}", path.display())),
            Err(error) => say(format_args!("warning: your text could not be kept: {error}")),
        }
        failure
    }
}

/// The document of an object, which says what it was made of.
fn document((object, state): &Seen) -> Result<String, Failure> {
    Ok(format!("{}{REVISION}{}\n", yaml(object)?, state.changed))
}

/// The text with this revision instead of its own.
fn with_revision(text: &str, revision: u64) -> String {
    let line = |line: &str| match line.strip_prefix(REVISION) {
        Some(_) => format!("{REVISION}{revision}\n"),
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Why a change is refused, a reason in each line.
fn reasons(refusal: &Refusal) -> String {
    let faults = refusal.faults.iter().map(|fault| match fault.path.as_str() {
        "" => fault.message.clone(),
        path => format!("{path}: {}", fault.message),
    });
    let reasons: Vec<String> = faults.map(|reason| shown(&reason).into_owned()).collect();
    if reasons.is_empty() { format!("{}: {}", refusal.code, refusal.message) } else { reasons.join("\n") }
}

/// Lines as comments.
fn comments(lines: &str) -> String {
    lines.lines().map(|line| "# ".to_owned() + &shown(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_of_a_text_is_replaced_and_nothing_else() {
        let text = "kind: desk\nnote: |\n  revision: 5\nrevision: 3\nnumber: 1";
        assert_eq!(with_revision(text, 9), "kind: desk\nnote: |\n  revision: 5\nrevision: 9\nnumber: 1");
        assert_eq!(comments("a\nb\u{1b}"), "# a\n# b\\u{1b}\n");
    }
}

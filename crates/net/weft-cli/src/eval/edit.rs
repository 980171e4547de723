//! Edits of rules between transactions: `{"rules": {"add": ["…"], "remove": ["…"]}, "dry_run": true}`.
//!
//! The edited program consists of the previous sources without the removed statements, plus one source for each added
//! text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use nlog::program::{BodyItem, Place};
use nlog::syntax::{SyntaxKind, SyntaxNode, lower, parse};
use nlog::{Compilation, Program, Severity, Sources};
use nlog_data::json::ColumnLine;
use nlog_data::{ErrorCode, Role, Schema, TableId, TransactionError};
use serde::Deserialize;

use crate::program::chosen_tables;

/// The error code of an edit whose result is not a valid program, or a program that the engine cannot change to.
/// Transactions never have this code.
pub(super) const BAD_RULES: &str = "bad-rules";

/// The edit in a line.
pub(super) struct Edit {
    statements: Statements,
    /// Whether to report the changes without making them.
    pub(super) dry_run: bool,
    /// The line's number in the input.
    line: u64,
}

/// The member `rules`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statements {
    #[serde(default)]
    add: Vec<String>,
    #[serde(default)]
    remove: Vec<String>,
}

/// Reads a line as an edit, if it is one.
pub(super) fn edit(line: &ColumnLine, number: u64) -> Result<Option<Edit>, TransactionError> {
    let refuse =
        |why: &str| TransactionError::new(ErrorCode::BadJson, format!("line {number}, column 1: {why}"));
    // A line with an error is an empty transaction, no matter what else it contains.
    let Some(rules) = line.origin.get("rules").filter(|_| !line.origin.contains_key("error")) else {
        return Ok(None);
    };
    if !line.transaction.insert.is_empty() || !line.transaction.delete.is_empty() {
        return Err(refuse("an edit of rules cannot have rows; put them on another line"));
    }
    let statements = Statements::deserialize(rules).map_err(|error| {
        refuse(&format!("rules must be an object with arrays of strings, add and remove: {error}"))
    })?;
    let dry_run = match line.origin.get("dry_run") {
        None => false,
        Some(dry_run) => dry_run.as_bool().ok_or_else(|| refuse("dry_run must be true or false"))?,
    };
    Ok(Some(Edit { statements, dry_run, line: number }))
}

/// Whether a line answers a dry run, whose changes did not take effect.
pub(super) fn is_dry_run(line: &ColumnLine) -> bool {
    line.origin.get("dry_run").is_some_and(|dry_run| dry_run.as_bool() == Some(true))
}

/// A program that edits can change.
pub(crate) struct Rules {
    sources: Sources,
    /// The values of `--tables`.
    tables: Vec<String>,
}

/// The edited program.
pub(super) struct Edited {
    pub(super) rules: Rules,
    pub(super) program: Arc<Program>,
}

impl Rules {
    /// Takes the sources of the program, and the observed tables as named on the command line.
    pub(super) fn new(sources: Sources, tables: Vec<String>) -> Self {
        Rules { sources, tables }
    }

    /// The observed tables that the program has.
    pub(super) fn observed(&self, schema: &Schema) -> BTreeSet<TableId> {
        let is_there = |name: &&String| *name == "all" || schema.find(name).is_some();
        let names: Vec<String> = self.tables.iter().filter(is_there).cloned().collect();
        if names.is_empty() && !self.tables.is_empty() {
            return BTreeSet::new();
        }
        // None of them is unknown.
        chosen_tables(&names, schema).unwrap_or_default()
    }

    /// The program after an edit, or the reason why the edit is refused.
    pub(super) fn edited(&self, edit: &Edit, program: &Program) -> Result<Edited, String> {
        let Edit { statements: Statements { add, remove }, line, .. } = edit;
        let named = |verb: &str, texts: &[String]| -> Vec<(String, String)> {
            let numbered = (1..).zip(texts);
            numbered.map(|(number, text)| (format!("{verb} {number} of line {line}"), text.clone())).collect()
        };
        let (added, removed) = (named("add", add), named("remove", remove));
        let removed = wanted_statements(&removed)?;
        let files = self.sources.files().iter().map(|file| (file.name.to_string(), file.text.clone()));
        let mut files: Vec<(String, String)> = files.collect();
        cut_out(&mut files, &removed)?;
        declared_again(&removed, &added)?;
        files.extend(added);
        let sources = self.sources.with_texts(files);
        let Compilation { program: edited, diagnostics } = nlog::compile(&sources);
        let Some(edited) = edited else {
            let error = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
            return Err(error.map_or("there is no program".to_owned(), |error| {
                if error.help.is_empty() { error.to_string() } else { format!("{error}; {}", error.help) }
            }));
        };
        let rules = Rules { sources, tables: self.tables.clone() };
        rules.check_compatible(program, &edited)?;
        Ok(Edited { rules, program: edited })
    }

    /// Checks that names common to both programs have the same meaning in both.
    fn check_compatible(&self, old: &Program, new: &Program) -> Result<(), String> {
        let (seen, will_be_seen) = (self.observed(&old.schema), self.observed(&new.schema));
        for (id, table) in new.schema.iter().filter(|(_, table)| table.role != Role::Input) {
            let Some(before) = old.schema.find(&table.name) else { continue };
            let was = old.schema.table(before);
            if was.role == Role::Input {
                continue;
            }
            let name = &table.name;
            let types = |table: &nlog_data::Table| -> Vec<_> {
                table.columns.iter().map(|column| column.ty.clone()).collect()
            };
            if types(was) != types(table) {
                return Err(format!(
                    "the columns of table {name} would change; remove it and its rules in one edit, and add them \
                     in another"
                ));
            }
            if will_be_seen.contains(&id) && !seen.contains(&before) {
                return Err(format!(
                    "the changes of table {name} would be printed from now on, although its rows never were; remove \
                     it and its rules in one edit, and add them in another"
                ));
            }
        }
        let before = meanings(old);
        for (identity, (meaning, place)) in meanings(new) {
            if before.get(&identity).is_some_and(|(was, _)| *was != meaning) {
                return Err(format!(
                    "the rule at {place} stays, but its meaning would change with the meaning of a name in it; \
                     remove the rule in one edit, and add it in another"
                ));
            }
        }
        Ok(())
    }
}

/// The identity of a rule in its text: its tokens, the table that it fills and the tables that it reads.
type RuleIdentity<'a> = (u64, &'a str, Vec<&'a str>);

/// The meanings of rules by identity, with the place of one of the rules.
fn meanings(program: &Program) -> BTreeMap<RuleIdentity<'_>, (BTreeSet<String>, &Place)> {
    let name = |table: &TableId| program.schema.table(*table).name.as_str();
    let mut meanings: BTreeMap<RuleIdentity<'_>, (BTreeSet<String>, &Place)> = BTreeMap::new();
    for rule in &program.rules {
        let mut meaning = format!("{:?} {:?}", rule.variables, rule.terms);
        let mut reads = Vec::new();
        for item in &rule.body {
            match item {
                BodyItem::Atom { table, terms, .. } => {
                    reads.push(name(table));
                    meaning.push_str(&format!(" {terms:?}"));
                }
                item => meaning.push_str(&format!(" {item:?}")),
            }
        }
        let identity = (rule.fingerprint, name(&rule.head), reads);
        meanings.entry(identity).or_insert_with(|| (BTreeSet::new(), &rule.place)).0.insert(meaning);
    }
    meanings
}

/// A rule or declaration in a text.
struct Statement {
    identity: Identity,
    /// Its bytes.
    range: Range<usize>,
    /// The name that it declares, unless it is a table.
    names: Option<String>,
}

/// The identity of a statement, independent of layout.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    /// The rule's fingerprint.
    Rule(u64),
    /// The declaration's tokens.
    Declaration(Vec<String>),
    /// An import, which a program made of all its sources does not need.
    Import,
}

fn statements(text: &str) -> Vec<Statement> {
    let root = parse(text).root();
    let rules = lower(&root, 0).rules;
    let statement = |node: SyntaxNode| {
        let range = usize::from(node.text_range().start())..usize::from(node.text_range().end());
        let tokens = node.descendants_with_tokens().filter_map(|element| element.as_token().cloned());
        let tokens: Vec<_> = tokens.filter(|token| !token.kind().is_trivia()).collect();
        let (mut names, kind) = (None, node.kind());
        let identity = match kind {
            SyntaxKind::Rule => {
                let within = |start: u32| range.contains(&(start as usize));
                Identity::Rule(rules.iter().find(|rule| within(rule.span.start))?.fingerprint)
            }
            SyntaxKind::Import => Identity::Import,
            _ => {
                if matches!(kind, SyntaxKind::Const | SyntaxKind::TypeDeclaration | SyntaxKind::Function) {
                    names = tokens.iter().find(|token| token.kind() == SyntaxKind::Ident).cloned();
                }
                Identity::Declaration(tokens.iter().map(|token| token.text().to_owned()).collect())
            }
        };
        Some(Statement { identity, range, names: names.map(|name| name.text().to_owned()) })
    };
    root.children().filter_map(statement).collect()
}

/// A statement to remove, with its place in the edit.
struct Removed {
    statement: Statement,
    place: String,
    text: String,
}

/// The statements in the texts of an edit; each text has a name.
fn wanted_statements(texts: &[(String, String)]) -> Result<Vec<Removed>, String> {
    let mut wanted = Vec::new();
    for (name, text) in texts {
        let sources = Sources::from_texts([(name, text.as_str())]);
        let place = |at: usize| {
            let (line, column) = sources.file(0).position(at as u32);
            format!("{name}:{line}:{column}")
        };
        if let Some(error) = parse(text).errors.first() {
            let (message, help) = (&error.message, &error.help);
            return Err(format!("{}: error[syntax]: {message}; {help}", place(error.range.start)));
        }
        for statement in statements(text) {
            let all = &text[statement.range.clone()];
            let begins = statement.range.start + (all.len() - all.trim_start().len());
            if statement.identity == Identity::Import {
                return Err(format!(
                    "{}: imports cannot be removed; remove the imported statements instead",
                    place(begins)
                ));
            }
            wanted.push(Removed { place: place(begins), text: all.trim().to_owned(), statement });
        }
    }
    Ok(wanted)
}

/// Replaces removed statements by blanks. Line breaks stay, so that the positions of other statements do not change.
fn cut_out(files: &mut [(String, String)], removed: &[Removed]) -> Result<(), String> {
    let wanted: BTreeSet<&Identity> = removed.iter().map(|removed| &removed.statement.identity).collect();
    let mut found: BTreeSet<Identity> = BTreeSet::new();
    for (_, text) in files {
        for Statement { identity, range, .. } in statements(text).into_iter().rev() {
            let is_removed = wanted.contains(&identity);
            if is_removed || identity == Identity::Import {
                let blank = |character| if matches!(character, '\n' | '\r') { character } else { ' ' };
                let blanks: String = text[range.clone()].chars().map(blank).collect();
                text.replace_range(range, &blanks);
            }
            if is_removed {
                found.insert(identity);
            }
        }
    }
    match removed.iter().find(|removed| !found.contains(&removed.statement.identity)) {
        None => Ok(()),
        Some(Removed { place, text, .. }) => Err(format!("{place}: the program has no `{text}`")),
    }
}

/// Refuses to remove and declare a name in one edit: rules are identified by their tokens, so the meaning of a name
/// in a rule that stays must not change.
fn declared_again(removed: &[Removed], added: &[(String, String)]) -> Result<(), String> {
    let gone: BTreeSet<&String> =
        removed.iter().filter_map(|removed| removed.statement.names.as_ref()).collect();
    for name in added.iter().flat_map(|(_, text)| statements(text)).filter_map(|statement| statement.names) {
        if gone.contains(&name) {
            return Err(format!(
                "`{name}` is removed and declared again in one edit, which could change the meaning of rules that \
                 stay; remove it and its rules in one edit, and add them all in another"
            ));
        }
    }
    Ok(())
}

//! A recorded state under other names and addresses, to be sent to somebody who must not see the real ones.
//!
//! What is a name follows from the declarations: every text in objects, rows, labels and memories is one, except members of enumerations,
//! names of kinds, and texts that the rules themselves contain (`words`). Names are numbered in their order, so that whatever the rules
//! choose by an order of names stays the choice (`mapping`). Addresses keep their common prefixes (`addresses`). Numbers stay.
//!
//! The state passes through the same walk (`walk`) twice: first to collect what is in it, then to replace that.
//!
//! What differs: choices by a hash of names or by an order of addresses. The text of the rules and the names of their files stay.

mod addresses;
mod mapping;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use crate::builtin;
use crate::record::{Base, Record, RulesText};
use crate::restore::{RestoreError, objects_of};
use crate::rules::Rules;
use crate::rules_versions::RulesVersion;

pub use mapping::Mapping;

/// The number of bytes of a secret.
pub const SECRET_BYTES: usize = 16;

/// Random bytes that determine the new addresses. Who knows them can undo those, so nobody keeps them.
pub type Secret = [u8; SECRET_BYTES];

/// Why a state cannot be anonymised.
#[derive(Debug, thiserror::Error)]
pub enum AnonymiseError {
    /// The record is a single transaction.
    #[error("the record has no whole state; anonymise a snapshot")]
    NoBase,
    /// An object or a row does not fit the rules.
    #[error("{place} does not fit the rules: {why}; anonymise it with the rules that it was recorded with")]
    Misfit {
        /// The table, or the whole.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// The rules restrict names of some type to a form.
    #[error(
        "the rules take no other names in {place}: {why}; \
         let the type of these names admit a letter with digits after it, such as n00001"
    )]
    Names {
        /// The table.
        place: String,
        /// The violated constraint.
        why: String,
    },
    /// A value holds matches or actions.
    #[error(
        "{place} has matches or actions of OpenFlow, which cannot be anonymised; remove these rows first"
    )]
    OpenFlow {
        /// The table.
        place: String,
    },
    /// The rules refuse the objects under their new names.
    #[error("the state with other names is refused: {0}; report this as a defect of weft")]
    Refused(#[from] RestoreError),
}

/// A state under other names and addresses. `record` has a [`Base`]; `rules` are those that it was recorded with. The same secret gives
/// the same addresses.
///
/// # Errors
/// The record has no whole state, does not fit the rules, or has values that cannot be replaced.
pub fn anonymise(
    record: &Record,
    rules: &Rules,
    secret: Secret,
) -> Result<(Record, Mapping), AnonymiseError> {
    let base = record.base.as_ref().ok_or(AnonymiseError::NoBase)?;
    let objects = objects_of(record, rules.kinds())
        .map_err(|why| AnonymiseError::Misfit { place: "the state".to_owned(), why: why.to_string() })?;
    let mut found = mapping::Found::new(words::Words::of(rules.program()));
    walk::state(&mut found, record, &objects, rules)?;
    let mut mapping = found.mapping(secret);
    let mut state = walk::state(&mut mapping, record, &objects, rules)?;
    state.base = Some(Box::new(Base {
        format: base.format,
        journal: format!("{:016x}", mapping.keyed(base.journal.as_bytes())).into(),
        sum: mapping.keyed(&base.sum.to_be_bytes()) as u32,
        revisions: objects.iter().map(|(_, object)| object.revision()).collect(),
        answered: Vec::new(),
        rules: base.rules.as_ref().map(without_packages),
        versions: base.versions.map(|version| RulesVersion {
            by: if version.txn == 0 { String::new() } else { REQUESTER.to_owned() },
            text: without_packages(&version.text).into(),
            ..version.clone()
        }),
    }));
    objects_of(&state, rules.kinds())?;
    Ok((state, mapping))
}

/// Who loaded rules, whoever it was.
const REQUESTER: &str = "somebody";

/// The same files. What they were read from are paths of somebody's machine, but for the built-in rules.
fn without_packages(rules: &RulesText) -> RulesText {
    let name = |(number, package): (usize, &String)| match package.as_str() {
        builtin::NAME => package.clone(),
        _ => format!("package-{number}"),
    };
    RulesText { packages: rules.packages.iter().enumerate().map(name).collect(), files: rules.files.clone() }
}

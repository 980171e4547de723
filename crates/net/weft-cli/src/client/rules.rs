//! `weft rules load`, `weft rules rollback`, `weft rules history`: the rules of a running controller.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value as Json, json};
use weft_client::{Changes, pb};
use weft_core::rules::Rules;
use weft_core::shown;

use super::answer::Form;
use super::changes::Terms;
use super::{Address, failed};
use crate::exit::{Failure, print_as};

/// Arguments of `weft rules load`.
#[derive(Args)]
#[command(after_help = "\
        It is one transaction: objects, numbers and reports stay, and switches get the difference of flows\n\
        as one bundle. It is refused, and nothing changes, if the rules have mistakes, refuse what is there,\n\
        or would lose something: objects of a kind, a field, numbers that a hook has given.")]
pub(crate) struct LoadRules {
    /// The rules, as one program; `builtin` is the built-in ones of this `weft`
    #[arg(required = true, value_name = "RULES")]
    rules: Vec<PathBuf>,
    #[command(flatten)]
    terms: Terms,
}

impl LoadRules {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let LoadRules { rules, terms } = self;
        // Mistakes in the rules first: they need no controller.
        let rules = Rules::load(&rules).map_err(|error| Failure::Rejected(error.to_string()))?;
        let request = load_request(&rules, "weft rules load")?;
        terms.carry_out(Changes::LoadRules(request), &[], Form::Rules)
    }
}

/// The request to load rules.
pub(crate) fn load_request(rules: &Rules, by: &str) -> Result<pb::LoadRulesRequest, Failure> {
    let text =
        rules.text().ok_or_else(|| Failure::Outside("the rules were read, and have no text".to_owned()))?;
    let file = |(name, text): (Arc<str>, String)| pb::RulesFile { name: name.to_string(), text };
    Ok(pb::LoadRulesRequest {
        files: text.files.into_iter().map(file).collect(),
        packages: text.packages,
        by: by.to_owned(),
        terms: None,
    })
}

/// What a load of rules costs, for a person.
pub(crate) fn cost(engine: &pb::EngineTransition) -> String {
    if engine.edited {
        format!("cost: an edit of the engine; rows derived: {}", engine.rows)
    } else {
        "cost: another engine, which derives all rows and takes the place of the one that runs".to_owned()
    }
}

/// Arguments of `weft rules rollback`.
#[derive(Args)]
#[command(after_help = "\
        It is a load like others, and can itself be taken back. `--to 0` goes back to the rules before the\n\
        first load. `weft rules history` lists the versions that are kept.")]
pub(crate) struct RollbackRules {
    /// To the version that this transaction loaded [default: the one before]
    #[arg(long, value_name = "TXN")]
    to: Option<u64>,
    #[command(flatten)]
    terms: Terms,
}

impl RollbackRules {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let RollbackRules { to, terms } = self;
        let request = pb::RollbackRulesRequest { to, by: "weft rules rollback".to_owned(), terms: None };
        terms.carry_out(Changes::RollbackRules(request), &[], Form::Rules)
    }
}

/// Arguments of `weft rules history`.
#[derive(Args)]
#[command(after_help = "\
        The newest comes first: it runs. `weft rules rollback --to TXN` goes back to another one.")]
pub(crate) struct RulesHistory {
    /// Print JSON, one version per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl RulesHistory {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let RulesHistory { json, address } = self;
        let versions =
            address.with(|mut client| async move { client.rules_history().await.map_err(failed) })?;
        let lines =
            versions.iter().map(|version| if json { json_of(version).to_string() } else { line(version) });
        print_as(json, &lines.map(|line| line + "\n").collect::<String>())
    }
}

fn line(version: &pb::RulesVersion) -> String {
    let pb::RulesVersion { txn, at, by, packages, fingerprint, configured } = version;
    let since = match txn {
        0 => "before the first load".to_owned(),
        txn => format!("transaction {txn}, {at}, by {}", shown(by)),
    };
    let packages = packages.iter().map(|package| shown(package).to_string()).collect::<Vec<_>>().join(", ");
    let configured = if *configured { " (configured)" } else { "" };
    format!("{fingerprint}  {since}: {packages}{configured}")
}

fn json_of(version: &pb::RulesVersion) -> Json {
    let pb::RulesVersion { txn, at, by, packages, fingerprint, configured } = version;
    json!({
        "txn": txn,
        "at": at,
        "by": by,
        "packages": packages,
        "fingerprint": fingerprint,
        "configured": configured,
    })
}

//! `weft schema`: the kinds of network objects that rules declare.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use objects::Kinds;
use serde_json::json;
use weft_core::{Rules, builtin};

use crate::exit::Failure;
use crate::program::compile;

/// Arguments of `weft schema`.
#[derive(Args)]
#[command(
    after_help = "The JSON Schema (draft 2020-12) describes one object: one YAML document in a file for `weft apply`.\n\
                  With it, an editor can complete fields and mark mistakes."
)]
pub(crate) struct Schema {
    /// `.nlog` files or folders that declare the kinds
    #[arg(value_name = "RULES", default_value = builtin::NAME)]
    rules: Vec<PathBuf>,
    /// List the kinds instead, each with the first sentence of its documentation
    #[arg(long)]
    kinds: bool,
    /// With --kinds: print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Schema {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let kinds = Kinds::new(compile(&self.rules)?.objects.clone());
        let text = match (self.kinds, self.json) {
            (false, _) => format!("{:#}\n", kinds.json_schema()),
            (true, true) => {
                let line = |kind: &objects::Kind| json!({"kind": kind.name(), "summary": kind.summary()});
                kinds.iter().map(|kind| line(kind).to_string() + "\n").collect()
            }
            (true, false) => {
                let width = kinds.names().map(str::len).max().unwrap_or_default();
                let line = |kind: &objects::Kind| format!("{:width$}  {}", kind.name(), kind.summary());
                kinds.iter().map(|kind| line(kind).trim_end().to_owned() + "\n").collect()
            }
        };
        std::io::stdout().write_all(text.as_bytes()).map_err(Failure::output)
    }
}

/// The kinds of the built-in rules.
pub(crate) fn built_in() -> Result<Kinds, Failure> {
    let rules = Rules::built_in().map_err(|error| Failure::outside("the built-in rules", error))?;
    Ok(rules.kinds().clone())
}

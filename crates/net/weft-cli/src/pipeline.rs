//! `weft pipeline`: what the rules put into switches, from the rules alone.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use pipeline::Pipeline;
use weft_core::builtin;

use crate::exit::Failure;
use crate::program::compile;

/// The end of `--help`.
const READING: &str = "\
Each stage lists its priorities, highest first, and each priority the shapes of its flows: the
match, the actions, and the rules that derive them. Text in angle brackets depends on the network.
To see the flows of a real logical switch, use `weft get logical-flows SWITCH`.";

/// Arguments of `weft pipeline`.
#[derive(Args)]
#[command(after_help = READING)]
pub(crate) struct PipelineCommand {
    /// `.nlog` files or folders, as one program
    #[arg(value_name = "PROGRAM", default_value = builtin::NAME)]
    programs: Vec<PathBuf>,
    /// Print a page in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl PipelineCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = compile(&self.programs)?;
        let pipeline = Pipeline::new(&program);
        let text = if self.json {
            let json = serde_json::to_string(&pipeline);
            json.map_err(|error| Failure::outside("cannot print the pipeline", error))? + "\n"
        } else if self.markdown {
            pipeline.markdown()
        } else {
            pipeline.to_string()
        };
        std::io::stdout().write_all(text.as_bytes()).map_err(Failure::output)
    }
}

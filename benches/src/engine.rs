//! Compiles programs and starts engines for all benchmarks.

use std::sync::Arc;

use anyhow::{Result, bail};
use clap::ValueEnum;
use nlog::{Program, Sources};
use nlog_data::Tables;
use nlog_dataflow::{Dataflow, Kind, Options};
use nlog_plan::Settings;

/// The engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// The one that users get.
    Fused,
    /// The composition of differential's standard operators.
    Composed,
}

impl Engine {
    /// Starts it. It reports changes of output tables.
    pub(crate) fn start(self, program: Arc<Program>, workers: usize) -> Result<Dataflow> {
        self.start_with(program, workers, Settings::default())
    }

    /// Starts it with a plan made with these settings.
    pub(crate) fn start_with(
        self,
        program: Arc<Program>,
        workers: usize,
        planning: Settings,
    ) -> Result<Dataflow> {
        Ok(Dataflow::new(program, self.options(workers, planning))?)
    }

    /// The options of the engine.
    pub(crate) fn options(self, workers: usize, planning: Settings) -> Options {
        let engine = match self {
            Engine::Fused => Kind::Fused,
            Engine::Composed => Kind::Composed,
        };
        Options { engine, workers, observe: Tables::Outputs, planning, ..Options::default() }
    }
}

/// Compiles one text.
pub(crate) fn compile(name: &str, text: &str) -> Result<Arc<Program>> {
    let compilation = nlog::compile(&Sources::from_texts([(name, text)]));
    match compilation.program {
        Some(program) => Ok(program),
        None => bail!("{name} does not compile: {:?}", compilation.diagnostics),
    }
}

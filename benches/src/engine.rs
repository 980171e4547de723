//! Compiles programs and starts the engine for all benchmarks.

use std::sync::Arc;

use anyhow::{Result, bail};
use nlog::{Program, Sources};
use nlog_data::Tables;
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::Settings;

/// Starts the engine. It reports changes of output tables.
pub(crate) fn start(program: Arc<Program>, workers: usize) -> Result<Dataflow> {
    start_with(program, workers, Settings::default())
}

/// Starts the engine with a plan made with these settings.
pub(crate) fn start_with(program: Arc<Program>, workers: usize, planning: Settings) -> Result<Dataflow> {
    Ok(Dataflow::new(program, options(workers, planning))?)
}

/// The options of the engine.
pub(crate) fn options(workers: usize, planning: Settings) -> Options {
    Options { workers, observe: Tables::Outputs, planning, ..Options::default() }
}

/// Compiles one text.
pub(crate) fn compile(name: &str, text: &str) -> Result<Arc<Program>> {
    let compilation = nlog::compile(&Sources::from_texts([(name, text)]));
    match compilation.program {
        Some(program) => Ok(program),
        None => bail!("{name} does not compile: {:?}", compilation.diagnostics),
    }
}

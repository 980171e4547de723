//! `weft eval --timely --processes`: the processes that share the work, over timely's communication.

use std::path::PathBuf;

use clap::Args;
use nlog_dataflow::{Processes, hostfile};

use crate::exit::Failure;
use crate::help::MORE;

/// The ways to more workers than threads of one process.
#[derive(Args)]
pub(super) struct Cluster {
    /// Run on a worker of timely even if there is only one
    #[arg(long, help_heading = MORE, conflicts_with = "reference")]
    pub(super) timely: bool,
    /// Number of processes; start each with the same program and options
    #[arg(long, help_heading = MORE, value_name = "N", requires_all = ["timely", "process", "hostfile"],
          value_parser = clap::value_parser!(u16).range(1..=256))]
    processes: Option<u16>,
    /// This process, from 0; process 0 reads transactions and prints changes
    #[arg(long, help_heading = MORE, value_name = "I", requires = "processes")]
    process: Option<u16>,
    /// `HOST:PORT` of each process, one a line; use a trusted network only
    #[arg(long, help_heading = MORE, value_name = "FILE", requires = "processes")]
    hostfile: Option<PathBuf>,
}

impl Cluster {
    /// The processes, and the number of this one; `None` if there is only this one.
    pub(super) fn processes(&self) -> Result<Option<(Processes, usize)>, Failure> {
        let (Some(count), Some(process), Some(file)) = (self.processes, self.process, &self.hostfile) else {
            return Ok(None);
        };
        if process >= count {
            return Err(Failure::Usage(format!(
                "--process {process}: the {count} processes are numbered from 0 to {}",
                count - 1
            )));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::outside(file.display().to_string(), error))?;
        let addresses = hostfile(&text, usize::from(count));
        let addresses = addresses.map_err(|why| Failure::Outside(format!("{}: {why}", file.display())))?;
        Ok(Some((Processes::new(usize::from(process), addresses), usize::from(process))))
    }
}

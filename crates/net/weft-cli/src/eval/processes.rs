//! `weft eval --timely --processes`: the processes that share the work, over timely's communication.

use std::path::PathBuf;

use clap::Args;
use nlog_dataflow::{Processes, hostfile};

use crate::exit::Failure;

/// The ways to more workers than threads of one process.
#[derive(Args)]
pub(super) struct Cluster {
    /// Run the rules on a worker of timely even if there is only one; several always are timely's
    #[arg(long, conflicts_with = "reference")]
    pub(super) timely: bool,
    /// The number of processes, each with `--workers` workers. Process 0 reads the transactions and prints the changes; start the others
    /// with the same program and options
    #[arg(long, value_name = "N", requires_all = ["timely", "process", "hostfile"],
          value_parser = clap::value_parser!(u16).range(1..=256))]
    processes: Option<u16>,
    /// The number of this process, from 0
    #[arg(long, value_name = "I", requires = "processes")]
    process: Option<u16>,
    /// A file with the address of each process, one `HOST:PORT` a line. The connections are not encrypted, and whoever reaches the
    /// addresses is trusted: use loopback, or a network without other users
    #[arg(long, value_name = "FILE", requires = "processes")]
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

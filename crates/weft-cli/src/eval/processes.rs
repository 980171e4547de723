//! `weft eval --processes`: starts this command several times, as the processes that share the work.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use clap::Args;
use nlog::Program;
use nlog_dataflow::processes::{Meeting, MeetingError, ServeError, serve};
use nlog_dataflow::{Dataflow, Options, StartError};

use crate::exit::Failure;
use crate::program::compile;

/// The name of the worker command, which `--help` does not show.
const COMMAND: &str = "eval-process";

/// Arguments of a process that `weft eval --processes` starts. The shared secret comes as a line of standard input,
/// because all users of a machine can see arguments.
#[derive(Args)]
pub(crate) struct EvalProcess {
    /// Where `weft eval` listens
    #[arg(long, value_name = "ADDRESS")]
    join: SocketAddr,
    /// The program that it runs
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
}

impl EvalProcess {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut secret = String::new();
        io::stdin().read_line(&mut secret).map_err(|error| Failure::outside("standard input", error))?;
        let program = compile(&self.programs)?;
        serve(program, self.join, secret.trim_end()).map_err(|error| match error {
            ServeError::Meeting(error) => Failure::Outside(error.to_string()),
            // The parent process reports it, if it still runs.
            ServeError::Lost(_) | ServeError::Panicked(_) => Failure::Reported,
        })
    }
}

/// The started processes. Dropping this kills them, so it must be dropped after the engine, which ends them in order.
#[derive(Default)]
pub(super) struct Helpers(Vec<Child>);

impl Helpers {
    /// Starts an engine whose work is shared by this many processes, including this one.
    pub(super) fn start(
        &mut self,
        processes: usize,
        programs: &[PathBuf],
        program: Arc<Program>,
        options: Options,
    ) -> Result<Dataflow, Failure> {
        let secret =
            format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        let meeting = Meeting::new((Ipv4Addr::LOCALHOST, 0), &secret, processes)
            .map_err(|error| Failure::Outside(error.to_string()))?;
        for _ in 1..processes {
            let child = start_one(meeting.address(), &secret, programs);
            self.0.push(child.map_err(|error| Failure::outside("starting a process", error))?);
        }
        Dataflow::across(program, options, meeting).map_err(|error| match error {
            StartError::Processes(MeetingError::Composed) => Failure::Usage(format!("--processes: {error}")),
            error => Failure::Outside(error.to_string()),
        })
    }
}

fn start_one(process_0: SocketAddr, secret: &str, programs: &[PathBuf]) -> io::Result<Child> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([COMMAND, "--join", &process_0.to_string(), "--"])
        .args(programs)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    // If the process ends at once, the others notice when they connect.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = writeln!(stdin, "{secret}");
    }
    Ok(child)
}

impl Drop for Helpers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // The process has ended or is no longer needed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

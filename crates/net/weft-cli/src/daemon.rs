//! `weft controller`: the daemon.

use std::path::PathBuf;

use clap::Args;
use controller::{Config, ConfigError};

use crate::exit::{Failure, print};
use crate::free_memory;

/// Arguments of `weft controller`.
#[derive(Args)]
#[command(after_help = "Example of a configuration file; all keys have defaults:\n  \
        state = \"/var/lib/weft\"               # the folder of the journal\n  \
        rules = [\"builtin\", \"quarantine\"]    # the built-in rules and a package\n\n\
        A variable of the environment overrides a key, as WEFT_CONFIG_LOG=debug overrides `log`. On SIGHUP,\n\
        a running controller reads its configuration again.\n\n\
        Before a restart, run `weft controller --check --config FILE`: whatever would stop the start stops\n\
        the check, with the same message. A controller may run meanwhile.")]
pub(crate) struct Controller {
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration, the rules and the state, change nothing, and exit
    #[arg(long)]
    check: bool,
    /// Print all values of the configuration and where each comes from, and exit
    #[arg(long, conflicts_with = "check")]
    print_config: bool,
}

impl Controller {
    /// Runs the command until a signal ends it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let effective = Config::load(&self.config, std::env::vars_os()).map_err(|error| match error {
            ConfigError::Io { .. } => Failure::Outside(error.to_string()),
            // A line for each, as compilers do.
            ConfigError::Content(_) => Failure::Rejected(error.to_string().replace('\n', "\nerror: ")),
        })?;
        if self.print_config {
            return print(&effective.to_string());
        }
        let result = if self.check {
            controller::check(&effective.config)
        } else {
            free_memory::start();
            controller::run(&effective, free_memory::of_thread)
        };
        result.map_err(|error| {
            let failure = if error.is_rejection() { Failure::Rejected } else { Failure::Ended };
            failure(error.to_string())
        })
    }
}

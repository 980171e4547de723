//! `weft controller`: the daemon.

use std::path::PathBuf;

use clap::Args;
use controller::{Config, ConfigError};

use crate::exit::Failure;
use crate::free_memory;

/// Arguments of `weft controller`.
#[derive(Args)]
#[command(after_help = "Example of a configuration file; all keys have defaults:\n  \
        state = \"/var/lib/weft\"               # the folder of the journal\n  \
        rules = [\"builtin\", \"quarantine\"]    # the built-in rules and a package\n\n\
        Before a restart, run `weft controller --check --config FILE`: whatever would stop the start stops\n\
        the check, with the same message. A controller may run meanwhile.")]
pub(crate) struct Controller {
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration, the rules and the state, change nothing, and exit
    #[arg(long)]
    check: bool,
}

impl Controller {
    /// Runs the command until a signal ends it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = Config::load(&self.config).map_err(|error| match error {
            ConfigError::Io { .. } => Failure::Outside(error.to_string()),
            ConfigError::Content { .. } => Failure::Rejected(error.to_string()),
        })?;
        if !self.check {
            free_memory::start();
        }
        let result = if self.check {
            controller::check(&config)
        } else {
            controller::run(&config, free_memory::of_thread)
        };
        result.map_err(|error| {
            let failure = if error.is_rejection() { Failure::Rejected } else { Failure::Ended };
            failure(error.to_string())
        })
    }
}

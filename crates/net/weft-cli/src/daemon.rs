//! `weft controller`: the daemon.

use std::path::PathBuf;

use clap::Args;
use controller::{Config, ConfigError};

use crate::exit::Failure;
use crate::free_memory;

/// Arguments of `weft controller`.
#[derive(Args)]
pub(crate) struct Controller {
    /// The configuration file (TOML). Its keys are `state`, `listen`, `socket_mode`, `insecure`, `rules`,
    /// `engine`, `workers` and `log`; all have defaults
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration, the rules, and whether they accept the state, then exit. Changes nothing; a controller may run
    /// meanwhile
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

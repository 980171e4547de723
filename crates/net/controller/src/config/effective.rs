//! The values in force, where each comes from, and how two configurations differ.

use std::fmt;
use std::path::PathBuf;

use super::{Config, KEYS, Key};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The key is not set.
    Default,
    /// The file, with the line.
    File(PathBuf, usize),
    /// A variable of the environment.
    Variable(String),
}

/// A configuration, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The values.
    pub config: Config,
    /// The file.
    pub path: PathBuf,
    /// Where each comes from, in the order of [`KEYS`].
    pub(super) origins: Vec<Origin>,
}

/// A key whose value has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The key.
    pub key: &'static Key,
    /// The former value as TOML, or `not set`.
    pub from: String,
    /// The new value, likewise.
    pub to: String,
    /// Where the new value comes from.
    pub origin: Origin,
}

impl Effective {
    /// Takes from a later configuration what a running controller can.
    pub(crate) fn take_what_reloads(&mut self, later: Effective) {
        for ((key, origin), later) in KEYS.iter().zip(&mut self.origins).zip(later.origins) {
            if key.reloads {
                *origin = later;
            }
        }
        self.config.take_what_reloads(later.config);
    }

    /// What differs in a later configuration.
    pub fn changes_to(&self, later: &Effective) -> Vec<Changed> {
        let values = self.config.values().into_iter().zip(later.config.values());
        let changed = KEYS.iter().zip(values).zip(&later.origins).filter(|((_, (from, to)), _)| from != to);
        let text = |value: Option<toml::Value>| {
            value.map_or_else(|| "not set".to_owned(), |value| value.to_string())
        };
        changed
            .map(|((key, (from, to)), origin)| Changed {
                key,
                from: text(from),
                to: text(to),
                origin: origin.clone(),
            })
            .collect()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => f.write_str(name),
        }
    }
}

/// As a configuration file, with the origin of each value beside it.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((key, value), origin) in KEYS.iter().zip(self.config.values()).zip(&self.origins) {
            match value {
                Some(value) => {
                    let line = format!("{} = {value}", key.name);
                    writeln!(f, "{line:<46} # {origin}")?;
                }
                None => writeln!(f, "# {} is not set", key.name)?,
            }
        }
        Ok(())
    }
}

//! Wirings: a hook with its source table, target table and settings.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::registry::{self, HOOKS, Kind, Settings};

/// A hook between two tables. As text: `connected_components:link:component`,
/// `hysteresis:up:stable:rise=1000,fall=500`.
#[derive(Debug, Clone)]
pub struct Wiring {
    /// The kind of hook.
    pub kind: &'static Kind,
    /// The output table that it reads.
    pub from: String,
    /// The input table that it alone fills.
    pub to: String,
    /// The values of its settings.
    pub settings: Settings,
}

/// The reason why hooks cannot be wired as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WiringError {
    /// The text is no wiring.
    #[error(
        "`{0}` is not a hook: write HOOK:FROM:TO or HOOK:FROM:TO:SETTING=NUMBER,…, for example \
        hysteresis:up:stable:rise=1000,fall=500"
    )]
    Form(String),
    /// No hook has this name.
    #[error("unknown hook `{name}`; the hooks are {}", names())]
    UnknownHook {
        /// The name.
        name: String,
    },
    /// A setting that is unknown, missing, duplicated, or not a number.
    #[error("hook {hook}: {what}; settings: {}", settings_of(hook))]
    Setting {
        /// The hook's name.
        hook: String,
        /// The fault.
        what: String,
    },
    /// The program does not have a table.
    #[error("hook {wiring}: the program has no table `{table}`")]
    UnknownTable {
        /// The wiring.
        wiring: String,
        /// The table's name.
        table: String,
    },
    /// A table does not have the role that the hook requires.
    #[error(
        "hook {wiring}: a hook connects an output table to an input table; declare `{wanted} table {table}`"
    )]
    Role {
        /// The wiring.
        wiring: String,
        /// The table's name.
        table: String,
        /// The role wanted.
        wanted: &'static str,
    },
    /// Columns or keys do not fit the hook.
    #[error("hook {wiring}: {what}")]
    Columns {
        /// The wiring.
        wiring: String,
        /// The fault.
        what: String,
    },
    /// Two hooks fill one table.
    #[error(
        "hooks {first} and {second} fill the same table; use a separate table for each, and combine them \
        with rules"
    )]
    SameTarget {
        /// One of the wirings.
        first: String,
        /// The other.
        second: String,
    },
    /// A hook's source depends on its target.
    #[error(
        "hook {wiring} forms a cycle: {}; this might not terminate, so its source must not depend on its \
        target",
        path.join(" → ")
    )]
    Recursion {
        /// The wiring.
        wiring: String,
        /// The tables from its target to its source and back to its target.
        path: Vec<String>,
    },
}

fn names() -> String {
    HOOKS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}

fn settings_of(hook: &str) -> String {
    let settings = registry::find(hook).map_or(&[][..], |kind| kind.settings);
    let said: Vec<String> =
        settings.iter().map(|setting| format!("{}=NUMBER ({})", setting.name, setting.summary)).collect();
    if said.is_empty() { "none".to_owned() } else { said.join(" and ") }
}

impl FromStr for Wiring {
    type Err = WiringError;

    fn from_str(text: &str) -> Result<Self, WiringError> {
        let form = || WiringError::Form(text.to_owned());
        let mut parts = text.splitn(4, ':');
        let (Some(name), Some(from), Some(to)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(form());
        };
        if name.is_empty() || from.is_empty() || to.is_empty() {
            return Err(form());
        }
        let kind = registry::find(name).ok_or_else(|| WiringError::UnknownHook { name: name.to_owned() })?;
        let mut given = BTreeMap::new();
        for setting in parts.next().into_iter().flat_map(|settings| settings.split(',')) {
            let (name, value) = setting.split_once('=').ok_or_else(form)?;
            if given.insert(name, value).is_some() {
                return Err(setting_error(kind, format!("duplicate setting {name}")));
            }
        }
        let settings = settings(kind, given)?;
        Ok(Wiring { kind, from: from.to_owned(), to: to.to_owned(), settings })
    }
}

fn setting_error(kind: &Kind, what: String) -> WiringError {
    WiringError::Setting { hook: kind.name.to_owned(), what }
}

/// The values of all settings of a kind.
fn settings(kind: &'static Kind, mut given: BTreeMap<&str, &str>) -> Result<Settings, WiringError> {
    let mut settings = Settings::new();
    for setting in kind.settings {
        let name = setting.name;
        let value =
            given.remove(name).ok_or_else(|| setting_error(kind, format!("missing setting {name}")))?;
        let number = value.parse().map_err(|_| {
            setting_error(kind, format!("{name}={value} is not a non-negative 64-bit integer"))
        })?;
        settings.insert(name, number);
    }
    match given.into_keys().next() {
        Some(name) => Err(setting_error(kind, format!("there is no setting `{name}`"))),
        None => Ok(settings),
    }
}

impl fmt::Display for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.kind.name, self.from, self.to)?;
        for (at, (name, value)) in self.settings.iter().enumerate() {
            write!(f, "{}{name}={value}", if at == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

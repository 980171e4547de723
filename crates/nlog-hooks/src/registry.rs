//! The registry of hooks. A new hook is a separate file and an entry here.

use std::collections::BTreeMap;

use nlog_data::Table;

use crate::connected_components::ConnectedComponents;
use crate::hook::Hook;
use crate::hysteresis::Hysteresis;

/// The values of all settings of a wiring, by name.
pub type Settings = BTreeMap<&'static str, u64>;

/// A kind of hook.
#[derive(Debug)]
pub struct Kind {
    /// Its name in wirings.
    pub name: &'static str,
    /// A description in one sentence.
    pub summary: &'static str,
    /// A description of the shape of its tables.
    pub shape: &'static str,
    /// Whether it depends on ticks.
    pub timed: bool,
    /// The settings that a wiring must provide.
    pub settings: &'static [Setting],
    /// Checks the shape of the source and the target, in this order; returns the reason if it is
    /// wrong.
    pub(crate) fits: fn(&Table, &Table) -> Result<(), String>,
    /// Makes one.
    pub(crate) make: fn(&Settings) -> Box<dyn Hook>,
}

/// A number that a wiring gives.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// A description with the unit.
    pub summary: &'static str,
}

/// The hooks, in the order of their names.
pub static HOOKS: [Kind; 2] = [
    Kind {
        name: "connected_components",
        summary: "the connected components of a graph, each identified by its smallest node",
        shape: "from undirected edges (a: T, b: T) to (node: T, component: T)",
        timed: false,
        settings: &[],
        fits: ConnectedComponents::fits,
        make: |_| Box::new(ConnectedComponents::default()),
    },
    Kind {
        name: "hysteresis",
        summary: "the same rows, with insertion and deletion of each row delayed until it has been stable \
        for a while",
        shape: "from any table to a table with the same column types",
        timed: true,
        settings: &[
            Setting {
                name: "rise",
                summary: "milliseconds for which a row must be present before it is \
            inserted",
            },
            Setting {
                name: "fall",
                summary: "milliseconds for which a row must be absent before it is \
            deleted",
            },
        ],
        fits: Hysteresis::fits,
        make: |settings| {
            let of = |name| settings.get(name).copied().unwrap_or_default();
            Box::new(Hysteresis::new(of("rise"), of("fall")))
        },
    },
];

/// The hook of this name.
pub fn find(name: &str) -> Option<&'static Kind> {
    HOOKS.iter().find(|kind| kind.name == name)
}

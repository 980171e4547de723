//! Every hook there is. A new one is a file of its own and an entry here.

use std::collections::BTreeMap;

use nlog_data::Table;

use crate::connected_components::ConnectedComponents;
use crate::hook::Hook;
use crate::hysteresis::Hysteresis;

/// The values of a wiring's settings, by name; all that the kind has, and no others.
pub type Settings = BTreeMap<&'static str, u64>;

/// A kind of hook.
#[derive(Debug)]
pub struct Kind {
    /// What a wiring calls it.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// The shape of its tables, for people.
    pub shape: &'static str,
    /// Whether ticks make a difference to it.
    pub timed: bool,
    /// What a wiring has to set.
    pub settings: &'static [Setting],
    /// Whether tables have the right shape, or why not. The order is: source, target.
    pub(crate) fits: fn(&Table, &Table) -> Result<(), String>,
    /// Makes one.
    pub(crate) make: fn(&Settings) -> Box<dyn Hook>,
}

/// A number that a wiring gives.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it means, with its unit.
    pub summary: &'static str,
}

/// The hooks, in the order of their names.
pub static HOOKS: [Kind; 2] = [
    Kind {
        name: "connected_components",
        summary: "which nodes of a graph hang together, named by the least of them",
        shape: "from edges (a: T, b: T), in no direction, to (node: T, component: T)",
        timed: false,
        settings: &[],
        fits: ConnectedComponents::fits,
        make: |_| Box::new(ConnectedComponents::default()),
    },
    Kind {
        name: "hysteresis",
        summary: "the same rows, but each only once it has been there for a while, and until it has been gone for a while",
        shape: "from any table to one with the same types of columns",
        timed: true,
        settings: &[
            Setting { name: "rise", summary: "milliseconds that a row has to be there before it comes" },
            Setting { name: "fall", summary: "milliseconds that it has to be gone before it goes" },
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

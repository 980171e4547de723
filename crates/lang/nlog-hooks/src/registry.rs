//! The registry of hooks. A new hook is a separate file and an entry here; its declaration is in [`nlog::hook`].

use nlog::hook::{HookKind, Wiring};

use crate::allocate::Allocate;
use crate::connected_components::ConnectedComponents;
use crate::hold::Hold;
use crate::hook::Hook;
use crate::hysteresis::Hysteresis;
use crate::pick::Pick;

/// Makes the hook of a program.
pub fn make(wiring: &Wiring) -> Box<dyn Hook> {
    // The checker has made sure that all numbers are there.
    let setting = |name| wiring.settings.get(name).copied().unwrap_or_default();
    let column = |name| wiring.settings.get(name).and_then(|column| usize::try_from(*column).ok());
    match wiring.hook {
        HookKind::Allocate => {
            let allocate = Allocate::new(setting("first"), setting("last"), column("scope"));
            Box::new(if column("identity").is_some() { allocate.by_identity() } else { allocate })
        }
        HookKind::ConnectedComponents => Box::new(ConnectedComponents::default()),
        HookKind::Hold => Box::new(Hold::default()),
        HookKind::Hysteresis => Box::new(Hysteresis::new(setting("rise"), setting("fall"))),
        HookKind::Pick => Box::new(Pick::new(column("scope"))),
    }
}

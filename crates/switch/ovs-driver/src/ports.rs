//! Tunnel and patch ports together: they share one space of names, and the database makes and removes them alike.

use std::collections::BTreeMap;

use switch_model::{Changes, Desired, Patch, Tunnel};

/// A port of the driver, of either kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Port {
    Tunnel(Tunnel),
    Patch(Patch),
}

/// The ports of both kinds, by name.
pub(crate) type Ports = BTreeMap<String, Port>;

impl Port {
    /// The port as readable text.
    pub(crate) fn show(&self, name: &str) -> String {
        match self {
            Port::Tunnel(tunnel) => format!("tunnel {name}: {tunnel}"),
            Port::Patch(patch) => format!("patch {name}: {patch}"),
        }
    }
}

/// The ports of a state.
pub(crate) fn desired(state: &Desired) -> Ports {
    ports(&state.tunnels, &state.patches).collect()
}

/// The ports to create or to change.
pub(crate) fn added(changes: &Changes) -> impl Iterator<Item = (String, Port)> {
    ports(&changes.tunnels.add, &changes.patches.add)
}

/// The ports to remove, except those to be created again as the other kind.
pub(crate) fn deleted(changes: &Changes) -> impl Iterator<Item = &String> {
    let Changes { tunnels, patches, .. } = changes;
    let is_added = |name: &String| tunnels.add.contains_key(name) || patches.add.contains_key(name);
    tunnels.delete.iter().chain(&patches.delete).filter(move |name| !is_added(name))
}

fn ports(
    tunnels: &BTreeMap<String, Tunnel>,
    patches: &BTreeMap<String, Patch>,
) -> impl Iterator<Item = (String, Port)> {
    let tunnels = tunnels.iter().map(|(name, tunnel)| (name.clone(), Port::Tunnel(tunnel.clone())));
    tunnels.chain(patches.iter().map(|(name, patch)| (name.clone(), Port::Patch(patch.clone()))))
}

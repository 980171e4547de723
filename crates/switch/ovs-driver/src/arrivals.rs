//! The order in which the interfaces of ports came. The database does not have it, so the driver remembers what it has seen.

use std::collections::BTreeMap;

use uuid::Uuid;

/// When interfaces got the ids of their ports, as far as this driver has seen it.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// The number of the look at which it was first there, by the id of the port and the interface.
    seen: BTreeMap<(String, Uuid), u64>,
    looks: u64,
}

impl Arrivals {
    /// Takes a look at the interfaces, each with the id of its port.
    pub(crate) fn note(&mut self, claims: impl Iterator<Item = (String, Uuid)>) {
        self.looks += 1;
        let before = std::mem::take(&mut self.seen);
        let since = |key: &(String, Uuid)| before.get(key).copied().unwrap_or(self.looks);
        self.seen = claims.map(|key| (key.clone(), since(&key))).collect();
    }

    /// The look at which an interface had the id of this port first. What was not there yet is later than all.
    pub(crate) fn of(&self, port: &str, interface: Uuid) -> u64 {
        self.seen.get(&(port.to_owned(), interface)).copied().unwrap_or(u64::MAX)
    }
}

//! The addresses that hosts have learned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::World;
use crate::frame::is_group;
use crate::world::Mac;

/// The learned addresses of all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Learned {
    now: Duration,
    /// By host, switch and MAC.
    entries: BTreeMap<(String, String, Mac), Entry>,
}

/// The port where an address was heard last, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    port: String,
    /// Whether it was learned because the port may have any, and not because the port shares it.
    of_any: bool,
    /// The age at which its switch forgot addresses when it was learned.
    age: Duration,
    until: Duration,
}

impl Learned {
    /// Forgets what the world as it is now leaves nobody to know.
    ///
    /// The addresses learned for a port are forgotten when the port is removed, is another one now, as in another switch or behind
    /// another parent, or it is no longer learned there for the same reason. A
    /// host forgets everything about a switch when it no longer has a port of the switch, and all hosts do when the switch
    /// learns no more or has another age: an address that keeps being heard would never take the new one. A migration
    /// forgets nothing, and neither does another limit.
    pub(crate) fn revise(&mut self, world: &World, others: &BTreeSet<String>) {
        self.entries.retain(|(host, switch, mac), entry| {
            let learning = world.learning(switch);
            world.is_heard_at(&entry.port, *mac)
                && world.is_learned_from(&entry.port) == entry.of_any
                && !others.contains(&entry.port)
                && world.switch_of(&entry.port) == Some(switch)
                && world.knows(host, switch)
                && learning.limit > 0
                && learning.age == entry.age
        });
    }

    /// Advances time. An address ages out when more than the age of its switch has passed since the last frame from it.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.entries.retain(|_, entry| entry.until >= now);
    }

    /// The port where a host has learned an address.
    pub(crate) fn find(&self, host: &str, switch: &str, mac: Mac) -> Option<&str> {
        self.entries.get(&key(host, switch, mac)).map(|entry| entry.port.as_str())
    }

    /// A host hears an address at `port`: it learns it, if the switch learns from this port. A host learns up to the limit
    /// of the switch on each port, and those that the port shares. What it does not learn changes nothing: an address that was heard elsewhere before stays
    /// there until it ages out.
    pub(crate) fn hear(&mut self, world: &World, host: &str, switch: &str, port: &str, mac: Mac) {
        if !world.is_heard_at(port, mac) || is_group(mac) {
            return;
        }
        let of_any = world.is_learned_from(port);
        let learning = world.learning(switch);
        let is_known = self.find(host, switch, mac) == Some(port);
        let at_port = self
            .entries
            .iter()
            .filter(|((at, of, _), entry)| at == host && of == switch && entry.port == port);
        let most = learning.limit as usize;
        if is_known || (if of_any { at_port.count() < most } else { most > 0 }) {
            let entry =
                Entry { port: port.to_owned(), of_any, age: learning.age, until: self.now + learning.age };
            self.entries.insert(key(host, switch, mac), entry);
        }
    }

    /// A host hears an address, but not at which port: it is not where it was, or it may not be.
    pub(crate) fn forget(&mut self, host: &str, switch: &str, mac: Mac) {
        self.entries.remove(&key(host, switch, mac));
    }
}

fn key(host: &str, switch: &str, mac: Mac) -> (String, String, Mac) {
    (host.to_owned(), switch.to_owned(), mac)
}

//! A frame's way through the network.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::World;
use crate::world::Mac;

/// How long a host remembers where an address is after the last frame from it.
pub const AGE: Duration = Duration::from_secs(300);

/// A place where frames go in and come out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tap {
    /// The interface that a host has for a port, as the VM behind it sees it: frames of the port's children are tagged.
    Vnic {
        /// The host.
        host: String,
        /// The port; never a child.
        port: String,
    },
    /// A machine on a physical network that gets all its frames, tags included.
    Physical {
        /// The physical network.
        network: String,
    },
}

impl Tap {
    /// The interface that `host` has for `port`.
    pub fn vnic(host: &str, port: &str) -> Tap {
        Tap::Vnic { host: host.to_owned(), port: port.to_owned() }
    }

    /// A machine on `network`.
    pub fn physical(network: &str) -> Tap {
        Tap::Physical { network: network.to_owned() }
    }
}

/// A frame that came out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Where.
    pub at: Tap,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// The network at a time: the world, and what hosts have learned.
#[derive(Clone, Debug, Default)]
pub struct Model {
    world: World,
    now: Duration,
    /// By host, switch and MAC.
    learned: BTreeMap<(String, String, Mac), Learned>,
}

/// Where an address was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Learned {
    port: String,
    until: Duration,
}

impl Model {
    /// The network before any frame.
    pub fn new(world: World) -> Model {
        Model { world, ..Model::default() }
    }

    /// The world as it is.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Changes the world, as one transaction does. What was learned of ports that are gone, or learn no more, goes too.
    pub fn apply(&mut self, change: impl FnOnce(&mut World)) {
        change(&mut self.world);
    }

    /// Time passes.
    pub fn advance(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.learned.retain(|_, learned| learned.until > now);
    }

    /// Sends a frame into the network and says what comes out, sorted.
    pub fn inject(&mut self, at: &Tap, frame: &[u8]) -> Vec<Arrival> {
        let _ = (at, frame);
        Vec::new()
    }
}

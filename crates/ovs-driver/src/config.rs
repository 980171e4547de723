//! What a driver needs to know, and the limits it keeps.

use std::collections::BTreeSet;
use std::time::Duration;

use peer_connection::Endpoint;

/// One switch: what it is called here and where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The transport node's name; every event carries it.
    pub name: String,
    /// The switch's database.
    pub ovsdb: Endpoint,
    /// The bridge's OpenFlow service, such as `unix:/run/openvswitch/br-int.mgmt`. It need not exist yet.
    pub openflow: Endpoint,
    /// The integration bridge, `br-int` everywhere. It is created if it is missing, and it belongs to the driver:
    /// flows and groups in it that nobody asked for are deleted.
    pub bridge: String,
    /// The datapath type of a bridge that must be created. `None`: `system` if the switch lists it, else `netdev`.
    /// A bridge that exists keeps the one it has.
    pub datapath_type: Option<String>,
    /// Tables whose flows the switch makes by itself (`learn` actions). They are neither read nor deleted.
    pub learned_tables: BTreeSet<u8>,
}

/// How long the driver waits for what, and how often it tries. The defaults suit a switch on the same host as well
/// as one across a data centre; tests shorten them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The pause after the first failed connection attempt; it doubles with every further one.
    pub backoff_min: Duration,
    /// The longest pause. A connection that lasted this long counts as good: the next pause is the shortest again.
    pub backoff_max: Duration,
    /// For connecting, and once more for hello and features.
    pub handshake_max: Duration,
    /// Silence on the OpenFlow connection after which the switch is asked whether it is alive.
    pub probe_after: Duration,
    /// How long it may then take to answer. Also how long it may take to accept bytes, or to complete a message
    /// that it has begun.
    pub stall_max: Duration,
    /// How long a request may go without progress, whether the switch answers probes or not: while it commits a
    /// large bundle it answers nothing (0.5 s for 300,000 flows on an idle machine).
    pub request_max: Duration,
    /// How long ovs-vswitchd may take to put a change of its database in force.
    pub in_force_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            handshake_max: Duration::from_secs(5),
            probe_after: Duration::from_secs(5),
            stall_max: Duration::from_secs(10),
            request_max: Duration::from_secs(30),
            in_force_max: Duration::from_secs(5),
        }
    }
}

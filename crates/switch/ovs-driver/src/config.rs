//! The configuration of a driver, and its timeouts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::message::TlvMapping;
use ovsdb_client::open_vswitch::FlowTable;
use peer_connection::Endpoint;

use crate::ownership::Owner;

/// One switch: its name and its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The transport node's name; every event carries it.
    pub name: String,
    /// The switch's database.
    pub ovsdb: Endpoint,
    /// The bridge's OpenFlow endpoint, such as `unix:/run/openvswitch/br-int.mgmt`. It need not exist yet.
    pub openflow: Endpoint,
    /// The integration bridge, usually `br-int`. The driver creates it if it is missing, and owns it: it deletes flows
    /// and groups that are not part of the desired state.
    pub bridge: String,
    /// The datapath type of a new bridge. `None`: `system` if the switch supports it, else `netdev`. An existing bridge
    /// keeps its type.
    pub datapath_type: Option<String>,
    /// The OpenFlow datapath id of the bridge, if it is known before the database reports it. The driver sends flows,
    /// groups and ports only if the OpenFlow endpoint and the bridge in the database have the same id.
    pub datapath_id: Option<u64>,
    /// The geneve option that flows use as a field; the driver maps it on the switch. `None` if flows use no option.
    pub tunnel_option: Option<TlvMapping>,
    /// Tables whose flows the switch itself creates (`learn` actions). The driver neither reads nor deletes them.
    pub learned_tables: BTreeSet<u8>,
    /// Tables whose flows the switch itself creates too, few of them. The driver reports those that are
    /// [awaited](crate::Desired::awaited).
    pub watched_tables: BTreeSet<u8>,
    /// Tables where the switch itself notes address conflicts, in flows that no packet meets: each matches one field, whose number is the label
    /// of a port, and sets another to an address. The driver reports them.
    pub conflict_tables: BTreeSet<u8>,
    /// The settings of the `learned_tables`. `None` leaves them as they are.
    pub learned_limit: Option<FlowTable>,
    /// The controller that the driver works for. The driver writes only to a switch that belongs to it, and marks the switch as such.
    /// With `None` it does neither.
    pub owner: Option<Arc<Owner>>,
}

impl Config {
    /// Whether the switch itself creates the flows of a table.
    pub(crate) fn is_learned(&self, table: u8) -> bool {
        self.learned_tables.contains(&table) || self.is_known_of(table)
    }

    /// Whether the driver knows the flows of a table, although the switch itself creates them.
    pub(crate) fn is_known_of(&self, table: u8) -> bool {
        self.watched_tables.contains(&table) || self.conflict_tables.contains(&table)
    }
}

/// Timeouts and retry intervals. The defaults suit a switch on the same host as well as one in another data centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The delay after the first failed connection attempt. It doubles with each further failure.
    pub backoff_min: Duration,
    /// The longest delay. A connection that lasts this long resets the delay to the shortest.
    pub backoff_max: Duration,
    /// The delay before something is tried again on a connection that works: what the switch refused, or a report of its database that is
    /// about to come. It doubles for flows, groups and meters that are refused again, up to `scrub_every`.
    pub retry_after: Duration,
    /// The time allowed for connecting, and again for exchanging hello and features.
    pub handshake_max: Duration,
    /// The silence on a connection after which the switch is probed with an echo request.
    pub probe_after: Duration,
    /// The silence after which the driver closes the connection, longer than `probe_after`. It is also the time that
    /// a switch has to take sent bytes and to complete a message. A switch that commits a large bundle answers
    /// nothing meanwhile: 0.5 s for 300,000 flows on an idle machine.
    pub stall_max: Duration,
    /// The time allowed for a request that makes no progress while the switch answers echo requests. A request that makes
    /// progress has ten times as long.
    pub request_max: Duration,
    /// The least delay before the next attempt after the peer has broken a limit of size or memory.
    pub limits_pause: Duration,
    /// The time allowed for ovs-vswitchd to put a change of its database in force.
    pub in_force_max: Duration,
    /// The interval at which groups are compared with the desired state. No switch reports changes of groups.
    pub compare_every: Duration,
    /// The interval at which all flows of the switch, and what is monitored of its database, are read and compared, too. The switch reports changes, but a flow
    /// that it lost, or a change that was lost on the way, has no report. The first comparison of a switch comes
    /// at some time within this interval, so that a controller does not read all its switches at once.
    pub scrub_every: Duration,
    /// The delay before the second repair when others repeat a change. It doubles each time. The first repair is
    /// immediate.
    pub repair_min: Duration,
    /// The longest such delay.
    pub repair_max: Duration,
}

impl Timing {
    /// The time allowed for answering a probe.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.stall_max.saturating_sub(self.probe_after)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_mins(1),
            retry_after: Duration::from_secs(2),
            handshake_max: Duration::from_secs(5),
            probe_after: Duration::from_secs(5),
            stall_max: Duration::from_secs(10),
            request_max: Duration::from_secs(30),
            limits_pause: Duration::from_secs(30),
            in_force_max: Duration::from_secs(5),
            compare_every: Duration::from_secs(30),
            scrub_every: Duration::from_mins(10),
            repair_min: Duration::from_millis(100),
            repair_max: Duration::from_secs(30),
        }
    }
}

/// The time until the first comparison of a whole switch: the same for each start, and different for each switch.
pub(crate) fn first_scrub(name: &str, every: Duration) -> Duration {
    every.mul_f64(f64::from(crc32fast::hash(name.as_bytes())) / f64::from(u32::MAX))
}

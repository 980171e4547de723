//! One simulated host: its switch and its database.

use std::collections::BTreeMap;
use std::iter::Sum;

use fake_switch::{FakeDatabase, FakeSwitch, Stream};
use ovsdb_client::TransactError;
use tokio::sync::mpsc::{self, UnboundedSender};

/// The integration bridge.
pub(crate) const BRIDGE: &str = "br-int";
/// The datapath id of the first host.
const FIRST_DATAPATH_ID: u64 = 0x7e_0000_0000;

/// A host with an Open vSwitch.
#[derive(Debug)]
pub struct SimulatedHost {
    id: String,
    switch: FakeSwitch,
    database: FakeDatabase,
}

/// The queues that take the accepted connections of a host.
#[derive(Debug)]
pub struct Streams {
    /// Those of its switch.
    pub to_switch: UnboundedSender<Stream>,
    /// Those of its database.
    pub to_database: UnboundedSender<Stream>,
}

/// What hosts have, and what they have received since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Hosts.
    pub hosts: usize,
    /// Hosts with a controller that may change their flows.
    pub driven: usize,
    /// Flows in force.
    pub flows: usize,
    /// Groups in force.
    pub groups: usize,
    /// Buckets of the groups.
    pub buckets: usize,
    /// Flow-mods received.
    pub flow_mods: usize,
    /// Group-mods received.
    pub group_mods: usize,
    /// Bundles committed.
    pub commits: usize,
    /// Connections to switches.
    pub connections: usize,
    /// Transactions of databases that changed rows.
    pub writes: usize,
    /// Faults that came into effect when a message arrived.
    pub faults: usize,
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Totals>>(of: I) -> Totals {
        of.fold(Totals::default(), |a, b| Totals {
            hosts: a.hosts + b.hosts,
            driven: a.driven + b.driven,
            flows: a.flows + b.flows,
            groups: a.groups + b.groups,
            buckets: a.buckets + b.buckets,
            flow_mods: a.flow_mods + b.flow_mods,
            group_mods: a.group_mods + b.group_mods,
            commits: a.commits + b.commits,
            connections: a.connections + b.connections,
            writes: a.writes + b.writes,
            faults: a.faults + b.faults,
        })
    }
}

impl SimulatedHost {
    /// Starts a host with an empty integration bridge, and says where its connections go. Hosts with different numbers have different
    /// datapath ids. Must be called within a tokio runtime.
    pub fn start(id: String, number: usize) -> (SimulatedHost, Streams) {
        let (to_switch, of_switch) = mpsc::unbounded_channel();
        let (to_database, of_database) = mpsc::unbounded_channel();
        let switch = FakeSwitch::start_given(of_switch);
        let database = FakeDatabase::start_given(of_database);
        let datapath_id = FIRST_DATAPATH_ID + number as u64;
        switch.datapath_id(datapath_id);
        database.datapath_id(BRIDGE, datapath_id);
        // An empty database takes the first bridge.
        database.add_bridge(BRIDGE).expect("no bridge has its name");
        (SimulatedHost { id, switch, database }, Streams { to_switch, to_database })
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its switch.
    pub fn switch(&self) -> &FakeSwitch {
        &self.switch
    }

    /// Its database.
    pub fn database(&self) -> &FakeDatabase {
        &self.database
    }

    /// Plugs interfaces in, one for each `iface-id`, in one transaction each.
    ///
    /// # Errors
    /// An interface of this name is there.
    pub fn plug(&self, ports: &BTreeMap<String, Option<String>>) -> Result<(), TransactError> {
        for (port, mac) in ports {
            let mut ids = vec![("iface-id", port.as_str())];
            ids.extend(mac.as_deref().map(|mac| ("attached-mac", mac)));
            self.database.plug(BRIDGE, &interface_name(port), &ids)?;
        }
        Ok(())
    }

    /// Takes an interface out. Returns whether it was there.
    ///
    /// # Errors
    /// The database refuses it.
    pub fn unplug(&self, port: &str) -> Result<bool, TransactError> {
        self.database.unplug(&interface_name(port))
    }

    /// What it has and has received.
    pub fn totals(&self) -> Totals {
        let (counts, database) = (self.switch.counts(), self.database.counts());
        let sizes = self.switch.sizes();
        Totals {
            hosts: 1,
            driven: usize::from(self.switch.has_primary()),
            flows: sizes.flows,
            groups: sizes.groups,
            buckets: sizes.buckets,
            flow_mods: counts.flow_mods,
            group_mods: counts.group_mods,
            commits: counts.commits,
            connections: counts.connections,
            writes: database.writes,
            faults: counts.faults + database.faults,
        }
    }
}

/// The interface of a port: names of interfaces have at most 15 characters in Linux, which databases do not ask for.
fn interface_name(port: &str) -> String {
    format!("tap-{port}")
}

//! A fake OVSDB server: the test double for the database of an Open vSwitch host.
//!
//! It speaks the real protocol over a unix socket or an in-memory network: `get_schema`, `monitor_cond_since`,
//! `monitor_cond`, `transact` with every operation of RFC 7047 except `commit`, updates, and echo in both directions.
//! Its database has the tables and columns of `Open_vSwitch` that describe bridges, ports and interfaces. As in a
//! real server, names are unique and unreferenced rows are deleted. A fake `ovs-vswitchd` assigns port numbers and
//! copies `next_cfg` to `cur_cfg`.
//!
//! On demand it misbehaves: it sends garbage, results that are too short or of another type, or unsolicited replies;
//! it answers late, closes connections, stalls in the middle of a message, or freezes. It counts the requests that it
//! receives. A test of `ovsdb-client` runs the same transactions on it and on a real `ovsdb-server`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use fake_switch::database::{FakeDatabase, Fault, Stage};
//! use ovsdb_client::open_vswitch::{self, BridgeSpec, Ensured};
//! use ovsdb_client::{Client, Endpoint, Options};
//! use peer_connection::InMemoryNetwork;
//!
//! let network = InMemoryNetwork::default();
//! let endpoint = Endpoint::Unix("db.sock".into());
//! let fake = FakeDatabase::start_in_memory(&network, endpoint.clone());
//! fake.fault(Stage::Schema, Fault::Empty); // the first get_schema is answered with []
//!
//! let monitor = open_vswitch::monitor();
//! let (client, _events) = Client::spawn_with(Arc::new(network), endpoint, "Open_vSwitch", monitor, Options::default());
//! let bridge = BridgeSpec::secure("br-int", "netdev");
//! # while fake.counts().monitors == 0 { tokio::task::yield_now().await }
//! assert_eq!(open_vswitch::ensure_bridge(&client, &bridge, None).await?, Ensured::Created);
//! assert_eq!(fake.counts().connections, 2);
//! # Ok(()) }
//! ```

mod locks;
mod schema;
mod server;
mod tables;
mod vswitchd;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ovsdb_client::open_vswitch::{Bridge, Interface, OpenVswitch, Port};
use ovsdb_client::transact::outcomes;
use ovsdb_client::{
    Change, Condition, Datum, Mutation, Mutator, Operation, Outcomes, Replica, Row, TransactError,
};
use peer_connection::{Endpoint, InMemoryNetwork, Stream};
use serde_json::Value;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::listener::Listener;
use locks::Locks;
pub use schema::SchemaVersion;
use server::Subscriber;
use tables::{Run, Tables};
use vswitchd::Vswitchd;

/// A fake OVSDB server. Dropping it closes its connections and its socket.
#[derive(Debug)]
pub struct FakeDatabase {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// The kind of message that triggers a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The reply to `get_schema`.
    Schema,
    /// The reply to `monitor_cond_since` or `monitor_cond`.
    Monitor,
    /// The reply to `transact`.
    Transact,
    /// The reply to `echo`.
    Echo,
    /// A notification of changes.
    Update,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 5] = [Stage::Schema, Stage::Monitor, Stage::Transact, Stage::Echo, Stage::Update];
}

/// The misbehaviour. Unless stated otherwise, the request is executed and the fault concerns its reply. For
/// [`Stage::Update`], the parameters of the notification play the role of the result.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The fake closes the connection and does not execute the request.
    Close,
    /// The fake closes the connection instead of replying.
    CloseUnanswered,
    /// The fake stops reading and sending, keeps the connection open, and does not execute the request.
    Stall,
    /// The fake sends half of the message, then stalls.
    StallMidMessage,
    /// The fake sends bytes that are not JSON, then stalls.
    Garbage,
    /// The result is `[]`.
    Empty,
    /// The result lacks its last element, or its last member.
    Short,
    /// The result is `null`.
    Null,
    /// The result is this value.
    Result(Value),
    /// The reply has an id that no request has.
    WrongId,
    /// The request fails with this error and is not executed.
    Refuse(&'static str),
    /// The message is not sent.
    Swallow,
    /// The message is delayed by this time. Later messages wait behind it.
    Late(Duration),
}

impl Fault {
    /// One fault of each kind that breaks the session of a client.
    pub const BREAKING: [Fault; 9] = [
        Fault::Close,
        Fault::CloseUnanswered,
        Fault::Stall,
        Fault::StallMidMessage,
        Fault::Garbage,
        Fault::Empty,
        Fault::Short,
        Fault::Null,
        Fault::WrongId,
    ];
}

/// The requests that the fake has received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub connections: usize,
    /// Monitors started.
    pub monitors: usize,
    /// Transactions requested.
    pub transactions: usize,
    /// Transactions that changed rows.
    pub writes: usize,
    /// Echo requests.
    pub echoes: usize,
    /// Faults triggered.
    pub faults: usize,
}

struct State {
    tables: Tables,
    vswitchd: Vswitchd,
    counts: Counts,
    faults: VecDeque<(Stage, Fault)>,
    /// The delay before each read, and the most bytes per read.
    slow: Option<(Duration, usize)>,
    subscribers: BTreeMap<u64, Subscriber>,
    locks: Locks,
}

struct Shared {
    state: Mutex<State>,
    /// Incrementing this closes all connections.
    generation: watch::Sender<u64>,
    frozen: watch::Sender<bool>,
    /// Incremented whenever rows change.
    version: watch::Sender<u64>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Shared")
            .field("counts", &state.counts)
            .field("faults", &state.faults)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows(&self) -> Replica {
        self.lock().tables.rows.clone()
    }

    /// Runs a transaction, sends its changes to every monitor, calls `reply` with the result, and lets the fake
    /// ovs-vswitchd apply the change. `client` is the connection that requests it, if it is one. `None` if a `wait` is not satisfied
    /// yet.
    fn transact(
        &self,
        client: Option<u64>,
        operations: &[Value],
        may_wait: bool,
        reply: impl FnOnce(Value),
    ) -> Option<()> {
        let mut state = self.lock();
        let State { tables, locks, .. } = &mut *state;
        let (result, changes) = match tables.run(operations, &|lock| locks.holds(lock, client), may_wait) {
            Run::Waits => return None,
            Run::Done { result, changes } => (result, changes),
        };
        state.publish(&changes);
        state.counts.writes += usize::from(!changes.is_empty());
        // As in a real server, the requester sees the changes before the reply.
        reply(result);
        let taken_up = state.take_up();
        drop(state);
        if taken_up || !changes.is_empty() {
            self.version.send_modify(|version| *version += 1);
        }
        Some(())
    }

    fn take_up(&self) {
        if self.lock().take_up() {
            self.version.send_modify(|version| *version += 1);
        }
    }
}

impl State {
    fn publish(&self, changes: &[Change]) {
        for subscriber in self.subscribers.values() {
            subscriber.publish(&self.tables.schema.types, changes);
        }
    }

    /// Lets ovs-vswitchd apply the configuration. Returns whether anything changed.
    fn take_up(&mut self) -> bool {
        let changes = self.vswitchd.take_up(&mut self.tables.rows);
        self.publish(&changes);
        !changes.is_empty()
    }
}

impl FakeDatabase {
    /// Starts an initialised database without bridges that listens on a unix socket. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The socket cannot be created, for example because the file exists.
    pub fn start(socket: impl AsRef<Path>) -> io::Result<FakeDatabase> {
        Ok(FakeDatabase::serve(Listener::Unix(UnixListener::bind(socket)?), SchemaVersion::WithoutZoneLimits))
    }

    /// Starts an initialised database without bridges that listens on an endpoint of an in-memory network. Must be
    /// called within a tokio runtime.
    pub fn start_in_memory(network: &InMemoryNetwork, endpoint: Endpoint) -> FakeDatabase {
        FakeDatabase::start_version(network, endpoint, SchemaVersion::WithoutZoneLimits)
    }

    /// The same with this version of the schema.
    pub fn start_version(
        network: &InMemoryNetwork,
        endpoint: Endpoint,
        version: SchemaVersion,
    ) -> FakeDatabase {
        FakeDatabase::serve(Listener::InMemory(network.listen(endpoint)), version)
    }

    /// The same on connections that somebody else accepts.
    pub fn start_given(streams: mpsc::UnboundedReceiver<Stream>) -> FakeDatabase {
        FakeDatabase::serve(Listener::Given(streams), SchemaVersion::WithoutZoneLimits)
    }

    fn serve(listener: Listener, version: SchemaVersion) -> FakeDatabase {
        let state = State {
            tables: Tables::initialised(version),
            vswitchd: Vswitchd::default(),
            counts: Counts::default(),
            faults: VecDeque::new(),
            slow: None,
            subscribers: BTreeMap::new(),
            locks: Locks::default(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            generation: watch::channel(0).0,
            frozen: watch::channel(false).0,
            version: watch::channel(0).0,
        });
        let task = tokio::spawn(server::listen(listener, shared.clone())).abort_handle();
        FakeDatabase { shared, task }
    }

    /// The whole database.
    pub fn rows(&self) -> Replica {
        self.shared.rows()
    }

    /// The whole database, and what becomes of it.
    pub fn watch(&self) -> Watched {
        Watched { shared: self.shared.clone(), versions: self.shared.version.subscribe() }
    }

    /// The interfaces, by name.
    pub fn interfaces(&self) -> BTreeMap<String, Interface> {
        let rows = self.rows();
        let interfaces =
            rows.rows(Interface::TABLE).filter_map(|(uuid, row)| Interface::from_row(uuid, row).ok());
        interfaces.map(|interface| (interface.name.clone(), interface)).collect()
    }

    /// The bridges, by name.
    pub fn bridges(&self) -> BTreeMap<String, Bridge> {
        let rows = self.rows();
        let bridges = rows.rows(Bridge::TABLE).filter_map(|(uuid, row)| Bridge::from_row(uuid, row).ok());
        bridges.map(|bridge| (bridge.name.clone(), bridge)).collect()
    }

    /// Runs a transaction as another client might, such as `ovs-vsctl`. An unsatisfied `wait` fails at once.
    ///
    /// # Errors
    /// The same as those of a real server.
    pub fn transact(&self, operations: &[Operation]) -> Result<Outcomes, TransactError> {
        let notation: Vec<Value> = operations.iter().map(Operation::to_json).collect();
        let mut result = Value::Null;
        self.shared.transact(None, &notation, false, |value| result = value);
        outcomes(operations, &result.to_string(), &self.shared.lock().tables.schema.types)
    }

    /// Creates a bridge with its local port, as `ovs-vsctl add-br` does.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_bridge(&self, name: &str) -> Result<(), TransactError> {
        let interface = Row::new(Interface::TABLE).with("name", name).with("type", "internal");
        let port =
            Row::new(Port::TABLE).with("name", name).with("interfaces", Datum::named_uuid("interface"));
        let bridge = Row::new(Bridge::TABLE).with("name", name).with("ports", Datum::named_uuid("port"));
        let attach = Mutation::new("bridges", Mutator::Insert, Datum::named_uuid("bridge"));
        self.transact(&[
            Operation::insert_named("interface", interface),
            Operation::insert_named("port", port),
            Operation::insert_named("bridge", bridge),
            Operation::mutate(OpenVswitch::TABLE, vec![], vec![attach]),
        ])?;
        Ok(())
    }

    /// Creates a port with one interface on a bridge, as a hypervisor does for a virtual machine, with the external
    /// ids `iface-id` and `attached-mac`. Returns false if the bridge does not exist.
    ///
    /// # Errors
    /// The name is taken.
    pub fn plug(
        &self,
        bridge: &str,
        name: &str,
        external_ids: &[(&str, &str)],
    ) -> Result<bool, TransactError> {
        let interface = Row::new(Interface::TABLE)
            .with("name", name)
            .with("external_ids", Datum::map(external_ids.iter().copied()));
        let port =
            Row::new(Port::TABLE).with("name", name).with("interfaces", Datum::named_uuid("interface"));
        let attach = Mutation::new("ports", Mutator::Insert, Datum::named_uuid("port"));
        let done = self.transact(&[
            Operation::insert_named("interface", interface),
            Operation::insert_named("port", port),
            Operation::mutate(Bridge::TABLE, vec![Condition::equal("name", bridge)], vec![attach]),
        ])?;
        Ok(done.count(2) > 0)
    }

    /// Deletes a port from its bridge. Returns false if no port has this name.
    ///
    /// # Errors
    /// The transaction is refused.
    pub fn unplug(&self, name: &str) -> Result<bool, TransactError> {
        let rows = self.rows();
        let named = |row: &Row| row.get::<String>("name").is_ok_and(|found| found == name);
        let Some((port, _)) = rows.rows(Port::TABLE).find(|(_, row)| named(row)) else { return Ok(false) };
        let detach = Mutation::new("ports", Mutator::Delete, port);
        self.transact(&[Operation::mutate(Bridge::TABLE, vec![], vec![detach])])?;
        Ok(true)
    }

    /// Sets `external_ids:system-id`, the name of the host.
    ///
    /// # Errors
    /// The transaction is refused.
    pub fn set_system_id(&self, id: &str) -> Result<(), TransactError> {
        let forget = Mutation::new("external_ids", Mutator::Delete, Datum::set(["system-id"]));
        let set = Mutation::new("external_ids", Mutator::Insert, Datum::map([("system-id", id)]));
        self.transact(&[Operation::mutate(OpenVswitch::TABLE, vec![], vec![forget, set])])?;
        Ok(())
    }

    /// Makes ovs-vswitchd assign no port number to the interfaces for which `refuse` returns an error, and retries
    /// all interfaces without a number.
    pub fn refuse(&self, refuse: impl Fn(&Interface) -> Option<String> + Send + 'static) {
        self.shared.lock().vswitchd.refuse = Some(Box::new(refuse));
        self.shared.take_up();
    }

    /// Starts the fake ovs-vswitchd, or stops it so that changes of the database are not applied.
    pub fn vswitchd(&self, running: bool) {
        self.shared.lock().vswitchd.running = running;
        self.shared.take_up();
    }

    /// Gives all interfaces new port numbers, as a restart of ovs-vswitchd may.
    pub fn renumber(&self) {
        let mut state = self.shared.lock();
        let changes = Vswitchd::forget_numbers(&mut state.tables.rows);
        state.publish(&changes);
        drop(state);
        self.shared.take_up();
    }

    /// Sets the datapath id of a bridge. By default bridges have ids from 0xfa4e, which is also the id of a fake
    /// switch.
    pub fn datapath_id(&self, bridge: &str, id: u64) {
        self.shared.lock().vswitchd.datapath_ids.insert(bridge.to_owned(), id);
        self.shared.take_up();
    }

    /// The requests received so far.
    pub fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// Triggers a fault once, at the next message of this stage. Several faults are triggered in order.
    pub fn fault(&self, stage: Stage, fault: Fault) {
        self.shared.lock().faults.push_back((stage, fault));
    }

    /// Forgets the faults that no message has triggered yet.
    pub fn forget_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// Reads at most `bytes` at a time, each time after `pause`.
    pub fn slow(&self, pause: Duration, bytes: usize) {
        self.shared.lock().slow = Some((pause, bytes.max(1)));
    }

    /// Reads as usual again after [`slow`](Self::slow).
    pub fn quick(&self) {
        self.shared.lock().slow = None;
    }

    /// Stops reading and sending on all connections, like a process stopped by a signal. New connections are still
    /// accepted, as the kernel would do, and remain silent.
    pub fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    /// Continues after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Closes all connections.
    pub fn disconnect(&self) {
        self.shared.generation.send_modify(|generation| *generation += 1);
    }
}

/// The rows of a database, again whenever they have changed.
pub struct Watched {
    shared: Arc<Shared>,
    versions: watch::Receiver<u64>,
}

impl Watched {
    /// The rows now.
    pub fn rows(&self) -> Replica {
        self.shared.rows()
    }

    /// The rows after they have changed. Changes since the last call are not missed.
    pub async fn changed(&mut self) -> Replica {
        // The sender is as old as this.
        let _ = self.versions.changed().await;
        self.rows()
    }
}

impl Drop for FakeDatabase {
    fn drop(&mut self) {
        self.task.abort();
        self.disconnect();
    }
}

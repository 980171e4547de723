//! A fake switch: the test double for everything that drives a switch.
//!
//! It speaks the real wire protocol over a unix socket or a network in memory (hello, features, echo, barrier,
//! flow-mods and group-mods alone and in bundles, dumps, the TLV table) and keeps tables with a switch's semantics. On
//! demand it does what a real switch rarely does: it sends garbage, closes the connection, stalls in the middle of a
//! message, refuses a flow, reads slowly, or freezes. It counts the messages that it receives. It forwards no packets.
//! [`database`] has the fake of the switch's database.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use ovs_driver::fake::{FakeSwitch, Fault, Stage};
//!
//! let fake = FakeSwitch::start("/tmp/br-int.mgmt")?;
//! fake.fault(Stage::Commit, Fault::Close); // the first commit breaks the connection
//! // ... a driver connects ...
//! assert_eq!(fake.counts().commits, 1);
//! # Ok(()) }
//! ```

mod server;
pub(crate) mod table;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openflow_rs::GroupEntry;
use openflow_rs::message::TlvMapping;
use peer_connection::{Endpoint, InMemoryNetwork};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use ovsdb_client::fake as database;
pub use ovsdb_client::fake::FakeDatabase;
pub use table::Refusal;

use crate::flow::{Flow, FlowKey};
use server::Listener;
use table::Table;

/// A fake switch. Dropping it closes its connections and its socket.
#[derive(Debug)]
pub struct FakeSwitch {
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// The kind of message that triggers a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names of messages of OpenFlow")]
pub enum Stage {
    Hello,
    Features,
    Echo,
    Options,
    Groups,
    Dump,
    Barrier,
    FlowMod,
    Open,
    Add,
    Commit,
    Discard,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 12] = [
        Stage::Hello,
        Stage::Features,
        Stage::Echo,
        Stage::Options,
        Stage::Groups,
        Stage::Dump,
        Stage::Barrier,
        Stage::FlowMod,
        Stage::Open,
        Stage::Add,
        Stage::Commit,
        Stage::Discard,
    ];
}

/// What goes wrong when that message arrives. The message is not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The fake sends bytes that are not OpenFlow.
    Garbage,
    /// The fake closes the connection.
    Close,
    /// The fake stops reading and sending, and keeps the connection open.
    Stall,
    /// The fake sends half of a message, then stalls.
    StallMidMessage,
    /// The fake ignores the message and goes on.
    Ignore,
}

impl Fault {
    /// Those that end a connection whatever the message is.
    pub const BREAKING: [Fault; 4] = [Fault::Garbage, Fault::Close, Fault::Stall, Fault::StallMidMessage];
}

/// The messages that the fake has received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub connections: usize,
    /// Flow-mods received, alone and in bundles, refused ones included.
    pub flow_mods: usize,
    /// Group-mods received, counted in the same way.
    pub group_mods: usize,
    /// Bundle commits requested.
    pub commits: usize,
    /// Bundles discarded.
    pub discards: usize,
    /// Dumps of all flows.
    pub dumps: usize,
    /// Faults triggered.
    pub faults: usize,
}

type Refuse = Box<dyn Fn(&FlowKey, Option<&Flow>) -> Option<Refusal> + Send>;

#[derive(Default)]
struct State {
    table: Table,
    counts: Counts,
    faults: VecDeque<(Stage, Fault)>,
    refuse: Option<Refuse>,
    datapath_id: Option<u64>,
    /// The delay before each read, and the most bytes that a read takes.
    slow: Option<(Duration, usize)>,
    versions: Option<u32>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("counts", &self.counts)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Incremented to close all connections.
    generation: watch::Sender<u64>,
    frozen: watch::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeSwitch {
    /// The datapath id in its features, unless [`datapath_id`](Self::datapath_id) gave it another one.
    pub const DATAPATH_ID: u64 = 0xfa4e;

    /// A switch without flows that listens on a unix socket. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be created, for example because the file exists.
    pub fn start(socket: impl AsRef<Path>) -> io::Result<FakeSwitch> {
        let listener = UnixListener::bind(socket)?;
        Ok(FakeSwitch::serve(Listener::Unix(listener)))
    }

    /// A switch without flows that listens on an endpoint of a network in memory. Must be called within a tokio
    /// runtime.
    pub fn start_in_memory(network: &InMemoryNetwork, endpoint: Endpoint) -> FakeSwitch {
        FakeSwitch::serve(Listener::InMemory(network.listen(endpoint)))
    }

    fn serve(listener: Listener) -> FakeSwitch {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            generation: watch::channel(0).0,
            frozen: watch::channel(false).0,
        });
        let task = tokio::spawn(server::listen(listener, shared.clone())).abort_handle();
        FakeSwitch { shared, task }
    }

    /// The flows in its tables.
    pub fn flows(&self) -> BTreeMap<FlowKey, Flow> {
        self.shared.lock().table.flows.clone()
    }

    /// The groups in its tables.
    pub fn groups(&self) -> BTreeMap<u32, GroupEntry> {
        self.shared.lock().table.groups.clone()
    }

    /// The tunnel options that are mapped to fields.
    pub fn options(&self) -> Vec<TlvMapping> {
        self.shared.lock().table.options.clone()
    }

    /// Installs a group, as another controller might.
    pub fn install_group(&self, group: GroupEntry) {
        self.shared.lock().table.groups.insert(group.id, group);
    }

    /// Installs a flow, as another controller might.
    pub fn install(&self, key: FlowKey, flow: Flow) {
        self.shared.lock().table.flows.insert(key, flow);
    }

    /// The messages received so far.
    pub fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// Triggers a fault once, at the next message of this kind. Several faults happen in order.
    pub fn fault(&self, stage: Stage, fault: Fault) {
        self.shared.lock().faults.push_back((stage, fault));
    }

    /// Refuses the flows for which `refuse` returns a refusal. It is called for every addition (with the
    /// flow) and deletion.
    pub fn refuse(&self, refuse: impl Fn(&FlowKey, Option<&Flow>) -> Option<Refusal> + Send + 'static) {
        self.shared.lock().refuse = Some(Box::new(refuse));
    }

    /// Reads at most `bytes` at a time, after a delay.
    pub fn slow(&self, pause: Duration, bytes: usize) {
        self.shared.lock().slow = Some((pause, bytes.max(1)));
    }

    /// Offers these versions in its hello, as a bitmap. The default is 1.5 only.
    pub fn versions(&self, bitmap: u32) {
        self.shared.lock().versions = Some(bitmap);
    }

    /// Stops reading and sending on all connections, as a process that is stopped by a signal. New connections are
    /// accepted, as the kernel does, and remain silent.
    pub fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    /// Continues after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Gives it another datapath id, which the next connection sees.
    pub fn datapath_id(&self, id: u64) {
        self.shared.lock().datapath_id = Some(id);
    }

    /// Loses all flows, groups and connections, as a restart of ovs-vswitchd does.
    pub fn restart(&self) {
        self.shared.lock().table = Table::default();
        self.disconnect();
    }

    /// Closes all connections.
    pub fn disconnect(&self) {
        self.shared.generation.send_modify(|generation| *generation += 1);
    }
}

impl Drop for FakeSwitch {
    fn drop(&mut self) {
        self.task.abort();
        self.disconnect();
    }
}

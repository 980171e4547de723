//! A fake switch: the test double for code that drives a switch.
//!
//! It speaks the real wire protocol over a unix socket or an in-memory network (hello, features, echo, barrier,
//! flow-mods and group-mods alone and in bundles, meter-mods, flushes of conntrack zones, dumps, the flow monitor, the TLV table, packet-outs), and its
//! tables follow the semantics of a
//! switch. On demand it misbehaves in ways that are rare in real switches: it sends garbage, closes the connection,
//! stalls in the middle of a message, refuses a flow, reads slowly, or freezes. It counts the messages that it
//! receives. It forwards no packets, but keeps those of packet-outs.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use fake_switch::openflow::{FakeSwitch, Fault, Stage};
//!
//! let fake = FakeSwitch::start("/tmp/br-int.mgmt")?;
//! fake.fault(Stage::Commit, Fault::Close); // the first commit breaks the connection
//! // ... a driver connects ...
//! assert_eq!(fake.counts().commits, 1);
//! # Ok(()) }
//! ```

mod dump;
mod former;
mod roles;
mod server;
mod table;
mod zones;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openflow_rs::flow::RemovedReason;
use openflow_rs::message::{FlowDescRequest, FlowEvent, FlowMonitorReply, FlowUpdate, PacketOut, TlvMapping};
use openflow_rs::{Body, FlowEntry, GroupEntry, GroupMod, Message, MeterEntry, MeterMod};
use peer_connection::{Endpoint, InMemoryNetwork, Stream};
use switch_model::{Flow, FlowKey};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

pub use table::{Refusal, Table};
pub use zones::Flushed;

use crate::listener::Listener;
use former::Former;
use roles::Roles;
use zones::Zones;

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
    Meters,
    Dump,
    Barrier,
    FlowMod,
    MeterMod,
    Flush,
    Open,
    Add,
    Commit,
    Discard,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 15] = [
        Stage::Hello,
        Stage::Features,
        Stage::Echo,
        Stage::Options,
        Stage::Groups,
        Stage::Meters,
        Stage::Dump,
        Stage::Barrier,
        Stage::FlowMod,
        Stage::MeterMod,
        Stage::Flush,
        Stage::Open,
        Stage::Add,
        Stage::Commit,
        Stage::Discard,
    ];
}

/// The misbehaviour when such a message arrives. The message is not executed.
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
    /// The fake answers a request for groups, meters or flows with parts that describe nothing and are never the last, one every
    /// four seconds.
    EmptyParts,
    /// The same with one group or flow in each part.
    Trickle,
    /// The fake answers a request for groups or flows with parts that describe ever more of them and are never the last.
    Endless,
}

impl Fault {
    /// The faults that end a connection, no matter which message triggers them.
    pub const BREAKING: [Fault; 4] = [Fault::Garbage, Fault::Close, Fault::Stall, Fault::StallMidMessage];
}

/// The messages that the fake has received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub connections: usize,
    /// Flow-mods received, alone and in bundles, including refused ones.
    pub flow_mods: usize,
    /// Group-mods received, counted like flow-mods.
    pub group_mods: usize,
    /// Meter-mods received, including refused ones.
    pub meter_mods: usize,
    /// Bundle commits requested.
    pub commits: usize,
    /// Bundles discarded.
    pub discards: usize,
    /// Dumps of all flows.
    pub dumps: usize,
    /// Dumps of all groups.
    pub group_dumps: usize,
    /// Faults triggered.
    pub faults: usize,
}

/// How much is in the tables of a switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Flows.
    pub flows: usize,
    /// Groups.
    pub groups: usize,
    /// Buckets of all groups.
    pub buckets: usize,
}

type RefuseMeter = Box<dyn Fn(&MeterMod) -> Option<Refusal> + Send>;
type RefuseGroup = Box<dyn Fn(&GroupMod) -> Option<Refusal> + Send>;
type Refuse = Box<dyn Fn(&FlowKey, Option<&Flow>) -> Option<Refusal> + Send>;

#[derive(Default)]
struct State {
    table: Table,
    counts: Counts,
    faults: VecDeque<(Stage, Fault)>,
    refuse: Option<Refuse>,
    refuse_groups: Option<RefuseGroup>,
    refuse_meters: Option<RefuseMeter>,
    /// By meter, packets that came and packets that were dropped.
    metered: BTreeMap<u32, (u64, u64)>,
    zones: Zones,
    /// By flow, its packets and their bytes.
    passed: BTreeMap<FlowKey, (u64, u64)>,
    /// The requests for flows.
    requests: Vec<FlowDescRequest>,
    fail_bundles: bool,
    datapath_id: Option<u64>,
    /// Whether it keeps no history.
    is_forgetful: bool,
    /// The connections that monitor flows, by number.
    monitors: BTreeMap<usize, mpsc::UnboundedSender<Vec<u8>>>,
    next_monitor: usize,
    /// The delay before each read, and the most bytes per read.
    slow: Option<(Duration, usize)>,
    versions: Option<u32>,
    packets: Vec<PacketOut>,
    roles: Roles,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("counts", &self.counts)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Reports what has changed to all monitors except that of the connection `by`, which changed it.
    fn report(&self, former: &Former, by: Option<usize>) {
        let monitors: Vec<_> = self.monitors.iter().filter(|(number, _)| Some(**number) != by).collect();
        if monitors.is_empty() {
            return;
        }
        let after = &self.table;
        let mut updates = Vec::new();
        for (key, flow) in former.removed_flows(after) {
            let reason = if after.lacks_group(flow) {
                RemovedReason::GroupDelete
            } else if after.lacks_meter(flow) {
                RemovedReason::MeterDelete
            } else {
                RemovedReason::Delete
            };
            updates.extend(entry(key, flow).map(|entry| FlowUpdate::Flow(FlowEvent::Removed(reason), entry)));
        }
        for (key, flow) in former.set_flows(after) {
            updates.extend(entry(key, flow).map(|entry| FlowUpdate::Flow(FlowEvent::Added, entry)));
        }
        for message in updates.into_iter().map(|update| monitor_reply(0, vec![update])) {
            for (_, monitor) in &monitors {
                // A connection that has ended takes no reports.
                let _ = monitor.send(message.clone());
            }
        }
    }
}

/// A message of a monitor.
fn monitor_reply(xid: u32, updates: Vec<FlowUpdate>) -> Vec<u8> {
    let body = Body::FlowMonitorReply(FlowMonitorReply { more: false, updates });
    let encoded = Message { xid, body }.encode();
    encoded.unwrap_or_else(|error| {
        panic!("an update of one flow is as long as the message that made it: {error}")
    })
}

/// A flow as messages have it.
fn entry(key: &FlowKey, flow: &Flow) -> Option<FlowEntry> {
    let entry = FlowEntry::new(key.table(), key.priority(), key.matching().ok()?, flow.actions().ok()?);
    Some(FlowEntry { cookie: flow.cookie(), ..entry })
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Incrementing this closes all connections.
    generation: watch::Sender<u64>,
    frozen: watch::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeSwitch {
    /// The datapath id in the features reply, until [`datapath_id`](Self::datapath_id) sets another one.
    pub const DATAPATH_ID: u64 = 0xfa4e;

    /// Starts a switch without flows that listens on a unix socket. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be created, for example because the file exists.
    pub fn start(socket: impl AsRef<Path>) -> io::Result<FakeSwitch> {
        let listener = UnixListener::bind(socket)?;
        Ok(FakeSwitch::serve(Listener::Unix(listener)))
    }

    /// Starts a switch without flows that listens on an endpoint of an in-memory network. Must be called within a
    /// tokio runtime.
    pub fn start_in_memory(network: &InMemoryNetwork, endpoint: Endpoint) -> FakeSwitch {
        FakeSwitch::serve(Listener::InMemory(network.listen(endpoint)))
    }

    /// Starts a switch without flows on connections that somebody else accepts, one of thousands: it keeps only what it needs to answer, neither
    /// the packets and requests that it has received nor what it had when a zone was flushed. Must be called within a tokio runtime.
    pub fn start_given(streams: mpsc::UnboundedReceiver<Stream>) -> FakeSwitch {
        let switch = FakeSwitch::serve(Listener::Given(streams));
        switch.shared.lock().is_forgetful = true;
        switch
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

    /// The meters in its tables.
    pub fn meters(&self) -> BTreeMap<u32, MeterEntry> {
        self.shared.lock().table.meters.clone()
    }

    /// The tunnel options that are mapped to fields.
    pub fn options(&self) -> Vec<TlvMapping> {
        self.shared.lock().table.options.clone()
    }

    /// Deletes a flow, as another controller might.
    pub fn remove(&self, key: &FlowKey) {
        self.change(|table| drop(table.flows.remove(key)));
    }

    /// Deletes a group and the flows that use it, as another controller might.
    pub fn remove_group(&self, id: u32) {
        let delete = GroupMod::delete(id);
        self.change(|table| {
            // An unknown group may be deleted too.
            let _ = table.change_group(&delete);
        });
    }

    /// Changes a meter as another controller might.
    pub fn change_meter(&self, change: &MeterMod) {
        self.change(|table| {
            // What a switch refuses changes nothing.
            let _ = table.change_meter(change);
        });
    }

    /// From now on, the counters of a meter say that so many packets of 100 bytes came, and that so many of them were dropped.
    pub fn count(&self, meter: u32, packets: u64, dropped: u64) {
        self.shared.lock().metered.insert(meter, (packets, dropped));
    }

    /// From now on, the counters of a flow say that so many packets with so many bytes met it.
    pub fn pass(&self, key: FlowKey, packets: u64, bytes: u64) {
        self.shared.lock().passed.insert(key, (packets, bytes));
    }

    /// The requests for flows that it has received.
    pub fn requests(&self) -> Vec<FlowDescRequest> {
        self.shared.lock().requests.clone()
    }

    /// Adds a flow as if the switch had learned it, or removes it.
    pub fn learn(&self, key: FlowKey, flow: Option<Flow>) {
        self.change(|table| table.apply(key, flow));
    }

    /// Tells all monitors that reports were omitted, as a switch does when a client does not read its reports.
    pub fn leave_out_reports(&self) {
        for monitor in self.shared.lock().monitors.values() {
            let _ = monitor.send(monitor_reply(0, vec![FlowUpdate::Resumed]));
        }
    }

    /// Loses a flow without reporting it to monitors.
    pub fn lose(&self, key: &FlowKey) {
        self.shared.lock().table.flows.remove(key);
    }

    /// Changes a flow without reporting it to monitors.
    pub fn install_unreported(&self, key: FlowKey, flow: Flow) {
        self.shared.lock().table.flows.insert(key, flow);
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut state = self.shared.lock();
        let before = state.table.clone();
        change(&mut state.table);
        state.report(&Former::between(before, &state.table), None);
    }

    /// Installs a group, as another controller might. Switches do not report changes of groups.
    pub fn install_group(&self, group: GroupEntry) {
        self.shared.lock().table.groups.insert(group.id, group);
    }

    /// Installs a flow, as another controller might.
    pub fn install(&self, key: FlowKey, flow: Flow) {
        self.change(|table| table.apply(key, Some(flow)));
    }

    /// The packets that it was told to send, in order.
    pub fn packets(&self) -> Vec<PacketOut> {
        self.shared.lock().packets.clone()
    }

    /// Whether one of the connections is that of the primary controller.
    pub fn has_primary(&self) -> bool {
        self.shared.lock().roles.has_primary()
    }

    /// How many flows, groups and buckets are in its tables.
    pub fn sizes(&self) -> Sizes {
        let state = self.shared.lock();
        let groups = &state.table.groups;
        let buckets = groups.values().map(|group| group.buckets.len()).sum();
        Sizes { flows: state.table.flows.len(), groups: groups.len(), buckets }
    }

    /// A number that is the same for the same flows and groups within one process.
    pub fn fingerprint(&self) -> u64 {
        let state = self.shared.lock();
        let mut hasher = DefaultHasher::new();
        state.table.flows.hash(&mut hasher);
        for group in state.table.groups.values() {
            format!("{group:?}").hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The messages received so far.
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

    /// Refuses the flows for which `refuse` returns a refusal. `refuse` is called for every addition, with the flow,
    /// and for every deletion, with `None`.
    pub fn refuse(&self, refuse: impl Fn(&FlowKey, Option<&Flow>) -> Option<Refusal> + Send + 'static) {
        self.shared.lock().refuse = Some(Box::new(refuse));
    }

    /// Refuses the group-mods for which `refuse` returns a refusal.
    pub fn refuse_groups(&self, refuse: impl Fn(&GroupMod) -> Option<Refusal> + Send + 'static) {
        self.shared.lock().refuse_groups = Some(Box::new(refuse));
    }

    /// Refuses the meter-mods for which `refuse` returns a refusal.
    pub fn refuse_meters(&self, refuse: impl Fn(&MeterMod) -> Option<Refusal> + Send + 'static) {
        self.shared.lock().refuse_meters = Some(Box::new(refuse));
    }

    /// Makes all bundle commits fail for a reason that concerns no particular message.
    pub fn fail_bundles(&self, fail: bool) {
        self.shared.lock().fail_bundles = fail;
    }

    /// Reads at most `bytes` at a time, each time after `pause`.
    pub fn slow(&self, pause: Duration, bytes: usize) {
        self.shared.lock().slow = Some((pause, bytes.max(1)));
    }

    /// Reads as usual again after [`slow`](Self::slow).
    pub fn quick(&self) {
        self.shared.lock().slow = None;
    }

    /// Accepts what [`refuse`](Self::refuse) refused.
    pub fn accept(&self) {
        self.shared.lock().refuse = None;
    }

    /// Offers the versions in this bitmap in the hello message. The default is 1.5 only.
    pub fn versions(&self, bitmap: u32) {
        self.shared.lock().versions = Some(bitmap);
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

    /// Changes the datapath id for later connections.
    pub fn datapath_id(&self, id: u64) {
        self.shared.lock().datapath_id = Some(id);
    }

    /// Drops all flows, groups, meters, tracked connections and its own connections, like a restart of ovs-vswitchd.
    pub fn restart(&self) {
        let mut state = self.shared.lock();
        state.table = Table::default();
        state.forget_connections();
        state.roles.forget();
        drop(state);
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

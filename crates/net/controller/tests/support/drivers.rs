//! Drivers whose switches are in the test's hands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use controller::drivers::{Asking, Driver, Drivers, Reading, Shutdown};
use openflow_rs::Match;
use ovs_driver::{
    Changes, Channel, Config, Desired, Event, FlowCount, FlowKey, Frame, LearnedFlow, MeterCount, Packet,
    ReadError, Report, SeenFlow,
};
use tokio::sync::mpsc;

/// All drivers started; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Switches {
    all: Arc<Mutex<BTreeMap<String, Switch>>>,
}

/// What one driver was told.
pub(crate) struct Switch {
    #[allow(dead_code, reason = "not every test looks at it")]
    pub(crate) config: Config,
    /// The desired state as the driver has it from all that it was told.
    pub(crate) desired: Option<Desired>,
    /// What it says that it has learned; it is not connected while there is nothing.
    pub(crate) learned: Option<Vec<LearnedFlow>>,
    /// What its meters say; it is not connected while there is nothing.
    pub(crate) counted: Option<Vec<MeterCount>>,
    /// What its flows say; it is not connected while there is nothing.
    pub(crate) passed: Option<Vec<FlowCount>>,
    /// The flows whose counters were asked for.
    pub(crate) asked: Vec<FlowKey>,
    /// All its flows, if somebody may read them.
    pub(crate) there: Option<Vec<SeenFlow>>,
    /// The transactions pushed.
    pub(crate) pushed: Vec<u64>,
    /// The frames that it was told to send, each with its name.
    pub(crate) frames: Vec<(String, Frame)>,
    /// The packets that it has executed.
    pub(crate) sent: Vec<Packet>,
    /// How many drivers of this name were started.
    pub(crate) started: usize,
    /// Whether the last one still runs.
    #[allow(dead_code, reason = "not every test looks at it")]
    pub(crate) running: bool,
    events: mpsc::Sender<(String, Event)>,
}

impl Switches {
    /// Looks at a switch.
    pub(crate) fn look<T>(&self, name: &str, look: impl FnOnce(&Switch) -> T) -> T {
        let all = self.all.lock().unwrap_or_else(|error| panic!("{error}"));
        look(all.get(name).unwrap_or_else(|| panic!("no driver of {name} was started")))
    }

    /// Lets something happen at a switch.
    pub(crate) async fn event(&self, name: &str, event: Event) {
        let events = self.look(name, |switch| switch.events.clone());
        events.send((name.to_owned(), event)).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// From now on, a switch says that it has learned this.
    #[allow(dead_code, reason = "not every test looks at what is learned")]
    pub(crate) fn learn(&self, name: &str, flows: Vec<LearnedFlow>) {
        let mut all = self.all.lock().unwrap_or_else(|error| panic!("{error}"));
        all.get_mut(name).unwrap_or_else(|| panic!("no driver of {name} was started")).learned = Some(flows);
    }

    /// From now on, the meters of a switch say this.
    #[allow(dead_code, reason = "not every test looks at what is counted")]
    pub(crate) fn count(&self, name: &str, counts: Vec<MeterCount>) {
        let mut all = self.all.lock().unwrap_or_else(|error| panic!("{error}"));
        all.get_mut(name).unwrap_or_else(|| panic!("no driver of {name} was started")).counted = Some(counts);
    }

    /// From now on, the flows of a switch say this.
    #[allow(dead_code, reason = "not every test looks at what is counted")]
    pub(crate) fn pass(&self, name: &str, counts: Vec<FlowCount>) {
        let mut all = self.all.lock().unwrap_or_else(|error| panic!("{error}"));
        all.get_mut(name).unwrap_or_else(|| panic!("no driver of {name} was started")).passed = Some(counts);
    }

    /// From now on, a switch says that it has these flows.
    #[allow(dead_code, reason = "not every test looks at all flows")]
    pub(crate) fn have(&self, name: &str, flows: Vec<SeenFlow>) {
        let mut all = self.all.lock().unwrap_or_else(|error| panic!("{error}"));
        all.get_mut(name).unwrap_or_else(|| panic!("no driver of {name} was started")).there = Some(flows);
    }

    /// Connects a switch, finds it right, and reports what is plugged in.
    #[allow(dead_code, reason = "not every test connects a switch")]
    pub(crate) async fn connect(&self, name: &str, report: Report) {
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            self.event(name, Event::Connected { channel }).await;
        }
        self.event(name, Event::Report(report)).await;
        self.event(name, Event::Synced { flow_mods: 0, tunnels_changed: 0 }).await;
    }

    /// Confirms all that was pushed.
    #[allow(dead_code, reason = "not every test waits for a switch")]
    pub(crate) async fn confirm(&self, name: &str) {
        for txn in self.look(name, |switch| switch.pushed.clone()) {
            self.event(name, Event::Confirmed { txn, at: Instant::now(), sent: None }).await;
        }
    }
}

impl Drivers for Switches {
    fn spawn(&self, config: Config, events: mpsc::Sender<(String, Event)>) -> Box<dyn Driver> {
        let mut all = self.all.lock().unwrap_or_else(|error| panic!("{error}"));
        let name = config.name.clone();
        let started = all.get(&name).map_or(0, |switch| switch.started) + 1;
        let switch = Switch {
            config,
            desired: None,
            learned: None,
            counted: None,
            passed: None,
            there: None,
            asked: Vec::new(),
            pushed: Vec::new(),
            frames: Vec::new(),
            sent: Vec::new(),
            started,
            running: true,
            events,
        };
        all.insert(name.clone(), switch);
        Box::new(FakeDriver { name, number: started, switches: self.clone() })
    }
}

struct FakeDriver {
    name: String,
    number: usize,
    switches: Switches,
}

impl FakeDriver {
    fn switch(&self, change: impl FnOnce(&mut Switch)) {
        let Ok(mut all) = self.switches.all.lock() else { return };
        if let Some(switch) = all.get_mut(&self.name).filter(|switch| switch.started == self.number) {
            change(switch);
        }
    }
}

impl Driver for FakeDriver {
    fn set_desired(&self, desired: Arc<Desired>) {
        self.switch(|switch| switch.desired = Some((*desired).clone()));
    }

    fn push(&self, txn: u64, changes: Changes) {
        self.switch(|switch| {
            switch.pushed.push(txn);
            switch.desired.get_or_insert_default().apply(&changes);
            switch.frames.extend(changes.frames.add);
        });
    }

    fn announce(&self, frames: BTreeMap<String, Frame>) {
        self.switch(|switch| switch.frames.extend(frames));
    }

    fn learned(&self, table: u8, matching: &Match) -> Reading {
        let mut learned = None;
        // The real one reads only these.
        let of_switch = matching.get(openflow_rs::Field::Metadata);
        self.switch(|switch| learned.clone_from(&switch.learned));
        let asked = |flow: &LearnedFlow| {
            flow.matching().is_ok_and(|of| of.get(openflow_rs::Field::Metadata) == of_switch)
        };
        let learned = learned.filter(|_| table == 21).map(|flows| flows.into_iter().filter(asked).collect());
        Box::pin(std::future::ready(learned.ok_or(ReadError::NotConnected)))
    }

    fn meter_counts(&self) -> Asking<Vec<MeterCount>> {
        let mut counted = None;
        self.switch(|switch| counted.clone_from(&switch.counted));
        Box::pin(std::future::ready(counted.ok_or(ReadError::NotConnected)))
    }

    fn flow_counts(&self, keys: Vec<FlowKey>) -> Asking<Vec<FlowCount>> {
        let mut passed = None;
        self.switch(|switch| {
            passed = switch
                .passed
                .as_ref()
                .map(|counts| counts.iter().filter(|count| keys.contains(&count.key)).cloned().collect());
            switch.asked.extend(keys);
        });
        Box::pin(std::future::ready(passed.ok_or(ReadError::NotConnected)))
    }

    fn table_flows(&self, tables: Vec<u8>) -> Asking<Vec<SeenFlow>> {
        let mut there = None;
        self.switch(|switch| there.clone_from(&switch.there));
        let of_tables = |flows: Vec<SeenFlow>| {
            flows.into_iter().filter(|flow| tables.contains(&flow.entry.table)).collect()
        };
        Box::pin(std::future::ready(there.map(of_tables).ok_or(ReadError::NotConnected)))
    }

    fn covered_flows(&self, table: u8, _: Match) -> Asking<Vec<SeenFlow>> {
        self.table_flows(vec![table])
    }

    fn send(&self, packets: Vec<Packet>) -> Asking<()> {
        let mut running = false;
        self.switch(|switch| {
            running = switch.running;
            switch.sent.extend(packets);
        });
        Box::pin(std::future::ready(if running { Ok(()) } else { Err(ReadError::NotConnected) }))
    }

    fn leave(&self) {}

    fn end(self: Box<Self>) -> Shutdown {
        Box::pin(async move { drop(self) })
    }
}

impl Drop for FakeDriver {
    fn drop(&mut self) {
        self.switch(|switch| switch.running = false);
    }
}

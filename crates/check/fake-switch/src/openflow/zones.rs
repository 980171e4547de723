//! The conntrack zones of a fake switch, and crashes of those who drive it.

use std::collections::{BTreeMap, BTreeSet};

use switch_model::{Flow, FlowKey};

use super::{FakeSwitch, Refusal, State};

/// The zones in which packets are tracked if a switch has these flows, each with a name for the connection.
type Traffic = Box<dyn Fn(&BTreeMap<FlowKey, Flow>) -> Vec<(u16, String)> + Send>;

/// The flush of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flushed {
    /// The zone.
    pub zone: u16,
    /// The flows that the switch had.
    pub flows: BTreeMap<FlowKey, Flow>,
}

#[derive(Default)]
pub(super) struct Zones {
    tracked: BTreeMap<u16, BTreeSet<String>>,
    traffic: Option<Traffic>,
    flushed: Vec<Flushed>,
    refusal: Option<Refusal>,
    /// How many messages are received until nothing is received any more.
    last_messages: Option<usize>,
}

impl State {
    /// Flushes a zone.
    pub(super) fn flush_zone(&mut self, zone: u16) -> Result<(), Refusal> {
        if let Some(refusal) = self.zones.refusal {
            return Err(refusal);
        }
        self.zones.tracked.remove(&zone);
        if !self.is_forgetful {
            self.zones.flushed.push(Flushed { zone, flows: self.table.flows.clone() });
        }
        Ok(())
    }

    /// Lets packets pass.
    pub(super) fn forward(&mut self) {
        let zones = &mut self.zones;
        for (zone, name) in zones.traffic.iter().flat_map(|traffic| traffic(&self.table.flows)) {
            zones.tracked.entry(zone).or_default().insert(name);
        }
    }

    /// Whether a message is received.
    pub(super) fn receives(&mut self) -> bool {
        match &mut self.zones.last_messages {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    /// Whether no message is received any more.
    pub(super) fn is_cut_off(&self) -> bool {
        self.zones.last_messages == Some(0)
    }

    /// Forgets all connections.
    pub(super) fn forget_connections(&mut self) {
        self.zones.tracked.clear();
    }
}

impl FakeSwitch {
    /// From now on, packets pass after each message, and are tracked in these zones.
    pub fn traffic(&self, traffic: impl Fn(&BTreeMap<FlowKey, Flow>) -> Vec<(u16, String)> + Send + 'static) {
        let mut state = self.shared.lock();
        state.zones.traffic = Some(Box::new(traffic));
        state.forward();
    }

    /// The names of the connections in a zone.
    pub fn connections(&self, zone: u16) -> BTreeSet<String> {
        self.shared.lock().zones.tracked.get(&zone).cloned().unwrap_or_default()
    }

    /// The flushes of zones, in order.
    pub fn flushes(&self) -> Vec<Flushed> {
        self.shared.lock().zones.flushed.clone()
    }

    /// Refuses flushes of zones from now on, or takes them again.
    pub fn refuse_flushes(&self, refusal: Option<Refusal>) {
        self.shared.lock().zones.refusal = refusal;
    }

    /// Receives so many more messages, and then none over any connection until [`listen_again`](Self::listen_again): what
    /// a switch receives if its client ends there.
    pub fn cut_off_after(&self, messages: usize) {
        self.shared.lock().zones.last_messages = Some(messages);
    }

    /// Receives messages again.
    pub fn listen_again(&self) {
        self.shared.lock().zones.last_messages = None;
    }
}

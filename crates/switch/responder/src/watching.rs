//! The flows that say what the responder is to do without a packet.

use std::collections::BTreeMap;
use std::sync::Arc;

use openflow_rs::message::{FlowEvent, FlowUpdate};
use openflow_rs::{Action, Actions, FlowEntry, Match};
use packet_answers::{Ask, CONTROLLER_ID, Instruction, Probe, Readiness, Tunnels};

use crate::unasked::Unasked;

/// The table of stage `RESPOND`, in which such flows are. Names and leases are in others, and may be many.
pub(crate) const TABLE: u8 = 60;
/// The most such flows that are known. A gateway with 7,000 floating addresses has as many.
const FLOWS_MAX: usize = 16_384;

/// What identifies a flow of a table: its priority and its match.
pub(crate) type FlowKey = Arc<(u16, Match)>;

/// What is sent without a packet, and the actions that take it out of the switch.
pub(crate) type Sent = (Unasked, Actions);

/// A probe, and the actions that take its packets out of the switch.
pub(crate) type Probes = (Probe, Actions);

/// What a flow says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    sent: Vec<Sent>,
    ready: Vec<Readiness>,
    probes: Vec<Probes>,
}

impl Said {
    fn by(flow: &FlowEntry) -> Said {
        let mut said = Said::default();
        for action in &flow.actions.0 {
            let Action::Controller(controller) = action else { continue };
            if controller.id != CONTROLLER_ID {
                continue;
            }
            // What cannot be read is named in the log when a packet comes to it.
            let Ok(instruction) = Instruction::decode(&controller.userdata) else { continue };
            match instruction.ask {
                Ask::Ready(readiness) => said.ready.push(readiness),
                Ask::Probe(probe) => said.probes.push((probe, instruction.actions)),
                other => said.sent.extend(Unasked::of(other).map(|unasked| (unasked, instruction.actions))),
            }
        }
        said
    }

    fn is_nothing(&self) -> bool {
        self.sent.is_empty() && self.ready.is_empty() && self.probes.is_empty()
    }
}

/// The flows that are there.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    flows: BTreeMap<FlowKey, Said>,
    /// Whether there are more than can be kept.
    pub(crate) is_full: bool,
    /// Whether the switch has reported any flow that names a responder: it has not just started.
    pub(crate) has_flows: bool,
    /// The flows whose probes have changed, each with all its probes, until somebody takes them.
    pub(crate) probes: Vec<(FlowKey, Vec<Probes>)>,
}

/// A change of what is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A flow has appeared, or says something else.
    Announces(FlowKey, Vec<Sent>),
    /// A flow has gone.
    Ends(FlowKey),
}

impl Watching {
    /// Takes up what the switch reports of its flows. The changes of what is to be sent.
    pub(crate) fn apply(&mut self, updates: Vec<FlowUpdate>) -> Vec<Change> {
        updates.into_iter().filter_map(|update| self.apply_one(update)).collect()
    }

    fn apply_one(&mut self, update: FlowUpdate) -> Option<Change> {
        // The responder changes no flows, and after a pause the switch reports what has changed meanwhile.
        let FlowUpdate::Flow(event, flow) = update else { return None };
        let is_removed = matches!(event, FlowEvent::Removed(_));
        self.has_flows |= !is_removed;
        let said = if is_removed { Said::default() } else { Said::by(&flow) };
        let key = Arc::new((flow.priority, flow.matches));
        if said.is_nothing() {
            let before = self.flows.remove(&key)?;
            if !before.probes.is_empty() {
                self.probes.push((key.clone(), Vec::new()));
            }
            return (!before.sent.is_empty()).then_some(Change::Ends(key));
        }
        let before = self.flows.get(&key);
        if before.is_none() && self.flows.len() >= FLOWS_MAX {
            self.is_full = true;
            return None;
        }
        if before.map_or(&[][..], |before| &before.probes) != said.probes {
            self.probes.push((key.clone(), said.probes.clone()));
        }
        let announces = said.sent.clone();
        let has_changed = before.map_or(&[][..], |before| &before.sent) != announces;
        self.flows.insert(key.clone(), said);
        let change = if announces.is_empty() { Change::Ends(key) } else { Change::Announces(key, announces) };
        has_changed.then_some(change)
    }

    /// What the switch says of itself: that it has its flows, in one flow or several; none if no flow does.
    pub(crate) fn readiness(&self) -> Option<Readiness> {
        let all = self.flows.values().flat_map(|said| &said.ready);
        all.cloned().reduce(|one, other| Readiness {
            hold: both(one.hold, other.hold),
            uplinks: [one.uplinks, other.uplinks].concat(),
        })
    }
}

fn both(one: Tunnels, other: Tunnels) -> Tunnels {
    match (one, other) {
        (Tunnels::These(one), Tunnels::These(other)) => {
            let mut names = [one, other].concat();
            names.sort_unstable();
            names.dedup();
            Tunnels::These(names)
        }
        _ => Tunnels::All,
    }
}

#[cfg(test)]
mod tests {
    use openflow_rs::flow::RemovedReason;

    use super::*;

    fn flow(number: u32, kind: &str, settings: &[&str]) -> FlowEntry {
        let instruction =
            Instruction::from_settings(kind, settings.iter().copied(), Actions::drop()).unwrap();
        let matches = format!("reg4={number}").parse().unwrap();
        FlowEntry::new(TABLE, 7, matches, Actions(vec![instruction.action(0)]))
    }

    fn added(flow: &FlowEntry) -> Vec<FlowUpdate> {
        vec![FlowUpdate::Flow(FlowEvent::Added, flow.clone())]
    }

    fn removed(flow: &FlowEntry) -> Vec<FlowUpdate> {
        vec![FlowUpdate::Flow(FlowEvent::Removed(RemovedReason::Delete), flow.clone())]
    }

    #[test]
    fn announcements_come_change_and_go_with_their_flows() {
        let mut watching = Watching::default();
        let [one, other] = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
            .map(|mac| flow(1, "announce", &[&format!("mac={mac}")]));
        let macs = |changes: Vec<Change>| -> Vec<u8> {
            let macs = changes.iter().map(|change| match change {
                Change::Announces(_, sent) => sent[0].0.frame(0).unwrap()[11],
                Change::Ends(_) => 0,
            });
            macs.collect()
        };
        assert_eq!(macs(watching.apply(added(&one))), [1]);
        assert_eq!(macs(watching.apply(added(&one))), [0; 0], "it says the same again");
        assert_eq!(macs(watching.apply(added(&other))), [2]);
        assert_eq!(macs(watching.apply(removed(&other))), [0]);
        assert_eq!(macs(watching.apply(removed(&other))), [0; 0]);
        let answer = flow(2, "return", &[]);
        assert_eq!(macs(watching.apply(added(&answer))), [0; 0], "it is for packets");
        assert!(watching.flows.is_empty());
    }

    #[test]
    fn a_switch_is_ready_while_a_flow_says_so_and_what_is_held_adds_up() {
        let mut watching = Watching::default();
        let one = flow(1, "ready", &["hold=g1", "uplink=eth1"]);
        let other = flow(2, "ready", &["hold=g2", "hold=g1", "uplink=eth2"]);
        assert_eq!(watching.readiness(), None);
        assert_eq!(watching.apply(added(&one)), []);
        watching.apply(added(&other));
        let both = watching.readiness().unwrap();
        assert_eq!(both.hold, Tunnels::These(vec!["g1".to_owned(), "g2".to_owned()]));
        assert_eq!(both.uplinks, ["eth1", "eth2"]);
        watching.apply(added(&flow(3, "ready", &["hold=all"])));
        assert_eq!(watching.readiness().unwrap().hold, Tunnels::All);
        for flow in [&one, &other] {
            watching.apply(removed(flow));
        }
        assert_eq!(watching.readiness().unwrap().uplinks, [""; 0]);
        watching.apply(removed(&flow(3, "return", &[])));
        assert_eq!(watching.readiness(), None);
    }

    #[test]
    fn probes_come_change_and_go_with_their_flows() {
        let mut watching = Watching::default();
        let probe = |number, check| {
            let settings = ["id=a", check, "from=10.0.0.1", "from_mac=02::1", "to=10.0.0.2", "to_mac=02::2"]
                .map(|setting| setting.replace("02::", "02:00:00:00:00:0"));
            flow(number, "probe", &settings.each_ref().map(String::as_str))
        };
        let mut counts = |updates| {
            assert_eq!(watching.apply(updates), [], "they announce nothing");
            std::mem::take(&mut watching.probes)
                .into_iter()
                .map(|(_, probes)| probes.len())
                .collect::<Vec<_>>()
        };
        let (one, other) = (probe(1, "check=icmp"), probe(1, "check=tcp:80"));
        assert_eq!(counts(added(&one)), [1]);
        assert_eq!(counts(added(&one)), [0; 0], "it says the same again");
        assert_eq!(counts(added(&other)), [1]);
        assert_eq!(counts(added(&flow(1, "ready", &[]))), [0], "it says something else");
        assert_eq!(counts(added(&one)), [1]);
        assert_eq!(counts(removed(&one)), [0]);
        assert_eq!(counts(removed(&one)), [0; 0]);
        assert!(watching.has_flows);
        let mut empty = Watching::default();
        empty.apply(removed(&one));
        assert!(!empty.has_flows);
    }

    #[test]
    fn there_is_a_limit() {
        let mut watching = Watching::default();
        for number in 0..=FLOWS_MAX as u32 {
            assert!(!watching.is_full);
            watching.apply(added(&flow(number, "announce", &["mac=02:00:00:00:00:01"])));
        }
        assert!(watching.is_full);
        assert_eq!(watching.flows.len(), FLOWS_MAX);
    }
}

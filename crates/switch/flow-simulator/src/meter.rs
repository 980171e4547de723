//! Meters, without time: a test says how many packets one still lets through.

use openflow_rs::Action;

use crate::{Bridge, Refused};

/// A meter: it lets packets through and counts those that it drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// The packets that it still lets through; `None` for any number.
    pub budget: Option<u64>,
    /// Packets that it has dropped.
    pub dropped: u64,
}

impl Bridge {
    /// Adds a meter that lets everything through. One that exists stays as it is.
    pub fn add_meter(&mut self, id: u32) {
        self.meters.entry(id).or_default();
    }

    /// Removes a meter and, silently as in Open vSwitch, every flow that refers to it.
    pub fn remove_meter(&mut self, id: u32) {
        self.meters.remove(&id);
        let names = |action: &Action| matches!(action, Action::Meter(meter) if meter.id == id);
        self.remove_flows(|flow| flow.actions.0.iter().any(names));
    }

    /// Sets how many packets a meter still lets through; `None` for any number.
    ///
    /// # Errors
    /// There is no such meter.
    pub fn set_budget(&mut self, id: u32, budget: Option<u64>) -> Result<(), Refused> {
        self.meters.get_mut(&id).ok_or(Refused::NoMeter(id))?.budget = budget;
        Ok(())
    }

    /// The meters, by id.
    pub fn meters(&self) -> impl Iterator<Item = (u32, Meter)> {
        self.meters.iter().map(|(id, meter)| (*id, *meter))
    }

    /// A packet came to a meter, and passed or not.
    pub(crate) fn count_metered(&mut self, id: u32, passed: bool) {
        let Some(meter) = self.meters.get_mut(&id) else { return };
        if !passed {
            meter.dropped += 1;
        } else if let Some(budget) = &mut meter.budget {
            *budget = budget.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use openflow_rs::PortNo;

    use super::*;
    use crate::Packet;

    fn bridge(flows: &[&str]) -> Bridge {
        let mut bridge = Bridge::new((1..4).map(PortNo));
        bridge.add_meter(7);
        for flow in flows {
            bridge.add_flow(flow.parse().unwrap()).unwrap();
        }
        bridge
    }

    fn send(bridge: &mut Bridge) -> Vec<u16> {
        let outcome = bridge.receive(&Packet::new(vec![2; 60], PortNo(1)));
        outcome.emitted.iter().map(|emitted| emitted.port.0).collect()
    }

    #[test]
    fn a_meter_drops_what_comes_after_it_once_its_budget_is_spent() {
        let mut bridge = bridge(&["actions=output:2,resubmit(,1)", "table=1 actions=meter:7,output:3"]);
        assert_eq!(send(&mut bridge), [2, 3], "without a budget, everything passes");
        bridge.set_budget(7, Some(2)).unwrap();
        assert_eq!(bridge.process(&Packet::new(vec![2; 60], PortNo(1))).emitted.len(), 2);
        assert_eq!(
            [send(&mut bridge), send(&mut bridge), send(&mut bridge)],
            [vec![2, 3], vec![2, 3], vec![2]]
        );
        assert_eq!(bridge.meters().collect::<Vec<_>>(), [(7, Meter { budget: Some(0), dropped: 1 })]);
        bridge.add_meter(7);
        assert_eq!(send(&mut bridge), [2], "a meter that is there stays as it is");
    }

    #[test]
    fn what_a_dropped_packet_teaches_is_learned() {
        // Open vSwitch translates the whole packet before the datapath drops it.
        let learn = "actions=meter:7,learn(table=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),output:3";
        let mut bridge = bridge(&[learn]);
        bridge.set_budget(7, Some(0)).unwrap();
        assert!(send(&mut bridge).is_empty());
        assert_eq!(bridge.learned().len(), 1);
    }

    #[test]
    fn flows_go_with_their_meter_and_do_not_come_without_it() {
        let mut bridge = bridge(&["actions=meter:7,output:3", "table=1 actions=output:2"]);
        let flow = |actions: &str| format!("table=3 actions={actions}").parse().unwrap();
        assert_eq!(bridge.add_flow(flow("meter:8,output:3")), Err(Refused::NoMeter(8)));
        for misplaced in ["output:3,meter:7", "clone(meter:7,output:3)"] {
            assert!(matches!(bridge.add_flow(flow(misplaced)), Err(Refused::Action { .. })), "{misplaced}");
        }
        assert_eq!(bridge.set_budget(8, None), Err(Refused::NoMeter(8)));
        bridge.remove_meter(7);
        assert_eq!(bridge.flows().len(), 1);
    }
}

//! Address conflicts that the switch has noted, each in a flow that it has learned: the match has the label of the port whose machine is going to
//! use somebody else's address, and the action sets that address.
//!
//! A port has one such flow for each IP version, whose address changes as its machine asks for others. What is reported of a port
//! changes at most once a minute, so a machine that asks for all addresses in turn causes no stream of reports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use openflow_rs::Action;
use switch_model::{Conflict, Flow, FlowKey};
use tokio::time::Instant;

use crate::config::Config;

/// The most that are known. A switch has one or two for each port, and notes as many at most.
const NOTED_MAX: usize = 10_000;
/// How long an address is reported of a port, until another one takes its place.
const KEPT: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    /// What the switch has; `None` before it was read for the first time.
    noted: Option<BTreeMap<FlowKey, Conflict>>,
    /// What is reported, and since when.
    reported: BTreeMap<FlowKey, (Conflict, Instant)>,
}

impl Config {
    /// The conflict that a flow of the switch notes, if it is such a flow. Others may write to its table, too.
    pub(crate) fn conflict(&self, key: &FlowKey, flow: &Flow) -> Option<Conflict> {
        if !self.conflict_tables.contains(&key.table()) {
            return None;
        }
        let (matching, actions) = (key.matching().ok()?, flow.actions().ok()?);
        let mut demands = matching.iter();
        let (demand, None) = (demands.next()?, demands.next()) else { return None };
        let [Action::SetField(set)] = actions.0.as_slice() else { return None };
        let max = set.field().max_value();
        if demand.mask != demand.field.max_value() || set.mask() != max {
            return None;
        }
        let address = match (max == u32::MAX.into(), max == u128::MAX) {
            (true, _) => Ipv4Addr::from_bits(u32::try_from(set.value()).ok()?).into(),
            (_, true) => Ipv6Addr::from_bits(set.value()).into(),
            _ => return None,
        };
        Some(Conflict { label: u32::try_from(demand.value).ok()?, address })
    }
}

impl Conflicts {
    /// Takes over what the switch has.
    pub(crate) fn read(&mut self, noted: BTreeMap<FlowKey, Conflict>) {
        self.noted = Some(noted.into_iter().take(NOTED_MAX).collect());
    }

    /// Takes the report that the switch has written a flow, or removed it. Returns whether there is something to report, at once or later.
    pub(crate) fn seen(&mut self, key: &FlowKey, conflict: Option<Conflict>) -> bool {
        // What comes before the first read is read.
        let Some(noted) = &mut self.noted else { return false };
        match conflict {
            Some(conflict) if noted.len() < NOTED_MAX || noted.contains_key(key) => {
                noted.insert(key.clone(), conflict);
            }
            Some(_) => return false,
            None => drop(noted.remove(key)),
        }
        self.reported.get(key).map(|(conflict, _)| *conflict) != conflict
    }

    /// When there is something to report. In the past if there is already.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let noted = self.noted.as_ref()?;
        let came = noted.iter().filter_map(|(key, conflict)| match self.reported.get(key) {
            Some((reported, _)) if reported == conflict => None,
            Some((_, since)) => Some(*since + KEPT),
            None => Some(now),
        });
        let went = self.reported.keys().any(|key| !noted.contains_key(key));
        came.chain(went.then_some(now)).min()
    }

    /// What is to be reported now; `None` before the switch was read.
    pub(crate) fn shown(&mut self, now: Instant) -> Option<BTreeSet<Conflict>> {
        let noted = self.noted.as_ref()?;
        self.reported.retain(|key, _| noted.contains_key(key));
        for (key, conflict) in noted {
            let (reported, since) = self.reported.entry(key.clone()).or_insert((*conflict, now));
            if reported != conflict && *since + KEPT <= now {
                (*reported, *since) = (*conflict, now);
            }
        }
        Some(self.reported.values().map(|(conflict, _)| *conflict).collect())
    }
}

#[cfg(test)]
mod tests {
    use openflow_rs::FlowEntry;

    use super::*;

    const TABLE: u8 = 53;

    fn flow(text: &str) -> (FlowKey, Flow) {
        let entry: FlowEntry = format!("table={text}").parse().unwrap();
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).unwrap();
        (key, Flow::new(entry.cookie, &entry.actions).unwrap())
    }

    fn config() -> Config {
        Config {
            name: "hv1".to_owned(),
            ovsdb: "unix:/db.sock".parse().unwrap(),
            openflow: "unix:/br-int.mgmt".parse().unwrap(),
            bridge: "br-int".to_owned(),
            datapath_type: None,
            datapath_id: None,
            tunnel_option: None,
            learned_tables: BTreeSet::new(),
            watched_tables: BTreeSet::new(),
            conflict_tables: [TABLE].into(),
            learned_limit: None,
            owner: None,
        }
    }

    fn noted(label: u32, address: &str) -> (FlowKey, Conflict) {
        let conflict = Conflict { label, address: address.parse().unwrap() };
        (flow(&format!("53,reg0={label} actions=drop")).0, conflict)
    }

    fn see(conflicts: &mut Conflicts, label: u32, address: &str) -> bool {
        let (key, conflict) = noted(label, address);
        conflicts.seen(&key, Some(conflict))
    }

    fn go(conflicts: &mut Conflicts, label: u32) -> bool {
        conflicts.seen(&noted(label, "10.0.0.1").0, None)
    }

    /// What is reported: label and address.
    fn shown(conflicts: &mut Conflicts, now: Instant) -> Vec<(u32, String)> {
        let shown = conflicts.shown(now).unwrap();
        shown.into_iter().map(|conflict| (conflict.label, conflict.address.to_string())).collect()
    }

    #[test]
    fn a_flow_that_matches_a_label_and_sets_an_address_is_a_conflict() {
        let read = |text: &str| {
            let (key, flow) = flow(text);
            config().conflict(&key, &flow).map(|found| (found.label, found.address.to_string()))
        };
        let of = |label, address: &str| Some((label, address.to_owned()));
        assert_eq!(read("53,reg0=0x101 actions=load:0xa000002->NXM_NX_REG4[]"), of(0x101, "10.0.0.2"));
        assert_eq!(
            read("53,reg0=0x101 actions=set_field:0xfd000000000000000000000000000002->xxreg2"),
            of(0x101, "fd00::2")
        );
        for other in [
            "21,reg0=0x101 actions=set_field:0xa000002->reg4",
            "53,reg0=0x101 actions=drop",
            "53,reg0=0x101 actions=set_field:0xa000002->reg4,set_field:0xa000002->reg5",
            "53,reg0=0x101 actions=set_field:0xa00/0xffff->reg4",
            "53,reg0=0x101,reg1=1 actions=set_field:0xa000002->reg4",
            "53,reg0=0x101/0xfff actions=set_field:0xa000002->reg4",
            "53,xreg0=0x101 actions=set_field:0xa000002->reg4",
            "53 actions=set_field:0xa000002->reg4",
            "53,reg0=0x101 actions=set_field:02:00:00:00:00:01->eth_src",
            "53,reg0=0x101 actions=output:1",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn what_comes_and_goes_is_due_at_once() {
        let now = Instant::now();
        let mut conflicts = Conflicts::default();
        assert!(!see(&mut conflicts, 1, "10.0.0.1"), "nothing was read yet");
        assert_eq!((conflicts.due(now), conflicts.shown(now)), (None, None));
        conflicts.read([noted(1, "10.0.0.1")].into());
        assert_eq!(conflicts.due(now), Some(now));
        assert_eq!(shown(&mut conflicts, now), [(1, "10.0.0.1".to_owned())]);
        assert_eq!(conflicts.due(now), None);
        assert!(!see(&mut conflicts, 1, "10.0.0.1"), "known");
        assert!(see(&mut conflicts, 2, "fd00::1"));
        assert_eq!(conflicts.due(now), Some(now));
        assert_eq!(shown(&mut conflicts, now).len(), 2);
        assert!(go(&mut conflicts, 1));
        assert_eq!(conflicts.due(now), Some(now));
        assert_eq!(shown(&mut conflicts, now), [(2, "fd00::1".to_owned())]);
        // It went while the switch was away.
        conflicts.read(BTreeMap::new());
        assert_eq!(conflicts.due(now), Some(now));
        assert_eq!(shown(&mut conflicts, now), []);
        assert!(!go(&mut conflicts, 2));
    }

    #[test]
    fn a_port_that_asks_for_all_addresses_in_turn_is_reported_once_a_minute() {
        let start = Instant::now();
        let mut conflicts = Conflicts::default();
        conflicts.read([noted(1, "10.0.0.1")].into());
        shown(&mut conflicts, start);
        let mut reports = 0;
        for second in 1..=600_u32 {
            let now = start + Duration::from_secs(second.into());
            see(&mut conflicts, 1, &format!("10.0.{}.{}", second / 200, second % 200 + 2));
            if conflicts.due(now).is_some_and(|due| due <= now) {
                shown(&mut conflicts, now);
                reports += 1;
            }
        }
        assert_eq!(reports, 10);
        // The last one counts in the end.
        let due = conflicts.due(start).unwrap_or(start);
        assert_eq!(shown(&mut conflicts, due), [(1, "10.0.3.2".to_owned())]);
    }

    #[test]
    fn a_switch_with_too_many_takes_bounded_memory() {
        let now = Instant::now();
        let mut conflicts = Conflicts::default();
        conflicts.read((0..20_000).map(|label| noted(label, "10.0.0.1")).collect());
        assert_eq!(shown(&mut conflicts, now).len(), NOTED_MAX);
        assert!(!see(&mut conflicts, 30_000, "10.0.0.1"));
        assert_eq!(conflicts.due(now), None);
        assert!(see(&mut conflicts, 1, "10.0.0.2"), "a port that is known");
    }
}

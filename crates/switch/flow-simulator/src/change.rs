//! An atomic change of flows and groups, as a delta of the rules requests it.

use std::collections::BTreeSet;
use std::sync::Arc;

use openflow_rs::{Bucket, FlowEntry, GroupEntry, GroupKind, Match};

use crate::check::{There, check, check_protocol};
use crate::group::check_group;
use crate::{Bridge, Refused};

/// Changes to make in a bridge. A group exists while it has a bucket, so groups appear and disappear with their buckets.
///
/// ```
/// use flow_simulator::{Bridge, Change};
/// use openflow_rs::{Bucket, FlowEntry, PortNo};
/// let mut bridge = Bridge::new([PortNo(1), PortNo(2)]);
/// let flow: FlowEntry = "in_port=1 actions=group:7".parse()?;
/// let mut change = Change::default();
/// change.add_flow(flow.clone());
/// change.add_bucket(7, Bucket::new(1, "output:2".parse()?));
/// bridge.change(change)?;
/// assert_eq!((bridge.flows().len(), bridge.groups().count()), (1, 1));
///
/// let mut change = Change::default();
/// change.remove_flow(flow.table, flow.priority, flow.matches);
/// change.remove_bucket(7, 1);
/// bridge.change(change)?;
/// assert_eq!((bridge.flows().len(), bridge.groups().count()), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Change {
    removed_flows: Vec<(u8, u16, Match)>,
    flows: Vec<Arc<FlowEntry>>,
    removed_buckets: BTreeSet<(u32, u32)>,
    buckets: Vec<(u32, Bucket)>,
}

impl Change {
    /// Adds a flow, replacing one with the same table, match and priority.
    pub fn add_flow(&mut self, flow: impl Into<Arc<FlowEntry>>) {
        self.flows.push(flow.into());
    }

    /// Removes the flow with this table, priority and match, unless the change also adds such a flow.
    pub fn remove_flow(&mut self, table: u8, priority: u16, matches: Match) {
        self.removed_flows.push((table, priority, matches));
    }

    /// Adds a bucket to a group, replacing one with the same id. A group that is not there yet is of type `all`.
    pub fn add_bucket(&mut self, group: u32, bucket: Bucket) {
        self.buckets.push((group, bucket));
    }

    /// Removes a bucket, unless the change also adds one with its id.
    pub fn remove_bucket(&mut self, group: u32, bucket: u32) {
        self.removed_buckets.insert((group, bucket));
    }
}

impl Bridge {
    /// Applies a change atomically, whatever the order of its parts. Removing something that does not exist has no effect.
    ///
    /// # Errors
    /// As [`Bridge::add_flow`] and [`Bridge::add_group`], with respect to the groups after the change.
    pub fn change(&mut self, change: Change) -> Result<(), Refused> {
        let added: BTreeSet<(u32, u32)> =
            change.buckets.iter().map(|(group, bucket)| (*group, bucket.id)).collect();
        let removed: BTreeSet<(u32, u32)> = change.removed_buckets.difference(&added).copied().collect();
        self.check_change(&change, &added, &removed)?;

        for (id, bucket) in change.buckets {
            let group = self.groups.entry(id);
            let group = group.or_insert_with(|| GroupEntry::all(id, Vec::new()));
            match group.buckets.binary_search_by_key(&bucket.id, |bucket| bucket.id) {
                Ok(place) => group.buckets[place] = bucket,
                Err(place) => group.buckets.insert(place, bucket),
            }
        }
        if !change.removed_flows.is_empty() {
            let added: BTreeSet<(u8, u16, &Match)> =
                change.flows.iter().map(|flow| (flow.table, flow.priority, &flow.matches)).collect();
            for (table, priority, matches) in &change.removed_flows {
                if !added.contains(&(*table, *priority, matches)) {
                    self.take(*table, *priority, matches);
                }
            }
        }
        for flow in change.flows {
            self.put(flow);
        }
        for (group, bucket) in removed {
            let Some(buckets) = self.groups.get_mut(&group).map(|group| &mut group.buckets) else { continue };
            buckets.retain(|other| other.id != bucket);
            if buckets.is_empty() {
                self.remove_group(group);
            }
        }
        Ok(())
    }

    fn check_change(
        &self,
        change: &Change,
        added: &BTreeSet<(u32, u32)>,
        removed: &BTreeSet<(u32, u32)>,
    ) -> Result<(), Refused> {
        let is_there = |group: u32| {
            let comes = added.range((group, 0)..=(group, u32::MAX)).next().is_some();
            let stays = |bucket: &Bucket| !removed.contains(&(group, bucket.id));
            comes || self.groups.get(&group).is_some_and(|group| group.buckets.iter().any(stays))
        };
        let has_meter = |meter| self.meters.contains_key(&meter);
        let there = There { group: &is_there, meter: &has_meter };
        for (group, bucket) in &change.buckets {
            check(&bucket.actions, 0, there)?;
            let there = self.groups.get(group);
            if let Some(group) = there.filter(|group| group.kind == GroupKind::Indirect) {
                return Err(Refused::Buckets(group.buckets.len() + 1));
            }
            let kind = there.map_or(GroupKind::All, |group| group.kind);
            let selection = there.and_then(|group| group.selection.clone());
            let alone = GroupEntry { selection, ..GroupEntry::new(*group, kind, vec![bucket.clone()]) };
            check_group(&alone)?;
        }
        change.flows.iter().try_for_each(|flow| {
            check_protocol(&flow.matches, &flow.actions)?;
            check(&flow.actions, flow.table, there)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow_rs::PortNo;

    fn bucket(id: u32, actions: &str) -> Bucket {
        Bucket::new(id, actions.parse().unwrap())
    }

    fn flow(text: &str) -> FlowEntry {
        text.parse().unwrap()
    }

    /// Ids of groups and their buckets, and flows.
    fn there(bridge: &Bridge) -> (Vec<(u32, Vec<u32>)>, Vec<String>) {
        let groups = bridge
            .groups()
            .map(|group| (group.id, group.buckets.iter().map(|bucket| bucket.id).collect()))
            .collect();
        (groups, bridge.flows().iter().map(ToString::to_string).collect())
    }

    /// Groups 1 and 2, where the first refers to the second, and a flow that refers to the first.
    fn bridge() -> Bridge {
        let mut bridge = Bridge::new((1..4).map(PortNo));
        let mut change = Change::default();
        change.add_flow(flow("in_port=1 actions=group:1"));
        change.add_bucket(1, bucket(7, "output:3"));
        change.add_bucket(1, bucket(0, "group:2"));
        change.add_bucket(2, bucket(5, "output:2"));
        bridge.change(change).unwrap();
        bridge
    }

    #[test]
    fn groups_come_with_their_first_bucket_and_go_with_their_last() {
        let mut bridge = bridge();
        assert_eq!(there(&bridge).0, [(1, vec![0, 7]), (2, vec![5])]);
        let mut change = Change::default();
        change.remove_bucket(1, 0);
        change.remove_bucket(1, 7);
        change.add_bucket(1, bucket(7, "output:2"));
        change.remove_bucket(2, 5);
        bridge.change(change).unwrap();
        assert_eq!(there(&bridge).0, [(1, vec![7])]);
        assert_eq!(bridge.group(1).unwrap().buckets, [bucket(7, "output:2")]);
    }

    #[test]
    fn a_flow_goes_with_its_group_unless_it_is_changed_as_well() {
        for (changed, left) in [(false, vec![]), (true, vec!["in_port=1 actions=output:2".to_owned()])] {
            let (mut bridge, mut change) = (bridge(), Change::default());
            change.remove_bucket(1, 0);
            change.remove_bucket(1, 7);
            if changed {
                let new = flow("in_port=1 actions=output:2");
                change.remove_flow(0, new.priority, new.matches.clone());
                change.add_flow(new);
            }
            bridge.change(change).unwrap();
            let left: Vec<_> = left.into_iter().map(|text| flow(&text).to_string()).collect();
            assert_eq!(there(&bridge), (vec![(2, vec![5])], left));
        }
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing() {
        let mut bridge = bridge();
        let before = there(&bridge);
        let mut gone = Change::default();
        gone.add_flow(flow("in_port=2 actions=group:2"));
        gone.remove_bucket(2, 5);
        assert_eq!(bridge.change(gone), Err(Refused::NoGroup(2)));
        let mut change = Change::default();
        change.add_bucket(9, bucket(1, "exit"));
        assert!(matches!(bridge.change(change), Err(Refused::InBucket(_))));
        assert_eq!(there(&bridge), before);
    }
}

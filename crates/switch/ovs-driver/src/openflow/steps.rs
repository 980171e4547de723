//! The messages of a batch, in an order that the switch accepts.

use std::sync::Arc;

use crate::forwarding::{Batch, GroupChange, MeterChange};
use crate::group::Part;
use crate::ledger::FlowChange;
use switch_model::zone;

/// One message, identified by the index of its change among the groups, the flows or the meters of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Flow(usize),
    /// The mark of a zone that must be flushed once more.
    Claim(usize),
    /// The flush of the zone that a flow marks.
    Flush(usize),
    Group(usize, GroupStep),
    Meter(usize),
}

/// The operation of a group-mod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupStep {
    /// Add the group with all its buckets.
    Add,
    /// Replace the group.
    Modify,
    /// Remove one bucket.
    Remove(u32),
    /// Insert the new and the changed buckets.
    Insert,
    /// Insert this bucket at its place.
    Place(u32),
    /// Delete the group.
    Delete,
}

impl Step {
    /// The index of the change in the whole batch.
    pub(crate) fn place(self, batch: &Batch) -> usize {
        match self {
            Step::Flow(place) | Step::Claim(place) | Step::Flush(place) => batch.groups.len() + place,
            Step::Group(place, _) => place,
            Step::Meter(place) => batch.groups.len() + batch.flows.len() + place,
        }
    }
}

/// The messages of a batch that a bundle takes, except those of some changes: groups, then flows, then deleted groups. A switch refuses a
/// flow whose group does not exist, and deletes the flows of a deleted group.
pub(crate) fn steps(batch: &Batch, without: impl Fn(usize) -> bool) -> Vec<Step> {
    let mut steps = Vec::with_capacity(batch.len());
    let mut last = Vec::new();
    for (place, change) in batch.groups.iter().enumerate().filter(|(place, _)| !without(*place)) {
        let group = |step| Step::Group(place, step);
        match (&change.installed, &change.value) {
            (None, Some(_)) => steps.push(group(GroupStep::Add)),
            (Some(installed), Some(value)) => {
                steps.extend(corrections(installed, value).into_iter().map(group));
            }
            (_, None) => last.push(group(GroupStep::Delete)),
        }
    }
    let flows = batch.groups.len();
    let flow = |(place, change)| if is_claim(batch, change) { Step::Claim(place) } else { Step::Flow(place) };
    let left = batch.flows.iter().enumerate().filter(|(place, _)| !without(flows + place));
    steps.extend(left.map(flow));
    steps.append(&mut last);
    steps
}

/// The messages of a batch that go before the bundle, which may use these meters.
pub(crate) fn meters_first(batch: &Batch) -> Vec<Step> {
    meter_steps(batch, |change| change.value.is_some())
}

/// The messages of a batch that go after the bundle: a switch deletes the flows of a deleted meter.
pub(crate) fn meters_last(batch: &Batch) -> Vec<Step> {
    meter_steps(batch, |change| change.value.is_none())
}

fn meter_steps(batch: &Batch, which: impl Fn(&MeterChange) -> bool) -> Vec<Step> {
    let changes = batch.meters.iter().enumerate().filter(|(_, change)| which(change));
    changes.map(|(place, _)| Step::Meter(place)).collect()
}

/// The flushes of a batch that go before the bundle: of zones that get an owner.
pub(crate) fn zones_first(batch: &Batch) -> Vec<Step> {
    let changes = batch.flows.iter().enumerate().filter(|(_, change)| gets_owner(change));
    changes.map(|(place, _)| Step::Flush(place)).collect()
}

/// What goes after the bundle: zones that others may have used until then are flushed, and get their final marks.
pub(crate) fn zones_last(batch: &Batch, without: impl Fn(usize) -> bool) -> Vec<Step> {
    let marks = batch.flows.iter().enumerate().filter(|(_, change)| zone::marked(&change.key).is_some());
    let left: Vec<_> = marks.filter(|(place, _)| !without(batch.groups.len() + place)).collect();
    let used = left.iter().filter(|(_, change)| change.value.is_none() || is_claim(batch, change));
    let claimed = left.iter().filter(|(_, change)| is_claim(batch, change));
    used.map(|(place, _)| Step::Flush(*place)).chain(claimed.map(|(place, _)| Step::Flow(*place))).collect()
}

fn gets_owner(change: &FlowChange) -> bool {
    change.value.is_some() && zone::marked(&change.key).is_some()
}

/// Whether packets may have used a zone for somebody else between its flush and the bundle.
fn is_claim(batch: &Batch, change: &FlowChange) -> bool {
    gets_owner(change) && (batch.had_flows || change.installed.is_some())
}

/// Changes a group bucket by bucket, unless most of its buckets change. Where their order counts, each goes to its place.
fn corrections(installed: &Part, value: &Part) -> Vec<GroupStep> {
    let stays = |id: &u32, actions: &Arc<[u8]>| value.buckets.get(id) == Some(actions);
    let gone: Vec<u32> =
        installed.buckets.iter().filter(|(id, actions)| !stays(id, actions)).map(|(id, _)| *id).collect();
    if installed.shape != value.shape || gone.len() > value.buckets.len() / 2 {
        return vec![GroupStep::Modify];
    }
    let mut steps: Vec<GroupStep> = gone.into_iter().map(GroupStep::Remove).collect();
    if value.is_choice() {
        let new = value.buckets.iter().filter(|(id, bytes)| installed.buckets.get(id) != Some(bytes));
        steps.extend(new.map(|(id, _)| GroupStep::Place(*id)));
    } else if value.buckets.iter().any(|(id, actions)| installed.buckets.get(id) != Some(actions)) {
        steps.push(GroupStep::Insert);
    }
    steps
}

/// The buckets that the message of a group step carries.
pub(crate) fn told(change: &GroupChange, step: GroupStep) -> Vec<(u32, &[u8])> {
    let Some(value) = &change.value else { return Vec::new() };
    if let GroupStep::Place(id) = step {
        return value.buckets.get_key_value(&id).map(|(id, bytes)| (*id, &**bytes)).into_iter().collect();
    }
    let installed = change.installed.as_ref().filter(|_| step == GroupStep::Insert);
    let there = |id: &u32| installed.and_then(|part| part.buckets.get(id));
    let tells = matches!(step, GroupStep::Add | GroupStep::Modify | GroupStep::Insert);
    let buckets = value.buckets.iter().filter(|(id, actions)| tells && there(id) != Some(*actions));
    buckets.map(|(id, actions)| (*id, &**actions)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use crate::group::Wanted;
    use crate::openflow::groups::put_group_mod;
    use crate::openflow::part_of;
    use fake_switch::openflow::Table;
    use openflow_rs::{Body, Field, Message, PortNo};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn part(buckets: &BTreeMap<u8, u8>) -> Option<Part> {
        chosen(0, buckets)
    }

    /// A group of type all, select by two choices of fields, or fast failover.
    fn chosen(choice: u8, buckets: &BTreeMap<u8, u8>) -> Option<Part> {
        let choice = match choice {
            0 => None,
            1 => Some(Choice::Select(vec![Field::IpDst, Field::IpSrc])),
            2 => Some(Choice::Select(vec![Field::IpDst])),
            _ => Some(Choice::FastFailover),
        };
        let (weighs, watches) = match &choice {
            None => (0, None),
            Some(Choice::Select(_)) => (1, Some(PortNo(9))),
            Some(Choice::FastFailover) => (0, Some(PortNo(9))),
        };
        let bytes = |n: u8| {
            let actions = format!("set_field:{n}->reg1,resubmit(,40)").parse().expect("actions");
            let port = watches.filter(|_| n > 0 || weighs == 0);
            let watched = crate::Watched { port, group: port.and(Some(3).filter(|_| n > 1)) };
            let bucket = crate::Bucket::candidate(0, weighs * (u16::from(n) + 1), watched, &actions);
            bucket.expect("a bucket").bytes()
        };
        let buckets = buckets.iter().map(|(id, n)| (u32::from(*id), bytes(*n))).collect();
        let shape = choice.map(|choice| choice.shape()).unwrap_or_default();
        Wanted { shape, buckets }.parts(7).remove(&7)
    }

    fn some() -> impl Strategy<Value = BTreeMap<u8, u8>> {
        proptest::collection::btree_map(0_u8..12, 0_u8..3, 0..12)
    }

    proptest! {
            #[test]
        fn the_messages_make_the_group(
            have in some(), want in some(), before in 0_u8..4, after in 0_u8..4, same in any::<bool>(),
        ) {
            let (installed, value) = (chosen(if same { after } else { before }, &have), chosen(after, &want));
            let mut table = Table::default();
            let change = |installed, value| GroupChange { key: 7, value, installed, txn: None };
            for change in [change(None, installed.clone()), change(installed.clone(), value.clone())] {
                if change.installed == change.value {
                    continue;
                }
                let batch = Batch { groups: Arc::new(vec![change]), ..Batch::default() };
                for step in steps(&batch, |_| false) {
                    let Step::Group(0, what) = step else { panic!("{step:?}") };
                    let mut bytes = bytes::BytesMut::new();
                    put_group_mod(&mut bytes, 3, &batch.groups[0], what).expect("short");
                    let Ok(Message { xid: 3, body: Body::GroupMod(change) }) = Message::decode(&bytes) else {
                        panic!("{bytes:02x?}")
                    };
                    prop_assert_eq!(Table::check_group(&change), Ok(()), "{}", change);
                    prop_assert_eq!(table.change_group(&change), Ok(()), "{}", change);
                }
            }
            prop_assert_eq!(part_of(&table, 7), value);
        }

        #[test]
        fn groups_come_before_flows_and_go_after_them(refused in proptest::collection::btree_set(0_usize..4, 0..3)) {
            let some = part(&[(1, 1)].into());
            let change = |key, value: Option<Part>| GroupChange {
                key, installed: value.is_none().then(|| some.clone()).flatten(), value, txn: None,
            };
            let batch = Batch {
                groups: Arc::new(vec![change(1, None), change(2, some.clone())]),
                ..Batch::default()
            };
            let left: Vec<usize> = steps(&batch, |place| refused.contains(&place))
                .into_iter()
                .map(|step| step.place(&batch))
                .collect();
            let expected: Vec<usize> = [1, 0].into_iter().filter(|place| !refused.contains(place)).collect();
            prop_assert_eq!(left, expected);
        }
    }

    #[test]
    fn a_changed_bucket_is_replaced_alone() {
        let (installed, value) =
            (part(&[(1, 1), (2, 1), (3, 1)].into()), part(&[(1, 1), (2, 2), (3, 1)].into()));
        let steps = corrections(&installed.expect("a part"), &value.expect("a part"));
        assert_eq!(steps, [GroupStep::Remove(2), GroupStep::Insert]);
    }

    #[test]
    fn where_the_order_counts_a_bucket_goes_to_its_place_and_a_change_of_the_choice_is_one_message() {
        let group = |choice, buckets: &[(u8, u8)]| chosen(choice, &buckets.iter().copied().collect());
        let old = group(1, &[(1, 1), (4, 1), (5, 1)]).expect("a part");
        let steps = |new: Option<Part>| corrections(&old, &new.expect("a part"));
        let more = [(0, 1), (1, 1), (2, 1), (4, 1), (5, 1)];
        assert_eq!(steps(group(1, &more)), [GroupStep::Place(0), GroupStep::Place(2)]);
        assert_eq!(steps(group(1, &[(1, 1), (5, 1), (6, 2)])), [GroupStep::Remove(4), GroupStep::Place(6)]);
        for choice in [0, 2, 3] {
            assert_eq!(steps(group(choice, &[(1, 1), (4, 1), (5, 1)])), [GroupStep::Modify]);
        }
    }
}

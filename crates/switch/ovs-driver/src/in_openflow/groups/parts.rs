//! The buckets that the desired state asks for, and the parts that carry them on a switch.
//!
//! A group with many buckets is split into parts, for two reasons. Open vSwitch 3.1 aborts when it describes a group of more than
//! 64 KB that is followed by another group. And it drops a packet whole if its translation looks up tables more than 4,096
//! times (`MAX_RESUBMITS` in `ofproto-dpif-xlate.c`), where each copy of a flood takes 3 to 18. And it sends no more copies once a translation has made 64 KB of actions, where each copy
//! takes up to 340 bytes, most of them for reports of ACLs. So each further part is behind
//! a *gate*: a group of type `select` without a method, for which Open vSwitch hashes the packet in the datapath and begins a new translation. All gates
//! are in one group, the *hub*, so no packet is recirculated more than once. The part of a bucket depends only on the bucket's number and the size of the
//! group, so the groups read from a switch can be compared with the desired ones.
//!
//! A group that gives a packet to one of its buckets cannot be split. Its buckets are kept in the order of their
//! numbers: fast failover tries them in this order, and of two buckets that hash alike Open vSwitch takes the later one.

use std::collections::BTreeMap;
use std::sync::Arc;

use openflow_rs::{GroupEntry, GroupKind};
use switch_model::group::encoding::{BUCKET_HEAD, encode_actions, encode_shape};
use switch_model::{Bucket, GROUP_MAX, Watched};

/// The size limit of a part, in bytes of buckets.
pub(crate) const PART_BYTES_MAX: usize = 60_000;
/// The most parts of a group: each but the first takes two numbers, and the hub one. The parts of a larger group can be too
/// large, and are refused before they are sent.
pub(crate) const PARTS_MAX: u32 = 30;
/// The most buckets of a part, besides which a translation has room for 64 copies into tunnels: 24 look-ups and 370 bytes of actions for
/// each copy.
pub(crate) const PART_BUCKETS_MAX: usize = 160;
/// The bucket that passes packets to the hub.
const HUB: u32 = 0xffff_ff00;
/// The buckets of a part, by number: the encoded actions, followed by the bucket's properties if a switch reports
/// any.
pub(crate) type Buckets = BTreeMap<u32, Arc<[u8]>>;

/// A group on a switch: a whole group of the desired state, or one part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The encoded type and properties, unless it is of type `all` and has none; then empty.
    pub(crate) shape: Vec<u8>,
    pub(crate) buckets: Arc<Buckets>,
}

impl Part {
    fn new(buckets: Buckets) -> Part {
        Part { shape: Vec::new(), buckets: Arc::new(buckets) }
    }

    /// Whether it gives a packet to one of its buckets, so that their order counts.
    pub(crate) fn is_choice(&self) -> bool {
        !self.shape.is_empty()
    }

    /// The encoded size of its buckets.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(&self.buckets)
    }
}

/// A desired group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// As [`Part::shape`].
    pub(crate) shape: Vec<u8>,
    pub(crate) buckets: Buckets,
}

impl Wanted {
    /// Its parts, by their group numbers on the switch. The first part has the number of the group.
    pub(crate) fn parts(&self, group: u32) -> BTreeMap<u32, Part> {
        if self.shape.is_empty() || self.buckets.is_empty() {
            return parts(group, &self.buckets);
        }
        [(group, Part { shape: self.shape.clone(), buckets: Arc::new(self.buckets.clone()) })].into()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape.is_empty() && self.buckets.is_empty()
    }
}

/// Splits a group of type `all` into parts.
pub(crate) fn parts(group: u32, buckets: &Buckets) -> BTreeMap<u32, Part> {
    if buckets.is_empty() {
        return BTreeMap::new();
    }
    let mut count = 1;
    loop {
        let parts = spread(buckets, count);
        let fits = |part: &Buckets| bytes_of(part) <= PART_BYTES_MAX && part.len() <= PART_BUCKETS_MAX;
        if count >= PARTS_MAX || parts.iter().all(fits) {
            return connected(group, parts);
        }
        count = (2 * count).min(PARTS_MAX);
    }
}

/// Divides buckets among so many parts.
fn spread(buckets: &Buckets, count: u32) -> Vec<Buckets> {
    let mut spread: Vec<Buckets> = vec![Buckets::new(); count as usize];
    for (bucket, actions) in buckets {
        // The high bits of the product depend on all bits of the number, so consecutive numbers spread evenly.
        let part = (u64::from(*bucket).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % u64::from(count);
        if let Some(part) = spread.get_mut(part as usize) {
            part.insert(*bucket, actions.clone());
        }
    }
    spread
}

/// The parts of a group by their group numbers, with the hub and the gates through which the first passes packets to the others.
fn connected(group: u32, mut parts: Vec<Buckets>) -> BTreeMap<u32, Part> {
    let id = |part: u32| part * (GROUP_MAX + 1) + group;
    let to = |group: u32| openflow_rs::Action::group(group).into();
    let plain = |group: u32| Arc::from(encode_actions(&to(group)).unwrap_or_default());
    let shape = encode_shape(GroupEntry::new(0, GroupKind::Select, Vec::new()));
    let mut found = BTreeMap::new();
    let mut hub = Buckets::new();
    for (part, buckets) in (1..).zip(parts.drain(1..)) {
        let (behind, gate) = (id(2 * part), id(2 * part + 1));
        // The only bucket, so its weight means nothing; but there must be one.
        let only = Bucket::candidate(0, 1, Watched::default(), &to(behind)).map(|bucket| bucket.bytes()).ok();
        let buckets_of_gate = only.into_iter().map(|bytes| (0, bytes)).collect();
        found.insert(behind, Part::new(buckets));
        found.insert(gate, Part { shape: shape.clone(), buckets: Arc::new(buckets_of_gate) });
        hub.insert(part, plain(gate));
    }
    let mut first = parts.pop().unwrap_or_default();
    if !hub.is_empty() {
        first.insert(HUB, plain(id(1)));
        found.insert(id(1), Part::new(hub));
    }
    found.insert(group, Part::new(first));
    found
}

/// The encoded size of buckets.
fn bytes_of(buckets: &Buckets) -> usize {
    buckets.values().map(|actions| BUCKET_HEAD + actions.len()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use openflow_rs::Actions;
    use proptest::prelude::*;
    use switch_model::BUCKET_MAX;
    use switch_model::group::encoding::decode;

    use super::*;

    fn actions(n: u32) -> Actions {
        format!("set_field:172.16.{}.{}->tun_dst,resubmit(,51)", n >> 8 & 0xff, n & 0xff)
            .parse()
            .expect("actions")
    }

    fn bytes(n: u32) -> Arc<[u8]> {
        Bucket::new(7, &actions(n)).expect("a bucket").bytes()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn parts_are_short_and_hold_each_bucket_once(
            ids in proptest::collection::btree_set(0..=BUCKET_MAX, 0..6000),
            group in 0..=GROUP_MAX,
        ) {
            let buckets: Buckets = ids.iter().map(|id| (*id, bytes(*id))).collect();
            let parts = parts(group, &buckets);
            prop_assert_eq!(parts.contains_key(&group), !ids.is_empty());
            // The groups that a packet comes to, each with the number of recirculations before it.
            let (mut found, mut seen) = (Buckets::new(), BTreeSet::new());
            let mut to_see: Vec<(u32, usize)> = if ids.is_empty() { Vec::new() } else { vec![(group, 0)] };
            while let Some((id, before)) = to_see.pop() {
                let part = &parts[&id];
                prop_assert!(seen.insert(id) && before <= 1 && id <= GroupEntry::ID_MAX);
                prop_assert!(bytes_of(&part.buckets) <= PART_BYTES_MAX);
                for (bucket, bytes) in part.buckets.iter() {
                    if buckets.get(bucket).is_some_and(|own| own == bytes) {
                        found.insert(*bucket, bytes.clone());
                        continue;
                    }
                    let actions = decode(bytes).expect("a bucket").actions;
                    let [openflow_rs::Action::Group(next)] = actions.0.as_slice() else {
                        panic!("{actions} goes to no group");
                    };
                    to_see.push((next.id, before + usize::from(part.is_choice())));
                }
                let own = part.buckets.keys().filter(|bucket| buckets.contains_key(bucket)).count();
                prop_assert!(part.is_choice() || ids.len() > 3000 || own <= PART_BUCKETS_MAX);
                // The bucket numbers of the most ports that a host may have spread by chance.
                prop_assert!(part.is_choice() || ids.len() > 4000 || own <= 192);
            }
            prop_assert_eq!((found, seen.len()), (buckets, parts.len()));
        }
    }

    #[test]
    fn one_bucket_more_touches_one_part() {
        let mut buckets: Buckets = (0..3000).map(|id| (id, bytes(id))).collect();
        let before = parts(9, &buckets);
        assert!(before.len() > 1);
        buckets.insert(3000, bytes(3000));
        let after = parts(9, &buckets);
        let changed = after.iter().filter(|(id, part)| before.get(*id) != Some(*part));
        assert_eq!((changed.count(), after.len()), (1, before.len()));
    }
}

//! Groups: the buckets that the desired state asks for, and the parts that carry them on a switch.
//!
//! Open vSwitch 3.1 aborts when it describes a group of more than 64 KB that is followed by another group. A large
//! group is therefore split into parts below that size, and each part also passes its packets to the next one. The
//! part of a bucket depends only on the bucket's number and the size of the group, so the groups read from a switch
//! can be compared with the desired ones.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use openflow_rs::message::VERSION;
use openflow_rs::{Action, Actions, Body, DecodeError, GroupEntry, GroupMod, Message};

use crate::flow::FlowError;
use crate::pool::Pool;

/// The greatest group number that the desired state may use. Greater numbers identify parts.
pub const GROUP_MAX: u32 = 0x3ff_ffff;
/// The greatest bucket number that the desired state may use.
pub const BUCKET_MAX: u32 = 0xffff_feff;

/// The size limit of a part, in bytes of buckets.
pub(crate) const PART_BYTES_MAX: usize = 60_000;
/// The most parts of a group. A packet exceeds the number of copies that a switch makes long before.
const PARTS_MAX: u32 = 32;
/// The bucket that passes packets to the next part.
const NEXT: u32 = 0xffff_ff00;
/// The bytes of a bucket before its actions.
pub(crate) const BUCKET_HEAD: usize = 8;
/// The offset of the first bucket's actions in a message that adds a group.
const ACTIONS_AT: usize = 32;
/// `OFPT_GROUP_MOD`.
const GROUP_MOD: u8 = 15;

/// A bucket of a group that sends its packets to all buckets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    rule: u64,
    actions: Arc<[u8]>,
}

impl Bucket {
    /// Encodes a bucket. `rule` is the owner's own number for it and is not sent to the switch.
    ///
    /// # Errors
    /// The actions are too long, or include an instruction.
    pub fn new(rule: u64, actions: &Actions) -> Result<Bucket, FlowError> {
        let bytes = encode(actions).filter(|bytes| bytes.len() <= crate::ENCODED_BYTES_MAX);
        let bytes = bytes.ok_or(FlowError::LongBucket)?;
        match decode(&bytes) {
            Ok(same) if same == *actions => Ok(Bucket { rule, actions: Arc::from(bytes) }),
            _ => Err(FlowError::NoBucket { actions: actions.to_string() }),
        }
    }

    /// The same actions with another rule number.
    pub fn with_rule(&self, rule: u64) -> Self {
        Bucket { rule, actions: Arc::clone(&self.actions) }
    }

    /// Replaces the encoded actions by equal ones from the pool.
    pub fn share(&mut self, pool: &mut Pool) {
        pool.share(&mut self.actions);
    }

    /// The owner's number for the bucket.
    pub fn rule(&self) -> u64 {
        self.rule
    }

    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        self.actions.clone()
    }

    /// The actions.
    pub fn actions(&self) -> Result<Actions, DecodeError> {
        decode(&self.actions)
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.actions() {
            Ok(actions) => write!(f, "rule={:#x}, actions={actions}", self.rule),
            Err(error) => write!(f, "rule={:#x}, unreadable here: {error}", self.rule),
        }
    }
}

/// The buckets of a part, by number: the encoded actions, followed by the bucket's properties if a switch reports
/// any.
pub(crate) type Buckets = BTreeMap<u32, Arc<[u8]>>;

/// A group on a switch: a whole group of the desired state, or one part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The encoded type and properties, if they differ from those of our groups; otherwise empty.
    pub(crate) shape: Vec<u8>,
    pub(crate) buckets: Arc<Buckets>,
}

impl Part {
    fn new(buckets: Buckets) -> Part {
        Part { shape: Vec::new(), buckets: Arc::new(buckets) }
    }

    /// The encoded size of its buckets.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.values().map(|actions| BUCKET_HEAD + actions.len()).sum()
    }

    /// The group that it passes packets to, if there is one.
    #[cfg(test)]
    fn next(&self) -> Option<u32> {
        let actions = decode(self.buckets.get(&NEXT)?).ok()?;
        match actions.0.as_slice() {
            [Action::Group(group)] => Some(group.id),
            _ => None,
        }
    }
}

/// Splits a group into parts, by their group numbers on the switch. The first part has the number of the group.
pub(crate) fn parts(group: u32, buckets: &Buckets) -> BTreeMap<u32, Part> {
    if buckets.is_empty() {
        return BTreeMap::new();
    }
    let mut count = 1;
    loop {
        let parts = spread(group, buckets, count);
        if count >= PARTS_MAX || parts.values().all(|part| part.bytes() <= PART_BYTES_MAX) {
            return parts;
        }
        count *= 2;
    }
}

fn spread(group: u32, buckets: &Buckets, count: u32) -> BTreeMap<u32, Part> {
    let id = |part: u32| part * (GROUP_MAX + 1) + group;
    let mut spread: Vec<Buckets> = vec![Buckets::new(); count as usize];
    for (bucket, actions) in buckets {
        // The high bits of the product depend on all bits of the number, so consecutive numbers spread evenly.
        let part = (u64::from(*bucket).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % u64::from(count);
        if let Some(part) = spread.get_mut(part as usize) {
            part.insert(*bucket, actions.clone());
        }
    }
    for (buckets, next) in spread.iter_mut().zip(1..count) {
        let actions = encode(&Action::group(id(next)).into()).unwrap_or_default();
        buckets.insert(NEXT, Arc::from(actions));
    }
    (0..count).zip(spread).map(|(part, buckets)| (id(part), Part::new(buckets))).collect()
}

/// The canonical form of actions that a switch reported, or the same bytes if they cannot be decoded.
pub(crate) fn actions_from_switch(bytes: &[u8]) -> Vec<u8> {
    decode(bytes).ok().and_then(|actions| encode(&actions)).unwrap_or_else(|| bytes.to_vec())
}

/// Whether encoded instructions send packets to a group that satisfies `which`.
pub(crate) fn uses(instructions: &[u8], which: impl Fn(u32) -> bool) -> bool {
    // Actions begin at multiples of eight bytes. Other bytes may look like one, which costs one redundant flow-mod at
    // most.
    let id = |bytes: &[u8]| match bytes {
        [0, 22, 0, 8, a, b, c, d] => Some(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => None,
    };
    instructions.chunks_exact(8).filter_map(id).any(which)
}

/// Encodes actions. `None` if they do not fit into a message.
fn encode(actions: &Actions) -> Option<Vec<u8>> {
    let bucket = openflow_rs::Bucket::new(0, actions.clone());
    let group = Body::GroupMod(GroupMod::add(GroupEntry::all(0, vec![bucket])));
    let mut bytes = Message { xid: 0, body: group }.encode().ok()?;
    bytes.drain(..ACTIONS_AT);
    Some(bytes)
}

/// The inverse of [`encode`].
fn decode(actions: &[u8]) -> Result<Actions, DecodeError> {
    let mut head = [0; ACTIONS_AT];
    let length = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes();
    (head[0], head[1]) = (VERSION, GROUP_MOD);
    head[2..4].copy_from_slice(&length(ACTIONS_AT + actions.len()));
    head[16..18].copy_from_slice(&length(BUCKET_HEAD + actions.len()));
    head[24..26].copy_from_slice(&length(BUCKET_HEAD + actions.len()));
    head[26..28].copy_from_slice(&length(actions.len()));
    let buckets = match Message::decode(&[&head, actions].concat())?.body {
        Body::GroupMod(change) => change.group.buckets,
        // Unreachable: the type byte above makes it a group-mod.
        _ => Vec::new(),
    };
    Ok(buckets.into_iter().next().map(|bucket| bucket.actions).unwrap_or_default())
}

/// Writes a group in the notation of `ovs-ofctl`, as far as it can be decoded.
pub(crate) fn show(f: &mut fmt::Formatter<'_>, id: u32, part: Option<&Part>) -> fmt::Result {
    /// Enough buckets to recognise the group.
    const SHOWN_MAX: usize = 4;
    write!(f, "group_id={id}")?;
    let Some(part) = part else { return f.write_str(",deleted") };
    f.write_str(",type=all")?;
    for (bucket, actions) in part.buckets.iter().take(SHOWN_MAX) {
        write!(f, ",bucket=bucket_id:{bucket},actions=")?;
        match decode(actions) {
            Ok(actions) => write!(f, "{actions}")?,
            Err(error) => write!(f, "unreadable here: {error}")?,
        }
    }
    match part.buckets.len().saturating_sub(SHOWN_MAX) {
        0 => Ok(()),
        more => write!(f, " (and {more} more buckets)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn actions(n: u32) -> Actions {
        format!("set_field:172.16.{}.{}->tun_dst,resubmit(,51)", n >> 8 & 0xff, n & 0xff)
            .parse()
            .expect("actions")
    }

    fn bytes(n: u32) -> Arc<[u8]> {
        Bucket::new(7, &actions(n)).expect("a bucket").actions
    }

    #[test]
    fn what_was_put_in_comes_out_and_instructions_are_refused() {
        let bucket = Bucket::new(7, &actions(5)).expect("a bucket");
        assert_eq!((bucket.rule(), bucket.actions()), (7, Ok(actions(5))));
        for text in ["resubmit(,1),goto_table:7", "write_metadata:0x5"] {
            let error = Bucket::new(0, &text.parse().expect("actions")).expect_err("no bucket");
            assert_eq!(
                error.to_string(),
                format!("a bucket cannot contain {text}: it takes actions only, no instructions")
            );
        }
        let long: Actions = vec!["output:1"; 5_000].join(",").parse().expect("actions");
        assert!(Bucket::new(0, &long).is_err());
    }

    #[test]
    fn flows_that_use_a_group_are_found() {
        let instructions = |text: &str| {
            crate::Flow::new(0, &text.parse().expect("actions")).expect("short").instructions().to_vec()
        };
        assert!(uses(&instructions("set_field:5->reg1,group:7"), |id| id == 7));
        assert!(!uses(&instructions("set_field:5->reg1,group:7"), |id| id == 6));
        assert!(!uses(&instructions("output:7"), |_| true));
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
            let (mut found, mut seen, mut next) = (Buckets::new(), 0, Some(group).filter(|_| !ids.is_empty()));
            while let Some(id) = next {
                let part = &parts[&id];
                prop_assert!(part.bytes() <= PART_BYTES_MAX);
                prop_assert!(id <= GroupEntry::ID_MAX);
                found.extend(part.buckets.iter().filter(|(id, _)| **id != NEXT).map(|(id, a)| (*id, a.clone())));
                next = part.next();
                seen += 1;
            }
            prop_assert_eq!((found, seen), (buckets, parts.len()));
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

//! Groups (OpenFlow 1.5, sections 7.3.4.3 and 7.3.5.10). Those of the desired state are divided into [`parts`], which are the groups of a
//! switch.
//!
//! In a bundle, groups come before flows and go after them: a switch refuses a flow whose group does not exist, and deletes the flows of
//! a deleted group.

mod parts;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use openflow_rs::message::GroupDescRequest;
use openflow_rs::{Body, GroupEntry, GroupKind};
use switch_model::group::encoding::{
    BUCKET_HEAD, actions_from_switch, decode, decode_shape, parts_of_bucket, shape_from_switch,
};
use switch_model::{Changes, Desired, Flow};

use super::{Batch, ChangeOf, Dump, InOpenFlow, Things, When};
use crate::wire::{self, BadDesc, HEADER_LEN, TooLong, kind};
use parts::{Buckets, PART_BYTES_MAX, PARTS_MAX};
pub(crate) use parts::{Part, Wanted};

// `OFPGC_*`.
const ADD: u16 = 0;
const MODIFY: u16 = 1;
const DELETE: u16 = 2;
const INSERT_BUCKET: u16 = 3;
const REMOVE_BUCKET: u16 = 5;
/// `OFPGT_ALL`, and padding.
const ALL: [u8; 2] = [0, 0];
/// `OFPG_BUCKET_ALL`: no bucket in particular.
const NO_BUCKET: u32 = 0xffff_ffff;
/// `OFPG_BUCKET_FIRST`: before all existing buckets.
const FIRST: u32 = 0xffff_fffd;
/// `OFPG_BUCKET_LAST`: after all existing buckets.
const LAST: u32 = 0xffff_fffe;
/// `OFPMP_GROUP_DESC`.
const GROUP_DESC: u16 = 7;

/// So many buckets are shown of a group, enough to recognise it.
const SHOWN_MAX: usize = 4;

/// The groups of a switch, by number.
#[derive(Debug)]
pub(crate) enum Groups {}

/// A change of a group of a switch.
type GroupChange = ChangeOf<Groups>;

/// The operation of a group-mod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupAct {
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

impl InOpenFlow for Groups {
    type Key = u32;
    type Value = Part;
    /// The desired groups, before they are divided.
    type Source = BTreeMap<u32, Wanted>;
    type Act = GroupAct;

    const ALONE: &'static str = "group-mods";
    /// A host has a few for each switch.
    const DUMP: Dump = Dump { request: "the group dump", what: "groups", max: 1_000_000 };
    const IS_STEPWISE: bool = true;
    const IS_USED: bool = true;
    const CONTRADICTIONS: &'static [&'static str] = &[
        "OFPGMFC_GROUP_EXISTS",
        "OFPGMFC_UNKNOWN_GROUP",
        "OFPGMFC_UNKNOWN_BUCKET",
        "OFPGMFC_BUCKET_EXISTS",
        "OFPBAC_BAD_OUT_GROUP",
    ];

    fn set<'d>(wanted: &mut BTreeMap<u32, Wanted>, desired: &'d Desired) -> Cow<'d, Things<Self>> {
        wanted.clear();
        for (group, choice) in &desired.choices {
            wanted.entry(*group).or_default().shape = choice.shape();
        }
        for ((group, bucket), what) in desired.buckets.iter().chain(&desired.candidates) {
            wanted.entry(*group).or_default().buckets.insert(*bucket, what.bytes());
        }
        Cow::Owned(wanted.iter().flat_map(|(group, wanted)| wanted.parts(*group)).collect())
    }

    fn push(wanted: &mut BTreeMap<u32, Wanted>, changes: &Changes, mut push: impl FnMut(u32, Option<Part>)) {
        let touched = changes.touched_groups();
        let before: Vec<Things<Self>> = touched.iter().map(|group| parts_of(wanted, *group)).collect();
        for group in &changes.choices.delete {
            if let Some(wanted) = wanted.get_mut(group) {
                wanted.shape.clear();
            }
        }
        for (group, bucket) in changes.buckets.delete.iter().chain(&changes.candidates.delete) {
            if let Some(wanted) = wanted.get_mut(group) {
                wanted.buckets.remove(bucket);
            }
        }
        for (group, choice) in &changes.choices.add {
            wanted.entry(*group).or_default().shape = choice.shape();
        }
        for ((group, bucket), what) in changes.buckets.add.iter().chain(&changes.candidates.add) {
            wanted.entry(*group).or_default().buckets.insert(*bucket, what.bytes());
        }
        for (group, before) in touched.into_iter().zip(before) {
            if wanted.get(&group).is_some_and(Wanted::is_empty) {
                wanted.remove(&group);
            }
            let mut after = parts_of(wanted, group);
            let ids: BTreeSet<u32> = before.keys().chain(after.keys()).copied().collect();
            for id in ids {
                let part = after.remove(&id);
                if part.as_ref() != before.get(&id) {
                    push(id, part);
                }
            }
        }
    }

    fn weight(wanted: &BTreeMap<u32, Wanted>, _: &Things<Self>) -> usize {
        wanted.values().map(|wanted| wanted.buckets.len()).sum()
    }

    fn is_used(flow: &Flow, which: impl Fn(&u32) -> bool) -> bool {
        flow.uses_group(|group| which(&group))
    }

    /// A switch can describe no larger groups, though each message about them may fit.
    fn fault(change: &GroupChange) -> Option<String> {
        let bytes = change.value.as_ref()?.bytes();
        (bytes > PART_BYTES_MAX).then(|| {
            format!(
                "its buckets take {bytes} bytes, and a group on a switch has room for {PART_BYTES_MAX} (a flood group for \
                 {PARTS_MAX} times as many): give it fewer members, such as ports of a switch or next hops of a route"
            )
        })
    }

    fn acts(_: &Batch, change: &GroupChange, when: When) -> impl Iterator<Item = GroupAct> {
        let acts = match (&change.installed, &change.value, when) {
            (None, Some(_), When::Early) => vec![GroupAct::Add],
            (Some(installed), Some(value), When::Early) => corrections(installed, value),
            (_, None, When::Late) => vec![GroupAct::Delete],
            _ => Vec::new(),
        };
        acts.into_iter()
    }

    fn put(out: &mut BytesMut, xid: u32, change: &GroupChange, act: GroupAct) -> Result<(), TooLong> {
        let (command, bucket) = match act {
            GroupAct::Add => (ADD, NO_BUCKET),
            GroupAct::Modify => (MODIFY, NO_BUCKET),
            GroupAct::Delete => (DELETE, NO_BUCKET),
            GroupAct::Insert => (INSERT_BUCKET, LAST),
            GroupAct::Remove(bucket) => (REMOVE_BUCKET, bucket),
            GroupAct::Place(bucket) => (INSERT_BUCKET, before(change, bucket)),
        };
        let buckets = told(change, act);
        let length: usize = buckets.iter().map(|(_, bytes)| BUCKET_HEAD + bytes.len()).sum();
        // A switch reads and checks buckets as those of the type in the message. Only these commands take properties.
        let shape = change.value.as_ref().map_or(&[][..], |value| &value.shape);
        let (group_kind, properties) = shape.split_first_chunk().unwrap_or((&ALL, &[]));
        let properties = if matches!(act, GroupAct::Add | GroupAct::Modify) { properties } else { &[] };
        // What does not fit makes the message too long, so that nothing of it is sent.
        let short = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
        wire::put_message(out, kind::GROUP_MOD, xid, |out| {
            out.extend_from_slice(&command.to_be_bytes());
            out.extend_from_slice(group_kind);
            out.extend_from_slice(&change.key.to_be_bytes());
            out.extend_from_slice(&short(length));
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&bucket.to_be_bytes());
            for (id, bytes) in buckets {
                let (actions, _) = parts_of_bucket(bytes);
                out.extend_from_slice(&short(BUCKET_HEAD + bytes.len()));
                out.extend_from_slice(&short(actions.len()));
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(bytes);
            }
            out.extend_from_slice(properties);
            Ok(())
        })
    }

    fn request() -> Body {
        Body::GroupDescRequest(GroupDescRequest { group: GroupEntry::ALL })
    }

    fn read(message: &[u8], mut take: impl FnMut(u32, Part)) -> Result<Option<bool>, BadDesc> {
        let body = message.get(HEADER_LEN..).unwrap_or_default();
        wire::descriptions(body, GROUP_DESC, |entry| group_desc(entry).map(|(id, part)| take(id, part)))
    }

    /// Writes a group in the notation of `ovs-ofctl`, as far as it can be decoded.
    fn show(f: &mut fmt::Formatter<'_>, id: &u32, part: Option<&Part>) -> fmt::Result {
        let id = *id;
        let Some(part) = part else { return write!(f, "group_id={id},deleted") };
        let buckets = part.buckets.iter().take(SHOWN_MAX);
        let buckets =
            buckets.map(|(number, bytes)| Ok(openflow_rs::Bucket { id: *number, ..decode(bytes)? }));
        let group = decode_shape(&part.shape)
            .and_then(|group| Ok(GroupEntry { id, buckets: buckets.collect::<Result<_, _>>()?, ..group }));
        match group {
            Ok(group) => write!(f, "{group}")?,
            Err(error) => write!(f, "group_id={id},unreadable here: {error}")?,
        }
        match part.buckets.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, " (and {more} more buckets)"),
        }
    }
}

fn parts_of(wanted: &BTreeMap<u32, Wanted>, group: u32) -> Things<Groups> {
    wanted.get(&group).map(|wanted| wanted.parts(group)).unwrap_or_default()
}

/// The bucket before this one in the order of their numbers. Steps insert buckets in this order, so it is there.
fn before(change: &GroupChange, bucket: u32) -> u32 {
    let buckets = change.value.as_ref().map(|value| &value.buckets);
    buckets.and_then(|buckets| buckets.range(..bucket).next_back()).map_or(FIRST, |(id, _)| *id)
}

fn group_desc(entry: &[u8]) -> Option<(u32, Part)> {
    const FIXED: usize = 16;
    let id = u32::from_be_bytes(entry.get(4..8)?.try_into().ok()?);
    let length = usize::from(wire::u16_at(entry, 8)?);
    let (mut rest, properties) = entry.get(FIXED..)?.split_at_checked(length)?;
    let (mut buckets, mut is_in_order) = (Buckets::new(), true);
    while !rest.is_empty() {
        let (bucket, after) = rest.split_at_checked(usize::from(wire::u16_at(rest, 0)?))?;
        let number = u32::from_be_bytes(bucket.get(4..BUCKET_HEAD)?.try_into().ok()?);
        let actions = usize::from(wire::u16_at(bucket, 2)?);
        let (actions, more) = bucket.get(BUCKET_HEAD..)?.split_at_checked(actions)?;
        let mut bytes = actions_from_switch(actions);
        bytes.extend_from_slice(more);
        is_in_order &= buckets.last_key_value().is_none_or(|(last, _)| *last < number);
        buckets.insert(number, Arc::from(bytes));
        rest = after;
    }
    let mut shape = Vec::new();
    let kind = *entry.get(2)?;
    if kind != GroupKind::All as u8 || !properties.is_empty() {
        shape = shape_from_switch(kind, properties, is_in_order);
    }
    Some((id, Part { shape, buckets: Arc::new(buckets) }))
}

/// Changes a group bucket by bucket, unless most of its buckets change. Where their order counts, each goes to its place.
fn corrections(installed: &Part, value: &Part) -> Vec<GroupAct> {
    let stays = |id: &u32, actions: &Arc<[u8]>| value.buckets.get(id) == Some(actions);
    let gone: Vec<u32> =
        installed.buckets.iter().filter(|(id, actions)| !stays(id, actions)).map(|(id, _)| *id).collect();
    if installed.shape != value.shape || gone.len() > value.buckets.len() / 2 {
        return vec![GroupAct::Modify];
    }
    let mut acts: Vec<GroupAct> = gone.into_iter().map(GroupAct::Remove).collect();
    if value.is_choice() {
        let new = value.buckets.iter().filter(|(id, bytes)| installed.buckets.get(id) != Some(bytes));
        acts.extend(new.map(|(id, _)| GroupAct::Place(*id)));
    } else if value.buckets.iter().any(|(id, actions)| installed.buckets.get(id) != Some(actions)) {
        acts.push(GroupAct::Insert);
    }
    acts
}

/// The buckets that a message carries.
pub(crate) fn told(change: &GroupChange, act: GroupAct) -> Vec<(u32, &[u8])> {
    let Some(value) = &change.value else { return Vec::new() };
    if let GroupAct::Place(id) = act {
        return value.buckets.get_key_value(&id).map(|(id, bytes)| (*id, &**bytes)).into_iter().collect();
    }
    let installed = change.installed.as_ref().filter(|_| act == GroupAct::Insert);
    let there = |id: &u32| installed.and_then(|part| part.buckets.get(id));
    let tells = matches!(act, GroupAct::Add | GroupAct::Modify | GroupAct::Insert);
    let buckets = value.buckets.iter().filter(|(id, actions)| tells && there(id) != Some(*actions));
    buckets.map(|(id, actions)| (*id, &**actions)).collect()
}

/// A group of the fake switch in the driver's form.
#[cfg(test)]
pub(crate) fn part_of(table: &fake_switch::openflow::Table, id: u32) -> Option<Part> {
    use openflow_rs::Message;
    use openflow_rs::message::GroupDescReply;

    let groups = vec![table.groups.get(&id)?.clone()];
    let reply = GroupDescReply { more: false, groups, unreadable: Vec::new() };
    let bytes = Message { xid: 1, body: Body::GroupDescReply(reply) }.encode().expect("short");
    let mut read = None;
    Groups::read(&bytes, |_, part| read = Some(part)).ok()?;
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use crate::in_openflow::{Act, Step};
    use fake_switch::openflow::Table;
    use openflow_rs::message::GroupDescReply;
    use openflow_rs::{Field, Message, PortNo};
    use proptest::prelude::*;

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
                for step in batch.bundled(&|_| false) {
                    let Step { place: 0, act: Act::Groups(_) } = step else { panic!("{step:?}") };
                    let mut bytes = BytesMut::new();
                    batch.put(&mut bytes, 3, step).expect("short");
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
            let left: Vec<usize> =
                batch.bundled(&|place| refused.contains(&place)).into_iter().map(|step| step.place).collect();
            let expected: Vec<usize> = [1, 0].into_iter().filter(|place| !refused.contains(place)).collect();
            prop_assert_eq!(left, expected);
        }
    }

    #[test]
    fn a_changed_bucket_is_replaced_alone() {
        let (installed, value) =
            (part(&[(1, 1), (2, 1), (3, 1)].into()), part(&[(1, 1), (2, 2), (3, 1)].into()));
        let steps = corrections(&installed.expect("a part"), &value.expect("a part"));
        assert_eq!(steps, [GroupAct::Remove(2), GroupAct::Insert]);
    }

    #[test]
    fn where_the_order_counts_a_bucket_goes_to_its_place_and_a_change_of_the_choice_is_one_message() {
        let group = |choice, buckets: &[(u8, u8)]| chosen(choice, &buckets.iter().copied().collect());
        let old = group(1, &[(1, 1), (4, 1), (5, 1)]).expect("a part");
        let steps = |new: Option<Part>| corrections(&old, &new.expect("a part"));
        let more = [(0, 1), (1, 1), (2, 1), (4, 1), (5, 1)];
        assert_eq!(steps(group(1, &more)), [GroupAct::Place(0), GroupAct::Place(2)]);
        assert_eq!(steps(group(1, &[(1, 1), (5, 1), (6, 2)])), [GroupAct::Remove(4), GroupAct::Place(6)]);
        for choice in [0, 2, 3] {
            assert_eq!(steps(group(choice, &[(1, 1), (4, 1), (5, 1)])), [GroupAct::Modify]);
        }
    }

    #[test]
    fn descriptions_are_read_and_foreign_shapes_make_a_difference() {
        let groups = [
            "group_id=7,type=all,bucket=bucket_id:1,actions=set_field:0x5->reg1,resubmit(,40)",
            "group_id=8,type=indirect,bucket=bucket_id:1,actions=set_field:0x5->reg1,resubmit(,40)",
            "group_id=9,type=all",
            "group_id=10,type=select,selection_method=hash,fields(ip_src,ip_dst),bucket=bucket_id:1,weight:2,watch_port:3,actions=output:3",
            "group_id=11,type=ff,bucket=bucket_id:2,watch_port:3,actions=output:3,bucket=bucket_id:1,watch_port:4,actions=output:4",
        ]
        .map(|text| text.parse::<GroupEntry>().expect("a group"));
        let reply = GroupDescReply { more: true, groups: groups.to_vec(), unreadable: Vec::new() };
        let bytes = Message { xid: 1, body: Body::GroupDescReply(reply) }.encode().expect("short");
        let mut read = BTreeMap::new();
        let take = |id, part| drop(read.insert(id, part));
        assert_eq!(Groups::read(&bytes, take), Ok(Some(true)));
        let actions = "set_field:0x5->reg1,resubmit(,40)".parse().expect("actions");
        let ours: Buckets = [(1, crate::Bucket::new(0, &actions).expect("a bucket").bytes())].into();
        assert_eq!(read.get(&7), parts::parts(7, &ours).get(&7));
        assert_ne!(read.get(&8), read.get(&7));
        assert_eq!(read.get(&9).map(|part| part.buckets.len()), Some(0));
        let (three, four) = ("output:3".parse().expect("actions"), "output:4".parse().expect("actions"));
        let candidate = |weight, port, actions| {
            crate::Bucket::candidate(0, weight, crate::Watched::port(PortNo(port)), actions)
                .expect("a bucket")
                .bytes()
        };
        let select = Choice::Select(vec![Field::IpDst, Field::IpSrc]);
        let wanted = |choice: Choice, buckets| Wanted { shape: choice.shape(), buckets };
        let selecting = wanted(select, [(1, candidate(2, 3, &three))].into());
        assert_eq!(read.get(&10), selecting.parts(10).get(&10));
        let failover =
            wanted(Choice::FastFailover, [(1, candidate(0, 4, &four)), (2, candidate(0, 3, &three))].into());
        let (failover, reversed) = (failover.parts(11).remove(&11).expect("a part"), &read[&11]);
        assert_eq!(reversed.buckets, failover.buckets);
        assert_ne!(reversed.shape, failover.shape, "the order of its buckets is another one");
        let shown = |part: &Part| std::fmt::from_fn(|f| Groups::show(f, &11, Some(part))).to_string();
        assert_eq!(shown(reversed), shown(&failover));
        assert_eq!(
            shown(&failover),
            "group_id=11,type=ff,bucket=bucket_id:1,watch_port:4,actions=output:4,\
             bucket=bucket_id:2,watch_port:3,actions=output:3"
        );
        for length in wire::HEADER_LEN + 9..wire::HEADER_LEN + 40 {
            assert!(Groups::read(&bytes[..length], |_, _| {}).is_err(), "cut at {length}");
        }
    }
}

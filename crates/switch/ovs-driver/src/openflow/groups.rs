//! The encoding of groups (OpenFlow 1.5, sections 7.3.4.3 and 7.3.5.10), and the mapping of the tunnel option.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use openflow_rs::message::{TlvCommand, TlvMapping, TlvTableMod, TlvTableReply};
use openflow_rs::{Body, Message};

use super::RefusedChange;
use super::steps::{GroupStep, told};
use super::wire::{self, BadDesc, TooLong, kind};
use crate::forwarding::{Batch, GroupChange};
use crate::group::{self, BUCKET_HEAD, Buckets, PART_BYTES_MAX, PARTS_MAX, Part};
use openflow_rs::GroupKind;

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

/// Appends a group-mod.
pub(crate) fn put_group_mod(
    out: &mut BytesMut,
    xid: u32,
    change: &GroupChange,
    step: GroupStep,
) -> Result<(), TooLong> {
    let (command, bucket) = match step {
        GroupStep::Add => (ADD, NO_BUCKET),
        GroupStep::Modify => (MODIFY, NO_BUCKET),
        GroupStep::Delete => (DELETE, NO_BUCKET),
        GroupStep::Insert => (INSERT_BUCKET, LAST),
        GroupStep::Remove(bucket) => (REMOVE_BUCKET, bucket),
        GroupStep::Place(bucket) => (INSERT_BUCKET, before(change, bucket)),
    };
    let buckets = told(change, step);
    let length: usize = buckets.iter().map(|(_, bytes)| BUCKET_HEAD + bytes.len()).sum();
    // A switch reads and checks buckets as those of the type in the message. Only these commands take properties.
    let shape = change.value.as_ref().map_or(&[][..], |value| &value.shape);
    let (group_kind, properties) = shape.split_first_chunk().unwrap_or((&ALL, &[]));
    let properties = if matches!(step, GroupStep::Add | GroupStep::Modify) { properties } else { &[] };
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
            let (actions, _) = group::parts_of_bucket(bytes);
            out.extend_from_slice(&short(BUCKET_HEAD + bytes.len()));
            out.extend_from_slice(&short(actions.len()));
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(properties);
        Ok(())
    })
}

/// The groups of a batch that are larger than a switch can describe, though each message about them may fit.
pub(crate) fn too_large(batch: &Batch) -> impl Iterator<Item = RefusedChange> {
    batch.groups.iter().enumerate().filter_map(|(place, change)| {
        let bytes = change.value.as_ref()?.bytes();
        let reason = || {
            format!(
                "its buckets take {bytes} bytes, and a group on a switch has room for {PART_BYTES_MAX} (a flood group for \
                 {PARTS_MAX} times as many): give it fewer members, such as ports of a switch or next hops of a route"
            )
        };
        (bytes > PART_BYTES_MAX).then(|| RefusedChange { place, reason: reason() })
    })
}

/// The bucket before this one in the order of their numbers. Steps insert buckets in this order, so it is there.
fn before(change: &GroupChange, bucket: u32) -> u32 {
    let buckets = change.value.as_ref().map(|value| &value.buckets);
    buckets.and_then(|buckets| buckets.range(..bucket).next_back()).map_or(FIRST, |(id, _)| *id)
}

/// Reads one part of the reply to a group description request from the message's body, and passes every group to
/// `take`. Returns whether more parts follow; `None` if the message replies to another request.
pub(crate) fn group_descs(body: &[u8], mut take: impl FnMut(u32, Part)) -> Result<Option<bool>, BadDesc> {
    wire::descriptions(body, GROUP_DESC, |entry| group_desc(entry).map(|(id, part)| take(id, part)))
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
        let mut bytes = group::actions_from_switch(actions);
        bytes.extend_from_slice(more);
        is_in_order &= buckets.last_key_value().is_none_or(|(last, _)| *last < number);
        buckets.insert(number, Arc::from(bytes));
        rest = after;
    }
    let mut shape = Vec::new();
    let kind = *entry.get(2)?;
    if kind != GroupKind::All as u8 || !properties.is_empty() {
        shape = group::shape_from_switch(kind, properties, is_in_order);
    }
    Some((id, Part { shape, buckets: Arc::new(buckets) }))
}

/// The message that adds the option to the mappings of a switch, if it is missing. Fails if another mapping is in the
/// way.
pub(crate) fn option_change(option: TlvMapping, reply: &TlvTableReply) -> Result<Option<Body>, String> {
    let same = |mapping: &TlvMapping| (mapping.class, mapping.kind) == (option.class, option.kind);
    match reply.mappings.iter().find(|mapping| mapping.field == option.field || same(mapping)) {
        None => Ok(Some(Body::TlvTableMod(TlvTableMod { command: TlvCommand::Add, mappings: vec![option] }))),
        Some(mapping) if *mapping == option => Ok(None),
        Some(TlvMapping { class, kind, len, field }) => Err(format!(
            "the switch has class={class:#x},type={kind:#x},len={len} as tun_metadata{field}; remove that mapping with \
             ovs-ofctl del-tlv-map and reconnect the switch"
        )),
    }
}

/// The name of the option in errors.
pub(crate) fn option_name(option: TlvMapping) -> String {
    let TlvMapping { class, kind, len, field } = option;
    format!("geneve option class={class:#x},type={kind:#x},len={len} as tun_metadata{field}")
}

/// Decodes a TLV table reply.
pub(crate) fn option_reply(bytes: &[u8]) -> Option<TlvTableReply> {
    match Message::decode(bytes).ok()?.body {
        Body::TlvTableReply(reply) => Some(reply),
        _ => None,
    }
}

/// Groups by number.
pub(crate) type Groups = BTreeMap<u32, Part>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use crate::group::Wanted;
    use openflow_rs::message::GroupDescReply;
    use openflow_rs::{Field, GroupEntry, PortNo};

    const OPTION: TlvMapping = TlvMapping { class: 0x102, kind: 0x80, len: 4, field: 0 };

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
        let mut read = Groups::new();
        let take = |id, part| drop(read.insert(id, part));
        assert_eq!(group_descs(&bytes[wire::HEADER_LEN..], take), Ok(Some(true)));
        let actions = "set_field:0x5->reg1,resubmit(,40)".parse().expect("actions");
        let ours: Buckets = [(1, crate::Bucket::new(0, &actions).expect("a bucket").bytes())].into();
        assert_eq!(read.get(&7), group::parts(7, &ours).get(&7));
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
        let shown = |part: &Part| std::fmt::from_fn(|f| group::show(f, 11, Some(part))).to_string();
        assert_eq!(shown(reversed), shown(&failover));
        assert_eq!(
            shown(&failover),
            "group_id=11,type=ff,bucket=bucket_id:1,watch_port:4,actions=output:4,\
             bucket=bucket_id:2,watch_port:3,actions=output:3"
        );
        for length in wire::HEADER_LEN + 9..wire::HEADER_LEN + 40 {
            assert!(group_descs(&bytes[wire::HEADER_LEN..length], |_, _| {}).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn the_option_is_mapped_once_and_never_over_that_of_others() {
        let reply = |mappings| TlvTableReply { max_space: 256, max_fields: 64, mappings };
        assert!(matches!(option_change(OPTION, &reply(vec![])), Ok(Some(_))));
        assert_eq!(option_change(OPTION, &reply(vec![OPTION])), Ok(None));
        assert!(matches!(
            option_change(OPTION, &reply(vec![TlvMapping { field: 5, class: 7, ..OPTION }])),
            Ok(Some(_))
        ));
        for other in [
            TlvMapping { class: 7, ..OPTION },
            TlvMapping { field: 5, ..OPTION },
            TlvMapping { len: 8, ..OPTION },
        ] {
            let why = option_change(OPTION, &reply(vec![other])).expect_err("taken");
            assert!(why.contains("del-tlv-map"), "{why}");
        }
    }
}

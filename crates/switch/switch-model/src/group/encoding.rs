//! The bytes of buckets and of types of groups (OpenFlow 1.5, section 7.3.4.3).

use openflow_rs::message::VERSION;
use openflow_rs::{Actions, Body, Bucket, DecodeError, GroupEntry, GroupKind, GroupMod, Message};

/// The bytes of a bucket before its actions.
pub const BUCKET_HEAD: usize = 8;
/// The offset of the type in a message that changes a group.
const KIND_AT: usize = 10;
/// The offset of the first bucket, or of the properties if there are none.
const BUCKETS_AT: usize = 24;
/// The offset of the first bucket's actions.
const ACTIONS_AT: usize = BUCKETS_AT + BUCKET_HEAD;
/// `OFPT_GROUP_MOD`.
const GROUP_MOD: u8 = 15;
/// `OFPGBPT_WATCH_GROUP`, the last type of a property of a bucket.
const LAST_PROPERTY: u16 = 2;
/// The bytes of such a property.
const PROPERTY_LEN: usize = 8;

/// Encodes a bucket without its head: actions, then properties. `None` if they do not fit into a message.
pub fn encode(bucket: Bucket) -> Option<Vec<u8>> {
    // Only in this type, a bucket has its weight with it.
    let kind = if bucket.weight == 0 { GroupKind::FastFailover } else { GroupKind::Select };
    let group = Body::GroupMod(GroupMod::add(GroupEntry::new(0, kind, vec![bucket])));
    let mut bytes = Message { xid: 0, body: group }.encode().ok()?;
    bytes.drain(..ACTIONS_AT);
    Some(bytes)
}

/// Encodes the actions of a bucket without properties.
pub fn encode_actions(actions: &Actions) -> Option<Vec<u8>> {
    encode(Bucket::new(0, actions.clone()))
}

/// The inverse of [`encode`].
pub fn decode(bytes: &[u8]) -> Result<Bucket, DecodeError> {
    let (actions, properties) = parts_of_bucket(bytes);
    let has_weight = properties.first_chunk() == Some(&[0, 0]);
    let kind = if has_weight { GroupKind::Select } else { GroupKind::FastFailover };
    let mut head = [0; ACTIONS_AT];
    let length = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes();
    (head[0], head[1]) = (VERSION, GROUP_MOD);
    head[2..4].copy_from_slice(&length(ACTIONS_AT + bytes.len()));
    head[KIND_AT] = kind as u8;
    head[16..18].copy_from_slice(&length(BUCKET_HEAD + bytes.len()));
    head[24..26].copy_from_slice(&length(BUCKET_HEAD + bytes.len()));
    head[26..28].copy_from_slice(&length(actions.len()));
    let buckets = match Message::decode(&[&head, bytes].concat())?.body {
        Body::GroupMod(change) => change.group.buckets,
        // Unreachable: the type byte above makes it a group-mod.
        _ => Vec::new(),
    };
    Ok(buckets.into_iter().next().unwrap_or_else(|| Bucket::new(0, Actions::drop())))
}

/// Splits an encoded bucket into its actions and its properties. Each begins with a type and a length. The types of
/// properties are those of no action of this length.
pub fn parts_of_bucket(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    while let Some([kind_high, kind_low, high, low, ..]) = bytes.get(at..) {
        let kind = u16::from_be_bytes([*kind_high, *kind_low]);
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if len == 0 || (kind <= LAST_PROPERTY && len == PROPERTY_LEN) {
            break;
        }
        at += len;
    }
    bytes.split_at_checked(at).unwrap_or((bytes, &[]))
}

/// The canonical form of actions that a switch reported, or the same bytes if they cannot be decoded.
pub fn actions_from_switch(bytes: &[u8]) -> Vec<u8> {
    let decoded = decode(bytes).ok();
    decoded.and_then(|bucket| encode_actions(&bucket.actions)).unwrap_or_else(|| bytes.to_vec())
}

/// Encodes type, padding and properties of a group.
pub fn encode_shape(group: GroupEntry) -> Vec<u8> {
    let kind = group.kind as u8;
    let message = Message { xid: 0, body: Body::GroupMod(GroupMod::add(group)) };
    let properties = message.encode().unwrap_or_default();
    [&[kind, 0][..], properties.get(BUCKETS_AT..).unwrap_or_default()].concat()
}

/// The shape of a group that a switch reported. If its buckets are not in the order of their numbers, it is another one
/// than that of any of our groups.
pub fn shape_from_switch(kind: u8, properties: &[u8], is_in_order: bool) -> Vec<u8> {
    let mut shape = [&[kind, 0], properties].concat();
    if let Ok(group) = decode_shape(&shape) {
        shape = encode_shape(group);
    }
    if let Some(padding) = shape.get_mut(1) {
        *padding = u8::from(!is_in_order);
    }
    shape
}

/// The inverse of [`encode_shape`].
pub fn decode_shape(shape: &[u8]) -> Result<GroupEntry, DecodeError> {
    let Some(([kind, _], properties)) = shape.split_first_chunk() else {
        return Ok(GroupEntry::all(0, Vec::new()));
    };
    let mut head = [0; BUCKETS_AT];
    (head[0], head[1], head[KIND_AT]) = (VERSION, GROUP_MOD, *kind);
    let len = u16::try_from(BUCKETS_AT + properties.len()).unwrap_or(u16::MAX);
    head[2..4].copy_from_slice(&len.to_be_bytes());
    match Message::decode(&[&head, properties].concat())?.body {
        Body::GroupMod(change) => Ok(change.group),
        // Unreachable: the type byte above makes it a group-mod.
        _ => Ok(GroupEntry::all(0, Vec::new())),
    }
}

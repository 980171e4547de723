//! Groups on the wire (OpenFlow 1.5, sections 7.3.4.3 and 7.3.5.10).

use super::{Bucket, GroupCommand, GroupEntry, GroupKind, GroupMod, Selection};
use crate::error::Fault;
use crate::flow::ANY_GROUP;
use crate::wire::{Reader, patch_len};
use crate::{Actions, DecodeError, EncodeError, PortNo};

/// Bytes of a bucket before its actions.
const BUCKET_LEN: usize = 8;
/// Bytes of a property of a bucket.
const PROPERTY_LEN: u16 = 8;
/// Bytes of the type and the length of a property of a group.
const PROPERTY_HEAD_LEN: usize = 4;
// `OFPGBPT_*`.
const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;

impl Bucket {
    fn encode(&self, out: &mut Vec<u8>, kind: GroupKind) -> Result<(), EncodeError> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.id.to_be_bytes());
        self.actions.encode_list(out);
        let actions = out.len() - start - BUCKET_LEN;
        let mut property = |kind: u16, value: u32| {
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&PROPERTY_LEN.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        };
        if kind == GroupKind::Select {
            property(WEIGHT, u32::from(self.weight) << 16);
        }
        if self.watch_port != PortNo::ANY {
            property(WATCH_PORT, self.watch_port.to_wire());
        }
        if self.watch_group != ANY_GROUP {
            property(WATCH_GROUP, self.watch_group);
        }
        let len = out.len() - start;
        u16::try_from(len).map_err(|_| EncodeError::TooLong { len })?;
        patch_len(out, start, start);
        out[start + 2..start + 4].copy_from_slice(&(actions as u16).to_be_bytes());
        Ok(())
    }

    fn decode(reader: &mut Reader<'_>, kind: GroupKind) -> Result<Bucket, DecodeError> {
        let at = reader.clone().named("bucket");
        let mut head = at.clone();
        let (len, actions) = (usize::from(head.u16()?), usize::from(head.u16()?));
        if len < BUCKET_LEN || len % 8 != 0 {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("bucket", len)?;
        body.skip(4)?;
        let id = body.u32()?;
        let actions = Actions::decode_list(&mut body.sub("bucket", actions)?, 1)?;
        let mut bucket = Bucket { weight: kind.default_weight(), ..Bucket::new(id, actions) };
        while !body.is_empty() {
            bucket.decode_property(&mut body, kind)?;
        }
        Ok(bucket)
    }

    fn decode_property(&mut self, body: &mut Reader<'_>, kind: GroupKind) -> Result<(), DecodeError> {
        let at = body.clone();
        let (property, len) = (body.u16()?, body.u16()?);
        if len != PROPERTY_LEN {
            return Err(at.fault(Fault::Length(len.into())));
        }
        let value = body.u32()?;
        let unknown = |value: u32| at.fault(Fault::Unknown(value.into()));
        match property {
            WEIGHT if kind == GroupKind::Select => self.weight = (value >> 16) as u16,
            // In other groups, a weight has no meaning.
            WEIGHT => {}
            WATCH_PORT => self.watch_port = PortNo::from_wire(value).ok_or_else(|| unknown(value))?,
            WATCH_GROUP => self.watch_group = value,
            _ => return Err(unknown(property.into())),
        }
        Ok(())
    }
}

fn put_buckets(out: &mut Vec<u8>, group: &GroupEntry) -> Result<u16, EncodeError> {
    let start = out.len();
    for bucket in &group.buckets {
        bucket.encode(out, group.kind)?;
    }
    let len = out.len() - start;
    u16::try_from(len).map_err(|_| EncodeError::TooLong { len })
}

fn get_buckets(reader: &mut Reader<'_>, len: u16, kind: GroupKind) -> Result<Vec<Bucket>, DecodeError> {
    let mut body = reader.sub("buckets", len.into())?;
    let mut buckets = Vec::new();
    while !body.is_empty() {
        buckets.push(Bucket::decode(&mut body, kind)?);
    }
    Ok(buckets)
}

impl GroupKind {
    /// Looks up the number of a kind; the reader is past it.
    fn known(kind: u8, at: &Reader<'_>) -> Result<GroupKind, DecodeError> {
        let known = GroupKind::ALL.get(usize::from(kind)).copied();
        known.ok_or_else(|| at.fault(Fault::Unknown(kind.into())))
    }
}

impl GroupMod {
    /// Appends the body.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let command = GroupCommand::ALL.iter().find(|(_, command)| *command == self.command);
        let number = command.map_or(0, |(number, _)| *number);
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&[self.group.kind as u8, 0]);
        out.extend_from_slice(&self.group.id.to_be_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.bucket.to_be_bytes());
        let len = put_buckets(out, &self.group)?;
        out[length_at..length_at + 2].copy_from_slice(&len.to_be_bytes());
        self.group.put_properties(out);
        Ok(())
    }

    /// Reads the body.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<GroupMod, DecodeError> {
        let at = reader.clone();
        let number = reader.u16()?;
        let command = GroupCommand::ALL.iter().find(|(known, _)| *known == number);
        let (_, command) = *command.ok_or_else(|| at.fault(Fault::Unknown(number.into())))?;
        let kind = GroupKind::known(reader.u8()?, &at)?;
        reader.skip(1)?;
        let (id, len) = (reader.u32()?, reader.u16()?);
        reader.skip(2)?;
        let bucket = reader.u32()?;
        let buckets = get_buckets(reader, len, kind)?;
        let mut group = GroupEntry::new(id, kind, buckets);
        group.get_properties(reader)?;
        Ok(GroupMod { command, bucket, group })
    }
}

impl GroupEntry {
    fn put_properties(&self, out: &mut Vec<u8>) {
        if let Some(selection) = &self.selection {
            selection.encode(out);
        }
        out.extend_from_slice(&self.properties);
    }

    /// Reads all properties, the last part of a message or description.
    fn get_properties(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        while !reader.is_empty() {
            if let Some(selection) = Selection::decode(reader)? {
                self.selection = Some(selection);
                continue;
            }
            let at = reader.clone();
            let mut head = at.clone();
            head.skip(2)?;
            let len = usize::from(head.u16()?);
            if len < PROPERTY_HEAD_LEN {
                return Err(at.fault(Fault::Length(len)));
            }
            self.properties.extend_from_slice(reader.bytes(len.next_multiple_of(8))?);
        }
        Ok(())
    }

    /// Appends the group in the format of a description.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        out.extend_from_slice(&[0, 0, self.kind as u8, 0]);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        let len = put_buckets(out, self)?;
        out[start + 8..start + 10].copy_from_slice(&len.to_be_bytes());
        self.put_properties(out);
        let len = out.len() - start;
        u16::try_from(len).map_err(|_| EncodeError::TooLong { len })?;
        patch_len(out, start, start);
        Ok(())
    }

    /// Reads one group of a description. On failure, returns the error with the group's id, and the reader is past the
    /// group; there is no id if the group's own frame is broken.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
    ) -> Result<Result<GroupEntry, (u32, DecodeError)>, DecodeError> {
        const FIXED: usize = 16;
        let at = reader.clone();
        let len = usize::from(reader.clone().u16()?);
        if len < FIXED {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("group description", len)?;
        body.skip(2)?;
        let at = body.clone();
        let kind = body.u8()?;
        body.skip(1)?;
        let id = body.u32()?;
        let mut rest = || {
            let kind = GroupKind::known(kind, &at)?;
            let len = body.u16()?;
            body.skip(6)?;
            let buckets = get_buckets(&mut body, len, kind)?;
            let mut group = GroupEntry::new(id, kind, buckets);
            group.get_properties(&mut body)?;
            Ok(group)
        };
        Ok(rest().map_err(|error| (id, error)))
    }
}

//! Requests for groups.

use super::print::trim_end;
use crate::group::GroupEntry;
use crate::wire::Reader;
use crate::{DecodeError, EncodeError};

/// Bytes that follow the group's id in a request.
const PADDING: [u8; 4] = [0; 4];

/// Asks for a group, or for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDescRequest {
    /// The group, or [`GroupEntry::ALL`].
    pub group: u32,
}

impl GroupDescRequest {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.to_be_bytes());
        out.extend_from_slice(&PADDING);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<GroupDescRequest, DecodeError> {
        let group = reader.u32()?;
        reader.skip(PADDING.len())?;
        Ok(GroupDescRequest { group })
    }

    pub(super) fn print(self) -> String {
        match self.group {
            GroupEntry::ALL => " group_id=ALL".to_owned(),
            id => format!(" group_id={id}"),
        }
    }
}

/// A group in a description that this crate cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableGroup {
    /// Its number.
    pub id: u32,
    /// The reason.
    pub error: DecodeError,
}

/// A part of the requested groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDescReply {
    /// Whether another part follows.
    pub more: bool,
    /// The groups.
    pub groups: Vec<GroupEntry>,
    /// Groups that exist but could not be read; they are not encoded.
    pub unreadable: Vec<UnreadableGroup>,
}

impl GroupDescReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.groups.iter().try_for_each(|group| group.encode(out))
    }

    pub(super) fn decode(reader: &mut Reader<'_>, more: bool) -> Result<GroupDescReply, DecodeError> {
        let mut reply = GroupDescReply { more, ..GroupDescReply::default() };
        while !reader.is_empty() {
            match GroupEntry::decode(reader)? {
                Ok(group) => reply.groups.push(group),
                Err((id, error)) => reply.unreadable.push(UnreadableGroup { id, error }),
            }
        }
        Ok(reply)
    }

    pub(super) fn print(&self) -> String {
        let groups = self.groups.iter().map(|group| format!("\n {group}"));
        let unreadable = self
            .unreadable
            .iter()
            .map(|group| format!("\n group_id={} unreadable: {}", group.id, group.error));
        trim_end(groups.chain(unreadable).collect())
    }
}

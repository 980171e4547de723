//! Groups: lists of buckets. Depending on the type, every bucket or one of them gets the packet.

mod selection;
mod text;
mod wire;

pub use selection::{Selection, SelectionMethod};

use crate::flow::ANY_GROUP;
use crate::{Actions, PortNo};

/// A group, as it is added and described.
///
/// ```
/// use openflow_rs::GroupEntry;
/// let group: GroupEntry = "group_id=7,type=all,bucket=bucket_id:1,actions=set_field:0x5->reg1,resubmit(,40)".parse()?;
/// assert_eq!(group.buckets[0].actions.to_string(), "set_field:0x5->reg1,resubmit(,40)");
/// # Ok::<(), openflow_rs::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Its number, at most [`GroupEntry::ID_MAX`].
    pub id: u32,
    /// The type: which buckets get a packet.
    pub kind: GroupKind,
    /// How a select group chooses a bucket; without it, the switch decides. Other groups have none.
    pub selection: Option<Selection>,
    /// The buckets, in order.
    pub buckets: Vec<Bucket>,
    /// Other properties, which this crate does not support: kept as bytes and not printed.
    pub properties: Vec<u8>,
}

impl GroupEntry {
    /// `OFPG_MAX`.
    pub const ID_MAX: u32 = 0xffff_ff00;
    /// `OFPG_ALL`, all groups in deletions and requests.
    pub const ALL: u32 = 0xffff_fffc;

    /// A group that sends packets to all of these buckets.
    pub fn all(id: u32, buckets: Vec<Bucket>) -> GroupEntry {
        GroupEntry::new(id, GroupKind::All, buckets)
    }

    /// A group that gives packets to its buckets as `kind` says.
    pub fn new(id: u32, kind: GroupKind, buckets: Vec<Bucket>) -> GroupEntry {
        GroupEntry { id, kind, selection: None, buckets, properties: Vec::new() }
    }
}

/// Which buckets of a group get a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// Each a copy.
    All,
    /// One, by the switch's choice.
    Select,
    /// The only one.
    Indirect,
    /// The first that is live.
    FastFailover,
}

impl GroupKind {
    const ALL: [GroupKind; 4] =
        [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];

    fn name(self) -> &'static str {
        ["all", "select", "indirect", "ff"][self as usize]
    }

    /// The default weight of buckets.
    fn default_weight(self) -> u16 {
        u16::from(self == GroupKind::Select)
    }
}

/// One list of actions of a group.
///
/// Its actions are an action set: at most one output, `resubmit` or `group` takes effect, and fields are written
/// before it, whatever the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its number within the group, at most [`Bucket::ID_MAX`].
    pub id: u32,
    /// Its weight in select groups; 0 in others.
    pub weight: u16,
    /// The port whose liveness the bucket follows.
    pub watch_port: PortNo,
    /// The group whose liveness the bucket follows.
    pub watch_group: u32,
    /// Its actions.
    pub actions: Actions,
}

impl Bucket {
    /// `OFPG_BUCKET_MAX`.
    pub const ID_MAX: u32 = 0xffff_ff00;
    /// `OFPG_BUCKET_FIRST`, the place before all buckets.
    pub const FIRST: u32 = 0xffff_fffd;
    /// `OFPG_BUCKET_LAST`, the place after all buckets.
    pub const LAST: u32 = 0xffff_fffe;
    /// `OFPG_BUCKET_ALL`: all buckets; also used where no bucket is meant.
    pub const ALL: u32 = 0xffff_ffff;

    /// A bucket without a watched port or group.
    pub fn new(id: u32, actions: Actions) -> Bucket {
        Bucket { id, weight: 0, watch_port: PortNo::ANY, watch_group: ANY_GROUP, actions }
    }
}

/// The command of a [`GroupMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupCommand {
    /// Adds a new group.
    Add,
    /// Replaces type and buckets of an existing group.
    Modify,
    /// Deletes a group, or all; Open vSwitch also deletes the flows that use it.
    Delete,
    /// Adds buckets to an existing group.
    InsertBucket,
    /// Removes a bucket, or all, from a group.
    RemoveBucket,
}

impl GroupCommand {
    /// Commands by number on the wire; 4 is not used.
    const ALL: [(u16, GroupCommand); 5] = [
        (0, GroupCommand::Add),
        (1, GroupCommand::Modify),
        (2, GroupCommand::Delete),
        (3, GroupCommand::InsertBucket),
        (5, GroupCommand::RemoveBucket),
    ];

    fn name(self) -> &'static str {
        ["ADD", "MOD", "DEL", "INSERT_BUCKET", "REMOVE_BUCKET"][self as usize]
    }
}

/// A change to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// The command.
    pub command: GroupCommand,
    /// The bucket to remove, or the one to insert after; [`Bucket::ALL`] where none is meant.
    pub bucket: u32,
    /// The group. Only its id counts where buckets are removed, and only its id and buckets where some are inserted; but
    /// a switch checks and reads these buckets as those of a group of this type.
    pub group: GroupEntry,
}

impl GroupMod {
    /// Adds a group.
    pub fn add(group: GroupEntry) -> GroupMod {
        GroupMod { command: GroupCommand::Add, bucket: Bucket::ALL, group }
    }

    /// Replaces a group.
    pub fn modify(group: GroupEntry) -> GroupMod {
        GroupMod { command: GroupCommand::Modify, bucket: Bucket::ALL, group }
    }

    /// Deletes a group, or [`GroupEntry::ALL`].
    pub fn delete(id: u32) -> GroupMod {
        let group = GroupEntry::all(id, Vec::new());
        GroupMod { command: GroupCommand::Delete, bucket: Bucket::ALL, group }
    }

    /// Adds buckets after all those of a group of type `kind`.
    pub fn insert(id: u32, kind: GroupKind, buckets: Vec<Bucket>) -> GroupMod {
        let group = GroupEntry::new(id, kind, buckets);
        GroupMod { command: GroupCommand::InsertBucket, bucket: Bucket::LAST, group }
    }

    /// Removes a bucket, or [`Bucket::ALL`], from a group.
    pub fn remove(id: u32, bucket: u32) -> GroupMod {
        GroupMod { command: GroupCommand::RemoveBucket, bucket, group: GroupEntry::all(id, Vec::new()) }
    }
}

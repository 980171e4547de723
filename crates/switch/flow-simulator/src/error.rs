//! The changes that a bridge refuses, and the limits of processing.

use openflow_rs::{Action, Field};

/// A change that a [`crate::Bridge`] refuses, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// An action that is not interpreted yet.
    #[error("`{action}` is not interpreted here: {why}")]
    Action {
        /// The action.
        action: Box<Action>,
        /// The missing feature and the remedy.
        why: &'static str,
    },
    /// A match on a port of a connection without its protocol, which Open vSwitch takes for no match on a port.
    #[error("`{0}` is ignored by a switch: match ct_nw_proto too")]
    Ignored(Field),
    /// An action for IP packets in a flow for others.
    #[error("`{0}` needs a match on IP packets: match ip or ipv6 too")]
    NotIp(Box<Action>),
    /// A translation to addresses that the packets of the flow do not have.
    #[error("`{0}` needs a match on packets with such addresses: match ip for IPv4 ones, ipv6 for IPv6 ones")]
    Family(Box<Action>),
    /// A flow refers to a missing group.
    #[error("there is no group {0}: add it before the flow or bucket that names it")]
    NoGroup(u32),
    /// A flow refers to a missing meter, or a budget is for one.
    #[error("there is no meter {0}: add it before the flow that names it")]
    NoMeter(u32),
    /// A group with this id already exists.
    #[error("group {0} is there already: remove it first, or replace it")]
    GroupExists(u32),
    /// The way in which a group chooses a bucket is not interpreted.
    #[error("group {group}: {why}")]
    Selection {
        /// The group.
        group: u32,
        /// What is wrong, and the remedy.
        why: &'static str,
    },
    /// A bucket that a switch refuses too.
    #[error("bucket {bucket} of group {group}: {why}")]
    Bucket {
        /// The group.
        group: u32,
        /// The bucket.
        bucket: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// An indirect group without exactly one bucket.
    #[error("an indirect group has one bucket, not {0}")]
    Buckets(usize),
    /// A bucket contains an action that is not allowed in an action set.
    #[error("`{0}` cannot stand in a bucket: a bucket is an action set")]
    InBucket(Box<Action>),
    /// Table 255 is a name for all tables, not a table.
    #[error("flows can be in tables 0 to 254, not {0}")]
    Table(u8),
    /// `goto_table` may only lead on.
    #[error("goto_table:{to} in table {from}: it must lead to a later table")]
    Backwards {
        /// The flow's table.
        from: u8,
        /// The target table.
        to: u8,
    },
    /// A flow-mod that selects flows by output port or group.
    #[error("deleting by out_port or out_group is not interpreted here: delete by match or cookie")]
    OutFilter,
}

/// The reason why processing stopped without any output, not even output of earlier actions: the switch translates
/// everything before it executes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Resubmits to the same or an earlier table, and groups, are nested too deeply.
    #[error("resubmits and groups nested more than {MAX_DEPTH} deep: look for a loop of resubmits")]
    Depth,
    /// Too many resubmits for one packet.
    #[error("more than {MAX_RESUBMITS} resubmits for one packet: split the flood that needs them")]
    Resubmits,
    /// Too much on the stack.
    #[error("more than 64 kB on the stack: look for a loop that pushes without popping")]
    Stack,
}

/// `MAX_DEPTH` of Open vSwitch's `ofproto-dpif-xlate.c`.
pub(crate) const MAX_DEPTH: u32 = 64;
/// `MAX_RESUBMITS`, from the same place.
pub(crate) const MAX_RESUBMITS: u32 = MAX_DEPTH * MAX_DEPTH;
/// Bytes on the stack.
pub(crate) const MAX_STACK: usize = 65536;

//! Why a packet gets no answer.

use std::fmt;

/// Why a packet gets no answer. The order is the one in which they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Silence {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// A header is cut off or contradicts itself, or the checksum of an IPv4 header is wrong.
    Damaged,
    /// The frame was sent to a group.
    GroupFrame,
    /// The destination is a group or everybody (RFC 1812, 4.3.2.7; RFC 4443, 2.4 (e.3)).
    ToGroup,
    /// The source is not one host: a group, everybody, no address or the loopback (RFC 1812, 4.3.2.7; RFC 4443, 2.4 (e.6)).
    FromNobody,
    /// A fragment other than the first.
    LaterFragment,
    /// An ICMP error, a redirect, or a message of ICMP of unknown kind: errors must not cause errors.
    IsError,
    /// A TCP reset, which nobody answers.
    IsReset,
    /// No address of this IP version can be the source.
    NoAddress,
    /// The packet claims to be from the address that would answer.
    FromItself,
    /// The receiver has got its share of answers; see [`Limit`](crate::Limit).
    Limited,
}

impl Silence {
    /// All of them.
    pub const ALL: [Silence; 11] = [
        Silence::NotIp,
        Silence::Damaged,
        Silence::GroupFrame,
        Silence::ToGroup,
        Silence::FromNobody,
        Silence::LaterFragment,
        Silence::IsError,
        Silence::IsReset,
        Silence::NoAddress,
        Silence::FromItself,
        Silence::Limited,
    ];

    /// The name by which it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Silence::NotIp => "not_ip",
            Silence::Damaged => "damaged",
            Silence::GroupFrame => "group_frame",
            Silence::ToGroup => "to_group",
            Silence::FromNobody => "from_nobody",
            Silence::LaterFragment => "later_fragment",
            Silence::IsError => "is_error",
            Silence::IsReset => "is_reset",
            Silence::NoAddress => "no_address",
            Silence::FromItself => "from_itself",
            Silence::Limited => "limited",
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Silence::NotIp => "the packet is neither IPv4 nor IPv6",
            Silence::Damaged => "a header is cut off or damaged",
            Silence::GroupFrame => "the frame was sent to a group",
            Silence::ToGroup => "the destination is a group",
            Silence::FromNobody => "the source is not the address of one host",
            Silence::LaterFragment => "the packet is a fragment other than the first",
            Silence::IsError => "the packet is an ICMP error itself, or ICMP of unknown kind",
            Silence::IsReset => "the packet is a TCP reset",
            Silence::NoAddress => "there is no address of this IP version to answer from",
            Silence::FromItself => "the packet claims to be from the address that would answer",
            Silence::Limited => "the receiver has got its share of answers",
        })
    }
}

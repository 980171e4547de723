//! Why a packet gets no answer.

use std::fmt;

/// Why a packet gets no answer. The order is the one in which they are checked; those of requests are between the ones of errors and the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Silence {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// A header or a request is cut off or contradicts itself, or a checksum is wrong.
    Damaged,
    /// The frame was sent to a group, or claims to be from one.
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
    /// The number of the reason is none: the flow and this process are of different versions.
    UnknownReason,
    /// The flow asks for no answer to a packet, but says what the responder is to do without one.
    NotAsked,
    /// The packet answers no probe, or none any more.
    NoProbe,
    /// The packet is no request of the kind that the flow asks to answer.
    NoRequest,
    /// A fragment of a request, which is answered whole or not at all.
    Fragment,
    /// The hop limit is not 255, so a router has forwarded the solicitation (RFC 4861, 6.1.1).
    Forwarded,
    /// A request of another client than the one that the flow has an answer for.
    OtherClient,
    /// A request for another server.
    OtherServer,
    /// A query for another name than the one that the flow has records of: both have the same key.
    OtherName,
    /// A relay agent has forwarded the request: the client is on another network.
    Relayed,
    /// BOOTP without DHCP, which leases nothing.
    Bootp,
    /// A client gives its address back. Nothing is stored, and nobody expects an answer (RFC 2131, 4.3.4).
    Released,
    /// A client says that somebody else uses its address (RFC 2131, 4.3.3): an address is in conflict.
    Declined,
    /// The receiver has got its share of answers; see [`Limit`](crate::Limit).
    Limited,
}

impl Silence {
    /// All of them.
    pub const ALL: [Silence; 24] = [
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
        Silence::UnknownReason,
        Silence::NotAsked,
        Silence::NoProbe,
        Silence::NoRequest,
        Silence::Fragment,
        Silence::Forwarded,
        Silence::OtherClient,
        Silence::OtherServer,
        Silence::OtherName,
        Silence::Relayed,
        Silence::Bootp,
        Silence::Released,
        Silence::Declined,
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
            Silence::UnknownReason => "unknown_reason",
            Silence::NotAsked => "not_asked",
            Silence::NoProbe => "no_probe",
            Silence::NoRequest => "no_request",
            Silence::Fragment => "fragment",
            Silence::Forwarded => "forwarded",
            Silence::OtherClient => "other_client",
            Silence::OtherServer => "other_server",
            Silence::OtherName => "other_name",
            Silence::Relayed => "relayed",
            Silence::Bootp => "bootp",
            Silence::Released => "released",
            Silence::Declined => "declined",
            Silence::Limited => "limited",
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Silence::NotIp => "the packet is neither IPv4 nor IPv6",
            Silence::Damaged => "a header or the request is cut off or damaged",
            Silence::GroupFrame => "the frame was sent to a group, or claims to be from one",
            Silence::ToGroup => "the destination is a group",
            Silence::FromNobody => "the source is not the address of one host",
            Silence::LaterFragment => "the packet is a fragment other than the first",
            Silence::IsError => "the packet is an ICMP error itself, or ICMP of unknown kind",
            Silence::IsReset => "the packet is a TCP reset",
            Silence::NoAddress => "there is no address of this IP version to answer from",
            Silence::FromItself => "the packet claims to be from the address that would answer",
            Silence::UnknownReason => {
                "the flow gives a reason that is not known: run the version of weft that the controller has"
            }
            Silence::NotAsked => "the flow asks for no answer to a packet",
            Silence::NoProbe => "no probe waits for the packet",
            Silence::NoRequest => "the packet is not the request that the flow asks to answer",
            Silence::Fragment => "the request is a fragment",
            Silence::Forwarded => "the solicitation comes from another network",
            Silence::OtherClient => {
                "the request is of another client than the one that the flow has an answer for"
            }
            Silence::OtherServer => "the request is for another server",
            Silence::OtherName => "the query is for another name than the one that the flow has records of",
            Silence::Relayed => "a relay agent has forwarded the request",
            Silence::Bootp => "the request is BOOTP without DHCP",
            Silence::Released => "the client gives its address back",
            Silence::Declined => "the client says that somebody else uses its address: find who does",
            Silence::Limited => "the receiver has got its share of answers",
        })
    }
}

//! What an answer says.

/// What an answer says. The numbers are those of [`Instruction`](crate::Instruction), and of the field by which a pipeline carries the
/// reason to the flow that hands packets over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// The TTL or hop limit has ended.
    TimeExceeded = 1,
    /// No route leads to the destination.
    NoRoute = 2,
    /// The destination, or the next hop towards it, is not there.
    HostUnreachable = 3,
    /// The destination does not listen: a reset for TCP; otherwise port unreachable for UDP, and protocol unreachable for the rest.
    Closed = 4,
    /// The packet is larger than the next network carries.
    TooBig = 5,
    /// An ACL rejects the packet: a reset for TCP, administratively prohibited for the rest.
    Rejected = 6,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 6] = [
        Reason::TimeExceeded,
        Reason::NoRoute,
        Reason::HostUnreachable,
        Reason::Closed,
        Reason::TooBig,
        Reason::Rejected,
    ];

    /// The reason with this number.
    pub fn of(number: u64) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| *reason as u64 == number)
    }

    /// The name by which its answers are counted.
    pub fn name(self) -> &'static str {
        match self {
            Reason::TimeExceeded => "time_exceeded",
            Reason::NoRoute => "no_route",
            Reason::HostUnreachable => "host_unreachable",
            Reason::Closed => "closed",
            Reason::TooBig => "too_big",
            Reason::Rejected => "rejected",
        }
    }

    /// Whether the destination answers, and not a router on the way. It resets TCP.
    pub(crate) fn is_of_destination(self) -> bool {
        matches!(self, Reason::Closed | Reason::Rejected)
    }
}

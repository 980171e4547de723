//! An answer, its kind and its receiver.

use std::net::IpAddr;

use frame_builder::Mac;
use openflow_rs::Subfield;

use crate::Reason;

/// An answer and its receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The whole frame. The MAC addresses of an error are those of the packet, exchanged; whoever routes it writes others.
    pub frame: Vec<u8>,
    /// Who gets it, and has a limit for it. None if the meter of its flow is the only limit.
    pub to: Option<Receiver>,
    /// The kind by which it is counted.
    pub kind: Answered,
    /// What the answer says in fields that are not in the packet; see [`Instruction::actions_for`](crate::Instruction::actions_for).
    pub loads: Vec<(Subfield, u64)>,
}

impl Answer {
    /// A message with a receiver that has a limit.
    pub(crate) fn new(frame: Vec<u8>, to: Receiver, kind: Answered) -> Answer {
        Answer { frame, to: Some(to), kind, loads: Vec::new() }
    }

    /// A message whose only limit is the meter of its flow.
    pub(crate) fn unlimited(frame: Vec<u8>, kind: Answered) -> Answer {
        Answer { frame, to: None, kind, loads: Vec::new() }
    }
}

/// Who gets an answer, as far as [`Limit`](crate::Limit) tells receivers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Receiver {
    /// The source of a packet that gets an error.
    Ip(IpAddr),
    /// A machine on the same network, which may not have an IP address yet.
    Mac(Mac),
}

/// The kind of an answer, by which it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answered {
    /// An ICMP error or a TCP reset.
    Error(Reason),
    /// A router advertisement.
    RouterAdvertisement,
    /// A DHCP server offers an address.
    Dhcpv4Offer,
    /// A DHCP server says that the client has the address, or informs one that needs none.
    Dhcpv4Ack,
    /// A DHCP server forbids the client to use an address.
    Dhcpv4Nak,
    /// A `DHCPv6` server says what it has.
    Dhcpv6Advertise,
    /// A `DHCPv6` server gives or confirms what it has.
    Dhcpv6Reply,
    /// A `DHCPv6` client says that somebody else uses its address, and the server has read it: an address is in conflict.
    Dhcpv6Declined,
    /// The name of a DNS query has been read, and the query goes on with its key.
    DnsQuestion,
    /// A DNS server has answered, whether it has what was asked for or not.
    DnsAnswer,
    /// A packet was given back.
    Returned,
    /// An address was announced.
    Announcement,
    /// Machines were asked which multicast groups they listen to.
    Query,
    /// A neighbour was asked for its MAC address.
    Solicitation,
    /// A check of an address began.
    Probe,
}

impl Answered {
    /// All of them.
    pub const ALL: [Answered; 20] = [
        Answered::Error(Reason::TimeExceeded),
        Answered::Error(Reason::NoRoute),
        Answered::Error(Reason::HostUnreachable),
        Answered::Error(Reason::Closed),
        Answered::Error(Reason::TooBig),
        Answered::Error(Reason::Rejected),
        Answered::RouterAdvertisement,
        Answered::Dhcpv4Offer,
        Answered::Dhcpv4Ack,
        Answered::Dhcpv4Nak,
        Answered::Dhcpv6Advertise,
        Answered::Dhcpv6Reply,
        Answered::Dhcpv6Declined,
        Answered::DnsQuestion,
        Answered::DnsAnswer,
        Answered::Returned,
        Answered::Announcement,
        Answered::Query,
        Answered::Solicitation,
        Answered::Probe,
    ];

    /// The name by which it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Answered::Error(reason) => reason.name(),
            Answered::RouterAdvertisement => "router_advertisement",
            Answered::Dhcpv4Offer => "dhcpv4_offer",
            Answered::Dhcpv4Ack => "dhcpv4_ack",
            Answered::Dhcpv4Nak => "dhcpv4_nak",
            Answered::Dhcpv6Advertise => "dhcpv6_advertise",
            Answered::Dhcpv6Reply => "dhcpv6_reply",
            Answered::Dhcpv6Declined => "dhcpv6_declined",
            Answered::DnsQuestion => "dns_looked_up",
            Answered::DnsAnswer => "dns",
            Answered::Returned => "returned",
            Answered::Announcement => "announcement",
            Answered::Query => "query",
            Answered::Solicitation => "solicitation",
            Answered::Probe => "probe",
        }
    }
}

//! What a flow says of the packets that it hands over, as bytes in `userdata`.

use openflow_rs::action::Controller;
use openflow_rs::{Action, Actions, Match, Subfield};

use crate::error_ask::value_of;
use crate::userdata::{Malformed, Reader, VERSION, countable};
use crate::{
    Advertisement, Announcement, Answer, Answered, Dhcpv4Offer, Dhcpv6Offer, DnsAnswer, DnsQuestion,
    ErrorAsk, Probe, Query, Readiness, Resolution, Silence, Solicitation,
};

/// The number by which flows name the responder of their host (`id` of the action `controller`).
pub const CONTROLLER_ID: u16 = 7;

/// What a flow says of the packets that it hands over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The answer that is asked for.
    pub ask: Ask,
    /// Fields that are not in the packet, such as registers, and have the same value when the answer enters the pipeline.
    pub kept: Vec<Subfield>,
    /// What brings the answer into the pipeline.
    pub actions: Actions,
}

/// An answer that a flow asks for, and what it says. The numbers of the kinds are bytes of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// An ICMP error or a TCP reset. Kind 1.
    Error(ErrorAsk),
    /// A router advertisement. Kind 2.
    Advertisement(Advertisement),
    /// What a DHCP server says to its one client. Kind 3.
    Dhcpv4(Dhcpv4Offer),
    /// What a `DHCPv6` server says to its one client. Kind 4.
    Dhcpv6(Dhcpv6Offer),
    /// The key of the name that a DNS query asks for. Kind 5.
    DnsQuestion(DnsQuestion),
    /// What a DNS server says of a name, or of those that nobody has. Kind 6.
    DnsAnswer(DnsAnswer),
    /// The packet itself, to see whether anybody answers. Kind 7.
    Return,
    /// Nothing: where an address is, which the responder says unasked. Kind 8.
    Announcement(Announcement),
    /// Nothing: the switch has its flows. Kind 9.
    Ready(Readiness),
    /// Nothing: which multicast groups machines listen to, which the responder asks unasked. Kind 10.
    Query(Query),
    /// Nothing: which MAC address a neighbour has, which the responder asks unasked. Kind 11.
    Solicitation(Solicitation),
    /// Nothing: an address that the responder checks unasked. Kind 12.
    Probe(Probe),
    /// Nothing: the packet may be the answer to a check of an address, and is for the process that checks. Kind 13.
    Probed,
    /// A question for the MAC address of the machine that the packet is for. Kind 14.
    Resolution(Resolution),
}

impl Ask {
    const ERROR: u8 = 1;
    const ADVERTISEMENT: u8 = 2;
    const DHCPV4: u8 = 3;
    const DHCPV6: u8 = 4;
    const DNS_QUESTION: u8 = 5;
    const DNS_ANSWER: u8 = 6;
    const RETURN: u8 = 7;
    const ANNOUNCEMENT: u8 = 8;
    const READY: u8 = 9;
    const QUERY: u8 = 10;
    const SOLICITATION: u8 = 11;
    const PROBE: u8 = 12;
    const PROBED: u8 = 13;
    const RESOLUTION: u8 = 14;

    fn kind(&self) -> u8 {
        match self {
            Ask::Error(_) => Ask::ERROR,
            Ask::Advertisement(_) => Ask::ADVERTISEMENT,
            Ask::Dhcpv4(_) => Ask::DHCPV4,
            Ask::Dhcpv6(_) => Ask::DHCPV6,
            Ask::DnsQuestion(_) => Ask::DNS_QUESTION,
            Ask::DnsAnswer(_) => Ask::DNS_ANSWER,
            Ask::Return => Ask::RETURN,
            Ask::Announcement(_) => Ask::ANNOUNCEMENT,
            Ask::Ready(_) => Ask::READY,
            Ask::Query(_) => Ask::QUERY,
            Ask::Solicitation(_) => Ask::SOLICITATION,
            Ask::Probe(_) => Ask::PROBE,
            Ask::Probed => Ask::PROBED,
            Ask::Resolution(_) => Ask::RESOLUTION,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Ask::Error(error) => error.encode(out),
            Ask::Advertisement(advertisement) => advertisement.encode(out),
            Ask::Dhcpv4(offer) => offer.encode(out),
            Ask::Dhcpv6(offer) => offer.encode(out),
            Ask::DnsQuestion(question) => question.encode(out),
            Ask::DnsAnswer(answer) => answer.encode(out),
            Ask::Return | Ask::Probed => {}
            Ask::Announcement(announcement) => announcement.encode(out),
            Ask::Ready(readiness) => readiness.encode(out),
            Ask::Query(query) => query.encode(out),
            Ask::Solicitation(solicitation) => solicitation.encode(out),
            Ask::Probe(probe) => probe.encode(out),
            Ask::Resolution(resolution) => resolution.encode(out),
        }
    }

    fn decode(kind: u8, reader: &mut Reader<'_>) -> Result<Ask, Malformed> {
        match kind {
            Ask::ERROR => ErrorAsk::decode(reader).map(Ask::Error),
            Ask::ADVERTISEMENT => Advertisement::decode(reader).map(Ask::Advertisement),
            Ask::DHCPV4 => Dhcpv4Offer::decode(reader).map(Ask::Dhcpv4),
            Ask::DHCPV6 => Dhcpv6Offer::decode(reader).map(Ask::Dhcpv6),
            Ask::DNS_QUESTION => DnsQuestion::decode(reader).map(Ask::DnsQuestion),
            Ask::DNS_ANSWER => DnsAnswer::decode(reader).map(Ask::DnsAnswer),
            Ask::RETURN => Ok(Ask::Return),
            Ask::ANNOUNCEMENT => Announcement::decode(reader).map(Ask::Announcement),
            Ask::READY => Readiness::decode(reader).map(Ask::Ready),
            Ask::QUERY => Query::decode(reader).map(Ask::Query),
            Ask::SOLICITATION => Solicitation::decode(reader).map(Ask::Solicitation),
            Ask::PROBE => Probe::decode(reader).map(Ask::Probe),
            Ask::PROBED => Ok(Ask::Probed),
            Ask::RESOLUTION => Resolution::decode(reader).map(Ask::Resolution),
            other => Err(Malformed::Kind(other)),
        }
    }
}

impl Instruction {
    /// The bytes:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 1 | 1, the version |
    /// | 1 | the kind of answer: 1 for errors, 2 for router advertisements, 3 for DHCP, 4 for `DHCPv6`, 5 for questions of DNS, 6 for its answers, 7 for the packet itself, 8 for announcements, 9 for a switch that has its flows, 10 for queries, 11 for questions to neighbours, 12 for probes, 13 for packets that may answer them, 14 for questions about the destination of the packet |
    /// | 1 | the number of fields that are kept |
    /// | 6 each | the NXM or OXM header of a field, and its first bit and number of bits as in actions of Nicira |
    /// | as the kind | what the answer says; see below |
    /// | the rest | OpenFlow actions |
    ///
    /// Of errors:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6 | the reason: a field as above; or four zeros and a number |
    /// | 6 | the MTU, in the same way |
    /// | 1, 1 | the numbers of IPv4 and IPv6 addresses |
    /// | 5 each | an IPv4 address, and the length of its prefix |
    /// | 17 each | an IPv6 address, and the length of its prefix |
    ///
    /// Of router advertisements:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6 | the MAC address of the router |
    /// | 1 | flags as in the message (RFC 4861, 4.2; RFC 4191, 2.2): 0x80 managed, 0x40 other, 0x18 preference; and 0x01 autonomous, 0x02 periodic |
    /// | 2, 2 | the lifetime of the router in seconds, and the MTU |
    /// | 1, 1 | the numbers of prefixes and DNS servers |
    /// | 17 each | a prefix, and its length |
    /// | 16 each | the address of a DNS server |
    ///
    /// Of DHCP:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 4, 1 | the address of the client, and the length of its network's prefix |
    /// | 4, 6 | the IP address and the MAC address of the server |
    /// | 6 | the MAC address of the client |
    /// | 4 | the lease in seconds |
    /// | 4 | the next server, or zeros |
    /// | 1 | the number of options |
    /// | 1, 2, … each | the code of an option, the length of its value, and the value |
    ///
    /// Of `DHCPv6`:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6, 6 | the MAC addresses of the server and of the client |
    /// | 4, 4 | the preferred and the valid lifetime of addresses in seconds |
    /// | 1, 1 | the numbers of addresses and DNS servers |
    /// | 2 | the length of the domains in which names are searched |
    /// | 16 each | the addresses, and then the DNS servers |
    /// | that length | the domains as DNS has them |
    ///
    /// Of questions of DNS:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6 | the field for the key, as above |
    ///
    /// Of answers of DNS, with names as DNS has them, without compression:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | … | the name that has the records, or the root for those that nobody has |
    /// | … | what the name is an alias of, or the root for nothing |
    /// | 4 | the TTL in seconds |
    /// | 1, 1, 1, 1 | the numbers of IPv4 addresses, IPv6 addresses, pointers and domains |
    /// | 4 each, 16 each | the addresses |
    /// | … each | the names of the pointers, and then the domains |
    ///
    /// Of announcements:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6 | the MAC address |
    /// | 1 | 0x01 if a router has the addresses |
    /// | 1, 1, 1 | the numbers of IPv4 addresses, IPv6 addresses and watched ports |
    /// | 4 each, 16 each | the addresses |
    /// | 4 each | the numbers of the ports |
    ///
    /// Of a switch that has its flows:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 1 | 0x01 if all tunnel ports with BFD are held until then |
    /// | 1, 1 | the numbers of tunnel ports that are held, and of uplinks |
    /// | 1, … each | the length of the name of an interface, and the name: first the tunnel ports, then the uplinks |
    ///
    /// Of queries:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6 | the MAC address |
    /// | 1 | flags: 0x01 IGMP, 0x02 MLD |
    /// | 2 | the interval in seconds |
    /// | 4 | the source of queries of IGMP, if there are any |
    ///
    /// Of questions to neighbours:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6 | the MAC address that asks |
    /// | 1 | 0x01 if the addresses are of IPv6 |
    /// | 2 | the interval in seconds |
    /// | 1 | the number of watched ports |
    /// | 4 or 16, twice | the address that asks, and the one that is asked for |
    /// | 4 each | the numbers of the ports |
    ///
    /// Of probes:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 1 | 0x01 if the addresses are IPv6 |
    /// | 1 | what is checked: 1 for TCP, 2 for ICMP, 3 for HTTP |
    /// | 2 | the port, or zeros for ICMP |
    /// | 2, 2 | the interval and the timeout in seconds |
    /// | 1, 1 | how many failures, and how many successes, in a row count |
    /// | 6, 6 | the MAC addresses of who asks, and of who is asked |
    /// | 4 or 16 each | their addresses |
    /// | 1, … | the length of the id, and the id |
    /// | 1, … | the length of the path, and the path; nothing but for HTTP |
    ///
    /// Of questions about the destination:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 6 | the MAC address that asks |
    /// | 1 | 0x01 if the address is of IPv6 |
    /// | 4 or 16 | the address that asks |
    ///
    /// A list of more items than its number can say is cut after those.
    pub fn encode(&self) -> Vec<u8> {
        let kept = countable(&self.kept);
        let mut out = vec![VERSION, self.ask.kind(), kept.len() as u8];
        out.extend(kept.iter().flat_map(|field| field.to_bytes()));
        self.ask.encode(&mut out);
        out.extend_from_slice(&self.actions.list_to_wire());
        out
    }

    /// The action that hands packets over, as often as this meter allows; 0 for none. Unlike a meter of the flow, it ends this action alone.
    pub fn action(&self, meter: u32) -> Action {
        let meter_id = Some(meter).filter(|meter| *meter != 0);
        Controller { meter_id, ..Controller::new(CONTROLLER_ID, self.encode()) }.into()
    }

    /// Reads what [`encode`](Self::encode) writes.
    ///
    /// # Errors
    /// The bytes are no instruction of this version.
    pub fn decode(bytes: &[u8]) -> Result<Instruction, Malformed> {
        let mut reader = Reader(bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let [kind, kept] = reader.take()?;
        let kept = reader.list(kept, |reader| {
            let field = Subfield::from_bytes(reader.take()?)?;
            Action::load(field, 0).map(|_| field).map_err(|_| Malformed::Kept(field))
        })?;
        let ask = Ask::decode(kind, &mut reader)?;
        Ok(Instruction { ask, kept, actions: Actions::list_from_wire(reader.0)? })
    }

    /// Whether these bytes hand a packet over that may answer a probe. Only who probes can say, so [`answer`](Self::answer) does not.
    pub fn is_of_probed(bytes: &[u8]) -> bool {
        bytes.starts_with(&[VERSION, Ask::PROBED])
    }

    /// The answer to a packet that was handed over with these fields. `frame` may be the beginning of a longer one: an error quotes as
    /// much as is there, and the other kinds answer whole packets alone. The answer to a question of DNS is the packet itself, unchanged.
    ///
    /// # Errors
    /// The packet must not be answered, or cannot be.
    pub fn answer(&self, frame: &[u8], metadata: &Match) -> Result<Answer, Silence> {
        match &self.ask {
            Ask::Error(error) => error.answer(frame, metadata),
            Ask::Advertisement(advertisement) => advertisement.answer(frame),
            Ask::Dhcpv4(offer) => offer.answer(frame),
            Ask::Dhcpv6(offer) => offer.answer(frame),
            Ask::DnsQuestion(question) => Ok(question.answer(frame)),
            Ask::DnsAnswer(answer) => answer.answer(frame),
            Ask::Return => Ok(Answer::unlimited(frame.to_vec(), Answered::Returned)),
            Ask::Announcement(_) | Ask::Ready(_) | Ask::Query(_) | Ask::Solicitation(_) | Ask::Probe(_) => {
                Err(Silence::NotAsked)
            }
            Ask::Probed => Err(Silence::NoProbe),
            Ask::Resolution(resolution) => resolution.answer(frame),
        }
    }

    /// The actions that bring the answer to a packet with these fields into the pipeline: those that set the kept fields again, then those that
    /// load what [the answer](Answer::loads) says in fields, and then [`actions`](Self::actions).
    pub fn actions_for(&self, metadata: &Match, loads: &[(Subfield, u64)]) -> Actions {
        // A field that cannot be set is refused by `decode`.
        let kept = self.kept.iter().filter_map(|field| Action::load(*field, value_of(*field, metadata)).ok());
        let loads = loads.iter().filter_map(|(field, value)| Action::load(*field, (*value).into()).ok());
        kept.chain(loads).chain(self.actions.0.iter().cloned()).collect()
    }
}

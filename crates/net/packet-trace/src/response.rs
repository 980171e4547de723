//! What the responder of a host answers to a packet that flows hand over to it, or why the sender gets no answer.

use std::net::{IpAddr, Ipv4Addr};

use flow_simulator::trace::{HandedOver, Step, What};
use flow_simulator::{FlowKey, Packet};
use frame_builder::{ICMP, TCP};
use openflow_rs::{Actions, Field, FlowEntry, PortNo};
use packet_answers::{
    ANSWERS_EACH, Answer, Answered, Ask, CONTROLLER_ID, Instruction, Malformed, Reason, Silence,
};

use crate::cause::RESPOND;
use crate::packet::addresses;
use crate::text::named;
use crate::{Leaf, LookupView, Network};

/// What becomes of the answer to a packet, or to a copy of it, on one host. Whether a responder runs there is not known.
#[derive(Debug)]
pub struct Response {
    /// The host.
    pub host: String,
    /// The flow that hands the packet over, or keeps it from the responder.
    pub at: Box<LookupView>,
    /// What the responder does.
    pub responded: Responded,
    /// The objects and reports behind the flow.
    pub because: Vec<Leaf>,
    /// The same packet as it goes on, if the answer is that.
    pub(crate) goes_on: Option<SentOut>,
}

/// A frame that a responder has its switch send out.
#[derive(Debug)]
pub(crate) struct SentOut {
    /// Its bytes.
    pub(crate) frame: Vec<u8>,
    /// What the switch does with it.
    pub(crate) actions: Actions,
}

/// What a responder does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Responded {
    /// It answers.
    Answers {
        /// The kind, by which the answer is counted.
        kind: Answered,
        /// What the answer is, in words.
        what: String,
        /// The addresses that the answer is from and to.
        ends: Option<(IpAddr, IpAddr)>,
        /// Whether each receiver gets so many of them at most.
        is_limited: bool,
    },
    /// It has read the packet, and must not answer it or cannot.
    Silent(Silence),
    /// It cannot read what the flow asks for.
    Unreadable(Malformed),
    /// The packet does not come to it: a flow that owes an answer asks for one, and no flow hands the packet over.
    NotAsked,
}

impl Response {
    /// Why there is no answer; none if there is one.
    pub fn silence(&self) -> Option<String> {
        match &self.responded {
            Responded::Answers { .. } => None,
            Responded::Silent(silence) => Some(silence.to_string()),
            Responded::Unreadable(malformed) => Some(malformed.to_string()),
            Responded::NotAsked if self.at.flow.is_some() => {
                Some(format!("stage {} {} drops the packet before", self.at.table, named(&self.at)))
            }
            Responded::NotAsked => {
                Some(format!("no flow of stage {} {} hands the packet over", self.at.table, self.at.stage))
            }
        }
    }

    /// The response as a sentence.
    pub fn text(&self) -> String {
        let host = &self.host;
        let Responded::Answers { kind, what, ends, is_limited } = &self.responded else {
            let why = self.silence().unwrap_or_default();
            return format!("the responder of {host} answers nothing: {why}");
        };
        if *kind == Answered::DnsQuestion {
            return format!("the responder of {host}, if it runs, looks the name up: {what}");
        }
        let ends = ends.map_or(String::new(), |(from, to)| format!(", from {from} to {to}"));
        let most = 1000 / ANSWERS_EACH.as_millis();
        let limit =
            if *is_limited { format!(", at most {most} a second for each receiver") } else { String::new() };
        format!("the responder of {host}, if it runs, answers: {what}{ends}{limit}")
    }
}

/// The look-up within which a step happens.
#[derive(Clone, Copy)]
struct At<'a> {
    table: u8,
    entry: Option<&'a FlowEntry>,
    key: &'a FlowKey,
}

impl<'a> At<'a> {
    fn of(step: &'a Step) -> Option<At<'a>> {
        match &step.what {
            What::Lookup { table, entry, key } => Some(At { table: *table, entry: entry.as_deref(), key }),
            _ => None,
        }
    }

    /// The last look-up of a step and what is within it.
    fn last(step: &'a Step) -> Option<At<'a>> {
        step.within.iter().rev().find_map(At::last).or_else(|| At::of(step))
    }
}

impl Network {
    /// The answers to a packet on a host, in order.
    pub(crate) fn responses(&self, host: &str, steps: &[Step], responses: &mut Vec<Response>) {
        self.responses_within(host, None, steps, responses);
    }

    fn responses_within(
        &self,
        host: &str,
        around: Option<At<'_>>,
        steps: &[Step],
        responses: &mut Vec<Response>,
    ) {
        let responds = |at: &At<'_>| self.names.stage_name(at.table) == Some(RESPOND);
        for step in steps {
            if let (What::HandedOver(handed), Some(at)) = (&step.what, around)
                && handed.controller.id == CONTROLLER_ID
            {
                let (responded, goes_on) = responded(handed);
                responses.push(self.response(host, at, responded, goes_on));
            }
            let before = responses.len();
            let at = At::of(step).or(around);
            self.responses_within(host, at, &step.within, responses);
            // One look-up in the stage may lead to others there, and each may ask.
            let asks = at.as_ref().is_some_and(responds) && !around.as_ref().is_some_and(responds);
            if asks
                && responses.len() == before
                && let Some(last) = At::last(step)
            {
                responses.push(self.response(host, last, Responded::NotAsked, None));
            }
        }
    }

    fn response(
        &self,
        host: &str,
        At { table, entry, key }: At<'_>,
        responded: Responded,
        goes_on: Option<SentOut>,
    ) -> Response {
        let at = Box::new(self.lookup(host, table, entry, key));
        let because = at.flow.as_ref().map_or(Vec::new(), |flow| self.leaves_of(flow));
        Response { host: host.to_owned(), at, responded, because, goes_on }
    }
}

/// What the responder does with a packet, unless its receiver has got its share; and the packet as it goes on.
fn responded(handed: &HandedOver) -> (Responded, Option<SentOut>) {
    let instruction = match Instruction::decode(&handed.controller.userdata) {
        Ok(instruction) => instruction,
        Err(malformed) => return (Responded::Unreadable(malformed), None),
    };
    let metadata = handed.key.metadata();
    let answer = match instruction.answer(&handed.bytes, &metadata) {
        Ok(answer) => answer,
        Err(silence) => return (Responded::Silent(silence), None),
    };
    let packet = Packet::new(answer.frame.clone(), PortNo::LOCAL);
    let what = words(&answer, &instruction.ask, packet.key());
    let (kind, ends) = (answer.kind, addresses(packet.key()));
    let goes_on = (kind == Answered::DnsQuestion).then(|| SentOut {
        actions: instruction.actions_for(&metadata, &answer.loads),
        frame: answer.frame.clone(),
    });
    (Responded::Answers { kind, what, ends, is_limited: answer.to.is_some() }, goes_on)
}

/// What an answer is.
fn words(answer: &Answer, ask: &Ask, key: &FlowKey) -> String {
    let given = || {
        let given = given(answer, ask);
        if given.is_empty() { String::new() } else { format!(" of {}", given.join(", ")) }
    };
    match answer.kind {
        Answered::Error(reason) => error(reason, &answer.frame, key),
        Answered::RouterAdvertisement => "router advertisement".to_owned(),
        Answered::Dhcpv4Offer => format!("DHCP offer{}", given()),
        Answered::Dhcpv4Ack => format!("DHCP acknowledgement{}", given()),
        Answered::Dhcpv4Nak => "DHCP refusal (NAK)".to_owned(),
        Answered::Dhcpv6Advertise => format!("DHCPv6 advertisement{}", given()),
        Answered::Dhcpv6Reply => format!("DHCPv6 reply{}", given()),
        Answered::Dhcpv6Declined => "DHCPv6 reply to a declined address, which somebody else uses".to_owned(),
        // What follows is the same packet, by the flow that has this key.
        Answered::DnsQuestion => {
            let key = answer.loads.iter().map(|(_, key)| format!("key {key:#x}"));
            key.collect::<Vec<String>>().join(", ")
        }
        Answered::DnsAnswer => dns(&answer.frame, key),
        Answered::Returned => "the packet itself".to_owned(),
        // No packet is the reason for these.
        Answered::Announcement => "announcement".to_owned(),
        Answered::Query => "query".to_owned(),
        Answered::Solicitation => "solicitation".to_owned(),
        Answered::Probe => "probe".to_owned(),
    }
}

/// The addresses that an answer of DHCP gives to the client. One that tells only other things gives none.
fn given(answer: &Answer, ask: &Ask) -> Vec<String> {
    /// Where the client's address is: behind the headers of Ethernet, IPv4 and UDP, and four fields (RFC 2131, 2).
    const YIADDR: std::ops::Range<usize> = 58..62;
    match ask {
        Ask::Dhcpv4(_) => {
            let bytes = answer.frame.get(YIADDR).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
            let address = bytes.map(Ipv4Addr::from).filter(|address| !address.is_unspecified());
            address.iter().map(Ipv4Addr::to_string).collect()
        }
        Ask::Dhcpv6(offer) => {
            let is_there = |octets: [u8; 16]| answer.frame.windows(octets.len()).any(|bytes| bytes == octets);
            let there = offer.addresses.iter().filter(|address| is_there(address.octets()));
            there.map(ToString::to_string).collect()
        }
        Ask::Error(_)
        | Ask::Advertisement(_)
        | Ask::DnsQuestion(_)
        | Ask::DnsAnswer(_)
        | Ask::Return
        | Ask::Announcement(_)
        | Ask::Ready(_)
        | Ask::Query(_)
        | Ask::Solicitation(_)
        | Ask::Probe(_)
        | Ask::Probed
        | Ask::Resolution(_) => Vec::new(),
    }
}

/// What a DNS server says: its code, and the number of records.
fn dns(frame: &[u8], key: &FlowKey) -> String {
    /// The headers of Ethernet and UDP.
    const HEADERS: usize = 14 + 8;
    let message = HEADERS + if addresses(key).is_some_and(|(from, _)| from.is_ipv4()) { 20 } else { 40 };
    let Some([_, _, _, code, _, _, high, low]) = frame.get(message..).and_then(|bytes| bytes.first_chunk())
    else {
        return "DNS answer".to_owned();
    };
    match (code & 15, u16::from_be_bytes([*high, *low])) {
        (0, 0) => "DNS answer, no such record".to_owned(),
        (0, 1) => "DNS answer with 1 record".to_owned(),
        (0, records) => format!("DNS answer with {records} records"),
        (1, _) => "DNS answer, malformed query".to_owned(),
        (3, _) => "DNS answer, no such name".to_owned(),
        (4, _) => "DNS answer, not implemented".to_owned(),
        (5, _) => "DNS answer, refused".to_owned(),
        (other, _) => format!("DNS answer, code {other}"),
    }
}

/// What an ICMP error says, by its code where the reason leaves it open; or a reset.
fn error(reason: Reason, frame: &[u8], key: &FlowKey) -> String {
    /// Where an error has its MTU: in the second word of its last four bytes, behind the headers of Ethernet and IP.
    const MTU: usize = 14 + 6;
    const PORT: u128 = 3;
    const PORT_V6: u128 = 4;
    let protocol = key.get(Field::IpProto);
    if protocol == TCP.into() {
        return "TCP reset".to_owned();
    }
    let is_v4 = protocol == ICMP.into();
    let code = key.get(Field::IcmpCode);
    let mtu = || {
        let at = MTU + if is_v4 { 20 } else { 40 };
        let bytes = frame.get(at..at + 2).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok());
        bytes.map_or(0, u16::from_be_bytes)
    };
    match (reason, is_v4) {
        (Reason::TimeExceeded, true) => "ICMP time exceeded".to_owned(),
        (Reason::TimeExceeded, false) => "ICMPv6 time exceeded".to_owned(),
        (Reason::NoRoute, true) => "ICMP network unreachable".to_owned(),
        (Reason::NoRoute, false) => "ICMPv6 no route to destination".to_owned(),
        (Reason::HostUnreachable, true) => "ICMP host unreachable".to_owned(),
        (Reason::HostUnreachable, false) => "ICMPv6 address unreachable".to_owned(),
        (Reason::Closed, true) if code == PORT => "ICMP port unreachable".to_owned(),
        (Reason::Closed, true) => "ICMP protocol unreachable".to_owned(),
        (Reason::Closed, false) if code == PORT_V6 => "ICMPv6 port unreachable".to_owned(),
        (Reason::Closed, false) => "ICMPv6 unrecognized next header".to_owned(),
        (Reason::TooBig, true) => format!("ICMP fragmentation needed, MTU {}", mtu()),
        (Reason::TooBig, false) => format!("ICMPv6 packet too big, MTU {}", mtu()),
        (Reason::Rejected, true) => "ICMP administratively prohibited".to_owned(),
        (Reason::Rejected, false) => "ICMPv6 administratively prohibited".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use frame_builder::{Endpoints, IPV4, IPV6, Ipv4, Ipv6, UDP, ethernet, udp};
    use openflow_rs::Action;

    use super::*;

    /// What is said of a query for the addresses of `a.b` that a flow hands over.
    fn said(kind: &str, settings: &[&str], is_ipv4: bool) -> String {
        let message =
            [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &b"\x01a\x01b\x00\x00\xff\x00\x01"[..]].concat();
        let datagram = |ends| udp(50_000, 53, &message, ends);
        let frame = if is_ipv4 {
            let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 53].into());
            ethernet(
                [2; 6],
                [4; 6],
                IPV4,
                &Ipv4::new(from, to, UDP).packet(&datagram(Endpoints::V4(from, to))),
            )
        } else {
            let (from, to) = ("fd00::1".parse().unwrap(), "fd00::53".parse().unwrap());
            ethernet(
                [2; 6],
                [4; 6],
                IPV6,
                &Ipv6::new(from, to, UDP).packet(&datagram(Endpoints::V6(from, to))),
            )
        };
        let into = "resubmit(,27)".parse().unwrap();
        let instruction = Instruction::from_settings(kind, settings.iter().copied(), into).unwrap();
        let Action::Controller(controller) = instruction.action(0) else { panic!("it hands packets over") };
        let key = Packet::new(frame.clone(), PortNo(1)).key().clone();
        let Responded::Answers { kind, what, ends, is_limited } =
            responded(&HandedOver { controller, bytes: frame, key }).0
        else {
            panic!("no answer")
        };
        assert_eq!((ends.is_some(), is_limited), (true, false), "{kind:?}");
        what
    }

    #[test]
    fn answers_of_dns_say_whether_there_is_a_record() {
        let key = packet_answers::name_key("a.b");
        assert_eq!(said("dns_question", &["key=xreg4"], true), format!("key {key:#x}"));
        let both = ["name=a.b", "ttl=60", "address=10.0.0.2", "address=fd00::2"];
        for (settings, what) in [
            (&both[..], "DNS answer with 2 records"),
            (&both[..3], "DNS answer with 1 record"),
            (&both[..2], "DNS answer, no such record"),
            (&["domain=b"], "DNS answer, no such name"),
            (&["domain=c"], "DNS answer, refused"),
        ] {
            assert_eq!(said("dns_answer", settings, true), what);
            assert_eq!(said("dns_answer", settings, false), what);
        }
    }
}

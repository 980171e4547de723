//! The responders of the hosts: they answer what the flow tables hand over to them, and their answers go through the same tables.
//!
//! The answers are those of `packet-answers`, which the process on a real host asks too. Limits of rate are left out: each packet is answered.

use std::collections::{BTreeMap, VecDeque};

use flow_simulator::trace::HandedOver;
use network_spec::{Arrival, Heard, Says};
use packet_answers::{Answered, CONTROLLER_ID, Instruction, Silence};

use crate::oracle;
use crate::simulation::{Hosts, Out};

/// The most packets that one frame makes hosts hand over. More are answers that ask for answers.
const MOST_HANDED_OVER: usize = 64;

/// What arrives somewhere because of a frame, after the frame itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Said {
    /// A message of the network.
    Heard(Heard),
    /// Any other frame.
    Frame(Vec<u8>),
}

impl Said {
    /// Whether a DHCP server or a DNS zone says it.
    pub(crate) fn is_of_server(&self) -> bool {
        let Said::Heard(heard) = self else { return false };
        matches!(heard.says, Says::Dhcpv4 { .. } | Says::Dhcpv6 { .. } | Says::Dns { .. })
    }
}

/// What is compared where routers translate IPv6: Open vSwitch damages the errors of `ICMPv6` that it translates, and a damaged one is no
/// message that anybody reads.
pub fn undamaged(all: Vec<Saying>) -> Vec<Saying> {
    const ETHERTYPE: std::ops::Range<usize> = 12..14;
    const IPV6: [u8; 2] = [0x86, 0xdd];
    let is_whole = |(_, said): &Saying| match said {
        Said::Heard(heard) => heard.addresses.0.is_ipv4() || !matches!(heard.says, Says::Error { .. }),
        Said::Frame(bytes) => bytes.get(ETHERTYPE) != Some(&IPV6[..]),
    };
    all.into_iter().filter(is_whole).collect()
}

/// Something that arrives, and where.
pub type Saying = (crate::Place, Said);

fn said(bytes: &[u8]) -> Said {
    Heard::read(bytes).map_or_else(|| Said::Frame(bytes.to_vec()), Said::Heard)
}

/// The messages of the model, sorted.
pub fn of_model(messages: &[Arrival]) -> Vec<Saying> {
    let saying = |arrival: &Arrival| (oracle::place(&arrival.at), said(&arrival.frame));
    let mut all: Vec<Saying> = messages.iter().map(saying).collect();
    all.sort();
    all
}

/// The messages of the hosts, sorted.
pub fn of_hosts(out: &[Out]) -> Vec<Saying> {
    let mut all: Vec<Saying> = out.iter().map(|out| (out.at.clone(), said(&out.bytes))).collect();
    all.sort();
    all
}

/// What comes of the packets that hosts have handed over.
#[derive(Default)]
pub struct Response {
    /// What arrives because of the answers, sorted.
    pub said: Vec<Out>,
    /// What arrives of the packets themselves: those of which the responder has read the name that they ask for, and which go on.
    pub went_on: Vec<Out>,
    /// The copies between hosts.
    pub copies: BTreeMap<(String, String), u64>,
}

/// Answers the packets that hosts have handed over, and those that they hand over because of the answers. Returns what arrives.
///
/// # Errors
/// A flow asks for what no responder understands, an answer is lost, or the answers do not end.
pub fn respond(hosts: &mut Hosts, handed: Vec<(String, HandedOver)>) -> Result<Response, String> {
    let mut all = Response::default();
    let mut waiting = VecDeque::from(handed);
    let mut count = 0;
    while let Some((host, handed)) = waiting.pop_front() {
        count += 1;
        if count > MOST_HANDED_OVER {
            return Err(format!("{host}: answers do not end"));
        }
        let HandedOver { controller, bytes, key } = handed;
        if controller.id != CONTROLLER_ID {
            return Err(format!(
                "{host}: a packet is handed over to {}, which is no responder",
                controller.id
            ));
        }
        let instruction =
            Instruction::decode(&controller.userdata).map_err(|why| format!("{host}: {why}"))?;
        let metadata = key.metadata();
        let answer = match instruction.answer(&bytes, &metadata) {
            Ok(answer) => answer,
            Err(Silence::UnknownReason) => return Err(format!("{host}: {}", Silence::UnknownReason)),
            Err(_) => continue,
        };
        let actions = instruction.actions_for(&metadata, &answer.loads);
        let passage = hosts.send_out(&host, answer.frame, &actions)?;
        let goes_on = answer.kind == Answered::DnsQuestion;
        (if goes_on { &mut all.went_on } else { &mut all.said }).extend(passage.out);
        for (hop, copies) in passage.copies {
            *all.copies.entry(hop).or_default() += copies;
        }
        waiting.extend(passage.handed);
    }
    all.said.sort();
    Ok(all)
}

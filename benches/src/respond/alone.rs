//! The responder's own code: from the bytes of a packet that the switch hands over to the bytes of the answer, without sockets.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use openflow_rs::message::PacketIn;
use openflow_rs::{Actions, Body, Field, Match, Message};
use packet_answers::{Instruction, Reason};
use responder::{Answering, Counts};

use super::packets::Sender;
use crate::measure::Clock;
use crate::report::{Aim, Line};

/// Receivers, each of which gets one answer in a run. So many that none reaches its limit of ten a second, and far more than the responder
/// remembers, so it forgets receivers all the time, as in a flood from forged sources.
const RECEIVERS: u32 = 1 << 17;
const ROUTER: &str = "10.0.0.254";
const ROUTER_MAC: [u8; 6] = [2, 0, 0xff, 0, 0, 1];

/// A question to the responder.
#[derive(Debug, Clone, Copy)]
enum Question {
    Exceeded,
    Refused,
    Offer,
}

/// Answers a second of each kind.
pub(crate) fn lines(runs: usize) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (question, name) in [
        (Question::Exceeded, "the responder's code alone, answers a second of processor time: time exceeded"),
        (Question::Refused, "… TCP resets"),
        (Question::Offer, "… DHCP offers"),
    ] {
        let messages: Vec<Vec<u8>> =
            (0..RECEIVERS).map(|receiver| question.handed_over(receiver)).collect::<Result<_>>()?;
        // The first run touches memory for the first time.
        let rates = (0..=runs).map(|_| answers_a_second(&messages)).collect::<Result<Vec<f64>>>()?;
        lines.push(Line::alone(name, 0, rates.into_iter().skip(1).collect(), Aim::AtLeast(50_000.0)));
    }
    Ok(lines)
}

/// Answers each of these messages.
fn answers_a_second(messages: &[Vec<u8>]) -> Result<f64> {
    let mut answering = Answering::new(Arc::<Counts>::default());
    let (clock, begun) = (Clock::start(), Instant::now());
    let mut out = Vec::new();
    for bytes in messages {
        let Message { body: Body::PacketIn(packet), .. } = Message::decode(bytes)? else {
            bail!("a message is no packet");
        };
        let answer = answering.respond(&packet, begun.elapsed())?;
        out.clear();
        Message { xid: 1, body: Body::PacketOut(answer) }.encode_into(&mut out)?;
    }
    let (_, processor) = clock.stop();
    let answered: u64 = ["time_exceeded", "closed", "dhcpv4_offer"]
        .into_iter()
        .filter_map(|name| answering.counts().get(name))
        .sum();
    ensure!(answered == messages.len() as u64, "answered: {}", answering.counts());
    Ok(answered as f64 / processor.as_secs_f64())
}

impl Question {
    /// What the switch hands over for one of the receivers.
    fn handed_over(self, receiver: u32) -> Result<Vec<u8>> {
        let [_, high, middle, low] = receiver.to_be_bytes();
        let mac = [2, 0, 0, high, middle, low];
        let sender = Sender { mac, ip: Ipv4Addr::new(10, 1 + high, middle, low), router: ROUTER_MAC };
        let back: Actions = "set_field:0x3->reg5,set_field:0x77->metadata,resubmit(,27)".parse()?;
        let settings: Vec<String> = match self {
            Question::Exceeded | Question::Refused => {
                vec!["question=reg4".into(), format!("from.000={ROUTER}/8"), "from.001=fd00::fe/64".into()]
            }
            Question::Offer => {
                let own = [
                    format!("address={}", sender.ip),
                    format!("client_mac=02:00:00:{high:02x}:{middle:02x}:{low:02x}"),
                    format!("server={ROUTER}"),
                    format!("router={ROUTER}"),
                ];
                let others = [
                    "net=10.0.0.0/8",
                    "server_mac=02:00:ff:00:00:01",
                    "lease=3600",
                    "dns.000=10.0.0.53",
                    "dns.001=10.0.0.52",
                    "domain_name=a.example",
                    "mtu=1442",
                    "keep=metadata",
                    "keep=reg0",
                ];
                own.into_iter().chain(others.map(str::to_owned)).collect()
            }
        };
        let kind = if matches!(self, Question::Offer) { "dhcpv4" } else { "error" };
        let instruction = Instruction::from_settings(kind, settings.iter().map(String::as_str), back)?;
        let (frame, reason) = match self {
            Question::Exceeded => {
                (sender.datagram("192.0.2.1".parse()?, 1, 33_000), Some(Reason::TimeExceeded))
            }
            Question::Refused => (sender.connect(ROUTER.parse()?, 33_000), Some(Reason::Closed)),
            Question::Offer => (sender.discover(33_000), None),
        };
        let mut metadata = Match::any().with(Field::Metadata, 0x77)?.with(Field::Reg0, 5)?;
        if let Some(reason) = reason {
            metadata = metadata.with(Field::Reg4, u128::from(reason as u16) << 16)?;
        }
        let packet = PacketIn { userdata: instruction.encode(), ..PacketIn::new(metadata, frame) };
        Message { xid: 0, body: Body::PacketIn(packet) }.encode().context("a packet that is handed over")
    }
}

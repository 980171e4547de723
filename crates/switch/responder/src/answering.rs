//! From a packet that the switch hands over to the message that takes the answer back.

use std::sync::Arc;
use std::time::Duration;

use openflow_rs::message::{PacketIn, PacketOut};
use openflow_rs::{Field, PortNo};
use packet_answers::{Answered, Instruction, Limit, Malformed, Silence};

use crate::counts::Counts;

/// Why a packet gets no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// It must not be answered, or cannot be.
    #[error("{0}")]
    Silence(Silence),
    /// What the flow says of it cannot be read.
    #[error("{0}")]
    Instruction(Malformed),
    /// The switch takes no answers fast enough, so this one is dropped.
    #[error("the switch has not taken earlier answers")]
    Slow,
}

impl From<Silence> for NoAnswer {
    fn from(silence: Silence) -> NoAnswer {
        NoAnswer::Silence(silence)
    }
}

/// Answers packets, with the limit of each receiver.
#[derive(Debug)]
pub struct Answering {
    limit: Limit,
    counts: Arc<Counts>,
}

impl Answering {
    /// Nobody has got an answer yet.
    pub fn new(counts: Arc<Counts>) -> Answering {
        Answering { limit: Limit::default(), counts }
    }

    /// The message that takes the answer to this packet back into the pipeline. `now` is the time since any moment that stays the same.
    ///
    /// # Errors
    /// There is no answer. It has been counted.
    pub fn respond(&mut self, packet: &PacketIn, now: Duration) -> Result<PacketOut, NoAnswer> {
        let responded = self.responded(packet, now);
        match &responded {
            Ok((kind, _)) => self.counts.answered(*kind),
            Err(why) => self.counts.silent(why),
        }
        responded.map(|(_, message)| message)
    }

    fn responded(&mut self, packet: &PacketIn, now: Duration) -> Result<(Answered, PacketOut), NoAnswer> {
        let instruction = Instruction::decode(&packet.userdata).map_err(NoAnswer::Instruction)?;
        let answer = instruction.answer(&packet.packet, &packet.metadata)?;
        // The datapath is a router or a switch, whose senders have a share each.
        let datapath = packet.metadata.get(Field::Metadata).map_or(0, |(value, _)| value as u64);
        if let Some(receiver) = answer.to {
            self.limit.take(datapath, receiver, now)?;
        }
        // As from the bridge itself: where flows track connections, Open vSwitch takes the packet up again by the port that it came from,
        // and loses one that came from none. The flows say whether it may leave by any port.
        let actions = instruction.actions_for(&packet.metadata, &answer.loads);
        Ok((answer.kind, PacketOut::from_port(PortNo::LOCAL, actions, answer.frame)))
    }

    /// The counts that it keeps.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use frame_builder::{Endpoints, IPV4, Ipv4, UDP, ethernet, udp};
    use openflow_rs::{Actions, Match};
    use packet_answers::name_key;

    use super::*;

    /// A query for the address of `a.b`, handed over with these settings.
    fn handed_over(kind: &str, settings: &[&str]) -> PacketIn {
        let into = "resubmit(,27)".parse().unwrap();
        let instruction = Instruction::from_settings(kind, settings.iter().copied(), into).unwrap();
        let message =
            [&[0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &b"\x01a\x01b\x00\x00\x01\x00\x01"[..]].concat();
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 53].into());
        let datagram = udp(50_000, 53, &message, Endpoints::V4(from, to));
        let frame = ethernet([2; 6], [4; 6], IPV4, &Ipv4::new(from, to, UDP).packet(&datagram));
        let metadata: Match = "metadata=0x77".parse().unwrap();
        PacketIn { userdata: instruction.encode(), ..PacketIn::new(metadata, frame) }
    }

    #[test]
    fn a_query_goes_back_with_its_key_and_is_then_answered() {
        let mut answering = Answering::new(Arc::default());
        let question = handed_over("dns_question", &["key=xreg4", "keep=metadata"]);
        let sent = answering.respond(&question, Duration::ZERO).unwrap();
        let key = name_key("a.b");
        let wanted: Actions =
            format!("load:0x77->metadata,load:{key:#x}->xreg4,resubmit(,27)").parse().unwrap();
        assert_eq!((&sent.data, &sent.actions), (&question.packet, &wanted));
        let question =
            handed_over("dns_answer", &["name=a.b", "ttl=60", "address=10.0.0.2", "keep=metadata"]);
        let sent = answering.respond(&question, Duration::ZERO).unwrap();
        assert_eq!(sent.actions, "load:0x77->metadata,resubmit(,27)".parse::<Actions>().unwrap());
        assert!(sent.data.ends_with(&[0, 4, 10, 0, 0, 2]), "{:02x?}", sent.data);
        assert_eq!(answering.counts().to_string(), "dns_looked_up 1, dns 1");
    }

    #[test]
    fn a_machine_may_look_up_more_names_than_it_gets_errors() {
        let mut answering = Answering::new(Arc::default());
        for (kind, settings) in [("dns_question", &["key=xreg4"][..]), ("dns_answer", &["domain=b"])] {
            let question = handed_over(kind, settings);
            for _ in 0..1000 {
                assert!(answering.respond(&question, Duration::ZERO).is_ok());
            }
        }
        assert_eq!(answering.counts().get("limited"), Some(0));
    }
}

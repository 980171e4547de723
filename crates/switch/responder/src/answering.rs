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

//! Questions for the MAC address of the machine that a packet is for, when nobody knows it yet.

use std::net::IpAddr;

use frame_builder::Mac;

use crate::headers::is_host;
use crate::received::Received;
use crate::userdata::{Malformed, Reader, put_ip};
use crate::{Answer, Answered, Receiver, Silence, Solicitation};

/// Bits of the format.
const IS_IPV6: u8 = 0x01;

/// Who asks for the destinations of packets. The packets themselves are lost, as where a queue for them is full: their senders send again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The MAC address that asks, to which the answer goes.
    pub mac: Mac,
    /// The address that asks.
    pub from: IpAddr,
}

impl Resolution {
    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.mac);
        out.push(if self.from.is_ipv6() { IS_IPV6 } else { 0 });
        put_ip(out, self.from);
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Resolution, Malformed> {
        let (mac, flags) = (reader.mac()?, reader.u8()?);
        if flags & !IS_IPV6 != 0 {
            return Err(Malformed::Flags(flags));
        }
        Ok(Resolution { mac, from: reader.ip(flags & IS_IPV6 != 0)? })
    }

    /// The question for the destination of a packet: an ARP request or a neighbour solicitation. Its share is that of the destination, so
    /// many packets to one machine cause few questions.
    pub(crate) fn answer(&self, frame: &[u8]) -> Result<Answer, Silence> {
        let received = Received::read(frame)?;
        let target = received.to;
        if !is_host(target) {
            return Err(Silence::ToGroup);
        }
        // Asked once, by whoever sends: nothing is repeated, and no port is watched.
        let question =
            Solicitation { mac: self.mac, from: self.from, target, interval: 1, watch: Vec::new() };
        let frame = question.frame().ok_or(Silence::NoAddress)?;
        Ok(Answer::new(frame, Receiver::Ip(target), Answered::Solicitation))
    }
}

//! Packets that a switch is handed, with what it is to do with them.

use std::sync::Arc;

use nlog_data::Packed;
use openflow_rs::Actions;

/// The ethertype for local experiments (IEEE 802): no machine takes a probe for a packet of its own.
const EXPERIMENT: u16 = 0x88b5;
/// Addresses that nobody has: locally administered.
const FROM: frame_builder::Mac = [0x02, 0, 0, 0, 0, 0x01];
const TO: frame_builder::Mac = [0x02, 0, 0, 0, 0, 0x02];

/// The bytes of an Ethernet header.
const HEADER: usize = 14;

/// A packet, and what the switch does with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// What the switch does.
    pub actions: Packed<Actions>,
    /// The frame.
    pub frame: Arc<[u8]>,
}

impl Packet {
    /// A packet with which the switch does this.
    pub fn new(actions: Actions, frame: Arc<[u8]>) -> Packet {
        Packet { actions: Packed::new(&actions), frame }
    }
}

/// The frame of a probe that carries so many bytes, without its Ethernet header.
pub fn probe_frame(bytes: usize) -> Arc<[u8]> {
    frame_builder::ethernet(TO, FROM, EXPERIMENT, &vec![0; bytes]).into()
}

/// How many bytes a flow counts for the frame of a probe that carries so many.
pub fn probe_length(bytes: usize) -> u64 {
    (bytes + HEADER) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_as_long_as_it_is_counted() {
        for bytes in [46, 1442, 65_000] {
            let frame = probe_frame(bytes);
            assert_eq!((frame.len() as u64, &frame[12..14]), (probe_length(bytes), &[0x88, 0xb5][..]));
        }
    }
}

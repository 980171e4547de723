//! A packet and the fields that a switch parsed from it.

use openflow_rs::{Field, PortNo};

use crate::FlowKey;
use crate::extract::VlanLimit;
use crate::rewrite::Frame;

/// A packet on its way into a bridge: its bytes, the fields parsed from them, and its metadata.
///
/// ```
/// use flow_simulator::Packet;
/// use openflow_rs::{Field, PortNo};
/// let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xcc][..], b"who is there"].concat();
/// let packet = Packet::new(frame, PortNo(3)).with(Field::TunId, 0x101);
/// assert_eq!(packet.key().get(Field::EthType), 0x88cc);
/// assert_eq!(packet.key().get(Field::InPort), 3);
/// assert_eq!(packet.key().get(Field::TunId), 0x101);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub(crate) frame: Frame,
    limit: VlanLimit,
    key: FlowKey,
}

impl Packet {
    /// Parses a packet from a port. No bytes are refused: truncated or invalid parts leave fields at 0.
    ///
    /// One VLAN tag is read, as by default in Open vSwitch. A bridge with another limit reads the packet again.
    pub fn new(bytes: Vec<u8>, in_port: PortNo) -> Packet {
        let frame = Frame::new(bytes, in_port, VlanLimit::default());
        Packet { key: frame.key().clone(), limit: VlanLimit::default(), frame }
    }

    /// The packet as a switch reads it that reads this many VLAN tags. Its metadata stays.
    #[must_use]
    pub fn with_vlan_limit(self, limit: VlanLimit) -> Packet {
        if limit == self.limit {
            return self;
        }
        let frame = Frame::new(self.frame.bytes().to_vec(), PortNo(self.key.in_port), limit);
        let FlowKey { registers, metadata, in_port, pkt_mark, tunnel, ct, .. } = self.key;
        let key = FlowKey { registers, metadata, in_port, pkt_mark, tunnel, ct, ..frame.key().clone() };
        Packet { frame, limit, key }
    }

    /// The packet with metadata: a tunnel's key and addresses, a mark, a register. Fields of the packet itself are
    /// ignored here; change its bytes instead.
    pub fn with(mut self, field: Field, value: u128) -> Packet {
        if field <= Field::InPortOxm {
            self.key.set(field, value);
        }
        self
    }

    /// The bytes as they came.
    pub fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }

    /// The fields.
    pub fn key(&self) -> &FlowKey {
        &self.key
    }
}

//! What a flow says of packets that owe an error.

use std::net::IpAddr;

use openflow_rs::{Match, Subfield};

use crate::userdata::{Malformed, Reader};
use crate::{Answer, Reason, Silence, answer_error};

/// An address of a router's port, with the length of the prefix of the network that it connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// The bits of its network.
    pub prefix: u8,
}

impl Address {
    /// Whether an address is in the network.
    pub fn connects(self, other: IpAddr) -> bool {
        let differing = match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        differing >= self.prefix.into()
    }
}

/// A number that the flow knows, or that the packet carries through the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The number itself.
    Constant(u16),
    /// Bits of a field that is not in the packet, such as a register.
    Field(Subfield),
}

impl Operand {
    /// The number for a packet with these fields.
    pub fn of(self, metadata: &Match) -> u64 {
        match self {
            Operand::Constant(number) => number.into(),
            Operand::Field(bits) => value_of(bits, metadata) as u64,
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        let bytes = match self {
            Operand::Constant(number) => {
                let [high, low] = number.to_be_bytes();
                [0, 0, 0, 0, high, low]
            }
            Operand::Field(bits) => bits.to_bytes(),
        };
        out.extend_from_slice(&bytes);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Operand, Malformed> {
        match reader.take()? {
            [0, 0, 0, 0, high, low] => Ok(Operand::Constant(u16::from_be_bytes([high, low]))),
            field => Ok(Operand::Field(Subfield::from_bytes(field)?)),
        }
    }
}

/// The bits of a field in the fields of a packet, which leave out those that are 0.
pub(crate) fn value_of(bits: Subfield, metadata: &Match) -> u128 {
    let value = metadata.get(bits.field()).map_or(0, |(value, _)| value);
    (value & bits.mask()) >> bits.start()
}

/// An ICMP error or a TCP reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorAsk {
    /// The number of a [`Reason`].
    pub reason: Operand,
    /// The MTU of the next network, in bytes; 0 where no packet is too big.
    pub mtu: Operand,
    /// The addresses of which one is the source of an error. None: the destination of the packet answers itself.
    pub addresses: Vec<Address>,
}

impl ErrorAsk {
    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.reason.encode(out);
        self.mtu.encode(out);
        let of_version = |is_ipv4: bool| {
            let own = self.addresses.iter().filter(move |own| own.address.is_ipv4() == is_ipv4);
            own.take(usize::from(u8::MAX))
        };
        out.extend([true, false].map(|is_ipv4| of_version(is_ipv4).count() as u8));
        for own in [true, false].into_iter().flat_map(of_version) {
            match own.address {
                IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
            }
            out.push(own.prefix);
        }
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<ErrorAsk, Malformed> {
        let (reason, mtu) = (Operand::decode(reader)?, Operand::decode(reader)?);
        let [ipv4, ipv6] = reader.take()?;
        let mut addresses = reader.list(ipv4, |reader| {
            Ok(Address { address: reader.ipv4()?.into(), prefix: reader.prefix(32)? })
        })?;
        addresses.extend(reader.list(ipv6, |reader| {
            Ok(Address { address: reader.ipv6()?.into(), prefix: reader.prefix(128)? })
        })?);
        Ok(ErrorAsk { reason, mtu, addresses })
    }

    pub(crate) fn answer(&self, frame: &[u8], metadata: &Match) -> Result<Answer, Silence> {
        let reason = Reason::of(self.reason.of(metadata)).ok_or(Silence::UnknownReason)?;
        let mtu = u32::try_from(self.mtu.of(metadata)).unwrap_or(u32::MAX);
        answer_error(frame, reason, mtu, &self.addresses)
    }
}

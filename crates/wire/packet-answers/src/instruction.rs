//! What a flow says of the packets that it hands over, as bytes in `userdata`.

use std::fmt;
use std::net::IpAddr;

use openflow_rs::action::Controller;
use openflow_rs::{Action, Actions, DecodeError, Match, Subfield};

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
            Operand::Field(bits) => {
                let value = metadata.get(bits.field()).map_or(0, |(value, _)| value);
                ((value & bits.mask()) >> bits.start()) as u64
            }
        }
    }
}

/// The number by which flows name the responder of their host (`id` of the action `controller`).
pub const CONTROLLER_ID: u16 = 7;

/// What a flow says of the packets that it hands over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The number of a [`Reason`](crate::Reason).
    pub reason: Operand,
    /// The MTU of the next network, in bytes; 0 where no packet is too big.
    pub mtu: Operand,
    /// The addresses of which one is the source of an error. None: the destination of the packet answers itself.
    pub addresses: Vec<Address>,
    /// What brings the answer into the pipeline.
    pub actions: Actions,
}

/// The version of the format, and its first byte.
const VERSION: u8 = 1;

/// Bytes are no instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malformed {
    /// They begin with another version than this one's.
    Version(u8),
    /// They end too early.
    Short,
    /// A prefix has more bits than its address.
    Prefix(u8),
    /// A field or an action is unknown or malformed.
    OpenFlow(DecodeError),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Version(found) => write!(
                f,
                "the userdata of the flow has format {found}, and this responder reads format {VERSION}: run the version of \
                 weft that the controller has"
            ),
            Malformed::Short => f.write_str("the userdata of the flow ends too early"),
            Malformed::Prefix(bits) => write!(f, "the userdata of the flow has a prefix of {bits} bits"),
            Malformed::OpenFlow(error) => write!(f, "the userdata of the flow: {error}"),
        }
    }
}

impl std::error::Error for Malformed {}

impl From<DecodeError> for Malformed {
    fn from(error: DecodeError) -> Malformed {
        Malformed::OpenFlow(error)
    }
}

impl Instruction {
    /// The bytes:
    ///
    /// | bytes | what |
    /// |---|---|
    /// | 1 | 1, the version |
    /// | 6 | the reason: the NXM or OXM header of a field, and its first bit and number of bits as in actions of Nicira; or four zeros and a number |
    /// | 6 | the MTU, in the same way |
    /// | 1, 1 | the numbers of IPv4 and IPv6 addresses |
    /// | 5 each | an IPv4 address, and the length of its prefix |
    /// | 17 each | an IPv6 address, and the length of its prefix |
    /// | the rest | OpenFlow actions |
    ///
    /// Of more than 255 addresses of an IP version, the first 255 are written.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for operand in [self.reason, self.mtu] {
            let bytes = match operand {
                Operand::Constant(number) => {
                    let [high, low] = number.to_be_bytes();
                    [0, 0, 0, 0, high, low]
                }
                Operand::Field(bits) => bits.to_bytes(),
            };
            out.extend_from_slice(&bytes);
        }
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
        out.extend_from_slice(&self.actions.list_to_wire());
        out
    }

    /// The action that hands packets over.
    pub fn action(&self) -> Action {
        Controller::new(CONTROLLER_ID, self.encode()).into()
    }

    /// Reads what [`encode`](Self::encode) writes.
    ///
    /// # Errors
    /// The bytes are no instruction of this version.
    pub fn decode(bytes: &[u8]) -> Result<Instruction, Malformed> {
        let mut rest = bytes;
        let [version] = take(&mut rest)?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let (reason, mtu) = (operand(&mut rest)?, operand(&mut rest)?);
        let [ipv4, ipv6] = take(&mut rest)?;
        let mut addresses = Vec::with_capacity(usize::from(ipv4) + usize::from(ipv6));
        for _ in 0..ipv4 {
            addresses.push(address::<4>(&mut rest)?);
        }
        for _ in 0..ipv6 {
            addresses.push(address::<16>(&mut rest)?);
        }
        Ok(Instruction { reason, mtu, addresses, actions: Actions::list_from_wire(rest)? })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, behind) = rest.split_first_chunk().ok_or(Malformed::Short)?;
    *rest = behind;
    Ok(*taken)
}

fn operand(rest: &mut &[u8]) -> Result<Operand, Malformed> {
    match take(rest)? {
        [0, 0, 0, 0, high, low] => Ok(Operand::Constant(u16::from_be_bytes([high, low]))),
        field => Ok(Operand::Field(Subfield::from_bytes(field)?)),
    }
}

fn address<const N: usize>(rest: &mut &[u8]) -> Result<Address, Malformed>
where
    IpAddr: From<[u8; N]>,
{
    let address = take::<N>(rest)?;
    let [prefix] = take(rest)?;
    if usize::from(prefix) > 8 * N {
        return Err(Malformed::Prefix(prefix));
    }
    Ok(Address { address: address.into(), prefix })
}

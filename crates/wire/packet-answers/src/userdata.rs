//! Reading the bytes of `userdata`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::Mac;
use openflow_rs::{DecodeError, Subfield};

/// The version of the format, and its first byte.
pub(crate) const VERSION: u8 = 1;

/// Bytes are no instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malformed {
    /// They begin with another version than this one's.
    Version(u8),
    /// They ask for something else than is known.
    Kind(u8),
    /// They end too early.
    Short,
    /// A prefix has more bits than its address.
    Prefix(u8),
    /// Flags have a bit or a value that is not defined.
    Flags(u8),
    /// A field whose value is to be kept cannot be set.
    Kept(Subfield),
    /// A field for the key of a name has not 64 bits, or cannot be set.
    Key(Subfield),
    /// A domain name is too long or compressed.
    Name,
    /// The name of an interface is empty, no text, or has a comma.
    Interface,
    /// A probe has a part that none can have, or parts that do not fit together.
    Probe,
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
            Malformed::Kind(found) => write!(
                f,
                "the userdata of the flow asks for answers of kind {found}, which is not known: run the version of weft that \
                 the controller has"
            ),
            Malformed::Short => f.write_str("the userdata of the flow ends too early"),
            Malformed::Prefix(bits) => write!(f, "the userdata of the flow has a prefix of {bits} bits"),
            Malformed::Flags(bits) => {
                write!(f, "the userdata of the flow has undefined flags: {bits:#04x}")
            }
            Malformed::Kept(field) => {
                write!(f, "the userdata of the flow keeps {field}, which no action can set")
            }
            Malformed::Key(field) => {
                write!(
                    f,
                    "the userdata of the flow wants a key in {field}, which is no 64 bits that an action can set"
                )
            }
            Malformed::Name => f.write_str("the userdata of the flow has a malformed domain name"),
            Malformed::Interface => {
                f.write_str("the userdata of the flow has a malformed name of an interface")
            }
            Malformed::Probe => f.write_str("the userdata of the flow has a malformed probe"),
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

/// Takes values off the front of the bytes.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, behind) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = behind;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.take().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn mac(&mut self) -> Result<Mac, Malformed> {
        self.take()
    }

    pub(crate) fn ipv4(&mut self) -> Result<Ipv4Addr, Malformed> {
        self.take::<4>().map(Ipv4Addr::from)
    }

    pub(crate) fn ipv6(&mut self) -> Result<Ipv6Addr, Malformed> {
        self.take::<16>().map(Ipv6Addr::from)
    }

    /// An address of an IP version that was read before.
    pub(crate) fn ip(&mut self, is_ipv6: bool) -> Result<IpAddr, Malformed> {
        if is_ipv6 { self.ipv6().map(IpAddr::V6) } else { self.ipv4().map(IpAddr::V4) }
    }

    /// A number of bits that is at most this.
    pub(crate) fn prefix(&mut self, most: u8) -> Result<u8, Malformed> {
        let bits = self.u8()?;
        if bits > most { Err(Malformed::Prefix(bits)) } else { Ok(bits) }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, behind) = self.0.split_at_checked(length).ok_or(Malformed::Short)?;
        self.0 = behind;
        Ok(taken)
    }

    /// So many items, each read by the same function.
    pub(crate) fn list<T>(
        &mut self,
        count: u8,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        (0..count).map(|_| item(self)).collect()
    }
}

/// Appends an address, as [`Reader::ip`] reads it.
pub(crate) fn put_ip(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// The items of a list whose number one byte can say: the first 255.
pub(crate) fn countable<T>(items: &[T]) -> &[T] {
    items.get(..usize::from(u8::MAX)).unwrap_or(items)
}

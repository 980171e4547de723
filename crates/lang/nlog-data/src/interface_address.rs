//! Addresses of interfaces: an IP address with the length of its prefix, host bits kept.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// The address of an interface, such as `10.0.0.254/24`: ordered by address, then length.
///
/// It is a type of its own, although an [`IpNet`] can hold it: a prefix without host bits and an address in it are
/// different values, also where the two print alike (`10.0.0.0/24`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceAddress(IpNet);

/// Why a text is not the address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceAddressError {
    /// It begins with no IP address.
    #[error("not an IP address with the length of its prefix, such as 10.0.0.254/24")]
    Address,
    /// It is an IP address alone.
    #[error("the length of the prefix is missing; write it as {ip}/{}", if ip.is_ipv4() { 24 } else { 64 })]
    NoLength {
        /// The address.
        ip: IpAddr,
    },
    /// What follows the address is not the length of a prefix.
    #[error("the length of the prefix must be a number from 0 to {most}")]
    Length {
        /// The number of bits of the address.
        most: u8,
    },
}

impl InterfaceAddress {
    /// An address and the length of its prefix in bits; none if the address has fewer bits.
    pub fn new(ip: IpAddr, length: u8) -> Option<Self> {
        IpNet::new(ip, length).ok().map(InterfaceAddress)
    }

    /// The address.
    pub fn ip(self) -> IpAddr {
        self.0.addr()
    }

    /// The length of the prefix in bits.
    pub fn length(self) -> u8 {
        self.0.prefix_len()
    }

    /// The prefix that contains the address, without host bits.
    pub fn net(self) -> IpNet {
        self.0.trunc()
    }
}

/// Writes the canonical form: IPv6 addresses as in RFC 5952.
impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for InterfaceAddress {
    type Err = InterfaceAddressError;

    fn from_str(text: &str) -> Result<Self, InterfaceAddressError> {
        let (ip, length) = match text.split_once('/') {
            Some((ip, length)) => (ip, Some(length)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| InterfaceAddressError::Address)?;
        let length = length.ok_or(InterfaceAddressError::NoLength { ip })?;
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let address = length.parse().ok().filter(|_| is_number).and_then(|length| Self::new(ip, length));
        address.ok_or(InterfaceAddressError::Length { most: if ip.is_ipv4() { 32 } else { 128 } })
    }
}

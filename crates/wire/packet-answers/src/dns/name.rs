//! Domain names, and the numbers by which flows know them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::userdata::{Malformed, Reader};

/// The bytes of a label (RFC 1035, 3.1).
const LABEL_MAX: usize = 63;
/// The bytes of a name with the lengths of its labels.
const NAME_MAX: usize = 255;
/// The domains of reverse names (RFC 1035, 3.5; RFC 3596, 2.5).
const REVERSE_IPV4: &str = ".in-addr.arpa";
const REVERSE_IPV6: &str = ".ip6.arpa";

/// A number of 63 bits for a domain name, by which a flow matches it: the same on every run, version and machine, and never 0.
///
/// Case and a dot at the end make no difference. A reverse name has the number of its address as text, so rules ask for an address
/// without writing it backwards. Two names may have the same number: whoever answers compares the names.
///
/// The bytes of the name in lower case go through FNV-1a of 64 bits (offset basis 0xcbf29ce484222325, prime 0x100000001b3), whose result `h` is
/// mixed as the finalizer of `MurmurHash3` does: `h ^= h >> 33; h *= 0xff51afd7ed558ccd; h ^= h >> 33; h *= 0xc4ceb9fe1a85ec53;
/// h ^= h >> 33`. The lowest bit is then shifted out. Should 0 be left, it is 1.
///
/// ```
/// use packet_answers::name_key;
///
/// assert_eq!(name_key("DB.blue.example."), name_key("db.blue.example"));
/// assert_eq!(name_key("2.0.0.10.in-addr.arpa"), name_key("10.0.0.2"));
/// ```
pub fn name_key(name: &str) -> u64 {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let address = name.parse().ok().or_else(|| reversed(&name));
    let name = address.map_or(name, |address: IpAddr| address.to_string());
    let mut h = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        h = (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 33;
    (h >> 1).max(1)
}

/// The address of a reverse name in lower case.
fn reversed(name: &str) -> Option<IpAddr> {
    /// Four bits each.
    const NIBBLES: usize = 32;
    if let Some(digits) = name.strip_suffix(REVERSE_IPV4) {
        let octets: Vec<&str> = digits.split('.').rev().collect();
        // It has four octets without zeros in front, or it is no address.
        return octets.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    let nibbles: Vec<&str> = name.strip_suffix(REVERSE_IPV6)?.split('.').collect();
    let is_whole = nibbles.len() == NIBBLES && nibbles.iter().all(|nibble| nibble.len() == 1);
    let digits = nibbles.into_iter().rev().collect::<String>();
    // A sign is no digit, though numbers may begin with one.
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let bits = u128::from_str_radix(&digits, 16).ok().filter(|_| is_whole && is_hexadecimal)?;
    Some(Ipv6Addr::from_bits(bits).into())
}

/// A domain name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainName {
    /// Labels with their lengths, and the root.
    bytes: Vec<u8>,
}

/// Text that is no domain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoDomainName;

impl fmt::Display for NoDomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not a domain name: write it as in example.com")
    }
}

impl std::error::Error for NoDomainName {}

impl FromStr for DomainName {
    type Err = NoDomainName;

    /// Letters, digits, hyphens inside of labels, and underscores, which are not for names of hosts, but in use.
    fn from_str(name: &str) -> Result<DomainName, NoDomainName> {
        let is_label = |label: &str| {
            (1..=LABEL_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut bytes = Vec::with_capacity(name.len() + 2);
        for label in name.split('.') {
            if !is_label(label) {
                return Err(NoDomainName);
            }
            bytes.push(label.len() as u8);
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        if bytes.len() <= NAME_MAX { Ok(DomainName { bytes }) } else { Err(NoDomainName) }
    }
}

impl fmt::Display for DomainName {
    /// Labels with dots between. Any byte that is no printable character of ASCII, or means something here, is written as `\DDD` (RFC
    /// 1035, 5.1): two names have the same text only if they are the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for (label, _) in self.labels() {
            if !is_first {
                f.write_str(".")?;
            }
            is_first = false;
            for byte in label {
                if byte.is_ascii_graphic() && !b".\\".contains(byte) {
                    write!(f, "{}", char::from(*byte))?;
                } else {
                    write!(f, "\\{byte:03}")?;
                }
            }
        }
        if is_first { f.write_str(".") } else { Ok(()) }
    }
}

impl DomainName {
    /// The name above all names, of which nobody has records here.
    pub(crate) fn root() -> DomainName {
        DomainName { bytes: vec![0] }
    }

    /// The name under which an address is looked up.
    pub fn reverse(address: IpAddr) -> DomainName {
        let (digits, domain): (Vec<String>, &str) = match address {
            IpAddr::V4(v4) => (v4.octets().iter().rev().map(u8::to_string).collect(), REVERSE_IPV4),
            IpAddr::V6(v6) => {
                let nibbles = v6.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
                (nibbles.map(|nibble| format!("{nibble:x}")).collect(), REVERSE_IPV6)
            }
        };
        // Labels of digits, and not too many of them.
        format!("{}{domain}", digits.join(".")).parse().unwrap_or_else(|NoDomainName| DomainName::root())
    }

    /// Reads a name without compression.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<DomainName, Malformed> {
        let mut bytes = Vec::new();
        loop {
            let length = reader.u8()?;
            bytes.push(length);
            bytes.extend_from_slice(match length.into() {
                length @ 0..=LABEL_MAX => reader.bytes(length)?,
                _ => return Err(Malformed::Name),
            });
            match length {
                _ if bytes.len() > NAME_MAX => return Err(Malformed::Name),
                0 => return Ok(DomainName { bytes }),
                _ => {}
            }
        }
    }

    /// As DNS has it: labels with their lengths, and the root.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_root(&self) -> bool {
        self.labels().next().is_none()
    }

    /// Each label, with the name that begins with it.
    fn labels(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first().filter(|(length, _)| **length != 0)?;
            let (label, next) = behind.split_at_checked((*length).into())?;
            let from_here = std::mem::replace(&mut rest, next);
            Some((label, from_here))
        })
    }

    /// Whether both are the same name, whatever their case (RFC 4343).
    pub fn is(&self, other: &DomainName) -> bool {
        // A length is less than any letter.
        self.bytes.eq_ignore_ascii_case(&other.bytes)
    }

    /// Whether it is below another name.
    pub fn is_under(&self, domain: &DomainName) -> bool {
        // Behind the first label; a name is not below itself.
        let mut above = self.labels().skip(1).map(|(_, name)| name);
        above.any(|name| name.eq_ignore_ascii_case(&domain.bytes)) || (domain.is_root() && !self.is_root())
    }

    /// The [`name_key`] of a name that is asked for. 0 for one that looks like an address, and would have the number of that.
    pub(crate) fn key(&self) -> u64 {
        let text = self.to_string();
        if text.parse::<IpAddr>().is_ok() { 0 } else { name_key(&text) }
    }
}

//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use crate::ParseError;

/// An Ethernet (MAC) address; prints in lower case with colons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// The address as a 48-bit number, first byte highest.
    pub fn to_u64(self) -> u64 {
        self.0.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }

    /// The low 48 bits of `n` as an address; higher bits are ignored.
    pub fn from_u64(n: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = n.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }
}

impl From<MacAddr> for u128 {
    fn from(mac: MacAddr) -> u128 {
        u128::from(mac.to_u64())
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddr {
    type Err = ParseError;

    /// Six groups of one or two hexadecimal digits, colons between.
    fn from_str(text: &str) -> Result<MacAddr, ParseError> {
        let bad = || ParseError::value(text, "MAC address, as in 00:11:22:33:44:55");
        let mut bytes = [0; 6];
        let mut groups = text.split(':');
        for byte in &mut bytes {
            let group = groups.next().ok_or_else(bad)?;
            if group.is_empty() || group.len() > 2 || !group.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(bad());
            }
            *byte = u8::from_str_radix(group, 16).map_err(|_| bad())?;
        }
        if groups.next().is_some() {
            return Err(bad());
        }
        Ok(MacAddr(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_lower_case_and_reads_what_it_prints() {
        let mac: MacAddr = "0A:b:00:ff:1:02".parse().expect("a MAC");
        assert_eq!(mac.to_string(), "0a:0b:00:ff:01:02");
        assert_eq!(mac.to_string().parse(), Ok(mac));
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:100", "1:2:3:4:5:+1", "g:2:3:4:5:6"] {
            assert!(text.parse::<MacAddr>().is_err(), "{text}");
        }
    }
}

//! OpenFlow port numbers: 16 bits in Open vSwitch and its text, 32 on the wire since OpenFlow 1.1.

use std::fmt;
use std::str::FromStr;

use crate::ParseError;

/// A port number as Open vSwitch uses it: 16 bits, the reserved ports at the top.
///
/// `LOCAL` is 65534 here (OVSDB's `ofport`) and 0xfffffffe on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNo(pub u16);

/// The names Open vSwitch prints for reserved ports, and their numbers.
const RESERVED: [(u16, &str); 9] = [
    (0xfff7, "UNSET"),
    (0xfff8, "IN_PORT"),
    (0xfff9, "TABLE"),
    (0xfffa, "NORMAL"),
    (0xfffb, "FLOOD"),
    (0xfffc, "ALL"),
    (0xfffd, "CONTROLLER"),
    (0xfffe, "LOCAL"),
    (0xffff, "ANY"),
];

impl PortNo {
    /// Ordinary ports are below this number.
    pub const MAX: u16 = 0xff00;
    /// The ingress port.
    pub const IN_PORT: PortNo = PortNo(0xfff8);
    /// Submit to the first table (packet-out only).
    pub const TABLE: PortNo = PortNo(0xfff9);
    /// Forwarding as an ordinary learning switch.
    pub const NORMAL: PortNo = PortNo(0xfffa);
    /// All ports that have flooding enabled, except the ingress port.
    pub const FLOOD: PortNo = PortNo(0xfffb);
    /// All ports except the ingress port.
    pub const ALL: PortNo = PortNo(0xfffc);
    /// The controllers.
    pub const CONTROLLER: PortNo = PortNo(0xfffd);
    /// The bridge's internal port.
    pub const LOCAL: PortNo = PortNo(0xfffe);
    /// Any port, or none: a wildcard in flow deletions.
    pub const ANY: PortNo = PortNo(0xffff);

    /// The port's 32-bit number on the wire.
    pub fn to_wire(self) -> u32 {
        if self.0 < Self::MAX { u32::from(self.0) } else { 0xffff_0000 | u32::from(self.0) }
    }

    /// The port with this 32-bit number; `None` for numbers that Open vSwitch does not use.
    pub(crate) fn from_wire(n: u32) -> Option<PortNo> {
        let low = n as u16;
        match n {
            _ if n < u32::from(Self::MAX) => Some(PortNo(low)),
            0xffff_ff00.. => Some(PortNo(low)),
            _ => None,
        }
    }

    /// Whether the number is an ordinary port or one of the named ones.
    pub(crate) fn is_known(self) -> bool {
        self.0 < Self::MAX || self.0 >= Self::IN_PORT.0
    }
}

impl fmt::Display for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RESERVED.iter().find(|(n, _)| *n == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for PortNo {
    type Err = ParseError;

    /// A number (also 32-bit reserved ones) or a reserved port's name in any case.
    fn from_str(text: &str) -> Result<PortNo, ParseError> {
        let reserved = RESERVED.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        if let Some((n, _)) = reserved {
            return Ok(PortNo(*n));
        }
        let bad = || ParseError::value(text, "port: a number below 65280 or a reserved name such as LOCAL");
        let n = crate::field::text::number(text).map_err(|_| bad())?;
        let n = u32::try_from(n).map_err(|_| bad())?;
        // 65528 and up are the 16-bit spelling of the reserved ports.
        let port = u16::try_from(n).map(PortNo).ok().or_else(|| PortNo::from_wire(n)).ok_or_else(bad)?;
        if port.is_known() { Ok(port) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_is_65534_in_text_and_fffffffe_on_the_wire() {
        for text in ["LOCAL", "local", "65534", "0xfffffffe"] {
            assert_eq!(text.parse(), Ok(PortNo::LOCAL), "{text}");
        }
        assert_eq!(PortNo::LOCAL.to_wire(), 0xffff_fffe);
        assert_eq!(PortNo::from_wire(0xffff_fffe), Some(PortNo::LOCAL));
        assert_eq!(PortNo(65534).to_string(), "LOCAL");
    }

    #[test]
    fn numbers_between_ports_and_reserved_ports_are_refused() {
        assert_eq!(PortNo::from_wire(0xff00), None);
        assert_eq!(PortNo::from_wire(0x1_0000), None);
        assert!("65280".parse::<PortNo>().is_err());
        assert_eq!("65279".parse(), Ok(PortNo(65279)));
    }
}

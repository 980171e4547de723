//! Values of fields as text.
//!
//! Open vSwitch writes the same value differently in a match (`lib/match.c`, `match_format`) and in
//! an action (`lib/meta-flow.c`, `mf_format`); this module has both writers and one reader for both
//! forms.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Field, Format};
use crate::{MacAddr, ParseError, PortNo};

/// Bit numbers and names of connection states.
const CT_STATE: &[(u32, &str)] =
    &[(0, "new"), (1, "est"), (2, "rel"), (3, "rpl"), (4, "inv"), (5, "trk"), (6, "snat"), (7, "dnat")];
/// Bit numbers and names of TCP flags; the rest are written in hexadecimal.
const TCP_FLAGS: &[(u32, &str)] = &[
    (0, "fin"),
    (1, "syn"),
    (2, "rst"),
    (3, "psh"),
    (4, "ack"),
    (5, "urg"),
    (6, "ece"),
    (7, "cwr"),
    (8, "ns"),
    (9, "[200]"),
    (10, "[400]"),
    (11, "[800]"),
];
/// The one tunnel flag that OpenFlow shows.
const TUN_FLAGS: &[(u32, &str)] = &[(0, "oam")];
/// Names, values and masks of fragment matches.
const FRAGS: &[(&str, u128, u128)] =
    &[("no", 0, 3), ("yes", 1, 1), ("first", 1, 3), ("later", 3, 3), ("not_later", 0, 2)];

/// A number in decimal or, after `0x`, hexadecimal. A leading zero is refused: C reads it as octal.
pub fn number(text: &str) -> Result<u128, ParseError> {
    let bad =
        || ParseError::value(text, "number: decimal without a leading zero, or 0x and hexadecimal digits");
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => return Err(bad()),
        None => (text, 10),
    };
    if !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(bad());
    }
    u128::from_str_radix(digits, radix).map_err(|_| bad())
}

/// A number that fits `max`, or -1 for `max` itself.
pub(crate) fn number_up_to(text: &str, max: u128, expected: &'static str) -> Result<u128, ParseError> {
    if text == "-1" {
        return Ok(max);
    }
    number(text).ok().filter(|n| *n <= max).ok_or_else(|| ParseError::value(text, expected))
}

/// A number of type `T`.
pub(crate) fn int<T: TryFrom<u128>>(text: &str, expected: &'static str) -> Result<T, ParseError> {
    number(text).ok().and_then(|n| T::try_from(n).ok()).ok_or_else(|| ParseError::value(text, expected))
}

/// Bytes as pairs of hexadecimal digits, perhaps with dots between.
pub(crate) fn bytes_of_hex(text: &str, expected: &'static str) -> Result<Vec<u8>, ParseError> {
    let bad = || ParseError::value(text, expected);
    let digits: String = text.chars().filter(|c| *c != '.').collect();
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
    pairs.collect::<Result<_, _>>().map_err(|_| bad())
}

/// Bytes as pairs of hexadecimal digits with dots between.
pub(crate) struct Dotted<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Dotted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if place == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

/// Hexadecimal with `0x`, except that zero is `0`: C's `%#x`.
pub(crate) struct Hex<T>(pub(crate) T);

impl<T: fmt::LowerHex + PartialEq + Default> fmt::Display for Hex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == T::default() { f.write_char('0') } else { write!(f, "{:#x}", self.0) }
    }
}

/// An IPv6 address as the C library writes it: IPv4-compatible addresses end in dots.
pub(crate) struct Ipv6Text(pub(crate) u128);

impl fmt::Display for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.0) {
            Ok(low) if low > 0xffff => write!(f, "::{}", Ipv4Addr::from(low)),
            _ => write!(f, "{}", Ipv6Addr::from(self.0)),
        }
    }
}

/// The number of leading ones of a `bits` wide mask if all its ones are leading.
fn prefix_len(mask: u128, bits: u16) -> Option<u16> {
    let ones = mask.count_ones() as u16;
    (mask == prefix_mask(bits, ones)).then_some(ones)
}

/// The mask of a prefix of `length` bits in a field of `bits`.
pub fn prefix_mask(bits: u16, length: u16) -> u128 {
    if length == 0 { 0 } else { (u128::MAX >> (128 - length)) << (bits - length) }
}

fn flags(f: &mut impl Write, names: &[(u32, &str)], value: u128, mask: u128) -> fmt::Result {
    for (bit, name) in names {
        if mask >> bit & 1 == 1 {
            write!(f, "{}{name}", if value >> bit & 1 == 1 { '+' } else { '-' })?;
        }
    }
    Ok(())
}

fn bar_flags(f: &mut impl Write, names: &[(u32, &str)], value: u128) -> fmt::Result {
    if value == 0 {
        return f.write_char('0');
    }
    let set = names.iter().filter(|(bit, _)| value >> bit & 1 == 1).map(|(_, name)| *name);
    f.write_str(&set.collect::<Vec<_>>().join("|"))
}

impl Field {
    /// Whether `mask` covers the whole field.
    pub(crate) fn is_exact(self, mask: u128) -> bool {
        mask == self.max_value()
    }

    /// Writes `value/mask` as a match prints it after `name=`.
    pub fn write_match(self, f: &mut impl Write, value: u128, mask: u128) -> fmt::Result {
        let exact = self.is_exact(mask);
        match self.info().format {
            Format::Decimal if !exact => write!(f, "{value:#x}/{mask:#x}"),
            Format::Decimal => write!(f, "{value}"),
            Format::EtherType => write!(f, "{value:#06x}"),
            Format::FlowLabel if exact => write!(f, "{value:#07x}"),
            Format::FlowLabel => write!(f, "{value:#07x}/{mask:#07x}"),
            Format::VlanTci if mask == 0xffff => write!(f, "{value:#06x}"),
            Format::VlanTci => write!(f, "{value:#06x}/{mask:#06x}"),
            Format::Dscp => write!(f, "{}", value << 2),
            Format::CtState if exact => bar_flags(f, CT_STATE, value),
            Format::TcpFlags if exact => bar_flags(f, TCP_FLAGS, value),
            Format::TunFlags => flags(f, TUN_FLAGS, value, mask),
            _ => self.write_set(f, value, mask),
        }
    }

    /// Writes `value/mask` as an action prints it before `->name`.
    pub fn write_set(self, f: &mut impl Write, value: u128, mask: u128) -> fmt::Result {
        if mask == 0 {
            return f.write_str("ANY");
        }
        let exact = self.is_exact(mask);
        match self.info().format {
            // Open vSwitch prints it in hexadecimal in `learn`, the only action that can contain its
            // value.
            Format::Decimal if self == Field::CtZone => write!(f, "{}", Hex(value)),
            Format::Decimal | Format::Dscp if exact => write!(f, "{value}"),
            Format::Decimal | Format::Dscp => write!(f, "{value}/{mask:#x}"),
            Format::Hex | Format::FlowLabel | Format::VlanTci | Format::EtherType => {
                write!(f, "{}", Hex(value))?;
                if exact { Ok(()) } else { write!(f, "/{mask:#x}") }
            }
            Format::Ethernet => {
                write!(f, "{}", MacAddr::from_u64(value as u64))?;
                if exact { Ok(()) } else { write!(f, "/{}", MacAddr::from_u64(mask as u64)) }
            }
            Format::Ipv4 => {
                write!(f, "{}", Ipv4Addr::from(value as u32))?;
                match prefix_len(mask, 32) {
                    _ if exact => Ok(()),
                    Some(len) => write!(f, "/{len}"),
                    None => write!(f, "/{}", Ipv4Addr::from(mask as u32)),
                }
            }
            Format::Ipv6 => {
                write!(f, "{}", Ipv6Text(value))?;
                match prefix_len(mask, 128) {
                    _ if exact => Ok(()),
                    Some(len) => write!(f, "/{len}"),
                    None => write!(f, "/{}", Ipv6Text(mask)),
                }
            }
            Format::Port => match u32::try_from(value).ok().and_then(PortNo::from_wire) {
                Some(port) => write!(f, "{port}"),
                None => write!(f, "{}", PortNo(value as u16)),
            },
            Format::CtState => flags(f, CT_STATE, value, mask),
            Format::TcpFlags => flags(f, TCP_FLAGS, value, mask),
            Format::TunFlags if exact => bar_flags(f, TUN_FLAGS, value),
            Format::TunFlags => flags(f, TUN_FLAGS, value, mask),
            Format::Frag => match FRAGS.iter().find(|(_, v, m)| *v == value && *m == mask) {
                Some((name, ..)) => f.write_str(name),
                None => f.write_str("<error>"),
            },
            Format::PacketType => write!(f, "({},{})", value >> 16, Hex(value & 0xffff)),
        }
    }

    /// Reads a value and mask in any spelling `ovs-ofctl` takes for this field.
    pub fn read(self, text: &str) -> Result<(u128, u128), ParseError> {
        let max = self.max_value();
        let split = text.split_once('/');
        match self.info().format {
            Format::Hex
            | Format::Decimal
            | Format::EtherType
            | Format::FlowLabel
            | Format::VlanTci
            | Format::Dscp => {
                let (value, mask) = split.map_or((text, None), |(value, mask)| (value, Some(mask)));
                let mask = match mask {
                    Some(mask) => number_up_to(mask, max, "mask that fits the field")?,
                    None => max,
                };
                Ok((number(value)?, mask))
            }
            Format::Ethernet => {
                let (value, mask) = split.unwrap_or((text, "ff:ff:ff:ff:ff:ff"));
                Ok((value.parse::<MacAddr>()?.into(), mask.parse::<MacAddr>()?.into()))
            }
            Format::Ipv4 => {
                let address = |text: &str| {
                    let parsed: Result<Ipv4Addr, _> = text.parse();
                    parsed
                        .map(|ip| u128::from(ip.to_bits()))
                        .map_err(|_| ParseError::value(text, "IPv4 address"))
                };
                read_prefixed(text, 32, address)
            }
            Format::Ipv6 => {
                let address = |text: &str| {
                    let parsed: Result<Ipv6Addr, _> = text.parse();
                    parsed.map(Ipv6Addr::to_bits).map_err(|_| ParseError::value(text, "IPv6 address"))
                };
                read_prefixed(text, 128, address)
            }
            Format::Port => {
                let port: PortNo = text.parse()?;
                let value = if self == Field::InPort { u32::from(port.0) } else { port.to_wire() };
                Ok((u128::from(value), max))
            }
            Format::CtState => read_flags(text, CT_STATE, max, "connection state such as +trk-new"),
            Format::TcpFlags => read_flags(text, TCP_FLAGS, max, "set of TCP flags such as +syn-ack"),
            Format::TunFlags => read_flags(text, TUN_FLAGS, max, "set of tunnel flags: +oam or -oam"),
            Format::Frag => FRAGS
                .iter()
                .find(|(name, ..)| *name == text)
                .map(|(_, value, mask)| (*value, *mask))
                .ok_or_else(|| ParseError::value(text, "fragment type: no, yes, first, later or not_later")),
            Format::PacketType => {
                let bad = || ParseError::value(text, "packet type, as in (1,0x800)");
                let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).ok_or_else(bad)?;
                let (namespace, kind) = inner.split_once(',').ok_or_else(bad)?;
                let (namespace, kind): (u16, u16) =
                    (int(namespace, "packet type namespace")?, int(kind.trim(), "packet type")?);
                Ok((u128::from(namespace) << 16 | u128::from(kind), max))
            }
        }
    }
}

/// `ADDRESS`, `ADDRESS/LEN` or `ADDRESS/MASK`.
fn read_prefixed(
    text: &str,
    bits: u16,
    address: impl Fn(&str) -> Result<u128, ParseError>,
) -> Result<(u128, u128), ParseError> {
    let all = u128::MAX >> (128 - bits);
    let Some((value, mask)) = text.split_once('/') else {
        return Ok((address(text)?, all));
    };
    let mask = if mask.bytes().all(|c| c.is_ascii_digit()) {
        prefix_mask(bits, number_up_to(mask, u128::from(bits), "prefix length")? as u16)
    } else {
        address(mask)?
    };
    Ok((address(value)?, mask))
}

/// `+a-b`, `a|b` (exactly these) or `VALUE/MASK`.
fn read_flags(
    text: &str,
    names: &[(u32, &str)],
    max: u128,
    expected: &'static str,
) -> Result<(u128, u128), ParseError> {
    let bad = || ParseError::value(text, expected);
    let bit =
        |name: &str| names.iter().find(|(_, n)| *n == name).map(|(bit, _)| 1u128 << bit).ok_or_else(bad);
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
        let mask = mask.map_or(Ok(max), |mask| number_up_to(mask, max, expected))?;
        return Ok((number_up_to(value, max, expected)?, mask));
    }
    if !text.starts_with(['+', '-']) {
        let value = text.split('|').try_fold(0, |value, name| Ok::<_, ParseError>(value | bit(name)?))?;
        return Ok((value, max));
    }
    let (mut value, mut mask, mut rest) = (0, 0, text);
    while let Some(sign) = rest.chars().next() {
        let end = rest[1..].find(['+', '-']).map_or(rest.len(), |end| end + 1);
        let bit = bit(&rest[1..end])?;
        if mask & bit != 0 {
            return Err(bad());
        }
        mask |= bit;
        value |= if sign == '+' { bit } else { 0 };
        rest = &rest[end..];
    }
    Ok((value, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_looks_as_the_c_library_prints_it() {
        for (bits, text) in [
            (0, "::"),
            (1, "::1"),
            (0x0102_0304, "::1.2.3.4"),
            (0xffff_0102_0304, "::ffff:1.2.3.4"),
            (0xffff, "::ffff"),
            (1 << 112, "1::"),
        ] {
            assert_eq!(Ipv6Text(bits).to_string(), text);
        }
    }

    #[test]
    fn octal_looking_numbers_are_refused() {
        assert!(number("010").is_err());
        assert!(number("0x").is_err());
        assert!(number("+1").is_err());
        assert_eq!(number("0x0010"), Ok(16));
        assert_eq!(number("0"), Ok(0));
    }
}

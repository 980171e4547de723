//! `NXM_NX_REG0[0..15]`: some consecutive bits of a field.

use std::fmt;
use std::str::FromStr;

use crate::field::text::int;
use crate::wire::Reader;
use crate::{DecodeError, Field, MatchError, ParseError, literal, oxm};

/// Consecutive bits of a field; never empty and never outside the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subfield {
    field: Field,
    start: u16,
    bits: u16,
}

impl Subfield {
    /// `bits` bits of `field`, from bit `start` counted from the lowest.
    ///
    /// # Errors
    /// [`MatchError::BadBits`] if there are none, or some are outside the field.
    pub fn new(field: Field, start: u16, bits: u16) -> Result<Subfield, MatchError> {
        let end = u32::from(start) + u32::from(bits);
        if bits == 0 || end > u32::from(field.bits()) {
            return Err(MatchError::BadBits { field, start, end, bits: field.bits() });
        }
        Ok(Subfield { field, start, bits })
    }

    /// The whole field.
    pub fn whole(field: Field) -> Subfield {
        Subfield { field, start: 0, bits: field.bits() }
    }

    /// The field.
    pub fn field(self) -> Field {
        self.field
    }

    /// The lowest bit.
    pub fn start(self) -> u16 {
        self.start
    }

    /// The number of bits.
    pub fn bits(self) -> u16 {
        self.bits
    }

    /// The bits as a mask of the field.
    pub fn mask(self) -> u128 {
        u128::MAX >> (128 - self.bits) << self.start
    }

    /// Whether the two have a bit of the packet in common, as `xreg0` and `reg0` have.
    ///
    /// ```
    /// use openflow_rs::Subfield;
    ///
    /// let [double, low, high]: [Subfield; 3] =
    ///     ["xreg0[0..31]".parse()?, "reg1[31]".parse()?, "reg0[0]".parse()?];
    /// assert!(double.overlaps(low) && low.overlaps(double));
    /// assert!(!double.overlaps(high));
    /// # Ok::<(), openflow_rs::ParseError>(())
    /// ```
    pub fn overlaps(self, other: Subfield) -> bool {
        let bits = |of: Subfield| of.field.storage(of.mask());
        bits(self).iter().any(|(field, _, mask)| {
            bits(other).iter().any(|(of, _, others)| of == field && mask & others != 0)
        })
    }

    /// The text in literals: `reg0`, `reg0[5]` or `reg0[0..15]`.
    pub fn written(self) -> String {
        literal::written(self)
    }

    /// Open vSwitch's form in six bytes: the header of the field, then start and width less one.
    pub fn to_bytes(self) -> [u8; 6] {
        let ([a, b, c, d], [e, f]) =
            (oxm::short_header(self.field).to_be_bytes(), self.ofs_nbits().to_be_bytes());
        [a, b, c, d, e, f]
    }

    /// Reads the form in six bytes.
    ///
    /// # Errors
    /// The field is not known, or does not have all of the bits.
    pub fn from_bytes(bytes: [u8; 6]) -> Result<Subfield, DecodeError> {
        let mut reader = Reader::new("subfield", &bytes);
        let field = oxm::get_short(&mut reader)?;
        let at = reader.clone();
        Subfield::from_ofs_nbits(field, reader.u16()?).map_err(|error| at.fault(error))
    }

    /// Open vSwitch's 16-bit form: start and width less one.
    pub(crate) fn ofs_nbits(self) -> u16 {
        self.start << 6 | (self.bits - 1)
    }

    /// Reads Open vSwitch's 16-bit form.
    pub(crate) fn from_ofs_nbits(field: Field, ofs_nbits: u16) -> Result<Subfield, MatchError> {
        Subfield::new(field, ofs_nbits >> 6, (ofs_nbits & 0x3f) + 1)
    }
}

impl fmt::Display for Subfield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.info().headers[0].name)?;
        match (self.start, self.bits) {
            (0, bits) if bits == self.field.bits() && !self.field.is_option() => f.write_str("[]"),
            (start, 1) => write!(f, "[{start}]"),
            (start, bits) => write!(f, "[{start}..{}]", start + bits - 1),
        }
    }
}

impl FromStr for Subfield {
    type Err = ParseError;

    /// `FIELD`, `FIELD[]`, `FIELD[BIT]` or `FIELD[FIRST..LAST]`, by any name of the field.
    fn from_str(text: &str) -> Result<Subfield, ParseError> {
        let (name, range) = match text.strip_suffix(']') {
            Some(open) => {
                open.split_once('[').ok_or_else(|| ParseError::value(text, "field with a bit range"))?
            }
            None => (text, ""),
        };
        let field =
            Field::from_name(name).ok_or_else(|| ParseError::UnknownField { name: name.to_owned() })?;
        if range.is_empty() {
            return Ok(Subfield::whole(field));
        }
        let (first, last) = range.split_once("..").unwrap_or((range, range));
        let (first, last): (u16, u16) = (int(first, "bit number")?, int(last, "bit number")?);
        let bits = last.checked_sub(first).and_then(|n| n.checked_add(1));
        let bits = bits.ok_or_else(|| ParseError::value(range, "bit range, lowest first"))?;
        Ok(Subfield::new(field, first, bits)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_wire_name_and_reads_any_name() {
        for (given, printed) in [
            ("reg0", "NXM_NX_REG0[]"),
            ("NXM_NX_REG0[0..31]", "NXM_NX_REG0[]"),
            ("reg0[5]", "NXM_NX_REG0[5]"),
            ("metadata[8..15]", "OXM_OF_METADATA[8..15]"),
            ("eth_dst[]", "NXM_OF_ETH_DST[]"),
            ("OXM_OF_ETH_DST[]", "NXM_OF_ETH_DST[]"),
            ("tun_metadata0", "NXM_NX_TUN_METADATA0[0..31]"),
        ] {
            let subfield: Subfield = given.parse().unwrap();
            assert_eq!(subfield.to_string(), printed);
            assert_eq!(printed.parse(), Ok(subfield));
        }
    }

    #[test]
    fn refuses_bits_outside_the_field() {
        for text in ["reg0[32]", "reg0[5..4]", "reg0[0..32]", "reg0[", "reg0[a]", "nosuch[0]", "reg0]"] {
            assert!(text.parse::<Subfield>().is_err(), "{text}");
        }
        assert!(Subfield::new(Field::Reg0, 0, 0).is_err());
        assert!(Subfield::new(Field::Reg0, u16::MAX, u16::MAX).is_err());
    }
}

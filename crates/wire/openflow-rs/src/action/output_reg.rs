//! `output:REG[A..B]`: outputs the packet to the port whose number is in a field.

use super::*;
use crate::{MatchError, oxm};

/// Outputs the packet to the port whose number is in bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputReg {
    source: Subfield,
    max_len: u16,
}

/// The maximum number of bits in the action's encoding.
const BITS_MAX: u16 = 64;

impl OutputReg {
    /// Sends the packet to the port whose number is in `source`, all of it if that is the controller.
    ///
    /// # Errors
    /// [`MatchError::BadBits`] for more than 64 bits.
    pub fn new(source: Subfield) -> Result<OutputReg, MatchError> {
        let (field, start, bits) = (source.field(), source.start(), source.bits());
        if bits > BITS_MAX {
            let end = u32::from(start) + u32::from(bits);
            return Err(MatchError::BadBits { field, start, end, bits: BITS_MAX });
        }
        Ok(OutputReg { source, max_len: u16::MAX })
    }

    /// The bits that contain the port number.
    pub fn source(self) -> Subfield {
        self.source
    }

    /// Bytes of the packet if the port is the controller.
    pub fn max_len(self) -> u16 {
        self.max_len
    }
}

impl Action {
    /// Sends the packet to the port whose number is in `source`.
    ///
    /// # Errors
    /// As [`OutputReg::new`].
    pub fn output_reg(source: Subfield) -> Result<Action, MatchError> {
        Ok(OutputReg::new(source)?.into())
    }
}

impl Body for OutputReg {
    const NAMES: &'static [&'static str] = &[];
    const WIRE: &'static [Wire] = &[Wire::Nx(15), Wire::Nx(32)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "output_field",
        "Outputs the packet to the port whose number is in a field or in bits of a field.",
        &[Parameter::read("field", "At most 64 bits.")],
        &[
            ("output_field(reg12)", "output:NXM_NX_REG12[]"),
            ("output_field(reg12[0..15])", "output:NXM_NX_REG12[0..15]"),
        ],
        |given| Ok(OutputReg::new(given.field("field")?)?.into()),
    )];

    fn decode(wire: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let ofs_nbits = body.u16()?;
        let (field, max_len) = if wire == Wire::Nx(15) {
            let (header, max_len) = (body.u32()?, body.u16()?);
            body.zeros(6)?;
            let unknown = || at.fault(Fault::Unknown(header.into()));
            (oxm::from_nxm_header(header).ok_or_else(unknown)?, max_len)
        } else {
            let max_len = body.u16()?;
            (oxm::get_id(body)?, max_len)
        };
        let source = Subfield::from_ofs_nbits(field, ofs_nbits).map_err(|error| at.fault(error))?;
        Ok(OutputReg { source, max_len })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (field, ofs_nbits) = (self.source.field(), self.source.ofs_nbits());
        match oxm::nxm_header(field) {
            Some(header) => Wire::Nx(15).put(out, |out| {
                out.extend_from_slice(&ofs_nbits.to_be_bytes());
                out.extend_from_slice(&header.to_be_bytes());
                out.extend_from_slice(&self.max_len.to_be_bytes());
            }),
            None => Wire::Nx(32).put(out, |out| {
                out.extend_from_slice(&ofs_nbits.to_be_bytes());
                out.extend_from_slice(&self.max_len.to_be_bytes());
                oxm::put_id(out, field);
            }),
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "output:{}", self.source)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Err(ParseError::UnknownAction { name: call.name.to_owned() })
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("output:NXM_NX_REG1[]", "ffff 0018 00002320 000f 001f 00010204 ffff 000000000000"),
        ("output:NXM_NX_REG12[0..15]", "ffff 0018 00002320 000f 000f 00011804 ffff 000000000000"),
        ("output:OXM_OF_METADATA[8..23]", "ffff 0018 00002320 0020 020f ffff 80000408 000000000000"),
    ]);
    testing::check_spellings([("output:reg1", "output:NXM_NX_REG1[]")]);
    testing::check_refused(["output:xxreg0", "output:reg1[0..32]"]);
    testing::check_malformed(["ffff 0018 00002320 000f 0820 00010204 ffff 000000000000"]);
}

//! `write_metadata:VALUE/MASK`: writes metadata before the next table.

use super::*;
use crate::field::Field;
use crate::field::text::Hex;

/// Writes bits of the metadata (an instruction).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteMetadata {
    /// The bits.
    pub value: u64,
    /// The mask of the bits to write.
    pub mask: u64,
}

impl Body for WriteMetadata {
    const NAMES: &'static [&'static str] = &["write_metadata"];
    const WIRE: &'static [Wire] = &[Wire::Instruction(2)];
    const STAGE: u8 = 3;
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "write_metadata",
        "Writes bits of the metadata before the next table.",
        &[Parameter::masked("metadata", u64::MAX, "The value; a mask must cover it.")],
        &[("write_metadata(5)", "write_metadata:0x5"), ("write_metadata(5/0xff)", "write_metadata:0x5/0xff")],
        |given| {
            let (value, mask) = given.masked("metadata")?;
            if value & !mask != 0 {
                let message = format!("{value:#x} has bits outside its mask {mask:#x}");
                return Err(Refusal::values(message, "give a value within the mask"));
            }
            Ok(WriteMetadata { value, mask }.into())
        },
    )
    .within(&[Context::Flow])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.skip(4)?;
        Ok(WriteMetadata { value: body.u64()?, mask: body.u64()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Instruction(2).put(out, |out| {
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&self.value.to_be_bytes());
            out.extend_from_slice(&self.mask.to_be_bytes());
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write_metadata:{}", Hex(self.value))?;
        if self.mask == u64::MAX { Ok(()) } else { write!(f, "/{}", Hex(self.mask)) }
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let (value, mask) = Field::Metadata.read(call.arg)?;
        let value = u64::try_from(value).map_err(|_| ParseError::value(call.arg, "64-bit metadata"))?;
        Ok(WriteMetadata { value, mask: mask as u64 }.into())
    }
}

impl Action {
    /// Writes bits of the metadata before the next table.
    pub fn write_metadata(value: u64, mask: u64) -> Action {
        WriteMetadata { value, mask }.into()
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("write_metadata:0x5", "0002 0018 00000000 0000000000000005 ffffffffffffffff"),
        ("write_metadata:0/0xff", "0002 0018 00000000 0000000000000000 00000000000000ff"),
    ]);
    testing::check_refused(["write_metadata", "write_metadata:0x10000000000000000"]);
}

//! `pop:FIELD[A..B]`: pops bits off the stack.

use super::*;
use crate::{Field, MatchError, oxm};

/// Pops the top of the stack into bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pop {
    field: Subfield,
}

impl Pop {
    /// Pops the top of the stack into `field`.
    ///
    /// # Errors
    /// The field is read-only.
    pub fn new(field: Subfield) -> Result<Pop, MatchError> {
        let to = field.field();
        if !to.info().writable || to == Field::InPortOxm {
            return Err(MatchError::ReadOnly { field: to });
        }
        Ok(Pop { field })
    }

    /// The bits.
    pub fn field(self) -> Subfield {
        self.field
    }
}

impl Body for Pop {
    const NAMES: &'static [&'static str] = &["pop"];
    const WIRE: &'static [Wire] = &[Wire::Nx(28)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "pop",
        "Pops the top of the stack into a field.",
        &[Parameter::written("field", "A field, or bits of one.")],
        &[("pop(reg0)", "pop:NXM_NX_REG0[]"), ("pop(reg0[3..5])", "pop:NXM_NX_REG0[3..5]")],
        |given| Ok(Pop::new(given.field("field")?)?.into()),
    )];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let start = body.u16()?;
        let field = oxm::get_id(body)?;
        let bits = body.u16()?;
        Subfield::new(field, start, bits).and_then(Pop::new).map_err(|error| at.fault(error))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(28).put(out, |out| {
            out.extend_from_slice(&self.field.start().to_be_bytes());
            out.extend_from_slice(&oxm::short_header(self.field.field()).to_be_bytes());
            out.extend_from_slice(&self.field.bits().to_be_bytes());
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pop:{}", self.field)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Ok(Pop::new(call.arg.parse()?)?.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("pop:NXM_NX_REG0[0..3]", "ffff 0018 00002320 001c 0000 00010004 0004 000000000000")]);
    testing::check_spellings([("pop:reg0", "pop:NXM_NX_REG0[]")]);
    testing::check_refused(["pop", "pop:eth_type", "pop:in_port_oxm"]);
    testing::check_malformed(["ffff 0018 00002320 001c 0000 00000602 0010 000000000000"]);
}

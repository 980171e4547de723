//! `push:FIELD[A..B]`: pushes bits onto the stack.

use super::*;
use crate::oxm;

/// Pushes bits of a field onto the stack, for a later [`Pop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Push {
    field: Subfield,
}

impl Push {
    /// Pushes `field` onto the stack.
    pub fn new(field: Subfield) -> Push {
        Push { field }
    }

    /// The bits.
    pub fn field(self) -> Subfield {
        self.field
    }
}

impl Body for Push {
    const NAMES: &'static [&'static str] = &["push"];
    const WIRE: &'static [Wire] = &[Wire::Nx(27)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "push",
        "Pushes a field onto the stack.",
        &[Parameter::read("field", "A field, or bits of one.")],
        &[("push(eth_src)", "push:NXM_OF_ETH_SRC[]"), ("push(reg0[3..5])", "push:NXM_NX_REG0[3..5]")],
        |given| Ok(Push::new(given.field("field")?).into()),
    )];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let start = body.u16()?;
        let field = oxm::get_id(body)?;
        let bits = body.u16()?;
        Subfield::new(field, start, bits).map(Push::new).map_err(|error| at.fault(error))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(27).put(out, |out| {
            out.extend_from_slice(&self.field.start().to_be_bytes());
            out.extend_from_slice(&oxm::short_header(self.field.field()).to_be_bytes());
            out.extend_from_slice(&self.field.bits().to_be_bytes());
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "push:{}", self.field)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Ok(Push::new(call.arg.parse()?).into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("push:NXM_OF_ETH_SRC[]", "ffff 0018 00002320 001b 0000 00000406 0030 000000000000"),
        ("push:OXM_OF_METADATA[8..15]", "ffff 0018 00002320 001b 0008 80000408 0008 000000000000"),
    ]);
    testing::check_spellings([("push:eth_src", "push:NXM_OF_ETH_SRC[]")]);
    testing::check_refused(["push", "push:reg16", "push:reg0[3..2]"]);
    // This is the only field that Open vSwitch itself sends with its long header.
    let long = "unknown(ffff001800002320001b001effff56084f4e460000020000)";
    testing::check_spellings([(long, "push:ONFOXM_ET_ACTSET_OUTPUT[30..31]")]);
    testing::check_malformed(["ffff 0018 00002320 001b 0000 00000406 0031 000000000000"]);
}

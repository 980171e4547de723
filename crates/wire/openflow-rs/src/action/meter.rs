//! `meter:N`: applies a meter to the packet.

use super::*;
use crate::field::text::int;

/// Applies a meter to the packet. Open vSwitch requires it to be first in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meter {
    /// The meter's id.
    pub id: u32,
}

/// `OFPM_MAX`; numbers above it mean meters that flows cannot name.
const METER_MAX: u64 = 0xffff_0000;

impl Body for Meter {
    const NAMES: &'static [&'static str] = &["meter"];
    const WIRE: &'static [Wire] = &[Wire::Of(29)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "meter",
        "Applies a meter to the packet. It must be the first action in the list.",
        &[Parameter::number("id", METER_MAX, "The meter's id, from 1.")],
        &[("meter(3)", "meter:3")],
        |given| match given.number("id")? {
            0 => Err(Refusal::values("0 is not a valid meter id", "meter ids begin with 1")),
            id => Ok(Meter { id }.into()),
        },
    )
    .within(&[Context::Flow])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        Ok(Meter { id: body.u32()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(29).put(out, |out| out.extend_from_slice(&self.id.to_be_bytes()));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "meter:{}", self.id)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Ok(Meter { id: int(call.arg, "meter id")? }.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("meter:5", "001d 0008 00000005")]);
}

//! `meter:N`: rate-limit the packet.

use super::*;
use crate::field::text::int;

/// Subjects the packet to a meter. Open vSwitch wants it first in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meter {
    /// The meter's id.
    pub id: u32,
}

impl Body for Meter {
    const NAMES: &'static [&'static str] = &["meter"];
    const WIRE: &'static [Wire] = &[Wire::Of(29)];

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

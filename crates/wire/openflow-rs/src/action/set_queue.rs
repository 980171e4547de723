//! `set_queue:N`: selects the queue of the port.

use super::*;
use crate::field::text::int;

/// Selects the queue for later outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetQueue {
    /// The queue's id.
    pub id: u32,
}

impl Body for SetQueue {
    const NAMES: &'static [&'static str] = &["set_queue"];
    const WIRE: &'static [Wire] = &[Wire::Of(21)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "set_queue",
        "Selects the queue for later outputs.",
        &[Parameter::number("id", u32::MAX as u64, "The queue's id.")],
        &[("set_queue(2)", "set_queue:2")],
        |given| Ok(SetQueue { id: given.number("id")? }.into()),
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        Ok(SetQueue { id: body.u32()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(21).put(out, |out| out.extend_from_slice(&self.id.to_be_bytes()));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set_queue:{}", self.id)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Ok(SetQueue { id: int(call.arg, "queue id")? }.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("set_queue:5", "0015 0008 00000005")]);
    testing::check_refused(["set_queue", "set_queue:4294967296"]);
}

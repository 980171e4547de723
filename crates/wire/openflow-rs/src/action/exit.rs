//! `exit`: ends the processing of the packet.

use super::*;

/// Ends the processing of the packet, in this table and in those that resubmitted to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exit;

impl Body for Exit {
    const NAMES: &'static [&'static str] = &["exit"];
    const WIRE: &'static [Wire] = &[Wire::Nx(17)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "exit",
        "Ends the processing of the packet in this table and in all tables that resubmitted it here.",
        &[],
        &[("exit", "exit")],
        |_| Ok(Exit.into()),
    )];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.skip(body.left())?;
        Ok(Exit)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(17).put(out, |_| ());
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("exit")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        if call.text != call.name {
            return Err(ParseError::value(call.text, "action without arguments"));
        }
        Ok(Exit.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("exit", "ffff 0010 00002320 0011 000000000000")]);
    testing::check_refused(["exit:1"]);
}

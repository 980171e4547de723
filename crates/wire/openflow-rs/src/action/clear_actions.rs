//! `clear_actions`: empty the action set.

use super::*;

/// Empties the action set (an instruction).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClearActions;

impl Body for ClearActions {
    const NAMES: &'static [&'static str] = &["clear_actions"];
    const WIRE: &'static [Wire] = &[Wire::Instruction(5)];
    const STAGE: u8 = 1;
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "clear_actions",
        "Empties the action set.",
        &[],
        &[("clear_actions", "clear_actions")],
        |_| Ok(ClearActions.into()),
    )
    .within(&[Context::Flow])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.skip(body.left())?;
        Ok(ClearActions)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Instruction(5).put(out, |_| ());
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("clear_actions")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        if call.text != call.name {
            return Err(ParseError::value(call.text, "action without arguments"));
        }
        Ok(ClearActions.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("clear_actions", "0005 0008 00000000")]);
    testing::check_refused(["clear_actions:1"]);
}

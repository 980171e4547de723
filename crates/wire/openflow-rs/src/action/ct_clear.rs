//! `ct_clear`: clears the connection tracking state.

use super::*;

/// Clears the connection tracking fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CtClear;

impl Body for CtClear {
    const NAMES: &'static [&'static str] = &["ct_clear"];
    const WIRE: &'static [Wire] = &[Wire::Nx(43)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "ct_clear",
        "Clears the packet's connection tracking state.",
        &[],
        &[("ct_clear", "ct_clear")],
        |_| Ok(CtClear.into()),
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.skip(body.left())?;
        Ok(CtClear)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(43).put(out, |_| ());
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ct_clear")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        if call.text != call.name {
            return Err(ParseError::value(call.text, "action without arguments"));
        }
        Ok(CtClear.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("ct_clear", "ffff 0010 00002320 002b 000000000000")]);
    testing::check_refused(["ct_clear:1"]);
}

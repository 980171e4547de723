//! `pop_vlan`: removes the outermost VLAN tag.

use super::*;

/// Removes the outermost VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PopVlan;

impl Body for PopVlan {
    const NAMES: &'static [&'static str] = &["pop_vlan", "strip_vlan"];
    const WIRE: &'static [Wire] = &[Wire::Of(18)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "pop_vlan",
        "Removes the outermost VLAN tag.",
        &[],
        &[("pop_vlan", "pop_vlan")],
        |_| Ok(PopVlan.into()),
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.skip(body.left())?;
        Ok(PopVlan)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(18).put(out, |_| ());
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pop_vlan")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        if call.text != call.name {
            return Err(ParseError::value(call.text, "action without arguments"));
        }
        Ok(PopVlan.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("pop_vlan", "0012 0008 00000000")]);
    testing::check_refused(["pop_vlan:1"]);
}

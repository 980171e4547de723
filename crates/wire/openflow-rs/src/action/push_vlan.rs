//! `push_vlan:0x8100`: pushes a VLAN tag.

use super::*;
use crate::field::text::int;

/// Pushes a VLAN tag with id 0; `set_field` on `vlan_vid` sets the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushVlan {
    /// The tag's Ethernet type, 0x8100 or 0x88a8.
    pub eth_type: u16,
}

const TAGS: [u16; 2] = [0x8100, 0x88a8];

impl Body for PushVlan {
    const NAMES: &'static [&'static str] = &["push_vlan"];
    const WIRE: &'static [Wire] = &[Wire::Of(17)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "push_vlan",
        "Pushes a VLAN tag with id 0; `set(vlan_vid, 4096 + id)` sets the id.",
        &[Parameter::number("type", u16::MAX as u64, "The tag's Ethernet type: 0x8100 or 0x88a8.")],
        &[("push_vlan(0x8100)", "push_vlan:0x8100"), ("push_vlan(0x88a8)", "push_vlan:0x88a8")],
        |given| match given.number("type")? {
            eth_type if TAGS.contains(&eth_type) => Ok(PushVlan { eth_type }.into()),
            other => Err(Refusal::values(
                format!("{other:#06x} is not the Ethernet type of a VLAN tag"),
                "give 0x8100, or 0x88a8 for the outer of two tags",
            )),
        },
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let eth_type = body.u16()?;
        if !TAGS.contains(&eth_type) {
            return Err(at.fault(Fault::Unknown(eth_type.into())));
        }
        Ok(PushVlan { eth_type })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(17).put(out, |out| out.extend_from_slice(&self.eth_type.to_be_bytes()));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "push_vlan:{:#06x}", self.eth_type)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let expected = "VLAN Ethernet type: 0x8100 or 0x88a8";
        let eth_type: u16 = int(call.arg, expected)?;
        if !TAGS.contains(&eth_type) {
            return Err(ParseError::value(call.arg, expected));
        }
        Ok(PushVlan { eth_type }.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("push_vlan:0x8100", "0011 0008 8100 0000"),
        ("push_vlan:0x88a8", "0011 0008 88a8 0000"),
    ]);
    testing::check_refused(["push_vlan:0x800", "push_vlan"]);
    testing::check_malformed(["0011 0008 0800 0000"]);
}

//! `group:N`: processes the packet with a group.

use super::*;
use crate::field::text::int;

/// Processes the packet with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The group's id.
    pub id: u32,
}

/// `OFPG_MAX`; numbers above it mean no group or all.
const GROUP_MAX: u64 = 0xffff_ff00;

impl Body for Group {
    const NAMES: &'static [&'static str] = &["group"];
    const WIRE: &'static [Wire] = &[Wire::Of(22)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "group",
        "Processes the packet with a group.",
        &[Parameter::number("id", GROUP_MAX, "The group's id.")],
        &[("group(7)", "group:7"), ("group(0xffffff00)", "group:4294967040")],
        |given| Ok(Group { id: given.number("id")? }.into()),
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        Ok(Group { id: body.u32()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(22).put(out, |out| out.extend_from_slice(&self.id.to_be_bytes()));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group:{}", self.id)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Ok(Group { id: int(call.arg, "group id")? }.into())
    }
}

impl Action {
    /// Processes the packet with a group.
    pub fn group(id: u32) -> Action {
        Group { id }.into()
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("group:10", "0016 0008 0000000a")]);
    testing::check_refused(["group", "group:-1", "group:4294967296"]);
}

//! `mod_nw_ttl:N`: sets the IP time to live.

use super::*;
use crate::field::text::int;

/// Sets the IP time to live. `set_field:N->nw_ttl` has the same effect but is another action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetTtl {
    /// The new time to live.
    pub ttl: u8,
}

impl Body for SetTtl {
    const NAMES: &'static [&'static str] = &["mod_nw_ttl"];
    const WIRE: &'static [Wire] = &[Wire::Of(23)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "mod_nw_ttl",
        "Sets the IP time to live. `set(nw_ttl, …)` has the same effect but is another action.",
        &[Parameter::number("ttl", u8::MAX as u64, "The time to live.")],
        &[("mod_nw_ttl(64)", "mod_nw_ttl:64")],
        |given| Ok(SetTtl { ttl: given.number("ttl")? }.into()),
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        Ok(SetTtl { ttl: body.u8()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(23).put(out, |out| out.push(self.ttl));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mod_nw_ttl:{}", self.ttl)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Ok(SetTtl { ttl: int(call.arg, "time to live, at most 255")? }.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("mod_nw_ttl:64", "0017 0008 40 000000")]);
    testing::check_refused(["mod_nw_ttl:256", "mod_nw_ttl"]);
}

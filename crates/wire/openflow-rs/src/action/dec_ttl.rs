//! `dec_ttl`: decrements the IP time to live.

use super::*;

/// Decrements the IP time to live; processing of a packet with 1 or 0 ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecTtl;

impl Body for DecTtl {
    const NAMES: &'static [&'static str] = &["dec_ttl"];
    const WIRE: &'static [Wire] = &[Wire::Of(24)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "dec_ttl",
        "Decrements the IP time to live. Processing of a packet with 1 or 0 ends here.",
        &[],
        &[("dec_ttl", "dec_ttl")],
        |_| Ok(DecTtl.into()),
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.skip(body.left())?;
        Ok(DecTtl)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(24).put(out, |_| ());
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dec_ttl")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        if call.text != call.name {
            return Err(ParseError::value(call.text, "action without arguments"));
        }
        Ok(DecTtl.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("dec_ttl", "0018 0008 00000000")]);
    testing::check_refused(["dec_ttl:1"]);
}

//! `clone(...)`: runs actions on a copy of the packet.

use super::*;

/// Runs actions on a copy of the packet. The actions after `clone` see the original packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloneActions {
    /// The actions; no instructions among them.
    pub actions: Actions,
}

impl Body for CloneActions {
    const NAMES: &'static [&'static str] = &["clone"];
    const WIRE: &'static [Wire] = &[Wire::Nx(42)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "clone",
        "Runs actions on a copy of the packet. The actions after `clone` see the original packet.",
        &[Parameter::actions("actions", Context::Clone, "The actions on the copy.")],
        &[("clone(set(reg0, 5), output(1))", "clone(set_field:0x5->reg0,output:1)")],
        |given| Ok(CloneActions { actions: given.actions("actions") }.into()),
    )];

    fn decode(_: Wire, body: &mut Reader<'_>, depth: u8) -> Result<Self, DecodeError> {
        body.skip(6)?;
        Ok(CloneActions { actions: Actions::decode_list(body, depth + 1)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(42).put(out, |out| {
            out.extend_from_slice(&[0; 6]);
            self.actions.encode_list(out);
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clone({})", self.actions)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let actions: Actions = call.arg.parse()?;
        if let Some(instruction) = actions.0.iter().find(|action| action.stage() > 0) {
            return Err(ParseError::Order { first: "clone".to_owned(), second: instruction.to_string() });
        }
        Ok(CloneActions { actions }.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("clone(output:1)", "ffff 0020 00002320 002a 000000000000 0000 0010 00000001 0000 000000000000"),
        ("clone(drop)", "ffff 0010 00002320 002a 000000000000"),
    ]);
    testing::check_spellings([("clone()", "clone(drop)")]);
    testing::check_refused(["clone(", "clone(goto_table:1)", "clone(output:1)->reg0"]);
}

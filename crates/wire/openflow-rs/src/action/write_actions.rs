//! `write_actions(...)`: adds to the action set, which is executed at the end of the pipeline.

use super::*;

/// Adds actions to the action set (an instruction).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteActions {
    /// The actions; no instructions among them.
    pub actions: Actions,
}

impl Body for WriteActions {
    const NAMES: &'static [&'static str] = &["write_actions"];
    const WIRE: &'static [Wire] = &[Wire::Instruction(3)];
    const STAGE: u8 = 2;
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "write_actions",
        "Adds actions to the action set, which is executed at the end of the pipeline.",
        &[Parameter::actions("actions", Context::ActionSet, "At most one of each kind remains in the set.")],
        &[("write_actions(output(1), set(reg0, 5))", "write_actions(output:1,set_field:0x5->reg0)")],
        |given| {
            let actions = given.actions("actions");
            if actions.0.is_empty() {
                // A switch does not store it.
                return Err(Refusal::arguments("it contains no action", "add an action or remove this one"));
            }
            Ok(WriteActions { actions }.into())
        },
    )
    .within(&[Context::Flow])];

    fn decode(_: Wire, body: &mut Reader<'_>, depth: u8) -> Result<Self, DecodeError> {
        body.skip(4)?;
        Ok(WriteActions { actions: Actions::decode_list(body, depth + 1)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Instruction(3).put(out, |out| {
            out.extend_from_slice(&[0; 4]);
            self.actions.encode_list(out);
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write_actions({})", self.actions)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let actions: Actions = call.arg.parse()?;
        if let Some(instruction) = actions.0.iter().find(|action| action.stage() > 0) {
            return Err(ParseError::Order {
                first: "write_actions".to_owned(),
                second: instruction.to_string(),
            });
        }
        Ok(WriteActions { actions }.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("write_actions(output:1)", "0003 0018 00000000 0000 0010 00000001 0000 000000000000")]);
    testing::check_refused([
        "write_actions(goto_table:1)",
        "write_actions(",
        "write_actions(write_actions(output:1))",
    ]);
}

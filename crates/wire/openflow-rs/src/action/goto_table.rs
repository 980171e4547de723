//! `goto_table:N`: continues in a later table.

use super::*;
use crate::field::text::int;

/// Continues in a later table, once all actions are done (an instruction).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GotoTable {
    /// The table, higher than the one the flow is in.
    pub table: u8,
}

impl Body for GotoTable {
    const NAMES: &'static [&'static str] = &["goto_table"];
    const WIRE: &'static [Wire] = &[Wire::Instruction(1)];
    const STAGE: u8 = 4;
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "goto_table",
        "Continues in a later table after all actions.",
        &[Parameter::number("table", TABLE_MAX, "The table, which must come after the flow's own.")],
        &[("goto_table(5)", "goto_table:5")],
        |given| Ok(GotoTable { table: given.number("table")? }.into()),
    )
    .within(&[Context::Flow])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        Ok(GotoTable { table: body.u8()? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Instruction(1).put(out, |out| out.push(self.table));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "goto_table:{}", self.table)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Ok(GotoTable { table: int(call.arg, "table number, at most 255")? }.into())
    }
}

impl Action {
    /// Continues in a later table.
    pub fn goto_table(table: u8) -> Action {
        GotoTable { table }.into()
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("goto_table:7", "0001 0008 07 000000")]);
    testing::check_refused(["goto_table", "goto_table:256"]);
}

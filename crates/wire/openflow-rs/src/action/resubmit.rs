//! `resubmit(PORT,TABLE)`: looks the packet up in a table, then continues here.

use super::*;
use crate::PortNo;
use crate::field::text::int;

/// Looks the packet up in a table, then continues with the next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resubmit {
    /// The ingress port for the lookup; [`PortNo::IN_PORT`] for the packet's own.
    pub in_port: PortNo,
    /// The table; 255 for the current one.
    pub table: u8,
    /// Whether the lookup uses the addresses and ports of the connection's original direction.
    pub ct: bool,
}

/// The table number that stands for the current table.
const THIS_TABLE: u8 = 255;

impl Body for Resubmit {
    const NAMES: &'static [&'static str] = &["resubmit"];
    const WIRE: &'static [Wire] = &[Wire::Nx(1), Wire::Nx(14), Wire::Nx(44)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "resubmit",
        "Looks the packet up in another table, then continues with the next action.",
        &[
            Parameter::number("table", TABLE_MAX, "The table."),
            Parameter::port("port", "The ingress port for the lookup.").named(),
            Parameter::flag("ct", "The lookup uses the addresses and ports of the original direction."),
        ],
        &[
            ("resubmit(32)", "resubmit(,32)"),
            ("resubmit(32, port: 5)", "resubmit(5,32)"),
            ("resubmit(32, ct)", "resubmit(,32,ct)"),
        ],
        |given| {
            let in_port = given.port("port").unwrap_or(PortNo::IN_PORT);
            Ok(Resubmit { in_port, table: given.number("table")?, ct: given.flag("ct") }.into())
        },
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet])];

    fn decode(wire: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let in_port = PortNo(body.u16()?);
        if wire == Wire::Nx(1) {
            body.skip(4)?;
            return Ok(Resubmit { in_port, table: THIS_TABLE, ct: false });
        }
        let table = body.u8()?;
        body.zeros(3)?;
        Ok(Resubmit { in_port, table, ct: wire == Wire::Nx(44) })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let wire = match self {
            Resubmit { ct: true, .. } => Wire::Nx(44),
            Resubmit { table: THIS_TABLE, .. } if self.in_port != PortNo::IN_PORT => Wire::Nx(1),
            _ => Wire::Nx(14),
        };
        wire.put(out, |out| {
            out.extend_from_slice(&self.in_port.0.to_be_bytes());
            out.push(if wire == Wire::Nx(1) { 0 } else { self.table });
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_port != PortNo::IN_PORT && self.table == THIS_TABLE {
            return write!(f, "resubmit:{}", self.in_port);
        }
        f.write_str("resubmit(")?;
        if self.in_port != PortNo::IN_PORT {
            write!(f, "{}", self.in_port)?;
        }
        f.write_str(",")?;
        if self.table != THIS_TABLE {
            write!(f, "{}", self.table)?;
        }
        f.write_str(if self.ct { ",ct)" } else { ")" })
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let form =
            || ParseError::value(call.text, "resubmit action: resubmit(PORT,TABLE), either may be empty");
        let mut parts = call.arg.split(',').map(str::trim);
        let in_port = match parts.next() {
            None | Some("") => PortNo::IN_PORT,
            Some(port) => port.parse()?,
        };
        let table = match parts.next() {
            None | Some("") => THIS_TABLE,
            Some(table) => int(table, "table number, at most 255")?,
        };
        let ct = match parts.next() {
            None => false,
            Some("ct") => true,
            Some(_) => return Err(form()),
        };
        if parts.next().is_some() || (in_port == PortNo::IN_PORT && table == THIS_TABLE) {
            return Err(form());
        }
        // Without a table the switch has no room for `ct`.
        Ok(Resubmit { in_port, table, ct }.into())
    }
}

impl Action {
    /// Looks the packet up in `table`, with its own ingress port.
    pub fn resubmit_table(table: u8) -> Action {
        Resubmit { in_port: PortNo::IN_PORT, table, ct: false }.into()
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("resubmit(,32)", "ffff 0010 00002320 000e fff8 20 000000"),
        ("resubmit(LOCAL,6)", "ffff 0010 00002320 000e fffe 06 000000"),
        ("resubmit:5", "ffff 0010 00002320 0001 0005 00000000"),
        ("resubmit(1,2,ct)", "ffff 0010 00002320 002c 0001 02 000000"),
    ]);
    testing::check_spellings([("resubmit(5,)", "resubmit:5"), ("resubmit(5)", "resubmit:5")]);
    testing::check_refused([
        "resubmit(,)",
        "resubmit",
        "resubmit(1,2,3)",
        "resubmit(,256)",
        "resubmit(,1,ct,)",
    ]);
    testing::check_malformed([
        "ffff 0010 00002320 000e 000a 05 000001",
        "ffff 0018 00002320 000e 000a 05 000000 0000000000000000",
    ]);
}

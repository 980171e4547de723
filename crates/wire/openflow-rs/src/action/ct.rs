//! `ct(...)`: sends the packet to connection tracking.

use super::*;
use crate::field::text::int;
use crate::{MatchError, oxm};

/// Tracks the packet's connection. Optionally commits it and continues in a table with the connection state.
///
/// The flow must match IPv4 or IPv6, or the switch refuses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ct {
    /// Stores the connection.
    pub commit: bool,
    /// Replaces a connection that is tracked in the opposite direction; only with `commit`.
    pub force: bool,
    /// The connection's zone.
    pub zone: CtZone,
    /// The table that continues with a copy of the packet and its connection state.
    pub table: Option<u8>,
    /// The port of a protocol with related connections: 21 for FTP, 69 for TFTP; 0 for none.
    pub alg: u16,
    /// [`Nat`] first if present, then actions that write the connection's mark and label.
    pub actions: Actions,
}

/// The source of a zone number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CtZone {
    /// A number; 0 is the default zone.
    Number(u16),
    /// Sixteen bits of a field.
    Field(Subfield),
}

impl Default for CtZone {
    fn default() -> CtZone {
        CtZone::Number(0)
    }
}

/// Bits of a zone.
const ZONE_BITS: u16 = 16;
/// No table to continue in.
const NO_TABLE: u8 = 255;
const COMMIT: u16 = 1;
const FORCE: u16 = 2;
const FTP: u16 = 21;
const TFTP: u16 = 69;

impl CtZone {
    /// The zone whose number is in `field`, which must be 16 bits.
    ///
    /// # Errors
    /// [`MatchError::BadBits`].
    pub fn field(field: Subfield) -> Result<CtZone, MatchError> {
        if field.bits() != ZONE_BITS {
            let (start, end) = (field.start(), u32::from(field.start()) + u32::from(field.bits()));
            return Err(MatchError::BadBits { field: field.field(), start, end, bits: ZONE_BITS });
        }
        Ok(CtZone::Field(field))
    }
}

impl Body for Ct {
    const NAMES: &'static [&'static str] = &["ct"];
    const WIRE: &'static [Wire] = &[Wire::Nx(35)];
    const LITERALS: &'static [ActionInfo] = &[
        ActionInfo::new(
            "ct",
            "Sends the packet to connection tracking. The flow must match `ip` or `ipv6`.",
            &[
                Parameter::flag("commit", "Adds the connection to the table of tracked connections."),
                Parameter::flag(
                    "force",
                    "Replaces a connection tracked in the opposite direction; only with `commit`.",
                ),
                Parameter::number(
                    "table",
                    TABLE_MAX,
                    "The table that continues with a tracked copy of the packet.",
                )
                .named(),
                Parameter::number("zone", u16::MAX as u64, "The connection's zone.").named(),
                Parameter::read("zone_field", "The 16 bits that contain the zone.").named(),
                Parameter::text(
                    "alg",
                    "protocol: \"ftp\" or \"tftp\"",
                    "The protocol of related connections.",
                )
                .named(),
                Parameter::actions(
                    "actions",
                    Context::Ct,
                    "`nat` and `exec`. Both need `commit`, except a bare `nat`.",
                ),
            ],
            &[
                ("ct(table: 4)", "ct(table=4)"),
                ("ct(table: 42, zone_field: reg13[0..15])", "ct(table=42,zone=NXM_NX_REG13[0..15])"),
                ("ct(commit, force, zone: 5)", "ct(commit,force,zone=5)"),
                (r#"ct(commit, alg: "ftp")"#, "ct(commit,alg=ftp)"),
            ],
            from_literal,
        )
        .within(&[Context::Flow, Context::Clone]),
        ActionInfo::new(
            "exec",
            "Writes the connection's mark and label.",
            &[Parameter::actions("actions", Context::Exec, "`set` or `move` to `ct_mark` or `ct_label`.")],
            &[
                (
                    "ct(commit, zone: 5, exec(set(ct_mark, 1)))",
                    "ct(commit,zone=5,exec(set_field:0x1->ct_mark))",
                ),
                (
                    "ct(commit, exec(move(reg0, ct_label[0..31])))",
                    "ct(commit,exec(move:NXM_NX_REG0[]->NXM_NX_CT_LABEL[0..31]))",
                ),
            ],
            |given| Ok(crate::literal::Part::Actions(given.actions("actions"))),
        )
        .within(&[Context::Ct]),
    ];

    fn decode(_: Wire, body: &mut Reader<'_>, depth: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let flags = body.u16()?;
        let mut field_at = body.clone();
        let (header, number) = (body.u32()?, body.u16()?);
        let zone = if header == 0 {
            CtZone::Number(number)
        } else {
            let field = oxm::get_short(&mut field_at)?;
            Subfield::from_ofs_nbits(field, number)
                .and_then(CtZone::field)
                .map_err(|error| at.fault(error))?
        };
        let table = Some(body.u8()?).filter(|table| *table != NO_TABLE);
        body.zeros(3)?;
        let alg = body.u16()?;
        let actions = Actions::decode_list(body, depth + 1)?;
        let (commit, force) = (flags & COMMIT != 0, flags & FORCE != 0);
        if flags & !(COMMIT | FORCE) != 0 || (force && !commit) {
            return Err(at.fault(Fault::Unknown(flags.into())));
        }
        Ok(Ct { commit, force, zone, table, alg, actions })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.commit { COMMIT } else { 0 } | if self.force { FORCE } else { 0 };
        let (header, number) = match self.zone {
            CtZone::Number(number) => (0, number),
            CtZone::Field(field) => (oxm::short_header(field.field()), field.ofs_nbits()),
        };
        Wire::Nx(35).put(out, |out| {
            out.extend_from_slice(&flags.to_be_bytes());
            out.extend_from_slice(&header.to_be_bytes());
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&[self.table.unwrap_or(NO_TABLE), 0, 0, 0]);
            out.extend_from_slice(&self.alg.to_be_bytes());
            self.actions.encode_list(out);
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.commit.then(|| "commit".to_owned()));
        parts.extend(self.force.then(|| "force".to_owned()));
        parts.extend(self.table.map(|table| format!("table={table}")));
        match self.zone {
            CtZone::Number(0) => {}
            CtZone::Number(zone) => parts.push(format!("zone={zone}")),
            CtZone::Field(field) => parts.push(format!("zone={field}")),
        }
        // Only a leading translation is printed as a separate part.
        let mut actions = &self.actions.0[..];
        if let [Action::Nat(_), rest @ ..] = actions {
            parts.push(actions[0].to_string());
            actions = rest;
        }
        if !actions.is_empty() {
            parts.push(format!("exec({})", Actions(actions.to_vec())));
        }
        match self.alg {
            0 => {}
            FTP => parts.push("alg=ftp".to_owned()),
            TFTP => parts.push("alg=tftp".to_owned()),
            port => parts.push(format!("alg={port}")),
        }
        write!(f, "ct({})", parts.join(","))
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let mut ct = Ct::default();
        let mut rest = call.arg;
        while let Some(part) = list::next_call(&mut rest)? {
            match part.name {
                "commit" if part.text == part.name => ct.commit = true,
                "force" if part.text == part.name => ct.force = true,
                "table" => {
                    let table: u8 = int(part.arg, "table number, at most 254")?;
                    if table == NO_TABLE {
                        return Err(ParseError::value(part.arg, "table number, at most 254"));
                    }
                    ct.table = Some(table);
                }
                "zone" => {
                    ct.zone = match part.arg.parse::<Subfield>() {
                        Ok(field) => CtZone::field(field)?,
                        Err(_) => CtZone::Number(int(part.arg, "zone: a number, or 16 bits of a field")?),
                    }
                }
                "alg" => {
                    ct.alg = match part.arg {
                        "ftp" => FTP,
                        "tftp" => TFTP,
                        port => int(port, "protocol: ftp or tftp")?,
                    }
                }
                "nat" => ct.actions.0.push(Nat::parse(part)?),
                "exec" => {
                    let actions: Actions = part.arg.parse()?;
                    ct.actions.0.extend(actions.0);
                }
                _ => {
                    let expected = "ct argument: commit, force, table, zone, nat, exec or alg";
                    return Err(ParseError::value(part.text, expected));
                }
            }
        }
        if ct.force && !ct.commit {
            return Err(ParseError::value(call.text, "ct action: force needs commit"));
        }
        if let Some(wrong) = ct.actions.0.iter().find(|action| !is_nested(action)) {
            return Err(ParseError::Order { first: "exec".to_owned(), second: wrong.to_string() });
        }
        Ok(ct.into())
    }
}

/// The actions allowed inside: translation, and writing the connection's fields.
fn is_nested(action: &Action) -> bool {
    use crate::Field::{CtLabel, CtMark};
    match action {
        Action::Nat(_) => true,
        Action::SetField(set) => matches!(set.field(), CtMark | CtLabel),
        Action::MoveBits(copy) => matches!(copy.destination().field(), CtMark | CtLabel),
        _ => false,
    }
}

fn from_literal(given: &crate::literal::Arguments<'_>) -> Result<crate::literal::Part, Refusal> {
    use crate::literal::Part;
    let zone = match (given.optional("zone"), given.optional_field("zone_field")) {
        (Some(_), Some(_)) => {
            return Err(Refusal::arguments("zone and zone_field are both given", "give only one of them"));
        }
        (zone, None) => CtZone::Number(zone.unwrap_or(0)),
        (None, Some(field)) => CtZone::field(field).map_err(|_| {
            let message = format!("zone_field has {} bits, but a zone has 16", field.bits());
            Refusal::arguments(message, "name 16 bits, as in reg13[0..15]")
        })?,
    };
    let alg = match given.optional_text("alg") {
        None => 0,
        Some("ftp") => FTP,
        Some("tftp") => TFTP,
        Some(other) => {
            let message = format!("`{other}` is not a supported protocol");
            return Err(Refusal::arguments(message, "give \"ftp\" or \"tftp\""));
        }
    };
    let mut actions = given.actions("actions");
    if actions.0.len() > 1 {
        return Err(Refusal::arguments("`nat` is given twice", "remove one of them"));
    }
    let lists = given.parts("actions").filter_map(|part| match part {
        Part::Actions(actions) => Some(&actions.0),
        _ => None,
    });
    actions.0.extend(lists.flatten().cloned());
    let (commit, force) = (given.flag("commit"), given.flag("force"));
    let needs_commit = actions.0.iter().any(|action| *action != Nat::EXISTING.into());
    if !commit && (force || needs_commit) {
        let what = if force { "force" } else { "an action on new connections" };
        return Err(Refusal::arguments(format!("{what} needs commit"), "add `commit`"));
    }
    let table = given.optional("table");
    Ok(Ct { commit, force, zone, table, alg, actions }.into())
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("ct()", "ffff 0018 00002320 0023 0000 00000000 0000 ff 000000 0000"),
        ("ct(commit,force,table=7,zone=5)", "ffff 0018 00002320 0023 0003 00000000 0005 07 000000 0000"),
        (
            "ct(table=42,zone=NXM_NX_REG13[0..15])",
            "ffff 0018 00002320 0023 0000 00011a04 000f 2a 000000 0000",
        ),
        (
            "ct(table=42,zone=OXM_OF_METADATA[0..15])",
            "ffff 0018 00002320 0023 0000 80000408 000f 2a 000000 0000",
        ),
        ("ct(commit,alg=ftp)", "ffff 0018 00002320 0023 0001 00000000 0000 ff 000000 0015"),
        (
            "ct(commit,nat(src=1.2.3.4),exec(set_field:0x1->ct_mark))",
            "ffff 0040 00002320 0023 0001 00000000 0000 ff 000000 0000 \
             ffff 0018 00002320 0024 0000 0001 0001 01020304 00000000 0019 0010 0001d604 00000001 00000000",
        ),
        (
            "ct(commit,exec(set_field:0x1->ct_mark,nat(src=1.2.3.4)))",
            "ffff 0040 00002320 0023 0001 00000000 0000 ff 000000 0000 \
             0019 0010 0001d604 00000001 00000000 ffff 0018 00002320 0024 0000 0001 0001 01020304 00000000",
        ),
    ]);
    testing::check_spellings([
        ("ct", "ct()"),
        ("ct(zone=5,table=7,force,commit)", "ct(commit,force,table=7,zone=5)"),
        ("ct(commit,exec())", "ct(commit)"),
        ("ct(nat,table=7)", "ct(table=7,nat)"),
    ]);
    testing::check_refused([
        "ct(force)",
        "ct(table=255)",
        "ct(zone=reg0)",
        "ct(zone=65536)",
        "ct(commit,exec(set_field:1->reg0))",
        "ct(commit,exec(ct_clear))",
        "ct(commit:1)",
        "ct(alg=nosuch)",
    ]);
    testing::check_malformed([
        "ffff 0018 00002320 0023 0002 00000000 0000 ff 000000 0000",
        "ffff 0018 00002320 0023 0000 00011a04 0007 ff 000000 0000",
        "ffff 0018 00002320 0023 0004 00000000 0000 ff 000000 0000",
    ]);
}

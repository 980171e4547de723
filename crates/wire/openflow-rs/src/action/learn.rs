//! `learn(...)`: the switch itself adds a flow built from the packet.

mod spec;

use std::collections::BTreeMap;

use super::*;
use crate::field::text::{Hex, int};
use crate::flow_match::Match;
use crate::{Field, MatchError, oxm};

pub use spec::LearnSpec;

/// Adds or changes a flow, whose match and actions the specs build from the packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Learn {
    /// The table of the learned flow, at most 254.
    pub table: u8,
    /// Seconds without packets until the learned flow is removed; 0 for never.
    pub idle_timeout: u16,
    /// Seconds until the learned flow is removed; 0 for never.
    pub hard_timeout: u16,
    /// The idle timeout once a TCP connection ends; 0 for no change.
    pub fin_idle_timeout: u16,
    /// The hard timeout once a TCP connection ends; 0 for no change.
    pub fin_hard_timeout: u16,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Whether controllers are notified when it is removed.
    pub send_flow_rem: bool,
    /// Whether learned flows are removed together with this one.
    pub delete_learned: bool,
    /// The maximum number of learned flows; 0 for no limit.
    pub limit: u32,
    /// One writable bit, set to say whether the learned flow exists ([`Learn::with_result`]).
    result: Option<Subfield>,
    /// The match and actions of the learned flow, in order.
    pub specs: Vec<LearnSpec>,
}

/// The default priority.
const DEFAULT_PRIORITY: u16 = 32768;
/// The default table of `ovs-ofctl`.
const DEFAULT_TABLE: u8 = 1;
// `NX_LEARN_F_*`.
const SEND_FLOW_REM: u16 = 1;
const DELETE_LEARNED: u16 = 2;
const WRITE_RESULT: u16 = 4;

impl Learn {
    /// A flow in `table` without timeouts.
    pub fn new(table: u8, specs: Vec<LearnSpec>) -> Learn {
        Learn {
            table,
            idle_timeout: 0,
            hard_timeout: 0,
            fin_idle_timeout: 0,
            fin_hard_timeout: 0,
            priority: DEFAULT_PRIORITY,
            cookie: 0,
            send_flow_rem: false,
            delete_learned: false,
            limit: 0,
            result: None,
            specs,
        }
    }

    /// The same; sets the bit `result` to say whether the learned flow exists.
    ///
    /// # Errors
    /// The result is read-only, or more than one bit.
    pub fn with_result(self, result: Subfield) -> Result<Learn, MatchError> {
        let (field, start, bits) = (result.field(), result.start(), result.bits());
        if !field.info().writable || field == Field::InPortOxm {
            return Err(MatchError::ReadOnly { field });
        }
        if bits != 1 {
            return Err(MatchError::BadBits {
                field,
                start,
                end: u32::from(start) + u32::from(bits),
                bits: 1,
            });
        }
        Ok(Learn { result: Some(result), ..self })
    }

    /// The bit written.
    pub fn result(&self) -> Option<Subfield> {
        self.result
    }

    /// Checks, as a switch does, that the specs before each field of the learned flow provide its prerequisites
    /// as values.
    ///
    /// # Errors
    /// [`MatchError::Prerequisite`] for the first field without its prerequisites.
    pub fn validate(&self) -> Result<(), MatchError> {
        let mut known: BTreeMap<Field, (u128, u128)> = BTreeMap::new();
        for spec in &self.specs {
            // A field that a match cannot hold is never a prerequisite.
            let learned = known.iter().fold(Match::any(), |learned, (field, (value, mask))| {
                learned.clone().with_masked(*field, *value, *mask).unwrap_or(learned)
            });
            if let Some(field) = spec.destination().map(Subfield::field) {
                let needs = field.info().prerequisite;
                if !learned.meets(needs) {
                    return Err(MatchError::Prerequisite { field, needs });
                }
            }
            if let LearnSpec::Match { to, value } = spec {
                let (field, value, mask) = crate::literal::placed(*to, *value, None);
                let (old, bits) = known.entry(field).or_default();
                // A later spec overwrites earlier ones.
                (*old, *bits) = (*old & !mask | value, *bits | mask);
            }
        }
        Ok(())
    }
}

impl Body for Learn {
    const NAMES: &'static [&'static str] = &["learn"];
    const WIRE: &'static [Wire] = &[Wire::Nx(16), Wire::Nx(45)];
    const LITERALS: &'static [ActionInfo] = &[
        ActionInfo::new(
            "learn",
            "Adds a flow built from the packet, or refreshes it if it exists.",
            &[
                Parameter::number("table", TABLE_MAX, "The learned flow's table.").named().required(),
                Parameter::number("priority", u16::MAX as u64, "The priority; 32768 by default.").named(),
                Parameter::number("idle_timeout", u16::MAX as u64, "Seconds without packets until removal.")
                    .named(),
                Parameter::number("hard_timeout", u16::MAX as u64, "Seconds until removal.").named(),
                Parameter::number("fin_idle_timeout", u16::MAX as u64, "Idle timeout after TCP FIN or RST.")
                    .named(),
                Parameter::number("fin_hard_timeout", u16::MAX as u64, "Hard timeout after TCP FIN or RST.")
                    .named(),
                Parameter::number("cookie", u64::MAX, "The learned flow's cookie.").named(),
                Parameter::number("limit", u32::MAX as u64, "The maximum number of learned flows.").named(),
                Parameter::written("result", "One bit, set to say whether the learned flow exists.").named(),
                Parameter::flag(
                    "send_flow_rem",
                    "Controllers are notified when the learned flow is removed.",
                ),
                Parameter::flag("delete_learned", "Learned flows are removed together with this flow."),
                Parameter::actions(
                    "actions",
                    Context::Learn,
                    "The match (`match`, `copy`) and actions of the learned flow.",
                ),
            ],
            &[
                (
                    "learn(table: 21, priority: 50, idle_timeout: 300, copy(metadata), copy(eth_src, eth_dst), \
                     match(reg0, 5), set(reg1, 7), move(reg0, reg2), output_field(reg0))",
                    "learn(table=21,idle_timeout=300,priority=50,OXM_OF_METADATA[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
                     reg0=0x5,load:0x7->NXM_NX_REG1[],load:NXM_NX_REG0[]->NXM_NX_REG2[],output:NXM_NX_REG0[])",
                ),
                (
                    "learn(table: 3, hard_timeout: 60, fin_idle_timeout: 7, fin_hard_timeout: 9, cookie: 5, \
                     send_flow_rem, copy(eth_src, eth_dst))",
                    "learn(table=3,hard_timeout=60,fin_idle_timeout=7,fin_hard_timeout=9,send_flow_rem,cookie=0x5,\
                     NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])",
                ),
                (
                    "learn(table: 3, delete_learned, limit: 10, result: reg0[5], copy(in_port))",
                    "learn(table=3,delete_learned,limit=10,result_dst=NXM_NX_REG0[5],NXM_OF_IN_PORT[])",
                ),
            ],
            from_literal,
        ),
        spec::MATCH,
        spec::COPY,
        spec::SET,
        spec::MOVE,
        spec::OUTPUT_FIELD,
    ];

    fn decode(wire: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
        let (cookie, flags, table) = (body.u64()?, body.u16()?, body.u8()?);
        body.zeros(1)?;
        let (fin_idle_timeout, fin_hard_timeout) = (body.u16()?, body.u16()?);
        let (mut limit, mut result) = (0, None);
        let known = if wire == Wire::Nx(16) {
            SEND_FLOW_REM | DELETE_LEARNED
        } else {
            limit = body.u32()?;
            let start = body.u16()?;
            body.zeros(2)?;
            if flags & WRITE_RESULT != 0 {
                let field = oxm::get_short(body)?;
                result = Some(Subfield::new(field, start, 1).map_err(|error| at.fault(error))?);
            }
            SEND_FLOW_REM | DELETE_LEARNED | WRITE_RESULT
        };
        if flags & !known != 0 {
            return Err(at.fault(Fault::Unknown(flags.into())));
        }
        if u64::from(table) > TABLE_MAX {
            return Err(at.fault(Fault::Unknown(table.into())));
        }
        let learn = Learn {
            table,
            idle_timeout,
            hard_timeout,
            fin_idle_timeout,
            fin_hard_timeout,
            priority,
            cookie,
            send_flow_rem: flags & SEND_FLOW_REM != 0,
            delete_learned: flags & DELETE_LEARNED != 0,
            limit,
            result: None,
            specs: spec::decode(body)?,
        };
        match result {
            None => Ok(learn),
            Some(result) => learn.with_result(result).map_err(|error| at.fault(error)),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        // The second form adds the properties that do not fit into the first.
        let second = self.limit != 0 || self.result.is_some();
        let mut flags = if self.send_flow_rem { SEND_FLOW_REM } else { 0 };
        flags |= if self.delete_learned { DELETE_LEARNED } else { 0 };
        flags |= if self.result.is_some() { WRITE_RESULT } else { 0 };
        Wire::Nx(if second { 45 } else { 16 }).put(out, |out| {
            for n in [self.idle_timeout, self.hard_timeout, self.priority] {
                out.extend_from_slice(&n.to_be_bytes());
            }
            out.extend_from_slice(&self.cookie.to_be_bytes());
            out.extend_from_slice(&flags.to_be_bytes());
            out.extend_from_slice(&[self.table, 0]);
            for n in [self.fin_idle_timeout, self.fin_hard_timeout] {
                out.extend_from_slice(&n.to_be_bytes());
            }
            if second {
                out.extend_from_slice(&self.limit.to_be_bytes());
                out.extend_from_slice(&self.result.map_or(0, Subfield::start).to_be_bytes());
                out.extend_from_slice(&[0; 2]);
                if let Some(result) = self.result {
                    out.extend_from_slice(&oxm::short_header(result.field()).to_be_bytes());
                }
            }
            for spec in &self.specs {
                spec.encode(out);
            }
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "learn(table={}", self.table)?;
        for (name, seconds) in [
            ("idle_timeout", self.idle_timeout),
            ("hard_timeout", self.hard_timeout),
            ("fin_idle_timeout", self.fin_idle_timeout),
            ("fin_hard_timeout", self.fin_hard_timeout),
        ] {
            if seconds != 0 {
                write!(f, ",{name}={seconds}")?;
            }
        }
        if self.priority != DEFAULT_PRIORITY {
            write!(f, ",priority={}", self.priority)?;
        }
        f.write_str(if self.send_flow_rem { ",send_flow_rem" } else { "" })?;
        f.write_str(if self.delete_learned { ",delete_learned" } else { "" })?;
        if self.cookie != 0 {
            write!(f, ",cookie={}", Hex(self.cookie))?;
        }
        if self.limit != 0 {
            write!(f, ",limit={}", self.limit)?;
        }
        if let Some(result) = self.result {
            write!(f, ",result_dst={result}")?;
        }
        for spec in &self.specs {
            write!(f, ",{spec}")?;
        }
        f.write_str(")")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let mut learn = Learn::new(DEFAULT_TABLE, Vec::new());
        let mut rest = call.arg;
        while let Some(part) = list::next_call(&mut rest)? {
            match part.name {
                "table" => {
                    let expected = "table number, at most 254";
                    let table: u8 = int(part.arg, expected)?;
                    if u64::from(table) > TABLE_MAX {
                        return Err(ParseError::value(part.arg, expected));
                    }
                    learn.table = table;
                }
                "idle_timeout" => learn.idle_timeout = int(part.arg, "number of seconds, at most 65535")?,
                "hard_timeout" => learn.hard_timeout = int(part.arg, "number of seconds, at most 65535")?,
                "fin_idle_timeout" => {
                    learn.fin_idle_timeout = int(part.arg, "number of seconds, at most 65535")?;
                }
                "fin_hard_timeout" => {
                    learn.fin_hard_timeout = int(part.arg, "number of seconds, at most 65535")?;
                }
                "priority" => learn.priority = int(part.arg, "priority, at most 65535")?,
                "cookie" => learn.cookie = int(part.arg, "64-bit cookie")?,
                "limit" => learn.limit = int(part.arg, "number of flows")?,
                "send_flow_rem" if part.text == part.name => learn.send_flow_rem = true,
                "delete_learned" if part.text == part.name => learn.delete_learned = true,
                "result_dst" => learn = learn.with_result(part.arg.parse()?)?,
                _ => learn.specs.push(LearnSpec::parse(part)?),
            }
        }
        Ok(learn.into())
    }
}

fn from_literal(given: &crate::literal::Arguments<'_>) -> Result<crate::literal::Part, Refusal> {
    use crate::literal::Part;
    let specs = given.parts("actions").filter_map(|part| match part {
        Part::Learn(spec) => Some(*spec),
        _ => None,
    });
    let seconds = |name| given.optional(name).unwrap_or(0);
    let learn = Learn {
        idle_timeout: seconds("idle_timeout"),
        hard_timeout: seconds("hard_timeout"),
        fin_idle_timeout: seconds("fin_idle_timeout"),
        fin_hard_timeout: seconds("fin_hard_timeout"),
        priority: given.optional("priority").unwrap_or(DEFAULT_PRIORITY),
        cookie: given.optional("cookie").unwrap_or(0),
        limit: given.optional("limit").unwrap_or(0),
        send_flow_rem: given.flag("send_flow_rem"),
        delete_learned: given.flag("delete_learned"),
        ..Learn::new(given.number("table")?, specs.collect())
    };
    learn.validate()?;
    match given.optional_field("result") {
        None => Ok(learn.into()),
        Some(result) if result.bits() != 1 => {
            let message = format!("the result must be one bit, not {}", result.bits());
            Err(Refusal::arguments(message, "name a bit, as in reg0[0]"))
        }
        Some(result) => Ok(learn.with_result(result)?.into()),
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("learn(table=21)", "ffff 0020 00002320 0010 0000 0000 8000 0000000000000000 0000 15 00 0000 0000"),
        (
            "learn(table=21,idle_timeout=300,hard_timeout=5,fin_idle_timeout=7,fin_hard_timeout=9,priority=50,\
             cookie=0x99,OXM_OF_METADATA[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],reg0=0x5,load:0x7->NXM_NX_REG1[],\
             load:NXM_NX_REG0[]->NXM_NX_REG2[],output:NXM_NX_REG0[])",
            "ffff0070 00002320 0010012c 00050032 00000000 00000099 00001500 00070009 00408000 04080000 80000408 \
             00000030 00000406 00000000 02060000 20200000 00050001 00040000 28200000 00070001 02040000 08200001 \
             00040000 00010404 00001020 00010004 00000000 00000000",
        ),
        (
            "learn(table=21,send_flow_rem,delete_learned,limit=10,result_dst=NXM_NX_REG0[5],\
             NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])",
            "ffff0040 00002320 002d0000 00008000 00000000 00000000 00071500 00000000 0000000a 00050000 00010004 \
             00300000 04060000 00000206 00000000 00000000",
        ),
        (
            "learn(table=21,limit=10,NXM_OF_ETH_DST[],eth_dst=00:00:00:00:00:05,NXM_NX_REG1[0..3]=0x5)",
            "ffff0050 00002320 002d0000 00008000 00000000 00000000 00001500 00000000 0000000a 00000000 00300000 \
             02060000 00000206 00002030 00000000 00050000 02060000 20040005 00010204 00000000",
        ),
        (
            "learn(table=21,load:0x1122334455667788->OXM_OF_METADATA[],xxreg0=0x5,load:0x5->NXM_NX_XXREG0[0..99])",
            "ffff0060 00002320 00100000 00008000 00000000 00000000 00001500 00000000 28401122 33445566 77888000 \
             04080000 20800000 00000000 00000000 00000000 00050001 de100000 28640000 00000000 00000000 00000005 \
             0001de10 00000000",
        ),
    ]);
    testing::check_spellings([
        ("learn()", "learn(table=1)"),
        ("learn(priority=32768,cookie=0)", "learn(table=1)"),
        ("learn(table=2,in_port=5,in_port)", "learn(table=2,in_port=5,NXM_OF_IN_PORT[])"),
        ("learn(load:0->reg0)", "learn(table=1,load:0->NXM_NX_REG0[])"),
    ]);
    testing::check_refused([
        "learn(table=255)",
        "learn(output:5)",
        "learn(set_field:5->reg1)",
        "learn(reg0=0x100000000)",
        "learn(load:reg1->eth_type)",
        "learn(load:5->eth_type)",
        "learn(load:NXM_NX_REG0[0..3]->NXM_NX_REG2[])",
        "learn(reg0=5/7)",
        "learn(result_dst=reg0)",
        "learn(nosuch=5)",
    ]);
    testing::check_malformed([
        "ffff 0020 00002320 0010 0000 0000 8000 0000000000000000 0004 15 00 0000 0000",
        "ffff 0020 00002320 0010 0000 0000 8000 0000000000000000 0000 ff 00 0000 0000",
        "ffff 0028 00002320 0010 0000 0000 8000 0000000000000000 0000 15 00 0000 0000 3020 00000005 0000",
    ]);
}

#[cfg(test)]
#[test]
fn fields_of_the_learned_flow_need_their_protocols_before_them() {
    let learn = |text: &str| match text.parse().unwrap() {
        Action::Learn(learn) => learn.validate(),
        other => panic!("{other}"),
    };
    assert_eq!(learn("learn(table=1,eth_type=0x800,nw_proto=6,tcp_dst=NXM_OF_TCP_SRC[])"), Ok(()));
    let needs = |field: Field| Err(MatchError::Prerequisite { field, needs: field.info().prerequisite });
    assert_eq!(learn("learn(table=1,nw_proto=6,eth_type=0x800)"), needs(Field::IpProto));
    assert_eq!(learn("learn(table=1,load:5->NXM_OF_IP_SRC[])"), needs(Field::IpSrc));
    assert_eq!(learn("learn(table=1,NXM_OF_ETH_TYPE[],NXM_OF_IP_SRC[])"), needs(Field::IpSrc));
}

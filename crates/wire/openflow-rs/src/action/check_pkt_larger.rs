//! `check_pkt_larger(N)->FIELD[BIT]`: tests the length of the packet.

use super::*;
use crate::field::text::int;
use crate::{MatchError, oxm};

/// Sets one bit to say whether the packet, including its Ethernet header, is longer than a limit.
///
/// The result lasts until the end of the list of actions that the comparison stands in, with all that this list resubmits
/// to: Open vSwitch processes the rest of the list for both cases, and then goes on as before the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckPktLarger {
    limit_bytes: u16,
    result: Subfield,
}

impl CheckPktLarger {
    /// Writes to `result`, one bit, whether the packet is longer than `limit_bytes`.
    ///
    /// # Errors
    /// The result is read-only, or more than one bit.
    pub fn new(limit_bytes: u16, result: Subfield) -> Result<CheckPktLarger, MatchError> {
        let (field, start, bits) = (result.field(), result.start(), result.bits());
        if !field.info().writable {
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
        Ok(CheckPktLarger { limit_bytes, result })
    }

    /// The longest packet that sets the bit to 0.
    pub fn limit_bytes(self) -> u16 {
        self.limit_bytes
    }

    /// The bit written.
    pub fn result(self) -> Subfield {
        self.result
    }
}

impl Body for CheckPktLarger {
    const NAMES: &'static [&'static str] = &["check_pkt_larger"];
    const WIRE: &'static [Wire] = &[Wire::Nx(49)];
    const HAS_TARGET: bool = true;
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "check_pkt_larger",
        "Sets one bit to say whether the packet, including its Ethernet header, is longer than a limit. What depends on the \
         bit comes after it in the same actions, such as a resubmit: the bit is as before once they end.",
        &[
            Parameter::number("bytes", u16::MAX as u64, "The limit, in bytes."),
            Parameter::written("result", "One bit of a register or of `metadata`."),
        ],
        &[("check_pkt_larger(1400, reg0[0])", "check_pkt_larger(1400)->NXM_NX_REG0[0]")],
        |given| {
            let result = given.field("result")?;
            if result.bits() != 1 {
                let message = format!("the result must be one bit, not {}", result.bits());
                return Err(Refusal::arguments(message, "name a bit, as in reg0[0]"));
            }
            if !result.field().is_scratch() {
                let message = format!(
                    "the result cannot be in {}: a switch does not write it to packets",
                    result.field()
                );
                return Err(Refusal::arguments(message, "name a bit of a register, as in reg0[0]"));
            }
            Ok(CheckPktLarger::new(given.number("bytes")?, result)?.into())
        },
    )];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let (limit_bytes, start) = (body.u16()?, body.u16()?);
        let field = oxm::get_id(body)?;
        body.skip(body.left())?;
        Subfield::new(field, start, 1)
            .and_then(|result| CheckPktLarger::new(limit_bytes, result))
            .map_err(|error| at.fault(error))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        Wire::Nx(49).put(out, |out| {
            out.extend_from_slice(&self.limit_bytes.to_be_bytes());
            out.extend_from_slice(&self.result.start().to_be_bytes());
            oxm::put_id(out, self.result.field());
            // The field occupies ten bytes, whatever the length of its header.
            out.resize(start + 24, 0);
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check_pkt_larger({})->{}", self.limit_bytes, self.result)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let limit_bytes = int(call.arg, "packet length in bytes, at most 65535")?;
        Ok(CheckPktLarger::new(limit_bytes, call.target.unwrap_or("").parse()?)?.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([(
        "check_pkt_larger(1000)->NXM_NX_REG0[5]",
        "ffff 0018 00002320 0031 03e8 0005 00010004 000000000000",
    )]);
    testing::check_refused([
        "check_pkt_larger(1000)",
        "check_pkt_larger(1000)->reg0",
        "check_pkt_larger(1000)->eth_type[0]",
        "check_pkt_larger(65536)->reg0[0]",
        "resubmit(,1)->reg0[0]",
    ]);
}

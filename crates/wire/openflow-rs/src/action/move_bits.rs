//! `move:SOURCE->DESTINATION`: copies bits between fields (OpenFlow 1.5 copy-field).

use super::*;
use crate::literal::written;
use crate::{Field, MatchError, oxm};

/// Copies bits from one field to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoveBits {
    source: Subfield,
    destination: Subfield,
}

impl MoveBits {
    /// Copies `source` to `destination`, which must have the same width.
    ///
    /// # Errors
    /// The widths differ, or the destination is read-only.
    pub fn new(source: Subfield, destination: Subfield) -> Result<MoveBits, MatchError> {
        let field = destination.field();
        if !field.info().writable || field == Field::InPortOxm {
            return Err(MatchError::ReadOnly { field });
        }
        if source.bits() != destination.bits() {
            let end = u32::from(destination.start()) + u32::from(source.bits());
            let (start, bits) = (destination.start(), destination.bits());
            return Err(MatchError::BadBits { field, start, end, bits });
        }
        Ok(MoveBits { source, destination })
    }

    /// The source bits.
    pub fn source(self) -> Subfield {
        self.source
    }

    /// The destination bits.
    pub fn destination(self) -> Subfield {
        self.destination
    }
}

/// Refuses fields of different width.
pub(super) fn same_width(from: Subfield, to: Subfield) -> Result<(), Refusal> {
    if from.bits() == to.bits() {
        return Ok(());
    }
    let message = format!("{} has {} bits and {} has {}", written(from), from.bits(), written(to), to.bits());
    Err(Refusal::arguments(message, "select the same number of bits in both, as in xreg3[0..47]"))
}

impl Body for MoveBits {
    const NAMES: &'static [&'static str] = &["move"];
    const WIRE: &'static [Wire] = &[Wire::Of(28)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "move",
        "Copies a field, or bits of one, to another of the same width.",
        &[Parameter::read("from", "The source."), Parameter::written("to", "The destination.")],
        &[
            ("move(reg4, arp_spa)", "move:NXM_NX_REG4[]->NXM_OF_ARP_SPA[]"),
            ("move(xreg3[0..47], eth_src)", "move:OXM_OF_PKT_REG3[0..47]->NXM_OF_ETH_SRC[]"),
            ("move(reg0[0..15], reg1[16..31])", "move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31]"),
        ],
        |given| {
            let (from, to) = (given.field("from")?, given.field("to")?);
            same_width(from, to)?;
            Ok(MoveBits::new(from, to)?.into())
        },
    )
    .within(&[Context::Flow, Context::Clone, Context::ActionSet, Context::Exec])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let (bits, from, to) = (body.u16()?, body.u16()?, body.u16()?);
        body.skip(2)?;
        let (source, destination) = (oxm::get_id(body)?, oxm::get_id(body)?);
        Subfield::new(source, from, bits)
            .and_then(|source| MoveBits::new(source, Subfield::new(destination, to, bits)?))
            .map_err(|error| at.fault(error))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Of(28).put(out, |out| {
            for n in [self.source.bits(), self.source.start(), self.destination.start(), 0] {
                out.extend_from_slice(&n.to_be_bytes());
            }
            oxm::put_id(out, self.source.field());
            oxm::put_id(out, self.destination.field());
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "move:{}->{}", self.source, self.destination)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let arrow = || ParseError::value(call.text, "copy SOURCE->DESTINATION");
        let (source, destination) = call.arg.split_once("->").ok_or_else(arrow)?;
        Ok(MoveBits::new(source.parse()?, destination.parse()?)?.into())
    }
}

impl Action {
    /// Copies `source` to `destination`, which must have the same width.
    ///
    /// # Errors
    /// As [`MoveBits::new`].
    pub fn move_bits(source: Subfield, destination: Subfield) -> Result<Action, MatchError> {
        Ok(MoveBits::new(source, destination)?.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        (
            "move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31]",
            "001c 0018 0010 0000 0010 0000 00010004 00010204 00000000",
        ),
        (
            "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
            "001c 0018 0030 0000 0000 0000 80000806 80000606 00000000",
        ),
        (
            "move:NXM_NX_TUN_METADATA0[0..31]->NXM_NX_REG0[]",
            "001c 0018 0020 0000 0000 0000 00015004 00010004 00000000",
        ),
        (
            "move:NXM_NX_REG3[5]->OXM_OF_METADATA[63]",
            "001c 0018 0001 0005 003f 0000 00010604 80000408 00000000",
        ),
    ]);
    testing::check_spellings([
        ("move:reg0->reg1", "move:NXM_NX_REG0[]->NXM_NX_REG1[]"),
        ("move:reg0->tun_metadata0", "move:NXM_NX_REG0[]->NXM_NX_TUN_METADATA0[0..31]"),
    ]);
    testing::check_refused([
        "move:reg0[0..3]->reg1[0..4]",
        "move:reg0",
        "move:reg0->eth_type",
        "move:reg0->reg16",
    ]);
    testing::check_malformed(["001c 0018 0010 0000 0011 0000 00010004 00010204 00000000"]);
}

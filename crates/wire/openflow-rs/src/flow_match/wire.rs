//! Matches as `ofp_match`: a list of OXM fields, padded to a multiple of eight.

use super::*;
use crate::DecodeError;
use crate::error::Fault;
use crate::oxm;
use crate::wire::{Reader, pad8, patch_len};

/// `OFPMT_OXM`, the only match type since OpenFlow 1.2.
const MATCH_TYPE_OXM: u16 = 1;

/// Most matches are shorter.
const USUAL_BYTES: usize = 96;

/// Fields that others depend on; OpenFlow wants them first.
const FIRST: [Field; 7] = [
    Field::EthType,
    Field::VlanTci,
    Field::IpProto,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::CtState,
    Field::CtNwProto,
];

impl Match {
    /// The match as messages have it, with its header and padding. A message has room for 65,535 bytes; a longer match has a header that
    /// says so many.
    pub fn to_wire(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(USUAL_BYTES);
        self.encode(&mut out);
        out
    }

    /// Appends the match with its header and padding (OpenFlow 1.5, section 7.2.3).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MATCH_TYPE_OXM.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        self.encode_fields(out);
        patch_len(out, start, start + 2);
        pad8(out, start);
    }

    /// Appends the fields alone.
    pub(crate) fn encode_fields(&self, out: &mut Vec<u8>) {
        for demand in FIRST.iter().filter_map(|field| self.find(*field)) {
            put_demand(out, demand);
        }
        for demand in self.iter().filter(|demand| !FIRST.contains(&demand.field)) {
            put_demand(out, demand);
        }
    }

    fn find(&self, field: Field) -> Option<Demand> {
        self.get(field).map(|(value, mask)| Demand { field, value, mask })
    }

    /// Reads a match with its header and padding.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Match, DecodeError> {
        let mut at = reader.clone().named("match");
        let (kind, len) = (at.u16()?, usize::from(at.u16()?));
        if kind != MATCH_TYPE_OXM {
            return Err(at.fault(Fault::Unknown(kind.into())));
        }
        let Some(body) = len.checked_sub(4) else { return Err(at.fault(Fault::Length(len))) };
        reader.skip(4)?;
        let fields = reader.sub("match", body)?;
        reader.skip(len.next_multiple_of(8) - len)?;
        Match::decode_fields(fields)
    }

    /// Reads fields alone until the reader is empty.
    pub(crate) fn decode_fields(mut fields: Reader<'_>) -> Result<Match, DecodeError> {
        let mut found = Match::any();
        while !fields.is_empty() {
            let at = fields.clone();
            let (field, value, mask) = oxm::get(&mut fields)?;
            found = found.with_masked(field, value, mask).map_err(|error| at.fault(error))?;
        }
        Ok(found)
    }
}

fn put_demand(out: &mut Vec<u8>, Demand { field, value, mask }: Demand) {
    match field {
        Field::InPort => {
            let port = crate::PortNo(value as u16).to_wire();
            oxm::put(out, Field::InPortOxm, port.into(), u32::MAX.into());
        }
        Field::ActsetOutput => {
            let port = crate::PortNo(value as u16).to_wire();
            oxm::put(out, field, port.into(), u32::MAX.into());
        }
        // `vlan_pcp` demands a tag. Nicira's field alone says a priority without one.
        Field::VlanTci if mask & VLAN_PCP != 0 && mask & VLAN_PRESENT == 0 => {
            oxm::put(out, field, value, mask);
        }
        Field::VlanTci => {
            let vid = VLAN_PRESENT | 0xfff;
            if mask & vid != 0 {
                oxm::put(out, Field::VlanVid, value & vid, mask & vid);
            }
            if mask & VLAN_PCP != 0 {
                oxm::put(out, Field::VlanPcp, value >> 13, mask >> 13);
            }
        }
        _ => oxm::put(out, field, value, mask),
    }
}

//! How a select group chooses a bucket: the property `selection_method` that Netronome added to OpenFlow 1.5.

use std::fmt;

use crate::action::next_call;
use crate::error::Fault;
use crate::field::text::int;
use crate::oxm;
use crate::wire::{Reader, pad8, patch_len};
use crate::{DecodeError, Field, MatchError, ParseError};

/// `OFPGPT_EXPERIMENTER`.
const EXPERIMENTER_PROPERTY: u16 = 0xffff;
/// `NTR_VENDOR_ID`.
const NETRONOME: u32 = 0x0000_154d;
/// `NTR_COMPAT_VENDOR_ID`, which Open vSwitch 2.4 sent by mistake.
const NETRONOME_COMPATIBLE: u32 = 0x0000_1540;
/// `NTRT_SELECTION_METHOD`.
const SELECTION_METHOD: u32 = 1;
/// Bytes of the name of a method, with at least one zero at the end.
const NAME_LEN: usize = 16;
/// Bytes of the property before its fields.
const FIXED_LEN: usize = 40;

/// Every field, in the order in which Open vSwitch hashes, sends and prints those of a group (`enum mf_field_id`).
const ORDER: &[Field] = &[
    Field::DpHash,
    Field::PacketType,
    Field::ConjId,
    Field::TunId,
    Field::TunSrc,
    Field::TunDst,
    Field::TunIpv6Src,
    Field::TunIpv6Dst,
    Field::TunFlags,
    Field::TunGbpId,
    Field::TunGbpFlags,
    Field::TunMetadata0,
    Field::Metadata,
    Field::InPort,
    Field::InPortOxm,
    Field::ActsetOutput,
    Field::PktMark,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::CtNwProto,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::Reg0,
    Field::Reg1,
    Field::Reg2,
    Field::Reg3,
    Field::Reg4,
    Field::Reg5,
    Field::Reg6,
    Field::Reg7,
    Field::Reg8,
    Field::Reg9,
    Field::Reg10,
    Field::Reg11,
    Field::Reg12,
    Field::Reg13,
    Field::Reg14,
    Field::Reg15,
    Field::Xreg0,
    Field::Xreg1,
    Field::Xreg2,
    Field::Xreg3,
    Field::Xreg4,
    Field::Xreg5,
    Field::Xreg6,
    Field::Xreg7,
    Field::Xxreg0,
    Field::Xxreg1,
    Field::Xxreg2,
    Field::Xxreg3,
    Field::EthSrc,
    Field::EthDst,
    Field::EthType,
    Field::VlanTci,
    Field::VlanVid,
    Field::VlanPcp,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::MplsTtl,
    Field::IpSrc,
    Field::IpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::IpProto,
    Field::IpTos,
    Field::IpDscp,
    Field::IpEcn,
    Field::IpTtl,
    Field::IpFrag,
    Field::ArpOp,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::ArpSha,
    Field::ArpTha,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpFlags,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::IcmpType,
    Field::IcmpCode,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::NdTarget,
    Field::NdSll,
    Field::NdTll,
    Field::NdReserved,
    Field::NdOptionsType,
];

/// The computation that chooses a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectionMethod {
    /// A hash of fields, computed once for each value of these fields.
    Hash,
    /// A hash that the datapath computes of each packet.
    DpHash,
}

impl SelectionMethod {
    const ALL: [SelectionMethod; 2] = [SelectionMethod::Hash, SelectionMethod::DpHash];

    /// The name on the wire and in text.
    pub fn name(self) -> &'static str {
        ["hash", "dp_hash"][self as usize]
    }

    fn named(name: &str) -> Option<SelectionMethod> {
        SelectionMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// How a select group chooses a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The computation.
    pub method: SelectionMethod,
    /// What the hash begins with.
    pub param: u64,
    /// Fields with masks, sorted as [`ORDER`] is.
    fields: Vec<(Field, u128)>,
}

impl Selection {
    /// A hash of whole fields. Without any, Open vSwitch hashes addresses, protocol and ports, the same both ways.
    pub fn hash(fields: impl IntoIterator<Item = Field>) -> Selection {
        Selection::hash_masked(fields.into_iter().map(|field| (field, field.max_value())))
    }

    /// A hash of the bits of fields that masks select. The order does not matter; of a field that comes twice, the
    /// first mask counts.
    pub fn hash_masked(fields: impl IntoIterator<Item = (Field, u128)>) -> Selection {
        let mut fields: Vec<(Field, u128)> = fields.into_iter().collect();
        fields.sort_by_key(|(field, _)| place(*field));
        fields.dedup_by_key(|(field, _)| *field);
        Selection { method: SelectionMethod::Hash, param: 0, fields }
    }

    /// The datapath's hash.
    pub fn dp_hash() -> Selection {
        Selection { method: SelectionMethod::DpHash, param: 0, fields: Vec::new() }
    }

    /// The same method with another parameter.
    pub fn with_param(self, param: u64) -> Selection {
        Selection { param, ..self }
    }

    /// The hashed fields with the masks of their hashed bits, in the order in which Open vSwitch hashes them.
    pub fn fields(&self) -> &[(Field, u128)] {
        &self.fields
    }

    /// Appends the property.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&EXPERIMENTER_PROPERTY.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&NETRONOME.to_be_bytes());
        out.extend_from_slice(&SELECTION_METHOD.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        let mut name = [0; NAME_LEN];
        let bytes = self.method.name().as_bytes();
        name[..bytes.len()].copy_from_slice(bytes);
        out.extend_from_slice(&name);
        out.extend_from_slice(&self.param.to_be_bytes());
        for (field, mask) in &self.fields {
            // The value is the mask; a switch takes a whole field only if every bit is set, those that pad it too.
            let bits = if field.is_exact(*mask) { all_ones(*field) } else { *mask };
            oxm::put(out, *field, bits, field.max_value());
        }
        patch_len(out, start, start + 2);
        pad8(out, start);
    }

    /// Reads the property if it is this one; otherwise the reader stays where it is.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Selection>, DecodeError> {
        let at = reader.clone().named("selection method");
        let mut head = at.clone();
        let (kind, len) = (head.u16()?, usize::from(head.u16()?));
        if kind != EXPERIMENTER_PROPERTY
            || !matches!(head.u32()?, NETRONOME | NETRONOME_COMPATIBLE)
            || head.u32()? != SELECTION_METHOD
        {
            return Ok(None);
        }
        if len < FIXED_LEN {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("selection method", len)?;
        reader.skip(len.next_multiple_of(8) - len)?;
        body.skip(16)?;
        let name: [u8; NAME_LEN] = body.array()?;
        let name = String::from_utf8_lossy(&name);
        let name = name.split('\0').next().unwrap_or_default();
        let unknown = || at.fault(Fault::Name(name.to_owned()));
        let method = SelectionMethod::named(name).ok_or_else(unknown)?;
        let param = body.u64()?;
        let mut fields: Vec<(Field, u128)> = Vec::new();
        while !body.is_empty() {
            let at = body.clone();
            let hashed = hashed_field(&mut body)?;
            if fields.iter().any(|(field, _)| *field == hashed.0) {
                return Err(at.fault(Fault::Duplicate));
            }
            fields.push(hashed);
        }
        Ok(Some(Selection { method, param, ..Selection::hash_masked(fields) }))
    }

    /// Reads what stands before the buckets of a group, given the text of each part that was there.
    pub(super) fn read(
        method: Option<&str>,
        param: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Option<Selection>, ParseError> {
        let Some(name) = method else {
            let stray = param.or(fields);
            let expected = "group: selection_method must come with selection_method_param and fields";
            return stray.map_or(Ok(None), |text| Err(ParseError::value(text, expected)));
        };
        let unknown = || ParseError::value(name, "selection method: hash or dp_hash");
        let method = SelectionMethod::named(name).ok_or_else(unknown)?;
        let param = param.map_or(Ok(0), |text| int(text, "64-bit number"))?;
        let mut read: Vec<(Field, u128)> = Vec::new();
        let mut rest = fields.unwrap_or_default();
        while let Some(part) = next_call(&mut rest)? {
            let field = hashable(part.name)
                .ok_or_else(|| ParseError::value(part.name, "field that a group can hash, such as ip_src"))?;
            let mask = if part.arg.is_empty() { field.max_value() } else { read_mask(field, part.arg)? };
            if read.iter().any(|(other, _)| *other == field) {
                return Err(ParseError::value(part.text, "field that is not there already"));
            }
            read.push((field, mask));
        }
        if method != SelectionMethod::Hash && !read.is_empty() {
            return Err(ParseError::value(name, "selection method with fields: hash"));
        }
        Ok(Some(Selection { method, param, ..Selection::hash_masked(read) }))
    }
}

impl fmt::Display for Selection {
    /// Writes the parts with a comma before each, as they stand after the type of a group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",selection_method={}", self.method.name())?;
        if self.param != 0 {
            write!(f, ",selection_method_param={}", self.param)?;
        }
        let (open, close) = match self.fields.len() {
            0 => return Ok(()),
            1 => ("=", ""),
            _ => ("(", ")"),
        };
        write!(f, ",fields{open}")?;
        for (number, (field, mask)) in self.fields.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{}", field.name())?;
            if !field.is_exact(*mask) {
                f.write_str("=")?;
                // As a value: the mask of a whole value is not written.
                field.write_match(f, *mask, field.max_value())?;
            }
        }
        f.write_str(close)
    }
}

fn place(field: Field) -> usize {
    ORDER.iter().position(|other| *other == field).unwrap_or(ORDER.len())
}

/// The field with this name, if a group can hash it.
fn hashable(name: &str) -> Option<Field> {
    Field::from_name(name).filter(|field| !field.is_option())
}

/// All bits that the field has on the wire.
fn all_ones(field: Field) -> u128 {
    u128::MAX >> (128 - 8 * field.wire_bytes())
}

/// Reads a mask, which is written as a value of the field.
fn read_mask(field: Field, text: &str) -> Result<u128, ParseError> {
    let (mask, whole) = field.read(text)?;
    let is_mask = mask != 0
        && field.is_exact(whole)
        && mask & !field.max_value() == 0
        && (field.info().maskable || field.is_exact(mask));
    if is_mask { Ok(mask) } else { Err(ParseError::value(text, "mask that the field takes, not zero")) }
}

/// Reads one hashed field: a field without a mask, whose value is the mask.
fn hashed_field(body: &mut Reader<'_>) -> Result<(Field, u128), DecodeError> {
    const MASKED: u8 = 1;
    let at = body.clone();
    let [_, _, number, _] = at.clone().array()?;
    let (field, bits, mask) = oxm::get(body)?;
    if field.is_option() {
        return Err(at.fault(Fault::Unknown(number.into())));
    }
    let max = field.max_value();
    if number & MASKED != 0 {
        return Err(at.fault(MatchError::NotMaskable { field, mask }));
    }
    match bits {
        _ if bits == all_ones(field) => Ok((field, max)),
        _ if bits & !max != 0 => Err(at.fault(MatchError::Range { field, value: bits, max })),
        _ if bits != 0 && bits != max && !field.info().maskable => {
            Err(at.fault(MatchError::NotMaskable { field, mask: bits }))
        }
        _ => Ok((field, bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_one_place() {
        let places: std::collections::BTreeSet<usize> = Field::all().map(place).collect();
        assert_eq!((places.len(), ORDER.len()), (Field::all().count(), Field::all().count()));
        assert_eq!(places.last(), Some(&(ORDER.len() - 1)));
    }

    #[test]
    fn the_order_of_fields_does_not_matter() {
        let one = Selection::hash([Field::TcpDst, Field::IpSrc]);
        assert_eq!(one, Selection::hash([Field::IpSrc, Field::TcpDst, Field::IpSrc]));
        assert_eq!(one.to_string(), ",selection_method=hash,fields(ip_src,tcp_dst)");
    }

    #[test]
    fn the_property_looks_as_open_vswitch_sends_it() {
        let selection = Selection::hash_masked([(Field::IpSrc, 0xffff_ff00)]).with_param(7);
        let mut bytes = Vec::new();
        selection.encode(&mut bytes);
        let head = [0xff, 0xff, 0, 48, 0, 0, 0x15, 0x4d, 0, 0, 0, 1, 0, 0, 0, 0];
        let rest = [0, 0, 0, 0, 0, 0, 0, 7, 0x80, 0, 22, 4, 255, 255, 255, 0];
        assert_eq!(bytes, [&head[..], b"hash\0\0\0\0\0\0\0\0\0\0\0\0", &rest[..]].concat());
        let read = |bytes: &[u8]| Selection::decode(&mut Reader::new("test", bytes));
        assert_eq!(read(&bytes), Ok(Some(selection)));

        let changed = |place: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[place] = byte;
            read(&bytes)
        };
        // The identifier that Open vSwitch 2.4 used; another property; then a method, a length, a mask that are wrong.
        assert!(matches!(changed(7, 0x40), Ok(Some(_))));
        assert_eq!(changed(11, 2), Ok(None));
        for (place, byte) in [(16, b'x'), (3, 39), (42, 23)] {
            assert!(changed(place, byte).is_err(), "{place}");
        }
    }
}

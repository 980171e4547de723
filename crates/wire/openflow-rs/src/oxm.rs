//! One match field on the wire: OXM and NXM share the format (OpenFlow 1.5, section 7.2.3.2).

use crate::DecodeError;
use crate::error::Fault;
use crate::field::{Field, Header};
use crate::wire::{Reader, put_uint};

/// The class whose fields carry an experimenter id.
const CLASS_EXPERIMENTER: u16 = 0xffff;

/// Appends a field; the mask is left out when it covers the field.
pub(crate) fn put(out: &mut Vec<u8>, field: Field, value: u128, mask: u128) {
    let n = field.wire_bytes();
    let masked = !field.is_exact(mask);
    put_header(out, sent(field), masked, if masked { 2 * n } else { n });
    put_uint(out, value, n);
    if masked {
        put_uint(out, mask, n);
    }
}

/// Appends the header alone, as actions name fields.
pub(crate) fn put_id(out: &mut Vec<u8>, field: Field) {
    put_header(out, sent(field), false, field.wire_bytes());
}

/// The field's 32-bit NXM header, for old actions without room for a longer one.
pub(crate) fn nxm_header(field: Field) -> Option<u32> {
    let header = field.info().headers.iter().find(|header| header.class <= 1)?;
    Some(u32::from(header.class) << 16 | u32::from(header.number) << 9 | field.wire_bytes() as u32)
}

fn sent(field: Field) -> &'static Header {
    let headers = field.info().headers;
    &headers[headers.len() - 1]
}

fn put_header(out: &mut Vec<u8>, header: &Header, masked: bool, len: usize) {
    let experimenter = header.class == CLASS_EXPERIMENTER;
    out.extend_from_slice(&header.class.to_be_bytes());
    out.push(header.number << 1 | u8::from(masked));
    out.push(len as u8 + if experimenter { 4 } else { 0 });
    if experimenter {
        out.extend_from_slice(&header.experimenter.to_be_bytes());
    }
}

/// Reads a header: field, whether a mask follows, bytes of value and mask.
fn get_header(reader: &mut Reader<'_>) -> Result<(Field, bool, usize), DecodeError> {
    let at = reader.clone();
    let (class, number, len) = (reader.u16()?, reader.u8()?, usize::from(reader.u8()?));
    let (experimenter, len) = if class == CLASS_EXPERIMENTER {
        (reader.u32()?, len.checked_sub(4).ok_or_else(|| at.fault(Fault::Length(len)))?)
    } else {
        (0, len)
    };
    let field = Field::from_header(class, experimenter, number >> 1).ok_or_else(|| {
        at.fault(Fault::Unknown(u64::from(class) << 16 | u64::from(number) << 8 | len as u64))
    })?;
    Ok((field, number & 1 == 1, len))
}

/// Reads a field with its value; the mask of an unmasked one is exact.
///
/// As Open vSwitch does, an all-ones mask counts as exact and values must lie inside their mask.
pub(crate) fn get(reader: &mut Reader<'_>) -> Result<(Field, u128, u128), DecodeError> {
    let at = reader.clone();
    let (field, masked, len) = get_header(reader)?;
    let full = field.wire_bytes();
    // Options come without leading zeros: the value 0 has no bytes at all.
    let (shorter, shortest) = if masked { (len / 2, 1) } else { (len, 0) };
    let n = if field.is_option() && (shortest..full).contains(&shorter) { shorter } else { full };
    if len != if masked { 2 * n } else { n } {
        return Err(at.fault(Fault::Length(len)));
    }
    let value = reader.uint(n)?;
    if !masked {
        return Ok((field, value, field.max_value()));
    }
    let all_ones = u128::MAX >> (128 - 8 * full);
    let mask = match reader.uint(n)? {
        ones if ones == all_ones => field.max_value(),
        mask => mask,
    };
    // This format cannot express that an option is present with any content.
    if value & !mask != 0 || (mask == 0 && field.is_option()) {
        return Err(at.fault(crate::MatchError::OutsideMask { field, value, mask }));
    }
    Ok((field, value, mask))
}

/// Reads a field's header alone.
pub(crate) fn get_id(reader: &mut Reader<'_>) -> Result<Field, DecodeError> {
    let at = reader.clone();
    let (field, masked, len) = get_header(reader)?;
    // Some senders write a length of zero where they only name a field.
    if masked || !(names(field, len) || len == 0) {
        return Err(at.fault(Fault::Length(len)));
    }
    Ok(field)
}

/// The field's 32-bit header, for actions with room for four bytes: NXM if the field has such a header, otherwise
/// another class. Only fields of other experimenters have none.
pub(crate) fn short_header(field: Field) -> u32 {
    let mut headers = field.info().headers.iter();
    let header = headers.find(|header| header.class != CLASS_EXPERIMENTER).unwrap_or_else(|| sent(field));
    u32::from(header.class) << 16 | u32::from(header.number) << 9 | field.wire_bytes() as u32
}

/// Reads a 32-bit header.
pub(crate) fn get_short(reader: &mut Reader<'_>) -> Result<Field, DecodeError> {
    let at = reader.clone();
    let header = reader.u32()?;
    from_nxm_header(header).ok_or_else(|| at.fault(Fault::Unknown(header.into())))
}

/// The field of a 32-bit header, for old actions.
pub(crate) fn from_nxm_header(header: u32) -> Option<Field> {
    let [high, low, number, len] = header.to_be_bytes();
    let class = u16::from_be_bytes([high, low]);
    let field = Field::from_header(class, 0, number >> 1)?;
    (number & 1 == 0 && names(field, len.into()) && class != CLASS_EXPERIMENTER).then_some(field)
}

/// The most bytes that Open vSwitch allows in an option.
const OPTION_LEN: usize = 124;

/// Whether a header with this length names the field.
fn names(field: Field, len: usize) -> bool {
    len == field.wire_bytes() || (field.is_option() && len == OPTION_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ovs-ofctl` omits leading zeros of options, and writes their full length where it only names them.
    #[test]
    fn options_are_read_as_short_as_others_write_them() {
        for (bytes, expected) in [
            (&[0, 1, 0x50, 0][..], (0, 0xffff_ffff)),
            (&[0, 1, 0x50, 1, 5], (5, 0xffff_ffff)),
            (&[0, 1, 0x50, 2, 5, 6], (0x506, 0xffff_ffff)),
            (&[0, 1, 0x51, 2, 5, 0xff], (5, 0xff)),
            (&[0, 1, 0x51, 8, 0, 0, 0, 5, 255, 255, 255, 255], (5, 0xffff_ffff)),
        ] {
            let got = get(&mut Reader::new("test", bytes)).unwrap();
            assert_eq!(got, (Field::TunMetadata0, expected.0, expected.1));
        }
        assert_eq!(get_id(&mut Reader::new("test", &[0, 1, 0x50, 124])), Ok(Field::TunMetadata0));
        assert_eq!(from_nxm_header(0x0001_507c), Some(Field::TunMetadata0));
        for bytes in [&[0, 1, 0, 1, 5][..], &[0, 1, 0, 0], &[0, 1, 0x51, 0]] {
            assert!(get(&mut Reader::new("test", bytes)).is_err(), "{bytes:?}");
        }
    }
}

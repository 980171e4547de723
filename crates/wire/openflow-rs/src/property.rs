//! Properties: type, length, content, and padding to a multiple of eight that the length does not count (Open vSwitch,
//! `lib/ofp-prop.c`).

use crate::DecodeError;
use crate::error::Fault;
use crate::wire::{Reader, pad8, patch_len};

/// Bytes of type and length.
const HEADER_LEN: usize = 4;
/// Bytes between the header and a content that is aligned to eight bytes.
const ALIGNMENT: usize = 4;

/// Appends a property with the content that `content` appends.
pub(crate) fn put(out: &mut Vec<u8>, kind: u16, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    content(out);
    patch_len(out, start, start + 2);
    pad8(out, start);
}

/// Appends a property of one byte.
pub(crate) fn put_u8(out: &mut Vec<u8>, kind: u16, value: u8) {
    put(out, kind, |out| out.push(value));
}

/// Appends a property of 16 bits. OpenFlow counts two bytes of its padding as content.
pub(crate) fn put_u16(out: &mut Vec<u8>, kind: u16, value: u16) {
    put(out, kind, |out| {
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
    });
}

/// Appends a property of 32 bits.
pub(crate) fn put_u32(out: &mut Vec<u8>, kind: u16, value: u32) {
    put(out, kind, |out| out.extend_from_slice(&value.to_be_bytes()));
}

/// Appends a property whose content is aligned to eight bytes.
pub(crate) fn put_aligned(out: &mut Vec<u8>, kind: u16, content: &[u8]) {
    put(out, kind, |out| {
        out.extend_from_slice(&[0; ALIGNMENT]);
        out.extend_from_slice(content);
    });
}

/// Reads the next property: its type and its content.
pub(crate) fn next<'a>(reader: &mut Reader<'a>) -> Result<(u16, Reader<'a>), DecodeError> {
    let at = reader.clone().named("property");
    let (kind, len) = (reader.u16()?, usize::from(reader.u16()?));
    let content = len.checked_sub(HEADER_LEN).ok_or_else(|| at.fault(Fault::Length(len)))?;
    let content = reader.sub("property", content)?;
    reader.skip(len.next_multiple_of(8) - len)?;
    Ok((kind, content))
}

/// The 32 bits that are the whole content.
pub(crate) fn get_u32(mut content: Reader<'_>) -> Result<u32, DecodeError> {
    let value = content.u32()?;
    content.end()?;
    Ok(value)
}

/// The content, without the bytes that align it.
pub(crate) fn get_aligned(mut content: Reader<'_>) -> Result<Reader<'_>, DecodeError> {
    content.skip(ALIGNMENT)?;
    Ok(content)
}

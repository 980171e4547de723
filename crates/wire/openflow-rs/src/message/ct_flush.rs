//! Forgets the connections of a zone: a message of Open vSwitch (`NXT_CT_FLUSH_ZONE`).

use crate::DecodeError;
use crate::wire::Reader;

/// Bytes before the zone, which must be zero.
const PADDING: usize = 6;

pub(super) fn encode(zone: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; PADDING]);
    out.extend_from_slice(&zone.to_be_bytes());
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
    reader.zeros(PADDING)?;
    reader.u16()
}

pub(super) fn print(zone: u16) -> String {
    format!(" zone_id={zone}")
}

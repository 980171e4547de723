//! TCP resets (RFC 9293, 3.10.7.1).

use std::net::IpAddr;

use etherparse::{TcpHeader, TcpHeaderSlice};
use frame_builder::TCP;

use crate::Silence;
use crate::headers::{ipv4, ipv6};
use crate::received::Received;

/// The packet of a reset that answers this segment.
///
/// The checksum of the segment is not verified: the sender's system may leave it to a network card, which a virtual one does not have.
pub(crate) fn reset(received: &Received<'_>, segment: TcpHeaderSlice<'_>) -> Result<Vec<u8>, Silence> {
    if segment.rst() {
        return Err(Silence::IsReset);
    }
    let mut header = TcpHeader::new(segment.destination_port(), segment.source_port(), 0, 0);
    header.rst = true;
    if segment.ack() {
        header.sequence_number = segment.acknowledgment_number();
    } else {
        let data = received.payload_len.saturating_sub(segment.slice().len()) as u32;
        let length = data.wrapping_add(segment.syn().into()).wrapping_add(segment.fin().into());
        header.ack = true;
        header.acknowledgment_number = segment.sequence_number().wrapping_add(length);
    }
    let (from, to) = (received.to, received.from);
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let sum = header.calc_checksum_ipv4_raw(from.octets(), to.octets(), &[]);
            header.checksum = sum.map_err(|_| Silence::Damaged)?;
            Ok(ipv4(from, to, TCP).packet(&header.to_bytes()))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let sum = header.calc_checksum_ipv6_raw(from.octets(), to.octets(), &[]);
            header.checksum = sum.map_err(|_| Silence::Damaged)?;
            Ok(ipv6(from, to, TCP).packet(&header.to_bytes()))
        }
        _ => Err(Silence::Damaged),
    }
}

//! The Internet checksum (RFC 1071).

use std::net::IpAddr;

/// Whether bytes that contain their checksum are intact.
pub(crate) fn is_intact(parts: &[&[u8]]) -> bool {
    checksum_of(parts) == 0
}

/// The checksum of bytes whose field for it is zero.
pub(crate) fn checksum_of(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Whether a payload of IP is intact, whose checksum covers the addresses too (RFC 9293, 3.1; RFC 8200, 8.1).
pub(crate) fn is_intact_between((src, dst): (IpAddr, IpAddr), protocol: u8, payload: &[u8]) -> bool {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    // All parts but the last have even lengths.
    is_intact(&[&octets(src), &octets(dst), &length, &[0, 0, 0, protocol], payload])
}

/// The bytes of an address.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

//! UDP datagrams that carry requests.

use std::net::IpAddr;

use frame_builder::{UDP, checksum};

use crate::Silence;
use crate::received::Received;

/// The payload of a UDP datagram between these ports, which is whole and undamaged.
pub(crate) fn payload<'a>(received: &Received<'a>, from: u16, to: u16) -> Result<&'a [u8], Silence> {
    read(received, |ports| ports == [from, to]).map(|(_, payload)| payload)
}

/// The port that a UDP datagram to this port is from, and its payload. The datagram is whole and undamaged.
pub(crate) fn to_port<'a>(received: &Received<'a>, port: u16) -> Result<(u16, &'a [u8]), Silence> {
    read(received, |[_, to]| to == port)
}

fn read<'a>(
    received: &Received<'a>,
    is_wanted: impl Fn([u16; 2]) -> bool,
) -> Result<(u16, &'a [u8]), Silence> {
    const HEADER_LEN: usize = 8;
    if received.protocol != UDP {
        return Err(Silence::NoRequest);
    }
    let whole = received.whole()?;
    let [f0, f1, t0, t1, l0, l1, c0, c1, ..] = *whole else { return Err(Silence::Damaged) };
    let port = u16::from_be_bytes([f0, f1]);
    if !is_wanted([port, u16::from_be_bytes([t0, t1])]) {
        return Err(Silence::NoRequest);
    }
    let length = [l0, l1];
    let datagram = whole.get(..u16::from_be_bytes(length).into()).ok_or(Silence::Damaged)?;
    let (from, to) = (octets(received.from), octets(received.to));
    // 0 is no checksum, which IPv4 alone allows (RFC 768; RFC 8200, 8.1).
    let is_right = match [c0, c1] {
        [0, 0] => received.from.is_ipv4(),
        _ => checksum(&[&from, &to, &[0, UDP], &length, datagram]) == 0,
    };
    let payload = datagram.get(HEADER_LEN..).filter(|_| is_right).ok_or(Silence::Damaged)?;
    Ok((port, payload))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

//! Packets for real switches.

use std::net::Ipv4Addr;

use frame_builder::{Ipv4, ethernet, udp_without_checksum};

const IPV4: u16 = 0x800;
const UDP: u8 = 17;

/// A UDP packet from 10.0.0.1 to 10.0.0.2 from this port, in hexadecimal digits.
pub fn datagram(from: u16) -> String {
    let packet = Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), UDP);
    let packet = packet.packet(&udp_without_checksum(from, 53, b"weft"));
    let frame = ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], IPV4, &packet);
    ovs_testing::hex(&frame)
}

//! Packets that ask for an answer, and how the answers are known.

use std::net::Ipv4Addr;

use frame_builder::{BROADCAST, Endpoints, ICMP, IPV4, Ipv4, Mac, TCP, UDP, ethernet, icmp, tcp, udp};

/// Where the IPv4 packet of a frame begins, and the payload of a packet without options.
const IP: usize = 14;
const PAYLOAD: usize = IP + 20;
/// A port on which routers offer nothing.
const CLOSED: u16 = 22;
/// Where `traceroute` sends datagrams.
const TRACED: u16 = 33_434;

/// Who sends, and the MAC address of its router.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) mac: Mac,
    pub(crate) ip: Ipv4Addr,
    pub(crate) router: Mac,
}

impl Sender {
    fn packet(&self, to: Ipv4Addr, protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
        let packet = Ipv4 { ttl, ..Ipv4::new(self.ip, to, protocol) };
        ethernet(self.router, self.mac, IPV4, &packet.packet(payload))
    }

    /// An echo request, as long as those of `ping`.
    pub(crate) fn echo(&self, to: Ipv4Addr, number: u16) -> Vec<u8> {
        let number = number.to_be_bytes();
        self.packet(to, ICMP, 64, &icmp(8, &[&number[..], &number, &[0; 56]].concat()))
    }

    /// A datagram from port `number`.
    pub(crate) fn datagram(&self, to: Ipv4Addr, ttl: u8, number: u16) -> Vec<u8> {
        self.packet(to, UDP, ttl, &udp(number, TRACED, &[0; 32], Endpoints::V4(self.ip, to)))
    }

    /// The first segment of a connection from port `number`.
    pub(crate) fn connect(&self, to: Ipv4Addr, number: u16) -> Vec<u8> {
        const SYN: u8 = 2;
        self.packet(to, TCP, 64, &tcp(number, CLOSED, SYN, &[], Endpoints::V4(self.ip, to)))
    }

    /// A client of DHCP that looks for servers (RFC 2131, 2).
    pub(crate) fn discover(&self, number: u16) -> Vec<u8> {
        let mut message = vec![1, 1, 6, 0, 0, 0];
        message.extend(number.to_be_bytes());
        message.resize(28, 0);
        message.extend(self.mac);
        message.resize(236, 0);
        // The cookie, the kind, what is asked for (mask, DNS, router, domain name, MTU), and the end.
        message.extend([99, 130, 83, 99, 53, 1, 1, 55, 5, 1, 6, 3, 15, 26, 255]);
        let (nowhere, all) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        let datagram = udp(68, 67, &message, Endpoints::V4(nowhere, all));
        ethernet(BROADCAST, self.mac, IPV4, &Ipv4::new(nowhere, all, UDP).packet(&datagram))
    }
}

fn is(frame: &[u8], at: usize, bytes: &[u8]) -> bool {
    frame.get(at..at + bytes.len()) == Some(bytes)
}

fn carries(frame: &[u8], protocol: u8) -> bool {
    is(frame, IP - 2, &IPV4.to_be_bytes()) && is(frame, IP + 9, &[protocol])
}

/// The reply to [`Sender::echo`].
pub(crate) fn replies(frame: &[u8], number: u16) -> bool {
    carries(frame, ICMP) && is(frame, PAYLOAD, &[0, 0]) && is(frame, PAYLOAD + 6, &number.to_be_bytes())
}

/// *Time exceeded* about a [`Sender::datagram`], which it quotes.
pub(crate) fn exceeded(frame: &[u8], number: u16) -> bool {
    carries(frame, ICMP) && is(frame, PAYLOAD, &[11, 0]) && is(frame, PAYLOAD + 28, &number.to_be_bytes())
}

/// The reset that answers [`Sender::connect`].
pub(crate) fn refused(frame: &[u8], number: u16) -> bool {
    const RST: u8 = 4;
    carries(frame, TCP)
        && is(frame, PAYLOAD + 2, &number.to_be_bytes())
        && frame.get(PAYLOAD + 13).is_some_and(|flags| flags & RST != 0)
}

/// The offer that answers [`Sender::discover`].
pub(crate) fn offered(frame: &[u8], number: u16) -> bool {
    let message = PAYLOAD + 8;
    carries(frame, UDP)
        && is(frame, message, &[2])
        && is(frame, message + 4, &[0, 0])
        && is(frame, message + 6, &number.to_be_bytes())
        && is(frame, message + 240, &[53, 1, 2])
}

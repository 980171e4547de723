//! Random frames, as tenants, attackers and broken software send them.

pub mod connections;
mod inside;
pub(crate) mod requests;
mod routed;
mod single_fault;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::BROADCAST;
use test_random::Random;

pub use frame_builder::Mac;
use network_spec::Address;
pub use routed::{Ways, routed};

/// The addresses used in frames, so that most frames are meaningful where they are sent.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// The sender's.
    pub own: Vec<Address>,
    /// Addresses of ports of the same switch.
    pub near: Vec<Address>,
    /// Addresses of ports of other switches.
    pub far: Vec<Address>,
    /// Tags in use here, with the sender's addresses and the others' addresses for each.
    pub tags: Vec<(u16, Vec<Address>, Vec<Address>)>,
    /// Whether most frames should be tagged with one of [`Book::tags`].
    pub tagged: bool,
}

/// The number of MACs that no port has; small, so that some are learned and later used as
/// destinations.
pub(crate) const STRANGERS: u8 = 5;

/// A MAC that no port has.
pub fn stranger(random: &mut Random) -> Mac {
    [0x02, 0xee, 0, 0, 0, random.below(STRANGERS.into()) as u8]
}

/// The MAC of a stranger, without IP addresses.
pub(crate) fn nobody(random: &mut Random) -> Address {
    Address { mac: stranger(random), ips: Vec::new() }
}

/// The sender and the receiver of a frame.
struct Talk {
    src: Mac,
    dst: Mac,
    src4: Ipv4Addr,
    dst4: Ipv4Addr,
    src6: Ipv6Addr,
    dst6: Ipv6Addr,
}

/// A random frame, mostly as a port with these addresses would send it.
pub fn frame(random: &mut Random, book: &Book) -> Vec<u8> {
    let mut tag = None;
    let mut whose = (&book.own, &book.near);
    if !book.tags.is_empty() && random.chance(if book.tagged { 85 } else { 30 }) {
        let (number, own, near) = random.pick(&book.tags);
        (tag, whose) = (Some(*number), (own, near));
    }
    let (dst, src, inside) = if random.chance(20) {
        let (own, near) = (someone(random, whose.0), someone(random, whose.1));
        single_fault::message(random, &own, &near)
    } else {
        let talk = talk(random, whose.0, whose.1, &book.far);
        let inside = inside::payload(random, &talk);
        let to_group = inside::group(&inside).filter(|_| random.chance(55));
        (to_group.unwrap_or(talk.dst), talk.src, inside)
    };
    let mut frame = [dst, src].concat();
    if let Some(tag) = tag {
        frame.extend(tagged(random, 0x8100, tag));
    } else if random.chance(6) {
        // Only a priority.
        frame.extend(tagged(random, 0x8100, 0));
    }
    if random.chance(5) {
        for _ in 0..*random.pick(&[1, 1, 2]) {
            let kind = *random.pick(&[0x8100, 0x8100, 0x88a8]);
            let number = book.tags.first().map_or(7, |(number, ..)| *number);
            let number = *random.pick(&[0, number, 7, 4095]);
            frame.extend(tagged(random, kind, number));
        }
    }
    frame.extend(inside);
    damage(random, frame)
}

/// The frame, mostly: now and then with padding, cut short, or with another byte.
fn damage(random: &mut Random, mut frame: Vec<u8>) -> Vec<u8> {
    if random.chance(10) {
        frame.extend(vec![0; random.below(40) as usize]);
    }
    if random.chance(4) {
        frame.truncate(14 + random.below(frame.len() as u64 - 13) as usize);
    }
    if random.chance(4) {
        let at = random.below(frame.len() as u64) as usize;
        frame[at] = random.below(256) as u8;
    }
    frame
}

fn tagged(random: &mut Random, kind: u16, number: u16) -> Vec<u8> {
    let tci = number | *random.pick(&[0, 0, 0, 0x2000, 0xe000]);
    [kind.to_be_bytes(), tci.to_be_bytes()].concat()
}

/// One of these, or somebody who has no port.
fn someone(random: &mut Random, of: &[Address]) -> Address {
    match of {
        [] => nobody(random),
        some => random.pick(some).clone(),
    }
}

fn talk(random: &mut Random, own: &[Address], near: &[Address], far: &[Address]) -> Talk {
    let me = match random.below(100) {
        0..92 => someone(random, own),
        92..95 => someone(random, near),
        95..97 => someone(random, far),
        _ => nobody(random),
    };
    let you = match random.below(100) {
        0..84 => someone(random, near),
        84..88 => someone(random, own),
        88..92 => someone(random, far),
        _ => nobody(random),
    };
    let src = match random.below(60) {
        0 => stranger(random),
        1 => *random.pick(&[BROADCAST, [0; 6], [1, 0, 0x5e, 0, 0, 1]]),
        _ => me.mac,
    };
    let dst = match random.below(25) {
        0..3 => BROADCAST,
        3 => {
            let reserved = *random.pick(&[0, 2, 14, 15, 16]);
            let groups =
                [[1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1], [1, 0x80, 0xc2, 0, 0, reserved], [0; 6]];
            *random.pick(&groups)
        }
        4..6 => stranger(random),
        _ => you.mac,
    };
    Talk {
        src,
        dst,
        src4: address4(random, &me, Ipv4Addr::UNSPECIFIED),
        dst4: address4(random, &you, Ipv4Addr::BROADCAST),
        src6: address6(random, &me),
        dst6: address6(random, &you),
    }
}

fn address4(random: &mut Random, of: &Address, special: Ipv4Addr) -> Ipv4Addr {
    let own: Vec<Ipv4Addr> =
        of.ips.iter().filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None }).collect();
    match random.below(25) {
        0 => special,
        1 => Ipv4Addr::new(10, 9, 9, random.below(3) as u8),
        2 => *random.pick(&[Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED]),
        _ if own.is_empty() => Ipv4Addr::new(10, 0, 0, random.below(6) as u8 + 1),
        _ => *random.pick(&own),
    }
}

fn address6(random: &mut Random, of: &Address) -> Ipv6Addr {
    let own: Vec<Ipv6Addr> =
        of.ips.iter().filter_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None }).collect();
    match random.below(25) {
        0 => Ipv6Addr::UNSPECIFIED,
        1 => Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, random.below(3) as u16),
        2 => *random
            .pick(&[Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2)]),
        3..7 => link_local(of.mac),
        _ if own.is_empty() => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, random.below(6) as u16 + 1),
        _ => *random.pick(&own),
    }
}

/// The link-local address derived from a MAC (RFC 4291, appendix A).
pub fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

//! IP addresses that keep their common prefixes.
//!
//! Two addresses whose first `n` bits are equal, and the next ones different, have new addresses of which the same is true: a bit is flipped
//! or not by a keyed hash of the bits before it (J. Xu, J. Fan, M. Ammar, S. Moon, "Prefix-preserving IP address anonymization", ICNP 2002).
//! So prefixes contain, overlap and route what they did. Some bits are never flipped, which changes nothing of that:
//!
//! - those that decide whether an address is in a block with a meaning, such as private addresses, or in a prefix that the rules contain;
//! - all in blocks whose addresses mean the same everywhere, such as loopback and multicast;
//! - the last 8 bits of an IPv4 address and the last 16 of an IPv6 address;
//! - in the first and the last address of a prefix of the network, those after the prefix, so that they stay the first and the last.

use std::collections::HashSet;
use std::hash::Hasher as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use siphasher::sip::SipHasher24;

use super::Secret;

/// Blocks with a meaning (IANA's registries of special-purpose addresses, and of multicast).
const BLOCKS: [&str; 15] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "::ffff:0:0/96",
    "64:ff9b::/96",
    "fc00::/7",
    "fd00::/8",
    "fe80::/10",
    "fe80::/64",
];

/// Blocks whose addresses mean the same everywhere.
const UNIVERSAL: [&str; 4] = ["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "ff00::/8"];

/// The prefix of link-local addresses that hosts have, and the bit from which on they stay: those after it are a MAC address in parts.
const LINK_LOCAL: u128 = 0xfe80 << 112;
const LINK_LOCAL_STAYS: u8 = 88;

/// The bits of an address, the first one the highest, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Bits {
    value: u128,
    length: u8,
    version: u8,
}

impl Bits {
    fn of(net: IpNet) -> Bits {
        let (bits, version) = match net.addr() {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 4),
            IpAddr::V6(ip) => (ip.to_bits(), 6),
        };
        Bits { value: bits, length: u8::MAX, version }.first(net.prefix_len())
    }

    /// The first of them.
    fn first(self, length: u8) -> Bits {
        Bits { value: self.value & mask(length), length, ..self }
    }
}

/// The first bits, so many of them.
fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or_default()
}

/// New addresses for those of a network.
#[derive(Debug)]
pub(super) struct Addresses {
    key: Secret,
    /// Addresses in these stay in them, and others out of them.
    blocks: Vec<Bits>,
    /// Addresses in these stay.
    universal: Vec<Bits>,
    /// The prefixes of the network.
    nets: HashSet<Bits>,
}

impl Addresses {
    /// `words` are the prefixes of the rules, `nets` those of the network.
    pub(super) fn new<'n>(
        key: Secret,
        words: impl IntoIterator<Item = &'n IpNet>,
        nets: impl IntoIterator<Item = &'n IpNet>,
    ) -> Addresses {
        let of_texts = |texts: &[&str]| -> Vec<Bits> {
            texts.iter().filter_map(|block| block.parse().ok()).map(Bits::of).collect()
        };
        let universal = of_texts(&UNIVERSAL);
        let mut blocks = [&of_texts(&BLOCKS)[..], &universal].concat();
        blocks.extend(words.into_iter().map(|net| Bits::of(*net)));
        let nets = nets.into_iter().map(|net| Bits::of(*net)).collect();
        Addresses { key, blocks, universal, nets }
    }

    /// The new address.
    pub(super) fn ip(&self, ip: IpAddr) -> IpAddr {
        let old = Bits::of(IpNet::from(ip));
        let flipped: u128 =
            (0..old.length).filter(|at| self.is_flipped(old.first(*at))).map(|at| 1 << (127 - at)).sum();
        let new = old.value ^ flipped;
        match ip {
            IpAddr::V4(_) => Ipv4Addr::from_bits((new >> 96) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(new).into(),
        }
    }

    /// The new prefix.
    pub(super) fn net(&self, net: IpNet) -> IpNet {
        IpNet::new(self.ip(net.addr()), net.prefix_len()).map_or(net, |net| net.trunc())
    }

    /// Whether the bit after these is flipped.
    fn is_flipped(&self, before: Bits) -> bool {
        let is_host = before.version == 6 && before.first(64).value == LINK_LOCAL;
        let stays = match before.version {
            4 => 24,
            _ if is_host => LINK_LOCAL_STAYS,
            _ => 112,
        };
        let leads_to = |block: &Bits| block.length > before.length && block.first(before.length) == before;
        let is_in = |block: &Bits| block.length <= before.length && before.first(block.length) == *block;
        if before.length >= stays
            || self.blocks.iter().any(leads_to)
            || self.universal.iter().any(is_in)
            || self.is_at_an_end(before)
        {
            return false;
        }
        let bytes = [&[before.version, before.length][..], &before.value.to_be_bytes()].concat();
        self.keyed(&bytes) & 1 == 1
    }

    /// Whether these begin the first or the last address of a prefix of the network.
    fn is_at_an_end(&self, bits: Bits) -> bool {
        let Bits { value, length, .. } = bits;
        let end = value.checked_shr(128 - u32::from(length)).unwrap_or_default();
        let same = end.trailing_zeros().max(end.trailing_ones()).min(length.into()) as u8;
        (length - same..=length).any(|length| self.nets.contains(&bits.first(length)))
    }

    /// A keyed hash.
    pub(super) fn keyed(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(bytes);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests;

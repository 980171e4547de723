//! `nat(...)`: translates addresses of a connection, inside `ct`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::field::text::{Ipv6Text, int};

/// Translates addresses of a connection; used inside [`Ct`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nat {
    change: Option<(NatSide, Option<NatRange>)>,
}

/// The address to translate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NatSide {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// The range of new addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NatRange {
    first: IpAddr,
    /// Never the first.
    last: Option<IpAddr>,
    /// Never 0; the last never the first.
    ports: Option<(u16, Option<u16>)>,
    /// How to select from the range.
    pub choice: NatChoice,
    /// Whether the mapping stays the same across restarts of the switch.
    pub persistent: bool,
}

/// How an address or port is selected from the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NatChoice {
    /// The switch decides.
    #[default]
    Default,
    /// By a hash of the connection.
    Hash,
    /// At random.
    Random,
}

impl NatRange {
    /// Addresses from `first` to `last`, ports from the first to the last of `ports` if any.
    ///
    /// None if the addresses are of different versions, a last one is before its first, or a port is 0.
    pub fn new(first: IpAddr, last: IpAddr, ports: Option<(u16, u16)>) -> Option<NatRange> {
        let ordered = first.is_ipv4() == last.is_ipv4() && first <= last;
        let fits = ordered && ports.is_none_or(|(first, last)| 0 < first && first <= last);
        fits.then_some(NatRange {
            first,
            last: (last != first).then_some(last),
            ports: ports.map(|(first, last)| (first, (last != first).then_some(last))),
            choice: NatChoice::Default,
            persistent: false,
        })
    }

    /// The same range with another kind of selection.
    pub fn chosen(self, choice: NatChoice, persistent: bool) -> NatRange {
        NatRange { choice, persistent, ..self }
    }

    /// The first and the last address.
    pub fn addresses(self) -> (IpAddr, IpAddr) {
        (self.first, self.last.unwrap_or(self.first))
    }

    /// The first and the last port.
    pub fn ports(self) -> Option<(u16, u16)> {
        self.ports.map(|(first, last)| (first, last.unwrap_or(first)))
    }
}

impl Nat {
    /// Applies the translation of the connection's earlier packets.
    pub const EXISTING: Nat = Nat { change: None };

    /// Translates new connections to an address of `range`; without a range, it only resolves port conflicts.
    pub fn new(side: NatSide, range: Option<NatRange>) -> Nat {
        Nat { change: Some((side, range)) }
    }

    /// The range for new connections.
    pub fn change(self) -> Option<(NatSide, Option<NatRange>)> {
        self.change
    }
}

// `NX_NAT_F_*`.
const SOURCE: u16 = 1;
const DESTINATION: u16 = 2;
const PERSISTENT: u16 = 4;
const HASH: u16 = 8;
const RANDOM: u16 = 16;
// `NX_NAT_RANGE_*`, in the order in which they follow.
const IPV4_MIN: u16 = 1;
const IPV4_MAX: u16 = 2;
const IPV6_MIN: u16 = 4;
const IPV6_MAX: u16 = 8;
const PORT_MIN: u16 = 16;
const PORT_MAX: u16 = 32;

impl Body for Nat {
    const NAMES: &'static [&'static str] = &["nat"];
    const WIRE: &'static [Wire] = &[Wire::Nx(36)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "nat",
        "Sets up address translation for a new connection; without arguments, applies an existing translation.",
        &[
            Parameter::address("src", "The new source.").named(),
            Parameter::address("dst", "The new destination.").named(),
            Parameter::address("to", "The last address of a range that starts at `src` or `dst`.").named(),
            Parameter::number("port", u16::MAX as u64, "The new port.").named(),
            Parameter::number("port_to", u16::MAX as u64, "The last port of a range that starts at `port`.").named(),
            Parameter::flag("persistent", "The mapping stays the same across restarts of the switch."),
            Parameter::flag("hash", "Selects from the range by a hash of the connection."),
            Parameter::flag("random", "Selects from the range at random."),
        ],
        &[
            ("ct(table: 4, nat)", "ct(table=4,nat)"),
            (r#"ct(commit, nat(src: ip"10.0.0.1"))"#, "ct(commit,nat(src=10.0.0.1))"),
            (
                r#"ct(commit, nat(dst: ip"10.0.0.1", to: ip"10.0.0.9", port: 100, port_to: 200, random))"#,
                "ct(commit,nat(dst=10.0.0.1-10.0.0.9:100-200,random))",
            ),
            (
                r#"ct(commit, nat(src: ip"fd00::1", port: 80, persistent, hash))"#,
                "ct(commit,nat(src=[fd00::1]:80,persistent,hash))",
            ),
        ],
        from_literal,
    )
    .within(&[Context::Ct])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        body.zeros(2)?;
        let at = body.clone();
        let (flags, present) = (body.u16()?, body.u16()?);
        let bad = || at.fault(Fault::Unknown(u64::from(flags) << 16 | u64::from(present)));
        let v4 = |body: &mut Reader<'_>| body.u32().map(|bits| IpAddr::from(Ipv4Addr::from(bits)));
        let v6 = |body: &mut Reader<'_>| body.array::<16>().map(|bytes| IpAddr::from(Ipv6Addr::from(bytes)));
        let mut addresses = Vec::new();
        for (bit, is_v4) in [(IPV4_MIN, true), (IPV4_MAX, true), (IPV6_MIN, false), (IPV6_MAX, false)] {
            if present & bit != 0 {
                addresses.push((bit, if is_v4 { v4(body)? } else { v6(body)? }));
            }
        }
        let first_port = if present & PORT_MIN != 0 { Some(body.u16()?) } else { None };
        let last_port = if present & PORT_MAX != 0 { Some(body.u16()?) } else { None };
        let ports = match (first_port, last_port) {
            (None, None) => None,
            (Some(first), last) => Some((first, last.unwrap_or(first))),
            (None, Some(_)) => return Err(bad()),
        };
        let range = match addresses[..] {
            [] if ports.is_none() => None,
            [(IPV4_MIN | IPV6_MIN, only)] => Some(NatRange::new(only, only, ports).ok_or_else(bad)?),
            [(IPV4_MIN | IPV6_MIN, first), (IPV4_MAX | IPV6_MAX, last)] => {
                Some(NatRange::new(first, last, ports).ok_or_else(bad)?)
            }
            _ => return Err(bad()),
        };
        let side = match flags & (SOURCE | DESTINATION) {
            0 if range.is_none() && flags == 0 => return Ok(Nat::EXISTING),
            SOURCE => NatSide::Source,
            DESTINATION => NatSide::Destination,
            _ => return Err(bad()),
        };
        let choice = match flags & (HASH | RANDOM) {
            0 => NatChoice::Default,
            HASH => NatChoice::Hash,
            RANDOM => NatChoice::Random,
            _ => return Err(bad()),
        };
        if flags & !(SOURCE | DESTINATION | PERSISTENT | HASH | RANDOM) != 0 || present > 0x3f {
            return Err(bad());
        }
        let persistent = flags & PERSISTENT != 0;
        // Without a range there is no selection, and none is printed.
        Ok(Nat::new(side, range.map(|range| range.chosen(choice, persistent))))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (mut flags, mut present) = (0, 0);
        let mut range_bytes = Vec::new();
        if let Some((side, range)) = self.change {
            flags |= if side == NatSide::Source { SOURCE } else { DESTINATION };
            if let Some(range) = range {
                flags |= if range.persistent { PERSISTENT } else { 0 };
                flags |= [0, HASH, RANDOM][range.choice as usize];
                let (min, max) =
                    if range.first.is_ipv4() { (IPV4_MIN, IPV4_MAX) } else { (IPV6_MIN, IPV6_MAX) };
                for (bit, address) in [(min, Some(range.first)), (max, range.last)] {
                    let Some(address) = address else { continue };
                    present |= bit;
                    match address {
                        IpAddr::V4(ip) => range_bytes.extend_from_slice(&ip.octets()),
                        IpAddr::V6(ip) => range_bytes.extend_from_slice(&ip.octets()),
                    }
                }
                let (first, last) = range.ports.unzip();
                for (bit, port) in [(PORT_MIN, first), (PORT_MAX, last.flatten())] {
                    let Some(port) = port else { continue };
                    present |= bit;
                    range_bytes.extend_from_slice(&port.to_be_bytes());
                }
            }
        }
        Wire::Nx(36).put(out, |out| {
            for n in [0, flags, present] {
                out.extend_from_slice(&n.to_be_bytes());
            }
            out.extend_from_slice(&range_bytes);
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((side, range)) = self.change else { return f.write_str("nat") };
        f.write_str(if side == NatSide::Source { "nat(src" } else { "nat(dst" })?;
        if let Some(range) = range {
            write!(f, "={range}")?;
            f.write_str(if range.persistent { ",persistent" } else { "" })?;
            f.write_str(["", ",hash", ",random"][range.choice as usize])?;
        }
        f.write_str(")")
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let form = || {
            ParseError::value(
                call.text,
                "address translation, as in nat(src=10.0.0.1-10.0.0.9:100-200,random)",
            )
        };
        let (mut change, mut choice, mut persistent) = (None, NatChoice::Default, false);
        for part in call.arg.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, range) =
                part.split_once('=').map_or((part, None), |(name, range)| (name, Some(range)));
            match name {
                "src" | "dst" if change.is_none() => {
                    let side = if name == "src" { NatSide::Source } else { NatSide::Destination };
                    change = Some((side, range.map(str::parse).transpose()?));
                }
                "persistent" => persistent = true,
                "hash" if choice == NatChoice::Default => choice = NatChoice::Hash,
                "random" if choice == NatChoice::Default => choice = NatChoice::Random,
                _ => return Err(form()),
            }
        }
        match change {
            None if persistent || choice != NatChoice::Default => Err(form()),
            None => Ok(Nat::EXISTING.into()),
            Some((side, range)) => {
                Ok(Nat::new(side, range.map(|range: NatRange| range.chosen(choice, persistent))).into())
            }
        }
    }
}

fn from_literal(given: &crate::literal::Arguments<'_>) -> Result<crate::literal::Part, Refusal> {
    let side = match (given.address("src"), given.address("dst")) {
        (Some(ip), None) => Some((NatSide::Source, ip)),
        (None, Some(ip)) => Some((NatSide::Destination, ip)),
        (None, None) => None,
        _ => return Err(Refusal::arguments("src and dst are both given", "give one of them in one flow")),
    };
    let choice = match (given.flag("hash"), given.flag("random")) {
        (true, true) => {
            return Err(Refusal::arguments("hash and random are both given", "give only one of them"));
        }
        (true, false) => NatChoice::Hash,
        (false, true) => NatChoice::Random,
        (false, false) => NatChoice::Default,
    };
    let persistent = given.flag("persistent");
    let (to, first, last) = (given.address("to"), given.optional("port"), given.optional("port_to"));
    let Some((side, ip)) = side else {
        if persistent || choice != NatChoice::Default || to.is_some() || first.is_some() || last.is_some() {
            return Err(Refusal::arguments(
                "neither src nor dst is given",
                "add `src: address` or `dst: address`",
            ));
        }
        return Ok(Nat::EXISTING.into());
    };
    let ports = match (first, last) {
        (None, None) => None,
        (Some(first), last) => Some((first, last.unwrap_or(first))),
        (None, Some(_)) => {
            return Err(Refusal::arguments("port_to is given without port", "add `port: first`"));
        }
    };
    let range = NatRange::new(ip, to.unwrap_or(ip), ports).ok_or_else(|| {
        let remedy = "give addresses of one version and ports from 1, the first not above the last";
        Refusal::values("the addresses or ports do not form a range", remedy)
    })?;
    Ok(Nat::new(side, Some(range.chosen(choice, persistent))).into())
}

impl fmt::Display for NatRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Brackets keep the port apart from the address.
        let brackets = self.first.is_ipv6() && self.ports.is_some();
        for (place, address) in [Some(self.first), self.last].into_iter().flatten().enumerate() {
            f.write_str(if place > 0 { "-" } else { "" })?;
            match address {
                IpAddr::V4(ip) => write!(f, "{ip}")?,
                IpAddr::V6(ip) if brackets => write!(f, "[{}]", Ipv6Text(ip.to_bits()))?,
                IpAddr::V6(ip) => write!(f, "{}", Ipv6Text(ip.to_bits()))?,
            }
        }
        match self.ports {
            None => Ok(()),
            Some((port, None)) => write!(f, ":{port}"),
            Some((first, Some(last))) => write!(f, ":{first}-{last}"),
        }
    }
}

impl std::str::FromStr for NatRange {
    type Err = ParseError;

    /// `A`, `A-B`, `A:P`, `A-B:P-Q`; IPv6 addresses before a port in brackets.
    fn from_str(text: &str) -> Result<NatRange, ParseError> {
        let bad = || ParseError::value(text, "range of addresses and ports, as in 10.0.0.1-10.0.0.9:100-200");
        let (addresses, ports) = match text.rsplit_once("]:") {
            Some((addresses, ports)) => (addresses, Some(ports)),
            None if text.contains('.') && !text.contains("::") => {
                text.split_once(':').map_or((text, None), |(addresses, ports)| (addresses, Some(ports)))
            }
            None => (text, None),
        };
        let pair = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            (first.to_owned(), last.to_owned())
        };
        let (first, last) = pair(addresses);
        let address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().map_err(|_| bad());
        let ports = match ports.map(pair) {
            None => None,
            Some((first, last)) => Some((int(&first, "port")?, int(&last, "port")?)),
        };
        NatRange::new(address(&first)?, address(&last)?, ports).ok_or_else(bad)
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("nat", "ffff 0010 00002320 0024 0000 0000 0000"),
        ("nat(src)", "ffff 0010 00002320 0024 0000 0001 0000"),
        ("nat(src=1.2.3.4)", "ffff 0018 00002320 0024 0000 0001 0001 01020304 00000000"),
        (
            "nat(src=10.0.0.1-10.0.0.9:100-200,persistent,random)",
            "ffff 0020 00002320 0024 0000 0015 0033 0a000001 0a000009 0064 00c8 00000000",
        ),
        (
            "nat(dst=[fe80::1]:5)",
            "ffff 0028 00002320 0024 0000 0002 0014 fe800000 00000000 00000000 00000001 0005 000000000000",
        ),
    ]);
    testing::check_spellings([
        ("nat(src,random)", "nat(src)"),
        ("nat(dst=10.0.0.1-10.0.0.1:80-80)", "nat(dst=10.0.0.1:80)"),
        ("nat(dst=fe80::1-fe80::9)", "nat(dst=fe80::1-fe80::9)"),
        ("nat(dst=[fe80::1]-[fe80::9]:5-9,hash)", "nat(dst=[fe80::1]-[fe80::9]:5-9,hash)"),
    ]);
    testing::check_refused([
        "nat(persistent)",
        "nat(src=:100-200)",
        "nat(src=1.2.3.4,hash,random)",
        "nat(src=1.2.3.9-1.2.3.4)",
        "nat(src=1.2.3.4,dst=1.2.3.4)",
        "nat(src=1.2.3.4-fe80::1)",
    ]);
    testing::check_malformed([
        "ffff 0010 00002320 0024 0000 0003 0000",
        "ffff 0018 00002320 0024 0000 0001 0002 01020304 00000000",
        "ffff 0018 00002320 0024 0000 0001 0010 0064 000000000000",
    ]);
}

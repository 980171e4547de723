//! The frame of a packet that a test describes by some of its fields.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow_simulator::{FlowKey, Packet};
use frame_builder::{
    ADVERTISEMENT, ARP, Arp, BROADCAST, Endpoints, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, SOLICITATION,
    TCP, UDP, VLAN, arp, ethernet, icmp, icmpv6, link_layer, neighbour, solicited_node, tagged, tcp, udp,
};
use openflow_rs::{Field, MacAddr, Match, PortNo};

/// The addresses of the port that sends.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Its MAC addresses.
    pub macs: Vec<MacAddr>,
    /// Its IP addresses, with the MAC address of each.
    pub ips: Vec<(IpAddr, MacAddr)>,
}

/// The sender of a port without addresses.
const OTHER_MAC: Mac = [2, 0, 0, 0, 0xff, 1];
/// Addresses for documentation (RFC 5737, RFC 3849), for packets that do not say theirs.
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
const V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)];
/// Ports that no service has.
const PORTS: [u16; 2] = [49152, 49153];
const RARP: u16 = 0x8035;
const SYN: u8 = 2;
const ECHO: u8 = 8;
const ECHO_V6: u8 = 128;
/// The first and last type of neighbour discovery, whose packets have a hop limit of 255.
const DISCOVERY: [u8; 2] = [133, 137];
const TTL: u8 = 64;

/// The bytes of a packet with these fields. Fields that are left out have usual values: the addresses of the port that
/// sends, and a UDP datagram.
///
/// # Errors
/// There is no such packet; the text says why.
pub fn frame(fields: &Match, own: &Addresses) -> Result<Vec<u8>, String> {
    let bytes = Builder { fields, own }.frame()?;
    let key = key(&bytes);
    let unmet = fields.iter().find(|demand| key.get(demand.field) & demand.mask != demand.value);
    match unmet {
        None => Ok(bytes),
        Some(demand) => Err(format!(
            "a test cannot send a packet with this {}: it sends ARP, IPv4 and IPv6 with TCP, UDP, ICMP and neighbour \
             discovery, and no fragments",
            demand.field.name()
        )),
    }
}

fn key(bytes: &[u8]) -> FlowKey {
    Packet::new(bytes.to_vec(), PortNo(1)).key().clone()
}

/// The fields of a frame that are not 0, as Open vSwitch prints them.
pub fn text(bytes: &[u8]) -> String {
    let key = key(bytes);
    let own = Field::all().filter(|field| field.is_of_frame() && key.meets(field.info().prerequisite));
    let fields = own.filter(|field| key.get(*field) != 0).fold(Match::any(), |fields, field| {
        // A field that repeats another one adds nothing.
        fields.clone().with(field, key.get(field)).unwrap_or(fields)
    });
    fields.to_string()
}

struct Builder<'a> {
    fields: &'a Match,
    own: &'a Addresses,
}

impl Builder<'_> {
    fn get(&self, field: Field) -> Option<u128> {
        self.fields.get(field).map(|(value, _)| value)
    }

    fn mac(&self, field: Field) -> Option<Mac> {
        self.get(field).map(|value| MacAddr::from_u64(value as u64).0)
    }

    fn v4(&self, field: Field) -> Option<Ipv4Addr> {
        self.get(field).map(|value| Ipv4Addr::from(value as u32))
    }

    fn v6(&self, field: Field) -> Option<Ipv6Addr> {
        self.get(field).map(Ipv6Addr::from)
    }

    fn byte(&self, field: Field, otherwise: u8) -> u8 {
        self.get(field).map_or(otherwise, |value| value as u8)
    }

    fn word(&self, field: Field, otherwise: u16) -> u16 {
        self.get(field).map_or(otherwise, |value| value as u16)
    }

    fn eth_src(&self) -> Mac {
        let first = self.own.macs.first().map(|mac| mac.0);
        self.mac(Field::EthSrc).or(first).unwrap_or(OTHER_MAC)
    }

    /// The port's own address of this IP version, one at the sending MAC address first.
    fn own_ip<T>(&self, version: impl Fn(&IpAddr) -> Option<T>) -> Option<T> {
        let at = |mac: &MacAddr| mac.0 == self.eth_src();
        let (here, others): (Vec<&(IpAddr, MacAddr)>, Vec<_>) =
            self.own.ips.iter().partition(|(_, mac)| at(mac));
        here.into_iter().chain(others).find_map(|(ip, _)| version(ip))
    }

    fn own_v4(&self) -> Option<Ipv4Addr> {
        self.own_ip(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None })
    }

    fn own_v6(&self) -> Option<Ipv6Addr> {
        self.own_ip(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None })
    }

    fn frame(&self) -> Result<Vec<u8>, String> {
        let kind = self.word(Field::EthType, IPV4);
        let payload = match kind {
            ARP | RARP => self.arp(),
            IPV4 => self.ipv4(),
            IPV6 => self.ipv6(),
            _ => vec![0; 46],
        };
        let usual = match kind {
            ARP => Some(BROADCAST),
            IPV6 if self.is_solicitation() => Some(solicited_node(self.target()).1),
            _ => None,
        };
        let to = self.mac(Field::EthDst).or(usual);
        let to = to.ok_or("the packet has no destination: write eth_dst in its match")?;
        let frame = ethernet(to, self.eth_src(), kind, &payload);
        Ok(match self.word(Field::VlanTci, 0) {
            tag if tag & PRESENT != 0 => tagged(&frame, VLAN, tag & !PRESENT),
            _ => frame,
        })
    }

    fn arp(&self) -> Vec<u8> {
        let sender = self.v4(Field::ArpSpa).or(self.own_v4()).unwrap_or(V4[0]);
        arp(Arp {
            operation: self.word(Field::ArpOp, 1),
            sender: (self.mac(Field::ArpSha).unwrap_or(self.eth_src()), sender),
            target: (self.mac(Field::ArpTha).unwrap_or_default(), self.v4(Field::ArpTpa).unwrap_or(V4[1])),
        })
    }

    /// DSCP and ECN.
    fn tos(&self) -> u8 {
        self.byte(Field::IpDscp, 0) << 2 | self.byte(Field::IpEcn, 0)
    }

    fn ipv4(&self) -> Vec<u8> {
        let src = self.v4(Field::IpSrc).or(self.own_v4()).unwrap_or(V4[0]);
        let dst = self.v4(Field::IpDst).unwrap_or(V4[1]);
        let protocol = self.byte(Field::IpProto, UDP);
        let payload = match protocol {
            ICMP => {
                let mut message = icmp(self.byte(Field::IcmpType, ECHO), &[0; 4]);
                message[1] = self.byte(Field::IcmpCode, 0);
                message
            }
            protocol => self.transport(protocol, Endpoints::V4(src, dst)),
        };
        let mut header = Ipv4::new(src, dst, protocol);
        (header.tos, header.ttl) = (self.tos(), self.byte(Field::IpTtl, TTL));
        header.packet(&payload)
    }

    fn ipv6(&self) -> Vec<u8> {
        let src = self.v6(Field::Ipv6Src).or(self.own_v6()).unwrap_or(V6[0]);
        let usual = if self.is_solicitation() { solicited_node(self.target()).0 } else { V6[1] };
        let dst = self.v6(Field::Ipv6Dst).unwrap_or(usual);
        let protocol = self.byte(Field::IpProto, UDP);
        let payload = match protocol {
            ICMPV6 => icmpv6(self.icmpv6(), src, dst),
            protocol => self.transport(protocol, Endpoints::V6(src, dst)),
        };
        let kind = self.byte(Field::Icmpv6Type, ECHO_V6);
        let discovers = protocol == ICMPV6 && (DISCOVERY[0]..=DISCOVERY[1]).contains(&kind);
        let mut header = Ipv6::new(src, dst, protocol);
        header.hops = self.byte(Field::IpTtl, if discovers { u8::MAX } else { TTL });
        header.tos = self.tos();
        header.label = self.get(Field::Ipv6Label).map_or(0, |label| label as u32);
        header.packet(&payload)
    }

    fn is_solicitation(&self) -> bool {
        let is = |field, value: u8| self.get(field) == Some(value.into());
        is(Field::IpProto, ICMPV6) && is(Field::Icmpv6Type, SOLICITATION)
    }

    /// The target of neighbour discovery.
    fn target(&self) -> Ipv6Addr {
        self.v6(Field::NdTarget).or(self.v6(Field::Ipv6Dst)).unwrap_or(V6[1])
    }

    fn icmpv6(&self) -> Vec<u8> {
        let kind = self.byte(Field::Icmpv6Type, ECHO_V6);
        let (option, field) = match kind {
            SOLICITATION => (1, Field::NdSll),
            ADVERTISEMENT => (2, Field::NdTll),
            _ => return vec![kind, self.byte(Field::Icmpv6Code, 0), 0, 0, 0, 0, 0, 0],
        };
        let address = self.mac(field).unwrap_or(self.eth_src());
        let mut message = neighbour(kind, 0, self.target(), &link_layer(option, address));
        message[1] = self.byte(Field::Icmpv6Code, 0);
        if let Some(reserved) = self.get(Field::NdReserved) {
            message[4..8].copy_from_slice(&(reserved as u32).to_be_bytes());
        }
        message
    }

    fn transport(&self, protocol: u8, endpoints: Endpoints) -> Vec<u8> {
        let ports = |src, dst| [self.word(src, PORTS[0]), self.word(dst, PORTS[1])];
        match protocol {
            TCP => {
                let [src, dst] = ports(Field::TcpSrc, Field::TcpDst);
                tcp(src, dst, self.byte(Field::TcpFlags, SYN), &[], endpoints)
            }
            UDP => {
                let [src, dst] = ports(Field::UdpSrc, Field::UdpDst);
                udp(src, dst, &[], endpoints)
            }
            _ => vec![0; 8],
        }
    }
}

/// The bit of `vlan_tci` for the presence of a tag, which no frame contains.
const PRESENT: u16 = 0x1000;

/// The VLAN of a frame, 0 without a tag.
pub fn vlan(bytes: &[u8]) -> u16 {
    match bytes {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x81, 0, high, low, ..] => {
            u16::from_be_bytes([*high, *low]) & 0xfff
        }
        _ => 0,
    }
}

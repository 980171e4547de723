//! The flow key: the fields of a packet that flows match and actions change.

use openflow_rs::{Field, Match, PortNo, Prerequisite};

use crate::conntrack::{ESTABLISHED, NEW, REPLY};

/// Ethernet types.
pub(crate) const ETH_IPV4: u16 = 0x0800;
pub(crate) const ETH_ARP: u16 = 0x0806;
pub(crate) const ETH_RARP: u16 = 0x8035;
pub(crate) const ETH_VLAN: u16 = 0x8100;
pub(crate) const ETH_SERVICE_VLAN: u16 = 0x88a8;
pub(crate) const ETH_IPV6: u16 = 0x86dd;
pub(crate) const ETH_MPLS: u16 = 0x8847;
pub(crate) const ETH_MPLS_MULTICAST: u16 = 0x8848;
/// Open vSwitch's Ethernet type for a frame with a length in that place.
pub(crate) const ETH_NONE: u16 = 0x05ff;

/// IP protocols.
pub(crate) const ICMP: u8 = 1;
pub(crate) const IGMP: u8 = 2;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

/// `ip_frag`: any fragment.
pub(crate) const FRAGMENT: u8 = 1;
/// `ip_frag`: a fragment that is not the first.
pub(crate) const LATER_FRAGMENT: u8 = 2;

/// The bit of `vlan_tci` for the presence of a tag.
pub(crate) const VLAN_PRESENT: u16 = 0x1000;

/// One VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Vlan {
    /// The tag's Ethernet type; 0 without a tag.
    pub(crate) tpid: u16,
    /// Priority, present bit, id.
    pub(crate) tci: u16,
}

impl Vlan {
    pub(crate) fn is_present(self) -> bool {
        self.tci & VLAN_PRESENT != 0
    }

    /// Sets the type of a tag that was written. A cleared tag keeps its type for the next one.
    fn fix_tpid(&mut self) {
        if self.tpid == 0 {
            self.tpid = ETH_VLAN;
        }
    }
}

/// The fields of one packet, registers and metadata included (Open vSwitch's `struct flow`).
///
/// Fields share storage as in Open vSwitch: the ARP operation with the IP protocol, the ICMP type with a port, the
/// options of neighbour discovery with ARP's hardware addresses. Flows cannot observe this, because a match on a
/// field also matches the protocol that gives the field its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub(crate) registers: [u32; 16],
    pub(crate) metadata: u64,
    pub(crate) in_port: u16,
    pub(crate) actset_output: u16,
    /// The conjunction whose clauses all match, while the flow that matches it is looked for.
    pub(crate) conj_id: u32,
    pub(crate) pkt_mark: u32,
    pub(crate) tunnel: Tunnel,
    pub(crate) ct: Tracked,
    pub(crate) eth_src: u64,
    pub(crate) eth_dst: u64,
    /// Type of what follows the tags.
    pub(crate) eth_type: u16,
    /// Tags, outermost first.
    pub(crate) vlans: [Vlan; FlowKey::MOST_TAGS],
    pub(crate) nw_src: u32,
    pub(crate) nw_dst: u32,
    pub(crate) ipv6_src: u128,
    pub(crate) ipv6_dst: u128,
    pub(crate) ipv6_label: u32,
    /// IP protocol, or the low byte of ARP's operation.
    pub(crate) nw_proto: u8,
    pub(crate) nw_tos: u8,
    pub(crate) nw_ttl: u8,
    pub(crate) nw_frag: u8,
    /// ARP's sender, or the source link-layer address of neighbour discovery.
    pub(crate) arp_sha: u64,
    /// ARP's target, or the target link-layer address of neighbour discovery.
    pub(crate) arp_tha: u64,
    pub(crate) nd_target: u128,
    /// Port, or ICMP type.
    pub(crate) tp_src: u16,
    /// Port, or ICMP code.
    pub(crate) tp_dst: u16,
    /// TCP's flags, or the type of neighbour discovery's first option.
    pub(crate) tcp_flags: u16,
    /// The 32 bits after the checksum of neighbour discovery, or IGMP's group.
    pub(crate) nd_reserved: u32,
}

/// Metadata of the tunnel that a packet came from or will leave by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tunnel {
    pub(crate) id: u64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) ipv6_src: u128,
    pub(crate) ipv6_dst: u128,
    pub(crate) gbp_id: u16,
    pub(crate) gbp_flags: u8,
    pub(crate) flags: u8,
    /// The option of 4 bytes, if there is one.
    pub(crate) metadata: Option<u32>,
}

/// The packet's connection tracking state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tracked {
    pub(crate) state: u8,
    pub(crate) zone: u16,
    pub(crate) mark: u32,
    pub(crate) label: u128,
    pub(crate) nw_src: u32,
    pub(crate) nw_dst: u32,
    pub(crate) ipv6_src: u128,
    pub(crate) ipv6_dst: u128,
    pub(crate) nw_proto: u8,
    pub(crate) tp_src: u16,
    pub(crate) tp_dst: u16,
}

impl FlowKey {
    /// The most tags that Open vSwitch handles (`FLOW_MAX_VLAN_HEADERS`).
    pub(crate) const MOST_TAGS: usize = 2;

    /// The key of a packet before parsing.
    pub(crate) fn empty(in_port: PortNo) -> FlowKey {
        FlowKey {
            registers: [0; 16],
            metadata: 0,
            in_port: in_port.0,
            actset_output: UNSET,
            conj_id: 0,
            pkt_mark: 0,
            tunnel: Tunnel::default(),
            ct: Tracked::default(),
            eth_src: 0,
            eth_dst: 0,
            eth_type: 0,
            vlans: [Vlan::default(); 2],
            nw_src: 0,
            nw_dst: 0,
            ipv6_src: 0,
            ipv6_dst: 0,
            ipv6_label: 0,
            nw_proto: 0,
            nw_tos: 0,
            nw_ttl: 0,
            nw_frag: 0,
            arp_sha: 0,
            arp_tha: 0,
            nd_target: 0,
            tp_src: 0,
            tp_dst: 0,
            tcp_flags: 0,
            nd_reserved: 0,
        }
    }

    /// The value of a field; 0 if the packet does not have it.
    pub fn get(&self, field: Field) -> u128 {
        if let Some((first, count)) = registers(field) {
            let words = &self.registers[first..first + count];
            return words.iter().fold(0, |value, word| value << 32 | u128::from(*word));
        }
        let tci = self.vlans[0].tci;
        match field {
            Field::Metadata => self.metadata.into(),
            Field::InPort => self.in_port.into(),
            Field::InPortOxm => PortNo(self.in_port).to_wire().into(),
            Field::ActsetOutput => self.actset_output.into(),
            Field::ConjId => self.conj_id.into(),
            Field::PktMark => self.pkt_mark.into(),
            Field::TunId => self.tunnel.id.into(),
            Field::TunSrc => self.tunnel.src.into(),
            Field::TunDst => self.tunnel.dst.into(),
            Field::TunIpv6Src => self.tunnel.ipv6_src,
            Field::TunIpv6Dst => self.tunnel.ipv6_dst,
            Field::TunGbpId => self.tunnel.gbp_id.into(),
            Field::TunGbpFlags => self.tunnel.gbp_flags.into(),
            Field::TunFlags => self.tunnel.flags.into(),
            Field::TunMetadata0 => self.tunnel.metadata.unwrap_or(0).into(),
            Field::CtState => self.ct.state.into(),
            Field::CtZone => self.ct.zone.into(),
            Field::CtMark => self.ct.mark.into(),
            Field::CtLabel => self.ct.label,
            Field::CtNwSrc => self.ct.nw_src.into(),
            Field::CtNwDst => self.ct.nw_dst.into(),
            Field::CtIpv6Src => self.ct.ipv6_src,
            Field::CtIpv6Dst => self.ct.ipv6_dst,
            Field::CtNwProto => self.ct.nw_proto.into(),
            Field::CtTpSrc => self.ct.tp_src.into(),
            Field::CtTpDst => self.ct.tp_dst.into(),
            Field::EthSrc => self.eth_src.into(),
            Field::EthDst => self.eth_dst.into(),
            Field::EthType => self.eth_type.into(),
            Field::VlanTci => tci.into(),
            Field::VlanVid => (tci & 0x1fff).into(),
            Field::VlanPcp => (tci >> 13).into(),
            Field::IpSrc | Field::ArpSpa => self.nw_src.into(),
            Field::IpDst | Field::ArpTpa => self.nw_dst.into(),
            Field::Ipv6Src => self.ipv6_src,
            Field::Ipv6Dst => self.ipv6_dst,
            Field::Ipv6Label => self.ipv6_label.into(),
            Field::IpProto | Field::ArpOp => self.nw_proto.into(),
            Field::IpTos => (self.nw_tos & 0xfc).into(),
            Field::IpDscp => (self.nw_tos >> 2).into(),
            Field::IpEcn => (self.nw_tos & 3).into(),
            Field::IpTtl => self.nw_ttl.into(),
            Field::IpFrag => self.nw_frag.into(),
            Field::ArpSha | Field::NdSll => self.arp_sha.into(),
            Field::ArpTha | Field::NdTll => self.arp_tha.into(),
            Field::NdTarget => self.nd_target,
            Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => self.tp_src.into(),
            Field::TcpDst | Field::UdpDst | Field::SctpDst => self.tp_dst.into(),
            Field::IcmpType | Field::Icmpv6Type => (self.tp_src & 0xff).into(),
            Field::IcmpCode | Field::Icmpv6Code => (self.tp_dst & 0xff).into(),
            Field::TcpFlags => self.tcp_flags.into(),
            Field::NdOptionsType => (self.tcp_flags & 0xff).into(),
            Field::NdReserved => self.nd_reserved.into(),
            // MPLS and hashes are not supported; the packet is always Ethernet, which is type 0.
            _ => 0,
        }
    }

    /// The fields beside the bytes of the packet, as a packet-in has them: registers, metadata, ports, the tunnel, its connection. Those
    /// that are 0 are left out.
    pub fn metadata(&self) -> Match {
        let is_several = |field: &Field| (Field::Xreg0..=Field::Xxreg3).contains(field);
        let beside = Field::all().filter(|field| !field.is_of_frame() && !is_several(field));
        beside.map(|field| (field, self.get(field))).filter(|(_, value)| *value != 0).fold(
            Match::any(),
            // A field that cannot be matched by itself is in no packet-in.
            |all, (field, value)| all.clone().with(field, value).unwrap_or(all),
        )
    }

    /// Writes a field that actions may write; excess bits and read-only fields are ignored.
    pub fn set(&mut self, field: Field, value: u128) {
        if let Some((first, count)) = registers(field) {
            for (place, word) in self.registers[first..first + count].iter_mut().rev().enumerate() {
                *word = (value >> (32 * place)) as u32;
            }
            return;
        }
        let tag = &mut self.vlans[0];
        match field {
            Field::Metadata => self.metadata = value as u64,
            Field::InPort => self.in_port = value as u16,
            Field::PktMark => self.pkt_mark = value as u32,
            Field::TunId => self.tunnel.id = value as u64,
            Field::TunSrc => self.tunnel.src = value as u32,
            Field::TunDst => self.tunnel.dst = value as u32,
            Field::TunIpv6Src => self.tunnel.ipv6_src = value,
            Field::TunIpv6Dst => self.tunnel.ipv6_dst = value,
            Field::TunGbpId => self.tunnel.gbp_id = value as u16,
            Field::TunGbpFlags => self.tunnel.gbp_flags = value as u8,
            Field::TunFlags => self.tunnel.flags = value as u8 & 1,
            Field::TunMetadata0 => self.tunnel.metadata = Some(value as u32),
            Field::CtMark => self.ct.mark = value as u32,
            Field::CtLabel => self.ct.label = value,
            Field::EthSrc => self.eth_src = value as u64 & MAC_BITS,
            Field::EthDst => self.eth_dst = value as u64 & MAC_BITS,
            Field::VlanTci => {
                tag.tci = value as u16;
                tag.fix_tpid();
            }
            Field::VlanVid => {
                tag.tci = tag.tci & !0x1fff | value as u16 & 0x1fff;
                tag.fix_tpid();
            }
            Field::VlanPcp => {
                tag.tci = tag.tci & 0x1fff | (value as u16) << 13 | VLAN_PRESENT;
                tag.fix_tpid();
            }
            Field::IpSrc | Field::ArpSpa => self.nw_src = value as u32,
            Field::IpDst | Field::ArpTpa => self.nw_dst = value as u32,
            Field::Ipv6Src => self.ipv6_src = value,
            Field::Ipv6Dst => self.ipv6_dst = value,
            Field::Ipv6Label => self.ipv6_label = value as u32 & 0xf_ffff,
            Field::ArpOp => self.nw_proto = value as u8,
            Field::IpTos => self.nw_tos = self.nw_tos & 3 | value as u8 & 0xfc,
            Field::IpDscp => self.nw_tos = self.nw_tos & 3 | (value as u8) << 2,
            Field::IpEcn => self.nw_tos = self.nw_tos & 0xfc | value as u8 & 3,
            Field::IpTtl => self.nw_ttl = value as u8,
            Field::ArpSha | Field::NdSll => self.arp_sha = value as u64 & MAC_BITS,
            Field::ArpTha | Field::NdTll => self.arp_tha = value as u64 & MAC_BITS,
            Field::NdTarget => self.nd_target = value,
            Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => self.tp_src = value as u16,
            Field::TcpDst | Field::UdpDst | Field::SctpDst => self.tp_dst = value as u16,
            Field::IcmpType | Field::Icmpv6Type => self.tp_src = value as u16 & 0xff,
            Field::IcmpCode | Field::Icmpv6Code => self.tp_dst = value as u16 & 0xff,
            Field::NdOptionsType => self.tcp_flags = value as u16 & 0xff,
            Field::NdReserved => self.nd_reserved = value as u32,
            _ => {}
        }
    }

    /// Whether the packet matches.
    pub fn meets_match(&self, matches: &Match) -> bool {
        matches.iter().all(|demand| {
            // A demand on an option requires its presence.
            let there = demand.field != Field::TunMetadata0 || self.tunnel.metadata.is_some();
            there && self.get(demand.field) & demand.mask == demand.value
        })
    }

    /// Whether the packet meets this prerequisite of fields.
    pub fn meets(&self, needs: Prerequisite) -> bool {
        let ip = matches!(self.eth_type, ETH_IPV4 | ETH_IPV6);
        let transport = |proto| ip && self.nw_proto == proto && self.nw_frag & LATER_FRAGMENT == 0;
        let icmpv6 = self.eth_type == ETH_IPV6 && self.nw_proto == ICMPV6;
        let nd = |kinds: &[u16]| icmpv6 && self.tp_dst == 0 && kinds.contains(&self.tp_src);
        match needs {
            Prerequisite::None => true,
            Prerequisite::Vlan => self.vlans[0].is_present(),
            Prerequisite::Ipv4 => self.eth_type == ETH_IPV4,
            Prerequisite::Ipv6 => self.eth_type == ETH_IPV6,
            Prerequisite::Ip => ip,
            Prerequisite::Arp => matches!(self.eth_type, ETH_ARP | ETH_RARP),
            Prerequisite::Mpls => matches!(self.eth_type, ETH_MPLS | ETH_MPLS_MULTICAST),
            Prerequisite::Tcp => transport(TCP),
            Prerequisite::Udp => transport(UDP),
            Prerequisite::Sctp => transport(SCTP),
            Prerequisite::Icmp => self.eth_type == ETH_IPV4 && self.nw_proto == ICMP,
            Prerequisite::Icmp6 => icmpv6,
            Prerequisite::Nd => nd(&[135, 136]),
            Prerequisite::NdSolicit => nd(&[135]),
            Prerequisite::NdAdvert => nd(&[136]),
            // A match needs a state that excludes invalid packets. Actions do not find the original direction of a packet
            // that is only related.
            Prerequisite::Ct | Prerequisite::CtAddress => {
                ip && self.ct.state & (NEW | ESTABLISHED | REPLY) != 0
            }
        }
    }

    /// Pushes an empty tag. A third tag displaces the first.
    pub(crate) fn push_vlan(&mut self, tpid: u16) {
        self.vlans = [Vlan { tpid, tci: VLAN_PRESENT }, self.vlans[0]];
    }

    /// Pops the outermost tag, if there is one.
    pub(crate) fn pop_vlan(&mut self) {
        match self.tags() {
            [] => {}
            [_] => self.vlans[0] = Vlan::default(),
            _ => self.vlans = [self.vlans[1], Vlan::default()],
        }
    }

    /// The tags that are there.
    pub(crate) fn tags(&self) -> &[Vlan] {
        let count = self.vlans.iter().take_while(|tag| tag.is_present()).count();
        &self.vlans[..count]
    }
}

/// The port number that stands for "no output in the action set".
const UNSET: u16 = 0xfff7;
const MAC_BITS: u64 = 0xffff_ffff_ffff;

/// The registers that a field consists of: the first one and their number.
fn registers(field: Field) -> Option<(usize, usize)> {
    let number = |first: Field| field as usize - first as usize;
    match field {
        _ if (Field::Reg0..=Field::Reg15).contains(&field) => Some((number(Field::Reg0), 1)),
        _ if (Field::Xreg0..=Field::Xreg7).contains(&field) => Some((2 * number(Field::Xreg0), 2)),
        _ if (Field::Xxreg0..=Field::Xxreg3).contains(&field) => Some((4 * number(Field::Xxreg0), 4)),
        _ => None,
    }
}

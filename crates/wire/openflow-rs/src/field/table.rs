//! The one table of packet fields.
//!
//! To add a field, add one row to the table at the end: its place in the table is its place in
//! printed matches. A field that overlaps another (as `xreg0` overlaps `reg0`) also needs an arm in
//! `Field::slots`; everything else (text, wire, prerequisites) follows from the row.
//!
//! Names, widths, header numbers and prerequisites are those of Open vSwitch 3.1 (ovs-fields(7)).

use std::fmt;

/// The wire identity of a field: an OXM or NXM header without length and mask bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name Open vSwitch prints in `move` and `load`, such as `NXM_NX_REG0`.
    pub name: &'static str,
    /// OXM class; 0xffff for experimenter fields.
    pub class: u16,
    /// Experimenter id; 0 unless the class is 0xffff.
    pub experimenter: u32,
    /// Field number within the class.
    pub number: u8,
}

/// The prerequisite of a field: another part of the match without which a switch rejects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// No prerequisite.
    None,
    /// A VLAN tag.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// IPv4 or IPv6.
    Ip,
    /// ARP or RARP.
    Arp,
    /// MPLS.
    Mpls,
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// SCTP over IPv4 or IPv6.
    Sctp,
    /// `ICMPv4`.
    Icmp,
    /// `ICMPv6`.
    Icmp6,
    /// Neighbour solicitation or advertisement.
    Nd,
    /// Neighbour solicitation.
    NdSolicit,
    /// Neighbour advertisement.
    NdAdvert,
    /// A tracked connection.
    Ct,
    /// A tracked connection of one IP version.
    CtAddress,
}

impl fmt::Display for Prerequisite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Prerequisite::None => "nothing",
            Prerequisite::Vlan => "a VLAN tag (vlan_vid)",
            Prerequisite::Ipv4 => "ip",
            Prerequisite::Ipv6 => "ipv6",
            Prerequisite::Ip => "ip or ipv6",
            Prerequisite::Arp => "arp or rarp",
            Prerequisite::Mpls => "mpls",
            Prerequisite::Tcp => "tcp or tcp6",
            Prerequisite::Udp => "udp or udp6",
            Prerequisite::Sctp => "sctp or sctp6",
            Prerequisite::Icmp => "icmp",
            Prerequisite::Icmp6 => "icmp6",
            Prerequisite::Nd => "icmp6 with icmp_type 135 or 136",
            Prerequisite::NdSolicit => "icmp6 with icmp_type 135",
            Prerequisite::NdAdvert => "icmp6 with icmp_type 136",
            Prerequisite::Ct => "a valid ct_state such as +trk-inv or +est",
            Prerequisite::CtAddress => "ip or ipv6, and a valid ct_state such as +trk-inv or +est",
        })
    }
}

/// The notation of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `0x1a`, zero as `0`.
    Hex,
    /// Decimal; with a mask, hexadecimal.
    Decimal,
    /// `0x0800`, or a keyword such as `ip` in a match.
    EtherType,
    /// `00:11:22:33:44:55`.
    Ethernet,
    /// `10.0.0.0/24`.
    Ipv4,
    /// `fe80::/64`.
    Ipv6,
    /// A number or a reserved port's name.
    Port,
    /// `+trk-new`.
    CtState,
    /// `+syn-ack`.
    TcpFlags,
    /// `+oam`.
    TunFlags,
    /// `yes`, `no`, `first`, `later` or `not_later`.
    Frag,
    /// `(1,0x800)`.
    PacketType,
    /// Five hexadecimal digits in a match.
    FlowLabel,
    /// Four hexadecimal digits in a match, printed as `dl_vlan` where possible.
    VlanTci,
    /// Decimal; shifted left by two as `nw_tos` in a match.
    Dscp,
}

/// A row of the field table.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// The field.
    pub field: Field,
    /// Open vSwitch's own name, used by `set_field`.
    pub name: &'static str,
    /// The name printed in a match.
    pub match_name: &'static str,
    /// Further accepted names.
    pub aliases: &'static [&'static str],
    /// Width in bits, as `[]` in a subfield means it.
    pub bits: u16,
    /// Whether a match may give a mask.
    pub maskable: bool,
    /// Whether actions may change it.
    pub writable: bool,
    /// The prerequisite.
    pub prerequisite: Prerequisite,
    /// The notation of values.
    pub format: Format,
    /// Wire headers: all are understood, the first names the field in `move`, the last is sent.
    pub headers: &'static [Header],
}

macro_rules! header {
    ($name:ident nxm0 $n:literal) => { header!(@ $name, 0x0000, 0, $n) };
    ($name:ident nxm1 $n:literal) => { header!(@ $name, 0x0001, 0, $n) };
    ($name:ident oxm $n:literal) => { header!(@ $name, 0x8000, 0, $n) };
    ($name:ident pkt_reg $n:literal) => { header!(@ $name, 0x8001, 0, $n) };
    ($name:ident nxoxm $n:literal) => { header!(@ $name, 0xffff, 0x0000_2320, $n) };
    ($name:ident onf $n:literal) => { header!(@ $name, 0xffff, 0x4f4e_4600, $n) };
    ($name:ident ericsson $n:literal) => { header!(@ $name, 0x1000, 0, $n) };
    (@ $name:ident, $class:expr, $experimenter:expr, $n:literal) => {
        Header { name: stringify!($name), class: $class, experimenter: $experimenter, number: $n }
    };
}

macro_rules! flag {
    (masked) => {
        true
    };
    (whole) => {
        false
    };
    (rw) => {
        true
    };
    (ro) => {
        false
    };
}

/// Rows: `Variant(name, name in a match, [aliases], bits, maskable, writable, prerequisite, format, [headers])`.
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident($name:literal, $match_name:literal, [$($alias:literal),*], $bits:literal,
        $mask:ident, $access:ident, $prerequisite:ident, $format:ident, [$($header:ident $class:ident $n:literal),+]);)*) => {
        /// A packet or metadata field. The order is the one in which Open vSwitch prints a match.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Field {
            $($(#[$doc])* $field,)*
        }

        /// The table, in the order of [`Field`].
        pub(super) static FIELDS: &[FieldInfo] = &[$(FieldInfo {
            field: Field::$field,
            name: $name,
            match_name: $match_name,
            aliases: &[$($alias),*],
            bits: $bits,
            maskable: flag!($mask),
            writable: flag!($access),
            prerequisite: Prerequisite::$prerequisite,
            format: Format::$format,
            headers: &[$(header!($header $class $n)),+],
        },)*];
    };
}

fields! {
    /// The packet's mark inside the switch's host.
    PktMark("pkt_mark", "pkt_mark", [], 32, masked, rw, None, Hex, [NXM_NX_PKT_MARK nxm1 33]);
    /// Hash computed in the datapath.
    DpHash("dp_hash", "dp_hash", [], 32, masked, ro, None, Hex, [NXM_NX_DP_HASH nxm1 35, NXOXM_ET_DP_HASH nxoxm 0]);
    /// Id of a satisfied conjunction.
    ConjId("conj_id", "conj_id", [], 32, whole, ro, None, Decimal, [NXM_NX_CONJ_ID nxm1 37]);
    /// The output port in the action set.
    ActsetOutput("actset_output", "actset_output", [], 32, whole, ro, None, Port, [ONFOXM_ET_ACTSET_OUTPUT onf 43, OXM_OF_ACTSET_OUTPUT oxm 43]);
    /// Connection tracking state flags.
    CtState("ct_state", "ct_state", [], 32, masked, ro, None, CtState, [NXM_NX_CT_STATE nxm1 105]);
    /// Connection tracking zone.
    CtZone("ct_zone", "ct_zone", [], 16, whole, ro, None, Decimal, [NXM_NX_CT_ZONE nxm1 106]);
    /// Mark of the tracked connection.
    CtMark("ct_mark", "ct_mark", [], 32, masked, rw, None, Hex, [NXM_NX_CT_MARK nxm1 107]);
    /// Label of the tracked connection.
    CtLabel("ct_label", "ct_label", [], 128, masked, rw, None, Hex, [NXM_NX_CT_LABEL nxm1 108]);
    /// Source of the connection's original direction.
    CtNwSrc("ct_nw_src", "ct_nw_src", [], 32, masked, ro, CtAddress, Ipv4, [NXM_NX_CT_NW_SRC nxm1 120]);
    /// IPv6 source of the connection's original direction.
    CtIpv6Src("ct_ipv6_src", "ct_ipv6_src", [], 128, masked, ro, CtAddress, Ipv6, [NXM_NX_CT_IPV6_SRC nxm1 122]);
    /// Destination of the connection's original direction.
    CtNwDst("ct_nw_dst", "ct_nw_dst", [], 32, masked, ro, CtAddress, Ipv4, [NXM_NX_CT_NW_DST nxm1 121]);
    /// IPv6 destination of the connection's original direction.
    CtIpv6Dst("ct_ipv6_dst", "ct_ipv6_dst", [], 128, masked, ro, CtAddress, Ipv6, [NXM_NX_CT_IPV6_DST nxm1 123]);
    /// IP protocol of the connection's original direction.
    CtNwProto("ct_nw_proto", "ct_nw_proto", [], 8, whole, ro, Ct, Decimal, [NXM_NX_CT_NW_PROTO nxm1 119]);
    /// Source port of the connection's original direction.
    CtTpSrc("ct_tp_src", "ct_tp_src", [], 16, masked, ro, Ct, Decimal, [NXM_NX_CT_TP_SRC nxm1 124]);
    /// Destination port of the connection's original direction.
    CtTpDst("ct_tp_dst", "ct_tp_dst", [], 16, masked, ro, Ct, Decimal, [NXM_NX_CT_TP_DST nxm1 125]);
    /// The type of the packet's first header; 0 is Ethernet and is never stored.
    PacketType("packet_type", "packet_type", [], 32, whole, ro, None, PacketType, [OXM_OF_PACKET_TYPE oxm 44]);
    /// Ethernet type.
    EthType("eth_type", "dl_type", [], 16, whole, ro, None, EtherType, [NXM_OF_ETH_TYPE nxm0 3, OXM_OF_ETH_TYPE oxm 5]);
    /// IP protocol.
    IpProto("nw_proto", "nw_proto", ["ip_proto"], 8, whole, ro, Ip, Decimal, [NXM_OF_IP_PROTO nxm0 6, OXM_OF_IP_PROTO oxm 10]);
    /// Register 0.
    Reg0("reg0", "reg0", [], 32, masked, rw, None, Hex, [NXM_NX_REG0 nxm1 0]);
    /// Register 1.
    Reg1("reg1", "reg1", [], 32, masked, rw, None, Hex, [NXM_NX_REG1 nxm1 1]);
    /// Register 2.
    Reg2("reg2", "reg2", [], 32, masked, rw, None, Hex, [NXM_NX_REG2 nxm1 2]);
    /// Register 3.
    Reg3("reg3", "reg3", [], 32, masked, rw, None, Hex, [NXM_NX_REG3 nxm1 3]);
    /// Register 4.
    Reg4("reg4", "reg4", [], 32, masked, rw, None, Hex, [NXM_NX_REG4 nxm1 4]);
    /// Register 5.
    Reg5("reg5", "reg5", [], 32, masked, rw, None, Hex, [NXM_NX_REG5 nxm1 5]);
    /// Register 6.
    Reg6("reg6", "reg6", [], 32, masked, rw, None, Hex, [NXM_NX_REG6 nxm1 6]);
    /// Register 7.
    Reg7("reg7", "reg7", [], 32, masked, rw, None, Hex, [NXM_NX_REG7 nxm1 7]);
    /// Register 8.
    Reg8("reg8", "reg8", [], 32, masked, rw, None, Hex, [NXM_NX_REG8 nxm1 8]);
    /// Register 9.
    Reg9("reg9", "reg9", [], 32, masked, rw, None, Hex, [NXM_NX_REG9 nxm1 9]);
    /// Register 10.
    Reg10("reg10", "reg10", [], 32, masked, rw, None, Hex, [NXM_NX_REG10 nxm1 10]);
    /// Register 11.
    Reg11("reg11", "reg11", [], 32, masked, rw, None, Hex, [NXM_NX_REG11 nxm1 11]);
    /// Register 12.
    Reg12("reg12", "reg12", [], 32, masked, rw, None, Hex, [NXM_NX_REG12 nxm1 12]);
    /// Register 13.
    Reg13("reg13", "reg13", [], 32, masked, rw, None, Hex, [NXM_NX_REG13 nxm1 13]);
    /// Register 14.
    Reg14("reg14", "reg14", [], 32, masked, rw, None, Hex, [NXM_NX_REG14 nxm1 14]);
    /// Register 15.
    Reg15("reg15", "reg15", [], 32, masked, rw, None, Hex, [NXM_NX_REG15 nxm1 15]);
    /// Registers 0 (high) and 1 (low) as one.
    Xreg0("xreg0", "xreg0", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG0 pkt_reg 0]);
    /// Registers 2 (high) and 3 (low) as one.
    Xreg1("xreg1", "xreg1", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG1 pkt_reg 1]);
    /// Registers 4 (high) and 5 (low) as one.
    Xreg2("xreg2", "xreg2", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG2 pkt_reg 2]);
    /// Registers 6 (high) and 7 (low) as one.
    Xreg3("xreg3", "xreg3", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG3 pkt_reg 3]);
    /// Registers 8 (high) and 9 (low) as one.
    Xreg4("xreg4", "xreg4", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG4 pkt_reg 4]);
    /// Registers 10 (high) and 11 (low) as one.
    Xreg5("xreg5", "xreg5", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG5 pkt_reg 5]);
    /// Registers 12 (high) and 13 (low) as one.
    Xreg6("xreg6", "xreg6", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG6 pkt_reg 6]);
    /// Registers 14 (high) and 15 (low) as one.
    Xreg7("xreg7", "xreg7", [], 64, masked, rw, None, Hex, [OXM_OF_PKT_REG7 pkt_reg 7]);
    /// Registers 0 (highest) to 3 as one.
    Xxreg0("xxreg0", "xxreg0", [], 128, masked, rw, None, Hex, [NXM_NX_XXREG0 nxm1 111]);
    /// Registers 4 (highest) to 7 as one.
    Xxreg1("xxreg1", "xxreg1", [], 128, masked, rw, None, Hex, [NXM_NX_XXREG1 nxm1 112]);
    /// Registers 8 (highest) to 11 as one.
    Xxreg2("xxreg2", "xxreg2", [], 128, masked, rw, None, Hex, [NXM_NX_XXREG2 nxm1 113]);
    /// Registers 12 (highest) to 15 as one.
    Xxreg3("xxreg3", "xxreg3", [], 128, masked, rw, None, Hex, [NXM_NX_XXREG3 nxm1 114]);
    /// Tunnel key: VNI, GRE key.
    TunId("tun_id", "tun_id", ["tunnel_id"], 64, masked, rw, None, Hex, [NXM_NX_TUN_ID nxm1 16, OXM_OF_TUNNEL_ID oxm 38]);
    /// Outer IPv4 source of a tunnelled packet.
    TunSrc("tun_src", "tun_src", [], 32, masked, rw, None, Ipv4, [NXM_NX_TUN_IPV4_SRC nxm1 31]);
    /// Outer IPv4 destination of a tunnelled packet.
    TunDst("tun_dst", "tun_dst", [], 32, masked, rw, None, Ipv4, [NXM_NX_TUN_IPV4_DST nxm1 32]);
    /// Outer IPv6 source of a tunnelled packet.
    TunIpv6Src("tun_ipv6_src", "tun_ipv6_src", [], 128, masked, rw, None, Ipv6, [NXM_NX_TUN_IPV6_SRC nxm1 109]);
    /// Outer IPv6 destination of a tunnelled packet.
    TunIpv6Dst("tun_ipv6_dst", "tun_ipv6_dst", [], 128, masked, rw, None, Ipv6, [NXM_NX_TUN_IPV6_DST nxm1 110]);
    /// VXLAN group policy id.
    TunGbpId("tun_gbp_id", "tun_gbp_id", [], 16, masked, rw, None, Decimal, [NXM_NX_TUN_GBP_ID nxm1 38]);
    /// VXLAN group policy flags. Open vSwitch prints no mask for them, so none is accepted.
    TunGbpFlags("tun_gbp_flags", "tun_gbp_flags", [], 8, whole, rw, None, Hex, [NXM_NX_TUN_GBP_FLAGS nxm1 39]);
    /// Tunnel flags; bit 0 is OAM.
    TunFlags("tun_flags", "tun_flags", [], 1, masked, rw, None, TunFlags, [NXM_NX_TUN_FLAGS nxm1 104]);
    /// A tunnel option of 4 bytes, once the switch maps one (`add-tlv-map`). Open vSwitch allows 124 bytes here.
    TunMetadata0("tun_metadata0", "tun_metadata0", [], 32, masked, rw, None, Hex, [NXM_NX_TUN_METADATA0 nxm1 40]);
    /// Metadata carried between tables.
    Metadata("metadata", "metadata", [], 64, masked, rw, None, Hex, [OXM_OF_METADATA oxm 2]);
    /// Ingress port, 16 bits ([`crate::PortNo`]).
    InPort("in_port", "in_port", [], 16, whole, rw, None, Port, [NXM_OF_IN_PORT nxm0 0]);
    /// Ingress port with its 32-bit wire number.
    InPortOxm("in_port_oxm", "in_port_oxm", [], 32, whole, rw, None, Port, [OXM_OF_IN_PORT oxm 0]);
    /// VLAN tag: priority, present bit 0x1000, id.
    VlanTci("vlan_tci", "vlan_tci", [], 16, masked, rw, None, VlanTci, [NXM_OF_VLAN_TCI nxm0 4]);
    /// VLAN id + 0x1000; 0 is no tag.
    VlanVid("vlan_vid", "vlan_vid", [], 12, masked, rw, None, Decimal, [OXM_OF_VLAN_VID oxm 6]);
    /// VLAN priority.
    VlanPcp("vlan_pcp", "vlan_pcp", [], 3, whole, rw, Vlan, Decimal, [OXM_OF_VLAN_PCP oxm 7]);
    /// Ethernet source.
    EthSrc("eth_src", "dl_src", [], 48, masked, rw, None, Ethernet, [NXM_OF_ETH_SRC nxm0 2, OXM_OF_ETH_SRC oxm 4]);
    /// Ethernet destination.
    EthDst("eth_dst", "dl_dst", [], 48, masked, rw, None, Ethernet, [NXM_OF_ETH_DST nxm0 1, OXM_OF_ETH_DST oxm 3]);
    /// IPv6 source.
    Ipv6Src("ipv6_src", "ipv6_src", [], 128, masked, rw, Ipv6, Ipv6, [NXM_NX_IPV6_SRC nxm1 19, OXM_OF_IPV6_SRC oxm 26]);
    /// IPv6 destination.
    Ipv6Dst("ipv6_dst", "ipv6_dst", [], 128, masked, rw, Ipv6, Ipv6, [NXM_NX_IPV6_DST nxm1 20, OXM_OF_IPV6_DST oxm 27]);
    /// IPv6 flow label.
    Ipv6Label("ipv6_label", "ipv6_label", [], 20, masked, rw, Ipv6, FlowLabel, [NXM_NX_IPV6_LABEL nxm1 27, OXM_OF_IPV6_FLABEL oxm 28]);
    /// ARP sender's IPv4 address.
    ArpSpa("arp_spa", "arp_spa", [], 32, masked, rw, Arp, Ipv4, [NXM_OF_ARP_SPA nxm0 16, OXM_OF_ARP_SPA oxm 22]);
    /// ARP target's IPv4 address.
    ArpTpa("arp_tpa", "arp_tpa", [], 32, masked, rw, Arp, Ipv4, [NXM_OF_ARP_TPA nxm0 17, OXM_OF_ARP_TPA oxm 23]);
    /// IPv4 source.
    IpSrc("ip_src", "nw_src", [], 32, masked, rw, Ipv4, Ipv4, [NXM_OF_IP_SRC nxm0 7, OXM_OF_IPV4_SRC oxm 11]);
    /// IPv4 destination.
    IpDst("ip_dst", "nw_dst", [], 32, masked, rw, Ipv4, Ipv4, [NXM_OF_IP_DST nxm0 8, OXM_OF_IPV4_DST oxm 12]);
    /// ARP operation: 1 request, 2 reply.
    ArpOp("arp_op", "arp_op", [], 16, whole, rw, Arp, Decimal, [NXM_OF_ARP_OP nxm0 15, OXM_OF_ARP_OP oxm 21]);
    /// ARP sender's Ethernet address.
    ArpSha("arp_sha", "arp_sha", [], 48, masked, rw, Arp, Ethernet, [NXM_NX_ARP_SHA nxm1 17, OXM_OF_ARP_SHA oxm 24]);
    /// ARP target's Ethernet address.
    ArpTha("arp_tha", "arp_tha", [], 48, masked, rw, Arp, Ethernet, [NXM_NX_ARP_THA nxm1 18, OXM_OF_ARP_THA oxm 25]);
    /// IP DSCP in the upper six bits of the TOS byte; the lower two are zero.
    IpTos("nw_tos", "nw_tos", [], 8, whole, rw, Ip, Decimal, [NXM_OF_IP_TOS nxm0 5]);
    /// IP DSCP.
    IpDscp("ip_dscp", "nw_tos", [], 6, whole, rw, Ip, Dscp, [OXM_OF_IP_DSCP oxm 8]);
    /// IP ECN.
    IpEcn("nw_ecn", "nw_ecn", ["ip_ecn"], 2, whole, rw, Ip, Decimal, [NXM_NX_IP_ECN nxm1 28, OXM_OF_IP_ECN oxm 9]);
    /// IP time to live, IPv6 hop limit.
    IpTtl("nw_ttl", "nw_ttl", [], 8, whole, rw, Ip, Decimal, [NXM_NX_IP_TTL nxm1 29]);
    /// MPLS label.
    MplsLabel("mpls_label", "mpls_label", [], 20, whole, rw, Mpls, Decimal, [OXM_OF_MPLS_LABEL oxm 34]);
    /// MPLS traffic class.
    MplsTc("mpls_tc", "mpls_tc", [], 3, whole, rw, Mpls, Decimal, [OXM_OF_MPLS_TC oxm 35]);
    /// MPLS time to live.
    MplsTtl("mpls_ttl", "mpls_ttl", [], 8, whole, rw, Mpls, Decimal, [NXM_NX_MPLS_TTL nxm1 30]);
    /// MPLS bottom of stack.
    MplsBos("mpls_bos", "mpls_bos", [], 1, whole, ro, Mpls, Decimal, [OXM_OF_MPLS_BOS oxm 36]);
    /// IP fragment: bit 0 any, bit 1 a later one.
    IpFrag("ip_frag", "nw_frag", [], 2, masked, ro, Ip, Frag, [NXM_NX_IP_FRAG nxm1 26]);
    /// TCP source port.
    TcpSrc("tcp_src", "tp_src", [], 16, masked, rw, Tcp, Decimal, [NXM_OF_TCP_SRC nxm0 9, OXM_OF_TCP_SRC oxm 13]);
    /// UDP source port.
    UdpSrc("udp_src", "tp_src", [], 16, masked, rw, Udp, Decimal, [NXM_OF_UDP_SRC nxm0 11, OXM_OF_UDP_SRC oxm 15]);
    /// SCTP source port.
    SctpSrc("sctp_src", "tp_src", [], 16, masked, rw, Sctp, Decimal, [OXM_OF_SCTP_SRC oxm 17]);
    /// TCP destination port.
    TcpDst("tcp_dst", "tp_dst", [], 16, masked, rw, Tcp, Decimal, [NXM_OF_TCP_DST nxm0 10, OXM_OF_TCP_DST oxm 14]);
    /// UDP destination port.
    UdpDst("udp_dst", "tp_dst", [], 16, masked, rw, Udp, Decimal, [NXM_OF_UDP_DST nxm0 12, OXM_OF_UDP_DST oxm 16]);
    /// SCTP destination port.
    SctpDst("sctp_dst", "tp_dst", [], 16, masked, rw, Sctp, Decimal, [OXM_OF_SCTP_DST oxm 18]);
    /// ICMP type.
    IcmpType("icmp_type", "icmp_type", [], 8, whole, rw, Icmp, Decimal, [NXM_OF_ICMP_TYPE nxm0 13, OXM_OF_ICMPV4_TYPE oxm 19]);
    /// ICMP code.
    IcmpCode("icmp_code", "icmp_code", [], 8, whole, rw, Icmp, Decimal, [NXM_OF_ICMP_CODE nxm0 14, OXM_OF_ICMPV4_CODE oxm 20]);
    /// `ICMPv6` type.
    Icmpv6Type("icmpv6_type", "icmp_type", [], 8, whole, rw, Icmp6, Decimal, [NXM_NX_ICMPV6_TYPE nxm1 21, OXM_OF_ICMPV6_TYPE oxm 29]);
    /// `ICMPv6` code.
    Icmpv6Code("icmpv6_code", "icmp_code", [], 8, whole, rw, Icmp6, Decimal, [NXM_NX_ICMPV6_CODE nxm1 22, OXM_OF_ICMPV6_CODE oxm 30]);
    /// Neighbour discovery target.
    NdTarget("nd_target", "nd_target", [], 128, masked, rw, Nd, Ipv6, [NXM_NX_ND_TARGET nxm1 23, OXM_OF_IPV6_ND_TARGET oxm 31]);
    /// Source link-layer address option.
    NdSll("nd_sll", "nd_sll", [], 48, masked, rw, NdSolicit, Ethernet, [NXM_NX_ND_SLL nxm1 24, OXM_OF_IPV6_ND_SLL oxm 32]);
    /// Target link-layer address option.
    NdTll("nd_tll", "nd_tll", [], 48, masked, rw, NdAdvert, Ethernet, [NXM_NX_ND_TLL nxm1 25, OXM_OF_IPV6_ND_TLL oxm 33]);
    /// The 32 bits after the ND checksum: flags of an advertisement.
    NdReserved("nd_reserved", "nd_reserved", [], 32, whole, rw, Nd, Decimal, [ERICOXM_OF_ICMPV6_ND_RESERVED ericsson 1]);
    /// Type of the ND option.
    NdOptionsType("nd_options_type", "nd_options_type", [], 8, whole, rw, Nd, Decimal, [ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE ericsson 2]);
    /// TCP flags.
    TcpFlags("tcp_flags", "tcp_flags", [], 12, masked, ro, Tcp, TcpFlags, [NXM_NX_TCP_FLAGS nxm1 34, ONFOXM_ET_TCP_FLAGS onf 42, OXM_OF_TCP_FLAGS oxm 42]);
}

//! The limit on the actions for one packet: if the datapath actions that Open vSwitch generates for a packet exceed 64
//! KB, it looks up no more tables and sends no more copies into tunnels. Only a trace shows this.
//!
//! The sizes are those of the Netlink attributes of actions (`odp-util.c`, `linux/openvswitch.h`), each padded to four
//! bytes.

use openflow_rs::action::{Nat, NatChoice};

use crate::FlowKey;
use crate::key::{ETH_ARP, ETH_IPV4, ETH_IPV6, ICMP, ICMPV6};
use crate::port::{Encapsulation, Tunnel};

/// The number of bytes up to which tables are still looked up (`xlate_resubmit_resource_check`).
pub(crate) const MAX_ACTIONS: usize = 65535;
/// An attribute's own header.
const HEADER: usize = 4;
/// Bytes of an output action.
pub(crate) const OUTPUT: usize = HEADER + 4;
/// Bytes of a clone action.
pub(crate) const CLONE: usize = HEADER;

/// Bytes of the action that compares a packet's length, without the actions of its two cases.
pub(crate) const CHECK_LENGTH: usize = HEADER + 2 * (HEADER + 4);

/// Bytes of the actions that track a packet with mark and label, and look it up again.
pub(crate) const TRACK: usize = HEADER + 3 * (HEADER + 4) + (HEADER + 8) + (HEADER + 32) + (HEADER + 4);

/// Bytes that `nat` adds to the action that tracks a packet (`put_ct_nat` of `ofproto-dpif-xlate.c`).
pub(crate) fn nat(nat: Nat) -> usize {
    const FLAG: usize = HEADER;
    let Some((_, range)) = nat.change() else { return HEADER };
    let Some(range) = range else { return HEADER + FLAG };
    let (first, last) = range.addresses();
    let address = HEADER + if first.is_ipv6() { 16 } else { 4 };
    let addresses = if first == last { address } else { 2 * address };
    let ports = match range.ports() {
        None => 0,
        Some((first, last)) if first == last => HEADER + padded(2),
        Some(_) => 2 * (HEADER + padded(2)),
    };
    let flags = usize::from(range.persistent) + usize::from(range.choice != NatChoice::Default);
    HEADER + FLAG * (1 + flags) + addresses + ports
}

/// Bytes of the action that encapsulates a packet.
pub(crate) fn push(tunnel: Tunnel, key: &FlowKey) -> usize {
    const ETHERNET: usize = 14;
    const OPTION: usize = 8;
    let ip = if tunnel.destination(key).is_some_and(|to| to.is_ipv6()) { 40 } else { 20 };
    let header = match tunnel.encapsulation {
        Encapsulation::Geneve if key.tunnel.metadata.is_some() => 16 + OPTION,
        Encapsulation::Geneve | Encapsulation::Vxlan => 16,
        Encapsulation::Gre => 8,
    };
    // Two ports and the length and type of the header precede it.
    HEADER + padded(16 + ETHERNET + ip + header)
}

/// Bytes of the actions that rewrite a packet from one set of fields to the other. This is an estimate for rewrites
/// that a flood does not make by the thousands (ports, neighbour discovery).
pub(crate) fn rewrite(from: &FlowKey, to: &FlowKey) -> usize {
    let mut size = 0;
    let ethernet = [from.eth_src != to.eth_src, from.eth_dst != to.eth_dst];
    size += set(&ethernet, 12);
    size += match from.eth_type {
        ETH_IPV4 => {
            let same = (from.nw_src, from.nw_dst, from.nw_tos, from.nw_ttl)
                == (to.nw_src, to.nw_dst, to.nw_tos, to.nw_ttl);
            // The header also has protocol and fragment bits, which never change, so it is never set as a whole.
            set(&[!same, false], 12)
        }
        ETH_IPV6 => {
            let same = (from.ipv6_src, from.ipv6_dst, from.ipv6_label, from.nw_tos, from.nw_ttl)
                == (to.ipv6_src, to.ipv6_dst, to.ipv6_label, to.nw_tos, to.nw_ttl);
            set(&[!same, false], 40)
        }
        ETH_ARP => set(
            &[
                from.nw_src != to.nw_src,
                from.nw_dst != to.nw_dst,
                from.nw_proto != to.nw_proto,
                from.arp_sha != to.arp_sha,
                from.arp_tha != to.arp_tha,
                false,
            ],
            24,
        ),
        _ => 0,
    };
    if matches!(from.eth_type, ETH_IPV4 | ETH_IPV6) {
        let ports = [from.tp_src != to.tp_src, from.tp_dst != to.tp_dst];
        size += set(&ports, if matches!(from.nw_proto, ICMP | ICMPV6) { 2 } else { 4 });
    }
    if from.eth_type == ETH_IPV6 {
        let discovery =
            [from.nd_target != to.nd_target, from.arp_sha != to.arp_sha, from.arp_tha != to.arp_tha];
        size += set(&discovery, 28);
        size += set(&[from.nd_reserved != to.nd_reserved, from.tcp_flags != to.tcp_flags], 8);
    }
    size += set(&[from.pkt_mark != to.pkt_mark], 4);
    let (old, new) = (from.tags(), to.tags());
    let common = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    size + HEADER * (old.len() - common) + (HEADER + 4) * (new.len() - common)
}

/// Bytes of the action that sets a header of this many bytes: with a mask, unless all its fields differ.
fn set(differ: &[bool], bytes: usize) -> usize {
    if differ.iter().all(|differs| *differs) {
        HEADER + HEADER + padded(bytes)
    } else if differ.contains(&true) {
        HEADER + HEADER + padded(2 * bytes)
    } else {
        0
    }
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

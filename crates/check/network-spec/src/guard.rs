//! The frames that no port may send, and those that only routers and DHCP servers send.

use crate::frame::{Body, Frame, Packet, Payload, is_group, is_reserved};
use crate::world::{Port, Trust};

/// Whether a switch forwards a frame at all. A source is one interface (IEEE 802.3, 3.2.3 b), so a group address there is a
/// fault of the sender.
pub(crate) fn is_forwarded(frame: &Frame) -> bool {
    !is_group(frame.src) && !is_reserved(frame.dst)
}

/// Whether a message of neighbour discovery may have come through a router: its hop limit is not 255. Hosts must ignore such
/// a message, whatever its code (RFC 4861, 6.1, 7.1 and 8.1). The types are router solicitation and advertisement,
/// neighbour solicitation and advertisement, and redirect.
pub(crate) fn is_forged_discovery(frame: &Frame) -> bool {
    let Body::Ipv6(Some(Packet { payload, hops, .. })) = &frame.body else {
        return false;
    };
    let is_discovery = matches!(
        payload,
        Payload::Solicitation(_) | Payload::Advertisement(_) | Payload::Icmpv6(133..=137, _)
    );
    is_discovery && *hops != 255
}

/// Whether a frame is of a kind that a port with port security may only send if it is trusted: router advertisements (RFC
/// 4861, and for IPv4 RFC 1256), redirects (RFC 4861, RFC 792) and messages to DHCP clients (RFC 2131, RFC 8415). Clients
/// look at the destination port alone, so the source port does not count.
pub(crate) fn misleads(port: &Port, frame: &Frame) -> bool {
    let kind = match &frame.body {
        Body::Ipv4(Some(packet)) => match packet.payload {
            Payload::Icmp(9) => Some(Trust::Ra),
            Payload::Icmp(5) => Some(Trust::Redirect),
            Payload::Udp(_, 68) => Some(Trust::DhcpServer),
            _ => None,
        },
        Body::Ipv6(Some(packet)) => match packet.payload {
            Payload::Icmpv6(134, _) => Some(Trust::Ra),
            Payload::Icmpv6(137, _) => Some(Trust::Redirect),
            Payload::Udp(_, 546) => Some(Trust::DhcpServer),
            _ => None,
        },
        _ => None,
    };
    port.port_security && kind.is_some_and(|kind| !port.trust.contains(&kind))
}

//! The answers that flows cannot build, because no action of Open vSwitch inserts bytes into a packet.
//!
//! A flow hands a packet over with an [`Instruction`] in its `userdata`, which says what is asked and what the answer needs to know.
//! [`Instruction::answer`] builds the answer from both, or gives the reason for silence ([`Silence`]): an ICMP error or a TCP reset, a
//! router advertisement, or a message of a DHCP or DNS server. It keeps no state, reads no clock and has no I/O, so the process on a host, the
//! simulator and the tests get the same answers.
//!
//! Flows already exclude most packets that must not be answered. This crate checks all of it again: two responders that answer each
//! other would never stop, and a flow may be wrong.
#![forbid(unsafe_code)]
// Packets are anybody's bytes, and must not end the process.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        clippy::unwrap_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod advertisement;
mod announcement;
mod answered;
mod datagram;
mod dhcp_options;
mod dhcpv4;
mod dhcpv6;
mod dns;
mod error;
mod error_ask;
mod headers;
mod instruction;
mod limit;
mod probe;
mod query;
mod readiness;
mod reason;
mod received;
mod reset;
mod resolution;
mod settings;
mod silence;
mod solicitation;
mod userdata;

use std::net::IpAddr;

pub use advertisement::{
    Advertisement, DNS_LIFETIME, HOP_LIMIT, INTERVAL_MAX, PREFIX_PREFERRED, PREFIX_VALID, Preference,
};
pub use announcement::Announcement;
pub use answered::{Answer, Answered, Receiver};
pub use dhcp_options::{BadOption, Form, NAMES, OptionName, dhcp_option, domain_search};
pub use dhcpv4::Dhcpv4Offer;
pub use dhcpv6::Dhcpv6Offer;
pub use dns::name::{DomainName, NoDomainName, name_key};
pub use dns::{DnsAnswer, DnsQuestion};
pub use error_ask::{Address, ErrorAsk, Operand};
pub use headers::link_local;
pub use instruction::{Ask, CONTROLLER_ID, Instruction};
pub use limit::{ANSWERS_BURST, ANSWERS_EACH, Limit, RECEIVERS_MAX};
pub use probe::{Check, Conversation, PROBE_KEY, PROBES_MAX, Probe, ProbeResult, Returned, is_probe_id};
pub use query::{QUERY_INTERVAL, Query};
pub use readiness::{Readiness, Tunnels};
pub use reason::Reason;
pub use resolution::Resolution;
pub use settings::BadSetting;
pub use silence::Silence;
pub use solicitation::Solicitation;
pub use userdata::Malformed;

use received::Received;

/// The error or reset that answers a packet which was handed over for this reason.
///
/// `frame` may be the beginning of a longer one: an error quotes as much as is there. `mtu`, in bytes, is that of the next network, and counts
/// for [`Reason::TooBig`] alone. The source of an error is the one of `addresses` in whose network the receiver is, or the first one of
/// its IP version. Without any addresses, or if the destination says it, the destination of the packet answers itself.
///
/// # Errors
/// The packet must not be answered, or cannot be.
pub fn answer_error(
    frame: &[u8],
    reason: Reason,
    mtu: u32,
    addresses: &[Address],
) -> Result<Answer, Silence> {
    let received = Received::read(frame)?;
    received.check()?;
    let packet = match received.tcp().filter(|_| reason.is_of_destination()) {
        Some(segment) => reset::reset(&received, segment)?,
        None => error::error(&received, source(&received, reason, addresses)?, reason, mtu)?,
    };
    Ok(Answer::new(received.returned(&packet), Receiver::Ip(received.from), Answered::Error(reason)))
}

/// The source of an error.
fn source(received: &Received<'_>, reason: Reason, addresses: &[Address]) -> Result<IpAddr, Silence> {
    // The sender knows a router by the address that it has asked for a port, whichever port of the router has it (RFC 4443, 2.2 (a)).
    if addresses.is_empty() || reason.is_of_destination() {
        return Ok(received.to);
    }
    let mut own = addresses.iter().filter(|own| own.address.is_ipv4() == received.from.is_ipv4());
    let near = own.clone().find(|own| own.connects(received.from));
    let source = near.or_else(|| own.next()).ok_or(Silence::NoAddress)?.address;
    if source == received.from { Err(Silence::FromItself) } else { Ok(source) }
}

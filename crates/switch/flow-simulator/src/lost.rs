//! Why a fabric lost a packet.

use std::net::IpAddr;

use openflow_rs::PortNo;

use crate::fabric::MAX_CROSSINGS;
use crate::{Encapsulation, Stopped};

/// A packet that a fault of the flow tables, or a host that is down, lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It left by a tunnel port without a destination.
    #[error("{host}: a packet left by tunnel port {port} with tun_dst 0: set tun_dst before the output")]
    NoDestination {
        /// The sender.
        host: String,
        /// Its tunnel port.
        port: PortNo,
    },
    /// No other host has the address.
    #[error("{host}: a packet was tunnelled to {address}, which is no other host's address")]
    NoHost {
        /// The sender.
        host: String,
        /// The address.
        address: IpAddr,
    },
    /// The other host's address is of another IP version.
    #[error("{host}: a packet was tunnelled from {from} to {to}: both must be of one IP version")]
    OtherVersion {
        /// The sender.
        host: String,
        /// Its address.
        from: IpAddr,
        /// The other host's address.
        to: IpAddr,
    },
    /// The receiver has no tunnel port of this encapsulation.
    #[error("{host} has no port for {encapsulation:?}, which {from} sent")]
    NoTunnel {
        /// The sender.
        from: String,
        /// The receiver.
        host: String,
        /// The encapsulation.
        encapsulation: Encapsulation,
    },
    /// The receiver is down.
    #[error("{host} is down: nobody gets what is sent to it")]
    Down {
        /// The receiver.
        host: String,
    },
    /// It does not fit into the underlay.
    #[error(
        "the packet from {from} to {host} has {size} bytes with the headers of its tunnel, and the network between them carries {mtu}"
    )]
    TooLarge {
        /// The sender.
        from: String,
        /// The receiver.
        host: String,
        /// The bytes of the packet on the underlay, from its IP header on.
        size: u32,
        /// The most.
        mtu: u32,
        /// The largest IP packet in an untagged frame that fits into it.
        fits: u32,
    },
    /// A bridge gave the packet up.
    #[error("{host}: {why}")]
    Stopped {
        /// The host.
        host: String,
        /// The reason.
        why: Stopped,
    },
    /// A bridge dropped copies because together they exceeded the limit.
    #[error("{host}: a flood was cut short at 64 KB of datapath actions: split it over several hosts")]
    Cut {
        /// The host.
        host: String,
    },
    /// Packets looped or multiplied, and those still in flight were dropped.
    #[error(
        "more than {MAX_CROSSINGS} packets crossed between hosts for one that was sent: look for a loop between hosts"
    )]
    Storm,
    /// The packet's starting host does not exist.
    #[error("there is no host {0}")]
    Unknown(String),
}

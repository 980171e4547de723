//! A packet within a connection: the packets that open the connection go through the simulated hosts first, which track it as switches
//! do.

use std::net::IpAddr;

use std::fmt;

use crate::packet::{Part, addresses_of, link_header};
use crate::{Network, Sent, Trace, Words};

/// How much of the packet that it is about an ICMP error repeats at least: its header and 8 bytes more (RFC 792).
const QUOTED: usize = 20 + 8;
/// How much of it an error of IPv6 repeats at most: what fits into a packet of the least MTU, 1,280 bytes (RFC 4443, section 2.4).
const QUOTED_V6: usize = 1280 - 40 - 8;

/// Where in a connection a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It opens the connection.
    New,
    /// The connection is established, and the packet goes in the direction in which it was opened.
    Established,
    /// It is the answer to the packet that opened the connection, which came from where this packet goes.
    Reply,
    /// It is an ICMP error about the packet that opened the connection, which came from where this packet goes.
    Related,
}

/// Why there is no trace of a packet.
#[derive(Debug)]
pub enum TraceError {
    /// What was asked for is wrong.
    Asked(String),
    /// The network cannot be simulated.
    Failed(String),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (TraceError::Asked(why) | TraceError::Failed(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for TraceError {}

impl Network {
    /// The way of a packet in words within a connection, and of those before it as long as they do not arrive: if the opening of the
    /// connection is dropped, the trace is of the opening, and a note says so. The hosts know the connection afterwards.
    ///
    /// # Errors
    /// As [`Network::packet`] and [`Network::trace`]; and no port is known to be at the other end of the connection.
    pub fn trace_within(
        &mut self,
        from: &str,
        words: &Words,
        state: Connection,
    ) -> Result<Trace, TraceError> {
        use TraceError::{Asked, Failed};
        let opening = self.packet(from, words).map_err(Asked)?;
        if state == Connection::New {
            return self.trace(&opening).map_err(Failed);
        }
        let to = opening.to.clone().filter(|to| self.is_switch_port(to)).ok_or_else(|| {
            let why = "a connection needs a port that answers at its other end: say it with --to, the id of a switch_port";
            Asked(why.to_owned())
        })?;
        let ends = addresses_of(&opening.bytes);
        let ends = ends.ok_or_else(|| Asked("only IP packets belong to connections".to_owned()))?;
        // What the other end sends to this one.
        let back = Words {
            to: Some(from.to_owned()),
            ip: Some(ends.0),
            from_ip: Some(ends.1),
            from_mac: None,
            to_mac: None,
            size: None,
            ttl: None,
            ..words.clone()
        };
        if state == Connection::Established {
            let answer = self.packet_of(&to, &back, &Part::Answer).map_err(Asked)?;
            if let Some(trace) = self.before(&opening, "opens the connection").map_err(Failed)? {
                return Ok(trace);
            }
            if let Some(trace) =
                self.before(&answer, "answers the opening of the connection").map_err(Failed)?
            {
                return Ok(trace);
            }
            let later = self.packet_of(from, words, &Part::Later).map_err(Asked)?;
            return self.trace(&later).map_err(Failed);
        }
        // The other end has opened the connection to what this port has.
        let first = self.packet(&to, &back).map_err(Asked)?;
        let arrived = match self.sent_before(&first, "opens the connection").map_err(Failed)? {
            Ok(bytes) => bytes,
            Err(trace) => return Ok(trace),
        };
        let part =
            if state == Connection::Reply { Part::Answer } else { Part::Error(quoted(&arrived, ends.0)) };
        let sent = self.packet_of(from, words, &part).map_err(Asked)?;
        self.trace(&sent).map_err(Failed)
    }

    pub(crate) fn is_switch_port(&self, port: &str) -> bool {
        !self.rows_with(self.program().schema.find("switch_port"), 0, port.into()).is_empty()
    }

    /// Sends a packet before the one that is traced. Its trace, if it does not arrive.
    fn before(&mut self, sent: &Sent, role: &str) -> Result<Option<Trace>, String> {
        self.sent_before(sent, role).map(Result::err)
    }

    /// The same, with its bytes as they arrive.
    fn sent_before(&mut self, sent: &Sent, role: &str) -> Result<Result<Vec<u8>, Trace>, String> {
        let mut trace = self.trace(sent)?;
        let arrived = trace.delivered.iter().find(|one| Some(&one.port) == sent.to.as_ref());
        let (Some(arrived), Some(place)) = (arrived, &sent.place) else {
            trace.notes.push(format!(
                "this packet, from {}, {role}; since it is dropped, there is no connection",
                sent.from
            ));
            return Ok(Err(trace));
        };
        let bytes = arrived.bytes.clone();
        self.hosts.pass(place, &sent.bytes)?;
        Ok(Ok(bytes))
    }
}

/// What an ICMP error repeats of a frame that has arrived.
fn quoted(bytes: &[u8], to: IpAddr) -> Vec<u8> {
    let length = if to.is_ipv4() { QUOTED } else { QUOTED_V6 };
    bytes.iter().skip(link_header(bytes)).take(length).copied().collect()
}

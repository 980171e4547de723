//! Requests for flow entries. OpenFlow 1.5 calls them flow descriptions; Open vSwitch prints them
//! under the old name and does not implement the new flow statistics (type 17).

use std::fmt::Write;

use super::print::trim_end;
use crate::error::Fault;
use crate::flow::{ALL_TABLES, ANY_GROUP};
use crate::wire::Reader;
use crate::{DecodeError, EncodeError, FlowStats, Match, PortNo};

/// A request for flow entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowDescRequest {
    /// The table, [`ALL_TABLES`] for all.
    pub table: u8,
    /// Only entries that send packets to this port.
    pub out_port: PortNo,
    /// Only entries that send packets to this group.
    pub out_group: u32,
    /// Only entries whose cookie has these bits ...
    pub cookie: u64,
    /// ... under this mask.
    pub cookie_mask: u64,
    /// Only entries whose packets this match covers.
    pub matches: Match,
}

impl FlowDescRequest {
    /// Asks for all entries of all tables.
    pub fn all() -> FlowDescRequest {
        FlowDescRequest {
            table: ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            matches: Match::any(),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.table, 0, 0, 0]);
        out.extend_from_slice(&self.out_port.to_wire().to_be_bytes());
        out.extend_from_slice(&self.out_group.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.cookie.to_be_bytes());
        out.extend_from_slice(&self.cookie_mask.to_be_bytes());
        self.matches.encode(out);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<FlowDescRequest, DecodeError> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let at = reader.clone();
        let n = reader.u32()?;
        let out_port = PortNo::from_wire(n).ok_or_else(|| at.fault(Fault::Unknown(n.into())))?;
        let out_group = reader.u32()?;
        reader.skip(4)?;
        let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
        let matches = Match::decode(reader)?;
        Ok(FlowDescRequest { table, out_port, out_group, cookie, cookie_mask, matches })
    }

    pub(super) fn print(&self) -> String {
        let mut text = String::new();
        if self.table != ALL_TABLES {
            text += &format!(" table={}", self.table);
        }
        if self.out_port != PortNo::ANY {
            text += &format!(" out_port={}", self.out_port);
        }
        text + &trim_end(format!(" {}", self.matches))
    }
}

/// A flow entry in a dump that this crate cannot read, such as one with a field it does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableFlow {
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// The reason.
    pub error: DecodeError,
}

/// A part of the requested flow entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowDescReply {
    /// Whether another part follows.
    pub more: bool,
    /// The entries.
    pub flows: Vec<FlowStats>,
    /// Entries that exist but could not be read, so that one unsupported flow does not hide the others.
    /// They are not encoded.
    pub unreadable: Vec<UnreadableFlow>,
}

impl FlowDescReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        for flow in &self.flows {
            let start = out.len();
            flow.encode(out);
            let len = out.len() - start;
            u16::try_from(len).map_err(|_| EncodeError::TooLong { len })?;
        }
        Ok(())
    }

    pub(super) fn decode(reader: &mut Reader<'_>, more: bool) -> Result<FlowDescReply, DecodeError> {
        let mut reply = FlowDescReply { more, ..FlowDescReply::default() };
        while !reader.is_empty() {
            match FlowStats::decode(reader)? {
                Ok(flow) => reply.flows.push(flow),
                Err((key, error)) => reply.unreadable.push(UnreadableFlow {
                    table: key.table,
                    priority: key.priority,
                    cookie: key.cookie,
                    error,
                }),
            }
        }
        Ok(reply)
    }

    pub(super) fn print(&self) -> String {
        let mut text = String::new();
        for flow in &self.flows {
            let _ = write!(
                text,
                "
 {flow}"
            );
        }
        for flow in &self.unreadable {
            text += &format!(
                "\n cookie={:#x}, table={}, priority={} unreadable: {}",
                flow.cookie, flow.table, flow.priority, flow.error
            );
        }
        text
    }
}

//! Limits of conntrack zones: how long connections are remembered, and how many.

use std::collections::BTreeMap;

use nlog_data::{Row, Value};
use openflow_rs::DecodeError;

use crate::kind::{Kind, Lasting, Reader, RowError, int, number, text};
use crate::table::{INT, STRING, SwitchTable};

/// What bounds the connections of a conntrack zone. Times are in seconds without a packet, after which a connection is
/// forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneLimits {
    /// The most connections; none for no limit. Open vSwitch knows it from 3.3 on.
    pub connections: Option<u32>,
    /// While nobody has answered: a connection of TCP that is not established, and what other protocols have sent one way only.
    pub unanswered: u32,
    /// Once there was an answer, of a protocol that says nothing of the end of a connection.
    pub answered: u32,
    /// While a connection of TCP is established.
    pub established: u32,
    /// While a connection of TCP ends.
    pub closing: u32,
}

impl ZoneLimits {
    /// The timeouts by their names in `CT_Timeout_Policy`.
    pub fn timeouts(&self) -> BTreeMap<String, i64> {
        let (unanswered, answered) = (self.unanswered.into(), self.answered.into());
        let (established, closing) = (self.established.into(), self.closing.into());
        let named: [(&str, i64); 16] = [
            ("tcp_syn_sent", unanswered),
            ("tcp_syn_recv", unanswered),
            ("tcp_syn_sent2", unanswered),
            ("tcp_established", established),
            ("tcp_retransmit", established),
            ("tcp_unack", established),
            ("tcp_fin_wait", closing),
            ("tcp_close_wait", closing),
            ("tcp_last_ack", closing),
            ("tcp_time_wait", closing),
            ("tcp_close", closing),
            ("udp_first", unanswered),
            ("udp_single", unanswered),
            ("udp_multiple", answered),
            ("icmp_first", unanswered),
            ("icmp_reply", answered),
        ];
        named.into_iter().map(|(name, seconds)| (name.to_owned(), seconds)).collect()
    }
}

/// The limits of the conntrack zones of a switch, by zone.
#[derive(Debug)]
pub enum ZonesLimits {}

impl Kind for ZonesLimits {
    const TABLE: SwitchTable = SwitchTable::output(
        "conntrack_limit",
        &[
            ("hv", STRING),
            ("zone", INT),
            ("connections", INT),
            ("unanswered", INT),
            ("answered", INT),
            ("established", INT),
            ("closing", INT),
        ],
    );
    type Key = u16;
    type Value = ZoneLimits;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, u16, ZoneLimits), RowError> {
        let [
            Value::String(host),
            Value::Int(zone),
            Value::Int(connections),
            Value::Int(unanswered),
            Value::Int(answered),
            Value::Int(established),
            Value::Int(closing),
        ] = &row[..]
        else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let seconds = |what: &str, seconds: &i64, first: u32| {
            let fault = || {
                let last = u32::MAX;
                let range = format!("which is out of range; it is from {first} to {last}");
                RowError::range(&Self::TABLE, host, format!("zone {zone} has {what} {seconds}, {range}"))
            };
            u32::try_from(*seconds).ok().filter(|seconds| *seconds >= first).ok_or_else(fault)
        };
        let limits = ZoneLimits {
            connections: Some(seconds("connections", connections, 0)?).filter(|most| *most > 0),
            unanswered: seconds("unanswered", unanswered, 1)?,
            answered: seconds("answered", answered, 1)?,
            established: seconds("established", established, 1)?,
            closing: seconds("closing", closing, 1)?,
        };
        let zone = number(&Self::TABLE, host, "zone", *zone, (1, u16::MAX.into()))?;
        Ok((host, zone as u16, limits))
    }
}

impl Lasting for ZonesLimits {
    fn row(host: &str, zone: &u16, limits: &ZoneLimits) -> Result<Row, DecodeError> {
        let ZoneLimits { connections, unanswered, answered, established, closing } = *limits;
        let numbers = [connections.unwrap_or(0), unanswered, answered, established, closing];
        Ok([text(host), int(*zone)].into_iter().chain(numbers.map(int)).collect())
    }
}

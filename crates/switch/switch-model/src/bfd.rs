//! BFD sessions (RFC 5880) of tunnel ports.

use std::collections::BTreeMap;

use nlog_data::{Row, Value};
use openflow_rs::DecodeError;

use crate::kind::{Kind, Lasting, Reader, RowError, int, text};
use crate::table::{INT, STRING, SwitchTable};

/// How the switch exchanges BFD messages with the other end of a tunnel port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BfdSession {
    /// The milliseconds between two messages, in both directions. Without one for three times as long, the port is not live.
    pub interval: u16,
}

impl BfdSession {
    /// The contents of column `bfd` of `Interface`.
    pub fn settings(self) -> BTreeMap<String, String> {
        let interval = self.interval.to_string();
        let settings = [("enable", "true".to_owned()), ("min_rx", interval.clone()), ("min_tx", interval)];
        settings.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

/// The BFD sessions of a switch, by the name of the tunnel port.
#[derive(Debug)]
pub enum BfdSessions {}

impl Kind for BfdSessions {
    const TABLE: SwitchTable =
        SwitchTable::output("bfd_session", &[("hv", STRING), ("tunnel", STRING), ("interval", INT)]);
    type Key = String;
    type Value = BfdSession;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, String, BfdSession), RowError> {
        let [Value::String(host), Value::String(tunnel), Value::Int(interval)] = &row[..] else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let fault = || {
            let last = u16::MAX;
            let why =
                format!("{tunnel} has interval {interval}, which is out of range; it is from 1 to {last}");
            RowError::range(&Self::TABLE, host, why)
        };
        let interval = u16::try_from(*interval).ok().filter(|interval| *interval > 0).ok_or_else(fault)?;
        Ok((host, tunnel.to_string(), BfdSession { interval }))
    }
}

impl Lasting for BfdSessions {
    fn row(host: &str, tunnel: &String, session: &BfdSession) -> Result<Row, DecodeError> {
        Ok(vec![text(host), text(tunnel), int(session.interval)])
    }
}

//! Where ports live, and what is between them: what the rules say in `lacks` and `apart`.

use std::net::IpAddr;

use nlog_data::{Row, Value};

use super::Case;
use super::objects::{lack, sentence};
use crate::Network;
use crate::packet::string;

/// The table that says what keeps packets from one port from another.
const APART: &str = "apart";

impl Case<'_> {
    /// What keeps sender and receiver apart, whatever the packet is.
    pub(super) fn places(&self) -> Vec<String> {
        let network = self.network;
        let from = &self.sent.from;
        let lacked = network.lacked_by(from);
        if !lacked.is_empty() {
            return lacked;
        }
        let to = self.sent.to.clone().or_else(|| network.port_with(self.sent.sought?));
        let Some(to) = to else { return self.sent.sought.map(nobody_has).into_iter().collect() };
        let lacked = network.lacked_by(&to);
        if lacked.is_empty() { network.apart(from, &to) } else { lacked }
    }
}

/// The finding about an address that no port has.
fn nobody_has(ip: IpAddr) -> String {
    format!(
        "no object has address {ip}: neither the addresses of a switch_port nor the networks of a router_port list it"
    )
}

/// A tenant in a sentence.
pub(super) fn tenant(name: Option<&str>) -> String {
    name.map_or("no tenant".to_owned(), |name| format!("tenant {name}"))
}

impl Network {
    /// What a port lacks to live on a host.
    fn lacked_by(&self, port: &str) -> Vec<String> {
        let rows = self.rows_with(self.tables.lacks, 1, port.into()).into_iter();
        rows.filter(|row| self.is_port_kind(string(row.first()).unwrap_or_default()))
            .filter_map(lack)
            .collect()
    }

    /// What keeps packets from one port from another: the reasons that come first.
    fn apart(&self, from: &str, to: &str) -> Vec<String> {
        let reasons = self.reasons(from, to);
        let first = reasons.first().map(|(rank, ..)| *rank);
        reasons.into_iter().filter(|(rank, ..)| Some(*rank) == first).map(|(.., text)| text).collect()
    }

    /// What keeps packets of a port from the gateways of a router's port, each of which may have reasons of its own.
    pub(super) fn all_apart(&self, from: &str, to: &str) -> Vec<String> {
        self.reasons(from, to).into_iter().map(|(.., text)| text).collect()
    }

    /// What keeps packets from one port from another, in order.
    fn reasons(&self, from: &str, to: &str) -> Vec<(i64, i64, String)> {
        let columns = [Some(from.into()), Some(to.into()), None, None, None, None];
        let schema = &self.program().schema;
        let table = schema.find(APART).filter(|table| schema.table(*table).columns.len() == columns.len());
        let Some(table) = table else { return Vec::new() };
        let rows = self.state.matching(table, &columns);
        let mut reasons: Vec<(i64, i64, String)> = rows.into_iter().filter_map(reason).collect();
        reasons.sort();
        reasons
    }
}

/// The rank, the line and the sentence of a row of [`APART`].
fn reason(row: &Row) -> Option<(i64, i64, String)> {
    match &row[..] {
        [_, _, Value::Int(rank), Value::Int(line), Value::List(text), Value::List(names)] => {
            Some((*rank, *line, sentence(text, names)))
        }
        _ => None,
    }
}

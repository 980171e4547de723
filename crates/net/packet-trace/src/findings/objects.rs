//! Objects and rows by the names of their columns.

use std::net::IpAddr;

use nlog_data::{Row, Value};

use crate::Network;
use crate::packet::string;

/// A row of a table, an object among them.
pub(super) struct Named<'a> {
    network: &'a Network,
    table: &'static str,
    row: &'a Row,
}

impl Named<'_> {
    pub(super) fn get(&self, column: &str) -> Option<&Value> {
        self.network.column(self.table, self.row, column)
    }

    pub(super) fn text(&self, column: &str) -> Option<&str> {
        string(self.get(column))
    }

    pub(super) fn list(&self, column: &str) -> &[Value] {
        match self.get(column) {
            Some(Value::List(values) | Value::Set(values)) => values,
            _ => &[],
        }
    }

    pub(super) fn is(&self, column: &str, value: bool) -> bool {
        self.get(column) == Some(&Value::Bool(value))
    }

    /// The id of an object.
    pub(super) fn id(&self) -> &str {
        string(self.row.first()).unwrap_or_default()
    }

    /// The values of a column that is a list, for people.
    pub(super) fn words(&self, column: &str) -> String {
        words(self.list(column))
    }
}

impl Network {
    /// All rows of a table; none if the program has no such table.
    pub(super) fn all(&self, table: &'static str) -> Vec<Named<'_>> {
        self.named(table).iter().map(|row| Named { network: self, table, row }).collect()
    }

    /// The rows with this text in this column.
    pub(super) fn with(&self, table: &'static str, column: &str, text: &str) -> Vec<Named<'_>> {
        let rows = self.named_with(table, column, text.into()).into_iter();
        rows.map(|row| Named { network: self, table, row }).collect()
    }

    /// The object of this kind with this id.
    pub(super) fn object(&self, kind: &'static str, id: &str) -> Option<Named<'_>> {
        let row = self.rows_with(self.program().schema.find(kind), 0, id.into()).into_iter().next()?;
        Some(Named { network: self, table: kind, row })
    }

    /// The tenant of a switch, for people.
    pub(super) fn tenant(&self, switch: &str) -> Option<String> {
        self.object("switch", switch)?.text("tenant").map(str::to_owned)
    }

    /// The port, of any switch, that has an address.
    pub(super) fn port_with(&self, ip: IpAddr) -> Option<String> {
        self.ports_at(ip).into_iter().map(|(port, _)| port).next()
    }

    /// The addresses of a port, for people.
    pub(super) fn own_addresses(&self, port: &str) -> String {
        let own = self.addresses_of(port);
        let of = |mac: &openflow_rs::MacAddr| {
            let ips: Vec<String> =
                own.iter().filter(|(_, at)| at == mac).map(|(ip, _)| ip.to_string()).collect();
            if ips.is_empty() { mac.to_string() } else { format!("{mac} with {}", ips.join(", ")) }
        };
        let all: Vec<String> = self.macs(port).iter().map(of).collect();
        if all.is_empty() { "none".to_owned() } else { all.join("; ") }
    }
}

/// The sentence of a row of `lacks`.
pub(crate) fn lack(row: &Row) -> Option<String> {
    let [_, _, Value::List(text), Value::List(names)] = &row[..] else { return None };
    Some(sentence(text, names))
}

/// A sentence of parts, which ends with a list if that has any values.
pub(super) fn sentence(text: &[Value], names: &[Value]) -> String {
    let parts: String = text.iter().filter_map(|part| string(Some(part))).collect();
    if names.is_empty() { parts } else { parts + &words(names) }
}

/// A value for people: without quotes and types.
pub(crate) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Ip(ip) => ip.to_string(),
        Value::Net(net) => net.to_string(),
        Value::Mac(mac) => mac.to_string(),
        Value::InterfaceAddress(address) => address.to_string(),
        Value::PacketFilter(filter) => filter.text().to_string(),
        Value::List(values) | Value::Set(values) => words(values),
        Value::Record(values) => {
            let given = values.iter().filter(|value| **value != Value::None);
            given.map(word).collect::<Vec<_>>().join(": ")
        }
        other => other.to_string(),
    }
}

/// Values for people.
pub(super) fn words(values: &[Value]) -> String {
    format!("[{}]", values.iter().map(word).collect::<Vec<_>>().join(", "))
}

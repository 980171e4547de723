//! The addresses that hosts have learned on the ports of a switch.

use std::fmt::Write as _;

use controller::client::LearnedAddresses;
use controller::pb::LearnedAddresses as Row;
use weft_core::shown;

/// What stands in place of a port for addresses that were heard without one.
const NO_PORT: &str = "(no port)";

/// A table with a line for each host and port, and below each the addresses, if there are any. Then the hosts of which
/// nothing is known.
pub(crate) fn to_text(found: &LearnedAddresses) -> String {
    let mut text = String::new();
    let cells = |row: &Row| [row.node.clone(), port(row), row.count.to_string(), row.limit.to_string()];
    let head = ["HOST", "PORT", "ADDRESSES", "LIMIT"].map(str::to_owned);
    let table: Vec<[String; 4]> = std::iter::once(head).chain(found.learned.iter().map(cells)).collect();
    let width = |column: usize| table.iter().map(|cells| cells[column].len()).max().unwrap_or_default();
    let [host, port, count, limit] = [0, 1, 2, 3].map(width);
    if found.learned.is_empty() {
        let _ = writeln!(text, "{}", none(found));
    } else {
        let rows = std::iter::once(None).chain(found.learned.iter().map(Some));
        for (cells, row) in table.iter().zip(rows) {
            let mark = if row.is_some_and(|row| row.reached) { "  limit reached" } else { "" };
            let [a, b, c, d] = cells;
            let _ = writeln!(text, "{a:host$}  {b:port$}  {c:>count$}  {d:>limit$}{mark}");
            for address in row.iter().flat_map(|row| &row.addresses) {
                let _ = writeln!(text, "    {address}");
            }
        }
    }
    for unread in &found.unread {
        let _ = writeln!(text, "{}: not known: {}", unread.node, shown(&unread.error));
    }
    text
}

/// Why there are no addresses, as far as it is known.
fn none(found: &LearnedAddresses) -> String {
    let LearnedAddresses { datapath, ports, hosts, unread, .. } = found;
    let answered = hosts.saturating_sub(unread.len() as u64);
    let name = format!("{} {}", datapath.kind, datapath.id);
    match (ports, hosts) {
        (0, _) => {
            format!("{name} learns no addresses: no port of it is a localnet port or has unknown_addresses")
        }
        (_, 0) => format!("no host has a port of {name}"),
        _ => format!("no addresses of {name} are learned on the {answered} of {hosts} hosts that answer"),
    }
}

/// A JSON object for each host and port, and for each host of which nothing is known.
pub(crate) fn to_json(found: &LearnedAddresses, with_addresses: bool) -> String {
    let mut text = String::new();
    for row in &found.learned {
        let mut object = serde_json::json!({
            "host": row.node,
            "port": Some(&row.port).filter(|port| !port.is_empty()),
            "count": row.count,
            "limit": row.limit,
            "reached": row.reached,
        });
        if with_addresses {
            object["addresses"] = serde_json::json!(row.addresses);
        }
        let _ = writeln!(text, "{object}");
    }
    for unread in &found.unread {
        let _ = writeln!(text, "{}", serde_json::json!({"host": unread.node, "error": unread.error}));
    }
    text
}

fn port(row: &Row) -> String {
    let port = if row.port.is_empty() { NO_PORT } else { &row.port };
    port.to_owned()
}

#[cfg(test)]
mod tests {
    use controller::pb::{ObjectRef, UnreadSwitch};

    use super::*;

    fn found() -> LearnedAddresses {
        let row = |node: &str, port: &str, count, limit, addresses: &[&str]| Row {
            node: node.to_owned(),
            port: port.to_owned(),
            count,
            limit,
            reached: count >= limit,
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        };
        LearnedAddresses {
            datapath: ObjectRef { kind: "switch".to_owned(), id: "blue".to_owned() },
            ports: 2,
            hosts: 3,
            learned: vec![
                row("hv1", "", 3, 4096, &[]),
                row("hv1", "any-1", 5, 5, &["02:00:00:00:00:01", "02:00:00:00:00:02"]),
                row("hv10", "any-10", 12, 4096, &[]),
            ],
            unread: vec![UnreadSwitch { node: "hv3".into(), error: "the switch is not connected".into() }],
        }
    }

    #[test]
    fn each_host_and_port_is_a_line_and_a_reached_limit_is_marked() {
        let expected = "\
HOST  PORT       ADDRESSES  LIMIT
hv1   (no port)          3   4096
hv1   any-1              5      5  limit reached
    02:00:00:00:00:01
    02:00:00:00:00:02
hv10  any-10            12   4096
hv3: not known: the switch is not connected
";
        assert_eq!(to_text(&found()), expected);
    }

    #[test]
    fn without_addresses_the_text_says_why() {
        let empty = LearnedAddresses { learned: Vec::new(), ..found() };
        assert_eq!(
            to_text(&empty),
            "no addresses of switch blue are learned on the 2 of 3 hosts that answer\n\
             hv3: not known: the switch is not connected\n"
        );
        let nowhere = LearnedAddresses { hosts: 0, unread: Vec::new(), ..empty };
        assert_eq!(to_text(&nowhere), "no host has a port of switch blue\n");
        let without = LearnedAddresses { ports: 0, ..nowhere };
        let text = to_text(&without);
        assert!(text.starts_with("switch blue learns no addresses"), "{text}");
    }

    #[test]
    fn each_line_is_an_object() {
        let lines = |with_addresses| -> Vec<serde_json::Value> {
            let text = to_json(&found(), with_addresses);
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        assert_eq!(
            lines(false),
            [
                serde_json::json!({"host": "hv1", "port": null, "count": 3, "limit": 4096, "reached": false}),
                serde_json::json!({"host": "hv1", "port": "any-1", "count": 5, "limit": 5, "reached": true}),
                serde_json::json!({"host": "hv10", "port": "any-10", "count": 12, "limit": 4096, "reached": false}),
                serde_json::json!({"host": "hv3", "error": "the switch is not connected"}),
            ]
        );
        assert_eq!(
            lines(true)[1]["addresses"],
            serde_json::json!(["02:00:00:00:00:01", "02:00:00:00:00:02"])
        );
    }
}

//! What hosts have dropped of ports with a limit, of floods or of new connections.

use std::fmt::Write as _;

use controller::client::FloodDrops;
use controller::pb::FloodDrops as Row;
use weft_core::shown;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drops {
    Floods,
    Connections,
}

impl Drops {
    /// What passes the meter.
    fn counted(self) -> &'static str {
        match self {
            Drops::Floods => "frames",
            Drops::Connections => "connections",
        }
    }

    /// What a port has that is limited.
    fn limited(self) -> &'static str {
        match self {
            Drops::Floods => "with a flood_limit",
            Drops::Connections => "with ACLs that allow connections",
        }
    }
}

/// A table with a line for each port and host, then the hosts of which nothing is known. `port` is the one that was asked
/// for.
pub(crate) fn to_text(found: &FloodDrops, of: Drops, port: Option<&str>) -> String {
    let mut text = String::new();
    let cells = |row: &Row| {
        [
            row.port.clone(),
            row.node.clone(),
            row.limit.to_string(),
            row.frames.to_string(),
            row.dropped.to_string(),
        ]
    };
    let counted = of.counted().to_uppercase();
    let head = ["PORT", "HOST", "LIMIT", &counted, "DROPPED"].map(str::to_owned);
    let table: Vec<[String; 5]> = std::iter::once(head).chain(found.drops.iter().map(cells)).collect();
    let width = |column: usize| table.iter().map(|cells| cells[column].len()).max().unwrap_or_default();
    let [port_width, host, limit, frames, dropped] = [0, 1, 2, 3, 4].map(width);
    if found.hosts == 0 {
        let _ = match port {
            Some(port) => writeln!(text, "no host has a port {port} {}", of.limited()),
            None => writeln!(text, "no host has a port {}", of.limited()),
        };
    } else if !found.drops.is_empty() {
        for [a, b, c, d, e] in &table {
            let _ = writeln!(text, "{a:port_width$}  {b:host$}  {c:>limit$}  {d:>frames$}  {e:>dropped$}");
        }
    }
    for unread in &found.unread {
        let _ = writeln!(text, "{}: not known: {}", unread.node, shown(&unread.error));
    }
    text
}

/// A JSON object for each port and host, and for each host of which nothing is known.
pub(crate) fn to_json(found: &FloodDrops, of: Drops) -> String {
    let mut text = String::new();
    for row in &found.drops {
        let object = serde_json::json!({
            "port": row.port,
            "host": row.node,
            "limit": row.limit,
            of.counted(): row.frames,
            "dropped": row.dropped,
        });
        let _ = writeln!(text, "{object}");
    }
    for unread in &found.unread {
        let _ = writeln!(text, "{}", serde_json::json!({"host": unread.node, "error": unread.error}));
    }
    text
}

#[cfg(test)]
mod tests {
    use controller::pb::UnreadSwitch;

    use super::*;

    fn found() -> FloodDrops {
        let row = |port: &str, node: &str, limit, frames, dropped| Row {
            port: port.to_owned(),
            node: node.to_owned(),
            limit,
            frames,
            dropped,
        };
        FloodDrops {
            drops: vec![row("blue-1", "hv1", 100, 1000, 890), row("wire", "hv10", 5, 0, 0)],
            hosts: 3,
            unread: vec![UnreadSwitch { node: "hv3".into(), error: "the switch is not connected".into() }],
        }
    }

    #[test]
    fn each_port_on_a_host_is_a_line() {
        let expected = "\
PORT    HOST  LIMIT  FRAMES  DROPPED
blue-1  hv1     100    1000      890
wire    hv10      5       0        0
hv3: not known: the switch is not connected
";
        assert_eq!(to_text(&found(), Drops::Floods, None), expected);
        let nowhere = FloodDrops::default();
        assert_eq!(to_text(&nowhere, Drops::Floods, None), "no host has a port with a flood_limit\n");
        assert_eq!(to_text(&nowhere, Drops::Floods, Some("b")), "no host has a port b with a flood_limit\n");
        assert_eq!(
            to_text(&nowhere, Drops::Connections, Some("b")),
            "no host has a port b with ACLs that allow connections\n"
        );
        let connections = to_text(&found(), Drops::Connections, None);
        assert!(connections.starts_with("PORT    HOST  LIMIT  CONNECTIONS  DROPPED\n"), "{connections}");
    }

    #[test]
    fn each_line_is_an_object() {
        let lines: Vec<serde_json::Value> = to_json(&found(), Drops::Floods)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(
            lines[0],
            serde_json::json!({"port": "blue-1", "host": "hv1", "limit": 100, "frames": 1000, "dropped": 890})
        );
        assert_eq!(lines[2], serde_json::json!({"host": "hv3", "error": "the switch is not connected"}));
    }
}

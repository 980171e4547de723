//! The routes of a router as they take effect.

use std::fmt::Write as _;

use controller::pb::Route;
use weft_core::shown;

/// What stands for what does not apply.
const NOTHING: &str = "-";

const HEAD: [&str; 6] = ["DESTINATION", "KIND", "BY", "NEXT HOP", "PORT", "MAC"];

/// A table with a line for each route and next hop. Where no packet takes it, the line says why.
pub(crate) fn to_text(routes: &[Route]) -> String {
    if routes.is_empty() {
        return "the router has no routes: it has no ports, and no object of kind route names it\n"
            .to_owned();
    }
    let table: Vec<[&str; 6]> = std::iter::once(HEAD).chain(routes.iter().map(cells)).collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|at| table.iter().map(|cells| cells[at].len()).max().unwrap_or_default())
        .collect();
    let whys = std::iter::once("").chain(routes.iter().map(|route| route.why.as_str()));
    let mut text = String::new();
    for (cells, why) in table.iter().zip(whys) {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        if !why.is_empty() {
            let _ = write!(line, "no packets: {}", shown(why));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn cells(route: &Route) -> [&str; 6] {
    let Route { destination, kind, by, next_hop, port, mac, why: _ } = route;
    [destination, kind, by, next_hop, port, mac].map(|text| if text.is_empty() { NOTHING } else { text })
}

/// A JSON object for each route and next hop.
pub(crate) fn to_json(routes: &[Route]) -> String {
    let mut text = String::new();
    let applies = |text: &str| if text.is_empty() { serde_json::Value::Null } else { text.into() };
    for Route { destination, kind, by, next_hop, port, mac, why } in routes {
        let object = serde_json::json!({
            "destination": destination,
            "kind": kind,
            "by": by,
            "next_hop": applies(next_hop),
            "port": applies(port),
            "mac": applies(mac),
            "why": applies(why),
        });
        let _ = writeln!(text, "{object}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Vec<Route> {
        let route = |columns: [&str; 7]| {
            let [destination, kind, by, next_hop, port, mac, why] = columns.map(ToOwned::to_owned);
            Route { destination, kind, by, next_hop, port, mac, why }
        };
        vec![
            route(["10.0.1.0/24", "connected", "r-blue", "", "r-blue", "", ""]),
            route(["10.0.0.0/8", "static", "core", "10.0.1.9", "r-blue", "02:00:00:00:00:09", ""]),
            route(["10.0.0.0/8", "static", "core", "10.9.9.9", "", "", "too far"]),
            route(["0.0.0.0/0", "discard", "sink", "", "", "", ""]),
        ]
    }

    #[test]
    fn each_route_is_a_line_with_where_packets_leave_or_why_they_do_not() {
        let expected = "\
DESTINATION  KIND       BY      NEXT HOP  PORT    MAC
10.0.1.0/24  connected  r-blue  -         r-blue  -
10.0.0.0/8   static     core    10.0.1.9  r-blue  02:00:00:00:00:09
10.0.0.0/8   static     core    10.9.9.9  -       -                  no packets: too far
0.0.0.0/0    discard    sink    -         -       -
";
        assert_eq!(to_text(&found()), expected);
        let none = to_text(&[]);
        assert!(none.starts_with("the router has no routes"), "{none}");
    }

    #[test]
    fn each_line_is_an_object() {
        let lines: Vec<serde_json::Value> =
            to_json(&found()).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(
            lines[1],
            serde_json::json!({
                "destination": "10.0.0.0/8", "kind": "static", "by": "core", "next_hop": "10.0.1.9", "port": "r-blue",
                "mac": "02:00:00:00:00:09", "why": null,
            })
        );
        assert_eq!((&lines[2]["port"], &lines[2]["why"]), (&serde_json::Value::Null, &"too far".into()));
    }
}

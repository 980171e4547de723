//! What probes have measured of the tunnels between hosts.

use std::fmt::Write as _;

use weft_client::pb::MeasuredTunnel;
use weft_core::shown;

const HEAD: [&str; 5] = ["FROM", "TO", "ENCAP", "ADDRESS", "MEASURED"];

/// A table with a line for each tunnel and direction.
pub(crate) fn to_text(tunnels: &[MeasuredTunnel]) -> String {
    if tunnels.is_empty() {
        return "no tunnel is measured: no two managed hosts exchange packets through tunnels, or `probes` of their transport_zone has \
                `interval: 0`\n"
            .to_owned();
    }
    let head = HEAD.map(str::to_owned);
    let table: Vec<[String; 5]> = std::iter::once(head).chain(tunnels.iter().map(cells)).collect();
    let width = |column: usize| table.iter().map(|cells| cells[column].len()).max().unwrap_or_default();
    let [from, to, encap, address] = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for [a, b, c, d, measured] in &table {
        let _ = writeln!(text, "{a:from$}  {b:to$}  {c:encap$}  {d:address$}  {measured}");
    }
    text
}

fn cells(tunnel: &MeasuredTunnel) -> [String; 5] {
    let MeasuredTunnel { from, to, encap, ip, text, .. } = tunnel;
    [from, to, encap, ip, text].map(|text| shown(text).into_owned())
}

/// A JSON object for each tunnel and direction.
pub(crate) fn to_json(tunnels: &[MeasuredTunnel]) -> String {
    let mut text = String::new();
    for tunnel in tunnels {
        let last = Some(&tunnel.last_arrival).filter(|last| !last.is_empty());
        let object = serde_json::json!({
            "from": tunnel.from, "to": tunnel.to, "encap": tunnel.encap, "ip": tunnel.ip, "bytes": tunnel.bytes, "mtu": tunnel.mtu,
            "sent": tunnel.sent, "arrived": tunnel.arrived, "last_arrival": last, "state": tunnel.state, "text": tunnel.text,
        });
        let _ = writeln!(text, "{object}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Vec<MeasuredTunnel> {
        let tunnel = |to: &str, ip: &str, last: &str, state: &str, text: &str| MeasuredTunnel {
            from: "hv1".to_owned(),
            to: to.to_owned(),
            encap: "geneve".to_owned(),
            ip: ip.to_owned(),
            bytes: 1442,
            mtu: 1500,
            sent: 3,
            arrived: 2,
            last_arrival: last.to_owned(),
            state: state.to_owned(),
            text: text.to_owned(),
        };
        vec![
            tunnel("hv2", "172.31.0.2", "2026-01-02T03:04:05Z", "arrives", "packets of 1,442 bytes arrive"),
            tunnel("hv10", "172.31.0.10", "", "unreachable", "no probe arrives"),
        ]
    }

    #[test]
    fn each_direction_of_a_tunnel_is_a_line() {
        let expected = "\
FROM  TO    ENCAP   ADDRESS      MEASURED
hv1   hv2   geneve  172.31.0.2   packets of 1,442 bytes arrive
hv1   hv10  geneve  172.31.0.10  no probe arrives
";
        assert_eq!(to_text(&found()), expected);
        assert!(to_text(&[]).starts_with("no tunnel is measured"), "{}", to_text(&[]));
    }

    #[test]
    fn each_line_is_an_object() {
        let lines: Vec<serde_json::Value> =
            to_json(&found()).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines[0]["last_arrival"], "2026-01-02T03:04:05Z");
        let expected = serde_json::json!({
            "from": "hv1", "to": "hv10", "encap": "geneve", "ip": "172.31.0.10", "bytes": 1442, "mtu": 1500, "sent": 3, "arrived": 2,
            "last_arrival": null, "state": "unreachable", "text": "no probe arrives",
        });
        assert_eq!(lines[1], expected);
    }
}

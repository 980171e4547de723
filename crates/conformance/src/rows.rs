//! A world as rows of the rules' input tables, as the controller would write them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use nlog_data::{Row, Value};
use openflow_rs::MacAddr;

use crate::world::{AUDIENCES, Form, World, audience};

/// Rows by table.
pub type Rows = BTreeMap<&'static str, BTreeSet<Row>>;

/// Tunnel and patch ports that switches report, by host and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Tunnel ports and their numbers.
    pub tunnels: BTreeMap<(String, String), u16>,
    /// Patch ports and their numbers.
    pub patches: BTreeMap<(String, String), u16>,
}

/// All rows of a world and of the reports of its switches. Only these hosts are managed.
pub fn rows(world: &World, reports: &Reports, managed: &dyn Fn(&str) -> bool) -> Rows {
    let mut rows = Rows::new();
    objects(world, &mut rows);
    labels(world, &mut rows);
    for host in world.nodes.keys().filter(|host| managed(host)) {
        add(&mut rows, "managed", vec![text(host)]);
    }
    for ((host, port), vif) in &world.vifs {
        let row = vec![text(host), text(port), int(vif.ofport), text(""), Value::Int(vif.since as i64)];
        add(&mut rows, "vif", row);
    }
    for (table, ports) in [("tunnel_port", &reports.tunnels), ("patch_port", &reports.patches)] {
        for ((host, name), ofport) in ports {
            add(&mut rows, table, vec![text(host), text(name), int(*ofport)]);
        }
    }
    rows
}

fn objects(world: &World, rows: &mut Rows) {
    for (name, zone) in &world.zones {
        let form = if zone.form == Form::Flow { "flow" } else { "port" };
        add(rows, "transport_zone", vec![text(name), text(form), int(zone.mtu)]);
    }
    for (name, node) in &world.nodes {
        let node_ip = Value::Ip(IpAddr::V4(node.ip));
        add(rows, "transport_node", vec![text(name), text("hypervisor"), node_ip]);
        add(rows, "transport_node_zone", vec![text(name), text(&node.zone)]);
        for (rank, encap) in node.encaps.iter().enumerate() {
            let row = vec![text(name), Value::Int(rank as i64), text(encap.name())];
            add(rows, "transport_node_encap", row);
        }
        for (network, bridge) in &node.mappings {
            add(rows, "bridge_mapping", vec![text(name), text(network), text(bridge)]);
        }
    }
    for (name, tenant) in &world.switches {
        add(rows, "logical_switch", vec![text(name), text(tenant)]);
    }
    for (name, port) in &world.ports {
        add(rows, "logical_switch_port", vec![text(name), text(&port.switch)]);
        if let Some((parent, tag)) = &port.parent {
            add(rows, "port_parent", vec![text(name), text(parent), int(*tag)]);
        }
        if port.security {
            add(rows, "port_security", vec![text(name)]);
        }
        if port.unknown {
            add(rows, "unknown_addresses", vec![text(name)]);
        }
        for (mac, ips) in &port.addresses {
            let mac = Value::Mac(MacAddr(*mac));
            add(rows, "port_mac", vec![text(name), mac.clone()]);
            for ip in ips {
                add(rows, "port_ip", vec![text(name), Value::Ip(*ip), mac.clone()]);
            }
        }
    }
    for (name, localnet) in &world.localnets {
        let row = vec![text(name), text(&localnet.switch), text(&localnet.network), int(localnet.tag)];
        add(rows, "localnet_port", row);
    }
}

/// Tables whose rows the world gives instead of the rules' hooks, so that numbers are spread over their 24 bits and do not
/// depend on the history.
pub(crate) const LABELS: [&str; 3] = ["datapath_label", "node_label", "tunnel_label"];

fn labels(world: &World, rows: &mut Rows) {
    let label = |label: u32| Value::Int(label.into());
    for switch in world.switches.keys() {
        add(rows, "datapath_label", vec![text(switch), label(world.labels.datapath(switch))]);
        for who in AUDIENCES {
            for relay in [false, true] {
                let label = label(world.labels.port(&audience(switch, who, relay)));
                let label_use = format!("replication_{who}{}", if relay { "_relay" } else { "" });
                add(rows, "tunnel_label", vec![text(&label_use), text(switch), label]);
            }
        }
    }
    for port in world.ports.keys().chain(world.localnets.keys()) {
        add(rows, "tunnel_label", vec![text("port"), text(port), label(world.labels.port(port))]);
    }
    for node in world.nodes.keys() {
        add(rows, "node_label", vec![text(node), label(world.labels.node(node))]);
    }
}

fn add(rows: &mut Rows, table: &'static str, row: Row) {
    rows.entry(table).or_default().insert(row);
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn int(number: u16) -> Value {
    Value::Int(number.into())
}

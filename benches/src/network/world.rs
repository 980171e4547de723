//! A network as JSON texts of objects, with the reports of switches.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Result, anyhow};
use network::{Batch, Cancel, ObjectKey, ObjectStore};
use nlog_data::{Row, Schema, Transaction, Value};
use openflow_rs::MacAddr;
use serde_json::json;

use crate::figure6::workload::Network;

/// The name of the tunnel port of each host, which serves all peers.
pub(super) const TUNNEL: &str = "weft-geneve";

/// A change of objects, with the reports that come with it.
#[derive(Debug, Default, Clone)]
pub(super) struct Step {
    /// The JSON texts of objects that are created, a line each.
    documents: String,
    /// The objects that are created.
    created: Vec<ObjectKey>,
    /// Whether the objects are deleted instead.
    delete_objects: bool,
    insert: BTreeMap<&'static str, Vec<Row>>,
    delete: BTreeMap<&'static str, Vec<Row>>,
}

impl Step {
    fn insert(&mut self, table: &'static str, row: Row) {
        self.insert.entry(table).or_default().push(row);
    }

    fn delete(&mut self, table: &'static str, row: Row) {
        self.delete.entry(table).or_default().push(row);
    }

    fn object(&mut self, kind: &str, id: String, document: &serde_json::Value) {
        self.documents.push_str(&document.to_string());
        self.documents.push('\n');
        self.created.push(ObjectKey::new(kind, id));
    }

    /// The inverse of the step.
    pub(super) fn inverse(&self) -> Step {
        let Step { documents, created, delete_objects, insert, delete } = self.clone();
        Step { documents, created, delete_objects: !delete_objects, insert: delete, delete: insert }
    }

    /// Reads the objects, checks them, and commits them to the store. Returns the rows of the tables that the rules have.
    pub(super) fn transaction(&self, store: &mut ObjectStore, schema: &Schema) -> Result<Transaction> {
        let changes = if self.delete_objects {
            store.plan_delete(&self.created)
        } else {
            let mut batch = Batch::new(store.kinds(), Cancel::default());
            batch.add_json("bench", &self.documents);
            store.plan(batch)
        };
        let changes = changes.map_err(|faults| anyhow!("the objects have faults: {faults:?}"))?;
        let mut transaction = changes.rows().transaction(schema);
        store.commit(&changes);
        for (to, rows) in [(&mut transaction.insert, &self.insert), (&mut transaction.delete, &self.delete)] {
            let known = rows.iter().filter_map(|(name, rows)| Some((schema.find(name)?, rows)));
            known.for_each(|(table, rows)| to.entry(table).or_default().extend_from_slice(rows));
        }
        Ok(transaction)
    }
}

/// A network whose ports can be moved and to which ports can be added.
pub(super) struct World {
    hosts: usize,
    /// By host, the next OpenFlow port number.
    ofports: Vec<i64>,
    switches: usize,
    ports: Vec<Port>,
    /// The number of the next transaction.
    txn: i64,
}

/// A port and where it is.
#[derive(Debug, Clone, Copy)]
struct Port {
    number: usize,
    host: usize,
    ofport: i64,
    since: i64,
}

fn host_id(host: usize) -> String {
    format!("hv-{host}")
}

fn switch_id(switch: usize) -> String {
    format!("net-{switch}")
}

fn port_id(port: usize) -> String {
    format!("vif-{port}")
}

fn text(text: impl AsRef<str>) -> Value {
    Value::String(text.as_ref().into())
}

fn bytes(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

impl World {
    /// Makes the network, and the step that creates all of it.
    pub(super) fn new(network: &Network) -> (World, Step) {
        let mut world = World {
            hosts: network.hypervisors,
            // The first is the tunnel's.
            ofports: vec![2; network.hypervisors],
            switches: 0,
            ports: Vec::with_capacity(network.ports()),
            txn: 1,
        };
        let mut step = Step::default();
        for host in 0..world.hosts {
            World::host(host, &mut step);
        }
        for _ in 0..network.switches {
            world.switch(&mut step);
        }
        let mut in_switch = vec![0; network.switches];
        for (switch, host) in network.switch_of.iter().zip(&network.hypervisor_of) {
            in_switch[*switch] += 1;
            world.port(*switch, in_switch[*switch], *host, &mut step);
        }
        (world, step)
    }

    /// The number of hosts.
    pub(super) fn hosts(&self) -> usize {
        self.hosts
    }

    /// Adds ports on one switch, at these hosts.
    pub(super) fn add_ports(&mut self, switch: usize, hosts: impl IntoIterator<Item = usize>) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        for (host, number) in hosts.into_iter().zip(1000..) {
            self.port(switch, number, host, &mut step);
        }
        step
    }

    /// Adds a switch with a port at each of these hosts.
    pub(super) fn add_switch(&mut self, hosts: impl IntoIterator<Item = usize>) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        let switch = self.switches;
        self.switch(&mut step);
        for (host, number) in hosts.into_iter().zip(1..) {
            self.port(switch, number, host, &mut step);
        }
        step
    }

    /// Moves a port to another host, this many hosts further.
    pub(super) fn move_port(&mut self, port: usize, by: usize) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        let before = self.ports[port];
        let host = (before.host + by) % self.hosts;
        let after = Port { host, ofport: self.ofport(host), since: self.txn, ..before };
        step.delete("vif", vif(&before));
        step.insert("vif", vif(&after));
        self.ports[port] = after;
        step
    }

    fn ofport(&mut self, host: usize) -> i64 {
        self.ofports[host] += 1;
        self.ofports[host] - 1
    }

    fn host(host: usize, step: &mut Step) {
        let (id, [_, a, b, c]) = (host_id(host), bytes(host + 1));
        let ip = Ipv4Addr::new(172, 16 + a, b, c);
        step.object("transport_node", id.clone(), &json!({"kind": "transport_node", "id": id, "ip": ip}));
        step.insert("managed", vec![text(&id)]);
        step.insert("tunnel_port", vec![text(&id), text(TUNNEL), Value::Int(1)]);
    }

    fn switch(&mut self, step: &mut Step) {
        let id = switch_id(self.switches);
        self.switches += 1;
        step.object("switch", id.clone(), &json!({"kind": "switch", "id": id}));
    }

    /// A port that has a number in its switch.
    fn port(&mut self, switch: usize, in_switch: usize, host: usize, step: &mut Step) {
        let port = Port { number: self.ports.len(), host, ofport: self.ofport(host), since: self.txn };
        let [a, b, c, d] = bytes(port.number);
        let [_, x, y, z] = bytes(in_switch);
        let id = port_id(port.number);
        let document = json!({
            "kind": "switch_port",
            "id": id,
            "switch": switch_id(switch),
            "addresses": [{"mac": MacAddr([0x02, 0, a, b, c, d]).to_string(), "ips": [Ipv4Addr::new(10, x, y, z)]}],
            "port_security": true,
        });
        step.object("switch_port", id, &document);
        step.insert("vif", vif(&port));
        self.ports.push(port);
    }
}

fn vif(port: &Port) -> Row {
    let Port { number, host, ofport, since } = *port;
    vec![text(host_id(host)), text(port_id(number)), Value::Int(ofport), text(""), Value::Int(since)]
}

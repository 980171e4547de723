//! A network as objects, with the controller's labels and the reports of switches.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use nlog_data::{ObjectKind, Row, Schema, Transaction, Value};
use openflow_rs::MacAddr;

use crate::figure6::workload::Network;

/// The name of the tunnel port of each host, which serves all peers.
pub(super) const TUNNEL: &str = "weft-geneve";

/// A change of objects, with the labels and reports that come with it.
#[derive(Debug, Default, Clone)]
pub(super) struct Step {
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

    /// The inverse of the step.
    pub(super) fn inverse(&self) -> Step {
        let Step { insert, delete } = self.clone();
        Step { insert: delete, delete: insert }
    }

    /// The rows of the tables that the rules have.
    pub(super) fn transaction(&self, schema: &Schema) -> Transaction {
        let side = |side: &BTreeMap<&'static str, Vec<Row>>| {
            let known = side.iter().filter_map(|(name, rows)| Some((schema.find(name)?, rows.clone())));
            known.collect()
        };
        Transaction { insert: side(&self.insert), delete: side(&self.delete) }
    }
}

/// A network whose ports can be moved and to which ports can be added.
pub(super) struct World {
    /// The kinds of objects of the rules.
    kinds: Vec<ObjectKind>,
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
    /// Makes the network of objects of these kinds, and the step that creates all of it.
    pub(super) fn new(network: &Network, kinds: &[ObjectKind]) -> (World, Step) {
        let mut world = World {
            kinds: kinds.to_vec(),
            hosts: network.hypervisors,
            // The first is the tunnel's.
            ofports: vec![2; network.hypervisors],
            switches: 0,
            ports: Vec::with_capacity(network.ports()),
            txn: 1,
        };
        let mut step = Step::default();
        for host in 0..world.hosts {
            world.host(host, &mut step);
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

    /// Creates an object.
    fn object(&self, kind: &'static str, id: &str, fields: &[(&str, Value)], step: &mut Step) {
        let declared = self.kinds.iter().find(|declared| declared.name == kind);
        let row = declared.map(|declared| declared.row(id, fields.iter().cloned()));
        match row {
            Some(Ok(row)) => step.insert(kind, row),
            Some(Err(why)) => panic!("the rules declare other fields: {why}"),
            None => panic!("the rules declare no {kind}"),
        }
    }

    fn host(&self, host: usize, step: &mut Step) {
        let [_, a, b, c] = bytes(host + 1);
        let ip = Value::Ip(IpAddr::V4(Ipv4Addr::new(172, 16 + a, b, c)));
        self.object("transport_node", &host_id(host), &[("ip", ip)], step);
        step.insert("managed", vec![text(host_id(host))]);
        step.insert("tunnel_port", vec![text(host_id(host)), text(TUNNEL), Value::Int(1)]);
    }

    fn switch(&mut self, step: &mut Step) {
        let switch = switch_id(self.switches);
        self.switches += 1;
        self.object("switch", &switch, &[], step);
    }

    /// A port that has a number in its switch.
    fn port(&mut self, switch: usize, in_switch: usize, host: usize, step: &mut Step) {
        let port = Port { number: self.ports.len(), host, ofport: self.ofport(host), since: self.txn };
        let [a, b, c, d] = bytes(port.number);
        let mac = MacAddr([0x02, 0, a, b, c, d]);
        let [_, x, y, z] = bytes(in_switch);
        let ip = Value::Ip(IpAddr::V4(Ipv4Addr::new(10, x, y, z)));
        let address = Value::Record([Value::Mac(mac), Value::list([ip])].into());
        let fields = [
            ("switch", text(switch_id(switch))),
            ("addresses", Value::list([address])),
            ("port_security", Value::Bool(true)),
        ];
        self.object("switch_port", &port_id(port.number), &fields, step);
        step.insert("vif", vif(&port));
        self.ports.push(port);
    }
}

fn vif(port: &Port) -> Row {
    let Port { number, host, ofport, since } = *port;
    vec![text(host_id(host)), text(port_id(number)), Value::Int(ofport), text(""), Value::Int(since)]
}

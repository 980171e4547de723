//! A network as objects, with the controller's labels and the reports of switches.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use network::{
    Address, Change, ChangeSet, Encap, Labels, Object, Role, Rows, Switch, SwitchPort, TransportNode,
    TransportZone,
};
use nlog_data::{Row, Schema, Transaction, Value};
use openflow_rs::MacAddr;

use crate::figure6::workload::Network;

/// The name of the tunnel port of each host, which serves all peers.
pub(super) const TUNNEL: &str = "weft-geneve";

/// A change of objects with the labels and reports that come with it.
#[derive(Debug, Default)]
pub(super) struct Step {
    objects: ChangeSet,
    /// Rows of labels and reports.
    others: Rows,
}

impl Step {
    fn create(&mut self, object: Object) {
        let change = Change { key: object.key(), before: None, after: Some(Arc::new(object)) };
        self.objects.changes.push(change);
    }

    fn insert(&mut self, table: &'static str, row: Row) {
        self.others.insert.entry(table).or_default().push(row);
    }

    fn delete(&mut self, table: &'static str, row: Row) {
        self.others.delete.entry(table).or_default().push(row);
    }

    /// The inverse of the step.
    pub(super) fn inverse(&self) -> Step {
        let changes = self.objects.changes.iter().map(|change| Change {
            key: change.key.clone(),
            before: change.after.clone(),
            after: change.before.clone(),
        });
        let Rows { insert, delete } = self.others.clone();
        Step {
            objects: ChangeSet { changes: changes.collect() },
            others: Rows { insert: delete, delete: insert },
        }
    }

    /// The rows of the tables that the rules have.
    pub(super) fn transaction(&self, schema: &Schema) -> Transaction {
        let Rows { insert, delete } = self.objects.rows();
        let mut transaction = Transaction::default();
        for (side, rows, others) in [
            (&mut transaction.insert, insert, &self.others.insert),
            (&mut transaction.delete, delete, &self.others.delete),
        ] {
            let others = others.iter().map(|(name, rows)| (*name, rows.clone()));
            for (name, mut rows) in rows.into_iter().chain(others) {
                if let Some(table) = schema.find(name) {
                    side.entry(table).or_default().append(&mut rows);
                }
            }
        }
        transaction
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
        let (table, row) = TransportZone::default_zone().row();
        step.insert(table, row);
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
        let [_, a, b, c] = bytes(host + 1);
        step.create(Object::TransportNode(TransportNode {
            id: host_id(host),
            labels: Labels::new(),
            role: Role::Hypervisor,
            ip: IpAddr::V4(Ipv4Addr::new(172, 16 + a, b, c)),
            encaps: vec![Encap::Geneve],
            transport_zone: None,
            bridge_mappings: [].into(),
            ovsdb: None,
            openflow: None,
            datapath_type: None,
        }));
        step.insert("managed", vec![text(host_id(host))]);
        step.insert("tunnel_port", vec![text(host_id(host)), text(TUNNEL), Value::Int(1)]);
    }

    fn switch(&mut self, step: &mut Step) {
        let switch = switch_id(self.switches);
        self.switches += 1;
        step.create(Object::Switch(Switch { id: switch, labels: Labels::new(), tenant: None }));
    }

    /// A port that has a number in its switch.
    fn port(&mut self, switch: usize, in_switch: usize, host: usize, step: &mut Step) {
        let port = Port { number: self.ports.len(), host, ofport: self.ofport(host), since: self.txn };
        let [a, b, c, d] = bytes(port.number);
        let mac = MacAddr([0x02, 0, a, b, c, d]);
        let [_, x, y, z] = bytes(in_switch);
        step.create(Object::SwitchPort(SwitchPort {
            id: port_id(port.number),
            labels: Labels::new(),
            switch: switch_id(switch),
            addresses: vec![Address { mac, ips: vec![IpAddr::V4(Ipv4Addr::new(10, x, y, z))] }],
            port_security: true,
            unknown_addresses: false,
            trunk_member: None,
        }));
        step.insert("vif", vif(&port));
        self.ports.push(port);
    }
}

fn vif(port: &Port) -> Row {
    let Port { number, host, ofport, since } = *port;
    vec![text(host_id(host)), text(port_id(number)), Value::Int(ofport), text(""), Value::Int(since)]
}

//! A network as JSON texts of objects, with the reports of switches.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Result, anyhow};
use nlog_data::json::to_json;
use nlog_data::{Row, Schema, Transaction, Value};
use objects::{Batch, Cancel, ObjectKey, ObjectStore};
use openflow_rs::MacAddr;
use serde_json::json;

use super::Run;
use crate::figure6::workload::Network;

mod acls;

pub(crate) use acls::Acls;

/// The name of the tunnel port of each host, which serves all peers.
pub(super) const TUNNEL: &str = "weft-geneve";

/// Switches that a router connects: neighbours in the order of size.
const SWITCHES_OF_A_ROUTER: usize = 10;
/// Ports that are added to a switch are numbered from here: beyond those that it has, and within its /24.
const FIRST_ADDED: usize = 100;
/// The last byte of the address of a router on a switch, and that of another router.
const GATEWAY: u8 = 254;
const OTHER_GATEWAY: u8 = 253;

/// How routers reach the hosts of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reach {
    /// Each host has a flow for each switch behind its routers, and other hosts pass on what it sends there.
    Relay,
    /// Each host has a flow for each port behind its routers.
    Direct,
}

impl Reach {
    /// As in objects, and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reach::Relay => "relay",
            Reach::Direct => "direct",
        }
    }
}

/// A change of objects, with the reports that come with it.
#[derive(Debug, Default, Clone)]
pub(super) struct Step {
    /// The JSON texts of objects that are created, a line each.
    pub(super) documents: String,
    /// The objects that are created.
    created: Vec<ObjectKey>,
    /// Whether the objects are deleted instead.
    delete_objects: bool,
    pub(super) insert: BTreeMap<&'static str, Vec<Row>>,
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

    /// The objects that are created.
    pub(super) fn created(&self) -> &[ObjectKey] {
        &self.created
    }

    /// The inverse of the step.
    pub(super) fn inverse(&self) -> Step {
        let Step { documents, created, delete_objects, insert, delete } = self.clone();
        Step { documents, created, delete_objects: !delete_objects, insert: delete, delete: insert }
    }

    /// The reports that are new, as a transaction of `weft eval`.
    pub(super) fn reports(&self) -> serde_json::Value {
        let row = |row: &Row| -> serde_json::Value { row.iter().map(to_json).collect() };
        let rows = |rows: &Vec<Row>| -> serde_json::Value { rows.iter().map(row).collect() };
        let tables = self.insert.iter().map(|(table, of)| ((*table).to_owned(), rows(of)));
        json!({"insert": tables.collect::<serde_json::Map<_, _>>()})
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
    /// How routers reach hosts; none without routers.
    reach: Option<Reach>,
    /// What ACLs do; none without ACLs.
    acls: Option<Acls>,
    /// The ACLs that each host has at the start, of all hosts.
    acls_of_hosts: usize,
    routers: usize,
    /// The number of the next transaction.
    txn: i64,
}

/// A port and where it is.
#[derive(Debug, Clone, Copy)]
struct Port {
    number: usize,
    switch: usize,
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

fn router_id(router: usize) -> String {
    format!("router-{router}")
}

/// The MAC address of a router's port on a switch.
fn router_mac(switch: usize, last: u8) -> String {
    let [_, _, x, y] = bytes(switch);
    MacAddr([0x02, 1, 0, last, x, y]).to_string()
}

/// An address in the network of a switch, which has room for 253 ports.
fn in_network_of(switch: usize, last: u8) -> Ipv4Addr {
    let [_, _, x, y] = bytes(switch);
    Ipv4Addr::new(10, x, y, last)
}

fn text(text: impl AsRef<str>) -> Value {
    Value::String(text.as_ref().into())
}

fn bytes(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

impl World {
    /// Makes the network, and the step that creates all of it. If routers reach hosts, one connects every ten switches.
    pub(super) fn new(network: &Network, run: Run) -> (World, Step) {
        let reach = run.reach;
        let mut world = World {
            hosts: network.hypervisors,
            // The first is the tunnel's.
            ofports: vec![2; network.hypervisors],
            switches: 0,
            ports: Vec::with_capacity(network.ports()),
            reach,
            acls: run.acls,
            acls_of_hosts: 0,
            routers: 0,
            txn: 1,
        };
        let mut step = Step::default();
        for host in 0..world.hosts {
            World::host(host, &mut step);
        }
        for switch in 0..network.switches {
            world.switch(&mut step);
            if reach.is_some() && switch % SWITCHES_OF_A_ROUTER == 0 {
                world.router(world.routers, &mut step);
                world.routers += 1;
            }
            if reach.is_some() {
                World::router_port(switch / SWITCHES_OF_A_ROUTER, switch, GATEWAY, &mut step);
            }
        }
        let mut in_switch = vec![0; network.switches];
        for (switch, host) in network.switch_of.iter().zip(&network.hypervisor_of) {
            in_switch[*switch] += 1;
            world.port(*switch, in_switch[*switch], *host, &mut step);
        }
        if run.acls.is_some() {
            world.filter(network, run, &mut step);
        }
        (world, step)
    }

    /// The number of hosts.
    pub(super) fn hosts(&self) -> usize {
        self.hosts
    }

    /// The number of routers.
    pub(super) fn routers(&self) -> usize {
        self.routers
    }

    /// The number of the switch that is added next.
    pub(super) fn next_switch(&self) -> usize {
        self.switches
    }

    /// Adds ports on one switch, at these hosts.
    pub(super) fn add_ports(&mut self, switch: usize, hosts: impl IntoIterator<Item = usize>) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        for (host, number) in hosts.into_iter().zip(FIRST_ADDED..) {
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

    /// Adds a host, which has its tunnel port and no others. It is removed again before the next.
    pub(super) fn add_host(&mut self) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        World::host(self.hosts, &mut step);
        step
    }

    /// Connects a switch without a router to a router.
    pub(super) fn add_router_port(&mut self, router: usize, switch: usize) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        World::router_port(router, switch, GATEWAY, &mut step);
        step
    }

    /// Adds a router with one port, on a switch that has a router already. It is removed again before the next.
    pub(super) fn add_router(&mut self, switch: usize) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        let router = self.routers;
        self.router(router, &mut step);
        World::router_port(router, switch, OTHER_GATEWAY, &mut step);
        step
    }

    /// Adds a static route to the router of a switch, by the first port of the switch.
    pub(super) fn add_route(&mut self, switch: usize) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        let [_, _, x, y] = bytes(switch);
        let document = json!({
            "kind": "route",
            "id": "added",
            "router": router_id(switch / SWITCHES_OF_A_ROUTER),
            "destination": format!("{}/24", Ipv4Addr::new(11, x, y, 0)),
            "next_hops": [in_network_of(switch, 1)],
        });
        step.object("route", "added".to_owned(), &document);
        step
    }

    /// Adds a policy to the router of a switch: what the second port of the switch sends goes to the first.
    pub(super) fn add_policy(&mut self, switch: usize) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        let document = json!({
            "kind": "route_policy",
            "id": "added",
            "router": router_id(switch / SWITCHES_OF_A_ROUTER),
            "priority": 100,
            "match": {"ip_src": in_network_of(switch, 2)},
            "action": "reroute",
            "next_hops": [in_network_of(switch, 1)],
        });
        step.object("route_policy", "added".to_owned(), &document);
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
        let tenant = self.tenant(self.switches);
        self.switches += 1;
        step.object("switch", id.clone(), &json!({"kind": "switch", "id": id, "tenant": tenant}));
    }

    fn router(&self, router: usize, step: &mut Step) {
        let id = router_id(router);
        let (reach, tenant) = (self.reach.map(Reach::name), self.tenant(router * SWITCHES_OF_A_ROUTER));
        let document = json!({"kind": "router", "id": id, "reach": reach, "tenant": tenant});
        step.object("router", id, &document);
    }

    fn router_port(router: usize, switch: usize, last: u8, step: &mut Step) {
        let id = format!("gateway-{switch}-{last}");
        let document = json!({
            "kind": "router_port",
            "id": id,
            "router": router_id(router),
            "switch": switch_id(switch),
            "mac": router_mac(switch, last),
            "networks": [format!("{}/24", in_network_of(switch, last))],
        });
        step.object("router_port", id, &document);
    }

    /// A port that has a number in its switch.
    fn port(&mut self, switch: usize, in_switch: usize, host: usize, step: &mut Step) {
        let (number, ofport) = (self.ports.len(), self.ofport(host));
        let port = Port { number, switch, host, ofport, since: self.txn };
        let [a, b, c, d] = bytes(port.number);
        let [_, x, y, z] = bytes(in_switch);
        let ip = if self.reach.is_none() && self.acls.is_none() {
            Ipv4Addr::new(10, x, y, z)
        } else {
            in_network_of(switch, z)
        };
        let id = port_id(port.number);
        let document = json!({
            "kind": "switch_port",
            "id": id,
            "switch": switch_id(switch),
            "addresses": [{"mac": MacAddr([0x02, 0, a, b, c, d]).to_string(), "ips": [ip]}],
            "port_security": true,
        });
        step.object("switch_port", id, &document);
        step.insert("vif", vif(&port));
        self.ports.push(port);
    }
}

fn vif(port: &Port) -> Row {
    let Port { number, host, ofport, since, .. } = *port;
    vec![text(host_id(host)), text(port_id(number)), Value::Int(ofport), text(""), Value::Int(since)]
}

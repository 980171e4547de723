//! The network that users want, and the interfaces that hosts have.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;

use conformance::rows::{Reports, rows};
use conformance::{History, NumberedWorld, Size, Step, history};
use network_spec::{Address, Node, Zone};
use nlog_data::{Row, TableId};
use objects::{ObjectKey, ObjectStore};
use serde_json::Value as Json;
use test_random::Random;
use weft_core::rules::Rules;

/// Objects, each as JSON.
pub(crate) type Objects = BTreeMap<ObjectKey, Json>;

/// A network whose history is known beforehand.
pub(crate) struct Network {
    world: NumberedWorld,
    history: History,
    next: usize,
}

impl Network {
    /// The network of a seed, with nothing in it yet.
    pub(crate) fn new(seed: u64) -> Network {
        let size =
            Size { hosts: 4, switches: 3, ports: 4, steps: 400, routed: 40, filtered: 30, ..Size::default() };
        let history = history(&mut Random::new(seed), size);
        Network { world: NumberedWorld::new(history.scattered), history, next: 0 }
    }

    /// All hosts that it ever has, each with the physical bridges that it ever uses.
    pub(crate) fn hosts(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut world = self.world.clone();
        let mut hosts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for change in self.history.steps.iter().flat_map(Step::changes) {
            world.apply(change);
            for (name, node) in &world.nodes {
                hosts.entry(name.clone()).or_default().extend(node.mappings.values().cloned());
            }
        }
        hosts
    }

    /// Makes the changes of the next steps.
    pub(crate) fn advance(&mut self, steps: usize) {
        for step in
            self.history.steps.iter().skip(self.next).filter(|step| !step.changes().is_empty()).take(steps)
        {
            for change in step.changes() {
                self.world.apply(change);
            }
        }
        let of_changes = |(_, step): &(usize, &Step)| !step.changes().is_empty();
        let after = self.history.steps.iter().enumerate().skip(self.next).filter(of_changes).nth(steps);
        self.next = after.map_or(self.history.steps.len(), |(number, _)| number);
    }

    /// The objects that users want now.
    pub(crate) fn objects(&self, rules: &Rules) -> Objects {
        let program = rules.program();
        let rows = rows(&self.world, &program.objects, &Reports::default(), &|_| true);
        let of = |table: TableId| -> Result<Vec<Row>, Infallible> {
            Ok(rows.get(&*program.schema.table(table).name).into_iter().flatten().cloned().collect())
        };
        let Ok(store) = ObjectStore::of_rows(rules.kinds(), &program.schema, of);
        let json = |object: &objects::Object| serde_json::from_str(&object.to_json()).unwrap_or_default();
        let mut all: Objects = store.iter().map(|(key, object)| (key, json(object))).collect();
        for (key, object) in all.iter_mut().filter(|(key, _)| &*key.kind == "transport_node") {
            object["ovsdb"] = database_of(&key.id).into();
            object["openflow"] = switch_of(&key.id).into();
        }
        all
    }

    /// Ports with their tenants, "" for none: their own, and those of the trunk members behind them.
    pub(crate) fn tenants(&self) -> BTreeSet<(String, String)> {
        let of = |(name, port): (&String, &network_spec::Port)| {
            let tenant = self.world.tenant_of(name).to_owned();
            let behind = port.parent.as_ref().map(|(parent, _)| (parent.clone(), tenant.clone()));
            [Some((name.clone(), tenant)), behind]
        };
        self.world.ports.iter().flat_map(of).flatten().collect()
    }

    /// The ports with trunk members behind them.
    pub(crate) fn trunks(&self) -> impl Iterator<Item = String> {
        self.world.ports.values().filter_map(|port| port.parent.as_ref().map(|(parent, _)| parent.clone()))
    }

    /// The addresses of each port.
    pub(crate) fn addresses(&self) -> BTreeMap<String, Vec<Address>> {
        self.world.ports.iter().map(|(name, port)| (name.clone(), port.addresses.clone())).collect()
    }

    /// Those of all ports of machines and of routers.
    pub(crate) fn all_addresses(&self) -> Vec<Address> {
        let of_routers =
            self.world.router_ports.values().map(|port| Address { mac: port.mac, ips: Vec::new() });
        self.world.ports.values().flat_map(|port| port.addresses.clone()).chain(of_routers).collect()
    }

    /// The addresses of hosts' tunnel endpoints.
    pub(crate) fn host_addresses(&self) -> BTreeMap<String, IpAddr> {
        self.world.nodes.iter().map(|(name, node)| (name.clone(), node.ip)).collect()
    }

    /// What tunnels follow from: transport nodes and their zones.
    pub(crate) fn underlay(&self) -> (BTreeMap<String, Node>, BTreeMap<String, Zone>) {
        (self.world.nodes.clone(), self.world.zones.clone())
    }

    /// The ports whose interfaces each host has now.
    pub(crate) fn plugged(&self) -> BTreeSet<(String, String)> {
        self.world.ofports.keys().cloned().collect()
    }
}

/// The beginning of all endpoints of a host.
pub(crate) fn endpoints_of(host: &str) -> String {
    format!("unix:/{host}/")
}

/// The endpoint of a host's database.
pub(crate) fn database_of(host: &str) -> String {
    format!("{}db", endpoints_of(host))
}

/// The endpoint of a host's switch.
pub(crate) fn switch_of(host: &str) -> String {
    format!("{}switch", endpoints_of(host))
}

//! The ACLs of `nvp-eval`: one on each of most ports, and one or two on each of some switches. Every ten switches are a tenant's,
//! and so are the first fifty, whose ACLs can use a large group of addresses.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::Range;

use serde_json::{Value, json};

use super::{Run, SWITCHES_OF_A_ROUTER, Step, World, bytes, in_network_of, port_id, switch_id};
use crate::figure6::workload::Network;

/// The first ports, which have an ACL each, and the first switches, which have ACLs for all their ports.
const FILTERED_PORTS: usize = 49_188;
const FILTERED_SWITCHES: usize = 1_553;
/// The addresses of the large group, the ACLs that use it, each with a priority of its own, and their switches.
const LARGE_GROUP: usize = 10_000;
const LARGE_GROUP_ACLS: usize = 100;
const LARGE_GROUP_SWITCHES: usize = 50;
/// A switch whose tenant keeps a secret, for the invariants.
const SECRET_SWITCH: usize = 5_000;
/// Addresses in the group of services that a tenant has.
const SERVICES: u8 = 4;
/// Ranges of TCP ports that ACLs of ports match; each begins at a multiple of its size, so that one mask matches it.
const RANGES: usize = 100;
const RANGE: usize = 8;
const FIRST_RANGE: usize = 1024;
/// Priorities of ACLs of ports and of switches, and of those that use the large group.
const OF_PORTS: usize = 500;
const OF_SWITCHES: usize = 100;
const OF_LARGE_GROUP: usize = 1000;
/// Those that are added later.
const ADDED: usize = 5000;

/// What ACLs do with packets that they let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Acls {
    /// They allow them.
    Stateless,
    /// They allow their connections, in both directions.
    Stateful,
}

impl Acls {
    /// On the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Acls::Stateless => "stateless",
            Acls::Stateful => "stateful",
        }
    }

    /// The action of an ACL.
    fn action(self) -> &'static str {
        match self {
            Acls::Stateless => "allow",
            Acls::Stateful => "allow_related",
        }
    }
}

/// The number of the tenant of a switch.
fn tenant_of(switch: usize) -> usize {
    if switch < LARGE_GROUP_SWITCHES { 0 } else { switch / SWITCHES_OF_A_ROUTER }
}

fn services_id(tenant: usize) -> String {
    format!("services-{tenant}")
}

/// An address of the large group.
fn member(number: usize) -> Ipv4Addr {
    let [_, x, y, z] = bytes(number);
    Ipv4Addr::new(100, 64 + x, y, z)
}

/// The IPv4 packets of TCP for these ports. They are of one IP version, like the addresses of this network.
fn tcp_to(ports: &str) -> Value {
    json!({"eth_type": "ip", "ip_proto": "tcp", "tp_dst": ports})
}

impl World {
    /// The tenant of a switch, if there are ACLs.
    pub(super) fn tenant(&self, switch: usize) -> Option<String> {
        self.acls.is_some().then(|| format!("tenant-{}", tenant_of(switch)))
    }

    /// What ACLs do with packets that they let pass.
    fn action(&self) -> &'static str {
        self.acls.unwrap_or(Acls::Stateless).action()
    }

    /// The ACLs that each host has at the start, of all hosts: those of its ports, and of the switches of its ports.
    pub(in crate::network) fn acls_of_hosts(&self) -> usize {
        self.acls_of_hosts
    }

    /// The switches that have no ACLs at the start, and whose ports have none.
    pub(in crate::network) fn unfiltered_switches(network: &Network, divisor: usize) -> Range<usize> {
        network.switch_of[FILTERED_PORTS / divisor] + 1..network.switches
    }

    /// Adds the ACLs of the network, and the groups that they refer to.
    pub(super) fn filter(&mut self, network: &Network, run: Run, step: &mut Step) {
        let tenants: BTreeSet<usize> = (0..network.switches).map(tenant_of).collect();
        for tenant in tenants {
            Self::services(tenant, step);
        }
        let ports = FILTERED_PORTS / run.divisor;
        for port in 0..ports {
            self.port_acl(port, step);
        }
        self.acls_of_hosts += ports;
        let switches = FILTERED_SWITCHES / run.divisor;
        let mut hosts_of = vec![BTreeSet::new(); switches];
        for (switch, host) in
            network.switch_of.iter().zip(&network.hypervisor_of).filter(|(of, _)| **of < switches)
        {
            hosts_of[*switch].insert(*host);
        }
        for (switch, hosts) in hosts_of.iter().enumerate() {
            self.acls_of_hosts += hosts.len() * self.switch_acls(switch, step);
        }
        if run.invariants {
            self.secret(tenant_of(SECRET_SWITCH / run.divisor), step);
        }
    }

    /// The addresses of a tenant's services, outside of its switches.
    fn services(tenant: usize, step: &mut Step) {
        let [_, _, x, y] = bytes(tenant);
        let addresses: Vec<Ipv4Addr> = (1..=SERVICES).map(|z| Ipv4Addr::new(198, 18 + x, y, z)).collect();
        let id = services_id(tenant);
        let document = json!({"kind": "address_group", "id": id, "addresses": addresses});
        step.object("address_group", id, &document);
    }

    /// The ACL of a port: it may open connections to a range of TCP ports, at the services of its tenant, on its tenant's
    /// first switch, or anywhere.
    fn port_acl(&self, port: usize, step: &mut Step) {
        let tenant = tenant_of(self.ports[port].switch);
        let low = FIRST_RANGE + port % RANGES * RANGE;
        let id = format!("acl-of-{}", port_id(port));
        let mut document = json!({
            "kind": "acl",
            "id": id,
            "port": port_id(port),
            "direction": "from_port",
            "priority": OF_PORTS + port % RANGES,
            "match": tcp_to(&format!("{low}-{}", low + RANGE - 1)),
            "action": self.action(),
        });
        match port % 3 {
            0 => document["to"] = json!({"address_group": services_id(tenant)}),
            1 => {
                let first_switch = tenant * SWITCHES_OF_A_ROUTER;
                document["to"] = json!({"net": format!("{}/24", in_network_of(first_switch, 0))});
            }
            _ => {}
        }
        step.object("acl", id, &document);
    }

    /// The ACLs of a switch: web servers are reached; on every other switch nothing else is. Returns how many there are.
    fn switch_acls(&self, switch: usize, step: &mut Step) -> usize {
        self.web_acl(switch, step);
        if switch.is_multiple_of(2) {
            return 1;
        }
        let id = format!("nothing-else-{switch}");
        let document = json!({
            "kind": "acl",
            "id": id,
            "switch": switch_id(switch),
            "direction": "to_port",
            "priority": OF_SWITCHES - 1,
            "match": {"eth_type": "ip"},
            "action": "drop",
        });
        step.object("acl", id, &document);
        2
    }

    fn web_acl(&self, switch: usize, step: &mut Step) {
        let id = format!("web-{switch}");
        let document = json!({
            "kind": "acl",
            "id": id,
            "switch": switch_id(switch),
            "direction": "to_port",
            "priority": OF_SWITCHES,
            "match": tcp_to("443"),
            "action": self.action(),
        });
        step.object("acl", id, &document);
    }

    /// A group of all ports of a tenant, called `secret`, and the drop that it needs in tier 0.
    fn secret(&mut self, tenant: usize, step: &mut Step) {
        let of_tenant = self.ports.iter().filter(|port| tenant_of(port.switch) == tenant);
        let ports: Vec<String> = of_tenant.map(|port| port_id(port.number)).collect();
        self.acls_of_hosts += ports.len();
        let group = json!({"kind": "port_group", "id": "secret", "ports": ports});
        step.object("port_group", "secret".to_owned(), &group);
        let acl = json!({
            "kind": "acl",
            "id": "secret-no-ssh",
            "port_group": "secret",
            "direction": "to_port",
            "priority": OF_SWITCHES,
            "match": tcp_to("22"),
            "action": "drop",
        });
        step.object("acl", "secret-no-ssh".to_owned(), &acl);
    }

    /// Adds an ACL to a port, which may have one. It uses a group that other ACLs use.
    pub(in crate::network) fn add_acl(&mut self, port: usize) -> Step {
        let services = json!({"address_group": services_id(tenant_of(self.ports[port].switch))});
        self.added(&port_id(port), "from_port", ("to", &services))
    }

    /// Adds an ACL that uses the large group to a port of one of its switches.
    pub(in crate::network) fn add_acl_of_large_group(&mut self, port: usize) -> Step {
        self.added(&port_id(port), "to_port", ("from", &json!({"address_group": "large"})))
    }

    fn added(&mut self, port: &str, direction: &str, (peer, of): (&str, &Value)) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        let document = json!({
            "kind": "acl",
            "id": "added",
            "port": port,
            "direction": direction,
            "priority": ADDED,
            "match": tcp_to("8080"),
            peer: of,
            "action": self.action(),
        });
        step.object("acl", "added".to_owned(), &document);
        step
    }

    /// Adds its only ACL to a switch without any.
    pub(in crate::network) fn add_first_acl(&mut self, switch: usize) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        self.web_acl(switch, &mut step);
        step
    }

    /// Adds ports on one switch, at these hosts, each with an ACL.
    pub(in crate::network) fn add_filtered_ports(
        &mut self,
        switch: usize,
        hosts: impl IntoIterator<Item = usize>,
    ) -> Step {
        let first = self.ports.len();
        let mut step = self.add_ports(switch, hosts);
        for port in first..self.ports.len() {
            self.port_acl(port, &mut step);
        }
        step
    }

    /// The ports of the switches whose ACLs use the large group.
    pub(in crate::network) fn ports_with_large_group(network: &Network) -> usize {
        network.switch_of.partition_point(|switch| *switch < LARGE_GROUP_SWITCHES)
    }

    /// The large group, with this one more member, or without.
    pub(in crate::network) fn large_group(&mut self, divisor: usize, more: Option<usize>) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        let size = LARGE_GROUP / divisor;
        let addresses: Vec<Ipv4Addr> = (0..size).chain(more.map(|more| size + more)).map(member).collect();
        let document = json!({"kind": "address_group", "id": "large", "addresses": addresses});
        step.object("address_group", "large".to_owned(), &document);
        step
    }

    /// The ACLs that use the large group, two on each of their switches.
    pub(in crate::network) fn acls_of_large_group(&mut self) -> Step {
        let mut step = Step::default();
        self.txn += 1;
        for number in 0..LARGE_GROUP_ACLS {
            let id = format!("large-{number}");
            let document = json!({
                "kind": "acl",
                "id": id,
                "switch": switch_id(number % LARGE_GROUP_SWITCHES),
                "direction": "to_port",
                "priority": OF_LARGE_GROUP + number,
                "match": tcp_to(&(FIRST_RANGE + number).to_string()),
                "from": {"address_group": "large"},
                "action": self.action(),
            });
            step.object("acl", id, &document);
        }
        step
    }
}

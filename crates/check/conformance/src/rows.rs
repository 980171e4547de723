//! A world as rows of the rules' input tables, as the controller would write them.

mod filtering;
mod services;
mod translation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use network_spec::{Form, Learning, Network, PolicyAction, PolicyMatch, Reach, Trees, World, Zone};
use nlog_data::{ObjectKind, Row, Value};
use openflow_rs::MacAddr;
pub use simulated_hosts::Reports;

use crate::world::{
    AUDIENCES, GATEWAY_LABELS, NumberedWorld, audience, of_gateway, of_policy, of_route, routed,
};

/// Rows by table.
pub type Rows = BTreeMap<&'static str, BTreeSet<Row>>;

/// All rows of a world, whose objects are of these kinds, and of the reports of its switches. Only these hosts are managed.
pub fn rows(
    world: &NumberedWorld,
    kinds: &[ObjectKind],
    reports: &Reports,
    managed: &dyn Fn(&str) -> bool,
) -> Rows {
    let mut rows = Rows::new();
    objects(world, kinds, &mut rows);
    labels(world, &mut rows);
    filtering::labels(world, &mut rows);
    for host in world.nodes.keys().filter(|host| managed(host)) {
        add(&mut rows, "managed", vec![text(host)]);
    }
    let Trees { hosts, slack, .. } = world.trees;
    if (hosts, slack) != (Trees::default().hosts, Trees::default().slack) {
        add(&mut rows, "replication_limit", vec![Value::Int(hosts as i64), Value::Int(slack as i64)]);
    }
    for (((host, port), since), ofport) in world.vnics.iter().zip(world.ofports.values()) {
        let row = vec![text(host), text(port), int(*ofport), text(""), Value::Int(*since as i64)];
        add(&mut rows, "vif", row);
        let meter = FIRST_REQUEST_METER + i64::from(*ofport);
        let row = vec![text(host), text(port), text("error"), Value::Int(meter)];
        add(&mut rows, "allocated_meter", row);
    }
    services::meters(world, &mut rows);
    for ((host, port), since) in &world.announced {
        add(&mut rows, "announced", vec![text(host), text(port), Value::Int(*since as i64)]);
    }
    for (table, ports) in [("tunnel_port", &reports.tunnels), ("patch_port", &reports.patches)] {
        for ((host, name), ofport) in ports {
            add(&mut rows, table, vec![text(host), text(name), int(*ofport)]);
        }
    }
    rows
}

fn objects(world: &World, kinds: &[ObjectKind], rows: &mut Rows) {
    let mut object = |kind: &'static str, id: &str, fields: &[(&str, Value)]| {
        let declared = kinds.iter().find(|declared| declared.name == kind);
        // Rules without the kind get no objects of it.
        let Some(declared) = declared else { return };
        let row = declared.row(id, fields.iter().cloned());
        add(rows, kind, row.unwrap_or_else(|why| panic!("the rules declare other fields: {why}")));
    };
    for (id, zone) in world.zones.iter().filter_map(|(name, zone)| Some((zone_id(name, *zone)?, zone))) {
        let form = if zone.form == Form::Flow { "flow" } else { "port" };
        let check = Value::Bool(zone.check_sources);
        let fields = [("tunnels", text(form)), ("mtu", int(zone.mtu)), ("check_sources", check)];
        object("transport_zone", id, &fields);
    }
    for (name, node) in &world.nodes {
        let encaps = node.encaps.iter().map(|encap| text(encap.name()));
        let mappings = node.mappings.iter().map(|(network, bridge)| record([text(network), text(bridge)]));
        let fields = [
            ("ip", Value::Ip(node.ip)),
            ("encaps", list(encaps)),
            ("transport_zone", zone_of(world, &node.zone).map_or(Value::None, text)),
            ("bridge_mappings", Value::set(mappings)),
            ("roles", list(node.roles.iter().map(|role| text(role)))),
            ("schedulable", Value::Bool(node.schedulable)),
            ("drain", Value::Bool(node.drain)),
        ];
        object("transport_node", name, &fields);
    }
    for (name, switch) in &world.switches {
        let mut fields = vec![("tenant", tenant(&switch.tenant))];
        if switch.learning != Learning::default() {
            let Learning { limit, age } = switch.learning;
            fields.push(("learning", record([Value::Int(limit.into()), Value::Int(age.as_secs() as i64)])));
        }
        fields.extend(filtering::default_of(switch));
        object("switch", name, &fields);
    }
    for (name, port) in &world.ports {
        let addresses = port.addresses.iter().map(|one| {
            let fixed = list(one.ips.iter().map(|ip| Value::Ip(*ip)));
            let is_dynamic = port.dynamic.contains(&one.mac);
            let ips = if is_dynamic { [Value::None, text("dynamic")] } else { [fixed, Value::None] };
            record([Value::Mac(MacAddr(one.mac)), record(ips)])
        });
        let mut fields = vec![
            ("switch", text(&port.switch)),
            ("addresses", list(addresses)),
            ("port_security", Value::Bool(port.port_security)),
            ("unknown_addresses", Value::Bool(port.unknown_addresses)),
            ("trust", list(port.trust.iter().map(|trust| text(trust.name())))),
            ("enabled", Value::Bool(port.enabled)),
            ("requested_hosts", list(port.requested_hosts.iter().map(|host| text(host)))),
        ];
        if let Some((parent, tag)) = &port.parent {
            fields.extend([("parent", text(parent)), ("tag", int(*tag))]);
        }
        fields.extend(flood_limit(world, name));
        object("switch_port", name, &fields);
    }
    for (name, localnet) in &world.localnets {
        let mut fields = vec![
            ("switch", text(&localnet.switch)),
            ("physical_network", text(&localnet.network)),
            ("tag", int(localnet.tag)),
        ];
        fields.extend(flood_limit(world, name));
        object("localnet_port", name, &fields);
    }
    routing(world, &mut object);
    services::services(world, &mut object);
    translation::nats(world, &mut object);
    filtering::filtering(world, kinds, &mut object);
}

/// Adds an object of a kind, with its id and fields.
type Add<'a> = dyn FnMut(&'static str, &str, &[(&str, Value)]) + 'a;

/// Routers and what belongs to them.
fn routing(world: &World, object: &mut Add<'_>) {
    for (name, router) in &world.routers {
        let reach = match router.reach {
            Reach::Auto => "auto",
            Reach::Direct => "direct",
            Reach::Relay => "relay",
        };
        let proxy = list(router.proxy_arp.iter().map(|network| prefix(*network)));
        let fields = [("tenant", tenant(&router.tenant)), ("reach", text(reach)), ("proxy_arp", proxy)];
        object("router", name, &fields);
    }
    for (name, port) in &world.router_ports {
        let networks = port.networks.iter().map(|network| {
            let address = network.to_string().parse().expect("an address and a length");
            Value::InterfaceAddress(address)
        });
        let mut fields = vec![
            ("router", text(&port.router)),
            ("switch", text(&port.switch)),
            ("mac", Value::Mac(MacAddr(port.mac))),
            ("networks", list(networks)),
        ];
        if let Some(ra) = world.ras.get(name) {
            let dns = list(ra.dns.iter().map(|server| Value::Ip((*server).into())));
            let said = [text(ra.mode.name()), ra.mtu.map_or(Value::None, int), dns];
            fields.push(("ra", Value::Record(said.into())));
        }
        if !port.gateways.is_empty() {
            let gateways =
                port.gateways.iter().map(|(node, priority)| record([text(node), Value::Int(*priority)]));
            fields.push(("gateways", list(gateways)));
        }
        object("router_port", name, &fields);
    }
    for (name, route) in &world.routes {
        let fields = [
            ("router", text(&route.router)),
            ("destination", prefix(route.destination)),
            ("next_hops", list(route.hops().iter().map(|hop| Value::Ip(*hop)))),
            ("discard", Value::Bool(route.hops().is_empty())),
        ];
        object("route", name, &fields);
    }
    for (name, policy) in &world.route_policies {
        let action = match &policy.action {
            PolicyAction::Drop => "drop",
            PolicyAction::Reroute(_) => "reroute",
            PolicyAction::Allow => "allow",
        };
        let fields = [
            ("router", text(&policy.router)),
            ("priority", Value::Int(policy.priority)),
            ("match", filter(&policy.matches)),
            ("action", text(action)),
            ("next_hops", list(policy.hops().iter().map(|hop| Value::Ip(*hop)))),
        ];
        object("route_policy", name, &fields);
    }
}

/// The packets that a policy is for.
fn filter(matches: &PolicyMatch) -> Value {
    let source = matches.source.map(|source| format!("ip_src={source}"));
    let destination = matches.destination.map(|destination| format!("ip_dst={destination}"));
    let protocol = matches.protocol.map(|protocol| format!("ip_proto={protocol}"));
    let items: Vec<String> = [source, destination, protocol].into_iter().flatten().collect();
    let filter = items.join(",").parse().unwrap_or_else(|faults| panic!("{items:?}: {faults}"));
    Value::PacketFilter(Arc::new(filter))
}

fn prefix(network: Network) -> Value {
    Value::Net(network.to_string().parse().expect("a prefix"))
}

/// The field of a port that may flood only so many frames a second.
fn flood_limit(world: &World, port: &str) -> Option<(&'static str, Value)> {
    world.flood_limits.get(port).map(|limit| ("flood_limit", Value::Int((*limit).into())))
}

/// Tables whose rows the world gives instead of the rules' hooks, so that numbers are spread over their 24 bits and do not
/// depend on the history.
pub(crate) const LABELS: [&str; 6] =
    ["allocated_meter", "datapath_label", "hop_number", "node_label", "tunnel_label", "port_meter"];

/// The first meter of what ports ask of responders (`rules/interface/layout.nlog`).
const FIRST_REQUEST_METER: i64 = 80_011;

fn labels(world: &NumberedWorld, rows: &mut Rows) {
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
    for router in world.routers.keys() {
        add(rows, "datapath_label", vec![text(router), label(world.labels.datapath(router))]);
    }
    let mut tunnel = |label_use: &str, id: &str, name: &str| {
        let label = label(world.labels.port(name));
        add(rows, "tunnel_label", vec![text(label_use), text(id), label]);
    };
    for (name, port) in &world.router_ports {
        tunnel("port", name, name);
        tunnel("routed", &port.switch, &routed(&port.switch));
        for of_gateways in GATEWAY_LABELS.into_iter().filter(|_| !port.gateways.is_empty()) {
            tunnel(of_gateways, name, &of_gateway(name, of_gateways));
        }
    }
    for (name, _) in world.routes.iter().filter(|(_, route)| route.hops().len() > 1) {
        tunnel("route", name, &of_route(name));
    }
    for (name, _) in world.route_policies.iter().filter(|(_, policy)| policy.hops().len() > 1) {
        tunnel("route_policy", name, &of_policy(name));
    }
    for port in world.ports.keys().chain(world.localnets.keys()) {
        add(rows, "tunnel_label", vec![text("port"), text(port), label(world.labels.port(port))]);
    }
    for (hop, number) in world.labels.hops() {
        add(rows, "hop_number", vec![Value::Ip(hop), label(number)]);
    }
    for port in world.flood_limits.keys() {
        let meter = world.labels.meter(port).unwrap_or_default();
        add(rows, "port_meter", vec![text(port), label(meter)]);
    }
    for node in world.nodes.keys() {
        add(rows, "node_label", vec![text(node), label(world.labels.node(node))]);
    }
}

fn add(rows: &mut Rows, table: &'static str, row: Row) {
    rows.entry(table).or_default().insert(row);
}

/// The object that is the zone of a node.
fn zone_of<'a>(world: &World, name: &'a str) -> Option<&'a str> {
    zone_id(name, *world.zones.get(name)?)
}

/// The object that a zone is. The default zone of the rules is none; if that of the world is another, its nodes are in an
/// object.
fn zone_id(name: &str, zone: Zone) -> Option<&str> {
    match name {
        "" if zone == Zone::default() => None,
        "" => Some("default"),
        name => Some(name),
    }
}

/// The tenant of an object, if it has one.
fn tenant(tenant: &str) -> Value {
    if tenant.is_empty() { Value::None } else { text(tenant) }
}

fn list(values: impl Iterator<Item = Value>) -> Value {
    Value::List(values.collect())
}

fn record(values: [Value; 2]) -> Value {
    Value::Record(values.into())
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn int(number: u16) -> Value {
    Value::Int(number.into())
}

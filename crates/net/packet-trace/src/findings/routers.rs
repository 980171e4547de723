//! What routers do not forward.

use std::net::IpAddr;

use nlog_data::{Packed, Value};
use openflow_rs::Match;

use super::objects::{Named, word};
use super::places::tenant;
use super::{Case, with_lines};
use crate::packet::{addresses, link_header};
use crate::{LookupView, Network};

/// The most routes in a sentence.
const ROUTES: usize = 4;

impl Case<'_> {
    /// No route leads to the destination.
    pub(super) fn no_route(&self, lookup: &LookupView) -> Vec<String> {
        let network = self.network;
        let (Some((_, to)), Some(router)) = (addresses(&lookup.key), &lookup.datapath) else {
            return Vec::new();
        };
        let routes = network.routes_around(router, to);
        if let Some(route) = routes.first() {
            let destination = route.get("destination").map(word).unwrap_or_default();
            let what = format!(
                "router {router} has a route to {destination} ({} {}) and no flow for it: the rules say why",
                route.text("kind").unwrap_or_default(),
                route.text("by").unwrap_or_default()
            );
            let flow = network.missing_route_flow(router, lookup.table, &destination);
            return with_lines(what, flow);
        }
        let mut known: Vec<String> = network
            .with("routing_table", "router", router)
            .iter()
            .filter_map(|row| row.get("destination").map(word))
            .collect();
        known.dedup();
        let more = if known.len() > ROUTES { ", …" } else { "" };
        known.truncate(ROUTES);
        let known = if known.is_empty() {
            "none at all".to_owned()
        } else {
            format!("only to {}{more}", known.join(", "))
        };
        let mut found = vec![format!("router {router} has no route to {to}: it has routes {known}")];
        found.extend(self.not_joined(router, to));
        found
    }

    /// The switch of the destination has no port of the router.
    fn not_joined(&self, router: &str, to: IpAddr) -> Option<String> {
        let network = self.network;
        let port = self.sent.to.clone().or_else(|| network.port_with(to))?;
        let switch = network.switch_of(&port)?;
        let joined = network.with("router_port", "switch", &switch);
        if joined.iter().any(|one| one.text("router") == Some(router)) {
            return None;
        }
        let own = network.object("router", router)?.text("tenant").map(str::to_owned);
        let other = network.tenant(&switch);
        let boundary = if own == other {
            format!("add one, with the network of {to}")
        } else {
            format!(
                "the switch belongs to {} and the router to {}: a router joins switches of one tenant only",
                tenant(other.as_deref()),
                tenant(own.as_deref())
            )
        };
        Some(format!(
            "port {port} is on switch {switch}, where router {router} has no router_port; {boundary}"
        ))
    }

    /// The route that leads to the destination takes no packets.
    pub(super) fn dead_route(&self, lookup: &LookupView) -> Vec<String> {
        let network = self.network;
        let (Some((_, to)), Some(router)) = (addresses(&lookup.key), &lookup.datapath) else {
            return Vec::new();
        };
        let routes = network.routes_around(router, to);
        let Some(first) = routes.first() else { return Vec::new() };
        let destination = first.get("destination");
        let name = route_name(first);
        let decides = |route: &&Named<'_>| route.get("destination") == destination;
        let mut found = Vec::new();
        for route in routes.iter().take_while(decides) {
            let why = route.text("why").unwrap_or_default();
            match route.text("kind") {
                Some("discard") => found.push(format!("{name} discards what it is for")),
                _ if !why.is_empty() => found.push(format!(
                    "{name} leads to {} alone, which takes no packets: {why}",
                    route.text("next_hop").unwrap_or_default()
                )),
                _ => {}
            }
        }
        let next = routes.iter().find(|route| !decides(route));
        if let (Some(next), false) = (next, found.is_empty()) {
            found.push(format!("it comes before {}, whose prefix is shorter", route_name(next)));
        }
        found
    }

    /// A policy drops the packet, or has no next hop that takes it.
    pub(super) fn policy(&self, _: &LookupView) -> Vec<String> {
        let network = self.network;
        let leaves = self.drop.into_iter().flat_map(|drop| &drop.because);
        let mut policies = leaves.filter(|leaf| leaf.what.starts_with("route_policy "));
        let Some(policy) = policies.find_map(|leaf| network.object("route_policy", leaf.object.as_deref()?))
        else {
            return Vec::new();
        };
        let priority = policy.get("priority").map(word).unwrap_or_default();
        let id = policy.id();
        if policy.text("action") == Some("drop") {
            return vec![format!(
                "route_policy {id} (priority {priority}) drops the packet, before any route is asked"
            )];
        }
        let router = policy.text("router").unwrap_or_default();
        let mut found = vec![format!(
            "route_policy {id} (priority {priority}) sends the packet to next_hops {}, none of which takes packets",
            policy.words("next_hops")
        )];
        for hop in policy.list("next_hops") {
            let state = network.with("hop_state", "router", router);
            let why = state
                .iter()
                .find(|row| row.get("hop") == Some(hop))
                .and_then(|row| row.text("why").map(str::to_owned));
            found.extend(
                why.filter(|why| !why.is_empty()).map(|why| format!("next hop {}: {why}", word(hop))),
            );
        }
        found
    }

    /// The packet is larger than the next switch carries.
    pub(super) fn too_large(&self, lookup: &LookupView) -> Vec<String> {
        let switch = lookup.datapath.as_deref().unwrap_or_default();
        let mtu = self.network.with("switch_mtu", "sw", switch).into_iter().next();
        let Some(carries) = mtu.and_then(|row| row.get("mtu").map(word)) else { return Vec::new() };
        let size = self.sent.bytes.len().saturating_sub(link_header(&self.sent.bytes));
        let zones = self.network.all("transport_zone");
        let mut mtus: Vec<String> = zones
            .iter()
            .filter_map(|zone| {
                Some(format!("transport_zone {} has mtu {}", zone.id(), word(zone.get("mtu")?)))
            })
            .collect();
        if mtus.is_empty() {
            mtus.push("the default transport zone has mtu 1500".to_owned());
        }
        mtus.truncate(ROUTES);
        vec![format!(
            "the IP packet has {size} bytes, and switch {switch} carries up to {carries}: {}, of which tunnel headers take a part",
            mtus.join(", ")
        )]
    }

    /// The host can reach no gateway of the router's port.
    pub(super) fn no_gateway(&self, lookup: &LookupView) -> Vec<String> {
        let network = self.network;
        let port =
            network.named_bits(&lookup.key, "inport").and_then(|label| network.meaning("inport", label));
        let (Some(port), Some(drop)) = (port, self.drop) else { return Vec::new() };
        let reasons = network.all_apart(&self.sent.from, &port);
        let what = format!("{} can reach no gateway of router_port {port}", drop.host);
        if reasons.is_empty() { reasons } else { std::iter::once(what).chain(reasons).collect() }
    }

    /// Address translation has no destination inside.
    pub(super) fn unpublished(&self, lookup: &LookupView) -> Vec<String> {
        let leaves = self.drop.into_iter().flat_map(|drop| &drop.because);
        let nats: Vec<&str> =
            leaves.map(|leaf| &*leaf.what).filter(|what| what.starts_with("nat ")).collect();
        let Some((_, to)) = addresses(&lookup.key).filter(|_| !nats.is_empty()) else { return Vec::new() };
        vec![format!(
            "no machine inside has begun the connection, and no dnat or floating address takes it: {to} is only an external address of {}",
            nats.join(", ")
        )]
    }

    /// The router leads to the switch of the destination, and finds nobody there.
    pub(super) fn no_neighbour(&self, lookup: &LookupView) -> Vec<String> {
        let network = self.network;
        let (Some((_, to)), Some(switch)) = (addresses(&lookup.key), &lookup.datapath) else {
            return Vec::new();
        };
        let here = |port: &String| network.switch_of(port).as_deref() == Some(switch);
        let owner = network.ports_at(to).into_iter().find(|(port, _)| here(port));
        let has_gateways = !network.with("gateway_port", "sw", switch).is_empty();
        match owner {
            Some(_) => Vec::new(),
            None if has_gateways => vec![format!(
                "no port of switch {switch} has address {to} or that of the next hop; a gateway knows a machine outside once it has heard of it, which a trace cannot see"
            )],
            None => vec![format!(
                "no port of switch {switch} has address {to}, and a router delivers to the addresses of switch_ports only"
            )],
        }
    }
}

/// A route and its prefix.
fn route_name(route: &Named<'_>) -> String {
    let kind = if route.text("kind") == Some("connected") { "router_port" } else { "route" };
    let destination = route.get("destination").map(word).unwrap_or_default();
    format!("{kind} {} ({destination})", route.text("by").unwrap_or_default())
}

impl Network {
    /// The routes of a router whose prefix contains an address, the longest first.
    fn routes_around(&self, router: &str, ip: IpAddr) -> Vec<Named<'_>> {
        let length = |route: &Named<'_>| match route.get("destination") {
            Some(Value::Net(net)) if net.contains(&ip) => Some(net.prefix_len()),
            _ => None,
        };
        let mut routes: Vec<Named<'_>> = self.with("routing_table", "router", router);
        routes.retain(|route| length(route).is_some());
        routes
            .sort_by_key(|route| (std::cmp::Reverse(length(route)), route.text("kind") != Some("connected")));
        routes
    }

    /// Why no rule gives a router a flow for a prefix.
    fn missing_route_flow(&self, router: &str, table: u8, destination: &str) -> Vec<String> {
        let text = if destination.contains(':') {
            format!("ipv6,ipv6_dst={destination}")
        } else {
            format!("ip,nw_dst={destination}")
        };
        let Ok(matching) = text.parse::<Match>() else { return Vec::new() };
        let matching = Value::Match(Packed::new(&matching));
        let row = vec![
            Some(Value::String(router.into())),
            Some(Value::Int(i64::from(table))),
            None,
            Some(matching),
            None,
        ];
        self.why_no_row("routed_flow", row)
    }
}

//! The routes of routers as they take effect: the rules say them (`derived::effective_routes`), and whoever asks gets those of one
//! router in order ([`RoutesOf`]).

use std::cmp::Reverse;
use std::net::IpAddr;

use nlog_data::{Row, Value};
use objects::ObjectKey;

use crate::core::Core;

/// Why there are no routes to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRouter {
    /// There is no such router.
    Object,
    /// The rules know no routers.
    Kind,
}

/// The routes of a router, not yet listed.
#[derive(Debug)]
pub struct RoutesOf(Vec<Row>);

impl RoutesOf {
    /// Those of the router with this id.
    pub fn of(core: &Core, router: &str) -> Result<RoutesOf, NoRouter> {
        let kind = core.rules().router_kind.as_deref().ok_or(NoRouter::Kind)?;
        core.objects().get(&ObjectKey::new(kind, router)).ok_or(NoRouter::Object)?;
        let rows = core.effective_routes().routers.get(router);
        Ok(RoutesOf(rows.into_iter().flatten().cloned().collect()))
    }

    /// In the order in which they are looked for: IPv4 first; the longest prefix first, and of equal ones what counts first.
    pub fn list(self) -> Vec<Route> {
        let mut rows = self.0;
        rows.sort_by_cached_key(|row| {
            let length = match row.get(1) {
                Some(Value::Net(net)) => (net.addr().is_ipv6(), Reverse(net.prefix_len())),
                _ => (true, Reverse(0)),
            };
            let next_hop = match row.get(4) {
                Some(Value::String(ip)) => ip.parse::<IpAddr>().ok(),
                _ => None,
            };
            // Of the kinds, `connected` counts first and is the least.
            (length, row.get(1..4).map(<[Value]>::to_vec), next_hop)
        });
        rows.iter().map(route).collect()
    }
}

/// A route that takes effect, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The prefix.
    pub destination: String,
    /// Its kind: `connected`, `static`, …
    pub kind: String,
    /// The object that asks for it.
    pub by: String,
    /// The address of the next router; empty if the destination is at hand.
    pub next_hop: String,
    /// The port of the router that it leaves by.
    pub port: String,
    /// The MAC address of the next hop.
    pub mac: String,
    /// Why it has no effect; empty if it has one.
    pub why: String,
}

fn route(row: &Row) -> Route {
    let text = |at: usize| match row.get(at) {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Net(net)) => net.to_string(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    Route {
        destination: text(1),
        kind: text(2),
        by: text(3),
        next_hop: text(4),
        port: text(5),
        mac: text(6),
        why: text(7),
    }
}

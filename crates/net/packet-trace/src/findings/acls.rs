//! What ACLs say of a packet that they drop: which one decides, and how far the others are from deciding otherwise.

use flow_simulator::FlowKey;
use frame_builder::{ICMP, ICMPV6, TCP, UDP};
use nlog_data::Value;
use openflow_rs::{Demand, Field};

use super::Case;
use super::objects::{Named, word, words};
use crate::packet::addresses;
use crate::packet::string;
use crate::{LookupView, Network};

/// The most ACLs in the findings of a packet.
const MOST: usize = 3;
/// The bit of `ct_state` of a reply.
const REPLY: u128 = 1 << 3;

/// How an ACL stands to a packet.
struct Judged<'a> {
    acl: Named<'a>,
    tier: i64,
    priority: i64,
    /// What it asks for and the packet does not have. Empty if it matches.
    unmet: Vec<String>,
    /// How far it is from matching: of two that allow a packet, the nearer one is meant for it.
    distance: usize,
}

impl Judged<'_> {
    fn name(&self) -> String {
        format!("acl {} (tier {}, priority {})", self.acl.id(), self.tier, self.priority)
    }

    fn action(&self) -> &str {
        self.acl.text("action").unwrap_or_default()
    }

    fn allows(&self) -> bool {
        self.action().starts_with("allow")
    }

    /// The stricter of equal priority comes first.
    fn rank(&self) -> (i64, i64, bool) {
        (self.tier, -self.priority, self.allows())
    }
}

impl Case<'_> {
    /// ACLs have dropped the packet.
    pub(super) fn acls(&self, lookup: &LookupView) -> Vec<String> {
        let written = self.drop.into_iter().flat_map(|drop| &drop.written);
        let Some((_, judged, _)) = written.into_iter().find(|(_, lookup, _)| lookup.stage == "ACL") else {
            return Vec::new();
        };
        let Some(switch) = &lookup.datapath else { return Vec::new() };
        let key = &judged.key;
        let direction =
            if self.network.named_bits(key, "asks_to_port") == Some(1) { "to_port" } else { "from_port" };
        let mut acls = self.network.judged(switch, direction, key);
        acls.sort_by_key(Judged::rank);
        let (met, unmet): (Vec<_>, Vec<_>) = acls.into_iter().partition(|acl| acl.unmet.is_empty());
        let decides = judged.flow.as_ref().and_then(|flow| flow.priority_name.as_deref()) == Some("ACLS");
        let mut found = Vec::new();
        let passed = met.iter().filter(|acl| acl.action() == "pass");
        let strict = met.iter().find(|acl| !acl.allows() && acl.action() != "pass");
        if let (Some(acl), true) = (strict, decides) {
            found.push(format!("{} drops the packet (action {})", acl.name(), acl.action()));
            let beaten = met.iter().find(|other| other.allows() && other.rank() > acl.rank());
            found.extend(
                beaten.map(|other| format!("it comes before {}, which would allow the packet", other.name())),
            );
            found.extend(
                passed
                    .filter(|other| other.tier < acl.tier)
                    .map(|other| format!("{} passes the packet on to that tier", other.name())),
            );
        } else {
            let of_all = unmet.is_empty() && met.is_empty();
            let none = if of_all {
                format!("no acl of direction {direction} is for the port")
            } else {
                "no acl allows the packet".to_owned()
            };
            found.push(format!("{none}, and switch {switch} drops what none allows (acl_default: drop)"));
            found.extend(passed.map(|other| format!("{} passes the packet on", other.name())));
        }
        if !met.iter().any(Judged::allows) {
            found.extend(
                nearest(unmet)
                    .map(|acl| format!("{} would allow it, but {}", acl.name(), acl.unmet.join(", and "))),
            );
        }
        found
    }

    /// Conntrack takes the packet for one of the middle of a connection that it does not know.
    pub(super) fn without_connection(lookup: &LookupView) -> Vec<String> {
        let Some((from, to)) = addresses(&lookup.key) else { return Vec::new() };
        vec![
            format!(
                "the packet from {from} to {to} opens no connection and belongs to none that is known, and ACLs with allow_related keep connections at this port"
            ),
            "is it one of a connection? --ct est or --ct rpl opens the connection first".to_owned(),
        ]
    }
}

/// The ACLs that come nearest to allowing a packet.
fn nearest(acls: Vec<Judged<'_>>) -> impl Iterator<Item = Judged<'_>> {
    let mut acls: Vec<Judged<'_>> = acls.into_iter().filter(Judged::allows).collect();
    acls.sort_by_key(|acl| acl.distance);
    let least = acls.first().map_or(0, |acl| acl.distance);
    acls.into_iter().filter(move |acl| acl.distance == least).take(MOST)
}

impl Network {
    /// The ACLs of a direction that are for the port that is checked, with what of them the packet does not meet.
    fn judged(&self, switch: &str, direction: &str, key: &FlowKey) -> Vec<Judged<'_>> {
        let label = self.named_bits(key, "checked_port");
        let label = label.and_then(|label| i64::try_from(label).ok());
        let checked = label.map(|label| self.named_with("logical_port", "label", Value::Int(label)));
        let checked = checked.unwrap_or_default().into_iter().next();
        let port = checked.and_then(|row| string(row.first())).unwrap_or_default();
        let on_port = self.with("acl_of_port", "port", port);
        let on_switch = self.with("acl_of_switch", "sw", switch);
        let ids = on_port.iter().chain(&on_switch).map(Named::id);
        let mut acls: Vec<Judged<'_>> = Vec::new();
        for id in ids {
            let Some(acl) = self.object("acl", id).filter(|acl| acl.text("direction") == Some(direction))
            else {
                continue;
            };
            if acls.iter().any(|known| known.acl.id() == id) {
                continue;
            }
            let number = |column| match acl.get(column) {
                Some(Value::Int(number)) => *number,
                _ => 0,
            };
            let (tier, priority) = (number("tier"), number("priority"));
            let (unmet, distance) = self.unmet_of(&acl, port, key);
            acls.push(Judged { acl, tier, priority, unmet, distance });
        }
        acls
    }

    /// What of an ACL a packet at a port does not meet, and how far it is from meeting it.
    fn unmet_of(&self, acl: &Named<'_>, port: &str, key: &FlowKey) -> (Vec<String>, usize) {
        let keeps = self.with("keeps_connections", "port", port).iter().any(|row| row.is("keeps", true));
        let mut ends = Vec::new();
        for (column, table, name, field) in [
            ("from", "acl_from", "acl_source", "source_identity"),
            ("to", "acl_to", "acl_destination", "destination_identity"),
        ] {
            let Some(peer) = self.with(table, "acl", acl.id()).into_iter().next() else { continue };
            let own = self.named_bits(key, field);
            let meets = self.with(name, "acl", acl.id()).iter().any(|row| match row.get("match") {
                Some(Value::Match(of)) => own != Some(0) && of.get().iter().all(|demand| meets(key, demand)),
                _ => false,
            });
            let is_own_end = acl.text("direction").is_some_and(|direction| direction.starts_with(column));
            let of_acl = self.with("own_port", "acl", acl.id());
            let is_own_port = is_own_end && of_acl.iter().any(|row| row.text("port") == Some(port));
            if !meets && !is_own_port {
                ends.push(self.no_member(column, peer.get("peer"), key));
            }
        }
        let packets = self.with("filtered_packets", "acl", acl.id());
        let wanted = packets.iter().filter(|row| row.is("keeps", keeps));
        let unmet = wanted.filter_map(|row| match row.get("match") {
            Some(Value::Match(of)) => {
                Some(of.get().iter().filter(|demand| !meets(key, *demand)).collect::<Vec<Demand>>())
            }
            _ => None,
        });
        let fewest = unmet.min_by_key(Vec::len).unwrap_or_default();
        // A packet of another protocol has no port that could be wanted, so the protocol counts for both.
        let of_protocol = |demand: &Demand| matches!(demand.field, Field::CtNwProto | Field::IpProto);
        let distance = ends.len() + fewest.len() + usize::from(fewest.iter().any(of_protocol));
        let protocol = fewest.iter().find(|demand| of_protocol(demand));
        let field = protocol.or(fewest.first()).map(|demand| self.unmet_field(acl, *demand, key));
        (ends.into_iter().chain(field).collect(), distance)
    }

    /// A field of a packet that an ACL does not want.
    fn unmet_field(&self, acl: &Named<'_>, demand: Demand, key: &FlowKey) -> String {
        let value = key.get(demand.field) & demand.mask;
        let text = self.demand_text(demand.field, value, demand.mask);
        let name = text.split('=').next().unwrap_or_default().trim_start_matches("ct_");
        let found = match demand.field {
            Field::CtNwProto | Field::IpProto => format!("protocol {}", protocol(value)),
            Field::CtTpSrc | Field::CtTpDst => format!("{name} {value}"),
            _ if name.ends_with("_src") || name.ends_with("_dst") => format!("{name} {value}"),
            _ => text.trim_start_matches("ct_").to_owned(),
        };
        let filter = acl.get("match").map(word).unwrap_or_default();
        format!("its field match is {{{filter}}} and the packet has {found}")
    }

    /// An address of a packet does not belong to what an ACL names.
    fn no_member(&self, column: &str, peer: Option<&Value>, key: &FlowKey) -> String {
        let (group, members) = self.peer_words(peer);
        let reply = key.get(Field::CtState) & REPLY != 0;
        let ends = addresses(key).map(|(from, to)| if (column == "from") == reply { to } else { from });
        let Some(ip) = ends else {
            return format!("its field {column} is {group}, and the packet has no IP address");
        };
        let owner = self.port_with(ip);
        let of = owner.as_deref().map_or(String::new(), |port| format!(" of port {port}"));
        let labels = match owner.filter(|_| group.starts_with("ports with labels")) {
            Some(port) => format!(" with {}", self.labels(&port)),
            None => String::new(),
        };
        format!("its field {column} is {group}{members}, to which {ip}{of}{labels} does not belong")
    }

    /// What an ACL names, and the members of a group.
    fn peer_words(&self, peer: Option<&Value>) -> (String, String) {
        let Some(Value::Record(fields)) = peer else { return ("nobody".to_owned(), String::new()) };
        let named = |index: usize| fields.get(index).filter(|value| **value != Value::None);
        let group = |kind: &'static str, id: &Value, column: &str| {
            let id = word(id);
            let members = self.object(kind, &id).map(|group| group.words(column)).unwrap_or_default();
            (format!("{kind} {id}"), format!(" {members}"))
        };
        match (named(0), named(1), named(2), named(3)) {
            (Some(id), ..) => group("address_group", id, "addresses"),
            (_, Some(id), ..) => group("port_group", id, "ports"),
            (_, _, Some(net), _) => (format!("net {}", word(net)), String::new()),
            (.., Some(selector)) => (format!("ports with labels {}", word(selector)), String::new()),
            _ => ("nobody".to_owned(), String::new()),
        }
    }

    /// The labels of a port, for people.
    fn labels(&self, port: &str) -> String {
        let rows = self.with("object_label", "id", port);
        let own = rows.iter().filter(|row| row.text("kind") == Some("switch_port"));
        let own: Vec<Value> = own
            .filter_map(|row| {
                Some(Value::Record([row.get("label")?.clone(), row.get("value")?.clone()].into()))
            })
            .collect();
        if own.is_empty() { "no labels".to_owned() } else { format!("labels {}", words(&own)) }
    }
}

/// A protocol of IP as an ACL names it.
fn protocol(number: u128) -> String {
    match u8::try_from(number) {
        Ok(ICMP) => "icmp".to_owned(),
        Ok(TCP) => "tcp".to_owned(),
        Ok(UDP) => "udp".to_owned(),
        Ok(ICMPV6) => "icmp6".to_owned(),
        _ => number.to_string(),
    }
}

/// Whether a packet has what a match asks for of one field.
fn meets(key: &FlowKey, demand: Demand) -> bool {
    key.get(demand.field) & demand.mask == demand.value
}

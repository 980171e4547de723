//! ACLs and groups as rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::{ObjectKind, Type, Value};

use super::{Add, Rows, add, int, list, prefix, text};
use crate::world::{Acl, AclAction, AclPlace, AclProtocol, Direction, EtherType, PacketMatch, Peers, World};

/// The table of labels, in which every label has a row with the kind and the id of its object.
const LABELS: &str = "object_label";

/// Adds the rows of ACLs, groups and labels.
pub(super) fn filtering(world: &World, kinds: &[ObjectKind], object: &mut Add<'_>) {
    for (name, addresses) in &world.filtering.address_groups {
        let addresses = list(addresses.iter().map(|network| prefix(*network)));
        object("address_group", name, &[("addresses", addresses)]);
    }
    for (name, ports) in &world.filtering.port_groups {
        object("port_group", name, &[("ports", list(ports.iter().map(|port| text(port))))]);
    }
    for (name, acl) in &world.filtering.acls {
        object("acl", name, &fields(acl, kinds));
    }
}

/// Adds the labels of ports.
pub(super) fn labels(world: &World, rows: &mut Rows) {
    for (port, labels) in &world.filtering.labels {
        for (key, value) in labels {
            add(rows, LABELS, vec![text("switch_port"), text(port), text(key), text(value)]);
        }
    }
}

fn fields(acl: &Acl, kinds: &[ObjectKind]) -> Vec<(&'static str, Value)> {
    let place = match &acl.place {
        AclPlace::Switch(switch) => ("switch", text(switch)),
        AclPlace::Port(port) => ("port", text(port)),
        AclPlace::PortGroup(group) => ("port_group", text(group)),
    };
    let direction = match acl.direction {
        Direction::ToPort => "to_port",
        Direction::FromPort => "from_port",
    };
    let action = match acl.action {
        AclAction::Drop => "drop",
        AclAction::Reject => "reject",
        AclAction::AllowRelated => "allow_related",
        AclAction::Allow => "allow",
        AclAction::Pass => "pass",
    };
    let mut fields = vec![
        place,
        ("direction", text(direction)),
        ("tier", int(acl.tier.into())),
        ("priority", Value::Int(acl.priority)),
        ("match", filter(&acl.matches)),
        ("action", text(action)),
    ];
    let declared = kinds.iter().find(|kind| kind.name == "acl");
    for (name, given) in [("from", &acl.from), ("to", &acl.to)] {
        let ty = declared.and_then(|kind| Some(&kind.fields[kind.field(name)?].ty));
        fields.extend(given.iter().zip(ty).map(|(given, ty)| (name, of_type(ty, &peers(given)))));
    }
    fields
}

/// A value whose form a declared type decides.
enum Given<'a> {
    Value(Value),
    Mapping(&'a BTreeMap<String, String>),
    /// A field of a record, whose other fields are absent.
    Field(&'static str, Box<Given<'a>>),
}

fn peers(peers: &Peers) -> Given<'_> {
    let field = |name, given| Given::Field(name, Box::new(given));
    match peers {
        Peers::AddressGroup(group) => field("address_group", Given::Value(text(group))),
        Peers::PortGroup(group) => field("port_group", Given::Value(text(group))),
        Peers::Net(network) => {
            let net = format!("{}/{}", network.ip, network.length).parse().expect("a prefix");
            field("net", Given::Value(Value::Net(net)))
        }
        Peers::Labels(labels) => field("ports", field("labels", Given::Mapping(labels))),
    }
}

fn of_type(ty: &Type, given: &Given<'_>) -> Value {
    match (ty.base(), given) {
        (Type::Opt(inner), given) => of_type(inner, given),
        (Type::Record(record), Given::Field(name, inner)) => {
            let value =
                |(own, ty): &(String, Type)| if own == name { of_type(ty, inner) } else { Value::None };
            assert!(record.field(name).is_some(), "the rules declare no field {name} of {}", record.name);
            Value::Record(record.fields.iter().map(value).collect())
        }
        (Type::Set(_), Given::Mapping(pairs)) => {
            let pair = |(key, value): (&String, &String)| Value::Record([text(key), text(value)].into());
            Value::set(pairs.iter().map(pair))
        }
        (_, Given::Value(value)) => value.clone(),
        (ty, Given::Mapping(_) | Given::Field(..)) => panic!("the rules declare another type of peers: {ty}"),
    }
}

/// The packets that an ACL matches, as users write it.
pub(crate) fn filter_text(matches: &PacketMatch) -> String {
    let ether_type = matches.ether_type.map(|kind| {
        let name = match kind {
            EtherType::Ipv4 => "ip",
            EtherType::Ipv6 => "ipv6",
            EtherType::Arp => "arp",
            EtherType::Rarp => "rarp",
        };
        format!("eth_type={name}")
    });
    let protocol = matches.protocol.map(|protocol| match protocol {
        AclProtocol::Icmp => "ip_proto=icmp".to_owned(),
        AclProtocol::Icmpv6 => "ip_proto=icmp6".to_owned(),
        AclProtocol::Number(number) => format!("ip_proto={number}"),
    });
    let ports =
        |name, range: Option<(u16, u16)>| {
            range.map(|(first, last)| {
                if first == last { format!("{name}={first}") } else { format!("{name}={first}-{last}") }
            })
        };
    let network = |name, network: Option<network_spec::Network>| {
        network.map(|network| format!("{name}={}/{}", network.ip, network.length))
    };
    let items = [
        ether_type,
        protocol,
        network("ip_src", matches.source),
        network("ip_dst", matches.destination),
        ports("tp_src", matches.source_ports),
        ports("tp_dst", matches.destination_ports),
        matches.icmp_type.map(|kind| format!("icmp_type={kind}")),
        matches.icmp_code.map(|code| format!("icmp_code={code}")),
    ];
    items.into_iter().flatten().collect::<Vec<_>>().join(",")
}

fn filter(matches: &PacketMatch) -> Value {
    let said = filter_text(matches);
    let filter = said.parse().unwrap_or_else(|faults| panic!("{said}: {faults}"));
    Value::PacketFilter(Arc::new(filter))
}

/// The default of a switch, if it is not the usual one.
pub(super) fn default_of(world: &World, switch: &str) -> Option<(&'static str, Value)> {
    world.filtering.dropping.contains(switch).then(|| ("acl_default", text("drop")))
}

/// The peers of an ACL as a text.
pub(crate) fn peers_text(peers: &Peers) -> String {
    match peers {
        Peers::AddressGroup(group) => format!("address group {group}"),
        Peers::PortGroup(group) => format!("port group {group}"),
        Peers::Net(network) => format!("{}/{}", network.ip, network.length),
        Peers::Labels(labels) => {
            let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("ports labelled [{}]", labels.join(", "))
        }
    }
}

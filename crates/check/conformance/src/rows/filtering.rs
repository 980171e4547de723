//! ACLs and groups as rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use network_spec::{Acl, AclAction, AclDefault, AclPlace, Direction, PacketMatch, Peers, Switch, World};
use nlog_data::{ObjectKind, Type, Value};

use super::{Add, Rows, add, int, list, prefix, text};

/// The table of labels, in which every label has a row with the kind and the id of its object.
const LABELS: &str = "object_label";

/// Adds the rows of ACLs, groups and labels.
pub(super) fn filtering(world: &World, kinds: &[ObjectKind], object: &mut Add<'_>) {
    for (name, addresses) in &world.address_groups {
        let addresses = list(addresses.iter().map(|network| prefix(*network)));
        object("address_group", name, &[("addresses", addresses)]);
    }
    for (name, ports) in &world.port_groups {
        object("port_group", name, &[("ports", list(ports.iter().map(|port| text(port))))]);
    }
    for (name, acl) in &world.acls {
        object("acl", name, &fields(acl, kinds));
    }
}

/// Adds the labels of ports.
pub(super) fn labels(world: &World, rows: &mut Rows) {
    for (name, port) in &world.ports {
        for (key, value) in &port.labels {
            add(rows, LABELS, vec![text("switch_port"), text(name), text(key), text(value)]);
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
        Peers::Net(network) => field("net", Given::Value(prefix(*network))),
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

fn filter(matches: &PacketMatch) -> Value {
    let said = matches.to_string();
    let filter = said.parse().unwrap_or_else(|faults| panic!("{said}: {faults}"));
    Value::PacketFilter(Arc::new(filter))
}

/// The default of a switch, if it is not the usual one.
pub(super) fn default_of(switch: &Switch) -> Option<(&'static str, Value)> {
    (switch.acl_default == AclDefault::Drop).then(|| ("acl_default", text("drop")))
}

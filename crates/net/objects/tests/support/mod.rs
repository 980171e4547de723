//! The kinds of the built-in rules, as their compiler hands them out; random kinds; a checker of JSON Schema.

pub(crate) mod json_schema;
pub(crate) mod random;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use nlog_data::function::{Function, Multiplicity};
use nlog_data::{
    Condition, Constrained, Constraint, Enumeration, FieldPath, ObjectField, ObjectKind, Record, Results,
    TableId, Type, Unique, Value,
};
use objects::{Batch, Cancel, Kinds, ObjectError, ObjectStore};

pub(crate) fn batch(kinds: &Kinds) -> Batch {
    Batch::new(kinds, Cancel::default())
}

/// A fault whose place is the number of its object instead of a line, which few tests are about.
pub(crate) fn numbered(fault: &ObjectError) -> String {
    let text = fault.to_string();
    match &fault.place {
        Some(place) => {
            let numbered = format!("{}: {} {}", place.document, place.unit, place.number);
            text.replacen(&place.to_string(), &numbered, 1)
        }
        None => text,
    }
}

/// An empty store for the kinds of the built-in rules.
pub(crate) fn empty_store() -> ObjectStore {
    ObjectStore::new(&built_in())
}

/// A condition, with the message for values that do not satisfy it.
type Check = (&'static str, fn(&Value) -> bool);

pub(crate) fn constrained(name: &str, base: Type, range: Option<(i64, i64)>, checks: &[Check]) -> Type {
    let condition = |(message, holds): &Check| {
        let holds = *holds;
        let evaluate = move |arguments: &[Value]| Ok(Results::One(Value::Bool(holds(&arguments[0]))));
        Condition {
            text: "holds(value)".to_owned(),
            message: Some((*message).to_owned()),
            holds: Arc::new(Function {
                name: Cow::Borrowed("holds"),
                parameters: Vec::new(),
                variadic: false,
                results: Vec::new(),
                multiplicity: Multiplicity::One,
                may_fail: false,
                doc: Cow::Borrowed(""),
                examples: Vec::new(),
                definition: Cow::Borrowed(""),
                evaluate: Box::new(evaluate),
            }),
        }
    };
    let ty = Constrained::new(name.to_owned(), base);
    ty.set(Constraint { range, conditions: checks.iter().map(condition).collect() });
    Type::Constrained(Arc::new(ty))
}

pub(crate) fn enumeration(name: &str, members: &[&str]) -> Type {
    let members = members.iter().map(|member| (*member).to_owned()).collect();
    Type::Enum(Arc::new(Enumeration { name: name.to_owned(), members }))
}

pub(crate) fn record(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
    Type::Record(Arc::new(Record { name: name.to_owned(), fields }))
}

pub(crate) fn reference(kinds: &[&str]) -> Type {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    Type::Constrained(Arc::new(Constrained::reference(kinds)))
}

pub(crate) fn mapping(pair: Type) -> Type {
    Type::Constrained(Arc::new(Constrained::mapping(pair)))
}

/// A choice among alternatives of these types.
pub(crate) fn choice(name: &str, alternatives: &[(&str, Type)]) -> Type {
    let fields: Vec<(&str, Type)> =
        alternatives.iter().map(|(name, ty)| (*name, Type::opt(ty.clone()))).collect();
    Type::Constrained(Arc::new(Constrained::choice(record(name, &fields))))
}

/// A field; an optional one has no value by default.
pub(crate) fn field(name: &str, ty: Type, default: Option<Value>) -> ObjectField {
    let default = default.or_else(|| matches!(ty, Type::Opt(_)).then_some(Value::None));
    ObjectField { name: name.to_owned(), ty, default, formers: Vec::new(), doc: format!("The {name}.") }
}

fn formerly(former: &str, field: ObjectField) -> ObjectField {
    ObjectField { formers: vec![former.to_owned()], ..field }
}

/// A kind, whose unique values are given as paths: `switch, addresses.mac`.
pub(crate) fn kind(name: &str, id_space: &str, fields: Vec<ObjectField>, uniques: &[&str]) -> ObjectKind {
    let uniques = uniques.iter().map(|paths| unique(&fields, paths)).collect();
    let (name, id_space, doc) = (name.to_owned(), id_space.to_owned(), format!("Some {name}."));
    ObjectKind { name, table: TableId(0), id_space, fields, uniques, doc }
}

fn unique(fields: &[ObjectField], paths: &str) -> Unique {
    let path = |text: &str| {
        let mut names = text.split('.');
        let first = names.next().expect("a name");
        let at = fields.iter().position(|field| field.name == first).expect("a field");
        let (mut steps, mut ty) = (vec![at], &fields[at].ty);
        for name in names {
            let (at, of) = inner(ty).field(name).expect("a field of the record");
            steps.push(at);
            ty = of;
        }
        FieldPath { steps, text: text.to_owned() }
    };
    Unique { paths: paths.split(", ").map(path).collect() }
}

/// The record inside lists, sets, mappings and optional values.
fn inner(ty: &Type) -> &Record {
    match ty.base() {
        Type::Set(of) | Type::List(of) | Type::Opt(of) => inner(of),
        Type::Record(of) => of,
        other => panic!("{other} has no fields"),
    }
}

fn is_name(value: &Value) -> bool {
    let Value::String(text) = value else { return false };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    (1..=255).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(fits)
}

pub(crate) const NAME: &str =
    "must consist of letters, digits and - _ . : @ and begin with a letter or a digit";

pub(crate) fn name() -> Type {
    constrained("name", Type::String, None, &[(NAME, is_name)])
}

fn interface_ip() -> Type {
    fn ip(value: &Value) -> IpAddr {
        match value {
            Value::Ip(ip) => *ip,
            other => panic!("{other} is no address"),
        }
    }
    constrained(
        "interface_ip",
        Type::Ip,
        None,
        &[
            ("must not be a multicast or broadcast address", |value| {
                !ip(value).is_multicast() && !matches!(ip(value), IpAddr::V4(v4) if v4.is_broadcast())
            }),
            ("must not be the unspecified address", |value| !ip(value).is_unspecified()),
            (
                "must not be an IPv4-mapped address; write the IPv4 address",
                |value| !matches!(ip(value), IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()),
            ),
            ("must not be a loopback address, which other hosts cannot reach", |value| {
                !ip(value).is_loopback()
            }),
        ],
    )
}

fn interface_mac() -> Type {
    fn byte(value: &Value) -> u8 {
        match value {
            Value::Mac(mac) => mac.0[0],
            other => panic!("{other} is no address"),
        }
    }
    constrained(
        "interface_mac",
        Type::Mac,
        None,
        &[
            ("must be unicast (first byte even)", |value| byte(value).is_multiple_of(2)),
            ("must not be the null address", |value| *value != Value::Mac(openflow_rs::MacAddr::default())),
        ],
    )
}

fn endpoint() -> Type {
    constrained(
        "endpoint",
        Type::String,
        None,
        &[("must have the form unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT", |value| {
            let Value::String(text) = value else { return false };
            text.starts_with("unix:/") || text.starts_with("tcp:") && text.matches(':').count() >= 2
        })],
    )
}

fn bridge() -> Type {
    constrained(
        "bridge",
        name(),
        None,
        &[
            (
                "must not be longer than 15 bytes, the maximum for the name of a bridge",
                |value| matches!(value, Value::String(text) if text.len() <= 15),
            ),
            ("must not be `br-int`, which the controller manages", |value| *value != Value::from("br-int")),
        ],
    )
}

fn transport_node() -> ObjectKind {
    let roles = Type::list(enumeration("role", &["hypervisor", "gateway", "service_node"]));
    let encap = enumeration("encap", &["geneve", "vxlan", "gre", "stt"]);
    let encaps = constrained(
        "encaps",
        Type::list(encap),
        None,
        &[
            (
                "must not be empty; omit it to use `geneve`",
                |value| matches!(value, Value::List(values) if !values.is_empty()),
            ),
            ("must not list an encapsulation twice", |value| {
                let Value::List(values) = value else { return false };
                (1..values.len()).all(|at| !values[..at].contains(&values[at]))
            }),
        ],
    );
    let mappings = mapping(record("bridge_mapping", &[("network", name()), ("bridge", bridge())]));
    let fields = vec![
        formerly("role", field("roles", roles, Some(Value::list(["hypervisor".into()])))),
        field("ip", interface_ip(), None),
        field("encaps", encaps, Some(Value::list(["geneve".into()]))),
        field("transport_zone", Type::opt(reference(&["transport_zone"])), None),
        field("bridge_mappings", mappings, Some(Value::set([]))),
        field("ovsdb", Type::opt(endpoint()), None),
        field("openflow", Type::opt(endpoint()), None),
        field("datapath_type", Type::opt(enumeration("datapath_type", &["system", "netdev"])), None),
    ];
    kind("transport_node", "transport_node", fields, &["ip", "ovsdb", "openflow"])
}

fn switch_port() -> ObjectKind {
    let address = record("address", &[("mac", interface_mac()), ("ips", Type::list(interface_ip()))]);
    let vlan = constrained("vlan", Type::Int, Some((1, 4094)), &[]);
    let fields = vec![
        field("switch", reference(&["switch"]), None),
        field("addresses", Type::list(address), Some(Value::list([]))),
        field("port_security", Type::Bool, Some(Value::Bool(false))),
        field("unknown_addresses", Type::Bool, Some(Value::Bool(false))),
        field("parent", Type::opt(reference(&["switch_port"])), None),
        field("tag", Type::opt(vlan), None),
    ];
    let uniques = ["switch, addresses.mac", "switch, addresses.ips", "parent, tag"];
    kind("switch_port", "port", fields, &uniques)
}

/// The kinds of the built-in rules.
pub(crate) fn built_in() -> Kinds {
    let zone = vec![
        field("tunnels", enumeration("tunnel_form", &["flow", "port"]), Some("flow".into())),
        field("mtu", constrained("mtu", Type::Int, Some((1280, 65535)), &[]), Some(Value::Int(1500))),
    ];
    let localnet = vec![
        field("switch", reference(&["switch"]), None),
        formerly("network", field("physical_network", name(), None)),
        field("tag", constrained("frame_tag", Type::Int, Some((0, 4094)), &[]), Some(Value::Int(0))),
    ];
    Kinds::new(vec![
        kind("transport_zone", "transport_zone", zone, &[]),
        transport_node(),
        kind("switch", "switch", vec![field("tenant", Type::opt(name()), None)], &[]),
        switch_port(),
        kind("localnet_port", "port", localnet, &["switch", "physical_network, tag"]),
    ])
}

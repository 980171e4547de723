//! Random kinds, and random documents of their objects.

use nlog_data::{InterfaceAddress, Meaning, ObjectField, ObjectKind, Type, Value};
use objects::Kinds;
use openflow_rs::MacAddr;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value as Json, json};

use super::{choice, constrained, enumeration, field, kind, mapping, name, record, reference};

/// A type that can be the key of a mapping.
fn plain_type() -> impl Strategy<Value = Type> {
    let special = vec![
        constrained("small", Type::Int, Some((-3, 3)), &[]),
        constrained(
            "even",
            constrained("vlan", Type::Int, Some((1, 4094)), &[]),
            Some((0, 100)),
            &[("must be even", |value| matches!(value, Value::Int(n) if n % 2 == 0))],
        ),
        name(),
        reference(&["k0"]),
        reference(&["k1", "k2"]),
        enumeration("colour", &["red", "light \"blue\"", "null", "7"]),
    ];
    let plain = vec![
        Type::Bool,
        Type::Int,
        Type::String,
        Type::Mac,
        Type::Ip,
        Type::Net,
        Type::InterfaceAddress,
        Type::Match,
        Type::Actions,
    ];
    prop_oneof![select(plain), select(special)]
}

pub(crate) fn any_type() -> impl Strategy<Value = Type> {
    // No key of a mapping can be a filter.
    let leaf = prop_oneof![9 => plain_type(), 1 => Just(Type::PacketFilter)];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let optional = inner.clone().prop_map(|ty| match ty.base() {
            Type::Opt(_) => ty,
            _ => Type::opt(ty),
        });
        let fields = prop::collection::vec(inner.clone(), 1..4);
        let of_fields = fields.prop_map(|types| {
            let fields: Vec<(&str, Type)> = ["a", "b", "c"].into_iter().zip(types).collect();
            record("some", &fields)
        });
        let pairs = (plain_type(), inner.clone())
            .prop_map(|(key, value)| mapping(record("pair", &[("key", key), ("value", value)])));
        let choices = prop::collection::vec(inner.clone(), 2..4).prop_map(of_alternatives);
        let short = inner.clone().prop_map(|ty| {
            let is_short = |value: &Value| matches!(value, Value::List(values) if values.len() < 3);
            constrained("short", Type::list(ty), None, &[("must have at most two", is_short)])
        });
        let sets = inner.clone().prop_map(Type::set);
        prop_oneof![inner.prop_map(Type::list), sets, optional, of_fields, pairs, choices, short]
    })
}

/// A choice among these types, of which one is a list at most and one an enumeration, and none is optional.
fn of_alternatives(types: Vec<Type>) -> Type {
    let (mut has_list, mut has_word) = (false, false);
    let alternatives: Vec<(&str, Type)> = ["a", "b", "c"]
        .into_iter()
        .zip(types)
        .map(|(name, ty)| {
            let (is_list, is_word) = (ty.elements().is_some(), matches!(ty.base(), Type::Enum(_)));
            let is_other =
                matches!(ty.base(), Type::Opt(_)) || (is_list && has_list) || (is_word && has_word);
            has_list |= is_list;
            has_word |= is_word;
            (name, if is_other { Type::Mac } else { ty })
        })
        .collect();
    choice("one", &alternatives)
}

/// A value of a type.
pub(crate) fn any_value(ty: &Type) -> BoxedStrategy<Value> {
    let several = |ty: &Type| prop::collection::vec(any_value(ty), 0..3);
    match ty {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Int => any::<i64>().prop_map(Value::Int).boxed(),
        Type::String => any_text().prop_map(Value::from).boxed(),
        Type::Mac => any::<[u8; 6]>().prop_map(|bytes| Value::Mac(MacAddr(bytes))).boxed(),
        Type::Ip => any::<std::net::IpAddr>().prop_map(Value::Ip).boxed(),
        Type::Net => (any::<std::net::IpAddr>(), 0..=128u8).prop_map(|(ip, length)| net(ip, length)).boxed(),
        Type::InterfaceAddress => (any::<std::net::IpAddr>(), 0..=128u8)
            .prop_map(|(ip, length)| {
                let length = if ip.is_ipv4() { length / 4 } else { length };
                InterfaceAddress::new(ip, length).expect("a length that fits").into()
            })
            .boxed(),
        Type::Match => (0..16u8, any::<u32>())
            .prop_map(|(register, value)| text_value(&Type::Match, &format!("reg{register}={value:#x}")))
            .boxed(),
        Type::Actions => {
            (1..10u16).prop_map(|port| text_value(&Type::Actions, &format!("output:{port}"))).boxed()
        }
        Type::PacketFilter => {
            let texts = vec!["", "ip_proto=tcp,tp_dst=22", "ip_src=10.0.9.0/24,tcp_src=0x50-90", "arp_op=1"];
            let texts = prop_oneof![
                select(texts).prop_map(String::from),
                any::<std::net::IpAddr>().prop_map(|ip| format!("ip_dst={ip},nw_ttl=1"))
            ];
            texts.prop_map(|text| text_value(&Type::PacketFilter, &text)).boxed()
        }
        Type::Enum(of) => select(of.members.clone()).prop_map(Value::from).boxed(),
        Type::Opt(of) => prop_oneof![Just(Value::None), any_value(of)].boxed(),
        Type::List(of) => several(of).prop_map(Value::list).boxed(),
        Type::Set(of) => several(of).prop_map(Value::set).boxed(),
        Type::Record(of) => {
            let fields: Vec<_> = of.fields.iter().map(|(_, ty)| any_value(ty)).collect();
            fields.prop_map(Value::record).boxed()
        }
        Type::Constrained(of) => match &of.meaning {
            Meaning::Reference(_) => (0..4).prop_map(|n| Value::from(format!("o{n}"))).boxed(),
            Meaning::Mapping => any_value(&of.base).prop_map(distinct).boxed(),
            Meaning::Choice => {
                let alternatives = ty.alternatives().expect("a record").fields.clone();
                let given = select((0..alternatives.len()).collect::<Vec<_>>());
                given.prop_flat_map(move |given| only(&alternatives, given)).boxed()
            }
            Meaning::Value => match of.name.as_str() {
                "small" => (-3..=3i64).prop_map(Value::Int).boxed(),
                "even" => (1..50i64).prop_map(|n| Value::Int(2 * n)).boxed(),
                "name" => "[a-z][a-z0-9_.:@-]{0,5}".prop_map(Value::from).boxed(),
                _ => any_value(&of.base).boxed(),
            },
        },
    }
}

/// A choice of one alternative.
fn only(alternatives: &[(String, Type)], given: usize) -> impl Strategy<Value = Value> + use<> {
    let (count, ty) = (alternatives.len(), alternatives[given].1.clone());
    let Type::Opt(of) = ty.base() else { panic!("{ty} is not optional") };
    any_value(of).prop_map(move |value| {
        let mut values = vec![Value::None; count];
        values[given] = value;
        Value::record(values)
    })
}

fn any_text() -> impl Strategy<Value = String> {
    // A text of an object is one line, without characters that change how a terminal shows it.
    let line = ".{0,8}".prop_map(|text: String| text.replace(nlog_data::quotation::is_odd, ""));
    prop_oneof![
        line,
        select(vec!["", "null", "~", "true", "0x1f", "1.0", "- a", "a: b", "#", "off"])
            .prop_map(String::from)
    ]
}

fn net(ip: std::net::IpAddr, length: u8) -> Value {
    let length = if ip.is_ipv4() { length / 4 } else { length };
    Value::from(ipnet::IpNet::new(ip, length).expect("a length that fits"))
}

fn text_value(ty: &Type, text: &str) -> Value {
    ty.parse_text(text).expect("a text of the type")
}

/// The pairs of a mapping, each key once.
fn distinct(pairs: Value) -> Value {
    let Value::Set(pairs) = pairs else { panic!("{pairs} is no mapping") };
    let mut kept: Vec<Value> = Vec::new();
    let key = |pair: &Value| match pair {
        Value::Record(fields) => fields[0].clone(),
        other => panic!("{other} is no pair"),
    };
    for pair in pairs.iter() {
        if kept.iter().all(|other| key(other) != key(pair)) {
            kept.push(pair.clone());
        }
    }
    Value::set(kept)
}

/// A value as a document can have it.
pub(crate) fn document(ty: &Type, value: &Value) -> Json {
    let text = |value: &Value| match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::String(text) => text.to_string(),
        Value::Mac(value) => value.to_string(),
        Value::Ip(value) => value.to_string(),
        Value::Net(value) => value.to_string(),
        Value::InterfaceAddress(value) => value.to_string(),
        Value::Match(value) => value.text().into_owned(),
        Value::Actions(value) => value.text().into_owned(),
        other => panic!("{other} has no text"),
    };
    match (ty, value) {
        (Type::Constrained(of), Value::Set(pairs)) if of.meaning == Meaning::Mapping => {
            let Type::Set(element) = of.base.base() else { panic!("{ty}") };
            let Type::Record(record) = element.base() else { panic!("{ty}") };
            let entry = |pair: &Value| match pair {
                Value::Record(pair) => (text(&pair[0]), document(&record.fields[1].1, &pair[1])),
                other => panic!("{other} is no pair"),
            };
            Json::Object(pairs.iter().map(entry).collect())
        }
        (Type::Constrained(of), Value::Record(values)) if of.meaning == Meaning::Choice => {
            let Type::Record(record) = of.base.base() else { panic!("{ty}") };
            let mut given =
                record.fields.iter().zip(values.iter()).filter(|(_, value)| **value != Value::None);
            let ((name, ty), value) = given.next().expect("an alternative");
            assert!(given.next().is_none(), "one alternative");
            let is_word = matches!(ty.base(), Type::Opt(of) if matches!(of.base(), Type::Enum(_)));
            match document(ty, value) {
                // A list and a word need no name. Some have one.
                Json::Array(items) if items.len() != 1 => items.into(),
                Json::String(word) if is_word && word != "red" => word.into(),
                other => json!({name: other}),
            }
        }
        (Type::Constrained(of), value) => document(&of.base, value),
        (_, Value::None) => Json::Null,
        (_, Value::PacketFilter(filter)) => {
            let items = filter.items().map(|(name, text)| (name.to_owned(), Json::String(text)));
            items.collect::<Map<_, _>>().into()
        }
        (Type::Opt(of), value) => document(of, value),
        (_, Value::Bool(value)) => json!(value),
        (_, Value::Int(value)) => json!(value),
        (Type::Set(of) | Type::List(of), Value::Set(values) | Value::List(values)) => {
            values.iter().map(|value| document(of, value)).collect()
        }
        (Type::Record(of), Value::Record(values)) => {
            let fields = of.fields.iter().zip(values.iter());
            fields
                .map(|((name, ty), value)| (name.clone(), document(ty, value)))
                .collect::<Map<_, _>>()
                .into()
        }
        (_, value) => Json::String(text(value)),
    }
}

fn any_field(name: String) -> impl Strategy<Value = ObjectField> {
    any_type().prop_flat_map(|ty| (prop::option::of(any_value(&ty)), Just(ty))).prop_flat_map(
        move |(default, ty)| {
            let field = field(&name, ty, default);
            let formers = vec![
                Vec::new(),
                vec![format!("old_{name}")],
                vec![format!("old_{name}"), format!("{name}s")],
            ];
            select(formers).prop_map(move |formers| ObjectField { formers, ..field.clone() })
        },
    )
}

fn any_kind(name: &'static str) -> impl Strategy<Value = ObjectKind> {
    let fields: Vec<_> = (0..4).map(|at| any_field(format!("f{at}"))).collect();
    let uniques = vec![&[][..], &["f0"], &["f0, f1"], &["f2", "f1, f3"]];
    (fields, 1..5usize, select(uniques), prop::bool::ANY).prop_map(
        move |(mut fields, count, uniques, alone)| {
            let needed = uniques.iter().any(|paths| paths.contains("f1") || paths.contains("f2"));
            fields.truncate(if needed { 4 } else { count });
            kind(name, if alone { name } else { "shared" }, fields, uniques)
        },
    )
}

pub(crate) fn any_kinds() -> impl Strategy<Value = Kinds> {
    (any_kind("k0"), any_kind("k1"), any_kind("k2")).prop_map(|(a, b, c)| Kinds::new(vec![a, b, c]))
}

/// A valid document, and the row that it means.
pub(crate) fn any_document(kinds: &Kinds) -> impl Strategy<Value = (Json, Vec<Value>)> + use<> {
    select(kinds.iter().cloned().collect::<Vec<_>>()).prop_flat_map(|kind| {
        let values: Vec<_> = kind.declared().fields.iter().map(|field| any_value(&field.ty)).collect();
        let ways = prop::collection::vec(any::<Index>(), values.len());
        let labels = prop::collection::btree_map("[a-z]{1,3}", "[ -~]{0,5}", 0..2);
        (0..4, values, ways, labels).prop_map(move |(id, values, ways, labels)| {
            let id = format!("o{id}");
            let mut map = Map::new();
            map.insert("kind".to_owned(), kind.name().into());
            map.insert("id".to_owned(), id.as_str().into());
            if !labels.is_empty() {
                map.insert("labels".to_owned(), json!(labels));
            }
            let mut row = vec![Value::from(id)];
            for ((field, value), way) in kind.declared().fields.iter().zip(values).zip(ways) {
                let names: Vec<&String> = std::iter::once(&field.name).chain(&field.formers).collect();
                match (&field.default, way.index(names.len() + 1)) {
                    (Some(default), 0) => row.push(default.clone()),
                    (_, way) => {
                        let name = names[way.saturating_sub(1)];
                        map.insert(name.clone(), document(&field.ty, &value));
                        row.push(value);
                    }
                }
            }
            (map.into(), row)
        })
    })
}

/// Some JSON, to put in the place of another.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        Just(json!(u64::MAX)),
        Just(json!(1.0)),
        Just(json!(0.5)),
        any_text().prop_map(Json::from),
        select(vec![
            "k0",
            "o1",
            "10.0.0.1",
            "10.0.0.1/8",
            "fd00::1/64",
            "02:00:00:00:00:01",
            "reg0=1",
            "80-90",
            "red"
        ])
        .prop_map(Json::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let names = select(vec![
            "tp_dst", "ip_proto", "reg0", "a", "b", "key", "f0", "old_f0", "delete", "revision", "1",
        ])
        .prop_map(String::from);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            prop::collection::btree_map(names, inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// A change of a document: a place, what to do there, and something to put there.
pub(crate) type Mutation = (Index, u8, Json);

pub(crate) fn any_mutation() -> impl Strategy<Value = Mutation> {
    (any::<Index>(), 0..5u8, any_json())
}

fn count(json: &Json) -> usize {
    1 + match json {
        Json::Array(items) => items.iter().map(count).sum(),
        Json::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

pub(crate) fn mutate(json: &mut Json, (place, what, new): Mutation) {
    let at = place.index(count(json));
    mutate_at(json, at, what, new);
}

fn mutate_at(json: &mut Json, mut at: usize, what: u8, new: Json) {
    if at == 0 {
        match (what, json) {
            (1, Json::Array(items)) => drop(items.pop()),
            (2, Json::Array(items)) => items.push(new),
            (1, Json::Object(map)) => drop(map.pop_first_member()),
            (2, Json::Object(map)) => drop(map.insert("old_f1".to_owned(), new)),
            (3, Json::Object(map)) => drop(map.insert("more".to_owned(), new)),
            (4, Json::Object(map)) => drop(map.insert("revision".to_owned(), new)),
            (_, json) => *json = new,
        }
        return;
    }
    at -= 1;
    let parts: Vec<&mut Json> = match json {
        Json::Array(items) => items.iter_mut().collect(),
        Json::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    };
    for part in parts {
        let size = count(part);
        if at < size {
            return mutate_at(part, at, what, new);
        }
        at -= size;
    }
}

/// Removal of some member.
trait PopMember {
    fn pop_first_member(&mut self) -> Option<Json>;
}

impl PopMember for Map<String, Json> {
    fn pop_first_member(&mut self) -> Option<Json> {
        let name = self.keys().find(|name| *name != "kind" && *name != "id")?.clone();
        self.remove(&name)
    }
}

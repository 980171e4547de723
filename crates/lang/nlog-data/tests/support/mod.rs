//! Random types, values and rows, shared by the tests.
// Each test module uses only some of them.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use nlog_data::{Enumeration, InterfaceAddress, Record, Row, Type, Value};
use openflow_rs::{Actions, MacAddr, Match};
use packet_filter::PacketFilter;
use proptest::prelude::*;

/// A few hundred cases. Failures are not written to files; a failure prints its smallest case.
pub fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, ..ProptestConfig::default() }
}

pub fn any_type() -> impl Strategy<Value = Type> {
    let scalar = prop::sample::select(vec![
        Type::Bool,
        Type::Int,
        Type::String,
        Type::Mac,
        Type::Ip,
        Type::Net,
        Type::InterfaceAddress,
        Type::Match,
        Type::Actions,
        Type::PacketFilter,
        Type::Enum(Arc::new(Enumeration {
            name: "encap".into(),
            members: vec!["geneve".into(), "vx \"lan\"".into()],
        })),
    ]);
    scalar.prop_recursive(2, 4, 2, |inner| {
        let optional = inner.clone().prop_map(|ty| match ty {
            Type::Opt(_) => ty,
            ty => Type::opt(ty),
        });
        let record = (inner.clone(), inner.clone()).prop_map(|(a, b)| {
            Type::Record(Arc::new(Record {
                name: "pair".into(),
                fields: vec![("a".into(), a), ("b".into(), b)],
            }))
        });
        prop_oneof![inner.clone().prop_map(Type::set), inner.prop_map(Type::list), optional, record]
    })
}

pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,8}", "[a-c]", prop::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter)]
}

pub fn any_match() -> impl Strategy<Value = Match> {
    (0..16u8, any::<u32>(), any::<bool>()).prop_map(|(n, value, arp)| {
        let text =
            format!("reg{n}={value:#x},metadata=0x7{}", if arp { ",arp,arp_tpa=10.0.0.1" } else { "" });
        text.parse().expect("a match")
    })
}

pub fn any_actions() -> impl Strategy<Value = Actions> {
    (0..16u8, any::<u32>(), 0..255u8).prop_map(|(n, value, table)| {
        format!("set_field:{value:#x}->reg{n},resubmit(,{table})").parse().expect("actions")
    })
}

pub fn any_filter() -> impl Strategy<Value = PacketFilter> {
    let port = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let tcp = port.prop_map(|ports| format!("ip_proto=tcp,tp_dst={ports}"));
    let net = any::<IpAddr>().prop_map(|ip| format!("ip_src={ip}"));
    let text = prop_oneof![Just(String::new()), tcp, net, Just("eth_type=arp,arp_op=1".to_string())];
    text.prop_map(|text| text.parse().expect("a filter"))
}

/// A value of the type; small values are likely to meet again.
pub fn value_of(ty: &Type) -> BoxedStrategy<Value> {
    match ty {
        Type::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Type::Int => prop_oneof![any::<i64>(), -2..3i64].prop_map(Value::from).boxed(),
        Type::String => any_text().prop_map(Value::from).boxed(),
        Type::Mac => any::<[u8; 6]>().prop_map(|bytes| MacAddr(bytes).into()).boxed(),
        Type::Ip => any::<IpAddr>().prop_map(Value::from).boxed(),
        Type::Net => (any::<IpAddr>(), 0..=128u8)
            .prop_map(|(ip, length)| {
                let length = if ip.is_ipv4() { length % 33 } else { length };
                Value::from(IpNet::new(ip, length).expect("a prefix length"))
            })
            .boxed(),
        Type::InterfaceAddress => (any::<IpAddr>(), 0..=128u8)
            .prop_map(|(ip, length)| {
                let length = if ip.is_ipv4() { length % 33 } else { length };
                InterfaceAddress::new(ip, length).expect("a prefix length").into()
            })
            .boxed(),
        Type::Match => any_match().prop_map(Value::from).boxed(),
        Type::Actions => any_actions().prop_map(Value::from).boxed(),
        Type::PacketFilter => any_filter().prop_map(Value::from).boxed(),
        Type::Set(of) => prop::collection::vec(value_of(of), 0..4).prop_map(Value::set).boxed(),
        Type::List(of) => prop::collection::vec(value_of(of), 0..4).prop_map(Value::list).boxed(),
        Type::Opt(of) => prop_oneof![Just(Value::None), value_of(of)].boxed(),
        Type::Enum(of) => prop::sample::select(of.members.clone()).prop_map(Value::from).boxed(),
        Type::Record(of) => {
            let fields: Vec<_> = of.fields.iter().map(|(_, ty)| value_of(ty)).collect();
            fields.prop_map(Value::record).boxed()
        }
        Type::Constrained(of) => {
            let held = ty.clone();
            value_of(&of.base).prop_filter("in the type", move |value| held.admits(value)).boxed()
        }
    }
}

pub fn row_of(types: &[Type]) -> BoxedStrategy<Row> {
    types.iter().map(value_of).collect::<Vec<_>>().boxed()
}

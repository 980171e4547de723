//! Types, and a few values of each for rows and programs, so that rows join.

use std::sync::Arc;

use nlog_data::types::{Enumeration, Record};
use nlog_data::{Type, Value, literal};

use super::Random;

const TEXTS: [&str; 4] = ["a", "b", "1", ""];
/// Mostly small integers, with some at the limits of symbols and some at the limits of 64 bits.
const INTEGERS: [i64; 12] = [0, 0, 1, 1, 2, 2, 3, 3, -1, 1 << 30, i64::MAX, i64::MIN];
const MACS: [&str; 3] = ["02:00:00:00:00:01", "02:00:00:00:00:02", "ff:ff:ff:ff:ff:ff"];
const IPS: [&str; 4] = ["10.0.0.1", "10.0.0.2", "10.0.1.255", "fd00::1"];
const NETS: [&str; 4] = ["10.0.0.0/24", "10.0.0.0/8", "10.0.0.1/32", "fd00::/64"];
const INTERFACES: [&str; 4] = ["10.0.0.0/24", "10.0.0.1/24", "10.0.0.1/32", "fd00::1/64"];
const MATCHES: [&str; 4] = ["", "reg0=0x1", "tcp,tp_dst=80", "in_port=1"];
const FILTERS: [&str; 4] = ["", "ip_proto=tcp,tp_dst=22", "ip_proto=udp,tp_dst=53-54", "ip_src=10.0.0.0/24"];
const ACTIONS: [&str; 3] = ["drop", "output:1", "set_field:0x1->reg0,resubmit(,5)"];

/// The types that a program declares.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared {
    pub(crate) enumerations: Vec<Type>,
    pub(crate) records: Vec<Type>,
    /// Other names of `int`, and constrained types of integers.
    pub(crate) aliases: Vec<String>,
}

impl Declared {
    pub(crate) fn random(random: &mut Random) -> Self {
        let mut declared = Declared::default();
        for number in 0..random.below(3) {
            let members = ["a", "b", "c", "1"][..2 + random.below(3) as usize].iter();
            let members = members.map(|member| (*member).to_owned()).collect();
            let enumeration = Enumeration { name: format!("e{number}"), members };
            declared.enumerations.push(Type::Enum(Arc::new(enumeration)));
        }
        for number in 0..random.below(3) {
            let fields = (0..=random.below(3)).map(|at| (format!("f{at}"), declared.column(random)));
            let record = Record { name: format!("r{number}"), fields: fields.collect() };
            declared.records.push(Type::Record(Arc::new(record)));
        }
        declared.aliases = (0..random.below(2)).map(|number| format!("a{number}")).collect();
        declared
    }

    /// The declarations as text.
    pub(crate) fn statements(&self) -> Vec<String> {
        // Not drawn, so that seeds of older failures keep their programs.
        let constraint = if self.enumerations.len() == 1 { " -4..100 where value != 5" } else { "" };
        let mut statements: Vec<String> =
            self.aliases.iter().map(|name| format!("type {name} = int{constraint};")).collect();
        for ty in self.enumerations.iter().chain(&self.records) {
            statements.push(match ty {
                Type::Enum(of) => {
                    let members: Vec<String> =
                        of.members.iter().map(|member| format!("{member:?}")).collect();
                    format!("type {} = enum {{{}}};", of.name, members.join(", "))
                }
                Type::Record(of) => {
                    let fields: Vec<String> =
                        of.fields.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
                    format!("type {} = record {{{}}};", of.name, fields.join(", "))
                }
                _ => unreachable!("only these are declared"),
            });
        }
        statements
    }

    /// The type of a column.
    pub(crate) fn column(&self, random: &mut Random) -> Type {
        let one_of = |random: &mut Random, types: &[Type]| match types {
            [] => Type::Int,
            types => random.pick(types).clone(),
        };
        match random.below(100) {
            0..50 => Type::Int,
            50..65 => Type::String,
            65..69 => Type::Bool,
            69..72 => Type::Ip,
            72..74 => Type::Mac,
            74..75 => Type::Net,
            75..76 => Type::InterfaceAddress,
            76..80 => Type::Match,
            80..83 => Type::Actions,
            83..84 => Type::PacketFilter,
            84..87 => one_of(random, &self.enumerations),
            87..91 => one_of(random, &self.records),
            91..95 => match self.column(random) {
                opt @ Type::Opt(_) => opt,
                of => Type::opt(of),
            },
            95..98 => Type::set(self.scalar(random)),
            _ => Type::list(self.scalar(random)),
        }
    }

    fn scalar(&self, random: &mut Random) -> Type {
        match random.below(6) {
            0..4 => Type::Int,
            4 => Type::String,
            _ => match self.enumerations.first() {
                Some(ty) => ty.clone(),
                None => Type::Ip,
            },
        }
    }

    /// The type's name in the program.
    pub(crate) fn name(&self, random: &mut Random, ty: &Type) -> String {
        match (ty, self.aliases.first()) {
            (Type::Int, Some(alias)) if random.chance(30) => alias.clone(),
            _ => ty.to_string(),
        }
    }
}

/// A value of a type.
pub(crate) fn value(random: &mut Random, ty: &Type) -> Value {
    let mut parsed = |prefix: &str, texts: &[&str]| {
        let text = format!("{prefix}{:?}", random.pick(texts));
        literal::parse(&text).expect("the literals above are right")
    };
    match ty {
        Type::Int => Value::Int(*random.pick(&INTEGERS)),
        Type::Bool => Value::Bool(random.chance(50)),
        Type::String => Value::String((*random.pick(&TEXTS)).into()),
        Type::Mac => parsed("mac", &MACS),
        Type::Ip => parsed("ip", &IPS),
        Type::Net => parsed("net", &NETS),
        Type::InterfaceAddress => parsed("interface_address", &INTERFACES),
        Type::Match => parsed("match", &MATCHES),
        Type::Actions => parsed("actions", &ACTIONS),
        Type::PacketFilter => parsed("packet_filter", &FILTERS),
        Type::Enum(of) => Value::String(random.pick(&of.members).as_str().into()),
        Type::Record(of) => Value::record(of.fields.iter().map(|(_, ty)| value(random, ty))),
        Type::Opt(_) if random.chance(40) => Value::None,
        Type::Opt(of) => value(random, of),
        Type::Set(of) => Value::set((0..random.below(4)).map(|_| value(random, of)).collect::<Vec<_>>()),
        Type::List(of) => Value::list((0..random.below(4)).map(|_| value(random, of)).collect::<Vec<_>>()),
        Type::Constrained(of) => value(random, &of.base),
    }
}

/// A value, written for a place where its type is known. It contains nothing that can fail.
pub(crate) fn written(random: &mut Random, ty: &Type) -> String {
    match ty {
        Type::Int => random.pick(&INTEGERS[..9]).to_string(),
        Type::Enum(_) => value(random, ty).to_string(),
        Type::Record(of) => {
            let fields: Vec<String> =
                of.fields.iter().map(|(name, ty)| format!("{name}: {}", written(random, ty))).collect();
            format!("{}{{{}}}", of.name, fields.join(", "))
        }
        Type::Opt(_) if random.chance(30) => "none()".to_owned(),
        Type::Opt(of) => format!("some({})", written(random, of)),
        Type::Set(of) => {
            let values: Vec<String> = (0..=random.below(2)).map(|_| written(random, of)).collect();
            format!("{{{}}}", values.join(", "))
        }
        Type::List(of) => {
            let values: Vec<String> = (0..=random.below(2)).map(|_| written(random, of)).collect();
            format!("[{}]", values.join(", "))
        }
        _ => value(random, ty).to_string(),
    }
}

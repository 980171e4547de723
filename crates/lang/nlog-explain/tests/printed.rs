//! Rows that answers print are read back as they were, whatever their types.

use std::sync::Arc;

use nlog::program::{Pattern, Program};
use nlog::{Sources, compile};
use nlog_data::{Column, Enumeration, Record, Role, Schema, Table, TableId, Type, Value};
use nlog_explain::{explanation, printed};
use proptest::prelude::*;

/// A program with one table of columns of these types.
fn program(types: Vec<Type>) -> Program {
    let compilation = compile(&Sources::from_texts([("main.nlog", "input table other(x: int);")]));
    let whole = compilation.program.expect("a program");
    let columns = (0..).zip(types).map(|(at, ty)| Column { name: format!("c{at}"), ty }).collect();
    let table = Table {
        name: "t".to_owned(),
        role: Role::Input,
        columns,
        key: None,
        uniques: Vec::new(),
        doc: String::new(),
    };
    Program { schema: Arc::new(Schema::new(vec![table])), ..Program::clone(&whole) }
}

/// Values that are written as text of their type.
fn texts() -> impl Strategy<Value = (Type, Value)> {
    let of = |ty: Type, texts: &'static [&'static str]| {
        let read = move |text: &str| (ty.clone(), ty.parse_text(text).expect("a value"));
        prop::sample::select(texts).prop_map(read)
    };
    prop_oneof![
        of(Type::Mac, &["02:00:00:00:00:01"]),
        of(Type::Ip, &["10.0.0.1", "fd00::1"]),
        of(Type::Net, &["10.0.0.0/8", "::/0"]),
        of(Type::InterfaceAddress, &["10.0.0.1/8"]),
        of(Type::Match, &["reg1=0x1a", "tcp,tp_dst=22"]),
        of(Type::Actions, &["output:3", "set_field:0x1->reg1,output:3"]),
        of(Type::PacketFilter, &["ip_proto=tcp,tp_dst=22"]),
    ]
}

fn typed() -> impl Strategy<Value = (Type, Value)> {
    let color =
        Enumeration { name: "color".to_owned(), members: vec!["red".to_owned(), "_none, )".to_owned()] };
    let color = Type::Enum(Arc::new(color));
    let leaf = prop_oneof![
        any::<bool>().prop_map(|value| (Type::Bool, Value::Bool(value))),
        any::<i64>().prop_map(|value| (Type::Int, Value::Int(value))),
        "[a-z\"\\\\,(){}_ é\n]{0,6}".prop_map(|text| (Type::String, Value::from(text.as_str()))),
        prop::sample::select(vec!["red", "_none, )"])
            .prop_map(move |text| (color.clone(), Value::from(text))),
        texts(),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), any::<bool>()).prop_map(|((ty, value), some)| match ty {
                Type::Opt(_) => (ty, value),
                ty => (Type::opt(ty), if some { value } else { Value::None }),
            }),
            (inner.clone(), 0..3_usize)
                .prop_map(|((ty, value), count)| (Type::list(ty), Value::list(vec![value; count]))),
            (inner.clone(), 0..2_usize)
                .prop_map(|((ty, value), count)| (Type::set(ty), Value::set(vec![value; count]))),
            prop::collection::vec(inner, 1..3).prop_map(|fields| {
                let (types, values): (Vec<Type>, Vec<Value>) = fields.into_iter().unzip();
                let fields = (0..).zip(types).map(|(at, ty): (u32, Type)| (format!("f{at}"), ty)).collect();
                (Type::Record(Arc::new(Record { name: "record".to_owned(), fields })), Value::record(values))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a12_what_is_printed_is_read(cells in prop::collection::vec((typed(), any::<bool>()), 1..4)) {
        let (types, values): (Vec<Type>, Vec<Value>) = cells.iter().map(|(cell, _)| cell.clone()).unzip();
        let program = program(types);
        let table = TableId(0);
        let text = explanation::atom(&program, table, &values);
        prop_assume!(!text.contains("bytes)"));
        let whole = Pattern { table, columns: values.iter().cloned().map(Some).collect() };
        prop_assert_eq!(printed::pattern(&program, &text), Some(whole), "{}", text);
        let shown = cells.iter().map(|((_, value), is_shown)| is_shown.then(|| value.clone()));
        let part = Pattern { table, columns: shown.collect() };
        let text = explanation::pattern(&program, &part);
        prop_assert_eq!(printed::pattern(&program, &text), Some(part), "{}", text);
    }
}

#[test]
fn a12_what_is_not_printed_so_is_no_row() {
    let program = program(vec![Type::opt(Type::Int), Type::String]);
    let columns = |text: &str| printed::pattern(&program, text).map(|pattern| pattern.columns);
    assert_eq!(columns("t(5, ..);"), Some(vec![Some(Value::Int(5)), None]));
    assert_eq!(columns(" t(none,_name)"), Some(vec![Some(Value::None), None]));
    for other in [
        "t(5)",
        "t(5, 6, 7)",
        "t(\"5\", \"x\")",
        "u(5, \"x\")",
        "t(5, x)",
        "t(some(5), \"x\")",
        "t(5, \"x\"",
        "t(5, \"x)",
        "t",
        "t(5, \"x\"), t(6, _)",
    ] {
        assert_eq!(columns(other), None, "{other}");
    }
}

//! Lines of transactions take memory in proportion to their bytes, whatever they contain.

use std::sync::Arc;

use nlog_data::json::{parse_line, parse_line_columns};
use nlog_data::{Column, Record, Role, Schema, Table, Type};

/// What members that are no rows take for each byte: a mapping of one field is a node of a tree with room for eleven. Those of a line
/// are what its author writes beside the rows, for people.
const OF_OTHERS: usize = 90;
/// What any line takes: the text of an error, and empty tables.
const ANY_LINE: usize = 64 << 10;

fn schema() -> Schema {
    let pair = Type::Record(Arc::new(Record {
        name: "pair".into(),
        fields: vec![("a".into(), Type::Int), ("b".into(), Type::opt(Type::String))],
    }));
    let table = |name: &str, types: &[Type]| {
        let columns =
            types.iter().zip('a'..).map(|(ty, name)| Column { name: name.to_string(), ty: ty.clone() });
        let columns = columns.collect();
        Table {
            name: name.to_owned(),
            role: Role::Input,
            columns,
            key: None,
            uniques: Vec::new(),
            doc: String::new(),
        }
    };
    Schema::new(vec![
        table("n", &[]),
        table("i", &[Type::Int]),
        table("o", &[Type::opt(Type::Int)]),
        table("s", &[Type::String]),
        table("p", &[Type::Ip]),
        table("m", &[Type::Match]),
        table("x", &[Type::Actions]),
        table("f", &[Type::PacketFilter]),
        table("l", &[Type::list(Type::Int)]),
        table("t", &[Type::set(Type::String)]),
        table("d", &[Type::list(Type::list(Type::list(Type::Int)))]),
        table("r", &[Type::list(pair)]),
    ])
}

/// Lines of some hundred kilobytes, each made to take as much memory as it can.
fn worst() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (table, row) in [
        ("n", "[]"),
        ("i", "[0]"),
        ("o", "[null]"),
        ("s", "[\"\"]"),
        ("s", "[\"a\"]"),
        ("p", "[\"::\"]"),
        ("m", "[\"\"]"),
        ("m", "[\"ip\"]"),
        ("x", "[\"\"]"),
        ("x", "[\"drop\"]"),
        ("x", "[\"exit\"]"),
        ("f", "[\"\"]"),
        ("l", "[[]]"),
        ("l", "[[0]]"),
        ("t", "[[]]"),
        ("t", "[[\"\"]]"),
        ("d", "[[]]"),
        ("d", "[[[]]]"),
        ("d", "[[[[]]]]"),
        ("d", "[[[[0]]]]"),
        ("r", "[[]]"),
        ("r", "[[[0,null]]]"),
        ("i", "[]"),
        ("i", "[{}]"),
        ("i", "{}"),
        ("none", "[]"),
        ("none", "[{\"a\":0}]"),
    ] {
        let rows = vec![row; 200_000 / (row.len() + 1)].join(",");
        lines.push((format!("rows {row} of {table}"), format!("{{\"insert\":{{\"{table}\":[{rows}]}}}}")));
    }
    for (table, element) in [
        ("l", "0"),
        ("t", "\"\""),
        ("d", "[]"),
        ("d", "[[]]"),
        ("d", "[[0]]"),
        ("r", "[0,null]"),
        ("r", "[0,\"\"]"),
        ("r", "[]"),
    ] {
        let elements = vec![element; 200_000 / (element.len() + 1)].join(",");
        lines.push((
            format!("a row of {element} in {table}"),
            format!("{{\"delete\":{{\"{table}\":[[[{elements}]]]}}}}"),
        ));
    }
    let different: Vec<String> = (0..40_000).map(|number| format!("\"{number:x}\"")).collect();
    lines.push((
        "different texts".to_owned(),
        format!("{{\"insert\":{{\"t\":[[[{}]]]}}}}", different.join(",")),
    ));
    let rows: Vec<String> = different.iter().map(|text| format!("[{text}]")).collect();
    lines.push((
        "rows of different texts".to_owned(),
        format!("{{\"insert\":{{\"s\":[{}]}}}}", rows.join(",")),
    ));
    let tables: Vec<String> = different.iter().map(|name| format!("{name}:[]")).collect();
    lines.push(("unknown tables".to_owned(), format!("{{\"insert\":{{{}}}}}", tables.join(","))));
    let origin: Vec<String> = different.iter().map(|name| format!("{name}:0")).collect();
    lines.push(("other members".to_owned(), format!("{{{}}}", origin.join(","))));
    for element in ["0", "[]", "{}", "\"\"", "[0]", "{\"a\":0}", "[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]"]
    {
        let elements = vec![element; 200_000 / (element.len() + 1)].join(",");
        lines.push((format!("another member of {element}"), format!("{{\"note\":[{elements}]}}")));
        lines.push((format!("an error of {element}"), format!("{{\"error\":[{elements}],\"insert\":0}}")));
    }
    lines
}

#[test]
fn d1_the_memory_of_a_line_follows_its_bytes() {
    let schema = schema();
    for (name, line) in worst() {
        let line = line.as_bytes();
        if name.contains("{\"a\":0}") && !name.starts_with("rows") {
            let (_line, peak) = decoder_memory::peak(|| parse_line(line, 1, &schema));
            assert!(peak <= OF_OTHERS * line.len() + ANY_LINE, "{name}: {peak} for {}", line.len());
            continue;
        }
        let _rows = decoder_memory::bounded(&format!("{name}, by rows"), line.len(), ANY_LINE, || {
            parse_line(line, 1, &schema)
        });
        let _columns = decoder_memory::bounded(&format!("{name}, by columns"), line.len(), ANY_LINE, || {
            parse_line_columns(line, 1, &schema)
        });
    }
}

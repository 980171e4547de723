//! Reading messages of a database takes memory in proportion to their bytes, whatever they contain.

use bytes::BytesMut;
use peer_connection::PeerMemory;
use serde_json::json;
use tokio_util::codec::Decoder as _;

use super::*;
use crate::connection::RpcCodec;

/// What any message takes: the text of an error, and the buffers of the parser.
const ANY_MESSAGE: usize = 16 << 10;

/// A table with columns of every type, as many as a wide table of Open vSwitch has.
fn layout() -> (Schema, Layout) {
    let one = |kind: &str| json!({ "type": kind });
    let many = |kind: &str| json!({"type": {"key": kind, "min": 0, "max": "unlimited"}});
    let map = json!({"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}});
    let mut columns = json!({
        "text": one("string"), "flag": one("boolean"), "texts": many("string"), "numbers": many("integer"), "map": map,
        "reals": many("real"), "rows": many("uuid"),
    });
    for at in 0..25 {
        columns[format!("c{at}")] = many("string");
    }
    let schema = json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": columns}}});
    let schema = Schema::from_json(&schema).expect("a schema");
    let layout = Layout::resolve(&MonitorSpec::nothing().table("T", &[]), &schema).expect("in the schema");
    (schema, layout)
}

fn id(number: usize) -> String {
    Uuid::from_u128(number as u128).to_string()
}

/// An object of so many members, without spaces.
fn object_of(count: usize, member: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", (0..count).map(member).collect::<Vec<_>>().join(","))
}

fn list_of(count: usize, element: impl Fn(usize) -> String) -> String {
    (0..count).map(element).collect::<Vec<_>>().join(",")
}

/// Updates of some hundred kilobytes, each made to take as much memory as it can.
fn worst() -> Vec<(&'static str, String)> {
    let rows =
        |count, row: &str| format!("{{\"T\":{}}}", object_of(count, |n| format!("\"{}\":{row}", id(n))));
    let column = |column: &str, value: &str| rows(1, &format!("{{\"initial\":{{\"{column}\":{value}}}}}"));
    // A row has at most 4 MiB, as it refers to others.
    vec![
        ("rows of defaults", rows(5_000, "{\"initial\":{}}")),
        ("rows that are new and old", rows(5_000, "{\"new\":{}}")),
        ("rows of a set each", rows(5_000, "{\"initial\":{\"numbers\":1}}")),
        ("rows of a map each", rows(5_000, "{\"initial\":{\"map\":[\"map\",[[\"\",\"\"]]]}}")),
        ("numbers", column("numbers", &format!("[\"set\",[{}]]", list_of(60_000, |n| n.to_string())))),
        ("one number", column("numbers", &format!("[\"set\",[{}]]", list_of(120_000, |_| "0".to_owned())))),
        ("reals", column("reals", &format!("[\"set\",[{}]]", list_of(60_000, |n| n.to_string())))),
        ("texts", column("texts", &format!("[\"set\",[{}]]", list_of(60_000, |n| format!("\"{n:x}\""))))),
        ("no text", column("texts", &format!("[\"set\",[{}]]", list_of(90_000, |_| "\"\"".to_owned())))),
        (
            "rows",
            column(
                "rows",
                &format!("[\"set\",[{}]]", list_of(6_000, |n| format!("[\"uuid\",\"{}\"]", id(n)))),
            ),
        ),
        (
            "pairs",
            column("map", &format!("[\"map\",[{}]]", list_of(30_000, |n| format!("[\"{n:x}\",\"\"]")))),
        ),
        (
            "one pair",
            column("map", &format!("[\"map\",[{}]]", list_of(40_000, |_| "[\"\",\"\"]".to_owned()))),
        ),
        ("lists", column("texts", &format!("[\"set\",[{}]]", list_of(90_000, |_| "[]".to_owned())))),
        ("objects", column("texts", &format!("[\"set\",[{}]]", list_of(40_000, |_| "{\"a\":0}".to_owned())))),
        ("columns", rows(1, &format!("{{\"initial\":{}}}", object_of(60_000, |_| "\"\":0".to_owned())))),
        ("tables", object_of(60_000, |n| format!("\"{n:x}\":{{}}"))),
        ("kinds of changes", rows(1, &object_of(60_000, |n| format!("\"{n:x}\":{{}}")))),
        ("no rows", format!("{{\"T\":{}}}", object_of(60_000, |n| format!("\"{n:x}\":0")))),
    ]
}

/// Reads a notification as a client does: bytes, members, rows.
fn read(layout: &Layout, replica: &Replica, bytes: &[u8], format: Format) -> Result<Vec<Change>, String> {
    let mut buffer = BytesMut::from(bytes);
    let message =
        RpcCodec::default().decode(&mut buffer).map_err(|error| error.to_string())?.ok_or("no message")?;
    let parts = crate::text::elements(message.params(), 3).map_err(|_| "no parameters")?;
    let mut memory = PeerMemory::default().account().charge();
    let updates = parts.last().copied().unwrap_or_default();
    replica.decode(layout, updates, format, &mut memory).map_err(|error| error.to_string())
}

fn notification(updates: &str) -> Vec<u8> {
    format!("{{\"id\":null,\"method\":\"update2\",\"params\":[\"replica\",{updates}]}}").into_bytes()
}

#[test]
fn d1_the_memory_of_an_update_follows_its_bytes() {
    let (_, layout) = layout();
    for (name, updates) in worst() {
        let bytes = notification(&updates);
        for format in [Format::Update1, Format::Update2] {
            let name = format!("{name}, {format:?}");
            // The reader holds the bytes as well.
            let read = || read(&layout, &Replica::default(), &bytes, format);
            let _changes = decoder_memory::bounded(&name, bytes.len(), ANY_MESSAGE, read);
        }
    }
}

/// A small change of a large row copies the row, but not again and again.
#[test]
fn d1_an_update_that_names_a_row_twice_is_refused() {
    let (_, layout) = layout();
    let texts = list_of(50_000, |n| format!("\"{n:x}\""));
    let whole = format!("{{\"T\":{{\"{}\":{{\"initial\":{{\"texts\":[\"set\",[{texts}]]}}}}}}}}", id(1));
    let mut replica = Replica::default();
    let changes = read(&layout, &replica, &notification(&whole), Format::Update2).expect("fits");
    replica.apply(&changes);
    let change = |_| format!("\"{}\":{{\"modify\":{{\"flag\":true}}}}", id(1));
    let twice = notification(&format!("{{\"T\":{}}}", object_of(2, change)));
    let many = notification(&format!("{{\"T\":{}}}", object_of(1000, change)));
    let error = read(&layout, &replica, &twice, Format::Update2).expect_err("a row twice");
    assert!(error.contains("no row twice"), "{error}");
    let fixed = ANY_MESSAGE + 3 * replica.memory();
    let read = || read(&layout, &replica, &many, Format::Update2);
    decoder_memory::bounded("changes of one row", many.len(), fixed, read)
        .expect_err("a row again and again");
    let tables = notification(&format!("{{\"T\":{},\"T\":{}}}", object_of(1, change), object_of(1, change)));
    let error = self::read(&layout, &replica, &tables, Format::Update2).expect_err("a table twice");
    assert!(error.contains("no table twice"), "{error}");
}

#[test]
fn d1_the_memory_of_a_schema_follows_its_text() {
    let column = |text: &str| {
        format!("{{\"name\":\"D\",\"version\":\"1\",\"tables\":{{\"T\":{{\"columns\":{text}}}}}}}")
    };
    for (name, text) in [
        ("columns", column(&object_of(1000, |n| format!("\"{n}\":{{\"type\":\"string\"}}")))),
        ("too many columns", column(&object_of(100_000, |n| format!("\"{n}\":0")))),
        (
            "tables",
            format!(
                "{{\"name\":\"D\",\"version\":\"1\",\"tables\":{}}}",
                object_of(1000, |n| format!("\"{n}\":{{\"columns\":{{}}}}"))
            ),
        ),
        ("members", object_of(1000, |n| format!("\"{n}\":0"))),
        (
            "a definition of objects",
            column(&format!("{{\"c\":[{}]}}", list_of(8_000, |_| "{\"a\":0}".to_owned()))),
        ),
        (
            "a definition of brackets",
            column(&format!("{{\"c\":[{}]}}", list_of(20_000, |_| "[]".to_owned()))),
        ),
    ] {
        // One definition at a time is a tree, of at most 64 KiB of text: 84 bytes for each.
        let fixed = ANY_MESSAGE + 20 * crate::text::TREE_BYTES_MAX;
        let _schema = decoder_memory::bounded(name, text.len(), fixed, || Schema::from_text(&text));
    }
}

//! Rows as text and as bytes: lines of transactions, literals, saved states.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use nlog_data::json::{parse_line, parse_line_columns, write_delta_line};
use nlog_data::{Inputs, Schema, Type, Value, literal, state};

use crate::decode;

/// The longest refusal, in bytes. A message quotes a few values, each cut.
const LONGEST_MESSAGE: usize = 8192;

/// Input tables with columns of every type.
static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = "
        type colour = enum { red, green };
        type pair = record { left: int, right: opt<string> };
        input table a(n: int, s: string) key(n);
        input table b(i: set<ip>, p: net, m: opt<mac>);
        input table c(t: bool, m: match, x: actions) key(t, m);
        input table d(k: colour, p: pair, l: list<list<int>>);
        input table e(a: interface_address, f: packet_filter);
        output table o(n: int);
        o(n) :- a(n, _);
        o(1) :- b(_, _, _);
        o(2) :- c(_, _, _);
        o(3) :- d(_, _, _);
        o(4) :- e(_, _);
    ";
    let sources = nlog::Sources::from_texts([("tables.nlog", text)]);
    let compilation = nlog::compile(&sources);
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    Arc::clone(&program.schema)
});

/// A line of transactions is the same by rows and by columns, and its change is read back as it is written.
pub fn transaction(line: &[u8]) {
    let schema = &*SCHEMA;
    let rows = decode("a line as rows", line.len(), || parse_line(line, 1, schema));
    let columns = decode("a line as columns", line.len(), || parse_line_columns(line, 1, schema));
    let transaction = match (rows, columns) {
        (Ok(rows), Ok(columns)) => {
            assert_eq!(rows.txn, columns.txn);
            assert_eq!(rows.origin, columns.origin);
            assert_eq!(rows.transaction, columns.transaction.to_rows());
            rows.transaction
        }
        (rows, columns) => {
            let error = rows.expect_err("refused by columns alone");
            assert_eq!(Some(&error), columns.as_ref().err(), "refused by rows alone, or differently");
            let length = error.error.message.len();
            assert!(length < LONGEST_MESSAGE, "a message of {length} bytes");
            return;
        }
    };
    let Ok(changes) = Inputs::new(Arc::clone(&SCHEMA)).apply(&transaction) else { return };
    let mut written = Vec::new();
    write_delta_line(&mut written, 1, &changes.delta, &SCHEMA);
    let read = parse_line(&written, 1, &SCHEMA).expect("a delta is a transaction").transaction;
    let again = Inputs::new(Arc::clone(&SCHEMA)).apply(&read).expect("a delta of inputs fits");
    assert_eq!(changes.delta, again.delta);
}

/// A text as a literal of nlog and as a match, actions or an address: each value is read back as it prints.
pub fn literal(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    if let Ok(value) = decode("a literal", text.len(), || literal::parse(text)) {
        assert_eq!(literal::parse(&value.to_string()).as_ref(), Ok(&value));
        value_as_bytes(&value);
    }
    let plain = [Type::Mac, Type::Ip, Type::Net, Type::InterfaceAddress];
    for ty in plain.into_iter().chain([Type::Match, Type::Actions, Type::PacketFilter]) {
        match ty.parse_text(text) {
            Ok(value) => {
                let printed = literal::parse(&value.to_string());
                assert_eq!(printed.as_ref(), Ok(&value));
                value_as_bytes(&value);
            }
            Err(mismatch) => {
                let length = mismatch.to_string().len();
                assert!(length < LONGEST_MESSAGE, "a message of {length} bytes");
            }
        }
    }
    if let Ok(flow) = text.parse::<openflow_rs::FlowEntry>() {
        assert_eq!(flow.to_string().parse().as_ref(), Ok(&flow));
    }
}

fn value_as_bytes(value: &Value) {
    let mut bytes = Vec::new();
    state::write_value(value, &mut bytes);
    let mut rest = bytes.as_slice();
    assert_eq!(state::read_value(&mut rest).as_ref(), Ok(value));
    assert!(rest.is_empty());
}

/// Bytes as a saved state, as the body of one with the right checksum, and as a value of one.
pub fn saved_state(bytes: &[u8]) {
    let _any = state::read(bytes, &SCHEMA);
    let mut value = bytes;
    if let Ok(value) = state::read_value(&mut value) {
        value_as_bytes(&value);
    }
    let writer = state::Writer::new(Vec::new(), &SCHEMA).expect("a vector takes all bytes");
    let empty = writer.finish(&BTreeMap::default()).expect("a vector takes all bytes");
    // Magic bytes and version, and the tables of the schema: the body ends with two zeros and the checksum.
    for start in [12, empty.len() - 6] {
        let mut file = empty[..start].to_vec();
        file.extend_from_slice(bytes);
        let checksum = crc32fast::hash(&file);
        file.extend_from_slice(&checksum.to_le_bytes());
        let Ok(mut read) = state::read(&file, &SCHEMA) else { continue };
        // Tables without rows are not written.
        read.tables.retain(|_, rows| !rows.is_empty());
        let mut writer = state::Writer::new(Vec::new(), &SCHEMA).expect("a vector takes all bytes");
        for (id, rows) in &read.tables {
            writer.table(*id, rows).expect("a vector takes all bytes");
        }
        let written = writer.finish(&read.sections).expect("a vector takes all bytes");
        assert_eq!(state::read(&written, &SCHEMA).as_ref(), Ok(&read));
    }
}

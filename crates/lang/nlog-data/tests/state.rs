//! A saved state reads back unchanged; all other bytes are an error that names the fault.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{any_type, config, row_of};
use nlog_data::state::{self, SavedState, StateError};
use nlog_data::{Column, Columns, Enumeration, Role, Row, Schema, Table, TableId, Type};
use proptest::prelude::*;

fn table(name: &str, role: Role, types: &[Type], key: Option<Vec<usize>>) -> Table {
    let columns = types.iter().zip('a'..).map(|(ty, name)| Column { name: name.to_string(), ty: ty.clone() });
    Table {
        name: name.to_string(),
        role,
        columns: columns.collect(),
        key,
        uniques: Vec::new(),
        doc: String::new(),
    }
}

/// A program's tables and the rows of its inputs.
fn any_contents() -> impl Strategy<Value = (Schema, BTreeMap<TableId, Vec<Row>>)> {
    let columns = prop::collection::vec(any_type(), 0..4);
    prop::collection::vec((columns, any::<bool>()), 1..4).prop_flat_map(|tables| {
        let tables = tables.iter().enumerate().map(|(at, (types, input))| {
            let role = if *input { Role::Input } else { Role::Output };
            table(&format!("t{at}"), role, types, None)
        });
        let schema = Schema::new(tables.collect());
        let inputs = schema.iter().filter(|(_, table)| table.role == Role::Input);
        let rows = inputs.map(|(id, table)| {
            let types: Vec<Type> = table.columns.iter().map(|column| column.ty.clone()).collect();
            let rows = prop::collection::btree_set(row_of(&types), 0..9);
            (Just(id), rows.prop_map(|rows| rows.into_iter().collect::<Vec<_>>()))
        });
        let rows = rows.collect::<Vec<_>>().prop_map(BTreeMap::from_iter);
        (Just(schema), rows)
    })
}

fn ascending(rows: &[Row]) -> Columns {
    Columns::from_rows(rows).expect("even rows").into_ascending()
}

fn saved(
    schema: &Schema,
    rows: &BTreeMap<TableId, Vec<Row>>,
    sections: &BTreeMap<String, Vec<u8>>,
) -> Vec<u8> {
    let mut writer = state::Writer::new(Vec::new(), schema).expect("a vector takes all");
    for (table, rows) in rows {
        writer.table(*table, &ascending(rows)).expect("an input");
    }
    writer.finish(sections).expect("a vector takes all")
}

/// The same bytes with a correct checksum.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len().saturating_sub(4));
    let sum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The first bytes of a list of one value.
fn bytes_of_one_list() -> Vec<u8> {
    let mut bytes = Vec::new();
    state::write_value(&nlog_data::Value::list([false.into()]), &mut bytes);
    bytes.pop();
    bytes
}

fn any_sections() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    prop::collection::btree_map("[a-z]{0,5}", prop::collection::vec(any::<u8>(), 0..40), 0..3)
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn a_value_alone_is_read_back_without_its_type(
        row in prop::collection::vec(any_type(), 0..4).prop_flat_map(|types| row_of(&types)),
        noise in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = Vec::new();
        for value in &row {
            state::write_value(value, &mut bytes);
        }
        let mut rest = bytes.as_slice();
        for value in &row {
            prop_assert_eq!(&state::read_value(&mut rest).expect("it was written"), value);
        }
        prop_assert!(rest.is_empty());
        // Neither noise nor unlimited nesting does harm.
        let _ = state::read_value(&mut noise.as_slice());
        let nested = [vec![bytes_of_one_list(); 5000].concat(), bytes].concat();
        prop_assert!(state::read_value(&mut nested.as_slice()).is_err());
    }

    #[test]
    fn a_state_is_read_back((schema, rows) in any_contents(), sections in any_sections()) {
        let SavedState { tables, sections: read } =
            state::read(&saved(&schema, &rows, &sections), &schema).expect("it was saved");
        prop_assert_eq!(read, sections);
        for (table, rows) in rows {
            match tables.get(&table) {
                Some(columns) => prop_assert_eq!(columns, &ascending(&rows)),
                None => prop_assert!(rows.is_empty()),
            }
        }
    }

    #[test]
    fn damage_is_seen(
        (schema, rows) in any_contents(),
        at in any::<prop::sample::Index>(),
        change in 1..=u8::MAX,
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = saved(&schema, &rows, &BTreeMap::new());
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= change;
        prop_assert!(state::read(&changed, &schema).is_err());
        prop_assert!(state::read(&bytes[..cut.index(bytes.len())], &schema).is_err());
        prop_assert!(state::read(&[bytes.as_slice(), &[change]].concat(), &schema).is_err());
    }

    /// Crafted bytes also have a correct checksum.
    #[test]
    fn no_bytes_do_harm(
        (schema, rows) in any_contents(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3usize, any::<[u8; 2]>()), 1..4),
    ) {
        let mut bytes = saved(&schema, &rows, &BTreeMap::from([("s".to_string(), vec![1, 2, 3])]));
        for (at, length, by) in edits {
            // Between the version and the checksum.
            let at = 12 + at.index(bytes.len() - 16);
            bytes.splice(at..(at + length).min(bytes.len() - 4), by[..length].iter().copied());
        }
        if let Ok(state) = state::read(&summed(bytes), &schema) {
            for (id, rows) in state.tables {
                let types = schema.table(id).columns.iter().map(|column| column.ty.clone()).collect::<Vec<_>>();
                for row in rows.to_rows() {
                    prop_assert!(types.iter().zip(&row).all(|(ty, value)| ty.admits(value)));
                }
            }
        }
    }
}

#[test]
fn tables_of_many_values_are_read_back() {
    let schema =
        Schema::new(vec![table("a", Role::Input, &[Type::Int, Type::Int, Type::String, Type::Bool], None)]);
    for values in [1, 2, 256, 257, 65_536, 65_537] {
        let row = |n: i64| vec![n.into(), (n % values).into(), "one".into(), (n % 2 == 0).into()];
        let rows = BTreeMap::from([(TableId(0), (0..70_000).map(row).collect::<Vec<_>>())]);
        let bytes = saved(&schema, &rows, &BTreeMap::new());
        let state = state::read(&bytes, &schema).expect("it was saved");
        assert_eq!(state.tables[&TableId(0)].to_rows(), rows[&TableId(0)]);
        assert!(bytes.len() < 70_000 * 15, "small: {}", bytes.len());
    }
}

#[test]
fn a_state_of_another_program_is_refused_by_the_table_that_differs() {
    let encap = |members: &[&str]| {
        let members = members.iter().map(|member| (*member).to_string()).collect();
        Type::Enum(Arc::new(Enumeration { name: "encap".into(), members }))
    };
    let ours = || {
        vec![
            table("a", Role::Input, &[Type::Int, encap(&["geneve"])], Some(vec![0])),
            table("b", Role::Input, &[Type::set(Type::Ip)], None),
            table("out", Role::Output, &[Type::Int], None),
        ]
    };
    let bytes = saved(&Schema::new(ours()), &BTreeMap::new(), &BTreeMap::new());
    let refused = |change: &dyn Fn(&mut Vec<Table>)| {
        let mut tables = ours();
        change(&mut tables);
        state::read(&bytes, &Schema::new(tables)).map_err(|error| error.to_string())
    };
    let says = |difference: &str| {
        Err(format!("the state was saved from a program with different input tables: {difference}"))
    };
    // Tables that rules fill may differ.
    assert!(refused(&|tables| tables[2].columns[0].ty = Type::Bool).is_ok());
    assert!(refused(&|tables| tables[2].name = "other".to_string()).is_ok());
    assert_eq!(refused(&|tables| tables[1].name = "c".to_string()), says("it has no input table c"));
    assert_eq!(refused(&|tables| drop(tables.remove(1))), says("the program has no input table b"));
    assert_eq!(refused(&|tables| tables[1].role = Role::Internal), says("the program has no input table b"));
    assert_eq!(
        refused(&|tables| tables[0].columns[0].ty = Type::String),
        says(
            r#"table a is (a: int, b: encap{"geneve"}) key(a) in the state and (a: string, b: encap{"geneve"}) key(a) in the program"#
        )
    );
    assert_eq!(
        refused(&|tables| tables[0].columns[1].ty = encap(&["geneve", "stt"])),
        says(
            r#"table a is (a: int, b: encap{"geneve"}) key(a) in the state and (a: int, b: encap{"geneve", "stt"}) key(a) in the program"#
        )
    );
    assert_eq!(
        refused(&|tables| tables[1].key = Some(vec![0])),
        says("table b is (a: set<ip>) in the state and (a: set<ip>) key(a) in the program")
    );
    assert_eq!(
        refused(&|tables| tables[0].uniques = vec![vec![1]]),
        says(
            r#"table a is (a: int, b: encap{"geneve"}) key(a) in the state and (a: int, b: encap{"geneve"}) key(a) unique(b) in the program"#
        )
    );
}

#[test]
fn what_is_no_state_of_this_version_is_told() {
    let schema = Schema::default();
    let bytes = saved(&schema, &BTreeMap::new(), &BTreeMap::new());
    assert_eq!(state::read(b"", &schema), Err(StateError::NoState));
    assert_eq!(state::read(b"{\"insert\":{}}", &schema), Err(StateError::NoState));
    let mut later = bytes.clone();
    later[8] = 9;
    assert_eq!(
        state::read(&summed(later), &schema).map_err(|error| error.to_string()),
        Err("format version 9 is not supported, this weft reads version 1; save the state again with this weft".to_string())
    );
    assert_eq!(state::read(&bytes, &schema), Ok(SavedState::default()));
}

#[test]
fn only_input_tables_are_saved() {
    let schema = Schema::new(vec![table("out", Role::Output, &[Type::Int], None)]);
    let mut writer = state::Writer::new(Vec::new(), &schema).expect("a vector takes all");
    assert!(writer.table(TableId(0), &Columns::new(1)).is_err());
    assert!(writer.table(TableId(7), &Columns::new(1)).is_err());
    let schema = Schema::new(vec![table("in", Role::Input, &[Type::Int], None)]);
    let mut writer = state::Writer::new(Vec::new(), &schema).expect("a vector takes all");
    assert!(writer.table(TableId(0), &ascending(&[vec![1.into(), 2.into()]])).is_err());
    assert!(writer.table(TableId(0), &ascending(&[vec![1.into()]])).is_ok());
}

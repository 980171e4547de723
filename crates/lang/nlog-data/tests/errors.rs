//! The errors of derived tables: their order and their messages.

use nlog_data::{
    Column, DerivedCause, DerivedError, DerivedErrors, ErrorCode, Failure, FailureCode, Role, RuleId, Schema,
    Table, TableId, Type, Value,
};

fn forbidding(doc: &str) -> Schema {
    let column = |name: &str, ty: Type| Column { name: name.to_owned(), ty };
    Schema::new(vec![Table {
        name: "two_owners".to_owned(),
        role: Role::Forbid,
        columns: vec![column("port", Type::String), column("count", Type::Int)],
        key: None,
        uniques: Vec::new(),
        doc: doc.to_owned(),
    }])
}

fn message(doc: &str, port: &str, others: usize) -> String {
    let first = vec![Value::from(port), Value::Int(2)];
    let error = DerivedError {
        table: TableId(0),
        cause: DerivedCause::Forbidden { rows: vec![first], count: others + 1 },
    };
    let refusal = error.to_transaction_error(&forbidding(doc));
    assert_eq!((refusal.code, refusal.rule), (ErrorCode::Forbidden, None));
    assert_eq!(
        refusal.forbidden.iter().map(|rows| (rows.rows.len(), rows.count)).collect::<Vec<_>>(),
        [(1, others + 1)]
    );
    refusal.message
}

#[test]
fn a_forbidden_row_comes_with_the_sentence_of_its_table_or_else_its_name() {
    let row = r#"two_owners(port: "p1", count: 2)"#;
    assert_eq!(message("", "p1", 0), format!("table two_owners forbids {row}"));
    for doc in [
        "A port has one owner.",
        "A port has\none owner",
        "A port has one owner. This keeps tenants apart.",
        "A port has one owner.\n\nMore about that.",
    ] {
        assert_eq!(message(doc, "p1", 0), format!("A port has one owner: {row}"), "{doc}");
    }
    let addresses = "Nobody has 10.0.0.1. It is reserved.";
    assert_eq!(message(addresses, "p1", 0), format!("Nobody has 10.0.0.1: {row}"));
}

#[test]
fn the_other_forbidden_rows_are_counted() {
    let row = r#"two_owners(port: "p1", count: 2)"#;
    assert_eq!(message("", "p1", 1), format!("table two_owners forbids {row} and 1 more row"));
    assert_eq!(message("", "p1", 12_345), format!("table two_owners forbids {row} and 12,345 more rows"));
}

#[test]
fn a_long_row_or_sentence_is_cut() {
    let said = message(&"reason ".repeat(100_000), &"x".repeat(1 << 20), 7);
    assert!(said.len() < 1000 && said.contains("… (1,048,") && said.ends_with(") and 7 more rows"), "{said}");
}

#[test]
fn forbidden_rows_come_after_other_causes_in_a_table_and_before_too_many_ways() {
    let row = |x: i64| vec![Value::Int(x)];
    let failure = Failure { code: FailureCode::Range, message: "z".into() };
    let causes = [
        DerivedCause::Failure { failure, rule: RuleId(7) },
        DerivedCause::KeyConflict { unique: None, first: row(8), second: row(9) },
        DerivedCause::KeyConflict { unique: Some(vec![1]), first: row(6), second: row(9) },
        DerivedCause::KeyConflict { unique: Some(vec![1]), first: row(7), second: row(8) },
        DerivedCause::KeyConflict { unique: Some(vec![2]), first: row(1), second: row(2) },
        DerivedCause::Forbidden { rows: vec![row(1), row(3)], count: 5 },
        DerivedCause::Forbidden { rows: vec![row(2)], count: 1 },
        DerivedCause::TooManyWays,
    ];
    assert!(causes.is_sorted());
    // The table counts first.
    let last = DerivedError { table: TableId(0), cause: DerivedCause::TooManyWays };
    assert!(causes.into_iter().all(|cause| last < DerivedError { table: TableId(1), cause }));
}

#[test]
fn a_key_conflict_shows_the_key_and_what_differs_in_few_characters() {
    let column = |name: &str, ty: Type| Column { name: name.to_owned(), ty };
    let columns = ["k", "a", "b", "c", "d", "e"].map(|name| column(name, Type::String)).into();
    let table = Table {
        name: "t".to_owned(),
        role: Role::Output,
        columns,
        key: Some(vec![0]),
        uniques: Vec::new(),
        doc: String::new(),
    };
    let schema = Schema::new(vec![table]);
    let said = |first: [&str; 6], second: [&str; 6]| {
        let [first, second] = [first, second].map(|row| row.map(Value::from).into());
        let cause = DerivedCause::KeyConflict { unique: None, first, second };
        DerivedError { table: TableId(0), cause }.to_transaction_error(&schema).message
    };
    assert_eq!(
        said(["k", "1", "x", "y", "z", ""], ["k", "1", "x", "2", "z", ""]),
        r#"table t: the rules derive two rows with the same key (k: "k"): c is "y" in one and "2" in the other"#
    );
    let four = said(["k", "1", "1", "1", "1", ""], ["k", "2", "2", "2", "2", ""]);
    let listed =
        ["a", "b", "c"].map(|name| format!(r#"{name} is "1" in one and "2" in the other"#)).join(", ");
    assert!(four.ends_with(&format!("{listed}, and 1 more column differs")), "{four}");
    let long = "x".repeat(10_000);
    let said = said([&long, &long, &long, &long, &long, ""], [&long, "1", "2", "3", "4", "5"]);
    assert!(
        said.len() < 700 && said.ends_with("… in one and \"3\" in the other, and 2 more columns differ"),
        "{said}"
    );
}

#[test]
fn a_conflict_in_a_hidden_table_is_told_of_the_table_that_it_checks() {
    let column = |name: &str| Column { name: name.to_owned(), ty: Type::Int };
    let table = |name: &str, role, key: &[usize], uniques: &[&[usize]]| Table {
        name: name.to_owned(),
        role,
        columns: vec![column("k"), column("host"), column("port")],
        key: Some(key.to_vec()),
        uniques: uniques.iter().map(|columns| columns.to_vec()).collect(),
        doc: String::new(),
    };
    let schema = Schema::new(vec![
        table("t", Role::Internal, &[0], &[&[1, 2]]),
        table("t.level", Role::Hidden, &[0], &[]),
        table("t.unique.host.port", Role::Hidden, &[1, 2], &[]),
    ]);
    assert_eq!(
        [0, 1, 2].map(|id| schema.checks(TableId(id)).map(<[usize]>::to_vec)),
        [None, None, Some(vec![1, 2])]
    );
    let row = |k: i64| vec![Value::Int(k), Value::Int(7), Value::Int(9)];
    let error = DerivedError::key_conflict(&schema, TableId(2), row(1), row(2)).to_transaction_error(&schema);
    assert_eq!(
        error.to_string(),
        "key-conflict: table t: the rules derive two rows with the same unique columns (host: 7, port: 9): \
         k is 1 in one and 2 in the other"
    );
    let conflict = error.conflict.unwrap();
    assert_eq!((conflict.table, conflict.rows), (TableId(0), [row(1), row(2)]));
    let of_key = DerivedError::key_conflict(&schema, TableId(0), row(1), row(2));
    assert!(matches!(of_key.cause, DerivedCause::KeyConflict { unique: None, .. }));
}

/// The code stays that of the first table by name; what tables forbid is there beside it.
#[test]
fn what_tables_forbid_is_kept_beside_an_error_that_comes_before_it() {
    let column = |name: &str| Column { name: name.to_owned(), ty: Type::Int };
    let table = |name: &str, role| Table {
        name: name.to_owned(),
        role,
        columns: vec![column("k"), column("v")],
        key: Some(vec![0]),
        uniques: Vec::new(),
        doc: String::new(),
    };
    let schema =
        Schema::new(vec![table("a", Role::Output), table("b", Role::Forbid), table("c", Role::Forbid)]);
    let row = |v: i64| vec![Value::Int(1), Value::Int(v)];
    let forbidden = |table: u32| DerivedError {
        table: TableId(table),
        cause: DerivedCause::Forbidden { rows: vec![row(5)], count: 1 },
    };
    let conflict = DerivedError {
        table: TableId(0),
        cause: DerivedCause::KeyConflict { unique: None, first: row(1), second: row(2) },
    };
    let errors = DerivedErrors::of([forbidden(2), conflict.clone(), forbidden(1)]).unwrap();
    let error = errors.to_transaction_error(&schema);
    assert_eq!(error.code, ErrorCode::KeyConflict);
    assert_eq!(error.forbidden.iter().map(|rows| &*rows.table).collect::<Vec<_>>(), ["b", "c"]);
    let first = error.clone().forbidden_first();
    assert_eq!((first.code, &*first.message), (ErrorCode::Forbidden, "table b forbids b(k: 1, v: 5)"));
    assert_eq!((first.conflict, first.rule), (None, None));
    // Nothing is forbidden, so the error is the conflict.
    let alone = DerivedErrors::of([conflict]).unwrap().to_transaction_error(&schema);
    assert_eq!(alone.clone().forbidden_first(), alone);
    assert_eq!(DerivedErrors::of([]), None);
}

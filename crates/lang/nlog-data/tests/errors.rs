//! The errors of derived tables: their order and their messages.

use nlog_data::{
    Column, DerivedCause, DerivedError, ErrorCode, Failure, FailureCode, Role, RuleId, Schema, Table,
    TableId, Type, Value,
};

fn forbidding(doc: &str) -> Schema {
    let column = |name: &str, ty: Type| Column { name: name.to_owned(), ty };
    Schema::new(vec![Table {
        name: "two_owners".to_owned(),
        role: Role::Forbid,
        columns: vec![column("port", Type::String), column("count", Type::Int)],
        key: None,
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
    assert_eq!(refusal.forbidden.map(|rows| (rows.rows.len(), rows.count)), Some((1, others + 1)));
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
        DerivedCause::KeyConflict { first: row(8), second: row(9) },
        DerivedCause::Forbidden { rows: vec![row(1), row(3)], count: 5 },
        DerivedCause::Forbidden { rows: vec![row(2)], count: 1 },
        DerivedCause::TooManyWays,
    ];
    assert!(causes.is_sorted());
    // The table counts first.
    let last = DerivedError { table: TableId(0), cause: DerivedCause::TooManyWays };
    assert!(causes.into_iter().all(|cause| last < DerivedError { table: TableId(1), cause }));
}

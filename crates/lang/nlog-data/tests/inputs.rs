//! Inputs compared with a model: a set of rows for each table, and the rules of the contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{
    Column, ErrorCode, Inputs, Role, Row, Schema, Table, TableId, Transaction, TransactionError, Type, Value,
};
use proptest::prelude::*;

/// Failures are not written to files; a failure prints its smallest case.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, ..ProptestConfig::default() }
}

/// `keyed(k, v) key(k)`, `plain(k, v)`, a derived table, and `unique(k, v) unique(k) unique(v)`.
fn schema() -> Arc<Schema> {
    let table = |name: &str, role, key, uniques: &[usize]| {
        let column = |name: &str| Column { name: name.to_string(), ty: Type::Int };
        Table {
            name: name.to_string(),
            role,
            columns: vec![column("k"), column("v")],
            key,
            uniques: uniques.iter().map(|column| vec![*column]).collect(),
            doc: String::new(),
        }
    };
    Arc::new(Schema::new(vec![
        table("keyed", Role::Input, Some(vec![0]), &[]),
        table("plain", Role::Input, None, &[]),
        table("rules", Role::Output, None, &[]),
        table("unique", Role::Input, None, &[0, 1]),
    ]))
}

const KEYED: TableId = TableId(0);
const PLAIN: TableId = TableId(1);
const UNIQUE: TableId = TableId(3);

type Model = BTreeMap<TableId, BTreeSet<Row>>;

fn row(k: i64, v: i64) -> Row {
    vec![k.into(), v.into()]
}

/// The model after a transaction, and the number of redundant changes; or the table at fault.
fn model_apply(model: &Model, transaction: &Transaction) -> Result<(Model, u64, u64), TableId> {
    let mut model = model.clone();
    let (mut in_vain_inserts, mut in_vain_deletes) = (0, 0);
    for (id, rows) in &mut model {
        for row in transaction.delete.get(id).into_iter().flatten() {
            in_vain_deletes += u64::from(!rows.remove(row));
        }
        for row in transaction.insert.get(id).into_iter().flatten() {
            in_vain_inserts += u64::from(!rows.insert(row.clone()));
        }
        let repeats = |column: usize| {
            rows.iter().map(|row| &row[column]).collect::<BTreeSet<&Value>>().len() < rows.len()
        };
        if (*id == KEYED || *id == UNIQUE) && repeats(0) || *id == UNIQUE && repeats(1) {
            return Err(*id);
        }
    }
    Ok((model, in_vain_inserts, in_vain_deletes))
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0..4i64, 0..3i64).prop_map(|(k, v)| row(k, v)), 0..4)
}

fn any_transaction() -> impl Strategy<Value = Transaction> {
    let side = || {
        (any_rows(), any_rows(), any_rows()).prop_map(|(keyed, plain, unique)| {
            BTreeMap::from([(KEYED, keyed), (PLAIN, plain), (UNIQUE, unique)])
        })
    };
    (side(), side()).prop_map(|(insert, delete)| Transaction { insert, delete })
}

fn contents(inputs: &Inputs) -> Model {
    [KEYED, PLAIN, UNIQUE].map(|id| (id, inputs.contents(id).into_iter().collect())).into()
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn inputs_do_what_the_model_does(transactions in prop::collection::vec(any_transaction(), 1..12)) {
        let mut inputs = Inputs::new(schema());
        let mut model: Model = [KEYED, PLAIN, UNIQUE].map(|id| (id, BTreeSet::new())).into();
        for transaction in &transactions {
            let expected = model_apply(&model, transaction);
            let actual = inputs.apply(transaction);
            match (expected, actual) {
                (Err(_), Err(error)) => prop_assert_eq!(error.code, ErrorCode::DuplicateKey),
                (Ok((after, in_vain_inserts, in_vain_deletes)), Ok(changes)) => {
                    prop_assert_eq!(changes.redundant_inserts, in_vain_inserts);
                    prop_assert_eq!(changes.redundant_deletes, in_vain_deletes);
                    for (id, rows) in &after {
                        let delta = changes.delta.tables.get(id).cloned().unwrap_or_default();
                        let new: Vec<Row> = rows.difference(&model[id]).cloned().collect();
                        let gone: Vec<Row> = model[id].difference(rows).cloned().collect();
                        prop_assert_eq!(changes.delta.tables.contains_key(id), !new.is_empty() || !gone.is_empty());
                        prop_assert_eq!((delta.insert, delta.delete), (new, gone));
                    }
                    // Undoing the transaction and applying it again changes nothing.
                    inputs.undo(changes.clone());
                    prop_assert_eq!(&contents(&inputs), &model);
                    prop_assert_eq!(inputs.apply(transaction), Ok(changes));
                    model = after;
                }
                (expected, actual) => prop_assert!(false, "{expected:?} expected, {actual:?} found"),
            }
            prop_assert_eq!(&contents(&inputs), &model);
        }
    }

    #[test]
    fn errors_do_not_depend_on_the_order_of_rows(
        before in any_transaction(),
        rows in any_rows().prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
    ) {
        let mut inputs = Inputs::new(schema());
        let _ = inputs.apply(&before);
        let apply = |rows: Vec<Row>| {
            [KEYED, UNIQUE].map(|id| inputs.clone().apply(&insert(id, rows.clone())))
        };
        prop_assert_eq!(apply(rows.0), apply(rows.1));
    }
}

fn insert(id: TableId, rows: Vec<Row>) -> Transaction {
    Transaction { insert: [(id, rows)].into(), ..Transaction::default() }
}

#[test]
fn a_keyed_row_is_replaced_in_one_transaction() {
    let mut inputs = Inputs::new(schema());
    inputs.apply(&insert(KEYED, vec![row(1, 1)])).expect("accepted");
    let replace = Transaction { delete: [(KEYED, vec![row(1, 1)])].into(), ..insert(KEYED, vec![row(1, 2)]) };
    inputs.apply(&replace).expect("accepted");
    assert_eq!(inputs.contents(KEYED), [row(1, 2)]);
    assert!(inputs.contains(KEYED, &row(1, 2)) && !inputs.contains(KEYED, &row(1, 1)));
}

#[test]
fn a_second_row_under_a_key_names_both_and_the_key() {
    let mut inputs = Inputs::new(schema());
    let expected = |message: &str| Err(TransactionError::new(ErrorCode::DuplicateKey, message));
    assert_eq!(
        inputs.apply(&insert(KEYED, vec![row(2, 9), row(2, 8), row(1, 5), row(1, 4)])),
        expected(
            "table keyed: row [1,5] has the same key (k: 1) as row [1,4]; to replace a row, delete it in the same transaction"
        )
    );
    inputs.apply(&insert(KEYED, vec![row(1, 7)])).expect("accepted");
    assert_eq!(
        inputs.apply(&insert(KEYED, vec![row(1, 5)])),
        expected(
            "table keyed: row [1,5] has the same key (k: 1) as row [1,7]; to replace a row, delete it in the same transaction"
        )
    );
}

#[test]
fn a_second_row_with_the_same_unique_columns_names_both_and_the_columns() {
    let mut inputs = Inputs::new(schema());
    inputs.apply(&insert(UNIQUE, vec![row(1, 5), row(2, 6)])).expect("accepted");
    assert_eq!(
        inputs.apply(&insert(UNIQUE, vec![row(9, 9), row(3, 6)])),
        Err(TransactionError::new(
            ErrorCode::DuplicateKey,
            "table unique: row [3,6] has the same unique columns (v: 6) as row [2,6]; to replace a row, delete it in the \
             same transaction"
        ))
    );
    assert_eq!(inputs.contents(UNIQUE), [row(1, 5), row(2, 6)], "nothing has changed");
    let swap = Transaction {
        delete: [(UNIQUE, vec![row(1, 5), row(2, 6)])].into(),
        ..insert(UNIQUE, vec![row(1, 6), row(2, 5)])
    };
    inputs.apply(&swap).expect("only the rows after the transaction count");
    assert!(inputs.apply(&insert(UNIQUE, vec![row(3, 5)])).is_err());
}

#[test]
fn transactions_that_fit_no_table_are_refused() {
    let mut inputs = Inputs::new(schema());
    let mut code = |transaction| inputs.apply(&transaction).expect_err("refused").code;
    assert_eq!(code(insert(TableId(2), vec![row(1, 1)])), ErrorCode::NotAnInput);
    assert_eq!(code(insert(TableId(4), vec![])), ErrorCode::UnknownTable);
    assert_eq!(code(insert(PLAIN, vec![vec![1.into()]])), ErrorCode::Arity);
}

//! Rows by columns are the same rows.

use std::collections::BTreeMap;

use crate::support::{any_type, config, row_of};
use nlog_data::{
    ColumnDelta, ColumnTransaction, Columns, ColumnsError, CommitError, Committed, Delta, Evaluator, Row,
    RuleId, Schema, TableDelta, TableId, Transaction, TransactionError, Value,
};
use proptest::prelude::*;

/// Rows of one random width, many of them alike.
fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(any_type(), 0..4)
        .prop_flat_map(|types| prop::collection::vec(row_of(&types), 0..12))
}

/// Small numbers in up to nine columns of up to 2¹⁷ values: some fit in one word, others do not.
fn any_numbers() -> impl Strategy<Value = Vec<Row>> {
    (0..10usize, prop::sample::select(vec![1, 2, 3, 300, 100_000]), any::<u64>()).prop_map(
        |(width, most, seed)| {
            let mut state = seed | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                Value::Int((state >> 11) as i64 % most)
            };
            (0..400).map(|_| (0..width).map(|_| next()).collect()).collect()
        },
    )
}

fn sorted(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort();
    rows
}

fn assert_ascending(columns: &Columns, rows: &[Row]) {
    assert_eq!(columns.to_rows(), sorted(rows));
    for (column, dictionary) in columns.dictionaries().iter().enumerate() {
        assert!(dictionary.is_sorted_by(|a, b| a < b), "ascending, and no value twice: {dictionary:?}");
        let used: std::collections::BTreeSet<&Value> = rows.iter().map(|row| &row[column]).collect();
        assert_eq!(dictionary.iter().collect::<std::collections::BTreeSet<_>>(), used);
    }
    assert!(columns.iter().is_sorted());
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn rows_survive(rows in any_rows()) {
        let columns = Columns::from_rows(&rows).expect("even rows");
        prop_assert_eq!(columns.len(), rows.len());
        prop_assert_eq!(columns.to_rows(), rows.clone());
        for (row, cells) in rows.iter().zip(columns.iter()) {
            prop_assert!(row.iter().eq(columns.values_of(cells)));
        }
        let parts = (columns.dictionaries().to_vec(), columns.cells().to_vec(), columns.len());
        prop_assert_eq!(Columns::from_parts(parts.0, parts.1, parts.2), Ok(columns.clone()));
        assert_ascending(&columns.into_ascending(), &rows);
    }

    #[test]
    fn rows_of_any_number_of_bits_become_ascending(rows in any_numbers()) {
        assert_ascending(&Columns::from_rows(&rows).expect("even rows").into_ascending(), &rows);
    }

    #[test]
    fn values_that_occur_twice_or_never_are_dropped(rows in any_rows(), times in 1..4u32) {
        // Every dictionary `times` over, and each row with cells of another copy.
        let columns = Columns::from_rows(&rows).expect("even rows");
        let sizes: Vec<u32> = columns.dictionaries().iter().map(|values| values.len() as u32).collect();
        let dictionaries = columns.dictionaries().iter().map(|values| vec![values.clone(); times as usize].concat()).collect();
        let cells = columns.iter().zip(0..).flat_map(|(row, at)| {
            row.iter().zip(&sizes).map(move |(cell, size)| cell + size * (at % times)).collect::<Vec<_>>()
        });
        let copied = Columns::from_parts(dictionaries, cells.collect(), rows.len()).expect("cells in place");
        prop_assert_eq!(copied.to_rows(), rows.clone());
        assert_ascending(&copied.clone().into_ascending(), &rows);
        prop_assert_eq!(copied.into_ascending(), columns.into_ascending());
    }

    #[test]
    fn transactions_and_deltas_survive(insert in any_rows(), delete in any_rows(), rule in any::<u32>()) {
        let table = TableId(3);
        let transaction = Transaction {
            insert: BTreeMap::from([(table, insert.clone()), (TableId(0), Vec::new())]),
            delete: BTreeMap::from([(table, delete.clone())]),
        };
        let columns = ColumnTransaction::from_rows(&transaction).expect("even rows");
        prop_assert_eq!(columns.is_empty(), transaction.is_empty());
        prop_assert_eq!(columns.to_rows(), transaction);

        let reattributed = delete.iter().map(|row| (row.clone(), RuleId(rule))).collect();
        let (insert, delete) = (sorted(&insert), sorted(&delete));
        let rules = insert.iter().map(|_| RuleId(rule)).collect();
        let delta = Delta { tables: BTreeMap::from([(table, TableDelta { insert, delete, rules, reattributed })]) };
        let columns = ColumnDelta::from_rows(delta.clone()).expect("even rows");
        prop_assert_eq!(columns.to_rows(), delta);
    }
}

#[test]
fn parts_that_are_no_rows_are_refused() {
    let values = vec![vec![Value::Int(1), Value::Int(2)], vec![Value::Int(3)]];
    let columns = |cells: &[u32], rows| Columns::from_parts(values.clone(), cells.to_vec(), rows);
    assert_eq!(
        columns(&[1, 0, 0, 0], 2).map(|columns| columns.to_rows()[0].clone()),
        Ok(vec![2.into(), 3.into()])
    );
    assert_eq!(columns(&[0, 0, 0], 2), Err(ColumnsError::Cells { rows: 2, width: 2, cells: 3 }));
    assert_eq!(columns(&[], usize::MAX), Err(ColumnsError::Cells { rows: usize::MAX, width: 2, cells: 0 }));
    let error = columns(&[0, 0, 1, 1], 2).expect_err("a second value in column 2");
    assert_eq!(error.to_string(), "row 2, column 2: cell 1 is out of range for a dictionary of 1 values");
    let error = Columns::from_rows(&[vec![1.into()], vec![1.into(), 2.into()]]).expect_err("uneven");
    assert_eq!(error.to_string(), "row 2 has 2 values, but earlier rows have 1");
}

/// Gives every transaction's rows back as its delta.
struct Echo(Schema);

impl Evaluator for Echo {
    fn schema(&self) -> &Schema {
        &self.0
    }

    fn check(&mut self, _: &Transaction) -> Result<(), TransactionError> {
        Ok(())
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let table = |(id, rows): (&TableId, &Vec<Row>)| {
            (*id, TableDelta { insert: sorted(rows), ..TableDelta::default() })
        };
        let delta = Delta { tables: transaction.insert.iter().map(table).collect() };
        Ok(Committed { delta, redundant_inserts: 1, redundant_deletes: 2 })
    }

    fn contents(&mut self, _: TableId) -> Result<Vec<Row>, CommitError> {
        Ok(vec![vec![1.into()], vec![2.into()]])
    }
}

#[test]
fn an_evaluator_of_rows_takes_columns() {
    let mut echo = Echo(Schema::default());
    let rows = vec![vec![Value::Int(2)], vec![Value::Int(1)]];
    let transaction = Transaction { insert: BTreeMap::from([(TableId(0), rows)]), ..Transaction::default() };
    let columns = ColumnTransaction::from_rows(&transaction).expect("even rows");
    let committed = echo.commit_columns(&columns).expect("accepted");
    assert_eq!(committed.to_rows(), echo.commit(&transaction).expect("accepted"));
    let contents = echo.contents_columns(TableId(0)).expect("contents");
    assert_eq!(contents.to_rows(), echo.contents(TableId(0)).expect("contents"));
    let uneven = BTreeMap::from([(TableId(0), vec![vec![], vec![Value::Int(1)]])]);
    let uneven = Transaction { insert: uneven, ..Transaction::default() };
    assert!(ColumnTransaction::from_rows(&uneven).is_err());
}

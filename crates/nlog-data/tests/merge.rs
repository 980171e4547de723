//! Merged transactions have the same effect as one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::config;
use nlog_data::{
    Column, CommitError, Committed, Evaluator, Inputs, Role, Row, RuleId, Schema, Table, TableDelta, TableId,
    Transaction, TransactionError, Type, Value,
};
use proptest::prelude::*;

/// An evaluator whose results are its input tables. If rows are attributed, the second column selects the rule.
struct Shown {
    schema: Arc<Schema>,
    inputs: Inputs,
    attributed: bool,
}

impl Shown {
    fn new(attributed: bool) -> Self {
        let column = |name: &str| Column { name: name.to_string(), ty: Type::Int };
        let table = |name: &str, key| Table {
            name: name.to_string(),
            role: Role::Input,
            columns: vec![column("a"), column("b")],
            key,
            doc: String::new(),
        };
        let schema = Arc::new(Schema::new(vec![table("keyed", Some(vec![0])), table("plain", None)]));
        Shown { inputs: Inputs::new(schema.clone()), schema, attributed }
    }

    fn rows(&self) -> BTreeMap<TableId, BTreeSet<Row>> {
        self.schema.iter().map(|(id, _)| (id, self.inputs.contents(id).into_iter().collect())).collect()
    }
}

fn rule(row: &Row) -> RuleId {
    match row[1] {
        Value::Int(number) => RuleId(number as u32),
        _ => RuleId(0),
    }
}

impl Evaluator for Shown {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.inputs.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let mut changes = self.inputs.apply(transaction)?;
        for table in changes.delta.tables.values_mut().filter(|_| self.attributed) {
            table.rules = table.insert.iter().map(rule).collect();
        }
        Ok(Committed {
            delta: changes.delta,
            redundant_inserts: changes.redundant_inserts,
            redundant_deletes: changes.redundant_deletes,
        })
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        Ok(self.inputs.contents(table))
    }
}

fn any_transaction() -> impl Strategy<Value = Transaction> {
    let rows = || prop::collection::vec((0..4i64, 0..3i64).prop_map(|(a, b)| vec![a.into(), b.into()]), 0..4);
    let side = move || {
        (rows(), rows()).prop_map(|(keyed, plain)| BTreeMap::from([(TableId(0), keyed), (TableId(1), plain)]))
    };
    (side(), side()).prop_map(|(insert, delete)| Transaction { insert, delete })
}

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn a_batch_is_the_sum_of_its_transactions(
        before in prop::collection::vec(any_transaction(), 0..3),
        batch in prop::collection::vec(any_transaction(), 0..6),
        attributed in any::<bool>(),
    ) {
        let (mut merged, mut single) = (Shown::new(attributed), Shown::new(attributed));
        for transaction in &before {
            prop_assert_eq!(merged.commit(transaction), single.commit(transaction));
        }
        let old = single.rows();
        let result = merged.commit_merged(&batch).expect("no failure of an engine");
        let (mut refused, mut redundant) = (Vec::new(), (0, 0));
        let mut touched: BTreeSet<(TableId, Row)> = BTreeSet::new();
        for (place, transaction) in batch.iter().enumerate() {
            match single.commit(transaction) {
                Ok(committed) => {
                    redundant.0 += committed.redundant_inserts;
                    redundant.1 += committed.redundant_deletes;
                    for (id, table) in committed.delta.tables {
                        touched.extend(table.insert.into_iter().chain(table.delete).map(|row| (id, row)));
                    }
                }
                Err(CommitError::Refused(error)) => refused.push((place, error)),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        prop_assert_eq!(result.refused, refused);
        let committed = result.committed;
        prop_assert_eq!((committed.redundant_inserts, committed.redundant_deletes), redundant);
        let new = single.rows();
        prop_assert_eq!(merged.rows(), new.clone());
        for (id, new) in new {
            let delta = committed.delta.tables.get(&id).cloned().unwrap_or_default();
            let rows = |a: &BTreeSet<Row>, b: &BTreeSet<Row>| a.difference(b).cloned().collect::<Vec<Row>>();
            prop_assert_eq!(&delta.insert, &rows(&new, &old[&id]));
            prop_assert_eq!(&delta.delete, &rows(&old[&id], &new));
            let wanted = |rows: &[Row]| rows.iter().map(rule).filter(|_| attributed).collect::<Vec<_>>();
            prop_assert_eq!(delta.rules, wanted(&delta.insert));
            let stayed = new.intersection(&old[&id]).filter(|row| attributed && touched.contains(&(id, (*row).clone())));
            prop_assert_eq!(delta.reattributed, stayed.map(|row| (row.clone(), rule(row))).collect::<Vec<_>>());
        }
        prop_assert!(committed.delta.tables.values().all(|table| *table != TableDelta::default()));
    }
}

//! The number and the bytes of values.

use std::collections::BTreeMap;

use nlog_data::{TableId, Transaction, Value};

#[test]
fn a_transaction_counts_the_values_inside_its_values() {
    let set = Value::Set([1.into(), 2.into(), 3.into()].into());
    let record = Value::Record([Value::None, set.clone()].into());
    let insert = BTreeMap::from([(TableId(0), vec![vec![7.into(), set], vec!["a".into(), record]])]);
    let delete = BTreeMap::from([(TableId(1), vec![vec![Value::Bool(true)]])]);
    assert_eq!(Transaction { insert, delete }.values(), 1 + 4 + 1 + 6 + 1);
}

#[test]
fn bytes_grow_with_what_a_value_holds() {
    let text = |len: usize| Value::from(&*"x".repeat(len));
    assert_eq!(text(1000).bytes() - text(0).bytes(), 1000);
    let list = Value::List([text(10), text(10)].into());
    assert_eq!(list.bytes(), size_of::<Value>() as u64 + 2 * text(10).bytes());
}

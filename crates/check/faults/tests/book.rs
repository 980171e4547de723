//! What clients know.

use std::collections::BTreeMap;

use faults::book::{Book, Key};
use serde_json::{Value as Json, json};

fn key(id: &str) -> Key {
    ("switch".to_owned(), id.to_owned())
}

fn found(objects: &[(&str, Json)]) -> BTreeMap<Key, Json> {
    objects.iter().map(|(id, object)| (key(id), object.clone())).collect()
}

#[test]
fn what_was_answered_must_be_there_and_nothing_else() {
    let mut book = Book::default();
    book.is(key("a"), Some(json!({"labels": {"value": "1"}})));
    book.is(key("gone"), None);
    let fits = json!({"labels": {"value": "1"}, "learning": {"limit": 4096}});
    assert_eq!(book.compare(found(&[("a", fits.clone())])), Vec::<String>::new());
    // Lost, changed, back again, from nowhere.
    assert_eq!(book.compare(found(&[])).len(), 1);
    assert_eq!(book.compare(found(&[("a", json!({"labels": {"value": "2"}}))])).len(), 1);
    assert_eq!(book.compare(found(&[("a", fits.clone()), ("gone", json!({}))])).len(), 1);
    assert_eq!(book.compare(found(&[("a", fits), ("b", json!({}))])).len(), 1);
}

#[test]
fn what_was_not_answered_may_have_happened_or_not_until_somebody_looks() {
    let (old, new) = (json!({"value": 1}), json!({"value": 2}));
    for seen in [&old, &new] {
        let mut book = Book::default();
        book.is(key("a"), Some(old.clone()));
        book.may_be(&key("a"), Some(new.clone()));
        assert_eq!(book.certain(&key("a")), None);
        assert_eq!(book.compare(found(&[("a", seen.clone())])), Vec::<String>::new());
        assert_eq!(book.certain(&key("a")), Some(Some(seen)));
        let other = if seen == &old { &new } else { &old };
        assert_eq!(book.compare(found(&[("a", other.clone())])).len(), 1, "it has changed its mind");
    }
    // An object that may have been created.
    let mut book = Book::default();
    book.may_be(&key("b"), Some(new.clone()));
    assert_eq!(book.compare(found(&[])), Vec::<String>::new());
    assert_eq!(book.certain(&key("b")), Some(None));
}

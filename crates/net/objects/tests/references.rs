//! Which objects refer to which, and which references resolve, while long lists change in a few places. The oracle looks at all
//! references of all objects.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::{Type, Value};
use objects::{FaultCode, Kinds, ObjectKey, ObjectStore};
use proptest::prelude::*;

use crate::support::{batch, field, kind, reference};

/// Things refer to things, in a list and in a field before it, and each may occur again.
fn kinds() -> Kinds {
    let list = field("list", Type::list(reference(&["thing", "other"])), Some(Value::list([])));
    let fields = vec![field("one", Type::opt(reference(&["thing"])), None), list];
    let other = vec![field("tenant", Type::opt(Type::String), None)];
    Kinds::new(vec![kind("thing", "thing", fields, &[]), kind("other", "other", other, &[])])
}

/// The references of a thing: that of its field, and those of its list.
type References = (Option<u8>, Vec<u8>);

/// What happens to a thing.
#[derive(Debug, Clone)]
enum Edit {
    Insert(prop::sample::Index, u8),
    Remove(prop::sample::Index),
    One(Option<u8>),
    Delete,
}

/// A thing as a request gives it; none if it is deleted.
type Given = (u8, Option<References>);

/// Few things, so that references are often to the same one, to itself, and to none. The last one is of the other kind.
const THINGS: u8 = 5;
const OTHER: u8 = THINGS;
const NAMES: u8 = OTHER + 2;

fn name(number: u8) -> String {
    format!("n{number}")
}

fn document((number, to): &Given) -> String {
    let id = name(*number);
    let Some((one, list)) = to else {
        return format!(r#"{{"kind": "thing", "id": "{id}", "delete": true}}"#);
    };
    let one = one.map_or("null".to_owned(), |one| format!("{:?}", name(one)));
    let list: Vec<String> = list.iter().map(|one| name(*one)).collect();
    format!(r#"{{"kind": "thing", "id": "{id}", "one": {one}, "list": {list:?}}}"#)
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (index(), 0..NAMES).prop_map(|(at, to)| Edit::Insert(at, to)),
        4 => index().prop_map(Edit::Remove),
        1 => prop::option::of(0..=THINGS).prop_map(Edit::One),
        1 => Just(Edit::Delete),
    ]
}

/// The thing after an edit.
fn edited(thing: Option<&References>, edit: &Edit) -> Option<References> {
    let mut thing = thing.cloned().unwrap_or_default();
    match edit {
        Edit::Insert(at, to) => thing.1.insert(at.index(thing.1.len() + 1), *to),
        Edit::Remove(at) if !thing.1.is_empty() => drop(thing.1.remove(at.index(thing.1.len()))),
        Edit::Remove(_) => {}
        Edit::One(to) => thing.0 = *to,
        Edit::Delete => return None,
    }
    Some(thing)
}

/// The objects that each name is referred to by.
fn referrers(things: &BTreeMap<u8, References>) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (number, (one, list)) in things {
        for to in one.iter().chain(list) {
            all.entry(name(*to)).or_default().insert(name(*number));
        }
    }
    all
}

/// Whether each reference is to an object.
fn resolve(things: &BTreeMap<u8, References>) -> bool {
    things.values().all(|(one, list)| {
        one.iter().all(|one| things.contains_key(one))
            && list.iter().all(|one| things.contains_key(one) || *one == OTHER)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn referrers_and_faults_are_those_of_all_references(
        requests in prop::collection::vec(prop::collection::vec((0..THINGS, any_edit()), 1..3), 1..40),
    ) {
        let kinds = kinds();
        let mut store = ObjectStore::new(&kinds);
        let mut things: BTreeMap<u8, References> = (0..THINGS).map(|number| (number, (None, Vec::new()))).collect();
        let mut first = batch(&kinds);
        first.add_json("first", &format!(r#"{{"kind": "other", "id": "{}"}}"#, name(OTHER)));
        for (number, to) in &things {
            first.add_json("first", &document(&(*number, Some(to.clone()))));
        }
        let created = store.plan(first).expect("it has no faults");
        store.commit(&created);
        for edits in requests {
            let mut wanted = things.clone();
            let mut request: BTreeMap<u8, Option<References>> = BTreeMap::new();
            for (number, edit) in &edits {
                let after = edited(wanted.get(number), edit);
                match after.clone() {
                    Some(thing) => drop(wanted.insert(*number, thing)),
                    None => drop(wanted.remove(number)),
                }
                if after.is_some() || things.contains_key(number) {
                    request.insert(*number, after);
                } else {
                    request.remove(number);
                }
            }
            let request: Vec<Given> = request.into_iter().collect();
            let mut given = batch(&kinds);
            for edit in &request {
                given.add_json("request", &document(edit));
            }
            match store.plan(given) {
                Ok(changes) => {
                    prop_assert!(resolve(&wanted), "{request:?} is accepted after {things:?}");
                    store.commit(&changes);
                    things = wanted;
                }
                Err(faults) => {
                    prop_assert!(!resolve(&wanted), "{request:?} after {things:?}: {faults:?}");
                    let codes = [FaultCode::NoSuchObject, FaultCode::InUse];
                    prop_assert!(faults.iter().all(|fault| codes.contains(&fault.code)), "{faults:?}");
                }
            }
            let expected = referrers(&things);
            for number in 0..NAMES {
                let kind = if number == OTHER { "other" } else { "thing" };
                let key = ObjectKey::new(kind, &*name(number));
                let found: BTreeSet<String> = store.referrers(&key).map(|key| key.id.to_string()).collect();
                let expected = expected.get(&name(number)).cloned().unwrap_or_default();
                prop_assert_eq!(found, expected, "{}", number);
            }
        }
    }
}

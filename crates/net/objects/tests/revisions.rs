//! Revisions of objects, and writes that expect one.

use objects::{Batch, ChangeSet, Deletion, FaultCode, Object, ObjectKey, ObjectStore, Revision};

use crate::support::{batch, built_in, empty_store, numbered};

/// A store, and the number of its last transaction.
struct World {
    store: ObjectStore,
    txn: u64,
}

impl World {
    fn new() -> World {
        World { store: empty_store(), txn: 0 }
    }

    /// A store with a switch that transaction 1 created and transaction 2 changed, and another of transaction 2.
    fn of_two() -> World {
        let mut world = World::new();
        world.apply("{kind: switch, id: blue}");
        world.apply("{kind: switch, id: blue, tenant: acme}\n---\n{kind: switch, id: red}");
        world
    }

    fn commit(&mut self, mut changes: ChangeSet) -> ChangeSet {
        self.txn += 1;
        changes.stamp(self.txn);
        self.store.commit(&changes);
        changes
    }

    fn apply(&mut self, text: &str) -> ChangeSet {
        let changes = self.store.plan(documents(text)).unwrap_or_else(|faults| panic!("{faults:#?}"));
        self.commit(changes)
    }

    fn delete(&mut self, id: &str) -> ChangeSet {
        let changes = self.store.plan_delete(&[switch(id)]).unwrap_or_else(|faults| panic!("{faults:#?}"));
        self.commit(changes)
    }

    /// The transactions that created and changed a switch.
    fn revision(&self, id: &str) -> Option<(u64, u64)> {
        let object = self.store.get(&switch(id))?;
        let Revision { created, changed } = object.revision();
        Some((created, changed))
    }
}

fn documents(text: &str) -> Batch {
    let mut batch = batch(&built_in());
    batch.add_document("net.yaml", text);
    batch
}

fn switch(id: &str) -> ObjectKey {
    ObjectKey::new("switch", id)
}

#[test]
fn an_object_has_the_transactions_that_created_and_changed_it() {
    let mut world = World::new();
    world.apply("{kind: switch, id: blue}\n---\n{kind: switch, id: red}");
    assert_eq!((world.revision("blue"), world.revision("red")), (Some((1, 1)), Some((1, 1))));
    world.apply("{kind: switch, id: blue, tenant: acme}\n---\n{kind: switch, id: red}");
    assert_eq!(world.revision("blue"), Some((1, 2)));
    assert_eq!(world.revision("red"), Some((1, 1)), "it is as it was");
    world.apply("{kind: switch, id: blue, tenant: acme, labels: {a: b}}");
    assert_eq!(world.revision("blue"), Some((1, 3)));
    // Created again, it is another one.
    world.delete("blue");
    world.apply("{kind: switch, id: blue}");
    assert_eq!(world.revision("blue"), Some((5, 5)));
}

#[test]
fn what_is_undone_gives_back_the_revisions() {
    let mut world = World::of_two();
    let before = [world.revision("blue"), world.revision("red")];
    let changed = world.apply("{kind: switch, id: blue}\n---\n{kind: switch, id: red, delete: true}");
    assert_eq!([world.revision("blue"), world.revision("red")], [Some((1, 3)), None]);
    world.store.commit(&changed.inverse());
    assert_eq!([world.revision("blue"), world.revision("red")], before);
}

#[test]
fn a_revision_is_no_part_of_the_object() {
    let world = World::of_two();
    let blue = world.store.get(&switch("blue")).expect("it is there");
    let mut fresh = World::new();
    fresh.apply("{kind: switch, id: blue, tenant: acme}");
    let other = fresh.store.get(&switch("blue")).expect("it is there");
    assert_ne!(blue.revision(), other.revision());
    assert_eq!(blue, other);
    let texts = |object: &Object| (object.to_json(), object.to_yaml(), object.rows().count());
    assert_eq!(texts(blue), texts(other));
    assert_eq!(blue.to_json(), r#"{"kind":"switch","id":"blue","tenant":"acme"}"#);
}

/// What a request is refused for.
fn refused(world: &World, batch: Batch) -> Vec<String> {
    world.store.plan(batch).map_or_else(|faults| faults.iter().map(numbered).collect(), |_| Vec::new())
}

#[test]
fn of_two_writers_who_read_the_same_the_second_is_refused() {
    let mut world = World::of_two();
    let (first, second) = (
        "{kind: switch, id: blue, tenant: one, revision: 2}",
        "{kind: switch, id: blue, tenant: two, revision: 2}",
    );
    world.apply(first);
    assert_eq!(
        refused(&world, documents(second)),
        [
            "net.yaml: document 1: switch blue: revision: is 2, but transaction 3 has changed the object since; read it again and repeat the change"
        ]
    );
    let fault = &world.store.plan(documents(second)).unwrap_err()[0];
    assert_eq!((fault.code, fault.code.name(), &*fault.path), (FaultCode::Stale, "stale", "revision"));
    assert_eq!(FaultCode::of_name("stale"), FaultCode::Stale);
    // The same content is no excuse: the writer does not know what it is.
    assert_eq!(refused(&world, documents(first)).len(), 1);
    world.apply("{kind: switch, id: blue, tenant: two, revision: 3}");
    assert_eq!(world.revision("blue"), Some((1, 4)));
}

#[test]
fn a_stale_write_names_both_numbers_and_the_remedy() {
    let mut world = World::of_two();
    world.delete("red");
    let read_again = "read it again and repeat the change";
    for (id, members, why) in [
        (
            "blue",
            "revision: 1",
            &*format!("is 1, but transaction 2 has changed the object since; {read_again}"),
        ),
        (
            "blue",
            "revision: 9",
            &format!("is 9, but the last transaction that changed the object is 2; {read_again}"),
        ),
        (
            "blue",
            "revision: 0",
            "is 0, which asks for a new object, but it exists since transaction 1; read it, and repeat the change with its revision",
        ),
        (
            "red",
            "revision: 2",
            "is 2, but the object does not exist any more; leave `revision` out if the change is meant all the same",
        ),
        ("blue", "revision: 2", ""),
        ("blue", "revision: 2.0", ""),
        ("blue", "revision: null", ""),
        ("red", "revision: 0", ""),
    ] {
        for delete in ["", ", delete: true"] {
            let text = format!("{{kind: switch, id: {id}, {members}{delete}}}");
            let faults = refused(&world, documents(&text));
            let wanted = format!("net.yaml: document 1: switch {id}: revision: {why}");
            assert_eq!(faults, Vec::from_iter((!why.is_empty()).then_some(wanted)), "{text}");
        }
    }
}

#[test]
fn a_revision_that_is_none_is_a_fault_of_the_document() {
    let world = World::of_two();
    for (value, why) in [
        ("new", "must be the number of a transaction, not text"),
        ("[2]", "must be the number of a transaction, not a list"),
        ("-1", "-1 is not the number of a transaction: a whole number from 0 on"),
        ("1.5", "1.5 is not the number of a transaction: a whole number from 0 on"),
    ] {
        for delete in ["", ", delete: true"] {
            let text = format!("{{kind: switch, id: blue, revision: {value}{delete}}}");
            let batch = documents(&text);
            let hidden = batch.deletions().unwrap_err();
            assert_eq!((hidden.len(), hidden[0].code), (1, FaultCode::BadValue), "{text}");
            assert_eq!(
                refused(&world, batch),
                [format!("net.yaml: document 1: switch blue: revision: {why}")]
            );
        }
    }
}

#[test]
fn a_stale_write_refuses_all_of_its_batch_beside_the_other_faults() {
    let world = World::of_two();
    let text = "
{kind: switch, id: green}
---
{kind: switch, id: blue, revision: 1}
---
{kind: switch_port, id: p, switch: black}
---
{kind: switch, id: red, revision: 1, delete: true}
---
{kind: switch, id: white, tennant: acme}
";
    let faults = world.store.plan(documents(text)).unwrap_err();
    let codes: Vec<_> =
        faults.iter().map(|fault| (fault.id.as_deref().unwrap_or_default(), fault.code)).collect();
    let stale = FaultCode::Stale;
    assert_eq!(
        codes,
        [("blue", stale), ("p", FaultCode::NoSuchObject), ("red", stale), ("white", FaultCode::UnknownField)]
    );
    assert_eq!(
        refused(&world, documents("{kind: switch, id: green}\n---\n{kind: switch, id: blue, revision: 1}"))
            .len(),
        1
    );
}

#[test]
fn a_batch_expects_a_revision_of_each_object_that_has_none_of_its_own() {
    let mut world = World::of_two();
    let expecting = |revision, text: &str| {
        let mut batch = batch(&built_in());
        batch.expect(revision);
        batch.add_document("net.yaml", text);
        batch
    };
    assert_eq!(refused(&world, expecting(1, "{kind: switch, id: blue}")).len(), 1);
    assert_eq!(refused(&world, expecting(1, "{kind: switch, id: blue, delete: true}")).len(), 1);
    assert_eq!(refused(&world, expecting(1, "{kind: switch, id: blue, revision: 2}")), Vec::<String>::new());
    assert_eq!(refused(&world, expecting(0, "{kind: switch, id: blue}")).len(), 1);
    assert_eq!(refused(&world, expecting(0, "{kind: switch, id: green}")), Vec::<String>::new());
    world.delete("red");
    // What a batch prunes it does not name, so nothing is expected of it.
    let mut batch = expecting(0, "{kind: switch, id: green}");
    batch.prune = true;
    assert_eq!(refused(&world, batch), Vec::<String>::new());
}

#[test]
fn a_deletion_expects_a_revision() {
    let world = World::of_two();
    let refused = |id: &str, expected| {
        let deletions = [Deletion { key: switch(id), expected }];
        let faults = world.store.plan_delete(&deletions).err().unwrap_or_default();
        faults.iter().map(|fault| (fault.code, fault.path.clone())).collect::<Vec<_>>()
    };
    assert_eq!(refused("blue", Some(1)), [(FaultCode::Stale, "revision".to_owned())]);
    assert_eq!(refused("blue", Some(0)), [(FaultCode::Stale, "revision".to_owned())]);
    assert_eq!(refused("blue", Some(2)), []);
    assert_eq!(refused("blue", None), []);
    assert_eq!(refused("green", Some(2)), [(FaultCode::NoSuchObject, String::new())]);
    // Documents that name what is to be deleted.
    let named = documents("{kind: switch, id: blue, tennant: acme, revision: 1}").deletions().unwrap();
    assert_eq!(named, [Deletion { key: switch("blue"), expected: Some(1) }]);
}

#[test]
fn objects_of_a_journal_expect_nothing() {
    let mut stored = Batch::stored(&built_in());
    stored.add_json("journal", r#"{"kind": "switch", "id": "s", "revision": 7}"#);
    stored.add_json("journal", r#"{"kind": "switch", "id": "t", "revision": "?"}"#);
    let changes = empty_store().plan(stored).unwrap();
    assert_eq!(changes.changes.len(), 2);
}

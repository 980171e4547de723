//! Revisions of objects.

use objects::{Batch, ChangeSet, Object, ObjectKey, ObjectStore, Revision};

use crate::support::{batch, built_in, empty_store};

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

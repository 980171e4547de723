//! Revisions of objects through requests, failures of the journal and restarts, and requests that expect one.

use objects::{FaultCode, Revision};

use super::*;

const DRY: Terms = Terms { strict: false, careful: false, dry_run: true };

fn quiet(id: usize) -> ObjectKey {
    ObjectKey::new("quiet_port", format!("q{id}"))
}

fn revisions(core: &Core) -> BTreeMap<ObjectKey, Revision> {
    core.objects().iter().map(|(key, object)| (key, object.revision())).collect()
}

#[derive(Debug, Clone)]
enum Write {
    /// Objects with their limits.
    Apply(Vec<(usize, u32)>),
    Delete(usize),
    Set(usize, u32),
    Merge(usize, u32),
}

#[derive(Debug, Clone)]
enum Step {
    /// A request, whether it is only tried out, and whether the journal can be written.
    Write(Write, bool, bool),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (id, limit) = (0..4_usize, 1..3_u32);
    let objects = prop::collection::btree_map(id.clone(), limit.clone(), 1..4);
    let write = prop_oneof![
        3 => objects.prop_map(|objects| Write::Apply(objects.into_iter().collect())),
        1 => id.clone().prop_map(Write::Delete),
        1 => (id.clone(), limit.clone()).prop_map(|(id, limit)| Write::Set(id, limit)),
        1 => (id, limit).prop_map(|(id, limit)| Write::Merge(id, limit)),
    ];
    prop_oneof![
        8 => (write, prop::bool::weighted(0.1), prop::bool::weighted(0.8))
            .prop_map(|(write, dry, works)| Step::Write(write, dry, works)),
        1 => Just(Step::Restart),
    ]
}

fn change(world: &World, write: &Write) -> Change {
    match write {
        Write::Apply(objects) => {
            let documents =
                objects.iter().map(|(id, limit)| format!("{{kind: quiet_port, id: q{id}, limit: {limit}}}"));
            Change::Apply(Box::new(world.batch(&documents.collect::<Vec<_>>().join("\n---\n"))))
        }
        Write::Delete(id) => Change::Delete(vec![quiet(*id).into()]),
        Write::Set(id, limit) => {
            let limit = Amendment { field: "limit".to_owned(), value: Some(limit.to_string()) };
            Change::Set { key: quiet(*id), amendments: vec![limit], expected: None }
        }
        Write::Merge(id, limit) => merge(*id, &format!("{{\"limit\": {limit}}}"), None),
    }
}

fn merge(id: usize, patch: &str, expected: Option<u64>) -> Change {
    Change::Merge { key: quiet(id), patch: patch.to_owned(), expected }
}

/// What an accepted transaction makes of limits and revisions.
fn follow(model: &mut BTreeMap<usize, (u32, Revision)>, write: &Write, txn: u64) {
    let mut put = |id: usize, limit: u32| {
        let (own, revision) = model.entry(id).or_insert((0, Revision { created: txn, changed: txn }));
        if *own != limit {
            (*own, revision.changed) = (limit, txn);
        }
    };
    match write {
        Write::Apply(objects) => objects.iter().for_each(|(id, limit)| put(*id, *limit)),
        Write::Set(id, limit) | Write::Merge(id, limit) => put(*id, *limit),
        Write::Delete(id) => drop(model.remove(id)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn revisions_are_those_of_the_transactions_that_count_whatever_happens_in_between(
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let mut world = World::new(Patience::default());
        let first = revisions(&world.machine().core);
        let mut model = BTreeMap::new();
        for step in &steps {
            match step {
                Step::Restart => world.start(),
                Step::Write(write, dry, works) => {
                    world.works = *works;
                    let terms = if *dry { DRY } else { Terms::default() };
                    let change = change(&world, write);
                    if let Ok(Applied { txn: Some(txn), .. }) = world.request_on(terms, change) {
                        follow(&mut model, write, txn);
                    }
                    world.works = true;
                }
            }
            let mut wanted = first.clone();
            wanted.extend(model.iter().map(|(id, (_, revision))| (quiet(*id), *revision)));
            prop_assert_eq!(&revisions(&world.machine().core), &wanted);
            let published = world.published.page("quiet_port", None, usize::MAX, None, &|_| true).unwrap();
            let published: Vec<Revision> =
                published.objects.iter().map(|seen| seen.object().revision()).collect();
            prop_assert_eq!(published, model.values().map(|(_, revision)| *revision).collect::<Vec<_>>());
        }
        let running = revisions(&world.machine().core);
        prop_assert_eq!(revisions(&world.restored(|_| true)), running);
    }
}

/// Other controllers may have written records that put an object as it is.
#[test]
fn a_record_that_puts_an_object_as_it_is_does_not_change_it() {
    let mut world = World::new(Patience::default());
    world.apply("{kind: quiet_port, id: q0, limit: 1}").unwrap();
    let before = revisions(&world.restored(|_| true));
    let mut again = world.records.last().unwrap().clone();
    (again.txn, again.insert) = (again.txn + 1, BTreeMap::new());
    world.records.push(again);
    assert_eq!(revisions(&world.restored(|_| true)), before);
}

fn stale(answer: &Result<Applied, Refusal>) -> bool {
    matches!(answer, Err(Refusal::Objects { faults }) if faults.iter().all(|fault| fault.code == FaultCode::Stale))
}

/// Both have read the object before either has written it, and both wait for the same write to disk.
#[test]
fn of_two_writers_in_one_group_the_second_is_refused() {
    let mut world = World::new(Patience::default());
    let txn = world.apply("{kind: quiet_port, id: q0, limit: 1}").unwrap().txn.unwrap();
    let now = world.now;
    for (id, limit) in [(1, 2), (2, 3)] {
        let (by, accepted, gone) = ("test".into(), now.instant, Cancel::default());
        let text = format!("{{kind: quiet_port, id: q0, limit: {limit}, revision: {txn}}}");
        let change = Change::Apply(Box::new(world.batch(&text)));
        let request = Request { id: RequestId(id), change, terms: Terms::default(), by, accepted, gone };
        assert_eq!(world.step(Event::Request(request)), []);
    }
    let answers = world.group(None);
    assert!(answers[0].is_ok() && stale(&answers[1]), "{answers:?}");
    let object = world.machine().core.objects().get(&quiet(0)).unwrap().to_json();
    assert!(object.contains(r#""limit":2"#), "{object}");
}

#[test]
fn every_way_to_change_an_object_can_expect_a_revision() {
    let mut world = World::new(Patience::default());
    let txn =
        world.apply("{kind: quiet_port, id: q0, limit: 1}\n---\n{kind: quiet_port, id: q1}").unwrap().txn;
    let txn = txn.unwrap();
    let set = |limit: &str, expected| {
        let amendments = vec![Amendment { field: "limit".to_owned(), value: Some(limit.to_owned()) }];
        Change::Set { key: quiet(0), amendments, expected }
    };
    let delete = |expected| Change::Delete(vec![quiet(1).into(), Deletion { key: quiet(0), expected }]);
    assert!(stale(&world.request(set("2", Some(txn - 1)))));
    assert_eq!(world.request(set("2", Some(txn))).unwrap().txn, Some(txn + 1));
    assert!(stale(&world.request(set("3", Some(txn)))));
    assert!(stale(&world.request(merge(0, r#"{"limit": 3}"#, Some(txn)))));
    // The one in the patch counts first.
    assert!(stale(&world.request(merge(0, &format!(r#"{{"revision": {txn}}}"#), Some(txn + 1)))));
    let before = revisions(&world.machine().core);
    assert!(stale(&world.request(delete(Some(txn)))));
    assert!(stale(&world.apply(&format!(
        "{{kind: quiet_port, id: q2}}\n---\n{{kind: quiet_port, id: q0, revision: {txn}}}"
    ))));
    assert_eq!(revisions(&world.machine().core), before, "a stale write refuses the whole request");
    assert_eq!(world.request(delete(Some(txn + 1))).unwrap().txn, Some(txn + 2));
}

#[test]
fn a_merge_patch_changes_the_object_as_it_is_by_then() {
    let mut world = World::new(Patience::default());
    world.apply("{kind: quiet_port, id: q0, limit: 1, labels: {a: b}}").unwrap();
    let applied = world.request(merge(0, r#"{"limit": null, "labels": {"c": "d"}}"#, None)).unwrap();
    let object = applied.changes.changes[0].after.as_ref().unwrap();
    assert_eq!(object.to_json(), r#"{"kind":"quiet_port","id":"q0","labels":{"a":"b","c":"d"},"limit":7}"#);
    assert_eq!(world.request(merge(0, "{}", None)).unwrap().txn, None);
    let mut refused = |id, patch| world.request(merge(id, patch, None)).unwrap_err().to_string();
    assert_eq!(refused(1, "{}"), "quiet_port q1: does not exist; `weft apply` creates it");
    assert_eq!(refused(0, r#"{"limt": 1}"#), "quiet_port q0: limt: unknown field; did you mean `limit`?");
    assert!(refused(0, "{").starts_with("quiet_port q0: the merge patch is not valid JSON: EOF"));
}

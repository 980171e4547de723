//! What readers get of objects while they change: a client that has a list and follows the changes always has what a new list would be.

use objects::ObjectKey;
use serde_json::json;

use super::*;
use crate::status::{Cursor, Page, RevisionError, Seen, Version};

/// A client that follows all objects.
#[derive(Default)]
pub(super) struct Watcher {
    objects: BTreeMap<ObjectKey, Arc<Seen>>,
    cursor: Option<Cursor>,
}

/// All objects as a new client gets them, and the revision.
fn list(published: &Published) -> (BTreeMap<ObjectKey, Arc<Seen>>, u64) {
    let mut objects = BTreeMap::new();
    for kind in published.read(&BTreeSet::new()).objects.keys() {
        let mut after = None;
        loop {
            let page = published.page(kind, after.as_deref(), 2, None, &|_| true).unwrap();
            objects.extend(page.objects.into_iter().map(|seen| (seen.object().key(), seen)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    (objects, published.revision())
}

impl Watcher {
    /// Takes what was published, and checks that a new client has the same.
    pub(super) fn follow(&mut self, published: &Published) {
        let (now, revision) = list(published);
        let Some(cursor) = &mut self.cursor else {
            self.cursor = Some(published.cursor(revision).unwrap());
            self.objects = now;
            return;
        };
        let following = published.versions_after(cursor, None, usize::MAX).unwrap();
        assert!(!following.has_more);
        *cursor = following.cursor;
        assert_eq!(cursor.revision(), revision);
        for version in following.versions {
            let before = match &version.after {
                Some(after) => self.objects.insert(version.key.clone(), after.clone()),
                None => self.objects.remove(&version.key),
            };
            let ids = |seen: &Option<Arc<Seen>>| seen.as_ref().map(Arc::as_ptr);
            assert_eq!(ids(&before), ids(&version.before), "{}", version.key);
            let is_replaced = version.before.as_ref().zip(version.after.as_ref());
            let is_replaced = is_replaced.is_some_and(|(a, b)| !Arc::ptr_eq(a.object(), b.object()));
            assert!(
                is_replaced || state(version.before.as_ref()) != state(version.after.as_ref()),
                "{} changed",
                version.key
            );
        }
        assert!(
            self.objects.keys().eq(now.keys())
                && self.objects.values().zip(now.values()).all(|(a, b)| Arc::ptr_eq(a, b))
        );
    }
}

/// The versions since a revision.
pub(super) fn since(world: &World, revision: u64) -> Vec<Arc<Version>> {
    let cursor = world.published.cursor(revision).unwrap();
    world.published.versions_after(&cursor, None, usize::MAX).unwrap().versions
}

/// The state and the problems of an object that is there.
type Told = Option<(serde_json::Value, Vec<String>)>;

fn state(seen: Option<&Arc<Seen>>) -> Told {
    let seen = seen?;
    let problems = seen.problems().iter().map(|problem| problem.text.clone()).collect();
    Some((seen.state().into(), problems))
}

/// The object, and its state and problems before and after.
fn told(version: &Version) -> (String, [Told; 2]) {
    (version.key.to_string(), [&version.before, &version.after].map(|seen| state(seen.as_ref())))
}

#[test]
fn objects_reports_and_problems_make_versions_with_states() {
    let mut world = World::new(Patience::default());
    let none = json!({"unattached": "it has none"});
    let begun = world.published.revision();
    assert!(since(&world, begun).is_empty());

    world.apply("{kind: switch_port, id: p3, number: 91}").unwrap();
    let high = vec!["its number is above 90".to_owned()];
    let unattached = Some((none.clone(), high.clone()));
    let [created] = &since(&world, begun)[..] else { panic!("one version") };
    assert_eq!(told(created), ("switch_port p3".to_owned(), [None, unattached.clone()]));
    assert!(created.is_last && created.revision == begun + 1);

    // A report changes states.
    let mut report = Report::default();
    let vif = Vif { ofport: 7, mac: String::new(), interface: InterfaceId(1) };
    report.vifs.insert("p3".to_owned(), vif);
    report.interfaces.insert(("p3".to_owned(), InterfaceId(1)));
    world.event("hv1", SwitchEvent::Report(report));
    let attached = Some((json!({}), high));
    let [.., version] = &since(&world, begun + 1)[..] else { panic!("a version") };
    assert_eq!(told(version), ("switch_port p3".to_owned(), [unattached, attached.clone()]));
    let [before, after] = [&version.before, &version.after].map(|seen| seen.as_ref().unwrap().object());
    assert!(Arc::ptr_eq(before, after), "both share the object");

    // What is not on disk has not happened.
    let revision = world.published.revision();
    world.works = false;
    world.apply("{kind: switch_port, id: p3, number: 4}").unwrap_err();
    assert_eq!((world.published.revision(), since(&world, revision).len()), (revision, 0));
    world.works = true;
    // Nor has what changes nothing.
    world.apply("{kind: switch_port, id: p3, number: 91}").unwrap();
    assert_eq!((world.published.revision(), since(&world, revision).len()), (revision, 0));

    world.request(Change::Delete(vec![ObjectKey::new("switch_port", "p3").into()])).unwrap();
    let of_p3 = since(&world, revision).into_iter().find(|version| &*version.key.id == "p3").unwrap();
    assert_eq!(told(&of_p3), ("switch_port p3".to_owned(), [attached, None]));

    // The list of before is there still.
    let page = |at| world.published.page("switch_port", Some("p2"), 9, at, &|_| true).unwrap();
    let ids = |page: Page| -> Vec<String> {
        page.objects.iter().map(|seen| seen.object().id().to_string()).collect()
    };
    assert_eq!(
        [Some(begun), Some(revision), None].map(|at| ids(page(at))),
        [vec![], vec!["p3".to_owned()], vec![]]
    );
}

#[test]
fn what_changes_without_a_transaction_has_a_revision_of_its_own() {
    let mut world = World::new(Patience::default());
    let (txn, revision) = (world.machine().core.last_txn(), world.published.revision());
    let mut report = Report::default();
    let vif = Vif { ofport: 7, mac: String::new(), interface: InterfaceId(1) };
    report.vifs.insert("p11".to_owned(), vif);
    report.interfaces.insert(("p11".to_owned(), InterfaceId(1)));
    world.event("hv1", SwitchEvent::Report(report));
    assert_eq!(world.machine().core.last_txn(), txn);
    let [version] = &since(&world, revision)[..] else { panic!("one version") };
    let states = [
        json!({"unattached": "it has none"}),
        json!({"unattached": "it has none; hv1 has one with `p11`, which no object has"}),
    ];
    let states = states.map(|state| Some((state, Vec::new())));
    assert_eq!(told(version), ("switch_port p1".to_owned(), states));
}

#[test]
fn a_revision_of_before_a_restart_is_too_old() {
    let mut world = World::new(Patience::default());
    let before = world.published.revision();
    let next = before + 1;
    assert_eq!(
        world.published.cursor(next).unwrap_err(),
        RevisionError::Ahead { asked: next, newest: before }
    );
    world.now.wall += Duration::from_secs(1);
    world.start();
    let start = world.published.revision();
    let too_old = RevisionError::TooOld { asked: before, oldest: start, newest: start };
    assert_eq!(world.published.cursor(before).unwrap_err(), too_old);
    let page = world.published.page("switch_port", None, 9, Some(before), &|_| true);
    assert_eq!(page.unwrap_err(), too_old);
    assert!(since(&world, start).is_empty(), "a start changes no object");
}

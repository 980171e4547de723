//! Random publications, with readers that begin at any revision and go at any pace.

use nlog::Sources;
use objects::{Object, ObjectStore};
use test_random::{Random, seeds};

use super::history::{Bounds, History};
use super::reading::Page;
use super::seen::{SeenStatus, shared};
use super::*;
use crate::rules::Rules;
use nlog_data::Value;

mod measure;

const RULES: &str = "
object transport_node { ovsdb: opt<string>; openflow: opt<string>; datapath_type: opt<string>; }
object router { number: int; }
object switch_port { id_space port; number: int; text: string = \"\"; }
state table port_mtu(switch_port: ref switch_port, mtu: int) key(switch_port);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>,
                            datapath_type: opt<string>) key(hv);
switch_address(hv, ovsdb, openflow, datapath_type) :- transport_node(hv, ovsdb, openflow, datapath_type);
";

const KINDS: [&str; 2] = ["router", "switch_port"];
const IDS: u64 = 12;

/// Objects of two kinds.
struct Kinds {
    rules: Arc<Rules>,
    objects: ObjectStore,
}

impl Kinds {
    fn new() -> Kinds {
        let compilation = nlog::compile(&Sources::from_texts([("test.nlog", RULES)]));
        let program = compilation.program.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
        let rules = Arc::new(Rules::new(program).unwrap());
        Kinds { objects: ObjectStore::new(rules.kinds()), rules }
    }

    fn object(&self, key: &ObjectKey, number: usize) -> Arc<Object> {
        let text = format!("{{kind: {}, id: {}, number: {number}}}", key.kind, key.id);
        let changes = self.objects.plan_document("net.yaml", &text).unwrap();
        changes.changes[0].after.clone().unwrap()
    }

    /// An object that tells the number of its version by its only problem.
    fn seen(&self, object: Arc<Object>, serial: usize, mtu: i64) -> Arc<Seen> {
        let mtu = vec![Value::String(object.id().clone()), Value::Int(mtu)];
        let [kind, id, code, text] =
            [object.kind().name(), object.id(), "", &serial.to_string()].map(str::to_owned);
        let problems = vec![Arc::new(Problem { kind, id, code, text })];
        let status = SeenStatus {
            rows: shared(vec![(0, mtu)], None),
            problems: shared(problems, None),
            ..SeenStatus::default()
        };
        Arc::new(Seen::new(object, status, self.rules.clone()))
    }
}

/// The numbers of the versions of objects.
type List = BTreeMap<ObjectKey, String>;

fn serial(seen: &Seen) -> String {
    seen.problems()[0].text.clone()
}

fn of_kind(list: &List, kind: &str) -> List {
    list.iter().filter(|(key, _)| &*key.kind == kind).map(|(key, text)| (key.clone(), text.clone())).collect()
}

/// A history, and the list at each revision that there was.
struct World {
    kinds: Kinds,
    random: Random,
    history: History,
    bounds: Bounds,
    lists: BTreeMap<u64, List>,
    /// The number of versions of each revision, and their bytes.
    sizes: BTreeMap<u64, (usize, usize)>,
    /// The kinds of the versions of each revision.
    kinds_of: BTreeMap<u64, Vec<Arc<str>>>,
    versions: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let most = random.below(40) as usize;
        let bounds = if random.chance(50) {
            Bounds { versions: most, of_few_objects: most, bytes: usize::MAX }
        } else {
            Bounds { versions: usize::MAX, of_few_objects: usize::MAX, bytes: most * 500 }
        };
        let (kinds, history) = (Kinds::new(), History::bounded(bounds));
        let (lists, sizes, kinds_of) = Default::default();
        let mut world = World { kinds, random, history, bounds, lists, sizes, kinds_of, versions: 0 };
        world.history.begin(KINDS.into_iter().map(Into::into), 1 + seed);
        let changes = world.changes(IDS);
        world.history.fill(changes.into_iter().filter_map(|(key, seen)| Some((key, seen?))));
        world.remember();
        world
    }

    /// Random changes of at most so many objects, each of one object.
    fn changes(&mut self, most: u64) -> Vec<(ObjectKey, Option<Arc<Seen>>)> {
        let mut changes = BTreeMap::new();
        for _ in 0..self.random.below(most + 1) {
            let kind = *self.random.pick(&KINDS);
            let key = ObjectKey::new(kind, format!("o{:02}", self.random.below(IDS)));
            self.versions += 1;
            let before = self.history.get(&key.kind, &key.id).cloned();
            let after = match (self.random.below(3), before) {
                (0, _) => None,
                // Only the state changes.
                (1, Some(before)) => {
                    Some(self.kinds.seen(before.object().clone(), self.versions, self.versions as i64))
                }
                _ => Some(self.kinds.seen(self.kinds.object(&key, self.versions), self.versions, 1500)),
            };
            changes.insert(key, after);
        }
        changes.into_iter().collect()
    }

    fn publish(&mut self) {
        let (changes, before) = (self.changes(8), self.history.newest());
        let differ = |(key, after): &&(ObjectKey, Option<Arc<Seen>>)| {
            after.is_some() || self.history.get(&key.kind, &key.id).is_some()
        };
        let count = changes.iter().filter(differ).count();
        let known = self.history.cursor(before).unwrap();
        let dropped = self.history.change(changes);
        assert_eq!(self.history.newest(), before + u64::from(count > 0), "a revision for each change");
        if count > 0 {
            let newest = self.history.newest();
            let following = self.history.follow(&known, None, usize::MAX);
            let versions = following.map_or_else(|_| dropped, |following| following.versions);
            let newest_only = versions.iter().filter(|version| version.revision == newest);
            let (bytes, kinds) = newest_only
                .map(|version| (version.bytes(), version.key.kind.clone()))
                .unzip::<_, _, Vec<_>, _>();
            self.sizes.insert(newest, (count, bytes.iter().sum()));
            self.kinds_of.insert(newest, kinds);
        }
        self.remember();
    }

    fn remember(&mut self) {
        let objects = self.history.kinds().flat_map(|(_, objects)| objects.values());
        let list = objects.map(|seen| (seen.object().key(), serial(seen))).collect();
        self.lists.insert(self.history.newest(), list);
    }

    /// All is published anew, as after a change of rules.
    fn begin_anew(&mut self) {
        let revision = self.history.newest() + 1 + self.random.below(5);
        self.history.begin(KINDS.into_iter().map(Into::into), revision);
        self.sizes.clear();
        self.lists.clear();
        self.kinds_of.clear();
        self.remember();
    }

    /// Whether a watcher that knows all until a revision has missed a version.
    fn has_missed(&self, known: u64, kind: Option<&str>) -> bool {
        let begun = self.lists.first_key_value().map_or(0, |(revision, _)| *revision);
        let dropped =
            self.kinds_of.range(known + 1..).take_while(|(revision, _)| **revision <= self.oldest());
        let is_of_kind = |of: &Arc<str>| kind.is_none_or(|kind| **of == *kind);
        known < begun || dropped.flat_map(|(_, kinds)| kinds).any(is_of_kind)
    }

    /// The revision after which all changes are within the bounds.
    fn oldest(&self) -> u64 {
        let (mut count, mut bytes) = (0, 0);
        for (revision, (more, more_bytes)) in self.sizes.iter().rev() {
            count += more;
            bytes += more_bytes;
            if count > self.bounds.versions || bytes > self.bounds.bytes {
                return *revision;
            }
        }
        self.lists.first_key_value().map_or(0, |(revision, _)| *revision)
    }

    /// Whether a reader may ask for a revision is told as it must be.
    fn check<T>(&self, asked: u64, result: Result<T, RevisionError>) -> Option<T> {
        let (oldest, newest) = (self.oldest(), self.history.newest());
        match result {
            Ok(result) => {
                assert!(
                    (oldest..=newest).contains(&asked),
                    "{asked} is served, but {oldest}..={newest} are known"
                );
                Some(result)
            }
            Err(error) if asked > newest => {
                assert_eq!(error, RevisionError::Ahead { asked, newest });
                None
            }
            Err(error) => {
                assert!(asked < oldest, "{error}, but {oldest}..={newest} are known");
                assert_eq!(error, RevisionError::TooOld { asked, oldest, newest });
                None
            }
        }
    }

    /// A revision, mostly one that there was.
    fn revision(&mut self) -> u64 {
        let first = self.lists.first_key_value().map_or(0, |(revision, _)| *revision);
        (first + self.random.below(self.history.newest() - first + 4)).saturating_sub(1)
    }
}

/// A client that has a list and follows what changes.
struct Watcher {
    kind: Option<&'static str>,
    list: List,
    cursor: Cursor,
}

impl Watcher {
    fn begin(world: &mut World) -> Option<Watcher> {
        let revision = world.revision();
        let kind = world.random.chance(50).then(|| *world.random.pick(&KINDS));
        let cursor = world.check(revision, world.history.cursor(revision))?;
        let list = &world.lists[&revision];
        let list = kind.map_or_else(|| list.clone(), |kind| of_kind(list, kind));
        Some(Watcher { kind, list, cursor })
    }

    /// Takes some of what follows. Returns whether it can go on.
    fn follow(&mut self, world: &mut World) -> bool {
        let kinds = self.kind.map(|kind| BTreeSet::from([Arc::from(kind)]));
        let most = world.random.below(6) as usize;
        let result = world.history.follow(&self.cursor, kinds.as_ref(), most);
        let known = self.cursor.revision();
        let following = if known >= world.oldest() || world.has_missed(known, self.kind) {
            world.check(known, result)
        } else {
            Some(result.expect("versions of other kinds are no loss"))
        };
        let Some(following) = following else { return false };
        assert!(following.versions.len() <= most.max(1));
        for version in &following.versions {
            let before = match &version.after {
                Some(after) => self.list.insert(version.key.clone(), serial(after)),
                None => self.list.remove(&version.key),
            };
            assert_eq!(before, version.before.as_deref().map(serial), "it is what the watcher knows");
        }
        self.cursor = following.cursor;
        let revision = self.cursor.revision();
        assert!(following.has_more || revision == world.history.newest(), "the watcher is up to date");
        if following.versions.last().is_none_or(|version| version.revision <= revision) {
            let list = &world.lists[&revision];
            let list = self.kind.map_or_else(|| list.clone(), |kind| of_kind(list, kind));
            assert_eq!(self.list, list, "at revision {revision}");
        }
        true
    }
}

/// A client that reads a list page by page.
struct Pager {
    kind: &'static str,
    at: u64,
    after: Option<Arc<str>>,
    list: List,
}

impl Pager {
    fn begin(world: &mut World) -> Pager {
        let (kind, list) = (*world.random.pick(&KINDS), List::new());
        let at = if world.random.chance(50) { world.history.newest() } else { world.revision() };
        Pager { kind, at, after: None, list }
    }

    /// Reads a page of objects with odd numbers. Returns whether there are more.
    fn read(&mut self, world: &mut World) -> bool {
        let is_odd = |text: &str| text.ends_with(['1', '3', '5', '7', '9']);
        let is_first = self.after.is_none() && self.at == world.history.newest();
        let at = (!is_first || world.random.chance(50)).then_some(self.at);
        let (most, limit) = (1 + world.random.below(5) as usize, 1 + world.random.below(4) as usize);
        let result = world.history.look(self.kind, self.after.as_deref(), at, most);
        let Some(looked) = world.check(self.at, result) else { return false };
        assert!(looked.objects.len() <= most);
        let page = Page::of(looked, limit, &|seen| is_odd(&serial(seen)));
        assert!(page.objects.len() <= limit && page.revision == self.at);
        for seen in &page.objects {
            let before = self.list.insert(seen.object().key(), serial(seen));
            assert_eq!(before, None, "no object is told twice");
        }
        assert!(page.next.is_none() || page.next > self.after, "the pager goes on");
        self.after = page.next;
        if self.after.is_none() {
            let mut list = of_kind(&world.lists[&self.at], self.kind);
            list.retain(|_, serial| is_odd(serial));
            assert_eq!(self.list, list, "at revision {}", self.at);
        }
        self.after.is_some()
    }
}

#[test]
fn lists_pages_and_versions_fit_together_at_every_revision() {
    for seed in seeds!("lists_pages_and_versions_fit_together_at_every_revision", 200) {
        let mut world = World::new(seed);
        let (mut watchers, mut pagers) = (Vec::new(), Vec::new());
        for _ in 0..80 {
            match world.random.below(4) {
                0 if world.random.chance(5) => world.begin_anew(),
                0 => world.publish(),
                1 => watchers.extend(Watcher::begin(&mut world)),
                2 => pagers.push(Pager::begin(&mut world)),
                _ => {
                    watchers.retain_mut(|watcher| watcher.follow(&mut world));
                    pagers.retain_mut(|pager| pager.read(&mut world));
                }
            }
        }
        // In the end, all have read all.
        while !pagers.is_empty() {
            pagers.retain_mut(|pager| pager.read(&mut world));
        }
        for mut watcher in watchers {
            while watcher.follow(&mut world) && watcher.cursor.revision() < world.history.newest() {}
        }
        world.check_bounds();
    }
}

impl World {
    fn check_bounds(&self) {
        let oldest = self.oldest();
        let cursor = self.history.cursor(oldest).unwrap();
        let versions = self.history.follow(&cursor, None, usize::MAX).unwrap().versions;
        assert!(versions.len() <= self.bounds.versions);
        assert!(versions.iter().map(|version| version.bytes()).sum::<usize>() <= self.bounds.bytes);
        let refused = oldest.checked_sub(1).map(|before| self.history.cursor(before));
        assert!(refused.is_none_or(|refused| matches!(refused, Err(RevisionError::TooOld { .. }))));
    }
}

#[test]
fn revisions_of_a_later_start_are_greater_and_exact_in_floating_point() {
    let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let year_2200 = history::first_revision(at(7_258_118_400));
    assert!(history::first_revision(at(1_800_000_000)) < year_2200 && year_2200 < 1 << 53);
    assert_eq!(history::first_revision(SystemTime::UNIX_EPOCH), 1, "0 is no revision");
}

#[test]
fn an_object_whose_state_changes_is_kept_once() {
    let kinds = Kinds::new();
    let object = kinds.object(&ObjectKey::new("switch_port", "p1"), 1);
    let before = kinds.seen(object.clone(), 1, 1500);
    let mtu = vec![Value::String(object.id().clone()), Value::Int(9000)];
    let status = SeenStatus { rows: shared(vec![(0, mtu)], None), ..before.status.clone() };
    let after = Seen::new(object, status, kinds.rules.clone());
    assert!(!before.is(&after));
    assert!(before.bytes_beside(Some(&after)) < before.bytes_beside(None) / 2);
    assert_eq!(after.state(), serde_json::Map::from_iter([("mtu".to_owned(), 9000.into())]));
    let columns: Vec<_> = after.columns().collect();
    assert_eq!(columns, [("mtu", &Value::Int(9000))]);
}

#[test]
fn a_small_network_has_a_short_history() {
    let kinds = Kinds::new();
    let key = |number: usize| ObjectKey::new(KINDS[0], format!("o{number:02}"));
    let kept = |objects: usize| {
        let bounds = Bounds { versions: 50, of_few_objects: 20, bytes: usize::MAX };
        let mut history = History::bounded(bounds);
        history.begin(KINDS.into_iter().map(Into::into), 1);
        for number in 0..200 {
            let key = key(number % objects);
            let seen = kinds.seen(kinds.object(&key, number), number, 1500);
            history.change(vec![(key, Some(seen))]);
        }
        let oldest = (1..=history.newest()).find(|revision| history.cursor(*revision).is_ok()).unwrap();
        history.newest() - oldest
    };
    assert_eq!([1, 10, 11, 24, 25, 26, 200].map(kept), [20, 20, 22, 48, 50, 50, 50]);
}

#[test]
fn whoever_is_up_to_date_learns_of_a_large_deletion() {
    let kinds = Kinds::new();
    let keys: Vec<ObjectKey> =
        (0..30).map(|number| ObjectKey::new(KINDS[0], format!("o{number:02}"))).collect();
    let mut history = History::bounded(Bounds { versions: 50, of_few_objects: 20, bytes: usize::MAX });
    history.begin(KINDS.into_iter().map(Into::into), 1);
    for (number, key) in keys.iter().enumerate() {
        let seen = kinds.seen(kinds.object(key, number), number, 1500);
        history.change(vec![(key.clone(), Some(seen))]);
    }
    let known = history.cursor(history.newest()).unwrap();
    history.change(keys[..28].iter().map(|key| (key.clone(), None)).collect());
    assert_eq!(history.follow(&known, None, usize::MAX).unwrap().versions.len(), 28);
}

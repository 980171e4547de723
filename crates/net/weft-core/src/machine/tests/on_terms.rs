//! Requests that take effect on terms, and changes of single fields.

use objects::{FieldChange, Outcome, Selection};
use serde_json::json;

use super::*;

const STRICT: Terms = Terms { strict: true, careful: false, dry_run: false };
const CAREFUL: Terms = Terms { strict: false, careful: true, dry_run: false };
const DRY: Terms = Terms { strict: false, careful: true, dry_run: true };

/// The number of records, the objects, the flows, the problems, and the number of interfaces on one host.
type State = (usize, Vec<String>, BTreeMap<String, Vec<String>>, Vec<String>, usize);

/// What a refused request and one that is only tried out must leave alone.
fn state(world: &mut World) -> State {
    let records = world.records.len();
    let flows = world.flows();
    let core = &world.machine().core;
    let objects = core.objects().iter().map(|(_, object)| object.to_json()).collect();
    let problems = core.problems().map(|problem| problem.text.clone()).collect();
    (records, objects, flows, problems, core.vif_count("hv3"))
}

fn problems(changes: &ProblemChanges) -> [Vec<&str>; 2] {
    [&changes.new, &changes.gone].map(|list| list.iter().map(|problem| &*problem.id).collect())
}

fn apply_on(world: &mut World, terms: Terms, text: &str) -> Result<Applied, Refusal> {
    let batch = world.batch(text);
    world.request_on(terms, Change::Apply(Box::new(batch)))
}

fn set(world: &mut World, id: &str, fields: &[(&str, Option<&str>)]) -> Result<Applied, Refusal> {
    let amendment = |(field, value): &(&str, Option<&str>)| Amendment {
        field: (*field).to_owned(),
        value: value.map(str::to_owned),
    };
    let amendments = fields.iter().map(amendment).collect();
    world.request(Change::Set { key: ObjectKey::new("quiet_port", id), amendments, expected: None })
}

#[test]
fn the_answer_has_the_problems_that_come_and_go_and_a_strict_request_brings_none() {
    let mut world = World::new(Patience::default());
    let before = state(&mut world);
    let high = "{kind: switch_port, id: p1, number: 91}\n---\n{kind: switch_port, id: p3, number: 92}";
    let refusal = apply_on(&mut world, STRICT, high).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "switch_port p1: its number is above 90\nswitch_port p3: its number is above 90"
    );
    assert!(matches!(&refusal, Refusal::Problems(problems) if problems[0].code == "high"), "{refusal:?}");
    assert_eq!(state(&mut world), before);

    let applied = world.apply(high).unwrap();
    assert_eq!(problems(&applied.problems), [vec!["p1", "p3"], vec![]]);
    // What is there already is no reason to refuse what does not bring it.
    let other = "{kind: switch_port, id: p4, number: 4}\n---\n{kind: switch_port, id: p3, number: 5}";
    let applied = apply_on(&mut world, STRICT, other).unwrap();
    assert_eq!(problems(&applied.problems), [vec![], vec!["p3"]]);
    world.start();
    assert_eq!(world.status().problems.len(), 1, "the journal has what took effect");
}

#[test]
fn a_host_with_ports_is_deleted_only_by_who_says_that_this_is_meant() {
    let mut world = World::new(Patience::default());
    let real = Real { is_up: true, plugged: [(0, 4), (1, 5)].into(), ..Real::default() };
    real.tell(&mut world, "hv3");
    let moved = Real { is_up: true, plugged: [(1, 6)].into(), ..Real::default() };
    moved.tell(&mut world, "hv2");
    let before = state(&mut world);
    let hv3 = || Change::Delete(vec![ObjectKey::new("transport_node", "hv3").into()]);

    let refusal = world.request_on(CAREFUL, hv3()).unwrap_err();
    assert_eq!(refusal.to_string(), "1 port has its interface on hv3: p1", "p2 has moved to hv2");
    let file = "{kind: transport_node, id: hv3, delete: true}";
    assert_eq!(apply_on(&mut world, CAREFUL, file).unwrap_err(), refusal);
    let tried = world.request_on(DRY, hv3()).unwrap();
    assert_eq!((tried.txn, tried.dry_run, tried.leaving), (None, true, vec!["hv3".to_owned()]));
    let cut_off = vec![CutOff { node: "hv3".to_owned(), ports: vec!["p1".to_owned()] }];
    assert_eq!(tried.cut_off, cut_off);
    assert_eq!(state(&mut world), before);

    // Whoever deletes the port too knows of it.
    let both = ["transport_node hv3", "switch_port p1"].map(|key| {
        let (kind, id) = key.split_once(' ').unwrap();
        Deletion::from(ObjectKey::new(kind, id))
    });
    let tried = world.request_on(DRY, Change::Delete(both.to_vec())).unwrap();
    assert_eq!(tried.cut_off, []);
    assert_eq!(world.request(hv3()).unwrap().cut_off, cut_off);
    assert_eq!(state(&mut world).4, 0);
}

#[test]
fn what_prunes_much_is_refused_until_it_is_meant() {
    let mut world = World::new(Patience::default());
    let ports = |numbers: std::ops::Range<u32>| {
        let ports = numbers.map(|number| format!("{{kind: quiet_port, id: q{number:03}}}"));
        ports.collect::<Vec<_>>().join("\n---\n")
    };
    world.apply(&ports(0..105)).unwrap();
    let hosts = NETWORK;
    let prune = |world: &mut World, terms: Terms, rest: u32, selection: Selection| {
        let mut batch = world.batch(&format!("{hosts}\n---\n{}", ports(0..rest)));
        (batch.prune, batch.selection) = (true, selection);
        world.request_on(terms, Change::Apply(Box::new(batch)))
    };
    let before = state(&mut world);
    // 110 objects: eleven are a tenth, and not more.
    let tried = prune(&mut world, DRY, 94, Selection::default()).unwrap();
    assert_eq!((tried.objects_before, tried.changes.effective().count()), (110, 11));
    let refusal = prune(&mut world, CAREFUL, 93, Selection::default()).unwrap_err();
    assert_eq!(refusal.to_string(), "12 of 110 objects would be pruned: 12 quiet_port");
    assert_eq!(state(&mut world), before);
    // What is not selected stays.
    let nothing = Selection { kinds: ["switch_port".into()].into(), ..Selection::default() };
    assert_eq!(prune(&mut world, CAREFUL, 1, nothing).unwrap().txn, None);
    let applied = prune(&mut world, CAREFUL, 94, Selection::default()).unwrap();
    assert_eq!(applied.changes.effective().count(), 11);
    let applied = prune(&mut world, Terms::default(), 1, Selection::default()).unwrap();
    assert_eq!((applied.changes.effective().count(), state(&mut world).1.len()), (93, 6));
    // Ten are few, whatever their share.
    world.apply(&ports(1..11)).unwrap();
    prune(&mut world, CAREFUL, 1, Selection::default()).unwrap();
}

#[test]
fn a_field_is_set_in_the_object_as_it_is_by_then() {
    let mut world = World::new(Patience::default());
    world.apply("{kind: quiet_port, id: q, labels: {app: web, 'k8s.io:x': y}}").unwrap();
    set(&mut world, "q", &[("limit", Some("9"))]).unwrap();
    let applied = set(&mut world, "q", &[("labels.app", Some("db")), ("labels.k8s.io:x", None)]).unwrap();
    let change = |field: &str, before, after, left_out| {
        let field = field.to_owned();
        FieldChange { field, before: Some(before), after, left_out }
    };
    assert_eq!(
        applied.changes.changes[0].fields(),
        [
            change("labels.app", json!("web"), Some(json!("db")), false),
            change("labels.k8s.io:x", json!("y"), None, true)
        ]
    );
    let applied = set(&mut world, "q", &[("limit", None)]).unwrap();
    assert_eq!(applied.changes.changes[0].fields(), [change("limit", json!(9), Some(json!(7)), true)]);
    let object = world.machine().core.objects().get(&ObjectKey::new("quiet_port", "q")).unwrap().to_json();
    assert_eq!(object, r#"{"kind":"quiet_port","id":"q","labels":{"app":"db"},"limit":7}"#);
    assert_eq!(set(&mut world, "q", &[("limit", Some("7"))]).unwrap().txn, None);

    let before = state(&mut world);
    let refused = |world: &mut World, id: &str, field, value| {
        set(world, id, &[("limit", Some("1")), (field, value)]).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&mut world, "q", "limt", Some("1")),
        "quiet_port q: limt: unknown field; did you mean `limit`?"
    );
    assert_eq!(
        refused(&mut world, "q", "limt", None),
        "quiet_port q: limt: unknown field; did you mean `limit`?"
    );
    assert_eq!(
        refused(&mut world, "other", "limit", None),
        "quiet_port other: does not exist; `weft apply` creates it"
    );
    // Whatever a request asks for, it is little work.
    let many = vec![("limit", Some("1")); 257];
    let why = set(&mut world, "q", &many).unwrap_err().to_string();
    assert_eq!(why, "quiet_port q: 257 fields are to change; change at most 256 at a time");
    let deep = "limit".to_owned() + &".x".repeat(1 << 20);
    let why = set(&mut world, "q", &[(&deep, Some("1"))]).unwrap_err().to_string();
    assert!(
        why.starts_with("quiet_port q: limit.x.x")
            && why.ends_with("more than 16 parts, deeper than any field"),
        "{why}"
    );
    assert_eq!(state(&mut world), before);
}

/// The transaction before waits for the same write to disk.
#[test]
fn what_is_only_tried_out_leaves_the_transaction_before_it_alone() {
    let mut world = World::new(Patience::default());
    let now = world.now;
    let request = |world: &World, id, terms, text: &str| {
        let (by, accepted, gone) = ("test".into(), now.instant, Cancel::default());
        let change = Change::Apply(Box::new(world.batch(text)));
        Event::Request(Request { id: RequestId(id), change, terms, by, accepted, gone })
    };
    let first = request(&world, 1, Terms::default(), "{kind: quiet_port, id: q}");
    let tried =
        request(&world, 2, DRY, "{kind: quiet_port, id: r}\n---\n{kind: switch_port, id: p1, number: 99}");
    let strict = request(&world, 3, STRICT, "{kind: switch_port, id: p1, number: 99}");
    for event in [first, tried, strict] {
        assert_eq!(world.step(event), []);
    }
    let answers = world.group(None);
    let [Ok(first), Ok(tried), Err(Refusal::Problems(_))] = &answers[..] else { panic!("{answers:?}") };
    assert!(first.txn.is_some() && tried.txn.is_none());
    let outcomes =
        |applied: &Applied| applied.changes.changes.iter().map(objects::Change::outcome).collect::<Vec<_>>();
    assert_eq!(
        [outcomes(first), outcomes(tried)],
        [vec![Outcome::Created], vec![Outcome::Created, Outcome::Updated]]
    );
    let (_, objects, ..) = state(&mut world);
    assert!(objects.iter().any(|object| object.contains(r#""id":"q""#)));
    assert!(!objects.iter().any(|object| object.contains(r#""id":"r""#)));
    world.start();
    assert_eq!(state(&mut world).1, objects, "the journal has the same");
}

//! A start from saved rows is one that derives them, or says why it derives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Sources;
use nlog_data::{Cancel, Memories};
use objects::{Batch, Object, Revision};
use switch_model::Desired;
use test_random::Random;
use weft_core::core::{Core, MakeEvaluator, Problem};
use weft_core::machine::Machine;
use weft_core::machine::Policy;
use weft_core::record::Record;
use weft_core::status::Published;

use super::super::fold::fold;
use super::super::{Replay, Store};
use super::*;
use crate::daemon::restore;
use crate::engine::Saving;
use crate::random_networks::{Recorder, for_each_world};

fn open(folder: &Path) -> Journal {
    Replay::open(folder).unwrap().finish().unwrap()
}

/// Saves the rows of a core whose last transaction is the last of the journal.
fn save(core: &mut Core, journal: &Journal) {
    assert_eq!(core.last_txn(), journal.last_txn());
    let mut writing = journal.save_rows(&core.rules().clone(), core.memories()).unwrap();
    core.save_rows(&mut writing.writer(&|| false)).unwrap();
    writing.finish().join().unwrap();
}

/// The core that a start finds in a folder, what it adds to the journal, and the transaction of the saved rows that it begins with.
fn start(folder: &Path, rules: &Arc<Rules>, with_saved: bool) -> (Core, Option<Record>, Option<u64>) {
    start_with(folder, rules, Saved::open(folder).filter(|_| with_saved).as_mut())
}

fn start_with(
    folder: &Path,
    rules: &Arc<Rules>,
    saved: Option<&mut Saved>,
) -> (Core, Option<Record>, Option<u64>) {
    let mut records = Records::read(folder).unwrap().unwrap();
    let evaluator: MakeEvaluator = Arc::new(|rules| crate::evaluator(rules, 1));
    restore(&evaluator, rules, &mut records, saved).unwrap()
}

/// The rule behind a flow, and its owners.
type Origin = (Option<u64>, Vec<String>);

/// All that a core knows.
#[derive(Debug, PartialEq)]
struct State {
    txn: u64,
    objects: Vec<(Arc<Object>, Revision)>,
    desired: BTreeMap<String, Arc<Desired>>,
    origins: BTreeMap<String, Vec<Origin>>,
    problems: Vec<Arc<Problem>>,
    states: Vec<serde_json::Map<String, serde_json::Value>>,
    memories: Memories,
}

impl State {
    fn of(core: &Core) -> State {
        let desired = core.all_desired();
        let provenance = core.provenance();
        let origins = desired.iter().map(|(node, desired)| {
            let keys = desired.flows.keys();
            (node.clone(), keys.map(|key| (provenance.logical_rule(key), provenance.owners(key))).collect())
        });
        let objects = || core.objects().iter().map(|(_, object)| object);
        State {
            txn: core.last_txn(),
            objects: objects().map(|object| (object.clone(), object.revision())).collect(),
            origins: origins.collect(),
            desired,
            problems: core.problems().cloned().collect(),
            states: objects().map(|object| core.state_of(&object.key().kind, object.id())).collect(),
            memories: core.memories(),
        }
    }
}

/// Starts in a folder from its saved rows and without them, and compares both. Returns them.
#[track_caller]
fn both_starts(folder: &Path, rules: &Arc<Rules>, from: Option<u64>) -> [Recorder; 2] {
    let (restored, correction, began) = start(folder, rules, true);
    assert_eq!(began, from);
    let (derived, other_correction, _) = start(folder, rules, false);
    assert_eq!(correction, other_correction);
    assert!(State::of(&restored) == State::of(&derived), "{:#?}", State::of(&restored));
    [restored, derived].map(Recorder::of)
}

#[test]
fn a_start_from_saved_rows_is_like_one_that_derives_them() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let (mut used, mut folded) = (0, 0);
    for seed in test_random::seeds!("a_start_from_saved_rows_is_like_one_that_derives_them", 2) {
        let (mut random, folder) = (Random::new(seed), tempfile::tempdir().unwrap());
        let mut journal = open(folder.path());
        let mut recorder = Recorder::new(&rules);
        let (mut saved, mut first) = (0, 0);
        for_each_world(seed, |world| {
            // What a start finds goes on as the controller does.
            let starts = (saved > 0 && random.below(5) == 0)
                .then(|| both_starts(folder.path(), &rules, Some(saved).filter(|saved| *saved >= first)));
            recorder.follow(world);
            if let Some(mut starts) = starts {
                for start in &mut starts {
                    start.follow(world);
                }
                let [restored, derived] = starts;
                assert_eq!(restored.records, derived.records, "seed {seed}");
                assert!(State::of(&restored.core) == State::of(&derived.core), "seed {seed}");
                used += u64::from(saved >= first && saved < journal.last_txn());
            }
            let new = recorder.records.iter().filter(|record| record.txn > journal.last_txn());
            let new: Vec<Record> = new.cloned().collect();
            journal.append(&new).unwrap();
            match random.below(6) {
                0 | 1 => {
                    save(&mut recorder.core, &journal);
                    saved = journal.last_txn();
                }
                2 if journal.last_txn() > first => {
                    let until = first + 1 + random.below(journal.last_txn() - first);
                    let folded_journal = fold(folder.path(), until, &rules, &Cancel::default()).unwrap();
                    assert!(journal.follow(folded_journal).unwrap());
                    (first, folded) = (until, folded + 1);
                }
                _ => {}
            }
        });
    }
    assert!(used > 0 && folded > 0, "{used} starts with transactions after the saved rows, {folded} folds");
}

/// Rules with numbers, aggregates and several rules for one table.
const RULES: &str = r#"
object transport_node { ip: ip; ovsdb: opt<string>; openflow: opt<string>; datapath_type: opt<string>; unique(ip); }
object switch { tenant: opt<string>; }
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>,
                            datapath_type: opt<string>) key(hv);
switch_address(hv, ovsdb, openflow, datapath_type) :-
    transport_node(id: hv, ovsdb: ovsdb, openflow: openflow, datapath_type: datapath_type, ..);
table wants_number(sw: string);
wants_number(sw) :- switch(sw, _);
input table number(sw: string, number: int) key(sw) from allocate(wants_number, first: 5, last: 800);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
of_flow(node, 0, 1, match{metadata: number}, actions[set(reg0, number)]) :- transport_node(id: node, ..), number(_, number);
of_flow(node, 0, 1, match{metadata: number}, actions[set(reg0, number)]) :-
    transport_node(id: node, ..), number(sw, number), switch(sw, tenant), or_else(tenant, "") != "";
of_flow(node, 1, 1, match{metadata: n}, actions[set(reg0, n)]) :- transport_node(id: node, ..), size(_, n);
table size(tenant: string, n: int) key(tenant);
size(or_else(tenant, ""), count(sw)) :- switch(sw, tenant);
output table problem(kind: string, id: string, code: string, text: string);
problem("switch", sw, "odd", "its tenant is odd") :- switch(sw, tenant), tenant == some("odd");
"#;

fn rules_of(text: &str) -> Arc<Rules> {
    let compilation = nlog::compile(&Sources::from_texts([("test.nlog", text)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
    Arc::new(Rules::new(program).unwrap())
}

/// A folder with a journal, and the rows of its last but one transaction.
struct Small {
    folder: tempfile::TempDir,
    rules: Arc<Rules>,
    txn: u64,
    rows: Vec<u8>,
}

impl Small {
    fn new() -> Small {
        let (rules, folder) = (rules_of(RULES), tempfile::tempdir().unwrap());
        let mut journal = open(folder.path());
        let mut recorder = Recorder::new(&rules);
        apply(&mut recorder, &mut journal, r#"{"kind": "transport_node", "id": "hv1", "ip": "172.16.0.1"}"#);
        for (id, tenant) in [("blue", "acme"), ("red", "odd"), ("green", "acme")] {
            let object = format!(r#"{{"kind": "switch", "id": "{id}", "tenant": "{tenant}"}}"#);
            apply(&mut recorder, &mut journal, &object);
        }
        save(&mut recorder.core, &journal);
        let txn = journal.last_txn();
        apply(&mut recorder, &mut journal, r#"{"kind": "switch", "id": "later"}"#);
        let rows = fs::read(folder.path().join(FILE)).unwrap();
        Small { folder, rules, txn, rows }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, rows: &[u8]) {
        fs::write(self.path().join(FILE), rows).unwrap();
    }
}

/// Applies an object, and journals the transaction.
fn apply(recorder: &mut Recorder, journal: &mut Journal, object: &str) {
    let core = &mut recorder.core;
    let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
    batch.add_json("test", object);
    let accepted = core.apply(batch, "test", std::time::SystemTime::UNIX_EPOCH).unwrap();
    journal.append([&accepted.transaction.unwrap().record]).unwrap();
    core.journalled();
}

#[test]
fn a_small_network_starts_from_its_saved_rows_which_only_the_owner_reads() {
    let small = Small::new();
    both_starts(small.path(), &small.rules, Some(small.txn));
    let mode = fs::metadata(small.path().join(FILE)).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn nothing_of_a_damaged_file_is_believed() {
    let small = Small::new();
    let wanted = State::of(&start(small.path(), &small.rules, false).0);
    let check = |rows: &[u8], what: &str| {
        small.write(rows);
        let (core, _, from) = start(small.path(), &small.rules, true);
        assert!(State::of(&core) == wanted, "{what}");
        from
    };
    for len in 0..small.rows.len() {
        assert_eq!(check(&small.rows[..len], &format!("cut at {len}")), None, "cut at {len}");
    }
    let mut random = Random::new(1);
    for _ in 0..200 {
        let bit = random.below(8 * small.rows.len() as u64) as usize;
        let mut rows = small.rows.clone();
        rows[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(check(&rows, &format!("bit {bit}")), None, "bit {bit}");
    }
    assert_eq!(check(&small.rows, "whole"), Some(small.txn));
}

#[test]
fn rows_of_other_rules_another_journal_or_another_time_are_not_used() {
    let small = Small::new();
    // Another function, another hook, another rule.
    for (part, other) in [
        ("last: 800", "last: 900"),
        ("match{metadata: n}, actions[set(reg0, n)]", "match{metadata: n}, actions[set(reg0, n + 1)]"),
        ("some(\"odd\")", "some(\"acme\")"),
    ] {
        let text = RULES.replace(part, other);
        assert_ne!(text, RULES);
        both_starts(small.path(), &rules_of(&text), None);
    }
    // A backup of the journal that ends before them.
    let backup = tempfile::tempdir().unwrap();
    let journal = fs::read(small.path().join(super::super::FILE)).unwrap();
    let end =
        journal.split_inclusive(|byte| *byte == b'\n').take(small.txn as usize - 1).map(<[u8]>::len).sum();
    fs::write(backup.path().join(super::super::FILE), &journal[..end]).unwrap();
    fs::write(backup.path().join(FILE), &small.rows).unwrap();
    both_starts(backup.path(), &small.rules, None);
    // It goes on otherwise.
    let mut journal = open(backup.path());
    let mut recorder = Recorder::of(start(backup.path(), &small.rules, false).0);
    for id in ["other", "another"] {
        apply(&mut recorder, &mut journal, &format!(r#"{{"kind": "switch", "id": "{id}"}}"#));
    }
    both_starts(backup.path(), &small.rules, None);
    // A journal that begins after them, and one that begins with their transaction.
    for (first, from) in [(small.txn, Some(small.txn)), (small.txn + 1, None)] {
        let mut journal = open(small.path());
        let folded = fold(small.path(), first, &small.rules, &Cancel::default()).unwrap();
        assert!(journal.follow(folded).unwrap());
        both_starts(small.path(), &small.rules, from);
    }
}

#[test]
fn a_failed_start_removes_the_rows_that_it_began_with_and_no_others() {
    let small = Small::new();
    // The configuration names the wrong rules, and then the right ones.
    let others = rules_of(&RULES.replace("last: 800", "last: 900"));
    for (rules, stay) in [(&others, true), (&small.rules, false)] {
        let mut saved = Saved::open(small.path()).unwrap();
        start_with(small.path(), rules, Some(&mut saved));
        saved.forget();
        assert_eq!(small.path().join(FILE).exists(), stay);
    }
}

#[test]
fn rows_are_saved_after_a_change_and_after_a_fold_alone() {
    let small = Small::new();
    let journal = open(small.path());
    let (core, _, from) = start(small.path(), &small.rules, true);
    let mut saving = Saving::new(from.unwrap());
    let in_an_hour = saving.due(&journal).expect("there is a later transaction");
    let (mut machine, _) =
        Machine::start(core, &Policy::default(), Published::default(), crate::engine::now());
    saving.save(&mut machine, &journal, &|| false);
    saving.wait();
    both_starts(small.path(), &small.rules, Some(small.txn + 1));
    assert_eq!(saving.due(&journal), None);
    saving.outdated();
    assert!(saving.due(&journal).expect("the journal begins later") < in_an_hour);
}

#[test]
fn an_interrupted_file_leaves_the_former_one() {
    let small = Small::new();
    let (mut core, ..) = start(small.path(), &small.rules, true);
    let journal = open(small.path());
    let mut writing = journal.save_rows(&small.rules, core.memories()).unwrap();
    // An input that comes at once is seen with the first full part.
    let failed = writing.writer(&|| true).write_all(&vec![0; 2 * PART]).unwrap_err();
    assert_eq!(failed.to_string(), "interrupted");
    writing.cancel().join().unwrap();
    assert_eq!(fs::read(small.path().join(FILE)).unwrap(), small.rows);
    assert!(!small.path().join(NEXT).exists());
    save(&mut core, &journal);
    drop(journal);
    both_starts(small.path(), &small.rules, Some(small.txn + 1));
}

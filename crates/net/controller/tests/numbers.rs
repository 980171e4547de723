//! Numbers that rules ask for: kept over restarts, and untouched by what is refused or undone.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::support::*;
use nlog_data::json::parse_line;
use nlog_data::{Evaluator, Memories};
use nlog_hooks::Recorded;
use objects::ObjectKey;
use proptest::prelude::*;
use serde_json::json;
use weft_core::Rules;
use weft_core::core::{Core, RestoreError};
use weft_core::record::{Record, RowChanges};

/// Switches of tenant `acme` want one of four numbers. One of tenant `bad` is refused.
const RULES: &str = concat!(
    objects!(),
    addresses!(),
    "
table wants_number(sw: string);
wants_number(sw) :- switch(sw, tenant), tenant == some(\"acme\");
input table number(sw: string, number: int) key(sw) from allocate(wants_number, first: 5, last: 8);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
of_flow(node, 0, 1, match{metadata: number}, actions[set(reg0, number)]) :- transport_node(id: node, ..), number(_, number);
## Nobody is tenant `bad`.
forbid table bad_tenant(sw: string);
bad_tenant(sw) :- switch(sw, tenant), tenant == some(\"bad\"), wants_number(_);
"
);

const NODE: &str = "{kind: transport_node, id: hv1, ip: 172.16.0.1}";

fn restored(rules: &Arc<Rules>, workers: usize, records: &[Record]) -> (Core, Option<Record>) {
    let evaluator = controller::evaluator(rules, workers).unwrap();
    Core::restore(evaluator, rules.clone(), history(rules, records), now())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The numbers that the records add up to.
fn memory(rules: &Rules, records: &[Record]) -> Memories {
    let mut recorded = Recorded::new(rules.program());
    for Record { memory, filled, .. } in records {
        for (table, memory) in memory {
            recorded.restore(table, memory).unwrap();
        }
        if let Some(RowChanges { insert, delete }) = filled {
            let rows = |side: &BTreeMap<Arc<str>, Vec<_>>| side.get("number").cloned().unwrap_or_default();
            recorded.follow("number", &rows(delete), &rows(insert)).unwrap();
        }
    }
    recorded.memories()
}

/// The numbers after a replay of the records, as `weft eval` runs them.
fn replayed(rules: &Rules, workers: usize, records: &[Record]) -> Memories {
    let mut evaluator: Box<dyn Evaluator> = controller::evaluator(rules, workers).unwrap();
    for record in records {
        let text = serde_json::to_vec(record).unwrap();
        let line = parse_line(&text, record.txn, evaluator.schema()).unwrap();
        let memories: Memories = line
            .origin
            .get("memory")
            .map(|memory| serde_json::from_value(memory.clone()).unwrap())
            .unwrap_or_default();
        evaluator.restore(&memories).unwrap();
        evaluator.commit(&line.transaction).unwrap();
    }
    evaluator.memories()
}

/// A plain pool.
#[derive(Debug, Clone, Default)]
struct Pool {
    given: BTreeMap<String, i64>,
    next: VecDeque<i64>,
}

impl Pool {
    fn release(&mut self, id: &str) {
        self.next.extend(self.given.remove(id));
    }

    fn give(&mut self, id: &str) -> bool {
        let number = self.next.pop_front();
        number.map(|number| self.given.insert(id.to_owned(), number)).is_some()
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// These switches are created, or deleted if they exist. With `undo`, the journal then fails.
    Change {
        ids: BTreeSet<u8>,
        undo: bool,
    },
    /// A switch that the rules refuse, together with one that wants a number.
    Refused,
    Restart {
        workers: usize,
    },
    /// The journal no longer tells how the numbers came about.
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let change = (prop::collection::btree_set(0..6u8, 1..4), prop::bool::weighted(0.3));
    let step = prop_oneof![
        6 => change.prop_map(|(ids, undo)| Step::Change { ids, undo }),
        1 => Just(Step::Refused),
        1 => (1..3usize).prop_map(|workers| Step::Restart { workers }),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..16)
}

/// Applies the change in one transaction for deletion and one for creation, and keeps the model up to date.
fn change(core: &mut Core, pool: &mut Pool, ids: &BTreeSet<u8>, undo: bool) -> Vec<Record> {
    let (gone, new): (Vec<String>, Vec<String>) =
        ids.iter().map(|id| format!("s{id}")).partition(|id| pool.given.contains_key(id));
    let before = pool.clone();
    let mut applied = Vec::new();
    if !gone.is_empty() {
        let keys: Vec<ObjectKey> = gone.iter().map(|id| ObjectKey::new("switch", id.as_str())).collect();
        applied.extend(core.delete(&keys, "test", now()).unwrap().transaction);
        for id in &gone {
            pool.release(id);
        }
    }
    let text: Vec<String> =
        new.iter().map(|id| format!("{{kind: switch, id: {id}, tenant: acme}}")).collect();
    let mut wanted = pool.clone();
    let fits = new.iter().all(|id| wanted.give(id));
    match core.apply(batch(&text.join("\n---\n")), "test", now()) {
        Ok(accepted) => {
            assert!(fits, "{new:?} get numbers from {pool:?}");
            applied.extend(accepted.transaction);
            *pool = wanted;
        }
        Err(error) => {
            assert!(!fits, "{error}");
            assert!(error.to_string().contains("every number from 5 to 8 is in use"), "{error}");
        }
    }
    if undo {
        applied.drain(..).rev().for_each(|applied| core.undo(applied).unwrap());
        *pool = before;
    }
    core.journalled();
    applied.into_iter().map(|applied| applied.journalled()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn numbers_are_those_of_a_plain_pool_after_any_history(steps in steps()) {
        let rules = rules(RULES);
        let (mut core, _) = restored(&rules, 1, &[]);
        let mut pool = Pool { next: (5..=8).collect(), ..Pool::default() };
        let mut records = vec![apply(&mut core, NODE).journalled()];
        core.journalled();
        for step in &steps {
            match step {
                Step::Change { ids, undo } => records.extend(change(&mut core, &mut pool, ids, *undo)),
                Step::Refused => {
                    let text = "{kind: switch, id: s9, tenant: acme}\n---\n{kind: switch, id: bad, tenant: bad}";
                    core.apply(batch(text), "test", now()).unwrap_err();
                }
                Step::Restart { workers } => {
                    let (again, correction) = restored(&rules, *workers, &records);
                    prop_assert!(correction.is_none(), "{:?}", correction);
                    core = again;
                }
                Step::Compact => {
                    let memory = memory(&rules, &records);
                    for record in &mut records {
                        (record.filled, record.memory) = (None, Memories::new());
                    }
                    let txn = core.last_txn() + 1;
                    let mut snapshot = records[0].clone();
                    (snapshot.insert, snapshot.objects) = Default::default();
                    (snapshot.txn, snapshot.memory) = (txn, memory);
                    records.push(snapshot);
                    core = restored(&rules, 1, &records).0;
                }
            }
            let given: BTreeMap<String, i64> = serde_json::from_value::<Vec<(String, i64)>>(
                memory(&rules, &records)["number"]["given"].clone()).unwrap().into_iter().collect();
            prop_assert_eq!(&given, &pool.given);
            let numbers: BTreeSet<String> =
                pool.given.values().map(|number| format!("0 1 metadata={number:#x} set_field:{number:#x}->reg0")).collect();
            prop_assert_eq!(shown(&core.desired("hv1")).into_iter().collect::<BTreeSet<_>>(), numbers);
        }
        prop_assert_eq!(replayed(&rules, 2, &records), memory(&rules, &records));
    }
}

/// Rules that ask for more numbers: those in use stay, and the journal says so to a replay with the present rules.
#[test]
fn numbers_stay_when_the_rules_change() {
    let narrow = rules(RULES);
    let (mut core, none) = restored(&narrow, 1, &[]);
    assert!(none.is_none(), "{none:?}");
    let network = "{kind: switch, id: z, tenant: acme}\n---\n{kind: switch, id: a, tenant: other}";
    let mut records = vec![apply(&mut core, NODE).journalled(), apply(&mut core, network).journalled()];
    assert_eq!(records[1].filled.as_ref().unwrap().insert["number"], [[json!("z"), json!(5)]]);

    let wide = rules(&RULES.replace("tenant == some(\"acme\")", "tenant == tenant"));
    let (mut core, correction) = restored(&wide, 1, &records);
    let correction = correction.expect("a owns a number now");
    let after = json!({"given": [["a", 6], ["z", 5]], "next": [[7]]});
    assert_eq!(correction.memory, [("number".to_owned(), after)].into());
    records.push(correction);
    assert!(restored(&wide, 1, &records).1.is_none());
    core.journalled();
    records.push(apply(&mut core, "{kind: switch, id: b, tenant: acme}").journalled());
    assert_eq!(records[3].filled.as_ref().unwrap().insert["number"], [[json!("b"), json!(7)]]);
    assert_eq!(replayed(&wide, 1, &records), memory(&wide, &records));

    let tight = rules(&RULES.replace("first: 5", "first: 6"));
    let mut history = weft_core::core::History::new(&tight);
    let error = records.iter().try_for_each(|record| history.add(record)).unwrap_err();
    assert!(matches!(error, RestoreError::Record { txn: 2, .. }), "{error}");
    assert!(
        error.to_string().contains("hook that fills table \"number\" does not fit: it has number 5"),
        "{error}"
    );
}

/// Facts own numbers before the first transaction. Its record says so.
#[test]
fn numbers_of_facts_come_before_those_of_the_first_transaction() {
    let rules = rules(&format!("{RULES}\nwants_number(\"z\");"));
    let (mut core, none) = restored(&rules, 1, &[]);
    assert!(none.is_none(), "{none:?}");
    let undone = apply(&mut core, "{kind: switch, id: b, tenant: acme}");
    core.undo(undone).unwrap();
    let first = apply(&mut core, "{kind: switch, id: a, tenant: acme}").journalled();
    assert_eq!(first.memory["number"]["given"], json!([["z", 5]]));
    let wanted = json!({"given": [["a", 6], ["z", 5]], "next": [[7]]});
    let records = [first];
    assert_eq!(memory(&rules, &records)["number"], wanted);
    assert_eq!(replayed(&rules, 1, &records)["number"], wanted);
    assert!(restored(&rules, 1, &records).1.is_none());
}

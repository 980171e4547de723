//! The rows that records add up to are those that their transactions leave.

use std::fs;
use std::sync::Arc;

use nlog_data::json::parse_line_columns;
use nlog_data::{Memories, TableId};
use packet_trace::{Origins, UNKNOWN, follow, hook_engine, input_engine};
use test_random::Random;
use weft_core::rules::Rules;

use super::JournalView;
use crate::journal::Replay;
use crate::random_networks::records_of;

/// The moments of a history that are looked at, besides its end.
const MOMENTS: usize = 3;

/// The journal of a random history.
fn journal(rules: &Arc<Rules>, seed: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    Replay::open(folder.path()).unwrap().finish().unwrap().append(&records_of(rules, seed)).unwrap();
    fs::read(folder.path().join("journal.jsonl")).unwrap()
}

/// The rows after each transaction of a journal, which runs through all rules.
fn by_transactions(rules: &Rules, journal: &[u8]) -> Vec<Origins> {
    let program = rules.program();
    let mut engine = input_engine(program).unwrap();
    let mut all = vec![Origins::new()];
    for (line, number) in journal.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        let line = parse_line_columns(line, number, &program.schema).map_err(|fault| fault.error).unwrap();
        if let Some(memory) = line.origin.get("memory") {
            engine.restore(&serde_json::from_value::<Memories>(memory.clone()).unwrap()).unwrap();
        }
        let mut origins = all.last().cloned().unwrap_or_default();
        follow(&mut origins, number, &engine.commit_columns(&line.transaction).unwrap().delta);
        all.push(origins);
    }
    all
}

/// The rows without the transactions that no record tells: those of hooks without a memory.
fn told(rules: &Rules, origins: &Origins) -> Origins {
    let is_told =
        |table: TableId| rules.program().hook_of(table).is_none_or(|wiring| wiring.hook.has_memory());
    let one =
        |(key, number): (&(TableId, _), &u64)| (key.clone(), if is_told(key.0) { *number } else { UNKNOWN });
    origins.iter().map(one).collect()
}

#[test]
fn records_add_up_to_the_rows_that_their_transactions_leave() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let program = rules.program();
    let (mut moments, mut filled, mut longest) = (0, 0, 0);
    for seed in test_random::seeds!("records_add_up_to_the_rows_that_their_transactions_leave", 4) {
        let journal = journal(&rules, seed);
        let expected = by_transactions(&rules, &journal);
        let last = expected.len() - 1;
        let mut random = Random::new(seed);
        let some = (0..MOMENTS).map(|_| Some(1 + random.below(last as u64)));
        for until in some.chain([None]) {
            let at = until.map_or(last, |until| until as usize);
            for engine in [hook_engine(program), input_engine(program)] {
                let past = JournalView::read(program, &*journal, until).unwrap().expect("these are records");
                let origins = past.load(&mut *engine.unwrap()).unwrap();
                assert_eq!(origins, told(&rules, &expected[at]), "seed {seed}, transaction {at} of {last}");
                filled += origins.keys().filter(|(table, _)| program.hook_of(*table).is_some()).count();
            }
            moments += 1;
        }
        longest = longest.max(last);
    }
    assert!(moments > 10 && filled > 100 && longest > 20, "{moments} moments, {filled} rows, {longest} long");
}

#[test]
fn only_what_a_controller_wrote_is_a_record() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let program = rules.program();
    let journal = journal(&rules, 3);
    let ends: Vec<usize> =
        journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let read =
        |text: &[u8], until| JournalView::read(program, text, until).unwrap().map(|past| past.last_txn);
    let last = ends.len() as u64;
    assert!(last > 4);
    assert_eq!(read(&journal, None), Some(last));
    assert_eq!(read(&journal, Some(last + 7)), Some(last));
    assert_eq!(read(&journal, Some(2)), Some(2));
    // Before the first transaction, not even facts hold.
    assert_eq!(read(&journal, Some(0)), None);
    assert_eq!(read(b"", None), None);
    // A byte of the third line, the third line itself, its line feed, and a line of somebody else.
    let third = ends[1]..ends[2];
    let changed = {
        let mut journal = journal.clone();
        journal[third.start + 20] ^= 1;
        journal
    };
    let lost = [&journal[..third.start], &journal[third.end..]].concat();
    let torn = journal[..third.end - 1].to_vec();
    let plain = [&journal[..third.start], b"{\"insert\": {}}\n", &journal[third.start..]].concat();
    for journal in [changed, lost, torn, plain] {
        assert_eq!(read(&journal, None), None);
        assert_eq!(read(&journal, Some(3)), None);
        assert_eq!(read(&journal, Some(2)), Some(2));
    }
}

//! Stores give the same records back, wherever they keep them.

use std::path::Path;
use std::time::Duration;

use test_random::{Random, seeds};

use super::super::Replay;
use super::memory::Memory;
use super::*;
use crate::random_networks::records_of;

fn open(folder: &Path) -> Journal {
    Replay::open(folder).unwrap().finish().unwrap()
}

/// The records of a store after a transaction, without what tells one journal from another.
fn read(store: &impl Store, after: u64) -> Vec<Record> {
    let records = store.read_from(after).unwrap();
    let mut records = records.collect::<Result<Vec<Record>, _>>().unwrap();
    for base in records.iter_mut().filter_map(|record| record.base.as_mut()) {
        (base.journal, base.sum) = ("".into(), 0);
    }
    records
}

/// Two stores, to which the same is done.
struct Both {
    journal: Journal,
    memory: Memory,
    rules: Arc<Rules>,
}

impl Both {
    fn append(&mut self, records: &[Record]) {
        self.journal.append(records).unwrap();
        self.memory.append(records).unwrap();
    }

    /// Goes on with a snapshot, which is made before some more records come.
    fn fold(&mut self, more: &[Record]) {
        let (rules, cancel) = (&self.rules, Cancel::default());
        let journal = self.journal.snapshot(rules.clone(), cancel.clone());
        let memory = self.memory.snapshot(rules.clone(), cancel);
        self.append(more);
        assert!(self.journal.begin_with(journal().unwrap()).unwrap());
        assert!(self.memory.begin_with(memory().unwrap()).unwrap());
    }

    fn trim(&self, bytes: u64) {
        let keep = Keep { segment: 0, bytes, age: Duration::MAX };
        self.journal.trim(keep)();
        self.memory.trim(keep)();
    }

    fn check(&self, random: &mut Random, seed: u64) {
        let last = self.journal.last_txn();
        assert_eq!(last, self.memory.last_txn(), "seed {seed}");
        for after in [0, last, random.below(last + 1), random.below(last + 1)] {
            let [found, expected] = [read(&self.journal, after), read(&self.memory, after)];
            assert!(found == expected, "seed {seed}: after transaction {after} of {last}");
        }
    }
}

#[test]
fn a_folder_gives_back_the_same_records_as_memory() {
    let rules = Arc::new(Rules::built_in().unwrap());
    for seed in seeds!("a_folder_gives_back_the_same_records_as_memory", 6) {
        let records = records_of(&rules, seed);
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut both = Both { journal: open(folder.path()), memory: Memory::default(), rules: rules.clone() };
        let mut rest = records.as_slice();
        // A snapshot stands for at least one record more than the last.
        let mut folded = 0;
        while !rest.is_empty() {
            let (some, more) = rest.split_at(random.below(rest.len().min(4) as u64 + 1) as usize);
            rest = more;
            match random.below(4) {
                0 if both.journal.last_txn() > folded => {
                    folded = both.journal.last_txn();
                    both.fold(some);
                }
                1 => {
                    both.append(some);
                    both.trim(if random.chance(50) { 0 } else { u64::MAX });
                }
                2 => {
                    both.append(some);
                    drop(both.journal);
                    both.journal = open(folder.path());
                }
                _ => both.append(some),
            }
            both.check(&mut random, seed);
        }
    }
}

#[test]
fn a_damaged_record_ends_the_reading() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let records = records_of(&rules, 1);
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.append(&records).unwrap();
    let mut bytes = std::fs::read(journal.path()).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 20;
    bytes[second] ^= 1;
    std::fs::write(journal.path(), bytes).unwrap();
    let read: Vec<_> = journal.read_from(0).unwrap().collect();
    assert!(
        matches!(read[..], [Ok(_), Err(JournalError::Damaged { line: 2, .. })]),
        "{} records",
        read.len()
    );
}

//! When a journal is folded.

use tokio::runtime::Builder;

use super::*;
use crate::journal::Memory;
use crate::random_networks::records_of;

/// Records after which the journal is folded.
const SEGMENT: u64 = 3;

fn folding() -> Folding<Memory> {
    Folding::new(Keep { segment: SEGMENT, bytes: 0, age: Duration::MAX }, Metrics::new())
}

fn wait(folding: &Folding<Memory>) {
    Builder::new_current_thread().build().unwrap().block_on(folding.ready());
}

#[test]
fn a_journal_is_folded_once_it_is_long_while_records_come() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let records = records_of(&rules, 1);
    let (mut journal, mut folding) = (Memory::default(), folding());
    journal.append(&records[..3]).unwrap();
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    assert!(folding.thread.is_none());
    journal.append(&records[3..4]).unwrap();
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    assert!(folding.thread.is_some());
    journal.append(&records[4..6]).unwrap();
    wait(&folding);
    assert!(folding.advance(&mut journal, &rules).unwrap());
    // It stands for what was there when it began, and is long enough again two records later.
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    assert!(folding.thread.is_none());
    journal.append(&records[6..8]).unwrap();
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    assert!(folding.thread.is_some());
}

#[test]
fn a_journal_that_cannot_be_folded_is_left_alone_for_a_while() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let mut journal = Memory::default();
    journal.is_broken = true;
    journal.append(&records_of(&rules, 1)[..5]).unwrap();
    let mut folding = folding();
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    wait(&folding);
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    assert!(folding.not_before > Instant::now());
    journal.is_broken = false;
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    assert!(folding.thread.is_none());
    folding.not_before = Instant::now();
    assert!(!folding.advance(&mut journal, &rules).unwrap());
    wait(&folding);
    assert!(folding.advance(&mut journal, &rules).unwrap());
}

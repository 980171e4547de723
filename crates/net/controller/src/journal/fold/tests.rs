//! A folded journal gives back what the whole one does.

use std::sync::Arc;

use test_random::Random;
use weft_core::record::Base;

use super::super::{Position, Replay, Store};
use super::*;
use crate::random_networks::records_of;

fn open(folder: &Path) -> Journal {
    Replay::open(folder).unwrap().finish().unwrap()
}

/// What a journal adds up to, whatever the groups in which it was written, of which checksums depend.
fn sum(folder: &Path, rules: &Rules) -> Record {
    let mut records = Records::read(folder).unwrap().unwrap();
    let mut record = base(&mut records, Some(u64::MAX), rules, &Cancel::default()).unwrap();
    record.base.as_mut().unwrap().sum = 0;
    record
}

/// A folder with the journal of these records.
fn written(records: &[Record]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).append(records).unwrap();
    folder
}

/// The segments of a folder, by their first records.
fn names(folder: &Path) -> Vec<u64> {
    segments(folder).unwrap().into_iter().map(|segment| segment.first).collect()
}

/// Appends some of the records.
fn append_some<'r>(journal: &mut Journal, more: &'r [Record], random: &mut Random) -> &'r [Record] {
    let (now, later) = more.split_at(random.below(more.len() as u64 + 1) as usize);
    journal.append(now).unwrap();
    later
}

/// Folds up to the last record while others are appended.
fn fold_while_appending(journal: &mut Journal, rules: &Rules, more: &[Record], random: &mut Random) {
    let until = journal.last_txn();
    let more = append_some(journal, more, random);
    let folded = fold(journal.folder(), until, rules, &Cancel::default()).unwrap();
    let more = append_some(journal, more, random);
    assert!(journal.follow(folded).unwrap());
    assert_eq!(journal.begin.txn, until);
    journal.append(more).unwrap();
}

#[test]
fn a_folded_journal_adds_up_to_what_the_whole_one_does() {
    let rules = Arc::new(Rules::built_in().unwrap());
    for seed in test_random::seeds!("a_folded_journal_adds_up_to_what_the_whole_one_does", 4) {
        let records = records_of(&rules, seed);
        let whole = written(&records);
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut journal = open(folder.path());
        let count = records.len();
        let (first, second) = (1 + count / 4, 1 + count / 2);
        journal.append(&records[..first]).unwrap();
        fold_while_appending(&mut journal, &rules, &records[first..second], &mut random);
        // A fold of a fold, after a restart or not.
        if seed.is_multiple_of(2) {
            drop(journal);
            journal = open(folder.path());
        }
        fold_while_appending(&mut journal, &rules, &records[second..], &mut random);
        assert!(sum(folder.path(), &rules) == sum(whole.path(), &rules), "seed {seed}");
        assert_eq!(names(folder.path()), [1, first as u64], "seed {seed}");
        drop(journal);
        let journal = open(folder.path());
        assert_eq!((journal.last_txn(), journal.identity()), (count as u64, open(whole.path()).identity()));
    }
}

#[test]
fn a_fold_that_ends_anywhere_leaves_a_whole_journal() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let records = records_of(&rules, 1);
    let folder = written(&records);
    let expected = sum(folder.path(), &rules);
    let until = records.len() as u64 - 2;
    let path = folder.path();
    // Before the file takes the journal's place: a restart forgets it.
    drop(fold(path, until, &rules, &Cancel::default()).unwrap());
    assert!(path.join(NEXT).exists());
    let mut journal = open(path);
    assert!(!path.join(NEXT).exists());
    // After the former file has its second name.
    fs::hard_link(path.join(FILE), segment(path, 1)).unwrap();
    let folded = fold(path, until, &rules, &Cancel::default()).unwrap();
    assert!(journal.follow(folded).unwrap());
    assert_eq!(names(path), [1]);
    // After the rename, while the acknowledged end is that of the former file.
    let former = Position { bytes: fs::metadata(segment(path, 1)).unwrap().len(), ..journal.end };
    Acknowledged::open(path, &former).unwrap();
    drop(journal);
    drop(open(path));
    assert!(sum(path, &rules) == expected);
}

#[test]
fn what_is_cut_off_the_journal_is_not_copied() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let records = records_of(&rules, 1);
    let folder = written(&records[..5]);
    let mut journal = open(folder.path());
    // A group that is being written, and is cut off later.
    journal.file.write_all(b"{\"txn\":6,").unwrap();
    let folded = fold(folder.path(), 4, &rules, &Cancel::default()).unwrap();
    assert_eq!(folded.copied, journal.end.bytes);
    journal.file.set_len(journal.end.bytes).unwrap();
    journal.append(&records[5..]).unwrap();
    assert!(journal.follow(folded).unwrap());
    drop(journal);
    assert!(sum(folder.path(), &rules) == sum(written(&records).path(), &rules));
}

#[test]
fn a_damaged_byte_of_a_fold_is_found() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let records = records_of(&rules, 2);
    let folder = written(&records);
    let mut journal = open(folder.path());
    let folded = fold(folder.path(), records.len() as u64 - 1, &rules, &Cancel::default()).unwrap();
    assert!(journal.follow(folded).unwrap());
    drop(journal);
    let path = folder.path().join(FILE);
    let bytes = fs::read(&path).unwrap();
    let mut random = Random::new(7);
    for _ in 0..200 {
        let at = random.below(bytes.len() as u64) as usize;
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.below(8);
        fs::write(&path, &damaged).unwrap();
        let read: Result<Vec<Record>, _> = Records::read(folder.path()).unwrap().unwrap().collect();
        // The last line feed may be another byte; everything else counts.
        assert!(
            read.is_err() || at + 1 == bytes.len(),
            "byte {at}: {:#04x} is {:#04x}",
            bytes[at],
            damaged[at]
        );
    }
}

#[test]
fn a_newer_format_is_named() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let folder = written(&records_of(&rules, 1)[..3]);
    let mut record = sum(folder.path(), &rules);
    record.base.as_mut().unwrap().format = Base::FORMAT + 1;
    let newer = tempfile::tempdir().unwrap();
    fs::write(newer.path().join(FILE), line(&record).unwrap()).unwrap();
    let why = Records::read(newer.path()).unwrap().unwrap().next().unwrap().unwrap_err().to_string();
    assert!(why.contains("a newer version of Weft has written it, in format 2"), "{why}");
}

#[test]
fn segments_go_by_size_and_by_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for first in [1, 200, 30] {
        fs::write(segment(path, first), [0; 100]).unwrap();
    }
    fs::write(path.join("journal-notes.jsonl"), "of somebody").unwrap();
    let (now, day) = (SystemTime::now(), Duration::from_hours(24));
    let keep = |bytes, age| Keep { segment: 1, bytes, age };
    trim(path, &keep(300, day), now).unwrap();
    assert_eq!(names(path), [1, 30, 200]);
    trim(path, &keep(299, day), now).unwrap();
    assert_eq!(names(path), [30, 200]);
    trim(path, &keep(300, day), now + 2 * day).unwrap();
    assert!(names(path).is_empty() && path.join("journal-notes.jsonl").exists());
}

#[test]
fn a_journal_without_records_has_no_fold() {
    let rules = Rules::built_in().unwrap();
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let folded = fold(folder.path(), 1, &rules, &Cancel::default());
    assert!(matches!(folded, Err(FoldError::Empty { .. })));
}

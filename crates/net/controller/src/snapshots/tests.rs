//! A snapshot has all that the journal has, and a controller can start from it.

use std::sync::Arc;

mod anonymous_networks;

use super::*;
use crate::journal::Replay;
use crate::random_networks::records_of;

fn folder_with(records: &[Record]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    Replay::open(folder.path()).unwrap().finish().unwrap().append(records).unwrap();
    folder
}

#[test]
fn a_restored_folder_adds_up_to_what_the_snapshot_was_taken_of() {
    let rules = Arc::new(Rules::built_in().unwrap());
    for seed in test_random::seeds!("a_restored_folder_adds_up_to_what_the_snapshot_was_taken_of", 2) {
        let records = records_of(&rules, seed);
        let (journal, others) = (folder_with(&records), tempfile::tempdir().unwrap());
        let file = others.path().join("now.weft");
        fs::write(&file, of_folder(journal.path(), &rules, &Cancel::default()).unwrap()).unwrap();
        let state = others.path().join("new/state");
        assert_eq!(restore(&file, &state).unwrap(), records.len() as u64);
        let again = of_folder(&state, &rules, &Cancel::default()).unwrap();
        assert!(fs::read(&file).unwrap() == again, "seed {seed}");
        // And what comes later follows it.
        let mut more = Replay::open(&state).unwrap().finish().unwrap();
        more.append([&Record { txn: records.len() as u64 + 1, base: None, ..records[0].clone() }]).unwrap();
        let why = restore(&file, &state).unwrap_err();
        assert!(why.to_string().contains("has been used by a controller"), "{why}");
    }
}

#[test]
fn a_damaged_snapshot_is_refused_and_leaves_nothing_behind() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let journal = folder_with(&records_of(&rules, 1));
    let bytes = of_folder(journal.path(), &rules, &Cancel::default()).unwrap();
    let others = tempfile::tempdir().unwrap();
    let (file, state) = (others.path().join("now.weft"), others.path().join("state"));
    for at in (0..bytes.len()).step_by(bytes.len() / 60) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        for bytes in [&damaged[..], &bytes[..at]] {
            fs::write(&file, bytes).unwrap();
            assert!(restore(&file, &state).is_err(), "byte {at}");
            assert!(!state.exists(), "byte {at}");
        }
    }
}

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use nlog_data::Cancel;
use switch_model::Changes;
use tempfile::TempDir;
use weft_core::receipt::{Progress, Receipt, SwitchReceipt};
use weft_core::times::rfc3339;

use super::*;
use weft_client::pb;
use weft_client::pb::switch_receipt::State;

const JOURNAL: &str = "2026-01-01-12345678";
const SMALL: Limits = Limits { bytes: 64_000, age: Duration::from_hours(24) };

fn log_at(folder: &TempDir, journal: Option<&str>, last_txn: u64) -> ReceiptLog {
    ReceiptLog::open(folder.path().join(FOLDER), SMALL, journal, last_txn).unwrap()
}

fn new(txn: u64, at: SystemTime, nodes: &[&str]) -> (usize, Arc<Update>) {
    let mut pending = SwitchReceipt::new(Progress::Pending, &Changes::default());
    pending.flows_added = 7;
    let receipt = Receipt {
        txn,
        by: "test".to_owned(),
        at: rfc3339(at),
        accepted: Instant::now(),
        computed: Duration::from_micros(20),
        journalled: Duration::from_micros(30),
        switches: nodes.iter().map(|node| ((*node).to_owned(), pending.clone())).collect(),
    };
    (300, Arc::new(Update::New(Arc::new(receipt))))
}

fn progress(txn: u64, node: &str, progress: Progress) -> (usize, Arc<Update>) {
    let switch = SwitchReceipt::new(progress, &Changes::default());
    (100, Arc::new(Update::Progress { txn, switches: vec![(node.to_owned(), switch)], complete: false }))
}

fn page(folder: &TempDir, from: u64, before: u64, page_bytes: usize, now: SystemTime) -> Page {
    let reader = Reader::with_limits(folder.path().join(FOLDER), SMALL, page_bytes);
    reader.page(from, before, now, &Cancel::default()).unwrap()
}

fn all(folder: &TempDir) -> Vec<pb::Receipt> {
    page(folder, 0, u64::MAX, usize::MAX, SystemTime::now()).receipts
}

fn numbers_of(receipts: &[pb::Receipt]) -> Vec<u64> {
    receipts.iter().map(|receipt| receipt.txn).collect()
}

fn states(receipt: &pb::Receipt) -> BTreeMap<&str, State> {
    receipt.switches.iter().map(|switch| (&*switch.node, switch.state())).collect()
}

/// The only file.
fn file(folder: &TempDir) -> PathBuf {
    let folder = folder.path().join(FOLDER);
    let [number] = *numbers(&folder).unwrap() else { panic!("one file") };
    path_of(&folder, number)
}

#[test]
fn what_was_recorded_is_there_after_a_restart_and_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log_at(&folder, None, 0);
    let now = SystemTime::now();
    log.write(&[new(1, now, &["hv1", "hv2", "hv3", "hv4"])], Some(JOURNAL));
    log.write(
        &[
            progress(1, "hv1", Progress::Confirmed(Duration::from_millis(4))),
            progress(1, "hv3", Progress::Refused("no \"room\"\n".to_owned())),
            progress(1, "hv4", Progress::Offline),
            progress(9, "hv1", Progress::Offline),
        ],
        Some(JOURNAL),
    );
    drop(log);
    for _ in 0..2 {
        let receipts = all(&folder);
        let [receipt] = receipts.as_slice() else { panic!("{receipts:?}") };
        assert_eq!((receipt.txn, &*receipt.by, &*receipt.at), (1, "test", &*rfc3339(now)));
        assert_eq!((receipt.computed_us, receipt.journalled_us, receipt.complete), (20, 30, true));
        let wanted = [
            ("hv1", State::Confirmed),
            ("hv2", State::Unknown),
            ("hv3", State::Refused),
            ("hv4", State::Offline),
        ];
        assert_eq!(states(receipt), wanted.into());
        assert_eq!((receipt.switches[0].confirmed_us, receipt.switches[0].flows_added), (Some(4000), 7));
        assert_eq!(receipt.switches[2].error, "no \"room\"\n");
        drop(log_at(&folder, Some(JOURNAL), 1));
    }
}

#[test]
fn receipts_of_another_journal_or_of_transactions_that_it_lost_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let mut log = log_at(&folder, None, 0);
    log.write(&[new(1, now, &[]), new(2, now, &[]), new(3, now, &[])], Some(JOURNAL));
    drop(log);
    // The journal was restored from a copy that ends with transaction 2; another transaction 3 follows.
    let mut log = log_at(&folder, Some(JOURNAL), 2);
    assert_eq!(numbers_of(&all(&folder)), [1, 2]);
    log.write(&[new(3, now, &["hv1"])], Some(JOURNAL));
    drop(log);
    assert_eq!(all(&folder)[2].switches.len(), 1);
    drop(log_at(&folder, Some("2026-02-02-12345678"), 7));
    assert!(all(&folder).is_empty());

    let mut log = log_at(&folder, None, 0);
    log.write(&[new(1, now, &[])], Some(JOURNAL));
    drop(log);
    drop(log_at(&folder, None, 0));
    assert!(all(&folder).is_empty(), "the journal is gone");
}

#[test]
fn the_oldest_go_first_when_there_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let mut log = log_at(&folder, None, 0);
    let size = || -> u64 {
        let folder = folder.path().join(FOLDER);
        numbers(&folder).unwrap().into_iter().map(|n| fs::metadata(path_of(&folder, n)).unwrap().len()).sum()
    };
    for txn in 1..=2000 {
        log.write(&[new(txn, now, &["hv1"])], Some(JOURNAL));
        log.write(&[progress(txn, "hv1", Progress::Confirmed(Duration::ZERO))], Some(JOURNAL));
    }
    drop(log);
    assert!(size() <= SMALL.bytes && size() > SMALL.bytes / 2, "{}", size());
    let kept = all(&folder);
    let (first, last) = (kept[0].txn, kept[kept.len() - 1].txn);
    assert!(first > 1 && last == 2000, "{first} to {last}");
    assert_eq!(numbers_of(&kept), (first..=last).collect::<Vec<_>>());
    assert!(kept.iter().all(|receipt| states(receipt)["hv1"] == State::Confirmed));

    // They are the same page by page.
    let (mut paged, mut from, mut pages) = (Vec::new(), 0, 0);
    loop {
        let Page { receipts, next } = page(&folder, from, u64::MAX, 4000, now);
        assert!(receipts.len() < 40, "{}", receipts.len());
        paged.extend(receipts);
        pages += 1;
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert!(pages > 3);
    assert_eq!(paged, kept);
    let some = page(&folder, last - 5, last - 2, usize::MAX, now);
    assert_eq!((numbers_of(&some.receipts), some.next), (vec![last - 5, last - 4, last - 3], None));
    // Files that went take nothing along that says whose the rest is.
    drop(log_at(&folder, Some(JOURNAL), last));
    assert_eq!(numbers_of(&all(&folder)).last(), Some(&last));
    drop(log_at(&folder, Some("2026-02-02-12345678"), last));
    assert!(all(&folder).is_empty());
}

#[test]
fn receipts_leave_most_of_a_small_disk_to_the_journal_and_old_ones_go_when_it_is_full() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(FOLDER);
    let limits = Limits { bytes: 100_000_000, age: Duration::from_hours(24) };
    let mut files = Files::open(path.clone(), limits, Begin { journal: None, txn: 0 }).unwrap();
    let size =
        || numbers(&path).unwrap().iter().map(|of| fs::metadata(path_of(&path, *of)).unwrap().len()).sum();
    let line = [b'x'; 999].into_iter().chain([b'\n']).collect::<Vec<u8>>();
    // Of 16 MB, receipts take four. The disk is the same whatever they take of it.
    files.free = |folder| {
        let taken =
            numbers(folder)?.iter().map(|of| fs::metadata(path_of(folder, *of)).unwrap().len()).sum::<u64>();
        Ok(16_000_000 - taken)
    };
    files.tidy(SystemTime::now()).unwrap();
    for _ in 0..20_000 {
        files.write(&line, SystemTime::now()).unwrap();
    }
    let taken: u64 = size();
    assert!((3_000_000..=4_000_000).contains(&taken), "{taken}");
    // Somebody else takes the rest of the disk.
    files.free = |_| Ok(0);
    files.tidy(SystemTime::now()).unwrap();
    let taken: u64 = size();
    assert!(taken <= ROOM_MIN, "{taken}");
    assert!(!numbers(&path).unwrap().is_empty(), "the newest stays");
}

#[test]
fn a_receipt_goes_after_a_day_and_so_does_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let begin = SystemTime::now();
    let mut log = log_at(&folder, None, 0);
    let hour = Duration::from_hours(1);
    log.write(&[new(1, begin, &[]), new(2, begin + 23 * hour, &[])], Some(JOURNAL));
    drop(log);
    let at = |hours: u32| numbers_of(&page(&folder, 0, u64::MAX, usize::MAX, begin + hours * hour).receipts);
    assert_eq!([at(23), at(25), at(48)], [vec![1, 2], vec![2], vec![]]);

    let path = folder.path().join(FOLDER);
    let begun = Begin { journal: Some(JOURNAL.to_owned()), txn: 2 };
    let mut files = Files::open(path.clone(), SMALL, begun).unwrap();
    files.write(b"", begin + 48 * hour).unwrap();
    assert_eq!(numbers(&path).unwrap(), [1], "the last file stays");
    let mut line = Vec::new();
    Line::of(&new(3, begin + 48 * hour, &[]).1).add_to(&mut line);
    files.write(&line, begin + 48 * hour).unwrap();
    assert_eq!(numbers(&path).unwrap(), [2]);
}

#[test]
fn a_torn_end_is_removed_and_what_comes_later_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let mut log = log_at(&folder, None, 0);
    log.write(&[new(1, now, &["hv1"]), new(2, now, &["hv1"])], Some(JOURNAL));
    drop(log);
    let whole = fs::read(file(&folder)).unwrap();
    let before = memrchr(b'\n', &whole[..whole.len() - 1]).unwrap() + 1;
    for len in before..whole.len() {
        fs::write(file(&folder), &whole[..len]).unwrap();
        assert_eq!(numbers_of(&all(&folder)), [1], "cut at {len}");
        let mut log = log_at(&folder, Some(JOURNAL), 2);
        log.write(&[new(3, now, &[])], Some(JOURNAL));
        drop(log);
        assert_eq!(numbers_of(&all(&folder)), [1, 3], "cut at {len}");
        let text = fs::read(file(&folder)).unwrap();
        let mut lines = text.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
        assert!(lines.all(line::is_intact), "cut at {len}");
    }
}

#[test]
fn a_flipped_bit_costs_a_line_and_is_never_believed() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log_at(&folder, None, 0);
    let now = SystemTime::now();
    log.write(&[new(1, now, &["hv1"]), new(2, now, &["hv1"]), new(3, now, &["hv1"])], Some(JOURNAL));
    log.write(&[progress(2, "hv1", Progress::Confirmed(Duration::ZERO))], Some(JOURNAL));
    log.write(&[progress(3, "hv1", Progress::Offline)], Some(JOURNAL));
    drop(log);
    let whole = fs::read(file(&folder)).unwrap();
    let sound = all(&folder);
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(file(&folder), &damaged).unwrap();
        let receipts = all(&folder);
        assert!(!receipts.is_empty(), "byte {at}");
        for receipt in receipts {
            let mut undamaged = sound.iter().find(|sound| sound.txn == receipt.txn).unwrap().clone();
            if receipt != undamaged {
                undamaged.switches[0].state = State::Unknown.into();
                undamaged.switches[0].confirmed_us = None;
                assert_eq!(receipt, undamaged, "byte {at}");
            }
        }
    }
}

#[test]
fn nothing_waits_for_a_disk_that_is_slow_or_full() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log_at(&folder, Some(JOURNAL), 0);
    log.waiting_max = 1000;
    log.waiting.store(900, Ordering::Relaxed);
    let now = SystemTime::now();
    log.write(&[new(1, now, &[])], Some(JOURNAL));
    log.waiting.store(0, Ordering::Relaxed);
    log.write(&[new(2, now, &[])], Some(JOURNAL));
    drop(log);
    assert_eq!(numbers_of(&all(&folder)), [2]);

    let begin = Begin { journal: Some(JOURNAL.to_owned()), txn: 2 };
    let mut files = Files::open(folder.path().join(FOLDER), SMALL, begin).unwrap();
    files.file = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let mut line = Vec::new();
    Line::of(&new(3, now, &[]).1).add_to(&mut line);
    assert!(files.write(&line, now).is_err());
}

/// What the engine's thread spends on a transaction, and how fast the other thread is. Says so; asserts nothing about time.
#[test]
fn a_transaction_costs_the_engine_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let mut log = ReceiptLog::open(folder.path().join(FOLDER), LIMITS, None, 0).unwrap();
    let transactions = 10_000_u32;
    let updates: Vec<_> = (1..=u64::from(transactions))
        .map(|txn| [new(txn, now, &["hv1", "hv2"]), progress(txn, "hv1", Progress::Offline)])
        .collect();
    let begun = Instant::now();
    for updates in &updates {
        log.write(updates, Some(JOURNAL));
    }
    let (handed, waiting) = (begun.elapsed(), log.waiting.load(Ordering::Relaxed));
    drop(log);
    let written = begun.elapsed();
    let begun = Instant::now();
    let one = page(&folder, 5000, 5001, usize::MAX, now).receipts.len();
    let (one_after, begun) = (begun.elapsed(), Instant::now());
    let read = all(&folder).len();
    println!(
        "{:?} for each transaction in the engine's thread; {transactions} were written after {written:?} ({waiting} bytes waited), one of \
         them was read in {one_after:?}, and all in {:?}",
        handed / transactions,
        begun.elapsed()
    );
    assert_eq!((one, read), (1, transactions as usize));
}

//! A journal gives back what was acknowledged, or says why it cannot.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};

use serde_json::json;
use tempfile::TempDir;
use weft_core::record::ObjectChanges;

use super::*;

pub(super) fn record(txn: u64) -> Record {
    Record {
        txn,
        at: "2026-11-20T09:00:00.000001Z".to_owned(),
        by: "api".to_owned(),
        peer: None,
        insert: BTreeMap::from([(
            "logical_switch".into(),
            vec![vec![json!(format!("s{txn}\n")), json!("")]],
        )]),
        delete: BTreeMap::new(),
        objects: ObjectChanges {
            put: vec![json!({"kind": "switch", "id": "ü"}).into()], delete: Vec::new()
        },
        reports: None,
        filled: None,
        memory: BTreeMap::new(),
        announcements: weft_core::record::AnnouncementChanges::default(),
        observation: false,
        rules: None,
        base: None,
        key: None,
    }
}

/// A record of several pages.
pub(super) fn large(txn: u64) -> Record {
    let rows = (0..400).map(|row| vec![json!(format!("s{txn}-{row}")), json!("")]).collect();
    Record { insert: BTreeMap::from([("logical_switch".into(), rows)]), ..record(txn) }
}

pub(super) fn open(folder: &Path) -> Result<(Journal, Vec<Record>), JournalError> {
    let mut replay = Replay::open(folder)?;
    let records = replay.by_ref().collect::<Result<_, _>>()?;
    Ok((replay.finish()?, records))
}

/// The journal of a folder, in a file that is on another disk.
pub(super) fn open_on<F>(folder: &Path, disk: impl FnOnce(File) -> F) -> Journal<F> {
    let (journal, _) = open(folder).unwrap();
    let Journal { path, file, begin, end, acknowledged, identity, put_aside, _lock: lock } = journal;
    Journal { path, file: disk(file), begin, end, acknowledged, identity, put_aside, _lock: lock }
}

/// A state folder.
struct State {
    folder: TempDir,
    files: BTreeMap<&'static str, Vec<u8>>,
}

impl State {
    /// A folder with a journal of these groups, each written at once.
    fn new(groups: &[&[Record]]) -> State {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(folder.path()).unwrap();
        for group in groups {
            journal.append(*group).unwrap();
        }
        drop(journal);
        let read = |name: &&'static str| (*name, fs::read(folder.path().join(name)).unwrap());
        let files = ["journal.jsonl", "acknowledged", "lock"].iter().map(read).collect();
        State { folder, files }
    }

    fn journal(&self) -> &[u8] {
        &self.files[FILE]
    }

    /// The offsets of the lines, and of the end.
    fn lines(&self) -> Vec<usize> {
        let feeds =
            self.journal().iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        std::iter::once(0).chain(feeds).collect()
    }

    /// Opens the folder after replacing the contents of one file.
    fn open_with(&self, name: &str, contents: &[u8]) -> Result<Vec<Record>, JournalError> {
        for (name, contents) in &self.files {
            fs::write(self.folder.path().join(name), contents).unwrap();
        }
        fs::write(self.folder.path().join(name), contents).unwrap();
        let result = open(self.folder.path()).map(|(_, records)| records);
        if name == FILE && result.is_err() {
            assert_eq!(
                fs::read(self.folder.path().join(FILE)).unwrap(),
                contents,
                "an error changes nothing"
            );
        }
        result
    }

    /// Sets the acknowledged position back, as if nothing had been acknowledged or the machine had lost power.
    fn forget(mut self, position: Option<Position>) -> State {
        let path = self.folder.path().join(acknowledged::FILE);
        match position {
            None => {
                self.files.remove(acknowledged::FILE);
                fs::remove_file(&path).unwrap();
            }
            Some(position) => {
                Acknowledged::open(self.folder.path(), &position).unwrap();
                self.files.insert(acknowledged::FILE, fs::read(&path).unwrap());
            }
        }
        self
    }
}

#[test]
fn a_journal_gives_back_what_was_appended_and_only_its_owner_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("a/b");
    {
        let (mut journal, records) = open(&state).unwrap();
        assert!(records.is_empty());
        journal.append(&[record(1), record(2)]).unwrap();
        journal.append(&[] as &[Record]).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for file in fs::read_dir(&state).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    // As after a copy from a backup.
    fs::set_permissions(state.join(FILE), fs::Permissions::from_mode(0o644)).unwrap();
    let (mut journal, records) = open(&state).unwrap();
    assert_eq!(mode(&state.join(FILE)), 0o640, "the group may be there on purpose");
    assert_eq!(records, [record(1), record(2)]);
    journal.append(&[record(3)]).unwrap();
    drop(journal);
    assert_eq!(open(&state).unwrap().1.len(), 3);
}

#[test]
fn every_line_has_its_length_its_group_and_a_checksum_of_all_lines_up_to_it() {
    let state = State::new(&[&[record(1)], &[record(2), record(3)]]);
    let text = String::from_utf8(state.journal().to_vec()).unwrap();
    let mut sum = 0;
    for (line, group) in text.lines().zip([1, 2, 2]) {
        let (object, _) = line.split_once(r#","len":"#).unwrap();
        let (covered, _) = line.rsplit_once(r#","sum":"#).unwrap();
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&u32::to_le_bytes(sum));
        hasher.update(covered.as_bytes());
        sum = hasher.finalize();
        let end = format!(r#","len":{},"group":{group},"sum":"{sum:08x}"}}"#, object.len());
        assert_eq!(line, format!("{object}{end}"));
    }
}

#[test]
fn a_flipped_bit_anywhere_gives_the_same_records_or_an_error() {
    let records = [record(1), record(2), record(3)];
    let state = || State::new(&[&records[..1], &records[1..]]);
    for state in [state(), state().forget(None)] {
        let mut refused = 0;
        for (name, good) in &state.files {
            // Written in place, since a new file each time would have to wait for the disk.
            let file = OpenOptions::new().write(true).open(state.folder.path().join(name)).unwrap();
            for (at, byte) in (0..).zip(good) {
                for flip in (0..8).map(|bit| 1_u8 << bit).chain([0xff, 0x81]) {
                    file.write_all_at(&[byte ^ flip], at).unwrap();
                    let read =
                        Replay::open(state.folder.path()).and_then(Iterator::collect::<Result<Vec<_>, _>>);
                    match read {
                        Ok(read) => assert_eq!(read, records, "{name}: byte {at}, {flip:#x}"),
                        Err(_) => refused += 1,
                    }
                }
                file.write_all_at(&[*byte], at).unwrap();
            }
        }
        let last_feed = 10;
        assert_eq!(refused, 10 * state.journal().len() - last_feed, "every other byte of the journal counts");
    }
}

#[test]
fn damage_is_an_error_with_its_place_and_remedy() {
    let records = [record(1), record(2), record(3)];
    let state = State::new(&[&records[..1], &records[1..2], &records[2..]]);
    let good = String::from_utf8(state.journal().to_vec()).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let second = format!(":2: the journal is damaged: byte {}: ", state.lines()[1]);
    let first = ":1: the journal is damaged: byte 0: ".to_owned();
    let cases = [
        (format!("{}\n{}\n", lines[0], lines[2]), &second, "found transaction 3, expected 2"),
        (format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1]), &second, "found transaction 3"),
        (format!("{0}\n{0}\n{1}\n", lines[0], lines[1]), &second, "found transaction 1, expected 2"),
        (format!("{}\n\n{}\n", lines[0], lines[1]), &second, "the line has no checksum"),
        (format!("{}\n{}\n{}\n", lines[0], &lines[1][..40], lines[2]), &second, "the line has no checksum"),
        (good.replacen("\"by\":\"api\"", "\"by\":7", 1), &first, "the checksum does not fit"),
        (good.replacen("s2", "s4", 1), &second, "the checksum does not fit"),
        (good.replacen("{\"txn\":1", "{\"tnx\":3,\"txn\":1", 1), &first, "the checksum does not fit"),
    ];
    for (text, place, why) in cases {
        let error = state.open_with(FILE, text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(why), "{error}");
        assert!(error.ends_with("restore the file from a backup"), "{error}");
    }
}

/// The view of a controller that never acknowledged the last group: it was killed, or the machine lost power.
#[test]
fn a_group_that_was_never_acknowledged_and_is_torn_anywhere_is_removed() {
    let records = [record(1), large(2), record(3)];
    let state = State::new(&[&records[..1]]);
    let known = acknowledged::read(state.folder.path()).unwrap();
    let acknowledged::Known::UpTo(known) = known else { panic!("{known:?}") };
    let state = State::new(&[&records[..1], &records[1..]]).forget(Some(known));
    let (good, lines) = (state.journal(), state.lines());
    let whole = |upto: usize| lines.iter().filter(|line| **line <= upto).count() - 1;

    // Every eleventh byte, and all bytes around the ends of lines.
    let near = |at: &usize| lines.iter().any(|line| line.abs_diff(*at) < 40);
    for cut in (lines[1]..good.len()).filter(|at| at % 11 == 0 || near(at)) {
        let read = state.open_with(FILE, &good[..cut]).unwrap();
        // A record that lacks only its line feed is complete.
        assert_eq!(read, records[..whole(cut + 1)], "cut at byte {cut}");
    }
    // Pages that were never written, up to the end and before it.
    for from in (lines[1]..good.len()).filter(|at| at % 512 == 0).chain([lines[1]]) {
        for to in [from + 512, from + 4096, good.len()] {
            let to = to.min(good.len());
            let mut bytes = good.to_vec();
            bytes[from..to].fill(0);
            let read = state.open_with(FILE, &bytes).unwrap();
            assert_eq!(read, records[..whole(from)], "zeros from {from} to {to}");
            assert_eq!(fs::read(state.folder.path().join(FILE)).unwrap(), good[..lines[whole(from)]]);
            assert_eq!(
                fs::read(state.folder.path().join("journal.removed")).unwrap(),
                bytes[lines[whole(from)]..]
            );
        }
    }
    // Someone may have appended invalid JSON by hand.
    for end in [&b"{\"txn\":"[..], &[0; 4096], &[&[0; 4096][..], b"\n"].concat()] {
        let read = state.open_with(FILE, &[good, end].concat()).unwrap();
        assert_eq!(read, records);
    }
}

#[test]
fn the_journal_goes_on_after_a_torn_group() {
    let records = [record(1), record(2)];
    let state = State::new(&[&records[..1], &records[1..]]).forget(None);
    let (good, lines) = (state.journal(), state.lines());
    for cut in [lines[1] + 1, good.len() - 2, good.len() - 1] {
        state.open_with(FILE, &good[..cut]).unwrap();
        let (mut journal, read) = open(state.folder.path()).unwrap();
        journal.append(&records[read.len()..]).unwrap();
        drop(journal);
        assert_eq!(fs::read(state.folder.path().join(FILE)).unwrap(), good, "cut at byte {cut}");
    }
}

#[test]
fn only_the_last_group_can_be_torn() {
    let records = [record(1), large(2), large(3), record(4)];
    let whole = State::new(&[&records[..1], &records[1..2], &records[2..]]);
    let at = whole.lines()[1].next_multiple_of(512);
    let mut bytes = whole.journal().to_vec();
    bytes[at..at + 4096].fill(0);
    let damaged = "checksum does not fit";
    for state in [whole, State::new(&[&records[..1], &records[1..2], &records[2..]]).forget(None)] {
        let error = state.open_with(FILE, &bytes).unwrap_err().to_string();
        assert!(
            error.contains(":2: ") && (error.contains(damaged) || error.contains("control character")),
            "{error}"
        );
        // The zeros hide the line feed between two groups.
        let mut bytes = state.journal().to_vec();
        let feed = state.lines()[2];
        bytes[feed - 100..feed + 100].fill(0);
        let error = state.open_with(FILE, &bytes).unwrap_err().to_string();
        assert!(error.contains(":2: "), "{error}");
    }
}

/// A disk that falsely reports a completed write can lose the last group. The end then looks like a crash.
#[test]
fn an_acknowledged_group_that_looks_torn_is_removed_and_kept_beside() {
    let records = [record(1), record(2), large(3)];
    let state = State::new(&[&records[..1], &records[1..2], &records[2..]]);
    let (good, lines) = (state.journal(), state.lines());
    assert_eq!(state.open_with(FILE, &good[..good.len() - 100]).unwrap(), records[..2]);
    let kept = fs::read(state.folder.path().join("journal.removed")).unwrap();
    assert_eq!(kept, good[lines[2]..good.len() - 100]);
    let mut zeroed = good.to_vec();
    zeroed[lines[2] + 600..lines[2] + 4696].fill(0);
    assert_eq!(state.open_with(FILE, &zeroed).unwrap(), records[..2]);
    // More than a crash can damage.
    let error = state.open_with(FILE, &good[..lines[2] - 100]).unwrap_err().to_string();
    assert!(error.contains(":2: the journal is damaged"), "{error}");
}

/// A controller that was killed while its disk was full has to start on the full disk.
#[test]
fn a_torn_end_that_cannot_be_kept_stops_a_start_only_if_it_was_acknowledged() {
    let records = [record(1), record(2)];
    let acknowledged = State::new(&[&records[..1], &records[1..]]);
    let known = acknowledged::read(State::new(&[&records[..1]]).folder.path()).unwrap();
    let acknowledged::Known::UpTo(first) = known else { panic!("{known:?}") };
    let forgotten = State::new(&[&records[..1], &records[1..]]).forget(Some(first));
    for state in [&acknowledged, &forgotten] {
        // In the place of a full disk, which the fault suite has.
        fs::create_dir(state.folder.path().join("journal.removed")).unwrap();
    }
    let (whole, lines) = (forgotten.journal(), forgotten.lines());
    assert_eq!(forgotten.open_with(FILE, &whole[..whole.len() - 100]).unwrap(), records[..1]);
    assert_eq!(fs::read(forgotten.folder.path().join(FILE)).unwrap(), whole[..lines[1]]);

    let torn = &acknowledged.journal()[..acknowledged.journal().len() - 100];
    let error = acknowledged.open_with(FILE, torn).unwrap_err().to_string();
    assert!(error.contains("journal.removed is a folder, not a file"), "{error}");
    assert_eq!(fs::read(acknowledged.folder.path().join(FILE)).unwrap(), torn);
}

#[test]
fn a_journal_that_lacks_acknowledged_records_is_refused() {
    let records = [record(1), record(2)];
    let state = State::new(&[&records[..1], &records[1..]]);
    let refused = |contents: Option<&[u8]>, wanted: &str| {
        let error = if let Some(contents) = contents {
            state.open_with(FILE, contents).unwrap_err()
        } else {
            fs::remove_file(state.folder.path().join(FILE)).unwrap();
            open(state.folder.path()).unwrap_err()
        };
        let error = error.to_string();
        assert!(error.contains(wanted) && error.contains("or remove "), "{error}");
    };
    refused(
        Some(&state.journal()[..state.lines()[1]]),
        "ends with transaction 1, but transaction 2 was acknowledged",
    );
    refused(Some(b""), "the journal is empty, but transaction 2 was acknowledged");
    refused(None, "the journal is missing, but transaction 2 was acknowledged");
    let other = State::new(&[&[record(1)], &[Record { by: "somebody else".to_owned(), ..record(2) }]]);
    refused(Some(other.journal()), "this is another journal");

    // The remedy named in the message.
    fs::remove_file(state.folder.path().join("acknowledged")).unwrap();
    assert_eq!(open(state.folder.path()).unwrap().1.len(), 2);
    fs::remove_file(state.folder.path().join(FILE)).unwrap();
    fs::remove_file(state.folder.path().join("acknowledged")).unwrap();
    assert!(open(state.folder.path()).unwrap().1.is_empty());
    // A folder without records can be opened any number of times.
    assert!(open(state.folder.path()).unwrap().1.is_empty());
    fs::remove_file(state.folder.path().join(FILE)).unwrap();
    assert!(open(state.folder.path()).unwrap().1.is_empty());
}

#[test]
fn a_line_without_a_checksum_and_one_with_an_unknown_member_are_refused() {
    let state = State::new(&[&[record(1)]]).forget(None);
    let refused = |line: &[u8], why: &str| {
        let journal = [state.journal(), line, b"\n"].concat();
        fs::write(state.folder.path().join(FILE), journal).unwrap();
        let error = open(state.folder.path()).unwrap_err().to_string();
        assert!(error.contains(":2: the journal is damaged") && error.contains(why), "{error}");
    };
    let line = br#"{"txn":2,"at":"","by":"me"}"#;
    refused(line, "has no checksum");
    let last = seal::Seal::of(state.journal().strip_suffix(b"\n").unwrap()).unwrap();
    let mut line = br#"{"txn":2,"at":"","by":"me","note":1}"#.to_vec();
    seal::seal(&mut line, 0, 2, last.sum);
    refused(&line, "unknown field `note`");
}

#[test]
fn a_journal_that_another_program_touches_takes_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(folder.path()).unwrap();
    journal.append(&[record(1)]).unwrap();
    let (path, aside) = (folder.path().join(FILE), folder.path().join("aside"));
    let good = fs::read(&path).unwrap();
    let refused = |journal: &mut Journal, wanted: &str| {
        let error = journal.append(&[record(2)]).unwrap_err();
        assert!(matches!(error, JournalError::Unwritten { .. }), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    };
    fs::rename(&path, &aside).unwrap();
    refused(&mut journal, "moved or removed");
    fs::copy(&aside, &path).unwrap();
    refused(&mut journal, "another file took its place");
    fs::rename(&aside, &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), good, "nothing was written");

    let cut = OpenOptions::new().write(true).open(&path).unwrap();
    cut.set_len(good.len() as u64 - 1).unwrap();
    refused(&mut journal, "bytes instead of");
    assert_eq!(cut.metadata().unwrap().len(), good.len() as u64 - 1);
    fs::write(&path, [&good[..], b"x"].concat()).unwrap();
    refused(&mut journal, "bytes instead of");
    // With the original file, the journal works again.
    fs::write(&path, &good).unwrap();
    journal.append(&[record(2)]).unwrap();
    drop(journal);
    assert_eq!(open(folder.path()).unwrap().1, [record(1), record(2)]);
}

#[test]
fn a_state_folder_with_anything_but_files_is_refused() {
    for name in [FILE, "lock", "acknowledged"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        let error = open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("{name} is a folder, not a file")), "{error}");
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("{name} is a device, not a file")), "{error}");
    }
}

/// A file on a disk with room for this many bytes; `None` means that the disk is broken.
struct Full {
    file: File,
    room: Option<usize>,
}

impl JournalFile for Full {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.room.unwrap_or(0);
        self.file.append(&bytes[..room.min(bytes.len())])?;
        if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.room.ok_or(io::ErrorKind::Other)?;
        self.file.cut(len)
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }
}

#[test]
fn what_a_full_disk_does_not_take_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open_on(folder.path(), |file| Full { file, room: Some(usize::MAX) });
    let path = journal.path.clone();
    journal.append(&[record(1)]).unwrap();
    let one = fs::read(&path).unwrap();
    for room in [0, 1, one.len(), one.len() + 5] {
        journal.file.room = Some(room);
        let error = journal.append(&[record(2), record(3)]).unwrap_err();
        assert!(matches!(error, JournalError::Unwritten { .. }), "{error}");
        assert!(error.to_string().contains("nothing took effect"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), one);
    }
    journal.file.room = Some(usize::MAX);
    journal.append(&[record(2)]).unwrap();
    journal.file.room = None;
    let error = journal.append(&[record(3)]).unwrap_err();
    assert!(matches!(error, JournalError::Io { .. }), "{error}");
    drop(journal);
    assert_eq!(open(folder.path()).unwrap().1, [record(1), record(2)]);
}

#[test]
fn two_controllers_cannot_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = open(folder.path()).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, JournalError::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
    drop(journal);
    open(folder.path()).unwrap();
}

#[test]
fn d19_a_journal_and_its_copies_have_one_identity_from_the_first_record_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(folder.path()).unwrap();
    assert_eq!(journal.identity(), None);
    journal.append(&[record(1), record(2)]).unwrap();
    let identity = journal.identity().map(str::to_owned);
    assert!(identity.as_ref().is_some_and(|identity| identity.starts_with(&record(1).at)), "{identity:?}");
    journal.append(&[record(3)]).unwrap();
    assert_eq!(journal.identity().map(str::to_owned), identity);
    drop(journal);
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder.path().join(FILE), copy.path().join(FILE)).unwrap();
    assert_eq!(open(copy.path()).unwrap().0.identity().map(str::to_owned), identity);

    let other = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(other.path()).unwrap();
    journal.append(&[large(1)]).unwrap();
    assert_ne!(journal.identity().map(str::to_owned), identity);
}

/// Lines of a journal, each made to take as much memory as it can.
fn worst() -> Vec<(&'static str, String)> {
    let line = |members: &str| format!("{{\"txn\":1,\"at\":\"\",\"by\":\"\",{members}}}");
    let rows = |row: &str| vec![row; 200_000 / (row.len() + 1)].join(",");
    let inserted = |row: &str| line(&format!("\"insert\":{{\"t\":[{}]}}", rows(row)));
    let put = |object: &str| line(&format!("\"objects\":{{\"put\":[{}]}}", rows(object)));
    vec![
        ("empty rows", inserted("[]")),
        ("rows of a number", inserted("[0]")),
        ("rows of a list", inserted("[[]]")),
        ("rows of a list of a number", inserted("[[0]]")),
        ("rows of lists in lists", inserted("[[[[0]]]]")),
        ("rows of texts", inserted("[\"\",\"\"]")),
        ("a row of numbers", inserted(&format!("[{}]", rows("0")))),
        ("a row of lists", inserted(&format!("[{}]", rows("[]")))),
        ("objects", put("{\"a\":0}")),
        ("empty objects", put("{}")),
        ("objects of objects", put("{\"a\":{\"a\":{}}}")),
        ("deleted objects", line(&format!("\"objects\":{{\"delete\":[{}]}}", rows("[\"\",\"\"]")))),
        ("tables", {
            let tables = (0..30_000).map(|table| format!("\"{table:x}\":[]"));
            line(&format!("\"insert\":{{{}}}", tables.collect::<Vec<_>>().join(",")))
        }),
        ("brackets", format!("{{\"insert\":{}}}", "[".repeat(200_000))),
    ]
}

/// What any line takes: the buffers of a reader.
const ANY_LINE: usize = 1 << 20;

#[test]
fn d1_the_memory_of_a_journal_follows_its_lines() {
    for (name, line) in worst() {
        let folder = tempfile::tempdir().unwrap();
        let mut line = line.into_bytes();
        seal::seal(&mut line, 0, 1, 0);
        line.push(b'\n');
        fs::write(folder.path().join(FILE), &line).unwrap();
        decoder_memory::bounded(name, line.len(), ANY_LINE, || {
            open(folder.path()).map(|(_, records)| records)
        })
        .ok();
    }
}

//! Power that is lost at any instruction, on disks that fail and on disks that lie.
//!
//! The model of a disk: a file has the bytes of the last synchronisation for certain. Each sector that was written since is there or was never
//! written, and the file may end anywhere in between. The file `acknowledged` is not synchronised, so it can have any of its
//! contents since the last time that it was.

use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::AsRawFd as _;

use test_random::{Random, seeds};

use super::tests::{large, open, open_on, record};
use super::*;

const SECTOR: usize = 512;
/// How many groups of records are written.
const GROUPS: usize = 8;

/// A file on a disk.
struct Disk {
    file: File,
    /// What is certainly there after a loss of power.
    certain: Vec<u8>,
    next: Behaviour,
    moments: RefCell<Vec<Moment>>,
}

/// What the disk does with the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Works,
    /// It takes so many bytes and no more.
    Full(usize),
    /// It takes all, and cannot bring it to the medium.
    SyncFails,
    /// It says that all is on the medium, and nothing is.
    Lies,
}

/// What is where, at a moment in which the power may be lost.
struct Moment {
    certain: Vec<u8>,
    /// What programs read.
    cached: Vec<u8>,
}

impl Disk {
    fn cached(&self) -> Vec<u8> {
        fs::read(format!("/proc/self/fd/{}", self.file.as_raw_fd())).unwrap()
    }

    fn moment(&self) -> Moment {
        Moment { certain: self.certain.clone(), cached: self.cached() }
    }

    fn note(&self) {
        self.moments.borrow_mut().push(self.moment());
    }
}

impl JournalFile for Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.note();
        let behaviour = std::mem::replace(&mut self.next, Behaviour::Works);
        let taken = if let Behaviour::Full(room) = behaviour { room.min(bytes.len()) } else { bytes.len() };
        self.file.write_all(&bytes[..taken])?;
        self.note();
        match behaviour {
            Behaviour::Works => self.certain = self.cached(),
            Behaviour::Lies => {}
            Behaviour::Full(_) if taken < bytes.len() => return Err(io::ErrorKind::StorageFull.into()),
            Behaviour::Full(_) => self.certain = self.cached(),
            Behaviour::SyncFails => return Err(io::Error::other("the medium does not answer")),
        }
        self.note();
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.note();
        self.certain = self.cached();
        self.note();
        Ok(())
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }
}

impl Moment {
    /// What the next start reads if the power is lost now.
    fn after(&self, random: &mut Random) -> Vec<u8> {
        let same = self.certain.iter().zip(&self.cached).take_while(|(one, other)| one == other).count();
        let longer = if self.cached.len() > self.certain.len() { &self.cached } else { &self.certain };
        let mut bytes = longer.clone();
        if self.certain.len() == same {
            let end = same + random.below((bytes.len() - same) as u64 + 1) as usize;
            bytes.truncate(if random.chance(50) { end } else { bytes.len() });
            for sector in sectors(same..bytes.len()) {
                if random.chance(30) {
                    bytes[sector].fill(0);
                }
            }
        } else if random.chance(50) {
            bytes.truncate(self.cached.len());
        }
        bytes
    }
}

/// The sectors of a range of bytes. The first and the last may be a part of one.
fn sectors(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let first = range.start / SECTOR;
    (first..range.end.div_ceil(SECTOR))
        .map(move |sector| (sector * SECTOR).max(range.start)..((sector + 1) * SECTOR).min(range.end))
        .filter(|sector| !sector.is_empty())
}

/// What is known of the records at a moment.
struct Known<'a> {
    /// Those that were acknowledged.
    acknowledged: &'a [Record],
    /// Those that are being written.
    written: &'a [Record],
    /// The contents that the file `acknowledged` can have.
    told: &'a [Vec<u8>],
    /// Whether the disk lied.
    lied: bool,
}

impl Known<'_> {
    /// Loses the power at a moment, and starts again.
    fn check(&self, moment: &Moment, random: &mut Random) {
        let folder = tempfile::tempdir().unwrap();
        let journal = moment.after(random);
        fs::write(folder.path().join(FILE), &journal).unwrap();
        fs::write(folder.path().join(acknowledged::FILE), random.pick(self.told)).unwrap();
        fs::write(folder.path().join("lock"), "").unwrap();
        let all = [self.acknowledged, self.written].concat();
        let (mut journal, records) = match open(folder.path()) {
            Ok(opened) => opened,
            Err(JournalError::Lost { .. } | JournalError::Damaged { .. }) if self.lied => return,
            Err(error) => panic!("{error}"),
        };
        assert!(all.starts_with(&records), "records that nobody wrote: {records:?}");
        assert!(self.lied || records.len() >= self.acknowledged.len(), "acknowledged records are lost");
        let next = record(records.len() as u64 + 1);
        journal.append([&next]).unwrap();
        drop(journal);
        assert_eq!(open(folder.path()).unwrap().1, [records, vec![next]].concat());
    }
}

/// Groups of records are written, and the power is lost at each moment of it.
fn lose_power(random: &mut Random, behave: impl Fn(&mut Random) -> Behaviour) {
    let folder = tempfile::tempdir().unwrap();
    let disk = |file| Disk { file, certain: Vec::new(), next: Behaviour::Works, moments: RefCell::default() };
    let mut journal = open_on(folder.path(), disk);
    let read_told = || fs::read(folder.path().join(acknowledged::FILE)).unwrap();
    let (mut there, mut told, mut lied) = (Vec::new(), vec![read_told()], false);
    for _ in 0..GROUPS {
        let group: Vec<Record> = (1..2 + random.below(3))
            .map(|number| {
                let txn = there.len() as u64 + number;
                let record = if random.chance(40) { large(txn) } else { record(txn) };
                Record { by: "x".repeat(random.below(600) as usize), ..record }
            })
            .collect();
        journal.file.next = behave(random);
        lied |= journal.file.next == Behaviour::Lies;
        let appended = journal.append(&group);
        let moments = journal.file.moments.take();
        let known = Known { acknowledged: &there, written: &group, told: &told, lied };
        for moment in &moments {
            known.check(moment, random);
        }
        match appended {
            Ok(_) => {
                // The first position is synchronised, the later ones are not.
                if there.is_empty() {
                    told.clear();
                }
                told.push(read_told());
                there.extend(group);
                lied &= journal.file.certain != journal.file.cached();
            }
            Err(error) => assert!(matches!(error, JournalError::Unwritten { .. }), "{error}"),
        }
        let known = Known { acknowledged: &there, written: &[], told: &told, lied };
        known.check(&journal.file.moment(), random);
    }
}

#[test]
fn a_loss_of_power_at_any_moment_loses_no_acknowledged_record() {
    for seed in seeds!("a_loss_of_power_at_any_moment_loses_no_acknowledged_record", 20) {
        lose_power(&mut Random::new(seed), |random| match random.below(6) {
            0 => Behaviour::Full(random.below(3000) as usize),
            1 => Behaviour::SyncFails,
            _ => Behaviour::Works,
        });
    }
}

#[test]
fn what_a_disk_that_lies_has_lost_is_found_and_nothing_else_is_read() {
    for seed in seeds!("what_a_disk_that_lies_has_lost_is_found_and_nothing_else_is_read", 20) {
        lose_power(&mut Random::new(seed), |random| {
            if random.chance(40) { Behaviour::Lies } else { Behaviour::Works }
        });
    }
}

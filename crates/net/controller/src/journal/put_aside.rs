//! What hosts tell is computed again after each start, since they tell it again. If the computation ends the process, it would end it at each start.
//!
//! So the file [`COMPUTING`] has the hosts whose messages are computed at this moment. It is not synchronised: that would double the cost of a message,
//! and what ends a process leaves written bytes alone. A start that finds hosts there counts that in [`FILE`]. They are suspects: the message of each is
//! computed without those of others, until one has been. A host that has ended two processes one after the other is put aside: its messages
//! are not computed, and what it told before holds. The rest of the network works on. After a day, a start tries once more.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::{JournalError, files, io_error};

/// The file with the hosts whose messages are computed, each a line.
const COMPUTING: &str = "computing";
/// The file with the hosts that have ended processes.
const FILE: &str = "put-aside.json";
/// The least size of the first file. One write replaces all of it, with blanks at the end.
const SIZE: usize = 512;
/// The most bytes of either file that are read.
const READ_MAX: u64 = 1 << 20;
/// A host is put aside once it has ended so many processes.
const ENDS_MAX: u32 = 2;
/// How long a host is put aside before it is tried again.
const REST: Duration = Duration::from_hours(24);

/// The hosts whose messages have ended processes, and those whose messages are computed.
#[derive(Debug)]
pub(crate) struct PutAside {
    computing: File,
    /// The bytes of the file that are no blanks.
    used: usize,
    path: PathBuf,
    ended: BTreeMap<String, Ended>,
    has_failed: bool,
}

/// The processes that a host has ended, one after the other.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Ended {
    times: u32,
    /// When the last of them was found, in seconds since 1970.
    at: u64,
}

impl PutAside {
    /// Opens the files in a locked folder. What was computed when the process before this one ended is counted, on disk.
    pub(super) fn open(folder: &Path, now: SystemTime) -> Result<PutAside, JournalError> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let path = folder.join(COMPUTING);
        files::is_there(&path)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(files::MODE);
        let computing = options.open(&path).map_err(io_error(&path, "cannot open"))?;
        let text = read(&computing).map_err(io_error(&path, "cannot read"))?;
        let nodes: Vec<&str> = text.lines().map(str::trim).filter(|node| !node.is_empty()).collect();
        let ended = BTreeMap::new();
        let mut this =
            PutAside { computing, used: text.len(), path: folder.join(FILE), ended, has_failed: false };
        this.ended = this.read_ended()?;
        let are_tried = this.try_again(now);
        for node in &nodes {
            this.count(node, now);
        }
        if !nodes.is_empty() || are_tried {
            this.write_ended().map_err(io_error(&this.path, "cannot write"))?;
        }
        this.write_computing(&[]).map_err(io_error(&path, "cannot write"))?;
        Ok(this)
    }

    /// A message of each of these hosts is computed from now on.
    pub(crate) fn begin(&mut self, nodes: &[String]) {
        let written = self.write_computing(nodes);
        self.tell(written);
    }

    /// The messages of these hosts have been computed.
    pub(crate) fn end(&mut self, nodes: &[String]) {
        let written = self.write_computing(&[]);
        self.tell(written);
        for node in nodes {
            self.forget(node);
        }
    }

    /// Whether a message of this host may have ended a process, so that it is computed alone.
    pub(crate) fn is_suspect(&self, node: &str) -> bool {
        self.ended.contains_key(node)
    }

    /// Whatever this host did is forgotten: its message has been computed, or another switch has its name.
    pub(crate) fn forget(&mut self, node: &str) {
        if self.ended.remove(node).is_some() {
            let written = self.write_ended();
            self.tell(written);
        }
    }

    /// Why the messages of a host are not computed; `None` if they are.
    pub(crate) fn reason(&self, node: &str) -> Option<String> {
        self.ended.get(node).filter(|ended| ended.times >= ENDS_MAX).map(|ended| {
            format!(
                "the controller crashed {} times while it computed this host's reports, so its reports are put aside and the last one before them \
                 stays in force; please report this with the log, then remove {} and restart the controller",
                ended.times,
                self.path.display()
            )
        })
    }

    fn count(&mut self, node: &str, now: u64) {
        let ended = self.ended.entry(node.to_owned()).or_insert(Ended { times: 0, at: now });
        *ended = Ended { times: ended.times.saturating_add(1), at: now };
        if ended.times < ENDS_MAX {
            warn!(switch = node, "the process before this one ended while it computed what this switch told");
        }
        if let Some(why) = self.reason(node) {
            error!(switch = node, "{why}");
        }
    }

    /// Hosts that have rested long enough are tried once. Returns whether there are any.
    fn try_again(&mut self, now: u64) -> bool {
        let has_rested =
            |ended: &&mut Ended| ended.times >= ENDS_MAX && now.saturating_sub(ended.at) >= REST.as_secs();
        let tried = self.ended.values_mut().filter(has_rested).map(|ended| ended.times = ENDS_MAX - 1);
        tried.count() > 0
    }

    fn read_ended(&self) -> Result<BTreeMap<String, Ended>, JournalError> {
        if !files::is_there(&self.path)? {
            return Ok(BTreeMap::new());
        }
        let text = File::open(&self.path).and_then(|file| read(&file));
        let text = text.map_err(io_error(&self.path, "cannot read"))?;
        Ok(serde_json::from_str(&text).unwrap_or_else(|why| {
            warn!(file = %self.path.display(), %why, "the file is damaged and is written again: no host is put aside");
            BTreeMap::new()
        }))
    }

    fn write_computing(&mut self, nodes: &[String]) -> io::Result<()> {
        let mut text = nodes.join("\n").into_bytes();
        let used = text.len();
        text.resize(used.max(self.used).max(SIZE - 1), b' ');
        text.push(b'\n');
        self.computing.write_all_at(&text, 0)?;
        self.used = used;
        Ok(())
    }

    /// The file is on disk afterwards.
    fn write_ended(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.ended)?;
        text.push(b'\n');
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(files::MODE).open(&self.path)?;
        file.write_all_at(&text, 0)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()
    }

    /// A file that cannot be written costs the next start its memory, and nothing else.
    fn tell(&mut self, written: io::Result<()>) {
        if let Err(why) = written.as_ref().map_err(ToString::to_string)
            && !self.has_failed
        {
            warn!(
                folder = %self.path.parent().unwrap_or(Path::new(".")).display(),
                why,
                "cannot note what is computed; if that ends the process, the next one does not know it"
            );
        }
        self.has_failed = written.is_err();
    }
}

/// The beginning of a file, as text.
fn read(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(READ_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d25_a_host_that_has_ended_two_processes_is_put_aside_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let start = |hour| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_hours(hour);
            PutAside::open(folder.path(), now).unwrap()
        };
        let is_aside = |put: &PutAside, node| put.reason(node).is_some();
        start(0).begin(&["hv1".to_owned()]);
        let mut second = start(1);
        assert!(!is_aside(&second, "hv1"), "once may be an accident");
        // Others are computed meanwhile.
        second.begin(&["hv2".to_owned()]);
        second.end(&["hv2".to_owned()]);
        second.begin(&["hv1".to_owned()]);
        let third = start(2);
        assert!(is_aside(&third, "hv1") && !is_aside(&third, "hv2"));
        assert!(third.reason("hv1").unwrap().contains("put-aside.json"));
        assert!(is_aside(&start(3), "hv1"), "it stays aside");
        // A message that is computed without harm ends the row of ends.
        let mut fourth = start(4);
        fourth.begin(&["hv2".to_owned()]);
        let mut fifth = start(5);
        fifth.begin(&["hv2".to_owned()]);
        fifth.end(&["hv2".to_owned()]);
        fifth.begin(&["hv2".to_owned()]);
        assert!(!is_aside(&start(6), "hv2"));
        let mut tried = start(27);
        assert!(!is_aside(&tried, "hv1"), "after a day it is tried again");
        tried.begin(&["hv1".to_owned()]);
        assert!(is_aside(&start(28), "hv1"), "once");
        // Another switch may have the name.
        start(28).begin(&["hv3".to_owned()]);
        start(29).begin(&["hv3".to_owned()]);
        let mut last = start(30);
        assert!(is_aside(&last, "hv3"));
        last.forget("hv3");
        assert!(!is_aside(&last, "hv3") && !is_aside(&start(31), "hv3"));
    }

    #[test]
    fn d25_of_hosts_that_are_computed_together_the_one_at_fault_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let open = || PutAside::open(folder.path(), SystemTime::UNIX_EPOCH).unwrap();
        let names: Vec<String> = (0..64).map(|host| format!("{host:0>200}")).collect();
        let mut first = open();
        first.begin(&["before".to_owned()]);
        first.end(&["before".to_owned()]);
        first.begin(&names);
        let mut second = open();
        assert!(names.iter().all(|name| second.is_suspect(name) && second.reason(name).is_none()));
        assert!(!second.is_suspect("before"));
        for name in &names[..9] {
            second.begin(std::slice::from_ref(name));
            second.end(std::slice::from_ref(name));
        }
        second.begin(&names[9..10]);
        let third = open();
        let aside: Vec<&String> = names.iter().filter(|name| third.reason(name).is_some()).collect();
        assert_eq!(aside, [&names[9]]);
        assert_eq!(names.iter().filter(|name| third.is_suspect(name)).count(), 64 - 9);
    }

    #[test]
    fn d25_a_damaged_file_puts_nobody_aside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        let mut put = PutAside::open(folder.path(), SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(put.reason("hv1"), None);
        put.begin(&["hv1".to_owned()]);
        let put = PutAside::open(folder.path(), SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(put.ended["hv1"].times, 1);
    }
}

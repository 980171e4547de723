//! The clock on the wall as the controller sees it: libfaketime adds to it what a file says.
//!
//! The monotonic clock is left as it is, as when somebody sets the clock of a machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::requirements;

/// Where libfaketime leaves files that the processes of a program share.
const SHARED: &str = "/dev/shm";

/// A clock that can jump.
#[derive(Debug)]
pub struct WallClock {
    file: PathBuf,
    library: PathBuf,
    /// What is added to the time, in seconds.
    ahead: i64,
}

impl WallClock {
    /// A clock that is right. What is added to it is in a file of this folder.
    pub fn new(folder: &Path) -> Result<WallClock> {
        let clock =
            WallClock { file: folder.join("clock"), library: requirements::clock_library()?, ahead: 0 };
        clock.write()?;
        Ok(clock)
    }

    /// The variables of a process that sees this clock.
    pub fn variables(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file)),
            // Each look at the clock reads the file, so that a jump counts at once.
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// Jumps by so many seconds.
    pub fn jump(&mut self, seconds: i64) -> Result<()> {
        self.ahead += seconds;
        self.write()
    }

    /// What is added to the time, in seconds.
    pub fn ahead(&self) -> i64 {
        self.ahead
    }

    /// The time now by this clock, in seconds since 1970.
    pub fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        now.as_secs() as i64 + self.ahead
    }

    /// In one step, so that no reader finds half a number.
    fn write(&self) -> Result<()> {
        let next = self.file.with_extension("next");
        let written = std::fs::write(&next, format!("{:+}\n", self.ahead));
        written
            .and_then(|()| std::fs::rename(&next, &self.file))
            .with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// Removes what libfaketime has left of a process that has ended.
    pub fn forget(pid: u32) {
        for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
            let _ = std::fs::remove_file(Path::new(SHARED).join(name));
        }
    }
}

/// Seconds since 1970 of a time such as `2026-01-31T23:59:59`, in UTC.
pub fn seconds_of(text: &str) -> Option<i64> {
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

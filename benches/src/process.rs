//! A process that a bench starts and watches.

use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// A process that ends with this value.
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    /// Its memory now, in mebibytes (`VmRSS` of proc(5)).
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        self.status_mib("VmRSS:")
    }

    /// The most memory that it has had since [`Killed::forget_peak`], in mebibytes (`VmHWM` of proc(5)).
    pub(crate) fn peak_mib(&self) -> Result<f64> {
        self.status_mib("VmHWM:")
    }

    /// Lets the peak begin anew.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.0.id());
        std::fs::write(&path, "5").with_context(|| path)
    }

    /// The processor time of its threads that still run, in user mode and in the kernel (`schedstat` of proc(5)).
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let tasks = format!("/proc/{}/task", self.0.id());
        let mut all = Duration::ZERO;
        for task in std::fs::read_dir(&tasks).with_context(|| tasks.clone())? {
            let path = task?.path().join("schedstat");
            // A thread may have ended since.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let nanoseconds = text.split_whitespace().next().and_then(|first| first.parse().ok());
            all += Duration::from_nanos(nanoseconds.with_context(|| format!("{}: no time", path.display()))?);
        }
        Ok(all)
    }

    fn status_mib(&self, field: &str) -> Result<f64> {
        status_mib(self.0.id(), field)
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A field of a process in mebibytes, such as `VmRSS:` (proc(5)).
pub(crate) fn status_mib(pid: u32, field: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    let kib: f64 =
        value.with_context(|| format!("{path}: no {field}"))?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

//! Time and memory of this process.
//!
//! `benches/dbsp` compiles this file too, so it uses nothing of this program.

use std::time::{Duration, Instant};

/// The peak memory of this process, in mebibytes (`VmHWM` of proc(5)); 0 if the kernel does not report it.
pub(crate) fn peak_mib() -> f64 {
    status_mib("VmHWM:")
}

/// The current memory of this process, in mebibytes (`VmRSS` of proc(5)); 0 if the kernel does not report it.
pub(crate) fn resident_mib() -> f64 {
    status_mib("VmRSS:")
}

fn status_mib(field: &str) -> f64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        })
        .map_or(0.0, |kib| kib / 1024.0)
}

/// Processor time of this process, all threads together.
pub(crate) fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// A clock for a section of work: wall time and processor time.
pub(crate) struct Clock {
    wall: Instant,
    cpu: Duration,
}

impl Clock {
    /// Now.
    pub(crate) fn start() -> Clock {
        let cpu = cpu();
        Clock { wall: Instant::now(), cpu }
    }

    /// Time since then, and processor time.
    pub(crate) fn stop(&self) -> (Duration, Duration) {
        let wall = self.wall.elapsed();
        (wall, cpu().saturating_sub(self.cpu))
    }
}

//! Gives freed memory back to the system, for a daemon that may be idle for days.
//!
//! mimalloc keeps freed pages for a while and returns them when a later allocation finds that their time is over. An idle
//! process has no later allocation: 10 s after hostile clients had gone (`cargo xtask bench hostile`), the controller kept 75
//! MiB more than before the attack, and 14 MiB more when every page was returned at once. The latter would cost each
//! transaction time, so a thread returns what is left behind at intervals.
#![allow(unsafe_code, reason = "the allocator has no safe interface to this")]

use std::thread;
use std::time::Duration;

/// How often memory is given back.
const INTERVAL: Duration = Duration::from_secs(2);

/// Starts the thread. Without it the process only keeps more memory, so a failure is ignored.
pub(crate) fn start() {
    let give_back = || {
        loop {
            thread::sleep(INTERVAL);
            // SAFETY: `mi_collect` takes no pointer and may be called by any thread at any time: it frees what the calling
            // thread's heap caches and purges pages of the process that are already free.
            unsafe { libmimalloc_sys::mi_collect(true) }
        }
    };
    let _ = thread::Builder::new().name("free-memory".to_owned()).spawn(give_back);
}

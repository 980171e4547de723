//! Gives freed memory back to the system, for a daemon that may be idle for days.
//!
//! mimalloc keeps freed pages for a while and returns them when a later allocation finds that their time is over; an idle
//! process has no later allocation. Each thread has a heap, whose free pages only that thread gives back: a thread that
//! sleeps keeps those whose values others have dropped. Huge pages stay while any value is left in their 2 MiB. `cargo xtask bench hostile`
//! measures the memory that is left after an attack.
#![allow(unsafe_code, reason = "the allocator has no safe interface to this")]

use std::thread;
use std::time::Duration;

/// How often memory is given back.
const INTERVAL: Duration = Duration::from_secs(2);

/// Starts the thread, and does without huge pages. A failure means no more than more memory, so it is ignored.
pub(crate) fn start() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
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

/// Gives the free pages of the calling thread's heap to the process, from which [`start`]'s thread returns them to the
/// system. Meant for a thread that is about to sleep.
pub(crate) fn of_thread() {
    // SAFETY: as above.
    unsafe { libmimalloc_sys::mi_collect(false) }
}

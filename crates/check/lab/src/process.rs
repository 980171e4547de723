//! Finds, recognises and ends processes by number.

use std::path::Path;

use rustix::process::Signal;

use crate::Error;

/// Whether process `pid` is a daemon of the folder `run_dir`: its command line names a file in it. Process numbers are
/// reused, so a pid file alone is no reason to send a signal. A zombie has no command line.
pub(crate) fn runs_in(pid: u32, run_dir: &Path) -> bool {
    let Ok(command_line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let folder = format!("{}/", run_dir.display());
    command_line.windows(folder.len()).any(|window| window == folder.as_bytes())
}

/// Sends SIGKILL. A process that has ended already is fine.
pub(crate) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        // For root, the only possible failure is that the process has already ended, which is the goal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// The numbers of all processes.
pub(crate) fn processes() -> Result<Vec<u32>, Error> {
    let entries = std::fs::read_dir("/proc").map_err(Error::io("read", "/proc"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_string_lossy().parse().ok()).collect())
}

/// Whether a process still holds its files: it exists and is not a zombie that its parent has yet to reap. After
/// SIGKILL the first thread may be a zombie while others are still ending and keep files open.
pub(crate) fn alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The program's name is in parentheses and may itself contain any character.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    match state {
        None | Some('X') => false,
        Some('Z') => std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1),
        Some(_) => true,
    }
}

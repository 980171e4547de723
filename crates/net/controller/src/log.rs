//! The log, for which nobody waits.
//!
//! Whoever logs puts a line into a bounded queue, and a thread writes it. While nobody reads standard error (a pager that
//! is stopped, a journal daemon that restarts), that thread alone waits. Lines that do not fit into the queue are dropped and
//! counted, and once somebody reads again, the log says how many were lost at that place.
//!
//! `limits` leaves out lines of a message that comes too often, `lines` has the forms of lines, and `start` puts all this together.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nlog_data::quotation::grouped;
use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::reload::Handle;
use weft_core::times::rfc3339;

use crate::config::LogFormat;
use crate::last_lines::LastLines;
mod limits;
mod lines;
mod start;

use limits::Limits;
pub(crate) use start::{Started, start};

/// The most bytes of lines that wait: some ten thousand lines, an hour of a busy controller.
const WAITING_MAX: usize = 4 << 20;
/// The memory of a waiting line in addition to its bytes.
const LINE_BYTES: usize = 64;

/// The way to the log. Clones share it.
#[derive(Clone)]
pub(crate) struct Log(Arc<Shared>);

/// Changes which lines the log has.
#[derive(Clone)]
pub(crate) struct Level {
    filter: Arc<dyn Fn(EnvFilter) + Send + Sync>,
    limits: Arc<Limits>,
}

impl Level {
    /// That of this subscriber.
    fn of<S: 'static>(handle: Handle<EnvFilter, S>, limits: Arc<Limits>) -> Level {
        // It fails only if there is no subscriber any more.
        Level { filter: Arc::new(move |filter| drop(handle.reload(filter))), limits }
    }

    /// Sets the values of `log` and `log_burst` of a configuration.
    pub(crate) fn set(&self, level: &str, burst: u32) {
        (self.filter)(EnvFilter::new(level));
        self.limits.set(burst);
    }
}

struct Shared {
    format: LogFormat,
    queue: Mutex<Queue>,
    last: LastLines,
    /// Wakes the thread that writes.
    came: Condvar,
    /// Wakes those who wait for the end of the queue.
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Line>,
    /// The memory of the lines, in bytes.
    bytes: usize,
    /// The lines that were dropped after the last of the queue.
    lost: u64,
    /// Whether the thread is writing a line.
    is_writing: bool,
}

struct Line {
    /// The lines that were dropped before it.
    lost: u64,
    text: Vec<u8>,
}

impl Log {
    /// Starts the thread that writes. It ends with the process.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(to: impl Write + Send + 'static, format: LogFormat) -> io::Result<Log> {
        let (came, done) = (Condvar::new(), Condvar::new());
        let (queue, last) = (Mutex::default(), LastLines::default());
        let log = Log(Arc::new(Shared { format, queue, last, came, done }));
        let thread = log.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || thread.write_all(to))?;
        Ok(log)
    }

    /// Adds a line, which ends with a line feed. Does not wait: a line that does not fit is counted as lost.
    pub(crate) fn add(&self, text: &[u8]) {
        self.0.last.add(text);
        let mut queue = self.queue();
        let bytes = text.len() + LINE_BYTES;
        if queue.bytes + bytes > WAITING_MAX {
            queue.lost += 1;
            return;
        }
        queue.bytes += bytes;
        let lost = std::mem::take(&mut queue.lost);
        queue.lines.push_back(Line { lost, text: text.to_vec() });
        drop(queue);
        self.0.came.notify_one();
    }

    /// The last lines, those that did not fit included.
    pub(crate) fn last_lines(&self) -> LastLines {
        self.0.last.clone()
    }

    /// Waits until all lines so far are written, and no longer than this.
    pub(crate) fn flush(&self, within: Duration) {
        let deadline = Instant::now() + within;
        let mut queue = self.queue();
        while queue.is_writing || !queue.lines.is_empty() || queue.lost > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.done.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Adds a panic, as the standard library prints it.
    pub(crate) fn add_panic(&self, panic: &PanicHookInfo<'_>) {
        let thread = thread::current();
        let text = format!("thread '{}' {panic}", thread.name().unwrap_or("<unnamed>"));
        self.add(self.own("ERROR", text).as_bytes());
    }

    /// A line of the log itself, in its format.
    fn own(&self, level: &str, message: String) -> String {
        match self.0.format {
            LogFormat::Text => message + "\n",
            LogFormat::Json => {
                let (time, target) = (rfc3339(SystemTime::now()), module_path!());
                format!("{}\n", json!({"time": time, "level": level, "target": target, "message": message}))
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is locked.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines as they come.
    fn write_all(&self, mut to: impl Write) {
        let mut failed = 0;
        loop {
            let Line { lost, text } = self.next();
            let lost = lost + failed;
            let is_told = lost == 0 || to.write_all(self.own("WARN", loss(lost)).as_bytes()).is_ok();
            let is_written = to.write_all(&text).and_then(|()| to.flush()).is_ok();
            // A reader that has gone may be followed by another one.
            failed = if is_told { 0 } else { lost } + u64::from(!is_written && !text.is_empty());
        }
    }

    /// Waits for the next line. Losses after the last line come as an empty one.
    fn next(&self) -> Line {
        let mut queue = self.queue();
        queue.is_writing = false;
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.text.len() + LINE_BYTES;
                queue.is_writing = true;
                return line;
            }
            if queue.lost > 0 {
                queue.is_writing = true;
                return Line { lost: std::mem::take(&mut queue.lost), text: Vec::new() };
            }
            self.0.done.notify_all();
            queue = self.0.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The line about lost ones.
fn loss(lines: u64) -> String {
    if lines == 1 {
        "1 line was lost: nobody read the log".to_owned()
    } else {
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        format!("{} lines were lost: nobody read the log", grouped(lines))
    }
}

/// A line under way: `tracing` writes each in one piece.
pub(crate) struct LineWriter<'a>(&'a Log);

impl Write for LineWriter<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.add(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Writes nothing until the sender is dropped, as to a pipe that nobody reads.
    struct Stalled {
        until: mpsc::Receiver<()>,
        to: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stalled {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ended = self.until.recv();
            self.to.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn d11_lines_that_nobody_reads_are_dropped_counted_and_told() {
        let (reads, until) = mpsc::channel();
        let to = Arc::new(Mutex::new(Vec::new()));
        let log = Log::start(Stalled { until, to: to.clone() }, LogFormat::Text).unwrap();
        let (lines, text) = (60_000_u64, "x".repeat(100));
        for line in 0..lines {
            log.add(format!("{line} {text}\n").as_bytes());
        }
        // It does not wait for the reader either.
        log.flush(Duration::ZERO);
        assert!(log.queue().bytes <= WAITING_MAX);
        drop(reads);
        log.flush(Duration::from_mins(1));
        log.add(b"afterwards\n");
        log.flush(Duration::from_mins(1));
        let written = String::from_utf8(to.lock().unwrap().clone()).unwrap();
        let kept = written.lines().filter(|line| line.ends_with(&text)).count() as u64;
        assert!((20_000..lines).contains(&kept), "{kept}");
        let last: Vec<&str> = written.lines().rev().take(3).collect();
        let lost = format!("{} lines were lost: nobody read the log", grouped((lines - kept) as usize));
        assert_eq!(last, ["afterwards", &*lost, &*format!("{} {text}", kept - 1)]);
    }

    #[test]
    fn what_the_log_itself_has_to_say_is_json_too() {
        let log = Log::start(io::sink(), LogFormat::Json).unwrap();
        let line = log.own("ERROR", "thread 'engine' panicked:\nno \"way\"".to_owned());
        let read: serde_json::Value = serde_json::from_str(line.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(read["message"], "thread 'engine' panicked:\nno \"way\"");
        assert_eq!((&read["level"], &read["target"]), (&"ERROR".into(), &"controller::log".into()));
        assert!(read["time"].is_string(), "{line}");
    }
}

//! The last of what happened, for whoever reads a failure.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How many events are kept.
const KEPT: usize = 60;

/// A list of the last events, which all parts of a run share.
#[derive(Debug, Clone)]
pub struct Events {
    begun: Instant,
    last: Arc<Mutex<VecDeque<String>>>,
    is_printed: bool,
}

impl Events {
    /// An empty list. If `is_printed`, each event is also printed on standard error.
    pub fn new(is_printed: bool) -> Events {
        Events { begun: Instant::now(), last: Arc::default(), is_printed }
    }

    /// Something happened.
    pub fn add(&self, event: impl AsRef<str>) {
        let line = format!("{:>9.3} s  {}", self.begun.elapsed().as_secs_f64(), event.as_ref());
        if self.is_printed {
            eprintln!("{line}");
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(line);
    }

    /// The last events, one a line.
    pub fn text(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

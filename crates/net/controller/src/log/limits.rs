//! The most lines of one message.
//!
//! A message is a place in the source that logs. Each may log [`log_burst`](crate::config::Config::log_burst) lines at once, and after them
//! one a second (a token bucket). What is left out is counted: the next line of the message, or a second without any, logs the count. So a
//! storm of one message hides no other, and nothing is missing without a line that says so.
//!
//! Lines of `debug` and `trace` are not limited: who asks for these levels looks for each of them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nlog_data::quotation::cut;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::lines::Lines;

/// A message that has logged its burst may log one more line after this time. So long it says nothing before its count is logged.
const PAUSE: Duration = Duration::from_secs(1);

/// The limits of all messages.
#[derive(Default)]
pub(crate) struct Limits {
    state: Mutex<State>,
    /// Wakes the thread that logs counts.
    left_out: Condvar,
}

#[derive(Default)]
struct State {
    /// The most lines of a message at once; 0: any number.
    burst: u32,
    messages: HashMap<Identifier, Message>,
}

/// A message that has logged a line.
struct Message {
    metadata: &'static Metadata<'static>,
    /// When all its tokens are there again.
    full_at: Instant,
    left_out: Option<LeftOut>,
}

/// Lines of a message that were left out.
struct LeftOut {
    count: u64,
    since: Instant,
    last: Instant,
    /// The text of the first.
    text: String,
}

/// The lines of a message that were left out, to be logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) metadata: &'static Metadata<'static>,
    pub(super) count: u64,
    pub(super) during: Duration,
    pub(super) text: String,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is logged, after the count of those left out before it.
    Logged(Option<Summary>),
    LeftOut {
        /// Whether the message has left out none before.
        is_first: bool,
    },
}

impl Limits {
    /// Sets the value of `log_burst` of a configuration.
    pub(super) fn set(&self, burst: u32) {
        self.state().burst = burst;
    }

    /// Decides about a line at this time.
    fn admit(&self, metadata: &'static Metadata<'static>, now: Instant) -> Verdict {
        let mut state = self.state();
        let burst = state.burst;
        let fresh = || Message { metadata, full_at: now, left_out: None };
        let message = state.messages.entry(metadata.callsite()).or_insert_with(fresh);
        if burst == 0 {
            return Verdict::Logged(message.summary());
        }
        // Never further ahead than this limit puts it: another one may have been in force before.
        message.full_at = message.full_at.clamp(now, now + PAUSE * burst);
        if message.full_at <= now + PAUSE * (burst - 1) {
            message.full_at += PAUSE;
            return Verdict::Logged(message.summary());
        }
        if let Some(left_out) = &mut message.left_out {
            left_out.count += 1;
            left_out.last = now;
            return Verdict::LeftOut { is_first: false };
        }
        let text = metadata.target().to_owned();
        message.left_out = Some(LeftOut { count: 1, since: now, last: now, text });
        drop(state);
        self.left_out.notify_one();
        Verdict::LeftOut { is_first: true }
    }

    /// The text of the first line that a message leaves out. Whoever makes it may log, so nothing is locked meanwhile.
    fn name(&self, message: &Identifier, text: String) {
        let mut state = self.state();
        if let Some(left_out) = state.messages.get_mut(message).and_then(|known| known.left_out.as_mut()) {
            left_out.text = text;
        }
    }

    /// The counts of messages that have been silent for a while.
    fn due(&self, now: Instant) -> Vec<Summary> {
        // A storm that goes on has a line each second, which comes after the count of those before it.
        let is_due = |left_out: &LeftOut| now.saturating_duration_since(left_out.last) >= PAUSE;
        self.take(is_due)
    }

    /// All counts, at the end.
    pub(super) fn rest(&self) -> Vec<Summary> {
        self.take(|_| true)
    }

    fn take(&self, wanted: impl Fn(&LeftOut) -> bool) -> Vec<Summary> {
        let mut state = self.state();
        let wanted =
            state.messages.values_mut().filter(|message| message.left_out.as_ref().is_some_and(&wanted));
        wanted.filter_map(Message::summary).collect()
    }

    /// Logs the counts of messages that have become silent, for ever.
    pub(super) fn follow(&self, lines: &Lines) {
        loop {
            self.wait();
            for summary in self.due(Instant::now()) {
                lines.summary(&summary);
            }
        }
    }

    /// Waits until lines are left out, and then a pause.
    fn wait(&self) {
        let mut state = self.state();
        while !state.messages.values().any(|message| message.left_out.is_some()) {
            state = self.left_out.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(self.left_out.wait_timeout(state, PAUSE));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Message {
    fn summary(&mut self) -> Option<Summary> {
        let LeftOut { count, since, last, text } = self.left_out.take()?;
        Some(Summary { metadata: self.metadata, count, during: last - since, text })
    }
}

/// The layer that leaves lines out.
pub(super) struct Limited {
    pub(super) limits: Arc<Limits>,
    pub(super) lines: Lines,
}

impl<S: Subscriber> Layer<S> for Limited {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO {
            return true;
        }
        match self.limits.admit(metadata, Instant::now()) {
            Verdict::Logged(summary) => {
                if let Some(summary) = summary {
                    self.lines.summary(&summary);
                }
                true
            }
            Verdict::LeftOut { is_first } => {
                if is_first {
                    self.limits.name(&metadata.callsite(), text_of(event));
                }
                false
            }
        }
    }
}

/// The text of a line, without its fields.
fn text_of(event: &Event<'_>) -> String {
    struct Text(String);
    impl Visit for Text {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }
    let mut text = Text(String::new());
    event.record(&mut text);
    if text.0.is_empty() { "a line without a text".to_owned() } else { cut(&text.0).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tracing::callsite::Callsite as _;

    fn message() -> &'static Metadata<'static> {
        let callsite = tracing::callsite! { name: "storm", kind: tracing::metadata::Kind::EVENT, level: Level::WARN, fields: message };
        callsite.metadata()
    }

    fn other() -> &'static Metadata<'static> {
        let callsite = tracing::callsite! { name: "other", kind: tracing::metadata::Kind::EVENT, level: Level::WARN, fields: message };
        callsite.metadata()
    }

    /// Limits with a burst of three, and a clock.
    fn limits() -> (Limits, impl Fn(u64) -> Instant) {
        let limits = Limits::default();
        limits.set(3);
        let begun = Instant::now();
        (limits, move |milliseconds| begun + Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_storm_is_counted_and_hides_no_other_message() {
        let (limits, at) = limits();
        let logged =
            |millisecond: u64| matches!(limits.admit(message(), at(millisecond)), Verdict::Logged(_));
        assert_eq!((0..1000).filter(|millisecond| logged(*millisecond)).count(), 3);
        limits.name(&message().callsite(), "a storm".to_owned());
        assert_eq!(limits.admit(other(), at(999)), Verdict::Logged(None));
        // One token has come: the next line passes, after the count of those before it.
        let Verdict::Logged(Some(summary)) = limits.admit(message(), at(1000)) else {
            panic!("it is logged")
        };
        assert_eq!((summary.count, summary.text.as_str()), (997, "a storm"));
        assert_eq!(summary.during, Duration::from_millis(996));
        assert_eq!(limits.admit(message(), at(1001)), Verdict::LeftOut { is_first: true });
        // After a calm, the whole burst is there again.
        for _ in 0..3 {
            assert!(logged(60_000));
        }
        assert!(!logged(60_000));
    }

    #[test]
    fn a_count_is_logged_without_a_next_line_and_at_the_end() {
        let (limits, at) = limits();
        for _ in 0..5 {
            limits.admit(message(), at(0));
            limits.admit(other(), at(500));
        }
        limits.name(&message().callsite(), "a storm".to_owned());
        limits.name(&other().callsite(), "another".to_owned());
        assert_eq!(limits.due(at(999)), []);
        let due: Vec<_> =
            limits.due(at(1000)).into_iter().map(|summary| (summary.count, summary.text)).collect();
        assert_eq!(due, [(2, "a storm".to_owned())]);
        assert_eq!(limits.due(at(1000)), []);
        assert_eq!(limits.rest().len(), 1, "what is not due");
        assert_eq!(limits.rest(), []);
    }

    #[test]
    fn without_a_limit_all_lines_are_logged() {
        let (limits, at) = limits();
        limits.set(0);
        for _ in 0..1000 {
            assert_eq!(limits.admit(message(), at(0)), Verdict::Logged(None));
        }
        // What was logged then does not count against a limit that comes later.
        limits.set(3);
        let logged = (0..100).filter(|_| matches!(limits.admit(message(), at(1)), Verdict::Logged(_)));
        assert_eq!(logged.count(), 3);
        // Nor does a larger one leave a debt.
        limits.set(100);
        for _ in 0..100 {
            limits.admit(message(), at(2));
        }
        limits.set(3);
        limits.admit(message(), at(3));
        assert!(matches!(limits.admit(message(), at(1003)), Verdict::Logged(_)));
    }
}

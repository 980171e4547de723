//! Frames that the owner wants sent once a transaction is in force, several times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use switch_model::{Changes, Frame};

/// The delay before each time that a frame is sent. They grow as those by which QEMU announces a guest: a frame may be lost,
/// and a physical switch may not forward yet.
pub(crate) const GAPS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(150),
    Duration::from_millis(250),
    Duration::from_millis(350),
    Duration::from_millis(450),
];

#[derive(Debug, Default)]
pub(crate) struct Frames {
    waiting: BTreeMap<String, Waiting>,
    sending: BTreeMap<String, Sending>,
}

/// A frame whose transaction is not in force.
#[derive(Debug)]
struct Waiting {
    frame: Frame,
    /// The version of the intent after its transaction, and whether this one changes ports.
    version: u64,
    ports: bool,
}

#[derive(Debug)]
struct Sending {
    /// What it waited for before.
    version: u64,
    ports: bool,
    frame: Frame,
    sent: usize,
    /// When it is sent next; `None` if it was sent as often as it is to be, and the switch has not confirmed the last time.
    due: Option<Instant>,
}

impl Frames {
    /// Applies the changes of a transaction.
    pub(crate) fn push(&mut self, changes: &Changes, version: u64) {
        for name in changes.frames.keys() {
            self.waiting.remove(name);
            self.sending.remove(name);
        }
        let ports = changes.touches_database();
        for (name, frame) in &changes.frames.add {
            self.waiting.insert(name.clone(), Waiting { frame: frame.clone(), version, ports });
        }
    }

    /// Wants these frames sent once this version of the flows is in force.
    pub(crate) fn announce(&mut self, frames: BTreeMap<String, Frame>, version: u64) {
        for (name, frame) in frames {
            self.sending.remove(&name);
            self.waiting.insert(name, Waiting { frame, version, ports: false });
        }
    }

    /// Forgets all frames.
    pub(crate) fn clear(&mut self) {
        *self = Frames::default();
    }

    /// Notes that these versions of flows and of ports are in force. Returns whether frames are due from now on.
    pub(crate) fn start(&mut self, flows: u64, ports: u64, now: Instant) -> bool {
        let in_force =
            |waiting: &Waiting| waiting.version <= flows && (!waiting.ports || waiting.version <= ports);
        let mut started = false;
        for (name, waiting) in self.waiting.extract_if(.., |_, waiting| in_force(waiting)) {
            let Waiting { frame, version, ports } = waiting;
            self.sending.insert(name, Sending { version, ports, frame, sent: 0, due: Some(now + GAPS[0]) });
            started = true;
        }
        started
    }

    /// There is no connection to send frames by. Those that are not confirmed as often as they are to be begin again, once the switch has been
    /// compared after the next connection.
    pub(crate) fn interrupted(&mut self) {
        for (name, Sending { version, ports, frame, .. }) in std::mem::take(&mut self.sending) {
            self.waiting.insert(name, Waiting { frame, version, ports });
        }
    }

    /// When the next frame is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.sending.values().filter_map(|sending| sending.due).min()
    }

    /// Takes the frames to be sent now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Frame> {
        let mut due = Vec::new();
        let is_due = |sending: &&mut Sending| sending.due.is_some_and(|due| due <= now);
        for sending in self.sending.values_mut().filter(is_due) {
            due.push(sending.frame.clone());
            sending.sent += 1;
            sending.due = GAPS.get(sending.sent).map(|gap| now + *gap);
        }
        due
    }

    /// Notes that the switch has sent all frames that were taken, and returns the names of those that were sent as often as they are to
    /// be.
    pub(crate) fn confirmed(&mut self) -> BTreeSet<String> {
        self.sending.extract_if(.., |_, sending| sending.due.is_none()).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use switch_model::Edits;

    use super::*;

    fn frame(byte: u8) -> Frame {
        Frame { ofport: 3, bytes: vec![byte].into() }
    }

    fn adding(byte: u8) -> Changes {
        Changes { frames: Edits::add([("p".to_owned(), frame(byte))]), ..Changes::default() }
    }

    /// The times at which something is sent, from now on.
    fn times(frames: &mut Frames, now: Instant) -> Vec<(Duration, Vec<Frame>)> {
        let mut times = Vec::new();
        while let Some(due) = frames.due() {
            times.push((due - now, frames.take_due(due)));
        }
        times
    }

    #[test]
    fn a_frame_is_sent_at_once_and_at_growing_intervals_when_its_transaction_is_in_force() {
        let (mut frames, now) = (Frames::default(), Instant::now());
        frames.push(&adding(1), 5);
        assert!(!frames.start(4, 9, now));
        assert_eq!(frames.due(), None);
        assert!(frames.start(5, 0, now));
        let expected = [0, 150, 400, 750, 1200].map(|ms| (Duration::from_millis(ms), vec![frame(1)]));
        assert_eq!(times(&mut frames, now), expected);
        // A transaction with ports waits for them too.
        let patch = crate::Patch { bridge: "br".to_owned(), peer: "b".to_owned() };
        frames.push(&Changes { patches: Edits::add([("a".to_owned(), patch)]), ..adding(1) }, 6);
        assert!(!frames.start(6, 5, now));
        assert!(frames.start(6, 6, now));
    }

    #[test]
    fn a_frame_that_is_no_longer_true_is_not_sent() {
        let (mut frames, now) = (Frames::default(), Instant::now());
        frames.push(&adding(1), 5);
        frames.start(5, 5, now);
        frames.take_due(now);
        frames.push(&adding(2), 6);
        assert_eq!(frames.due(), None, "the former one is gone");
        frames.start(6, 6, now);
        assert_eq!(frames.take_due(now), [frame(2)]);
        let deleting = Changes { frames: Edits::delete(["p".to_owned()]), ..Changes::default() };
        frames.push(&deleting, 7);
        assert_eq!(frames.due(), None);
        frames.push(&adding(3), 8);
        frames.push(&deleting, 9);
        assert!(!frames.start(9, 9, now));
    }

    #[test]
    fn d21_a_series_that_a_broken_connection_cuts_begins_again_with_the_next_one() {
        let (mut frames, now) = (Frames::default(), Instant::now());
        frames.push(&adding(1), 5);
        frames.start(5, 5, now);
        assert_eq!(frames.take_due(now).len(), 1);
        frames.interrupted();
        assert_eq!(frames.due(), None, "nothing is sent without a connection");
        assert!(frames.start(5, 5, now));
        assert_eq!(times(&mut frames, now).len(), GAPS.len());
        // Nobody knows whether the last one was sent.
        frames.interrupted();
        assert!(frames.start(5, 5, now));
        assert_eq!(times(&mut frames, now).len(), GAPS.len());
        // What was confirmed as often as it is to be is done.
        assert_eq!(frames.confirmed(), ["p".to_owned()].into());
        frames.interrupted();
        assert!(!frames.start(9, 9, now));
        // What is gone meanwhile does not come back.
        frames.push(&adding(2), 6);
        frames.start(6, 6, now);
        frames.interrupted();
        frames.push(&Changes { frames: Edits::delete(["p".to_owned()]), ..Changes::default() }, 7);
        assert!(!frames.start(7, 7, now));
    }
}

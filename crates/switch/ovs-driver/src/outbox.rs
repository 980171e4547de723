//! The queue of events for the owner of the driver.
//!
//! No task of the driver waits for the owner, which may itself be busy pushing transactions. The queue is bounded: it
//! keeps the last report, the last count of refused objects, the last refusal without a transaction, the last failure, whose the switch is, the
//! sum of all syncs, of all foreign changes and of all repairs, the last few connects and disconnects of each channel, one
//! event for each awaited flow, and otherwise one for each transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};

use switch_model::{Channel, Event, ForeignChange, Report};

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    kept: Mutex<Kept>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    last_report: Option<Report>,
}

/// The most connects and disconnects of each channel that are kept.
const CONNECTION_EVENTS_MAX: usize = 32;

impl Outbox {
    pub(crate) fn put(&self, event: Event) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).put(event);
        self.filled.notify_one();
    }

    /// Queues a report if it is `due` or differs from the last one.
    pub(crate) fn report(&self, report: Report, due: bool) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if due || kept.last_report.as_ref() != Some(&report) {
            kept.last_report = Some(report.clone());
            // Under the same lock: a later report must not be queued before this one.
            kept.put(Event::Report(report));
            self.filled.notify_one();
        }
    }

    fn take(&self) -> Option<Event> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).events.pop_front()
    }

    /// Delivers events for ever. An owner that has stopped listening may still want the switch kept in sync.
    pub(crate) async fn deliver(self: Arc<Self>, name: String, events: mpsc::Sender<(String, Event)>) {
        loop {
            let Ok(permit) = events.reserve().await else { return self.discard().await };
            if let Some(event) = self.take() {
                permit.send((name.clone(), event));
            } else {
                drop(permit);
                self.filled.notified().await;
            }
        }
    }

    async fn discard(&self) {
        loop {
            while self.take().is_some() {}
            self.filled.notified().await;
        }
    }
}

impl Kept {
    /// Queues an event and drops queued events that it supersedes.
    fn put(&mut self, mut event: Event) {
        match &mut event {
            Event::Report(_) => self.events.retain(|event| !matches!(event, Event::Report(_))),
            Event::RefusedTotal { .. } => {
                self.events.retain(|event| !matches!(event, Event::RefusedTotal { .. }));
            }
            Event::ForeignChanges { count, first, .. } => {
                let mut earlier = Vec::new();
                self.events.retain(|event| match event {
                    Event::ForeignChanges { count: before, first: first_before, .. } => {
                        *count += *before;
                        earlier.clone_from(first_before);
                        false
                    }
                    _ => true,
                });
                earlier.append(first);
                earlier.truncate(ForeignChange::REPORTED_MAX);
                *first = earlier;
            }
            Event::Repaired { flow_mods } => self.events.retain(|event| match event {
                Event::Repaired { flow_mods: before } => {
                    *flow_mods += *before;
                    false
                }
                _ => true,
            }),
            Event::MissedChanges { count, .. } => self.events.retain(|event| match event {
                Event::MissedChanges { count: before, .. } => {
                    *count += *before;
                    false
                }
                _ => true,
            }),
            Event::Announced { names } => self.events.retain_mut(|event| match event {
                Event::Announced { names: before } => {
                    names.append(before);
                    false
                }
                _ => true,
            }),
            Event::Withheld { .. } => self.events.retain(|event| !matches!(event, Event::Withheld { .. })),
            Event::Failed { .. } => self.events.retain(|event| !matches!(event, Event::Failed { .. })),
            Event::Refused { txn: None, .. } => {
                self.events.retain(|event| !matches!(event, Event::Refused { txn: None, .. }));
            }
            Event::Synced { flow_mods, tunnels_changed } => self.events.retain(|event| match event {
                Event::Synced { flow_mods: before, tunnels_changed: tunnels_before } => {
                    *flow_mods += *before;
                    *tunnels_changed += *tunnels_before;
                    false
                }
                _ => true,
            }),
            Event::Learned { table, cookie, is_new } => self.events.retain(|event| match event {
                Event::Learned { table: t, cookie: c, is_new: was_new } if (t, c) == (&*table, &*cookie) => {
                    *is_new |= *was_new;
                    false
                }
                _ => true,
            }),
            Event::Connected { channel } | Event::Disconnected { channel, .. } => {
                // Each channel has its share: the last event of a channel is the state of its connection.
                let of_channel = |event: &Event| connection_event(event) == Some(*channel);
                if self.events.iter().filter(|event| of_channel(event)).count() >= CONNECTION_EVENTS_MAX
                    && let Some(oldest) = self.events.iter().position(of_channel)
                {
                    self.events.remove(oldest);
                }
            }
            _ => {}
        }
        self.events.push_back(event);
    }
}

/// The channel of a connect or disconnect.
fn connection_event(event: &Event) -> Option<Channel> {
    match event {
        Event::Connected { channel } | Event::Disconnected { channel, .. } => Some(*channel),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch_model::{InterfaceId, Vif};

    fn report(ofport: u16) -> Report {
        let vifs = [("p".to_owned(), Vif { ofport, mac: String::new(), interface: InterfaceId(1) })].into();
        Report { vifs, ..Report::default() }
    }

    #[test]
    fn a_slow_owner_finds_the_last_report_and_every_confirmation() {
        let outbox = Outbox::default();
        let at = std::time::Instant::now();
        for n in 1..=1000 {
            outbox.report(report(n), false);
            outbox.put(Event::Confirmed { txn: n.into(), at, sent: None });
            outbox.put(Event::Connected { channel: Channel::OpenFlow });
        }
        let events: Vec<Event> = std::iter::from_fn(|| outbox.take()).collect();
        let reports: Vec<&Event> = events.iter().filter(|event| matches!(event, Event::Report(_))).collect();
        assert_eq!(reports, [&Event::Report(report(1000))]);
        assert_eq!(events.iter().filter(|event| matches!(event, Event::Confirmed { .. })).count(), 1000);
        assert_eq!(
            events.iter().filter(|event| matches!(event, Event::Connected { .. })).count(),
            CONNECTION_EVENTS_MAX
        );
    }

    #[test]
    fn what_was_not_taken_of_a_switch_that_comes_and_goes_is_bounded() {
        let outbox = Outbox::default();
        for n in 0..1000 {
            outbox.put(Event::Connected { channel: Channel::OpenFlow });
            outbox.put(Event::Refused { txn: None, count: n, first: Vec::new() });
            outbox.put(Event::RefusedTotal { refused: n });
            outbox.put(Event::Synced { flow_mods: 2, tunnels_changed: 1 });
            outbox.put(Event::Disconnected { channel: Channel::OpenFlow, why: String::new() });
        }
        let events: Vec<Event> = std::iter::from_fn(|| outbox.take()).collect();
        let others: Vec<&Event> = events
            .iter()
            .filter(|event| !matches!(event, Event::Connected { .. } | Event::Disconnected { .. }))
            .collect();
        let (refused, first) = (999, Vec::new());
        assert_eq!(
            others,
            [
                &Event::Refused { txn: None, count: refused, first },
                &Event::RefusedTotal { refused },
                &Event::Synced { flow_mods: 2000, tunnels_changed: 1000 },
            ]
        );
        assert_eq!(events.len() - others.len(), CONNECTION_EVENTS_MAX);
    }

    #[test]
    fn a_channel_that_comes_and_goes_does_not_hide_the_other_one() {
        let outbox = Outbox::default();
        outbox.put(Event::Connected { channel: Channel::Ovsdb });
        for _ in 0..1000 {
            outbox.put(Event::Connected { channel: Channel::OpenFlow });
            outbox.put(Event::Disconnected { channel: Channel::OpenFlow, why: String::new() });
        }
        assert_eq!(outbox.take(), Some(Event::Connected { channel: Channel::Ovsdb }));
        let left: Vec<Event> = std::iter::from_fn(|| outbox.take()).collect();
        assert_eq!(left.len(), CONNECTION_EVENTS_MAX);
        assert!(matches!(left.last(), Some(Event::Disconnected { .. })));
    }

    #[test]
    fn what_was_learned_is_told_once_however_often() {
        let outbox = Outbox::default();
        let learned = |cookie, is_new| Event::Learned { table: 12, cookie, is_new };
        for _ in 0..1000 {
            outbox.put(learned(1, true));
            outbox.put(learned(2, false));
            outbox.put(learned(1, false));
        }
        let events: Vec<Event> = std::iter::from_fn(|| outbox.take()).collect();
        assert_eq!(events, [learned(2, false), learned(1, true)]);
    }

    #[test]
    fn the_same_report_is_sent_again_only_if_it_is_due() {
        let outbox = Outbox::default();
        for (due, sent) in [(false, true), (false, false), (true, true), (false, false)] {
            outbox.report(report(1), due);
            assert_eq!(outbox.take().is_some(), sent);
        }
    }
}

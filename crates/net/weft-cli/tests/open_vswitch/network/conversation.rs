//! Numbered datagrams in both directions between a machine that stays and one that moves, and where each was received.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lab::{Arrived, Taps, frame};
use testbed::DEADLINE;

/// The addresses of one end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) mac: [u8; 6],
    pub(crate) ip: Ipv4Addr,
}

/// Who talks to whom.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    pub(crate) taps: &'a Taps,
    /// The machine that stays.
    pub(crate) peer: &'a str,
    pub(crate) stays: End,
    pub(crate) moves: End,
    /// The tag of the frames of the end that moves, if it is behind another machine.
    pub(crate) tag: Option<u16>,
}

impl Conversation<'_> {
    /// Sends datagram `number` to the end that moves, and one from it, out of `machine`.
    pub(crate) fn send(&self, machine: &str, number: u32) {
        self.taps.send(self.peer, &datagram(self.stays, self.moves, true, number)).unwrap();
        let from_it = datagram(self.moves, self.stays, false, number);
        let from_it = self.tag.map_or(from_it.clone(), |tag| frame::tagged(&from_it, tag));
        self.taps.send(machine, &from_it).unwrap();
    }
}

fn datagram(from: End, to: End, to_port: bool, number: u32) -> Vec<u8> {
    let mark = format!("weft-{}-{number:08}-", if to_port { "to" } else { "of" });
    frame::udp4(to.mac, from.mac, to.ip, from.ip, mark.as_bytes())
}

/// The direction and the number of a datagram: `true` if it is for the end that moves.
pub(crate) fn read_mark(frame: &[u8]) -> Option<(bool, u32)> {
    let at = frame.windows(5).position(|window| window == b"weft-")? + 5;
    let to_port = frame.get(at..at + 2)? == b"to";
    let number = std::str::from_utf8(frame.get(at + 3..at + 11)?).ok()?.parse().ok()?;
    Some((to_port, number))
}

/// Receptions.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// By machine, direction and number.
    times: BTreeMap<(String, bool, u32), u32>,
    /// What happened meanwhile, and the number of the datagram that was sent next.
    pub(crate) notes: Vec<(&'static str, u32)>,
}

impl Heard {
    pub(crate) fn add(&mut self, arrived: Arrived) {
        for (machine, frames) in arrived {
            for (to_port, number) in frames.iter().filter_map(|frame| read_mark(frame)) {
                *self.times.entry((machine.clone(), to_port, number)).or_default() += 1;
            }
        }
    }

    fn times(&self, machine: &str, to_port: bool, number: u32) -> u32 {
        self.times.get(&(machine.to_owned(), to_port, number)).copied().unwrap_or(0)
    }

    /// The number of receptions.
    pub(crate) fn count(&self) -> usize {
        self.times.values().map(|times| *times as usize).sum()
    }

    /// Those of these datagrams that none of the machines received.
    pub(crate) fn missing(&self, machines: &[&str], to_port: bool, numbers: Range<u32>) -> Vec<u32> {
        let received = |number: u32, machine: &&str| self.times(machine, to_port, number) > 0;
        numbers.filter(|number| !machines.iter().any(|machine| received(*number, machine))).collect()
    }

    /// Whether a machine received any datagram for the end that moves.
    pub(crate) fn reached(&self, machine: &str) -> bool {
        self.times.keys().any(|(at, to_port, _)| at == machine && *to_port)
    }

    /// The machines that received a datagram more than once, and which.
    pub(crate) fn twice(&self) -> Vec<&(String, bool, u32)> {
        self.times.iter().filter(|(_, times)| **times > 1).map(|(what, _)| what).collect()
    }
}

/// A conversation that goes on while other things happen.
pub(crate) struct Live<'a> {
    conversation: &'a Conversation<'a>,
    sender: Mutex<Sender>,
    heard: Mutex<Heard>,
}

struct Sender {
    /// The machine at the end that moves.
    machine: String,
    next: u32,
    stopped: bool,
}

/// Ends the sender's thread, also when the work panics.
struct Stop<'a>(&'a Mutex<Sender>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).stopped = true;
    }
}

impl Live<'_> {
    /// Talks to `machine`, a datagram each way and `every`, as long as the work lasts. Returns what was heard, and how many
    /// datagrams were sent each way.
    pub(crate) fn during(
        conversation: &Conversation<'_>,
        machine: &str,
        every: Duration,
        work: impl FnOnce(&Live<'_>),
    ) -> (Heard, u32) {
        conversation.taps.clear().unwrap();
        let sender = Mutex::new(Sender { machine: machine.to_owned(), next: 0, stopped: false });
        let live = Live { conversation, sender, heard: Mutex::default() };
        std::thread::scope(|scope| {
            scope.spawn(|| live.send(every));
            let _stop = Stop(&live.sender);
            work(&live);
        });
        let (sent, mut heard) = (live.sent(), live.heard.into_inner().unwrap());
        // What is still in flight.
        heard.add(conversation.taps.collect(|frame| read_mark(frame).is_some(), 0, Duration::ZERO).unwrap());
        (heard, sent)
    }

    fn send(&self, every: Duration) {
        let start = Instant::now();
        loop {
            let mut sender = self.sender.lock().unwrap();
            if sender.stopped {
                return;
            }
            self.conversation.send(&sender.machine, sender.next);
            sender.next += 1;
            let due = start + every * sender.next;
            drop(sender);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    /// How many datagrams have been sent each way.
    pub(crate) fn sent(&self) -> u32 {
        self.sender.lock().unwrap().next
    }

    /// From now on `machine` sends, after this frame and after a pause, as a hypervisor pauses a machine that it moves: an
    /// announcement can overtake a datagram that is still on its way, for they take different ways. Returns the number of
    /// its first datagram.
    pub(crate) fn switch_over(&self, machine: &str, announcement: Option<&[u8]>) -> u32 {
        let sender = self.sender.lock().unwrap();
        self.land(&sender);
        self.hand_over(sender, machine, announcement)
    }

    /// The number of the next datagram, once all before it have arrived.
    pub(crate) fn pause(&self) -> u32 {
        let sender = self.sender.lock().unwrap();
        self.land(&sender);
        sender.next
    }

    /// From now on `machine` sends, after this frame, without a pause.
    pub(crate) fn continue_at(&self, machine: &str, announcement: Option<&[u8]>) {
        self.hand_over(self.sender.lock().unwrap(), machine, announcement);
    }

    /// Waits until all datagrams that have been sent are there, or for a while: what is lost is for the end of the test.
    fn land(&self, sender: &Sender) {
        let start = Instant::now();
        loop {
            self.hear();
            let heard = self.heard.lock().unwrap();
            let missing = |machine: &str, to_port| heard.missing(&[machine], to_port, 0..sender.next).len();
            if missing(&sender.machine, true) + missing(self.conversation.peer, false) == 0
                || start.elapsed() > DEADLINE
            {
                return;
            }
            drop(heard);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn hand_over(
        &self,
        mut sender: MutexGuard<'_, Sender>,
        machine: &str,
        announcement: Option<&[u8]>,
    ) -> u32 {
        if let Some(frame) = announcement {
            self.conversation.taps.send(machine, frame).unwrap();
        }
        machine.clone_into(&mut sender.machine);
        sender.next
    }

    /// Remembers when something happened.
    pub(crate) fn note(&self, what: &'static str) {
        let sent = self.sent();
        self.heard.lock().unwrap().notes.push((what, sent));
    }

    /// Whether `machine` has received anything so far.
    pub(crate) fn reached(&self, machine: &str) -> bool {
        self.hear();
        self.heard.lock().unwrap().reached(machine)
    }

    fn hear(&self) {
        let arrived = self.conversation.taps.first(|frame| read_mark(frame).is_some(), 0, Duration::ZERO);
        self.heard.lock().unwrap().add(arrived.unwrap());
    }

    /// Waits until so many datagrams in a row have come through each way between the peer and one of the machines.
    pub(crate) fn wait_for_row(&self, machines: &[&str], row: u32) {
        let (start, mut from) = (Instant::now(), self.sent());
        loop {
            self.hear();
            let heard = self.heard.lock().unwrap();
            let numbers = || from..from + row;
            let to_it = heard.missing(machines, true, numbers());
            let of_it = heard.missing(&[self.conversation.peer], false, numbers());
            drop(heard);
            if to_it.is_empty() && of_it.is_empty() {
                return;
            }
            assert!(
                start.elapsed() < DEADLINE,
                "not through to {machines:?}: {to_it:?} to it, {of_it:?} from it"
            );
            // A datagram that comes after all, late, is in the row when it has come; one that is lost begins another row.
            if self.sent() > from + 4 * row {
                from = self.sent();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

//! What is said while `--wait` waits: in a terminal a line that changes, elsewhere a line now and then.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use weft_client::pb::Receipt;
use weft_client::pb::switch_receipt::State;
use weft_core::shown;

use crate::exit::say;

/// The interval at which the line of a terminal is drawn, and that of lines elsewhere.
const DRAWN: Duration = Duration::from_millis(100);
const SAID: Duration = Duration::from_secs(5);
/// The most hosts that a line names.
const NAMES_MAX: usize = 4;
/// The columns of a terminal that does not say how many it has.
const WIDTH: usize = 80;

/// How far a transaction is on the hosts that it concerns.
pub(super) struct Progress {
    txn: u64,
    begun: Instant,
    /// The hosts whose switches connect because of the transaction, which their receipts do not cover.
    new: BTreeSet<String>,
    /// The hosts that leave: nobody waits for them.
    gone: BTreeSet<String>,
    hosts: BTreeMap<String, Stage>,
    is_terminal: bool,
    /// When something was said last, and the line that the terminal shows.
    last: Option<Instant>,
    line: String,
}

/// How far a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Confirmed,
    Pending,
    Refused,
    Away,
}

impl Progress {
    pub(super) fn new(txn: u64, new: &[String], gone: &[String]) -> Progress {
        Progress {
            txn,
            begun: Instant::now(),
            new: new.iter().cloned().collect(),
            gone: gone.iter().cloned().collect(),
            hosts: new.iter().map(|node| (node.clone(), Stage::Away)).collect(),
            is_terminal: io::stderr().is_terminal(),
            last: None,
            line: String::new(),
        }
    }

    /// Takes in a receipt.
    pub(super) fn has_received(&mut self, receipt: &Receipt) {
        for switch in &receipt.switches {
            if self.new.contains(&switch.node) || self.gone.contains(&switch.node) {
                continue;
            }
            let stage = match switch.state() {
                State::Confirmed => Stage::Confirmed,
                State::Refused => Stage::Refused,
                State::Offline => Stage::Away,
                State::Pending | State::Unknown | State::Unspecified => Stage::Pending,
            };
            self.hosts.insert(switch.node.clone(), stage);
        }
    }

    /// Takes in hosts of which the receipt does not know whether they have the transaction. Their switches say it.
    pub(super) fn will_look_at(&mut self, nodes: &[String]) {
        self.new.extend(nodes.iter().cloned());
    }

    /// Takes in which of the new hosts are not in sync yet.
    pub(super) fn has_looked(&mut self, behind: &[String], is_connected: impl Fn(&String) -> bool) {
        for node in &self.new {
            let stage = match (behind.contains(node), is_connected(node)) {
                (false, _) => Stage::Confirmed,
                (true, true) => Stage::Pending,
                (true, false) => Stage::Away,
            };
            self.hosts.insert(node.clone(), stage);
        }
    }

    /// What there is to say, if there is something.
    fn text(&self, now: Instant) -> Option<String> {
        let behind: Vec<String> = (self.hosts.iter())
            .filter_map(|(node, stage)| {
                let why = match stage {
                    Stage::Confirmed => return None,
                    Stage::Pending => "",
                    Stage::Refused => " (refused)",
                    Stage::Away => " (not connected)",
                };
                Some(format!("{}{why}", shown(node)))
            })
            .collect();
        if behind.is_empty() {
            return None;
        }
        let (all, txn) = (self.hosts.len(), self.txn);
        let confirmed = all - behind.len();
        let seconds = now.saturating_duration_since(self.begun).as_secs();
        let mut names = behind.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
        if behind.len() > NAMES_MAX {
            names += &format!(" and {} more", behind.len() - NAMES_MAX);
        }
        Some(format!(
            "waiting for transaction {txn}, {seconds} s: {confirmed} of {all} hosts have confirmed; behind: {names}"
        ))
    }

    /// Whether it is time to say something.
    fn is_due(&self, now: Instant) -> bool {
        let (since, interval) =
            if self.is_terminal { (self.last, DRAWN) } else { (Some(self.last.unwrap_or(self.begun)), SAID) };
        since.is_none_or(|since| now.saturating_duration_since(since) >= interval)
    }

    fn show(&mut self) {
        let now = Instant::now();
        let Some(text) = self.text(now).filter(|_| self.is_due(now)) else { return };
        self.last = Some(now);
        if !self.is_terminal {
            return say(text);
        }
        // A line that wraps could not be drawn again in its place.
        let line: String = text.chars().take(width().saturating_sub(1)).collect();
        if line != self.line {
            let _unread = write!(io::stderr().lock(), "\r\x1b[K{line}");
            self.line = line;
        }
    }

    /// Removes the line of a terminal, so that others can be written.
    pub(super) fn clear(&mut self) {
        if !self.line.is_empty() {
            let _unread = write!(io::stderr().lock(), "\r\x1b[K");
            self.line.clear();
        }
    }
}

/// Shows the progress until the work is done.
pub(super) async fn show_while<T>(progress: &RefCell<Progress>, work: impl Future<Output = T>) -> T {
    let show = async {
        loop {
            tokio::time::sleep(DRAWN).await;
            progress.borrow_mut().show();
        }
    };
    let done = tokio::select! {
        done = work => done,
        () = show => unreachable!("it goes on without end"),
    };
    progress.borrow_mut().clear();
    done
}

/// The columns of standard error.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

#[cfg(test)]
mod tests {
    use weft_client::pb::SwitchReceipt;

    use super::*;

    fn receipt(states: &[(&str, State)]) -> Receipt {
        let switch = |&(node, state): &(&str, State)| SwitchReceipt {
            node: node.to_owned(),
            state: state.into(),
            ..SwitchReceipt::default()
        };
        Receipt { txn: 7, switches: states.iter().map(switch).collect(), ..Receipt::default() }
    }

    #[test]
    fn hosts_that_are_behind_are_counted_and_named() {
        let [new, gone] = [["hv8".to_owned()], ["hv9".to_owned()]];
        let mut progress = Progress::new(7, &new, &gone);
        let text = |progress: &Progress| progress.text(progress.begun + Duration::from_secs(3));
        let mut states = vec![("hv1", State::Confirmed), ("hv2", State::Pending), ("hv3", State::Offline)];
        // The receipt knows nothing yet of a host that is new, and nobody waits for one that leaves.
        states.extend([("hv8", State::Offline), ("hv9", State::Offline)]);
        progress.has_received(&receipt(&states));
        assert_eq!(
            text(&progress).unwrap(),
            "waiting for transaction 7, 3 s: 1 of 4 hosts have confirmed; \
             behind: hv2, hv3 (not connected), hv8 (not connected)"
        );
        let many: Vec<String> = (10..20).map(|number| format!("hv{number}\u{1b}[2J")).collect();
        let many: Vec<(&str, State)> = many.iter().map(|node| (node.as_str(), State::Refused)).collect();
        progress.has_received(&receipt(&many));
        let told = text(&progress).unwrap();
        assert!(
            told.ends_with(
                "hv10\\u{1b}[2J (refused), hv11\\u{1b}[2J (refused), hv12\\u{1b}[2J (refused), \
             hv13\\u{1b}[2J (refused) and 9 more"
            ),
            "{told}"
        );

        let mut progress = Progress::new(7, &new, &[]);
        progress.has_looked(&new, |_| true);
        assert!(text(&progress).unwrap().ends_with("0 of 1 hosts have confirmed; behind: hv8"));
        progress.has_looked(&[], |_| true);
        assert_eq!(text(&progress), None, "nothing is behind");
    }

    #[test]
    fn outside_of_a_terminal_lines_are_rare() {
        let mut progress = Progress::new(7, &[], &[]);
        let at = |milliseconds| progress.begun + Duration::from_millis(milliseconds);
        let times = [0, 4_999, 5_000, 9_000, 10_001].map(at);
        progress.is_terminal = false;
        assert_eq!(times.map(|time| progress.is_due(time)), [false, false, true, true, true]);
        progress.last = Some(times[2]);
        assert_eq!(times[3..].iter().map(|time| progress.is_due(*time)).collect::<Vec<_>>(), [false, true]);
        (progress.is_terminal, progress.last) = (true, None);
        assert!(progress.is_due(times[0]), "it is there at once");
    }
}

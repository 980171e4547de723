//! The lines of the files: each is sealed like a line of the journal, but alone, so that damage costs one line.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_client::pb::{self, switch_receipt};
use weft_core::receipt::{Progress, Receipt, SwitchReceipt, Update};

use crate::journal::{Chain, seal};

/// A line. Its number is the first member, so that readers find it without parsing.
#[derive(Serialize, Deserialize)]
pub(super) struct Line {
    /// The transaction.
    pub(super) txn: u64,
    pub(super) what: What,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// A start of the controller, with this journal, whose last transaction this was; or a new file. What was said of other journals, and
    /// of later transactions, does not count.
    Begin(Option<String>),
    /// The transaction is new.
    New(New),
    /// Some of its switches are further.
    Progress(Vec<(String, State)>),
}

/// What [`What::Begin`] says.
#[derive(Debug, Clone)]
pub(super) struct Begin {
    pub(super) journal: Option<String>,
    pub(super) txn: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct New {
    by: String,
    pub(super) at: String,
    computed_us: u64,
    journalled_us: u64,
    pub(super) switches: Vec<Switch>,
}

/// A switch, with what is added to it and deleted from it.
#[derive(Serialize, Deserialize)]
pub(super) struct Switch {
    pub(super) node: String,
    pub(super) state: State,
    #[serde(default, skip_serializing_if = "is_none")]
    flows: [u64; 2],
    #[serde(default, skip_serializing_if = "is_none")]
    tunnels: [u64; 2],
    #[serde(default, skip_serializing_if = "is_none")]
    buckets: [u64; 2],
    #[serde(default, skip_serializing_if = "is_none")]
    patches: [u64; 2],
}

fn is_none(counts: &[u64; 2]) -> bool {
    *counts == [0, 0]
}

/// How far a switch is.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Pending,
    /// After this time since acceptance, in microseconds.
    Confirmed(u64),
    Refused(String),
    Offline,
}

/// What every line begins with.
const HEAD: &[u8] = b"{\"txn\":";
/// What follows the number in the first line of a start or of a file.
const BEGIN: &[u8] = b",\"what\":{\"begin\"";

/// The number of a line, and whether it is the first one of a start or of a file, without parsing it.
pub(super) fn glance(text: &[u8]) -> Option<(u64, bool)> {
    let rest = text.strip_prefix(HEAD)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(digits)?;
    Some((str::from_utf8(digits).ok()?.parse().ok()?, rest.starts_with(BEGIN)))
}

/// Whether a line is as it was written.
pub(super) fn is_intact(text: &[u8]) -> bool {
    Chain::default().follows(text)
}

impl Line {
    pub(super) fn begin(begin: &Begin) -> Line {
        Line { txn: begin.txn, what: What::Begin(begin.journal.clone()) }
    }

    pub(super) fn of(update: &Update) -> Line {
        match update {
            Update::New(receipt) => Line { txn: receipt.txn, what: What::New(New::of(receipt)) },
            Update::Progress { txn, switches, .. } => {
                let state =
                    |(node, switch): &(String, SwitchReceipt)| (node.clone(), State::of(&switch.progress));
                Line { txn: *txn, what: What::Progress(switches.iter().map(state).collect()) }
            }
        }
    }

    /// Reads a line that is [intact](is_intact).
    pub(super) fn read(text: &[u8]) -> Option<Line> {
        is_intact(text).then(|| serde_json::from_slice(text).ok()).flatten()
    }

    /// Adds the sealed line to a text.
    pub(super) fn add_to(&self, text: &mut Vec<u8>) {
        let start = text.len();
        // Writing to memory cannot fail, and a line has no map with keys that are not texts.
        if serde_json::to_writer(&mut *text, self).is_ok() {
            seal(text, start, self.txn, 0);
            text.push(b'\n');
        } else {
            text.truncate(start);
        }
    }
}

impl New {
    fn of(receipt: &Receipt) -> New {
        let switch = |(node, switch): (&String, &SwitchReceipt)| Switch {
            node: node.clone(),
            state: State::of(&switch.progress),
            flows: [switch.flows_added as u64, switch.flows_deleted as u64],
            tunnels: [switch.tunnels_added as u64, switch.tunnels_deleted as u64],
            buckets: [switch.buckets_added as u64, switch.buckets_deleted as u64],
            patches: [switch.patches_added as u64, switch.patches_deleted as u64],
        };
        New {
            by: receipt.by.clone(),
            at: receipt.at.clone(),
            computed_us: micros(receipt.computed),
            journalled_us: micros(receipt.journalled),
            switches: receipt.switches.iter().map(switch).collect(),
        }
    }

    /// The receipt, which nobody follows any more: what is not answered stays unknown.
    pub(super) fn message(self, txn: u64) -> pb::Receipt {
        let New { by, at, computed_us, journalled_us, switches } = self;
        let switches = switches.into_iter().map(Switch::message).collect();
        pb::Receipt { txn, by, at, computed_us, journalled_us, switches, complete: true, partial: false }
    }
}

impl Switch {
    fn message(self) -> pb::SwitchReceipt {
        let Switch { node, state, flows, tunnels, buckets, patches } = self;
        let (state, confirmed_us, error) = match state {
            State::Pending => (switch_receipt::State::Unknown, None, String::new()),
            State::Confirmed(after) => (switch_receipt::State::Confirmed, Some(after), String::new()),
            State::Refused(why) => (switch_receipt::State::Refused, None, why),
            State::Offline => (switch_receipt::State::Offline, None, String::new()),
        };
        let state = state.into();
        let ([flows_added, flows_deleted], [tunnels_added, tunnels_deleted]) = (flows, tunnels);
        let ([buckets_added, buckets_deleted], [patches_added, patches_deleted]) = (buckets, patches);
        pb::SwitchReceipt {
            node,
            state,
            flows_added,
            flows_deleted,
            tunnels_added,
            tunnels_deleted,
            confirmed_us,
            error,
            buckets_added,
            buckets_deleted,
            patches_added,
            patches_deleted,
        }
    }
}

impl State {
    fn of(progress: &Progress) -> State {
        match progress {
            Progress::Pending => State::Pending,
            Progress::Confirmed(after) => State::Confirmed(micros(*after)),
            Progress::Refused(why) => State::Refused(why.clone()),
            Progress::Offline => State::Offline,
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

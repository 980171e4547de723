//! The trace of a packet: a tree of steps that can be printed.

use std::fmt;
use std::sync::Arc;

use openflow_rs::action::Controller;
use openflow_rs::{Action, FlowEntry, PortNo};

use crate::FlowKey;

/// The problem of a packet that an action would send back to the port that it came from.
pub const RETURNED: &str = "not sent back to the port that it came from";

/// The problem of a packet that ends Open vSwitch 3.1 by a failed assertion of `conn_update_state`: `nat` translated its connection to the
/// addresses and ports that it had, and the connection is over, but the switch has not yet forgotten it. Here such a packet is
/// invalid.
pub const ABORTS: &str =
    "Open vSwitch 3.1 aborts here: a connection was translated to what it was, and has ended";

/// One step, and the steps within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of step.
    pub what: What,
    /// The resulting steps, in order.
    pub within: Vec<Step>,
}

/// The kind of a [`Step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The packet was looked up in a table.
    Lookup {
        /// The table.
        table: u8,
        /// The flow that the packet matched; none if it matched none and is dropped.
        entry: Option<Arc<FlowEntry>>,
        /// The packet's fields then.
        key: Box<FlowKey>,
    },
    /// An action was carried out.
    Action(Action),
    /// A bucket of a group got a copy of the packet.
    Bucket(u32),
    /// The packet left by a port.
    Sent(PortNo),
    /// A copy goes to the process that the action `controller` names. Here, nobody is connected.
    HandedOver(Box<HandedOver>),
    /// A note that the action's text does not contain.
    Note(String),
    /// Why an action had no effect.
    Problem(String),
}

/// A packet where the action `controller` hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// The action: who gets the packet, and what it says to them.
    pub controller: Controller,
    /// The packet, as rewritten so far.
    pub bytes: Vec<u8>,
    /// Its fields.
    pub key: FlowKey,
}

impl fmt::Display for Step {
    /// Writes the step with the indentation of `ofproto/trace`: tables with the matching entry,
    /// actions below.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0, &|_, _| None)
    }
}

/// Says more of the flow that a packet matched in a table.
pub type Note<'a> = dyn Fn(u8, &FlowEntry) -> Option<String> + 'a;

/// A step that prints with notes.
struct Noted<'a>(&'a Step, &'a Note<'a>);

impl fmt::Display for Noted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.print(f, 0, self.1)
    }
}

impl Step {
    /// The text of the step, with a note behind each flow that has one.
    pub fn text(&self, note: &Note<'_>) -> String {
        Noted(self, note).to_string()
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, depth: usize, note: &Note<'_>) -> fmt::Result {
        write!(f, "{:1$}", "", 4 * depth)?;
        match &self.what {
            What::Lookup { table, entry: None, .. } => writeln!(f, "{table:2}. no match: dropped")?,
            What::Lookup { table, entry: Some(entry), .. } => {
                write!(f, "{table:2}. ")?;
                let matches = entry.matches.to_string();
                let comma = if matches.is_empty() { "" } else { ", " };
                write!(f, "{matches}{comma}priority {}", entry.priority)?;
                if entry.cookie != 0 {
                    write!(f, ", cookie {:#x}", entry.cookie)?;
                }
                if let Some(note) = note(*table, entry) {
                    write!(f, ", {note}")?;
                }
                writeln!(f)?;
                if entry.actions.0.is_empty() {
                    writeln!(f, "{:1$}drop", "", 4 * depth + 4)?;
                }
            }
            What::Action(action) => writeln!(f, "{action}")?,
            What::Bucket(id) => writeln!(f, "bucket {id}")?,
            What::Sent(port) => writeln!(f, "-> sent by port {port}")?,
            What::HandedOver(handed) => writeln!(f, "-> handed to controller {}", handed.controller.id)?,
            What::Note(text) => writeln!(f, "-> {text}")?,
            What::Problem(text) => writeln!(f, ">> {text}")?,
        }
        self.within.iter().try_for_each(|step| step.print(f, depth + 1, note))
    }
}

/// Collects steps while a packet is processed, if they are requested.
pub(crate) struct Recorder {
    /// The open steps, outermost first; the first one represents the whole trace.
    open: Option<Vec<Step>>,
    /// What hides steps: nothing while it is 0.
    hidden: u32,
}

impl Recorder {
    pub(crate) fn new(wanted: bool) -> Recorder {
        let root = Step { what: What::Note(String::new()), within: Vec::new() };
        Recorder { open: wanted.then(|| vec![root]), hidden: 0 }
    }

    /// Begins a step, until [`Recorder::end`].
    pub(crate) fn begin(&mut self, what: impl FnOnce() -> What) {
        if let Some(open) = self.open.as_mut().filter(|_| self.hidden == 0) {
            open.push(Step { what: what(), within: Vec::new() });
        }
    }

    /// Ends the step begun last.
    pub(crate) fn end(&mut self) {
        if let Some(open) = self.open.as_mut().filter(|_| self.hidden == 0)
            && let Some(step) = open.pop()
            && let Some(around) = open.last_mut()
        {
            around.within.push(step);
        }
    }

    /// Leaves out the steps from here to [`Recorder::show`].
    pub(crate) fn hide(&mut self) {
        self.hidden += 1;
    }

    pub(crate) fn show(&mut self) {
        self.hidden -= 1;
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        self.begin(|| What::Note(text()));
        self.end();
    }

    pub(crate) fn sent(&mut self, port: PortNo) {
        self.begin(|| What::Sent(port));
        self.end();
    }

    pub(crate) fn problem(&mut self, text: impl FnOnce() -> String) {
        self.begin(|| What::Problem(text()));
        self.end();
    }

    pub(crate) fn finish(self) -> Vec<Step> {
        self.open.and_then(|open| open.into_iter().next()).map(|root| root.within).unwrap_or_default()
    }
}

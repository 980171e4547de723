//! What a program calls the parts of the OpenFlow pipeline: stages, priorities and fields, and the numbers that it reserves.

use std::sync::Arc;

use openflow_rs::Subfield;

use super::{Place, Program};

/// `stage NAME = number;`: an OpenFlow table with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Its name, also that of a constant with its number.
    pub name: String,
    /// The number of the OpenFlow table. No two stages share it.
    pub number: u8,
    /// The text of its `##` comments.
    pub docs: Option<Arc<str>>,
    /// The place of its name.
    pub place: Place,
}

/// `priority NAME of STAGE = least..greatest;`: priorities of a stage that mean the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priority {
    /// Its name, also that of a constant with the least value.
    pub name: String,
    /// The name of the stage.
    pub stage: String,
    /// The least. No two ranges of a stage overlap.
    pub least: u16,
    /// The greatest.
    pub greatest: u16,
    /// The text of its `##` comments.
    pub docs: Option<Arc<str>>,
    /// The place of its name.
    pub place: Place,
}

/// `reserve NAME of TYPE = least..greatest;`: numbers of a kind that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its name, also that of a constant with the least number.
    pub name: String,
    /// The name of the type of the numbers.
    pub of: String,
    /// The least.
    pub least: i64,
    /// The greatest. No two reservations of a type overlap.
    pub greatest: i64,
    /// The text of its `##` comments.
    pub docs: Option<Arc<str>>,
    /// The place of its name.
    pub place: Place,
}

/// `field name = register[first..last];`: a field of packets, or some bits of one, with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedField {
    /// The name in literals of matches and actions.
    pub name: String,
    /// What it stands for. No two named fields have a bit in common.
    pub field: Subfield,
    /// The text of its `##` comments.
    pub docs: Option<Arc<str>>,
    /// The place of its name.
    pub place: Place,
}

impl Program {
    /// The stage with this number.
    pub fn stage(&self, number: u8) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.number == number)
    }

    /// The declared priority that has this value in this stage.
    pub fn priority(&self, stage: &str, value: u16) -> Option<&Priority> {
        let of_stage = self.priorities.iter().filter(|priority| priority.stage == stage);
        of_stage.into_iter().find(|priority| (priority.least..=priority.greatest).contains(&value))
    }
}

//! The result: stages, priorities, entries.

use nlog::Program;
use openflow_rs::{Actions, Match};
use serde::Serialize;

use crate::flows::one_line;
use crate::names::Names;
use crate::shape::{ActionsShape, MatchShape, Prefixes};

/// The pipeline of a program.
#[derive(Debug, Serialize)]
pub struct Pipeline {
    /// The fields that the rules name, in order of declaration.
    pub fields: Vec<NamedBits>,
    /// The tables of flows that rules place on hosts, in name order.
    pub forms: Vec<Form>,
    /// The stages that have a name or a flow, by number.
    pub stages: Vec<Stage>,
    /// The buckets of groups.
    pub groups: Vec<Group>,
    #[serde(skip)]
    pub(crate) names: Names,
}

/// A named field.
#[derive(Debug, Serialize)]
pub struct NamedBits {
    /// Its name in rules.
    pub name: String,
    /// The bits of Open vSwitch's field: `reg0`, `reg2[5]`.
    pub bits: String,
    /// Its sentence.
    pub doc: String,
}

/// A table of flows without hosts.
#[derive(Debug, Serialize)]
pub struct Form {
    /// Its name.
    pub table: String,
    /// Its sentence: which hosts have its flows.
    pub doc: String,
}

/// An OpenFlow table.
#[derive(Debug, Serialize)]
pub struct Stage {
    /// Its number.
    pub number: u8,
    /// Its name, if the rules name it.
    pub name: Option<String>,
    /// Its sentence.
    pub doc: String,
    /// Its priorities, highest first.
    pub priorities: Vec<Priority>,
}

/// A priority of a stage, or a range of them.
#[derive(Debug, Serialize)]
pub struct Priority {
    /// The number; for a range its first.
    pub first: u16,
    /// The last of a range.
    pub last: u16,
    /// Its name, if the rules name it.
    pub name: Option<String>,
    /// Its sentence.
    pub doc: String,
    /// The shapes of its flows.
    pub entries: Vec<Entry>,
}

/// Flows of one shape.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The match: constants as such, values that rows determine in angle brackets.
    #[serde(rename = "match")]
    pub matching: String,
    /// What happens to packets that match: one of these.
    pub outcomes: Vec<Outcome>,
    /// The rules that derive such flows.
    pub rules: Vec<Placed>,
    #[serde(skip)]
    pub(crate) shape: MatchShape,
}

/// What can happen to packets that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The actions, with the names of stages and fields; `drop` for none.
    pub actions: String,
    /// The case in which the flow has them. Empty if there is only one.
    pub case: String,
    #[serde(skip)]
    pub(crate) shape: ActionsShape,
    /// The places of the rules that make the difference, in which order outcomes stand.
    #[serde(skip)]
    pub(crate) order: Vec<(String, u32)>,
}

/// A rule that derives flows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Placed {
    /// The table of flows without hosts that it fills ([`Form`]); none if it names the hosts itself.
    pub form: Option<String>,
    /// Its file as the user named it.
    pub file: String,
    /// The line of its head.
    pub line: u32,
    /// The sentence that explains it. Empty if neither the rule nor its priority has one.
    pub doc: String,
}

/// A bucket of groups of one shape.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The group's number.
    pub group: String,
    /// The bucket's number.
    pub bucket: String,
    /// Its actions.
    pub outcomes: Vec<Outcome>,
    /// The rule that derives it.
    pub rule: Placed,
}

impl Pipeline {
    /// The pipeline that the rules of a program describe.
    pub fn new(program: &Program) -> Pipeline {
        let names = Names::of(program);
        let found = crate::flows::find(program, &names);
        let fields = names.fields.iter().map(|field| NamedBits {
            name: field.name.clone(),
            bits: Names::default().field(field.field),
            doc: one_line(field.docs.as_deref()),
        });
        Pipeline {
            fields: fields.collect(),
            forms: found.forms,
            stages: found.stages,
            groups: found.groups,
            names,
        }
    }

    /// The names with which matches and actions read as in the rules.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The entries that a flow falls under. An entry leaves its special cases to entries of their own: a flow with the address
    /// `0.0.0.0` is not one of those with `<ip>`, where an entry says `0.0.0.0`.
    pub fn entries_of(&self, table: u8, priority: u16, matching: &Match, actions: &Actions) -> Vec<&Entry> {
        let stages = self.stages.iter().filter(|stage| stage.number == table);
        let priorities = stages.flat_map(|stage| &stage.priorities);
        let fitting = priorities.filter(|own| (own.first..=own.last).contains(&priority));
        let entries: Vec<&Entry> = fitting.flat_map(|priority| &priority.entries).collect();
        let covering = |prefixes: Prefixes| -> Vec<&Entry> {
            let covering = entries.iter().copied().filter(|entry| {
                let mut numbers = Vec::new();
                entry.shape.covers(matching, prefixes, &mut numbers)
                    && entry
                        .outcomes
                        .iter()
                        .any(|outcome| outcome.shape.covers(&self.names, actions, &numbers))
            });
            covering.collect()
        };
        let levels = [Prefixes::None, Prefixes::WithBits, Prefixes::All].map(covering);
        let all = levels.into_iter().find(|all| !all.is_empty()).unwrap_or_default();
        let general = |entry: &&Entry| all.iter().any(|other| other.shape.specialises(&entry.shape));
        all.iter().copied().filter(|entry| !general(entry)).collect()
    }
}

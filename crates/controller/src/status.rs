//! The status of the controller and its switches, which readers get without waiting for the engine thread, however
//! long its current transaction takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use crate::core::{Core, Problem, ProblemChanges, Strays};
use crate::fleet::{Fleet, SwitchStatus};
use crate::levels::CutOff;

/// The controller and its switches after the last transaction that took effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The last transaction; 0 if there is none.
    pub last_txn: u64,
    /// The number of objects of each kind.
    pub objects: BTreeMap<Arc<str>, usize>,
    /// The switches, in order of names.
    pub switches: Vec<Arc<SwitchStatus>>,
    /// Requests of objects that the network currently cannot fulfil, and what is wrong with the controller itself.
    pub problems: Vec<Arc<Problem>>,
}

/// The status as the engine thread last published it. Copies share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published(Arc<RwLock<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    last_txn: u64,
    objects: BTreeMap<Arc<str>, usize>,
    switches: BTreeMap<String, Arc<SwitchStatus>>,
    problems: BTreeSet<Arc<Problem>>,
    /// What is wrong with the controller itself.
    own: Option<Arc<Problem>>,
}

/// The differences between [`Published`] and the present status.
#[derive(Debug, Default)]
pub(crate) struct Unpublished {
    /// The transport nodes whose switches may have another status.
    pub(crate) nodes: BTreeSet<String>,
    /// In the order in which they arose.
    pub(crate) problems: Vec<ProblemChanges>,
}

impl Published {
    /// The status. If nodes are given, with their switches only and without problems.
    pub(crate) fn read(&self, nodes: &BTreeSet<String>) -> Status {
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (switches, problems) = if nodes.is_empty() {
            let problems = parts.own.iter().chain(&parts.problems).cloned().collect();
            (parts.switches.values().cloned().collect(), problems)
        } else {
            (nodes.iter().filter_map(|node| parts.switches.get(node)).cloned().collect(), Vec::new())
        };
        Status { last_txn: parts.last_txn, objects: parts.objects.clone(), switches, problems }
    }

    /// Publishes what has changed. Takes time in proportion to that.
    pub(crate) fn update(&self, unpublished: &mut Unpublished, core: &Core, fleet: &Fleet) {
        let Unpublished { nodes, problems } = std::mem::take(unpublished);
        let switches: Vec<_> = nodes.into_iter().map(|node| (switch(core, fleet, &node), node)).collect();
        let mut parts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        (parts.last_txn, parts.objects, parts.own) = (core.last_txn(), counts(core), own(fleet));
        for (status, node) in switches {
            match status {
                Some(status) => drop(parts.switches.insert(node, Arc::new(status))),
                None => drop(parts.switches.remove(&node)),
            }
        }
        for ProblemChanges { new, gone } in problems {
            for problem in gone {
                parts.problems.remove(&problem);
            }
            parts.problems.extend(new);
        }
    }
}

impl Unpublished {
    /// All there is, for a controller that starts.
    pub(crate) fn all(core: &Core, fleet: &Fleet) -> Self {
        let new = core.problems().cloned().collect();
        let nodes = fleet.nodes().map(ToOwned::to_owned).collect();
        Unpublished { nodes, problems: vec![ProblemChanges { new, gone: Vec::new() }] }
    }
}

/// The status without what is told as of the last news of a host: objects that come and go since then do not change it.
pub(crate) fn without_strays(mut status: Status) -> Status {
    for switch in &mut status.switches {
        Arc::make_mut(switch).strays = Strays::default();
    }
    status
}

/// The status computed from nothing, to check the published one in debug builds.
pub(crate) fn computed(core: &Core, fleet: &Fleet) -> Status {
    Status {
        last_txn: core.last_txn(),
        objects: counts(core),
        switches: fleet.nodes().filter_map(|node| switch(core, fleet, node)).map(Arc::new).collect(),
        problems: own(fleet).into_iter().chain(core.problems().cloned()).collect(),
    }
}

/// What is wrong with the controller itself.
fn own(fleet: &Fleet) -> Option<Arc<Problem>> {
    let problem = |cut_off: CutOff| Problem {
        kind: "controller".to_owned(),
        id: "connections".to_owned(),
        code: "cut-off".to_owned(),
        text: cut_off.to_string(),
    };
    fleet.cut_off().map(problem).map(Arc::new)
}

fn switch(core: &Core, fleet: &Fleet, node: &str) -> Option<SwitchStatus> {
    let status = fleet.status(node, core.desired_counts(node), core.vif_count(node))?;
    Some(SwitchStatus { strays: core.strays(node), ..status })
}

fn counts(core: &Core) -> BTreeMap<Arc<str>, usize> {
    let kinds = core.objects().kinds().iter();
    kinds.map(|kind| (kind.shared_name().clone(), core.objects().count(kind.name()))).collect()
}

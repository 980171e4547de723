//! The status of the controller and its switches, and the objects with their states, which readers get without waiting for the
//! engine thread, however long its current transaction takes.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

use objects::{Object, ObjectKey};
use serde_json::{Map, Value as Json};

use crate::core::{ChangedStates, Core, ObjectStatus, Problem, ProblemChanges, Strays};
use crate::fleet::{Fleet, SwitchStatus};
use crate::levels::CutOff;
use crate::rules::{Rules, UNATTACHED};
use crate::text::shown;

/// The most objects in one answer, so that a long list does not delay other requests.
pub const PAGE: usize = 1000;

/// An object, with its state as computed by the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub object: Arc<Object>,
    /// The columns of the rules' tables of state, by name.
    pub state: Map<String, Json>,
    /// Requests of the object that the network currently cannot fulfil.
    pub problems: Vec<String>,
}

/// A selection of the objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The object with this id.
    One(String),
    /// The first [`PAGE`] objects whose ids follow this one; without an id, the first of all.
    After(Option<String>),
}

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
pub struct Published(Arc<RwLock<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    last_txn: u64,
    /// By kind and id. Every kind is there.
    objects: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<Object>>>,
    /// Their states and problems.
    status: ObjectStatus,
    /// The names of states.
    rules: Option<Arc<Rules>>,
    switches: BTreeMap<String, Arc<SwitchStatus>>,
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
    /// The objects that may differ.
    pub(crate) objects: Vec<ObjectKey>,
    /// The rows of tables of state that may differ.
    pub(crate) states: ChangedStates,
}

impl Parts {
    /// The hosts with an interface that may be meant for an object, and its id, by the object.
    fn strays(&self) -> BTreeMap<ObjectKey, Vec<(&str, &str)>> {
        let mut meant: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (host, switch) in &self.switches {
            for (id, near) in &switch.strays.first {
                if let Some(near) = near {
                    meant.entry(near.clone()).or_default().push((host.as_str(), id.as_str()));
                }
            }
        }
        meant
    }
}

impl Published {
    /// The status. If nodes are given, with their switches only and without problems.
    pub fn read(&self, nodes: &BTreeSet<String>) -> Status {
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (switches, problems) = if nodes.is_empty() {
            let problems = parts.own.iter().chain(parts.status.problems()).cloned().collect();
            (parts.switches.values().cloned().collect(), problems)
        } else {
            (nodes.iter().filter_map(|node| parts.switches.get(node)).cloned().collect(), Vec::new())
        };
        let count =
            |(kind, objects): (&Arc<str>, &BTreeMap<Arc<str>, Arc<Object>>)| (kind.clone(), objects.len());
        let objects = parts.objects.iter().map(count).collect();
        Status { last_txn: parts.last_txn, objects, switches, problems }
    }

    /// Objects of a kind with their states, ordered by id.
    pub fn objects(&self, kind: &str, which: &Which) -> Vec<Found> {
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (Some(objects), Some(rules)) = (parts.objects.get(kind), &parts.rules) else { return Vec::new() };
        let strays = OnceCell::new();
        let found = |object: &Arc<Object>| {
            let (kind, id) = (object.kind().name(), object.id());
            let problems = parts.status.problems_of(kind, id).map(|problem| problem.text.clone()).collect();
            let mut state = parts.status.state_of(kind, id, rules);
            if let Some(Json::String(why)) = state.get_mut(UNATTACHED) {
                let strays = strays.get_or_init(|| parts.strays());
                for (host, stray) in strays.get(&object.key()).into_iter().flatten() {
                    why.push_str(&format!("; {host} has one with `{}`, which no object has", shown(stray)));
                }
            }
            Found { object: object.clone(), state, problems }
        };
        match which {
            Which::One(id) => objects.get(&**id).map(found).into_iter().collect(),
            Which::After(id) => {
                let from: Bound<&str> = id.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let following = objects.range::<str, _>((from, Bound::Unbounded));
                following.take(PAGE).map(|(_, object)| found(object)).collect()
            }
        }
    }

    /// Whether these are the objects and the states of the core, to check them in debug builds.
    pub(crate) fn has_objects_of(&self, core: &Core) -> bool {
        let parts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let published = parts.objects.values().flat_map(BTreeMap::values);
        let count = published.clone().count();
        let present = |object: &&Arc<Object>| {
            let key = ObjectKey::new(object.kind().shared_name().clone(), object.id().clone());
            core.objects().get(&key).is_some_and(|present| Arc::ptr_eq(present, object))
        };
        published.filter(present).count() == count
            && core.objects().iter().count() == count
            && parts.status.has_states_of(core.object_status())
    }

    /// All rows of the tables of state.
    pub(crate) fn all_states(&self) -> ChangedStates {
        self.0.read().unwrap_or_else(PoisonError::into_inner).status.all_states()
    }

    /// Publishes what has changed. Takes time in proportion to that.
    pub(crate) fn update(&self, unpublished: &mut Unpublished, core: &Core, fleet: &Fleet) {
        let Unpublished { nodes, problems, objects, states } = std::mem::take(unpublished);
        let switches: Vec<_> = nodes.into_iter().map(|node| (switch(core, fleet, &node), node)).collect();
        let mut parts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        (parts.last_txn, parts.own) = (core.last_txn(), own(fleet));
        parts.rules.get_or_insert_with(|| core.rules().clone());
        for kind in core.objects().kinds().iter() {
            parts.objects.entry(kind.shared_name().clone()).or_default();
        }
        for key in objects {
            let of_kind = parts.objects.entry(key.kind.clone()).or_default();
            match core.objects().get(&key) {
                Some(object) => drop(of_kind.insert(key.id, object.clone())),
                None => drop(of_kind.remove(&key.id)),
            }
        }
        for (table, id) in states {
            parts.status.copy_state(core.object_status(), table, &id);
        }
        for (status, node) in switches {
            match status {
                Some(status) => drop(parts.switches.insert(node, Arc::new(status))),
                None => drop(parts.switches.remove(&node)),
            }
        }
        for changes in problems {
            parts.status.change_problems(&changes);
        }
    }
}

impl Unpublished {
    /// All there is, for a controller that starts.
    pub(crate) fn all(core: &Core, fleet: &Fleet) -> Self {
        let new = core.problems().chain(fleet.underlay_problems()).cloned().collect();
        let nodes = fleet.nodes().map(ToOwned::to_owned).collect();
        Unpublished {
            nodes,
            problems: vec![ProblemChanges { new, gone: Vec::new() }],
            objects: core.objects().iter().map(|(key, _)| key).collect(),
            states: core.object_status().all_states(),
        }
    }
}

/// The status without what is as old as the last news of a host: objects that come and go since then do not change it.
pub(crate) fn without_strays(mut status: Status) -> Status {
    for switch in &mut status.switches {
        Arc::make_mut(switch).strays = Strays::default();
    }
    status
}

/// The status computed from nothing, to check the published one in debug builds.
pub(crate) fn computed(core: &Core, fleet: &Fleet) -> Status {
    let all: BTreeSet<_> = core.problems().chain(fleet.underlay_problems()).cloned().collect();
    Status {
        last_txn: core.last_txn(),
        objects: counts(core),
        switches: fleet.nodes().filter_map(|node| switch(core, fleet, node)).map(Arc::new).collect(),
        problems: own(fleet).into_iter().chain(all).collect(),
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

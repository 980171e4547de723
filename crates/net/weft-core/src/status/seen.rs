//! An object with its state at one moment.

use std::fmt;
use std::sync::Arc;

use nlog_data::json::to_json;
use nlog_data::{Row, Value};
use objects::{Object, ObjectKey};
use serde_json::{Map, Value as Json};

use super::standing::{Members, Standing};
use crate::object_status::{Problem, columns_of};
use crate::rules::{Rules, UNATTACHED};
use crate::text::shown;

/// An object with its state and its problems as they were at one moment.
///
/// Successive ones of an object share what stays the same: a port whose state changes keeps one copy of its fields. The JSON of the
/// state is made only when somebody asks for it, outside of the lock that readers and the engine thread share.
#[derive(Clone)]
pub struct Seen {
    object: Arc<Object>,
    pub(super) status: SeenStatus,
    /// The names of the columns.
    rules: Arc<Rules>,
}

/// All that is known of an object besides its own fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SeenStatus {
    /// Its rows in the tables of state, each with the place of its table among [`Rules::states`].
    pub(super) rows: Arc<[(usize, Row)]>,
    pub(super) problems: Arc<[Arc<Problem>]>,
    /// The interfaces that no object has and that may be meant for it; only if the rules say that it has none.
    pub(super) strays: Arc<[Stray]>,
    /// Whether it is up, if it has a place or needs.
    pub(super) standing: Option<Standing>,
    /// The objects that are of it.
    pub(super) members: Option<Arc<Members>>,
    /// The tenant to which it belongs.
    pub(super) tenant: Option<Arc<str>>,
}

/// An interface with an id that no object has: its host and its id.
pub(super) type Stray = (String, String);

impl SeenStatus {
    /// Whether it is up: by itself, or else as the sum of its members.
    pub(super) fn is_up(&self) -> Option<bool> {
        let of_members = || self.members.as_ref().map(|members| members.are_up());
        self.standing.as_ref().map(Standing::is_up).or_else(of_members)
    }
}

impl Seen {
    pub(super) fn new(object: Arc<Object>, status: SeenStatus, rules: Arc<Rules>) -> Self {
        Seen { object, status, rules }
    }

    /// The object.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The tenant to which it belongs, as facts of the rules say.
    pub fn tenant(&self) -> Option<&str> {
        self.status.tenant.as_deref()
    }

    /// Requests of the object that the network could not fulfil, in order.
    pub fn problems(&self) -> &[Arc<Problem>] {
        &self.status.problems
    }

    /// The columns of its rows in the rules' tables of state, for comparisons that need no JSON.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Value)> {
        columns_of(&self.rules, self.status.rows.iter().map(|(table, row)| (*table, row)))
    }

    /// Its state as JSON: the columns by name. Why it is unattached also names the interfaces that may be meant for it.
    pub fn state(&self) -> Map<String, Json> {
        let mut state: Map<String, Json> =
            self.columns().map(|(name, value)| (name.to_owned(), to_json(value))).collect();
        if let Some(Json::String(why)) = state.get_mut(UNATTACHED) {
            for (host, stray) in &*self.status.strays {
                why.push_str(&format!("; {host} has one with `{}`, which no object has", shown(stray)));
            }
        }
        if let Some(is_up) = self.status.is_up() {
            state.insert("up".to_owned(), is_up.into());
        }
        if let Some(standing) = &self.status.standing {
            let mut why: Vec<Json> = standing.why.iter().map(|why| why.as_str().into()).collect();
            if let (Some(said), Some(first)) = (state.get(UNATTACHED), why.first_mut()) {
                first.clone_from(said);
            }
            if !why.is_empty() {
                state.insert("why".to_owned(), why.into());
            }
        }
        if let Some(members) = &self.status.members {
            let Members { all, up, not_up } = &**members;
            state.insert("members".to_owned(), (*all).into());
            state.insert("members_up".to_owned(), (*up).into());
            if !not_up.is_empty() {
                state.insert("not_up".to_owned(), not_up.iter().map(ToString::to_string).collect());
            }
        }
        state
    }

    /// Whether nothing happened to the object from the one to the other. An object that a transaction replaced is another one even if
    /// its fields are equal, because clients see which transaction changed it last.
    pub(super) fn is(&self, other: &Seen) -> bool {
        Arc::ptr_eq(&self.object, &other.object) && self.status == other.status
    }

    /// About the bytes of memory that it takes besides what it shares with this later one.
    pub(super) fn bytes_beside(&self, later: Option<&Seen>) -> usize {
        let shares = |is_same: &dyn Fn(&Seen) -> bool| later.is_some_and(is_same);
        let mut bytes = size_of::<Seen>() + ALLOCATED;
        if !shares(&|later| Arc::ptr_eq(&later.object, &self.object)) {
            bytes += ALLOCATED + object_bytes(&self.object);
        }
        let SeenStatus { rows, problems, strays, standing, members, tenant: _ } = &self.status;
        if !shares(&|later| Arc::ptr_eq(&later.status.rows, rows)) {
            bytes += ALLOCATED + rows.iter().map(|(_, row)| ALLOCATED + values_bytes(row)).sum::<usize>();
        }
        if !shares(&|later| Arc::ptr_eq(&later.status.problems, problems)) {
            bytes += ALLOCATED + problems.iter().map(|problem| problem_bytes(problem)).sum::<usize>();
        }
        if !shares(&|later| Arc::ptr_eq(&later.status.strays, strays)) {
            let stray = |(host, id): &Stray| size_of::<Stray>() + host.len() + id.len();
            bytes += ALLOCATED + strays.iter().map(stray).sum::<usize>();
        }
        let why = standing.iter().flat_map(|standing| standing.why.iter());
        bytes += why.map(|why| ALLOCATED + why.len()).sum::<usize>();
        bytes += members.iter().map(|members| ALLOCATED + members_bytes(members)).sum::<usize>();
        bytes
    }
}

/// What comes with each allocation: two counts of references, and what the allocator adds and rounds up. With it, the estimate for
/// ports is within a tenth of what the process takes (`tests/measure.rs`).
const ALLOCATED: usize = 32;

/// Values, and what each refers to.
fn values_bytes(values: &[Value]) -> usize {
    values.iter().map(|value| usize::try_from(value.bytes()).unwrap_or(usize::MAX)).sum()
}

fn object_bytes(object: &Object) -> usize {
    /// A node of the map of labels has room for eleven.
    const NODE: usize = 11;
    let labels = object.labels();
    let room = labels.len().next_multiple_of(NODE) * 2 * size_of::<String>();
    let texts: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    size_of::<Object>() + object.id().len() + values_bytes(object.row()) + room + texts
}

fn members_bytes(members: &Members) -> usize {
    size_of::<Members>() + members.not_up.len() * size_of::<ObjectKey>()
}

fn problem_bytes(problem: &Problem) -> usize {
    let Problem { kind, id, code, text } = problem;
    let texts: usize = [kind, id, code, text].iter().map(|text| ALLOCATED / 2 + text.len()).sum();
    size_of::<Arc<Problem>>() + size_of::<Problem>() + texts
}

/// Those of the earlier one, if they are the same, so that both share one copy.
pub(super) fn shared<T: PartialEq>(new: Vec<T>, earlier: Option<&Arc<[T]>>) -> Arc<[T]> {
    match earlier {
        Some(earlier) if **earlier == *new => earlier.clone(),
        _ if new.is_empty() => Arc::default(),
        _ => new.into(),
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { object, status, rules: _ } = self;
        f.debug_struct("Seen").field("object", object).field("status", status).finish_non_exhaustive()
    }
}

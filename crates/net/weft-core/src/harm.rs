//! What a request does that may not be meant, and the words for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use nlog_data::quotation::{cut, shown};

use crate::object_status::Problem;

/// The most objects that a request prunes unasked, whatever their share.
const PRUNED_MAX: usize = 10;
/// The share of all objects that a request prunes unasked, whatever their number: one in so many.
const PRUNED_SHARE: usize = 10;
/// The most ports, problems and hosts that a message names.
const NAMED_MAX: usize = 10;

/// Ports that stay and have their interfaces on a transport node that is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOff {
    /// The transport node.
    pub node: String,
    /// The ids of the ports, in order; at least one.
    pub ports: Vec<String>,
}

/// What a request does that may not be meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Harm {
    /// The ports that it cuts off.
    pub cut_off: Vec<CutOff>,
    /// What it prunes, if that is much.
    pub pruned: Option<Pruned>,
}

/// Objects that are deleted because a request does not name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Their number, by kind.
    pub by_kind: BTreeMap<Arc<str>, usize>,
    /// The number of all objects.
    pub of: usize,
}

impl Pruned {
    fn count(&self) -> usize {
        self.by_kind.values().sum()
    }

    pub(crate) fn is_much(&self) -> bool {
        self.count() > PRUNED_MAX && self.count() * PRUNED_SHARE > self.of
    }
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let have =
            if self.ports.len() == 1 { "port has its interface" } else { "ports have their interfaces" };
        let named = named(self.ports.iter().map(|port| cut(port)));
        write!(f, "{} {have} on {}: {named}", self.ports.len(), cut(&self.node))
    }
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.by_kind.iter().map(|(kind, count)| format!("{count} {kind}"));
        write!(
            f,
            "{} of {} objects would be pruned: {}",
            self.count(),
            self.of,
            kinds.collect::<Vec<_>>().join(", ")
        )
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.cut_off.iter().take(NAMED_MAX).map(ToString::to_string);
        let mut lines: Vec<String> = hosts.collect();
        let more = self.cut_off.iter().skip(NAMED_MAX);
        let (hosts, ports) = (more.clone().count(), more.map(|cut_off| cut_off.ports.len()).sum::<usize>());
        if hosts > 0 {
            lines.push(format!("{ports} ports have their interfaces on {hosts} more hosts"));
        }
        lines.extend(self.pruned.as_ref().map(ToString::to_string));
        f.write_str(&lines.join("\n"))
    }
}

/// The message about problems that a strict request would bring.
pub(crate) fn problems_text(problems: &[Arc<Problem>]) -> String {
    let line = |Problem { kind, id, text, .. }: &Problem| format!("{kind} {id}: {}", shown(text));
    let mut lines: Vec<String> = problems.iter().take(NAMED_MAX).map(|problem| line(problem)).collect();
    if let Some(more) = problems.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// Names, as a list. Of many, the first and the number of the others.
fn named<T: AsRef<str>>(names: impl ExactSizeIterator<Item = T>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let names: Vec<T> = names.take(NAMED_MAX).collect();
    let text = names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

//! Reports of switches that the rules refuse, entirely or in part.
//!
//! A report is first tried as a whole. If the rules refuse it, it is halved until the ports at fault are found; the other
//! ports are accepted. Refused ports are retried whenever another transaction is accepted, since a switch does not repeat
//! an unchanged report. Each attempt is a step of its own, so that other requests do not wait for many attempts.

use std::collections::{BTreeMap, VecDeque};

use crate::reports::{Port, Reports};

/// The outcome of a transport node's last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The whole report is accepted.
    Accepted,
    /// A part is refused, for this reason.
    Refused(String),
}

impl Verdict {
    /// The reason of a refusal.
    pub fn refusal(self) -> Option<String> {
        match self {
            Verdict::Accepted => None,
            Verdict::Refused(why) => Some(why),
        }
    }
}

/// A part of a report that is tried in one transaction. Every part includes the deletions. The part without ports has
/// only the deletions.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) node: String,
    pub(crate) ports: Vec<Port>,
}

/// The last report of each transport node with parts that are refused or not tried yet.
#[derive(Debug, Default)]
pub(crate) struct RefusedReports {
    nodes: BTreeMap<String, Entry>,
    due: VecDeque<Part>,
    /// Whether a transaction has been accepted since all refused parts were last due.
    again: bool,
}

#[derive(Debug)]
pub(crate) struct Entry {
    report: switch_model::Report,
    /// The reason for each refused port; `None` is the part without ports.
    why: BTreeMap<Option<Port>, String>,
    /// The last reported verdict.
    told: Option<String>,
    /// Whether a part was accepted, and with it the deletions: of what the switch reported before, the rules have what is the same.
    has_deleted: bool,
}

impl RefusedReports {
    /// Adds a report that was refused as a whole.
    pub(crate) fn refuse_whole(
        &mut self,
        node: &str,
        report: switch_model::Report,
        ports: Vec<Port>,
        why: &str,
    ) {
        self.forget(node);
        self.nodes
            .insert(node.to_owned(), Entry { report, why: BTreeMap::new(), told: None, has_deleted: false });
        self.refuse(Part { node: node.to_owned(), ports }, why);
        self.due.push_front(Part { node: node.to_owned(), ports: Vec::new() });
    }

    /// The object of an interface comes (`Some`), or does not come after all, whose host has a report here.
    pub(crate) fn adopt(&mut self, node: &str, port: &str, vif: Option<switch_model::Vif>) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        match vif {
            Some(vif) => drop(entry.report.vifs.insert(port.to_owned(), vif)),
            None => drop(entry.report.vifs.remove(port)),
        }
    }

    /// Whether a part of the last report of a transport node is refused.
    pub(crate) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Whether the rules refuse the last report of a transport node so far, the deletions included.
    pub(crate) fn refuses_deletions(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|entry| !entry.has_deleted)
    }

    /// Removes a transport node.
    pub(crate) fn forget(&mut self, node: &str) -> Option<Entry> {
        let entry = self.nodes.remove(node)?;
        self.due.retain(|part| part.node != node);
        Some(entry)
    }

    /// Restores a removed transport node.
    pub(crate) fn remember(&mut self, node: &str, entry: Entry) {
        self.nodes.insert(node.to_owned(), entry);
    }

    /// Suspends attempts until [`RefusedReports::retry_later`].
    pub(crate) fn pause(&mut self) {
        self.due.clear();
        self.again = false;
    }

    /// Makes all refused parts due again after another transaction was accepted.
    pub(crate) fn retry_later(&mut self) {
        self.again = true;
    }

    /// Whether a part is due.
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty() || (self.again && !self.nodes.is_empty())
    }

    /// The transport node of the part to try next.
    pub(crate) fn next_node(&mut self, reports: &Reports) -> Option<&str> {
        self.fill(reports);
        self.due.front().map(|part| part.node.as_str())
    }

    /// Once nothing is due, all is, if it is to be tried again.
    fn fill(&mut self, reports: &Reports) {
        if self.due.is_empty() && std::mem::take(&mut self.again) {
            let part = |(node, entry): (&String, &Entry)| {
                let ports = reports.missing(node, &entry.report);
                Part { node: node.clone(), ports }
            };
            self.due.extend(self.nodes.iter().map(part));
        }
    }

    /// The part to try next, and its report.
    pub(crate) fn next(&mut self, reports: &Reports) -> Option<(Part, switch_model::Report)> {
        self.fill(reports);
        let part = self.due.pop_front()?;
        let report = self.nodes.get(&part.node)?.report.clone();
        Some((part, report))
    }

    /// Records that a part was accepted; `whole` means that this completes the report.
    pub(crate) fn accept(&mut self, part: &Part, whole: bool) {
        if whole {
            self.forget(&part.node);
        } else if let Some(entry) = self.nodes.get_mut(&part.node) {
            entry.has_deleted = true;
            entry.why.remove(&None);
            for port in &part.ports {
                entry.why.remove(&Some(port.clone()));
            }
        }
    }

    /// Records that a part was refused. Its halves become due, unless it is a single port.
    pub(crate) fn refuse(&mut self, part: Part, why: &str) {
        let Part { node, mut ports } = part;
        if ports.len() > 1 {
            let second = ports.split_off(ports.len() / 2);
            self.due.push_front(Part { node: node.clone(), ports: second });
            self.due.push_front(Part { node, ports });
        } else if let Some(entry) = self.nodes.get_mut(&node) {
            entry.why.insert(ports.pop(), why.to_owned());
        }
    }

    /// The verdict on a transport node's report, once all parts were tried and unless it was reported already.
    pub(crate) fn verdict(&mut self, node: &str) -> Option<Verdict> {
        if self.due.iter().any(|part| part.node == node) {
            return None;
        }
        let Some(entry) = self.nodes.get_mut(node) else { return Some(Verdict::Accepted) };
        let text = entry.text();
        if entry.told == text {
            return None;
        }
        entry.told.clone_from(&text);
        Some(text.map_or(Verdict::Accepted, Verdict::Refused))
    }
}

impl Entry {
    fn text(&self) -> Option<String> {
        let (port, why) = self.why.iter().next()?;
        let first = match port {
            Some(port) => format!("{port}: {why}"),
            None => why.clone(),
        };
        Some(match self.why.len() {
            1 => first,
            count => format!("{first}; and {} more", count - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_count_once_any_part_is_accepted_until_the_next_report() {
        let mut refused = RefusedReports::default();
        let vif =
            switch_model::Vif { ofport: 1, mac: String::new(), interface: switch_model::InterfaceId(1) };
        let vifs = BTreeMap::from([("p1".to_owned(), vif.clone()), ("p2".to_owned(), vif)]);
        let report = switch_model::Report { vifs, ..switch_model::Report::default() };
        let reports = Reports::default();
        let ports = || ["p1", "p2"].map(|port| Port::Vif(port.to_owned())).to_vec();
        assert!(!refused.refuses_deletions("hv1"));
        refused.refuse_whole("hv1", report.clone(), ports(), "no");
        while let Some((part, _)) = refused.next(&reports) {
            refused.refuse(part, "no");
            assert!(refused.refuses_deletions("hv1"));
        }
        refused.retry_later();
        let (part, _) = refused.next(&reports).unwrap();
        refused.accept(&part, false);
        assert!(!refused.refuses_deletions("hv1"));
        refused.refuse_whole("hv1", report, ports(), "no");
        assert!(refused.refuses_deletions("hv1"));
    }
}

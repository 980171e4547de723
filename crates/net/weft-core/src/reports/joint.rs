//! The reports of several hosts that become one transaction.
//!
//! While hosts come up by hundreds, each report changes the flows of all hosts that share a datapath with it. A transaction for many reports
//! reaches each of these hosts once. Reports stay apart where the order of two transactions means something:
//!
//! - if both claim the same port: the later transaction has it;
//! - if a host gains a port and loses another one to a host of the transaction. A new home gets its flows before others, an old home after them
//!   (`crate::port_moves`), and no host can be both.

use std::collections::HashSet;

use super::{NodeReport, Reports};

/// The most changes of ports in one transaction of several hosts. In `nvp-eval`, it takes some tenths of a second, and a user's request waits for it.
const CHANGES_MAX: usize = 100;
/// The most hosts.
const HOSTS_MAX: usize = 64;

/// Reports that become one transaction, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Joint {
    hosts: usize,
    changes: usize,
    /// The ports that a host claims.
    claimed: HashSet<String>,
    /// The ports that hosts had before which claim others.
    left: HashSet<String>,
}

impl Joint {
    /// Adds the report of another host. Returns whether it becomes a part of the transaction; the first one always does.
    pub(crate) fn join(&mut self, reports: &Reports, node: &str, report: &switch_model::Report) -> bool {
        let unknown = NodeReport::default();
        let before = reports.nodes.get(node).unwrap_or(&unknown);
        let claimed = before.claimed_by(report);
        let changes = before.changes_by(report);
        let had = || before.vifs.keys();
        let gains = !claimed.is_empty();
        let is_apart = self.hosts == HOSTS_MAX
            || self.changes + changes > CHANGES_MAX
            || claimed.iter().any(|port| self.claimed.contains(*port) || self.left.contains(*port))
            || (gains && had().any(|port| self.claimed.contains(port)));
        if self.hosts > 0 && is_apart {
            return false;
        }
        self.hosts += 1;
        self.changes += changes;
        self.claimed.extend(claimed.into_iter().cloned());
        if gains {
            self.left.extend(had().cloned());
        }
        true
    }
}

impl NodeReport {
    /// The ports that the host may claim anew by its next report.
    fn claimed_by<'a>(&self, report: &'a switch_model::Report) -> Vec<&'a String> {
        let is_new = |claim: &&(String, switch_model::InterfaceId)| {
            !self.vifs.contains_key(&claim.0)
                || self.claims.as_ref().is_some_and(|claims| !claims.contains_key(*claim))
        };
        report.interfaces.iter().filter(is_new).map(|(port, _)| port).collect()
    }

    /// How many interfaces and ports come, go or change with the next report.
    fn changes_by(&self, report: &switch_model::Report) -> usize {
        let is_same = |(port, vif): &(&String, &switch_model::Vif)| {
            self.vifs.get(*port).is_some_and(|known| known.ofport == vif.ofport && known.mac == vif.mac)
        };
        let changed = report.vifs.iter().filter(|vif| !is_same(vif)).count();
        let gone = self.vifs.keys().filter(|port| !report.vifs.contains_key(*port)).count();
        let links = [(&self.tunnels, &report.tunnels), (&self.patches, &report.patches)];
        changed + gone + links.iter().map(|(before, after)| before.len().abs_diff(after.len())).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use switch_model::{InterfaceId, Report, Vif};

    use super::*;

    fn report(ports: &[&str]) -> Report {
        let mut report = Report::default();
        for port in ports {
            let interface = InterfaceId(port.len() as u128);
            report.vifs.insert((*port).to_owned(), Vif { ofport: 1, mac: String::new(), interface });
            report.interfaces.insert(((*port).to_owned(), interface));
        }
        report
    }

    /// The numbers of the reports that follow from hosts that had these ports and report those, in this order.
    fn parts(hosts: &[(&[&str], &[&str])]) -> Vec<usize> {
        let mut reports = Reports::default();
        for (host, (before, _)) in hosts.iter().enumerate() {
            let (state, _) = reports.plan(&host.to_string(), &report(before), 1);
            reports.commit(&host.to_string(), state);
        }
        let (mut parts, mut joint) = (vec![0], Joint::default());
        for (host, (_, after)) in hosts.iter().enumerate() {
            if !joint.join(&reports, &host.to_string(), &report(after)) {
                joint = Joint::default();
                assert!(joint.join(&reports, &host.to_string(), &report(after)));
                parts.push(0);
            }
            *parts.last_mut().unwrap() += 1;
        }
        parts
    }

    #[test]
    fn hosts_come_up_together_and_ports_move_together() {
        assert_eq!(parts(&[(&[], &["a", "b"]), (&[], &["c"]), (&[], &[])]), [3]);
        // From the first to the second.
        assert_eq!(parts(&[(&["a", "b"], &["b"]), (&["c"], &["a", "c"])]), [2]);
        assert_eq!(parts(&[(&["c"], &["a", "c"]), (&["a", "b"], &["b"])]), [2]);
    }

    #[test]
    fn one_port_is_claimed_once_and_no_host_is_a_new_and_an_old_home() {
        assert_eq!(parts(&[(&[], &["a"]), (&[], &["a"])]), [1, 1]);
        // The second gains a port and has one that the first takes; in either order.
        assert_eq!(parts(&[(&[], &["a"]), (&["a"], &["b"])]), [1, 1]);
        assert_eq!(parts(&[(&["a"], &["b"]), (&[], &["a"])]), [1, 1]);
        // Whether it has told yet or not.
        assert_eq!(parts(&[(&[], &["a"]), (&["a"], &["a", "b"])]), [1, 1]);
    }

    #[test]
    fn there_are_bounds() {
        let ports: Vec<String> = (0..CHANGES_MAX).map(|port| format!("{port:09}")).collect();
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        assert_eq!(parts(&[(&[], &ports), (&[], &["a"])]), [1, 1]);
        assert_eq!(parts(&[(&ports, &[]), (&[], &["a"])]), [1, 1]);
        assert_eq!(parts(&[(&ports, &ports), (&[], &["a"])]), [2]);
        assert_eq!(parts(&vec![(&[][..], &[][..]); HOSTS_MAX + 1]), [HOSTS_MAX, 1]);
    }
}

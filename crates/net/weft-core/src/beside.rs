//! Reports of interfaces with ids that no object has: kept beside the engine, where they cost no row and no record.
//!
//! A host may report any interface with any id. What belongs to nothing that was declared has no effect, so it is not worth a transaction. It is kept,
//! up to a limit for each host, for the object that may come: its transaction then has the rows of the interface too.

use std::collections::{BTreeMap, BTreeSet};

use switch_model::{Report, Vif};

/// The most interfaces without an object that are kept for a host: more than any host has machines.
pub(crate) const KEPT_MAX: usize = 1024;
/// The longest id that is kept, in bytes: objects have no longer ones.
pub(crate) const ID_BYTES_MAX: usize = 255;
/// The longest `external_ids:attached-mac`, in bytes. A longer one is no MAC address.
pub(crate) const MAC_BYTES_MAX: usize = 64;

/// The kept interfaces.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    hosts: BTreeMap<String, Kept>,
    /// The hosts that report each port.
    ports: BTreeMap<String, BTreeSet<String>>,
}

/// What is kept of the report of a host.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    vifs: BTreeMap<String, Vif>,
    /// Those that the switch could not open, and why.
    unopened: BTreeMap<String, (String, String)>,
    /// The interfaces that are not kept: beyond the most, and with ids that are too long.
    beyond: usize,
    too_long: usize,
    /// The interfaces whose MAC address is left out.
    long_macs: usize,
}

impl Kept {
    fn ports(&self) -> impl Iterator<Item = &String> {
        self.vifs.keys().chain(self.unopened.keys())
    }

    /// The limits that the report exceeds; `None` if there are none.
    fn excess(&self) -> Option<String> {
        let mut texts = Vec::new();
        if self.beyond > 0 {
            let all = self.beyond + KEPT_MAX;
            texts.push(format!(
                "it reports {all} interfaces with ids that no object has; {KEPT_MAX} are kept"
            ));
        }
        if self.too_long > 0 {
            let count = self.too_long;
            texts.push(format!(
                "{count} interfaces have an external_ids:iface-id of more than {ID_BYTES_MAX} bytes"
            ));
        }
        if self.long_macs > 0 {
            let count = self.long_macs;
            texts.push(format!(
                "{count} interfaces have an external_ids:attached-mac of more than {MAC_BYTES_MAX} bytes"
            ));
        }
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// The most characters of the names of interfaces that claim one port, and of the reason why one cannot be opened.
const MAX_NAMES: usize = 255;

/// Divides a report into what objects exist for, and what is to be kept.
fn divide(report: &Report, is_known: &dyn Fn(&str) -> bool) -> (Report, Kept) {
    let mut kept = Kept::default();
    let mut known = Report {
        tunnels: report.tunnels.clone(),
        patches: report.patches.clone(),
        probes: report.probes.clone(),
        conflicts: report.conflicts.clone(),
        problems: report.problems.clone(),
        ..Report::default()
    };
    // Names of a host's interfaces are of any length.
    let cut = |names: &String| names.chars().take(MAX_NAMES).collect();
    let contested = report.contested.iter().filter(|(port, _)| is_known(port));
    known.contested = contested.map(|(port, names)| (port.clone(), cut(names))).collect();
    for (port, (name, error)) in &report.unopened {
        let why = (cut(name), cut(error));
        if is_known(port) {
            known.unopened.insert(port.clone(), why);
        } else if kept.unopened.len() < KEPT_MAX && port.len() <= ID_BYTES_MAX {
            kept.unopened.insert(port.clone(), why);
        }
    }
    for (port, vif) in &report.vifs {
        let mut vif = vif.clone();
        let is_long = vif.mac.len() > MAC_BYTES_MAX;
        if is_long {
            vif.mac = String::new();
        }
        if is_known(port) {
            kept.long_macs += usize::from(is_long);
            known.vifs.insert(port.clone(), vif);
        } else if port.len() > ID_BYTES_MAX {
            kept.too_long += 1;
        } else if kept.vifs.len() == KEPT_MAX {
            kept.beyond += 1;
        } else {
            kept.vifs.insert(port.clone(), vif);
        }
    }
    // Claims are remembered of what counts or may count, and of an interface that has no number yet.
    let mut others = 0;
    for (port, interface) in &report.interfaces {
        let counts = known.vifs.contains_key(port) || kept.vifs.contains_key(port) || is_known(port);
        if !counts {
            others += 1;
        }
        if counts || (others <= KEPT_MAX && port.len() <= ID_BYTES_MAX && !report.vifs.contains_key(port)) {
            known.interfaces.insert((port.clone(), *interface));
        }
    }
    (known, kept)
}

impl Beside {
    /// Takes a report of a host, which replaces the one before. Returns what objects exist for.
    pub(crate) fn take(&mut self, host: &str, report: &Report, is_known: impl Fn(&str) -> bool) -> Report {
        let (known, kept) = divide(report, &is_known);
        self.forget(host);
        self.keep(host, kept);
        known
    }

    /// Keeps this of a host of which nothing is kept.
    pub(crate) fn keep(&mut self, host: &str, kept: Kept) {
        for port in kept.ports() {
            self.ports.entry(port.clone()).or_default().insert(host.to_owned());
        }
        if kept != Kept::default() {
            self.hosts.insert(host.to_owned(), kept);
        }
    }

    /// Forgets what is kept of a host, and returns it.
    pub(crate) fn forget(&mut self, host: &str) -> Option<Kept> {
        let kept = self.hosts.remove(host)?;
        for port in kept.ports() {
            if let Some(hosts) = self.ports.get_mut(port) {
                hosts.remove(host);
                if hosts.is_empty() {
                    self.ports.remove(port);
                }
            }
        }
        Some(kept)
    }

    /// The interfaces that hosts report of this port, by host.
    pub(crate) fn of_port<'a>(&'a self, port: &'a str) -> impl Iterator<Item = (&'a str, &'a Vif)> {
        let hosts = self.ports.get(port).into_iter().flatten();
        hosts.filter_map(move |host| Some((host.as_str(), self.hosts.get(host)?.vifs.get(port)?)))
    }

    /// The hosts that could not open their interface of this port, each with the name of the interface and the reason.
    pub(crate) fn unopened<'a>(
        &'a self,
        port: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a (String, String))> {
        let hosts = self.ports.get(port).into_iter().flatten();
        hosts.filter_map(move |host| Some((host.as_str(), self.hosts.get(host)?.unopened.get(port)?)))
    }

    /// The ports without an object that a host reports, in order.
    pub(crate) fn of_host(&self, host: &str) -> impl Iterator<Item = &str> {
        self.hosts.get(host).into_iter().flat_map(|kept| kept.vifs.keys()).map(String::as_str)
    }

    /// How many interfaces of a host are not kept.
    pub(crate) fn beyond(&self, host: &str) -> usize {
        self.hosts.get(host).map_or(0, |kept| kept.beyond + kept.too_long)
    }

    /// The limits that the last report of a host exceeds; `None` if there are none.
    pub(crate) fn excess(&self, host: &str) -> Option<String> {
        self.hosts.get(host)?.excess()
    }
}

#[cfg(test)]
mod tests {
    use switch_model::InterfaceId;

    use super::*;

    fn report(ports: impl IntoIterator<Item = String>) -> Report {
        let mut report = Report::default();
        for (number, port) in ports.into_iter().enumerate() {
            let interface = InterfaceId(number as u128);
            report.vifs.insert(port.clone(), Vif { ofport: 1, mac: String::new(), interface });
            report.interfaces.insert((port, interface));
        }
        report
    }

    #[test]
    fn d20_of_what_no_object_has_so_much_is_kept_and_no_more() {
        let mut beside = Beside::default();
        let ids = (0..KEPT_MAX + 500).map(|number| format!("x{number:05}"));
        let ids = ids.chain(["a".repeat(ID_BYTES_MAX + 1), "blue".to_owned()]);
        let known = beside.take("hv1", &report(ids), |port| port == "blue");
        assert_eq!(known.vifs.keys().collect::<Vec<_>>(), ["blue"]);
        assert_eq!((known.interfaces.len(), beside.of_host("hv1").count()), (KEPT_MAX + 1, KEPT_MAX));
        let excess = beside.excess("hv1").expect("it exceeds limits");
        assert!(
            excess.starts_with("it reports 1524 interfaces with ids that no object has; 1024 are kept; 1 "),
            "{excess}"
        );
        assert_eq!(beside.of_port("x00001").map(|(host, _)| host).collect::<Vec<_>>(), ["hv1"]);
        // The next report replaces it.
        beside.take("hv1", &report(["y".to_owned()]), |_| false);
        assert_eq!((beside.excess("hv1"), beside.of_port("x00001").count()), (None, 0));
        let kept = beside.forget("hv1").expect("it is kept");
        assert_eq!((beside.hosts.len(), beside.ports.len()), (0, 0));
        beside.keep("hv1", kept);
        assert_eq!(beside.of_host("hv1").collect::<Vec<_>>(), ["y"]);
    }

    #[test]
    fn d20_a_long_mac_address_is_left_out() {
        let mut report = report(["blue".to_owned()]);
        report.vifs.get_mut("blue").expect("it is there").mac = "0".repeat(3000);
        let mut beside = Beside::default();
        let known = beside.take("hv1", &report, |_| true);
        assert_eq!(known.vifs["blue"].mac, "");
        assert!(beside.excess("hv1").is_some());
    }
}

//! A network to apply and watch, with the machines to plug in and who should reach whom: `examples/NAME.lab.yaml`, beside
//! the network's own file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use lab::{Lab, Reach, VmSpec};
use serde::Deserialize;

use crate::{Settings, Testbed};

/// How long nothing new arrives before the rest is taken to be unreachable.
const PATIENCE: Duration = Duration::from_secs(20);

/// The contents of such a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file with the network's objects except the hosts, in the same folder.
    pub network: PathBuf,
    /// Hosts hv1, hv2, ….
    pub hosts: u8,
    /// Encapsulations of every host, in order of preference.
    #[serde(default = "geneve")]
    pub encaps: Vec<String>,
    /// Physical networks that every host has a bridge on.
    #[serde(default)]
    pub physical: Vec<String>,
    /// How to try whether a machine reaches another.
    #[serde(default)]
    pub probe: Probe,
    /// The machines.
    pub machines: Vec<Plug>,
    /// For each machine, those that it reaches. A machine that is left out reaches none.
    pub reaches: BTreeMap<String, Vec<String>>,
}

fn geneve() -> Vec<String> {
    vec!["geneve".to_owned()]
}

/// What a machine sends to another to try whether it reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// A UDP datagram that has to arrive. It need not be answered, and machines may have the same addresses.
    #[default]
    Datagram,
    /// An echo request that has to be answered.
    Ping,
}

/// A machine: at a host, behind another with a VLAN tag, or on a physical network.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plug {
    /// The name of the machine, and of its logical port if it is at a host.
    pub name: String,
    /// Its MAC address.
    pub mac: String,
    /// Its IP addresses, with prefix length.
    pub ips: Vec<String>,
    /// Its default routes, at most one for each IP version.
    #[serde(default)]
    pub gateways: Vec<IpAddr>,
    /// The host to plug it in at.
    #[serde(default)]
    pub host: Option<String>,
    /// The machine that it is behind, if any.
    #[serde(default)]
    pub behind: Option<String>,
    /// The physical network that it is on, if any.
    #[serde(default)]
    pub physical: Option<String>,
    /// Its VLAN id there; 0 for untagged.
    #[serde(default)]
    pub tag: u16,
}

/// The result for one ordered pair of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// Whether the sender should reach the receiver.
    pub wanted: bool,
    /// Addresses of the receiver that the sender reaches.
    pub reached: BTreeSet<IpAddr>,
    /// Addresses of the receiver that the sender does not reach.
    pub missed: BTreeSet<IpAddr>,
}

impl Pair {
    /// Whether the result is as expected, at every address.
    pub fn is_right(&self) -> bool {
        if self.wanted { self.missed.is_empty() && !self.reached.is_empty() } else { self.reached.is_empty() }
    }
}

impl Scenario {
    /// Reads a file.
    pub fn read(file: &Path) -> Result<Scenario> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut scenario: Scenario =
            serde_norway::from_str(&text).with_context(|| file.display().to_string())?;
        scenario.check().with_context(|| file.display().to_string())?;
        if let Some(folder) = file.parent() {
            scenario.network = folder.join(&scenario.network);
        }
        Ok(scenario)
    }

    fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for plug in &self.machines {
            ensure!(names.insert(plug.name.as_str()), "machine {} appears twice; rename one", plug.name);
            let places = [&plug.host, &plug.behind, &plug.physical];
            let one = places.into_iter().flatten().count() == 1;
            ensure!(one, "machine {}: give one of host, behind and physical", plug.name);
        }
        if self.probe == Probe::Ping {
            let mut addresses = BTreeSet::new();
            for ip in self.machines.iter().flat_map(|plug| &plug.ips) {
                let address = ip.split('/').next().unwrap_or_default();
                ensure!(
                    addresses.insert(address),
                    "two machines have address {address}, so a ping cannot tell which of them answers; probe with `datagram`"
                );
            }
        }
        for name in self.reaches.iter().flat_map(|(from, to)| std::iter::once(from).chain(to)) {
            if !names.contains(name.as_str()) {
                let known = names.iter().copied().collect::<Vec<_>>().join(", ");
                bail!("reaches: there is no machine {name}; there are: {known}");
            }
        }
        Ok(())
    }

    /// Starts a lab with a controller, applies the network, plugs the machines in, and waits until all switches are in
    /// sync.
    pub fn start(&self, name: String, weft: PathBuf) -> Result<Testbed> {
        let testbed = Testbed::start(Settings {
            hosts: self.hosts,
            physical: self.physical.clone(),
            encaps: self.encaps.clone(),
            ..Settings::new(name, weft)
        })?;
        testbed.wait_in_sync()?;
        let file = self.network.display().to_string();
        let text = std::fs::read_to_string(&self.network).with_context(|| format!("cannot read {file}"))?;
        testbed.apply(&file, &text)?;
        self.plug_in(testbed.lab()?)?;
        testbed.wait_in_sync()?;
        Ok(testbed)
    }

    /// Makes the machines that a lab does not have yet, and returns their names.
    pub fn plug_in(&self, lab: &Lab) -> Result<Vec<String>> {
        let there: BTreeSet<String> = lab.vms()?.into_iter().map(|vm| vm.name).collect();
        let missing = self.machines.iter().filter(|plug| !there.contains(&plug.name));
        let specs: Vec<VmSpec> = missing.map(|plug| self.spec(plug)).collect();
        Ok(lab.add_vms(&specs)?.into_iter().map(|vm| vm.name).collect())
    }

    fn spec(&self, plug: &Plug) -> VmSpec {
        let (name, mac) = (&plug.name, &plug.mac);
        let mut spec = match (&plug.host, &plug.behind, &plug.physical) {
            (Some(host), ..) => VmSpec::new(name, host, name, mac),
            (_, Some(parent), _) => VmSpec::behind(parent, plug.tag, name, mac),
            (_, _, network) => VmSpec::physical(network.clone().unwrap_or_default(), plug.tag, name, mac),
        };
        spec.addresses.clone_from(&plug.ips);
        spec.gateways.clone_from(&plug.gateways);
        spec.trunk = self.machines.iter().any(|other| other.behind.as_deref() == Some(name));
        spec
    }

    /// Tries all pairs until the results are as expected, or no longer change.
    pub fn who_reaches_whom(&self, lab: &Lab) -> Result<Vec<Pair>> {
        let names: Vec<&str> = self.machines.iter().map(|plug| plug.name.as_str()).collect();
        let addresses = self.addresses(lab)?;
        let pairs = |reach: &BTreeMap<String, Reach>| -> Vec<Pair> {
            let both = names.iter().flat_map(|from| names.iter().map(move |to| (*from, *to)));
            both.filter(|(from, to)| from != to)
                .map(|(from, to)| self.pair(from, to, reach, &addresses))
                .collect()
        };
        let enough = |reach: &BTreeMap<String, Reach>| pairs(reach).iter().all(Pair::is_right);
        let reach = match self.probe {
            Probe::Datagram => lab.who_reaches_whom(&names, enough, PATIENCE)?,
            Probe::Ping => lab.who_answers_whom(&names, enough, PATIENCE)?,
        };
        Ok(pairs(&reach))
    }

    fn addresses(&self, lab: &Lab) -> Result<BTreeMap<&str, BTreeSet<IpAddr>>> {
        self.machines.iter().map(|plug| Ok((plug.name.as_str(), lab.vm(&plug.name)?.ips()))).collect()
    }

    /// The result for a pair, at the addresses of families that both have. A machine reaches nobody else at an address
    /// that is also its own.
    fn pair(
        &self,
        from: &str,
        to: &str,
        reach: &BTreeMap<String, Reach>,
        addresses: &BTreeMap<&str, BTreeSet<IpAddr>>,
    ) -> Pair {
        let (own, theirs) = (&addresses[from], &addresses[to]);
        let tried = |ip: &&IpAddr| !own.contains(ip) && own.iter().any(|own| own.is_ipv4() == ip.is_ipv4());
        let arrived = |ip: &IpAddr| {
            reach.get(from).is_some_and(|reach| match self.probe {
                Probe::Datagram => reach.arrivals.contains(&(*ip, to.to_owned())),
                Probe::Ping => reach.answered.contains(ip),
            })
        };
        let (reached, missed) = theirs.iter().filter(tried).copied().partition(arrived);
        let wanted = self.reaches.get(from).is_some_and(|whom| whom.iter().any(|name| name == to));
        Pair { from: from.to_owned(), to: to.to_owned(), wanted, reached, missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Result<Scenario> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("some.lab.yaml");
        std::fs::write(&file, text)?;
        Scenario::read(&file)
    }

    const TWO: &str = "network: n.yaml\nhosts: 1\nmachines:\n\
        - {name: a, host: hv1, mac: '02:00:00:00:00:01', ips: [10.0.0.1/24]}\n\
        - {name: b, behind: a, tag: 5, mac: '02:00:00:00:00:02', ips: [10.0.0.2/24]}\n";

    #[test]
    fn a_machine_with_others_behind_it_is_made_as_a_trunk() {
        let scenario = scenario(&format!("{TWO}reaches: {{a: [b]}}\n")).unwrap();
        assert!(scenario.network.ends_with("n.yaml") && scenario.network.is_absolute());
        assert!(scenario.spec(&scenario.machines[0]).trunk);
        assert!(!scenario.spec(&scenario.machines[1]).trunk);
    }

    #[test]
    fn a_machine_gets_the_default_routes_of_the_file() {
        let text = TWO.replace("10.0.0.1/24]", "10.0.0.1/24], gateways: [10.0.0.254, 'fd00::fe']");
        let scenario = scenario(&format!("{text}reaches: {}\n", "{}")).unwrap();
        let wanted: Vec<IpAddr> = vec!["10.0.0.254".parse().unwrap(), "fd00::fe".parse().unwrap()];
        assert_eq!(scenario.spec(&scenario.machines[0]).gateways, wanted);
        assert!(scenario.spec(&scenario.machines[1]).gateways.is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| format!("{:#}", scenario(text).unwrap_err());
        let unknown = error(&format!("{TWO}reaches: {{a: [c]}}\n"));
        assert!(unknown.ends_with("reaches: there is no machine c; there are: a, b"), "{unknown}");
        let placed_twice =
            error(&format!("{TWO}reaches: {{}}\n").replace("behind: a", "behind: a, host: hv1"));
        assert!(placed_twice.ends_with("machine b: give one of host, behind and physical"), "{placed_twice}");
        assert!(error(&format!("{TWO}reaches: {{}}\nhost: 3\n")).contains("host"));
        let ping = format!("{TWO}reaches: {{}}\nprobe: ping\n");
        let shared = error(&ping.replace("10.0.0.2/24", "10.0.0.1/24"));
        assert!(shared.contains("two machines have address 10.0.0.1"), "{shared}");
        assert_eq!(scenario(&ping).unwrap().probe, Probe::Ping);
    }

    #[test]
    fn a_pair_is_right_at_all_of_its_addresses_or_at_none() {
        let ip = |n: u8| IpAddr::from([10, 0, 0, n]);
        let pair = |wanted, reached: &[u8], missed: &[u8]| Pair {
            from: "a".into(),
            to: "b".into(),
            wanted,
            reached: reached.iter().map(|n| ip(*n)).collect(),
            missed: missed.iter().map(|n| ip(*n)).collect(),
        };
        assert!(pair(true, &[1, 2], &[]).is_right());
        assert!(!pair(true, &[1], &[2]).is_right());
        assert!(!pair(true, &[], &[]).is_right());
        assert!(pair(false, &[], &[1]).is_right());
        assert!(!pair(false, &[1], &[2]).is_right());
    }
}

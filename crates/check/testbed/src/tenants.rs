//! The network of the demo and the tests: two tenants on two hosts, with three machines each and the same addresses.

use std::collections::{BTreeMap, BTreeSet};

use crate::Machine;
use crate::reach::Reach;

/// Its objects, except for the hosts.
pub const NETWORK: &str = include_str!("../../../../examples/two-tenants.yaml");

/// Its machines: name (also of the logical port), host, and the number in their addresses.
pub const MACHINES: [(&str, &str, u8); 6] = [
    ("acme-1", "hv1", 1),
    ("acme-2", "hv1", 2),
    ("acme-3", "hv2", 3),
    ("umbra-1", "hv1", 1),
    ("umbra-2", "hv2", 2),
    ("umbra-3", "hv2", 3),
];

/// The names of the machines.
pub const NAMES: [&str; 6] = ["acme-1", "acme-2", "acme-3", "umbra-1", "umbra-2", "umbra-3"];

/// The machines, to be plugged in.
pub fn machines() -> Vec<Machine> {
    let machine = |(name, host, number): (&str, &str, u8)| Machine {
        name: name.to_owned(),
        host: host.to_owned(),
        mac: mac(number),
        address: format!("{}/24", ip(number)),
    };
    MACHINES.map(machine).to_vec()
}

/// The MAC address of the machines with this number, one in each tenant.
pub fn mac(number: u8) -> String {
    format!("02:00:00:00:00:{number:02x}")
}

/// The IP address of the machines with this number.
pub fn ip(number: u8) -> String {
    format!("10.0.0.{number}")
}

/// A machine's tenant: the part of its name before the dash.
pub fn tenant(machine: &str) -> &str {
    machine.split('-').next().unwrap_or(machine)
}

/// Exceptions to "every machine reaches those of its tenant and none of the other", as `FROM to TO`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Departures {
    /// Pairs of one tenant that do not reach each other.
    pub missing: BTreeSet<String>,
    /// Pairs of different tenants that reach each other.
    pub leaks: BTreeSet<String>,
}

impl Departures {
    /// The exceptions in a result of [`crate::reach::who_reaches_whom`].
    pub fn of(reach: &BTreeMap<String, Reach>) -> Self {
        let mut departures = Departures::default();
        for (from, reach) in reach {
            for to in NAMES.into_iter().filter(|to| to != from) {
                let pair = || format!("{from} to {to}");
                match (tenant(from) == tenant(to), reach.arrived_at.contains(to)) {
                    (true, false) => drop(departures.missing.insert(pair())),
                    (false, true) => drop(departures.leaks.insert(pair())),
                    _ => {}
                }
            }
        }
        departures
    }
}

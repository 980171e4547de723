//! Who reaches whom, where tenants may have the same addresses: not by whose address answers, but by whose counter of
//! received echo requests (RFC 1213, `icmpInEchos`) grows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use lab::{Lab, PingOptions};

/// Probes of a pair. One could be lost to a cold neighbour on the underlay.
const PROBES: u32 = 2;

/// What one machine's probes came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The machines at which echo requests arrived.
    pub arrived_at: BTreeSet<String>,
    /// The addresses from which answers came back.
    pub answered: BTreeSet<IpAddr>,
}

/// Pings, from each machine in turn, every address that any other machine has, and sees where the requests arrive.
pub fn who_reaches_whom(lab: &Lab, machines: &[&str]) -> Result<BTreeMap<String, Reach>> {
    let mut addresses = BTreeMap::new();
    for &machine in machines {
        addresses
            .insert(machine, lab.vm(machine)?.ip().with_context(|| format!("{machine} has no address"))?);
    }
    let mut result = BTreeMap::new();
    for &from in machines {
        let mut reach = Reach::default();
        let targets: BTreeSet<IpAddr> =
            addresses.values().copied().filter(|to| *to != addresses[from]).collect();
        for to in targets {
            let before = received(lab, machines)?;
            let options = PingOptions {
                count: PROBES,
                interval: Duration::from_millis(20),
                deadline: Duration::from_millis(500),
                ..PingOptions::default()
            };
            if lab.ping(from, to, &options)?.received > 0 {
                reach.answered.insert(to);
            }
            let after = received(lab, machines)?;
            let grown = machines.iter().filter(|machine| after[**machine] > before[**machine]);
            reach.arrived_at.extend(grown.map(|machine| (*machine).to_owned()));
        }
        result.insert(from.to_owned(), reach);
    }
    Ok(result)
}

/// [`echoes_received`] of each machine.
fn received<'a>(lab: &Lab, machines: &[&'a str]) -> Result<BTreeMap<&'a str, u64>> {
    machines.iter().map(|&machine| Ok((machine, echoes_received(lab, machine)?))).collect()
}

/// Echo requests that a machine has received since it was made.
pub fn echoes_received(lab: &Lab, machine: &str) -> Result<u64> {
    let counters = lab.exec(machine, &["cat", "/proc/net/snmp"])?.stdout;
    echoes(&counters).with_context(|| format!("{machine}: no InEchos in /proc/net/snmp"))
}

/// `InEchos` of /proc/net/snmp: the line of names, then that of values, both begin with `Icmp:`.
fn echoes(counters: &str) -> Option<u64> {
    let mut lines = counters.lines().filter(|line| line.starts_with("Icmp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let index = names.split_whitespace().position(|name| name == "InEchos")?;
    values.split_whitespace().nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::echoes;

    #[test]
    fn echoes_are_found_by_name() {
        let text = "Icmp: InMsgs InErrors InEchos InEchoReps\nIcmp: 9 1 5 3\nIcmpMsg: InType8\nIcmpMsg: 5\n";
        assert_eq!(echoes(text), Some(5));
        assert_eq!(echoes("Icmp: InMsgs\nIcmp: 1\n"), None);
    }
}

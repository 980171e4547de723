//! Tests which machines reach each other, even if tenants have the same addresses.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use lab::Lab;
pub use lab::Reach;

/// How long nothing new arrives before the rest is taken to be unreachable.
const PATIENCE: Duration = Duration::from_mins(1);

/// Sends from each machine to every address of any other machine until `enough` has arrived, and records where datagrams
/// arrive.
pub fn who_reaches_whom(
    lab: &Lab,
    machines: &[&str],
    enough: impl Fn(&BTreeMap<String, Reach>) -> bool,
) -> Result<BTreeMap<String, Reach>> {
    Ok(lab.who_reaches_whom(machines, enough, PATIENCE)?)
}

/// Echo requests that a machine has received since it was made (RFC 1213, `icmpInEchos`).
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

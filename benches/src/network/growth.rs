//! The number of flows of a host in networks of several shapes.

use anyhow::Result;

use super::{Run, drive};
use crate::figure6::workload::Network;

/// Hosts, ports of each switch, and ports of each host. Each row differs from the first in one of
/// them.
const SHAPES: [(usize, usize, usize); 7] =
    [(100, 16, 21), (30, 16, 21), (300, 16, 21), (100, 4, 21), (100, 64, 21), (100, 16, 7), (100, 16, 63)];

/// Prints the table.
pub(crate) fn print() -> Result<()> {
    println!("\n## Flows of a host, mean (least–greatest)\n");
    println!(
        "| hosts | ports of a switch | ports of a host | flows | buckets of groups |\n|---|---|---|---|---|"
    );
    for (hosts, of_switch, of_host) in SHAPES {
        let loaded = drive::load(&Network::even(hosts, of_switch, of_host), Run::plain(1, 0, 1))?;
        println!("| {hosts} | {of_switch} | {of_host} | {} | {} |", loaded.flows, loaded.buckets);
    }
    Ok(())
}

//! Adds the flows of a file, in the notation of `ovs-ofctl`, to a bridge: all or none.
//!
//! `push_bundle unix:/run/openvswitch/br-int.mgmt FLOWS` prints how long it took.

use std::time::Instant;

use openflow_rs::FlowEntry;
use ovs_driver::{Endpoint, Flow, FlowKey, Sockets};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let [endpoint, file] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "usage: push_bundle ENDPOINT FILE")?;
    let endpoint: Endpoint = endpoint.parse()?;
    let began = Instant::now();
    let text = std::fs::read_to_string(file)?;
    let flows =
        text.lines().filter(|line| !line.trim().is_empty()).map(read).collect::<Result<Vec<_>, _>>()?;
    let read = began.elapsed();
    let pushed = ovs_driver::push_bundle(&Sockets::default(), &endpoint, &flows).await?;
    println!(
        "{} flows: read in {read:.3?}, connected in {:.3?}, in force after {:.3?}",
        flows.len(),
        pushed.connected,
        pushed.in_force
    );
    Ok(())
}

fn read(line: &str) -> Result<(FlowKey, Flow), Failure> {
    let entry: FlowEntry = line.parse().map_err(|error| format!("{line}: {error}"))?;
    Ok((FlowKey::new(entry.table, entry.priority, &entry.matches)?, Flow::new(entry.cookie, &entry.actions)?))
}

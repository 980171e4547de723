//! No frame is lost by a change that delivers it before and after, whatever part of the change hosts have got.
//!
//! While nothing fails, the network changes a few more times. Hosts get a change at different times, since each has a latency of its own.
//! Frames that arrive before the change and after it, at interfaces that stay where they are, are sent at moments in between.
//!
//! Changes of transport nodes and zones are left out: a packet in a tunnel is lost if its host has another address, encapsulation or form of tunnel
//! before its peers know. So are machines that move, and ports that become another tenant's, because their labels are new,
//! and trunks: an address may go from one of their members to another.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flow_simulator::trace::{Step, What};
use flow_simulator::{Fabric, Packet};
use openflow_rs::{FlowEntry, PortNo};
use sim_switches::SimulatedHost;
use tokio::time::Instant;

use super::Simulation;
use super::isolation::{Sent, Vnics};
use crate::network::endpoints_of;

/// The steps of a change.
const STEPS: usize = 3;
/// Frames that each interface sends. Some of them arrive somewhere.
const FRAMES: usize = 30;
/// The longest latency of a host, in milliseconds.
const LATENCY_MOST: u64 = 60;
/// The longest time between two looks at a change under way, in milliseconds.
const APART_MOST: u64 = 30;
/// A change is over once all hosts have been in sync for so many looks. It may take so many.
const CALM_LOOKS: usize = 10;
const LOOKS_MOST: usize = 400;

/// The interfaces that a frame reaches, each with its port.
type Reached = BTreeSet<((String, u16), String)>;

/// What becomes of a frame.
#[derive(Default)]
struct Way {
    reached: Reached,
    /// The flows that it meets.
    flows: Vec<Arc<FlowEntry>>,
}

impl Simulation {
    /// Changes the network so many times while nothing fails.
    ///
    /// # Errors
    /// A frame is lost meanwhile.
    pub(super) async fn change_calmly(&mut self, changes: usize) -> Result<(), String> {
        for host in self.names.clone() {
            let latency = Duration::from_millis(self.random.below(LATENCY_MOST));
            self.links.change(&endpoints_of(&host), |condition| condition.latency = latency);
        }
        for _ in 0..changes {
            let (before, vnics) = self.copied()?;
            let mut unsteady = self.unsteady();
            let sent = self.frames_to_send(&vnics, FRAMES).into_iter();
            let sent: Vec<(Sent, Way)> = sent
                .map(|sent| {
                    let way = way(&before, &vnics, &sent);
                    (sent, way)
                })
                .filter(|(_, way)| !way.reached.is_empty())
                .collect();
            let (underlay, tenants) = (self.network.underlay(), self.network.tenants());
            self.change(STEPS).await?;
            if self.network.underlay() != underlay {
                self.come_to_rest().await?;
                continue;
            }
            let moments = self.moments(&sent).await?;
            self.come_to_rest().await?;
            let (after, vnics) = self.copied()?;
            unsteady.append(&mut self.unsteady());
            let others = self.network.tenants();
            unsteady.extend(tenants.symmetric_difference(&others).map(|(port, _)| port.clone()));
            for (place, (sent, before)) in sent.iter().enumerate() {
                let after = way(&after, &vnics, sent);
                let is_rerouted = usize::from(before.flows != after.flows);
                let stays = |port: &String| !unsteady.contains(port);
                for at in before.reached.intersection(&after.reached) {
                    if !(stays(&sent.port) && stays(&at.1)) {
                        continue;
                    }
                    self.frames.followed += 1;
                    self.frames.rerouted += is_rerouted;
                    if let Some(moment) = moments.iter().position(|reached| !reached[place].contains(at)) {
                        let Sent { host, port, bytes, .. } = sent;
                        return Err(format!(
                            "a frame of {port} at {host} reaches {} at {} before a change and after it, and not at moment {moment} of it: \
                             {bytes:02x?}",
                            at.1, at.0.0
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// What frames reach at each moment of a change under way at which a host has changed.
    async fn moments(&mut self, sent: &[(Sent, Way)]) -> Result<Vec<Vec<Reached>>, String> {
        let (mut moments, mut before, mut calm) = (Vec::new(), Vec::new(), 0);
        for _ in 0..LOOKS_MOST {
            let interfaces = |host: &SimulatedHost| format!("{:?}", host.database().interfaces());
            let hosts = self.hosts.iter();
            let now: Vec<_> = hosts.map(|host| (host.switch().fingerprint(), interfaces(host))).collect();
            if now != before {
                let (fabric, vnics) = self.copied()?;
                moments.push(sent.iter().map(|(sent, _)| way(&fabric, &vnics, sent).reached).collect());
                before = now;
            }
            calm = if self.is_quiescent().is_ok() { calm + 1 } else { 0 };
            if calm == CALM_LOOKS {
                break;
            }
            let pause = Duration::from_millis(1 + self.random.below(APART_MOST));
            self.until(Instant::now() + pause).await?;
        }
        Ok(moments)
    }

    /// The ports whose frames are not followed at present: those with several interfaces, because their machines move and which of the hosts
    /// counts follows from what these report, and trunks.
    fn unsteady(&self) -> BTreeSet<String> {
        let mut once = BTreeSet::new();
        let twice = self.plugged.iter().filter(|(_, port)| !once.insert(port));
        twice.map(|(_, port)| port.clone()).chain(self.network.trunks()).collect()
    }
}

/// The way of a frame, if its sender is where it was.
fn way(fabric: &Fabric, vnics: &Vnics, Sent { host, number, port, bytes }: &Sent) -> Way {
    if vnics.get(&(host.clone(), *number)) != Some(port) {
        return Way::default();
    }
    let crossing = fabric.trace(host, Packet::new(bytes.clone(), PortNo(*number)));
    let at = crossing.arrived.into_iter().map(|arrival| (arrival.host, arrival.port.0));
    // An answer to the sender may be the switch's or another machine's.
    let others = at.filter(|(to, by)| (to, by) != (host, number));
    let reached = others.filter_map(|at| vnics.get(&at).cloned().map(|port| (at, port))).collect();
    let mut flows = Vec::new();
    crossing.hops.iter().for_each(|(_, steps)| met(steps, &mut flows));
    Way { reached, flows }
}

/// Collects the flows that a packet has met.
fn met(steps: &[Step], flows: &mut Vec<Arc<FlowEntry>>) {
    for Step { what, within } in steps {
        if let What::Lookup { entry: Some(entry), .. } = what {
            flows.push(entry.clone());
        }
        met(within, flows);
    }
}

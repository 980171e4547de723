//! The checks after all faults have ended: all hosts are in sync with the state that follows from the journal, and nothing changes any more.

use std::collections::BTreeSet;
use std::time::Duration;

use objects::ObjectKey;
use tokio::time::Instant;

use super::requests::same;
use super::{Simulation, host_of};
use crate::process::restored;

/// The longest until all hosts are in sync: flows that were lost in silence are found within ten minutes (`Timing::scrub_every`).
const QUIESCENT_WITHIN: Duration = Duration::from_mins(16);
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long it takes until hosts that are connected count as back (`Patience`), and announcements end.
const BACK_WITHIN: Duration = Duration::from_secs(40);
/// How long nothing may change then.
const QUIET: Duration = Duration::from_mins(2);

impl Simulation {
    /// Waits until all is as it should be, and checks that it stays so.
    pub(super) async fn quiesce(&mut self) -> Result<(), String> {
        self.come_to_rest().await?;
        self.as_derived_at_once()?;
        self.check_isolation()?;
        self.until(Instant::now() + BACK_WITHIN).await?;
        let before = self.counts();
        self.until(Instant::now() + QUIET).await?;
        self.is_quiescent().map_err(|why| format!("{QUIET:?} after all was at rest, {why}"))?;
        let after = self.counts();
        if before != after {
            let last = self.store.records().last();
            return Err(format!(
                "a network at rest changes: [transactions, flow-mods, group-mods] {before:?}, then {after:?}; the last record is {last:?}"
            ));
        }
        self.trace.note(&format!("ends with {after:?}"));
        for host in &self.hosts {
            self.trace.note(&format!("{} has flows {:016x}", host.id(), host.switch().fingerprint()));
        }
        Ok(())
    }

    /// Waits until every host is in sync.
    pub(super) async fn come_to_rest(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + QUIESCENT_WITHIN;
        while let Err(why) = self.is_quiescent() {
            if Instant::now() > deadline {
                return Err(format!("{QUIESCENT_WITHIN:?} after all faults have ended, {why}"));
            }
            self.until(Instant::now() + LOOK_EVERY).await?;
        }
        self.trace.note("at rest");
        Ok(())
    }

    fn counts(&self) -> [usize; 3] {
        let counts = self.hosts.iter().map(|host| host.switch().counts());
        let (flows, groups) = counts
            .fold((0, 0), |(flows, groups), counts| (flows + counts.flow_mods, groups + counts.group_mods));
        [self.transactions(), flows, groups]
    }

    /// Whether every host is in sync, says so, and has reported what it has.
    pub(super) fn is_quiescent(&self) -> Result<(), String> {
        let process = self.process.as_ref().ok_or("no controller runs")?;
        same(self.requests.known(), process.core().objects())?;
        let status = process.status();
        for switch in &status.switches {
            let node = &*switch.node;
            if !switch.connected || !switch.synced {
                return Err(format!(
                    "{node} is not in sync (connected: {}): {:?}",
                    switch.connected, switch.last_error
                ));
            }
            let host = host_of(&self.names, &self.hosts, node).ok_or("a host is unknown")?;
            let desired = process.core().desired(node);
            let flows = host.switch().flows();
            if flows != desired.flows {
                let missing = desired.flows.keys().find(|key| !flows.contains_key(*key));
                let wrong = flows.iter().find(|(key, flow)| desired.flows.get(*key) != Some(*flow));
                return Err(format!(
                    "{node} is called in sync, and has {} flows instead of {}: missing {missing:?}, or wrong {wrong:?}",
                    flows.len(),
                    desired.flows.len()
                ));
            }
            let in_groups = |(group, _): &(u32, u32)| *group;
            let groups: BTreeSet<u32> =
                desired.buckets.keys().chain(desired.candidates.keys()).map(in_groups).collect();
            if !host.switch().groups().into_keys().eq(groups) {
                return Err(format!("{node} is called in sync, and has other groups than it should have"));
            }
            if !host.switch().meters().into_keys().eq(desired.meters.keys().copied()) {
                return Err(format!("{node} is called in sync, and has other meters than it should have"));
            }
            // Without a declared port, an interface counts only if it had one.
            let is_declared =
                |port: &str| self.requests.known().contains_key(&ObjectKey::new("switch_port", port));
            let here = self.plugged.iter().filter(|(host, _)| host == node);
            let (all, declared) = (here.clone().count(), here.filter(|(_, port)| is_declared(port)).count());
            let known = switch.vifs;
            if known < declared || known > all {
                return Err(format!(
                    "{node} has {all} interfaces, {declared} of them of declared ports, and {known} are known"
                ));
            }
        }
        Ok(())
    }

    /// Compares the controller's state with what follows from its journal at once.
    fn as_derived_at_once(&self) -> Result<(), String> {
        let process = self.process.as_ref().ok_or("no controller runs")?;
        let (fresh, correction) = restored(&self.rules, self.store.records())?;
        if let Some(record) = correction {
            return Err(format!("the journal is corrected at a start: {record:?}"));
        }
        let (has, should) = (process.core().all_desired(), fresh.all_desired());
        for (node, desired) in &should {
            if has.get(node) != Some(desired) {
                return Err(format!(
                    "{node}: the desired state is not the one that follows from the journal"
                ));
            }
        }
        if has.len() != should.len() {
            return Err("there are desired states of hosts that should have none".to_owned());
        }
        Ok(())
    }
}

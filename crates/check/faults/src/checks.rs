//! What must hold once a fault is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value as Json;
use weft_client::pb::SwitchStatus;

use crate::book::Key;
use crate::flows;
use crate::network::{HOSTS, KINDS, PROBE, marks};
use crate::traffic;
use crate::world::World;

/// How long everything may take to be in sync again. A driver waits for an answer for half a minute, and dials again later and later.
const DEADLINE: Duration = Duration::from_mins(4);
/// How long flows may differ from what is wanted although a host is in sync.
const FLOWS_DEADLINE: Duration = Duration::from_secs(20);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(10);

impl World {
    /// Waits until each host has confirmed a transaction that changes its flows, and the controller has heard of a change of each host's
    /// database. Both were made after the fault.
    pub fn wait_in_sync(&self, mark: u64) -> Result<()> {
        let txn =
            self.apply(marks(mark)).context("the controller takes no request although the fault is over")?;
        let txn = txn.context("new marks change nothing")?;
        let probe = format!("mark-{mark}");
        let set = format!("external_ids:iface-id={probe}");
        for name in HOSTS {
            self.host(name)?.vsctl(&["set", "Interface", PROBE, &set])?;
        }
        let begun = Instant::now();
        loop {
            let status = self.status()?;
            let is_in_sync = |switch: &SwitchStatus| {
                switch.connected
                    && switch.synced
                    && switch.pending == 0
                    && switch.confirmed_txn.is_some_and(|confirmed| confirmed >= txn)
                    && switch.strays.iter().any(|stray| stray.id == probe)
            };
            if status.switches.len() == HOSTS.len() && status.switches.iter().all(is_in_sync) {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                let late: Vec<_> = status.switches.into_iter().filter(|switch| !is_in_sync(switch)).collect();
                bail!("not in sync with transaction {txn} and {probe} after {DEADLINE:?}: {late:#?}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Checks everything, while the load is paused. Returns the number of objects, flows and groups that were compared.
    pub fn check(&self) -> Result<usize> {
        let wrong = self.load.wrong();
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        let mut compared = self.check_objects()?;
        for name in HOSTS {
            compared += self.check_flows(name)?;
        }
        let lab = self.lab()?;
        traffic::wait_for_all(lab)?;
        traffic::check_silence(lab)?;
        Ok(compared)
    }

    /// Everything that was answered is there, and nothing that nobody asked for.
    fn check_objects(&self) -> Result<usize> {
        let found = self.ask(async |client| {
            let mut found = BTreeMap::<Key, Json>::new();
            for kind in KINDS {
                for text in client.get(kind, None).await? {
                    let object: Json = serde_json::from_str(&text).context("an object is no JSON")?;
                    let id = object["id"].as_str().context("an object has no id")?.to_owned();
                    found.insert((kind.to_owned(), id), object);
                }
            }
            Ok(found)
        })?;
        let last = self.status()?.last_txn;
        let mut book = self.load.book();
        let answered = book.last_txn();
        ensure!(last >= answered, "transaction {answered} was answered, and the last one is {last}");
        let compared = found.len();
        let wrong = book.compare(found);
        ensure!(wrong.is_empty(), "objects are not what was answered:\n{}", wrong.join("\n"));
        Ok(compared)
    }

    /// The switch of a host has the flows and groups that the controller wants.
    fn check_flows(&self, name: &str) -> Result<usize> {
        let begun = Instant::now();
        loop {
            let wanted = self.ask(async |client| Ok(client.flows(name).await?))?;
            let host = self.host(name)?;
            let dump = host.ofctl(&["--no-names", "--no-stats", "dump-flows", "br-int"])?;
            let groups = host.ofctl(&["dump-groups", "br-int"])?;
            let comparison = flows::compare(&dump, &groups, &wanted).with_context(|| name.to_owned())?;
            if comparison.different.is_empty() {
                return Ok(comparison.compared);
            }
            let text = comparison.different.join("\n");
            ensure!(
                begun.elapsed() < FLOWS_DEADLINE,
                "{name} is in sync, with other flows than wanted for {FLOWS_DEADLINE:?}:\n{text}"
            );
            self.events.add(format!("{name} is in sync, with other flows than wanted: {text}"));
            std::thread::sleep(LOOK * 50);
        }
    }
}

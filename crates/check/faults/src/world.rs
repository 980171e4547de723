//! Everything of a run: the lab, the controller on a disk and with a clock of its own, the proxies, the load.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::{Host, Lab, Options};
use serde_json::{Value as Json, json};
use testbed::{DEADLINE, Settings, Testbed};
use tokio::runtime::Runtime;
use weft_client::{Client, pb};

use crate::book::Book;
use crate::clock::WallClock;
use crate::disk::Disk;
use crate::events::Events;
use crate::load::Load;
use crate::network::{GUESTS, Guest, HOSTS, PROBE, objects};
use crate::proxy::Proxy;
use crate::{requirements, traffic};

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The journal is folded every few minutes, also while something is broken, and its segments fit on the disk.
const JOURNAL: [&str; 2] = ["journal_segment = 4", "journal_size = 16"];

/// The proxies of a host.
#[derive(Debug)]
pub struct Links {
    /// That of `OpenFlow`.
    pub openflow: Proxy,
    /// That of OVSDB.
    pub ovsdb: Proxy,
}

/// A running network with its controller.
pub struct World {
    // In this order: nothing is asked of a controller that is gone, and its disk is in use as long as it runs.
    /// The load.
    pub load: Load,
    /// The lab and the controller.
    pub testbed: Testbed,
    /// The proxies, in the order of [`HOSTS`].
    links: Vec<Links>,
    /// The controller's clock.
    pub clock: WallClock,
    /// The controller's disk.
    pub disk: Disk,
    /// What happened.
    pub events: Events,
    runtime: Runtime,
}

impl World {
    /// Makes the lab `name`, starts the controller `weft` and declares the network. Returns once all pings pass; the load is paused.
    pub fn start(name: &str, weft: &Path, seed: u64, events: Events) -> Result<World> {
        requirements::check()?;
        let lab = Lab::create(Options::new(name).hosts(HOSTS.len() as u8))?;
        let folder = lab.state()?.run_dir.join(lab::CONTROLLER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let clock = WallClock::new(&folder)?;
        let disk = Disk::mount(name)?;
        let state = disk.folder().join("state");
        fs::create_dir(&state).with_context(|| format!("cannot make {}", state.display()))?;
        let settings = Settings {
            hosts: HOSTS.len() as u8,
            variables: clock.variables(),
            configuration: JOURNAL.map(str::to_owned).into(),
            ..Settings::new(name, weft)
        };
        let mut testbed = Testbed::around(lab, settings)?;
        std::os::unix::fs::symlink(&state, testbed.state()).context("cannot link the state folder")?;
        testbed.start_controller()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let links = links(&runtime, testbed.lab()?, seed)?;
        let book = Book::default();
        let load = Load::start(&runtime, testbed.controller_address(), seed, book, events.clone());
        let world = World { load, testbed, links, clock, disk, events, runtime };
        world.declare()?;
        Ok(world)
    }

    fn declare(&self) -> Result<()> {
        let mut nodes = Vec::new();
        for name in HOSTS {
            let links = self.links(name);
            nodes.push(json!({
                "kind": "transport_node", "id": name, "ip": self.host(name)?.ip.to_string(), "encaps": ["geneve"],
                "ovsdb": links.ovsdb.endpoint(), "openflow": links.openflow.endpoint(),
            }));
        }
        self.apply(nodes)?;
        self.apply(objects())?;
        let deadline = Instant::now() + DEADLINE;
        while self.status()?.switches.iter().any(|switch| !switch.connected) {
            ensure!(Instant::now() < deadline, "the controller does not connect to the switches");
            std::thread::sleep(LOOK);
        }
        let lab = self.lab()?;
        lab.add_vms(&GUESTS.map(Guest::machine))?;
        traffic::introduce(lab)?;
        self.testbed.wait_in_sync()?;
        for name in HOSTS {
            let add = ["add-port", "br-int", PROBE, "--", "set", "Interface", PROBE, "type=internal"];
            self.host(name)?.vsctl(&add)?;
        }
        traffic::wait_for_all(lab)
    }

    /// The lab.
    pub fn lab(&self) -> Result<&Lab> {
        self.testbed.lab()
    }

    /// A host.
    pub fn host(&self, name: &str) -> Result<Host> {
        Ok(self.lab()?.host(name)?)
    }

    /// The proxies of a host.
    ///
    /// # Panics
    /// There is no such host.
    pub fn links(&self, name: &str) -> &Links {
        let at = HOSTS.iter().position(|host| *host == name);
        &self.links[at.unwrap_or_else(|| panic!("no host is named {name}"))]
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.testbed.state().join("journal.jsonl")
    }

    /// The end of the controller's log.
    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.testbed.log()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Creates or replaces objects, and enters them in the book. Returns the transaction.
    pub fn apply(&self, objects: Vec<Json>) -> Result<Option<u64>> {
        let texts = objects.iter().map(Json::to_string).collect();
        let accepted = self.ask(async |client| Ok(client.apply_objects(texts, "faults").await?))?;
        let mut book = self.load.book();
        for object in objects {
            let field = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
            book.is((field("kind"), field("id")), Some(object.clone()));
        }
        book.answer(accepted.txn);
        Ok(accepted.txn)
    }

    /// The status of the controller and its switches.
    pub fn status(&self) -> Result<pb::StatusResponse> {
        self.ask(async |client| Ok(client.status().await?))
    }

    /// Asks the controller something, over a connection of its own.
    pub fn ask<T>(&self, question: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let address = self.testbed.controller_address();
        self.runtime.block_on(async {
            let answer = async {
                let mut client = Client::connect(&address).await?;
                question(&mut client).await
            };
            tokio::time::timeout(DEADLINE, answer).await.context("the controller does not answer")?
        })
    }

    /// Starts the controller again.
    pub fn start_controller(&mut self) -> Result<()> {
        self.testbed.start_controller()
    }

    /// Lets the controller end in order, and removes what libfaketime leaves.
    pub fn stop_controller(&mut self) -> Result<()> {
        let pid = self.testbed.controller_pid();
        self.testbed.stop_controller()?;
        pid.into_iter().for_each(WallClock::forget);
        Ok(())
    }

    /// Kills the controller, and removes what libfaketime leaves.
    pub fn kill_controller(&mut self) -> Result<()> {
        let pid = self.testbed.controller_pid();
        self.testbed.kill_controller()?;
        pid.into_iter().for_each(WallClock::forget);
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Nothing can be done about a controller that cannot be killed; the lab removes itself.
        let _ = self.kill_controller();
    }
}

fn links(runtime: &Runtime, lab: &Lab, seed: u64) -> Result<Vec<Links>> {
    let socket = |endpoint: String| PathBuf::from(endpoint.trim_start_matches("unix:"));
    let mut links = Vec::new();
    for (name, number) in HOSTS.into_iter().zip(1_u64..) {
        let host = lab.host(name)?;
        let start = |endpoint: String, number: u64| {
            runtime.block_on(Proxy::start(socket(endpoint), seed ^ (number << 32)))
        };
        let openflow = start(host.openflow_endpoint(), number)?;
        links.push(Links { openflow, ovsdb: start(host.ovsdb_endpoint(), number + 10)? });
    }
    Ok(links)
}

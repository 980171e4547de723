//! An engine whose journal fails on demand, with hosts that come and go.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use network::Cancel;
use nlog::Sources;
use nlog_data::{Evaluator, Tables};
use nlog_reference::Hooked;
use proptest::prelude::*;
use switch_model::{Channel, Event, InterfaceId, Report, Vif};

use super::*;
use crate::daemon::prepare;
use crate::fleet::{Driver, Drivers, Reading, Shutdown};
use crate::journal::Replay;
use crate::levels::Patience;

/// A flow for each host that is lost, each interface, and each announcement. No flow depends on when something happened.
const RULES: &str = "
object transport_node { ip: ip; ovsdb: opt<string>; openflow: opt<string>; datapath_type: opt<string>; unique(ip); }
object switch_port { id_space port; number: int; }
object quiet_port { id_space port; }
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>,
                            datapath_type: opt<string>) key(hv);
switch_address(hv, ovsdb, openflow, datapath_type) :-
    transport_node(id: hv, ovsdb: ovsdb, openflow: openflow, datapath_type: datapath_type, ..);
input table managed(hv: string) key(hv);
input table vif(hv: string, port: string, ofport: int, mac: string, since: int) key(hv, port);
input table announced(hv: string, port: string, since: int) key(hv, port);
input table node_connection(hv: string, connected: bool, since: int) key(hv);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table awaited_flow(hv: string, table_id: int, cookie: int, port: string) key(hv, table_id, cookie);
of_flow(hv, 0, 1, match{metadata: 1}, actions[output(1)]) :- node_connection(hv, false, _);
of_flow(hv, 1, 1, match{metadata: number}, actions[output(ofport)]) :-
    vif(hv, port, ofport, _, _), switch_port(port, number);
of_flow(hv, 2, 1, match{metadata: number}, actions[output(1)]) :-
    announced(hv, port, _), switch_port(port, number);
awaited_flow(hv, 12, number, port) :- vif(hv, port, _, _, _), switch_port(port, number);
";

const HOSTS: [&str; 3] = ["hv1", "hv2", "hv3"];
const PORTS: [&str; 2] = ["p1", "p2"];

const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:/1/db', openflow: 'unix:/1/of'}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, ovsdb: 'unix:/2/db', openflow: 'unix:/2/of'}
---
{kind: transport_node, id: hv3, ip: 172.16.0.3, ovsdb: 'unix:/3/db', openflow: 'unix:/3/of'}
---
{kind: switch_port, id: p1, number: 1}
---
{kind: switch_port, id: p2, number: 2}
";

/// Drivers that do nothing: the tests say what happens.
struct Idle;

impl Drivers for Idle {
    fn spawn(&self, _: ovs_driver::Config, _: mpsc::Sender<(String, Event)>) -> Box<dyn Driver> {
        Box::new(Idle)
    }
}

impl Driver for Idle {
    fn set_desired(&self, _: Arc<Desired>) {}
    fn push(&self, _: u64, _: switch_model::Changes) {}
    fn announce(&self, _: std::collections::BTreeMap<String, switch_model::Frame>) {}
    fn learned(&self, _: u8, _: &openflow_rs::Match) -> Reading {
        Box::pin(std::future::ready(Err(switch_model::ReadError::NotConnected)))
    }
    fn meter_counts(&self) -> Asking<Vec<switch_model::MeterCount>> {
        Box::pin(std::future::ready(Err(switch_model::ReadError::NotConnected)))
    }
    fn flow_counts(&self, _: Vec<FlowKey>) -> Asking<Vec<switch_model::FlowCount>> {
        Box::pin(std::future::ready(Err(switch_model::ReadError::NotConnected)))
    }
    fn table_flows(&self, _: Vec<u8>) -> Asking<Vec<switch_model::SeenFlow>> {
        Box::pin(std::future::ready(Err(switch_model::ReadError::NotConnected)))
    }
    fn leave(&self) {}

    fn end(self: Box<Self>) -> Shutdown {
        Box::pin(std::future::ready(()))
    }
}

/// A controller without an API.
struct World {
    worker: Option<Worker>,
    /// The queues stay open.
    #[allow(dead_code, reason = "it keeps them open")]
    engine: Engine,
    runtime: tokio::runtime::Runtime,
    rules: Arc<Rules>,
    patience: Patience,
    folder: tempfile::TempDir,
}

impl World {
    /// Applies objects, as a client does.
    fn apply(&mut self, text: &str) -> Result<Applied, Refusal> {
        let mut batch = Batch::new(self.rules.kinds(), Cancel::default());
        batch.add_document("net.yaml", text);
        let (answer, mut answered) = oneshot::channel();
        let (change, by) = (Change::Apply(Box::new(batch)), "test".into());
        let (accepted, gone) = (Instant::now(), Cancel::default());
        self.group(Some(Input::Change(ChangeRequest { change, by, accepted, gone, answer })));
        answered.try_recv().unwrap()
    }

    fn new(patience: Patience) -> World {
        let compilation = nlog::compile(&Sources::from_texts([("test.nlog", RULES)]));
        let program = compilation.program.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (engine, _) = Engine::new();
        let mut world = World {
            worker: None,
            engine,
            runtime,
            rules: Arc::new(Rules::new(program).unwrap()),
            patience,
            folder: tempfile::tempdir().unwrap(),
        };
        world.start();
        world.apply(NETWORK).unwrap();
        world
    }

    /// Starts the controller, again if it ran.
    fn start(&mut self) {
        self.worker = None;
        let in_thread = self.rules.clone();
        let evaluator = move || {
            let observe = Tables::These(in_thread.observed());
            Ok(Box::new(Hooked::reference(in_thread.program(), observe, true)) as Box<dyn Evaluator>)
        };
        let replay = Replay::open(self.folder.path()).unwrap();
        let (core, journal) = prepare(Box::new(evaluator), &self.rules, replay).unwrap();
        let (sender, events) = mpsc::channel(16);
        let conventions = self.rules.conventions().clone();
        let handle = self.runtime.handle().clone();
        let mut fleet = Fleet::new(conventions, Box::new(Idle), handle, sender, self.patience);
        fleet.start(core.addresses(), |node| core.given(node));
        let (engine, requests) = Engine::new();
        self.engine = engine;
        self.worker = Some(Worker::new(core, journal, fleet, requests, events));
    }

    fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().unwrap()
    }

    fn group(&mut self, input: Option<Input>) {
        let worker = self.worker();
        let effects = worker.group(input).unwrap();
        worker.commit(effects).unwrap();
    }

    fn event(&mut self, host: &str, event: Event) {
        let event = self.worker().fleet.event_of(host, event);
        self.group(Some(Input::Event(event)));
    }

    fn journal(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// From now on the journal can be written, or not.
    fn set_journal(&mut self, works: bool) {
        let (there, away) = (self.journal("journal.jsonl"), self.journal("journal.away"));
        match (works, there.exists()) {
            (true, false) => fs::rename(away, there).unwrap(),
            (false, true) => fs::rename(there, away).unwrap(),
            _ => {}
        }
    }

    /// Time passes, in which the controller looks as often as it wants to.
    fn pass(&mut self, time: Duration) {
        let worker = self.worker();
        worker.fleet.pass(time);
        worker.retry_at = worker.retry_at.map(|_| Instant::now());
        for _ in 0..20 {
            self.group(None);
        }
    }

    /// The flows of all hosts.
    fn flows(&mut self) -> BTreeMap<String, Vec<String>> {
        let flow = |(key, flow): (&FlowKey, &switch_model::Flow)| {
            format!("{} {:?} {:?}", key.table(), key.matching(), flow.actions())
        };
        let all = self.worker().core.all_desired();
        all.into_iter().map(|(host, desired)| (host, desired.flows.iter().map(flow).collect())).collect()
    }

    fn is_lost(&mut self, host: &str) -> bool {
        self.worker().core.is_lost(host)
    }
}

/// A host as it really is.
#[derive(Debug, Clone, Default)]
struct Real {
    is_up: bool,
    plugged: BTreeMap<usize, u16>,
    /// The ports whose interfaces have announced themselves.
    announced: Vec<usize>,
    /// Whether it may have told something that is not on disk.
    is_unsure: bool,
}

impl Real {
    fn report(&self) -> Report {
        let vif = |(port, ofport): (&usize, &u16)| {
            let vif = Vif { ofport: *ofport, mac: String::new(), interface: InterfaceId(*port as u128) };
            (PORTS[*port].to_owned(), vif)
        };
        let interfaces = self.plugged.keys();
        Report {
            vifs: self.plugged.iter().map(vif).collect(),
            interfaces: interfaces
                .map(|port| (PORTS[*port].to_owned(), InterfaceId(*port as u128)))
                .collect(),
            ..Report::default()
        }
    }

    fn tell(&self, world: &mut World, host: &str) {
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            world.event(host, Event::Connected { channel });
        }
        world.event(host, Event::Report(self.report()));
        for port in &self.announced {
            world.event(host, Event::Learned { table: 12, cookie: *port as u64 + 1, is_new: false });
        }
    }

    fn leave(world: &mut World, host: &str) {
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            world.event(host, Event::Disconnected { channel, why: "gone".to_owned() });
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Come(usize),
    Go(usize),
    Plug(usize, usize, u16),
    Unplug(usize, usize),
    Announce(usize, usize),
    Journal(bool),
    Restart,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (host, port) = (0..HOSTS.len(), 0..PORTS.len());
    prop_oneof![
        3 => host.clone().prop_map(Step::Come),
        3 => host.clone().prop_map(Step::Go),
        3 => (host.clone(), port.clone(), 1_u16..4).prop_map(|(host, port, ofport)| Step::Plug(host, port, ofport)),
        1 => (host.clone(), port.clone()).prop_map(|(host, port)| Step::Unplug(host, port)),
        3 => (host, port).prop_map(|(host, port)| Step::Announce(host, port)),
        3 => any::<bool>().prop_map(Step::Journal),
        1 => Just(Step::Restart),
        2 => (0_u64..40).prop_map(Step::Pass),
    ]
}

/// What happens to a controller and to its hosts.
struct Story {
    world: World,
    hosts: [Real; 3],
    works: bool,
}

impl Story {
    fn new() -> Story {
        let patience = Patience { most_lost: 100, ..Patience::default() };
        Story { world: World::new(patience), hosts: Default::default(), works: true }
    }

    fn run(&mut self, step: &Step) {
        let Story { world, hosts, works } = self;
        match *step {
            Step::Come(host) if !hosts[host].is_up => {
                hosts[host].is_up = true;
                hosts[host].tell(world, HOSTS[host]);
            }
            Step::Go(host) if hosts[host].is_up => {
                hosts[host].is_up = false;
                Real::leave(world, HOSTS[host]);
            }
            Step::Plug(host, port, ofport) if hosts[host].is_up => {
                hosts[host].plugged.insert(port, ofport);
                world.event(HOSTS[host], Event::Report(hosts[host].report()));
            }
            Step::Unplug(host, port) if hosts[host].is_up => {
                hosts[host].plugged.remove(&port);
                hosts[host].announced.retain(|announced| *announced != port);
                world.event(HOSTS[host], Event::Report(hosts[host].report()));
            }
            Step::Announce(host, port) if hosts[host].is_up && hosts[host].plugged.contains_key(&port) => {
                if !hosts[host].announced.contains(&port) {
                    hosts[host].announced.push(port);
                }
                let learned = Event::Learned { table: 12, cookie: port as u64 + 1, is_new: true };
                world.event(HOSTS[host], learned);
            }
            Step::Journal(now_works) => {
                world.set_journal(now_works);
                *works = now_works;
            }
            Step::Restart => {
                world.set_journal(true);
                world.start();
                for (real, host) in hosts.iter_mut().zip(HOSTS) {
                    if real.is_up {
                        real.tell(world, host);
                    } else {
                        // Nobody may know what it told last.
                        real.is_unsure |= !*works;
                    }
                }
                *works = true;
            }
            Step::Pass(seconds) => world.pass(Duration::from_secs(seconds)),
            _ => {}
        }
    }

    /// The journal works again, and much time passes.
    fn end(&mut self) -> BTreeMap<String, Vec<String>> {
        for (real, host) in self.hosts.iter().zip(HOSTS) {
            if real.is_unsure && !real.is_up {
                real.tell(&mut self.world, host);
                Real::leave(&mut self.world, host);
            }
        }
        self.world.set_journal(true);
        self.world.pass(Duration::from_mins(1));
        self.world.flows()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// D4, D5, D6: what was observed last is what counts, whatever the disk did meanwhile.
    #[test]
    fn d4_any_history_ends_where_a_fresh_start_with_the_same_observations_ends(
        history in prop::collection::vec(step(), 1..30),
    ) {
        let mut story = Story::new();
        for step in &history {
            story.run(step);
        }
        let found = story.end();
        let mut fresh = Story::new();
        fresh.hosts = story.hosts.clone();
        for (real, host) in fresh.hosts.iter().zip(HOSTS) {
            if !real.plugged.is_empty() || real.is_up {
                real.tell(&mut fresh.world, host);
            }
            if !real.is_up {
                Real::leave(&mut fresh.world, host);
            }
        }
        prop_assert_eq!(found, fresh.end());
    }
}

#[test]
fn d4_a_connection_that_breaks_while_the_disk_is_full_is_lost_all_the_same() {
    let mut story = Story::new();
    for host in 0..3 {
        story.run(&Step::Come(host));
    }
    for step in [Step::Journal(false), Step::Go(0), Step::Pass(11)] {
        story.run(&step);
    }
    assert!(!story.world.is_lost("hv1"), "nothing came onto the disk");
    story.run(&Step::Journal(true));
    story.run(&Step::Pass(0));
    assert!(story.world.is_lost("hv1"), "and nobody asked for anything");
    // Back while the disk is full.
    for step in [Step::Journal(false), Step::Come(0), Step::Pass(3), Step::Journal(true), Step::Pass(0)] {
        story.run(&step);
    }
    assert!(!story.world.is_lost("hv1"));
}

#[test]
fn d5_a_host_that_died_while_the_controller_was_down_is_lost_and_a_restart_alone_changes_nothing() {
    let mut story = Story::new();
    for step in [Step::Come(0), Step::Come(1), Step::Come(2), Step::Go(2), Step::Pass(11)] {
        story.run(&step);
    }
    assert!(story.world.is_lost("hv3"));
    let before = (story.world.flows(), story.world.worker().core.last_txn());
    story.hosts[1].is_up = false;
    story.run(&Step::Restart);
    story.run(&Step::Pass(29));
    assert_eq!((story.world.flows(), story.world.worker().core.last_txn()), before);
    story.run(&Step::Pass(2));
    assert_eq!(HOSTS.map(|host| story.world.is_lost(host)), [false, true, true]);
}

#[test]
fn d6_the_records_of_connections_can_be_left_out_as_a_whole() {
    let mut story = Story::new();
    for step in
        [Step::Come(0), Step::Come(1), Step::Plug(0, 0, 1), Step::Go(1), Step::Pass(61), Step::Come(1)]
    {
        story.run(&step);
    }
    story.run(&Step::Pass(3));
    story.run(&Step::Go(0));
    story.run(&Step::Pass(11));
    // The node goes, and what is known of it is forgotten.
    let (answer, _waiting) = oneshot::channel();
    let change = Change::Delete(vec![ObjectKey::new("transport_node", "hv3")]);
    let by = "test".into();
    story.world.group(Some(Input::Change(ChangeRequest {
        change,
        by,
        accepted: Instant::now(),
        gone: network::Cancel::default(),
        answer,
    })));
    story.world.group(None);
    story.world.worker = None;
    let records = || Replay::open(story.world.folder.path()).unwrap().map(Result::unwrap);
    let of_connections = |record: &crate::record::Record| {
        record.insert.contains_key("node_connection") || record.delete.contains_key("node_connection")
    };
    let observations: Vec<_> = records().filter(of_connections).collect();
    assert_eq!(observations.len(), 5, "hv2 and hv3 lost, hv2 back, hv1 lost, hv3 forgotten");
    let of_nothing_else = |record: &crate::record::Record| {
        let tables = record.insert.keys().chain(record.delete.keys());
        record.observation
            && record.objects.is_empty()
            && tables.into_iter().all(|table| &**table == "node_connection")
    };
    assert!(observations.iter().all(of_nothing_else), "{observations:#?}");
    let mut history = crate::core::History::new(&story.world.rules);
    for record in records().filter(|record| !record.observation) {
        history.add(&record).unwrap();
    }
    let rules = story.world.rules.clone();
    let observe = Tables::These(rules.observed());
    let evaluator = Box::new(Hooked::reference(rules.program(), observe, false));
    let (core, correction) = Core::restore(evaluator, rules, history, SystemTime::now()).unwrap();
    assert_eq!(correction, None);
    assert!(HOSTS.iter().all(|host| !core.is_lost(host)));
    assert_eq!(core.desired("hv1").flows.len(), 1);
}

#[test]
fn d6_a_controller_that_is_cut_off_says_so_and_changes_nothing() {
    let mut world = World::new(Patience::default());
    for host in HOSTS {
        Real::default().tell(&mut world, host);
    }
    let before = world.worker().core.last_txn();
    Real::leave(&mut world, "hv1");
    Real::leave(&mut world, "hv2");
    world.pass(Duration::from_secs(11));
    let status = |world: &mut World| world.worker().requests.status.read(&BTreeSet::new());
    let cut_off = status(&mut world);
    assert_eq!(cut_off.last_txn, before);
    assert_eq!((&*cut_off.problems[0].code, cut_off.problems.len()), ("cut-off", 1));
    Real::default().tell(&mut world, "hv1");
    world.pass(Duration::from_secs(1));
    assert_eq!(status(&mut world).problems, []);
    assert!(!world.is_lost("hv2"));
    world.pass(Duration::from_secs(31));
    assert!(world.is_lost("hv2"));
}

/// What is logged at `warn` and above while a function runs.
fn warnings(run: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
    tracing::subscriber::with_default(log.with_writer(move || writer.clone()).finish(), run);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn d10_a_normal_start_writes_no_warning_and_a_fault_that_lasts_one() {
    let mut world = World::new(Patience::default());
    let away = |world: &mut World, host: &str| {
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            world.event(host, Event::Disconnected { channel, why: "no such file".to_owned() });
        }
    };
    let problem =
        switch_model::Problem { what: "weft-geneve".to_owned(), why: "no port number yet".to_owned() };
    let faulty = Report { problems: vec![problem], ..Report::default() };
    let start = warnings(|| {
        for host in HOSTS {
            away(&mut world, host);
            world.event(host, Event::Report(faulty.clone()));
        }
        world.pass(Duration::from_millis(1500));
        for host in HOSTS {
            Real::default().tell(&mut world, host);
        }
        world.pass(Duration::from_secs(5));
    });
    assert_eq!(start, "");
    let fault = warnings(|| {
        away(&mut world, "hv2");
        world.event("hv3", Event::Report(faulty));
        world.pass(Duration::from_millis(1500));
        world.pass(Duration::from_secs(1));
        world.pass(Duration::from_secs(1));
    });
    let lines: Vec<&str> = fault.lines().collect();
    assert_eq!(lines.len(), 3, "{fault}");
    let disconnected = lines.iter().filter(|line| line.contains("switch disconnected switch=\"hv2\""));
    assert_eq!(disconnected.count(), 2, "{fault}");
    assert!(lines.iter().any(|line| line.contains("weft-geneve: no port number yet")), "{fault}");
}

#[test]
fn d20_what_no_object_has_never_reaches_the_engine_and_comes_with_its_object() {
    let mut world = World::new(Patience::default());
    let mut report = Report::default();
    for number in 0..5000_u32 {
        let port = if number == 0 { "p3".to_owned() } else { format!("unknown-{number}") };
        let interface = InterfaceId(number.into());
        report.vifs.insert(port.clone(), Vif { ofport: 7, mac: String::new(), interface });
        report.interfaces.insert((port, interface));
    }
    let before = world.worker().core.last_txn();
    world.event("hv1", Event::Report(report.clone()));
    world.event("hv2", Event::Report(report));
    assert_eq!((world.worker().core.last_txn(), world.worker().core.vif_count("hv1")), (before, 0));
    assert!(world.worker().core.unclaimed("hv1").any(|port| port == "p3"));
    let status = world.worker().requests.status.read(&BTreeSet::new());
    // The first ids are named, and of all there is a number.
    let strays = &status.switches[0].strays;
    assert_eq!((strays.count, strays.first.len()), (5000, 5));
    let error = &status.switches[0].last_error;
    assert!(error.contains("5000 interfaces with ids that no object has; 1024 are kept"), "{error}");

    // One transaction has the object and its interfaces, if it comes onto the disk.
    let port = "{kind: switch_port, id: p3, number: 3}";
    world.set_journal(false);
    world.apply(port).unwrap_err();
    assert_eq!((world.worker().core.vif_count("hv1"), world.flows().len()), (0, 0));
    world.set_journal(true);
    assert_eq!(world.apply(port).unwrap().txn, Some(before + 1));
    assert_eq!((world.worker().core.vif_count("hv1"), world.flows().len()), (1, 2));
    let flows = world.flows();
    world.start();
    assert_eq!(world.flows(), flows, "the journal has them");
    // The status counts an interface whose object changes no flow of its host.
    let mut report = Report::default();
    report.vifs.insert("q".to_owned(), Vif { ofport: 8, mac: String::new(), interface: InterfaceId(8) });
    report.interfaces.insert(("q".to_owned(), InterfaceId(8)));
    world.event("hv3", Event::Report(report));
    world.apply("{kind: quiet_port, id: q}").unwrap();
    let vifs = world.worker().requests.status.read(&BTreeSet::new()).switches[2].vifs;
    assert_eq!((vifs, world.worker().core.vif_count("hv3")), (1, 1));
    // A host whose node becomes another one has reported nothing.
    let moved =
        "{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:/9/db', openflow: 'unix:/9/of'}";
    let mut report = Report::default();
    report.vifs.insert("p4".to_owned(), Vif { ofport: 7, mac: String::new(), interface: InterfaceId(4) });
    report.interfaces.insert(("p4".to_owned(), InterfaceId(4)));
    world.event("hv1", Event::Report(report));
    world.apply(moved).unwrap();
    world.apply("{kind: switch_port, id: p4, number: 4}").unwrap();
    assert_eq!(world.worker().core.vif_count("hv1"), 0);
}

#[test]
fn d20_an_interface_of_no_object_is_told_with_the_object_that_may_be_meant() {
    let mut world = World::new(Patience::default());
    let mut report = Report::default();
    for (number, port) in ["p11", "something-else"].into_iter().enumerate() {
        let interface = InterfaceId(number as u128);
        report.vifs.insert(port.to_owned(), Vif { ofport: 7, mac: String::new(), interface });
        report.interfaces.insert((port.to_owned(), interface));
    }
    world.event("hv1", Event::Report(report));
    let status = world.worker().requests.status.read(&BTreeSet::new());
    let strays = &status.switches[0].strays;
    let near = |id: &str| Some(network::ObjectKey::new("switch_port", id));
    let first = [("p11".to_owned(), near("p1")), ("something-else".to_owned(), None)];
    assert_eq!((strays.count, &strays.first[..]), (2, &first[..]));
}

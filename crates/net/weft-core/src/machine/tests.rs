//! A controller whose journal fails on demand, with hosts that come and go.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::time::SystemTime;

use proptest::prelude::*;
use switch_model::{Channel, Conflict, Event as SwitchEvent, InterfaceId, Report, Vif};

mod on_terms;
mod other_endpoints;
mod probed;
mod published;
mod revisions;
mod standing;
mod world;

use super::*;
use crate::record::Record;
use crate::status::Ongoing;
use world::{HOSTS, NETWORK, PORTS, World};

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
            world.event(host, SwitchEvent::Connected { channel });
        }
        world.event(host, SwitchEvent::Report(self.report()));
        for port in &self.announced {
            world.event(host, SwitchEvent::Learned { table: 12, cookie: *port as u64 + 1, is_new: false });
        }
    }

    fn leave(world: &mut World, host: &str) {
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            world.event(host, SwitchEvent::Disconnected { channel, why: "gone".to_owned() });
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Come(usize),
    Go(usize),
    Plug(usize, usize, u16),
    /// The same, together with what the next step tells.
    PlugToo(usize, usize, u16),
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
        3 => (host.clone(), port.clone(), 1_u16..4).prop_map(|(host, port, ofport)| Step::PlugToo(host, port, ofport)),
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
        Story::at(Now { instant: Instant::now(), wall: SystemTime::now() })
    }

    fn at(now: Now) -> Story {
        let patience = Patience { most_lost: 100, ..Patience::default() };
        Story { world: World::at(now, patience), hosts: Default::default(), works: true }
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
                world.event(HOSTS[host], SwitchEvent::Report(hosts[host].report()));
            }
            Step::PlugToo(host, port, ofport) if hosts[host].is_up => {
                hosts[host].plugged.insert(port, ofport);
                world.tell(HOSTS[host], SwitchEvent::Report(hosts[host].report()));
            }
            Step::Unplug(host, port) if hosts[host].is_up => {
                hosts[host].plugged.remove(&port);
                hosts[host].announced.retain(|announced| *announced != port);
                world.event(HOSTS[host], SwitchEvent::Report(hosts[host].report()));
            }
            Step::Announce(host, port) if hosts[host].is_up && hosts[host].plugged.contains_key(&port) => {
                if !hosts[host].announced.contains(&port) {
                    hosts[host].announced.push(port);
                }
                let learned = SwitchEvent::Learned { table: 12, cookie: port as u64 + 1, is_new: true };
                world.event(HOSTS[host], learned);
            }
            Step::Journal(now_works) => {
                world.works = now_works;
                *works = now_works;
            }
            Step::Restart => {
                world.works = true;
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
        self.world.works = true;
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

/// Hosts that are up, with ports that they report by turns without a look of the controller at any of them.
fn told_together(ports: &[(usize, &[usize])]) -> Story {
    let mut story = Story::new();
    for host in 0..3 {
        story.run(&Step::Come(host));
    }
    for (host, ports) in ports {
        for port in *ports {
            story.run(&Step::PlugToo(*host, *port, *port as u16 + 1));
        }
    }
    story
}

#[test]
fn reports_that_come_together_become_one_transaction_and_are_undone_together() {
    let mut story = told_together(&[(0, &[0]), (1, &[1]), (2, &[])]);
    let before = story.world.records.len();
    story.run(&Step::Journal(false));
    story.world.group(None);
    assert_eq!(story.world.flows(), BTreeMap::new());
    story.run(&Step::Journal(true));
    story.run(&Step::Pass(3));
    let by: Vec<&str> = story.world.records[before..].iter().map(|record| &*record.by).collect();
    assert_eq!(by, ["switches hv1, hv2"]);
    assert_eq!(["hv1", "hv2"].map(|host| story.world.flows()[host].len()), [1, 1]);
    let switches = story.world.status().switches;
    assert!(switches.iter().all(|switch| switch.last_error.is_empty()), "{switches:?}");
}

#[test]
fn reports_that_claim_one_port_keep_their_order() {
    let mut story = told_together(&[(0, &[0]), (1, &[0])]);
    let before = story.world.records.len();
    story.world.group(None);
    let since = |record: &Record| record.insert["vif"][0][4].as_u64().unwrap();
    let records = &story.world.records[before..];
    let claims: Vec<_> = records.iter().map(|record| (&*record.by, since(record))).collect();
    let first = claims[0].1;
    assert_eq!(claims, [("switch hv1", first), ("switch hv2", first + 1)]);
}

#[test]
fn a_report_that_the_rules_refuse_takes_no_other_with_it() {
    let mut story = told_together(&[]);
    // Two ports of one host with this number have one flow with different actions.
    story.world.apply("{kind: switch_port, id: p2, number: 1}").unwrap();
    for (host, ports) in [(0, &[0, 1][..]), (1, &[0][..]), (2, &[][..])] {
        for port in ports {
            story.run(&Step::PlugToo(host, *port, *port as u16 + 1));
        }
    }
    story.world.group(None);
    story.run(&Step::Pass(1));
    assert_eq!(["hv1", "hv2"].map(|host| story.world.flows()[host].len()), [1, 1]);
    let errors: Vec<String> =
        story.world.status().switches.iter().map(|switch| switch.last_error.clone()).collect();
    assert!(errors[0].starts_with("report refused"), "{errors:?}");
    assert_eq!(errors[1..], ["", ""]);
}

#[test]
fn a_switch_that_is_suspect_is_computed_alone() {
    let mut story = told_together(&[(0, &[0]), (1, &[1])]);
    let now = story.world.now;
    let mut machine = story.world.machine.take().unwrap();
    machine.step(now, Event::Look { heard_all: true }).unwrap();
    let mut tasks = Vec::new();
    while let Some(task) = machine.next_task(now, &|node| node == "hv2") {
        tasks.push(task.nodes().map(str::to_owned).collect::<Vec<_>>());
        machine.step(now, Event::Task(task)).unwrap();
    }
    tasks.retain(|nodes| !nodes.is_empty());
    assert_eq!(tasks, [["hv1"], ["hv2"]]);
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
    let before = (story.world.flows(), story.world.machine().core.last_txn());
    story.hosts[1].is_up = false;
    story.run(&Step::Restart);
    story.run(&Step::Pass(29));
    assert_eq!((story.world.flows(), story.world.machine().core.last_txn()), before);
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
    story.world.request(Change::Delete(vec![ObjectKey::new("transport_node", "hv3").into()])).unwrap();
    story.world.group(None);
    let of_connections = |record: &&Record| {
        record.insert.contains_key("node_connection") || record.delete.contains_key("node_connection")
    };
    let observations: Vec<_> = story.world.records.iter().filter(of_connections).collect();
    assert_eq!(observations.len(), 5, "hv2 and hv3 lost, hv2 back, hv1 lost, hv3 forgotten");
    let of_nothing_else = |record: &&Record| {
        let tables = record.insert.keys().chain(record.delete.keys());
        record.observation
            && record.objects.is_empty()
            && tables.into_iter().all(|table| &**table == "node_connection")
    };
    assert!(observations.iter().all(of_nothing_else), "{observations:#?}");
    let core = story.world.restored(|record| !record.observation);
    assert!(HOSTS.iter().all(|host| !core.is_lost(host)));
    assert_eq!(core.desired("hv1").flows.len(), 1);
}

#[test]
fn d6_a_controller_that_is_cut_off_says_so_and_changes_nothing() {
    let mut world = World::new(Patience::default());
    for host in HOSTS {
        Real::default().tell(&mut world, host);
    }
    let before = world.machine().core.last_txn();
    Real::leave(&mut world, "hv1");
    Real::leave(&mut world, "hv2");
    world.pass(Duration::from_secs(11));
    let cut_off = world.status();
    assert_eq!(cut_off.last_txn, before);
    assert_eq!((&*cut_off.problems[0].problem.code, cut_off.problems.len()), ("cut-off", 1));
    Real::default().tell(&mut world, "hv1");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.status().problems, []);
    assert!(!world.is_lost("hv2"));
    world.pass(Duration::from_secs(31));
    assert!(world.is_lost("hv2"));
}

#[test]
fn d5_a_start_that_takes_longer_than_a_host_has_changes_nothing() {
    let mut world = World::new(Patience { most_lost: 100, ..Patience::default() });
    for host in ["hv1", "hv2"] {
        world.pass(Duration::from_secs(29));
        Real::default().tell(&mut world, host);
    }
    world.pass(Duration::from_secs(29));
    assert!(!world.is_lost("hv3"), "the others have just come in");
    world.pass(Duration::from_secs(1));
    assert!(world.is_lost("hv3"));
}

#[test]
fn d6_no_connection_is_judged_while_news_of_switches_waits() {
    let mut world = World::new(Patience { most_lost: 100, ..Patience::default() });
    for host in HOSTS {
        Real::default().tell(&mut world, host);
    }
    Real::leave(&mut world, "hv1");
    for _ in 0..60 {
        world.now.instant += Duration::from_secs(1);
        world.group_before(None, false);
    }
    assert!(!world.is_lost("hv1"), "the news that waits may say that it is back");
    world.pass(Duration::from_secs(1));
    assert!(world.is_lost("hv1"));
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
            world.event(host, SwitchEvent::Disconnected { channel, why: "no such file".to_owned() });
        }
    };
    let problem =
        switch_model::Problem { what: "weft-geneve".to_owned(), why: "no port number yet".to_owned() };
    let faulty = Report { problems: vec![problem], ..Report::default() };
    let start = warnings(|| {
        for host in HOSTS {
            away(&mut world, host);
            world.event(host, SwitchEvent::Report(faulty.clone()));
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
        world.event("hv3", SwitchEvent::Report(faulty));
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
    let before = world.machine().core.last_txn();
    world.event("hv1", SwitchEvent::Report(report.clone()));
    world.event("hv2", SwitchEvent::Report(report));
    assert_eq!((world.machine().core.last_txn(), world.machine().core.vif_count("hv1")), (before, 0));
    assert!(world.machine().core.unclaimed("hv1").any(|port| port == "p3"));
    let status = world.status();
    // The first ids are named, and of all there is a number.
    let strays = &status.switches[0].strays;
    assert_eq!((strays.count, strays.first.len()), (5000, 5));
    let error = &status.switches[0].last_error;
    assert!(error.contains("5000 interfaces with ids that no object has; 1024 are kept"), "{error}");

    // One transaction has the object and its interfaces, if it comes onto the disk.
    let port = "{kind: switch_port, id: p3, number: 3}";
    world.works = false;
    world.apply(port).unwrap_err();
    assert_eq!((world.machine().core.vif_count("hv1"), world.flows().len()), (0, 0));
    world.works = true;
    assert_eq!(world.apply(port).unwrap().txn, Some(before + 1));
    assert_eq!((world.machine().core.vif_count("hv1"), world.flows().len()), (1, 2));
    let flows = world.flows();
    world.start();
    assert_eq!(world.flows(), flows, "the journal has them");
    // The status counts an interface whose object changes no flow of its host.
    let mut report = Report::default();
    report.vifs.insert("q".to_owned(), Vif { ofport: 8, mac: String::new(), interface: InterfaceId(8) });
    report.interfaces.insert(("q".to_owned(), InterfaceId(8)));
    world.event("hv3", SwitchEvent::Report(report));
    world.apply("{kind: quiet_port, id: q}").unwrap();
    let vifs = world.status().switches[2].vifs;
    assert_eq!((vifs, world.machine().core.vif_count("hv3")), (1, 1));
    // What is known of a host whose node gets other endpoints holds until its switch reports.
    let moved =
        "{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:/9/db', openflow: 'unix:/9/of'}";
    let mut report = Report::default();
    report.vifs.insert("p4".to_owned(), Vif { ofport: 7, mac: String::new(), interface: InterfaceId(4) });
    report.interfaces.insert(("p4".to_owned(), InterfaceId(4)));
    world.event("hv1", SwitchEvent::Report(report));
    world.apply(moved).unwrap();
    world.apply("{kind: switch_port, id: p4, number: 4}").unwrap();
    assert_eq!(world.machine().core.vif_count("hv1"), 1);
    world.event("hv1", SwitchEvent::Report(Report::default()));
    assert_eq!(world.machine().core.vif_count("hv1"), 0);
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
    world.event("hv1", SwitchEvent::Report(report));
    let status = world.status();
    let strays = &status.switches[0].strays;
    let near = |id: &str| Some(objects::ObjectKey::new("switch_port", id));
    let first = [("p11".to_owned(), near("p1")), ("something-else".to_owned(), None)];
    assert_eq!((strays.count, &strays.first[..]), (2, &first[..]));
    let unattached = |world: &mut World, id: &str| {
        let (seen, _) = world.published.object("switch_port", id).unwrap();
        seen.state().get("unattached").and_then(|why| why.as_str().map(str::to_owned))
    };
    // The port says so too.
    let said = unattached(&mut world, "p1");
    assert_eq!(said.as_deref(), Some("it has none; hv1 has one with `p11`, which no object has"));
    assert_eq!(unattached(&mut world, "p2").as_deref(), Some("it has none"));

    // A port that has an interface is not meant.
    let mut report = Report::default();
    for (number, port) in ["p11", "p1"].into_iter().enumerate() {
        let interface = InterfaceId(number as u128);
        report.vifs.insert(port.to_owned(), Vif { ofport: 7, mac: String::new(), interface });
        report.interfaces.insert((port.to_owned(), interface));
    }
    world.event("hv1", SwitchEvent::Report(report));
    assert_eq!(unattached(&mut world, "p1"), None);
    assert_eq!(world.status().switches[0].strays.first, [("p11".to_owned(), None)]);
}

#[test]
fn the_interface_of_a_deleted_object_is_told_until_its_host_unplugs_it_or_the_object_comes_again() {
    let mut world = World::new(Patience::default());
    let mut report = Report::default();
    for (number, port) in ["p1", "p2"].into_iter().enumerate() {
        let interface = InterfaceId(number as u128);
        report.vifs.insert(port.to_owned(), Vif { ofport: 7, mac: String::new(), interface });
        report.interfaces.insert((port.to_owned(), interface));
    }
    world.event("hv1", SwitchEvent::Report(report.clone()));
    let strays = |world: &World| {
        let first = world.status().switches[0].strays.first.clone();
        first.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(strays(&world), [""; 0]);
    // A deletion that does not come onto the disk leaves nothing behind.
    let delete = "{kind: switch_port, id: p1, delete: true}";
    world.works = false;
    world.apply(delete).unwrap_err();
    world.works = true;
    world.pass(Duration::from_secs(1));
    assert_eq!(strays(&world), [""; 0]);
    world.apply(delete).unwrap();
    assert_eq!(strays(&world), ["p1"]);
    world.apply("{kind: switch_port, id: p1, number: 1}").unwrap();
    assert_eq!(strays(&world), [""; 0]);
    world.apply(delete).unwrap();
    // The next report says the same once, and the one after that has it no more.
    world.event("hv1", SwitchEvent::Report(report.clone()));
    assert_eq!(strays(&world), ["p1"]);
    report.vifs.remove("p1");
    report.interfaces.retain(|(port, _)| port != "p1");
    world.event("hv1", SwitchEvent::Report(report));
    assert_eq!(strays(&world), [""; 0]);
}

#[test]
fn an_interface_that_the_switch_cannot_open_is_a_problem_of_its_port_whichever_comes_first() {
    let mut world = World::new(Patience::default());
    let mut report = Report::default();
    for port in ["p1", "p3"] {
        report.unopened.insert(port.to_owned(), (format!("tap-{port}"), ": no such device".to_owned()));
        report.interfaces.insert((port.to_owned(), InterfaceId(1)));
    }
    world.event("hv1", SwitchEvent::Report(report));
    let problems = |world: &mut World| -> Vec<String> {
        world.status().problems.iter().map(|now| format!("{} {}", now.problem.id, now.problem.text)).collect()
    };
    assert_eq!(problems(&mut world), ["p1 tap-p1: no such device"]);
    world.apply("{kind: switch_port, id: p3, number: 3}").unwrap();
    let both = ["p1 tap-p1: no such device", "p3 tap-p3: no such device"];
    assert_eq!(problems(&mut world), both);
    world.start();
    assert_eq!(problems(&mut world), both, "the journal has them");
    world.event("hv1", SwitchEvent::Report(Report::default()));
    assert_eq!(problems(&mut world), [""; 0]);
}

#[test]
fn address_conflicts_are_rows_until_the_switch_has_none_of_them_whatever_else_it_reports() {
    let mut world = World::new(Patience::default());
    let conflict = |label, address: &str| Conflict { label, address: address.parse().unwrap() };
    let report = |conflicts: &[Conflict]| {
        let conflicts = Some(Arc::new(conflicts.iter().copied().collect()));
        SwitchEvent::Report(Report { conflicts, ..Report::default() })
    };
    let problems = |world: &mut World| -> Vec<String> {
        world.status().problems.iter().map(|now| now.problem.text.clone()).collect()
    };
    world.event(
        "hv1",
        report(&[conflict(258, "10.0.0.2"), conflict(257, "fd00::1"), conflict(257, "10.0.0.1")]),
    );
    let three = ["257 10.0.0.1", "257 fd00::1", "258 10.0.0.2"];
    assert_eq!(problems(&mut world), three);
    world.start();
    assert_eq!(problems(&mut world), three, "the journal has them");
    world.event("hv1", SwitchEvent::Report(Report::default()));
    assert_eq!(problems(&mut world), three, "the flows of the switch were not read yet");
    world.event("hv1", report(&[conflict(257, "10.0.0.9")]));
    assert_eq!(problems(&mut world), ["257 10.0.0.9"]);
    world.start();
    assert_eq!(problems(&mut world), ["257 10.0.0.9"]);
    world.event("hv1", report(&[]));
    assert_eq!(problems(&mut world), [""; 0]);
}

#[test]
fn a_problem_says_since_when_there_is_one_whatever_its_text_says_meanwhile() {
    let mut world = World::new(Patience::default());
    let begun = world.now.wall;
    let report = |why: &str| {
        let mut report = Report::default();
        report.unopened.insert("p1".to_owned(), ("tap-p1".to_owned(), format!(": {why}")));
        report.interfaces.insert(("p1".to_owned(), InterfaceId(1)));
        SwitchEvent::Report(report)
    };
    let problems = |world: &World| -> Vec<_> {
        let told =
            |now: &Ongoing| (now.problem.text.clone(), now.since.duration_since(begun).unwrap().as_secs());
        world.status().problems.iter().map(told).collect()
    };
    let moment = Duration::from_secs(2);
    world.pass(moment);
    world.event("hv1", report("no such device"));
    assert_eq!(problems(&world), [("tap-p1: no such device".to_owned(), 2)]);
    world.pass(moment);
    world.event("hv1", report("it is busy"));
    assert_eq!(problems(&world), [("tap-p1: it is busy".to_owned(), 2)]);
    world.event("hv1", SwitchEvent::Report(Report::default()));
    assert_eq!(problems(&world), []);
    world.pass(moment);
    world.event("hv1", report("it is busy"));
    assert_eq!(problems(&world), [("tap-p1: it is busy".to_owned(), 6)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    /// Maps with random seeds, or a clock that somebody reads, would show.
    #[test]
    fn the_same_events_at_the_same_times_have_the_same_effects(history in prop::collection::vec(step(), 1..30)) {
        let now = Now { instant: Instant::now(), wall: SystemTime::UNIX_EPOCH };
        let run = || {
            let mut story = Story::at(now);
            for step in &history {
                story.run(step);
            }
            (story.end(), story.world.records, story.world.orders)
        };
        prop_assert_eq!(run(), run());
    }
}

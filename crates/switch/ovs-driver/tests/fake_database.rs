//! The driver against a fake switch with a fake database: whole sessions, and everything that a database rarely does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::support::driven::Driven;
use crate::support::flows::{TUNNEL_OPTION, flows};
use fake_switch::database::{Fault, Stage};
use fake_switch::{FakeDatabase, FakeSwitch, openflow as switch};
use ovs_driver::{
    Changes, Channel, Config, Desired, Edits, Encap, Event, InMemoryNetwork, Patch, Remote, Report, Timing,
    Tunnel,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

struct Setting {
    network: InMemoryNetwork,
    switch: FakeSwitch,
    database: FakeDatabase,
}

impl Setting {
    fn new() -> Setting {
        let network = InMemoryNetwork::default();
        let switch = FakeSwitch::start_in_memory(&network, config().openflow);
        let database = FakeDatabase::start_in_memory(&network, config().ovsdb);
        database.datapath_id("br-int", FakeSwitch::DATAPATH_ID);
        Setting { network, switch, database }
    }

    fn drive(&self) -> Driven {
        Driven::start_on(Arc::new(self.network.clone()), config(), Timing::default())
    }
}

pub(crate) fn config() -> Config {
    Config {
        name: "fake".to_owned(),
        ovsdb: "unix:db.sock".parse().unwrap(),
        openflow: "unix:br-int.mgmt".parse().unwrap(),
        bridge: "br-int".to_owned(),
        datapath_type: None,
        datapath_id: None,
        tunnel_option: Some(TUNNEL_OPTION),
        learned_tables: BTreeSet::new(),
        watched_tables: BTreeSet::new(),
        conflict_tables: BTreeSet::new(),
        learned_limit: None,
        owner: None,
    }
}

fn geneve() -> BTreeMap<String, Tunnel> {
    [("gnv".to_owned(), Tunnel { encap: Encap::Geneve, remote: Remote::Flow })].into()
}

fn adding(texts: &[&str]) -> Changes {
    Changes { flows: Edits::add(flows(texts)), ..Changes::default() }
}

fn report(event: &Event) -> Option<Report> {
    match event {
        Event::Report(report) => Some(report.clone()),
        _ => None,
    }
}

fn desired() -> Arc<Desired> {
    let texts = ["table=1, actions=output:1", "table=2, actions=output:2"];
    Arc::new(Desired { flows: flows(&texts), tunnels: geneve(), ..Desired::default() })
}

#[tokio::test(start_paused = true)]
async fn a_whole_session_from_an_empty_switch_to_one_in_sync() {
    let setting = Setting::new();
    setting.database.add_bridge("br-phy").unwrap();
    let mut driven = setting.drive();
    driven.handle.set_desired(desired());
    assert_eq!(driven.synced().await, (2, 1));
    let bridge = setting.database.bridges().remove("br-int").unwrap();
    assert_eq!((bridge.fail_mode.as_deref(), bridge.datapath_type.as_str()), (Some("secure"), "system"));
    let tunnel = setting.database.interfaces().remove("gnv").unwrap();
    assert_eq!((tunnel.interface_type.as_str(), tunnel.ofport), ("geneve", Some(1)));

    // A virtual machine comes and goes.
    assert_eq!(
        setting.database.plug("br-int", "tap7", &[("iface-id", "web"), ("attached-mac", "02::7")]),
        Ok(true)
    );
    let plugged = |event: &Event| report(event)?.vifs.get("web").cloned();
    let vif = driven.wait("the interface", plugged).await;
    assert_eq!((vif.ofport, vif.mac.as_str()), (2, "02::7"));
    setting.database.unplug("tap7").unwrap();
    driven.wait("its end", |event| report(event)?.vifs.is_empty().then_some(())).await;

    // A patch to another bridge, and the end of both ports.
    let patch = Patch { bridge: "br-phy".to_owned(), peer: "from-int".to_owned() };
    let changes = Changes {
        patches: Edits::add([("to-phy".to_owned(), patch)]),
        ..adding(&["table=3, actions=output:3"])
    };
    driven.handle.push(1, changes);
    driven.confirmed(1).await;
    assert!(setting.database.interfaces().contains_key("from-int"));
    let changes = Changes {
        tunnels: Edits::delete(["gnv".to_owned()]),
        patches: Edits::delete(["to-phy".to_owned()]),
        ..Changes::default()
    };
    driven.handle.push(2, changes);
    driven.confirmed(2).await;
    let names: Vec<String> = setting.database.interfaces().into_keys().collect();
    assert_eq!(names, ["br-int", "br-phy"]);

    // The same again changes nothing.
    let writes = setting.database.counts().writes;
    setting.database.disconnect();
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!(setting.database.counts().writes, writes);
}

#[tokio::test(start_paused = true)]
async fn ports_that_the_switch_refuses_are_told_and_come_when_it_does_not() {
    let setting = Setting::new();
    setting.database.refuse(|interface| (interface.name == "gnv").then(|| "no such device".to_owned()));
    let mut driven = setting.drive();
    driven.handle.set_desired(desired());
    let refused = driven
        .wait("the refusal", |event| match event {
            Event::Refused { first, .. } => Some(first[0].to_string()),
            _ => None,
        })
        .await;
    assert!(refused.contains("gnv") && refused.contains("no such device"), "{refused}");
    setting.database.refuse(|_| None);
    let ofport = |event: &Event| report(event)?.tunnels.get("gnv").copied();
    assert_eq!(driven.wait("the port", ofport).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_nobody_takes_up_is_waited_for_and_told() {
    let setting = Setting::new();
    let mut driven = setting.drive();
    driven.handle.set_desired(Arc::default());
    driven.synced().await;
    setting.database.vswitchd(false);
    driven.handle.push(1, Changes { tunnels: Edits::add(geneve()), ..Changes::default() });
    let began = Instant::now();
    let transactions = setting.database.counts().transactions;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(setting.database.counts().transactions - transactions < 10, "the server waits, not the driver");
    setting.database.vswitchd(true);
    driven.confirmed(1).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// The time after which a switch or a database that is stopped is given up at the latest.
const FROZEN_MAX: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_frozen_switch_is_given_up_within_ten_seconds_whatever_is_in_flight() {
    for flows in [0, 1, 100_000] {
        let setting = Setting::new();
        let mut driven = setting.drive();
        driven.handle.set_desired(desired());
        driven.synced().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        setting.switch.freeze();
        let began = Instant::now();
        let texts = (0..flows).map(|n| format!("table=3, reg0={n}, actions=output:1"));
        let texts: Vec<String> = texts.collect();
        let changed = Edits::add(self::flows(&texts));
        if flows > 0 {
            driven.handle.push(1, Changes { flows: changed, ..Changes::default() });
        }
        let why = driven.disconnected(Channel::OpenFlow).await;
        let after = began.elapsed();
        assert!(after <= FROZEN_MAX, "{flows} flows: after {after:?}: {why}");
        assert!(why.contains("did not answer an echo request") || why.contains("took none of"), "{why}");
        // A database that is well stays connected.
        assert!(
            !driven
                .seen
                .iter()
                .any(|event| matches!(event, Event::Disconnected { channel: Channel::Ovsdb, .. }))
        );
        setting.switch.thaw();
        driven.synced().await;
        assert_eq!(setting.switch.flows().len(), 2 + flows);
    }
}

/// Reading all flows of the switch is a request too.
#[tokio::test(start_paused = true)]
async fn a_switch_that_freezes_while_it_is_read_is_given_up_within_ten_seconds() {
    for stage in [switch::Stage::Options, switch::Stage::Groups, switch::Stage::Meters, switch::Stage::Dump] {
        let setting = Setting::new();
        setting.switch.fault(stage, switch::Fault::Stall);
        let mut driven = setting.drive();
        driven.handle.set_desired(desired());
        let connected =
            |event: &Event| matches!(event, Event::Connected { channel: Channel::OpenFlow }).then_some(());
        driven.wait("a connection", connected).await;
        let began = Instant::now();
        let why = driven.disconnected(Channel::OpenFlow).await;
        assert!(began.elapsed() <= FROZEN_MAX, "{stage:?}: after {:?}: {why}", began.elapsed());
        driven.synced().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_database_is_given_up_within_ten_seconds_whatever_is_in_flight() {
    for changes in
        [Changes::default(), Changes { tunnels: Edits::delete(["gnv".to_owned()]), ..Changes::default() }]
    {
        let setting = Setting::new();
        let mut driven = setting.drive();
        driven.handle.set_desired(desired());
        driven.synced().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        setting.database.freeze();
        let began = Instant::now();
        driven.handle.push(1, changes);
        let why = driven.disconnected(Channel::Ovsdb).await;
        assert!(began.elapsed() <= FROZEN_MAX, "after {:?}: {why}", began.elapsed());
        assert!(why.contains("did not answer an echo request"), "{why}");
        setting.database.thaw();
        driven.confirmed(1).await;
    }
}

/// A switch answers nothing while it commits a large bundle, or is not scheduled by a busy machine.
#[tokio::test(start_paused = true)]
async fn a_switch_that_is_busy_for_nine_seconds_stays_connected() {
    let setting = Setting::new();
    let mut driven = setting.drive();
    driven.handle.set_desired(desired());
    driven.synced().await;
    for txn in 1..=3 {
        setting.switch.freeze();
        setting.database.freeze();
        driven.handle.push(txn, adding(&[&format!("table=3, priority={txn}, actions=output:1")]));
        tokio::time::sleep(Duration::from_secs(9)).await;
        setting.switch.thaw();
        setting.database.thaw();
        driven.confirmed(txn).await;
    }
    assert!(
        !driven.seen.iter().any(|event| matches!(event, Event::Disconnected { .. })),
        "{:#?}",
        driven.seen
    );
}

/// The switch takes 256 bytes at a time, and answers nothing before it has all: bytes that it takes show that it lives.
#[tokio::test(start_paused = true)]
async fn a_switch_that_takes_a_bundle_slowly_stays_connected() {
    let setting = Setting::new();
    let mut driven = setting.drive();
    driven.handle.set_desired(Arc::default());
    driven.synced().await;
    setting.switch.slow(Duration::from_secs(1), 16 << 10);
    let texts: Vec<String> = (0..10_000).map(|n| format!("table=3, reg0={n}, actions=output:1")).collect();
    let began = Instant::now();
    driven.handle.push(1, Changes { flows: Edits::add(flows(&texts)), ..Changes::default() });
    driven.confirmed(1).await;
    assert!(began.elapsed() > Duration::from_secs(30), "the bundle was too small: {:?}", began.elapsed());
    assert!(
        !driven.seen.iter().any(|event| matches!(event, Event::Disconnected { .. })),
        "{:#?}",
        driven.seen
    );
}

#[tokio::test(start_paused = true)]
async fn d30_a_request_that_a_living_switch_ignores_ends_the_connection() {
    let setting = Setting::new();
    let mut driven = setting.drive();
    driven.handle.set_desired(desired());
    driven.synced().await;
    setting.switch.fault(switch::Stage::Commit, switch::Fault::Ignore);
    let began = Instant::now();
    driven.handle.push(1, adding(&["table=3, actions=output:1"]));
    let why = driven.disconnected(Channel::OpenFlow).await;
    let says = "has answered an echo request that was sent after the commit of a bundle, but not the commit of a bundle: the \
                answer is lost on the way";
    assert!(why.contains(says), "{why}");
    driven.confirmed(1).await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

/// Two hosts whose OpenFlow endpoints are exchanged: nothing is sent to any of the four.
#[tokio::test(start_paused = true)]
async fn exchanged_endpoints_are_reported_and_get_nothing() {
    let network = InMemoryNetwork::default();
    let (mut fakes, mut drivens) = (Vec::new(), Vec::new());
    for (host, other, id) in [("a", "b", 0x0a), ("b", "a", 0x0b)] {
        let endpoint = |what: &str, host: &str| format!("unix:{host}/{what}").parse().unwrap();
        let switch = FakeSwitch::start_in_memory(&network, endpoint("of", host));
        switch.datapath_id(id);
        let database = FakeDatabase::start_in_memory(&network, endpoint("db", host));
        database.add_bridge("br-int").unwrap();
        database.datapath_id("br-int", id);
        let writes = database.counts().writes;
        fakes.push((switch, database, writes));
        let (ovsdb, openflow) = (endpoint("db", host), endpoint("of", other));
        let config = Config { ovsdb, openflow, ..config() };
        drivens.push(Driven::start_on(Arc::new(network.clone()), config, Timing::default()));
    }
    for (driven, ids) in drivens.iter_mut().zip([("0b", "0a"), ("0a", "0b")]) {
        driven.handle.set_desired(desired());
        let why = driven.disconnected(Channel::OpenFlow).await;
        let (openflow, database) = ids;
        assert!(why.contains(&format!("datapath id 00000000000000{openflow}, but br-int")), "{why}");
        assert!(why.contains(&format!("has datapath id 00000000000000{database};")), "{why}");
    }
    for (switch, database, writes) in &fakes {
        assert_eq!((switch.counts().flow_mods, switch.counts().dumps), (0, 0));
        assert_eq!(database.counts().writes, *writes);
    }
    // The mistake is corrected at one host: its own switch answers at the endpoint.
    fakes[1].0.datapath_id(0x0a);
    fakes[1].0.disconnect();
    let tunnel = |event: &Event| report(event)?.tunnels.get("gnv").copied();
    drivens[0].wait("the tunnel", tunnel).await;
    assert_eq!(fakes[1].0.flows(), desired().flows);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_answers_late_and_reads_slowly_stays_connected() {
    let setting = Setting::new();
    let stages =
        [Stage::Schema, Stage::Monitor, Stage::Transact, Stage::Transact, Stage::Update, Stage::Transact];
    for stage in stages {
        setting.database.fault(stage, Fault::Late(Duration::from_secs(4)));
    }
    setting.database.slow(Duration::from_millis(10), 100);
    let mut driven = setting.drive();
    driven.handle.set_desired(desired());
    driven.handle.push(1, adding(&["table=3, actions=output:3"]));
    driven.confirmed(1).await;
    let has_port = |event: &Event| report(event)?.tunnels.contains_key("gnv").then_some(());
    if !driven.seen.iter().any(|event| has_port(event).is_some()) {
        driven.wait("the port", has_port).await;
    }
    assert_eq!(setting.database.counts().connections, 1, "{:#?}", driven.seen);
    assert!(setting.database.counts().faults >= 3, "{:?}", setting.database.counts());
}

/// Each fault at each stage of a session: the driver says what is wrong and drives the switch again.
#[tokio::test(start_paused = true)]
async fn any_fault_of_the_database_ends_its_session_alone_and_heals() {
    let mut runs = JoinSet::new();
    for stage in Stage::ALL {
        for fault in Fault::BREAKING {
            // Any answer shows that the database is alive.
            if stage != Stage::Echo || !matches!(fault, Fault::Empty | Fault::Short | Fault::Null) {
                runs.spawn(heals(stage, fault));
            }
        }
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}

async fn heals(stage: Stage, fault: Fault) {
    let what = format!("{stage:?} {fault:?}");
    let setting = Setting::new();
    let mut driven = setting.drive();
    driven.handle.set_desired(desired());
    driven.synced().await;
    setting.database.fault(stage, fault.clone());
    let handshake = matches!(stage, Stage::Schema | Stage::Monitor);
    match stage {
        Stage::Schema | Stage::Monitor => setting.database.disconnect(),
        // The driver probes a database that is silent.
        Stage::Echo => {}
        Stage::Transact | Stage::Update => {
            let tunnels = Edits::delete(["gnv".to_owned()]);
            driven.handle.push(7, Changes { tunnels, ..adding(&["table=7, actions=output:7"]) });
        }
    }
    let why = loop {
        let ended = |event: &Event| match event {
            Event::Disconnected { channel: Channel::Ovsdb, why } => Some(why.clone()),
            _ => None,
        };
        let why = driven.wait(&what, ended).await;
        // The same reason is not reported again.
        let again = matches!(fault, Fault::Close | Fault::CloseUnanswered) && handshake;
        if again || setting.database.counts().faults > 0 {
            break why;
        }
    };
    let says: &[&str] = match (&fault, stage) {
        (Fault::Close | Fault::CloseUnanswered, _) => &["closed the connection"],
        (Fault::Garbage, _) => &["malformed JSON at byte"],
        (Fault::Stall, _) => &["did not answer an echo request", "no schema and snapshot within"],
        (Fault::StallMidMessage, _) => &["in the middle of a message", "no schema and snapshot within"],
        (Fault::WrongId, _) => &["which no pending request has"],
        _ => &["malformed", "wanted", "violated"],
    };
    assert!(says.iter().any(|says| why.contains(says)), "{what}: {why}");
    setting.switch.disconnect();
    driven.handle.push(8, adding(&["table=8, actions=output:8"]));
    driven.confirmed(8).await;
    driven.handle.push(9, Changes { tunnels: Edits::add(geneve()), ..Changes::default() });
    driven.confirmed(9).await;
    assert_eq!(setting.database.counts().faults, 1, "{what}");
    let port = setting.database.interfaces().remove("gnv");
    assert!(port.and_then(|port| port.ofport).is_some(), "{what}");
    assert!(setting.switch.flows().keys().any(|key| key.table() == 8), "{what}");
}

#[tokio::test(start_paused = true)]
async fn d26_changes_that_go_one_by_one_are_a_problem_until_a_bundle_works_again() {
    let setting = Setting::new();
    let mut driven = setting.drive();
    driven.handle.set_desired(Arc::new(Desired::default()));
    driven.synced().await;
    let told = |event: &Event| match event {
        Event::Report(report) => Some(
            report.problems.iter().any(|problem| problem.why.starts_with("takes no changes as a whole (")),
        ),
        _ => None,
    };
    for (fails, txn) in [(true, 1), (false, 2)] {
        setting.switch.fail_bundles(fails);
        driven.handle.push(txn, adding(&[&format!("table=3,priority={txn},actions=drop")]));
        driven.wait("the problem", |event| told(event).filter(|told| *told == fails)).await;
        driven.confirmed(txn).await;
    }
    assert_eq!(setting.switch.flows().len(), 2);
}

/// Everything is compared each minute.
fn scrubbing() -> Timing {
    Timing { scrub_every: Duration::from_mins(1), ..Timing::default() }
}

/// The database changes, but the notification of it is lost: an interface that comes, and one that goes.
#[tokio::test(start_paused = true)]
async fn d30_a_lost_notification_is_found_by_the_scrub() {
    let setting = Setting::new();
    let mut driven = Driven::start_on(Arc::new(setting.network.clone()), config(), scrubbing());
    driven.handle.set_desired(desired());
    driven.synced().await;
    let mut count = 0;
    for there in [true, false] {
        setting.database.fault(Stage::Update, Fault::Swallow);
        if there {
            // What ovs-vswitchd says of it later would show that it is unknown.
            setting.database.vswitchd(false);
            setting.database.plug("br-int", "eth", &[("iface-id", "port")]).unwrap();
        } else {
            setting.database.unplug("eth").unwrap();
        }
        let began = Instant::now();
        let missed = driven.wait("the change", |event| match event {
            Event::MissedChanges { count, last } => Some((*count, last.clone())),
            _ => None,
        });
        let (rows, last) = missed.await;
        count += rows;
        // The bridge, the port and the interface.
        assert_eq!((rows, last.split(' ').count()), (3, 3), "{last}");
        let has = |event: &Event| report(event).is_some_and(|report| (report.interfaces.len() == 1) == there);
        driven.wait("the interface", |event| has(event).then_some(())).await;
        assert!(began.elapsed() <= 2 * scrubbing().scrub_every, "{:?}", began.elapsed());
    }
    assert_eq!(count, 6);
    let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
    assert!(!driven.seen.iter().any(lost), "{:#?}", driven.seen);
}

#[tokio::test(start_paused = true)]
async fn d30_a_scrub_of_a_database_that_is_known_changes_and_reports_nothing() {
    let setting = Setting::new();
    let mut driven = Driven::start_on(Arc::new(setting.network.clone()), config(), scrubbing());
    driven.handle.set_desired(desired());
    driven.synced().await;
    let before = setting.database.counts();
    tokio::time::sleep(4 * scrubbing().scrub_every).await;
    let after = setting.database.counts();
    assert!(after.transactions >= before.transactions + 3, "{before:?} {after:?}");
    assert_eq!(after.writes, before.writes);
    while let Ok((_, event)) = driven.events.try_recv() {
        driven.seen.push(event);
    }
    let told = |event: &Event| matches!(event, Event::MissedChanges { .. } | Event::Disconnected { .. });
    assert!(!driven.seen.iter().any(told), "{:#?}", driven.seen);
}

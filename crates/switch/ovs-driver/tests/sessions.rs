//! BFD sessions at a fake switch with a fake database: which keys of their column the driver writes, and which it leaves alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fake_database;
use crate::support::driven::Driven;
use fake_switch::{FakeDatabase, FakeSwitch};
use ovs_driver::{
    BfdSession, Changes, Config, Desired, Edits, Encap, Event, InMemoryNetwork, Remote, Timing, Tunnel,
};
use ovsdb_client::{Condition, Datum, Mutation, Mutator, Operation, Row};

const TUNNEL: &str = "gnv";

struct Setting {
    network: InMemoryNetwork,
    /// Lives as long as the setting.
    _switch: FakeSwitch,
    database: FakeDatabase,
}

impl Setting {
    fn new() -> Setting {
        let network = InMemoryNetwork::default();
        let switch = FakeSwitch::start_in_memory(&network, config().openflow);
        let database = FakeDatabase::start_in_memory(&network, config().ovsdb);
        database.datapath_id("br-int", FakeSwitch::DATAPATH_ID);
        Setting { network, _switch: switch, database }
    }

    /// A driver in sync, with a session of this interval.
    async fn drive(&self, interval: u16, timing: Timing) -> Driven {
        let mut driven = Driven::start_on(Arc::new(self.network.clone()), config(), timing);
        let tunnel = Tunnel { encap: Encap::Geneve, remote: Remote::Address("192.0.2.1".parse().unwrap()) };
        let tunnels = [(TUNNEL.to_owned(), tunnel)].into();
        let bfd = [every(interval)].into();
        driven.handle.set_desired(Arc::new(Desired { tunnels, bfd, ..Desired::default() }));
        driven.synced().await;
        driven
    }

    fn found(&self) -> BTreeMap<String, String> {
        let rows = self.database.rows();
        let (_, row) =
            rows.rows("Interface").find(|(_, row)| row.get::<String>("name").unwrap() == TUNNEL).unwrap();
        row.get("bfd").unwrap()
    }

    /// Another client writes a key.
    fn write(&self, key: &str, value: &str) {
        let is_port = || vec![Condition::equal("name", TUNNEL)];
        let old = Mutation::new("bfd", Mutator::Delete, Datum::set([key]));
        let new = Mutation::new("bfd", Mutator::Insert, Datum::map([(key, value)]));
        self.database.transact(&[Operation::mutate("Interface", is_port(), vec![old, new])]).unwrap();
    }

    /// Another client writes the whole column, and nobody is told.
    fn replace_unnoticed(&self, settings: BTreeMap<String, String>) {
        self.database.fault(fake_switch::database::Stage::Update, fake_switch::database::Fault::Swallow);
        let row = Row::new("Interface").with("bfd", Datum::map(settings));
        self.database.transact(&[Operation::update(row, vec![Condition::equal("name", TUNNEL)])]).unwrap();
    }
}

fn config() -> Config {
    fake_database::config()
}

fn every(interval: u16) -> (String, BfdSession) {
    (TUNNEL.to_owned(), BfdSession { interval })
}

/// The column of a session of this interval, which the responder holds.
fn held(interval: u16) -> BTreeMap<String, String> {
    let responders = ("cpath_down".to_owned(), "true".to_owned());
    BfdSession { interval }.settings().into_iter().chain([responders]).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_responder_holds_survives_changes_and_other_drivers() {
    let setting = Setting::new();
    let mut driven = setting.drive(200, Timing::default()).await;
    setting.write("cpath_down", "true");
    driven.handle.push(1, Changes { bfd: Edits::add([every(300)]), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(setting.found(), held(300));
    driven.handle.end().await;

    let writes = setting.database.counts().writes;
    let driven = setting.drive(300, Timing::default()).await;
    assert_eq!((setting.found(), setting.database.counts().writes), (held(300), writes), "nothing is wrong");
    driven.handle.end().await;

    let mut driven = setting.drive(400, Timing::default()).await;
    assert_eq!(setting.found(), held(400));
    driven.handle.push(1, Changes { bfd: Edits::delete([TUNNEL.to_owned()]), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(setting.found(), [("cpath_down".to_owned(), "true".to_owned())].into());
}

/// The comparison with the database finds what no notification told, and mends the driver's keys alone.
#[tokio::test(start_paused = true)]
async fn what_the_responder_holds_survives_the_comparison_with_the_database() {
    let setting = Setting::new();
    // Sooner than a test may wait for an event.
    let timing = Timing { scrub_every: Duration::from_mins(1), ..Timing::default() };
    let mut driven = setting.drive(200, timing.clone()).await;
    let damaged: BTreeMap<String, String> = held(200)
        .into_iter()
        .map(|(key, value)| (key.clone(), if key == "min_tx" { "9".to_owned() } else { value }))
        .collect();
    setting.replace_unnoticed(damaged.clone());
    assert_eq!(setting.found(), damaged);
    let missed = |event: &Event| matches!(event, Event::MissedChanges { .. }).then_some(());
    driven.wait("the comparison", missed).await;
    let began = tokio::time::Instant::now();
    while setting.found() != held(200) {
        assert!(began.elapsed() < timing.scrub_every, "{:?}", setting.found());
        tokio::time::sleep(timing.retry_after).await;
    }
}

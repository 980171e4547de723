//! Sets of collectors at a fake switch with a fake database: what is written, in which order, and what is left alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::fake_database;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use fake_switch::{FakeDatabase, FakeSwitch};
use ovs_driver::{Changes, Channel, CollectorSet, Config, Desired, Edits, Event, InMemoryNetwork, Timing};
use ovsdb_client::{Condition, Datum, Operation, Row};
use uuid::Uuid;

const SAMPLING: &str =
    "table=1, actions=sample(probability=65535,collector_set_id=7,obs_domain_id=1,obs_point_id=2)";

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

    /// A driver in sync.
    async fn drive(&self, sets: &[(u32, CollectorSet)]) -> Driven {
        let mut driven = Driven::start_on(Arc::new(self.network.clone()), config(), Timing::default());
        let collectors = sets.iter().cloned().collect();
        driven.handle.set_desired(Arc::new(Desired { collectors, ..Desired::default() }));
        driven.synced().await;
        driven
    }

    fn bridge(&self) -> Uuid {
        self.database.rows().rows("Bridge").next().unwrap().0
    }

    /// The sets in the database, by number, with their targets and times.
    fn found(&self) -> BTreeMap<i64, Option<(BTreeSet<String>, i64)>> {
        let rows = self.database.rows();
        let exporter = |row: &Row| {
            let exporter = rows.row("IPFIX", row.get::<Option<Uuid>>("ipfix").unwrap()?)?;
            let timeout: Option<i64> = exporter.get("cache_active_timeout").unwrap();
            Some((exporter.get("targets").unwrap(), timeout.unwrap_or(-1)))
        };
        rows.rows("Flow_Sample_Collector_Set")
            .map(|(_, row)| (row.get("id").unwrap(), exporter(row)))
            .collect()
    }

    fn exporters(&self) -> usize {
        self.database.rows().rows("IPFIX").count()
    }
}

fn config() -> Config {
    Config { datapath_type: Some("netdev".to_owned()), ..fake_database::config() }
}

fn set(target: &str, active_timeout: u16) -> CollectorSet {
    CollectorSet { targets: [target.to_owned()].into(), active_timeout, flows_max: 10 }
}

fn adding(id: u32, set: CollectorSet) -> Changes {
    Changes { collectors: Edits::add([(id, set)]), ..Changes::default() }
}

fn wanted(target: &str, timeout: i64) -> (BTreeSet<String>, i64) {
    ([target.to_owned()].into(), timeout)
}

#[tokio::test(start_paused = true)]
async fn sets_come_before_their_flows_change_and_go() {
    let setting = Setting::new();
    let mut driven = setting.drive(&[]).await;
    setting.database.vswitchd(false);
    driven
        .handle
        .push(1, Changes { flows: Edits::add(flows(&[SAMPLING])), ..adding(7, set("10.0.0.9:4739", 10)) });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((setting.found().len(), setting.switch.flows().len()), (1, 0));
    setting.database.vswitchd(true);
    driven.confirmed(1).await;
    assert_eq!(setting.switch.flows().len(), 1);
    assert_eq!(setting.found(), [(7, Some(wanted("10.0.0.9:4739", 10)))].into());

    driven.handle.push(2, adding(7, set("[fd00::9]:4739", 0)));
    driven.confirmed(2).await;
    assert_eq!((setting.found(), setting.exporters()), ([(7, Some(wanted("[fd00::9]:4739", 0)))].into(), 1));

    driven.handle.push(3, Changes { collectors: Edits::delete([7]), ..Changes::default() });
    driven.confirmed(3).await;
    assert_eq!((setting.found().len(), setting.exporters()), (0, 0), "no row is left behind");
}

#[tokio::test(start_paused = true)]
async fn the_next_driver_writes_nothing_and_what_others_changed_is_repaired() {
    let setting = Setting::new();
    let ours = [(7, set("10.0.0.9:4739", 10)), (8, set("10.0.0.8:4739", 10))];
    let driven = setting.drive(&ours).await;
    let (before, writes) = (setting.found(), setting.database.counts().writes);
    driven.handle.end().await;
    let mut driven = setting.drive(&ours).await;
    assert_eq!((setting.found(), setting.database.counts().writes), (before.clone(), writes));

    // Somebody else changes the targets of one, removes the other, and has one of their own.
    let rows = setting.database.rows();
    let eight =
        rows.rows("Flow_Sample_Collector_Set").find(|(_, row)| row.get::<i64>("id") == Ok(8)).unwrap().0;
    let targets = Row::new("IPFIX").with("targets", Datum::set(["10.0.0.66:1"]));
    let theirs = Row::new("Flow_Sample_Collector_Set").with("id", 100_i64).with("bridge", setting.bridge());
    let operations = [
        Operation::update(targets, vec![]),
        Operation::delete("Flow_Sample_Collector_Set", vec![Condition::uuid(eight)]),
        Operation::insert(theirs),
    ];
    setting.database.transact(&operations).unwrap();
    driven.handle.push(1, adding(9, set("10.0.0.9:4739", 10)));
    driven.confirmed(1).await;
    let mut after = before;
    after.extend([(9, Some(wanted("10.0.0.9:4739", 10))), (100, None)]);
    assert_eq!(setting.found(), after);

    // A set that has gone while the driver was away.
    driven.handle.end().await;
    let mut driven = setting.drive(&ours[..1]).await;
    after.retain(|id, _| [7, 100].contains(id));
    assert_eq!(setting.found(), after);
    setting.database.disconnect();
    driven.disconnected(Channel::Ovsdb).await;
    driven.synced().await;
    assert_eq!(setting.found(), after);
}

#[tokio::test(start_paused = true)]
async fn a_set_of_somebody_else_with_the_same_number_stays_and_is_a_problem() {
    let setting = Setting::new();
    setting.drive(&[]).await.handle.end().await;
    let theirs = Row::new("Flow_Sample_Collector_Set").with("id", 7_i64).with("bridge", setting.bridge());
    setting.database.transact(&[Operation::insert(theirs)]).unwrap();
    let mut driven = setting.drive(&[]).await;
    driven.handle.push(1, adding(7, set("10.0.0.9:4739", 10)));
    driven.confirmed(1).await;
    assert_eq!(setting.found(), [(7, None)].into());
    let told = |event: &Event| match event {
        Event::Report(report) => report.problems.first().map(|problem| problem.why.clone()),
        _ => None,
    };
    let why = driven.wait("a report", told).await;
    assert!(why.contains("id=7 that is not Weft's"), "{why}");
}

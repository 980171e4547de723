//! Limits of conntrack zones at a fake switch with a fake database: what is written, in which order, and what is left alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fake_database;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use fake_switch::database::SchemaVersion;
use fake_switch::{FakeDatabase, FakeSwitch};
use ovs_driver::{Changes, Channel, Config, Desired, Edits, Event, InMemoryNetwork, Timing, ZoneLimits};
use ovsdb_client::{Condition, Datum, Mutation, Mutator, Operation, Replica, Row};
use uuid::Uuid;

const LIMITS: ZoneLimits =
    ZoneLimits { connections: None, unanswered: 30, answered: 120, established: 600, closing: 60 };
const OTHERS: ZoneLimits = ZoneLimits { unanswered: 5, ..LIMITS };

struct Setting {
    network: InMemoryNetwork,
    switch: FakeSwitch,
    database: FakeDatabase,
}

impl Setting {
    fn new(version: SchemaVersion) -> Setting {
        let network = InMemoryNetwork::default();
        let switch = FakeSwitch::start_in_memory(&network, config().openflow);
        let database = FakeDatabase::start_version(&network, config().ovsdb, version);
        database.datapath_id("br-int", FakeSwitch::DATAPATH_ID);
        Setting { network, switch, database }
    }

    /// A driver in sync.
    async fn drive(&self, limits: &[(u16, ZoneLimits)]) -> Driven {
        let mut driven = Driven::start_on(Arc::new(self.network.clone()), config(), Timing::default());
        driven.handle.set_desired(Arc::new(limited(limits)));
        driven.synced().await;
        driven
    }

    /// Changes the only row of `Datapath`, as another client.
    fn mutate_zones(&self, mutator: Mutator, value: Datum) {
        let mutation = Mutation::new("ct_zones", mutator, value);
        self.database.transact(&[Operation::mutate("Datapath", vec![], vec![mutation])]).unwrap();
    }
}

fn config() -> Config {
    Config { datapath_type: Some("netdev".to_owned()), ..fake_database::config() }
}

fn limited(limits: &[(u16, ZoneLimits)]) -> Desired {
    Desired { limits: limits.iter().copied().collect(), ..Desired::default() }
}

fn adding(limits: &[(u16, ZoneLimits)]) -> Changes {
    Changes { limits: Edits::add(limits.iter().copied()), ..Changes::default() }
}

/// By zone of the datapath `netdev`, the row of `CT_Zone`.
fn zones(rows: &Replica) -> BTreeMap<i64, Uuid> {
    let (_, root) = rows.rows("Open_vSwitch").next().unwrap();
    let datapaths: BTreeMap<String, Uuid> = root.get("datapaths").unwrap();
    let datapath = datapaths.get("netdev").and_then(|datapath| rows.row("Datapath", *datapath));
    datapath.map(|datapath| datapath.get("ct_zones").unwrap()).unwrap_or_default()
}

/// By zone, a timeout and the limit.
fn found(database: &FakeDatabase, timeout: &str) -> BTreeMap<i64, (Option<i64>, Option<i64>)> {
    let rows = database.rows();
    let of_row = |uuid: Uuid| {
        let row = rows.row("CT_Zone", uuid).unwrap();
        let policy: Option<Uuid> = row.get("timeout_policy").unwrap();
        let timeouts: BTreeMap<String, i64> = policy
            .and_then(|policy| rows.row("CT_Timeout_Policy", policy))
            .map(|policy| policy.get("timeouts").unwrap())
            .unwrap_or_default();
        (timeouts.get(timeout).copied(), row.get("limit").ok().flatten())
    };
    zones(&rows).into_iter().map(|(zone, uuid)| (zone, of_row(uuid))).collect()
}

#[tokio::test(start_paused = true)]
async fn limits_come_change_and_go_and_equal_ones_share_their_rows() {
    let setting = Setting::new(SchemaVersion::WithoutZoneLimits);
    let mut driven = setting.drive(&[(5, LIMITS), (6, LIMITS), (7, OTHERS)]).await;
    let of = |seconds: i64| (Some(seconds), None);
    assert_eq!(found(&setting.database, "udp_first"), [(5, of(30)), (6, of(30)), (7, of(5))].into());
    assert_eq!(found(&setting.database, "tcp_established")[&7], of(600));
    let rows = zones(&setting.database.rows());
    assert_eq!(rows[&5], rows[&6]);
    assert_ne!(rows[&5], rows[&7]);

    driven.handle.push(1, adding(&[(6, OTHERS), (8, LIMITS)]));
    driven.confirmed(1).await;
    let after = zones(&setting.database.rows());
    assert_eq!((after[&6], after[&8]), (rows[&7], rows[&5]), "rows that are there are used");

    let gone = Changes { limits: Edits::delete([5, 8]), ..Changes::default() };
    driven.handle.push(2, gone);
    driven.confirmed(2).await;
    assert_eq!(found(&setting.database, "udp_first"), [(6, of(5)), (7, of(5))].into());
    assert_eq!(setting.database.rows().rows("CT_Timeout_Policy").count(), 1, "no row is left behind");
}

#[tokio::test(start_paused = true)]
async fn limits_are_in_force_before_the_flows_of_their_transaction() {
    let setting = Setting::new(SchemaVersion::WithoutZoneLimits);
    let mut driven = setting.drive(&[]).await;
    setting.database.vswitchd(false);
    driven
        .handle
        .push(1, Changes { flows: Edits::add(flows(&["table=1, actions=drop"])), ..adding(&[(5, LIMITS)]) });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((zones(&setting.database.rows()).len(), setting.switch.flows().len()), (1, 0));
    setting.database.vswitchd(true);
    driven.confirmed(1).await;
    assert_eq!(setting.switch.flows().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_driver_writes_nothing_and_what_others_changed_is_repaired() {
    let setting = Setting::new(SchemaVersion::WithoutZoneLimits);
    let driven = setting.drive(&[(5, LIMITS), (6, OTHERS)]).await;
    let (before, writes) = (found(&setting.database, "icmp_first"), setting.database.counts().writes);
    driven.handle.end().await;
    let mut driven = setting.drive(&[(5, LIMITS), (6, OTHERS)]).await;
    assert_eq!(
        (found(&setting.database, "icmp_first"), setting.database.counts().writes),
        (before.clone(), writes)
    );

    // Somebody else takes a zone away, has one of their own, and changes a policy.
    let row = Operation::insert_named("theirs", Row::new("CT_Zone"));
    let theirs = Mutation::new(
        "ct_zones",
        Mutator::Insert,
        Datum::map([(100_i64, ovsdb_client::Atom::NamedUuid("theirs".to_owned()))]),
    );
    setting.database.transact(&[row, Operation::mutate("Datapath", vec![], vec![theirs])]).unwrap();
    setting.mutate_zones(Mutator::Delete, Datum::set([5_i64]));
    let policies: Vec<Uuid> =
        setting.database.rows().rows("CT_Timeout_Policy").map(|(uuid, _)| uuid).collect();
    for policy in policies {
        let row = Row::new("CT_Timeout_Policy").with("timeouts", Datum::map([("icmp_first", 1_i64)]));
        setting.database.transact(&[Operation::update(row, vec![Condition::uuid(policy)])]).unwrap();
    }
    driven.handle.push(1, adding(&[(7, LIMITS)]));
    driven.confirmed(1).await;
    let mut wanted = before.clone();
    wanted.extend([(7, before[&5]), (100, (None, None))]);
    assert_eq!(found(&setting.database, "icmp_first"), wanted);

    // The same while the driver is away, and a zone that has gone meanwhile.
    driven.handle.end().await;
    setting.mutate_zones(Mutator::Delete, Datum::set([6_i64]));
    let mut driven = setting.drive(&[(6, OTHERS), (7, LIMITS)]).await;
    wanted.remove(&5);
    assert_eq!(found(&setting.database, "icmp_first"), wanted);
    setting.database.disconnect();
    driven.disconnected(Channel::Ovsdb).await;
    driven.synced().await;
    assert_eq!(found(&setting.database, "icmp_first"), wanted);
}

/// The problems of the switch in the next report that has or lacks some.
async fn problems(driven: &mut Driven, wanted: bool) -> Vec<String> {
    let found = |event: &Event| match event {
        Event::Report(report) if report.problems.is_empty() != wanted => {
            Some(report.problems.iter().map(|problem| problem.why.clone()).collect())
        }
        _ => None,
    };
    driven.wait("a report", found).await
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_connections_is_set_where_the_switch_can_and_told_where_it_cannot() {
    let few = ZoneLimits { connections: Some(4000), ..LIMITS };
    let setting = Setting::new(SchemaVersion::WithZoneLimits);
    setting.drive(&[(5, few), (6, LIMITS)]).await;
    assert_eq!(
        found(&setting.database, "udp_first"),
        [(5, (Some(30), Some(4000))), (6, (Some(30), Some(0)))].into(),
        "0 is no limit"
    );

    let setting = Setting::new(SchemaVersion::WithoutZoneLimits);
    let mut driven = setting.drive(&[(6, LIMITS)]).await;
    driven.handle.push(1, adding(&[(5, few)]));
    let told = problems(&mut driven, true).await;
    assert!(
        told[0].contains("cannot limit the number of connections") && told[0].contains("1 of its ports"),
        "{told:?}"
    );
    driven.confirmed(1).await;
    assert_eq!(found(&setting.database, "udp_first"), [(5, (Some(30), None)), (6, (Some(30), None))].into());
    driven.handle.push(2, adding(&[(5, LIMITS)]));
    problems(&mut driven, false).await;
}

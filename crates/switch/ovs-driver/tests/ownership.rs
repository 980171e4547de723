//! Several drivers at one fake switch: it belongs to one node of one controller, in its latest start.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use fake_switch::{FakeDatabase, FakeSwitch};
use ovs_driver::{Channel, Config, Desired, Endpoint, Event, InMemoryNetwork, Owner, Timing};

use crate::fake_database::config;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::setting::{adding, eventually};

/// A switch that two pairs of endpoints lead to.
struct Setting {
    network: InMemoryNetwork,
    switch: FakeSwitch,
    database: FakeDatabase,
}

fn owner(controller: &str, epoch: u64) -> Arc<Owner> {
    Arc::new(Owner::new(controller, epoch, "ctl", "2026-11-25T00:00:00Z"))
}

impl Setting {
    fn new() -> Setting {
        let network = InMemoryNetwork::default();
        let switch = FakeSwitch::start_in_memory(&network, config().openflow);
        let database = FakeDatabase::start_in_memory(&network, config().ovsdb);
        database.datapath_id("br-int", FakeSwitch::DATAPATH_ID);
        Setting { network, switch, database }
    }

    fn drive(&self, node: &str, owner: &Arc<Owner>, flow: &str) -> Driven {
        let config = Config { name: node.to_owned(), owner: Some(owner.clone()), ..config() };
        let driven = Driven::start_on(Arc::new(self.network.clone()), config, Timing::default());
        driven.handle.set_desired(Arc::new(Desired { flows: flows(&[flow]), ..Desired::default() }));
        driven
    }

    /// Whether the switch has this flow and no other.
    fn has(&self, flow: &str) -> bool {
        self.switch.flows() == flows(&[flow])
    }

    fn mark(&self, key: &str) -> Option<String> {
        self.database.bridges().remove("br-int")?.external_ids.remove(key)
    }
}

async fn withheld(driven: &mut Driven) -> String {
    driven
        .wait("that it is somebody else's", |event| match event {
            Event::Withheld { why } => why.clone(),
            _ => None,
        })
        .await
}

fn refusals(driven: &Driven) -> usize {
    driven.seen.iter().filter(|event| matches!(event, Event::Refused { .. })).count()
}

const FIRST: &str = "table=1, actions=drop";
const SECOND: &str = "table=2, actions=drop";

#[tokio::test(start_paused = true)]
async fn d18_a_second_node_writes_nothing_and_has_the_switch_when_the_first_is_gone() {
    let setting = Setting::new();
    let owner = owner("a", 1);
    let mut first = setting.drive("hv1", &owner, FIRST);
    first.synced().await;
    let writes = (setting.database.counts().writes, setting.switch.counts().flow_mods);
    let mut second = setting.drive("hv2", &owner, SECOND);
    let why = withheld(&mut second).await;
    assert!(why.contains("hv1") && why.contains("hv2") && why.contains("000000000000fa4e"), "{why}");
    let why = second.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("hv1") && why.contains("hv2"), "{why}");
    second.handle.push(1, adding(&[SECOND]));
    first.handle.push(1, adding(&["table=3, actions=drop"]));
    first.confirmed(1).await;
    assert_eq!(setting.database.counts().writes, writes.0);
    assert_eq!(setting.switch.counts().flow_mods, writes.1 + 1);

    // The second one goes: nothing of the first one's goes with it. Then it is there again, and the first one goes.
    second.handle.leave();
    second.handle.end().await;
    let mut second = setting.drive("hv2", &owner, SECOND);
    withheld(&mut second).await;
    assert_eq!(setting.switch.flows().len(), 2);
    first.handle.set_desired(Arc::new(Desired::default()));
    first.handle.leave();
    first.wait("that it has left", |event| matches!(event, Event::Left).then_some(())).await;
    first.handle.end().await;
    second.synced().await;
    assert!(setting.has(SECOND));
    assert_eq!(setting.mark("weft-node").as_deref(), Some("hv2"));
}

#[tokio::test(start_paused = true)]
async fn d19_a_later_start_fences_an_earlier_one_off() {
    let setting = Setting::new();
    let mut first = setting.drive("hv1", &owner("a", 5), FIRST);
    first.synced().await;
    assert!(setting.switch.has_primary());
    assert_eq!(setting.mark("weft-epoch").as_deref(), Some("5"));
    let mut second = setting.drive("hv1", &owner("a", 6), SECOND);
    second.synced().await;
    let why = withheld(&mut first).await;
    assert!(why.contains("a later start of this controller"), "{why}");
    let writes = setting.database.counts().writes;
    first.handle.push(1, adding(&[FIRST]));
    second.handle.push(1, adding(&["table=7, actions=drop"]));
    second.confirmed(1).await;
    assert_eq!(setting.switch.flows(), flows(&[SECOND, "table=7, actions=drop"]));
    assert_eq!(setting.database.counts().writes, writes);
    assert_eq!(refusals(&first), 0);

    // An earlier start that comes later is fenced off as well, also if it knows the database no more than the others.
    let mut earlier = setting.drive("hv1", &owner("a", 4), FIRST);
    withheld(&mut earlier).await;
    assert_eq!(setting.switch.flows().len(), 2);
}

/// The database of the first one is away, so that it learns of the second one by OpenFlow alone.
#[tokio::test(start_paused = true)]
async fn d19_a_secondary_controller_stops_and_an_old_generation_does_not_begin() {
    let setting = Setting::new();
    let proxy: Endpoint = "unix:proxy.sock".parse().unwrap();
    let database = FakeDatabase::start_in_memory(&setting.network, proxy.clone());
    database.datapath_id("br-int", FakeSwitch::DATAPATH_ID);
    let config = Config { name: "hv1".to_owned(), ovsdb: proxy, owner: Some(owner("a", 5)), ..config() };
    let mut first = Driven::start_on(Arc::new(setting.network.clone()), config, Timing::default());
    first.handle.set_desired(Arc::new(Desired { flows: flows(&[FIRST]), ..Desired::default() }));
    first.synced().await;
    let mut second = setting.drive("hv1", &owner("a", 6), SECOND);
    second.synced().await;
    let why = first.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("another controller has become the primary one"), "{why}");
    let why = first.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("with a later generation than 5"), "{why}");
    first.handle.push(1, adding(&["table=3, actions=drop"]));
    second.handle.push(1, adding(&["table=7, actions=drop"]));
    second.confirmed(1).await;
    assert_eq!(setting.switch.flows(), flows(&[SECOND, "table=7, actions=drop"]));
    assert_eq!(refusals(&first), 0);
}

#[tokio::test(start_paused = true)]
async fn d30_a_controller_with_another_journal_refuses_the_switch_until_the_mark_is_removed() {
    let setting = Setting::new();
    // A bridge from before there were marks.
    setting.database.add_bridge("br-int").unwrap();
    let mut first = setting.drive("hv1", &owner("a", 5), FIRST);
    first.synced().await;
    assert_eq!(setting.mark("weft-controller").as_deref(), Some("a"));
    let writes = setting.database.counts().writes;
    let mut second = setting.drive("n1", &owner("b", 1), SECOND);
    let why = withheld(&mut second).await;
    for part in
        ["another controller", "host ctl", "2026-11-25T00:00:00Z", "hv1", "take_over", "ovs-vsctl remove"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
    second.handle.push(1, adding(&[SECOND]));
    first.handle.push(1, adding(&[FIRST]));
    first.confirmed(1).await;
    assert!(setting.has(FIRST));
    assert_eq!(setting.database.counts().writes, writes);

    // A controller that takes over on purpose gets it, although it started earlier.
    let heir = Arc::new(Owner::new("c", 2, "other", "2026-11-26T00:00:00Z").taking_over(true));
    let mut third = setting.drive("hv1", &heir, SECOND);
    third.synced().await;
    let why = withheld(&mut first).await;
    assert!(why.contains("host other"), "{why}");
    eventually("the flows are the heir's", || setting.has(SECOND)).await;
    let foreign = third.seen.iter().filter(|event| matches!(event, Event::ForeignChanges { .. })).count();
    assert_eq!(foreign, 0, "{:#?}", third.seen);
}

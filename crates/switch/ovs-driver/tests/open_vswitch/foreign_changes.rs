//! Changes of flows and groups by others, on real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::{buckets, flows};
use ovs_driver::{Config, Desired, Event, ForeignChange, Timing};

const FLOWS: [&str; 3] = [
    "cookie=0x11, table=1, priority=100,ip,nw_dst=10.0.0.1 actions=set_field:0x1->reg1,resubmit(,2)",
    "cookie=0x12, table=2, priority=100 actions=group:7",
    "cookie=0x13, table=3, priority=100 actions=drop",
];

async fn repaired(driven: &mut Driven) -> Vec<ForeignChange> {
    let mut found = Vec::new();
    driven
        .wait("a repair", |event| match event {
            Event::ForeignChanges { first, .. } => {
                found.extend(first.clone());
                None
            }
            Event::Repaired { .. } => Some(()),
            _ => None,
        })
        .await;
    found
}

#[tokio::test]
async fn flows_and_groups_that_others_change_are_put_right_and_reported() {
    let ovs = Switch::start();
    let config = Config { learned_tables: BTreeSet::from([21]), ..ovs.config() };
    let timing = Timing {
        compare_every: Duration::from_millis(200),
        repair_max: Duration::from_millis(200),
        ..Timing::default()
    };
    let mut driven = Driven::start_with(config, timing);
    let groups = buckets(&[(7, 1, "output:1"), (7, 2, "output:2"), (8, 1, "output:1")]);
    driven.handle.set_desired(Arc::new(Desired {
        flows: flows(&FLOWS),
        buckets: groups,
        ..Desired::default()
    }));
    driven.synced().await;
    let (flows, groups) = (ovs.flows(), ovs.groups());

    let by_hand: [(&[&str], &str); 6] = [
        (&["del-flows", "BRIDGE", "table=1"], "deleted cookie=0x11, table=1"),
        (&["add-flow", "BRIDGE", "table=0,priority=65535 actions=drop"], "added priority=65535 actions=drop"),
        (&["mod-flows", "BRIDGE", "table=3 actions=output:9"], "changed cookie=0x13, table=3"),
        (&["del-groups", "BRIDGE", "group_id=7"], "deleted cookie=0x12, table=2"),
        (&["del-groups", "BRIDGE", "group_id=8"], "deleted group_id=8"),
        (&["add-group", "BRIDGE", "group_id=99,type=all,bucket=actions=output:1"], "added group_id=99"),
    ];
    for (command, what) in by_hand {
        ovs.ofctl(command);
        let found = repaired(&mut driven).await;
        assert!(found.iter().any(|change| change.what.starts_with(what)), "{what}: {found:#?}");
        assert!(found.iter().all(|change| change.why.contains("client")), "{found:#?}");
        assert_eq!((ovs.flows(), ovs.groups()), (flows.clone(), groups.clone()), "{what}");
    }

    // What the switch learns and forgets is its own, and a switch in sync gets nothing, not even after a restart.
    ovs.ofctl(&["add-flow", "BRIDGE", "table=21,hard_timeout=1,dl_dst=02:00:00:00:00:01 actions=output:1"]);
    let before = (ovs.flow_mods(), ovs.group_mods());
    let learned = || ovs.ofctl(&["dump-flows", "BRIDGE", "table=21"]).contains("dl_dst");
    ovs_testing::wait_until("the learned flow has expired", || !learned());
    ovs.ofctl(&["add-flow", "BRIDGE", "table=9 actions=drop"]);
    let found = repaired(&mut driven).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    driven.handle.end().await;
    // The one added here and its removal.
    assert_eq!((ovs.flow_mods(), ovs.group_mods()), (before.0 + 2, before.1));
}

//! Switches that the controller loses and gets back, as the rules know them.

use std::time::Duration;

use objects::ObjectKey;
use serde_json::json;
use switch_model::{Channel, Event, Report};
use weft_core::Patience;
use weft_core::core::Core;

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply as apply_to, parts, start_with, status_when};
use crate::support::*;

/// A flow for each switch that was ever lost: whether it is back, and since when.
const RULES: &str = concat!(
    objects!(),
    addresses!(),
    "
input table node_connection(hv: string, connected: bool, since: int) key(hv);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
of_flow(hv, 0, 1, match{metadata: since}, actions[set(reg0, if connected then 1 else 0)]) :-
    node_connection(hv, connected, since);
"
);

fn flows(core: &Core, node: &str) -> Vec<String> {
    shown(&core.desired(node))
}

#[test]
fn a_switch_is_lost_once_and_back_once_also_over_restarts() {
    let rules = rules(RULES);
    let mut core = core(&rules, &[]).0;
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let none = |core: &mut Core, connected| {
        assert!(core.connection("hv1", connected, now()).unwrap().is_none());
    };
    none(&mut core, true);
    assert!(flows(&core, "hv1").is_empty(), "a switch that was never lost");
    let lost = core.connection("hv1", false, now()).unwrap().unwrap();
    assert_eq!(lost.record.by, "switch hv1");
    assert_eq!(lost.journalled().insert["node_connection"], [[json!("hv1"), json!(false), json!(2)]]);
    core.undo(lost).unwrap();
    assert!(flows(&core, "hv1").is_empty());
    records.push(core.connection("hv1", false, now()).unwrap().unwrap().journalled());
    none(&mut core, false);
    assert_eq!(flows(&core, "hv1"), ["0 1 metadata=0x2 set_field:0->reg0"]);

    // A report does not say that it is back, and neither does a restart.
    records.extend(
        core.report("hv1", &report(&[], &[("weft-gre", 3)]), now()).unwrap().map(|it| it.journalled()),
    );
    let mut again = self::core(&rules, &records).0;
    assert_eq!(flows(&again, "hv1"), flows(&core, "hv1"));
    none(&mut again, false);
    let txn = again.last_txn() + 1;
    records.push(again.connection("hv1", true, now()).unwrap().unwrap().journalled());
    none(&mut again, true);
    assert_eq!(flows(&again, "hv1"), [format!("0 1 metadata={txn:#x} set_field:0x1->reg0")]);
    let mut last = self::core(&rules, &records).0;
    assert_eq!(flows(&last, "hv1"), flows(&again, "hv1"));
    let deleted = last.delete(&[ObjectKey::new("transport_node", "hv1")], "test", now()).unwrap();
    let deleted = deleted.transaction.unwrap().journalled();
    assert!(
        !deleted.delete.contains_key("node_connection"),
        "the record of a request depends on no observation"
    );
    assert!(last.connection("hv1", false, now()).unwrap().is_none(), "it does not exist");
    let forgotten = last.forget_connection("hv1", now()).unwrap().unwrap().journalled();
    assert_eq!(forgotten.delete["node_connection"], [[json!("hv1"), json!(true), json!(txn)]]);
    assert!(forgotten.observation);
    assert!(last.forget_connection("hv1", now()).unwrap().is_none());
}

#[test]
fn rules_that_do_not_ask_get_no_transaction() {
    let rules = rules(crate::support::RULES);
    let mut core = core(&rules, &[]).0;
    apply(&mut core, NETWORK);
    assert!(core.connection("hv1", false, now()).unwrap().is_none());
}

async fn running(folder: &std::path::Path) -> Running {
    let switches = Switches::default();
    let patience = Patience {
        lost_after: Duration::ZERO,
        back_after: Duration::ZERO,
        most_lost: 100,
        ..Patience::default()
    };
    let mut parts = parts(folder, rules(RULES), &switches);
    parts.settings.policy.patience = patience;
    start_with(parts, switches).await
}

fn disconnected(channel: Channel) -> Event {
    Event::Disconnected { channel, why: "silent".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_is_lost_and_one_that_never_was_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let controller = running(folder.path()).await;
    let mut client = controller.client().await;
    apply_to(&mut client, NETWORK).await.unwrap();
    let switches = controller.switches.clone();
    // A controller that starts does not reach anything at first.
    switches.event("hv2", disconnected(Channel::OpenFlow)).await;
    switches.connect("hv1", Report::default()).await;
    // Its flows are in reach without its database.
    switches.event("hv1", disconnected(Channel::Ovsdb)).await;
    switches.event("hv1", disconnected(Channel::OpenFlow)).await;
    let counts = |status: &weft_client::pb::StatusResponse| -> Vec<u64> {
        status.switches.iter().map(|switch| switch.flows).collect()
    };
    let status = status_when(&mut client, |status| counts(status) == [1, 0]).await;
    let lost = status.last_txn;
    switches.event("hv1", Event::Connected { channel: Channel::OpenFlow }).await;
    status_when(&mut client, |status| status.last_txn == lost + 1).await;
    controller.stop().await;
    // What was known holds until it connects.
    let controller = running(folder.path()).await;
    let mut client = controller.client().await;
    controller.switches.event("hv1", disconnected(Channel::OpenFlow)).await;
    let status = status_when(&mut client, |status| counts(status) == [1, 0]).await;
    assert_eq!(status.last_txn, lost + 1);
    controller.stop().await;
}

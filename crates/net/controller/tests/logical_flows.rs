//! The universal flows of a datapath, asked over the socket of a controller with the built-in rules.

use std::sync::Arc;

use objects::ObjectKey;
use weft_client::ClientError;
use weft_client::pb::LogicalFlow;
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start_with};
use crate::support::*;

/// The flows of one form.
fn of_form<'a>(flows: &'a [LogicalFlow], form: &str) -> Vec<&'a LogicalFlow> {
    flows.iter().filter(|flow| flow.form == form).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_flows_of_a_switch_and_its_ports_are_listed_with_their_rules() {
    let folder = tempfile::tempdir().unwrap();
    let (switches, rules) = (Switches::default(), Arc::new(Rules::built_in().unwrap()));
    let running = start_with(parts(folder.path(), rules, &switches), switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();

    let found = client.logical_flows("blue").await.unwrap();
    assert_eq!((&*found.datapath.kind, &*found.datapath.id), ("switch", "blue"));
    let order: Vec<_> = found.flows.iter().map(|flow| (flow.table_id, u32::MAX - flow.priority)).collect();
    assert!(order.is_sorted(), "by stage, the highest priority first");

    let owners = |form: &str| {
        let owners = of_form(&found.flows, form).into_iter().map(|flow| flow.owner.as_str());
        owners.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(owners("logical_flood"), ["blue"]);
    assert_eq!(owners("logical_port_flow"), ["blue-1", "blue-2"], "not those of other switches");
    assert_eq!(owners("common_flow"), [""]);
    let deliveries = of_form(&found.flows, "logical_delivery");
    let to: Vec<&str> = deliveries.iter().map(|flow| flow.columns.as_str()).collect();
    assert!(to.contains(&r#"{"port":"blue-1"}"#) && !to.contains(&r#"{"port":"red-1"}"#), "{to:?}");
    assert!(deliveries.iter().all(|flow| flow.actions.is_none()), "{deliveries:?}");
    let flood = of_form(&found.flows, "logical_flood")[0];
    assert_eq!(flood.columns, r#"{"audience":"all"}"#);
    for flow in &found.flows {
        let rule = found.rules.iter().filter(|rule| rule.fingerprint == flow.rule);
        let texts: Vec<&str> = rule.map(|rule| rule.text.as_str()).collect();
        assert!(matches!(&texts[..], [text] if text.starts_with(&flow.form)), "{flow:?} of {texts:?}");
    }

    client.delete(&[ObjectKey::new("switch_port", "blue-1")], "test").await.unwrap();
    let left = client.logical_flows("blue").await.unwrap().flows;
    assert!(left.iter().all(|flow| flow.owner != "blue-1" && !flow.columns.contains("blue-1")), "{left:?}");
    assert!(!of_form(&left, "logical_port_flow").is_empty());
    let error = client.logical_flows("nonsense").await.unwrap_err();
    assert!(matches!(error, ClientError::NotFound(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "no object \"nonsense\" has logical flows: give the id of a logical switch"
    );
    running.stop().await;
}

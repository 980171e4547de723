//! The routes of routers as they take effect, asked over the socket of a controller.

use std::sync::Arc;

use controller::{Client, ClientError};
use objects::ObjectKey;
use serde_json::{Map, Value as Json};
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start, start_with};

const NETWORK: &str = "
{kind: switch, id: blue}
---
{kind: switch_port, id: b2, switch: blue, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.1.2]}]}
---
{kind: switch_port, id: b10, switch: blue, addresses: [{mac: '02:00:00:00:00:10', ips: [10.0.1.10]}]}
---
{kind: router, id: r}
---
{kind: router, id: idle}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.1.1/24, 'fd01::1/64']}
---
{kind: route, id: a-same, router: r, destination: 10.0.1.0/24, discard: true}
---
{kind: route, id: core, router: r, destination: 10.0.0.0/8, next_hops: [10.0.1.10, 10.0.1.2]}
---
{kind: route, id: near, router: r, destination: 10.9.0.0/16, next_hops: [10.0.1.2]}
";

/// The rows of a router's routing table.
async fn table(client: &mut Client, router: &str) -> Result<Vec<Map<String, Json>>, ClientError> {
    Ok(client.listing("routing-table", Some(router), false).await?.rows)
}

/// Destination, object, next hop and MAC address of each route; what does not apply is empty.
async fn routes(client: &mut Client, router: &str) -> Vec<[String; 4]> {
    let found = table(client, router).await.expect("a router");
    let text = |route: &Map<String, Json>, name: &str| route[name].as_str().unwrap_or_default().to_owned();
    let columns = ["destination", "by", "next_hop", "mac"];
    found.iter().map(|route| columns.map(|name| text(route, name))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_prefix_comes_first_and_changes_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (switches, rules) = (Switches::default(), Arc::new(Rules::built_in().unwrap()));
    let running = start_with(parts(folder.path(), rules, &switches), switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    assert_eq!(
        routes(&mut client, "r").await,
        [
            ["10.0.1.0/24", "r-blue", "", ""],
            ["10.0.1.0/24", "a-same", "", ""],
            ["10.9.0.0/16", "near", "10.0.1.2", "02:00:00:00:00:02"],
            ["10.0.0.0/8", "core", "10.0.1.2", "02:00:00:00:00:02"],
            ["10.0.0.0/8", "core", "10.0.1.10", "02:00:00:00:00:10"],
            ["fd01::/64", "r-blue", "", ""],
        ]
    );
    let shadowed = table(&mut client, "r").await.unwrap().remove(1);
    assert_eq!(shadowed["why"], "router_port r-blue connects the same network, which takes precedence");

    client
        .delete(&[ObjectKey::new("switch_port", "b2"), ObjectKey::new("route", "near")], "test")
        .await
        .unwrap();
    let left = table(&mut client, "r").await.unwrap();
    assert_eq!(left.len(), 5);
    assert_eq!((&left[2]["next_hop"], &left[2]["mac"]), (&"10.0.1.2".into(), &Json::Null));
    assert_eq!(left[2]["why"], "no port of switch blue has this address");

    assert_eq!(table(&mut client, "idle").await.unwrap(), []);
    let error = table(&mut client, "blue").await.unwrap_err();
    assert!(
        matches!(&error, ClientError::NotFound(why) if why.contains("router blue does not exist")),
        "{error}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_without_routers_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let error = table(&mut running.client().await, "r").await.unwrap_err();
    let why = "the rules declare no listing routing-table; they declare switch-members";
    assert!(matches!(&error, ClientError::NotFound(text) if text.contains(why)), "{error}");
    running.stop().await;
}

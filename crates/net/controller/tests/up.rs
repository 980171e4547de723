//! Whether objects are up, with the built-in rules: ports with their ACLs, and what adds them up.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value as Json, json};
use switch_model::{Event, Rejection};
use weft_client::Client;
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::report;
use crate::support::running::{Running, apply, parts, start_with, within};

const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:/1/db', openflow: 'unix:/1/of'}
---
{kind: switch, id: blue, tenant: acme}
---
{kind: switch, id: red, tenant: acme}
---
{kind: switch_port, id: blue-1, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
---
{kind: router, id: r, tenant: acme}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.0.254/24]}
---
{kind: router_port, id: r-red, router: r, switch: red, mac: '02:00:00:00:ff:02', networks: [10.0.1.254/24]}
";

async fn start(folder: &std::path::Path) -> Running {
    let (switches, rules) = (Switches::default(), Arc::new(Rules::built_in().unwrap()));
    let engine = Arc::new(|rules: &Rules| controller::evaluator(rules, 1));
    let parts = controller::Parts { evaluator: engine, ..parts(folder, rules, &switches) };
    start_with(parts, switches).await
}

async fn state(client: &mut Client, kind: &str, id: &str) -> Json {
    let found = client.get_with_states(kind, Some(id)).await.unwrap();
    serde_json::from_str(&found[0].1.columns).unwrap()
}

/// Waits until the state of an object is so.
async fn state_when(client: &mut Client, kind: &str, id: &str, wanted: impl Fn(&Json) -> bool) -> Json {
    within(async {
        loop {
            let state = state(client, kind, id).await;
            if wanted(&state) {
                return state;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_up_with_its_acls_in_force_and_its_router_and_tenant_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let of_router = state(&mut client, "router", "r").await;
    assert_eq!((&of_router["up"], &of_router["members"]), (&json!(false), &json!(2)));
    assert_eq!(of_router["not_up"], json!(["router_port r-blue", "router_port r-red"]));
    let why = json!(["no member of switch blue is up"]);
    assert_eq!(state(&mut client, "router_port", "r-blue").await["why"], why);

    let switches = running.switches.clone();
    switches.connect("hv1", report(&[("blue-1", 5)], &[("weft-geneve", 1)])).await;
    state_when(&mut client, "switch_port", "blue-1", |state| state["node"] == "hv1").await;
    switches.confirm("hv1").await;
    let is_up = |state: &Json| state["up"] == true;
    state_when(&mut client, "switch_port", "blue-1", is_up).await;
    assert_eq!(state(&mut client, "router_port", "r-blue").await["up"], true);
    assert_eq!(state(&mut client, "switch", "blue").await["members"], 1, "the router's port is no member");
    assert_eq!(state(&mut client, "router", "r").await["not_up"], json!(["router_port r-red"]));
    // A switch without ports lacks nothing, but a port of a router there leads nowhere.
    let acme = client.tenant("acme").await.unwrap().unwrap();
    assert_eq!((acme.up, acme.members, acme.members_up), (false, 3, 2));
    assert_eq!(acme.not_up.iter().map(|object| &*object.id).collect::<Vec<_>>(), ["r"]);
    assert_eq!(client.tenant("nobody").await.unwrap(), None);
    let mut web = running.web().await;
    let told = web.get("/v1/status?tenant=acme").await.json()["tenants"].clone();
    let not_up = json!([{"kind": "router", "id": "r"}]);
    assert_eq!(
        told,
        json!([{"tenant": "acme", "up": false, "members": 3, "members_up": 2, "not_up": not_up}])
    );

    // Ports wait for their ACLs, whichever way these apply to them.
    let group = "{kind: port_group, id: web, ports: [blue-1]}";
    apply(&mut client, group).await.unwrap();
    for (place, action) in [("port: blue-1", "drop"), ("switch: blue", "allow"), ("port_group: web", "drop")]
    {
        let acl = format!("{{kind: acl, id: a, {place}, direction: to_port, priority: 1, action: {action}}}");
        let txn = apply(&mut client, &acl).await.unwrap().txn.unwrap();
        let state = state(&mut client, "switch_port", "blue-1").await;
        let why = format!("hv1 has not confirmed transaction {txn} yet, which changes acl a");
        assert_eq!((&state["up"], &state["why"]), (&json!(false), &json!([why])), "{place}");
        switches.event("hv1", Event::Confirmed { txn, at: Instant::now(), sent: None }).await;
        state_when(&mut client, "switch_port", "blue-1", is_up).await;
    }

    // An ACL of which the switch refuses a flow is not in force, whatever it confirms later.
    let acl = "{kind: acl, id: a, port: blue-1, direction: to_port, priority: 2, action: drop}";
    let txn = apply(&mut client, acl).await.unwrap().txn.unwrap();
    let first = vec![Rejection { what: "table=33".to_owned(), reason: "OFPBMC_BAD_FIELD".to_owned() }];
    switches.event("hv1", Event::Refused { txn: Some(txn), count: 1, first }).await;
    switches.event("hv1", Event::RefusedTotal { refused: 1 }).await;
    let why = json!([format!("hv1 has refused a part of transaction {txn}, which changes acl a")]);
    state_when(&mut client, "switch_port", "blue-1", |state| state["why"] == why).await;
    let acl = acl.replace("priority: 2", "priority: 3");
    let txn = apply(&mut client, &acl).await.unwrap().txn.unwrap();
    switches.event("hv1", Event::Confirmed { txn, at: Instant::now(), sent: None }).await;
    switches.event("hv1", Event::RefusedTotal { refused: 0 }).await;
    state_when(&mut client, "switch_port", "blue-1", is_up).await;
    running.stop().await;
}

//! Objects: read, changed, and what became of them.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use tokio_stream::StreamExt as _;

use super::{ids, serve, with_a_host};
use crate::support::NETWORK;
use crate::support::running::{start, within};
use crate::support::web::Web;

/// A port of [`NETWORK`].
const PORT: &str = "/v1/switch_ports/blue-1";

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_written_read_patched_and_deleted() {
    let (_folder, running, mut web) = serve().await;

    let created = web.put("/v1/switches/blue", "{}").await;
    let receipt = created.expect(201);
    assert_eq!(receipt["txn"], 1);
    assert_eq!(
        receipt["objects"],
        json!([{"object": {"kind": "switch", "id": "blue"}, "outcome": "created", "fields": []}])
    );
    assert_eq!((created.header("weft-transaction"), created.header("etag")), ("1", "\"1\""));
    assert_eq!(web.put("/v1/switches/blue", "{}").await.expect(200)["objects"][0]["outcome"], "unchanged");

    let found = web.get("/v1/switches/blue").await;
    assert_eq!(found.expect(200)["state"]["mtu"], 1442);
    assert_eq!((found.header("content-type"), found.header("etag")), ("application/json", "\"1\""));
    for known in ["\"1\"", "W/\"1\"", "\"7\", \"1\"", "*"] {
        let answer = web.ask("GET", "/v1/switches/blue", &[("if-none-match", known)], "").await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (304, ""), "{known}");
    }
    web.ask("GET", "/v1/switches/blue", &[("if-none-match", "\"2\"")], "").await.expect(200);
    // The singular is forgiven, and so are hyphens, as on the command line.
    assert_eq!(web.get("/v1/switch/blue").await.text, found.text);

    let patched = web.patch("/v1/switches/blue", r#"{"tenant": "acme", "labels": {"tier": "web"}}"#).await;
    let fields = &patched.expect(200)["objects"][0]["fields"];
    assert_eq!(fields[0], json!({"field": "tenant", "after": "acme", "left_out": false}));
    let object = web.get("/v1/switches/blue").await.expect(200);
    assert_eq!(
        (&object["tenant"], &object["labels"], &object["revision"]),
        (&json!("acme"), &json!({"tier": "web"}), &json!(2))
    );
    // What was read can be written again.
    assert_eq!(
        web.put("/v1/switches/blue", &object.to_string()).await.expect(200)["objects"][0]["outcome"],
        "unchanged"
    );

    assert_eq!(web.delete("/v1/switches/blue").await.expect(200)["objects"][0]["outcome"], "deleted");
    let gone = web.get("/v1/switches/blue").await;
    assert_eq!(gone.header("content-type"), "application/problem+json");
    let problem = gone.expect(404);
    assert_eq!(problem["detail"], "switch blue does not exist");
    assert_eq!(web.delete("/v1/switches/blue").await.expect(404)["code"], "not-found");
    assert_eq!(web.patch("/v1/switches/blue", "{}").await.expect(404)["code"], "not-found");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_listed_of_an_object_that_does_not_exist() {
    let (_folder, running, mut web) = serve().await;
    for path in ["switch_ports/x/counters", "switches/x/switch-members", "transport_nodes/x/tunnels"] {
        let problem = web.get(&format!("/v1/{path}")).await.expect(404);
        assert!(problem["detail"].as_str().unwrap().contains("x does not exist"), "{problem}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn yaml_and_json_say_the_same() {
    let (_folder, running, mut web) = serve().await;
    let yaml = [("content-type", "application/yaml")];
    web.ask("POST", "/v1/apply", &yaml, NETWORK).await.expect(200);
    let as_yaml = [("accept", "application/yaml")];
    let one = web.ask("GET", PORT, &as_yaml, "").await;
    assert_eq!(one.header("content-type"), "application/yaml");
    let value: Json = serde_norway::from_str(&one.text).unwrap();
    assert_eq!(value, web.get(PORT).await.json());
    let list = web.ask("GET", "/v1/switch_ports", &as_yaml, "").await.text;
    let items = web.get("/v1/switch_ports").await.json()["items"].clone();
    let documents: Vec<Json> =
        list.split("---\n").skip(1).map(|text| serde_norway::from_str(text).unwrap()).collect();
    assert_eq!(Json::Array(documents), items);
    // A list in YAML can be applied.
    let again = web.ask("POST", "/v1/apply", &yaml, &list).await.expect(200);
    assert!(again.get("txn").is_none(), "{again}");
    assert!(web.ask("PUT", PORT, &yaml, &one.text).await.expect(200).get("txn").is_none());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_told_at_once_and_nothing_changes() {
    let (_folder, running, mut web) = serve().await;
    web.put("/v1/switches/blue", "{}").await.expect(201);
    let body = r#"{"switch": "red", "addresses": [{"mac": "nonsense"}], "port_securty": true}"#;
    let refused = web.put(PORT, body).await;
    assert_eq!(refused.header("content-type"), "application/problem+json");
    let problem = refused.expect(422);
    assert_eq!((&problem["code"], &problem["status"]), (&json!("bad-object"), &json!(422)));
    let faults: BTreeSet<(&str, &str)> = problem["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| (fault["code"].as_str().unwrap(), fault["path"].as_str().unwrap()))
        .collect();
    assert!(faults.contains(&("unknown-field", "port_securty")), "{problem}");
    assert!(faults.contains(&("bad-value", "addresses[0].mac")), "{problem}");

    let other =
        web.put(PORT, r#"{"kind": "switch_port", "id": "blue-2", "switch": "blue"}"#).await.expect(422);
    assert_eq!(other["faults"][0]["path"], "id");
    for (body, status) in [
        ("{\"switch\": ", 400),
        ("[1]", 400),
        ("{} {}", 400),
        ("{\"switch\": \"blue\", \"delete\": true}", 422),
    ] {
        web.put(PORT, body).await.expect(status);
    }
    web.get(PORT).await.expect(404);
    // The switch is in use.
    web.put(PORT, r#"{"switch": "blue"}"#).await.expect(201);
    let in_use = web.delete("/v1/switches/blue").await.expect(409);
    assert_eq!(in_use["code"], "in-use");
    assert_eq!(web.get("/v1/status").await.expect(200)["last_txn"], 2);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_what_switches_would_get() {
    let (_folder, running, mut web) = serve().await;
    let (_client, _receipts) = with_a_host(&running).await;

    let flows = async |web: &mut Web| web.get("/v1/transport_nodes/hv1/flows").await.text;
    let before = flows(&mut web).await;
    let told = web.ask("DELETE", "/v1/switch_ports/blue-1?dry_run=true", &[], "").await.expect(200);
    assert_eq!((&told["dry_run"], told.get("txn")), (&json!(true), None));
    let delta = &told["delta"];
    let counted = |member: &str| delta[member].as_u64().unwrap_or_default();
    assert!(counted("deleted") > 0 && counted("added") == 0, "{delta}");
    let parts = delta["flows"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part["deleted"].as_u64().unwrap()).sum();
    assert_eq!((sum, delta["left_out"].as_u64()), (counted("deleted"), Some(0)));
    assert!(parts.iter().all(|part| part["rule"].as_str().unwrap().starts_with("0x")), "{delta}");
    assert!(
        parts
            .iter()
            .any(|part| part["node"] == "hv1" && part["example"].as_str().unwrap().contains("priority="))
    );
    // Nothing took effect.
    assert_eq!(flows(&mut web).await, before);
    web.get("/v1/switch_ports/blue-1").await.expect(200);

    // What was told is what happens.
    let receipt = web.delete("/v1/switch_ports/blue-1").await.expect(200);
    assert!(receipt.get("delta").is_none());
    let receipt = web.get(&format!("/v1/transactions/{}", receipt["txn"])).await.expect(200);
    let deleted: u64 = receipt["switches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|switch| switch["flows_deleted"].as_u64().unwrap())
        .sum();
    assert_eq!(deleted, counted("deleted"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_can_wait_for_the_switches() {
    let (_folder, running, mut web) = serve().await;
    let (mut client, mut receipts) = with_a_host(&running).await;
    running.switches.confirm("hv1").await;
    within(client.settled(2)).await.unwrap().unwrap();

    // Nobody confirms: the answer comes at its time, and says who is behind.
    let path = "/v1/switch_ports/blue-1";
    let late = web.ask("DELETE", &format!("{path}?wait=installed&timeout=10ms"), &[], "").await.expect(200);
    assert_eq!(
        (&late["receipt"]["complete"], &late["receipt"]["switches"][0]["state"]),
        (&json!(false), &json!("pending"))
    );
    let waiting = async {
        let object =
            r#"{"switch": "blue", "addresses": [{"mac": "02:00:00:00:00:01", "ips": ["10.0.0.1"]}]}"#;
        web.put(&format!("{path}?wait=installed"), object).await.expect(201)
    };
    let confirming = async {
        within(receipts.next()).await.unwrap().unwrap();
        loop {
            let receipt = within(receipts.next()).await.unwrap().unwrap();
            if receipt.txn == 4 {
                running.switches.confirm("hv1").await;
                return;
            }
        }
    };
    let (installed, ()) = tokio::join!(waiting, confirming);
    assert_eq!((&installed["txn"], &installed["receipt"]["complete"]), (&json!(4), &json!(true)));
    assert_eq!(installed["receipt"]["switches"][0]["state"], "confirmed");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_gets_the_first_answer_also_after_a_restart() {
    let (folder, running, mut web) = serve().await;
    let with = |key: &'static str| [("content-type", "application/json"), ("idempotency-key", key)];
    let first = web.ask("PUT", "/v1/switches/blue", &with("k1"), "{}").await.expect(201);
    assert_eq!((&first["txn"], &first["repeated"]), (&json!(1), &json!(false)));
    web.ask("PATCH", "/v1/switches/blue", &with("k2"), r#"{"tenant": "a"}"#).await.expect(200);
    web.put("/v1/switches/blue", r#"{"tenant": "b"}"#).await.expect(200);
    // The object has another tenant meanwhile, and keeps it.
    let again = web.ask("PATCH", "/v1/switches/blue", &with("k2"), r#"{"tenant": "a"}"#).await.expect(200);
    assert_eq!(
        (&again["txn"], &again["repeated"], &again["objects"][0]["outcome"]),
        (&json!(2), &json!(true), &json!("updated"))
    );
    let other = web.ask("PATCH", "/v1/switches/blue", &with("k2"), r#"{"tenant": "c"}"#).await.expect(422);
    assert_eq!(other["code"], "key-reused");
    // A refused request had no effect, so it is a request like others when it is repeated.
    web.ask("PUT", "/v1/switch_ports/p", &with("k3"), r#"{"switch": "red"}"#).await.expect(422);
    web.put("/v1/switches/red", "{}").await.expect(201);
    web.ask("PUT", "/v1/switch_ports/p", &with("k3"), r#"{"switch": "red"}"#).await.expect(201);
    // So is a dry run.
    web.ask("DELETE", "/v1/switch_ports/p?dry_run=true", &with("k4"), "").await.expect(200);
    web.ask("DELETE", "/v1/switch_ports/p", &with("k4"), "").await.expect(200);
    web.ask("PUT", "/v1/switches/x", &with("with a blank"), "{}").await.expect(400);
    web.ask("PUT", "/v1/switches/x", &with(""), "{}").await.expect(400);
    running.stop().await;

    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let after = web.ask("PATCH", "/v1/switches/blue", &with("k2"), r#"{"tenant": "a"}"#).await.expect(200);
    assert_eq!(after, again);
    let deleted = web.ask("DELETE", "/v1/switch_ports/p", &with("k4"), "").await.expect(200);
    assert_eq!((&deleted["txn"], &deleted["objects"][0]["outcome"]), (&json!(6), &json!("deleted")));
    let created = web.ask("PUT", "/v1/switches/blue", &with("k1"), "{}").await;
    assert_eq!(created.expect(201)["objects"][0]["outcome"], "created");
    assert_eq!(web.get("/v1/switches/blue").await.expect(200)["tenant"], "b");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_says_who_changed_what_and_objects_go_back() {
    let (_folder, running, mut web) = serve().await;
    let by = |name: &'static str| [("content-type", "application/json"), ("weft-by", name)];
    web.ask("PUT", "/v1/switches/blue", &by("ann"), r#"{"tenant": "a"}"#).await.expect(201);
    web.ask("PATCH", "/v1/switches/blue", &by("bob"), r#"{"labels": {"tier": "web"}}"#).await.expect(200);
    web.ask("PATCH", "/v1/switches/blue", &by("cyd"), r#"{"tenant": "c"}"#).await.expect(200);
    web.put("/v1/switches/red", "{}").await.expect(201);
    web.put("/v1/switch_ports/p", r#"{"switch": "red"}"#).await.expect(201);
    web.delete("/v1/switches/blue").await.expect(200);

    let told = |entries: &Json| -> Vec<(u64, String, String)> {
        let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
        let entries = entries["entries"].as_array().unwrap().iter();
        entries
            .map(|entry| {
                (entry["txn"].as_u64().unwrap(), text(&entry["by"]), text(&entry["objects"][0]["outcome"]))
            })
            .collect()
    };
    let of = |txn: u64, by: &str, outcome: &str| (txn, by.to_owned(), outcome.to_owned());
    let blue = web.get("/v1/switches/blue/history").await.expect(200);
    assert_eq!(
        told(&blue),
        [of(6, "api", "deleted"), of(3, "cyd", "updated"), of(2, "bob", "updated"), of(1, "ann", "created")]
    );
    assert_eq!(
        blue["entries"][1]["object"],
        json!({"kind": "switch", "id": "blue", "labels": {"tier": "web"}, "tenant": "c"})
    );
    assert!(
        blue["entries"][0].get("object").is_none()
            && blue["entries"][0]["at"].as_str().unwrap().ends_with('Z')
    );
    let page = web.get("/v1/history?limit=2").await.expect(200);
    assert_eq!(
        (told(&page), &page["before"]),
        (vec![of(6, "api", "deleted"), of(5, "api", "created")], &json!(5))
    );
    let next = web.get("/v1/history?limit=9&before=5").await.expect(200);
    assert_eq!((told(&next).len(), next["before"].as_u64()), (4, Some(0)));
    web.get("/v1/history?kind=switch").await.expect(400);
    assert!(told(&web.get("/v1/switches/never/history").await.expect(200)).is_empty());

    // What was created since then goes, what was deleted comes back, what changed is as it was.
    let dry = web.ask("POST", "/v1/rollback?to=2&dry_run=true", &[], "").await.expect(200);
    assert_eq!(dry["objects"].as_array().unwrap().len(), 3);
    let back = web.ask("POST", "/v1/rollback?to=2", &by("eve"), "").await.expect(200);
    assert_eq!(back["txn"], 7);
    let blue = web.get("/v1/switches/blue").await.expect(200);
    assert_eq!((&blue["tenant"], &blue["labels"]), (&json!("a"), &json!({"tier": "web"})));
    web.get("/v1/switches/red").await.expect(404);
    web.get("/v1/switch_ports/p").await.expect(404);
    assert!(web.ask("POST", "/v1/rollback?to=2", &[], "").await.expect(200).get("txn").is_none());
    // Back to the future, and to nothing.
    web.ask("POST", "/v1/rollback?to=6", &[], "").await.expect(200);
    web.get("/v1/switches/blue").await.expect(404);
    web.get("/v1/switch_ports/p").await.expect(200);
    web.ask("POST", "/v1/rollback?to=0", &[], "").await.expect(200);
    assert!(ids(&web.get("/v1/switches").await.expect(200)).is_empty());
    web.ask("POST", "/v1/rollback?to=99", &[], "").await.expect(410);
    web.ask("POST", "/v1/rollback", &[], "").await.expect(400);
    running.stop().await;
}

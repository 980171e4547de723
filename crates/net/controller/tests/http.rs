//! The API over HTTP, beside gRPC on the same socket.

use std::collections::BTreeSet;

use prost::Message as _;
use serde_json::{Value as Json, json};

use tokio_stream::StreamExt as _;

use crate::support::running::{apply, start, within};
use crate::support::*;

/// The switch, the port and the hosts of [`NETWORK`] are there.
const PORT: &str = "/v1/switch_ports/blue-1";

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_written_read_patched_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;

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
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    for path in ["switch_ports/x/counters", "switches/x/switch-members", "transport_nodes/x/tunnels"] {
        let problem = web.get(&format!("/v1/{path}")).await.expect(404);
        assert!(problem["detail"].as_str().unwrap().contains("x does not exist"), "{problem}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_rules_declare_is_listed_of_an_object_and_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    for id in ["a", "b"] {
        web.put(&format!("/v1/switches/{id}"), "{}").await.expect(201);
    }
    for (id, switch) in [("p2", "a"), ("p1", "a"), ("q1", "b")] {
        web.put(&format!("/v1/switch_ports/{id}"), &format!(r#"{{"switch": "{switch}"}}"#)).await.expect(201);
    }
    let row = |switch: &str, port: &str| json!({"switch": switch, "port": port});
    let listed = web.get("/v1/switches/a/switch-members").await.expect(200);
    assert_eq!(listed["rows"], json!([row("a", "p1"), row("a", "p2")]));
    assert_eq!(listed["listing"]["otherwise"], "the switch has no ports");
    let all = web.get("/v1/network/switch-members").await.expect(200);
    assert_eq!(all["rows"], json!([row("a", "p1"), row("a", "p2"), row("b", "q1")]));
    let declared = web.get("/v1/listings").await.expect(200);
    let listing = &declared["listings"][0];
    assert_eq!((&listing["name"], &listing["kinds"]), (&"switch-members".into(), &json!(["switch"])));
    assert_eq!(listing["doc"], "The ports of a switch. They are on any host.");
    let document = web.get("/v1/openapi.json").await.expect(200);
    let operation = &document["paths"]["/v1/switches/{id}/switch-members"]["get"];
    assert_eq!(operation["summary"], "The ports of a switch");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_no_text_is_a_problem_too() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    for path in
        ["/v1/%ff/x", "/v1/switches/%ff%fe", "/v1/switches/a/%ff", "/v1/transactions/%ff", "/v1/schema/%ff"]
    {
        let answer = web.get(path).await;
        assert_eq!(answer.header("content-type"), "application/problem+json", "{path}");
        assert_eq!(answer.expect(400)["code"], "bad-request");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn yaml_and_json_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
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
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
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
async fn what_there_is_not_is_refused_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    for (method, path, status, told) in [
        ("GET", "/", 404, "/v1/openapi.json"),
        ("GET", "/v1/swiches", 404, "did you mean /v1/switches?"),
        ("GET", "/v1/switches?lable=x", 400, "known are continue, field, label, limit"),
        ("GET", "/v1/switches?limit=-1", 400, "a number from 0 on"),
        ("GET", "/v1/switches?limit=1&limit=2", 400, "given 2 times"),
        ("POST", "/v1/switches", 405, "does not take POST"),
        ("PUT", "/v1/switches/b?dry_run=maybe", 400, "`true` or `false`"),
        ("PUT", "/v1/switches/b?wait=never", 400, "accepted, computed or installed"),
        ("GET", "/v1/switches/b/color", 404, "flows, logical-flows, counters, tunnels, switch-members"),
        ("GET", "/v1/switch_ports/b/switch-members", 404, "there is no \"switch-members\" of switch_port b"),
        ("GET", "/v1/network/color", 404, "counters, tunnels, switch-members"),
        ("GET", "/v1/transactions/7", 404, "transaction 7"),
        ("GET", "/v1/transactions/x", 400, "number of a transaction"),
        ("POST", "/v1/trace", 400, "the body"),
        ("POST", "/v1/explain", 400, "the body"),
    ] {
        let answer = web.ask(method, path, &[], "").await;
        let problem = answer.expect(status);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(told), "{method} {path}: {detail}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    let accept = [("accept", "image/png")];
    web.ask("GET", "/v1/switches", &accept, "").await.expect(406);
    running.stop().await;
}

/// The calls of the service, from the description that server reflection gives.
fn calls() -> BTreeSet<String> {
    let bytes = include_bytes!("../src/api/weft.v1.descriptors");
    let files = prost_types::FileDescriptorSet::decode(&bytes[..]).expect("descriptors").file;
    let services = files.into_iter().flat_map(|file| file.service);
    services.flat_map(|service| service.method).map(|method| method.name().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_have_the_same_operations() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let document = web.get("/v1/openapi.json").await.expect(200);
    let paths = document["paths"].as_object().unwrap();
    let mut named = BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let Some(call) = operation["x-grpc-call"].as_str() else { continue };
            named.insert(call.to_owned());
            named.extend(operation["x-watch"]["x-grpc-call"].as_str().map(str::to_owned));
            // A path that is described is there.
            let path = path.replace("{kinds}", "switches").replace("{id}", "x").replace("{txn}", "1");
            if operation.get("x-endless").is_some() {
                continue;
            }
            let answer = web.ask(&method.to_uppercase(), &path, &[], "").await;
            let is_there = answer.status != 405 && !answer.text.contains("/v1/openapi.json describes");
            assert!(is_there, "{method} {path}: {}", answer.text);
        }
    }
    assert_eq!(named, calls());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_grpc_tells_http_tells() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.unwrap();
    let mut receipts = Box::pin(client.receipts(None).await.unwrap());
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[("weft-geneve", 1)])).await;
    within(receipts.next()).await.unwrap().unwrap();
    running.switches.confirm("hv1").await;
    within(client.settled(2)).await.unwrap().unwrap();

    let status = web.get("/v1/status?node=hv1").await.expect(200);
    assert_eq!((&status["last_txn"], &status["switches"][0]["node"]), (&json!(2), &json!("hv1")));
    let flows = client.flows("hv1").await.unwrap();
    let told = web.get("/v1/transport_nodes/hv1/flows").await.expect(200);
    let of = |json: &Json| {
        (json["match"].as_str().unwrap().to_owned(), json["cookie"].as_str().unwrap().to_owned())
    };
    let told: Vec<_> = told["flows"].as_array().unwrap().iter().map(of).collect();
    let flows: Vec<_> =
        flows.flows.iter().map(|flow| (flow.r#match.clone(), format!("{:#x}", flow.cookie))).collect();
    assert_eq!(told, flows);
    assert!(!told.is_empty());
    let receipt = web.get("/v1/transactions/2").await.expect(200);
    assert_eq!((&receipt["by"], &receipt["complete"]), (&json!("switch hv1"), &json!(true)));
    assert_eq!(receipt["switches"][0]["state"], "confirmed");
    let explained =
        web.ask("POST", "/v1/explain", &[], r#"{"row": "switch(\"blue\", ..)"}"#).await.expect(200);
    assert!(explained.is_object() || explained.is_array(), "{explained}");
    running.stop().await;
}

/// A network with this many ports, `p000` and so on, every other one labelled.
fn ports(count: usize) -> String {
    let mut text = "{kind: switch, id: blue}\n".to_owned();
    for number in 0..count {
        let label = if number % 2 == 0 { ", labels: {app: web}" } else { "" };
        text += &format!("---\n{{kind: switch_port, id: p{number:03}, switch: blue{label}}}\n");
    }
    text
}

fn ids(list: &Json) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| item["id"].as_str().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_one_moment_while_objects_change() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let yaml = [("content-type", "application/yaml")];
    web.ask("POST", "/v1/apply", &yaml, &ports(10)).await.expect(200);
    let first = web.get("/v1/switch_ports?limit=4").await.expect(200);
    assert_eq!(ids(&first), ["p000", "p001", "p002", "p003"]);
    // What changes after the first page is not in the others.
    web.delete("/v1/switch_ports/p004").await.expect(200);
    web.put("/v1/switch_ports/p0045", r#"{"switch": "blue"}"#).await.expect(201);
    web.patch("/v1/switch_ports/p005", r#"{"labels": {"new": "yes"}}"#).await.expect(200);
    let path =
        |list: &Json| format!("/v1/switch_ports?limit=4&continue={}", list["continue"].as_str().unwrap());
    let second = web.get(&path(&first)).await.expect(200);
    assert_eq!(ids(&second), ["p004", "p005", "p006", "p007"]);
    assert!(second["items"][1].get("labels").is_none(), "{second}");
    assert_eq!(second["revision"], first["revision"]);
    let third = web.get(&path(&second)).await.expect(200);
    assert_eq!((ids(&third), third.get("continue")), (vec!["p008", "p009"], None));
    let now = web.get("/v1/switch_ports").await.expect(200);
    assert_eq!(now["items"].as_array().unwrap().len(), 10);
    assert!(ids(&now).contains(&"p0045"));

    web.get("/v1/switch_ports?continue=nonsense").await.expect(400);
    web.get("/v1/switch_ports?continue=1:p000").await.expect(410);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_selected_by_labels_and_fields() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let yaml = [("content-type", "application/yaml")];
    web.ask("POST", "/v1/apply", &yaml, &ports(6)).await.expect(200);
    let web_ports = web.get("/v1/switch_ports?label=app=web").await.expect(200);
    assert_eq!(ids(&web_ports), ["p000", "p002", "p004"]);
    let others = web.get("/v1/switch_ports?label=app!=web&field=switch=blue&limit=2").await.expect(200);
    assert_eq!(ids(&others), ["p001", "p003"]);
    let one = web.get("/v1/switch_ports?field=id=p003,switch=blue").await.expect(200);
    assert_eq!(ids(&one), ["p003"]);
    assert!(ids(&web.get("/v1/switch_ports?field=switch=red").await.expect(200)).is_empty());
    let refused = web.get("/v1/switch_ports?field=swich=red").await.expect(400);
    assert!(refused["detail"].as_str().unwrap().contains("did you mean `switch`?"), "{refused}");
    running.stop().await;
}

/// The lines of a watch, parsed, until a bookmark that is not the first line.
async fn until_bookmark(body: &mut hyper::body::Incoming, rest: &mut String) -> Vec<Json> {
    let mut events = Vec::new();
    loop {
        while let Some((line, more)) = rest.clone().split_once('\n') {
            more.clone_into(rest);
            let event: Json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let is_bookmark = event["type"] == "bookmark";
            events.push(event);
            if is_bookmark {
                return events;
            }
        }
        let bytes = crate::support::web::next(body).await.expect("it goes on");
        *rest += &String::from_utf8(bytes).expect("text");
    }
}

fn told(events: &[Json]) -> Vec<(&str, &str)> {
    events
        .iter()
        .map(|event| {
            (event["type"].as_str().unwrap_or_default(), event["object"]["id"].as_str().unwrap_or_default())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_where_a_list_or_another_watch_ended() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let yaml = [("content-type", "application/yaml")];
    web.ask("POST", "/v1/apply", &yaml, &ports(3)).await.expect(200);
    let list = web.get("/v1/switch_ports?label=app=web").await.expect(200);
    let from = |revision: &Json| format!("/v1/switch_ports?watch=true&label=app=web&from={revision}");
    web.delete("/v1/switch_ports/p000").await.expect(200);
    web.delete("/v1/switch_ports/p001").await.expect(200);

    let mut watching = running.web().await;
    let answer = watching.open("GET", &from(&list["revision"]), &[], "").await;
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    let (mut body, mut rest) = (answer.into_body(), String::new());
    let events = until_bookmark(&mut body, &mut rest).await;
    assert_eq!(told(&events), [("deleted", "p000"), ("bookmark", "")]);
    // What comes to have the label is created for this watcher, and deleted once it has it no more.
    web.put("/v1/switch_ports/q", r#"{"switch": "blue"}"#).await.expect(201);
    web.patch("/v1/switch_ports/q", r#"{"labels": {"app": "web"}}"#).await.expect(200);
    let events = until_bookmark(&mut body, &mut rest).await;
    assert_eq!(told(&events), [("created", "q"), ("bookmark", "")]);
    assert_eq!(events[0]["object"]["revision"], 5);
    let bookmark = events[1]["revision"].clone();
    drop(body);
    web.patch("/v1/switch_ports/q", r#"{"labels": null}"#).await.expect(200);
    let mut again = running.web().await;
    let (mut body, mut rest) =
        (again.open("GET", &from(&bookmark), &[], "").await.into_body(), String::new());
    let events = until_bookmark(&mut body, &mut rest).await;
    assert_eq!(told(&events), [("deleted", "q"), ("bookmark", "")]);

    let too_old = web.get(&from(&json!(1))).await.expect(410);
    assert!(too_old["detail"].as_str().unwrap().contains("list the objects again"), "{too_old}");
    web.get(&from(&json!(9_000_000_000_000_000_u64))).await.expect(410);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_as_server_sent_events_goes_on_by_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    web.put("/v1/switches/blue", "{}").await.expect(201);
    let revision = web.get("/v1/switches").await.expect(200)["revision"].to_string();
    web.put("/v1/switches/red", "{}").await.expect(201);
    let mut watching = running.web().await;
    let headers = [("accept", "text/event-stream"), ("last-event-id", &revision)];
    let mut body = watching.open("GET", "/v1/switches?watch=true", &headers, "").await.into_body();
    let mut text = String::new();
    while !text.contains("event: bookmark") || !text.ends_with("\n\n") {
        text += &String::from_utf8(crate::support::web::next(&mut body).await.unwrap()).unwrap();
    }
    assert!(
        text.starts_with(
            "event: created\ndata: {\"type\":\"created\",\"object\":{\"kind\":\"switch\",\"id\":\"red\""
        ),
        "{text}"
    );
    assert!(text.contains("\n\nid: "), "{text}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_what_switches_would_get() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let mut client = running.client().await;
    let mut receipts = Box::pin(client.receipts(None).await.unwrap());
    let yaml = [("content-type", "application/yaml")];
    web.ask("POST", "/v1/apply", &yaml, NETWORK).await.expect(200);
    within(receipts.next()).await.unwrap().unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[("weft-geneve", 1)])).await;
    within(receipts.next()).await.unwrap().unwrap();

    let flows =
        async |web: &mut crate::support::web::Web| web.get("/v1/transport_nodes/hv1/flows").await.text;
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
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    let mut client = running.client().await;
    let mut receipts = Box::pin(client.receipts(None).await.unwrap());
    let yaml = [("content-type", "application/yaml")];
    web.ask("POST", "/v1/apply", &yaml, NETWORK).await.expect(200);
    within(receipts.next()).await.unwrap().unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[("weft-geneve", 1)])).await;
    within(receipts.next()).await.unwrap().unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
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
async fn a_thousand_watchers_hear_of_a_change_each_on_a_connection_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    web.put("/v1/switches/blue", "{}").await.expect(201);
    let mut watchers = Vec::new();
    for _ in 0..1000 {
        let mut connection = running.web().await;
        let mut body = connection.open("GET", "/v1/switches?watch=true", &[], "").await.into_body();
        let mut rest = String::new();
        assert_eq!(told(&until_bookmark(&mut body, &mut rest).await), [("bookmark", "")]);
        watchers.push((connection, body, rest));
    }
    // A connection of its own, as the first one may have been silent for too long by now.
    running.web().await.put("/v1/switches/red", "{}").await.expect(201);
    for (_connection, body, rest) in &mut watchers {
        assert_eq!(told(&until_bookmark(body, rest).await), [("created", "red"), ("bookmark", "")]);
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_says_who_changed_what_and_objects_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_cannot_use_the_browser_of_an_operator() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut web = running.web().await;
    // A form can send this without a question to the API. The host of these requests is `localhost`.
    let from = |origin: &'static str| [("content-type", "text/plain"), ("origin", origin)];
    for origin in ["https://example.com", "null", "http://localhost.example.com", "http://localhost:81"] {
        let refused = web.ask("PUT", "/v1/switches/blue", &from(origin), "{}").await.expect(403);
        assert_eq!(refused["code"], "other-site", "{origin}");
    }
    web.get("/v1/switches/blue").await.expect(404);
    web.ask("PUT", "/v1/switches/blue", &from("http://localhost"), "{}").await.expect(201);
    running.stop().await;
}

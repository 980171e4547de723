//! Lists, their pages, and watches that go on from them.

use std::collections::BTreeSet;

use hyper::body::Incoming;
use serde_json::{Value as Json, json};

use super::{apply_yaml, ids, serve};
use crate::support::web::next;

/// A network with this many ports, `p000` and so on, every other one labelled.
fn ports(count: usize) -> String {
    let mut text = "{kind: switch, id: blue}\n".to_owned();
    for number in 0..count {
        let label = if number % 2 == 0 { ", labels: {app: web}" } else { "" };
        text += &format!("---\n{{kind: switch_port, id: p{number:03}, switch: blue{label}}}\n");
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_one_moment_while_objects_change() {
    let (_folder, running, mut web) = serve().await;
    apply_yaml(&mut web, &ports(10)).await;
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
    let (_folder, running, mut web) = serve().await;
    apply_yaml(&mut web, &ports(6)).await;
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
async fn until_bookmark(body: &mut Incoming, rest: &mut String) -> Vec<Json> {
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
        let bytes = next(body).await.expect("it goes on");
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
    let (_folder, running, mut web) = serve().await;
    apply_yaml(&mut web, &ports(3)).await;
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
async fn a_bookmark_never_comes_in_the_midst_of_a_transaction() {
    let (_folder, running, mut web) = serve().await;
    let begin = web.get("/v1/switch_ports").await.expect(200)["revision"].clone();
    // More than one message of a watch has; the selection leaves some messages without events.
    let small = "---\n{kind: switch_port, id: z, switch: blue, labels: {app: web}}\n";
    apply_yaml(&mut web, &(ports(600) + small)).await;
    web.delete("/v1/switch_ports/z").await.expect(200);
    for (selection, created) in [("", 601), ("&label=app=web", 301), ("&field=id=z", 1)] {
        let path = format!("/v1/switch_ports?watch=true&from={begin}{selection}");
        let mut watching = running.web().await;
        let (mut body, mut rest) = (watching.open("GET", &path, &[], "").await.into_body(), String::new());
        let mut revision = begin.as_u64();
        let mut there = BTreeSet::new();
        while revision.is_some_and(|revision| revision < begin.as_u64().unwrap() + 2) {
            for event in until_bookmark(&mut body, &mut rest).await {
                let id = event["object"]["id"].as_str().unwrap_or_default().to_owned();
                match event["type"].as_str().unwrap() {
                    "created" => assert!(there.insert(id)),
                    "deleted" => assert!(there.remove(&id)),
                    _ => revision = event["revision"].as_u64(),
                }
            }
            // All of the first transaction, or of both.
            let wanted = created - usize::from(revision > begin.as_u64().map(|begin| begin + 1));
            assert_eq!(there.len(), wanted, "{selection}: at revision {revision:?} after {begin}");
        }
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_as_server_sent_events_goes_on_by_the_header() {
    let (_folder, running, mut web) = serve().await;
    web.put("/v1/switches/blue", "{}").await.expect(201);
    let revision = web.get("/v1/switches").await.expect(200)["revision"].to_string();
    web.put("/v1/switches/red", "{}").await.expect(201);
    let mut watching = running.web().await;
    let headers = [("accept", "text/event-stream"), ("last-event-id", &revision)];
    let mut body = watching.open("GET", "/v1/switches?watch=true", &headers, "").await.into_body();
    let mut text = String::new();
    while !text.contains("event: bookmark") || !text.ends_with("\n\n") {
        text += &String::from_utf8(next(&mut body).await.unwrap()).unwrap();
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
async fn a_thousand_watchers_hear_of_a_change_each_on_a_connection_of_its_own() {
    let (_folder, running, mut web) = serve().await;
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
async fn what_the_rules_declare_is_listed_of_an_object_and_of_all() {
    let (_folder, running, mut web) = serve().await;
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

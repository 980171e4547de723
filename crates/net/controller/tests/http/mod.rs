//! The API over HTTP, beside gRPC on the same socket.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod lists;
mod objects;

use std::collections::BTreeSet;
use std::pin::Pin;

use prost::Message as _;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio_stream::{Stream, StreamExt as _};
use weft_client::{Client, ClientError, pb};

use crate::support::running::{Running, apply, start, within};
use crate::support::web::Web;
use crate::support::{NETWORK, report};

/// A controller in a folder of its own, and a connection to it.
pub(crate) async fn serve() -> (TempDir, Running, Web) {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let web = running.web().await;
    (folder, running, web)
}

/// Applies objects as YAML.
async fn apply_yaml(web: &mut Web, objects: &str) {
    let headers = [("content-type", "application/yaml")];
    web.ask("POST", "/v1/apply", &headers, objects).await.expect(200);
}

type Receipts = Pin<Box<dyn Stream<Item = Result<pb::Receipt, ClientError>> + Send>>;

/// Creates [`NETWORK`], whose first host reports the first port. Its switch has confirmed nothing yet. Returns the receipts that follow.
async fn with_a_host(running: &Running) -> (Client, Receipts) {
    let mut client = running.client().await;
    let mut receipts: Receipts = Box::pin(client.receipts(None).await.unwrap());
    apply(&mut client, NETWORK).await.unwrap();
    within(receipts.next()).await.unwrap().unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[("weft-geneve", 1)])).await;
    within(receipts.next()).await.unwrap().unwrap();
    (client, receipts)
}

/// The ids of a list.
fn ids(list: &Json) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| item["id"].as_str().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_no_text_is_a_problem_too() {
    let (_folder, running, mut web) = serve().await;
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
async fn what_there_is_not_is_refused_with_what_there_is() {
    let (_folder, running, mut web) = serve().await;
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
    let files = prost_types::FileDescriptorSet::decode(weft_client::DESCRIPTORS).expect("descriptors").file;
    let services = files.into_iter().flat_map(|file| file.service);
    services.flat_map(|service| service.method).map(|method| method.name().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_have_the_same_operations() {
    let (_folder, running, mut web) = serve().await;
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
    let (_folder, running, mut web) = serve().await;
    let (mut client, _receipts) = with_a_host(&running).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_cannot_use_the_browser_of_an_operator() {
    let (_folder, running, mut web) = serve().await;
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

//! A large network over HTTP, in a process of its own: one request that creates all ports, pages that show one moment while ports change,
//! and a thousand watchers.
//!
//! `WEFT_TEST_PORTS` says how many ports there are; `cargo xtask soak` has 63,000. `cargo xtask bench api` measures what such requests take.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value as Json, json};

use crate::support::Folder;
use crate::support::controller::{Controller, number};
use crate::support::web::{Events, Web};

/// The ports, unless a run says otherwise.
const PORTS: usize = 6_000;
const OF_SWITCH: usize = 16;
const PAGE: usize = 500;
const WATCHERS: usize = 1000;

fn id(port: usize) -> String {
    format!("p{port:05}")
}

/// The network: switches, then so many ports.
fn objects(ports: usize) -> Json {
    let switch = |number| json!({"kind": "switch", "id": format!("s{number}")});
    let port = |number: usize| {
        let bytes = u32::try_from(number).unwrap().to_be_bytes();
        let mac = format!("02:00:{:02x}:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2], bytes[3]);
        let ip = format!("10.{}.{}.{}", bytes[1], bytes[2], bytes[3]);
        json!({"kind": "switch_port", "id": id(number), "switch": format!("s{}", number / OF_SWITCH),
            "port_security": true, "addresses": [{"mac": mac, "ips": [ip]}]})
    };
    (0..ports.div_ceil(OF_SWITCH)).map(switch).chain((0..ports).map(port)).collect()
}

/// Lists all ports in pages. After each page, ports change that this page, the next one and the last ones show. Returns the revision and the ports.
async fn pages(web: &mut Web, change: &mut Web, all: usize) -> (Json, Vec<Json>) {
    let (mut ports, mut revision, mut place) = (Vec::new(), Json::Null, String::new());
    for turn in 0.. {
        let path = format!("/v1/switch_ports?limit={PAGE}{place}");
        let mut page = web.get(&path).await.unwrap().expect(200);
        let Json::Array(items) = page["items"].take() else { panic!("no list") };
        assert!(revision.is_null() || page["revision"] == revision, "pages of one list have one revision");
        revision = page["revision"].take();
        ports.extend(items);
        let Some(next) = page["continue"].as_str() else { break };
        place = format!("&continue={next}");
        let path = |port| format!("/v1/switch_ports/{}", id(port));
        let patch = json!({"labels": {"turn": turn.to_string()}}).to_string();
        // One that was listed, one that comes in the end, and the one with which the next page begins.
        for port in [ports.len() - 1, all - 1 - turn] {
            change.ask("PATCH", &path(port), &[], patch.clone()).await.unwrap().expect(200);
        }
        change.ask("DELETE", &path(ports.len()), &[], String::new()).await.unwrap().expect(200);
    }
    (revision, ports)
}

/// Watchers of ports with a label, each on a connection of its own, once each has been told where it begins.
async fn watchers(socket: &Path) -> Vec<Events> {
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let mut web = Web::connect(socket).await.unwrap();
        let path = "/v1/switch_ports?watch=true&label=seen=yes";
        let answer = web.open("GET", path, &[], String::new()).await.unwrap();
        let mut events = Events::new(web, answer.into_body());
        assert_eq!(events.next().await.unwrap()["type"], "bookmark");
        watchers.push(events);
    }
    watchers
}

#[test]
fn ports_of_a_large_network_are_listed_in_pages_while_they_change_and_watched_by_a_thousand() {
    let all = number("WEFT_TEST_PORTS").map_or(PORTS, |ports| ports as usize);
    let folder = Folder::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut controller = Controller::start(&folder);
    runtime.block_on(async {
        let mut web = controller.web(&folder).await;
        let begun = Instant::now();
        let receipt = web.ask("POST", "/v1/apply", &[], objects(all).to_string()).await.unwrap().expect(200);
        assert_eq!(receipt["objects"].as_array().unwrap().len(), all + all.div_ceil(OF_SWITCH));

        println!("{all} ports created: {:.1?}", begun.elapsed());
        let whole = web.get("/v1/switch_ports").await.unwrap().expect(200);
        let mut change = Web::connect(&Controller::socket(&folder)).await.unwrap();
        let (revision, ports) = pages(&mut web, &mut change, all).await;
        assert_eq!(revision, whole["revision"], "nothing changes before the first page");
        let whole = whole["items"].as_array().unwrap();
        assert_eq!((ports.len(), whole.len()), (all, all));
        let other = ports.iter().zip(whole).find(|(of_page, of_whole)| of_page != of_whole);
        assert_eq!(other, None, "a page shows another moment than the list at the same revision");

        println!("{all} ports in pages: {:.1?}", begun.elapsed());
        let mut watchers = watchers(&Controller::socket(&folder)).await;
        println!("{WATCHERS} watchers: {:.1?}", begun.elapsed());
        // Some of the changes are of ports that nobody watches.
        let labelled = |number: usize| {
            let labels = if number == 0 { json!({"seen": "yes"}) } else { json!({"seen": "no"}) };
            json!({"kind": "switch_port", "id": format!("new{number}"), "switch": "s0", "labels": labels})
        };
        let objects: Json = (0..2000).map(labelled).collect();
        let mut web = Web::connect(&Controller::socket(&folder)).await.unwrap();
        web.ask("POST", "/v1/apply", &[], objects.to_string()).await.unwrap().expect(200);
        for events in &mut watchers {
            // Bookmarks come on a busy machine too before the change is made, since it connects so many watchers first.
            let mut event = events.next().await.unwrap();
            while event["type"] == "bookmark" {
                event = events.next().await.unwrap();
            }
            let bookmark = events.next().await.unwrap();
            assert_eq!((&event["type"], &event["object"]["id"]), (&json!("created"), &json!("new0")));
            assert_eq!(bookmark["type"], "bookmark", "{bookmark}");
        }
        println!("all have heard: {:.1?}", begun.elapsed());
    });
}

//! `weft events`: changes, problems and hosts in one stream, of a real controller and a host that speaks the real protocols.

use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fake_switch::{FakeDatabase, FakeSwitch};
use serde_json::Value as Json;

use crate::get::{apply, controller, lines};
use crate::routes::Controller;

/// How long an event may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// `weft events --follow`, and what it prints.
struct Follow {
    child: Child,
    events: Receiver<String>,
    messages: Receiver<String>,
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Follow {
    fn start(controller: &Controller, more: &[&str]) -> Follow {
        let address = controller.address();
        let words = [&["events", "--follow", "--controller", &address], more].concat();
        let mut command = controller.folder.command(&words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let [events, messages] = [lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap())];
        Follow { child, events, messages }
    }

    /// The next event, without its time.
    #[track_caller]
    fn next(&self) -> String {
        loop {
            let line = self.events.recv_timeout(DEADLINE).expect("an event");
            let (at, event) = line.split_once("  ").expect(&line);
            assert!(at.len() == "2026-11-27T00:30:38Z".len() && at.ends_with('Z'), "{line}");
            if !is_of_tunnels(event) {
                return event.to_owned();
            }
        }
    }

    /// The next events, in any order.
    #[track_caller]
    fn nexts(&self, count: usize) -> Vec<String> {
        let mut events: Vec<String> = (0..count).map(|_| self.next()).collect();
        events.sort();
        events
    }
}

/// Whether it is a problem of a host. These have no tunnels, which is not what the tests are about.
fn is_of_tunnels(event: &str) -> bool {
    event.starts_with("problem ") && event.contains(": transport_node ")
}

/// A change as it is printed, without what the system says of who asked for it.
fn without_peer(event: &str) -> String {
    match (event.find(" ("), event.find("): ")) {
        (Some(from), Some(to)) => format!("{}{}", &event[..from], &event[to + 1..]),
        _ => event.to_owned(),
    }
}

const UNLUCKY: &str = "desk c: number 13 brings bad luck to whoever sits there";

#[test]
fn events_of_now_are_the_last_changes_and_what_is_wrong() {
    let controller = controller();
    apply(&controller, "{kind: switch, id: green}");
    let told = controller.weft(&["events", "--limit", "1"]);
    let events: Vec<String> = (told.has_status(0).lines().iter())
        .map(|line| without_peer(line.split_once("  ").expect("a time").1))
        .filter(|event| !is_of_tunnels(event))
        .collect();
    assert_eq!(events[0], "change 2 by weft apply: switch green: created");
    assert_eq!(events[1..], [format!("problem present: {UNLUCKY}"), "host hv1: not connected".to_owned()]);
    let json = controller.weft(&["events", "--json"]);
    let lines: Vec<Json> =
        json.has_status(0).lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&lines[0]["type"], &lines[0]["txn"], &lines[1]["txn"]),
        (&"change".into(), &1.into(), &2.into())
    );
    assert_eq!(
        lines[1]["objects"],
        serde_json::json!([{"kind": "switch", "id": "green", "outcome": "created"}])
    );
    assert_eq!((&lines[2]["what"], &lines[2]["code"]), (&"present".into(), &"unlucky".into()));
    let host = lines.last().unwrap();
    assert_eq!((&host["type"], &host["node"]), (&"node".into(), &"hv1".into()));
}

#[test]
fn what_happens_is_followed_through_a_restart() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let mut controller = controller();
    let follow = Follow::start(&controller, &["--limit", "0"]);
    assert_eq!(follow.next(), format!("problem present: {UNLUCKY}"));
    assert_eq!(follow.next(), "host hv1: not connected");

    controller.weft(&["set", "desk", "c", "number=14"]).has_status(0);
    let [change, gone] = [follow.next(), follow.next()];
    assert_eq!(without_peer(&change), "change 2 by weft set: desk c: updated");
    assert_eq!(gone, format!("problem gone: {UNLUCKY}"));
    controller.weft(&["delete", "desk", "a"]).has_status(0);
    assert_eq!(without_peer(&follow.next()), "change 3 by weft delete: desk a: deleted");

    let [ovsdb, openflow] = ["db", "of"].map(|name| controller.folder.path(name));
    let (database, switch) = (FakeDatabase::start(&ovsdb).unwrap(), FakeSwitch::start(&openflow).unwrap());
    switch.datapath_id(FakeSwitch::DATAPATH_ID + 1);
    database.datapath_id("br-int", FakeSwitch::DATAPATH_ID + 1);
    let node = format!(
        "{{kind: transport_node, id: hv2, ip: 172.16.0.2, ovsdb: 'unix:{}', openflow: 'unix:{}'}}",
        ovsdb.display(),
        openflow.display()
    );
    apply(&controller, &node);
    assert!(without_peer(&follow.next()).ends_with("by weft apply: transport_node hv2: created"));
    assert_eq!(follow.next(), "host hv2: connected");
    drop((database, switch));
    assert_eq!(follow.next(), "host hv2: left");

    controller.restart();
    let warning = follow.messages.recv_timeout(DEADLINE).expect("a warning");
    assert!(warning.starts_with("warning: the events are interrupted"), "{warning}");
    apply(&controller, "{kind: desk, id: d, switch: blue, number: 13}\n---\n{kind: switch, id: green}");
    let events = follow.nexts(2);
    assert!(
        without_peer(&events[0]).ends_with("by weft apply: desk d: created, switch green: created"),
        "{events:?}"
    );
    assert_eq!(events[1], "problem appeared: desk d: number 13 brings bad luck to whoever sits there");
}

//! `--wait` with a controller whose switches answer as the test scripts.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weft_client::pb::controller_server::{Controller, ControllerServer};
use weft_client::pb::switch_receipt::State;
use weft_client::pb::{self, Outcome};

use crate::support::{Folder, Outcome as CommandOutcome};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};

/// The controller's answers.
#[derive(Default)]
struct Script {
    /// The outcomes of transport nodes.
    nodes: Vec<(&'static str, Outcome)>,
    /// Receipts of the one transaction, one after another.
    receipts: Vec<pb::Receipt>,
    /// Whether the stream of receipts stays open silently after them.
    silent: bool,
    /// Whether the objects are unchanged, so that there is no new transaction.
    unchanged: bool,
    /// The number of status requests before `hv1` is in order; `None`: never.
    in_order_after: Option<usize>,
    /// The answers to requests for objects and for watches, one after another. Then there is no such kind.
    lists: Mutex<VecDeque<pb::GetResponse>>,
    watches: Mutex<VecDeque<Vec<Result<pb::WatchResponse, Status>>>>,
}

struct Fake {
    script: Script,
    asked: Arc<AtomicUsize>,
}

type Results<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Controller for Fake {
    async fn apply(&self, _: Request<pb::ApplyRequest>) -> Result<Response<pb::ChangeResponse>, Status> {
        let result = |(id, outcome): &(&str, Outcome)| pb::ObjectOutcome {
            object: Some(pb::ObjectRef { kind: "transport_node".to_owned(), id: (*id).to_owned() }),
            outcome: (*outcome).into(),
            ..pb::ObjectOutcome::default()
        };
        let objects = self.script.nodes.iter().map(result).collect();
        let created = self.script.nodes.iter().filter(|(_, outcome)| *outcome == Outcome::Created);
        let connecting = created.map(|(node, _)| (*node).to_owned()).collect();
        let txn = (!self.script.unchanged).then_some(7);
        let accepted = pb::Accepted { txn, objects, connecting, ..pb::Accepted::default() };
        let result = Some(pb::change_response::Result::Accepted(accepted));
        Ok(Response::new(pb::ChangeResponse { result }))
    }

    async fn delete(&self, _: Request<pb::DeleteRequest>) -> Result<Response<pb::ChangeResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn set(&self, _: Request<pb::SetRequest>) -> Result<Response<pb::ChangeResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    type GetStream = Results<pb::GetResponse>;

    async fn get(&self, _: Request<pb::GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        let list = self.script.lists.lock().unwrap().pop_front();
        let list = list.ok_or_else(|| Status::invalid_argument("there is no such kind"))?;
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(list)))))
    }

    async fn history(&self, _: Request<pb::HistoryRequest>) -> Result<Response<pb::HistoryResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn rollback(
        &self,
        _: Request<pb::RollbackRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn load_rules(
        &self,
        _: Request<pb::LoadRulesRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn rollback_rules(
        &self,
        _: Request<pb::RollbackRulesRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn rules_history(
        &self,
        _: Request<pb::RulesHistoryRequest>,
    ) -> Result<Response<pb::RulesHistoryResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    type WatchStream = Results<pb::WatchResponse>;

    async fn watch(&self, _: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let watch = self.script.watches.lock().unwrap().pop_front();
        let watch = watch.ok_or_else(|| Status::unimplemented("not in this test"))?;
        Ok(Response::new(Box::pin(tokio_stream::iter(watch))))
    }

    type ListFlowsStream = Results<pb::ListFlowsResponse>;

    async fn list_flows(
        &self,
        _: Request<pb::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    type ListLogicalFlowsStream = Results<pb::ListLogicalFlowsResponse>;

    async fn list_logical_flows(
        &self,
        _: Request<pb::ListLogicalFlowsRequest>,
    ) -> Result<Response<Self::ListLogicalFlowsStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    type ReadListingStream = Results<pb::ReadListingResponse>;

    async fn read_listing(
        &self,
        _: Request<pb::ReadListingRequest>,
    ) -> Result<Response<Self::ReadListingStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn list_listings(
        &self,
        _: Request<pb::ListListingsRequest>,
    ) -> Result<Response<pb::ListListingsResponse>, Status> {
        Ok(Response::new(pb::ListListingsResponse::default()))
    }

    type CountFlowsStream = Results<pb::CountFlowsResponse>;

    async fn count_flows(
        &self,
        _: Request<pb::CountFlowsRequest>,
    ) -> Result<Response<Self::CountFlowsStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    type ListTunnelsStream = Results<pb::ListTunnelsResponse>;

    async fn list_tunnels(
        &self,
        _: Request<pb::ListTunnelsRequest>,
    ) -> Result<Response<Self::ListTunnelsStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn trace(&self, _: Request<pb::TraceRequest>) -> Result<Response<pb::TraceResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn explain(&self, _: Request<pb::ExplainRequest>) -> Result<Response<pb::ExplainResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn why_not(&self, _: Request<pb::WhyNotRequest>) -> Result<Response<pb::WhyNotResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn status(&self, _: Request<pb::StatusRequest>) -> Result<Response<pb::StatusResponse>, Status> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let synced = self.script.in_order_after.is_some_and(|after| asked >= after);
        let switch = pb::SwitchStatus {
            node: "hv1".to_owned(),
            connected: true,
            synced,
            last_error: if synced { String::new() } else { "connection refused".to_owned() },
            ..pb::SwitchStatus::default()
        };
        let (last_txn, switches, node_kind) = (7, vec![switch], "transport_node".to_owned());
        Ok(Response::new(pb::StatusResponse { last_txn, switches, node_kind, ..Default::default() }))
    }

    type TakeSnapshotStream = Results<pb::TakeSnapshotResponse>;

    async fn take_snapshot(
        &self,
        _: Request<pb::TakeSnapshotRequest>,
    ) -> Result<Response<Self::TakeSnapshotStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    type ReadDiagnosticsStream = Results<pb::ReadDiagnosticsResponse>;

    async fn read_diagnostics(
        &self,
        _: Request<pb::ReadDiagnosticsRequest>,
    ) -> Result<Response<Self::ReadDiagnosticsStream>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    type WatchReceiptsStream = Results<pb::Receipt>;

    async fn watch_receipts(
        &self,
        _: Request<pb::WatchReceiptsRequest>,
    ) -> Result<Response<Self::WatchReceiptsStream>, Status> {
        let receipts = tokio_stream::iter(self.script.receipts.clone().into_iter().map(Ok));
        let stream: Self::WatchReceiptsStream = if self.script.silent {
            Box::pin(receipts.chain(tokio_stream::pending()))
        } else {
            Box::pin(receipts)
        };
        Ok(Response::new(stream))
    }
}

fn receipt(switches: &[(&str, State, &str)]) -> pb::Receipt {
    let switch = |&(node, state, error): &(&str, State, &str)| pb::SwitchReceipt {
        node: node.to_owned(),
        state: state.into(),
        error: error.to_owned(),
        ..pb::SwitchReceipt::default()
    };
    let complete = switches.iter().all(|(_, state, _)| *state != State::Pending);
    pb::Receipt {
        txn: 7,
        switches: switches.iter().map(switch).collect(),
        complete,
        ..pb::Receipt::default()
    }
}

/// Status and standard error of `weft apply --wait`, and the number of status requests.
fn apply(script: Script, more: &[&str]) -> (Option<i32>, String, usize) {
    let (outcome, asked) = run(script, &[&["apply", "-f", "-", "--wait"], more].concat());
    (outcome.status, outcome.stderr, asked)
}

/// The outcome of `weft apply --wait`.
fn apply_with(script: Script, more: &[&str]) -> CommandOutcome {
    run(script, &[&["apply", "-f", "-", "--wait"], more].concat()).0
}

/// The outcome of a command, and the number of status requests.
fn run(script: Script, arguments: &[&str]) -> (CommandOutcome, usize) {
    serving(script, |address| {
        let arguments = [arguments, &["--controller", address]].concat();
        Folder::new().weft_reading("{kind: switch, id: x}", &arguments)
    })
}

/// What comes of work with the controller at an address, and the number of status requests.
fn serving<T>(script: Script, work: impl FnOnce(&str) -> T) -> (T, usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(AtomicUsize::new(0));
    let service = ControllerServer::new(Fake { script, asked: asked.clone() });
    let server = tonic::transport::Server::builder().add_service(service);
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let outcome = work(&address);
    runtime.shutdown_background();
    (outcome, asked.load(Ordering::SeqCst))
}

/// An object of these fields.
fn object(id: &str, number: u32) -> String {
    format!(r#"{{"kind":"desk","id":"{id}","number":{number}}}"#)
}

fn list(revision: u64, objects: &[String]) -> pb::GetResponse {
    let states = objects.iter().map(|_| pb::ObjectState::default()).collect();
    pb::GetResponse { objects: objects.to_vec(), states, revision, ..pb::GetResponse::default() }
}

fn happened(events: &[(pb::Happened, String)], revision: u64) -> pb::WatchResponse {
    let event = |(happened, object): &(pb::Happened, String)| pb::ObjectEvent {
        happened: (*happened).into(),
        object: object.clone(),
        state: Some(pb::ObjectState::default()),
    };
    pb::WatchResponse { events: events.iter().map(event).collect(), revision }
}

/// The second list has what the first watch has told already, and what it has lost; the second watch tells again what the list has.
#[test]
fn a_watch_that_falls_behind_lists_again_and_tells_what_is_new() {
    use pb::Happened::{Created, Deleted, Updated};
    let first = vec![
        Ok(happened(&[], 1)),
        Ok(happened(&[(Created, object("c", 1)), (Updated, object("a", 2))], 0)),
        Err(Status::out_of_range("revision 1 is too old")),
    ];
    let second = vec![
        Ok(happened(&[(Created, object("d", 1)), (Deleted, object("b", 1))], 9)),
        Ok(happened(&[(Deleted, object("a", 3))], 10)),
        Err(Status::data_loss("nobody reads")),
    ];
    let script = Script {
        lists: Mutex::new(VecDeque::from([
            list(1, &[object("a", 1), object("b", 1)]),
            list(8, &[object("a", 3), object("c", 1), object("d", 1)]),
        ])),
        watches: Mutex::new(VecDeque::from([first, second])),
        ..Script::default()
    };
    let (outcome, _) = run(script, &["get", "desk", "--watch", "--json"]);
    let told = [
        ("listed", object("a", 1)),
        ("listed", object("b", 1)),
        ("created", object("c", 1)),
        ("updated", object("a", 2)),
        ("deleted", object("b", 1)),
        ("updated", object("a", 3)),
        ("created", object("d", 1)),
        ("deleted", object("a", 3)),
    ];
    let told = told.map(|(event, object)| format!("{{\"type\":\"{event}\",\"object\":{object}}}"));
    assert_eq!(outcome.has_status(1).lines(), told);
    let warning =
        "warning: the watch was interrupted and goes on with a new list: it fell behind the controller\n";
    assert_eq!(outcome.stderr, format!("{warning}{warning}error: there is no such kind\n"));
}

#[test]
fn o9_status_is_checked_on_demand() {
    let scripted = |in_order_after| Script { in_order_after, ..Script::default() };
    for (arguments, in_order_after, status) in [
        (&["status"][..], None, 0),
        (&["status", "--check"], Some(0), 0),
        (&["status", "--check"], None, 4),
        (&["status", "hv1", "--check", "--json"], None, 4),
        (&["get", "status", "hv1"], None, 0),
        // Without this node, there is nothing to say.
        (&["status", "hv2"], None, 1),
        (&["get", "status", "hv2"], None, 1),
    ] {
        let (outcome, _) = run(scripted(in_order_after), arguments);
        outcome.has_status(status);
        let is_warned = outcome.stderr == "warning: hv1 is not in force: synchronising\n";
        assert_eq!(is_warned, status == 4, "{arguments:?}: {}", outcome.stderr);
        if status == 1 {
            let why = "error: there is no transport_node `hv2`; `weft get transport_node` lists them\n";
            assert_eq!(outcome.stderr, why);
        }
    }
}

#[test]
fn all_in_place_is_done_without_a_word() {
    let receipts = vec![receipt(&[("hv1", State::Pending, "")]), receipt(&[("hv1", State::Confirmed, "")])];
    let outcome = apply(Script { receipts, ..Script::default() }, &[]);
    assert_eq!(outcome, (Some(0), String::new(), 0));
}

#[test]
fn a_refusal_is_told_and_is_a_failure() {
    let (confirmed, refused) =
        (("hv1", State::Confirmed, ""), ("hv2", State::Refused, "refused table=0: BAD"));
    let receipts = vec![receipt(&[confirmed, refused])];
    let (status, stderr, _) = apply(Script { receipts, ..Script::default() }, &[]);
    assert_eq!(status, Some(3), "{stderr}");
    assert!(stderr.contains("hv2: refused table=0: BAD") && !stderr.contains("hv1"), "{stderr}");
}

#[test]
fn what_unchanged_objects_brought_before_is_waited_for() {
    let receipts = vec![receipt(&[("hv1", State::Refused, "refused table=0: BAD")])];
    let (status, stderr, _) = apply(Script { receipts, unchanged: true, ..Script::default() }, &[]);
    assert_eq!(status, Some(3), "{stderr}");
    assert!(stderr.contains("hv1: refused table=0: BAD"), "{stderr}");
}

#[test]
fn switches_that_are_away_are_named() {
    let receipts = vec![receipt(&[("hv1", State::Confirmed, ""), ("hv2", State::Offline, "")])];
    let (status, stderr, _) = apply(Script { receipts, ..Script::default() }, &[]);
    assert_eq!(status, Some(4), "{stderr}");
    assert_eq!(stderr, "warning: hv2 is not connected; it receives the change when it reconnects\n");
}

#[test]
fn a_switch_of_which_the_receipt_does_not_know_is_asked_itself() {
    let script = |state, unchanged, in_order_after| {
        let receipts = vec![receipt(&[("hv1", state, ""), ("hv2", State::Confirmed, "")])];
        Script { receipts, unchanged, in_order_after, ..Script::default() }
    };
    // The controller was killed before the switch answered, or the switch has connected since an earlier transaction.
    for (state, unchanged) in [(State::Unknown, false), (State::Unknown, true), (State::Offline, true)] {
        let (status, stderr, asked) = apply(script(state, unchanged, Some(3)), &[]);
        assert_eq!((status, &*stderr), (Some(0), ""), "{state:?}");
        assert_eq!(asked, 4, "{state:?}");
        let (status, stderr, _) = apply(script(state, unchanged, None), &["--timeout", "1"]);
        assert_eq!(status, Some(4), "{state:?}: {stderr}");
        assert_eq!(stderr, "warning: hv1 is not in sync yet: connection refused\n");
    }
    let (_, stderr, _) = apply(script(State::Offline, false, Some(0)), &[]);
    assert_eq!(stderr, "warning: hv1 is not connected; it receives the change when it reconnects\n");
}

#[test]
fn o9_json_lists_the_switches_that_do_not_have_the_change() {
    let states = [("hv1", State::Confirmed, ""), ("hv2", State::Offline, ""), ("hv3", State::Pending, "")];
    let script = Script { receipts: vec![receipt(&states)], silent: true, ..Script::default() };
    let outcome = apply_with(script, &["--timeout", "1", "--json"]);
    outcome.has_status(4);
    let answer: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(answer["unconfirmed"], serde_json::json!(["hv2", "hv3"]));
    // All have it.
    let script = Script { receipts: vec![receipt(&states[..1])], ..Script::default() };
    let outcome = apply_with(script, &["--json"]);
    outcome.has_status(0);
    let answer: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(answer["unconfirmed"], serde_json::json!([]));
}

#[test]
fn a_controller_that_ends_meanwhile_is_a_failure() {
    let receipts = vec![receipt(&[("hv1", State::Pending, "")])];
    let (status, stderr, _) = apply(Script { receipts, ..Script::default() }, &[]);
    assert_eq!(status, Some(3), "{stderr}");
    assert!(stderr.contains("transaction 7 was accepted, but the controller stopped"), "{stderr}");
}

#[test]
fn the_wait_ends_when_its_time_is_over() {
    let receipts = vec![receipt(&[("hv1", State::Pending, "")])];
    let script = Script { receipts, silent: true, ..Script::default() };
    let (status, stderr, _) = apply(script, &["--timeout", "1"]);
    assert_eq!(status, Some(4), "{stderr}");
    assert_eq!(stderr, "warning: hv1 has not confirmed the change within 1 s\n");
    let unused = Folder::new().weft(&["apply", "-f", "-", "--timeout", "1"]);
    unused.has_status(2);
}

#[test]
fn a_long_wait_says_how_far_it_is() {
    let states = [("hv1", State::Confirmed, ""), ("hv2", State::Pending, ""), ("hv3", State::Pending, "")];
    let script = || Script { receipts: vec![receipt(&states)], silent: true, ..Script::default() };
    let (outcome, _) = run(script(), &["apply", "-f", "-", "--wait=installed", "--timeout", "9"]);
    let lines: Vec<&str> = outcome.has_status(4).stderr.lines().collect();
    let told = "s: 1 of 3 hosts have confirmed; behind: hv2, hv3";
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("waiting for transaction 7, ") && lines[0].ends_with(told), "{lines:?}");
    assert_eq!(lines[2], "warning: hv3 has not confirmed the change within 9 s");
    let other = Folder::new().weft(&["apply", "-f", "-", "--wait=computed"]);
    assert!(other.has_status(2).stderr.contains("[possible values: installed]"), "{}", other.stderr);
}

#[test]
fn in_a_terminal_the_progress_is_one_line_that_goes() {
    let states = [("hv1", State::Confirmed, ""), ("hv2", State::Pending, "")];
    let script = Script { receipts: vec![receipt(&states)], silent: true, ..Script::default() };
    let shown = on_a_terminal(script, "apply --yes -f net.yaml --wait --timeout 3");
    let Some(shown) = shown else { return };
    let (_, after) = shown.split_once("\r\u{1b}[Kwaiting for transaction 7, ").expect(&shown);
    assert!(after[1..].starts_with(" s: 1 of 2 hosts have confirmed; behind: hv2"), "{shown:?}");
    let end = "\r\u{1b}[Kwarning: hv2 has not confirmed the change within 3 s";
    assert!(shown.trim_end().ends_with(end), "{shown:?}");
}

/// What a command writes on a terminal, if `script` (of util-linux), which gives it one, is there.
fn on_a_terminal(script: Script, arguments: &str) -> Option<String> {
    serving(script, |address| {
        let folder = Folder::new();
        folder.write("net.yaml", "{kind: switch, id: x}");
        let line = format!("{} {arguments} --controller {address}", env!("CARGO_BIN_EXE_weft"));
        let mut terminal = std::process::Command::new("script");
        terminal.args(["-qec", &line, "/dev/null"]).current_dir(folder.path("")).env("TERM", "xterm");
        let output = terminal.stdin(std::process::Stdio::null()).output();
        let Ok(output) = output else {
            eprintln!("\n*** NOT TESTED on a terminal: there is no `script` (apt-get install bsdutils)\n");
            return None;
        };
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    })
    .0
}

#[test]
fn new_transport_nodes_are_waited_for() {
    let script = |in_order_after| Script {
        nodes: vec![("hv1", Outcome::Created)],
        receipts: vec![receipt(&[("hv1", State::Offline, "")])],
        in_order_after,
        ..Script::default()
    };
    assert_eq!(apply(script(Some(3)), &[]), (Some(0), String::new(), 4));
    // Long enough for a busy machine to ask twice, and too short for a word about the progress.
    let (status, stderr, asked) = apply(script(None), &["--timeout", "4"]);
    assert_eq!(status, Some(4), "{stderr}");
    assert_eq!(stderr, "warning: hv1 is not in sync yet: connection refused\n");
    assert!(asked > 1);
}

//! Spans of calls, as a receiver of OTLP gets them.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::drivers::RealDrivers;
use controller::{Parts, Spans};
use fake_switch::{FakeDatabase, FakeSwitch};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use ovs_driver::{Event, Peers, Rejection, Sockets};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use weft_client::pb;

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply, parts, start_with, status_when, within};
use crate::support::*;

/// The span of a client, as it sends it.
const CLIENT: &str = "00f067aa0ba902b7";
const OBJECTS: &str = "{kind: switch, id: blue}\n---\n{kind: switch_port, id: blue-1, switch: blue}";

fn trace(number: u8) -> String {
    format!("4bf92f3577b34da6a3ce929d0e0e47{number:02x}")
}

/// The header of a client that has sampled a trace, or has not.
fn parent(number: u8, is_sampled: bool) -> String {
    format!("00-{}-{CLIENT}-{:02x}", trace(number), u8::from(is_sampled))
}

/// A receiver of OTLP.
struct Receiver {
    endpoint: String,
    spans: mpsc::UnboundedReceiver<Span>,
}

struct Service(mpsc::UnboundedSender<Span>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let service = resource.resource.unwrap().attributes;
            assert!(service.iter().any(|attribute| attribute.key == "service.name"), "{service:?}");
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                // The test may have ended.
                let _ = self.0.send(span);
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Receiver {
    async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, spans) = mpsc::unbounded_channel();
        let server =
            tonic::transport::Server::builder().add_service(TraceServiceServer::new(Service(sender)));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Receiver { endpoint, spans }
    }

    /// A controller that sends its spans here.
    async fn controller(&self, parts: Parts, share: f64) -> Running {
        let spans = Spans::start(&self.endpoint, share, &Handle::current()).unwrap();
        start_with(Parts { spans: Some(spans), ..parts }, Switches::default()).await
    }

    /// The spans that come until one is as wanted.
    async fn until(&mut self, wanted: impl Fn(&Span) -> bool) -> Vec<Span> {
        let mut all = Vec::new();
        loop {
            let span = within(self.spans.recv()).await.expect("the receiver runs");
            let is_last = wanted(&span);
            all.push(span);
            if is_last {
                return all;
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The attributes of a span as text.
fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = span.attributes.iter();
    attributes
        .map(|attribute| {
            (attribute.key.as_str(), text(attribute.value.as_ref().unwrap().value.as_ref().unwrap()))
        })
        .collect()
}

/// Of spans, the one with this name.
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    let span = found.next().unwrap_or_else(|| panic!("no span {name} of {:?}", names(spans)));
    assert!(found.next().is_none(), "two spans {name}");
    span
}

fn names(spans: &[Span]) -> Vec<&str> {
    let mut names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

const YAML: (&str, &str) = ("content-type", "application/yaml");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_a_span_below_that_of_its_client_and_one_for_each_stage() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    let peers = Peers::start(Arc::new(Sockets::default()), 2, 128 << 20, || {}).unwrap();
    let drivers = Box::new(RealDrivers { learned_addresses: 100.try_into().unwrap(), peers });
    let parts = Parts { drivers, ..parts(folder.path(), rules(RULES), &Switches::default()) };
    let running = receiver.controller(parts, 0.0).await;

    // A host with the real protocols, in sync.
    let [ovsdb, openflow] = ["db", "mgmt"].map(|name| folder.path().join(name));
    let (database, _switch) = (FakeDatabase::start(&ovsdb).unwrap(), FakeSwitch::start(&openflow).unwrap());
    database.datapath_id("br-int", FakeSwitch::DATAPATH_ID);
    let mut client = running.client().await;
    let node = format!(
        "{{kind: transport_node, id: hv1, ip: 10.0.0.1, ovsdb: 'unix:{}', openflow: 'unix:{}'}}",
        ovsdb.display(),
        openflow.display()
    );
    apply(&mut client, &node).await.unwrap();
    status_when(&mut client, |status| status.switches.iter().all(|switch| switch.synced)).await;

    let mut web = running.web().await;
    let header = parent(1, true);
    web.ask("POST", "/v1/apply", &[YAML, ("traceparent", &header)], OBJECTS).await.expect(200);
    let mut spans = receiver.until(|span| span.name == "switch").await;
    // The parts of the span of a switch, and that of the call, may come after it.
    while names(&spans)
        != ["POST /v1/apply", "append", "barrier", "derive", "publish", "queue", "send", "switch"]
    {
        assert!(spans.len() < 8, "{:?}", names(&spans));
        spans.extend(receiver.until(|_| true).await);
    }
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace(1)), "{spans:#?}");
    assert!(!spans.iter().any(is_error), "{spans:#?}");

    let call = named(&spans, "POST /v1/apply");
    assert_eq!((hex(&call.parent_span_id).as_str(), call.kind()), (CLIENT, SpanKind::Server));
    let of_call = attributes(call);
    let txn = of_call["weft.txn"].clone();
    assert_eq!(of_call["weft.identity"], "unix user");
    assert_eq!(of_call["http.response.status_code"], "200");
    assert_eq!(
        (of_call["http.request.method"].as_str(), of_call["http.route"].as_str()),
        ("POST", "/v1/apply")
    );

    let [queue, derive, append, publish, switch, send, barrier] =
        ["queue", "derive", "append", "publish", "switch", "send", "barrier"].map(|name| named(&spans, name));
    for stage in [queue, derive, append, publish, switch] {
        assert_eq!(stage.parent_span_id, call.span_id, "{}", stage.name);
        assert_eq!(attributes(stage)["weft.txn"], txn, "{}", stage.name);
    }
    for part in [send, barrier] {
        assert_eq!(part.parent_span_id, switch.span_id, "{}", part.name);
    }
    assert_eq!(attributes(switch)["weft.switch"], "hv1");
    assert_eq!(attributes(append)["weft.transactions"], "1");
    assert_eq!(attributes(publish)["weft.switches"], "1");

    let times = |span: &Span| (span.start_time_unix_nano, span.end_time_unix_nano);
    for span in &spans {
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:#?}");
    }
    assert!(times(call).0 <= times(queue).0);
    assert_eq!(times(queue).1, times(derive).0);
    assert!(times(derive).1 <= times(append).0);
    assert_eq!(times(append).1, times(publish).0);
    assert!(times(append).1 <= times(switch).0, "nothing is sent that is not on disk");
    assert!(times(switch).0 <= times(send).0);
    assert_eq!((times(send).1, times(barrier).1), (times(barrier).0, times(switch).1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_decide_about_their_traces_and_the_share_about_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    let parts = parts(folder.path(), rules(RULES), &Switches::default());
    let running = receiver.controller(parts, 0.0).await;
    let mut web = running.web().await;
    let headers: [&[(&str, &str)]; 4] =
        [&[], &[("traceparent", &parent(2, false))], &[("traceparent", "nonsense")], &[("traceparent", "")]];
    for headers in headers {
        web.ask("POST", "/v1/apply", &[&[YAML], headers].concat(), OBJECTS).await.expect(200);
        web.ask("GET", "/v1/status", headers, "").await.expect(200);
    }
    // A call of gRPC, whose client has sampled it; it is refused.
    let endpoint = running.endpoint();
    let mut client = pb::controller_client::ControllerClient::connect(endpoint).await.unwrap();
    let objects = vec!["{\"kind\": \"switch\", \"id\": \"none\", \"tenant\": \"reserved\"}".to_owned()];
    let mut request = Request::new(pb::ApplyRequest { objects, ..pb::ApplyRequest::default() });
    request.metadata_mut().insert("traceparent", parent(3, true).parse().unwrap());
    let answer = client.apply(request).await.unwrap().into_inner();
    assert!(matches!(answer.result, Some(pb::change_response::Result::Refusal(_))), "{answer:?}");
    let spans = receiver.until(|span| span.name.contains('/')).await;
    assert_eq!(names(&spans), ["derive", "queue", "weft.v1.Controller/Apply"]);
    assert!(spans.iter().all(|span| hex(&span.trace_id) == trace(3)), "{spans:#?}");
    let call = named(&spans, "weft.v1.Controller/Apply");
    assert!(is_error(call), "{call:#?}");
    assert_eq!(
        (attributes(call)["rpc.method"].as_str(), hex(&call.parent_span_id).as_str()),
        ("Apply", CLIENT)
    );
    // The client of the library, in a trace.
    let mut client = running.client().await.in_trace(&parent(6, true));
    client.status().await.unwrap();
    let spans = receiver.until(|span| span.name == "weft.v1.Controller/Status").await;
    assert_eq!((spans.len(), hex(&spans[0].trace_id)), (1, trace(6)));
    running.stop().await;

    // With a share of one, each call is traced, but not those that a client has not sampled.
    let parts = crate::support::running::parts(folder.path(), rules(RULES), &Switches::default());
    let running = receiver.controller(parts, 1.0).await;
    let mut web = running.web().await;
    web.ask("GET", "/v1/switches", &[("traceparent", &parent(4, false))], "").await.expect(200);
    web.ask("GET", "/v1/switches/blue", &[], "").await.expect(200);
    web.ask("GET", "/livez", &[], "").await;
    web.ask("GET", "/v2/nothing", &[], "").await.expect(404);
    let spans = receiver
        .until(|span| attributes(span).get("http.response.status_code").is_some_and(|status| status == "404"))
        .await;
    assert_eq!(names(&spans), ["GET", "GET /v1/{kinds}/{id}"]);
    assert!(spans.iter().all(|span| span.parent_span_id.is_empty()), "{spans:#?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_many_switches_has_the_spans_of_some() {
    const HOSTS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start().await;
    let switches = Switches::default();
    let parts = parts(folder.path(), rules(RULES), &switches);
    let running = receiver.controller(parts, 0.0).await;
    let mut client = running.client().await;
    let node = |n: usize| {
        format!(
            "---\n{{kind: transport_node, id: hv{n:02}, ip: 10.0.0.{}, ovsdb: 'unix:/run/db{n}', openflow: 'unix:/run/mgmt{n}'}}\n",
            n + 1
        )
    };
    apply(&mut client, &(0..HOSTS).map(node).collect::<String>()).await.unwrap();
    for n in 0..HOSTS {
        switches.connect(&format!("hv{n:02}"), report(&[], &[("weft-geneve", 1)])).await;
    }
    status_when(&mut client, |status| status.switches.iter().all(|switch| switch.connected && switch.synced))
        .await;
    let mut web = running.web().await;
    let header = parent(5, true);
    web.ask("POST", "/v1/apply", &[YAML, ("traceparent", &header)], OBJECTS).await.expect(200);
    let spans = receiver.until(|span| span.name == "publish").await;
    assert_eq!(attributes(named(&spans, "publish"))["weft.switches"], HOSTS.to_string());

    // One refuses it, the others but one confirm it, and one says nothing until the end.
    let txn = switches.look("hv00", |switch| *switch.pushed.last().unwrap());
    let first = vec![Rejection { what: "a flow".to_owned(), reason: "OFPBMC_BAD_FIELD".to_owned() }];
    switches.event("hv00", Event::Refused { txn: Some(txn), count: 1, first }).await;
    for n in 2..HOSTS {
        switches.confirm(&format!("hv{n:02}")).await;
    }
    let confirmed =
        |status: &pb::StatusResponse| status.switches.iter().filter(|switch| switch.pending == 0).count();
    status_when(&mut client, |status| confirmed(status) == HOSTS - 1).await;
    running.stop().await;
    let mut of_switches = BTreeMap::new();
    while of_switches.len() < 16 {
        for span in
            receiver.until(|span| span.name == "switch").await.iter().filter(|span| span.name == "switch")
        {
            let message = span.status.as_ref().map(|status| status.message.clone()).unwrap_or_default();
            of_switches.insert(attributes(span)["weft.switch"].clone(), (is_error(span), message));
        }
    }
    assert_eq!(
        of_switches.keys().map(String::as_str).collect::<Vec<_>>(),
        (0..16).map(|n| format!("hv{n:02}")).collect::<Vec<_>>()
    );
    assert_eq!(of_switches["hv00"], (true, "a flow: OFPBMC_BAD_FIELD".to_owned()));
    assert_eq!(of_switches["hv01"], (true, "the switch has not confirmed it yet".to_owned()));
    assert!((2..16).all(|n| of_switches[&format!("hv{n:02}")] == (false, String::new())), "{of_switches:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_not_there_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens, and somebody who never answers does.
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        let receiver = Receiver { endpoint: format!("http://{address}"), spans: mpsc::unbounded_channel().1 };
        let parts = parts(folder.path(), rules(RULES), &Switches::default());
        let running = receiver.controller(parts, 1.0).await;
        let mut web = running.web().await;
        // More spans than may wait: each call has three, and one message takes 512 of them before it waits.
        for _ in 0..2000 {
            web.ask("POST", "/v1/apply", &[YAML], OBJECTS).await.expect(200);
        }
        running.stop().await;
    }
}

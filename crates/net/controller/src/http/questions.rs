//! Everything besides objects: the state of the controller, what the rules and the switches say, traces, explanations, transactions.

use axum::Extension;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::HeaderMap;
use axum::response::Response;
use nlog_data::quotation::{cut, quote_text};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use weft_core::api_names::{COUNTERS, FLOWS, LOGICAL_FLOWS, TUNNELS};
use weft_core::listings::Description;

use super::answer::{self, Form, ZSTD, answer, begun, message, messages, one, streamed};
use super::objects::{Here, call, exists, whole};
use super::paths::{LISTINGS, Listed, OF_NETWORK};
use super::query::{Path, Query};
use weft_client::message_json::to_json;
use weft_client::pb;
use weft_client::pb::controller_server::Controller as _;

use crate::api::Api;
use crate::problem::{Problem, not_found};

/// The forms of answers in several messages.
const LISTED: [Form; 2] = [Form::Json, Form::Lines];

/// `GET /v1/status`
pub(super) async fn status(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut query = Query::of(query.as_deref());
    let request = pb::StatusRequest { nodes: query.all("node"), tenant: query.one("tenant")? };
    query.finish()?;
    let form = Form::asked(&headers, &[Form::Json, Form::Yaml])?;
    one(form, api.status(call(caller, request)).await?)
}

/// `GET /v1/KINDS/ID/LISTING`: what the rules or the switches say of an object.
pub(super) async fn listing(
    (Extension(api), Extension(caller)): Here,
    Path((kinds, id, listing)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kind = api.kind_of_path(&kinds)?.to_string();
    let mut query = Query::of(query.as_deref());
    let known = LISTINGS.iter().any(|known| known.name == listing);
    let details = !known && query.flag("details")?;
    query.finish()?;
    let form = Form::asked(&headers, &LISTED)?;
    if known {
        // What is listed is found by the id alone, and an empty list would say that the object exists.
        exists(&api, &caller, &kind, &id).await?;
    }
    match listing.as_str() {
        FLOWS => {
            let request = pb::ListFlowsRequest { node: id };
            messages(form, api.list_flows(call(caller, request)).await?).await
        }
        LOGICAL_FLOWS => {
            let request = pb::ListLogicalFlowsRequest { id };
            messages(form, api.list_logical_flows(call(caller, request)).await?).await
        }
        COUNTERS => {
            let request = pb::CountFlowsRequest { kind, id };
            messages(form, api.count_flows(call(caller, request)).await?).await
        }
        TUNNELS => {
            let request = pb::ListTunnelsRequest { node: id };
            messages(form, api.list_tunnels(call(caller, request)).await?).await
        }
        _ => {
            let of = format!("{kind} {id}");
            let request = pb::ReadListingRequest { listing, id: Some(id), kind, details };
            let read = api.read_listing(call(caller, request.clone())).await;
            messages(form, read.map_err(|status| unread(&api, status, &request, &of, &LISTINGS))?).await
        }
    }
}

/// Why a listing of the rules was not read. If there is none of that name, the problem names what there is, beside `known`.
fn unread(api: &Api, status: Status, asked: &pb::ReadListingRequest, of: &str, known: &[Listed]) -> Problem {
    let kind = &asked.kind;
    let is_of_kind = |listing: &Description| kind.is_empty() || listing.kinds.contains(kind);
    let declared: Vec<Description> = Description::all(&api.rules()).into_iter().filter(is_of_kind).collect();
    if status.code() != Code::NotFound || declared.iter().any(|listing| listing.name == asked.listing) {
        return status.into();
    }
    let declared = declared.iter().map(|listing| listing.name.as_str());
    let there: Vec<&str> = known.iter().map(|listed| listed.name).chain(declared).collect();
    let name = quote_text(&asked.listing);
    not_found(format!("there is no {name} of {}; there are {}", cut(of), there.join(", ")))
}

/// `GET /v1/network/LISTING`: what switches say of the whole network.
pub(super) async fn of_network(
    (Extension(api), Extension(caller)): Here,
    Path(listing): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut query = Query::of(query.as_deref());
    let known = OF_NETWORK.iter().any(|known| known.name == listing);
    let details = !known && query.flag("details")?;
    query.finish()?;
    let form = Form::asked(&headers, &LISTED)?;
    match listing.as_str() {
        COUNTERS => {
            let request = pb::CountFlowsRequest::default();
            messages(form, api.count_flows(call(caller, request)).await?).await
        }
        TUNNELS => {
            let request = pb::ListTunnelsRequest::default();
            messages(form, api.list_tunnels(call(caller, request)).await?).await
        }
        _ => {
            let request = pb::ReadListingRequest { listing, details, ..Default::default() };
            let read = api.read_listing(call(caller, request.clone())).await;
            messages(form, read.map_err(|status| unread(&api, status, &request, "the network", &OF_NETWORK))?)
                .await
        }
    }
}

/// `GET /v1/listings`: what the rules declare.
pub(super) async fn listings(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let form = Form::asked(&headers, &[Form::Json, Form::Yaml])?;
    one(form, api.list_listings(call(caller, pb::ListListingsRequest {})).await?)
}

/// `GET /v1/snapshot`: a file with all that is recorded.
pub(super) async fn snapshot(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let (parts, held) = message(api.take_snapshot(call(caller, pb::TakeSnapshotRequest {})).await?);
    let body = streamed(begun(parts).await?.map(|part| Ok(part?.part.into())));
    Ok(held.until_encoded(answer::file(ZSTD, body)))
}

/// `GET /v1/diagnostics`: the configuration and the last lines of the log.
pub(super) async fn diagnostics(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let form = Form::asked(&headers, &LISTED)?;
    messages(form, api.read_diagnostics(call(caller, pb::ReadDiagnosticsRequest {})).await?).await
}

/// `GET /v1/rules`: the versions of the rules.
pub(super) async fn rules(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let form = Form::asked(&headers, &[Form::Json, Form::Yaml])?;
    one(form, api.rules_history(call(caller, pb::RulesHistoryRequest {})).await?)
}

/// `GET /v1/history`: who changed what.
pub(super) async fn history(
    here: Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    past(here, None, query.as_deref(), &headers).await
}

/// `GET /v1/KINDS/ID/history`: who changed this object, and how.
pub(super) async fn history_of(
    here: Here,
    Path((kinds, id)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // An object that is there no more has a history too.
    let kind = here.0.kind_of_path(&kinds)?.to_string();
    past(here, Some(pb::ObjectRef { kind, id }), query.as_deref(), &headers).await
}

async fn past(
    (Extension(api), Extension(caller)): Here,
    object: Option<pb::ObjectRef>,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let mut query = Query::of(query);
    let before = query.number("before")?.unwrap_or_default();
    let limit = query.number("limit")?.unwrap_or_default();
    query.finish()?;
    let form = Form::asked(headers, &[Form::Json, Form::Yaml])?;
    let request = pb::HistoryRequest { object, before, limit };
    one(form, api.history(call(caller, request)).await?)
}

/// `GET /v1/transactions`: the receipts from now on, or from a transaction on, each in a line.
pub(super) async fn transactions(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut query = Query::of(query.as_deref());
    let request =
        pb::WatchReceiptsRequest { from_txn: query.number("from")?, strict: true, ..Default::default() };
    query.finish()?;
    let form = Form::asked(&headers, &[Form::Lines])?;
    let (receipts, held) = message(api.watch_receipts(call(caller, request)).await?);
    let lines = receipts.map(|receipt| Ok(answer::line(&receipt?)));
    Ok(held.until_encoded(answer(form, streamed(lines))))
}

/// `GET /v1/transactions/TXN`: the receipt of a transaction as it is now.
pub(super) async fn transaction(
    (Extension(api), Extension(caller)): Here,
    Path(txn): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let Ok(txn) = txn.parse::<u64>() else {
        return Err(Problem::bad_request(format!("{} is not the number of a transaction", quote_text(&txn))));
    };
    let request =
        pb::WatchReceiptsRequest { from_txn: Some(txn), strict: true, only: true, differences: false };
    let (mut receipts, held) = message(api.watch_receipts(call(caller, request)).await?);
    let receipt = receipts.next().await.unwrap_or_else(|| Err(Status::internal("the answer is empty")))?;
    Ok(held.until_encoded(answer::json(&to_json(&receipt))))
}

/// The body of `POST /v1/trace`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    from: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    ip: String,
    #[serde(default)]
    from_ip: String,
    #[serde(default)]
    from_mac: String,
    #[serde(default)]
    to_mac: String,
    tcp: Option<u32>,
    udp: Option<u32>,
    ttl: Option<u32>,
    size: Option<u32>,
    /// A flow expression of Open vSwitch, instead of the packet in words.
    flow: Option<String>,
    /// An Ethernet frame in hexadecimal digits, instead of the packet in words.
    frame: Option<String>,
    #[serde(default)]
    connection: Connection,
    #[serde(default)]
    live: bool,
    /// A change to try out: documents of objects, and objects that are deleted.
    #[serde(default)]
    with: Vec<Json>,
    #[serde(default)]
    without: Vec<Object>,
}

/// Where in its connection a packet is.
#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Connection {
    #[default]
    New,
    Established,
    Reply,
    Related,
}

/// The name of an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    kind: String,
    id: String,
}

impl From<Object> for pb::ObjectRef {
    fn from(Object { kind, id }: Object) -> Self {
        pb::ObjectRef { kind, id }
    }
}

impl Trace {
    fn message(self) -> Result<pb::TraceRequest, Problem> {
        use pb::ConnectionState as State;
        use pb::trace_request::Packet;
        let Trace { from, to, ip, from_ip, from_mac, to_mac, tcp, udp, ttl, size, .. } = self;
        let packet = match (self.flow, self.frame) {
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request("a trace has `flow` or `frame`, not both"));
            }
            (Some(flow), None) => Packet::Flow(flow),
            (None, Some(digits)) => Packet::Frame(bytes_of(&digits)?),
            (None, None) => {
                Packet::Words(pb::PacketInWords { to, ip, from_ip, from_mac, to_mac, tcp, udp, ttl, size })
            }
        };
        let connection = match self.connection {
            Connection::New => State::Unspecified,
            Connection::Established => State::Established,
            Connection::Reply => State::Reply,
            Connection::Related => State::Related,
        };
        let change = (!self.with.is_empty() || !self.without.is_empty()).then(|| {
            let text = Json::Array(self.with).to_string();
            let documents = match text.as_str() {
                "[]" => Vec::new(),
                _ => vec![pb::Document { name: "with.json".to_owned(), text, object: None }],
            };
            pb::TriedChange { documents, without: self.without.into_iter().map(Into::into).collect() }
        });
        Ok(pb::TraceRequest {
            from,
            form: pb::TraceForm::Json.into(),
            live: self.live,
            connection: connection.into(),
            change,
            packet: Some(packet),
        })
    }
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Result<Vec<u8>, Problem> {
    let digits: Vec<u8> =
        digits.bytes().filter(|digit| !digit.is_ascii_whitespace() && *digit != b':').collect();
    let byte = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2)
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.ok_or_else(|| {
        Problem::bad_request("`frame` is not a sequence of bytes, each of two hexadecimal digits")
    })
}

/// `POST /v1/trace`
pub(super) async fn trace(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let request = read::<Trace>(body).await?.message()?;
    let (answer, held) = message(api.trace(call(caller, request)).await?);
    let mut members = to_json(&answer);
    members["trace"] = from_text(&answer.text)?;
    if let Json::Object(members) = &mut members {
        members.remove("text");
    }
    Ok(held.until_encoded(answer::json(&members)))
}

/// The body of `POST /v1/explain` and `POST /v1/why-not`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    /// A row as in a rule.
    row: Option<String>,
    /// A flow of a host,
    node: Option<String>,
    flow: Option<String>,
    /// or an object.
    object: Option<Object>,
    /// The most rows to explain.
    #[serde(default)]
    rows: u32,
}

impl Question {
    fn message(self) -> Result<pb::RowQuestion, Problem> {
        use pb::row_question::About;
        let about = match (self.row, self.node.zip(self.flow), self.object) {
            (Some(row), None, None) => About::Row(row),
            (None, Some((node, flow)), None) => About::Flow(pb::HostFlow { node, flow }),
            (None, None, Some(object)) => About::Object(object.into()),
            _ => {
                let detail = "a question has one of `row`, `node` with `flow`, and `object`";
                return Err(Problem::bad_request(detail));
            }
        };
        Ok(pb::RowQuestion { about: Some(about) })
    }
}

/// `POST /v1/explain`
pub(super) async fn explain(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let question: Question = read(body).await?;
    let rows = question.rows;
    let request = pb::ExplainRequest { question: Some(question.message()?), rows, json: true };
    let (answer, held) = message(api.explain(call(caller, request)).await?);
    Ok(held.until_encoded(answer::json(&from_text(&answer.text)?)))
}

/// `POST /v1/why-not`
pub(super) async fn why_not(
    (Extension(api), Extension(caller)): Here,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, Problem> {
    Query::of(query.as_deref()).finish()?;
    let question: Question = read(body).await?;
    let request = pb::WhyNotRequest { question: Some(question.message()?), json: true };
    let (answer, held) = message(api.why_not(call(caller, request)).await?);
    Ok(held.until_encoded(answer::json(&from_text(&answer.text)?)))
}

/// The JSON of a body.
async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let bytes = whole(body).await?;
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad_request(format!("the body: {error}")))
}

/// The JSON of an answer's text: a value, or one in each line.
fn from_text(text: &str) -> Result<Json, Problem> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let values: Vec<Json> =
        values.collect::<Result<_, _>>().map_err(|error| Status::internal(error.to_string()))?;
    Ok(match <[Json; 1]>::try_from(values) {
        Ok([value]) => value,
        Err(values) => json!(values),
    })
}

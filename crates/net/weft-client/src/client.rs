//! A gRPC client of the controller.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::objects::{ListedFault, fault_lines};
use http::Uri;
use mutual_tls::Credentials;
use serde_json::{Map, Value as Json};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use self::authorized::Authorized;
use self::secure::Secure;
use crate::flow_counts::FlowCounts;
use crate::pb::controller_client::ControllerClient;
use crate::{MESSAGE_BYTES_MAX, STOPPING, pb};

mod authorized;
mod changes;
mod objects;
mod schema;
mod secure;

pub use self::objects::{Seen, Selection, Watched, Watching};
pub use changes::{Changes, documents_of};

/// The timeout of connecting.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The time limit for a query, and for each further part of a long answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The time limit for a change. Parsing, checking and evaluating hundreds of thousands of objects takes long.
const CHANGE_MAX: Duration = Duration::from_mins(30);
/// The interval of probes while the controller is silent, and the time that it has to answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a controller.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: String,
    inner: ControllerClient<Authorized>,
    /// The connection that `inner` uses, for requests over plain HTTP/2.
    channel: Authorized,
}

/// How a client shows who it is.
#[derive(Clone, Default)]
pub struct Identification {
    /// Its certificate, and the authorities that it trusts, for `https://` addresses.
    pub credentials: Option<Arc<Credentials>>,
    /// Its token, which is sent with each request.
    pub token: Option<String>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The text is not an address.
    #[error(
        "{endpoint:?} is not the address of a controller; use unix:/PATH, https://HOST:PORT, or ADDRESS:PORT without encryption"
    )]
    BadEndpoint {
        /// The text.
        endpoint: String,
    },
    /// A controller that speaks TLS wants to know who asks, and the client who answers.
    #[error(
        "{endpoint} wants a certificate or a token; set WEFT_AUTHORITIES, and WEFT_CERTIFICATE and WEFT_KEY or WEFT_TOKEN, or name them in a \
         context (`weft context --help`)"
    )]
    NoCertificate {
        /// The address.
        endpoint: String,
    },
    /// Others could read the token.
    #[error(
        "the token is not sent to {endpoint}: without encryption, others can read it; use https://HOST:PORT"
    )]
    ClearToken {
        /// The address.
        endpoint: String,
    },
    /// The token cannot be sent.
    #[error("the token has characters that no token has; set WEFT_TOKEN to what `weft token create` printed")]
    BadToken,
    /// Nothing answers at the address.
    #[error("no controller answers at {endpoint}: {why}; is `weft controller` running?")]
    Unreachable {
        /// The address.
        endpoint: String,
        /// The cause.
        why: String,
    },
    /// The controller is shutting down.
    #[error("the controller at {endpoint} is stopping; try again after it has restarted")]
    Stopping {
        /// The address.
        endpoint: String,
    },
    /// The request was refused; nothing changed.
    #[error("{}", refusal_text(.0))]
    Refused(pb::Refusal),
    /// The object or its kind does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The certificate or the token does not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// The controller failed.
    #[error("the controller at {endpoint} failed: {why}")]
    Failed {
        /// The address.
        endpoint: String,
        /// Its message.
        why: String,
    },
}

/// The universal flows of a datapath and its ports.
#[derive(Debug, Clone, Default)]
pub struct LogicalFlows {
    /// The object whose flows these are.
    pub datapath: pb::ObjectRef,
    /// Flows, ordered by table, priority (highest first), match and owner.
    pub flows: Vec<pb::LogicalFlow>,
    /// Their rules.
    pub rules: Vec<pb::Rule>,
}

/// The answer to a question that the rules declare.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListingRows {
    /// What is answered.
    pub listing: pb::Listing,
    /// The number of hosts that were asked.
    pub nodes: u64,
    /// The rows: values by the names of columns. Those of a listing are in the order of the answer, those of counters in that of their
    /// columns.
    pub rows: Vec<Map<String, Json>>,
    /// The hosts of which nothing is known, in order.
    pub unread: Vec<pb::UnreadSwitch>,
}

/// What is known of the machine of a controller.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    /// The values in force, as a configuration file with the origin of each.
    pub configuration: String,
    /// The last lines of the log, the oldest first.
    pub log: Vec<String>,
}

/// The desired state of a switch.
#[derive(Debug, Clone, Default)]
pub struct Flows {
    /// Flows, ordered by table, priority (highest first) and match.
    pub flows: Vec<pb::Flow>,
    /// Tunnel ports, ordered by name.
    pub tunnels: Vec<pb::Tunnel>,
    /// Buckets, ordered by group and number.
    pub buckets: Vec<pb::Bucket>,
    /// Patch ports, ordered by name.
    pub patches: Vec<pb::Patch>,
    /// The rules of the flows and buckets. The cookie of a flow is the fingerprint of its rule.
    pub rules: Vec<pb::Rule>,
}

impl Client {
    /// Connects to a controller at `unix:/PATH` or `ADDRESS:PORT`, the value of `listen` in the controller's configuration.
    pub async fn connect(endpoint: &str) -> Result<Client, ClientError> {
        Client::connect_as(endpoint, &Identification::default()).await
    }

    /// The same, as somebody. At `https://HOST:PORT`, the controller's certificate must have that name or address.
    pub async fn connect_as(endpoint: &str, identification: &Identification) -> Result<Client, ClientError> {
        let Identification { credentials, token } = identification;
        let authorization =
            token.as_deref().map(|token| authorized::header(token).ok_or(ClientError::BadToken));
        if token.is_some() && !is_private(endpoint) {
            return Err(ClientError::ClearToken { endpoint: endpoint.to_owned() });
        }
        let authorization = authorization.transpose()?;
        let channel = target(endpoint)?
            .connect_timeout(CONNECT_MAX)
            .http2_keep_alive_interval(PROBE_INTERVAL)
            .keep_alive_timeout(PROBE_TIMEOUT)
            .keep_alive_while_idle(true);
        let connected = match credentials {
            _ if !endpoint.starts_with(secure::SCHEME) => channel.connect().await,
            Some(credentials) => channel.connect_with_connector(Secure(credentials.clone())).await,
            None => return Err(ClientError::NoCertificate { endpoint: endpoint.to_owned() }),
        };
        let channel = connected.map_err(|error| unreachable(endpoint, innermost(&error)))?;
        Ok(Client::over(endpoint.to_owned(), Authorized::new(channel, authorization)))
    }

    fn over(endpoint: String, channel: Authorized) -> Client {
        let inner = ControllerClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Client { endpoint, inner, channel }
    }

    /// The same client, whose requests belong to a trace: `traceparent` of W3C Trace Context, such as
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`. A controller that sends spans makes those of these requests.
    pub fn in_trace(self, traceparent: &str) -> Client {
        Client::over(self.endpoint, self.channel.in_trace(traceparent))
    }

    /// Whether a text has the form of an address that [`connect`](Client::connect) takes.
    pub fn check_address(endpoint: &str) -> Result<(), ClientError> {
        target(endpoint).map(drop)
    }

    /// The desired state of the switch of a transport node.
    pub async fn flows(&mut self, node: &str) -> Result<Flows, ClientError> {
        let request = pb::ListFlowsRequest { node: node.to_owned() };
        let stream =
            within(ANSWER_MAX, self.inner.list_flows(request)).await.map_err(|status| self.failed(status))?;
        let mut messages = stream.into_inner();
        let mut flows = Flows::default();
        while let Some(message) =
            within(ANSWER_MAX, messages.message()).await.map_err(|status| self.failed(status))?
        {
            flows.flows.extend(message.flows);
            flows.buckets.extend(message.buckets);
            flows.tunnels.extend(message.tunnels);
            flows.patches.extend(message.patches);
            flows.rules.extend(message.rules);
        }
        Ok(flows)
    }

    /// The universal flows of a datapath and its ports.
    pub async fn logical_flows(&mut self, id: &str) -> Result<LogicalFlows, ClientError> {
        let request = pb::ListLogicalFlowsRequest { id: id.to_owned() };
        let stream = within(ANSWER_MAX, self.inner.list_logical_flows(request)).await;
        let mut messages = stream.map_err(|status| self.failed(status))?.into_inner();
        let mut flows = LogicalFlows::default();
        while let Some(message) =
            within(ANSWER_MAX, messages.message()).await.map_err(|status| self.failed(status))?
        {
            flows.datapath = message.datapath.unwrap_or(flows.datapath);
            flows.flows.extend(message.flows);
            flows.rules.extend(message.rules);
        }
        Ok(flows)
    }

    /// The answer to a question that the rules declare, about an object or about all; with `details`, lists of what hosts have counted too.
    pub async fn listing(
        &mut self,
        listing: &str,
        id: Option<&str>,
        details: bool,
    ) -> Result<ListingRows, ClientError> {
        let request = pb::ReadListingRequest {
            listing: listing.to_owned(),
            id: id.map(str::to_owned),
            kind: String::new(),
            details,
        };
        let stream = within(ANSWER_MAX, self.inner.read_listing(request)).await;
        let mut messages = stream.map_err(|status| self.failed(status))?.into_inner();
        let mut found = ListingRows::default();
        while let Some(message) =
            within(ANSWER_MAX, messages.message()).await.map_err(|status| self.failed(status))?
        {
            if let Some(listing) = message.listing {
                (found.listing, found.nodes) = (listing, message.nodes);
            }
            for row in message.rows {
                let row = serde_json::from_str(&row).map_err(|error| Status::internal(error.to_string()));
                found.rows.push(row.map_err(|status| self.failed(status))?);
            }
            found.unread.extend(message.unread);
        }
        if found.listing.counted {
            let names = found.listing.columns.iter().map(|column| column.name.clone());
            let names: Vec<String> = names.collect();
            found.rows.sort_by(|a, b| {
                let values = names.iter().map(|name| in_order(a.get(name), b.get(name)));
                values.fold(Ordering::Equal, Ordering::then)
            });
        }
        found.unread.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(found)
    }

    /// The listings and the tables of counters that the rules declare, in the order of their names.
    pub async fn listings(&mut self) -> Result<Vec<pb::Listing>, ClientError> {
        let response = within(ANSWER_MAX, self.inner.list_listings(pb::ListListingsRequest {})).await;
        Ok(response.map_err(|status| self.failed(status))?.into_inner().listings)
    }

    /// The way of a packet through the network as it is now.
    pub async fn trace(&mut self, request: pb::TraceRequest) -> Result<pb::TraceResponse, ClientError> {
        let response = within(ANSWER_MAX, self.inner.trace(request)).await;
        Ok(response.map_err(|status| self.failed(status))?.into_inner())
    }

    /// Why rows or flows exist.
    pub async fn explain(&mut self, request: pb::ExplainRequest) -> Result<String, ClientError> {
        let response = within(ANSWER_MAX, self.inner.explain(request)).await;
        Ok(response.map_err(|status| self.failed(status))?.into_inner().text)
    }

    /// Why a row or a flow does not exist.
    pub async fn why_not(&mut self, request: pb::WhyNotRequest) -> Result<String, ClientError> {
        let response = within(ANSWER_MAX, self.inner.why_not(request)).await;
        Ok(response.map_err(|status| self.failed(status))?.into_inner().text)
    }

    /// What is dropped in the whole network, asked now.
    pub async fn drops_everywhere(&mut self) -> Result<FlowCounts, ClientError> {
        self.flow_counts("", "").await
    }

    /// What the flows of an object have counted, asked now.
    pub async fn flow_counts(&mut self, kind: &str, id: &str) -> Result<FlowCounts, ClientError> {
        let request = pb::CountFlowsRequest { kind: kind.to_owned(), id: id.to_owned() };
        let mut found = FlowCounts::default();
        let stream = within(ANSWER_MAX, self.inner.count_flows(request)).await;
        let mut messages = stream.map_err(|status| self.failed(status))?.into_inner();
        while let Some(message) =
            within(ANSWER_MAX, messages.message()).await.map_err(|status| self.failed(status))?
        {
            found.add(message);
        }
        Ok(found)
    }

    /// What probes have measured of the tunnels of a transport node, or of all.
    pub async fn tunnels(&mut self, node: Option<&str>) -> Result<Vec<pb::MeasuredTunnel>, ClientError> {
        let request = pb::ListTunnelsRequest { node: node.unwrap_or_default().to_owned() };
        let stream = within(ANSWER_MAX, self.inner.list_tunnels(request)).await;
        let mut messages = stream.map_err(|status| self.failed(status))?.into_inner();
        let mut tunnels = Vec::new();
        while let Some(message) =
            within(ANSWER_MAX, messages.message()).await.map_err(|status| self.failed(status))?
        {
            tunnels.extend(message.tunnels);
        }
        Ok(tunnels)
    }

    /// A snapshot: the bytes of a file with all that the controller has recorded. It may take as long as it takes.
    pub async fn snapshot(&mut self) -> Result<Vec<u8>, ClientError> {
        let stream = self.inner.take_snapshot(pb::TakeSnapshotRequest {}).await;
        let mut parts = stream.map_err(|status| self.failed(status))?.into_inner();
        let mut file = Vec::new();
        while let Some(pb::TakeSnapshotResponse { part }) =
            within(ANSWER_MAX, parts.message()).await.map_err(|status| self.failed(status))?
        {
            file.extend_from_slice(&part);
        }
        Ok(file)
    }

    /// The configuration of the controller, and the last lines of its log.
    pub async fn diagnostics(&mut self) -> Result<Diagnostics, ClientError> {
        let stream = within(ANSWER_MAX, self.inner.read_diagnostics(pb::ReadDiagnosticsRequest {})).await;
        let mut parts = stream.map_err(|status| self.failed(status))?.into_inner();
        let mut diagnostics = Diagnostics::default();
        while let Some(pb::ReadDiagnosticsResponse { configuration, log }) =
            within(ANSWER_MAX, parts.message()).await.map_err(|status| self.failed(status))?
        {
            diagnostics.configuration += &configuration;
            diagnostics.log.extend(log);
        }
        Ok(diagnostics)
    }

    /// The current state of the controller and its switches.
    pub async fn status(&mut self) -> Result<pb::StatusResponse, ClientError> {
        self.status_as(pb::StatusRequest::default()).await
    }

    /// What is up of a tenant; `None` if no object names it.
    pub async fn tenant(&mut self, tenant: &str) -> Result<Option<pb::TenantStatus>, ClientError> {
        let tenant = Some(tenant.to_owned());
        let status = self.status_as(pb::StatusRequest { tenant, ..Default::default() }).await?;
        Ok(status.tenants.into_iter().next())
    }

    /// The current state of the controller and of the switches of these transport nodes, without problems. With no
    /// transport nodes, the state of everything.
    pub async fn status_of(&mut self, nodes: Vec<String>) -> Result<pb::StatusResponse, ClientError> {
        self.status_as(pb::StatusRequest { nodes, ..Default::default() }).await
    }

    async fn status_as(&mut self, request: pb::StatusRequest) -> Result<pb::StatusResponse, ClientError> {
        let response = within(ANSWER_MAX, self.inner.status(request)).await;
        response.map(tonic::Response::into_inner).map_err(|status| self.failed(status))
    }

    /// Receipts: the stored ones from a transaction on, and all later ones. Ends when the controller ends.
    pub async fn receipts(
        &mut self,
        from_txn: Option<u64>,
    ) -> Result<impl Stream<Item = Result<pb::Receipt, ClientError>> + use<>, ClientError> {
        self.watch_receipts(pb::WatchReceiptsRequest { from_txn, differences: true, ..Default::default() })
            .await
    }

    async fn watch_receipts(
        &mut self,
        request: pb::WatchReceiptsRequest,
    ) -> Result<impl Stream<Item = Result<pb::Receipt, ClientError>> + use<>, ClientError> {
        let stream = within(ANSWER_MAX, self.inner.watch_receipts(request))
            .await
            .map_err(|status| self.failed(status))?;
        let client = self.clone();
        let mut whole = WholeReceipts::default();
        Ok(stream.into_inner().map(move |receipt| {
            receipt.map(|receipt| whole.add(receipt)).map_err(|status| client.failed(status))
        }))
    }

    /// Waits until a transaction is complete: every switch that it changes has answered or is disconnected. `None` if
    /// the controller ends first; [`ClientError::NotFound`] if its receipt is not stored any more.
    pub async fn settled(&mut self, txn: u64) -> Result<Option<pb::Receipt>, ClientError> {
        self.settled_until(txn, std::future::pending(), |_| {}).await
    }

    /// The same, but the last receipt, which may be incomplete, once `end` is there. `None` if there is none then. `told` sees each receipt
    /// of the transaction as it comes.
    pub async fn settled_until(
        &mut self,
        txn: u64,
        end: impl Future<Output = ()>,
        mut told: impl FnMut(&pb::Receipt),
    ) -> Result<Option<pb::Receipt>, ClientError> {
        let mut receipts = std::pin::pin!({
            let from_txn = Some(txn);
            self.watch_receipts(pb::WatchReceiptsRequest {
                from_txn,
                strict: true,
                only: true,
                differences: true,
            })
            .await?
        });
        let (mut end, mut last) = (std::pin::pin!(end), None);
        loop {
            let next = tokio::select! {
                next = receipts.next() => next,
                () = &mut end => return Ok(last),
            };
            let Some(receipt) = next.transpose()? else { return Ok(None) };
            if receipt.txn != txn {
                continue;
            }
            told(&receipt);
            if receipt.complete {
                return Ok(Some(receipt));
            }
            last = Some(receipt);
        }
    }

    fn failed(&self, status: Status) -> ClientError {
        let (endpoint, why) = (self.endpoint.clone(), status.message().to_owned());
        match status.code() {
            Code::NotFound | Code::InvalidArgument | Code::Unimplemented => ClientError::NotFound(why),
            Code::PermissionDenied | Code::Unauthenticated => ClientError::Forbidden(why),
            Code::Unavailable if why == STOPPING => ClientError::Stopping { endpoint },
            Code::Unavailable => unreachable(&endpoint, why),
            // The controller ended while it was asked.
            _ if is_lost(&status) => {
                unreachable(&endpoint, format!("the connection broke ({})", innermost(&status)))
            }
            _ => ClientError::Failed { endpoint, why },
        }
    }
}

/// The error of a controller that does not answer. One that refuses a certificate of TLS 1.3 ends the connection without a word.
fn unreachable(endpoint: &str, why: String) -> ClientError {
    let hint = if !endpoint.starts_with(secure::SCHEME) {
        ""
    } else if why.contains("invalid peer certificate") {
        "; the authorities in WEFT_AUTHORITIES, or in the context, must have signed its certificate for this name or address, which is a \
         DNS name or an IP address in its subjectAltName (`ovs-pki --unique` writes one)"
    } else {
        "; if it has refused the certificate, its log says why"
    };
    ClientError::Unreachable { endpoint: endpoint.to_owned(), why: why + hint }
}

/// Whether nobody else can read what is sent to an address: over TLS, or on this machine.
fn is_private(endpoint: &str) -> bool {
    if endpoint.starts_with(secure::SCHEME) || endpoint.starts_with("unix:") {
        return true;
    }
    let host = Uri::try_from(endpoint.strip_prefix("http://").unwrap_or(endpoint));
    let host = host.ok().and_then(|uri| uri.host().map(|host| host.trim_matches(['[', ']']).to_owned()));
    host.is_some_and(|host| {
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// What an address means to tonic.
fn target(endpoint: &str) -> Result<Endpoint, ClientError> {
    let bad = || ClientError::BadEndpoint { endpoint: endpoint.to_owned() };
    let uri = match endpoint.strip_prefix("unix:") {
        Some(path) if !path.starts_with('/') => return Err(bad()),
        Some(path) => format!("unix://{path}"),
        // A channel of its own would not know the certificates.
        None if endpoint.starts_with(secure::SCHEME) => endpoint.replacen(secure::SCHEME, "http://", 1),
        None if endpoint.contains("://") => endpoint.to_owned(),
        None => format!("http://{endpoint}"),
    };
    Endpoint::from_shared(uri).map_err(|_| bad())
}

/// Assembles complete receipts from messages that contain only the switches that made progress.
#[derive(Debug, Default)]
pub struct WholeReceipts {
    /// Receipts with a pending switch, by transaction.
    open: BTreeMap<u64, pb::Receipt>,
}

impl WholeReceipts {
    /// The complete receipt after a message.
    pub fn add(&mut self, message: pb::Receipt) -> pb::Receipt {
        let receipt = match self.open.remove(&message.txn) {
            Some(mut receipt) if message.partial => {
                for switch in message.switches {
                    let found = receipt.switches.binary_search_by(|known| known.node.cmp(&switch.node));
                    match found {
                        Ok(index) => receipt.switches[index] = switch,
                        Err(index) => receipt.switches.insert(index, switch),
                    }
                }
                receipt.complete = message.complete;
                receipt
            }
            _ => message,
        };
        if !receipt.complete {
            self.open.insert(receipt.txn, receipt.clone());
        }
        receipt
    }
}

/// A refusal with more faults ends with their number.
const FEW_FAULTS: usize = 10;

/// The answer to a call, or an error if it takes too long.
async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs()));
    tokio::time::timeout(limit, answer).await.map_err(late)?
}

/// The order of two values of a column: numbers by size, texts by letters, and what is absent first.
fn in_order(a: Option<&Json>, b: Option<&Json>) -> Ordering {
    let number = |value: Option<&Json>| value.and_then(Json::as_u64);
    let text = |value: Option<&Json>| value.and_then(Json::as_str).map(str::to_owned);
    number(a).cmp(&number(b)).then_with(|| text(a).cmp(&text(b)))
}

fn refusal_text(refusal: &pb::Refusal) -> String {
    if refusal.code == "new-problems" {
        let count = refusal.new_problems.len();
        let brings = if count == 1 { "1 new problem".to_owned() } else { format!("{count} new problems") };
        return format!("the change brings {brings}; nothing was applied\n{}", refusal.message);
    }
    if refusal.faults.is_empty() {
        return format!("{}: {}", refusal.code, refusal.message);
    }
    let mut lines = fault_lines(&refusal.faults.iter().map(listed).collect::<Vec<_>>());
    if refusal.faults.len() > FEW_FAULTS {
        lines.push(format!("{} faults; nothing was applied", refusal.faults.len()));
    }
    lines.join("\n")
}

fn listed(fault: &pb::ObjectFault) -> ListedFault<'_> {
    let kind = fault.object.as_ref().map_or("", |object| object.kind.as_str());
    ListedFault { kind, path: &fault.path, message: &fault.message, text: &fault.text }
}

/// Whether the error is the connection's, and not the answer of a controller.
fn is_lost(status: &Status) -> bool {
    std::error::Error::source(status).is_some_and(<dyn std::error::Error>::is::<tonic::transport::Error>)
}

fn innermost(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// It ends by itself a moment after whoever started it.
    #[tokio::test]
    async fn a_controller_that_ends_while_it_is_asked_is_none() {
        use tokio::io::AsyncReadExt as _;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let ends = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            connection.read_exact(&mut [0]).await.unwrap();
        });
        let mut client = Client::connect(&endpoint).await.unwrap();
        let error = client.status().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
        assert!(error.to_string().ends_with("is `weft controller` running?"), "{error}");
        ends.await.unwrap();
    }
}

//! Takes complete requests off the network before anything decodes them, in bounded memory.
//!
//! The decoder of gRPC frames allocates the announced size of a frame. This module instead collects the bytes of a
//! request as they arrive, and passes only complete requests on to the decoder. A budget limits the requests of all
//! clients together, and those of each client. It includes the memory of their elements once decoded. Answers take their
//! way back through [`crate::answers`].

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body::Frame;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tonic::Status;
use tonic::codegen::{BoxFuture, Service, http};
use weft_client::MESSAGE_BYTES_MAX;

use crate::answers::Answer;
use crate::listener::{Caller, Client};

use crate::problem::{failed, is_grpc};

mod elements;

use elements::Elements;

/// The path of the HTTP request that applies objects.
pub(crate) const HTTP_APPLY: &str = "/v1/apply";

/// The size limit of all other requests.
const QUERY_BYTES_MAX: usize = 4 << 20;
/// The size of the pieces in which requests are collected. The first piece is not counted, so a small request is
/// always accepted, though it waits while as many others arrive.
const PIECE: usize = 32 << 10;
/// The most requests that arrive or are in work at a time: of all clients, and of one client.
const REQUESTS_MAX: usize = 4096;
const CLIENT_REQUESTS_MAX: usize = 1024;
/// The limits of the bytes of concurrent requests: of all clients, and of one client.
const TOTAL_BYTES_MAX: usize = 640 << 20;
const CLIENT_BYTES_MAX: usize = 320 << 20;
/// The memory of a decoded element, in addition to its bytes: two texts, in a list whose capacity is twice its length.
const ELEMENT_BYTES: usize = 96;
/// The most elements (objects, documents, names) of a request.
const ELEMENTS_MAX: usize = 1 << 20;
/// So many elements may be as small as they like. Beyond them, each has so many bytes on average: an empty document takes two, and 144
/// of memory while the list of them grows. The least object has four.
const FEW_ELEMENTS: usize = 1024;
const ELEMENT_BYTES_MIN: usize = 4;
/// The field of `TraceRequest` that has repeated fields itself: `change`.
const CHANGE_OF_TRACE: u64 = 8;
/// The time limit for the next bytes of a request, and for the whole request.
const PAUSE_MAX: Duration = Duration::from_secs(10);
const ARRIVAL_MAX: Duration = Duration::from_mins(5);
/// From this size on, a request is decoded in a thread of its own: decoding takes up to a second and never yields.
const LARGE: usize = 256 << 10;
/// The number of large requests in work at a time.
const DECODERS: usize = 4;
/// The bytes before each gRPC message: the compression flag and the length.
const PREFIX: usize = 5;

/// A service that receives complete requests only.
#[derive(Clone)]
pub(crate) struct WholeRequests<S> {
    inner: S,
    budget: Arc<Budget>,
}

/// The budget of requests, in pieces.
struct Budget {
    total: Arc<Semaphore>,
    /// The requests that may be there at a time.
    places: Arc<Semaphore>,
    clients: Mutex<BTreeMap<Client, Weak<OfClient>>>,
    /// The threads that large requests may have.
    decoders: Arc<Semaphore>,
}

/// What one client may have: pieces, and requests.
struct OfClient {
    pieces: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

/// A complete request.
struct Whole {
    pieces: VecDeque<Bytes>,
    /// Its share of the budget.
    held: Held,
}

/// The share of the budget that a request holds, in pieces.
struct Held {
    of_client: Arc<OfClient>,
    total: Arc<Semaphore>,
    /// Its place among the requests, and the permits of its pieces.
    permits: Vec<OwnedSemaphorePermit>,
    /// The number of pieces held for its elements.
    for_elements: usize,
}

impl<S> WholeRequests<S> {
    pub(crate) fn new(inner: S) -> Self {
        WholeRequests { inner, budget: Arc::default() }
    }
}

impl<S> Service<http::Request<Body>> for WholeRequests<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error: Send> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let budget = self.budget.clone();
        // The service that reported readiness must serve this request.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let caller = parts.extensions.get::<Caller>().cloned();
            let client = caller.as_ref().map(|caller| caller.client);
            let form = Form::of(&parts);
            let whole = tokio::time::timeout(ARRIVAL_MAX, budget.collect(body, client, form)).await;
            let Whole { pieces, held } = match whole.unwrap_or_else(|_| Err(too_slow(ARRIVAL_MAX))) {
                Ok(whole) => whole,
                Err(status) => return Ok(failed(status, form.is_grpc)),
            };
            let _working = caller.as_ref().map(|caller| caller.account.work());
            let bytes: usize = pieces.iter().map(Bytes::len).sum();
            let request = http::Request::from_parts(parts, Body::new(Pieces(pieces)));
            let response = if bytes < LARGE {
                inner.call(request).await
            } else {
                in_own_thread(inner, request, budget.decoders.clone()).await
            };
            drop(held);
            match caller {
                Some(caller) => response.map(|response| Answer::wrap(response, caller.account)),
                None => response,
            }
        })
    }
}

/// What is known of a request from its head.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// Whether its body is a message with a prefix.
    is_grpc: bool,
    /// The most bytes that it may have.
    largest: usize,
    /// The field of the message that has repeated fields itself.
    within: Option<u64>,
}

impl Form {
    fn of(head: &http::request::Parts) -> Self {
        let (path, is_grpc) = (head.uri.path(), is_grpc(&head.headers));
        let largest = match path {
            HTTP_APPLY => MESSAGE_BYTES_MAX,
            path if path.ends_with("/Apply") => MESSAGE_BYTES_MAX,
            _ => QUERY_BYTES_MAX,
        };
        Form { is_grpc, largest, within: path.ends_with("/Trace").then_some(CHANGE_OF_TRACE) }
    }
}

/// Serves a request in a thread of its own, and stops early if the client has gone.
async fn in_own_thread<S>(
    mut service: S,
    request: http::Request<Body>,
    places: Arc<Semaphore>,
) -> Result<http::Response<Body>, S::Error>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error: Send> + Send + 'static,
{
    let place = places.acquire_owned().await;
    // Dropped with this future, which is when the client has gone.
    let (here, gone) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let served = tokio::task::spawn_blocking(move || {
        let _place = place;
        runtime.block_on(async {
            tokio::select! {
                response = service.call(request) => response,
                _ = gone => Ok(Status::cancelled("the client has gone").into_http()),
            }
        })
    });
    let response = served.await;
    drop(here);
    response.unwrap_or_else(|error| Ok(Status::internal(error.to_string()).into_http()))
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            total: Arc::new(Semaphore::new(TOTAL_BYTES_MAX / PIECE)),
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
            clients: Mutex::default(),
            decoders: Arc::new(Semaphore::new(DECODERS)),
        }
    }
}

impl Budget {
    /// Collects a request as it arrives.
    async fn collect(&self, body: Body, client: Option<Client>, form: Form) -> Result<Whole, Status> {
        let Form { is_grpc, largest, within } = form;
        let mut body = pin!(body);
        let held = Held::new(self.of_client(client), self).await?;
        let (mut whole, mut last) = (Whole { pieces: VecDeque::new(), held }, Vec::new());
        let (mut arrived, mut limit, mut elements) = (0, None, Elements::after_prefix(PREFIX).within(within));
        loop {
            let next = tokio::time::timeout(PAUSE_MAX, poll_fn(|context| body.as_mut().poll_frame(context)));
            let frame = match next.await.map_err(|_| too_slow(PAUSE_MAX))? {
                Some(frame) => frame.map_err(|error| Status::from_error(error.into_inner()))?,
                None => break,
            };
            // Trailers carry no information here.
            let Ok(mut data) = frame.into_data() else { continue };
            arrived += data.len();
            while !data.is_empty() {
                // Copied, because the data is a slice that would keep a larger buffer alive.
                let part = data.split_to(data.len().min(PIECE - last.len()));
                last.extend_from_slice(&part);
                if is_grpc {
                    elements.add(&part);
                    if limit.is_none() {
                        limit = announced(&whole.pieces, &last, largest)?;
                    }
                    whole.held.elements(elements.count())?;
                } else if arrived > largest {
                    return Err(too_large(arrived, largest));
                }
                if last.len() == PIECE {
                    whole.held.piece()?;
                    whole.pieces.push_back(std::mem::take(&mut last).into());
                }
            }
            if limit.is_some_and(|limit| arrived > limit) {
                return Err(Status::invalid_argument("the request is longer than it announces"));
            }
        }
        if elements.count() > FEW_ELEMENTS && elements.count() * ELEMENT_BYTES_MIN > arrived {
            return Err(Status::invalid_argument(format!(
                "the request has {} elements in {arrived} bytes: most are empty; leave these out",
                elements.count()
            )));
        }
        if !last.is_empty() {
            whole.pieces.push_back(last.into());
        }
        Ok(whole)
    }

    fn of_client(&self, client: Option<Client>) -> Arc<OfClient> {
        let fresh = || {
            let pieces = Arc::new(Semaphore::new(CLIENT_BYTES_MAX / PIECE));
            Arc::new(OfClient { pieces, places: Arc::new(Semaphore::new(CLIENT_REQUESTS_MAX)) })
        };
        let Some(client) = client else { return fresh() };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = clients.get(&client).and_then(Weak::upgrade) {
            return known;
        }
        clients.retain(|_, budget| budget.strong_count() > 0);
        let budget = fresh();
        clients.insert(client, Arc::downgrade(&budget));
        budget
    }
}

/// The length of a request according to its first bytes, once they have arrived.
fn announced(pieces: &VecDeque<Bytes>, last: &[u8], largest: usize) -> Result<Option<usize>, Status> {
    let first = pieces.front().map_or(last, |piece| piece);
    let Some([_, length @ ..]) = first.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > largest {
        return Err(too_large(length, largest));
    }
    Ok(Some(PREFIX + length))
}

impl Held {
    /// Waits for a place among the requests: first among those of the client, so that it waits behind its own.
    async fn new(of_client: Arc<OfClient>, budget: &Budget) -> Result<Self, Status> {
        let mut permits = Vec::new();
        for places in [&of_client.places, &budget.places] {
            let place = places.clone().acquire_owned().await;
            permits.push(place.map_err(|error| Status::internal(error.to_string()))?);
        }
        Ok(Held { of_client, total: budget.total.clone(), permits, for_elements: 0 })
    }

    /// Takes a piece of the budget.
    fn piece(&mut self) -> Result<(), Status> {
        for budget in [&self.of_client.pieces, &self.total] {
            let permit = budget.clone().try_acquire_owned().map_err(|_| {
                Status::resource_exhausted(
                    "the controller holds too many large requests now; try again later",
                )
            })?;
            self.permits.push(permit);
        }
        Ok(())
    }

    /// Takes the budget of this many elements. As with bytes, the first piece is not counted.
    fn elements(&mut self, count: usize) -> Result<(), Status> {
        if count > ELEMENTS_MAX {
            return Err(Status::resource_exhausted(format!(
                "the request has more than {ELEMENTS_MAX} elements, the limit; split it"
            )));
        }
        while self.for_elements < count * ELEMENT_BYTES / PIECE {
            self.piece()?;
            self.for_elements += 1;
        }
        Ok(())
    }
}

fn too_large(bytes: usize, largest: usize) -> Status {
    Status::resource_exhausted(format!(
        "the request has {bytes} bytes, more than the limit of {largest} bytes; split it"
    ))
}

fn too_slow(limit: Duration) -> Status {
    Status::deadline_exceeded(format!("the request did not arrive within {limit:?}"))
}

/// A body that frees its memory piece by piece.
struct Pieces(VecDeque<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use prost::Message as _;

    use super::*;

    /// An apply request of so many small objects: four bytes each.
    fn small_objects(count: usize) -> Body {
        body(&b"\x12\x02{}".repeat(count))
    }

    /// The body of a request with this message.
    fn body(message: &[u8]) -> Body {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(message);
        Body::new(Pieces([Bytes::from(bytes)].into()))
    }

    /// A message of a gRPC call that applies objects.
    const APPLY: Form = Form { is_grpc: true, largest: MESSAGE_BYTES_MAX, within: None };

    /// What any request takes: the lists of few elements.
    const ANY_REQUEST: usize = 256 << 10;

    #[tokio::test]
    async fn d1_the_memory_of_a_request_follows_its_bytes() {
        let budget = Budget::default();
        let (mut decoded, mut refused) = (0, 0);
        let parts: [(&str, &[u8]); 10] = [
            ("empty documents", &[0x0a, 0]),
            ("empty objects", &[0x12, 0]),
            ("names alone", &[0x0a, 3, 0x0a, 1, b'a']),
            ("documents of an empty name", &[0x0a, 2, 0x0a, 0]),
            ("short objects", &[0x12, 2, b'{', b'}']),
            ("requesters", &[0x1a, 1, b'a']),
            ("no field that is known", &[0x7a, 0]),
            ("numbers", &[0x20, 1]),
            ("objects to delete", &[0x0a, 2, 0x0a, 0]),
            ("documents and objects", &[0x0a, 0, 0x12, 6, b'{', b'}', b' ', b' ', b' ', b' ']),
        ];
        for count in [1000, 100_000] {
            for (name, part) in parts {
                let message = part.repeat(count);
                let mut changed = vec![0x42];
                prost::encoding::encode_varint(message.len() as u64, &mut changed);
                changed.extend_from_slice(&message);
                for (message, within) in [(message, None), (changed, Some(CHANGE_OF_TRACE))] {
                    let name = format!("{count} {name}, {within:?}");
                    if budget.collect(body(&message), None, Form { within, ..APPLY }).await.is_err() {
                        refused += 1;
                        continue;
                    }
                    decoded += 1;
                    decoder_memory::bounded(&name, message.len(), ANY_REQUEST, || match within {
                        None => {
                            let _apply = weft_client::pb::ApplyRequest::decode(&*message);
                            let _delete = weft_client::pb::DeleteRequest::decode(&*message);
                            let _set = weft_client::pb::SetRequest::decode(&*message);
                            let _status = weft_client::pb::StatusRequest::decode(&*message);
                        }
                        Some(_) => drop(weft_client::pb::TraceRequest::decode(&*message)),
                    });
                }
            }
        }
        assert!(decoded > 20 && refused >= 6, "{decoded} {refused}");
        let Err(error) = budget.collect(body(&[0x0a, 0].repeat(2000)), None, APPLY).await else {
            panic!("empty documents");
        };
        assert!(error.message().contains("2000 elements in 4005 bytes"), "{error}");
    }

    /// A service that decodes until it is told to stop, without a yield.
    #[derive(Clone)]
    struct Decoder {
        begun: Arc<AtomicBool>,
        told: Arc<Mutex<mpsc::Receiver<()>>>,
    }

    impl Service<http::Request<Body>> for Decoder {
        type Response = http::Response<Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            let Decoder { begun, told } = self.clone();
            Box::pin(async move {
                begun.store(true, Ordering::SeqCst);
                let told = told.lock().unwrap().recv_timeout(Duration::from_secs(20));
                told.expect("others run meanwhile");
                Ok(http::Response::default())
            })
        }
    }

    /// The test has one thread, which a request decoded there would block.
    #[tokio::test]
    async fn a_large_request_is_decoded_beside_others() {
        let (stop, told) = mpsc::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let decoder = Decoder { begun: begun.clone(), told: Arc::new(Mutex::new(told)) };
        let request = http::Request::post("http://localhost/weft.v1.Controller/Apply");
        let request = request.body(small_objects(LARGE / 4)).unwrap();
        let answer = tokio::spawn(WholeRequests::new(decoder).call(request));
        while !begun.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        stop.send(()).unwrap();
        assert_eq!(answer.await.unwrap().unwrap().status(), http::StatusCode::OK);
    }

    #[tokio::test]
    async fn elements_count_towards_the_budget() {
        let budget = Budget::default();
        let take = async |count| budget.collect(small_objects(count), Some(Client::Process(1)), APPLY).await;
        let before = budget.total.available_permits();
        let whole = take(100_000).await.unwrap();
        let held = (before - budget.total.available_permits()) * PIECE;
        assert!((100_000 * 100 - 2 * PIECE..=100_000 * 100).contains(&held), "{held}");
        drop(whole);
        assert_eq!(budget.total.available_permits(), before);
        // Three such requests are all that a client may have.
        let mut wholes = Vec::new();
        let refused = loop {
            match take(ELEMENTS_MAX).await {
                Ok(whole) => wholes.push(whole),
                Err(status) => break status,
            }
        };
        assert_eq!((wholes.len(), refused.code()), (3, tonic::Code::ResourceExhausted));
        assert!(refused.message().contains("try again later"), "{refused}");
        drop(wholes);
        let Err(refused) = take(ELEMENTS_MAX + 1).await else { panic!("too many elements") };
        assert!(refused.message().contains("1048576 elements"), "{refused}");
        assert_eq!(budget.total.available_permits(), before);
    }

    #[tokio::test]
    async fn a_client_with_many_requests_waits_behind_its_own() {
        let budget = Budget::default();
        let take =
            async |client| budget.collect(small_objects(1), Some(Client::Process(client)), APPLY).await;
        let mut wholes = Vec::new();
        for _ in 0..CLIENT_REQUESTS_MAX {
            wholes.push(take(1).await.unwrap());
        }
        let mut waits = pin!(take(1));
        let first = poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_ready())).await;
        assert!(!first, "it waits");
        take(2).await.unwrap();
        wholes.pop();
        waits.await.unwrap();
    }
}

//! Answers on their way to clients, in bounded memory.
//!
//! The account of a connection counts every byte of an answer from its encoding until it is written to the socket. A call
//! waits while the account has no room. The answers to the queries of a connection are made one at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::Stream;
use tonic::{Response, Status};

use crate::listener::{Account, Charge, UNREAD_MAX};

/// The number of answers made at a time, for all connections.
const MAKING_MAX: usize = 8;
/// The memory of a frame in addition to its bytes.
const FRAME_BYTES: usize = 512;

/// The messages of an answer.
pub(crate) type Results<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Lets calls make answers in turn.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Semaphore>);

/// The permission to make an answer or a part of it.
#[derive(Debug)]
pub(crate) struct Turn {
    _made: Made,
}

/// What limits the answers that are made and not encoded.
#[derive(Debug)]
enum Made {
    InTurn {
        _of_connection: OwnedSemaphorePermit,
        _of_all: OwnedSemaphorePermit,
    },
    /// Its bytes are on the account already.
    Charged {
        _charge: Charge,
    },
}

impl Default for Turns {
    fn default() -> Self {
        Turns(Arc::new(Semaphore::new(MAKING_MAX)))
    }
}

impl Turns {
    /// Waits for room on the account, and for the turn.
    pub(crate) async fn next(&self, account: &Account) -> Result<Turn, Status> {
        let of_connection = account.turn().await?;
        let of_all = self.0.clone().acquire_owned().await;
        let of_all = of_all.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Turn { _made: Made::InTurn { _of_connection: of_connection, _of_all: of_all } })
    }
}

impl Turn {
    /// The permission for an answer that was made without a turn, by a call that must not wait for other calls.
    pub(crate) fn charged(account: &Account, answer: &impl Message) -> Turn {
        Turn { _made: Made::Charged { _charge: account.charge(decoded_bytes(answer)) } }
    }

    /// An answer that ends the turn once its first frame is encoded, and so counted.
    pub(crate) fn until_encoded<T>(self, answer: T) -> Response<T> {
        let mut response = Response::new(answer);
        // Extensions must be `Clone`.
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// The body of an answer. It counts its bytes until they are written.
pub(crate) struct Answer {
    body: Body,
    account: Account,
    turn: Option<Arc<Turn>>,
}

impl Answer {
    /// Wraps the body of a response.
    pub(crate) fn wrap(
        mut response: tonic::codegen::http::Response<Body>,
        account: Account,
    ) -> tonic::codegen::http::Response<Body> {
        let turn = response.extensions_mut().remove();
        response.map(|body| Body::new(Answer { body, account, turn }))
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let counted =
            frame.map(|frame| frame.map(|frame| frame.map_data(|data| counted(data, &self.account))));
        self.turn = None;
        Poll::Ready(counted)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The same bytes, counted until the last reference to them is dropped.
fn counted(data: Bytes, account: &Account) -> Bytes {
    struct Counted {
        data: Bytes,
        _charge: Charge,
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.data
        }
    }
    let charge = account.charge(data.len() + FRAME_BYTES);
    Bytes::from_owner(Counted { data, _charge: charge })
}

/// The estimated memory of a message: each of its texts is an allocation of its own.
pub(crate) fn decoded_bytes(message: &impl Message) -> usize {
    2 * message.encoded_len()
}

/// Sends the parts of an answer at the pace at which the client reads them.
pub(crate) struct PartSender<T> {
    parts: mpsc::Sender<(Charge, Result<T, Status>)>,
    account: Account,
    is_unread: Arc<AtomicBool>,
}

/// The parts of an answer.
pub(crate) struct Parts<T> {
    parts: mpsc::Receiver<(Charge, Result<T, Status>)>,
    is_unread: Arc<AtomicBool>,
}

/// A channel for an answer in parts.
pub(crate) fn parts<T>(account: Account) -> (PartSender<T>, Parts<T>) {
    let (sender, receiver) = mpsc::channel(1);
    let is_unread = Arc::new(AtomicBool::new(false));
    (
        PartSender { parts: sender, account, is_unread: is_unread.clone() },
        Parts { parts: receiver, is_unread },
    )
}

impl<T: Message> PartSender<T> {
    /// Sends a part; `None` if the client has gone, or does not read.
    pub(crate) async fn send(&self, part: Result<T, Status>) -> Option<()> {
        self.send_made(part, None).await
    }

    /// Sends a part made in a turn. The turn ends once the part is counted.
    pub(crate) async fn send_made(&self, part: Result<T, Status>, turn: Option<Turn>) -> Option<()> {
        let charge = self.account.charge(part.as_ref().map_or(0, decoded_bytes));
        drop(turn);
        if let Ok(sent) = tokio::time::timeout(UNREAD_MAX, self.parts.send((charge, part))).await {
            return sent.ok();
        }
        self.is_unread.store(true, Ordering::Relaxed);
        None
    }

    /// Waits until nobody wants parts any more.
    pub(crate) async fn closed(&self) {
        self.parts.closed().await;
    }
}

impl<T> Stream for Parts<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(match ready!(self.parts.poll_recv(context)) {
            Some((_charge, part)) => Some(part),
            // A client that reads on after all must not mistake these parts for the whole.
            None => self.is_unread.swap(false, Ordering::Relaxed).then(|| {
                Err(Status::data_loss(format!("the answer was not read for {UNREAD_MAX:?}; ask again")))
            }),
        })
    }
}

/// An answer whose messages are made in one go, beside the runtime's threads. Each is on the account until it is sent.
pub(crate) async fn all_at_once<T: Message + 'static>(
    account: Account,
    turn: Turn,
    make: impl FnOnce() -> Vec<T> + Send + 'static,
) -> Result<Response<Results<T>>, Status> {
    let messages = tokio::task::spawn_blocking(move || {
        // The turn lasts until all of it is on the account, also if the client leaves meanwhile.
        let _turn = turn;
        let charged = make().into_iter().map(|message| (account.charge(decoded_bytes(&message)), message));
        charged.collect::<Vec<_>>()
    });
    let messages = messages.await.map_err(|error| Status::internal(error.to_string()))?;
    let messages = messages.into_iter().map(|(_charge, message)| Ok(message));
    Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;
    use tonic::codegen::Body as _;

    use super::*;
    use weft_client::pb;

    #[tokio::test]
    async fn an_answer_is_on_the_account_until_its_bytes_are_dropped() {
        let account = Account::detached();
        let turn = Turns::default().next(&account).await.unwrap();
        let mut response = turn.until_encoded(()).map(|()| Body::empty());
        let turn = response.extensions_mut().remove();
        let body = Body::new(http_body_of(vec![7; 1000]));
        let mut answer = std::pin::pin!(Answer { body, account: account.clone(), turn });
        // Its turn lasts until something is encoded.
        let next = Turns::default();
        assert!(tokio::time::timeout(std::time::Duration::ZERO, next.next(&account)).await.is_err());
        let frame = std::future::poll_fn(|context| answer.as_mut().poll_frame(context)).await;
        let mut data = frame.unwrap().unwrap().into_data().unwrap();
        assert_eq!((&data[..], account.held()), (&[7; 1000][..], 1000 + FRAME_BYTES));
        next.next(&account).await.unwrap();
        let rest = data.split_off(10);
        drop(data);
        assert_eq!(account.held(), 1000 + FRAME_BYTES);
        drop(rest);
        assert_eq!(account.held(), 0);
    }

    fn http_body_of(bytes: Vec<u8>) -> impl http_body::Body<Data = Bytes, Error = Status> {
        struct Once(Option<Bytes>);
        impl http_body::Body for Once {
            type Data = Bytes;
            type Error = Status;
            fn poll_frame(
                mut self: Pin<&mut Self>,
                _context: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
                Poll::Ready(self.0.take().map(|data| Ok(Frame::data(data))))
            }
        }
        Once(Some(bytes.into()))
    }

    /// Time is virtual here: it passes when nothing can run.
    #[tokio::test(start_paused = true)]
    async fn a_part_that_nobody_reads_ends_the_answer_with_an_error() {
        let account = Account::detached();
        let (sender, mut parts) = parts(account.clone());
        let message = || pb::GetResponse { objects: vec!["x".repeat(100)], ..Default::default() };
        assert_eq!(sender.send(Ok(message())).await, Some(()));
        assert!(account.held() > 200);
        assert_eq!(sender.send(Ok(message())).await, None);
        drop(sender);
        assert_eq!(parts.next().await.unwrap().unwrap(), message());
        assert_eq!(account.held(), 0);
        assert_eq!(parts.next().await.unwrap().unwrap_err().code(), tonic::Code::DataLoss);
        assert!(parts.next().await.is_none());
    }
}

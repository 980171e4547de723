//! Questions to switches: what their flows and meters have counted, and what they have learned. Many are asked at a time, and none for
//! long, when somebody wants to know. Nothing is kept here.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use switch_model::ReadError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use weft_client::pb;
use weft_core::listings::{Counts, ToRead};

use crate::answers::PartSender;
use crate::drivers::{Asking, Running};

/// The number of switches that are asked at a time.
const AT_A_TIME: usize = 64;
/// The time for all of them. It is less than clients wait for an answer.
const ALL_WITHIN: Duration = Duration::from_secs(20);
/// The number of surveys at a time.
const SURVEYS_MAX: usize = 2;

/// Reads counters from the switch of a transport node.
pub(crate) fn read(to_read: ToRead, drivers: &Running, node: &str) -> Asking<Counts> {
    let ToRead { flows, meters, learned } = to_read;
    let flows = (!flows.is_empty()).then(|| drivers.flow_counts(node, flows));
    let meters = meters.then(|| drivers.meter_counts(node));
    let learned = learned.map(|(table, matching)| drivers.learned(node, table, &matching));
    Box::pin(async move {
        let mut counts = Counts::default();
        if let Some(flows) = flows {
            counts.flows = flows.await?;
        }
        if let Some(meters) = meters {
            counts.meters = meters.await?;
        }
        if let Some(learned) = learned {
            counts.learned = learned.await?;
        }
        Ok(counts)
    })
}

/// What is made of the answer of a switch.
type Take<A, T> = dyn Fn(&str, Result<A, ReadError>) -> T + Send + Sync;

/// Switches that are asked, when it is this survey's turn.
pub(crate) struct Survey<A, T> {
    readings: std::vec::IntoIter<(String, Asking<A>)>,
    asked: JoinSet<Result<T, JoinError>>,
    take: Arc<Take<A, T>>,
    deadline: Instant,
    _turn: Option<OwnedSemaphorePermit>,
}

impl<A: Send + 'static, T: Send + 'static> Survey<A, T> {
    /// Waits for its turn. `take` makes something of the answer of each switch.
    pub(crate) async fn begin(
        readings: Vec<(String, Asking<A>)>,
        surveys: Surveys,
        take: impl Fn(&str, Result<A, ReadError>) -> T + Send + Sync + 'static,
    ) -> Survey<A, T> {
        // Nobody closes the semaphore.
        let turn = surveys.0.acquire_owned().await.ok();
        Survey {
            readings: readings.into_iter(),
            asked: JoinSet::new(),
            take: Arc::new(take),
            deadline: Instant::now() + ALL_WITHIN,
            _turn: turn,
        }
    }

    /// What the next answer gives, in the order in which they come; `None` once all have come.
    pub(crate) async fn next(&mut self) -> Option<T> {
        let deadline = self.deadline;
        loop {
            for (node, reading) in self.readings.by_ref().take(AT_A_TIME - self.asked.len()) {
                let take = self.take.clone();
                self.asked.spawn(async move {
                    let read = tokio::time::timeout_at(deadline, reading).await;
                    let read = read.unwrap_or(Err(ReadError::Late));
                    // Many flows take a while.
                    tokio::task::spawn_blocking(move || take(&node, read)).await
                });
            }
            // Of one that panics, the process' hook has said so. The others go on.
            if let Ok(Ok(taken)) = self.asked.join_next().await? {
                return Some(taken);
            }
        }
    }
}

/// Asks switches, when it is this survey's turn, and sends what `message` makes of the answer of each as it comes.
pub(crate) async fn ask_all<A: Send + 'static, M: Message + 'static>(
    readings: Vec<(String, Asking<A>)>,
    surveys: Surveys,
    sender: PartSender<M>,
    message: impl Fn(&str, Result<A, ReadError>) -> M + Send + Sync + 'static,
) {
    let mut survey = tokio::select! {
        survey = Survey::begin(readings, surveys, message) => survey,
        () = sender.closed() => return,
    };
    while let Some(message) = survey.next().await {
        if sender.send(Ok(message)).await.is_none() {
            break;
        }
    }
}

/// A switch that a survey learns nothing from.
pub(crate) fn unread(node: &str, error: &ReadError) -> pb::UnreadSwitch {
    pb::UnreadSwitch { node: node.to_owned(), error: error.to_string() }
}

/// Lets surveys be made in turn.
#[derive(Clone)]
pub(crate) struct Surveys(Arc<Semaphore>);

impl Default for Surveys {
    fn default() -> Self {
        Surveys(Arc::new(Semaphore::new(SURVEYS_MAX)))
    }
}

//! Questions to switches: what their flows and meters have counted, and what they have learned. Many are asked at a time, and none for
//! long, when somebody wants to know. Nothing is kept.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use switch_model::ReadError;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
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

/// Asks switches, when it is this survey's turn, and sends what `message` makes of the answer of each as it comes.
pub(crate) async fn ask_all<A: Send + 'static, M: Message + 'static>(
    readings: Vec<(String, Asking<A>)>,
    surveys: Surveys,
    sender: PartSender<M>,
    message: impl Fn(&str, Result<A, ReadError>) -> M + Send + Sync + 'static,
) {
    let turn = tokio::select! {
        turn = surveys.0.acquire_owned() => turn,
        () = sender.closed() => return,
    };
    let (message, deadline) = (Arc::new(message), Instant::now() + ALL_WITHIN);
    let (mut readings, mut asked) = (readings.into_iter(), JoinSet::new());
    loop {
        for (node, reading) in readings.by_ref().take(AT_A_TIME - asked.len()) {
            let message = message.clone();
            asked.spawn(async move {
                let read = tokio::time::timeout_at(deadline, reading).await;
                let read = read.unwrap_or(Err(ReadError::Late));
                // Many flows take a while.
                tokio::task::spawn_blocking(move || message(&node, read)).await
            });
        }
        // Neither a task nor what it waits for panics or is aborted.
        let Some(Ok(Ok(message))) = asked.join_next().await else { break };
        if sender.send(Ok(message)).await.is_none() {
            break;
        }
    }
    drop(turn);
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

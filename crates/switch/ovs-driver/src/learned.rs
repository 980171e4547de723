//! Reads what a switch has learned, and what its meters and flows have counted, for those who look. Nothing that the driver does depends on the answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openflow_rs::message::FlowDescRequest;
use openflow_rs::{DecodeError, FlowEntry, Match};
use tokio::sync::Semaphore;

use crate::meter::MeterCount;
use crate::openflow::Reader;
use switch_model::FlowKey;

/// The time that a switch has to say what it has learned.
const LEARNED_WITHIN: Duration = Duration::from_secs(10);
/// The most learned flows that are read at once. They take about 100 bytes each.
pub(crate) const LEARNED_MAX: usize = 1_000_000;

/// The most flows whose counters are read at once.
const COUNTED_AT_ONCE: usize = 64;

/// A flow that the switch itself has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedFlow {
    key: FlowKey,
    cookie: u64,
}

impl LearnedFlow {
    /// A flow with this cookie.
    pub fn new(key: FlowKey, cookie: u64) -> Self {
        LearnedFlow { key, cookie }
    }

    /// Its cookie, which says what it was learned from.
    pub fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Its match.
    ///
    /// # Errors
    /// The switch sent a field that is not known here.
    pub fn matching(&self) -> Result<Match, DecodeError> {
        self.key.matching()
    }
}

/// What a flow has counted since the switch has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowCount {
    /// The flow.
    pub key: FlowKey,
    /// Packets that met it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A flow as a switch has it, whoever wrote it, and what it has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFlow {
    /// The flow.
    pub entry: FlowEntry,
    /// Packets that met it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why it is not known what a switch has learned or counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no connection that could be used.
    #[error("the switch is not connected")]
    NotConnected,
    /// The connection ended before the answer.
    #[error("the connection to the switch was lost while it was read")]
    Lost,
    /// The switch is busy, or does not answer.
    #[error("the switch did not answer within {} s; ask again", LEARNED_WITHIN.as_secs())]
    Late,
    /// The switch answered with an error.
    #[error("the switch refuses to be read: {0}")]
    Refused(String),
    /// There are too many.
    #[error("the switch has more than {max} learned flows, the most that are read")]
    TooMany {
        /// The limit.
        max: usize,
    },
}

/// The request for the flows of a table that the match covers.
pub(crate) fn request(table: u8, matches: Match) -> FlowDescRequest {
    FlowDescRequest { table, matches, ..FlowDescRequest::all() }
}

/// The way to the connection of a driver, which starts anew when the driver fails.
#[derive(Debug, Clone)]
pub(crate) struct Readers {
    current: Arc<Mutex<Option<Reader>>>,
    /// One reads at a time, so that the driver's own requests wait for one reader at most.
    turn: Arc<Semaphore>,
}

impl Default for Readers {
    fn default() -> Self {
        Readers { current: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Readers {
    /// From now on, `reader` leads to the connection.
    pub(crate) fn set(&self, reader: Reader) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
    }

    /// Reads learned flows, within the deadline.
    pub(crate) async fn read(self, table: u8, matches: Match) -> Result<Vec<LearnedFlow>, ReadError> {
        self.in_turn(|reader| async move { reader.learned(request(table, matches)).await }).await
    }

    /// Reads what the meters have counted, within the deadline.
    pub(crate) async fn meter_counts(self) -> Result<Vec<MeterCount>, ReadError> {
        self.in_turn(|reader| async move { reader.meter_counts().await }).await
    }

    /// Reads what flows have counted, within the deadline.
    pub(crate) async fn flow_counts(self, keys: Vec<FlowKey>) -> Result<Vec<FlowCount>, ReadError> {
        self.in_turn(|reader| async move {
            let mut counts = Vec::with_capacity(keys.len());
            // Changes of the switch go in between.
            for some in keys.chunks(COUNTED_AT_ONCE) {
                counts.extend(reader.flow_counts(some.to_vec()).await?);
            }
            Ok(counts)
        })
        .await
    }

    /// Reads the flows of these tables, within the deadline.
    pub(crate) async fn table_flows(self, tables: Vec<u8>) -> Result<Vec<SeenFlow>, ReadError> {
        self.in_turn(|reader| async move {
            let mut flows = Vec::new();
            // Changes of the switch go in between.
            for table in tables {
                flows.extend(reader.table_flows(table).await?);
            }
            Ok(flows)
        })
        .await
    }

    async fn in_turn<T, F>(&self, read: impl FnOnce(Reader) -> F) -> Result<T, ReadError>
    where
        F: Future<Output = Result<T, ReadError>>,
    {
        let reading = async {
            let reader = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let reader = reader.ok_or(ReadError::NotConnected)?;
            // At once, so that nobody waits for those who wait for a switch that has gone meanwhile.
            reader.connection()?;
            let _turn = self.turn.acquire().await.map_err(|_| ReadError::Lost)?;
            read(reader).await
        };
        tokio::time::timeout(LEARNED_WITHIN, reading).await.unwrap_or(Err(ReadError::Late))
    }
}

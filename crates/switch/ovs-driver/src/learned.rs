//! Reads what a switch has learned, and what its meters and flows have counted, for those who look, and sends packets for them. Nothing
//! that the driver does depends on the answer.

use std::sync::{Arc, Mutex, PoisonError};

use openflow_rs::Match;
use tokio::sync::Semaphore;

use crate::openflow::Reader;
use switch_model::{FlowCount, FlowKey, LearnedFlow, MeterCount, Packet, READ_WITHIN, ReadError, SeenFlow};

/// The most flows whose counters are read at once.
const COUNTED_AT_ONCE: usize = 64;

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
        self.in_turn(|reader| async move { reader.learned(table, matches).await }).await
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
                flows.extend(reader.table_flows(table, Match::any()).await?);
            }
            Ok(flows)
        })
        .await
    }

    /// Reads the flows of a table that the match covers, within the deadline.
    pub(crate) async fn covered_flows(self, table: u8, matches: Match) -> Result<Vec<SeenFlow>, ReadError> {
        self.in_turn(|reader| async move { reader.table_flows(table, matches).await }).await
    }

    /// Sends packets once, within the deadline.
    pub(crate) async fn send(self, packets: Vec<Packet>) -> Result<(), ReadError> {
        self.in_turn(|reader| async move { reader.send(packets).await }).await
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
        tokio::time::timeout(READ_WITHIN, reading).await.unwrap_or(Err(ReadError::Late))
    }
}

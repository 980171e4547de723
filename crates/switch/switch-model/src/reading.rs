//! The answers of a switch to those who look: what it has learned, and what its flows and meters have counted.

use std::time::Duration;

use openflow_rs::{DecodeError, FlowEntry, Match, MeterStats};

use crate::flow::FlowKey;

/// The time that a switch has to answer.
pub const READ_WITHIN: Duration = Duration::from_secs(10);

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
    #[error("the switch did not answer within {} s; ask again", READ_WITHIN.as_secs())]
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

/// What a meter has counted since it was added or last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterCount {
    /// The number of the meter.
    pub meter: u32,
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes, without the checksum of frames.
    pub bytes: u64,
    /// Those of them that it dropped.
    pub dropped: u64,
}

impl From<&MeterStats> for MeterCount {
    fn from(stats: &MeterStats) -> MeterCount {
        let dropped = stats.bands.iter().map(|(packets, _)| packets).sum();
        MeterCount { meter: stats.id, packets: stats.packets, bytes: stats.bytes, dropped }
    }
}

//! What a run of Figure 6 measures, and the checksum of its output.
//!
//! `benches/dbsp` compiles this file too, so it uses nothing of this program.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The measurements of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From the first row in hand to the last delta in hand, in seconds.
    pub(crate) load_s: f64,
    /// Processor time of all threads for it, in seconds.
    pub(crate) load_cpu_s: f64,
    /// The peak memory of the process until the end of the load, including rows and deltas, in mebibytes.
    pub(crate) peak_mib: f64,
    /// Its memory after the load's rows and deltas were dropped, in mebibytes.
    pub(crate) rest_mib: f64,
    /// Transactions that move ports, in milliseconds.
    pub(crate) moved: Latency,
    /// What the engine does after each transaction that moves ports, while no transaction waits.
    pub(crate) idle: Latency,
    /// Transactions that add ports.
    pub(crate) added: Latency,
    /// Those that take them back.
    pub(crate) removed: Latency,
    /// The output, which must be the same for both sides.
    pub(crate) output: Output,
}

/// Durations of many transactions, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Half took less.
    pub(crate) median_ms: f64,
    /// 99 in 100 took less.
    pub(crate) p99_ms: f64,
}

/// The output of all transactions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Output {
    /// Flows after the load.
    pub(crate) loaded: i64,
    /// Flows in the end.
    pub(crate) flows: i64,
    /// OVSDB tunnels in the end.
    pub(crate) tunnels: i64,
    /// Rows inserted or deleted.
    pub(crate) changes: u64,
    /// The sum of the hashes of all rows inserted, less that of rows deleted.
    pub(crate) checksum: u64,
}

impl Output {
    /// A flow that came or went.
    pub(crate) fn flow(&mut self, host: u32, stage: u32, port: u32, came: bool) {
        self.flows += if came { 1 } else { -1 };
        self.count(hash([1, host, stage, port]), came);
    }

    /// A tunnel that came or went.
    pub(crate) fn tunnel(&mut self, from: u32, to: u32, came: bool) {
        self.tunnels += if came { 1 } else { -1 };
        self.count(hash([2, from, to, 0]), came);
    }

    /// Adds the output of a transaction.
    pub(crate) fn add(&mut self, of: &Output) {
        self.flows += of.flows;
        self.tunnels += of.tunnels;
        self.changes += of.changes;
        self.checksum = self.checksum.wrapping_add(of.checksum);
    }

    fn count(&mut self, hash: u64, came: bool) {
        self.changes += 1;
        self.checksum =
            if came { self.checksum.wrapping_add(hash) } else { self.checksum.wrapping_sub(hash) };
    }
}

/// Mixes words into one; the sum over a set of rows serves as its checksum.
fn hash(words: [u32; 4]) -> u64 {
    words.into_iter().fold(0, |hash: u64, word| {
        let mixed = (hash ^ u64::from(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    })
}

impl Latency {
    /// Of these durations.
    pub(crate) fn new(mut durations: Vec<Duration>) -> Latency {
        durations.sort();
        let at = |part: f64| {
            let index = ((durations.len().saturating_sub(1)) as f64 * part).round() as usize;
            durations.get(index).map_or(0.0, |duration| duration.as_secs_f64() * 1e3)
        };
        Latency { median_ms: at(0.5), p99_ms: at(0.99) }
    }
}

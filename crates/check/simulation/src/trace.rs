//! The log of a simulation. Its checksum tells whether two runs are the same.

use std::collections::VecDeque;

use crate::process::simulated;

/// The last lines that are kept.
const KEPT: usize = 80;
/// FNV-1a, 64 bits: the offset basis and the prime (RFC 9923, section 5).
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The log so far.
#[derive(Debug)]
pub(crate) struct Trace {
    checksum: u64,
    last: VecDeque<String>,
}

impl Default for Trace {
    fn default() -> Self {
        Trace { checksum: BASIS, last: VecDeque::new() }
    }
}

impl Trace {
    /// Something happens now.
    pub(crate) fn note(&mut self, what: &str) {
        let line = format!("{:>11.6} s  {what}", simulated().as_secs_f64());
        for byte in line.bytes() {
            self.checksum = (self.checksum ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// The same for the same trace.
    pub(crate) fn checksum(&self) -> u64 {
        self.checksum
    }

    /// The last of what happened.
    pub(crate) fn last(&self) -> String {
        self.last.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

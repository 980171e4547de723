//! The transaction that changed what becomes of a packet.

use std::time::{Duration, Instant};

use packet_trace::{Network, Origins, hook_engine, input_rows, text};
use weft_core::rules::Rules;

use super::load;
use crate::exit::{Failure, print, say};
use crate::explain::recorded_rows;
use crate::recorded::{Head, Moment, Recorded};
use crate::trace::TracedPacket;

/// What becomes of the packet.
#[derive(PartialEq, Eq)]
struct Verdict {
    arrives: bool,
    text: String,
}

/// How many times as far from the end the next state lies. A state takes seconds in a large network, and steps of two would need half as
/// many again.
const FARTHER: u64 = 8;

/// After so long, a bisect reports each state that it has traced.
const SILENT: Duration = Duration::from_secs(3);

/// The past of a packet.
struct Past {
    recorded: Recorded,
    rules: Rules,
    packet: TracedPacket,
    begun: Instant,
}

impl Past {
    /// What became of the packet after a transaction. Before its port was there, it could not be sent.
    fn after(&self, txn: u64) -> Result<Verdict, Failure> {
        match self.trace(txn) {
            Ok(verdict) => Ok(verdict),
            Err(Failure::Usage(why)) => {
                Ok(Verdict { arrives: false, text: format!("it could not be sent: {why}") })
            }
            Err(failure) => Err(failure),
        }
    }

    /// The rows of the inputs after a transaction.
    fn rows(&self, txn: u64) -> Result<Origins, Failure> {
        let program = self.rules.program();
        // Other rules may have declared rows otherwise.
        if self.recorded.has_one_program()?
            && let Some(rows) = recorded_rows(program, self.recorded.file(), Some(txn))?
        {
            return Ok(rows);
        }
        let mut engine = hook_engine(program).map_err(Failure::Outside)?;
        load(&self.recorded, (&self.rules, program), txn, &mut *engine)?;
        input_rows(program, &mut *engine).map_err(|error| Failure::Outside(error.to_string()))
    }

    fn trace(&self, txn: u64) -> Result<Verdict, Failure> {
        let program = self.rules.program();
        let rows = self.rows(txn)?;
        let mut network = Network::new(program, rows).map_err(Failure::Rejected)?;
        let trace = self.packet.trace(&mut network)?;
        Ok(Verdict { arrives: trace.is_delivered(), text: text::verdict(&trace) })
    }

    /// The first transaction up to the last one since which the packet arrives, or does not, as it does at the end. If it came and
    /// went several times, it is one of these changes: the states are looked at that lie ever eight times as far from the end, and then
    /// the halves between the two where it differs. `None` if it is the same in all of them.
    fn change(&self, first: u64, last: u64, arrives: bool) -> Result<Option<u64>, Failure> {
        let differs = |txn| {
            let found = self.after(txn)?;
            if self.begun.elapsed() > SILENT {
                say(format_args!("after transaction {txn}: {}", found.text));
            }
            Ok::<_, Failure>(found.arrives != arrives)
        };
        let (mut same, mut distance) = (last, 1);
        let mut other = loop {
            if same == first {
                return Ok(None);
            }
            let earlier = last.saturating_sub(distance).max(first);
            if differs(earlier)? {
                break earlier;
            }
            (same, distance) = (earlier, distance * FARTHER);
        };
        while same - other > 1 {
            let middle = other + (same - other) / 2;
            if differs(middle)? {
                other = middle;
            } else {
                same = middle;
            }
        }
        Ok(Some(same))
    }
}

/// Prints which transaction up to one made the packet arrive, or not arrive any more. Looks for it in a file, and then in those before it.
pub(super) fn run(recorded: Recorded, words: &str, at: &Head) -> Result<(), Failure> {
    let packet = TracedPacket::parse(words)?;
    let rules = recorded.rules(at)?;
    let mut past = Past { recorded, rules, packet, begun: Instant::now() };
    let end = past.trace(at.txn)?;
    let now = format!("after transaction {}: {}\n", at.txn, end.text);
    let mut last = at.txn;
    let txn = loop {
        let first = past.recorded.first().clone();
        if let Some(txn) = past.change(first.txn, last, end.arrives)? {
            break txn;
        }
        let Some(earlier) = past.recorded.earlier()? else {
            return print(&format!(
                "{now}It was so after transaction {} of {} already, with which the records begin, and in the states between that were looked at.\n",
                first.txn, first.at
            ));
        };
        last = first.txn;
        past.rules = earlier.rules(&first)?;
        past.recorded = earlier;
    };
    let before = past.after(txn - 1)?;
    let Head { by, at, .. } = past.recorded.last_until(Some(Moment::Txn(txn)))?;
    print(&format!(
        "{now}after transaction {}: {}\n\
         Transaction {txn}, of {at} by {by}, changed that.\n\
         `weft replay {file} --from {} --at {txn}` prints what else it changed.\n",
        txn - 1,
        before.text,
        txn - 1,
        file = past.recorded.file().display(),
    ))
}

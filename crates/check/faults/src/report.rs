//! What a run came to, as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::book::Requests;
use crate::kind::Kind;
use crate::round::Round;

/// What a run came to so far.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How long it took.
    pub time: Duration,
    /// What the clients asked.
    pub requests: Requests,
    kinds: BTreeMap<Kind, OfKind>,
    compared: usize,
    probes: u64,
    lost: u64,
}

/// What the faults of a kind came to.
#[derive(Debug, Clone, Default)]
struct OfKind {
    times: usize,
    in_effect: usize,
    in_sync: Vec<Duration>,
    lost: u64,
    lost_most: u64,
    longest_gap: Duration,
}

impl Report {
    /// A report of no fault.
    pub fn new(seed: u64) -> Report {
        let kinds = Kind::ALL.into_iter().map(|kind| (kind, OfKind::default())).collect();
        Report { seed, kinds, ..Report::default() }
    }

    /// Counts the faults of a round. The time of two faults at once counts for each of them; losses do for those that may cost packets.
    pub fn add(&mut self, round: &Round) {
        self.compared += round.compared;
        self.probes += round.probes;
        self.lost += round.lost;
        let stops_packets = round.faults.iter().any(|fault| fault.kind.stops_packets());
        for fault in &round.faults {
            let of_kind = self.kinds.entry(fault.kind).or_default();
            of_kind.times += 1;
            of_kind.in_effect += usize::from(fault.had_effect);
            of_kind.in_sync.push(round.in_sync);
            if stops_packets && !fault.kind.stops_packets() {
                continue;
            }
            of_kind.lost += round.lost;
            of_kind.lost_most = of_kind.lost_most.max(round.lost);
            of_kind.longest_gap = of_kind.longest_gap.max(round.longest_gap);
        }
    }

    /// The number of faults.
    pub fn faults(&self) -> usize {
        self.kinds.values().map(|of_kind| of_kind.times).sum()
    }

    /// The kinds that had no effect so far.
    pub fn never(&self) -> Vec<Kind> {
        self.kinds.iter().filter(|(_, of_kind)| of_kind.in_effect == 0).map(|(kind, _)| *kind).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requests { answered, unanswered, refused, repeated } = self.requests;
        writeln!(
            f,
            "seed {}: {} faults in {:.0} s; {answered} requests answered, {unanswered} attempts without an answer, {refused} refused by a \
             failing disk, {repeated} repeated; {} objects, flows and groups compared; {} of {} pings lost",
            self.seed,
            self.faults(),
            self.time.as_secs_f64(),
            self.compared,
            self.lost,
            self.probes
        )?;
        writeln!(
            f,
            "  {:<20}{:>6}{:>10}{:>16}{:>12}{:>12}{:>12}{:>10}",
            "kind", "times", "in effect", "sync median s", "greatest s", "pings lost", "most", "gap s"
        )?;
        for (kind, of_kind) in &self.kinds {
            let mut times = of_kind.in_sync.clone();
            times.sort_unstable();
            let seconds = |time: Option<&Duration>| {
                time.map_or("-".to_owned(), |time| format!("{:.2}", time.as_secs_f64()))
            };
            writeln!(
                f,
                "  {:<20}{:>6}{:>10}{:>16}{:>12}{:>12}{:>12}{:>10}",
                kind.name(),
                of_kind.times,
                of_kind.in_effect,
                seconds(times.get(times.len() / 2)),
                seconds(times.last()),
                of_kind.lost,
                of_kind.lost_most,
                seconds(Some(&of_kind.longest_gap))
            )?;
        }
        Ok(())
    }
}

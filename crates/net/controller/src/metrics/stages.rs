//! How long each stage of a transaction takes. Whoever computes says when a stage begins; the clock is here.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nlog_data::Stage;

/// The time of each stage of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) validate: Duration,
    pub(crate) derive: Duration,
    pub(crate) number: Duration,
    pub(crate) follow: Duration,
}

impl Spent {
    /// The time of all stages.
    pub(crate) fn total(&self) -> Duration {
        let Spent { validate, derive, number, follow } = *self;
        validate + derive + number + follow
    }

    fn of(&mut self, stage: Stage) -> &mut Duration {
        match stage {
            Stage::Validate => &mut self.validate,
            Stage::Derive => &mut self.derive,
            Stage::Number => &mut self.number,
            Stage::Follow => &mut self.follow,
        }
    }
}

/// Measures the stages of one request after another.
#[derive(Debug, Default)]
pub(crate) struct StageClock(Mutex<Running>);

#[derive(Debug, Default)]
struct Running {
    /// The present stage, and when it began.
    now: Option<(Stage, Instant)>,
    spent: Spent,
}

impl Running {
    fn enter(&mut self, stage: Option<Stage>, now: Instant) {
        if let Some((before, since)) = self.now.take() {
            *self.spent.of(before) += now.saturating_duration_since(since);
        }
        self.now = stage.map(|stage| (stage, now));
    }
}

impl StageClock {
    /// A request begins.
    pub(crate) fn begin(&self, now: Instant) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Running { now: Some((Stage::Validate, now)), spent: Spent::default() };
    }

    /// A stage of it begins. Does nothing between requests.
    pub(crate) fn enter(&self, stage: Stage) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.now.is_some() {
            running.enter(Some(stage), Instant::now());
        }
    }

    /// It ends.
    pub(crate) fn end(&self, now: Instant) -> Spent {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.enter(None, now);
        running.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_belongs_to_one_stage() {
        let clock = StageClock::default();
        clock.enter(Stage::Derive);
        assert_eq!(clock.end(Instant::now()), Spent::default(), "no request runs");
        let begun = Instant::now();
        clock.begin(begun);
        for stage in [Stage::Derive, Stage::Number, Stage::Derive, Stage::Follow] {
            clock.enter(stage);
        }
        let ended = Instant::now() + Duration::from_secs(1);
        let Spent { validate, derive, number, follow } = clock.end(ended);
        assert_eq!(validate + derive + number + follow, ended - begun);
        assert!(follow >= Duration::from_secs(1), "{follow:?}");
    }
}

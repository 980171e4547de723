//! The fates of mistakes, and their totals.

use std::fmt;

/// The fate of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It does not compile.
    Rejected,
    /// It compiles to the same plan, so no test can notice.
    SamePlan,
    /// It changes the program.
    Made {
        /// Whether a unit test fails.
        unit_tests: bool,
        /// Whether a random history differs from the model.
        histories: bool,
    },
}

impl Fate {
    /// Whether no test notices a mistake that changes the program.
    pub(crate) fn survives(self) -> bool {
        self == Fate::Made { unit_tests: false, histories: false }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fate::Rejected => "does not compile",
            Fate::SamePlan => "compiles to the same plan",
            Fate::Made { unit_tests: true, histories: true } => "noticed by unit tests and histories",
            Fate::Made { unit_tests: true, histories: false } => "noticed by unit tests alone",
            Fate::Made { unit_tests: false, histories: true } => "noticed by histories alone",
            Fate::Made { unit_tests: false, histories: false } => "survives",
        })
    }
}

/// The number of mistakes of each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    rejected: usize,
    same_plan: usize,
    both: usize,
    unit_tests_alone: usize,
    histories_alone: usize,
    survivors: usize,
}

impl Tally {
    /// Counts one more mistake.
    pub(crate) fn add(&mut self, fate: Fate) {
        *match fate {
            Fate::Rejected => &mut self.rejected,
            Fate::SamePlan => &mut self.same_plan,
            Fate::Made { unit_tests: true, histories: true } => &mut self.both,
            Fate::Made { unit_tests: true, histories: false } => &mut self.unit_tests_alone,
            Fate::Made { unit_tests: false, histories: true } => &mut self.histories_alone,
            Fate::Made { unit_tests: false, histories: false } => &mut self.survivors,
        } += 1;
    }

    /// The mistakes that no test notices.
    pub(crate) fn survivors(&self) -> usize {
        self.survivors
    }

    /// All mistakes, those that do not compile included.
    pub(crate) fn mistakes(&self) -> usize {
        self.rejected + self.same_plan + self.made()
    }

    /// The mistakes that change the program.
    fn made(&self) -> usize {
        self.both + self.unit_tests_alone + self.histories_alone + self.survivors
    }
}

impl Tally {
    /// The totals. By behaviour alone, there are no unit tests.
    pub(crate) fn text(&self, behaviour: bool) -> String {
        let Tally { rejected, same_plan, both, unit_tests_alone, histories_alone, survivors } = *self;
        let made = self.made();
        let line = |count: usize| format!("{count:6}  {:5.1}%", 100.0 * count as f64 / made.max(1) as f64);
        let mut lines = vec![format!("{made} mistakes change the program. Of these")];
        if behaviour {
            lines.push(format!("{}  are noticed by histories", line(both + histories_alone)));
        } else {
            let (tests, histories) = (line(both + unit_tests_alone), line(both + histories_alone));
            lines.push(format!("{tests}  are noticed by unit tests ({unit_tests_alone} by them alone)"));
            lines.push(format!("{histories}  are noticed by histories ({histories_alone} by them alone)"));
        }
        lines.push(format!("{}  survive", line(survivors)));
        lines.push(format!(
            "Beside these, {rejected} do not compile and {same_plan} compile to the same plan."
        ));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_tell_unit_tests_and_histories_apart() {
        let mut tally = Tally::default();
        let made = |unit_tests, histories| Fate::Made { unit_tests, histories };
        for fate in
            [made(true, true), made(true, true), made(true, false), made(false, true), made(false, false)]
        {
            tally.add(fate);
        }
        tally.add(Fate::Rejected);
        tally.add(Fate::SamePlan);
        assert_eq!((tally.mistakes(), tally.survivors()), (7, 1));
        assert_eq!(
            tally.text(false),
            "5 mistakes change the program. Of these\n     3   60.0%  are noticed by unit tests (1 by them alone)\n     \
             3   60.0%  are noticed by histories (1 by them alone)\n     1   20.0%  survive\n\
             Beside these, 1 do not compile and 1 compile to the same plan."
        );
        assert!(!tally.text(true).contains("unit tests"));
    }
}

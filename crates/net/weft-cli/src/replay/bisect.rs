//! The transaction that made rows appear or vanish.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::program::Pattern;
use nlog_data::quotation::grouped;
use nlog_data::{ColumnDelta, Columns, Evaluator as _, Row};
use nlog_explain::explanation;

use super::engine_at;
use crate::eval::{Run, Running};
use crate::exit::{Failure, print};
use crate::explain::with_atom;
use crate::recorded::{Head, Recorded};

/// Rows that match a pattern, and when they came and went.
struct Watched {
    pattern: Pattern,
    count: i64,
    /// The last transactions after which there were some, and after which there were none, though it was otherwise before.
    appeared: Option<u64>,
    vanished: Option<u64>,
}

impl Watched {
    fn count_of(&self, rows: Option<&Columns>) -> i64 {
        let matches = |row: &Row| {
            self.pattern
                .columns
                .iter()
                .zip(row)
                .all(|(wanted, value)| wanted.as_ref().is_none_or(|wanted| wanted == value))
        };
        rows.map_or(0, |rows| rows.to_rows().iter().filter(|row| matches(row)).count() as i64)
    }

    fn follow(&mut self, txn: u64, delta: &ColumnDelta) {
        let Some(changed) = delta.tables.get(&self.pattern.table) else { return };
        let before = self.count;
        self.count += self.count_of(Some(&changed.insert)) - self.count_of(Some(&changed.delete));
        match (before > 0, self.count > 0) {
            (false, true) => self.appeared = Some(txn),
            (true, false) => self.vanished = Some(txn),
            _ => {}
        }
    }
}

/// Prints which transaction up to one made rows appear or vanish last.
pub(super) fn run(recorded: &Recorded, atom: &str, at: &Head, workers: usize) -> Result<(), Failure> {
    let (program, pattern) = with_atom(&recorded.sources(at)?, atom)?;
    let first = recorded.first().clone();
    recorded.warn_of_other_rules(&first, at)?;
    let mut engine = engine_at(recorded, &program, &BTreeSet::from([pattern.table]), first.txn, workers)?;
    let mut watched = Watched { pattern, count: 0, appeared: None, vanished: None };
    let rows = engine
        .contents_columns(watched.pattern.table)
        .map_err(|error| Failure::Outside(error.to_string()))?;
    watched.count = watched.count_of(Some(&rows));
    let at_first = watched.count > 0;
    let mut run = Run::of_journal(recorded.file(), Arc::clone(&program), first.txn, at.txn);
    let nowhere: Option<&mut Vec<u8>> = None;
    run.journal(recorded.file(), &mut Running::Fixed(Box::new(engine)), nowhere, &mut |txn, delta| {
        watched.follow(txn, delta);
    })?;
    run.finish()?;
    let asked = explanation::pattern(&program, &watched.pattern);
    print(&answer(recorded, &watched, at_first, &first, at, &asked)?)
}

fn answer(
    recorded: &Recorded,
    watched: &Watched,
    at_first: bool,
    first: &Head,
    at: &Head,
    asked: &str,
) -> Result<String, Failure> {
    let now = match watched.count {
        0 => format!("{asked}: no row after transaction {}", at.txn),
        1 => format!("{asked}: 1 row after transaction {}", at.txn),
        count => format!("{asked}: {} rows after transaction {}", grouped(count as usize), at.txn),
    };
    let made = if watched.count > 0 { watched.appeared } else { watched.vanished };
    let verb = if watched.count > 0 { "appeared" } else { "vanished" };
    let Some(txn) = made else {
        let since = if at_first { "was there" } else { "was not there" };
        return Ok(format!(
            "{now}\nIt {since} after transaction {} of {} already, with which the records begin.\n",
            first.txn, first.at
        ));
    };
    let Head { by, at, .. } = recorded.last_until(Some(crate::recorded::Moment::Txn(txn)))?;
    Ok(format!(
        "{now}\nIt {verb} with transaction {txn}, of {at} by {by}.\n\
         `weft replay {file} --from {} --at {txn}` prints what that changed.\n",
        txn - 1,
        file = recorded.file().display(),
    ))
}

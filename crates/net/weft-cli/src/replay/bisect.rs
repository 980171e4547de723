//! The transaction that made rows appear or vanish.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::Program;
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
    program: Arc<Program>,
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

/// Prints which transaction up to one made rows appear or vanish last. Looks for it in a file, and then in those before it.
pub(super) fn run(recorded: Recorded, atom: &str, at: &Head, workers: usize) -> Result<(), Failure> {
    let (mut recorded, mut end) = (recorded, at.clone());
    let mut now = None;
    loop {
        let (watched, at_first) = watch(&recorded, atom, &end, workers)?;
        let (count, asked) = now.get_or_insert_with(|| {
            let pattern = explanation::pattern(&watched.program, &watched.pattern);
            (watched.count, pattern)
        });
        let is_there = *count > 0;
        let text = |rest: &str| format!("{}\n{rest}", state(asked, *count, at));
        // What the folds stand for is what their records say, so each file begins as the one before it ends.
        if let Some(txn) = if is_there { watched.appeared } else { watched.vanished } {
            return print(&text(&change(&recorded, txn, is_there)?));
        }
        let first = recorded.first().clone();
        let Some(earlier) = recorded.earlier()? else {
            let since = if at_first { "was there" } else { "was not there" };
            return print(&text(&format!(
                "It {since} after transaction {} of {} already, with which the records begin.\n",
                first.txn, first.at
            )));
        };
        (recorded, end) = (earlier, first);
    }
}

/// Follows rows from the beginning of a file to a transaction. Also returns whether there were some at first.
fn watch(recorded: &Recorded, atom: &str, at: &Head, workers: usize) -> Result<(Watched, bool), Failure> {
    let (program, pattern) = with_atom(&recorded.sources(at)?, atom)?;
    let first = recorded.first();
    recorded.check_other_rules(first, at)?;
    let (rules, tables) = (recorded.rules(at)?, BTreeSet::from([pattern.table]));
    let program = Arc::new(program.only(tables.clone()));
    let mut engine = engine_at(recorded, (&rules, &program), &tables, first.txn, workers)?;
    let mut watched =
        Watched { program: Arc::clone(&program), pattern, count: 0, appeared: None, vanished: None };
    let rows = engine
        .contents_columns(watched.pattern.table)
        .map_err(|error| Failure::Outside(error.to_string()))?;
    watched.count = watched.count_of(Some(&rows));
    let at_first = watched.count > 0;
    let mut run = Run::of_journal(recorded.file(), program, first.txn, at.txn);
    let nowhere: Option<&mut Vec<u8>> = None;
    run.journal(recorded.file(), &mut Running::Fixed(Box::new(engine)), nowhere, &mut |txn, delta| {
        watched.follow(txn, delta);
    })?;
    run.finish()?;
    Ok((watched, at_first))
}

/// How many rows there are.
fn state(asked: &str, count: i64, at: &Head) -> String {
    match count {
        0 => format!("{asked}: no row after transaction {}", at.txn),
        1 => format!("{asked}: 1 row after transaction {}", at.txn),
        count => format!("{asked}: {} rows after transaction {}", grouped(count as usize), at.txn),
    }
}

/// Who made the transaction that changed it.
fn change(recorded: &Recorded, txn: u64, is_there: bool) -> Result<String, Failure> {
    let verb = if is_there { "appeared" } else { "vanished" };
    let Head { by, at, .. } = recorded.last_until(Some(crate::recorded::Moment::Txn(txn)))?;
    Ok(format!(
        "It {verb} with transaction {txn}, of {at} by {by}.\n\
         `weft replay {file} --from {} --at {txn}` prints what that changed.\n",
        txn - 1,
        file = recorded.file().display(),
    ))
}

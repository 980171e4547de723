//! Figures of tables: true ones, and nonsense.

use std::collections::HashSet;

use nlog::Program;
use nlog_data::{Evaluator, Row, Tables};
use nlog_plan::{Statistics, TableStatistics};

use super::Random;

/// The figures of what is there now. Tables that the evaluator was not asked for are left out.
pub(crate) fn of_state(evaluator: &mut dyn Evaluator, program: &Program) -> Statistics {
    let mut statistics = Statistics::default();
    for (id, table) in program.schema.iter().filter(|(id, _)| Tables::All.include(&program.schema, *id)) {
        let Ok(rows) = evaluator.contents(id) else { continue };
        let distinct =
            |column: usize| rows.iter().map(|row: &Row| &row[column]).collect::<HashSet<_>>().len();
        let figures = TableStatistics {
            rows: rows.len() as u64,
            distinct: (0..table.columns.len()).map(|column| distinct(column) as u64).collect(),
        };
        statistics.tables.insert(table.name.clone(), figures);
    }
    statistics
}

/// Figures that have nothing to do with any state, and need not even fit together.
pub(crate) fn nonsense(random: &mut Random, program: &Program) -> Statistics {
    const FIGURES: [u64; 7] = [0, 1, 2, 100, 10_000, 1_000_000_000, u64::MAX];
    let mut statistics = Statistics::default();
    for (_, table) in program.schema.iter() {
        if random.chance(20) {
            continue;
        }
        let rows = *random.pick(&FIGURES);
        let known = random.below(table.columns.len() as u64 + 2);
        let distinct = (0..known).map(|_| *random.pick(&FIGURES)).collect();
        statistics.tables.insert(table.name.clone(), TableStatistics { rows, distinct });
    }
    statistics
}

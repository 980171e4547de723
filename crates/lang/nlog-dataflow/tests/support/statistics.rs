//! Statistics of tables, true and false.

use nlog::Program;
use nlog_data::{Evaluator, Role, Tables};
use nlog_plan::{Counter, Sample, Statistics, TableStatistics};

use super::Random;

/// The statistics of the present state, without tables that the evaluator does not observe.
pub(crate) fn of_state(evaluator: &mut dyn Evaluator, program: &Program) -> Statistics {
    let mut statistics = Statistics::default();
    let counter = Counter::new(program);
    for (id, table) in program.schema.iter().filter(|(id, _)| Tables::All.include(&program.schema, *id)) {
        let Ok(rows) = evaluator.contents_columns(id) else { continue };
        statistics.tables.insert(table.name.clone(), counter.count(id, &rows));
    }
    statistics
}

/// Statistics unrelated to any state, which may even contradict each other.
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
        let samples = (0..known).map(|_| {
            let limit = *random.pick(&[0, 1 << 31, u32::MAX]);
            let values = (0..random.below(4)).map(|_| (random.below(1 << 32) as u32, *random.pick(&FIGURES)));
            Sample { limit, values: values.collect() }
        });
        let samples = samples.collect();
        let known = TableStatistics { rows, distinct, samples, ..TableStatistics::default() };
        statistics.tables.insert(table.name.clone(), known);
    }
    statistics
}

/// Statistics with many rows in every input table.
pub(crate) fn crowded(program: &Program) -> Statistics {
    let known = |width: usize| TableStatistics {
        rows: 1_000_000,
        distinct: vec![100_000; width],
        ..TableStatistics::default()
    };
    let inputs = program.schema.iter().filter(|(_, table)| table.role == Role::Input);
    Statistics { tables: inputs.map(|(_, table)| (table.name.clone(), known(table.columns.len()))).collect() }
}

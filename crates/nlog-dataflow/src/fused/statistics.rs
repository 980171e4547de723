//! What the first large transaction says about tables, so that the plan is made for the rows that come.

use std::collections::BTreeMap;

use nlog_data::{Schema, TableId};
use nlog_plan::{Statistics, TableStatistics};

use super::delta::Delta;
use crate::row::mix;
use crate::symbol::Symbol;

/// From so many rows on a first transaction is worth another look at the plan: below, any plan will do.
pub(crate) const WORTH_PLANNING: usize = 10_000;

/// Figures of the rows that come into input tables which are empty. Of tables that get none nothing is said: they may
/// get theirs later.
pub(crate) fn of_changes(changes: &BTreeMap<TableId, Delta>, schema: &Schema) -> Statistics {
    let mut statistics = Statistics::default();
    for (id, rows) in changes {
        let table = schema.table(*id);
        let distinct = (0..table.columns.len()).map(|column| different(rows, column));
        let known = TableStatistics { rows: rows.len() as u64, distinct: distinct.collect() };
        statistics.tables.insert(table.name.clone(), known);
    }
    statistics
}

/// How many different words a column has, to about one in a hundred: a bit is set for each word's hash, and how many
/// stay unset tells how many words there were ("linear counting", Whang and others, TODS 1990).
fn different(rows: &Delta, column: usize) -> u64 {
    let bits = (rows.len() * 4).next_power_of_two().clamp(64, 1 << 24);
    let mut seen = vec![0_u64; bits / 64];
    for (row, _) in rows.rows() {
        let bit = hash(row[column]) as usize & (bits - 1);
        seen[bit / 64] |= 1 << (bit % 64);
    }
    let unset: u32 = seen.iter().map(|word| word.count_zeros()).sum();
    let counted = -(bits as f64) * (f64::from(unset.max(1)) / bits as f64).ln();
    (counted.round() as u64).min(rows.len() as u64)
}

fn hash(word: Symbol) -> u64 {
    // Once more, since small numbers in a row are spread too evenly by one multiplication, and what is counted by
    // chance has to be by chance.
    let once = mix(&[word]);
    mix(&[once as u32, (once >> 32) as u32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_words_are_counted_to_a_few_in_a_hundred() {
        for (rows, different_words) in [(0, 1), (10, 10), (1000, 30), (50_000, 50_000), (200_000, 7_000)] {
            let mut delta = Delta::new(2);
            for row in 0..rows {
                delta.push(&[row, (1 << 31) | (row % different_words)], 1);
            }
            let wanted = f64::from(different_words.min(rows));
            let found = different(&delta, 1) as f64;
            assert!((found - wanted).abs() <= wanted * 0.03, "{found} of {wanted}");
        }
    }
}

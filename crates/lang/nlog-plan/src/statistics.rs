//! Statistics of tables: numbers of rows, numbers of distinct values per column, and the frequencies of some values.
//!
//! Skew decides the size of a join: if two columns have 1,000 values each, and one value occurs in every other row,
//! then a quarter of all pairs match, not a thousandth. So a [`Sample`] contains the frequencies of some values. The
//! hash of a value decides whether it is sampled (coordinated sampling, as in Estan and Naughton, "End-biased Samples
//! for Join Cardinality Estimation", ICDE 2006). The same values are therefore sampled in every table, and the
//! samples of two columns show their common values. A sample also contains the most frequent values.
//!
//! Columns that form a key together, such as a key of three columns, usually depend on each other. For sets of
//! columns that a program joins on, a [`Counter`] samples the combined values.

use std::collections::{BTreeMap, BTreeSet};

use nlog::Program;
use nlog_data::function::hash_values;
use nlog_data::{Columns, TableId, Value};
use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::common_variables::common_variables;

/// The number of values with the smallest hashes in a sample.
pub const SAMPLED: usize = 256;

/// The number of most frequent values in a sample.
pub const FREQUENT: usize = 64;

/// The minimum frequency of the most frequent values, relative to the mean.
const OFTEN: u64 = 2;

/// Statistics of tables, taken from a state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Statistics by table name. Nothing is known about a missing table.
    pub tables: BTreeMap<String, TableStatistics>,
}

/// Statistics of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatistics {
    /// The number of rows.
    pub rows: u64,
    /// The number of distinct values of each column, in column order. Nothing is known about a missing column.
    #[serde(default)]
    pub distinct: Vec<u64>,
    /// The frequencies of some values of each column, in column order. A missing column is assumed to be uniformly
    /// distributed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Groups of columns with joint statistics. Other columns are assumed to be independent.
    #[serde(rename = "together", default, skip_serializing_if = "Vec::is_empty")]
    pub joint: Vec<JointColumns>,
}

/// Joint statistics of several columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JointColumns {
    /// The numbers of the columns, from 0, in the order in which their values are combined.
    pub columns: Vec<usize>,
    /// The number of distinct combinations of values.
    pub distinct: u64,
    /// The frequencies of some combinations, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
}

/// The frequencies of some of a column's values: all values whose hash is up to a limit, and the most frequent
/// values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The sampling limit: every value with a hash up to it is in the sample or does not occur. With the greatest
    /// possible limit, the sample covers the whole column.
    pub limit: u32,
    /// The hash of each value and its number of rows, ordered by hash.
    pub values: Vec<(u32, u64)>,
}

/// Counts the rows of a program's tables.
#[derive(Debug, Clone, Default)]
pub struct Counter {
    /// By table, the sets of columns with joint statistics, each in the order in which their values are combined.
    joint: BTreeMap<TableId, BTreeSet<Vec<usize>>>,
}

impl Counter {
    /// A counter for a program. The joins of its rules decide which columns get joint statistics.
    pub fn new(program: &Program) -> Self {
        let mut counter = Counter::default();
        for rule in &program.rules {
            let body = Body::new(rule, &program.schema);
            for (atom, columns) in common_variables(&body).into_iter().flat_map(|common| common.members) {
                let table = TableId(body.atoms[atom].relation.0);
                counter.joint.entry(table).or_default().insert(columns);
            }
        }
        counter
    }

    /// The statistics of a table with these rows. Each dictionary must contain each value once, as those of
    /// [`Evaluator::contents_columns`](nlog_data::Evaluator::contents_columns) do; otherwise the number of distinct
    /// values is too high.
    pub fn count(&self, table: TableId, rows: &Columns) -> TableStatistics {
        TableStatistics::of(rows, self.joint.get(&table).into_iter().flatten())
    }
}

impl TableStatistics {
    /// Counts rows, and treats each of these sets of columns as one column. Ignores columns that the rows do not
    /// have.
    fn of<'a>(rows: &Columns, joint: impl IntoIterator<Item = &'a Vec<usize>>) -> Self {
        let width = rows.width();
        let hashes: Vec<Vec<u64>> =
            rows.dictionaries().iter().map(|values| values.iter().map(hash).collect()).collect();
        let mut statistics = TableStatistics { rows: rows.len() as u64, ..TableStatistics::default() };
        for (column, hashes) in hashes.iter().enumerate() {
            let mut counts: Vec<(u64, u64)> = hashes.iter().map(|hash| (*hash, 0)).collect();
            for cell in rows.cells().iter().skip(column).step_by(width) {
                counts[*cell as usize].1 += 1;
            }
            counts.retain(|(_, count)| *count > 0);
            statistics.distinct.push(counts.len() as u64);
            statistics.samples.push(Sample::new(counts));
        }
        for columns in joint.into_iter().filter(|columns| columns.iter().all(|column| *column < width)) {
            let combined = |row: &[u32]| {
                columns.iter().fold(0, |all, column| mix(all, hashes[*column][row[*column] as usize]))
            };
            let mut combined: Vec<u64> = rows.iter().map(combined).collect();
            combined.sort_unstable();
            let counts = combined.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u64));
            let counts: Vec<(u64, u64)> = counts.collect();
            statistics.joint.push(JointColumns {
                columns: columns.clone(),
                distinct: counts.len() as u64,
                sample: Some(Sample::new(counts)),
            });
        }
        statistics
    }
}

impl Sample {
    /// A sample of values, given by their hashes and frequencies.
    fn new(mut counts: Vec<(u64, u64)>) -> Self {
        let short = |(hash, count): &(u64, u64)| (short(*hash), *count);
        let limit = if counts.len() <= SAMPLED {
            u32::MAX
        } else {
            let (_, (hash, _), _) = counts.select_nth_unstable(SAMPLED - 1);
            self::short(*hash)
        };
        let mut values: BTreeMap<u32, u64> = BTreeMap::new();
        for (hash, count) in counts.iter().map(short).filter(|(hash, _)| *hash <= limit) {
            *values.entry(hash).or_default() += count;
        }
        let rows: u64 = counts.iter().map(|(_, count)| count).sum();
        let often = OFTEN * rows.div_ceil(counts.len().max(1) as u64);
        counts.retain(|counted| counted.1 >= often && short(counted).0 > limit);
        // Equally frequent values are ordered by hash, so that every table prefers the same ones.
        counts.sort_unstable_by_key(|(hash, count)| (std::cmp::Reverse(*count), *hash));
        values.extend(counts.iter().take(FREQUENT).map(short));
        Sample { limit, values: values.into_iter().collect() }
    }
}

/// The hash of a value, the same in every column, run and version.
fn hash(value: &Value) -> u64 {
    (hash_values(std::slice::from_ref(value)) as u64) << 1
}

/// The part of a hash that a sample stores: its upper half.
fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The hash of a value in a sample.
pub(crate) fn sampled_hash(value: &Value) -> u32 {
    short(hash(value))
}

/// Combines hashes in this order, with the finalizer of `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
fn mix(before: u64, next: u64) -> u64 {
    let mut word = before.rotate_left(5).wrapping_add(next).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

//! The distribution of a column's values over rows, as far as a sample shows it, and joins of such columns.
//!
//! For some values, the number of rows is known; the other values share the other rows evenly. The join of two
//! columns has, for each value, the product of the rows on both sides. If only one side knows a value, the other side
//! is assumed to have its mean. Estimates for values that neither side knows come from the sampled values up to the
//! smaller of the two limits: the fraction that both sides have, and the mean product. If there are few such values,
//! they are combined with the estimate of System R: all values of the column with fewer values occur in the other,
//! evenly.

use crate::statistics::Sample;

/// The weight of the estimate of System R against sampled values, as a number of values.
const PRIOR: f64 = 4.0;

/// The distribution of a column's values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spread {
    /// The number of rows.
    pub(crate) rows: f64,
    /// The number of distinct values.
    pub(crate) distinct: f64,
    /// The sampling limit: every value with a hash up to it is known or does not occur.
    limit: u32,
    /// The hash of each known value and its number of rows, by hash.
    known: Vec<(u32, f64)>,
    /// The number of rows with other values, and the number of those values.
    other_rows: f64,
    other_values: f64,
}

impl Spread {
    /// The distribution of a column with this many rows and values; `None` if the sample is empty.
    pub(crate) fn new(sample: &Sample, rows: f64, distinct: f64) -> Option<Self> {
        let mut known: Vec<(u32, f64)> =
            sample.values.iter().map(|(hash, count)| (*hash, *count as f64)).collect();
        known.sort_by_key(|(hash, _)| *hash);
        known.dedup_by_key(|(hash, _)| *hash);
        known.retain(|(_, count)| *count > 0.0);
        let sampled: f64 = known.iter().map(|(_, count)| count).sum();
        if known.is_empty() || sampled > rows * 1.01 {
            // The figures contradict each other.
            return None;
        }
        let is_whole = sample.limit == u32::MAX;
        let other_values = if is_whole { 0.0 } else { (distinct - known.len() as f64).max(0.0) };
        let other_rows = if other_values == 0.0 { 0.0 } else { (rows - sampled).max(0.0) };
        let distinct = known.len() as f64 + other_values;
        Some(Spread {
            rows: sampled + other_rows,
            distinct,
            limit: sample.limit,
            known,
            other_rows,
            other_values,
        })
    }

    /// The distribution of a column with a row for each of these hashes of values.
    pub(crate) fn of_values(mut hashes: Vec<u32>) -> Spread {
        hashes.sort_unstable();
        let known: Vec<(u32, f64)> =
            hashes.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as f64)).collect();
        Spread {
            rows: hashes.len() as f64,
            distinct: known.len() as f64,
            limit: u32::MAX,
            known,
            other_rows: 0.0,
            other_values: 0.0,
        }
    }

    /// The distribution over the rows of both columns.
    pub(crate) fn or(&self, other: &Spread) -> Spread {
        let limit = self.limit.min(other.limit);
        let of = |spread: &Spread| spread.known.iter().filter(|(hash, _)| *hash <= limit).count() as f64;
        let seen = of(self) + of(other);
        let mut known = Vec::with_capacity(self.known.len() + other.known.len());
        let mut different = 0.0;
        for (hash, a, b) in Merged([&self.known, &other.known]) {
            known.push((hash, a.unwrap_or(0.0) + b.unwrap_or(0.0)));
            different += f64::from(u8::from(hash <= limit));
        }
        // The fraction of other values that occur on both sides is assumed to be that of the sampled values.
        let fewest = self.other_values.max(other.other_values);
        let most = self.other_values + other.other_values;
        let other_values = if seen > 0.0 { (most * different / seen).max(fewest) } else { fewest };
        Spread {
            rows: self.rows + other.rows,
            distinct: known.len() as f64 + other_values,
            limit,
            known,
            other_rows: self.other_rows + other.other_rows,
            other_values,
        }
    }

    /// The number of rows of a value, by its hash.
    pub(crate) fn rows_with(&self, hash: u32) -> f64 {
        match self.known.binary_search_by_key(&hash, |(known, _)| *known) {
            Ok(at) => self.known[at].1,
            Err(_) if hash <= self.limit => 0.0,
            Err(_) => self.mean(),
        }
    }

    /// The same distribution scaled to other numbers of rows and values.
    pub(crate) fn scaled(&self, rows: f64, distinct: f64) -> Spread {
        let by = rows / self.rows.max(f64::MIN_POSITIVE);
        let mut scaled = self.clone();
        scaled.rows = rows;
        scaled.distinct = distinct.min(self.distinct);
        scaled.other_rows *= by;
        for (_, count) in &mut scaled.known {
            *count *= by;
        }
        scaled
    }

    /// The mean number of rows of an unknown value.
    fn mean(&self) -> f64 {
        if self.other_values > 0.0 { self.other_rows / self.other_values } else { 0.0 }
    }

    /// The number of rows from which on a value is always known.
    fn frequent(&self) -> f64 {
        let frequent = self.known.iter().filter(|(hash, _)| *hash > self.limit);
        frequent.map(|(_, count)| *count).fold(f64::INFINITY, f64::min)
    }

    /// The rows of the join of two columns.
    pub(crate) fn join(&self, other: &Spread) -> Spread {
        let seen = Seen::new(self, other);
        let limit = self.limit.min(other.limit);
        let common = seen.overlap * self.distinct.min(other.distinct);
        // A value that only one side knows is weighted with the probability that the other side has it.
        let of_other = (common / self.distinct.max(1.0)).min(1.0) * other.mean();
        let of_self = (common / other.distinct.max(1.0)).min(1.0) * self.mean();
        let mut known = Vec::with_capacity(self.known.len());
        let (mut rows, mut values) = (0.0, 0.0);
        for (hash, a, b) in Merged([&self.known, &other.known]) {
            let (count, share) = match (a, b) {
                (Some(a), Some(b)) => (a * b, 1.0),
                (Some(a), None) if hash > other.limit => (a * of_other, common / self.distinct.max(1.0)),
                (None, Some(b)) if hash > self.limit => (of_self * b, common / other.distinct.max(1.0)),
                _ => continue,
            };
            if count > 0.0 {
                known.push((hash, count));
                rows += count;
                values += share.min(1.0);
            }
        }
        let other_values = (common - values).max(0.0).min(self.other_values).min(other.other_values);
        let other_rows = other_values * seen.product;
        Spread {
            rows: rows + other_rows,
            distinct: (values + other_values).max(1.0),
            limit,
            known,
            other_rows,
            other_values,
        }
    }
}

/// Estimates for values in neither sample.
struct Seen {
    /// The fraction of the values of the column with fewer values that the other column has too.
    overlap: f64,
    /// The mean product of both sides' rows, for infrequent values.
    product: f64,
}

impl Seen {
    fn new(a: &Spread, b: &Spread) -> Seen {
        let limit = a.limit.min(b.limit);
        let of = |spread: &Spread| spread.known.iter().filter(|(hash, _)| *hash <= limit).count() as f64;
        let fewer = of(a).min(of(b));
        let (frequent_a, frequent_b) = (a.frequent(), b.frequent());
        let (mut both, mut rare, mut products) = (0.0, 0.0, 0.0);
        for (hash, of_a, of_b) in Merged([&a.known, &b.known]) {
            let (Some(of_a), Some(of_b)) = (of_a, of_b) else { continue };
            if hash > limit {
                break;
            }
            both += 1.0;
            if of_a < frequent_a && of_b < frequent_b {
                rare += 1.0;
                products += of_a * of_b;
            }
        }
        let product = (products + PRIOR * a.mean() * b.mean()) / (rare + PRIOR);
        Seen { overlap: (both + PRIOR) / (fewer + PRIOR), product }
    }
}

/// The hashes of both sides, ascending, each with the rows of each side.
struct Merged<'a>([&'a [(u32, f64)]; 2]);

impl Iterator for Merged<'_> {
    type Item = (u32, Option<f64>, Option<f64>);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.0.iter().filter_map(|side| side.first()).map(|(hash, _)| *hash).min()?;
        let [a, b] = self.0.each_mut().map(|side| {
            let (head, rest) = side.split_first().filter(|(head, _)| head.0 == first)?;
            *side = rest;
            Some(head.1)
        });
        Some((first, a, b))
    }
}

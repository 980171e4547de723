//! Rows that replace others: an object with a long list is one row, and a change of one element replaces the row.
//!
//! A pipeline that begins with a function of many results, as `element(list, x)`, runs both rows of such a pair
//! together, so that only the results in which they differ go on. They may go on alone if nothing later reads the slots in
//! which the two rows differ.

use std::collections::{BTreeSet, HashMap};

use nlog_plan::query::{End, Pipeline as PipelinePlan, Start, Step};
use nlog_plan::{Scalar, Slot};

use super::delta::{Delta, Diff};
use super::index::Fit;
use crate::symbol::Symbol;

/// The columns in which a row and its replacement agree.
#[derive(Debug)]
pub(crate) struct Replaced {
    same: Vec<usize>,
}

impl Replaced {
    /// `None` if rows of the pipeline must run alone.
    pub(crate) fn new(plan: &PipelinePlan) -> Option<Self> {
        let (Start::Row { columns, .. }, [Step::Generate { .. }, later @ ..]) =
            (&plan.start, &plan.steps[..])
        else {
            return None;
        };
        let mut read = BTreeSet::new();
        read_later(later, &plan.end, &mut read);
        let same: Vec<usize> = read.range(..columns.len()).map(|slot| columns[*slot]).collect();
        (same.len() < columns.len()).then_some(Replaced { same })
    }

    /// Pairs of a deleted row and its replacement, as positions. A row is in at most one pair.
    pub(crate) fn pairs(&self, rows: &Delta, fit: &Fit) -> Vec<[usize; 2]> {
        if rows.is_one_way() {
            return Vec::new();
        }
        let of = |row: &[Symbol], diff: Diff| -> (Vec<Symbol>, Diff) {
            (self.same.iter().map(|column| row[*column]).collect(), diff)
        };
        let fitting = || rows.rows().enumerate().filter(|(_, (row, _))| fit.fits(row));
        let mut gone: HashMap<(Vec<Symbol>, Diff), Vec<usize>> = HashMap::new();
        for (at, (row, diff)) in fitting().filter(|(_, (_, diff))| *diff < 0) {
            gone.entry(of(row, diff)).or_default().push(at);
        }
        let come = fitting().filter(|(_, (_, diff))| *diff > 0);
        come.filter_map(|(at, (row, diff))| Some([gone.get_mut(&of(row, -diff))?.pop()?, at])).collect()
    }
}

/// Adds the slots that steps and end read, up to the first probe, which numbers slots anew.
fn read_later(steps: &[Step], end: &End, read: &mut BTreeSet<Slot>) {
    for step in steps {
        match step {
            Step::Let { scalar, .. }
            | Step::Key { scalar, .. }
            | Step::Filter(scalar)
            | Step::Must(scalar)
            | Step::Failed(scalar) => slots(scalar, read),
            Step::Generate { arguments, .. } => arguments.iter().for_each(|argument| slots(argument, read)),
            Step::Probe(probe) => return read.extend(probe.key.iter().chain(&probe.keep)),
        }
    }
    match end {
        End::Row(columns) => columns.iter().for_each(|column| slots(column, read)),
        End::Group { group, tuple, check } => {
            group.iter().chain(check).for_each(|column| slots(column, read));
            read.extend(tuple);
        }
        End::Failure => {}
    }
}

fn slots(scalar: &Scalar, read: &mut BTreeSet<Slot>) {
    match scalar {
        Scalar::Slot(slot) => drop(read.insert(*slot)),
        Scalar::Constant(_) => {}
        Scalar::Call { arguments, .. } => arguments.iter().for_each(|argument| slots(argument, read)),
        Scalar::If { condition, then, otherwise } => {
            for part in [condition, then, otherwise] {
                slots(part, read);
            }
        }
    }
}

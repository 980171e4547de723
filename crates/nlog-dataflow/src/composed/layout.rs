//! The representation of relations and indexes, shared by the coordinator and the workers.

use std::collections::BTreeSet;

use nlog_data::TableId;
use nlog_plan::Keep;
use nlog_plan::query::{IndexId, Joins, Pipeline, Plan, Probe, RelationId, Start, Step};

use super::NO_RULE;
use crate::row::{Narrow, Row};
use crate::symbol::{Symbol, Symbols};

/// The width of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

impl Width {
    fn of(columns: usize) -> Self {
        if columns <= Narrow::WIDTH { Width::Narrow } else { Width::Wide }
    }
}

/// The way in which derived rows become a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Row by row: as derived, or made distinct.
    Rows,
    /// Key by key, in pairs of this width, because a key is checked or rows are attributed.
    Keyed(Width),
}

/// A plan, with the requested outputs.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) plan: Plan,
    /// The tables whose changes are reported.
    pub(super) wanted: BTreeSet<TableId>,
    /// Whether changes of output tables name their rules.
    pub(super) attribute: bool,
    /// By relation, whether some pipeline in use starts with it or probes it.
    read: Vec<bool>,
    /// By index. Both sides of a join have the same width.
    widths: Vec<Width>,
}

/// A pipeline, split at its probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain<'p> {
    pub(super) joins: &'p Joins,
    pub(super) pipeline: &'p Pipeline,
    /// The relation that it derives.
    pub(super) head: RelationId,
}

impl<'p> Chain<'p> {
    /// The full pipeline of a conjunction.
    pub(super) fn new(joins: &'p Joins, head: RelationId) -> Self {
        Chain { joins, pipeline: &joins.pipelines[joins.full], head }
    }

    /// The probe of this number.
    pub(super) fn probe(self, number: usize) -> Option<&'p Probe> {
        self.probes().nth(number)
    }

    pub(super) fn probes(self) -> impl Iterator<Item = &'p Probe> {
        self.pipeline
            .steps
            .iter()
            .filter_map(|step| if let Step::Probe(probe) = step { Some(probe) } else { None })
    }

    /// The steps between the previous probe and the probe with this number.
    pub(super) fn steps_before(self, probe: usize) -> &'p [Step] {
        self.pipeline.steps.split(|step| matches!(step, Step::Probe(_))).nth(probe).unwrap_or_default()
    }

    /// The slots of bindings that arrive at a probe, divided into the key and the others that are kept.
    pub(super) fn arrival(self, number: usize, probe: &Probe) -> Arrival {
        let mut before = self.pipeline.steps.split(|step| matches!(step, Step::Probe(_))).take(number + 1);
        let failure = before.any(|steps| steps.iter().any(may_fail));
        let is_kept_apart = |slot: &&usize| !probe.key.contains(slot);
        let value: Vec<usize> = probe.keep.iter().filter(is_kept_apart).copied().collect();
        Arrival { key: probe.key.clone(), value, failure }
    }
}

/// The arranged slots of bindings that arrive at a probe.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    /// The slots of the key.
    pub(super) key: Vec<usize>,
    /// The other slots that are kept.
    pub(super) value: Vec<usize>,
    /// Whether a last, hidden value column holds the least failure so far.
    pub(super) failure: bool,
}

impl Arrival {
    /// The number of columns of a value.
    pub(super) fn value_columns(&self) -> usize {
        self.value.len() + usize::from(self.failure)
    }
}

/// Whether a binding can carry a failure after this step.
fn may_fail(step: &Step) -> bool {
    match step {
        Step::Let { scalar, .. } | Step::Filter(scalar) | Step::Failed(scalar) => scalar.may_fail(),
        Step::Generate { function, arguments, .. } => {
            function.may_fail || arguments.iter().any(nlog_plan::Scalar::may_fail)
        }
        // Failing bindings are dropped.
        Step::Key { .. } | Step::Must(_) | Step::Probe(_) => false,
    }
}

impl Layout {
    pub(super) fn new(plan: Plan, wanted: BTreeSet<TableId>, attribute: bool) -> Self {
        let mut read = vec![false; plan.relations.len()];
        let widest = |index: &nlog_plan::query::Index| index.key.len().max(index.value.len());
        let mut widths: Vec<usize> = plan.indexes.iter().map(widest).collect();
        let chains = plan.rules.iter().flat_map(|rule| {
            let joins = std::iter::once(&rule.body).chain(&rule.failures);
            joins.map(|joins| Chain::new(joins, rule.head))
        });
        for chain in chains {
            if let Start::Row { atom, .. } = chain.pipeline.start {
                read[chain.joins.atoms[atom].0 as usize] = true;
            }
            for (number, probe) in chain.probes().enumerate() {
                let index = probe.index.0 as usize;
                read[plan.indexes[index].relation.0 as usize] = true;
                let arrival = chain.arrival(number, probe);
                widths[index] = widths[index].max(arrival.key.len()).max(arrival.value_columns());
            }
        }
        let widths = widths.into_iter().map(Width::of).collect();
        Layout { plan, wanted, attribute, read, widths }
    }

    pub(super) fn arity(&self, id: RelationId) -> usize {
        self.plan.relations[id.0 as usize].columns.len()
    }

    pub(super) fn width(&self, id: RelationId) -> Width {
        Width::of(self.arity(id))
    }

    /// The width of an index's keys and values, and of the bindings that probe it.
    pub(super) fn index_width(&self, id: IndexId) -> Width {
        self.widths[id.0 as usize]
    }

    /// The table of the relation, if its changes are reported.
    pub(super) fn wanted(&self, id: RelationId) -> Option<TableId> {
        self.plan.relations[id.0 as usize].table.filter(|table| self.wanted.contains(table))
    }

    /// Whether some rule reads the relation.
    pub(super) fn is_read(&self, id: RelationId) -> bool {
        self.read[id.0 as usize]
    }

    /// Whether the relation's rows are attributed to rules: attribution is on, and the relation has several rules.
    fn is_attributed(&self, id: RelationId) -> bool {
        let several = |table| self.plan.program.rules_of(table).count() > 1;
        self.attribute && self.wanted(id).is_some_and(several)
    }

    pub(super) fn form(&self, id: RelationId) -> Form {
        let keeps_key = matches!(self.plan.relations[id.0 as usize].keep, Keep::Key(_));
        if keeps_key || self.is_attributed(id) {
            let keyed = self.keyed(id);
            Form::Keyed(Width::of(keyed.key.len().max(keyed.value_columns())))
        } else {
            Form::Rows
        }
    }

    /// The division of the relation's rows into key and rest.
    pub(super) fn keyed(&self, id: RelationId) -> Keyed {
        let columns = 0..self.arity(id);
        let relation = &self.plan.relations[id.0 as usize];
        let (key, checked) = match &relation.keep {
            Keep::Key(key) => (key.clone(), relation.table),
            Keep::AsIs | Keep::Distinct => (columns.clone().collect(), None),
        };
        let rest = columns.filter(|column| !key.contains(column)).collect();
        Keyed { key, rest, checked, attributed: self.is_attributed(id) }
    }
}

/// A relation's rows as key and rest, with the rule last if rows are attributed.
#[derive(Debug, Clone)]
pub(super) struct Keyed {
    pub(super) key: Vec<usize>,
    pub(super) rest: Vec<usize>,
    /// The table whose key is checked.
    pub(super) checked: Option<TableId>,
    pub(super) attributed: bool,
}

impl Keyed {
    /// The number of columns of a value.
    pub(super) fn value_columns(&self) -> usize {
        self.rest.len() + usize::from(self.attributed)
    }

    /// Assembles a row, and returns its rule.
    pub(super) fn row<P: Row>(&self, key: &P, value: &P, symbols: &Symbols, into: &mut Vec<Symbol>) -> u32 {
        let mut parts = Vec::with_capacity(self.key.len() + self.value_columns());
        key.unpack(self.key.len(), symbols, &mut parts);
        value.unpack(self.value_columns(), symbols, &mut parts);
        into.clear();
        into.resize(self.key.len() + self.rest.len(), 0);
        for (column, word) in self.key.iter().chain(&self.rest).zip(&parts) {
            into[*column] = *word;
        }
        if self.attributed { parts.pop().unwrap_or(NO_RULE) } else { NO_RULE }
    }
}

//! Lowers a pipeline over variables to a pipeline over slots.

use std::collections::BTreeSet;

use nlog::program::{Aggregate, Expr, HeadTerm, VariableId};

use crate::analysis::{may_be_none, may_fail, variables_of};
use crate::body::{Body, What};
use crate::dependency::Variables;
use crate::draft::{Aim, Draft, Op};
use crate::indexes::Indexes;
use crate::order::{Expected, Order};
use crate::plan::{AggregatePlan, GroupColumn, Scalar, Slot};
use crate::query::{Alternative, End, Output, Pipeline, Probe, Start, Step, Through};
use crate::unfold::Unfolded;

/// The contents of a binding's slots.
#[derive(Debug, Default)]
struct Slots {
    variables: Vec<Option<VariableId>>,
    names: Vec<String>,
}

/// Lowers pipelines of a body.
#[derive(Clone, Copy)]
pub(crate) struct Lowering<'a> {
    pub(crate) body: &'a Body,
    pub(crate) aim: Aim,
    /// Items whose failures other pipelines do not see, so that this pipeline also leaves them to [`Aim::Failure`].
    pub(crate) followed: &'a BTreeSet<usize>,
}

impl Lowering<'_> {
    /// The pipeline over slots.
    pub(crate) fn pipeline(&self, draft: &Draft, order: &Order, indexes: &mut Indexes) -> Pipeline {
        let live = draft.live(self.body, self.aim);
        let at_first = &live[draft.ops.len()];
        let mut slots = Slots::default();
        let start = match draft.order.first() {
            None => Start::Once,
            Some(&atom) => {
                let wanted = self.body.atoms[atom].columns.iter().filter(|(_, v)| at_first.contains(v));
                let mut columns = Vec::new();
                for (column, variable) in wanted {
                    columns.push(*column);
                    slots.push(Some(*variable), self.body.name(*variable));
                }
                let names = slots.names.clone();
                Start::Row { atom, select: self.body.atoms[atom].select.clone(), columns, names }
            }
        };
        let mut steps = Vec::with_capacity(draft.ops.len());
        let mut probes = 0;
        for (op, live) in draft.ops.iter().zip(&live) {
            steps.push(match op {
                Op::Item(at) => self.item(*at, live, &mut slots),
                Op::Key { variable, expr, .. } => {
                    let scalar = slots.scalar(expr);
                    let name = self.body.name(*variable);
                    slots.push(Some(*variable), name.clone());
                    Step::Key { scalar, name }
                }
                Op::Probe { atom, key } => {
                    let expected = order.expected.get(probes).copied().unwrap_or_default();
                    probes += 1;
                    let mut probe = self.probe(*atom, key, live, expected, &mut slots, indexes);
                    probe.repeats = self.repeats(&draft.order[..probes], key, live);
                    Step::Probe(probe)
                }
                Op::Head(expr) => {
                    let scalar = slots.scalar(expr);
                    let name = "(head)".to_owned();
                    slots.push(None, name.clone());
                    Step::Let { scalar, name }
                }
            });
        }
        let end = if self.aim == Aim::Main { self.end(&slots) } else { End::Failure };
        let second = order.second.map(|(atom, cost)| Alternative { atom, cost });
        let Order { rows, cost, .. } = *order;
        Pipeline { start, steps, end, may_fail: self.may_fail(draft), rows, cost, second, through: None }
    }

    /// The pipeline in which a table's rule replaces one of the body's atoms. The rows that it finds count as rows of
    /// that atom.
    pub(crate) fn through_rule(&self, unfolded: &Unfolded, indexes: &mut Indexes) -> Pipeline {
        let draft = Draft::new(&unfolded.body, self.aim, &unfolded.order.atoms);
        let mut pipeline =
            Lowering { body: &unfolded.body, ..*self }.pipeline(&draft, &unfolded.order, indexes);
        if let Start::Row { atom, .. } = &mut pipeline.start {
            *atom = unfolded.original(*atom);
        }
        for step in &mut pipeline.steps {
            if let Step::Probe(probe) = step {
                probe.atom = unfolded.original(probe.atom);
            }
        }
        pipeline.second = None;
        let order = unfolded.order.atoms.clone();
        pipeline.through = Some(Through { atoms: unfolded.body.relations(), order });
        pipeline
    }

    /// Whether a binding of the pipeline can carry a failure before its head is made.
    fn may_fail(&self, draft: &Draft) -> bool {
        self.aim != Aim::Main
            || draft.ops.iter().any(|op| match op {
                Op::Item(at) => self.body.items[*at].may_fail && !self.followed.contains(at),
                Op::Key { .. } | Op::Probe { .. } | Op::Head(_) => false,
            })
    }

    fn item(&self, at: usize, live: &Variables, slots: &mut Slots) -> Step {
        match &self.body.items[at].what {
            What::Let { variable, expr } => {
                let scalar = slots.scalar(expr);
                let name = self.body.name(*variable);
                slots.push(Some(*variable), name.clone());
                Step::Let { scalar, name }
            }
            What::Filter(expr) => {
                let scalar = slots.scalar(expr);
                match self.aim {
                    Aim::Failure(item) if item == at => Step::Failed(scalar),
                    Aim::Main if self.followed.contains(&at) => Step::Must(scalar),
                    _ => Step::Filter(scalar),
                }
            }
            What::Generate { function, arguments, results } => {
                let arguments = arguments.iter().map(|argument| slots.scalar(argument)).collect();
                let mut wanted = Vec::with_capacity(results.len());
                let mut names = Vec::new();
                for result in results {
                    let variable = result.filter(|result| live.contains(result));
                    wanted.push(variable.is_some());
                    if let Some(variable) = variable {
                        names.push(self.body.name(variable));
                        slots.push(Some(variable), self.body.name(variable));
                    }
                }
                Step::Generate { function: function.clone(), arguments, wanted, names }
            }
        }
    }

    /// Whether bindings of these atoms can agree on all variables that are still needed at a probe.
    fn repeats(&self, joined: &[usize], key: &[(usize, VariableId)], live: &Variables) -> bool {
        let generates = self.body.items.iter().any(|item| matches!(item.what, What::Generate { .. }));
        let of_items = self.body.items.iter().flat_map(crate::body::Item::binds);
        let of_atoms = joined.iter().flat_map(|atom| self.body.atoms[*atom].variables.iter().copied());
        let bound: Variables = of_items.chain(of_atoms).collect();
        let needed = live.intersection(&bound).chain(key.iter().map(|(_, variable)| variable));
        let needed = needed.copied().collect();
        generates || !self.body.knowledge(joined.iter().copied()).is_unique(&needed)
    }

    fn probe(
        &self,
        at: usize,
        key: &[(usize, VariableId)],
        live: &Variables,
        Expected { fan_out, bindings }: Expected,
        slots: &mut Slots,
        indexes: &mut Indexes,
    ) -> Probe {
        let atom = &self.body.atoms[at];
        let is_key = |variable: &VariableId| key.iter().any(|(_, known)| known == variable);
        let found: Vec<(usize, VariableId)> =
            atom.columns.iter().filter(|(_, v)| live.contains(v) && !is_key(v)).copied().collect();
        let value: Vec<usize> = found.iter().map(|(column, _)| *column).collect();
        let columns = key.iter().map(|(column, _)| *column).collect();
        let index = indexes.find(atom, columns, value, fan_out);
        let key_slots = key.iter().map(|(_, variable)| slots.of(*variable)).collect();
        let keep = slots.keep(live);
        let mut after = Slots::default();
        for slot in &keep {
            after.push(slots.variables[*slot], slots.names[*slot].clone());
        }
        for (_, variable) in &found {
            after.push(Some(*variable), self.body.name(*variable));
        }
        *slots = after;
        let take = (0..found.len()).collect();
        let names = slots.names.clone();
        Probe { atom: at, index, key: key_slots, keep, repeats: false, take, names, bindings }
    }

    fn end(&self, slots: &Slots) -> End {
        let Some(groups) = Groups::new(self.body) else {
            return End::Row(self.body.head_expressions().map(|expr| slots.scalar(expr)).collect());
        };
        let arguments = self.body.terms.iter().flat_map(|term| match term {
            HeadTerm::Value(_) => &[],
            HeadTerm::Aggregate { arguments, .. } => arguments.as_slice(),
        });
        End::Group {
            group: groups.group.iter().map(|expr| slots.scalar(expr)).collect(),
            tuple: groups.tuple.iter().map(|variable| slots.of(*variable)).collect(),
            check: arguments
                .filter(|expr| may_fail(expr) || may_be_none(expr))
                .map(|expr| slots.scalar(expr))
                .collect(),
        }
    }
}

/// The use of the results of a body's pipelines.
pub(crate) fn output(body: &Body) -> Output {
    let Some(groups) = Groups::new(body) else { return Output::Rows };
    let mut over = Slots::default();
    for expr in &groups.group {
        let variable = if let Expr::Variable(variable) = expr { Some(*variable) } else { None };
        over.push(variable, String::new());
    }
    for variable in &groups.tuple {
        over.push(Some(*variable), String::new());
    }
    let mut aggregates = Vec::new();
    let mut columns = Vec::new();
    let mut group = 0;
    for term in &body.terms {
        match term {
            HeadTerm::Value(_) => {
                columns.push(GroupColumn::Group(group));
                group += 1;
            }
            HeadTerm::Aggregate { aggregate, arguments } => {
                columns.push(GroupColumn::Aggregate(aggregates.len()));
                let arguments = arguments.iter().take(counted(*aggregate));
                let arguments = arguments.map(|expr| over.scalar(expr)).collect();
                aggregates.push(AggregatePlan { aggregate: *aggregate, arguments });
            }
        }
    }
    Output::Groups { group, tuple: groups.tuple.len(), aggregates, columns }
}

/// The groups and tuples of a head with aggregates.
struct Groups<'a> {
    group: Vec<&'a Expr>,
    /// The variables of the head that are not columns of the group.
    tuple: Vec<VariableId>,
}

impl<'a> Groups<'a> {
    fn new(body: &'a Body) -> Option<Self> {
        if !body.is_grouped() {
            return None;
        }
        let group = body.terms.iter().filter_map(|term| match term {
            HeadTerm::Value(expr) => Some(expr),
            HeadTerm::Aggregate { .. } => None,
        });
        let tuple = body.head_expressions().flat_map(variables_of).collect::<Variables>();
        let tuple = tuple.difference(&body.plain).copied().collect();
        Some(Groups { group: group.collect(), tuple })
    }
}

/// The number of an aggregate's arguments that are values, not only names of variables.
fn counted(aggregate: Aggregate) -> usize {
    use Aggregate::{ArgMax, ArgMin, Count, List, Max, Min, Set, Sum};
    match aggregate {
        Count => 0,
        Min | Max | Sum | Set | List => 1,
        ArgMin | ArgMax => 2,
    }
}

impl Slots {
    fn push(&mut self, variable: Option<VariableId>, name: String) {
        self.variables.push(variable);
        self.names.push(name);
    }

    /// The slot of a variable, which must be bound.
    fn of(&self, variable: VariableId) -> Slot {
        let slot = self.variables.iter().position(|slot| *slot == Some(variable));
        slot.expect("drafts read bound variables only")
    }

    /// The slots of the needed variables.
    fn keep(&self, live: &Variables) -> Vec<Slot> {
        let wanted = |slot: &Slot| self.variables[*slot].is_some_and(|variable| live.contains(&variable));
        (0..self.variables.len()).filter(wanted).collect()
    }

    /// The expression over slots instead of variables.
    fn scalar(&self, expr: &Expr) -> Scalar {
        match expr {
            Expr::Variable(variable) => Scalar::Slot(self.of(*variable)),
            Expr::Constant(value) => Scalar::Constant(value.clone()),
            Expr::Call { function, arguments } => Scalar::Call {
                function: function.clone(),
                arguments: arguments.iter().map(|argument| self.scalar(argument)).collect(),
            },
            Expr::If { condition, then, otherwise } => Scalar::If {
                condition: Box::new(self.scalar(condition)),
                then: Box::new(self.scalar(then)),
                otherwise: Box::new(self.scalar(otherwise)),
            },
        }
    }
}

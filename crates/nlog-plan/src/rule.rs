//! One rule's joins: which atom first, what next, on which columns.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use nlog::program::{Expr, HeadTerm, Rule, VariableId};
use nlog_data::{Schema, TableId};

use crate::analysis::{Body, Item, What, equations, may_be_none, may_fail, variables_of};
use crate::dependency::{Knowledge, Variables};
use crate::head::output;
use crate::plan::{Output, Scalar, Selection, Slot, Step};

/// An arrangement before it has a number.
#[derive(Debug)]
pub(crate) struct ArrangementTree {
    pub(crate) chain: ChainTree,
    pub(crate) key: Vec<Slot>,
    pub(crate) value: Vec<Slot>,
    pub(crate) failure: bool,
    pub(crate) distinct: bool,
}

/// A chain whose arrangements have no numbers yet.
#[derive(Debug)]
pub(crate) struct ChainTree {
    pub(crate) source: SourceTree,
    pub(crate) steps: Vec<Step>,
    pub(crate) names: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum SourceTree {
    Unit,
    Table { table: TableId, select: Vec<Selection>, columns: Vec<usize> },
    Join { left: Box<ArrangementTree>, right: Box<ArrangementTree> },
}

impl SourceTree {
    /// In how many places duplicates are removed.
    fn distincts(&self) -> usize {
        match self {
            SourceTree::Unit | SourceTree::Table { .. } => 0,
            SourceTree::Join { left, right } => [left, right]
                .iter()
                .map(|side| usize::from(side.distinct) + side.chain.source.distincts())
                .sum(),
        }
    }
}

/// A rule's plan before its arrangements have numbers.
#[derive(Debug)]
pub(crate) struct RuleTree {
    pub(crate) chain: ChainTree,
    pub(crate) output: Output,
    pub(crate) failures: Vec<ChainTree>,
    /// Whether no row comes out twice.
    pub(crate) unique: bool,
}

/// Plans a rule. `remove_duplicates`: duplicates may be removed on the way if then none are left at the head, and if it
/// takes one place: removing them costs two indexes of what is there, so twice is dearer than at the head.
pub(crate) fn plan_rule(rule: &Rule, schema: &Schema, remove_duplicates: bool) -> RuleTree {
    let body = Body::new(rule, schema);
    let plan = |distinct| Planner::new(rule, &body, Variant::Main { distinct }).main();
    let (mut main, mut unique, mut followed) = plan(remove_duplicates);
    let places = main.source.distincts();
    if remove_duplicates && places > 0 && (places > 1 || !unique) {
        (main, unique, followed) = plan(false);
    }
    let failures =
        followed.into_iter().map(|item| Planner::new(rule, &body, Variant::Failure { item }).failure());
    let failures = failures.collect();
    let output = output(rule, &main);
    RuleTree { chain: main.into_chain(), output, failures, unique }
}

/// What a chain of joins is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    /// For all bindings, but those for which the expression of a join key fails.
    Main { distinct: bool },
    /// For the bindings for which the condition fails that is the item of this number.
    Failure { item: usize },
}

struct Planner<'a> {
    rule: &'a Rule,
    body: &'a Body<'a>,
    variant: Variant,
    /// By item, whether it is in the plan.
    applied: Vec<bool>,
    /// Items that can fail and became join keys.
    followed: Vec<usize>,
}

/// Atoms that are joined before they are joined to the rest: the first, and lookups from it.
#[derive(Debug, Clone)]
struct Unit {
    base: usize,
    lookups: Vec<usize>,
}

impl Unit {
    fn atoms(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.base).chain(self.lookups.iter().copied())
    }
}

/// Bindings of some of the body's atoms.
#[derive(Debug)]
pub(crate) struct Partial {
    source: SourceTree,
    steps: Vec<Step>,
    pub(crate) slots: Vec<Option<VariableId>>,
    names: Vec<String>,
    atoms: BTreeSet<usize>,
    bound: Variables,
    knowledge: Knowledge,
    /// Variables whose value can be a failure.
    failing: Variables,
    /// Whether there can be failures that no variable shows.
    failed: bool,
}

/// What two partial results are joined on.
#[derive(Debug)]
struct KeyPart<'a> {
    /// The variable of the right side.
    right: VariableId,
    /// The equation that it comes from, with its number; `None`: the left side has the variable.
    equation: Option<(usize, &'a Expr)>,
}

impl<'a> Planner<'a> {
    fn new(rule: &'a Rule, body: &'a Body<'a>, variant: Variant) -> Self {
        Planner { rule, body, variant, applied: vec![false; body.items.len()], followed: Vec::new() }
    }

    /// The main plan, whether it is free of duplicates, and which items need a plan for their failures.
    fn main(mut self) -> (Partial, bool, Vec<usize>) {
        let partial = self.joined();
        let generates = self.body.items.iter().any(|item| matches!(item.what, What::Generate { .. }));
        let unique = !generates && partial.knowledge.is_unique(&self.body.plain);
        (partial, unique, self.followed)
    }

    fn failure(mut self) -> ChainTree {
        let mut partial = self.joined();
        let mut heads = Vec::new();
        for term in &self.rule.terms {
            match term {
                HeadTerm::Value(expr) => heads.push(expr),
                HeadTerm::Aggregate { arguments, .. } => heads.extend(arguments),
            }
        }
        for expr in heads.into_iter().filter(|expr| may_fail(expr) || may_be_none(expr)) {
            let step = Step::Let(partial.scalar(expr));
            partial.push_step(step, None, "(head)".to_owned());
        }
        partial.into_chain()
    }

    /// All atoms joined, all items applied.
    fn joined(&mut self) -> Partial {
        let mut units = self.units();
        if units.is_empty() {
            let mut partial = Partial::unit();
            self.apply_items(&mut partial);
            return partial;
        }
        let start = self.start(&units);
        let start = units.remove(start);
        let mut partial = self.unit(&start);
        self.apply_items_unless_cheap(&mut partial);
        while !units.is_empty() {
            let next = self.next(&partial, &units);
            let next = units.remove(next);
            let right = self.unit(&next);
            partial = self.join(partial, right);
        }
        self.apply_items(&mut partial);
        partial
    }

    /// The body's atoms, lookups beside what they are lookups from.
    fn units(&self) -> Vec<Unit> {
        let atoms = &self.body.atoms;
        let selective = atoms.iter().any(|atom| atom.constants > 0);
        if selective || matches!(self.variant, Variant::Failure { .. }) {
            return (0..atoms.len()).map(|base| Unit { base, lookups: Vec::new() }).collect();
        }
        let reach: Vec<BTreeSet<usize>> = (0..atoms.len()).map(|atom| self.lookups_from(atom)).collect();
        let mut order: Vec<usize> = (0..atoms.len()).collect();
        order.sort_by_key(|&atom| (Reverse(reach[atom].len()), atom));
        let mut bases: Vec<usize> = Vec::new();
        for atom in order {
            if !bases.iter().any(|base| reach[*base].contains(&atom)) {
                bases.push(atom);
            }
        }
        let mut units: Vec<Unit> = bases.iter().map(|&base| Unit { base, lookups: Vec::new() }).collect();
        for atom in (0..atoms.len()).filter(|atom| !bases.contains(atom)) {
            let mut from = units.iter_mut().filter(|unit| reach[unit.base].contains(&atom));
            match (from.next(), from.next()) {
                (Some(unit), None) => unit.lookups.push(atom),
                _ => units.push(Unit { base: atom, lookups: Vec::new() }),
            }
        }
        units.sort_by_key(|unit| unit.base);
        units
    }

    /// The atoms whose declared key is among an atom's variables, or among those that such lookups find.
    fn lookups_from(&self, from: usize) -> BTreeSet<usize> {
        let atoms = &self.body.atoms;
        let mut bound = atoms[from].variables.clone();
        let mut found = BTreeSet::new();
        loop {
            let next = (0..atoms.len()).find(|&atom| {
                let is_lookup =
                    atoms[atom].key.as_ref().is_some_and(|key| !key.is_empty() && key.is_subset(&bound));
                atom != from && !found.contains(&atom) && is_lookup
            });
            let Some(next) = next else { return found };
            found.insert(next);
            bound.extend(atoms[next].variables.iter().copied());
        }
    }

    /// Which unit to begin with.
    fn start(&self, units: &[Unit]) -> usize {
        let wanted = match self.variant {
            Variant::Main { .. } => Variables::new(),
            Variant::Failure { item } => self.body.items[item].uses.clone(),
        };
        let score = |unit: &Unit| {
            let atom = &self.body.atoms[unit.base];
            (Reverse(atom.variables.intersection(&wanted).count()), Reverse(atom.constants), unit.base)
        };
        (0..units.len()).min_by_key(|&unit| score(&units[unit])).unwrap_or(0)
    }

    /// Which unit to join next: connected ones first, lookups before others, then by how many columns are bound and how
    /// few variables are new.
    fn next(&self, partial: &Partial, units: &[Unit]) -> usize {
        let missing: Variables = match self.variant {
            Variant::Failure { item } if !self.applied[item] => self.body.items[item].uses.clone(),
            _ => Variables::new(),
        };
        let missing: Variables = missing.difference(&partial.bound).copied().collect();
        let score = |unit: &Unit| {
            let atom = &self.body.atoms[unit.base];
            let variables: Variables =
                unit.atoms().flat_map(|atom| &self.body.atoms[atom].variables).copied().collect();
            let key = self.key(partial, &variables);
            let bound: Variables = key.iter().map(|part| part.right).collect();
            let lookup = atom.key.as_ref().is_some_and(|key| key.is_subset(&bound));
            let columns = atom.variables.intersection(&bound).count() + atom.constants;
            (
                Reverse(variables.intersection(&missing).count()),
                key.is_empty(),
                !lookup,
                Reverse(columns),
                variables.difference(&bound).count(),
                unit.base,
            )
        };
        (0..units.len()).min_by_key(|&unit| score(&units[unit])).unwrap_or(0)
    }

    /// What the variables can be joined to a partial result on.
    fn key(&self, left: &Partial, right: &Variables) -> Vec<KeyPart<'a>> {
        let mut parts: Vec<KeyPart<'a>> = left
            .bound
            .intersection(right)
            .map(|variable| KeyPart { right: *variable, equation: None })
            .collect();
        for (at, item) in self.body.items.iter().enumerate() {
            let What::Filter(expr) = item.what else { continue };
            if self.applied[at] || (item.may_fail && matches!(self.variant, Variant::Failure { .. })) {
                continue;
            }
            for (variable, other) in equations(expr) {
                let used = variables_of(other);
                let fits = right.contains(&variable)
                    && !used.is_empty()
                    && used.is_subset(&left.bound)
                    && used.is_disjoint(&left.failing);
                if fits && !parts.iter().any(|part| part.right == variable) {
                    parts.push(KeyPart { right: variable, equation: Some((at, other)) });
                    break;
                }
            }
        }
        parts
    }

    /// The rows of a unit.
    fn unit(&mut self, unit: &Unit) -> Partial {
        let mut partial = self.atom(unit.base);
        if !unit.lookups.is_empty() {
            self.apply_items_unless_cheap(&mut partial);
        }
        let mut lookups: Vec<Unit> =
            unit.lookups.iter().map(|&base| Unit { base, lookups: Vec::new() }).collect();
        while !lookups.is_empty() {
            let next = self.next(&partial, &lookups);
            let next = self.atom(lookups.remove(next).base);
            partial = self.join(partial, next);
        }
        partial
    }

    fn atom(&self, at: usize) -> Partial {
        let atom = &self.body.atoms[at];
        Partial {
            source: SourceTree::Table {
                table: atom.table,
                select: atom.select.clone(),
                columns: atom.columns.iter().map(|(column, _)| *column).collect(),
            },
            steps: Vec::new(),
            slots: atom.columns.iter().map(|(_, variable)| Some(*variable)).collect(),
            names: atom.columns.iter().map(|(_, variable)| self.name(*variable)).collect(),
            atoms: [at].into(),
            bound: atom.variables.clone(),
            knowledge: self.body.knowledge([at]),
            failing: Variables::new(),
            failed: false,
        }
    }

    fn name(&self, variable: VariableId) -> String {
        self.rule.variables[variable.0 as usize].name.clone()
    }

    /// The variables that are needed once the atoms are joined.
    fn live(&self, atoms: &BTreeSet<usize>) -> Variables {
        let mut live = self.body.head.clone();
        for (item, _) in self.body.items.iter().zip(&self.applied).filter(|(_, applied)| !**applied) {
            live.extend(item.uses.iter().copied());
        }
        for (_, atom) in self.body.atoms.iter().enumerate().filter(|(at, _)| !atoms.contains(at)) {
            live.extend(atom.variables.iter().copied());
        }
        live
    }

    /// Both sides, arranged by what they share, then what can be computed from the pairs.
    fn join(&mut self, mut left: Partial, mut right: Partial) -> Partial {
        let mut parts = self.key(&left, &right.bound);
        parts.sort_by_key(|part| right.slot(part.right));
        let mut left_key = Vec::new();
        for part in &parts {
            let slot = match part.equation {
                None => left.slot(part.right),
                Some((item, expr)) => {
                    self.applied[item] = true;
                    if self.body.items[item].may_fail {
                        self.followed.push(item);
                    }
                    let scalar = left.scalar(expr);
                    match scalar {
                        Scalar::Slot(slot) => slot,
                        scalar => left.push_step(Step::Key(scalar), Some(part.right), self.name(part.right)),
                    }
                }
            };
            left_key.push(slot);
        }
        let atoms: BTreeSet<usize> = left.atoms.union(&right.atoms).copied().collect();
        let live = self.live(&atoms);
        let right_key: Vec<Slot> = parts.iter().map(|part| right.slot(part.right)).collect();
        let key_variables: Vec<VariableId> = parts.iter().map(|part| part.right).collect();
        let left_value = left.values(&live, &key_variables);
        let right_value = right.values(&live, &key_variables);
        let mut slots: Vec<Option<VariableId>> = key_variables.iter().copied().map(Some).collect();
        slots.extend(left_value.iter().map(|slot| left.slots[*slot]));
        slots.extend(right_value.iter().map(|slot| right.slots[*slot]));
        let left_distinct = self.settle_duplicates(&mut left, &left_key, &left_value);
        let right_distinct = self.settle_duplicates(&mut right, &right_key, &right_value);
        let left = left.arrange(left_key, left_value, left_distinct);
        let right = right.arrange(right_key, right_value, right_distinct);

        let mut knowledge = left.knowledge;
        knowledge.join(&right.knowledge);
        let bound: Variables = slots.iter().flatten().copied().collect();
        let failure = (left.tree.failure, right.tree.failure);
        let mut partial = Partial {
            names: slots
                .iter()
                .map(|slot| slot.map_or_else(String::new, |variable| self.name(variable)))
                .collect(),
            source: SourceTree::Join { left: Box::new(left.tree), right: Box::new(right.tree) },
            steps: Vec::new(),
            slots,
            atoms,
            failing: left
                .failing
                .union(&right.failing)
                .filter(|variable| bound.contains(variable))
                .copied()
                .collect(),
            bound,
            knowledge,
            failed: failure.0 || failure.1,
        };
        self.apply_items(&mut partial);
        partial
    }

    /// Whether bindings that become equal once columns are dropped are made one here.
    fn settle_duplicates(&self, partial: &mut Partial, key: &[Slot], value: &[Slot]) -> bool {
        if self.variant != (Variant::Main { distinct: true }) {
            return false;
        }
        let kept: Variables = key.iter().chain(value).filter_map(|slot| partial.slots[*slot]).collect();
        let distinct = !partial.knowledge.is_unique(&kept);
        if distinct {
            partial.knowledge.make_distinct(&kept);
        }
        distinct
    }

    /// Applies items at the start of a chain only if that spares rows: else an arrangement of the table, which others
    /// can share, does.
    fn apply_items_unless_cheap(&mut self, partial: &mut Partial) {
        let spares = |item: &Item<'_>| match item.what {
            What::Let { expr, .. } => may_be_none(expr),
            What::Generate { .. } | What::Filter(_) => true,
        };
        let ready = |item: &Item<'_>| item.uses.is_subset(&partial.bound);
        let any = self
            .body
            .items
            .iter()
            .zip(&self.applied)
            .any(|(item, done)| !done && ready(item) && spares(item));
        if any {
            self.apply_items(partial);
        }
    }

    /// Applies every item whose variables are bound.
    fn apply_items(&mut self, partial: &mut Partial) {
        let body = self.body;
        while let Some(at) = (0..body.items.len())
            .find(|&at| !self.applied[at] && body.items[at].uses.is_subset(&partial.bound))
        {
            self.applied[at] = true;
            let item = &body.items[at];
            let fails = item.may_fail || !item.uses.is_disjoint(&partial.failing);
            match item.what {
                What::Let { variable, expr } => {
                    let step = Step::Let(partial.scalar(expr));
                    partial.push_step(step, Some(variable), self.name(variable));
                    partial.bound.insert(variable);
                    if fails {
                        partial.failing.insert(variable);
                    }
                }
                What::Filter(expr) => {
                    let scalar = partial.scalar(expr);
                    let only_failures = self.variant == (Variant::Failure { item: at });
                    partial.steps.push(if only_failures {
                        Step::Failed(scalar)
                    } else {
                        Step::Filter(scalar)
                    });
                    partial.failed |= item.may_fail;
                }
                What::Generate { function, arguments, results } => {
                    let live = self.live(&partial.atoms);
                    let wanted: Vec<bool> = results
                        .iter()
                        .map(|result| result.is_some_and(|result| live.contains(&result)))
                        .collect();
                    let arguments = arguments.iter().map(|argument| partial.scalar(argument)).collect();
                    partial.steps.push(Step::Generate {
                        function: function.clone(),
                        arguments,
                        wanted: wanted.clone(),
                    });
                    for (result, _) in results.iter().zip(&wanted).filter(|(_, wanted)| **wanted) {
                        let Some(variable) = *result else { continue };
                        partial.slots.push(Some(variable));
                        partial.names.push(self.name(variable));
                        partial.bound.insert(variable);
                        if fails {
                            partial.failing.insert(variable);
                        }
                    }
                    // A result that nobody wants is bound as far as the order of items is concerned.
                    partial.failed |= fails && !wanted.contains(&true);
                    partial.knowledge.rows.push(None);
                }
            }
        }
    }
}

/// A partial result that is arranged.
struct Arranged {
    tree: ArrangementTree,
    knowledge: Knowledge,
    failing: Variables,
}

impl Partial {
    pub(crate) fn unit() -> Self {
        Partial {
            source: SourceTree::Unit,
            steps: Vec::new(),
            slots: Vec::new(),
            names: Vec::new(),
            atoms: BTreeSet::new(),
            bound: Variables::new(),
            knowledge: Knowledge::default(),
            failing: Variables::new(),
            failed: false,
        }
    }

    /// The slot of a bound variable.
    pub(crate) fn slot(&self, variable: VariableId) -> Slot {
        let slot = self.slots.iter().position(|slot| *slot == Some(variable));
        slot.expect("the planner asks for bound variables only")
    }

    fn push_step(&mut self, step: Step, variable: Option<VariableId>, name: String) -> Slot {
        self.steps.push(step);
        self.slots.push(variable);
        self.names.push(name);
        self.slots.len() - 1
    }

    /// The expression over this chain's slots.
    pub(crate) fn scalar(&self, expr: &Expr) -> Scalar {
        match expr {
            Expr::Variable(variable) => Scalar::Slot(self.slot(*variable)),
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

    /// The slots of the live variables that are not in the key.
    fn values(&self, live: &Variables, key: &[VariableId]) -> Vec<Slot> {
        let wanted = |variable: &VariableId| live.contains(variable) && !key.contains(variable);
        (0..self.slots.len())
            .filter(|slot| {
                self.slots[*slot].is_some_and(|variable| wanted(&variable) && self.slot(variable) == *slot)
            })
            .collect()
    }

    fn arrange(mut self, mut key: Vec<Slot>, mut value: Vec<Slot>, distinct: bool) -> Arranged {
        let kept: Variables = key.iter().chain(&value).filter_map(|slot| self.slots[*slot]).collect();
        let failure = self.failed || !self.failing.is_subset(&kept);
        let failing = self.failing.intersection(&kept).copied().collect();
        // Columns that no one looks at are not even read, so that equal arrangements are seen to be equal.
        if let (SourceTree::Table { columns, .. }, []) = (&mut self.source, self.steps.as_slice()) {
            let used: Vec<Slot> =
                (0..columns.len()).filter(|slot| key.contains(slot) || value.contains(slot)).collect();
            let place = |slot: &Slot| used.iter().position(|other| other == slot).unwrap_or_default();
            key = key.iter().map(place).collect();
            value = value.iter().map(place).collect();
            *columns = used.iter().map(|slot| columns[*slot]).collect();
            self.names = used.iter().map(|slot| self.names[*slot].clone()).collect();
        }
        let chain = ChainTree { source: self.source, steps: self.steps, names: self.names };
        let tree = ArrangementTree { chain, key, value, failure, distinct };
        Arranged { tree, knowledge: self.knowledge, failing }
    }

    fn into_chain(self) -> ChainTree {
        ChainTree { source: self.source, steps: self.steps, names: self.names }
    }
}

//! Switches a running engine from one plan to another and keeps its rows: for edits of rules and for re-planning.
//!
//! Traces, indexes and groups that both plans have move to the new state. Rows derived by a removed rule are retracted,
//! rows derived by a new rule are added, and everything else follows as in any transaction. The cost of an edit is
//! therefore proportional to its effect. Everything new is staged until the edit is accepted, and the moved state can
//! be moved back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use nlog::program::{BodyItem, HeadTerm, Rule, define_all};
use nlog_data::TableId;
use nlog_plan::query::{Joins, Plan, RelationId, RulePlan};

use super::bounded::Running;
use super::delta::Delta;
use super::engine::State;
use super::errors::Refusal;
use super::hooks::Filling;
use super::rule::Part;
use super::trace::View;

/// The parts of an engine's previous state that did not move to the new program.
pub(crate) struct Former {
    state: State,
    moves: Moves,
}

/// The construction of a state from another one.
struct Transition<'a> {
    old: &'a State,
    inputs: &'a dyn Fn(TableId) -> Delta,
    /// By new relation, the old relation that it continues.
    from: Vec<Option<usize>>,
    /// By new rule, the equal old rule.
    rules: Vec<Option<usize>>,
    /// By new relation, the rows derived by removed rules.
    gone: Vec<(RelationId, Delta)>,
    /// By new relation, the counts that its readers have seen in excess.
    surplus: Vec<(RelationId, Delta)>,
}

/// Switches to a new plan. Stages and propagates the edit in the new state. The caller then ends the edit, and after a
/// refusal returns to the old state with [`Former::restore`]. `former_inputs` and `inputs` return the rows of input
/// tables by the tables' ids in the old and in the new program. Hooks follow if there is a `filling`. The edit stops at its bound:
/// `running` counts what the rules of the new plan derive, and `leaving` what those of the old one do that is taken away or read again.
pub(crate) fn change(
    mut old: State,
    (plan, leaving, running): (Arc<Plan>, Option<Arc<Running>>, Option<Arc<Running>>),
    attribute: bool,
    facts: bool,
    former_inputs: &dyn Fn(TableId) -> Delta,
    inputs: &dyn Fn(TableId) -> Delta,
    filling: Option<Filling<'_>>,
) -> (State, Former, Result<(), Refusal>) {
    let mut new = State::new(plan, Arc::clone(&old.symbols), attribute);
    if !facts {
        // Nothing is derived yet.
        return (new, Former { state: old, moves: Moves::default() }, Ok(()));
    }
    old.begin_leaving(leaving);
    let mut transition = Transition::new(&old, &new, former_inputs);
    let filled = transition.take_away(&new).and_then(|()| transition.fill(&mut new));
    let newly_forbidding = transition.newly_forbidding(&new);
    let Transition { rules, gone, surplus, .. } = transition;
    let stopped = old.end_leaving();
    let moves = match filled.and_then(|moves| stopped.map(|()| moves)) {
        Ok(moves) => moves,
        Err(refusal) => return (new, Former { state: old, moves: Moves::default() }, Err(refusal)),
    };
    new.renumber(&old, &rules);
    let mut former = Former { state: old, moves };
    former.swap(&mut new);
    let fresh = (0..new.rules.len()).filter(|rule| rules[*rule].is_none()).collect();
    new.running = running;
    let result = new.edit(fresh, gone, surplus, newly_forbidding, inputs, filling);
    (new, former, result)
}

impl<'a> Transition<'a> {
    fn new(old: &'a State, new: &State, inputs: &'a dyn Fn(TableId) -> Delta) -> Self {
        let from = continued(&old.plan, &new.plan);
        // A rule continues if it has the same text, reads the same relations, and its head continues.
        let mut known: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, rule) in old.plan.rules.iter().enumerate() {
            known.entry(definition(&old.plan, rule)).or_default().push(at);
        }
        let mut rules: Vec<Option<usize>> = (new.plan.rules.iter())
            .map(|rule| {
                let head = from[rule.head.0 as usize]?;
                let alike = known.get_mut(&definition(&new.plan, rule))?;
                // A name does not identify a stage, because it depends on the stages before it: equal stages can have
                // different names, and different stages the same name.
                let reads =
                    |joins: &Joins| joins.atoms.iter().map(|atom| atom.0 as usize).collect::<Vec<_>>();
                let of_rule =
                    reads(&rule.body).into_iter().map(|atom| from[atom]).collect::<Option<Vec<_>>>()?;
                let same = alike.iter().position(|at| {
                    let before = &old.plan.rules[*at];
                    before.head.0 as usize == head && reads(&before.body) == of_rule
                })?;
                Some(alike.swap_remove(same))
            })
            .collect();
        // A rule that goes through another rule continues only if the other rule continues.
        let goes_on = |relation: &RelationId| {
            let of_relation = new.plan.rules.iter().zip(&rules).filter(|(rule, _)| rule.head == *relation);
            of_relation.map(|(_, before)| before).all(Option::is_some)
        };
        let changed = |rule: &RulePlan| !rule.through.iter().all(goes_on);
        let changed: Vec<usize> = (0..rules.len()).filter(|at| changed(&new.plan.rules[*at])).collect();
        for at in changed {
            rules[at] = None;
        }
        Transition { old, inputs, from, rules, gone: Vec::new(), surplus: Vec::new() }
    }

    /// The relations that forbid their rows, and continue relations that allowed them.
    fn newly_forbidding(&self, new: &State) -> Vec<RelationId> {
        let relations = (0..).map(RelationId).zip(&self.from);
        let allowed =
            |before: &Option<usize>| before.is_some_and(|at| !self.old.plan.forbids(RelationId(at as u32)));
        relations.filter(|(id, before)| new.plan.forbids(*id) && allowed(before)).map(|(id, _)| id).collect()
    }

    /// Retracts the rows derived by removed rules from the relations that continue.
    fn take_away(&mut self, new: &State) -> Result<(), Refusal> {
        let stay: BTreeSet<usize> = self.rules.iter().flatten().copied().collect();
        for (at, before) in self.from.iter().enumerate() {
            let Some(before) = *before else { continue };
            let attributed = new.relations[at].split.attributed;
            let is_removed = |rule: usize| !stay.contains(&rule);
            let mut gone = self.old.derived_rows(before, attributed, is_removed, self.inputs)?;
            if !gone.is_empty() {
                gone.negate();
                self.gone.push((RelationId(at as u32), gone));
            }
        }
        Ok(())
    }

    /// Fills indexes and counts that the old state lacks. Returns those that it has, as pairs of old and new positions.
    fn fill(&mut self, new: &mut State) -> Result<Moves, Refusal> {
        let mut moves = Moves::default();
        let mut taken = BTreeSet::new();
        for at in 0..new.indexes.len() {
            let relation = new.indexes[at].relation.0 as usize;
            let Some(before) = self.from[relation] else { continue };
            let wanted = &new.plan.indexes[at];
            let found = (0..self.old.indexes.len()).find(|old| {
                let had = &self.old.plan.indexes[*old];
                had.relation.0 as usize == before
                    && (&had.select, &had.key, &had.value) == (&wanted.select, &wanted.key, &wanted.value)
                    && !taken.contains(old)
            });
            if let Some(old) = found {
                taken.insert(old);
                moves.indexes.push((old, at));
                continue;
            }
            let (id, fit) = (RelationId(before as u32), &new.indexes[at].fit);
            let rows = self.old.rows_that_fit(id, View::Before, fit, self.inputs)?;
            let too_many = |_| Refusal::TooMany(RelationId(relation as u32));
            new.indexes[at].stage(&rows).map_err(too_many)?;
            new.indexes[at].trace.publish_if_touched();
        }
        for at in 0..new.relations.len() {
            let Some(before) = self.from[at] else { continue };
            if !new.is_derived(RelationId(at as u32)) {
                continue;
            }
            if self.old.relations[before].keeps_rows() {
                // Readers have seen each row with the count 1 so far, and must continue to do so.
                new.relations[at].keep_counts();
            }
            if !new.relations[at].keeps_rows() {
                continue;
            }
            let (had, has) = (&self.old.relations[before], &new.relations[at]);
            if had.keeps_rows() && had.split == has.split {
                moves.counts.push((before, at));
            } else {
                self.count(new, at, before)?;
            }
        }
        for (at, before) in self.rules.iter().enumerate() {
            if let Some(before) = before.filter(|before| self.old.rules[*before].groups.is_some()) {
                moves.groups.push((before, at));
            }
        }
        Ok(moves)
    }

    /// Counts the rows of a relation that was not counted, or was counted in another form.
    fn count(&mut self, new: &mut State, at: usize, before: usize) -> Result<(), Refusal> {
        let attributed = new.relations[at].split.attributed;
        let derived = self.old.derived_rows(before, attributed, |_| true, self.inputs)?;
        let symbols = Arc::clone(&new.symbols);
        let numbers = self.old.numbers.clone();
        let relation = &mut new.relations[at];
        let counted = relation.count_first(derived, &symbols, &numbers);
        counted.map_err(|_| Refusal::TooMany(RelationId(at as u32)))?;
        if !self.old.relations[before].keeps_rows() {
            // Readers have seen each row as many times as rules derive it; from now on they see it once.
            let mut surplus = self.old.rows(RelationId(before as u32), View::Before, self.inputs)?;
            surplus.negate();
            for (row, _) in surplus.clone().rows() {
                surplus.push(row, 1);
            }
            surplus.consolidate().map_err(|_| Refusal::TooMany(RelationId(at as u32)))?;
            if !surplus.is_empty() {
                self.surplus.push((RelationId(at as u32), surplus));
            }
        }
        Ok(())
    }
}

/// By relation of the new plan, the relation of the old one that it continues.
pub(crate) fn continued(old: &Plan, new: &Plan) -> Vec<Option<usize>> {
    let by_name: BTreeMap<&str, usize> =
        old.relations.iter().zip(0..).map(|(relation, at)| (&*relation.name, at)).collect();
    let continued = new.relations.iter().zip(0..).map(|(relation, id)| {
        let at = *by_name.get(&*relation.name)?;
        let before = &old.relations[at];
        let inputs = (old.is_input(RelationId(at as u32)), new.is_input(RelationId(id)));
        // Rows of inputs are present whether or not rules needed them.
        let kept = inputs == (true, true) || (inputs == (false, false) && before.needed && relation.needed);
        (kept && before.columns.len() == relation.columns.len()).then_some(at)
    });
    continued.collect()
}

/// The state that moves from an old program to a new one.
#[derive(Debug, Default)]
struct Moves {
    indexes: Vec<(usize, usize)>,
    counts: Vec<(usize, usize)>,
    groups: Vec<(usize, usize)>,
}

impl Former {
    /// Moves the shared state to the new program, or back.
    fn swap(&mut self, new: &mut State) {
        let old = &mut self.state;
        for (before, after) in &self.moves.indexes {
            std::mem::swap(&mut old.indexes[*before].trace, &mut new.indexes[*after].trace);
        }
        for (before, after) in &self.moves.counts {
            std::mem::swap(&mut old.relations[*before].counts, &mut new.relations[*after].counts);
        }
        for (before, after) in &self.moves.groups {
            let groups = (&mut old.rules[*before].groups, &mut new.rules[*after].groups);
            if let (Some(before), Some(after)) = groups {
                std::mem::swap(&mut before.trace, &mut after.trace);
            }
        }
    }

    /// Completes a switch to another plan of the same program, after the new state's changes were accepted. Carries
    /// over the counters of pipelines and relations.
    pub(crate) fn accept(self, mut new: State) -> State {
        let old = self.state;
        for (after, of_plan) in new.relations.iter_mut().zip(&new.plan.relations) {
            let before = old.plan.relations.iter().position(|before| before.name == of_plan.name);
            after.changes += before.map_or(0, |before| old.relations[before].changes);
        }
        for (after, of_plan) in new.rules.iter_mut().zip(&new.plan.rules) {
            // Stages of different plans do not correspond to each other.
            let Some(table) = new.plan.relations[of_plan.head.0 as usize].table else { continue };
            let is_same = |rule: &RulePlan| {
                rule.rule == of_plan.rule && old.plan.relations[rule.head.0 as usize].table == Some(table)
            };
            let Some(at) = old.plan.rules.iter().position(is_same) else { continue };
            let before = old.rules[at].parts.iter();
            for (part, former) in after.parts.iter_mut().zip(before) {
                for pipeline in &mut part.pipelines {
                    let begins = |part: &Part, atom: Option<usize>| atom.map(|atom| part.atoms[atom]);
                    let mine = pipeline.atom.map(|atom| part.atoms[atom]);
                    let same = former.pipelines.iter().find(|before| begins(former, before.atom) == mine);
                    pipeline.work = same.map_or(pipeline.work, |same| same.work);
                }
            }
        }
        new
    }

    /// Returns to the old state after the new state's staged changes were dropped.
    pub(crate) fn restore(mut self, mut new: State) -> State {
        self.swap(&mut new);
        self.state
    }
}

/// The definition of a rule: its text with resolved names, and stages identified by their contents.
fn definition(plan: &Plan, rule: &RulePlan) -> String {
    let head = &plan.relations[rule.head.0 as usize];
    // A fingerprint alone does not identify a rule: rules of hidden tables share that of the rule from which they were
    // generated, and stages share that of their reader.
    let name = if head.table.is_some() { &*head.name } else { "" };
    let mut text = name.to_owned();
    write_rule(plan, plan.program.rule(rule.rule), &mut text);
    if head.table.is_none() {
        // One rule can have several stages over the same tables that differ in atoms or columns.
        let stages =
            plan.rules.iter().filter(|other| other.rule == rule.rule).flat_map(|other| &other.stages);
        let of = stages.filter(|stage| stage.relation == rule.head).map(|stage| &stage.of);
        let _ = write!(text, " stage {:?} of {:?}", head.columns, of.collect::<Vec<_>>());
    }
    for atom in &rule.body.atoms {
        let relation = &plan.relations[atom.0 as usize];
        text.push(' ');
        if relation.table.is_some() {
            text.push_str(&relation.name);
        } else {
            text.push('(');
            for of_stage in plan.rules.iter().filter(|of_stage| of_stage.head == *atom) {
                text.push_str(&definition(plan, of_stage));
            }
            text.push(')');
        }
    }
    // Pipelines that go through a table's rule depend on that rule's definition.
    for relation in &rule.through {
        for of_table in plan.rules.iter().filter(|of_table| of_table.head == *relation) {
            let _ = write!(text, " through ({})", definition(plan, of_table));
        }
    }
    text
}

fn write_rule(plan: &Plan, rule: &Rule, text: &mut String) {
    let program = &plan.program;
    let _ = write!(text, " {:016x}", rule.fingerprint);
    for term in &rule.terms {
        match term {
            HeadTerm::Value(expr) => expr.define(text),
            HeadTerm::Aggregate { aggregate, arguments } => {
                let _ = write!(text, " {aggregate:?}");
                define_all(arguments, text);
            }
        }
    }
    for item in &rule.body {
        match item {
            BodyItem::Atom { table, terms, .. } => {
                let name = &program.schema.table(*table).name;
                let _ = write!(text, " {name}{terms:?}");
                if plan.inlined.contains(name) {
                    for (_, inlined) in program.rules_of(*table) {
                        text.push_str(" inlined (");
                        write_rule(plan, inlined, text);
                        text.push(')');
                    }
                }
            }
            BodyItem::Let { variable, expr } => {
                let _ = write!(text, " {variable:?}");
                expr.define(text);
            }
            BodyItem::Generate { function, arguments, results } => {
                let _ = write!(text, " {}{results:?}", function.identity());
                define_all(arguments, text);
            }
            BodyItem::Filter(expr) => expr.define(text),
        }
    }
}

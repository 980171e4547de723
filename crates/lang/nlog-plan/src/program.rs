//! Plans all rules: inlining, stages and shared indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{Role, RuleId, TableId};
use serde::{Deserialize, Serialize};

use crate::body::Body;
use crate::cost::{Cost, Duplicates, estimate};
use crate::draft::Aim;
use crate::estimate::{Estimate, Estimates, Facts};
use crate::indexes::{Indexes, settle};
use crate::inline::{MOST_ATOMS, inline, joins_computed};
use crate::joins::RulePlanner;
use crate::order::Search;
use crate::pinned::{Orders, Pinned, PinnedJoins, PinnedOrders, PinnedRule, key, labels};
use crate::plan::Keep;
use crate::query::{Plan, Relation, RelationId, RulePlan, Stage};
use crate::stage::Split;
use crate::statistics::Statistics;
use crate::tables::{keys_that_hold, needed, rule_may_fail};
use crate::unfold::{Place, Reader, Unfolding};

/// The most stages of a rule that serve only to reduce its cost.
const STAGES: usize = 3;

/// The settings of a planner.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The statistics of the tables.
    pub statistics: Option<Arc<Statistics>>,
    /// Choices to repeat from an earlier plan.
    pub pinned: Option<Pinned>,
    /// Whether to create no stages, except those that bound the number of derivations of a row.
    pub without_stages: bool,
    /// Whether to inline no tables.
    pub without_inlining: bool,
}

impl Plan {
    /// Plans the wanted tables, those that hooks read or that forbid their rows, and every rule that can cause an error.
    pub fn new(program: Arc<Program>, wanted: &BTreeSet<TableId>, settings: &Settings) -> Self {
        let mut planner = Planner::new(&program, wanted, settings);
        planner.estimate();
        planner.inline();
        planner.split();
        let (relations, rules, indexes) = planner.lower();
        let Planner { inlined, warnings, .. } = planner;
        let hook_stages = program.hook_stages();
        Plan {
            program,
            settings: settings.clone(),
            relations,
            indexes,
            rules,
            hook_stages,
            inlined,
            warnings,
        }
    }

    /// The table of a relation. For a stage, the table of the first rule that uses it.
    ///
    /// # Panics
    /// If the relation belongs to another plan.
    pub fn table_of(&self, relation: RelationId) -> TableId {
        let of_stage = || {
            let rule = self.rules.iter().find(|rule| rule.head == relation);
            self.program.rule(rule.expect("a stage has a rule").rule).head
        };
        self.program.schema.shown(self.relations[relation.0 as usize].table.unwrap_or_else(of_stage))
    }

    /// Whether the relation is a table that forbids its rows.
    ///
    /// # Panics
    /// If the relation belongs to another plan.
    pub fn forbids(&self, relation: RelationId) -> bool {
        let table = self.relations[relation.0 as usize].table;
        table.is_some_and(|table| self.program.schema.table(table).role == Role::Forbid)
    }

    /// Whether the relation is an input table, one that a hook fills or one that transactions change.
    ///
    /// # Panics
    /// If the relation belongs to another plan.
    pub fn is_input(&self, relation: RelationId) -> bool {
        let table = self.relations[relation.0 as usize].table;
        table.is_some_and(|table| self.program.schema.table(table).role == Role::Input)
    }

    /// Plans the output tables.
    pub fn for_outputs(program: Arc<Program>) -> Self {
        let outputs = program.schema.iter().filter(|(_, table)| table.role == Role::Output);
        let wanted = outputs.map(|(id, _)| id).collect();
        Plan::new(program, &wanted, &Settings::default())
    }
}

/// A plan in the making.
struct Planner<'a> {
    program: &'a Program,
    wanted: &'a BTreeSet<TableId>,
    /// The tables whose rows others than rules read: those wanted, and the sources of hooks.
    read: BTreeSet<TableId>,
    settings: &'a Settings,
    keys_hold: Vec<bool>,
    needed: Vec<bool>,
    /// The bodies of the needed rules.
    bodies: BTreeMap<RuleId, Body>,
    /// Estimates, by relation.
    estimates: Vec<Estimate>,
    inlined: Vec<String>,
    /// The stages in a rule's body, by rule.
    stages_of: BTreeMap<RuleId, Vec<Stage>>,
    stages: Vec<StageDraft>,
    warnings: Vec<String>,
}

/// A stage in the making.
struct StageDraft {
    /// The first rule that it was made for.
    rule: RuleId,
    body: Body,
    name: String,
    columns: Vec<String>,
    pinned: Option<PinnedOrders>,
}

impl<'a> Planner<'a> {
    fn new(program: &'a Program, wanted: &'a BTreeSet<TableId>, settings: &'a Settings) -> Self {
        let keys_hold = keys_that_hold(program);
        let needed = needed(program, wanted, &keys_hold);
        let read = program.hooks.iter().map(|wiring| wiring.from).chain(wanted.iter().copied()).collect();
        let rules = program.rules.iter().zip(0..).filter(|(rule, _)| needed[rule.head.0 as usize]);
        let bodies = rules.map(|(rule, id)| (RuleId(id), Body::new(rule, &program.schema))).collect();
        Planner {
            program,
            wanted,
            read,
            settings,
            keys_hold,
            needed,
            bodies,
            estimates: Vec::new(),
            inlined: Vec::new(),
            stages_of: BTreeMap::new(),
            stages: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Estimates all tables.
    fn estimate(&mut self) {
        let statistics = self.settings.statistics.as_deref();
        let tables = self.program.schema.iter();
        self.estimates = tables.map(|(_, table)| Estimate::of_input(table, statistics)).collect();
        for table in &self.program.order {
            if let Some(wiring) = self.program.hook_of(*table) {
                let source = self.estimates[wiring.from.0 as usize].clone();
                let declared = self.program.schema.table(*table);
                self.estimates[table.0 as usize] = source.of_hook(declared).corrected(declared, statistics);
                continue;
            }
            let (mut facts, mut without_atoms) = (Facts::default(), Vec::new());
            let mut derived: Option<Estimate> = None;
            for (rule, _) in self.program.rules_of(*table) {
                let Some(body) = self.bodies.get(&rule) else { continue };
                if facts.add(body) {
                    continue;
                }
                let more = estimate(&Search::new(body, Aim::Main, Estimates::new(&self.estimates)), body);
                if body.atoms.is_empty() {
                    without_atoms.push(more);
                } else {
                    derived = Some(derived.map_or(more.clone(), |others| others.or(&more)));
                }
            }
            without_atoms.extend(facts.estimate());
            let derived = match (Estimate::of_all(without_atoms), derived) {
                (Some(facts), Some(derived)) => Some(facts.or(&derived)),
                (facts, derived) => facts.or(derived),
            };
            if let Some(derived) = derived {
                let declared = self.program.schema.table(*table);
                self.estimates[table.0 as usize] = derived.of_types(declared).corrected(declared, statistics);
            }
        }
    }

    /// Replaces atoms by the rules of their tables.
    fn inline(&mut self) {
        let pinned = self.settings.pinned.as_ref();
        for name in pinned.iter().flat_map(|pinned| &pinned.inlined) {
            if self.program.schema.iter().all(|(_, table)| table.name != *name) {
                self.warnings
                    .push(format!("the pinned plan inlines {name}, which is not a table of the program"));
            }
        }
        for table in &self.program.order {
            let name = &self.program.schema.table(*table).name;
            let asked = pinned.map(|pinned| pinned.inlined.contains(name));
            if asked == Some(false) || (asked.is_none() && self.settings.without_inlining) {
                continue;
            }
            let inlined = self.inlined_reader(*table).filter(|(rule, reader, with)| {
                asked == Some(true) || self.is_worth_inlining(*table, *rule, *reader, with)
            });
            match inlined {
                Some((rule, reader, with)) => {
                    self.bodies.remove(&rule);
                    self.bodies.insert(reader, with);
                    self.needed[table.0 as usize] = false;
                    self.inlined.push(name.clone());
                }
                None if asked == Some(true) => {
                    self.warnings
                        .push(format!("the pinned plan inlines {name}, which cannot be inlined here"));
                }
                None => {}
            }
        }
    }

    /// The only rule of a table, and the body that reads the table, with the rule inlined. `None` if the table must
    /// stay, if several atoms read it, because each of them would compute its rows, or if they look it up by values that the rule
    /// computes, because no index has these.
    fn inlined_reader(&self, table: TableId) -> Option<(RuleId, RuleId, Body)> {
        let at = table.0 as usize;
        let declared = self.program.schema.table(table);
        let is_internal = matches!(declared.role, Role::Internal | Role::Hidden);
        let is_checked = declared.key.is_some() && !self.keys_hold[at];
        if !is_internal || is_checked || !self.needed[at] || self.read.contains(&table) {
            return None;
        }
        let mut rules = self.program.rules_of(table).map(|(rule, _)| rule);
        let (Some(rule), None) = (rules.next(), rules.next()) else { return None };
        let body = self.bodies.get(&rule)?;
        if body.atoms.is_empty() || body.is_grouped() || rule_may_fail(body) {
            return None;
        }
        let reads = |reader: &Body| {
            let atoms = reader.atoms.iter().enumerate();
            atoms.filter(|(_, atom)| atom.relation == RelationId(table.0)).map(|(at, _)| at).collect()
        };
        let mut readers = self.bodies.iter().flat_map(|(reader, body)| {
            let atoms: Vec<usize> = reads(body);
            atoms.into_iter().map(move |at| (*reader, body, at))
        });
        let (Some((reader, before, at)), None) = (readers.next(), readers.next()) else { return None };
        if joins_computed(before, at, body) {
            return None;
        }
        let after = inline(before, at, body, self.program)?;
        (after.atoms.len() <= MOST_ATOMS).then_some((rule, reader, after))
    }

    /// Whether evaluating the reader with the inlined rule costs no more than before.
    fn is_worth_inlining(&self, table: TableId, rule: RuleId, reader: RuleId, with: &Body) -> bool {
        let duplicates = self.duplicates(self.program.rule(reader).head);
        let inlined = self.costs(with, duplicates);
        let mut apart = self.costs(&self.bodies[&reader], duplicates);
        apart.extend(self.costs(&self.bodies[&rule], self.duplicates(table)));
        Cost::total(&inlined) <= Cost::total(&apart)
    }

    /// The cost of a body, with its best stage if it has one.
    fn costs(&self, body: &Body, duplicates: Duplicates) -> Vec<Cost> {
        let split = if self.settings.without_stages {
            None
        } else {
            Split::best(body, duplicates, Estimates::new(&self.estimates))
        };
        match split {
            None => vec![Cost::new(body, duplicates, Estimates::new(&self.estimates))],
            Some(split) => split.costs(duplicates, Estimates::new(&self.estimates)),
        }
    }

    /// Whether the rows of a table matter: it is wanted, it forbids its rows, or a rule, a stage or a hook reads it.
    fn is_read(&self, table: TableId) -> bool {
        if self.program.schema.table(table).role == Role::Forbid {
            return true;
        }
        let relation = RelationId(table.0);
        // An atom that moved into a stage is no longer in any rule's body.
        let of_stages = self.stages.iter().map(|stage| &stage.body);
        let mut atoms = self.bodies.values().chain(of_stages).flat_map(|body| &body.atoms);
        self.read.contains(&table) || atoms.any(|atom| atom.relation == relation)
    }

    /// The treatment of duplicates in a table.
    fn duplicates(&self, table: TableId) -> Duplicates {
        let declared = self.program.schema.table(table);
        if declared.key.is_some() && !self.keys_hold[table.0 as usize] {
            return Duplicates::AlwaysCounted;
        }
        // In a table that is never read, only failures matter.
        if !self.is_read(table) {
            return Duplicates::Ignored;
        }
        let mut rules = self.program.rules_of(table).filter_map(|(rule, _)| self.bodies.get(&rule));
        match (rules.next(), rules.next()) {
            (Some(body), None) if !body.is_grouped() => Duplicates::Counted,
            _ => Duplicates::AlwaysCounted,
        }
    }

    /// Makes stages.
    fn split(&mut self) {
        let mut known: HashMap<String, RelationId> = HashMap::new();
        for table in &self.program.order {
            let duplicates = self.duplicates(*table);
            let rules: Vec<RuleId> = self.program.rules_of(*table).map(|(rule, _)| rule).collect();
            for rule in rules {
                self.split_rule(rule, duplicates, &mut known);
            }
        }
    }

    fn split_rule(&mut self, rule: RuleId, duplicates: Duplicates, known: &mut HashMap<String, RelationId>) {
        let pinned = self.pinned_rule(rule);
        for at in 0.. {
            let Some(body) = self.bodies.get(&rule) else { return };
            let stage_pin = pinned.and_then(|pinned| pinned.stages.get(at));
            let next = RelationId(self.estimates.len() as u32);
            let own = self.own_stages(rule);
            let names = labels(&body.relations(), &own, &|relation| self.name(relation));
            let split = match (pinned, stage_pin) {
                (Some(_), Some(pin)) => {
                    let atom = |name: &String| names.iter().position(|label| label == name);
                    let atoms = pin.of.iter().map(atom).collect::<Option<Vec<usize>>>();
                    let split = atoms.and_then(|atoms| Split::new(body, &atoms, next));
                    if split.is_none() {
                        self.warnings.push(self.misfit(
                            rule,
                            &format!(
                                "stage {} does not match any part of the \
                            body",
                                at + 1
                            ),
                        ));
                    }
                    split
                }
                (None, _) if at < STAGES && !self.settings.without_stages => {
                    Split::best(body, duplicates, Estimates::new(&self.estimates))
                }
                _ => None,
            };
            let split = split.or_else(|| Split::needed(body, duplicates, Estimates::new(&self.estimates)));
            let Some(mut split) = split else { return };
            let orders =
                stage_pin.and_then(|pin| self.pinned_orders(rule, &pin.orders, &[], &split.stage, &own));
            let identity = split.stage.identity();
            let of = split.atoms.iter().map(|atom| names[*atom].clone()).collect();
            let relation = *known.entry(identity).or_insert(next);
            if relation == next {
                let search = Search::new(&split.stage, Aim::Main, Estimates::new(&self.estimates));
                self.estimates.push(estimate(&search, &split.stage));
                let head = &self.program.schema.table(self.program.rule(rule).head).name;
                let number = self
                    .stages
                    .iter()
                    .filter(|stage| self.program.rule(stage.rule).head == self.program.rule(rule).head)
                    .count()
                    + 1;
                let (name, columns) = (format!("{head}/{number}"), split.columns());
                self.stages.push(StageDraft { rule, body: split.stage, name, columns, pinned: orders });
            }
            split.rest.atoms[0].relation = relation;
            self.bodies.insert(rule, split.rest);
            self.stages_of.entry(rule).or_default().push(Stage { relation, of });
        }
    }

    fn own_stages(&self, rule: RuleId) -> Vec<RelationId> {
        self.stages_of.get(&rule).into_iter().flatten().map(|stage| stage.relation).collect()
    }

    /// The name of a relation.
    fn name(&self, relation: RelationId) -> String {
        let at = relation.0 as usize;
        match at.checked_sub(self.program.schema.len()).and_then(|stage| self.stages.get(stage)) {
            Some(stage) => stage.name.clone(),
            None => self.program.schema.table(TableId(relation.0)).name.clone(),
        }
    }

    fn pinned_rule(&self, rule: RuleId) -> Option<&'a PinnedRule> {
        self.settings.pinned.as_ref()?.rules.get(&key(self.program.rule(rule)))
    }

    fn misfit(&self, rule: RuleId, what: &str) -> String {
        let rule = self.program.rule(rule);
        let head = &self.program.schema.table(rule.head).name;
        format!("the pinned plan does not fit the rule for {head} at {}: {what}", rule.place)
    }

    /// Pinned orders of a body, by number.
    fn pinned_orders(
        &mut self,
        rule: RuleId,
        orders: &PinnedJoins,
        failures: &[PinnedJoins],
        body: &Body,
        stages: &[RelationId],
    ) -> Option<PinnedOrders> {
        let names = labels(&body.relations(), stages, &|relation| self.name(relation));
        let Some(of_body) = Orders::named(orders, &names) else {
            let atoms = names.join(", ");
            self.warnings.push(self.misfit(
                rule,
                &format!(
                    "it does not have a join order for each of \
            {atoms}"
                ),
            ));
            return None;
        };
        let failures = failures.iter().map(|orders| Orders::named(orders, &names).unwrap_or_default());
        let start = |name: &String| names.iter().position(|label| label == name);
        let through = orders.through.iter();
        let through = through.filter_map(|(name, order)| Some((start(name)?, order.clone()))).collect();
        Some(PinnedOrders { body: of_body, failures: failures.collect(), through })
    }

    /// Makes pipelines and indexes.
    fn lower(&mut self) -> (Vec<Relation>, Vec<RulePlan>, Vec<crate::query::Index>) {
        self.report_unknown_rules();
        let mut orders = BTreeMap::new();
        let pinned = self.bodies.iter().filter_map(|(rule, body)| {
            let pinned = self.pinned_rule(*rule)?;
            Some((*rule, body.clone(), pinned))
        });
        for (rule, body, pinned) in pinned.collect::<Vec<_>>() {
            let stages = self.own_stages(rule);
            if let Some(known) = self.pinned_orders(rule, &pinned.orders, &pinned.failures, &body, &stages) {
                orders.insert(rule, known);
            }
        }
        let mut readers: Vec<Reader<'_>> = Vec::new();
        for (rule, body) in &self.bodies {
            readers.push(Reader { place: Place::Rule(*rule), body, pinned: orders.get(rule) });
        }
        for (at, stage) in self.stages.iter().enumerate() {
            readers.push(Reader {
                place: Place::Stage(at),
                body: &stage.body,
                pinned: stage.pinned.as_ref(),
            });
        }
        let estimates = Estimates::new(&self.estimates);
        let labels = |place: Place, body: &Body| {
            let stages = match place {
                Place::Rule(rule) => self.own_stages(rule),
                // A stage can contain earlier stages.
                Place::Stage(at) => {
                    let mut stages = self.own_stages(self.stages[at].rule);
                    stages.retain(|stage| (stage.0 as usize) < self.program.schema.len() + at);
                    stages
                }
            };
            labels(&body.relations(), &stages, &|relation| self.name(relation))
        };
        let rules = self.unfoldable();
        let unfolded = Unfolding { program: self.program, estimates, rules, labels: &labels };
        let unfolded = unfolded.choose(&readers);
        let mut warnings = Vec::new();
        for reader in &readers {
            for start in reader.pinned.iter().flat_map(|pinned| pinned.through.keys()) {
                if !unfolded.ways.contains_key(&(reader.place, *start)) {
                    let rule = match reader.place {
                        Place::Rule(rule) => rule,
                        Place::Stage(at) => self.stages[at].rule,
                    };
                    let name = &labels(reader.place, reader.body)[*start];
                    warnings.push(self.misfit(
                        rule,
                        &format!(
                            "the pipeline from {name} cannot be unfolded this \
                        way"
                        ),
                    ));
                }
            }
        }
        let mut indexes = Indexes::default();
        let mut planner = RulePlanner { estimates, indexes: &mut indexes, unfolded: &unfolded };
        let mut rules = Vec::new();
        for reader in &readers {
            rules.push(match reader.place {
                Place::Rule(rule) => {
                    let head = RelationId(self.program.rule(rule).head.0);
                    let stages = self.stages_of.get(&rule).cloned().unwrap_or_default();
                    RulePlan { stages, ..planner.plan(rule, head, reader) }
                }
                Place::Stage(at) => {
                    let head = RelationId((self.program.schema.len() + at) as u32);
                    planner.plan(self.stages[at].rule, head, reader)
                }
            });
        }
        self.warnings.extend(warnings);
        let (indexes, places) = indexes.merge();
        for rule in &mut rules {
            for joins in std::iter::once(&mut rule.body).chain(&mut rule.failures) {
                for pipeline in &mut joins.pipelines {
                    settle(&mut pipeline.steps, &places);
                }
            }
        }
        (self.relations(), rules, indexes)
    }

    /// By table, the body of its only rule, if that rule derives each row once and cannot fail.
    fn unfoldable(&self) -> BTreeMap<RelationId, &Body> {
        let body_of = |table: &TableId| {
            let mut rules = self.program.rules_of(*table);
            let (Some((rule, _)), None) = (rules.next(), rules.next()) else { return None };
            let body = self.bodies.get(&rule)?;
            let fits = self.keep(*table) == Keep::AsIs
                && !body.atoms.is_empty()
                && !body.is_grouped()
                && body.is_unique()
                && !rule_may_fail(body);
            fits.then_some((RelationId(table.0), body))
        };
        self.program.order.iter().filter_map(body_of).collect()
    }

    fn report_unknown_rules(&mut self) {
        let known: BTreeSet<String> = self.program.rules.iter().map(key).collect();
        for (fingerprint, rule) in self.settings.pinned.iter().flat_map(|pinned| &pinned.rules) {
            if !known.contains(fingerprint) {
                let head = &rule.head;
                self.warnings.push(format!(
                    "the pinned plan has a rule for {head} with fingerprint {fingerprint}, which is not in \
                    the program"
                ));
            }
        }
    }

    /// The program's tables in order, then the stages.
    fn relations(&self) -> Vec<Relation> {
        let statistics = self.settings.statistics.as_ref();
        let tables = self.program.schema.iter().map(|(id, table)| Relation {
            name: table.name.clone(),
            table: Some(id),
            columns: table.columns.iter().map(|column| column.name.clone()).collect(),
            needed: self.needed[id.0 as usize],
            wanted: self.wanted.contains(&id),
            keep: self.keep(id),
            level: u32::from(table.role != Role::Input),
            rows: self.estimates[id.0 as usize].rows,
            counted: statistics.is_some_and(|known| known.tables.contains_key(&table.name)),
        });
        let stages = self.stages.iter().zip(&self.estimates[self.program.schema.len()..]);
        let stages = stages.map(|(stage, estimate)| Relation {
            name: stage.name.clone(),
            table: None,
            columns: stage.columns.clone(),
            needed: true,
            wanted: false,
            keep: Keep::Distinct,
            level: 1,
            rows: estimate.rows,
            counted: false,
        });
        let mut relations: Vec<Relation> = tables.chain(stages).collect();
        self.set_levels(&mut relations);
        relations
    }

    fn set_levels(&self, relations: &mut [Relation]) {
        let raise = |relations: &mut [Relation], head: RelationId, body: &Body| {
            let below = body.atoms.iter().map(|atom| relations[atom.relation.0 as usize].level).max();
            let level = &mut relations[head.0 as usize].level;
            *level = (*level).max(below.map_or(1, |below| below + 1));
        };
        let schema = &self.program.schema;
        let mut checks: BTreeMap<TableId, Vec<TableId>> = BTreeMap::new();
        for stage in self.program.hook_stages() {
            let of_stage: Vec<TableId> =
                stage.tables.iter().copied().filter(|table| schema.checks(*table).is_some()).collect();
            checks.extend(stage.hooks.iter().map(|hook| (self.program.hooks[*hook].to, of_stage.clone())));
        }
        for table in &self.program.order {
            if let Some(wiring) = self.program.hook_of(*table) {
                // What is unique among the rows that the hook depends on is known before it runs.
                let checks = checks.get(&wiring.to).into_iter().flatten().chain([&wiring.from]);
                let below = checks.map(|table| relations[table.0 as usize].level).max();
                relations[table.0 as usize].level = below.map_or(1, |below| below + 1);
            }
            for (rule, _) in self.program.rules_of(*table) {
                let first = self.program.schema.len() as u32;
                for (stage, at) in self.stages.iter().zip(first..).filter(|(stage, _)| stage.rule == rule) {
                    raise(relations, RelationId(at), &stage.body);
                }
                if let Some(body) = self.bodies.get(&rule) {
                    raise(relations, RelationId(table.0), body);
                }
            }
        }
    }

    /// The way in which the derived rows of a table become a set.
    fn keep(&self, table: TableId) -> Keep {
        let declared = self.program.schema.table(table);
        if declared.role == Role::Input || !self.needed[table.0 as usize] {
            return Keep::AsIs;
        }
        if let Some(key) = declared.key.as_ref().filter(|_| !self.keys_hold[table.0 as usize]) {
            return Keep::Key(key.clone());
        }
        let mut bodies = self.program.rules_of(table).filter_map(|(rule, _)| self.bodies.get(&rule));
        let is_set = match (bodies.next(), bodies.next()) {
            (None, _) => true,
            (Some(body), None) => body.is_grouped() || body.is_unique(),
            (Some(_), Some(_)) => false,
        };
        if is_set || !self.is_read(table) { Keep::AsIs } else { Keep::Distinct }
    }
}

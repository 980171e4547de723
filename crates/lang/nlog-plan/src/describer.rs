//! Builds the description of a plan.

use std::collections::BTreeMap;

use nlog::Program;
use nlog::program::Aggregate;
use nlog_data::{Role, Value};

use crate::describe::{
    Description, IndexDescription, InsteadDescription, PipelineDescription, RelationDescription,
    RuleDescription, StepDescription,
};
use crate::plan::{GroupColumn, Keep, Operand, Scalar, Selection};
use crate::query::{
    End, Index, IndexId, Joins, Output, Pipeline, Plan, Probe, Relation, RelationId, RulePlan, Start, Step,
};
use crate::text::rows;

impl Plan {
    /// The plan in words and figures.
    pub fn describe(&self) -> Description {
        let mut rules: Vec<(&RulePlan, RuleDescription)> =
            self.rules.iter().map(|rule| (rule, self.describe_rule(rule))).collect();
        let is_stage = |rule: &RulePlan| self.relation(rule.head).table.is_none();
        let name_of = |rule: &RulePlan| &self.program.schema.table(self.program.rule(rule.rule).head).name;
        rules.sort_by_key(|(rule, _)| (name_of(rule), rule.rule, !is_stage(rule), rule.head));
        let describe = |(id, relation)| describe_relation(relation, &self.program, self.forbids(id));
        Description {
            rules: rules.into_iter().map(|(_, rule)| rule).collect(),
            indexes: self.describe_indexes(),
            relations: (0..).map(RelationId).zip(&self.relations).map(describe).collect(),
            warnings: self.warnings.clone(),
        }
    }

    fn relation(&self, id: RelationId) -> &Relation {
        &self.relations[id.0 as usize]
    }

    fn index(&self, id: IndexId) -> &Index {
        &self.indexes[id.0 as usize]
    }

    fn describe_indexes(&self) -> Vec<IndexDescription> {
        let mut used = vec![BTreeMap::new(); self.indexes.len()];
        for rule in &self.rules {
            let head = &self.relation(rule.head).name;
            let joins = std::iter::once(&rule.body).chain(&rule.failures);
            for step in joins.flat_map(|joins| &joins.pipelines).flat_map(|pipeline| &pipeline.steps) {
                if let Step::Probe(probe) = step {
                    let users: &mut BTreeMap<String, usize> = &mut used[probe.index.0 as usize];
                    *users.entry(head.clone()).or_default() += 1;
                }
            }
        }
        let indexes = self.indexes.iter().zip(used).zip(0..);
        let describe = |((index, used_by), at): ((&Index, _), u32)| {
            let relation = self.relation(index.relation);
            let names = |columns: &[usize]| columns.iter().map(|at| relation.columns[*at].clone()).collect();
            IndexDescription {
                index: IndexId(at).to_string(),
                relation: relation.name.clone(),
                fit: index.select.iter().map(|selection| selection_text(selection, relation)).collect(),
                by: names(&index.key),
                of: names(&index.value),
                fan_out: index.fan_out,
                used_by,
            }
        };
        indexes.map(describe).collect()
    }

    fn describe_rule(&self, plan: &RulePlan) -> RuleDescription {
        let rule = self.program.rule(plan.rule);
        let full = Some(plan.body.full);
        let failures = plan.failures.iter().flat_map(|joins| self.describe_joins(joins, None));
        let groups = match &plan.output {
            Output::Rows => None,
            Output::Groups { aggregates, columns, .. } => {
                let names = names_of_groups(plan);
                let column = |column: &GroupColumn| match column {
                    GroupColumn::Group(at) => names[*at].clone(),
                    GroupColumn::Aggregate(at) => {
                        let aggregate = &aggregates[*at];
                        format!("{}({})", name_of(aggregate.aggregate), list(&aggregate.arguments, &names))
                    }
                };
                let columns: Vec<String> = columns.iter().map(column).collect();
                Some(format!("({})", columns.join(", ")))
            }
        };
        RuleDescription {
            head: self.relation(plan.head).name.clone(),
            place: rule.place.to_string(),
            rule: rule.text.to_string(),
            stage: self.relation(plan.head).table.is_none(),
            pipelines: self.describe_joins(&plan.body, full),
            groups,
            failures: failures.collect(),
        }
    }

    fn describe_joins(&self, joins: &Joins, full: Option<usize>) -> Vec<PipelineDescription> {
        let describe = |(at, pipeline): (usize, &Pipeline)| {
            let mut describer = Describer { plan: self, joins, names: Vec::new() };
            let begins = describer.begin(&pipeline.start);
            let steps = pipeline.steps.iter().map(|step| describer.step(step)).collect();
            let instead = pipeline
                .second
                .map(|second| InsteadDescription { atom: describer.atom(second.atom), cost: second.cost });
            PipelineDescription {
                begins,
                rows: pipeline.rows,
                cost: pipeline.cost,
                full: full == Some(at),
                steps,
                end: describer.end(&pipeline.end),
                instead,
            }
        };
        joins.pipelines.iter().enumerate().map(describe).collect()
    }
}

fn describe_relation(relation: &Relation, program: &Program, forbids: bool) -> RelationDescription {
    let is_input = relation.table.is_some_and(|table| program.schema.table(table).role == Role::Input);
    let hook = relation.table.and_then(|table| program.hook_of(table));
    let keep = match &relation.keep {
        _ if !(relation.needed || is_input && relation.wanted) => "not computed".to_owned(),
        _ if is_input => match hook {
            Some(wiring) => format!("filled by {}", wiring.text(&program.schema)),
            None => "input".to_owned(),
        },
        Keep::AsIs => "as it is".to_owned(),
        Keep::Distinct => "distinct".to_owned(),
        Keep::Key(key) => {
            let names: Vec<&str> = key.iter().map(|column| relation.columns[*column].as_str()).collect();
            format!("key ({}) checked", names.join(", "))
        }
    };
    let keep = if forbids { format!("{keep}, forbidden") } else { keep };
    let Relation { name, level, rows, counted, .. } = relation;
    RelationDescription { name: name.clone(), keep, level: *level, rows: *rows, counted: *counted }
}

/// The names of the slots of a rule's aggregates: those of the group, then those of the tuple.
fn names_of_groups(plan: &RulePlan) -> Vec<String> {
    let Some(pipeline) = plan.body.pipelines.first() else { return Vec::new() };
    let End::Group { group, tuple, .. } = &pipeline.end else { return Vec::new() };
    let names = names_at_end(pipeline);
    let mut all: Vec<String> = group.iter().map(|scalar| scalar.text(&names)).collect();
    all.extend(tuple.iter().map(|slot| names[*slot].clone()));
    all
}

/// The names of a pipeline's slots at its end.
fn names_at_end(pipeline: &Pipeline) -> Vec<String> {
    let mut names = match &pipeline.start {
        Start::Once => Vec::new(),
        Start::Row { names, .. } => names.clone(),
    };
    for step in &pipeline.steps {
        step.rename(&mut names);
    }
    names
}

impl Step {
    /// Changes the names of the slots before the step into those after it.
    fn rename(&self, names: &mut Vec<String>) {
        match self {
            Step::Let { name, .. } | Step::Key { name, .. } => names.push(name.clone()),
            Step::Generate { names: more, .. } => names.extend(more.iter().cloned()),
            Step::Probe(probe) => names.clone_from(&probe.names),
            Step::Filter(_) | Step::Must(_) | Step::Failed(_) => {}
        }
    }
}

/// Describes the steps of a pipeline.
struct Describer<'a> {
    plan: &'a Plan,
    joins: &'a Joins,
    /// The current names of the slots.
    names: Vec<String>,
}

impl Describer<'_> {
    /// An atom's relation, with a number if the rule has several atoms of this relation.
    fn atom(&self, at: usize) -> String {
        let relation = self.joins.atoms[at];
        let name = &self.plan.relation(relation).name;
        let before = self.joins.atoms[..at].iter().filter(|other| **other == relation).count();
        if before == 0 { name.clone() } else { format!("{name}#{}", before + 1) }
    }

    fn begin(&mut self, start: &Start) -> String {
        let Start::Row { atom, select, columns, names } = start else { return "once".to_owned() };
        let relation = self.plan.relation(self.joins.atoms[*atom]);
        let mut read: Vec<String> =
            select.iter().map(|selection| selection_text(selection, relation)).collect();
        read.extend(columns.iter().zip(names).map(|(column, name)| called(&relation.columns[*column], name)));
        self.names.clone_from(names);
        format!("{}({})", self.atom(*atom), read.join(", "))
    }

    fn step(&mut self, step: &Step) -> StepDescription {
        let names = &self.names;
        let mut described = match step {
            Step::Let { scalar, name } => plain(format!("{name} = {}", scalar.text(names))),
            Step::Key { scalar, name } => plain(format!("{name} = {}, to look for", scalar.text(names))),
            Step::Filter(scalar) => plain(format!("if {}", scalar.text(names))),
            Step::Must(scalar) => plain(format!("if {}, failures apart", scalar.text(names))),
            Step::Failed(scalar) => plain(format!("if {} fails", scalar.text(names))),
            Step::Generate { function, arguments, wanted, names: results } => {
                let mut results = results.iter();
                let result = |wanted: &bool| {
                    if *wanted { results.next().map_or("_", String::as_str) } else { "_" }
                };
                let results: Vec<&str> = wanted.iter().map(result).collect();
                let arguments = list(arguments, names);
                plain(format!("({}) in {}({arguments})", results.join(", "), function.name))
            }
            Step::Probe(probe) => self.probe(probe),
        };
        if let Step::Probe(probe) = step {
            described.index = Some(probe.index.to_string());
            described.bindings = Some(probe.bindings);
        }
        step.rename(&mut self.names);
        described
    }

    fn probe(&self, probe: &Probe) -> StepDescription {
        let index = self.plan.index(probe.index);
        let relation = self.plan.relation(index.relation);
        let column = |at: usize| &relation.columns[at];
        let mut found: Vec<String> =
            index.select.iter().map(|selection| selection_text(selection, relation)).collect();
        let by = index.key.iter().zip(&probe.key);
        found.extend(by.map(|(at, slot)| called(column(*at), &self.names[*slot])));
        let taken = probe.take.iter().zip(&probe.names[probe.keep.len()..]);
        let taken: Vec<String> = taken.map(|(at, name)| called(column(index.value[*at]), name)).collect();
        let gives = if taken.is_empty() { String::new() } else { format!(" gives {}", taken.join(", ")) };
        let found_by = relation.table.and_then(|table| {
            let constants = index.select.iter().filter(|s| matches!(s.equals, Operand::Constant(_)));
            let bound: Vec<usize> =
                index.key.iter().copied().chain(constants.map(|selection| selection.column)).collect();
            let table = self.plan.program.schema.table(table);
            let key = table.keys().find(|key| key.iter().all(|column| bound.contains(column)))?;
            if table.key.as_deref() == Some(key) {
                return Some("its key is bound".to_owned());
            }
            let names: Vec<&str> = key.iter().map(|at| column(*at).as_str()).collect();
            Some(format!("unique({}) is bound", names.join(", ")))
        });
        let because = if let Some(found_by) = found_by {
            format!("{found_by}: at most 1 row")
        } else if index.key.is_empty() {
            format!("nothing connects it: all of {}", rows(index.fan_out))
        } else {
            let names: Vec<&str> = index.key.iter().map(|at| column(*at).as_str()).collect();
            let verb = if names.len() == 1 { "is" } else { "are" };
            format!("{} {verb} bound: {} each", names.join(", "), rows(index.fan_out))
        };
        let atom = self.atom(probe.atom);
        let whose = if self.joins.atoms[probe.atom] == index.relation {
            atom
        } else {
            format!("{atom} > {}", relation.name)
        };
        let does = format!("{whose}({}){gives}", found.join(", "));
        StepDescription { does, index: None, bindings: None, because: Some(because) }
    }

    fn end(&self, end: &End) -> String {
        match end {
            End::Row(columns) => format!("({})", list(columns, &self.names)),
            End::Group { group, tuple, .. } => {
                let tuple: Vec<&str> = tuple.iter().map(|slot| self.names[*slot].as_str()).collect();
                format!("group ({}), tuple ({})", list(group, &self.names), tuple.join(", "))
            }
            End::Failure => "a failure".to_owned(),
        }
    }
}

fn plain(does: String) -> StepDescription {
    StepDescription { does, index: None, bindings: None, because: None }
}

/// A column, with its variable if the names differ.
fn called(column: &str, variable: &str) -> String {
    if column == variable { column.to_owned() } else { format!("{column}: {variable}") }
}

impl Scalar {
    /// The expression with these names for its slots.
    pub(crate) fn text(&self, names: &[String]) -> String {
        match self {
            Scalar::Slot(slot) => names.get(*slot).map_or_else(|| format!("#{slot}"), Clone::clone),
            Scalar::Constant(value) => constant(value),
            Scalar::Call { function, arguments } => {
                let name = &function.name;
                let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
                match arguments.as_slice() {
                    [a, b] if !is_word => format!("({} {name} {})", a.text(names), b.text(names)),
                    _ => format!("{name}({})", list(arguments, names)),
                }
            }
            Scalar::If { condition, then, otherwise } => format!(
                "(if {} then {} else {})",
                condition.text(names),
                then.text(names),
                otherwise.text(names)
            ),
        }
    }
}

fn selection_text(selection: &Selection, relation: &Relation) -> String {
    let column = &relation.columns[selection.column];
    match &selection.equals {
        Operand::Column(other) => format!("{column} = {}", relation.columns[*other]),
        Operand::Constant(value) => format!("{column} = {}", constant(value)),
    }
}

fn list(scalars: &[Scalar], names: &[String]) -> String {
    let texts: Vec<String> = scalars.iter().map(|scalar| scalar.text(names)).collect();
    texts.join(", ")
}

fn constant(value: &Value) -> String {
    let mut text = Vec::new();
    nlog_data::json::write_value(&mut text, value);
    String::from_utf8_lossy(&text).into_owned()
}

fn name_of(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Count => "count",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::Sum => "sum",
        Aggregate::Set => "set",
        Aggregate::List => "list",
        Aggregate::ArgMin => "arg_min",
        Aggregate::ArgMax => "arg_max",
    }
}

//! All rules: what they share, which are needed, which tables need their duplicates removed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nlog::Program;
use nlog::program::{HeadTerm, Rule};
use nlog_data::{Role, RuleId, TableId};

use crate::analysis::{Body, What, may_fail, variables_of};
use crate::dependency::Variables;
use crate::plan::{Arrangement, ArrangementId, Chain, Keep, NARROW, Plan, RulePlan, Source, TablePlan};
use crate::rule::{ArrangementTree, ChainTree, RuleTree, SourceTree, plan_rule};

impl Plan {
    /// Plans what it takes to know the wanted tables, and to meet every error that the program can meet.
    pub fn new(program: Arc<Program>, wanted: &BTreeSet<TableId>) -> Self {
        let always_unique = keys_that_hold(&program);
        let needed = needed(&program, wanted, &always_unique);
        let mut read = wanted.clone();
        for rule in program.rules.iter().filter(|rule| needed[rule.head.0 as usize]) {
            read.extend(Body::new(rule, &program.schema).atoms.iter().map(|atom| atom.table));
        }
        let mut pool = Pool::default();
        let mut rules = Vec::new();
        let mut tables: Vec<TablePlan> =
            needed.iter().map(|needed| TablePlan { needed: *needed, keep: Keep::AsIs }).collect();
        for (rule, id) in program.rules.iter().zip(0..) {
            let head = rule.head.0 as usize;
            if !needed[head] {
                continue;
            }
            let table = program.schema.table(rule.head);
            let checked = table.key.as_ref().filter(|_| !always_unique[head]);
            let alone = program.rules_of(rule.head).count() == 1;
            let tree = plan_rule(rule, &program.schema, alone && checked.is_none());
            tables[head].keep = match checked {
                Some(key) => Keep::Key(key.clone()),
                None if alone && (tree.unique || is_grouped(rule)) => Keep::AsIs,
                // Only its failures matter.
                None if !read.contains(&rule.head) => Keep::AsIs,
                None => Keep::Distinct,
            };
            rules.push(pool.rule(RuleId(id), rule.head, tree));
        }
        Plan { program, arrangements: pool.arrangements, rules, tables }
    }

    /// Plans what it takes to know the output tables.
    pub fn for_outputs(program: Arc<Program>) -> Self {
        let outputs = program.schema.iter().filter(|(_, table)| table.role == Role::Output);
        let wanted = outputs.map(|(id, _)| id).collect();
        Plan::new(program, &wanted)
    }
}

fn is_grouped(rule: &Rule) -> bool {
    rule.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. }))
}

/// By table, whether its declared key holds whatever the rows are: input tables, whose keys are checked before rules
/// see them, and tables with one rule whose key columns determine the others by keys that hold.
///
/// Keys that are checked only once rows are derived are not relied on: they can be broken while a transaction is
/// tried, and then every further key that they break has to be noticed too.
fn keys_that_hold(program: &Program) -> Vec<bool> {
    let mut holds: Vec<bool> = program.schema.iter().map(|(_, table)| table.role == Role::Input).collect();
    for table in &program.order {
        let mut rules = program.rules_of(*table).map(|(_, rule)| rule);
        if let (Some(rule), None) = (rules.next(), rules.next()) {
            holds[table.0 as usize] = key_follows(program, rule, &holds);
        }
    }
    holds
}

/// Whether a rule's bindings that agree on the head's key columns agree on all columns.
fn key_follows(program: &Program, rule: &Rule, holds: &[bool]) -> bool {
    let Some(key) = &program.schema.table(rule.head).key else { return false };
    let body = Body::new(rule, &program.schema);
    let sound = (0..body.atoms.len()).filter(|atom| holds[body.atoms[*atom].table.0 as usize]);
    let knowledge = body.knowledge(sound);
    let mut bound = Variables::new();
    for column in key {
        match &rule.terms[*column] {
            HeadTerm::Value(nlog::program::Expr::Variable(variable)) => {
                bound.insert(*variable);
            }
            HeadTerm::Value(_) | HeadTerm::Aggregate { .. } => {}
        }
    }
    let determined = knowledge.closure(&bound);
    rule.terms.iter().enumerate().all(|(column, term)| match term {
        HeadTerm::Value(expr) => key.contains(&column) || variables_of(expr).is_subset(&determined),
        // Aggregates follow from the group, which the other columns are.
        HeadTerm::Aggregate { .. } => true,
    })
}

/// By table, whether it is wanted, read by a needed rule, or a place where errors can come up.
fn needed(program: &Program, wanted: &BTreeSet<TableId>, always_unique: &[bool]) -> Vec<bool> {
    let mut needed = vec![false; program.schema.len()];
    for table in program.order.iter().rev() {
        let at = table.0 as usize;
        let key_to_check = program.schema.table(*table).key.is_some() && !always_unique[at];
        if program.schema.table(*table).role == Role::Input {
            // Whoever wants an input table knows its changes without rules.
            continue;
        }
        needed[at] |= wanted.contains(table);
        let rules = program.rules_of(*table);
        needed[at] |= key_to_check || program.rules_of(*table).any(|(_, rule)| rule_may_fail(program, rule));
        if needed[at] {
            for (_, rule) in rules {
                for atom in Body::new(rule, &program.schema).atoms {
                    needed[atom.table.0 as usize] = true;
                }
            }
        }
    }
    needed
}

fn rule_may_fail(program: &Program, rule: &Rule) -> bool {
    let body = Body::new(rule, &program.schema);
    let in_body = body.items.iter().any(|item| match item.what {
        What::Let { .. } | What::Filter(_) | What::Generate { .. } => item.may_fail,
    });
    in_body
        || rule.terms.iter().any(|term| match term {
            HeadTerm::Value(expr) => may_fail(expr),
            HeadTerm::Aggregate { aggregate: nlog::program::Aggregate::Sum, .. } => true,
            HeadTerm::Aggregate { arguments, .. } => arguments.iter().any(may_fail),
        })
}

/// The arrangements so far.
#[derive(Debug, Default)]
struct Pool {
    arrangements: Vec<Arrangement>,
    /// By what they are, without regard to names.
    known: HashMap<String, ArrangementId>,
}

impl Pool {
    fn rule(&mut self, rule: RuleId, head: TableId, tree: RuleTree) -> RulePlan {
        let wide = tree.chain.is_wide();
        let chain = self.chain(tree.chain, wide);
        let failures = tree.failures.into_iter().map(|failure| {
            let wide = failure.is_wide();
            self.chain(failure, wide)
        });
        RulePlan { rule, head, chain, failures: failures.collect(), output: tree.output }
    }

    fn chain(&mut self, tree: ChainTree, wide: bool) -> Chain {
        let source = match tree.source {
            SourceTree::Unit => Source::Unit,
            SourceTree::Table { table, select, columns } => Source::Table { table, select, columns },
            SourceTree::Join { left, right } => {
                Source::Join { left: self.arrangement(*left, wide), right: self.arrangement(*right, wide) }
            }
        };
        Chain { source, steps: tree.steps, names: tree.names }
    }

    fn arrangement(&mut self, tree: ArrangementTree, wide: bool) -> ArrangementId {
        let arrangement = Arrangement {
            chain: self.chain(tree.chain, wide),
            key: tree.key,
            value: tree.value,
            failure: tree.failure,
            distinct: tree.distinct,
            wide,
        };
        let identity = arrangement.identity();
        if let Some(known) = self.known.get(&identity) {
            return *known;
        }
        let id = ArrangementId(self.arrangements.len() as u32);
        self.arrangements.push(arrangement);
        self.known.insert(identity, id);
        id
    }
}

impl ChainTree {
    /// Whether some arrangement that it is made of has a key or value of more than [`NARROW`] columns.
    fn is_wide(&self) -> bool {
        match &self.source {
            SourceTree::Unit | SourceTree::Table { .. } => false,
            SourceTree::Join { left, right } => left.is_wide() || right.is_wide(),
        }
    }
}

impl ArrangementTree {
    fn is_wide(&self) -> bool {
        let values = self.value.len() + usize::from(self.failure);
        self.key.len() > NARROW || values > NARROW || self.chain.is_wide()
    }
}

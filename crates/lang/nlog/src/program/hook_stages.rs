//! The order in which the hooks of a program are computed.

use std::collections::BTreeSet;

use nlog_data::{RuleId, TableId};

use super::{BodyItem, Program};

/// Hooks that do not depend on one another, and what their sources depend on.
///
/// If a transaction causes several errors, those of an earlier stage come first: without a hook's rows, nobody knows
/// what the rules behind it derive.
#[derive(Debug, Clone)]
pub struct HookStage {
    /// The hooks, as indices of [`Program::hooks`].
    pub hooks: Vec<usize>,
    /// The sources, the tables that they depend on through rules, but not through hooks, and the hidden tables that
    /// [check](nlog_data::Schema::checks) what is unique in these.
    pub tables: BTreeSet<TableId>,
    /// The rules of these tables, ascending.
    pub rules: Vec<RuleId>,
}

impl Program {
    /// The hooks in stages: each hook is one stage later than the hooks that its source depends on.
    pub fn hook_stages(&self) -> Vec<HookStage> {
        let sources: Vec<BTreeSet<TableId>> =
            self.hooks.iter().map(|wiring| self.upstream(BTreeSet::from([wiring.from]), false).0).collect();
        let mut stage_of = vec![0; self.hooks.len()];
        // No hook depends on itself, so each pass settles at least one more.
        for _ in 0..self.hooks.len() {
            for (hook, tables) in sources.iter().enumerate() {
                let before = self.hooks.iter().zip(&stage_of).filter(|(other, _)| tables.contains(&other.to));
                stage_of[hook] = before.map(|(_, stage)| stage + 1).max().unwrap_or(0);
            }
        }
        let count = stage_of.iter().max().map_or(0, |last| last + 1);
        let stage = |stage: usize| {
            let hooks: Vec<usize> = (0..self.hooks.len()).filter(|hook| stage_of[*hook] == stage).collect();
            let (tables, rules) =
                self.upstream(hooks.iter().map(|hook| self.hooks[*hook].from).collect(), false);
            HookStage { hooks, tables, rules }
        };
        (0..count).map(stage).collect()
    }

    /// The program with only the rules that these tables depend on. All tables and hooks stay, so it takes the same transactions and
    /// memories; a hook that none of these tables depends on may have nothing to read.
    #[must_use]
    pub fn only(&self, tables: BTreeSet<TableId>) -> Program {
        let (_, rules) = self.upstream(tables, true);
        let rules = rules.into_iter().map(|rule| self.rule(rule).clone()).collect();
        Program { rules, ..self.clone() }
    }

    /// The tables that tables depend on through rules, and through hooks if so wanted, these among them, and the rules.
    fn upstream(
        &self,
        mut tables: BTreeSet<TableId>,
        through_hooks: bool,
    ) -> (BTreeSet<TableId>, Vec<RuleId>) {
        let mut rules = Vec::new();
        // Backwards, so that all readers of a table are visited before it.
        for head in self.order.iter().rev() {
            if !tables.contains(head) {
                continue;
            }
            if through_hooks {
                tables.extend(self.hook_of(*head).map(|wiring| wiring.from));
            }
            for (id, rule) in self.rules_of(*head) {
                rules.push(id);
                tables.extend(rule.body.iter().filter_map(|item| match item {
                    BodyItem::Atom { table, .. } => Some(*table),
                    BodyItem::Let { .. } | BodyItem::Generate { .. } | BodyItem::Filter(_) => None,
                }));
            }
        }
        // What is unique in these tables is checked with them.
        for (check, _) in self.schema.iter().filter(|(id, _)| self.schema.checks(*id).is_some()) {
            if tables.contains(&self.schema.shown(check)) && tables.insert(check) {
                rules.extend(self.rules_of(check).map(|(id, _)| id));
            }
        }
        rules.sort_unstable();
        (tables, rules)
    }
}

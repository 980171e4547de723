//! A rule's plan: its pipelines, and what follows their failures.

use std::collections::BTreeSet;

use nlog_data::RuleId;

use crate::body::Body;
use crate::draft::{Aim, Draft};
use crate::estimate::Estimate;
use crate::indexes::Indexes;
use crate::lower::{Expected, Lowering, output};
use crate::order::{Order, Search};
use crate::query::{Joins, RelationId, RulePlan};

/// Plans rules over relations of which this is thought.
pub(crate) struct RulePlanner<'a> {
    /// By relation.
    pub(crate) estimates: &'a [Estimate],
    pub(crate) indexes: &'a mut Indexes,
}

impl RulePlanner<'_> {
    /// The plan of a body, and how many bindings it is thought to have.
    pub(crate) fn plan(&mut self, rule: RuleId, head: RelationId, body: &Body) -> (RulePlan, f64) {
        let orders = self.orders(body, Aim::Main);
        let drafts: Vec<Draft> =
            orders.iter().map(|order| Draft::new(body, Aim::Main, &order.atoms)).collect();
        let followed: BTreeSet<usize> = drafts.iter().flat_map(|draft| draft.unseen(body)).collect();
        let bindings = orders.first().map_or(1.0, |order| order.bindings);
        let main = self.joins(body, Aim::Main, &followed, &orders, &drafts);
        let failures = followed.iter().map(|item| {
            let aim = Aim::Failure(*item);
            let orders = self.orders(body, aim);
            let drafts: Vec<Draft> = orders.iter().map(|order| Draft::new(body, aim, &order.atoms)).collect();
            self.joins(body, aim, &followed, &orders, &drafts)
        });
        let failures = failures.collect();
        (RulePlan { rule, head, body: main, output: output(body), failures }, bindings)
    }

    /// An order for each atom to begin with.
    fn orders(&self, body: &Body, aim: Aim) -> Vec<Order> {
        let search = Search { body, aim, estimates: self.estimates };
        (0..body.atoms.len()).map(|start| search.from(start)).collect()
    }

    fn joins(
        &mut self,
        body: &Body,
        aim: Aim,
        followed: &BTreeSet<usize>,
        orders: &[Order],
        drafts: &[Draft],
    ) -> Joins {
        let lowering = Lowering { body, aim, followed };
        let atoms = body.atoms.iter().map(|atom| atom.relation).collect();
        if orders.is_empty() {
            let draft = Draft::new(body, aim, &[]);
            let pipeline = lowering.pipeline(&draft, &Expected::default(), self.indexes);
            return Joins { atoms, pipelines: vec![pipeline], whole: 0 };
        }
        let whole = orders.iter().enumerate().min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost));
        let whole = whole.map_or(0, |(whole, _)| whole);
        let pipelines = orders.iter().zip(drafts);
        let pipelines =
            pipelines.map(|(order, draft)| lowering.pipeline(draft, &order.expected, self.indexes));
        Joins { atoms, pipelines: pipelines.collect(), whole }
    }
}

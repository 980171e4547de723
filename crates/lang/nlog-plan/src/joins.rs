//! Plans one rule: its pipelines, and the pipelines for its failures.

use std::collections::BTreeSet;

use nlog_data::RuleId;

use crate::body::Body;
use crate::draft::{Aim, Draft};
use crate::estimate::Estimates;
use crate::indexes::Indexes;
use crate::lower::{Lowering, output};
use crate::order::{Order, Search, cheapest};
use crate::pinned::Orders;
use crate::query::{Joins, RelationId, RulePlan};
use crate::tables::rule_may_fail;
use crate::unfold::{Chosen, Place, Reader};

/// Plans rules over relations with these estimates.
pub(crate) struct RulePlanner<'a> {
    /// Estimates, by relation.
    pub(crate) estimates: Estimates<'a>,
    pub(crate) indexes: &'a mut Indexes,
    pub(crate) unfolded: &'a Chosen,
}

impl RulePlanner<'_> {
    /// The plan of a body that fills a relation.
    pub(crate) fn plan(&mut self, rule: RuleId, head: RelationId, reader: &Reader<'_>) -> RulePlan {
        let Reader { place, body, pinned } = *reader;
        let orders = self.orders(body, Aim::Main, pinned.map(|pinned| &pinned.body));
        let drafts: Vec<Draft> =
            orders.iter().map(|order| Draft::new(body, Aim::Main, &order.atoms)).collect();
        let followed: BTreeSet<usize> = drafts.iter().flat_map(|draft| draft.unseen(body)).collect();
        let lowering = Lowering { body, aim: Aim::Main, followed: &followed };
        let main = self.joins(lowering, Some(place), &orders, &drafts, pinned.map(|pinned| &pinned.body));
        let failures = followed.iter().enumerate().map(|(at, item)| {
            let aim = Aim::Failure(*item);
            let body = &body.with_failing_side(*item);
            let pinned = pinned.and_then(|pinned| pinned.failures.get(at));
            let orders = self.orders(body, aim, pinned);
            let drafts: Vec<Draft> = orders.iter().map(|order| Draft::new(body, aim, &order.atoms)).collect();
            self.joins(Lowering { body, aim, followed: &followed }, None, &orders, &drafts, pinned)
        });
        let failures = failures.collect();
        let unfolded = self.unfolded.ways.range((place, 0)..=(place, usize::MAX));
        let through: BTreeSet<RelationId> =
            unfolded.map(|(_, unfolded)| body.atoms[unfolded.atom].relation).collect();
        let (through, may_fail) = (through.into_iter().collect(), rule_may_fail(body));
        let (output, stages) = (output(body), Vec::new());
        RulePlan { rule, head, body: main, output, failures, may_fail, stages, through }
    }

    /// An order for each starting atom.
    fn orders(&self, body: &Body, aim: Aim, pinned: Option<&Orders>) -> Vec<Order> {
        let search = Search::new(body, aim, self.estimates);
        match pinned {
            Some(pinned) if pinned.fit(body.atoms.len()) => {
                pinned.atoms.iter().map(|order| search.along(order)).collect()
            }
            _ => search.all(),
        }
    }

    /// Plans the pipelines of a body. `place` identifies the pipelines that may go through rules.
    fn joins(
        &mut self,
        lowering: Lowering<'_>,
        place: Option<Place>,
        orders: &[Order],
        drafts: &[Draft],
        pinned: Option<&Orders>,
    ) -> Joins {
        let Lowering { body, aim, .. } = lowering;
        let atoms = body.atoms.iter().map(|atom| atom.relation).collect();
        if orders.is_empty() {
            let draft = Draft::new(body, aim, &[]);
            let order = Search::new(body, aim, self.estimates).along(&[]);
            let pipeline = lowering.pipeline(&draft, &order, self.indexes);
            return Joins { atoms, pipelines: vec![pipeline], full: 0 };
        }
        let pinned = pinned.filter(|pinned| pinned.fit(body.atoms.len()));
        let other = place.and_then(|place| self.unfolded.full.get(&place).copied());
        let full = pinned.map(|pinned| pinned.full).or(other).unwrap_or_else(|| cheapest(orders));
        let pipelines = orders.iter().zip(drafts).enumerate();
        let pipelines = pipelines.map(|(start, (order, draft))| {
            match place.and_then(|place| self.unfolded.ways.get(&(place, start))) {
                Some(unfolded) => lowering.through_rule(unfolded, self.indexes),
                None => lowering.pipeline(draft, order, self.indexes),
            }
        });
        Joins { atoms, pipelines: pipelines.collect(), full }
    }
}

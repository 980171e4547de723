//! A rule's plan: its pipelines, and what follows their failures.

use std::collections::BTreeSet;

use nlog::program::{HeadTerm, VariableId};
use nlog_data::RuleId;

use crate::analysis::variables_of;
use crate::body::Body;
use crate::dependency::Variables;
use crate::draft::{Aim, Draft};
use crate::estimate::Estimate;
use crate::indexes::Indexes;
use crate::lower::{Lowering, output};
use crate::order::{Order, Search, cheapest};
use crate::query::{Joins, RelationId, RulePlan};

/// Plans rules over relations of which this is thought.
pub(crate) struct RulePlanner<'a> {
    /// By relation.
    pub(crate) estimates: &'a [Estimate],
    pub(crate) indexes: &'a mut Indexes,
}

impl RulePlanner<'_> {
    /// The plan of a body, and what is thought of the rows that it gives.
    pub(crate) fn plan(&mut self, rule: RuleId, head: RelationId, body: &Body) -> (RulePlan, Estimate) {
        let search = Search::new(body, Aim::Main, self.estimates);
        let orders = search.all();
        let drafts: Vec<Draft> =
            orders.iter().map(|order| Draft::new(body, Aim::Main, &order.atoms)).collect();
        let followed: BTreeSet<usize> = drafts.iter().flat_map(|draft| draft.unseen(body)).collect();
        let main = self.joins(body, Aim::Main, &followed, &orders, &drafts);
        let failures = followed.iter().map(|item| {
            let aim = Aim::Failure(*item);
            let orders = Search::new(body, aim, self.estimates).all();
            let drafts: Vec<Draft> = orders.iter().map(|order| Draft::new(body, aim, &order.atoms)).collect();
            self.joins(body, aim, &followed, &orders, &drafts)
        });
        let failures = failures.collect();
        let estimate = estimate(&search, body);
        (RulePlan { rule, head, body: main, output: output(body), failures }, estimate)
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
            let order = Search::new(body, aim, self.estimates).along(&[]);
            let pipeline = lowering.pipeline(&draft, &order, self.indexes);
            return Joins { atoms, pipelines: vec![pipeline], whole: 0 };
        }
        let whole = cheapest(orders);
        let pipelines = orders.iter().zip(drafts);
        let pipelines = pipelines.map(|(order, draft)| lowering.pipeline(draft, order, self.indexes));
        Joins { atoms, pipelines: pipelines.collect(), whole }
    }
}

/// What is thought of the rows that a body gives.
pub(crate) fn estimate(search: &Search, body: &Body) -> Estimate {
    let orders = search.all();
    let count = match orders.get(cheapest(&orders)) {
        Some(order) => order.count,
        None => search.along(&[]).count,
    };
    let different = |variables: Variables| {
        let variables: Vec<VariableId> = variables.into_iter().collect();
        search.model.different(body, &variables, count)
    };
    let grouped = body.is_grouped();
    let rows = if !grouped && body.is_unique() { count } else { different(body.determining()) };
    let distinct = body.terms.iter().map(|term| match term {
        HeadTerm::Value(expr) => different(variables_of(expr)),
        HeadTerm::Aggregate { .. } => rows,
    });
    Estimate { rows, distinct: distinct.collect() }.bounded()
}

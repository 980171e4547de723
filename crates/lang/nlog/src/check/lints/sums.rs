//! The lint `sum-of-distinct`: sums that add equal values once.

use super::WholeProgram;
use super::chase::Chase;
use super::domain::Domain;
use super::firing::Fires;
use super::injective::Injective;
use crate::check::CheckedRule;
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Aggregate, Expr, HeadTerm, VariableId};
use crate::syntax::ast::{Call, ExprKind};

/// Reports `sum(x)` where two rows of a group can have the same `x`: it is added once, which is seldom
/// intended.
pub(super) fn check(
    whole: &WholeProgram<'_>,
    firing: &[Option<Fires<'_>>],
    injective: &mut Injective,
    reports: &mut Reports,
) {
    for (checked, fires) in whole.rules.iter().zip(firing) {
        let Some(fires) = fires else { continue };
        for term in &checked.rule.terms {
            let HeadTerm::Aggregate { aggregate: Aggregate::Sum, arguments } = term else { continue };
            let [added] = arguments.as_slice() else { continue };
            if merges_rows(whole, checked, added, fires, injective) {
                report(checked, reports);
            }
        }
    }
}

/// Whether two different choices of rows can agree in the group and in the value added.
fn merges_rows(
    whole: &WholeProgram<'_>,
    checked: &CheckedRule<'_>,
    added: &Expr,
    fires: &Fires<'_>,
    injective: &mut Injective,
) -> bool {
    let mut chase = Chase::new(whole, injective);
    let domain =
        |variable: usize| -> Domain { fires.bindings.of_variable(VariableId(variable as u32)).clone() };
    let a = chase.derivation(checked, &domain);
    let b = chase.derivation(checked, &domain);
    for (a, b) in a.head.iter().zip(&b.head) {
        if let (Some(a), Some(b)) = (a, b) {
            chase.unite(*a, *b);
        }
    }
    let sides = [&a, &b].map(|side| chase.expr(added, &side.variables));
    chase.unite(sides[0], sides[1]);
    chase.run() && a.columns.iter().zip(&b.columns).any(|(a, b)| !chase.same(*a, *b))
}

fn report(checked: &CheckedRule<'_>, reports: &mut Reports) {
    let sum = |call: &&Call| call.name.name == "sum" && call.arguments.len() == 1;
    let calls = checked.source.head.arguments.iter().filter_map(|argument| match &argument.value.kind {
        ExprKind::Call(call) => Some(call),
        _ => None,
    });
    for call in calls.filter(sum) {
        let message = "equal values of different rows are added once: `sum(x)` adds the distinct values of x";
        let help = "add a column that distinguishes the rows: sum(x, id) adds x once per distinct pair of x \
        and id";
        reports.push(Report::new(Code::SumOfDistinct, call.span, message, help));
    }
}

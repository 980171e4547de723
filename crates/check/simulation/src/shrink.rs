//! Leaves out of a plan whatever a failure does not need.

use crate::plan::{Action, Plan};

/// The smallest plan found that fails still, and how it fails. `fails` runs a plan; it is called at most so many times.
pub fn smallest<F>(
    plan: Plan,
    failure: F,
    mut most: usize,
    fails: &mut dyn FnMut(&Plan) -> Option<F>,
) -> (Plan, F) {
    let (mut plan, mut failure) = (plan, failure);
    let mut size = plan.actions.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < plan.actions.len() && most > 0 {
            let kept =
                |(number, action): (usize, &Action)| (number < at || number >= at + size).then_some(*action);
            let actions = plan.actions.iter().enumerate().filter_map(kept).collect();
            let smaller = Plan { actions, ..plan };
            most -= 1;
            match fails(&smaller) {
                Some(same) => (plan, failure) = (smaller, same),
                None => at += size,
            }
        }
        size /= 2;
    }
    (plan, failure)
}

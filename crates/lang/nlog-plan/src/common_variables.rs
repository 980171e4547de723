//! Sets of variables that several atoms share, so that joins use them as one key.

use std::collections::BTreeSet;

use nlog::program::VariableId;

use crate::body::Body;
use crate::dependency::Variables;

/// Several variables that atoms share.
#[derive(Debug, Clone)]
pub(crate) struct CommonVariables {
    pub(crate) variables: Variables,
    /// The atoms that contain all of them, each with their columns. All atoms use the same order of columns: that of
    /// the atom whose relation comes first. Rules that join the same tables therefore request the same columns in the
    /// same order.
    pub(crate) members: Vec<(usize, Vec<usize>)>,
}

/// All sets of two or more variables that a pair of the body's atoms has in common.
pub(crate) fn common_variables(body: &Body) -> Vec<CommonVariables> {
    let mut sets: BTreeSet<Variables> = BTreeSet::new();
    for (at, atom) in body.atoms.iter().enumerate() {
        for other in &body.atoms[at + 1..] {
            let both: Variables = atom.variables.intersection(&other.variables).copied().collect();
            if both.len() > 1 {
                sets.insert(both);
            }
        }
    }
    sets.into_iter().filter_map(|variables| members(body, variables)).collect()
}

fn members(body: &Body, variables: Variables) -> Option<CommonVariables> {
    let atoms = body.atoms.iter().enumerate().filter(|(_, atom)| variables.is_subset(&atom.variables));
    let (_, first) = atoms.clone().min_by_key(|(at, atom)| (atom.relation, *at))?;
    let of_first = first.columns.iter().map(|(_, variable)| *variable);
    let order: Vec<VariableId> = of_first.filter(|variable| variables.contains(variable)).collect();
    let members = atoms.map(|(at, atom)| {
        let column = |wanted: &VariableId| atom.columns.iter().find(|(_, variable)| variable == wanted);
        (at, order.iter().filter_map(column).map(|(column, _)| *column).collect())
    });
    Some(CommonVariables { members: members.collect(), variables })
}

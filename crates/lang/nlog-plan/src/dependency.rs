//! Functional dependencies: the variables that determine other variables through the keys of tables.

use std::collections::BTreeSet;

use nlog::program::VariableId;

/// A set of variables.
pub(crate) type Variables = BTreeSet<VariableId>;

/// Bindings that agree on `from` agree on `to`.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) from: Variables,
    pub(crate) to: Variables,
}

/// What is known about the bindings of a chain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Knowledge {
    pub(crate) dependencies: Vec<Dependency>,
    /// For each atom that was joined, the variables that determine its row; `None` if none do.
    pub(crate) rows: Vec<Option<Variables>>,
}

impl Knowledge {
    /// All variables that these determine, including themselves.
    pub(crate) fn closure(&self, variables: &Variables) -> Variables {
        let mut closure = variables.clone();
        loop {
            let before = closure.len();
            for dependency in &self.dependencies {
                if dependency.from.is_subset(&closure) {
                    closure.extend(dependency.to.iter().copied());
                }
            }
            if closure.len() == before {
                return closure;
            }
        }
    }

    /// Whether no two bindings agree on the variables.
    pub(crate) fn is_unique(&self, variables: &Variables) -> bool {
        let closure = self.closure(variables);
        self.rows.iter().all(|row| row.as_ref().is_some_and(|row| row.is_subset(&closure)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(variables: &[u32]) -> Variables {
        variables.iter().copied().map(VariableId).collect()
    }

    #[test]
    fn keys_chain() {
        let knowledge = Knowledge {
            dependencies: vec![
                Dependency { from: set(&[0]), to: set(&[1]) },
                Dependency { from: set(&[1, 2]), to: set(&[3]) },
            ],
            rows: vec![Some(set(&[0])), Some(set(&[1, 2]))],
        };
        assert_eq!(knowledge.closure(&set(&[0])), set(&[0, 1]));
        assert_eq!(knowledge.closure(&set(&[0, 2])), set(&[0, 1, 2, 3]));
        assert!(!knowledge.is_unique(&set(&[0])), "nothing determines 2");
        assert!(knowledge.is_unique(&set(&[0, 2])));
    }
}

//! Sets and maps of atoms, as sorted lists. Nearly all have at most a few elements, and most have one; a node of a tree has room for
//! eleven, and a controller holds the rows of thousands of switches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use crate::value::Atom;

/// A set of atoms, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Atoms(Box<[Atom]>);

/// A map from atoms to atoms, in the order of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairs(Box<[(Atom, Atom)]>);

impl Atoms {
    /// The set of this atom.
    pub(crate) fn one(atom: Atom) -> Self {
        Atoms(Box::new([atom]))
    }

    /// Whether it has an atom.
    pub fn has(&self, atom: &Atom) -> bool {
        self.0.binary_search(atom).is_ok()
    }
}

impl Pairs {
    /// The value of a key.
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        let place = self.0.binary_search_by(|(there, _)| there.cmp(key)).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    /// Its pairs, in the order of the keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Atom, &Atom)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Deref for Atoms {
    type Target = [Atom];

    fn deref(&self) -> &[Atom] {
        &self.0
    }
}

impl FromIterator<Atom> for Atoms {
    fn from_iter<I: IntoIterator<Item = Atom>>(atoms: I) -> Self {
        let mut atoms: Vec<Atom> = atoms.into_iter().collect();
        atoms.sort_unstable();
        atoms.dedup();
        Atoms(atoms.into_boxed_slice())
    }
}

impl FromIterator<(Atom, Atom)> for Pairs {
    /// Of pairs with the same key, the last counts.
    fn from_iter<I: IntoIterator<Item = (Atom, Atom)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Atom, Atom)> = pairs.into_iter().collect();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        Pairs(pairs.into_boxed_slice())
    }
}

impl From<BTreeSet<Atom>> for Atoms {
    fn from(atoms: BTreeSet<Atom>) -> Self {
        Atoms(atoms.into_iter().collect())
    }
}

impl From<BTreeMap<Atom, Atom>> for Pairs {
    fn from(pairs: BTreeMap<Atom, Atom>) -> Self {
        Pairs(pairs.into_iter().collect())
    }
}

impl IntoIterator for Atoms {
    type Item = Atom;
    type IntoIter = std::vec::IntoIter<Atom>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl IntoIterator for Pairs {
    type Item = (Atom, Atom);
    type IntoIter = std::vec::IntoIter<(Atom, Atom)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
            #[test]
        fn they_are_what_trees_are(pairs in proptest::collection::vec((0i64..6, 0i64..6), 0..12)) {
            let atoms = || pairs.iter().map(|(key, value)| (Atom::Integer(*key), Atom::Integer(*value)));
            let (set, tree): (Atoms, BTreeSet<Atom>) = (atoms().map(|pair| pair.0).collect(), atoms().map(|pair| pair.0).collect());
            prop_assert_eq!(&set, &Atoms::from(tree.clone()));
            let (map, of_pairs): (Pairs, BTreeMap<Atom, Atom>) = (atoms().collect(), atoms().collect());
            prop_assert_eq!(&map, &Pairs::from(of_pairs.clone()));
            for atom in (0..6).map(Atom::Integer) {
                prop_assert_eq!(set.has(&atom), tree.contains(&atom));
                prop_assert_eq!(map.get(&atom), of_pairs.get(&atom));
            }
        }
    }
}

//! The kinds of objects that a program declares.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use nlog_data::{ObjectKind, TableId};
use openflow_rs::nearest;

use crate::field::list;
use crate::reference::first_sentence;

/// The kinds of objects that a program declares. All clones share them.
#[derive(Debug, Clone, Default)]
pub struct Kinds(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// In the order given.
    kinds: Vec<Arc<Kind>>,
    by_name: HashMap<Arc<str>, usize>,
    /// By type and by what others write.
    spellings: HashMap<(String, String), String>,
}

/// What users of other systems write in the place of a member of an enumeration or the name of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spelling {
    /// The enumeration or the record, or `packet_filter`, or a kind of objects.
    pub of: String,
    /// What they write.
    pub other: String,
    /// What is meant, or a sentence that says it.
    pub here: String,
}

/// A kind of objects.
#[derive(Debug)]
pub struct Kind {
    name: Arc<str>,
    index: usize,
    declared: ObjectKind,
    /// The fields with references to other objects, as indices.
    pub(crate) referring: Vec<usize>,
    /// The other kinds that share its id space, as indices.
    pub(crate) relatives: Vec<usize>,
}

/// A name that is not the name of a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind; {hint}")]
pub struct UnknownKind {
    /// A suggestion.
    pub hint: String,
}

impl Kinds {
    /// These kinds, which have distinct names. Their order is the order of [`ObjectStore::iter`](crate::ObjectStore::iter).
    pub fn new(declared: Vec<ObjectKind>) -> Self {
        let related = |of: usize| {
            let shares = |(other, kind): (usize, &ObjectKind)| {
                (other != of && kind.id_space == declared[of].id_space).then_some(other)
            };
            declared.iter().enumerate().filter_map(shares).collect()
        };
        let relatives: Vec<Vec<usize>> = (0..declared.len()).map(related).collect();
        let kinds: Vec<Arc<Kind>> = (declared.into_iter().zip(relatives).enumerate())
            .map(|(index, (declared, relatives))| {
                let referring = (0..declared.fields.len())
                    .filter(|at| !declared.fields[*at].ty.kinds_within().is_empty());
                let (name, referring) = (declared.name.as_str().into(), referring.collect());
                Arc::new(Kind { name, index, declared, referring, relatives })
            })
            .collect();
        let by_name = kinds.iter().map(|kind| (kind.name.clone(), kind.index)).collect();
        Kinds(Arc::new(Inner { kinds, by_name, spellings: HashMap::new() }))
    }

    /// Whether objects of these kinds are read and kept as objects of those: they have the same fields, whatever else is said of them.
    pub fn are(&self, others: &Kinds) -> bool {
        let parts = |kind: &Arc<Kind>| {
            let ObjectKind { name, id_space, fields, uniques, .. } = &kind.declared;
            (name.clone(), id_space.clone(), fields.clone(), uniques.clone())
        };
        Arc::ptr_eq(&self.0, &others.0) || self.iter().map(parts).eq(others.iter().map(parts))
    }

    /// The same kinds, whose faults give hints where somebody uses the words of another system.
    pub fn with_spellings(self, spellings: impl IntoIterator<Item = Spelling>) -> Self {
        let Kinds(inner) = self;
        let Inner { kinds, by_name, .. } = &*inner;
        let (kinds, by_name) = (kinds.clone(), by_name.clone());
        let spelt = |Spelling { of, other, here }: Spelling| ((of, other.to_lowercase()), here);
        Kinds(Arc::new(Inner { kinds, by_name, spellings: spellings.into_iter().map(spelt).collect() }))
    }

    /// What is meant by a word of another system in the place of a member or a field of a type.
    pub(crate) fn meant(&self, of: &str, other: &str) -> Option<&str> {
        if self.0.spellings.is_empty() {
            return None;
        }
        self.0.spellings.get(&(of.to_owned(), other.to_lowercase())).map(String::as_str)
    }

    /// The kind that is meant by this name on a command line, where case, hyphens and the plural are forgiven.
    pub fn forgiving(&self, name: &str) -> Result<&Arc<Kind>, UnknownKind> {
        self.meaning(name).map_or_else(|| self.find(name), Ok)
    }

    /// The kind of this name, or of its singular, in any case, with hyphens for underscores.
    fn meaning(&self, name: &str) -> Option<&Arc<Kind>> {
        let name = name.to_lowercase().replace(['-', ' '], "_");
        let singulars = [("", ""), ("s", ""), ("es", ""), ("ies", "y")].into_iter();
        let mut names =
            singulars.filter_map(|(end, other)| Some(format!("{}{other}", name.strip_suffix(end)?)));
        names.find_map(|name| self.get(&name))
    }

    /// The kind of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Kind>> {
        self.0.kinds.get(self.index(name)?)
    }

    /// The kind of this name, or a suggestion.
    pub fn find(&self, name: &str) -> Result<&Arc<Kind>, UnknownKind> {
        self.get(name).ok_or_else(|| {
            let meant = self.meaning(name).map(|kind| kind.name());
            let hint = match meant.or_else(|| nearest(name, self.names())) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.0.kinds.is_empty() => "the rules declare no kind".to_owned(),
                None => format!("valid kinds are {}", list(&self.names().collect::<Vec<_>>())),
            };
            UnknownKind { hint }
        })
    }

    /// The index of the kind of this name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.0.by_name.get(name).copied()
    }

    /// The kinds, in the order given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Kind>> {
        self.0.kinds.iter()
    }

    /// Their names, in the order given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|kind| kind.name())
    }

    /// The number of kinds.
    pub fn len(&self) -> usize {
        self.0.kinds.len()
    }

    /// Whether there is no kind.
    pub fn is_empty(&self) -> bool {
        self.0.kinds.is_empty()
    }

    /// Whether these are the same kinds: clones, or equal declarations.
    pub fn is_same(&self, other: &Kinds) -> bool {
        // The numbers of tables depend on the rest of the program.
        let bare = |kind: &Arc<Kind>| ObjectKind { table: TableId(0), ..kind.declared().clone() };
        Arc::ptr_eq(&self.0, &other.0) || self.iter().map(bare).eq(other.iter().map(bare))
    }

    /// The kind with this index.
    pub(crate) fn at(&self, index: usize) -> &Arc<Kind> {
        &self.0.kinds[index]
    }
}

impl Kind {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name in the plural, as paths of the API have it.
    pub fn plural(&self) -> String {
        plural(&self.name)
    }

    /// Its name, shared.
    pub fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its index among the [`Kinds`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// The first sentence of its documentation, without a full stop.
    pub fn summary(&self) -> String {
        first_sentence(&self.declared.doc)
    }

    /// Its declaration.
    pub fn declared(&self) -> &ObjectKind {
        &self.declared
    }
}

/// An English noun in the plural.
fn plural(name: &str) -> String {
    let before_y = name.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match before_y {
        Some(stem) => format!("{stem}ies"),
        // Such as `qos`.
        None if name.ends_with('s') => name.to_owned(),
        None if ["x", "ch", "sh"].iter().any(|end| name.ends_with(end)) => format!("{name}es"),
        None => format!("{name}s"),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

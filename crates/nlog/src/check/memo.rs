//! Memoises the results of checking rules for the next check of the program.
//!
//! A rule without errors and warnings means the same again if its text is the same, and if every name in it is
//! declared as it was. So a [`Memo`] keeps for each such rule its text, its words and its meaning, and for each name
//! a hash of what is declared by it. Words are compared as hashes: where two collide, a rule is checked in vain, no
//! more. What has an error or a warning is always checked again, since that names other places.
//!
//! Everything that looks at more than one rule (circles, tables that nobody reads, rules that stand twice) is done
//! again each time.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use nlog_data::TableId;

use super::declarations::{Columns, Constant, Declarations, Usage};
use super::definitions::value_names;
use super::recursion::Dependency;
use super::resolve::Scope;
use super::{CheckedRule, check_rule};
use crate::program::{BodyItem, Rule};
use crate::source::Sources;
use crate::syntax::ast::{self, Span, TypeDefinition, TypeRef};

/// What is known from the last time.
#[derive(Default)]
pub(crate) struct Memo {
    rules: HashMap<Key, Kept>,
    /// The tables of the last time, in order: what the numbers in the rules mean.
    tables: Vec<String>,
    /// By the hash of a name: what was declared by it.
    declared: HashMap<u64, u64>,
    /// What was declared that any rule may depend on.
    shared: u64,
    /// How many rules were taken from here the last time.
    reused: usize,
}

impl Memo {
    /// How many rules of the last check were known from the one before.
    pub(crate) fn reused(&self) -> usize {
        self.reused
    }
}

/// Which rule it is: the fingerprint, and whether it is a default.
type Key = (u64, bool);

struct Kept {
    rule: Rule,
    /// Relative to the rule's place.
    spans: Vec<Span>,
    /// The atoms' spans are relative to the rule's place.
    dependencies: Vec<Dependency>,
    usage: Usage,
    /// Hashes of the words of its text, ascending.
    words: Box<[u64]>,
    used: bool,
}

/// The memo of this program's last check, while the program is checked again.
pub(super) struct Recall<'m> {
    memo: &'m mut Memo,
    /// The new number of each table of the last time.
    numbers: Vec<Option<usize>>,
    /// Hashes of the names that are declared otherwise than the last time.
    changed: Vec<u64>,
}

impl<'m> Recall<'m> {
    /// Compares what is declared now with the last time.
    pub(super) fn new(
        memo: &'m mut Memo,
        files: &[&ast::File],
        declarations: &Declarations<'_>,
        sources: &Sources,
    ) -> Self {
        let shared = shared(files, declarations, sources);
        if shared != memo.shared {
            memo.rules.clear();
            memo.shared = shared;
        }
        let declared = declared(declarations);
        let now = declared.iter().filter(|(name, what)| memo.declared.get(*name) != Some(*what));
        let gone = memo.declared.keys().filter(|name| !declared.contains_key(*name));
        let changed = now.map(|(name, _)| name).chain(gone).copied().collect();
        memo.declared = declared;
        let numbers = memo.tables.iter().map(|name| declarations.table(name)).collect();
        memo.tables = declarations.tables.iter().map(|table| table.name.name.clone()).collect();
        memo.reused = 0;
        Recall { memo, numbers, changed }
    }

    /// Checks a rule, or says again what it came to.
    pub(super) fn check<'a>(
        &mut self,
        source: &'a ast::Rule,
        scope: &mut Scope<'_>,
        dependencies: &mut Vec<Dependency>,
    ) -> Option<CheckedRule<'a>> {
        let key = (source.fingerprint, source.default.is_some());
        let text = scope.sources.text(source.span);
        if let Some(kept) = self.memo.rules.get_mut(&key)
            && *kept.rule.text == *text
        {
            if kept.used || kept.bring_up_to_date(&self.numbers, &self.changed) {
                self.memo.reused += 1;
                return Some(kept.again(source, scope, dependencies));
            }
            self.memo.rules.remove(&key);
        }
        let (reports, before) = (scope.reports.len(), dependencies.len());
        let earlier = std::mem::take(scope.usage);
        let checked = check_rule(source, scope, dependencies);
        let usage = std::mem::replace(scope.usage, earlier);
        scope.usage.merge(&usage);
        let checked = checked?;
        if scope.reports.len() == reports {
            let kept = Kept::new(&checked, &dependencies[before..], usage);
            self.memo.rules.insert(key, kept);
        }
        Some(checked)
    }

    /// Forgets what is in the program no more.
    pub(super) fn end(self) {
        self.memo.rules.retain(|_, kept| std::mem::take(&mut kept.used));
    }
}

impl Kept {
    fn new(checked: &CheckedRule<'_>, dependencies: &[Dependency], usage: Usage) -> Self {
        let start = checked.source.span.start;
        let relative = |span: Span| Span {
            file: 0,
            start: span.start.wrapping_sub(start),
            end: span.end.wrapping_sub(start),
        };
        Kept {
            rule: checked.rule.clone(),
            spans: checked.spans.iter().map(|span| relative(*span)).collect(),
            dependencies: dependencies
                .iter()
                .map(|dependency| Dependency { atom: relative(dependency.atom), ..*dependency })
                .collect(),
            usage,
            words: words(&checked.rule.text),
            used: true,
        }
    }

    /// Gives tables their new numbers; false if a name of the rule means something else than it did.
    fn bring_up_to_date(&mut self, numbers: &[Option<usize>], changed: &[u64]) -> bool {
        if changed.iter().any(|name| self.words.binary_search(name).is_ok()) {
            return false;
        }
        self.used = true;
        self.renumber(&|table| numbers.get(table).copied().flatten()).is_some()
    }

    fn renumber(&mut self, number: &impl Fn(usize) -> Option<usize>) -> Option<()> {
        let id = |id: TableId| Some(TableId(number(id.0 as usize)? as u32));
        self.rule.head = id(self.rule.head)?;
        for item in &mut self.rule.body {
            if let BodyItem::Atom { table, .. } = item {
                *table = id(*table)?;
            }
        }
        for dependency in &mut self.dependencies {
            dependency.head = number(dependency.head)?;
            dependency.reads = number(dependency.reads)?;
        }
        self.usage.renumber(number)
    }

    /// The rule where it stands now.
    fn again<'a>(
        &self,
        source: &'a ast::Rule,
        scope: &mut Scope<'_>,
        dependencies: &mut Vec<Dependency>,
    ) -> CheckedRule<'a> {
        let Span { file, start, .. } = source.span;
        let absolute = |span: &Span| Span {
            file,
            start: span.start.wrapping_add(start),
            end: span.end.wrapping_add(start),
        };
        let spans: Vec<Span> = self.spans.iter().map(absolute).collect();
        let mut rule = self.rule.clone();
        rule.place = scope.sources.place(source.span);
        for (item, span) in rule.body.iter_mut().zip(&spans) {
            if let BodyItem::Atom { place, .. } = item {
                *place = scope.sources.place(*span);
            }
        }
        scope.usage.merge(&self.usage);
        let moved = self.dependencies.iter();
        dependencies
            .extend(moved.map(|dependency| Dependency { atom: absolute(&dependency.atom), ..*dependency }));
        CheckedRule { source, rule, spans }
    }
}

/// Hashes of the words in a text, ascending; those in comments and strings do no harm.
fn words(text: &str) -> Box<[u64]> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words =
        text.split(word).filter(|word| !word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit()));
    let words: HashSet<u64> = words.map(|word| hash(&word)).collect();
    let mut words: Vec<u64> = words.into_iter().collect();
    words.sort_unstable();
    words.into()
}

fn hash(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// For the hash of each name what a rule can see of its declarations.
fn declared(declarations: &Declarations<'_>) -> HashMap<u64, u64> {
    let mut declared: HashMap<u64, u64> = HashMap::with_capacity(declarations.tables.len());
    // A name can be a table's and a constant's.
    let mut add = |name: &str, what: u64| {
        let seen = declared.entry(hash(name)).or_default();
        *seen = hash(&(*seen, what));
    };
    for table in &declarations.tables {
        let mut hasher = DefaultHasher::new();
        ("table", table.role, &table.key).hash(&mut hasher);
        match &table.columns {
            None => "at fault".hash(&mut hasher),
            Some(columns) => hash_columns(columns, &mut hasher),
        }
        add(&table.name.name, hasher.finish());
    }
    for (name, constant) in &declarations.constants {
        add(name, hash_constant(constant));
    }
    for name in declarations.perhaps() {
        add(name, hash("perhaps"));
    }
    declared
}

fn hash_constant(constant: &Constant) -> u64 {
    match constant {
        Constant::Value(value, ty) => hash(&("value", value, ty)),
        Constant::Text(text) => hash(&("text", text)),
        Constant::Faulty => hash("at fault"),
    }
}

fn hash_columns(columns: &Columns<'_>, hasher: &mut DefaultHasher) {
    for column in columns.iter() {
        (&column.name.name, &column.ty).hash(hasher);
    }
}

/// What any rule may depend on, by names that need not stand in it: declared types and functions use each other.
fn shared(files: &[&ast::File], declarations: &Declarations<'_>, sources: &Sources) -> u64 {
    let mut hasher = DefaultHasher::new();
    declarations.is_nameless().hash(&mut hasher);
    for file in files {
        for declared in &file.types {
            declared.name.name.hash(&mut hasher);
            match &declared.definition {
                None => "at fault".hash(&mut hasher),
                Some(TypeDefinition::Alias(ty)) => hash_type(ty, &mut hasher),
                Some(TypeDefinition::Enum(members)) => {
                    for member in members {
                        member.name.hash(&mut hasher);
                    }
                }
                Some(TypeDefinition::Record(fields)) => {
                    for (name, ty) in fields {
                        name.name.hash(&mut hasher);
                        hash_type(ty, &mut hasher);
                    }
                }
            }
        }
        for declared in &file.functions {
            let end = declared.body.as_ref().map_or(declared.name.span, |body| body.span);
            // From its name to the end of its value everything that it says is there.
            sources.text(Span { end: end.end, ..declared.name.span }).hash(&mut hasher);
            for name in declared.body.iter().flat_map(value_names) {
                declarations.constants.get(name).map(hash_constant).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

fn hash_type(ty: &TypeRef, hasher: &mut DefaultHasher) {
    ty.name.name.hash(hasher);
    match &ty.of {
        Some(of) => hash_type(of, hasher),
        None => ".".hash(hasher),
    }
}

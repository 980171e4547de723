//! Memoises the results of checking rules for the next check of the program.
//!
//! A rule without errors and warnings keeps its meaning if its text is unchanged and every name in it is declared as
//! before. So a [`Memo`] stores the text, the words and the meaning of each such rule, and for each name a hash of
//! its declarations. Words are compared by hash: a collision only causes an unnecessary check. A rule with an error
//! or a warning is always checked again, because the diagnostic names other places.
//!
//! Checks that involve more than one rule (cycles, unused tables, duplicate rules) run again each time.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use nlog_data::TableId;

use super::declarations::{Columns, Constant, Declarations, Usage};
use super::definitions::value_names;
use super::pipeline::docs;
use super::recursion::Dependency;
use super::resolve::Scope;
use super::{CheckedRule, check_rule};
use crate::program::{BodyItem, Rule};
use crate::source::Sources;
use crate::syntax::ast::{self, Span, TypeDefinition, TypeRef};

/// The results of the last check.
#[derive(Default)]
pub(crate) struct Memo {
    rules: HashMap<Key, Kept>,
    /// The tables of the last check, in order, which give the table numbers in rules their meaning.
    tables: Vec<String>,
    /// A hash of the declarations of a name, by the hash of the name.
    declared: HashMap<u64, u64>,
    /// A hash of the declarations that any rule may depend on.
    shared: u64,
    /// The number of rules that the last check took from here.
    reused: usize,
}

impl Memo {
    /// The number of rules that the last check took from the one before.
    pub(crate) fn reused(&self) -> usize {
        self.reused
    }
}

/// The identity of a rule: its fingerprint, and whether it is a default.
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
    /// The new number of each table of the last check.
    numbers: Vec<Option<usize>>,
    /// Hashes of the names whose declarations changed since the last check.
    changed: Vec<u64>,
}

impl<'m> Recall<'m> {
    /// Compares the declarations with those of the last check.
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

    /// Checks a rule, or returns the stored result.
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

    /// Forgets rules that are no longer in the program.
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

    /// Renumbers tables; returns false if the meaning of a name in the rule changed.
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
        rule.docs = docs(&source.doc);
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

/// Hashes of the words in a text, ascending. Words in comments and strings do no harm.
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

/// For the hash of each name, a hash of its declarations as far as rules depend on them.
fn declared(declarations: &Declarations<'_>) -> HashMap<u64, u64> {
    let mut declared: HashMap<u64, u64> = HashMap::with_capacity(declarations.tables.len());
    // A table and a constant can have the same name.
    let mut add = |name: &str, what: u64| {
        let seen = declared.entry(hash(name)).or_default();
        *seen = hash(&(*seen, what));
    };
    for table in &declarations.tables {
        let mut hasher = DefaultHasher::new();
        ("table", table.role, &table.key, &table.uniques).hash(&mut hasher);
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

/// A hash of the declarations that any rule may depend on through names that it does not contain: declared types and
/// functions use each other, and a field has a name besides its own.
fn shared(files: &[&ast::File], declarations: &Declarations<'_>, sources: &Sources) -> u64 {
    let mut hasher = DefaultHasher::new();
    declarations.is_nameless().hash(&mut hasher);
    for (name, of) in declarations.fields.meanings() {
        (name, of).hash(&mut hasher);
    }
    for file in files {
        for declared in &file.types {
            declared.name.name.hash(&mut hasher);
            match &declared.definition {
                None => "at fault".hash(&mut hasher),
                Some(TypeDefinition::Alias(ty)) => hash_type(ty, &mut hasher),
                Some(TypeDefinition::Constrained(of)) => {
                    hash_type(&of.base, &mut hasher);
                    let bounds = of.range.iter().flat_map(|range| [&range.least, &range.greatest]);
                    let holds = of.conditions.iter().map(|condition| &condition.holds);
                    for part in bounds.chain(holds) {
                        sources.text(part.span).hash(&mut hasher);
                        hash_constants(part, declarations, &mut hasher);
                    }
                    for condition in &of.conditions {
                        condition.message.hash(&mut hasher);
                    }
                }
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
            // The text from its name to the end of its value is its whole content.
            sources.text(Span { end: end.end, ..declared.name.span }).hash(&mut hasher);
            if let Some(body) = &declared.body {
                hash_constants(body, declarations, &mut hasher);
            }
        }
    }
    hasher.finish()
}

/// Hashes the values of the constants that an expression names.
fn hash_constants(expr: &ast::Expr, declarations: &Declarations<'_>, hasher: &mut DefaultHasher) {
    for name in value_names(expr, &declarations.fields) {
        declarations.constants.get(name).map(hash_constant).hash(hasher);
    }
}

fn hash_type(ty: &TypeRef, hasher: &mut DefaultHasher) {
    ty.name.name.hash(hasher);
    ty.kinds.iter().for_each(|kind| kind.name.hash(hasher));
    match &ty.of {
        Some(of) => hash_type(of, hasher),
        None => ".".hash(hasher),
    }
}

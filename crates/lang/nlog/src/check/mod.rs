//! The checker: from ASTs to a typed program, or to diagnostics.
//!
//! In reading order: `declarations` (tables and their columns) with `named_types`, `forms` (types with a form of their own in documents) and `keys`; `definitions` (in which order) of
//! `constants` and `functions`, whose bodies `evaluate` runs, with `constraints` (of types); `resolve` (a rule's atoms and variables),
//! `expressions`, `records`, `openflow` with `literals` (matches and actions), `head` and `aggregate`, with `types`
//! (unification) and `calls` (which function is meant); `binding` (which variables get a value), `normalise` (in
//! which order) and `constant_folding` with `sequence` and `size` (limits); `facts` (the short way for most facts);
//! `tests`; `lints`; `hooks`; `objects` (kinds, state and refusals of objects); `listings`; `pipeline` (names of fields, stages and priorities); `reservations` (reserved numbers); `recursion` with `cycles`; `defaults` (rows that ordinary rules override); `uniques` (of tables that rules fill); `memo` (results of earlier checks);
//! `messages` (shared error messages) with `suggest` (similar names).

mod aggregate;
mod allowances;
mod atom;
mod binding;
mod calls;
mod constant_folding;
mod constants;
mod constraints;
mod cycles;
mod declarations;
mod defaults;
mod definitions;
mod evaluate;
mod expressions;
mod facts;
mod forms;
mod functions;
mod head;
mod hooks;
mod keys;
mod lints;
mod listings;
mod literals;
mod memo;
mod messages;
mod named_types;
mod normalise;
mod objects;
mod openflow;
mod packets;
mod pipeline;
mod positions;
mod records;
mod recursion;
mod reservations;
mod resolve;
mod sequence;
mod size;
mod suggest;
mod tests;
mod types;
mod uniques;

use std::collections::HashMap;
use std::sync::Arc;

use nlog_data::{ObjectKind, Role, Schema, TableId, Value};

use crate::diagnostic::{Code, Diagnostic, Report, Reports};
use crate::index::Index;
use crate::program::{Listing, Program, Reservation, Rule, Test};
use crate::source::Sources;
use crate::syntax::ast::{self, Span};
pub use atom::{ATOM, compile_with_atom};
use declarations::{Constant, Declarations, Usage};
use defaults::Checked;
use hooks::Filling;
pub(crate) use memo::Memo;
use memo::Recall;
use pipeline::Pipeline;
use positions::Notes;
use recursion::Dependency;
use resolve::{ItemIr, Resolver, Scope};
pub(crate) use suggest::nearest;

/// The result of compiling the sources of a program.
#[derive(Debug, Clone)]
pub struct Compilation {
    /// The program, if there is no error.
    pub program: Option<Arc<Program>>,
    /// Errors and warnings, in order of file, line and column.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles the sources. The result does not depend on the order of files.
pub fn compile(sources: &Sources) -> Compilation {
    compile_with(sources, None, None)
}

/// Compiles the sources and builds an index of names, which takes longer.
pub fn compile_indexed(sources: &Sources) -> (Compilation, Index) {
    let mut index = Index::default();
    let compilation = compile_with(sources, None, Some(&mut index));
    (compilation, index)
}

/// The same, with the results of the last check, which only save time. An index needs every rule to be checked
/// again.
pub(crate) fn compile_with(
    sources: &Sources,
    memo: Option<&mut Memo>,
    index: Option<&mut Index>,
) -> Compilation {
    let mut reports = Reports::default();
    let mut order: Vec<usize> = (0..sources.files().len()).collect();
    // Of two declarations of a name, that of a library is the first: the other one can be mended.
    order.sort_by_cached_key(|&number| {
        let file = &sources.files()[number];
        (!sources.is_of_library(file), file.name.clone())
    });
    let files: Vec<&ast::File> = order.iter().map(|&file| &sources.files()[file].ast).collect();
    report_files(sources, &mut reports);
    recursion::imports(sources, &order, &mut reports);
    let mut declarations = Declarations::collect(&files, sources, &mut reports);
    let mut usage = Usage { notes: index.is_some().then(Notes::default), ..Usage::default() };
    definitions::define(&files, &mut declarations, &mut usage, sources, &mut reports);
    declarations.objects = objects::check(&declarations, &mut usage, sources, &mut reports);
    let pipeline = Pipeline::check(&files, &declarations, &mut usage, sources, &mut reports);
    let reservations = reservations::check(&files, &declarations, &mut usage, sources, &mut reports);
    let mentions = files.iter().flat_map(|file| &file.mentions);
    usage.read.extend(mentions.filter_map(|name| declarations.table(name)));

    let mut rules = Vec::new();
    let mut dependencies = Vec::new();
    let mut scope = Scope::new(sources, &declarations, &mut reports, &mut usage);
    let mut recall = memo.map(|memo| Recall::new(memo, &files, &declarations, sources));
    for rule in files.iter().flat_map(|file| &file.rules) {
        rules.extend(match &mut recall {
            Some(recall) => recall.check(rule, &mut scope, &mut dependencies),
            None => check_rule(rule, &mut scope, &mut dependencies),
        });
    }
    if let Some(recall) = recall {
        recall.end();
    }
    let tests = tests::check(&files, &mut scope);
    let fillings = hooks::check(&mut scope, &mut dependencies);
    recursion::recursion(&declarations, &dependencies, sources, &mut reports);
    defaults::check(&files, &declarations, &mut reports);
    lints::unused_tables(&declarations, &usage, &mut reports);
    unite_duplicates(&mut rules, sources, &mut reports);
    if !reports.has_errors() {
        lints::whole_program(&declarations, &rules, &dependencies, &fillings, &mut reports);
        lints::flows(&declarations, &rules, &pipeline, &mut reports);
    }
    allowances::apply(&files, &mut reports);
    if let (Some(index), Some(notes)) = (index, &usage.notes) {
        *index = positions::index(&files, &declarations, notes);
    }

    objects::refusals(&declarations, &rules, &dependencies, &mut reports);
    objects::states(&declarations, &mut reports);
    let listings = listings::check(&declarations, &mut reports);

    let program = if reports.has_errors() {
        None
    } else {
        let parts = Parts { rules, tests, fillings, dependencies, pipeline, reservations, listings };
        Some(Arc::new(assemble(&declarations, parts, sources)))
    };
    Compilation { program, diagnostics: reports.finish(sources) }
}

/// Reports mistakes that are found without resolving names: syntax errors, malformed literals, missing imports.
fn report_files(sources: &Sources, reports: &mut Reports) {
    for (number, file) in sources.files().iter().enumerate() {
        for error in &file.errors {
            let span =
                Span { file: number as u32, start: error.range.start as u32, end: error.range.end as u32 };
            reports.push(Report::new(Code::Syntax, span, &*error.message, &*error.help));
        }
        for (span, message, help) in &file.ast.errors {
            reports.push(Report::new(Code::BadLiteral, *span, &**message, &**help));
        }
        for (import, found) in file.ast.imports.iter().zip(sources.imports(number)) {
            if found.is_none() {
                let message = format!("the imported file {:?} does not exist", import.path);
                let help = match sources.library_of_import(file, &import.path) {
                    Some(library) => format!(
                        "this path names a file of {library}; ./{} is one beside this file",
                        import.path
                    ),
                    None => "an import path is relative to the importing file".to_owned(),
                };
                reports.push(Report::new(Code::MissingImport, import.span, message, help));
            }
        }
    }
}

/// The most atoms of a rule. A plan has an order of all atoms for each of them, so that it grows with their square.
const MOST_ATOMS: usize = 256;

/// A rule without errors.
struct CheckedRule<'a> {
    /// The rule in the source.
    source: &'a ast::Rule,
    /// The compiled rule.
    rule: Rule,
    /// For each item of the body, the place of its source item.
    spans: Vec<Span>,
}

/// Checks one rule. The tables that it reads count as read even if it contains a mistake.
fn check_rule<'a>(
    rule: &'a ast::Rule,
    scope: &mut Scope<'_>,
    dependencies: &mut Vec<Dependency>,
) -> Option<CheckedRule<'a>> {
    let sources = scope.sources;
    if let Some(fact) = facts::plain(rule, scope.declarations, sources) {
        return Some(CheckedRule { source: rule, rule: fact, spans: Vec::new() });
    }
    let mut resolver = Resolver::of_rule(scope, &rule.head.name.name);
    let items = resolver.body(&rule.body);
    let head = resolver.head(rule);
    resolver.settle_calls();
    let table = head.as_ref().map(|(table, _)| *table);
    // A head that is an input table is already reported; a cycle through it would only follow from that.
    let fills = table.filter(|&table| resolver.scope.declarations.tables[table].role != Role::Input);
    if let Some(head) = fills {
        dependencies.extend(items.iter().filter_map(|item| match item.kind {
            ItemIr::Table(reads, _) => Some(Dependency { head, reads, atom: item.span }),
            _ => None,
        }));
    }
    let mut atoms = items.iter().filter(|item| matches!(item.kind, ItemIr::Table(..)));
    if let Some(item) = atoms.nth(MOST_ATOMS) {
        let count = MOST_ATOMS + 1 + atoms.count();
        let message = format!("this rule has {count} atoms; the limit is {MOST_ATOMS}");
        let help = "give some of the atoms a rule and a table of their own, and read that table here";
        let report = Report::new(Code::TooLarge, rule.head.span, message, help);
        resolver.scope.reports.push(report.label(item.span, "one atom too many"));
        return None;
    }
    let terms = head.map(|(_, terms)| terms).unwrap_or_default();
    let normal = resolver.normalise(&items, &terms, rule.is_fact);
    let slip = resolver.unused_variables();
    let (table, mut normal) = (table?, normal?);
    if !resolver.hold_to_types(rule, table, &terms, &mut normal) {
        return None;
    }
    if !slip {
        // Otherwise a misspelt variable may be the only reason why the atoms share none.
        resolver.cartesian_product(rule, &normal);
    }
    let meaning = Rule {
        head: TableId(table as u32),
        terms: normal.terms,
        variables: normal.variables,
        body: normal.body,
        fingerprint: rule.fingerprint,
        place: sources.place(rule.span),
        text: sources.text(rule.span).into(),
        docs: pipeline::docs(&rule.doc),
    };
    Some(CheckedRule { source: rule, rule: meaning, spans: normal.spans })
}

/// Merges duplicate rules.
fn unite_duplicates(rules: &mut Vec<CheckedRule<'_>>, sources: &Sources, reports: &mut Reports) {
    let mut first: HashMap<u64, Span> = HashMap::new();
    rules.retain(|CheckedRule { source, .. }| {
        let Some(&earlier) = first.get(&source.fingerprint) else {
            first.insert(source.fingerprint, source.span);
            return true;
        };
        let message = format!("this rule duplicates the rule at {}", sources.place(earlier));
        let report = Report::new(
            Code::DuplicateRule,
            source.span,
            message,
            "remove one of them; a duplicate has no \
            effect",
        );
        reports.push(report.label(earlier, "the same rule"));
        false
    });
}

/// What a program without errors consists of, besides its declarations.
struct Parts<'a> {
    rules: Vec<CheckedRule<'a>>,
    tests: Vec<Test>,
    fillings: Vec<Filling>,
    dependencies: Vec<Dependency>,
    pipeline: Pipeline,
    reservations: Vec<Reservation>,
    listings: Vec<Listing>,
}

fn assemble(declarations: &Declarations<'_>, parts: Parts<'_>, sources: &Sources) -> Program {
    let Parts { rules, tests, fillings, dependencies, pipeline, reservations, listings } = parts;
    let tables = declarations.tables.iter().map(declarations::Table::plain);
    let mut edges = vec![Vec::new(); declarations.tables.len()];
    for dependency in dependencies {
        edges[dependency.head].push(dependency.reads);
    }
    for reads in &mut edges {
        reads.sort_unstable();
        reads.dedup();
    }
    let order: Vec<TableId> =
        cycles::dependencies_first(&edges).into_iter().map(|table| TableId(table as u32)).collect();
    let rules = rules
        .into_iter()
        .map(|CheckedRule { source, rule, .. }| Checked { rule, default: source.default.is_some() });
    let rules = rules.collect();
    let parts = defaults::compile(tables.collect(), rules, &order);
    let place_of = |name: &str| {
        let declared = declarations.table(name).map(|table| declarations.tables[table].name.span);
        sources.place(declared.unwrap_or(Span { file: 0, start: 0, end: 0 }))
    };
    let defaults::Parts { tables, mut rules, order } = uniques::compile(parts, place_of);
    rules.sort_by(|a, b| a.fingerprint.cmp(&b.fingerprint).then_with(|| a.text.cmp(&b.text)));
    let schema = Schema::new(tables);
    let number = |old: TableId| schema.find(&declarations.tables[old.0 as usize].name.name).unwrap_or(old);
    let tests = tests.into_iter().map(|test| tests::renumbered(test, &number)).collect();
    let hooks = fillings.into_iter().map(|filling| filling.wiring(&number, sources));
    let mut hooks: Vec<_> = hooks.collect();
    hooks.sort_by_key(|wiring| wiring.to);
    let constants = declarations.constants.iter().filter_map(|(name, constant)| match constant {
        Constant::Value(value, _) => Some(((*name).to_owned(), value.clone())),
        Constant::Text(text) => Some(((*name).to_owned(), Value::String(text.as_str().into()))),
        Constant::Faulty => None,
    });
    let constants = constants.collect();
    let objects = declarations.objects.iter().cloned();
    let objects = objects.map(|kind| ObjectKind { table: number(kind.table), ..kind }).collect();
    let states = declarations.tables.iter().zip(0..).filter(|(table, _)| table.state);
    let states = states.map(|(_, at)| number(TableId(at))).collect();
    let listings = listings.into_iter().map(|listing| listing.renumbered(&number));
    let mut listings: Vec<_> = listings.collect();
    listings.sort_by_key(|listing| listing.table);
    let functions = declarations.own_functions.bodies();
    let (stages, priorities, fields) = pipeline.parts(declarations, sources);
    Program {
        schema: Arc::new(schema),
        rules,
        order,
        hooks,
        tests,
        constants,
        functions,
        objects,
        states,
        listings,
        stages,
        priorities,
        reservations,
        fields,
    }
}

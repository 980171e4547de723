//! Hooks: which hook fills an input table, from which table, with which settings.

use nlog_data::{Role, TableId};

use super::declarations::{Declarations, Table, Usage, quoted};
use super::recursion::Dependency;
use super::suggest;
use crate::diagnostic::{Code, Report, Reports};
use crate::hook::{HookKind, Settings, Wiring};
use crate::source::Sources;
use crate::syntax::ast::{self, Span};

/// A hook without mistakes, by the numbers of tables among the declarations.
pub(super) struct Filling {
    hook: HookKind,
    from: usize,
    to: usize,
    settings: Settings,
    span: Span,
}

impl Filling {
    /// The same in the assembled program, whose tables have other numbers.
    pub(super) fn wiring(self, number: &impl Fn(TableId) -> TableId, sources: &Sources) -> Wiring {
        let Filling { hook, from, to, settings, span } = self;
        let [from, to] = [from, to].map(|table| number(TableId(table as u32)));
        Wiring { hook, from, to, settings, place: sources.place(span) }
    }
}

/// Checks the hooks of all tables. What a hook reads is used, and what it fills depends on it, even if it contains a
/// mistake.
pub(super) fn check(
    declarations: &Declarations<'_>,
    usage: &mut Usage,
    dependencies: &mut Vec<Dependency>,
    reports: &mut Reports,
) -> Vec<Filling> {
    let mut fillings = Vec::new();
    for (number, table) in declarations.tables.iter().enumerate() {
        let Some(hook) = table.hook else { continue };
        let from = source(hook, declarations, usage, reports);
        let kind = kind(hook, reports);
        if table.role != Role::Input {
            let message =
                format!("hook `{}` fills `{}`, which is not an input table", hook.name.name, table.name.name);
            let help = format!("declare it as `input table {}`, and write no rules for it", table.name.name);
            reports.push(Report::new(Code::Hook, hook.span, message, help));
            continue;
        }
        dependencies.extend(from.map(|reads| Dependency { head: number, reads, atom: hook.source.span }));
        let Some(kind) = kind else { continue };
        let settings = settings(kind, hook, reports);
        let (Some(from), Some(settings)) = (from, settings) else { continue };
        if fits(kind, hook, (&declarations.tables[from], table), &settings, reports) {
            fillings.push(Filling { hook: kind, from, to: number, settings, span: hook.span });
        }
    }
    fillings
}

/// The table that a hook reads.
fn source(
    hook: &ast::Hook,
    declarations: &Declarations<'_>,
    usage: &mut Usage,
    reports: &mut Reports,
) -> Option<usize> {
    let name = &hook.source;
    let found = declarations.table(&name.name);
    if found.is_none() && !declarations.excuses(&name.name) {
        let tables = declarations.tables.iter().map(|table| table.name.name.as_str());
        let help = match suggest::nearest(&name.name, tables) {
            Some(near) => {
                // The table counts as used, even if by a wrong name.
                usage.read.extend(declarations.table(near));
                format!("did you mean `{near}`?")
            }
            None => format!("declare it: table {}(…);", name.name),
        };
        let message = format!("unknown table `{}`", name.name);
        reports.push_unknown(&name.name, Report::new(Code::UnknownTable, name.span, message, help));
    }
    usage.read.extend(found);
    let declared = found.map(|table| &declarations.tables[table]);
    if let Some(declared) = declared.filter(|declared| declared.role == Role::Forbid) {
        let message = format!("`{}` forbids its rows, so this hook never finds one", name.name);
        let help =
            format!("derive the rows into another table, and let `{}` and the hook read that", name.name);
        let report = Report::new(Code::ReadsForbid, name.span, message, help);
        reports.push(report.label(declared.name.span, "declared here"));
        return None;
    }
    found
}

fn kind(hook: &ast::Hook, reports: &mut Reports) -> Option<HookKind> {
    let name = &hook.name.name;
    let found = HookKind::by_name(name);
    if found.is_none() {
        let names = HookKind::ALL.iter().map(|kind| kind.name());
        let help = match suggest::nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the hooks are {}", quoted(names)),
        };
        reports.push(Report::new(Code::Hook, hook.name.span, format!("unknown hook `{name}`"), help));
    }
    found
}

/// The values of all settings; reports those that are unknown, missing or given twice.
fn settings(kind: HookKind, hook: &ast::Hook, reports: &mut Reports) -> Option<Settings> {
    let names = || kind.settings().iter().map(|setting| setting.name);
    let mut settings = Settings::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut faulty = false;
    let mut report = |span: Span, message: String, help: String| {
        reports.push(Report::new(Code::Hook, span, message, help));
        faulty = true;
    };
    for (name, number) in &hook.settings {
        if seen.contains(&name.name.as_str()) {
            let message = format!("duplicate setting `{}`", name.name);
            report(name.span, message, "remove all but one".to_owned());
            continue;
        }
        seen.push(&name.name);
        let Some(known) = names().find(|known| *known == name.name) else {
            let help = match suggest::nearest(&name.name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if kind.settings().is_empty() => "this hook has no settings: remove it".to_owned(),
                None => format!("its settings are {}", quoted(names())),
            };
            report(name.span, format!("hook `{}` has no setting `{}`", kind.name(), name.name), help);
            continue;
        };
        // A malformed number is already reported.
        settings.insert(known, number.unwrap_or_default());
    }
    let missing = kind.settings().iter().filter(|setting| !settings.contains_key(setting.name));
    // A misspelt setting is probably the one that is missing.
    let missing: Vec<_> = missing.take(if faulty { 0 } else { usize::MAX }).collect();
    for setting in missing {
        let message = format!("hook `{}` needs the setting `{}`", kind.name(), setting.name);
        let help = format!("add `{}: NUMBER`: {}", setting.name, setting.summary);
        reports.push(Report::new(Code::Hook, hook.name.span, message, help));
        faulty = true;
    }
    let malformed = hook.settings.iter().any(|(_, number)| number.is_none());
    (!faulty && !malformed).then_some(settings)
}

/// Whether the tables fit the hook. A table with mistakes in its columns is already reported.
fn fits(
    kind: HookKind,
    hook: &ast::Hook,
    (from, to): (&Table<'_>, &Table<'_>),
    settings: &Settings,
    reports: &mut Reports,
) -> bool {
    let known = |table: &Table<'_>| {
        table.columns.as_ref().is_some_and(|columns| columns.iter().all(|column| column.ty.is_some()))
    };
    if !known(from) || !known(to) {
        return false;
    }
    let Err(misfit) = kind.fits(&from.plain(), &to.plain(), settings) else { return true };
    let report = Report::new(Code::Hook, hook.span, misfit.message, misfit.help);
    reports.push(report.label(from.name.span, format!("hook `{}` reads this table", kind.name())));
    false
}

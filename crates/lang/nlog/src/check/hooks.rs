//! Hooks: which hook fills an input table, from which table, with which settings.

use nlog_data::{Role, TableId, Type, Value};

use super::constants::Nowhere;
use super::declarations::{Declarations, Table, quoted, unknown_column};
use super::recursion::Dependency;
use super::resolve::{Resolver, Scope};
use super::suggest;
use crate::diagnostic::{Code, Report, Reports};
use crate::hook::{HookKind, Setting, SettingKind, Settings, Wiring};
use crate::program;
use crate::source::Sources;
use crate::syntax::ast::{self, Expr, ExprKind, Ident, Span};

/// A hook without mistakes, by the numbers of tables among the declarations.
pub(super) struct Filling {
    hook: HookKind,
    from: usize,
    to: usize,
    settings: Settings,
    span: Span,
}

impl Filling {
    /// The table that it fills, and columns that determine a row of it besides the key.
    pub(super) fn unique(&self, declarations: &Declarations<'_>) -> Option<(usize, Vec<usize>)> {
        let columns = declarations.tables[self.to].plain().columns;
        Some((self.to, self.hook.unique(&columns, &self.settings)?))
    }

    /// The same in the assembled program, whose tables have other numbers.
    pub(super) fn wiring(self, number: &impl Fn(TableId) -> TableId, sources: &Sources) -> Wiring {
        let Filling { hook, from, to, settings, span } = self;
        let [from, to] = [from, to].map(|table| number(TableId(table as u32)));
        Wiring { hook, from, to, settings, place: sources.place(span) }
    }
}

/// Checks the hooks of all tables. What a hook reads is used, and what it fills depends on it, even if it contains a
/// mistake.
pub(super) fn check(scope: &mut Scope<'_>, dependencies: &mut Vec<Dependency>) -> Vec<Filling> {
    let declarations = scope.declarations;
    let mut fillings = Vec::new();
    for (number, table) in declarations.tables.iter().enumerate() {
        let Some(hook) = table.hook else { continue };
        let from = source(hook, scope);
        let kind = kind(hook, scope.reports);
        if table.role != Role::Input {
            let message =
                format!("hook `{}` fills `{}`, which is not an input table", hook.name.name, table.name.name);
            let help = format!("declare it as `input table {}`, and write no rules for it", table.name.name);
            scope.reports.push(Report::new(Code::Hook, hook.span, message, help));
            continue;
        }
        dependencies.extend(from.map(|reads| Dependency { head: number, reads, atom: hook.source.span }));
        let (Some(kind), Some(from)) = (kind, from) else { continue };
        let settings = settings(kind, hook, &declarations.tables[from], scope);
        let Some(settings) = settings else { continue };
        if fits(kind, hook, (&declarations.tables[from], table), &settings, scope.reports) {
            fillings.push(Filling { hook: kind, from, to: number, settings, span: hook.span });
        }
    }
    fillings
}

/// The table that a hook reads.
fn source(hook: &ast::Hook, scope: &mut Scope<'_>) -> Option<usize> {
    let Scope { declarations, usage, reports, .. } = scope;
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

/// The values of the settings; reports those that are unknown, missing, given twice or of another kind.
fn settings(kind: HookKind, hook: &ast::Hook, from: &Table<'_>, scope: &mut Scope<'_>) -> Option<Settings> {
    let before = scope.reports.len();
    let mut settings = Settings::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut whole = true;
    for (name, value) in &hook.settings {
        if seen.contains(&name.name.as_str()) {
            let message = format!("duplicate setting `{}`", name.name);
            scope.reports.push(Report::new(Code::Hook, name.span, message, "remove all but one"));
            continue;
        }
        seen.push(&name.name);
        let Some(known) = kind.settings().iter().find(|known| known.name == name.name) else {
            scope.reports.push(unknown_setting(kind, name));
            continue;
        };
        let value = setting(known, name, value, from, scope);
        whole &= value.is_some();
        settings.extend(value.map(|value| (known.name, value)));
    }
    // A misspelt setting is probably the one that is missing.
    let faulty = scope.reports.len() > before;
    let required = kind.settings().iter().filter(|setting| setting.kind == SettingKind::Number);
    for setting in required.filter(|setting| !faulty && !seen.contains(&setting.name)) {
        let message = format!("hook `{}` needs the setting `{}`", kind.name(), setting.name);
        let help = format!("add `{}: NUMBER`: {}", setting.name, setting.summary);
        scope.reports.push(Report::new(Code::Hook, hook.name.span, message, help));
    }
    (whole && scope.reports.len() == before).then_some(settings)
}

fn unknown_setting(kind: HookKind, name: &Ident) -> Report {
    let names = kind.settings().iter().map(|setting| setting.name);
    let help = match suggest::nearest(&name.name, names.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if kind.settings().is_empty() => "this hook has no settings: remove it".to_owned(),
        None => format!("its settings are {}", quoted(names)),
    };
    let message = format!("hook `{}` has no setting `{}`", kind.name(), name.name);
    Report::new(Code::Hook, name.span, message, help)
}

/// The value of a setting, or `None` after a report.
fn setting(
    known: &Setting,
    name: &Ident,
    value: &Expr,
    from: &Table<'_>,
    scope: &mut Scope<'_>,
) -> Option<u64> {
    match known.kind {
        SettingKind::Number => number(known, name, value, scope),
        SettingKind::Column => column(known, name, value, from, scope.reports),
    }
}

/// The value of a constant expression.
fn number(known: &Setting, name: &Ident, value: &Expr, scope: &mut Scope<'_>) -> Option<u64> {
    let what = format!("the setting `{}`", name.name);
    let mut resolver = Resolver { subject: what.clone(), ..Resolver::of_constant(scope, &name.name) };
    let expr = resolver.value(value, (&Type::Int, None), &what, &mut Nowhere)?;
    if resolver.failed {
        return None;
    }
    let report = if let program::Expr::Constant(Value::Int(number)) = expr {
        if let Ok(number) = u64::try_from(number) {
            return Some(number);
        }
        let message = format!("the setting `{}` is {number}", name.name);
        let help = format!("write a number of at least 0: {}", known.summary);
        Report::new(Code::Hook, value.span, message, help)
    } else {
        let message = format!("the setting `{}` has no value", name.name);
        let help = "the function has no result for these arguments; use others";
        Report::new(Code::ConstantRange, value.span, message, help)
    };
    scope.reports.push(report);
    None
}

/// The number of a column of the table that the hook reads.
fn column(
    known: &Setting,
    name: &Ident,
    value: &Expr,
    from: &Table<'_>,
    reports: &mut Reports,
) -> Option<u64> {
    let ExprKind::Name(column) = &value.kind else {
        let message = format!("the setting `{}` is a column", name.name);
        let help = format!("write the name of a column: {}", known.summary);
        reports.push(Report::new(Code::Hook, value.span, message, help));
        return None;
    };
    let columns = from.columns.as_ref()?;
    let found = columns.find(column);
    if found.is_none() {
        let (table, column) = (&from.name.name, Ident { name: column.clone(), span: value.span });
        let report = unknown_column(&column, table, columns);
        reports.push_unknown(&format!("{table}.{}", column.name), report);
    }
    found.map(|column| column as u64)
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
    let (source, target) = (from.plain(), to.plain());
    let fit = kind.fits(&source, &target, settings);
    let Err(misfit) = fit.and_then(|()| kind.keeps_unique(&target, settings)) else { return true };
    let report = Report::new(Code::Hook, hook.span, misfit.message, misfit.help);
    reports.push(report.label(from.name.span, format!("hook `{}` reads this table", kind.name())));
    false
}

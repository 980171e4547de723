//! Kinds of objects: their defaults, former names, what is unique among them, and what rules refuse of them.

use std::collections::{BTreeSet, HashMap, HashSet};

use nlog_data::{FieldPath, Meaning, ObjectField, ObjectKind, Role, TableId, Type, Unique, Value};

use super::CheckedRule;
use super::constants::Nowhere;
use super::constraints::out_of_range;
use super::declarations::{Column, Columns, Declarations, Table, Usage, quoted};
use super::recursion::Dependency;
use super::resolve::{Resolver, Scope};
use super::suggest;
use crate::diagnostic::{Code, Report, Reports};
use crate::hook::HookKind;
use crate::program::{Expr, HeadTerm};
use crate::source::Sources;
use crate::syntax::ast::{self, Argument, Ident};

/// The members of every object that are not fields of its kind.
const OF_ALL_KINDS: [&str; 6] = ["kind", "id", "labels", "delete", "state", "revision"];
/// The table whose rows refuse objects, and its columns.
pub(super) const REFUSE: &str = "refuse";
const REFUSE_COLUMNS: [&str; 4] = ["kind", "id", "path", "text"];
/// The input table with the labels of objects.
const LABELS: &str = "object_label";

/// The kinds of objects without mistakes, in name order. The table of a kind counts as read if the kind is referred to.
pub(super) fn check(
    declarations: &Declarations<'_>,
    usage: &mut Usage,
    sources: &Sources,
    reports: &mut Reports,
) -> Vec<ObjectKind> {
    let mut kinds = Vec::new();
    for (number, table) in declarations.tables.iter().enumerate() {
        let (Some(object), Some(columns)) = (table.object, &table.columns) else { continue };
        for ty in columns.iter().skip(1).filter_map(|column| column.ty.as_ref()) {
            usage.read.extend(ty.kinds_within().into_iter().filter_map(|kind| declarations.table(kind)));
        }
        let mut scope = Scope::new(sources, declarations, reports, usage);
        let fields = fields(table, object, columns, &mut scope);
        let uniques = object.uniques.iter().map(|paths| unique(table, paths, columns, reports));
        let uniques: Vec<Option<Unique>> = uniques.collect();
        let uniques: Option<Vec<Unique>> = uniques.into_iter().collect();
        let id_space = id_space(table, object, reports);
        if let (Some(fields), Some(uniques)) = (fields, uniques) {
            let (name, doc) = (table.name.name.clone(), table.doc.to_owned());
            kinds.push(ObjectKind { name, table: TableId(number as u32), id_space, fields, uniques, doc });
        }
    }
    kinds
}

fn id_space(table: &Table<'_>, object: &ast::Object, reports: &mut Reports) -> String {
    if let [first, second, ..] = object.id_spaces.as_slice() {
        let message = format!("`{}` has two id spaces", table.name.name);
        let report = Report::new(Code::Object, second.span, message, "remove one of them");
        reports.push(report.label(first.span, "the first one"));
    }
    object.id_spaces.first().map_or_else(|| table.name.name.clone(), |space| space.name.clone())
}

/// The fields of a kind, or `None` after a report.
fn fields(
    table: &Table<'_>,
    object: &ast::Object,
    columns: &Columns<'_>,
    scope: &mut Scope<'_>,
) -> Option<Vec<ObjectField>> {
    let present = columns.iter().skip(1).map(|column| column.name);
    let formers = object.fields.iter().flat_map(|field| &field.formers);
    let mut whole = true;
    for name in present.clone().chain(formers.clone()) {
        if OF_ALL_KINDS.contains(&name.name.as_str()) {
            let message = format!("every object has `{}`, so it cannot be a field", name.name);
            scope.reports.push(Report::new(Code::Object, name.span, message, "give the field another name"));
            whole = false;
        }
    }
    let mut names: HashMap<&str, &Ident> = present.map(|name| (name.name.as_str(), name)).collect();
    for former in formers {
        if let Some(other) = names.insert(&former.name, former) {
            let message = format!("`{}` names two fields of `{}`", former.name, table.name.name);
            let help = "a former name can belong to one field only, and to none that is still there";
            let report = Report::new(Code::Object, former.span, message, help);
            scope.reports.push(report.label(other.span, "the other one"));
            whole = false;
        }
    }
    let read = columns.iter().skip(1).zip(&object.fields).map(|(column, field)| {
        let ty = column.ty.clone()?;
        let default = match &field.default {
            Some(value) => Some(default(table, column, &ty, value, scope)?),
            None => matches!(ty.base(), Type::Opt(_)).then_some(Value::None),
        };
        let formers = field.formers.iter().map(|former| former.name.clone()).collect();
        Some(ObjectField { name: column.name.name.clone(), ty, default, formers, doc: field.doc.clone() })
    });
    let read: Vec<Option<ObjectField>> = read.collect();
    read.into_iter().collect::<Option<Vec<_>>>().filter(|_| whole)
}

/// The value of a field's default, or `None` after a report.
fn default(
    table: &Table<'_>,
    column: &Column<'_>,
    ty: &Type,
    value: &ast::Expr,
    scope: &mut Scope<'_>,
) -> Option<Value> {
    let name = format!("{}.{}", table.name.name, column.name.name);
    let mut resolver = Resolver::of_constant(scope, &name);
    let wanted = (ty, Some(column.type_span));
    let read = resolver.value(value, wanted, "the default", &mut Nowhere)?;
    if resolver.failed {
        return None;
    }
    let Expr::Constant(read) = read else {
        let message = format!("the default of `{name}` has no value");
        let help = "the function has no result for these arguments; use others";
        scope.reports.push(Report::new(Code::ConstantRange, value.span, message, help));
        return None;
    };
    if let Some((what, help)) = unwritable(ty, &read) {
        let message = format!("the default of `{name}` has {what}");
        scope.reports.push(Report::new(Code::Object, value.span, message, help));
        return None;
    }
    if let Some(violation) = ty.violation(&read) {
        scope.reports.push(out_of_range(value.span, violation).label(column.type_span, "declared here"));
        return None;
    }
    Some(read)
}

/// What a value has that no document can say, with a remedy: a mapping with a key twice, or a choice of not just one.
fn unwritable(ty: &Type, value: &Value) -> Option<(String, String)> {
    match (ty, value) {
        (Type::Constrained(of), value) => match (&of.meaning, value) {
            (Meaning::Mapping, Value::Set(pairs)) => repeated_key(pairs),
            (Meaning::Choice, Value::Record(values)) => not_one(of.base.base(), values),
            _ => None,
        }
        .or_else(|| unwritable(&of.base, value)),
        (_, Value::None) => None,
        (Type::Opt(of), value) => unwritable(of, value),
        (Type::List(of), Value::List(values)) | (Type::Set(of), Value::Set(values)) => {
            values.iter().find_map(|value| unwritable(of, value))
        }
        (Type::Record(record), Value::Record(values)) => {
            record.fields.iter().zip(values.iter()).find_map(|((_, ty), value)| unwritable(ty, value))
        }
        _ => None,
    }
}

/// A key that a mapping has twice.
fn repeated_key(pairs: &[Value]) -> Option<(String, String)> {
    let keys = pairs.iter().filter_map(|pair| match pair {
        Value::Record(fields) => fields.first(),
        _ => None,
    });
    // The set is ordered by its keys first.
    let (key, _) = keys.clone().zip(keys.skip(1)).find(|(key, next)| key == next)?;
    let help = "a mapping has one value for each key; remove one of them".to_owned();
    Some((format!("two values for the key {key}"), help))
}

/// None or several alternatives of a choice.
fn not_one(ty: &Type, values: &[Value]) -> Option<(String, String)> {
    let Type::Record(record) = ty else { return None };
    let names = record.fields.iter().map(|(name, _)| name.as_str());
    let given: Vec<&str> = (names.clone().zip(values))
        .filter(|(_, value)| **value != Value::None)
        .map(|(name, _)| name)
        .collect();
    let what = match given.as_slice() {
        [_] => return None,
        [] => format!("no alternative of `{}`", record.name),
        several => {
            format!("several alternatives of `{}`: {}", record.name, quoted(several.iter().copied()))
        }
    };
    Some((what, format!("a choice has just one of {}; the others are none()", quoted(names))))
}

/// What is unique, or `None` after a report.
fn unique(
    table: &Table<'_>,
    paths: &[Vec<Ident>],
    columns: &Columns<'_>,
    reports: &mut Reports,
) -> Option<Unique> {
    let read = paths.iter().map(|path| field_path(table, path, columns, reports));
    let read: Vec<Option<FieldPath>> = read.collect();
    let read: Vec<FieldPath> = read.into_iter().collect::<Option<_>>()?;
    let mut seen = HashSet::new();
    for (path, names) in read.iter().zip(paths) {
        if let (false, Some(first)) = (seen.insert(&path.steps), names.first()) {
            let message = format!("`{}` is named twice", path.text);
            reports.push(Report::new(Code::Object, first.span, message, "remove one of them"));
            return None;
        }
    }
    Some(Unique { paths: read })
}

fn field_path(
    table: &Table<'_>,
    path: &[Ident],
    columns: &Columns<'_>,
    reports: &mut Reports,
) -> Option<FieldPath> {
    let (first, rest) = path.split_first()?;
    let Some(at) = columns.find(&first.name).filter(|at| *at > 0) else {
        let names = columns.iter().skip(1).map(|column| column.name.name.as_str());
        let message = format!("object `{}` has no field `{}`", table.name.name, first.name);
        reports.push(Report::new(Code::Object, first.span, message, meant(&first.name, names, fields_are)));
        return None;
    };
    let mut steps = vec![at - 1];
    let mut whole = columns[at].ty.as_ref()?;
    let mut ty = element(whole);
    let mut last = first.span;
    for name in rest {
        match step(ty, &name.name) {
            Ok((step, of)) => {
                steps.push(step);
                whole = of;
                ty = element(of);
                last = name.span;
            }
            Err((message, help)) => {
                reports.push(Report::new(Code::Object, name.span, message, help));
                return None;
            }
        }
    }
    // The alternative that needs no name in documents needs none here.
    if let Some((step, of)) = listed(whole) {
        steps.push(step);
        ty = element(of);
    }
    if let Type::Record(record) = ty {
        let message = format!("`{}` is a whole record", record.name);
        let names = record.fields.iter().map(|(own, _)| own.as_str());
        let help = format!("name one of its fields after a period: {}", quoted(names));
        reports.push(Report::new(Code::Object, last, message, help));
        return None;
    }
    let names: Vec<&str> = path.iter().map(|name| name.name.as_str()).collect();
    Some(FieldPath { steps, text: names.join(".") })
}

/// The alternative that is a list, of a choice or of the choices in a type.
fn listed(ty: &Type) -> Option<(usize, &Type)> {
    if let Some(alternatives) = ty.alternatives() {
        let is_list =
            |(_, ty): &&(String, Type)| matches!(ty.base(), Type::Opt(of) if of.elements().is_some());
        let (name, _) = alternatives.fields.iter().find(is_list)?;
        return alternatives.field(name);
    }
    match ty.base() {
        Type::Set(of) | Type::List(of) | Type::Opt(of) => listed(of),
        _ => None,
    }
}

/// The number and the type of a field in values of a type, or why there is none, with a remedy.
fn step<'t>(ty: &'t Type, name: &str) -> Result<(usize, &'t Type), (String, String)> {
    let Type::Record(record) = ty else {
        let message = format!("a value of type {ty} has no field `{name}`");
        return Err((message, "end the path here: only records have fields".to_owned()));
    };
    record.field(name).ok_or_else(|| {
        let names = record.fields.iter().map(|(own, _)| own.as_str());
        (format!("record `{}` has no field `{name}`", record.name), meant(name, names, fields_are))
    })
}

/// The name that a wrong name means; else `list` says all the names there are.
fn meant<'n>(
    name: &str,
    names: impl Iterator<Item = &'n str> + Clone,
    list: impl FnOnce(String) -> String,
) -> String {
    match suggest::nearest(name, names.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => list(quoted(names)),
    }
}

fn fields_are(all: String) -> String {
    format!("its fields are {all}")
}

/// The type of the single values in a type.
pub(super) fn element(ty: &Type) -> &Type {
    match ty.base() {
        Type::Set(of) | Type::List(of) | Type::Opt(of) => element(of),
        ty => ty,
    }
}

/// Checks that the key of each table of state is an object.
pub(super) fn states(declarations: &Declarations<'_>, reports: &mut Reports) {
    for table in declarations.tables.iter().filter(|table| table.state) {
        let Some(columns) = &table.columns else { continue };
        let of_object = match table.key.as_deref() {
            // Unknown columns are already reported.
            Some([]) => true,
            Some([key]) => columns[*key].ty.as_ref().is_none_or(|ty| ty.kinds().is_some()),
            _ => false,
        };
        if !of_object {
            let message = format!("the key of the state table `{}` must be one reference", table.name.name);
            let help = "a row is the state of one object: state table mtu(switch: ref switch, mtu: int) key(switch);";
            reports.push(Report::new(Code::Object, table.name.span, message, help));
        }
    }
}

/// Checks what rules refuse: each refusal names a kind and a field, and depends on objects alone.
pub(super) fn refusals(
    declarations: &Declarations<'_>,
    rules: &[CheckedRule<'_>],
    dependencies: &[Dependency],
    reports: &mut Reports,
) {
    if declarations.tables.iter().all(|table| table.object.is_none()) {
        return;
    }
    for (number, table) in declarations.tables.iter().enumerate() {
        if table.role != Role::Forbid {
            continue;
        }
        objects_alone(number, declarations, dependencies, reports);
        if table.name.name != REFUSE {
            continue;
        }
        let Some(columns) = &table.columns else { continue };
        let fits = |column: &Column<'_>| column.ty.as_ref().is_none_or(|ty| *ty == Type::String);
        let names = columns.iter().map(|column| column.name.name.as_str());
        if !names.eq(REFUSE_COLUMNS) || !columns.iter().all(fits) {
            let message =
                "the columns of `refuse` must be `kind`, `id`, `path` and `text`, all strings".to_owned();
            let help = "forbid table refuse(kind: string, id: string, path: string, text: string);";
            reports.push(Report::new(Code::Refuse, table.name.span, message, help));
            continue;
        }
        for rule in rules.iter().filter(|rule| rule.rule.head.0 as usize == number) {
            names_a_field(rule, declarations, reports);
        }
    }
}

/// Checks the kind and the path of a refusal, if they are constants.
fn names_a_field(rule: &CheckedRule<'_>, declarations: &Declarations<'_>, reports: &mut Reports) {
    let text = |at: usize| match rule.rule.terms.get(at) {
        Some(HeadTerm::Value(Expr::Constant(Value::String(text)))) => Some(text.to_string()),
        _ => None,
    };
    let head = &rule.source.head;
    let span = |at: usize| {
        let named =
            |argument: &&Argument| argument.name.as_ref().is_some_and(|name| name.name == REFUSE_COLUMNS[at]);
        let positional = head.arguments.get(at).filter(|argument| argument.name.is_none());
        positional.or_else(|| head.arguments.iter().find(named)).map_or(head.span, |term| term.value.span)
    };
    let Some(kind) = text(0) else { return };
    let kinds = declarations.tables.iter().filter(|table| table.object.is_some());
    let Some(table) = kinds.clone().find(|table| table.name.name == kind) else {
        let names = kinds.map(|table| table.name.name.as_str());
        let help = meant(&kind, names, |all| format!("the kinds are {all}"));
        reports.push(Report::new(
            Code::Refuse,
            span(0),
            format!("no kind of object is named `{kind}`"),
            help,
        ));
        return;
    };
    let (Some(path), Some(columns)) = (text(2), &table.columns) else { return };
    let field = path.split(['.', '[']).next().unwrap_or_default();
    if field.is_empty() || OF_ALL_KINDS.contains(&field) {
        return;
    }
    let Some(column) = columns.find(field) else {
        let names = columns.iter().map(|column| column.name.name.as_str());
        let help = meant(field, names, |all| format!("its fields are {all}; \"\" means the whole object"));
        reports.push(Report::new(
            Code::Refuse,
            span(2),
            format!("object `{kind}` has no field `{field}`"),
            help,
        ));
        return;
    };
    let ty = columns[column].ty.as_ref();
    if let Some((message, help)) = ty.and_then(|ty| misses(ty, path.split('.').skip(1))) {
        reports.push(Report::new(Code::Refuse, span(2), format!("path `{path}`: {message}"), help));
    }
}

/// Why a type has no part at a path of fields, with a remedy. The keys of a mapping are data.
fn misses<'p>(ty: &Type, path: impl Iterator<Item = &'p str>) -> Option<(String, String)> {
    let mut ty = ty;
    for name in path {
        let name = name.split('[').next().unwrap_or_default();
        if is_mapping(ty) {
            return None;
        }
        match step(element(ty), name) {
            Ok((_, of)) => ty = of,
            Err(wrong) => return Some(wrong),
        }
    }
    None
}

fn is_mapping(ty: &Type) -> bool {
    match ty {
        Type::Constrained(of) => of.meaning == Meaning::Mapping || is_mapping(&of.base),
        Type::Set(of) | Type::List(of) | Type::Opt(of) => is_mapping(of),
        _ => false,
    }
}

/// Reports a table that forbids what does not follow from objects alone.
fn objects_alone(
    number: usize,
    declarations: &Declarations<'_>,
    dependencies: &[Dependency],
    reports: &mut Reports,
) {
    let mut reached = BTreeSet::from([number]);
    let mut next = vec![number];
    while let Some(table) = next.pop() {
        let reads = dependencies.iter().filter(|dependency| dependency.head == table);
        next.extend(reads.map(|dependency| dependency.reads).filter(|reads| reached.insert(*reads)));
    }
    let table = &declarations.tables[number];
    let reads = |table: &usize| &declarations.tables[*table];
    let told = |message: String, help: &str, read: &Table<'_>, label: &str| {
        Report::new(Code::Refuse, table.name.span, message, help).label(read.name.span, label)
    };
    if let Some(report) = reached.iter().map(reads).find(|table| is_report(table)) {
        let message = format!(
            "`{}` depends on the input table `{}`, whose rows are not objects",
            table.name.name, report.name.name
        );
        let help = "reports are facts and cannot be refused: derive rows of an output table, such as `problem`, \
        instead";
        reports.push(told(message, help, report, "filled with reports"));
    }
    if let Some((clock, hook)) = reached.iter().map(reads).find_map(|table| Some((table, clock(table)?))) {
        let message = format!(
            "`{}` depends on `{}`, which the hook `{hook}` changes as time passes",
            table.name.name, clock.name.name
        );
        let help = "the passing of time cannot be refused: derive rows of an output table, such as `problem`, \
        instead";
        reports.push(told(message, help, clock, "changes with time"));
    }
}

/// Whether the rows of a table come from outside and are not objects.
fn is_report(table: &Table<'_>) -> bool {
    table.role == Role::Input && table.hook.is_none() && table.object.is_none() && table.name.name != LABELS
}

/// The hook that fills a table, if it changes the table between transactions.
fn clock<'t>(table: &Table<'t>) -> Option<&'t str> {
    let hook = &table.hook?.name.name;
    HookKind::by_name(hook)?.is_timed().then_some(hook)
}

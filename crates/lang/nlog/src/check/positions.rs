//! Builds the index of the names of a program from the results of the checker.
//!
//! On request, the checker notes the types of variables, and the record types of field accesses; everything else
//! follows from the declarations.

use std::collections::HashMap;
use std::sync::Arc;

use nlog_data::function::Shape as ShapeOf;
use nlog_data::{Record, Type};
use openflow_rs::literal::{self, ActionInfo, Context, Wants};

use super::aggregate;
use super::constraints;
use super::declarations::Declarations;
use super::objects;
use super::openflow;
use super::pipeline::Fields;
use super::resolve::Resolver;
use crate::hook::{HookKind, SettingKind};
use crate::index::{Index, Symbol, SymbolKind as Kind};
use crate::syntax::ast::{
    self, Call, Expr, ExprKind, Ident, ItemKind, Span, TestStepKind, TypeDefinition, TypeRef,
};

/// Facts that only the check of rules, functions and constants determines.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    /// By the place of the variable's first occurrence.
    variables: HashMap<Span, Type>,
    /// By the place of the field's name.
    fields: HashMap<Span, Arc<Record>>,
}

impl Resolver<'_, '_> {
    /// Notes the types, if requested.
    pub(super) fn note(&mut self) {
        let Some(notes) = &mut self.scope.usage.notes else { return };
        for variable in &self.variables {
            if let Some(ty) = self.types.exact(variable.ty) {
                notes.variables.insert(variable.first, ty);
            }
        }
        for site in &self.fields {
            if let Some(Type::Record(record)) = self.types.resolved(site.record()) {
                notes.fields.insert(site.name().span, record);
            }
        }
    }
}

/// The index of a checked program.
pub(super) fn index(files: &[&ast::File], declarations: &Declarations<'_>, notes: &Notes) -> Index {
    let mut walk =
        Walk { declarations, notes, constants: HashMap::new(), symbols: Vec::new(), scope: Scope::None };
    for constant in files.iter().flat_map(|file| &file.constants) {
        walk.constants.entry(&constant.name.name).or_insert(constant);
    }
    for file in files {
        walk.file(file);
    }
    Index::new(walk.symbols)
}

/// The possible meanings of a name besides a constant.
enum Scope {
    /// Nothing: a constant's value, a test.
    None,
    /// A variable, by its name and first place.
    Rule(HashMap<String, Span>),
    /// A parameter, by its name, place and type.
    Function(HashMap<String, (Span, Option<Type>)>),
}

struct Walk<'a> {
    declarations: &'a Declarations<'a>,
    notes: &'a Notes,
    constants: HashMap<&'a str, &'a ast::Constant>,
    symbols: Vec<Symbol>,
    scope: Scope,
}

impl<'a> Walk<'a> {
    fn add(&mut self, kind: Kind, ident: &Ident, definition: Option<Span>, ty: Option<Type>, doc: &str) {
        let Ident { name, span } = ident.clone();
        self.symbols.push(Symbol { kind, name, span, definition, ty, doc: doc.to_owned() });
    }

    fn file(&mut self, file: &'a ast::File) {
        for table in &file.tables {
            self.table(table);
        }
        for constant in &file.constants {
            self.scope = Scope::None;
            self.constant(&constant.name);
            constant.ty.iter().for_each(|ty| self.type_ref(ty));
            constant.value.iter().for_each(|value| self.expr(value));
        }
        self.scope = Scope::None;
        for field in &file.fields {
            self.openflow_field(&field.name);
            if let Some(of) = &field.of {
                self.openflow_field(of);
            }
        }
        for priority in &file.priorities {
            priority.of.iter().for_each(|stage| self.name(stage));
            priority.greatest.iter().for_each(|greatest| self.expr(greatest));
        }
        for reserved in &file.reservations {
            reserved.of.iter().for_each(|ty| self.type_name(ty));
            reserved.greatest.iter().for_each(|greatest| self.expr(greatest));
        }
        for declared in &file.types {
            self.type_declaration(declared);
        }
        for declared in &file.functions {
            self.function_declaration(declared);
        }
        for rule in &file.rules {
            self.rule(rule);
        }
        self.scope = Scope::None;
        for test in &file.tests {
            self.test(test);
        }
    }

    fn table(&mut self, table: &'a ast::Table) {
        self.table_name(&table.name);
        if let Some(object) = &table.object {
            return self.object(table, object);
        }
        for (name, ty) in table.columns.iter().flatten() {
            self.column(&table.name.name, name, Some(name.span));
            self.type_ref(ty);
        }
        for name in table.key.iter().chain(&table.uniques).flatten() {
            self.column(&table.name.name, name, None);
        }
        if let Some(hook) = &table.hook {
            self.table_name(&hook.source);
            self.settings(hook);
        }
        if let Some(reads) = table.listing.as_ref().and_then(|listing| listing.reads.as_ref()) {
            let limits = reads.counts.iter().filter_map(|count| count.limit.as_ref());
            for name in reads.columns.iter().chain(limits) {
                self.column(&table.name.name, name, None);
            }
            reads.on.iter().for_each(|hosts| self.table_name(hosts));
        }
    }

    /// The columns and constants in the settings of a hook.
    fn settings(&mut self, hook: &'a ast::Hook) {
        self.scope = Scope::None;
        let known = HookKind::by_name(&hook.name.name).map_or(&[][..], HookKind::settings);
        for (name, value) in &hook.settings {
            let kind = known.iter().find(|setting| setting.name == name.name).map(|setting| setting.kind);
            match (kind, &value.kind) {
                (Some(SettingKind::Column), ExprKind::Name(name)) => {
                    let column = Ident { name: name.clone(), span: value.span };
                    self.column(&hook.source.name, &column, None);
                }
                _ => self.expr(value),
            }
        }
    }

    /// The fields of a kind of object, their former names and defaults, and what is unique. The id is not written.
    fn object(&mut self, table: &'a ast::Table, object: &'a ast::Object) {
        self.scope = Scope::None;
        let columns = table.columns.iter().flatten().skip(1);
        for ((name, ty), field) in columns.zip(&object.fields) {
            self.column(&table.name.name, name, Some(name.span));
            self.type_ref(ty);
            for former in &field.formers {
                let known = self.known_type(ty);
                self.add(Kind::Column, former, Some(name.span), known, &field.doc);
            }
            field.default.iter().for_each(|value| self.expr(value));
        }
        for path in object.uniques.iter().flatten() {
            self.path(&table.name.name, path);
        }
    }

    /// A field of an object, then fields of the records in it.
    fn path(&mut self, kind: &str, path: &[Ident]) {
        let Some((first, rest)) = path.split_first() else { return };
        self.column(kind, first, None);
        let number = self.declarations.table(kind);
        let columns = number.and_then(|number| self.declarations.tables[number].columns.as_ref());
        let found = columns.and_then(|columns| columns[columns.find(&first.name)?].ty.clone());
        let mut ty = found;
        for name in rest {
            let Some(Type::Record(record)) = ty.as_ref().map(objects::element) else { return };
            let record = record.clone();
            self.field(name, &record);
            ty = record.field(&name.name).map(|(_, ty)| ty.clone());
        }
    }

    /// The kind and the path of the object that a rule refuses, where they are written as literals.
    fn refusal(&mut self, head: &'a Call) {
        let text = |at: usize| {
            let argument = head.arguments.get(at).filter(|argument| argument.name.is_none())?;
            let ExprKind::String(text) = &argument.value.kind else { return None };
            let span = argument.value.span;
            let inner = Span { start: span.start + 1, end: span.end.saturating_sub(1), ..span };
            // A literal with escape sequences is longer than its text.
            (inner.end - inner.start == text.len() as u32).then_some((text.as_str(), inner))
        };
        let Some((kind, span)) = text(0) else { return };
        let number = self.declarations.table(kind);
        if number.is_none_or(|number| self.declarations.tables[number].object.is_none()) {
            return;
        }
        self.table_name(&Ident { name: kind.to_owned(), span });
        let Some((path, span)) = text(2) else { return };
        let mut start = span.start;
        let mut names = Vec::new();
        for part in path.split('.') {
            let name = part.split('[').next().unwrap_or_default();
            names.push(Ident {
                name: name.to_owned(),
                span: Span { start, end: start + name.len() as u32, ..span },
            });
            start += part.len() as u32 + 1;
        }
        self.path(kind, &names);
    }

    fn table_name(&mut self, name: &Ident) {
        if let Some(number) = self.declarations.table(&name.name) {
            let table = &self.declarations.tables[number];
            self.add(Kind::Table, name, Some(table.name.span), None, table.doc);
        }
    }

    /// Records an occurrence of a column; `declared` marks its declaration.
    fn column(&mut self, table: &str, name: &Ident, declared: Option<Span>) {
        let Some(number) = self.declarations.table(table) else { return };
        let table = &self.declarations.tables[number];
        let Some(columns) = &table.columns else { return };
        let Some(at) = columns.find(&name.name) else { return };
        let column = &columns[at];
        let definition = declared.unwrap_or(column.name.span);
        // The id of an object is declared nowhere.
        let field = table.object.map(|object| at.checked_sub(1).and_then(|at| object.fields.get(at)));
        let definition = Some(definition).filter(|_| !matches!(field, Some(None)));
        let doc = field.flatten().map_or("", |field| &field.doc);
        self.add(Kind::Column, name, definition, column.ty.clone(), doc);
    }

    fn constant(&mut self, name: &Ident) {
        use super::declarations::Constant;
        let Some(constant) = self.declarations.constants.get(name.name.as_str()) else { return };
        let (ty, doc) = match constant {
            Constant::Value(value, ty) => (Some(ty.clone()), value.to_string()),
            Constant::Text(text) => (Some(Type::String), nlog_data::Value::from(text.as_str()).to_string()),
            Constant::Faulty => (None, String::new()),
        };
        let definition = self.constants.get(name.name.as_str()).copied();
        let docs = definition.map(|constant| constant.doc.as_str()).filter(|docs| !docs.is_empty());
        let doc = docs.map_or_else(|| doc.clone(), |docs| format!("{doc}\n{docs}"));
        self.add(Kind::Constant, name, definition.map(|constant| constant.name.span), ty, &doc);
    }

    fn type_declaration(&mut self, declared: &'a ast::TypeDeclaration) {
        self.type_name(&declared.name);
        let ty = self.declarations.types.of_word(&declared.name.name);
        match &declared.definition {
            None => {}
            Some(TypeDefinition::Alias(of)) => self.type_ref(of),
            Some(TypeDefinition::Constrained(of)) => {
                self.type_ref(&of.base);
                self.scope = Scope::None;
                for bound in of.range.iter().flat_map(|range| [&range.least, &range.greatest]) {
                    self.expr(bound);
                }
                for condition in &of.conditions {
                    let value = (condition.holds.span, ty.clone());
                    self.scope = Scope::Function(HashMap::from([(constraints::VALUE.to_owned(), value)]));
                    self.expr(&condition.holds);
                }
            }
            Some(TypeDefinition::Enum(members)) => {
                for member in members {
                    self.add(Kind::Member, member, Some(member.span), ty.clone(), "");
                }
            }
            Some(TypeDefinition::Record(fields)) => {
                for (name, of) in fields {
                    let known = match &ty {
                        Some(Type::Record(record)) => record.field(&name.name).map(|(_, ty)| ty.clone()),
                        _ => None,
                    };
                    self.add(Kind::Field, name, Some(name.span), known, "");
                    self.type_ref(of);
                }
            }
        }
    }

    fn type_ref(&mut self, ty: &TypeRef) {
        if !ty.kinds.is_empty() {
            return ty.kinds.iter().for_each(|kind| self.table_name(kind));
        }
        self.type_name(&ty.name);
        ty.of.iter().for_each(|of| self.type_ref(of));
    }

    fn type_name(&mut self, name: &Ident) {
        let types = &self.declarations.types;
        let known = types.of_word(&name.name);
        match types.get(&name.name) {
            Some(named) => {
                let declaration = named.declaration;
                self.add(Kind::Type, name, Some(declaration.name.span), known, &declaration.doc);
            }
            None if super::named_types::builtin_names().any(|builtin| builtin == name.name) => {
                self.add(Kind::Type, name, None, known, "");
            }
            None => {}
        }
    }

    fn function_declaration(&mut self, declared: &'a ast::FunctionDeclaration) {
        self.function_name(&declared.name, None);
        let mut parameters = HashMap::new();
        for (name, ty) in declared.parameters.iter().flatten() {
            // Mistakes are reported elsewhere; here they are dropped.
            let known = self.known_type(ty);
            self.add(Kind::Parameter, name, Some(name.span), known.clone(), "");
            parameters.insert(name.name.clone(), (name.span, known));
            self.type_ref(ty);
        }
        declared.result.iter().for_each(|ty| self.type_ref(ty));
        self.scope = Scope::Function(parameters);
        declared.body.iter().for_each(|body| self.expr(body));
    }

    fn known_type(&self, ty: &TypeRef) -> Option<Type> {
        self.declarations.named_type(ty, &mut crate::diagnostic::Reports::default())
    }

    /// Records a function's name; if several functions share it, those that take this many arguments.
    fn function_name(&mut self, name: &Ident, arguments: Option<usize>) -> bool {
        let own = self.declarations.own_functions.get(&name.name);
        let definition = own.map(|own| own.declaration.name.span);
        let all = self.declarations.functions(&name.name);
        let fitting: Vec<_> = all
            .iter()
            .filter(|function| arguments.is_none_or(|count| function.parameters.len() == count))
            .collect();
        let shown = if fitting.is_empty() { all.iter().collect() } else { fitting };
        let results: Vec<&ShapeOf> =
            shown.iter().flat_map(|function| function.results.iter().map(|result| &result.shape)).collect();
        let ty = match results.as_slice() {
            [ShapeOf::Is(first), others @ ..]
                if others.iter().all(|other| matches!(other, ShapeOf::Is(ty) if ty == first)) =>
            {
                Some(first.clone())
            }
            _ => None,
        };
        let lines: Vec<String> = shown
            .iter()
            .map(|function| format!("{}\n{}", function.signature(), function.doc).trim_end().to_owned())
            .collect();
        let known = definition.is_some() || !all.is_empty();
        if known {
            self.add(Kind::Function, name, definition, ty, &lines.join("\n"));
        }
        known
    }

    fn rule(&mut self, rule: &'a ast::Rule) {
        // Variables first, because the head may precede a variable's first occurrence in the body.
        let fields = &self.declarations.fields;
        let mut first = HashMap::new();
        let mut name = |ident: &str, span: Span| {
            let place = first.entry(ident.to_owned()).or_insert(span);
            *place = span.min(*place);
        };
        for argument in &rule.head.arguments {
            variables(&argument.value, fields, &mut name);
        }
        for item in &rule.body {
            match &item.kind {
                ItemKind::Atom(call) => {
                    let values = call.arguments.iter().map(|argument| &argument.value);
                    values.for_each(|value| variables(value, fields, &mut name));
                }
                ItemKind::Binding(left, right) => {
                    variables(left, fields, &mut name);
                    variables(right, fields, &mut name);
                }
                ItemKind::Condition(condition) => variables(condition, fields, &mut name),
            }
        }
        self.scope = Scope::Rule(first);
        self.row(&rule.head);
        if rule.head.name.name == objects::REFUSE {
            self.refusal(&rule.head);
        }
        for item in &rule.body {
            match &item.kind {
                ItemKind::Atom(call) => self.row(call),
                ItemKind::Binding(left, right) => {
                    self.expr(left);
                    self.expr(right);
                }
                ItemKind::Condition(condition) => self.expr(condition),
            }
        }
    }

    /// An atom, a head or a row of a test.
    fn row(&mut self, call: &'a Call) {
        if self.declarations.table(&call.name.name).is_some() {
            self.table_name(&call.name);
        } else {
            self.function_name(&call.name, None);
        }
        for argument in &call.arguments {
            argument.name.iter().for_each(|name| self.column(&call.name.name, name, None));
            self.expr(&argument.value);
        }
    }

    fn test(&mut self, test: &'a ast::Test) {
        self.add(Kind::Test, &test.name, Some(test.name.span), None, "");
        for step in &test.steps {
            match &step.kind {
                TestStepKind::Transaction(changes) | TestStepKind::Delta(changes) => {
                    for change in changes {
                        self.row(&change.row);
                    }
                }
                TestStepKind::Holds(row) | TestStepKind::Lacks(row) => self.row(row),
                TestStepKind::Exactly(rows) => rows.iter().for_each(|row| self.row(row)),
                TestStepKind::Packet(packet) => self.expr(&packet.frame),
                TestStepKind::Objects(_) | TestStepKind::Port { .. } | TestStepKind::Error(_) => {}
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.name(&Ident { name: name.clone(), span: expr.span }),
            ExprKind::Call(call) => {
                let is_aggregate = aggregate::by_name(&call.name.name);
                if !self.function_name(&call.name, Some(call.arguments.len()))
                    && let Some(found) = is_aggregate
                {
                    self.add(Kind::Aggregate, &call.name, None, None, aggregate::example(found));
                }
            }
            ExprKind::Prefixed(prefix, _) => {
                let end = expr.span.start + prefix.len() as u32;
                self.type_name(&Ident { name: prefix.clone(), span: Span { end, ..expr.span } });
            }
            ExprKind::Record(name, fields) => {
                self.type_name(name);
                if let Some(Type::Record(record)) = self.declarations.types.of_word(&name.name) {
                    for (field, _) in fields {
                        self.field(field, &record);
                    }
                }
            }
            ExprKind::Field(_, field) => {
                if let Some(record) = self.notes.fields.get(&field.span) {
                    self.field(field, record);
                }
            }
            ExprKind::Match(terms) => terms.iter().for_each(|term| self.openflow_field(&term.name)),
            ExprKind::Actions(actions) => {
                return actions.iter().for_each(|action| self.action(action, Context::Flow));
            }
            _ => {}
        }
        for part in expr.parts() {
            self.expr(part);
        }
    }

    fn name(&mut self, ident: &Ident) {
        if let Scope::Function(parameters) = &self.scope
            && let Some((span, ty)) = parameters.get(&ident.name).cloned()
        {
            return self.add(Kind::Parameter, ident, Some(span), ty, "");
        }
        if self.declarations.constants.contains_key(ident.name.as_str()) {
            return self.constant(ident);
        }
        if let Scope::Rule(first) = &self.scope
            && let Some(&span) = first.get(&ident.name)
        {
            let ty = self.notes.variables.get(&span).cloned();
            self.add(Kind::Variable, ident, Some(span), ty, "");
        }
    }

    fn field(&mut self, field: &Ident, record: &Record) {
        let Some((_, ty)) = record.field(&field.name) else { return };
        let declaration = self.declarations.types.get(&record.name).map(|named| named.declaration);
        let definition = declaration.and_then(|declaration| match &declaration.definition {
            Some(TypeDefinition::Record(fields)) => {
                fields.iter().find(|(name, _)| name.name == field.name).map(|(name, _)| name.span)
            }
            _ => None,
        });
        self.add(Kind::Field, field, definition, Some(ty.clone()), "");
    }

    fn openflow_field(&mut self, name: &Ident) {
        if let Some(field) = self.declarations.fields.get(&name.name) {
            let stands_for = field.of.map(|of| format!("stands for {}", of.written()));
            let doc = [field.declaration.doc.as_str(), stands_for.as_deref().unwrap_or_default()];
            let doc = doc.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
            return self.add(Kind::PacketField, name, Some(field.declaration.name.span), None, &doc);
        }
        let Ok(wanted) = literal::match_item(&name.name, None) else { return };
        let doc = match wanted {
            Some(wanted) => {
                let kinds: Vec<String> = wanted.kinds.iter().map(ToString::to_string).collect();
                let mask = if wanted.masked { ", with a mask if wanted" } else { "" };
                format!("takes {}{mask}", kinds.join(" or "))
            }
            None => "stands alone".to_owned(),
        };
        self.add(Kind::OpenFlowField, name, None, None, &doc);
    }

    /// An action, its fields and the values in it.
    fn action(&mut self, action: &'a Expr, context: Context) {
        let (name, arguments) = match &action.kind {
            ExprKind::Call(call) => (call.name.clone(), call.arguments.as_slice()),
            ExprKind::Name(name) => (Ident { name: name.clone(), span: action.span }, [].as_slice()),
            _ => return,
        };
        let Ok(info) = ActionInfo::find(context, &name.name) else { return };
        self.add(Kind::OpenFlowAction, &name, None, None, info.doc);
        let Ok(mut known) = literal::Call::new(context, &name.name) else { return };
        for argument in arguments {
            let label = argument.name.as_ref().map(|label| label.name.as_str());
            let shape = self.declarations.fields.shape(&known, &argument.value);
            match known.argument(label, shape) {
                Ok(Wants::Value(_)) => self.expr(&argument.value),
                Ok(Wants::Action(context)) => self.action(&argument.value, context),
                Ok(_) => match &argument.value.kind {
                    ExprKind::Name(name) => {
                        self.openflow_field(&Ident { name: name.clone(), span: argument.value.span });
                    }
                    ExprKind::Bits(name, ..) => self.openflow_field(name),
                    _ => {}
                },
                Err(_) => {}
            }
        }
    }
}

/// The names in an expression that are not fields or actions.
fn variables(expr: &Expr, fields: &Fields<'_>, found: &mut impl FnMut(&str, Span)) {
    match &expr.kind {
        ExprKind::Name(name) => found(name, expr.span),
        ExprKind::Actions(actions) => {
            for value in openflow::values_of(actions, fields) {
                variables(value, fields, found);
            }
        }
        _ => {
            for part in expr.parts() {
                variables(part, fields, found);
            }
        }
    }
}

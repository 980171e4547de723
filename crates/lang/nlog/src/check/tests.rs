//! Unit tests: resolves and computes the rows of tests.

use std::collections::HashMap;
use std::path::Path;

use nlog_data::{ErrorCode, ObjectKind, Role, TableId, Transaction, Value};

use super::ATOM;
use super::constants::Nowhere;
use super::declarations::quoted;
use super::packets;
use super::resolve::{Node, Resolver, Scope, Term};
use super::suggest;
use crate::diagnostic::{Code, Report};
use crate::program::{ExpectedRow, Expr, ObjectsFile, Pattern, Test, TestStep, TestStepKind};
use crate::source::is_test_file;
use crate::syntax::ast::{self, Call, Change, ExprKind, Ident, Span};

/// Checks the tests of all files, and returns those without mistakes.
pub(super) fn check(files: &[&ast::File], scope: &mut Scope<'_>) -> Vec<Test> {
    let mut tests = Vec::new();
    for file in files {
        let mut first: HashMap<&str, Span> = HashMap::new();
        for test in &file.tests {
            let name = &test.name;
            let place = scope.sources.place(name.span);
            if *place.file != *ATOM && !is_test_file(Path::new(&*place.file)) {
                let message = format!("test {:?} is in a file that is not a test file", name.name);
                let help = "move it to a file named `NAME.test.nlog` that imports this one; `weft test` \
                runs such \
                    files";
                scope.reports.push(Report::new(Code::MisplacedTest, name.span, message, help));
            }
            if let Some(&earlier) = first.get(name.name.as_str()) {
                let message =
                    format!("test {:?} is already defined at {}", name.name, scope.sources.place(earlier));
                let help = "give it a unique name that says what it tests";
                let report = Report::new(Code::DuplicateTest, name.span, message, help);
                scope.reports.push(report.label(earlier, "first test with this name"));
            } else {
                first.insert(&name.name, name.span);
            }
            tests.extend(check_test(test, scope));
        }
    }
    tests
}

fn check_test(test: &ast::Test, scope: &mut Scope<'_>) -> Option<Test> {
    let mut steps = Vec::with_capacity(test.steps.len());
    let (mut transactions, mut expectations) = (0, 0);
    for step in &test.steps {
        match &step.kind {
            ast::TestStepKind::Transaction(_)
            | ast::TestStepKind::Objects(_)
            | ast::TestStepKind::Port { .. } => transactions += 1,
            ast::TestStepKind::Delta(_) | ast::TestStepKind::Error(_) if transactions == 0 => {
                expectations += 1;
                let message = "no transaction precedes this, so there are no changes and no error to check";
                let help = "write `given { … }` or `change { … }` before it";
                scope.reports.push(Report::new(Code::EarlyExpectation, step.span, message, help));
            }
            _ => expectations += 1,
        }
        steps.push(
            check_step(test, step, scope)
                .map(|kind| TestStep { place: scope.sources.place(step.span), kind }),
        );
    }
    if expectations == 0 {
        let message =
            format!("test {:?} expects nothing: it fails only if a transaction is refused", test.name.name);
        let help = "add an expectation: expect TABLE(…);";
        scope.reports.push(Report::new(Code::NoExpectation, test.name.span, message, help));
    }
    Some(Test {
        name: test.name.name.as_str().into(),
        place: scope.sources.place(test.span),
        steps: steps.into_iter().collect::<Option<_>>()?,
    })
}

fn check_step(test: &ast::Test, step: &ast::TestStep, scope: &mut Scope<'_>) -> Option<TestStepKind> {
    Some(match &step.kind {
        ast::TestStepKind::Transaction(changes) => {
            TestStepKind::Transaction(transaction(test, changes, scope)?)
        }
        ast::TestStepKind::Objects(path) => TestStepKind::Objects(objects(path, scope)?),
        ast::TestStepKind::Port { port, host } => {
            TestStepKind::Port { port: port.name.as_str().into(), host: host.name.as_str().into() }
        }
        ast::TestStepKind::Holds(call) => TestStepKind::Holds(pattern(test, call, scope)?),
        ast::TestStepKind::Lacks(call) => TestStepKind::Lacks(pattern(test, call, scope)?),
        ast::TestStepKind::Exactly(rows) => {
            names_a_table(rows.len(), step.span, "row", scope);
            let rows: Vec<_> = rows.iter().map(|row| whole_row(test, row, scope)).collect();
            TestStepKind::Exactly(rows.into_iter().collect::<Option<_>>()?)
        }
        ast::TestStepKind::Delta(changes) => {
            names_a_table(changes.len(), step.span, "change", scope);
            let rows: Vec<_> = changes
                .iter()
                .map(|change| Some((change.insert, whole_row(test, &change.row, scope)?)))
                .collect();
            let rows: Vec<(bool, ExpectedRow)> = rows.into_iter().collect::<Option<_>>()?;
            let (insert, delete): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(insert, _)| *insert);
            let rows = |side: Vec<(bool, ExpectedRow)>| side.into_iter().map(|(_, row)| row).collect();
            TestStepKind::Delta { insert: rows(insert), delete: rows(delete) }
        }
        ast::TestStepKind::Error(code) => TestStepKind::Error(error_code(code, scope)?),
        ast::TestStepKind::Packet(packet) => TestStepKind::Packet(packets::check(test, packet, scope)?),
    })
}

/// Reports an empty list of rows: a list concerns only the tables of its rows.
fn names_a_table(count: usize, span: Span, what: &str, scope: &mut Scope<'_>) {
    if count == 0 {
        let message = format!("no {what} is listed, so no table is checked");
        let help = "name each table that should be empty: expect no TABLE(..);";
        scope.reports.push(Report::new(Code::NoExpectation, span, message, help));
    }
}

fn transaction(test: &ast::Test, changes: &[Change], scope: &mut Scope<'_>) -> Option<Transaction> {
    let mut transaction = Transaction::default();
    let mut faulty = false;
    for change in changes {
        let name = &change.row.name;
        let declared = scope.declarations.table(&name.name).map(|table| &scope.declarations.tables[table]);
        if let Some(declared) = declared.filter(|declared| declared.role != Role::Input) {
            let message =
                format!("`{}` is derived by rules; transactions change input tables only", name.name);
            let tables = scope.declarations.tables.iter();
            let inputs = tables.filter(|table| table.role == Role::Input && table.hook.is_none());
            let help = match inputs.map(|table| table.name.name.as_str()).take(8).collect::<Vec<_>>() {
                names if names.is_empty() => "declare it as `input table`".to_owned(),
                names => {
                    format!("change the tables it is derived from; the input tables are {}", quoted(names))
                }
            };
            let report = Report::new(Code::NotAnInput, name.span, message, help);
            scope.reports.push(report.label(declared.name.span, "declared here"));
            scope.usage.read.extend(scope.declarations.table(&name.name));
            faulty = true;
            continue;
        }
        let Some(ExpectedRow { table, row, .. }) = whole_row(test, &change.row, scope) else {
            faulty = true;
            continue;
        };
        let side = if change.insert { &mut transaction.insert } else { &mut transaction.delete };
        side.entry(table).or_default().push(row);
    }
    (!faulty).then_some(transaction)
}

/// The file of objects with this path.
fn objects(path: &Ident, scope: &mut Scope<'_>) -> Option<ObjectsFile> {
    let document = scope.sources.document(path.span.file, &path.name)?;
    match &document.text {
        Ok(text) => Some(ObjectsFile { name: document.name.clone(), text: text.clone() }),
        Err(why) => {
            let message = format!("the file of objects {:?} {why}", path.name);
            let help = "a path is relative to the folder of the test file, and ends with .yaml, .yml, .json or .jsonl";
            scope.reports.push(Report::new(Code::ObjectsFile, path.span, message, help));
            None
        }
    }
}

fn error_code(code: &Ident, scope: &mut Scope<'_>) -> Option<ErrorCode> {
    let known = ErrorCode::ALL.iter().find(|known| known.name() == code.name);
    if known.is_none() {
        let names = ErrorCode::ALL.iter().map(|known| known.name());
        let help = match suggest::nearest(&code.name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the transaction error codes are {}", quoted(names)),
        };
        let message = format!("unknown transaction error code {:?}", code.name);
        scope.reports.push(Report::new(Code::UnknownError, code.span, message, help));
    }
    known.copied()
}

/// A row with a value for every column.
fn whole_row(test: &ast::Test, call: &Call, scope: &mut Scope<'_>) -> Option<ExpectedRow> {
    let place = scope.sources.place(call.span);
    let (table, columns) = Resolver::of_test(scope, &test.name.name).row(call, true)?;
    // Every column has a value; otherwise a mistake was reported.
    let row = columns.into_iter().collect::<Option<_>>()?;
    Some(ExpectedRow { table, row, place })
}

fn pattern(test: &ast::Test, call: &Call, scope: &mut Scope<'_>) -> Option<Pattern> {
    let (table, columns) = Resolver::of_test(scope, &test.name.name).row(call, false)?;
    Some(Pattern { table, columns })
}

impl Resolver<'_, '_> {
    /// Resolves and computes a row: the table, and for each column its value, or none if any value
    /// is accepted.
    fn row(&mut self, call: &Call, whole: bool) -> Option<(TableId, Vec<Option<Value>>)> {
        let declarations = self.scope.declarations;
        let Some(table) = declarations.table(&call.name.name) else {
            self.unknown_table(&call.name);
            return None;
        };
        self.scope.usage.read.insert(table);
        let declared = &declarations.tables[table];
        let file = &self.scope.sources.files()[call.span.file as usize];
        // A question about a row is no expectation: the answer may be why the row is not there.
        if declared.role == Role::Forbid && *file.name != *ATOM {
            let name = &declared.name.name;
            let message =
                format!("`{name}` forbids its rows, so it is empty after every accepted transaction");
            let help = "check that a transaction is refused: expect error \"forbidden\";";
            let report = Report::new(Code::ReadsForbid, call.name.span, message, help);
            self.push(report.label(declared.name.span, "declared here"));
            return None;
        }
        let columns = declared.columns.as_ref()?;
        let kind = declarations.kind_of(table).filter(|_| whole && call.rest.is_some());
        if let Some(rest) = call.rest.filter(|_| whole && kind.is_none()) {
            let message = format!("this row needs a value for every column of `{}`", call.name.name);
            self.report(Code::Arity, rest, message, "write the other columns instead of `..`");
            return None;
        }
        let by_column = self.by_column(call, columns, whole && kind.is_none())?;
        let mut terms: Vec<Option<Term>> = Vec::with_capacity(columns.len());
        for (column, argument) in columns.iter().zip(by_column) {
            let Some(argument) = argument.filter(|argument| whole || !is_wildcard(&argument.value)) else {
                terms.push(None);
                continue;
            };
            let node = self.expr(&argument.value);
            let term = Term::Node(node);
            self.expect_column(&term, column, &call.name.name);
            terms.push(Some(term));
        }
        self.settle_calls();
        self.report_ambiguous();
        let values: Vec<Option<Option<Value>>> = terms
            .iter()
            .map(|term| match term {
                Some(Term::Node(node)) => self.value_of(node).map(Some),
                _ => Some(None),
            })
            .collect();
        let mut values = values.into_iter().collect::<Option<Vec<_>>>()?;
        if let Some(kind) = kind {
            self.fill(call, kind, &mut values)?;
        }
        (!self.failed).then_some((TableId(table as u32), values))
    }

    /// Gives the fields of an object that a row leaves out the values that they have in a document that does. `None`
    /// after a report.
    fn fill(&mut self, call: &Call, kind: &ObjectKind, values: &mut [Option<Value>]) -> Option<()> {
        let (id, fields) = values.split_first_mut()?;
        let mut missing = Vec::from_iter(id.is_none().then_some("id"));
        for (value, field) in fields.iter_mut().zip(&kind.fields) {
            if value.is_none() {
                value.clone_from(&field.default);
            }
            missing.extend(value.is_none().then_some(field.name.as_str()));
        }
        if missing.is_empty() {
            return Some(());
        }
        let message = format!("this row of `{}` lacks {}", kind.name, quoted(missing));
        self.report(
            Code::Arity,
            call.span,
            message,
            "`..` stands for the fields with defaults; write the others",
        );
        None
    }

    /// The value of an expression without variables, or `None` after a report.
    pub(super) fn value_of(&mut self, node: &Node) -> Option<Value> {
        match self.lower(node, &mut Nowhere)? {
            Expr::Constant(value) => Some(value),
            _ if self.failed => None,
            _ => {
                let message = format!("{} has no value", self.quote(node.span));
                let help = "the function has no result for these arguments; use others";
                self.report(Code::ConstantRange, node.span, message, help);
                None
            }
        }
    }
}

fn is_wildcard(value: &ast::Expr) -> bool {
    matches!(value.kind, ExprKind::Wildcard)
}

/// The test with other numbers of tables.
pub(super) fn renumbered(mut test: Test, number: &impl Fn(TableId) -> TableId) -> Test {
    for step in &mut test.steps {
        match &mut step.kind {
            TestStepKind::Transaction(transaction) => {
                for side in [&mut transaction.insert, &mut transaction.delete] {
                    *side =
                        std::mem::take(side).into_iter().map(|(table, rows)| (number(table), rows)).collect();
                }
            }
            TestStepKind::Holds(pattern) | TestStepKind::Lacks(pattern) => {
                pattern.table = number(pattern.table);
            }
            TestStepKind::Exactly(rows) => rows.iter_mut().for_each(|row| row.table = number(row.table)),
            TestStepKind::Delta { insert, delete } => {
                insert.iter_mut().chain(delete).for_each(|row| row.table = number(row.table));
            }
            TestStepKind::Objects(_)
            | TestStepKind::Port { .. }
            | TestStepKind::Error(_)
            | TestStepKind::Packet(_) => {}
        }
    }
    test
}

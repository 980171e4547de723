//! The functions that a program defines: signatures, bodies, and their form at run time.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::function::{Function, Multiplicity, Parameter, Results, Shape};
use nlog_data::{Type, Value, function};

use super::aggregate;
use super::constant_folding::Hoist;
use super::declarations::{Declarations, Usage};
use super::evaluate::evaluate;
use super::resolve::{Resolver, Scope};
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Expr, VariableId};
use crate::source::Sources;
use crate::syntax::ast::{self, FunctionDeclaration, Span};

/// The maximum nesting of evaluation, including the bodies of called functions: a thread's stack is finite.
const MOST_LEVELS: usize = 1_000;

/// The maximum number of calls and branches in the evaluation of a function, including those of called functions:
/// in a chain of functions that call the next one twice, each doubles the number.
const MOST_STEPS: usize = 100_000;

/// A function of the program.
pub(super) struct OwnFunction<'a> {
    pub(super) declaration: &'a FunctionDeclaration,
    /// `None` if a reported mistake hides its signature.
    pub(super) function: Option<Arc<Function>>,
    /// Its body, unless that has a mistake. If it has one, only the types count.
    body: Option<Expr>,
    size: Size,
}

/// The cost of an evaluation.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    levels: usize,
    steps: usize,
}

/// The functions of the program, by name.
#[derive(Default)]
pub(super) struct OwnFunctions<'a> {
    by_name: BTreeMap<&'a str, OwnFunction<'a>>,
}

impl<'a> OwnFunctions<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&OwnFunction<'a>> {
        self.by_name.get(name)
    }

    /// The bodies of all functions without mistakes.
    pub(super) fn bodies(&self) -> BTreeMap<String, Expr> {
        let bodies =
            self.by_name.iter().filter_map(|(name, own)| Some(((*name).to_owned(), own.body.clone()?)));
        bodies.collect()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.by_name.keys().copied()
    }

    /// Whether a function of this name is declared, but with mistakes that hide its signature.
    pub(super) fn is_hidden(&self, name: &str) -> bool {
        self.get(name).is_some_and(|own| own.function.is_none())
    }

    /// Whether the body of this function contains a reported mistake.
    pub(super) fn is_faulty(&self, name: &str) -> bool {
        self.get(name).is_some_and(|own| own.body.is_none())
    }
}

/// The context of a function's body: its only variables are the parameters, and functions with several results
/// are not allowed.
pub(super) struct Parameters;

impl Hoist for Parameters {
    fn hoist(&mut self, _: Type, _: &Arc<Function>, _: Vec<Expr>) -> Option<VariableId> {
        None
    }

    fn variable(&self, index: usize) -> VariableId {
        VariableId(index as u32)
    }
}

/// Collects the signatures of all functions, in name order; reports names that are taken. [`define`] adds the
/// bodies later.
pub(super) fn collect<'a>(
    files: &[&'a ast::File],
    declarations: &mut Declarations<'a>,
    sources: &Sources,
    reports: &mut Reports,
) -> Vec<&'a FunctionDeclaration> {
    let mut first: BTreeMap<&'a str, &'a FunctionDeclaration> = BTreeMap::new();
    for declaration in files.iter().flat_map(|file| &file.functions) {
        let name = declaration.name.name.as_str();
        match first.get(name) {
            Some(earlier) => {
                let place = sources.place(earlier.name.span);
                let message = format!("function `{name}` is already defined at {place}");
                let help = "remove one of the definitions, or give this function another name";
                let report = Report::new(Code::DuplicateFunction, declaration.name.span, message, help);
                reports.push(report.label(earlier.name.span, "defined here"));
            }
            None if is_free(declaration, declarations, sources, reports) => {
                first.insert(name, declaration);
            }
            None => {
                // Calls may mean either function; whether they fit one of them proves nothing.
                let own = OwnFunction { declaration, function: None, body: None, size: Size::default() };
                declarations.own_functions.by_name.insert(name, own);
            }
        }
    }
    for (name, declaration) in &first {
        let function = signature(declaration, declarations, reports).map(Arc::new);
        let own = OwnFunction { declaration, function, body: None, size: Size::default() };
        declarations.own_functions.by_name.insert(name, own);
    }
    first.into_values().collect()
}

/// Whether the name is free, that is, no built-in function, aggregate or table has it. Reports the name
/// otherwise.
fn is_free(
    declaration: &FunctionDeclaration,
    declarations: &Declarations<'_>,
    sources: &Sources,
    reports: &mut Reports,
) -> bool {
    let name = declaration.name.name.as_str();
    let help = "give this function another name";
    let report = |message| Report::new(Code::DuplicateFunction, declaration.name.span, message, help);
    if !function::lookup(name).is_empty() {
        reports.push(report(format!("`{name}` is a built-in function")));
        return false;
    }
    if aggregate::by_name(name).is_some() {
        reports.push(report(format!("`{name}` is an aggregate")));
        return false;
    }
    if let Some(table) = declarations.table(name) {
        let span = declarations.tables[table].name.span;
        let message = format!(
            "`{name}` is a table, declared at {}: an atom `{name}(…)` would be ambiguous",
            sources.place(span)
        );
        reports.push(report(message).label(span, "the table"));
    }
    true
}

/// The signature of a function; without its body, it has no results.
fn signature(
    declaration: &FunctionDeclaration,
    declarations: &Declarations<'_>,
    reports: &mut Reports,
) -> Option<Function> {
    let result = declaration.result.as_ref().map(|ty| declarations.named_type(ty, reports));
    let mut parameters: Vec<Parameter> = Vec::new();
    let mut whole = true;
    for (at, (name, ty)) in declaration.parameters.iter().flatten().enumerate() {
        let others = declaration.parameters.iter().flatten().take(at);
        if let Some((earlier, _)) = others.clone().find(|(other, _)| other.name == name.name) {
            let message = format!("function `{}` has two parameters `{}`", declaration.name.name, name.name);
            let report = Report::new(Code::DuplicateParameter, name.span, message, "rename one of them");
            reports.push(report.label(earlier.span, "first named here"));
            whole = false;
        }
        match declarations.named_type(ty, reports) {
            Some(ty) => {
                let name = Cow::Owned(name.name.clone());
                parameters.push(Parameter { name, shape: Shape::Is(ty) });
            }
            None => whole = false,
        }
    }
    let result = result.flatten()?;
    declaration.parameters.as_ref().filter(|_| whole)?;
    Some(Function {
        name: Cow::Owned(declaration.name.name.clone()),
        parameters,
        variadic: false,
        results: vec![Parameter { name: Cow::Borrowed("result"), shape: Shape::Is(result) }],
        multiplicity: Multiplicity::AtMostOne,
        may_fail: false,
        doc: Cow::Owned(declaration.doc.clone()),
        examples: Vec::new(),
        definition: Cow::Borrowed(""),
        evaluate: Box::new(|_: &[Value]| Ok(Results::None)),
    })
}

/// Checks a function's body, whose functions are all defined already, and installs it.
pub(super) fn define<'a>(
    declaration: &'a FunctionDeclaration,
    declarations: &mut Declarations<'a>,
    usage: &mut Usage,
    sources: &Sources,
    reports: &mut Reports,
) {
    let name = declaration.name.name.as_str();
    let Some(body) = body(declaration, declarations, usage, sources, reports) else { return };
    if let Some(report) = too_large(name, declaration.name.span, &body, declarations) {
        reports.push(report);
        return;
    }
    let size = Size::of(&body, declarations);
    let Some(own) = declarations.own_functions.by_name.get_mut(name) else { return };
    let Some(signature) = &own.function else { return };
    own.size = size;
    own.function = Some(Arc::new(compiled(signature, body.clone())));
    own.body = Some(body);
}

/// The report of a body that takes too long to evaluate.
pub(super) fn too_large(
    name: &str,
    span: Span,
    body: &Expr,
    declarations: &Declarations<'_>,
) -> Option<Report> {
    let size = Size::of(body, declarations);
    let limit = match () {
        () if size.levels > MOST_LEVELS => {
            format!("nests {} levels deep; the limit is {MOST_LEVELS}", size.levels)
        }
        () if size.steps > MOST_STEPS => format!("can take more than {MOST_STEPS} steps"),
        () => return None,
    };
    let message = format!("`{name}`, including the functions it calls, {limit}");
    let help = "call fewer functions in it, or store intermediate results in tables";
    Some(Report::new(Code::TooLarge, span, message, help))
}

/// The function with this signature and body.
pub(super) fn compiled(signature: &Function, body: Expr) -> Function {
    let mut kind = Kind { may_lack: false, may_fail: false };
    kind.add(&body);
    Function {
        name: signature.name.clone(),
        parameters: signature.parameters.clone(),
        variadic: false,
        results: signature.results.clone(),
        multiplicity: if kind.may_lack { Multiplicity::AtMostOne } else { Multiplicity::One },
        may_fail: kind.may_fail,
        doc: signature.doc.clone(),
        examples: Vec::new(),
        definition: Cow::Owned(body.definition()),
        evaluate: Box::new(move |arguments: &[Value]| {
            Ok(evaluate(&body, arguments)?.map_or(Results::None, Results::One))
        }),
    }
}

fn body(
    declaration: &FunctionDeclaration,
    declarations: &Declarations<'_>,
    usage: &mut Usage,
    sources: &Sources,
    reports: &mut Reports,
) -> Option<Expr> {
    let name = declaration.name.name.as_str();
    // With half a signature, most mistakes in the body would only follow from that.
    let signature = declarations.own_functions.get(name)?.function.clone()?;
    let value = declaration.body.as_ref()?;
    let (parameters, result) = (declaration.parameters.as_ref()?, declaration.result.as_ref()?);
    let mut scope = Scope::new(sources, declarations, reports, usage);
    let mut resolver = Resolver::of_function(&mut scope, name);
    for ((name, ty), parameter) in parameters.iter().zip(&signature.parameters) {
        if let Shape::Is(known) = &parameter.shape {
            resolver.parameter(name, known, ty.span);
        }
    }
    let Some(Parameter { shape: Shape::Is(ty), .. }) = signature.results.first() else { return None };
    let what = format!("the result of `{name}`");
    let expr = resolver.value(value, (ty, Some(result.span)), &what, &mut Parameters);
    resolver.unused_parameters();
    expr.filter(|_| !resolver.failed)
}

impl Size {
    fn of(expr: &Expr, declarations: &Declarations<'_>) -> Size {
        let mut size = Size { levels: 0, steps: 1 };
        let mut add = |part: &Expr| {
            let part = Size::of(part, declarations);
            size.levels = size.levels.max(part.levels);
            size.steps = size.steps.saturating_add(part.steps);
        };
        match expr {
            Expr::Variable(_) | Expr::Constant(_) => {}
            Expr::Call { arguments, .. } => arguments.iter().for_each(add),
            Expr::If { condition, then, otherwise } => {
                add(condition);
                add(then);
                add(otherwise);
            }
        }
        if let Expr::Call { function, .. } = expr
            && let Some(own) = declarations.own_functions.get(&function.name)
        {
            size.levels = size.levels.max(own.size.levels);
            size.steps = size.steps.saturating_add(own.size.steps);
        }
        size.levels += 1;
        size
    }
}

/// The possible outcomes of an evaluation besides a value.
struct Kind {
    may_lack: bool,
    may_fail: bool,
}

impl Kind {
    fn add(&mut self, expr: &Expr) {
        match expr {
            Expr::Variable(_) | Expr::Constant(_) => {}
            Expr::Call { function, arguments } => {
                self.may_lack |= function.multiplicity != Multiplicity::One;
                self.may_fail |= function.may_fail || super::size::grows(function);
                for argument in arguments {
                    self.add(argument);
                }
            }
            Expr::If { condition, then, otherwise } => {
                for part in [condition, then, otherwise] {
                    self.add(part);
                }
            }
        }
    }
}

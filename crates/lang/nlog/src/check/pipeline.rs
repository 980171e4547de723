//! What a program calls the parts of the pipeline: fields, stages and priorities.
//!
//! Each declaration also reserves what it names: two packages that take one register, one stage or one priority of a
//! stage would disturb each other, so an overlap is an error that names both.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::Value;
use openflow_rs::Subfield;
use openflow_rs::literal::{self, Shape, TemplateError};

use super::constants::Nowhere;
use super::declarations::{Constant, Declarations, Usage, quoted};
use super::openflow;
use super::resolve::{Resolver, Scope};
use super::suggest;
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Expr, NamedField, Priority, Stage};
use crate::source::Sources;
use crate::syntax::ast::{self, Ident, Span};

/// The greatest number of an OpenFlow table; 255 stands for all tables.
const LAST_TABLE: i64 = 254;

/// The named fields, by name.
#[derive(Default)]
pub(super) struct Fields<'a> {
    by_name: BTreeMap<&'a str, Field<'a>>,
}

/// A named field.
pub(super) struct Field<'a> {
    pub(super) declaration: &'a ast::FieldDeclaration,
    /// What it stands for; `None` if that is reported as a mistake.
    pub(super) of: Option<Subfield>,
}

impl<'a> Fields<'a> {
    /// Collects the fields of all files; reports names that are taken, unknown fields, and overlaps.
    pub(super) fn collect(files: &[&'a ast::File], sources: &Sources, reports: &mut Reports) -> Self {
        let mut fields = Fields::default();
        for declaration in files.iter().flat_map(|file| &file.fields) {
            let name = &declaration.name;
            if let Some(earlier) = fields.by_name.get(name.name.as_str()) {
                let earlier = earlier.declaration.name.span;
                let place = sources.place(earlier);
                let message = format!("field `{}` is already declared at {place}", name.name);
                let help = "remove one of the declarations, or give this field another name";
                let report = Report::new(Code::DuplicateField, name.span, message, help);
                reports.push(report.label(earlier, "declared here"));
                continue;
            }
            // Not `bits_named`, whose error looks for a name like this one, for each declaration of each program.
            let taken = literal::field_names().any(|known| known.name == name.name)
                || openflow_rs::Field::from_name(&name.name).is_some();
            if taken {
                let message = format!("`{}` is a field of Open vSwitch", name.name);
                let help = "give this field a name of its own";
                reports.push(Report::new(Code::DuplicateField, name.span, message, help));
            }
            let of = stands_for(declaration, reports).filter(|_| !taken);
            fields.by_name.insert(&name.name, Field { declaration, of });
        }
        fields.report_overlaps(sources, reports);
        fields
    }

    fn report_overlaps(&self, sources: &Sources, reports: &mut Reports) {
        let mut known: Vec<(&Ident, Subfield)> =
            self.by_name.values().filter_map(|field| Some((&field.declaration.name, field.of?))).collect();
        // The later declaration is at fault, whatever their names.
        known.sort_by_cached_key(|(name, _)| sources.precedence(name.span));
        for (at, (name, of)) in known.iter().enumerate() {
            let Some((earlier, other)) = known[..at].iter().find(|(_, other)| other.overlaps(*of)) else {
                continue;
            };
            let message = format!(
                "field `{}` takes {}, of which field `{}` ({}) has {}",
                name.name,
                of.written(),
                earlier.name,
                sources.place(earlier.span),
                other.written()
            );
            let help = "take bits that no other field has, or use that field";
            let report = Report::new(Code::ReservedTwice, name.span, message, help);
            reports.push(report.label(earlier.span, "reserved here"));
        }
    }

    /// What a name, or some bits of what it names, stand for; `None` if no field has the name.
    pub(super) fn find(&self, name: &str, bits: Option<(u16, u16)>) -> Option<Result<Meaning, Mistake>> {
        let field = self.by_name.get(name)?;
        let Some(of) = field.of else { return Some(Err(Mistake::Reported)) };
        let Some((first, last)) = bits else { return Some(Ok(Meaning::new(of))) };
        if last >= of.bits() {
            let which = if first == last { format!("bit {first}") } else { format!("bits {first}..{last}") };
            let message = format!("field `{name}` has no {which}");
            let help = format!("it is {}, so its bits are 0..{}", of.written(), of.bits() - 1);
            return Some(Err(Mistake::New(message, help)));
        }
        let part = Subfield::new(of.field(), of.start() + first, last - first + 1);
        Some(part.map(Meaning::new).map_err(|error| Mistake::New(error.to_string(), String::new())))
    }

    /// The place where a name is declared.
    pub(super) fn place_of(&self, name: &str) -> Option<Span> {
        self.get(name).map(|field| field.declaration.name.span)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Field<'a>> {
        self.by_name.get(name)
    }

    /// The names of all fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().copied()
    }

    /// The fields that have a bit of this one.
    pub(super) fn overlapping(&self, of: Subfield) -> impl Iterator<Item = (&'a Ident, Subfield)> {
        let known = self.by_name.values().filter_map(|field| Some((&field.declaration.name, field.of?)));
        known.filter(move |(_, own)| own.overlaps(of))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All names with what they stand for.
    pub(super) fn meanings(&self) -> impl Iterator<Item = (&str, Option<Subfield>)> {
        self.by_name.iter().map(|(name, field)| (*name, field.of))
    }

    /// The shape of an argument of an action, in which the name of a field stands for its bits.
    pub(super) fn shape<'e>(&self, call: &literal::Call, expr: &'e ast::Expr) -> Shape<'e> {
        let shape = openflow::shape(expr);
        let (name, bits) = match shape {
            Shape::Name(name) => (name, None),
            Shape::Bits(name, first, last) => (name, Some((first, last))),
            _ => return shape,
        };
        let is_flag = call.info().parameter(name).is_some();
        match self.find(name, bits) {
            Some(Ok(Meaning { name, bits })) if !is_flag => match bits {
                Some((first, last)) => Shape::Bits(name, first, last),
                None => Shape::Name(name),
            },
            _ => shape,
        }
    }
}

/// What the name of a field stands for, as literals name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) name: &'static str,
    pub(super) bits: Option<(u16, u16)>,
}

impl Meaning {
    fn new(of: Subfield) -> Self {
        let whole = of == Subfield::whole(of.field());
        let bits = (!whole).then(|| (of.start(), of.start() + of.bits() - 1));
        Meaning { name: of.field().name(), bits }
    }
}

/// Why a use of a field has no meaning.
pub(super) enum Mistake {
    /// The declaration has a mistake, which is reported.
    Reported,
    /// The fault and the remedy.
    New(String, String),
}

/// What a declaration says that its name stands for, or `None` after a report.
fn stands_for(declaration: &ast::FieldDeclaration, reports: &mut Reports) -> Option<Subfield> {
    let of = declaration.of.as_ref()?;
    match literal::bits_named(&of.name, declaration.bits) {
        Ok(found) => Some(found),
        Err(TemplateError { problem, message, remedy, .. }) => {
            reports.push(Report::new(openflow::code_of(problem), of.span, message, remedy));
            None
        }
    }
}

/// The stages and priorities of a program.
#[derive(Default)]
pub(super) struct Pipeline {
    stages: Vec<Stage>,
    priorities: Vec<Priority>,
}

impl Pipeline {
    /// The stages and priorities without mistakes. Constants are defined before, so their values are known.
    pub(super) fn check(
        files: &[&ast::File],
        declarations: &Declarations<'_>,
        usage: &mut Usage,
        sources: &Sources,
        reports: &mut Reports,
    ) -> Self {
        let mut scope = Scope::new(sources, declarations, reports, usage);
        // A name that is defined twice is reported with the constants.
        let (mut stages, mut spans) = (BTreeMap::new(), BTreeMap::new());
        for declared in files.iter().flat_map(|file| &file.stages) {
            if spans.insert(declared.name.name.as_str(), declared.name.span).is_some() {
                continue;
            }
            if let Some(stage) = stage(declared, &mut scope) {
                stages.insert(declared.name.name.as_str(), (stage, declared.name.span));
            }
        }
        let names: Vec<&str> =
            files.iter().flat_map(|file| &file.stages).map(|stage| stage.name.name.as_str()).collect();
        let mut priorities: Vec<(Priority, Span)> = Vec::new();
        for declared in files.iter().flat_map(|file| &file.priorities) {
            let again = spans.insert(declared.name.name.as_str(), declared.name.span).is_some();
            let found = priority(declared, &names, &mut scope);
            priorities.extend(found.filter(|_| !again).map(|found| (found, declared.name.span)));
        }
        let mut stages: Vec<(Stage, Span)> = stages.into_values().collect();
        stages.sort_by_cached_key(|(stage, span)| (stage.number, sources.precedence(*span)));
        report_equal_stages(&stages, sources, scope.reports);
        let number = |name: &str| {
            let mut stages = stages.iter();
            stages.find(|(stage, _)| stage.name == name).map(|(stage, _)| stage.number)
        };
        priorities.retain(|(priority, _)| number(&priority.stage).is_some());
        priorities.sort_by_cached_key(|(priority, span)| {
            (number(&priority.stage), std::cmp::Reverse(priority.greatest), sources.precedence(*span))
        });
        report_overlapping_priorities(&priorities, sources, scope.reports);
        Pipeline {
            stages: stages.into_iter().map(|(stage, _)| stage).collect(),
            priorities: priorities.into_iter().map(|(priority, _)| priority).collect(),
        }
    }

    /// The stages, by number.
    pub(super) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The priorities, by stage.
    pub(super) fn priorities(&self) -> &[Priority] {
        &self.priorities
    }

    /// The parts as the program has them.
    pub(super) fn parts(
        self,
        declarations: &Declarations<'_>,
        sources: &Sources,
    ) -> (Vec<Stage>, Vec<Priority>, Vec<NamedField>) {
        let named = |field: &Field<'_>| {
            Some(NamedField {
                name: field.declaration.name.name.clone(),
                field: field.of?,
                docs: docs(&field.declaration.doc),
                place: sources.place(field.declaration.name.span),
            })
        };
        let fields = declarations.fields.by_name.values().filter_map(named).collect();
        (self.stages, self.priorities, fields)
    }
}

fn stage(declared: &ast::StageDeclaration, scope: &mut Scope<'_>) -> Option<Stage> {
    let number = number_of(&declared.name, declared.number?, "stage", LAST_TABLE, scope)?;
    Some(Stage {
        name: declared.name.name.clone(),
        number: number as u8,
        docs: docs(&declared.doc),
        place: scope.sources.place(declared.name.span),
    })
}

fn priority(declared: &ast::RangeDeclaration, stages: &[&str], scope: &mut Scope<'_>) -> Option<Priority> {
    let stage = declared.of.as_ref()?;
    if !stages.contains(&stage.name.as_str()) {
        if scope.declarations.excuses(&stage.name) {
            return None;
        }
        unknown_stage(stage, stages, scope);
        return None;
    }
    let most = i64::from(u16::MAX);
    let least = number_of(&declared.name, declared.least?, "priority", most, scope)?;
    let greatest = match &declared.greatest {
        None => least,
        Some(written) => {
            let mut resolver = Resolver::of_constant(scope, &declared.name.name);
            let wanted = (&nlog_data::Type::Int, None);
            let value = resolver.value(written, wanted, "the greatest priority", &mut Nowhere);
            let Some(Expr::Constant(Value::Int(greatest))) = value.filter(|_| !resolver.failed) else {
                return None;
            };
            in_range(greatest, written.span, "priority", most, scope)?
        }
    };
    if least > greatest {
        let span = declared.greatest.as_ref().map_or(declared.name.span, |greatest| greatest.span);
        let message = format!("no priority is from {least} to {greatest}");
        let help = "write the least priority first: 1000..2000";
        scope.reports.push(Report::new(Code::ConstantRange, span, message, help));
        return None;
    }
    Some(Priority {
        name: declared.name.name.clone(),
        stage: stage.name.clone(),
        least: least as u16,
        greatest: greatest as u16,
        docs: docs(&declared.doc),
        place: scope.sources.place(declared.name.span),
    })
}

fn unknown_stage(stage: &Ident, stages: &[&str], scope: &mut Scope<'_>) {
    let help = match suggest::nearest(&stage.name, stages.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if scope.declarations.constants.contains_key(stage.name.as_str()) => {
            format!("declare it as a stage, not as a constant: stage {} = …;", stage.name)
        }
        None if stages.is_empty() => format!("declare it: stage {} = 4;", stage.name),
        None if stages.len() <= 10 => format!("the stages are {}", quoted(stages.iter().copied())),
        None => format!("declare it: stage {} = …;", stage.name),
    };
    let message = format!("no stage is called `{}`", stage.name);
    let report = Report::new(Code::UnknownStage, stage.span, message, help);
    scope.reports.push_unknown(&stage.name, report);
}

/// The value of the constant of this name, which must be from 0 to `most`; `None` after a report.
fn number_of(name: &Ident, written: Span, what: &str, most: i64, scope: &mut Scope<'_>) -> Option<i64> {
    let found = match scope.declarations.constants.get(name.name.as_str())? {
        Constant::Value(Value::Int(number), _) => return in_range(*number, written, what, most, scope),
        Constant::Value(_, ty) => ty.to_string(),
        Constant::Text(_) => "string".to_owned(),
        Constant::Faulty => return None,
    };
    let message = format!("the {what} `{}` is a number, but this has type {found}", name.name);
    let report =
        Report::new(Code::TypeMismatch, written, message, format!("write a number from 0 to {most}"));
    scope.reports.push(report);
    None
}

fn in_range(number: i64, written: Span, what: &str, most: i64, scope: &mut Scope<'_>) -> Option<i64> {
    if (0..=most).contains(&number) {
        return Some(number);
    }
    let message = format!("{number} is not a {what}");
    let help = match what {
        "stage" => format!("OpenFlow tables have the numbers 0 to {most}"),
        _ => format!("priorities are numbers from 0 to {most}"),
    };
    scope.reports.push(Report::new(Code::ConstantRange, written, message, help));
    None
}

/// Reports stages with the number of an earlier one; they are sorted by number.
fn report_equal_stages(stages: &[(Stage, Span)], sources: &Sources, reports: &mut Reports) {
    for same in stages.chunk_by(|(a, _), (b, _)| a.number == b.number) {
        let Some(((first, earlier), others)) = same.split_first() else { continue };
        for (stage, span) in others {
            let message = format!(
                "stage `{}` takes table {}, which stage `{}` ({}) has",
                stage.name,
                stage.number,
                first.name,
                sources.place(*earlier)
            );
            let help = "give this stage the number of a table that no other stage has";
            let report = Report::new(Code::ReservedTwice, *span, message, help);
            reports.push(report.label(*earlier, "reserved here"));
        }
    }
}

/// Reports priorities that overlap another one of their stage; they are sorted by stage.
fn report_overlapping_priorities(priorities: &[(Priority, Span)], sources: &Sources, reports: &mut Reports) {
    for of_stage in priorities.chunk_by(|(a, _), (b, _)| a.stage == b.stage) {
        let mut in_order: Vec<&(Priority, Span)> = of_stage.iter().collect();
        in_order.sort_by_cached_key(|(_, span)| sources.precedence(*span));
        for (at, (priority, span)) in in_order.iter().enumerate() {
            let overlaps =
                |other: &Priority| priority.least <= other.greatest && other.least <= priority.greatest;
            let Some((other, earlier)) = in_order[..at].iter().find(|(other, _)| overlaps(other)) else {
                continue;
            };
            let message = format!(
                "priority `{}` takes {} of stage `{}`, of which `{}` ({}) has {}",
                priority.name,
                range(priority),
                priority.stage,
                other.name,
                sources.place(*earlier),
                range(other)
            );
            let help = "take a priority that no other declaration has, or use that one";
            let report = Report::new(Code::ReservedTwice, *span, message, help);
            reports.push(report.label(*earlier, "reserved here"));
        }
    }
}

/// `200` or `1000..2000`
fn range(priority: &Priority) -> String {
    written(priority.least.into(), priority.greatest.into())
}

/// Numbers as a declaration writes them.
pub(super) fn written(least: i64, greatest: i64) -> String {
    match (least, greatest) {
        (least, greatest) if least == greatest => least.to_string(),
        (least, greatest) => format!("{least}..{greatest}"),
    }
}

/// The text of `##` comments, if there is any.
pub(super) fn docs(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

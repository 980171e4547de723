//! The types that a program declares: found, sorted by dependency, and read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use nlog_data::function::{Evaluate, Function, Multiplicity, Parameter, Results, Shape};
use nlog_data::{Constrained, Enumeration, Failure, Record, Type, Value, function};

use super::cycles::{dependencies_first, tangles};
use super::declarations::quoted;
use super::forms::{CHOICE, CHOICE_HELP, MAP, MAP_HELP, form};
use super::suggest;
use crate::diagnostic::{Code, Report, Reports};
use crate::source::Sources;
use crate::syntax::MAX_NESTING;
use crate::syntax::ast::{self, Ident, Span, TypeDeclaration, TypeDefinition, TypeRef};

/// The maximum number of parts of a type. A record with two fields of another record type, which again has two of
/// a third, doubles with each level.
const MOST_PARTS: usize = 10_000;

/// A declared type.
pub(super) struct Named<'a> {
    pub(super) declaration: &'a TypeDeclaration,
    /// `None` if a reported mistake hides it.
    pub(super) ty: Option<Type>,
}

/// The functions that make and read records of one type.
struct Parts {
    make: Arc<Function>,
    fields: Vec<Arc<Function>>,
}

/// The declared types, by name.
#[derive(Default)]
pub(super) struct NamedTypes<'a> {
    by_name: BTreeMap<&'a str, Named<'a>>,
    /// By the name of a record type.
    records: HashMap<&'a str, Parts>,
    /// `to_string`: the built-in ones, and one for each enumeration.
    to_string: Vec<Arc<Function>>,
    /// The kinds of objects.
    kinds: BTreeSet<&'a str>,
}

/// Names whose declarations may be hidden by syntax errors.
#[derive(Default)]
pub(super) struct Hidden<'a> {
    pub(super) perhaps: HashSet<&'a str>,
    /// Whether a syntax error hides a whole name.
    pub(super) nameless: bool,
}

impl<'a> Hidden<'a> {
    pub(super) fn of(files: &[&'a ast::File]) -> Self {
        let perhaps = files.iter().flat_map(|file| &file.perhaps).map(String::as_str).collect();
        Hidden { perhaps, nameless: files.iter().any(|file| file.nameless) }
    }

    /// Whether a name may be unknown only because of a syntax error in its declaration.
    pub(super) fn excuses(&self, name: &str) -> bool {
        self.nameless || self.perhaps.contains(name)
    }
}

const SCALARS: [(&str, Type); 10] = [
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("string", Type::String),
    ("mac", Type::Mac),
    ("ip", Type::Ip),
    ("net", Type::Net),
    ("interface_address", Type::InterfaceAddress),
    ("match", Type::Match),
    ("actions", Type::Actions),
    ("packet_filter", Type::PacketFilter),
];

type Make = fn(Type) -> Type;

/// Types that contain another type, with their constructors.
const CONTAINERS: [(&str, Make); 3] = [("set", Type::set), ("list", Type::list), ("opt", Type::opt)];

fn scalar(name: &str) -> Option<Type> {
    SCALARS.iter().find(|(own, _)| *own == name).map(|(_, ty)| ty.clone())
}

fn container(name: &str) -> Option<Make> {
    CONTAINERS.iter().find(|(own, _)| *own == name).map(|(_, make)| *make)
}

/// The names of all built-in types.
pub(super) fn builtin_names<'n>() -> impl Iterator<Item = &'n str> {
    SCALARS.iter().map(|(name, _)| *name).chain(CONTAINERS.iter().map(|(name, _)| *name))
}

impl<'a> NamedTypes<'a> {
    /// Collects the types of all files. The order of `files` decides which of several declarations is the first.
    pub(super) fn collect(
        files: &[&'a ast::File],
        hidden: &Hidden<'_>,
        sources: &Sources,
        reports: &mut Reports,
    ) -> Self {
        let declarations = first_of_each(files, sources, reports);
        let numbers: HashMap<&str, usize> =
            declarations.iter().enumerate().map(|(number, ty)| (ty.name.name.as_str(), number)).collect();
        let edges: Vec<Vec<usize>> = declarations.iter().map(|ty| parts_of(ty, &numbers)).collect();
        let tables = files.iter().flat_map(|file| &file.tables);
        let kinds = tables.filter(|table| table.object.is_some()).map(|table| table.name.name.as_str());
        let mut types = NamedTypes { kinds: kinds.collect(), ..NamedTypes::default() };
        for declaration in &declarations {
            types.by_name.insert(&declaration.name.name, Named { declaration, ty: None });
        }
        let mut circular = vec![false; declarations.len()];
        for tangle in tangles(&edges) {
            let name = |&at: &usize| declarations[at].name.name.as_str();
            let cycle: Vec<&str> = tangle.cycle.iter().map(name).collect();
            let message = match cycle.as_slice() {
                [one] => format!("type `{one}` contains itself"),
                _ => format!("types contain each other: {}", [&cycle[..], &cycle[..1]].concat().join(" → ")),
            };
            let help = "values are finite: store one part in a table, and refer to it here by its key";
            let span = declarations[tangle.cycle[0]].name.span;
            reports.push(Report::new(Code::TypeCycle, span, message, help));
            tangle.cycle.iter().chain(&tangle.others).for_each(|&at| circular[at] = true);
        }
        let mut sizes = HashMap::new();
        for number in dependencies_first(&edges) {
            if !circular[number] {
                types.define(declarations[number], &mut sizes, hidden, reports);
            }
        }
        types.to_string = function::lookup("to_string").to_vec();
        let enumerations = types.by_name.iter().filter_map(|(name, named)| match &named.ty {
            Some(Type::Enum(of)) if of.name == *name => Some(of),
            _ => None,
        });
        types.to_string.extend(enumerations.map(text_of));
        types
    }

    /// Reads one declaration, whose parts have been read.
    fn define(
        &mut self,
        declaration: &'a TypeDeclaration,
        sizes: &mut HashMap<&'a str, Size>,
        hidden: &Hidden<'_>,
        reports: &mut Reports,
    ) {
        let name = declaration.name.name.as_str();
        let ty = match &declaration.definition {
            None => None,
            Some(TypeDefinition::Alias(ty)) => self.read(ty, hidden, reports),
            Some(TypeDefinition::Constrained(of)) => {
                let base = self.read(&of.base, hidden, reports);
                base.map(|base| Type::Constrained(Arc::new(Constrained::new(name.to_owned(), base))))
            }
            Some(TypeDefinition::Enum(members)) => Some(enumeration(&declaration.name, members, reports)),
            Some(TypeDefinition::Record(fields)) => {
                self.record_type(&declaration.name, fields, hidden, reports)
            }
        };
        let size = Size::of(declaration, sizes);
        let ty = ty.filter(|_| {
            let fits = size.depth <= MAX_NESTING && size.parts <= MOST_PARTS;
            if !fits {
                let (message, help) = if size.depth > MAX_NESTING {
                    (
                        format!("type `{name}` nests types more than {MAX_NESTING} levels deep"),
                        "store some of its parts in tables, and refer to them by key",
                    )
                } else {
                    (
                        format!("type `{name}` has more than {MOST_PARTS} parts"),
                        "store some of them in a table, and refer to them here by its key",
                    )
                };
                reports.push(Report::new(Code::TooLarge, declaration.name.span, message, help));
            }
            fits
        });
        // A type that is too large is refused once; types that contain it count from there.
        sizes.insert(name, if ty.is_some() { size } else { Size { depth: 1, parts: 1 } });
        if let Some(Type::Record(record)) = &ty
            && record.name == name
        {
            self.records.insert(name, Parts::of(record));
        }
        if let Some(named) = self.by_name.get_mut(name) {
            named.ty = ty;
        }
    }

    fn record_type(
        &self,
        name: &Ident,
        fields: &[(Ident, TypeRef)],
        hidden: &Hidden<'_>,
        reports: &mut Reports,
    ) -> Option<Type> {
        let mut known = true;
        let mut spans: HashMap<&str, Span> = HashMap::new();
        let mut read = Vec::with_capacity(fields.len());
        for (field, ty) in fields {
            if let Some(&earlier) = spans.get(field.name.as_str()) {
                let message = format!("record `{}` has two fields named `{}`", name.name, field.name);
                let help = "field names must be unique within a record; rename one";
                let report = Report::new(Code::DuplicateField, field.span, message, help);
                reports.push(report.label(earlier, "first named here"));
                continue;
            }
            spans.insert(&field.name, field.span);
            match self.read(ty, hidden, reports) {
                Some(ty) => read.push((field.name.clone(), ty)),
                None => known = false,
            }
        }
        known.then(|| Type::Record(Arc::new(Record { name: name.name.clone(), fields: read })))
    }

    /// The declared type of this name.
    pub(super) fn get(&self, name: &str) -> Option<&Named<'a>> {
        self.by_name.get(name)
    }

    /// All declared types, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Named<'a>> {
        self.by_name.values()
    }

    /// The names of all declared types.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.by_name.keys().copied()
    }

    /// The type with this name, built in or declared, without its constraint; `None` also for a declaration with a
    /// mistake.
    pub(super) fn of_word(&self, name: &str) -> Option<Type> {
        scalar(name).or_else(|| Some(self.get(name)?.ty.as_ref()?.base().clone()))
    }

    /// `to_string`, which takes enumerations besides the built-in types.
    pub(super) fn to_string_functions(&self) -> &[Arc<Function>] {
        &self.to_string
    }

    /// The function that makes records of this type from its fields.
    pub(super) fn constructor(&self, record: &Record) -> Option<Arc<Function>> {
        Some(self.records.get(record.name.as_str())?.make.clone())
    }

    /// The function that reads a field, by its place.
    pub(super) fn reader(&self, record: &Record, place: usize) -> Option<Arc<Function>> {
        self.records.get(record.name.as_str())?.fields.get(place).cloned()
    }

    /// The place where the type of a record's field is declared.
    pub(super) fn field_type_span(&self, record: &Record, field: &str) -> Option<Span> {
        match self.get(&record.name)?.declaration.definition.as_ref()? {
            TypeDefinition::Record(fields) => {
                fields.iter().find(|(own, _)| own.name == field).map(|(_, ty)| ty.span)
            }
            _ => None,
        }
    }

    /// Reads a type; reports an invalid one.
    pub(super) fn read(&self, ty: &TypeRef, hidden: &Hidden<'_>, reports: &mut Reports) -> Option<Type> {
        let name = ty.name.name.as_str();
        let wrong = |reports: &mut Reports, span, message: String, help: String| {
            reports.push(Report::new(Code::UnknownType, span, message, help));
            None
        };
        if !ty.kinds.is_empty() {
            return self.reference(ty, hidden, reports);
        }
        // A program may have a type of such a name, from before there were mappings and choices.
        if let (Some(form), Some(of), false) = (form(name), &ty.of, self.by_name.contains_key(name)) {
            let record = self.read(of, hidden, reports)?;
            return form(ty, of, record, reports);
        }
        match (container(name), &ty.of) {
            (Some(make), Some(of)) => {
                let of = self.read(of, hidden, reports)?;
                if let ("opt", Type::Opt(inner)) = (name, of.base()) {
                    let message = format!(
                        "`{}` is not a type: an absent value could be either none or some(none)",
                        show(ty)
                    );
                    return wrong(reports, ty.span, message, format!("write opt<{inner}>"));
                }
                Some(make(of))
            }
            (Some(_), None) => {
                let message = format!("`{name}` needs an element type");
                wrong(reports, ty.span, message, format!("for example: {name}<string>"))
            }
            (None, Some(_)) if scalar(name).is_some() || self.by_name.contains_key(name) => {
                let message = format!("type `{name}` takes no element type");
                wrong(reports, ty.span, message, format!("write `{name}` alone"))
            }
            (None, _) => match (scalar(name), self.by_name.get(name)) {
                (Some(ty), _) => Some(ty),
                (None, Some(named)) => named.ty.clone(),
                (None, None) => {
                    self.unknown(&ty.name, hidden, reports);
                    None
                }
            },
        }
    }

    /// `ref a | b`
    fn reference(&self, ty: &TypeRef, hidden: &Hidden<'_>, reports: &mut Reports) -> Option<Type> {
        let mut known = true;
        for kind in ty.kinds.iter().filter(|kind| !self.kinds.contains(kind.name.as_str())) {
            known = false;
            if hidden.excuses(&kind.name) {
                continue;
            }
            let help = match suggest::nearest(&kind.name, self.kinds.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("declare it: object {} {{ … }}", kind.name),
            };
            let message = format!("unknown kind of object `{}`", kind.name);
            reports.push(Report::new(Code::Object, kind.span, message, help));
        }
        let mut kinds: Vec<String> = ty.kinds.iter().map(|kind| kind.name.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        known.then(|| Type::Constrained(Arc::new(Constrained::reference(kinds))))
    }

    /// Reports a name that is not a type.
    pub(super) fn unknown(&self, name: &Ident, hidden: &Hidden<'_>, reports: &mut Reports) {
        if hidden.excuses(&name.name) {
            return;
        }
        let near = if reports.may_suggest() {
            suggest::nearest(&name.name, builtin_names().chain(self.names()))
        } else {
            None
        };
        let help = match (name.name.as_str(), near) {
            (MAP, _) => MAP_HELP.to_owned(),
            (CHOICE, _) => CHOICE_HELP.to_owned(),
            ("ref", _) => "name a kind of object after it: ref switch".to_owned(),
            (_, Some(near)) => format!("did you mean `{near}`?"),
            (_, None) => "the types are bool, int, string, mac, ip, net, interface_address, match, actions, \
                packet_filter, set<…>, list<…>, opt<…>, map<…>, choice<…>, ref KIND and those the program declares"
                .to_owned(),
        };
        let report = Report::new(Code::UnknownType, name.span, format!("unknown type `{}`", name.name), help);
        reports.push(report);
    }
}

/// The source text of a type, without layout.
pub(super) fn show(ty: &TypeRef) -> String {
    let kinds: Vec<&str> = ty.kinds.iter().map(|kind| kind.name.as_str()).collect();
    match &ty.of {
        None if !kinds.is_empty() => format!("ref {}", kinds.join(" | ")),
        Some(of) => format!("{}<{}>", ty.name.name, show(of)),
        None => ty.name.name.clone(),
    }
}

/// The first declaration of each name, in name order; reports the others.
fn first_of_each<'a>(
    files: &[&'a ast::File],
    sources: &Sources,
    reports: &mut Reports,
) -> Vec<&'a TypeDeclaration> {
    let mut first: BTreeMap<&'a str, &'a TypeDeclaration> = BTreeMap::new();
    for declaration in files.iter().flat_map(|file| &file.types) {
        let name = declaration.name.name.as_str();
        let span = declaration.name.span;
        if builtin_names().any(|builtin| builtin == name) {
            let message = format!("type `{name}` is a built-in type");
            let help = "give this type another name";
            reports.push(Report::new(Code::DuplicateType, span, message, help));
        } else if let Some(earlier) = first.get(name) {
            let message =
                format!("type `{name}` is already declared at {}", sources.place(earlier.name.span));
            let help = "remove one of the declarations, or give this type another name";
            let report = Report::new(Code::DuplicateType, span, message, help);
            reports.push(report.label(earlier.name.span, "declared here"));
        } else {
            first.insert(name, declaration);
        }
    }
    first.into_values().collect()
}

/// The types that a declaration names.
fn references(declaration: &TypeDeclaration) -> Vec<&TypeRef> {
    match &declaration.definition {
        Some(TypeDefinition::Alias(ty)) => vec![ty],
        Some(TypeDefinition::Constrained(of)) => vec![&of.base],
        Some(TypeDefinition::Record(fields)) => fields.iter().map(|(_, ty)| ty).collect(),
        Some(TypeDefinition::Enum(_)) | None => Vec::new(),
    }
}

/// The numbers of the declared types in a declaration.
fn parts_of(declaration: &TypeDeclaration, numbers: &HashMap<&str, usize>) -> Vec<usize> {
    let mut parts = Vec::new();
    for mut ty in references(declaration) {
        while let Some(of) = &ty.of {
            ty = of;
        }
        parts.extend(numbers.get(ty.name.name.as_str()));
    }
    parts.sort_unstable();
    parts.dedup();
    parts
}

/// The size of a type, with parts counted as often as they occur.
#[derive(Debug, Clone, Copy)]
struct Size {
    depth: usize,
    parts: usize,
}

impl Size {
    fn of(declaration: &TypeDeclaration, sizes: &HashMap<&str, Size>) -> Size {
        let mut size = Size { depth: 0, parts: 0 };
        for mut ty in references(declaration) {
            let mut levels = 0;
            while let Some(of) = &ty.of {
                ty = of;
                levels += 1;
            }
            let part = sizes.get(ty.name.name.as_str()).copied().unwrap_or(Size { depth: 1, parts: 1 });
            size.depth = size.depth.max(part.depth + levels);
            size.parts = size.parts.saturating_add(part.parts.saturating_add(levels));
        }
        let own = usize::from(!matches!(declaration.definition, Some(TypeDefinition::Alias(_))));
        Size { depth: size.depth + own, parts: size.parts.saturating_add(own) }
    }
}

fn enumeration(name: &Ident, members: &[Ident], reports: &mut Reports) -> Type {
    let mut spans: HashMap<&str, Span> = HashMap::new();
    let mut texts = Vec::with_capacity(members.len());
    for member in members {
        if let Some(&earlier) = spans.get(member.name.as_str()) {
            let message = format!("enumeration `{}` lists member {:?} twice", name.name, member.name);
            let report = Report::new(Code::DuplicateMember, member.span, message, "remove one of them");
            reports.push(report.label(earlier, "first named here"));
        } else {
            spans.insert(&member.name, member.span);
            texts.push(member.name.clone());
        }
    }
    Type::Enum(Arc::new(Enumeration { name: name.name.clone(), members: texts }))
}

/// An enumeration's members for help texts: `` `"a"`, `"b"` ``, a few at most.
pub(super) fn members(of: &Enumeration) -> String {
    const MOST: usize = 12;
    let texts: Vec<String> =
        of.members.iter().take(MOST).map(|text| Value::from(text.as_str()).to_string()).collect();
    let more = if of.members.len() > MOST { " and others" } else { "" };
    format!("{}{more}", quoted(texts.iter().map(String::as_str)))
}

fn column(name: &str, ty: Type) -> Parameter {
    Parameter { name: Cow::Owned(name.to_owned()), shape: Shape::Is(ty) }
}

fn internal(
    name: String,
    parameters: Vec<Parameter>,
    result: Parameter,
    (doc, definition): (String, String),
    evaluate: Box<Evaluate>,
) -> Arc<Function> {
    Arc::new(Function {
        name: Cow::Owned(name),
        parameters,
        variadic: false,
        results: vec![result],
        multiplicity: Multiplicity::One,
        may_fail: false,
        doc: Cow::Owned(doc),
        examples: Vec::new(),
        definition: Cow::Owned(definition),
        evaluate,
    })
}

/// `to_string` of an enumeration, whose values are already texts.
fn text_of(of: &Arc<Enumeration>) -> Arc<Function> {
    let misfit = Failure::range("to_string: the argument is not of its parameter's type");
    let evaluate = move |arguments: &[Value]| match arguments {
        [text @ Value::String(_)] => Ok(Results::One(text.clone())),
        _ => Err(misfit.clone()),
    };
    internal(
        "to_string".to_owned(),
        vec![column("value", Type::Enum(of.clone()))],
        column("text", Type::String),
        (format!("The name of a member of {} as a string.", of.name), String::new()),
        Box::new(evaluate),
    )
}

impl Parts {
    /// Their names contain characters that no name of the source contains.
    fn of(record: &Arc<Record>) -> Parts {
        let name = &record.name;
        let make = internal(
            format!("{name}{{}}"),
            record.fields.iter().map(|(name, ty)| column(name, ty.clone())).collect(),
            column("record", Type::Record(record.clone())),
            (format!("The {name} with these fields."), format!("{record:?}")),
            Box::new(|arguments: &[Value]| Ok(Results::One(Value::record(arguments.iter().cloned())))),
        );
        let fields = record.fields.iter().enumerate().map(|(place, (field, ty))| {
            let misfit = Failure::range(format!("{name}.{field}: the argument is not a {name}"));
            let evaluate = move |arguments: &[Value]| match arguments {
                [Value::Record(values)] => {
                    values.get(place).cloned().map(Results::One).ok_or_else(|| misfit.clone())
                }
                _ => Err(misfit.clone()),
            };
            internal(
                format!("{name}.{field}"),
                vec![column("record", Type::Record(record.clone()))],
                column(field, ty.clone()),
                (format!("The field {field} of a {name}."), format!("{record:?}")),
                Box::new(evaluate),
            )
        });
        Parts { fields: fields.collect(), make }
    }
}

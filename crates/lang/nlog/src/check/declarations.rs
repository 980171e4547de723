//! The declarations of a program: its tables and named constants, by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use nlog_data::{Function, ObjectKind, Role, Type, Value, function};

use super::functions::OwnFunctions;
use super::keys;
use super::named_types::{Hidden, NamedTypes};
use super::pipeline::Fields;
use super::positions::Notes;
use super::suggest;
use crate::diagnostic::{Code, Report, Reports};
use crate::source::Sources;
use crate::syntax::ast::{self, Ident, Span, TypeRef};

/// A declared table. It counts as declared even if its declaration contains mistakes, which are reported.
pub(super) struct Table<'a> {
    pub(super) name: &'a Ident,
    pub(super) role: Role,
    /// `None` if a syntax error hides them.
    pub(super) columns: Option<Columns<'a>>,
    pub(super) key: Option<Vec<usize>>,
    /// The columns of each `unique(…)`, ascending, in ascending order.
    pub(super) uniques: Vec<Vec<usize>>,
    pub(super) hook: Option<&'a ast::Hook>,
    /// Whether it is the state of objects.
    pub(super) state: bool,
    /// What is said of a listing or a table of counters.
    pub(super) listing: Option<&'a ast::Listing>,
    /// If its rows are the objects of a kind, what is said of them.
    pub(super) object: Option<&'a ast::Object>,
    pub(super) doc: &'a str,
}

impl Table<'_> {
    /// The table without places. Columns of unknown types, which are reported, have any type.
    pub(super) fn plain(&self) -> nlog_data::Table {
        let columns = self.columns.iter().flat_map(|columns| columns.iter()).enumerate();
        let columns = columns.map(|(at, column)| nlog_data::Column {
            name: column.name.name.clone(),
            ty: match &column.ty {
                // Only the checker knows the kind of an object's own id: the object refers to nothing by it.
                Some(ty) if at == 0 && self.object.is_some() => ty.base().clone(),
                Some(ty) => ty.clone(),
                None => Type::Bool,
            },
        });
        nlog_data::Table {
            name: self.name.name.clone(),
            role: self.role,
            columns: columns.collect(),
            key: self.key.clone(),
            uniques: self.uniques.clone(),
            doc: self.doc.to_owned(),
        }
    }
}

/// The columns of a table, in order.
pub(super) struct Columns<'a> {
    columns: Vec<Column<'a>>,
    by_name: HashMap<&'a str, usize>,
}

impl Columns<'_> {
    /// The index of the first column with this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

impl<'a> Deref for Columns<'a> {
    type Target = [Column<'a>];

    fn deref(&self) -> &[Column<'a>] {
        &self.columns
    }
}

/// A column of a declared table.
pub(super) struct Column<'a> {
    pub(super) name: &'a Ident,
    /// `None` if it is unknown, which is reported.
    pub(super) ty: Option<Type>,
    pub(super) type_span: Span,
}

/// The value of a named constant.
#[derive(Debug, Clone)]
pub(super) enum Constant {
    /// A value of a type.
    Value(Value, Type),
    /// A string literal, which can be read as an address, as if it were written in place.
    Text(String),
    /// Its definition contains a reported mistake.
    Faulty,
}

/// All that is declared.
#[derive(Default)]
pub(super) struct Declarations<'a> {
    /// The tables in name order.
    pub(super) tables: Vec<Table<'a>>,
    by_name: HashMap<&'a str, usize>,
    pub(super) constants: BTreeMap<&'a str, Constant>,
    pub(super) types: NamedTypes<'a>,
    pub(super) own_functions: OwnFunctions<'a>,
    pub(super) fields: Fields<'a>,
    /// The kinds of objects without mistakes, in name order.
    pub(super) objects: Vec<ObjectKind>,
    /// Names whose declarations may be hidden by syntax errors.
    pub(super) hidden: Hidden<'a>,
}

impl<'a> Declarations<'a> {
    /// Collects the types and tables of all files. The order of `files` decides which of several declarations is the
    /// first.
    pub(super) fn collect(files: &[&'a ast::File], sources: &Sources, reports: &mut Reports) -> Self {
        let hidden = Hidden::of(files);
        let types = NamedTypes::collect(files, &hidden, sources, reports);
        let mut first: BTreeMap<&'a str, &'a ast::Table> = BTreeMap::new();
        for table in files.iter().flat_map(|file| &file.tables) {
            let name = table.name.name.as_str();
            if let Some(earlier) = first.get(name) {
                let place = sources.place(earlier.name.span);
                let report = Report::new(
                    Code::DuplicateTable,
                    table.name.span,
                    format!("table `{name}` is already declared at {place}"),
                    "remove one of the declarations, or give this table another name",
                );
                reports.push(report.label(earlier.name.span, "declared here"));
            } else {
                first.insert(name, table);
            }
        }
        let fields = Fields::collect(files, sources, reports);
        let mut declarations = Declarations { types, fields, hidden, ..Declarations::default() };
        for (index, (name, table)) in first.into_iter().enumerate() {
            let table = declare(table, &declarations, reports);
            declarations.tables.push(table);
            declarations.by_name.insert(name, index);
        }
        declarations
    }

    /// Whether a name may be unknown only because of a syntax error in its declaration.
    pub(super) fn excuses(&self, name: &str) -> bool {
        self.hidden.excuses(name)
    }

    /// Reads a type; reports an invalid one.
    pub(super) fn named_type(&self, ty: &TypeRef, reports: &mut Reports) -> Option<Type> {
        self.types.read(ty, &self.hidden, reports)
    }

    /// The functions of this name, from the program or built in; none if the name is unknown.
    pub(super) fn functions(&self, name: &str) -> &[Arc<Function>] {
        if let Some(own) = self.own_functions.get(name) {
            return own.function.as_slice();
        }
        match name {
            "to_string" => self.types.to_string_functions(),
            _ => function::lookup(name),
        }
    }

    /// Whether `to_string` takes values of the type with this name.
    pub(super) fn has_text(&self, name: &str) -> bool {
        !matches!(self.types.of_word(name), None | Some(Type::Record(_) | Type::String))
    }

    /// The names of all functions.
    pub(super) fn function_names(&self) -> impl Iterator<Item = &str> {
        function::functions().iter().map(|function| &*function.name).chain(self.own_functions.names())
    }

    /// The names whose declarations may be hidden by syntax errors.
    pub(super) fn perhaps(&self) -> impl Iterator<Item = &str> {
        self.hidden.perhaps.iter().copied()
    }

    /// Whether a syntax error hides a whole name.
    pub(super) fn is_nameless(&self) -> bool {
        self.hidden.nameless
    }

    /// The kind of the objects that a table has.
    pub(super) fn kind_of(&self, table: usize) -> Option<&ObjectKind> {
        self.objects.iter().find(|kind| kind.table.0 as usize == table)
    }

    /// The number of the table with this name.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

fn declare<'a>(table: &'a ast::Table, declarations: &Declarations<'a>, reports: &mut Reports) -> Table<'a> {
    let columns = table.columns.as_ref().map(|columns| {
        let mut by_name: HashMap<&'a str, usize> = HashMap::new();
        for (index, (name, _)) in columns.iter().enumerate() {
            if let Some(&earlier) = by_name.get(name.name.as_str()) {
                if table.object.is_some() {
                    // That an object's id is no field is reported with the fields.
                    if earlier > 0 {
                        reports.push(duplicate_field(name, columns[earlier].0.span));
                    }
                    continue;
                }
                let help = "column names must be unique within a table; rename one";
                reports.push(duplicate_column(name, columns[earlier].0.span, help));
            } else {
                by_name.insert(&name.name, index);
            }
        }
        let columns = columns.iter();
        let columns = columns.map(|(name, ty)| {
            let read = declarations.named_type(ty, reports);
            Column { name, ty: read, type_span: ty.span }
        });
        Columns { columns: columns.collect(), by_name }
    });
    let (key, uniques) = match &columns {
        Some(columns) => keys::of_table(table, columns, reports),
        None => (None, Vec::new()),
    };
    let (hook, object) = (table.hook.as_ref(), table.object.as_deref());
    Table {
        name: &table.name,
        role: table.role,
        columns,
        key,
        uniques,
        hook,
        state: table.state,
        listing: table.listing.as_deref(),
        object,
        doc: &table.doc,
    }
}

/// The report of an object's field that is declared twice.
fn duplicate_field(name: &Ident, earlier: Span) -> Report {
    let message = format!("duplicate field `{}`", name.name);
    let help = "field names must be unique within an object; rename one";
    Report::new(Code::DuplicateField, name.span, message, help).label(earlier, "first declared here")
}

/// The report of a column that is named twice.
pub(super) fn duplicate_column(name: &Ident, earlier: Span, help: &str) -> Report {
    let message = format!("duplicate column `{}`", name.name);
    Report::new(Code::DuplicateColumn, name.span, message, help).label(earlier, "first named here")
}

/// The report of a column that the table does not have.
pub(super) fn unknown_column(name: &Ident, table: &str, columns: &[Column<'_>]) -> Report {
    let names = columns.iter().map(|column| column.name.name.as_str());
    let help = match suggest::nearest(&name.name, names.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the columns are {}", quoted(names)),
    };
    Report::new(
        Code::UnknownColumn,
        name.span,
        format!("table `{table}` has no column `{}`", name.name),
        help,
    )
}

/// `` `a`, `b` ``
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The tables that are read, and those that misspelt names probably mean.
#[derive(Default)]
pub(super) struct Usage {
    pub(super) read: BTreeSet<usize>,
    /// Facts about names, if an index is requested.
    pub(super) notes: Option<Notes>,
}

impl Usage {
    /// Adds the usage of another part of the program.
    pub(super) fn merge(&mut self, other: &Usage) {
        let Usage { read, notes: _ } = other;
        self.read.extend(read);
    }

    /// Renumbers tables; `None` if a table has no new number.
    pub(super) fn renumber(&mut self, number: &impl Fn(usize) -> Option<usize>) -> Option<()> {
        let Usage { read, notes: _ } = self;
        *read = read.iter().map(|table| number(*table)).collect::<Option<_>>()?;
        Some(())
    }
}

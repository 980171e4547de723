//! What is known of each table of a program.

use std::collections::{BTreeMap, BTreeSet};

use nlog::index::{Index, Symbol, SymbolKind};
use nlog::program::{BodyItem, Place};
use nlog::{Program, Sources};
use nlog_data::{Constrained, Role, Table, TableId, Type};
use serde::Serialize;
use switch_model::KINDS;
use switch_model::interface::INTERFACE;

use super::numbers::Numbers;

/// The folder of the built-in tables that are made for packages.
const INTERFACE_FOLDER: &str = "builtin/interface/";
/// The folder of all built-in tables.
const BUILT_IN: &str = "builtin/";

/// The kind of table whose rows are objects.
pub(super) const OBJECT: &str = "object";

/// The most characters of a type's definition among other things in a line.
const MOST_OF_A_TYPE: usize = 80;

/// The tables of a program.
pub(super) struct Catalogue {
    /// In name order.
    pub(super) tables: Vec<Entry>,
    /// The declared types, by name.
    pub(super) types: BTreeMap<String, NamedType>,
    pub(super) numbers: Numbers,
}

/// A declared type.
pub(super) struct NamedType {
    /// What it stands for.
    pub(super) definition: String,
    /// The text of its `##` comment.
    pub(super) doc: String,
}

/// A table.
#[derive(Serialize)]
pub(super) struct Entry {
    pub(super) table: String,
    pub(super) kind: &'static str,
    /// The text of its `##` comment.
    pub(super) doc: String,
    pub(super) columns: Vec<Column>,
    /// The names of the columns of the key; `None` if the whole row is the key.
    pub(super) key: Option<Vec<String>>,
    /// The names of the columns of each `unique(…)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unique: Vec<Vec<String>>,
    /// Where it is declared; none for what the language itself declares.
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) filled_by: Vec<Party>,
    pub(super) read_by: Vec<Party>,
}

/// A column of a table.
#[derive(Serialize)]
pub(super) struct Column {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) ty: String,
    /// What the type stands for, if it is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<String>,
}

/// Someone who fills or reads a table.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(tag = "by", rename_all = "snake_case")]
pub(super) enum Party {
    /// The author of objects, by `weft apply` or the API.
    Objects { kind: String },
    /// The controller.
    Controller,
    /// The driver of each switch, which makes the rows true.
    Driver,
    /// A hook, as the program writes it, and the table at its other end.
    Hook { hook: String, table: String },
    /// Those who get the objects of a kind.
    State { kind: String },
    /// The rows refuse the transaction.
    Refusal,
    /// Nobody but the author of transactions.
    Transactions,
    /// Rules of a file.
    Rules { file: String, rules: usize },
}

impl Entry {
    /// Whether the table is made for packages. The built-in kinds of objects are, wherever they are declared.
    pub(super) fn is_of_interface(&self) -> bool {
        let folder = if self.kind == OBJECT { BUILT_IN } else { INTERFACE_FOLDER };
        self.file.as_deref().is_some_and(|file| file.starts_with(folder))
    }
}

/// The places of rules, by table and file: a rule with several conditions on a table counts once.
type ByTable<'p> = BTreeMap<TableId, BTreeMap<&'p str, BTreeSet<&'p Place>>>;

impl Catalogue {
    /// The tables of a program.
    pub(super) fn new(program: &Program, sources: &Sources, index: &Index) -> Self {
        let files = 0..sources.files().len() as u32;
        let declared: Vec<&Symbol> = files.flat_map(|file| index.definitions(file)).collect();
        let (filling, reading) = rules_of(program);
        let place = |name: &str| {
            let mut tables = declared.iter().filter(|symbol| symbol.kind == SymbolKind::Table);
            let span = tables.find(|symbol| symbol.name == name)?.span;
            let file = sources.file(span.file);
            Some((file.name.to_string(), file.position(span.start).0))
        };
        let shown = program.schema.iter().filter(|(_, table)| table.role != Role::Hidden);
        let tables = shown.map(|(id, table)| {
            let names = |columns: &Vec<usize>| -> Vec<String> {
                columns.iter().filter_map(|at| Some(table.columns.get(*at)?.name.clone())).collect()
            };
            let (file, line) = place(&table.name).unzip();
            Entry {
                table: table.name.clone(),
                kind: kind_of(program, id, table),
                doc: one_line(&table.doc),
                columns: table.columns.iter().map(Column::of).collect(),
                key: table.key.as_ref().map(names),
                unique: table.uniques.iter().map(names).collect(),
                file,
                line,
                filled_by: filled_by(program, id, table, &filling),
                read_by: read_by(program, id, table, &reading),
            }
        });
        let types = declared.iter().filter(|symbol| symbol.kind == SymbolKind::Type).filter_map(|symbol| {
            let definition = definition(symbol.ty.as_ref()?)?;
            Some((symbol.name.clone(), NamedType { definition, doc: one_line(&symbol.doc) }))
        });
        Catalogue { tables: tables.collect(), types: types.collect(), numbers: Numbers::new(program) }
    }
}

/// The rules that fill tables, and those that read them.
fn rules_of(program: &Program) -> (ByTable<'_>, ByTable<'_>) {
    let (mut filling, mut reading) = (ByTable::new(), ByTable::new());
    let written = program.rules.iter().filter(|rule| program.schema.checks(rule.head).is_none());
    for rule in written {
        let place = &rule.place;
        let head = program.schema.shown(rule.head);
        filling.entry(head).or_default().entry(&place.file).or_default().insert(place);
        for item in &rule.body {
            let BodyItem::Atom { table, .. } = item else { continue };
            if program.schema.table(*table).role != Role::Hidden {
                reading.entry(*table).or_default().entry(&place.file).or_default().insert(place);
            }
        }
    }
    (filling, reading)
}

fn kind_of(program: &Program, id: TableId, table: &Table) -> &'static str {
    if program.objects.iter().any(|kind| kind.table == id) {
        return OBJECT;
    }
    match table.role {
        _ if program.states.contains(&id) => "state table",
        Role::Input => "input table",
        Role::Internal | Role::Hidden => "table",
        Role::Output => "output table",
        Role::Forbid => "forbid table",
    }
}

fn filled_by(program: &Program, id: TableId, table: &Table, rules: &ByTable<'_>) -> Vec<Party> {
    let mut parties = Vec::new();
    if let Some(kind) = program.objects.iter().find(|kind| kind.table == id) {
        parties.push(Party::Objects { kind: kind.name.clone() });
    } else if let Some(wiring) = program.hook_of(id) {
        let from = program.schema.table(wiring.from).name.clone();
        parties.push(Party::Hook { hook: wiring.text(&program.schema), table: from });
    } else if table.role == Role::Input {
        let is_of_controller =
            INTERFACE.iter().any(|known| known.role == Role::Input && known.name == table.name);
        parties.push(if is_of_controller { Party::Controller } else { Party::Transactions });
    }
    parties.extend(of_files(rules.get(&id)));
    parties
}

fn read_by(program: &Program, id: TableId, table: &Table, rules: &ByTable<'_>) -> Vec<Party> {
    let mut parties = Vec::new();
    if table.role == Role::Forbid {
        parties.push(Party::Refusal);
    }
    if KINDS.iter().any(|known| known.role == table.role && known.name == table.name) {
        parties.push(Party::Driver);
    }
    if INTERFACE.iter().any(|known| known.role == Role::Output && known.name == table.name) {
        parties.push(Party::Controller);
    }
    if program.states.contains(&id) {
        let kinds = table.columns.iter().filter_map(|column| column.ty.kinds()).take(1).flatten();
        parties.extend(kinds.map(|kind| Party::State { kind: kind.clone() }));
    }
    parties.extend(program.hooks.iter().filter(|wiring| wiring.from == id).map(|wiring| Party::Hook {
        hook: wiring.text(&program.schema),
        table: program.schema.table(wiring.to).name.clone(),
    }));
    parties.extend(of_files(rules.get(&id)));
    parties
}

fn of_files<'p>(
    files: Option<&'p BTreeMap<&'p str, BTreeSet<&'p Place>>>,
) -> impl Iterator<Item = Party> + 'p {
    let files = files.into_iter().flatten();
    files.map(|(file, rules)| Party::Rules { file: (*file).to_owned(), rules: rules.len() })
}

impl Column {
    fn of(column: &nlog_data::Column) -> Self {
        Column { name: column.name.clone(), ty: column.ty.to_string(), definition: definition(&column.ty) }
    }
}

/// What a declared type, or the one that it is made of, stands for; `None` for built-in types.
fn definition(ty: &Type) -> Option<String> {
    match ty {
        Type::Set(of) | Type::List(of) | Type::Opt(of) => definition(of),
        Type::Enum(of) => Some(format!("enum {{{}}}", of.members.join(", "))),
        Type::Record(of) => {
            let fields: Vec<String> = of.fields.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
            Some(format!("record {{{}}}", fields.join(", ")))
        }
        Type::Constrained(of) if ty.kinds().is_none() => Some(constrained(of)),
        _ => None,
    }
}

fn constrained(of: &Constrained) -> String {
    let base = &of.base;
    let Some(constraint) = of.constraint() else { return base.to_string() };
    let whole = format!("{base}{constraint}");
    match constraint.range {
        _ if whole.chars().count() <= MOST_OF_A_TYPE => whole,
        Some((least, greatest)) => format!("{base} {least}..{greatest} where …"),
        None => format!("{base} where …"),
    }
}

/// A text of several lines on one.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

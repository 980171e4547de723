//! What the rules and the controller agree on: the tables that the controller fills, those that it makes true or shows,
//! and constants. The rules declare them in `rules/interface/`; here is what the controller can do, and both are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nlog::index::{Symbol, SymbolKind};
use nlog::program::Place;
use nlog::{Program, Sources};
use nlog_data::{Role, TableId, Type, Value};
use ovs_driver::TlvMapping;
use tunnel_encap::Encap;

/// The type of a column, as the controller uses it.
#[derive(Debug)]
pub(super) enum ColumnType {
    /// This type.
    Exactly(Type),
    /// A name from this list: a string, or an enumeration with all these members.
    Name(fn() -> Vec<&'static str>),
    /// A text, which may be constrained or an enumeration, or none.
    OptionalText,
    /// A reference to objects of one kind.
    Reference,
}

impl ColumnType {
    /// Whether a column with this declared type qualifies.
    pub(super) fn accepts(&self, ty: &Type) -> bool {
        match (self, ty) {
            (ColumnType::Exactly(own), ty) => own == ty.base(),
            (ColumnType::Name(_), Type::String) => true,
            (ColumnType::Name(names), Type::Enum(of)) => {
                names().iter().all(|name| of.members.iter().any(|member| member == name))
            }
            (ColumnType::Name(_), _) => false,
            (ColumnType::OptionalText, Type::Opt(of)) => matches!(of.base(), Type::String | Type::Enum(_)),
            (ColumnType::OptionalText, _) => false,
            (ColumnType::Reference, ty) => ty.kinds().is_some_and(|kinds| kinds.len() == 1),
        }
    }

    /// A type that qualifies, as a declaration writes it.
    fn declared(&self) -> String {
        match self {
            ColumnType::Exactly(ty) => ty.to_string(),
            ColumnType::Name(_) => "string".to_owned(),
            ColumnType::OptionalText => "opt<string>".to_owned(),
            ColumnType::Reference => "ref KIND".to_owned(),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Exactly(ty) => write!(f, "{ty}"),
            ColumnType::Name(names) => write!(f, "string, or an enum of {}", names().join(", ")),
            ColumnType::OptionalText => f.write_str("opt<string>, or opt of an enum"),
            ColumnType::Reference => f.write_str("a reference to one kind of objects"),
        }
    }
}

pub(super) const INT: ColumnType = ColumnType::Exactly(Type::Int);
pub(super) const STRING: ColumnType = ColumnType::Exactly(Type::String);
pub(super) const MATCH: ColumnType = ColumnType::Exactly(Type::Match);
pub(super) const ACTIONS: ColumnType = ColumnType::Exactly(Type::Actions);
const ENCAP: ColumnType = ColumnType::Name(|| Encap::ALL.map(Encap::name).to_vec());
const TEXT: ColumnType = ColumnType::OptionalText;

/// A table between the rules and the controller.
struct InterfaceTable {
    name: &'static str,
    role: Role,
    /// Names and types. The names are checked since two columns of one type are easily exchanged.
    columns: &'static [(&'static str, ColumnType)],
}

/// All that the controller can do with tables, besides those of objects and of their state. `rules/interface/reports.nlog` and
/// `objects.nlog` declare the inputs, `driver.nlog` the outputs.
const TABLES: &[InterfaceTable] = &[
    InterfaceTable { name: "managed", role: Role::Input, columns: &[("hv", STRING)] },
    InterfaceTable {
        name: "object_label",
        role: Role::Input,
        columns: &[("kind", STRING), ("id", STRING), ("label", STRING), ("value", STRING)],
    },
    InterfaceTable {
        name: "patch_port",
        role: Role::Input,
        columns: &[("hv", STRING), ("patch", STRING), ("ofport", INT)],
    },
    InterfaceTable {
        name: "tunnel_port",
        role: Role::Input,
        columns: &[("hv", STRING), ("tunnel", STRING), ("ofport", INT)],
    },
    InterfaceTable {
        name: "vif",
        role: Role::Input,
        columns: &[("hv", STRING), ("port", STRING), ("ofport", INT), ("mac", STRING), ("since", INT)],
    },
    InterfaceTable {
        name: "of_flow",
        role: Role::Output,
        columns: &[
            ("hv", STRING),
            ("table_id", INT),
            ("priority", INT),
            ("match", MATCH),
            ("actions", ACTIONS),
        ],
    },
    InterfaceTable {
        name: "of_bucket",
        role: Role::Output,
        columns: &[("hv", STRING), ("group", INT), ("bucket", INT), ("actions", ACTIONS)],
    },
    InterfaceTable {
        name: "ovsdb_patch",
        role: Role::Output,
        columns: &[("hv", STRING), ("patch", STRING), ("bridge", STRING), ("peer", STRING)],
    },
    InterfaceTable {
        name: "ovsdb_tunnel",
        role: Role::Output,
        columns: &[("hv", STRING), ("tunnel", STRING), ("encap", ENCAP), ("remote", STRING)],
    },
    // The kind that `hv` refers to is that of transport nodes.
    InterfaceTable {
        name: "switch_address",
        role: Role::Output,
        columns: &[
            ("hv", ColumnType::Reference),
            ("ovsdb", TEXT),
            ("openflow", TEXT),
            ("datapath_type", TEXT),
        ],
    },
    InterfaceTable {
        name: "problem",
        role: Role::Output,
        columns: &[("kind", STRING), ("id", STRING), ("code", STRING), ("text", STRING)],
    },
];

impl InterfaceTable {
    /// Looks for the table in a program, which may lack it.
    fn find(&self, program: &Program) -> Result<Option<TableId>, Misfit> {
        let Some(id) = program.schema.find(self.name) else { return Ok(None) };
        let table = program.schema.table(id);
        let (name, role) = (self.name, role_name(self.role));
        if table.role != self.role {
            let declared = role_name(table.role);
            let text = format!("{name} is {declared}, but the controller needs {role}");
            return Err(self.misfit(None, text));
        }
        for (at, ((wanted, ty), column)) in self.columns.iter().zip(&table.columns).enumerate() {
            let number = at + 1;
            let fault = if column.name != *wanted {
                format!(
                    "column {number} of table {name} is `{}`, but the controller needs `{wanted}`",
                    column.name
                )
            } else if !ty.accepts(&column.ty) {
                format!(
                    "column `{wanted}` of table {name} has type {}, but the controller needs {ty}",
                    column.ty
                )
            } else {
                continue;
            };
            return Err(self.misfit(Some(&column.name), fault));
        }
        let (declared, wanted) = (table.columns.len(), self.columns.len());
        if declared != wanted {
            let beyond = table.columns.get(wanted).map(|column| column.name.as_str());
            let text = format!("table {name} has {declared} columns, but the controller needs {wanted}");
            return Err(self.misfit(beyond, text));
        }
        Ok(Some(id))
    }

    fn misfit(&self, column: Option<&str>, text: String) -> Misfit {
        let subject = Subject { table: Some(self.name), name: column.unwrap_or(self.name).to_owned() };
        Misfit { subject: Some(subject), place: None, text, remedy: self.remedy() }
    }

    fn remedy(&self) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|(name, ty)| format!("{name}: {}", ty.declared())).collect();
        let role = if self.role == Role::Input { "input" } else { "output" };
        format!("declare `{role} table {}({})`", self.name, columns.join(", "))
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "an input table",
        Role::Internal | Role::Hidden => "an internal table",
        Role::Output => "an output table",
        Role::Forbid => "a table that forbids its rows",
    }
}

/// A declaration of the rules that does not fit the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// What is declared; none if something is missing.
    subject: Option<Subject>,
    place: Option<Place>,
    /// The difference.
    text: String,
    remedy: String,
}

/// The name of a declaration: a table, one of its columns, or a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    table: Option<&'static str>,
    name: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}; {}", self.text, self.remedy)
    }
}

impl Misfit {
    /// The same, with its place in the sources.
    pub(super) fn placed(mut self, sources: &Sources) -> Misfit {
        let Some(Subject { table, name }) = &self.subject else { return self };
        let (_, index) = nlog::compile_indexed(sources);
        let numbers = 0..sources.files().len() as u32;
        let declares = |symbol: &&Symbol, name: &str, is_column: bool| {
            let is_column_or_not = (symbol.kind == SymbolKind::Column) == is_column;
            symbol.name == name && symbol.definition == Some(symbol.span) && is_column_or_not
        };
        let find = |file: u32| {
            let mut symbols = index.symbols(file);
            let outer = symbols.find(|symbol| declares(symbol, table.unwrap_or(name), false))?;
            // The columns of a table follow its name.
            let is_column = table.is_some_and(|table| table != name);
            if is_column { symbols.find(|symbol| declares(symbol, name, true)) } else { Some(outer) }
        };
        self.place = numbers.into_iter().find_map(find).map(|symbol| {
            let file = sources.file(symbol.span.file);
            let (line, column) = file.position(symbol.span.start);
            Place { file: file.name.clone(), line, column }
        });
        self
    }
}

/// The tables of the interface that a program has.
#[derive(Debug)]
pub(super) struct Interface(BTreeMap<&'static str, TableId>);

impl Interface {
    /// Compares a program with what the controller can do.
    pub(super) fn of(program: &Program) -> Result<Interface, Misfit> {
        let mut found = BTreeMap::new();
        for table in TABLES {
            if let Some(id) = table.find(program)? {
                found.insert(table.name, id);
            }
        }
        let interface = Interface(found);
        let has_switches = ["of_flow", "ovsdb_tunnel"].iter().any(|name| interface.table(name).is_some());
        match TABLES.iter().find(|table| table.name == "switch_address") {
            Some(address) if has_switches && interface.table(address.name).is_none() => Err(Misfit {
                subject: None,
                place: None,
                text: "the rules have no table switch_address, so the controller would manage no switch"
                    .to_owned(),
                remedy: address.remedy(),
            }),
            _ => Ok(interface),
        }
    }

    /// The table with this name.
    pub(super) fn table(&self, name: &str) -> Option<TableId> {
        self.0.get(name).copied()
    }

    /// The tables that the controller fills.
    pub(super) fn inputs(&self) -> impl Iterator<Item = (&'static str, TableId)> {
        let inputs = TABLES.iter().filter(|table| table.role == Role::Input);
        inputs.filter_map(|table| Some((table.name, self.table(table.name)?)))
    }
}

/// The agreement between rules and drivers besides tables: named constants of the rules
/// (`rules/interface/layout.nlog`, `driver.nlog`). Rules without them have neither learned tables nor a tunnel
/// option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conventions {
    /// The table of flows that switches learn: `FDB`.
    pub learned_tables: BTreeSet<u8>,
    /// The geneve option that is `tun_metadata0`: `OPTION_CLASS`, `OPTION_TYPE`, `OPTION_LENGTH`.
    pub tunnel_option: Option<TlvMapping>,
}

impl Conventions {
    pub(super) fn of(program: &Program) -> Result<Conventions, Misfit> {
        let learned_table = constant(program, "FDB", "the table of learned flows", 253)?;
        let option = [
            ("OPTION_CLASS", constant(program, "OPTION_CLASS", "the class of the geneve option", 0xffff)?),
            ("OPTION_TYPE", constant(program, "OPTION_TYPE", "the type of the geneve option", 0xff)?),
            ("OPTION_LENGTH", constant(program, "OPTION_LENGTH", "the length of the geneve option", 124)?),
        ];
        let tunnel_option = match option {
            [(_, Some(class)), (_, Some(kind)), (_, Some(len))] => {
                Some(TlvMapping { class, kind: kind.to_be_bytes()[1], len: len.to_be_bytes()[1], field: 0 })
            }
            [(_, None), (_, None), (_, None)] => None,
            _ => {
                let names = |given: bool| option.iter().filter(move |(_, value)| value.is_some() == given);
                let [has, lacks] = [true, false].map(|given| names(given).map(|(name, _)| *name).next());
                let (has, lacks) = (has.unwrap_or_default(), lacks.unwrap_or_default());
                return Err(Misfit {
                    subject: Some(Subject { table: None, name: has.to_owned() }),
                    place: None,
                    text: format!("the rules have constant {has} of the geneve option, but not {lacks}"),
                    remedy: "declare OPTION_CLASS, OPTION_TYPE and OPTION_LENGTH, or none of them".to_owned(),
                });
            }
        };
        let learned_tables = learned_table.map(|table| table.to_be_bytes()[1]).into_iter().collect();
        Ok(Conventions { learned_tables, tunnel_option })
    }
}

/// A named constant of the rules, from 0 to `max`.
fn constant(program: &Program, name: &str, meaning: &str, max: u16) -> Result<Option<u16>, Misfit> {
    let Some(value) = program.constants.get(name) else { return Ok(None) };
    let number = match value {
        Value::Int(number) => u16::try_from(*number).ok().filter(|number| *number <= max),
        _ => None,
    };
    let misfit = || Misfit {
        subject: Some(Subject { table: None, name: name.to_owned() }),
        place: None,
        text: format!("constant {name}, {meaning}, is {value}"),
        remedy: format!("choose a number from 0 to {max}"),
    };
    number.map(Some).ok_or_else(misfit)
}

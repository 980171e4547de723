//! The declaration of a table that rules and Rust share, and the search for it in a program.

use std::fmt;

use nlog_data::{Role, Schema, Table, TableId, Type};

/// A table that rules and Rust share.
#[derive(Debug)]
pub struct SwitchTable {
    /// Its name.
    pub name: &'static str,
    /// Its role.
    pub role: Role,
    /// Names and types of its columns.
    pub columns: &'static [(&'static str, ColumnType)],
}

/// The type of a column.
#[derive(Debug)]
pub enum ColumnType {
    /// This type.
    Exactly(Type),
    /// A name from this list: a string, or an enumeration with all these members.
    Name(fn() -> Vec<&'static str>),
    /// A set of names from this list: of strings, or of an enumeration with no other members.
    Names(fn() -> Vec<&'static str>),
    /// A text, which may be constrained or an enumeration, or none.
    OptionalText,
    /// A set of texts, which may be constrained.
    Texts,
    /// A list of texts, such as the parts of a sentence.
    TextList,
    /// A reference to objects of one kind.
    Reference,
}

pub(crate) const BOOL: ColumnType = ColumnType::Exactly(Type::Bool);
pub(crate) const INT: ColumnType = ColumnType::Exactly(Type::Int);
pub(crate) const STRING: ColumnType = ColumnType::Exactly(Type::String);
pub(crate) const MATCH: ColumnType = ColumnType::Exactly(Type::Match);
pub(crate) const ACTIONS: ColumnType = ColumnType::Exactly(Type::Actions);
pub(crate) const MAC: ColumnType = ColumnType::Exactly(Type::Mac);
pub(crate) const IP: ColumnType = ColumnType::Exactly(Type::Ip);
pub(crate) const TEXT: ColumnType = ColumnType::OptionalText;
pub(crate) const TEXTS: ColumnType = ColumnType::Texts;
pub(crate) const TEXT_LIST: ColumnType = ColumnType::TextList;
pub(crate) const NET: ColumnType = ColumnType::Exactly(Type::Net);
pub(crate) const REFERENCE: ColumnType = ColumnType::Reference;

impl SwitchTable {
    /// An output table.
    pub const fn output(name: &'static str, columns: &'static [(&'static str, ColumnType)]) -> Self {
        SwitchTable { name, role: Role::Output, columns }
    }
}

/// A table of the rules that differs from Rust's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}; {remedy}")]
pub struct Misfit {
    /// The table.
    pub table: &'static str,
    /// The column that differs, as the rules call it, if one does.
    pub column: Option<String>,
    /// The difference.
    pub text: String,
    /// What to do.
    pub remedy: String,
}

impl SwitchTable {
    /// The table in a program; none if the program does not have it.
    ///
    /// # Errors
    /// The program has another table of this name.
    pub fn find(&self, schema: &Schema) -> Result<Option<TableId>, Misfit> {
        let Some(id) = schema.find(self.name) else { return Ok(None) };
        let table = schema.table(id);
        let name = self.name;
        let misfit = |column: Option<&str>, text: String| {
            let column = column.map(str::to_owned);
            Err(Misfit { table: name, column, text, remedy: self.remedy() })
        };
        if table.role != self.role {
            let (declared, ours) = (role_name(table.role), role_name(self.role));
            return misfit(None, format!("{name} is declared as `{declared}`, but must be `{ours}`"));
        }
        if let Some((column, text)) = self.different_column(table) {
            return misfit(Some(column), text);
        }
        let (declared, ours) = (table.columns.len(), self.columns.len());
        if declared != ours {
            let beyond = table.columns.get(ours).map(|column| column.name.as_str());
            return misfit(beyond, format!("table {name} has {declared} columns, but must have {ours}"));
        }
        Ok(Some(id))
    }

    /// The first column that differs, and how. The names of inputs and outputs count, since two columns of one type are easily
    /// exchanged; those of other tables are the rules' own.
    fn different_column<'t>(&self, table: &'t Table) -> Option<(&'t str, String)> {
        let name = self.name;
        let pairs = self.columns.iter().zip(&table.columns).zip(1..);
        pairs.into_iter().find_map(|(((ours, ty), column), number)| {
            let declared = column.name.as_str();
            let text = if self.role != Role::Internal && declared != *ours {
                format!("column {number} of table {name} is `{declared}`, but must be `{ours}`")
            } else if !ty.accepts(&column.ty) {
                format!("column `{declared}` of table {name} has type {}, but must have {ty}", column.ty)
            } else {
                return None;
            };
            Some((declared, text))
        })
    }

    /// What to do about a program without this table.
    pub fn remedy(&self) -> String {
        format!("declare `{self}`, as rules/interface/ does")
    }
}

/// The declaration.
impl fmt::Display for SwitchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> =
            self.columns.iter().map(|(name, ty)| format!("{name}: {}", ty.declared())).collect();
        write!(f, "{} {}({})", role_name(self.role), self.name, columns.join(", "))
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input table",
        Role::Internal | Role::Hidden => "table",
        Role::Output => "output table",
        Role::Forbid => "forbid table",
    }
}

impl ColumnType {
    /// Whether a column with this declared type qualifies.
    pub fn accepts(&self, ty: &Type) -> bool {
        match (self, ty) {
            (ColumnType::Exactly(own), ty) => own == ty.base(),
            (ColumnType::Name(_), Type::String) => true,
            (ColumnType::Name(names), Type::Enum(of)) => {
                names().iter().all(|name| of.members.iter().any(|member| member == name))
            }
            (ColumnType::Name(_), _) => false,
            (ColumnType::Names(names), Type::Set(of)) => match of.base() {
                Type::String => true,
                Type::Enum(of) => of.members.iter().all(|member| names().contains(&member.as_str())),
                _ => false,
            },
            (ColumnType::Names(_), _) => false,
            (ColumnType::OptionalText, Type::Opt(of)) => matches!(of.base(), Type::String | Type::Enum(_)),
            (ColumnType::OptionalText, _) => false,
            (ColumnType::Texts, Type::Set(of)) => matches!(of.base(), Type::String),
            (ColumnType::TextList, Type::List(of)) => matches!(of.base(), Type::String),
            (ColumnType::Texts | ColumnType::TextList, _) => false,
            (ColumnType::Reference, ty) => ty.kinds().is_some_and(|kinds| kinds.len() == 1),
        }
    }

    /// A type that qualifies, as a declaration writes it.
    fn declared(&self) -> String {
        match self {
            ColumnType::Exactly(ty) => ty.to_string(),
            ColumnType::Name(_) => "string".to_owned(),
            ColumnType::Names(_) => "set<string>".to_owned(),
            ColumnType::OptionalText => "opt<string>".to_owned(),
            ColumnType::Texts => "set<string>".to_owned(),
            ColumnType::TextList => "list<string>".to_owned(),
            ColumnType::Reference => "ref KIND".to_owned(),
        }
    }
}

/// All types that qualify.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Exactly(ty) => write!(f, "{ty}"),
            ColumnType::Name(names) => write!(f, "string, or an enum of {}", names().join(", ")),
            ColumnType::Names(_) => f.write_str("set<string>, or a set of an enum of names of fields"),
            ColumnType::OptionalText => f.write_str("opt<string>, or opt of an enum"),
            ColumnType::Texts => f.write_str("set<string>"),
            ColumnType::TextList => f.write_str("list<string>"),
            ColumnType::Reference => f.write_str("a reference to one kind of objects"),
        }
    }
}

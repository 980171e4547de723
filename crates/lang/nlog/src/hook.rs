//! The hooks that fill input tables: their names, settings and tables. The crate `nlog-hooks` computes them.
//!
//! A new hook is a member of [`HookKind`] here and an implementation there.

use std::collections::BTreeMap;

use nlog_data::{Column, Schema, Table, TableId, Type};

use crate::program::Place;

/// A kind of hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookKind {
    /// A number for each row, kept as long as the row is there.
    Allocate,
    /// The connected components of a graph, each named by its least node.
    ConnectedComponents,
    /// A number for each row, which moves only as far as the bounds of the row make it.
    Hold,
    /// The same rows, each delayed until it has been stable for a while.
    Hysteresis,
    /// A number for each row, between the bounds of the row, that no other row has.
    Pick,
}

/// A value that a program gives to a hook.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// A description with the unit.
    pub summary: &'static str,
    /// What it is.
    pub kind: SettingKind,
}

/// The kinds of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A number of at least 0 that a program must give, as a constant expression.
    Number,
    /// A column of the table that the hook reads, which a program can give.
    Column,
}

impl Setting {
    const fn number(name: &'static str, summary: &'static str) -> Self {
        Setting { name, summary, kind: SettingKind::Number }
    }
}

const SCOPE: Setting = Setting {
    name: "scope",
    summary: "owners with different values of this column can have the same number",
    kind: SettingKind::Column,
};

const ALLOCATE: &[Setting] = &[
    Setting::number("first", "the least number that it gives"),
    Setting::number("last", "the greatest number that it gives"),
    SCOPE,
    Setting {
        name: "identity",
        summary: "the last column, which is not the owner's: an owner whose value changes gets another number",
        kind: SettingKind::Column,
    },
];

const HYSTERESIS: &[Setting] = &[
    Setting::number("rise", "milliseconds for which a row must be present before it is inserted"),
    Setting::number("fall", "milliseconds for which a row must be absent before it is deleted"),
];

const PICK: &[Setting] = &[SCOPE];

/// The values of the settings of a hook, by name. A column is its index in the table that the hook reads.
pub type Settings = BTreeMap<&'static str, u64>;

/// A hook of a program, as in `input table stable(port: string) from hysteresis(up, rise: 1000, fall: 500);`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    /// The hook.
    pub hook: HookKind,
    /// The table that it reads.
    pub from: TableId,
    /// The input table that it alone fills.
    pub to: TableId,
    /// The values of its settings.
    pub settings: Settings,
    /// Its place.
    pub place: Place,
}

impl Wiring {
    /// The hook as a program of these tables says it, after `from`.
    pub fn text(&self, schema: &Schema) -> String {
        let columns = &schema.table(self.from).columns;
        let settings = self.hook.settings().iter().filter_map(|setting| {
            let value = *self.settings.get(setting.name)?;
            Some(match (setting.kind, usize::try_from(value).ok().and_then(|at| columns.get(at))) {
                (SettingKind::Column, Some(column)) => format!(", {}: {}", setting.name, column.name),
                _ => format!(", {}: {value}", setting.name),
            })
        });
        format!("{}({}{})", self.hook.name(), schema.table(self.from).name, settings.collect::<String>())
    }
}

/// Why tables or settings do not fit a hook.
pub(crate) struct Misfit {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Misfit {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Misfit { message: message.into(), help: help.into() }
    }
}

impl HookKind {
    /// All hooks, in the order of their names.
    pub const ALL: [HookKind; 5] = [
        HookKind::Allocate,
        HookKind::ConnectedComponents,
        HookKind::Hold,
        HookKind::Hysteresis,
        HookKind::Pick,
    ];

    /// Its name in programs.
    pub fn name(self) -> &'static str {
        match self {
            HookKind::Allocate => "allocate",
            HookKind::ConnectedComponents => "connected_components",
            HookKind::Hold => "hold",
            HookKind::Hysteresis => "hysteresis",
            HookKind::Pick => "pick",
        }
    }

    /// The hook of this name.
    pub fn by_name(name: &str) -> Option<HookKind> {
        HookKind::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// Its settings.
    pub fn settings(self) -> &'static [Setting] {
        match self {
            HookKind::Allocate => ALLOCATE,
            HookKind::ConnectedComponents | HookKind::Hold => &[],
            HookKind::Hysteresis => HYSTERESIS,
            HookKind::Pick => PICK,
        }
    }

    /// Whether it depends on ticks.
    pub fn is_timed(self) -> bool {
        match self {
            HookKind::Allocate | HookKind::ConnectedComponents | HookKind::Hold | HookKind::Pick => false,
            HookKind::Hysteresis => true,
        }
    }

    /// Whether what it fills depends on the history of what it reads, not on the present rows alone.
    pub fn has_memory(self) -> bool {
        match self {
            HookKind::ConnectedComponents => false,
            HookKind::Allocate | HookKind::Hold | HookKind::Hysteresis | HookKind::Pick => true,
        }
    }

    /// The columns, besides the key, whose values no two of the rows that it fills share, in ascending order.
    pub(crate) fn unique(self, to: &[Column], settings: &Settings) -> Option<Vec<usize>> {
        match self {
            // The owner's columns come first, as in the table that it reads, so that its scope has the same place.
            HookKind::Allocate => {
                let scope = settings.get("scope").and_then(|column| usize::try_from(*column).ok());
                Some(scope.into_iter().chain(to.len().checked_sub(1)).collect())
            }
            // Those that are reserved can be shared.
            HookKind::ConnectedComponents | HookKind::Hold | HookKind::Hysteresis | HookKind::Pick => None,
        }
    }

    /// Whether it keeps unique what the table that it fills declares as unique, whatever it reads.
    pub(crate) fn keeps_unique(self, to: &Table, settings: &Settings) -> Result<(), Misfit> {
        let kept = self.unique(&to.columns, settings);
        let is_kept = |unique: &Vec<usize>| {
            kept.as_ref().is_some_and(|kept| kept.iter().all(|column| unique.contains(column)))
        };
        let Some(unique) = to.uniques.iter().find(|unique| !is_kept(unique)) else { return Ok(()) };
        let names: Vec<&str> = unique.iter().map(|column| to.columns[*column].name.as_str()).collect();
        let message =
            format!("`{}` can fill `{}` with rows that share {}", self.name(), to.name, names.join(", "));
        let help = format!(
            "remove unique({}), and declare it of a table that rules derive from `{}`",
            names.join(", "),
            to.name
        );
        Err(Misfit::new(message, help))
    }

    /// Whether it can fill one table from the other.
    pub(crate) fn fits(self, from: &Table, to: &Table, settings: &Settings) -> Result<(), Misfit> {
        match self {
            HookKind::Allocate => allocate_fits(from, to, settings),
            HookKind::ConnectedComponents => components_fit(from, to),
            HookKind::Hold | HookKind::Pick => bounded_fits(self, from, to, settings),
            HookKind::Hysteresis => hysteresis_fits(from, to),
        }
    }
}

/// Whether the tables are edges and nodes of one type.
fn components_fit(from: &Table, to: &Table) -> Result<(), Misfit> {
    let shape = "connected_components reads edges (a: T, b: T) and fills (node: T, component: T)";
    let ([a, b], [node, component]) = (from.columns.as_slice(), to.columns.as_slice()) else {
        let wrong = if from.columns.len() == 2 { to } else { from };
        let columns = match wrong.columns.len() {
            1 => "1 column".to_owned(),
            columns => format!("{columns} columns"),
        };
        return Err(Misfit::new(format!("table `{}` has {columns}, not 2", wrong.name), shape));
    };
    let tables = [(from, b), (to, node), (to, component)];
    // A constrained type is that of its values here: the engine holds what a hook inserts to the types of the columns.
    if let Some((table, column)) = tables.into_iter().find(|(_, column)| !column.ty.agrees(&a.ty)) {
        let message = format!(
            "column `{}` of `{}` has type {}, but column `{}` of `{}` has type {}",
            a.name, from.name, a.ty, column.name, table.name, column.ty
        );
        return Err(Misfit::new(message, shape));
    }
    if to.key.as_ref().is_some_and(|key| !key.contains(&0)) {
        let message = format!("many rows of `{}` have the same `{}`", to.name, component.name);
        return Err(Misfit::new(message, format!("declare the node as the key: key({})", node.name)));
    }
    Ok(())
}

/// Whether columns have the same types, apart from constraints.
fn same_types(some: &[Column], others: &[Column]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(some, other)| some.ty.agrees(&other.ty))
}

/// The types of columns in messages.
fn types(columns: &[Column]) -> String {
    let types: Vec<String> = columns.iter().map(|column| column.ty.to_string()).collect();
    format!("({})", types.join(", "))
}

/// Whether the target has the columns of the owners as its key, and then a number. An identity is the last column of the source,
/// and each owner has one.
fn allocate_fits(from: &Table, to: &Table, settings: &Settings) -> Result<(), Misfit> {
    let identity = settings.get("identity").and_then(|column| usize::try_from(*column).ok());
    let owner = from.columns.len() - usize::from(identity.is_some() && !from.columns.is_empty());
    if identity.is_some_and(|column| column != owner) {
        let message = format!("the identity is not the last column of `{}`", from.name);
        return Err(Misfit::new(message, "the columns of the owner come first, and then its identity"));
    }
    let one_identity = from.key.as_ref().is_some_and(|key| key.iter().all(|column| *column < owner));
    if identity.is_some() && !one_identity {
        let names: Vec<&str> = from.columns[..owner].iter().map(|column| column.name.as_str()).collect();
        let message = format!("an owner in `{}` could have two identities", from.name);
        return Err(Misfit::new(message, format!("declare the owner as the key: key({})", names.join(", "))));
    }
    let fit = to.columns.len() == owner + 1 && same_types(&from.columns[..owner], &to.columns[..owner]);
    if owner == 0 || !fit || *to.columns[owner].ty.base() != Type::Int {
        let (found, of) = (types(&to.columns), types(&from.columns[..owner]));
        let message = format!("`{}` has the columns {found}, but `{}` has {of}", to.name, from.name);
        let help = "allocate fills the columns of the table that it reads, at least one, and then the number, an int";
        return Err(Misfit::new(message, help));
    }
    if to.key.as_deref() != Some(&(0..owner).collect::<Vec<_>>()) {
        let names: Vec<&str> = to.columns[..owner].iter().map(|column| column.name.as_str()).collect();
        let message = format!("the key of `{}` is not all its columns but the number", to.name);
        return Err(Misfit::new(message, format!("declare the owner as the key: key({})", names.join(", "))));
    }
    if let (Some(first), Some(last)) = (settings.get("first"), settings.get("last"))
        && first > last
    {
        let message = format!("there are no numbers from {first} to {last}");
        return Err(Misfit::new(message, "`first` is the least number and `last` the greatest"));
    }
    Ok(())
}

/// Whether the tables have the same key, all columns but the last ones: the bounds of the source and the number of the
/// target.
fn bounded_fits(hook: HookKind, from: &Table, to: &Table, settings: &Settings) -> Result<(), Misfit> {
    let shape = format!(
        "{} reads (key…, low: int, high: int) and fills (key…, value: int), with at least one column in the key",
        hook.name()
    );
    let key = to.columns.len().saturating_sub(1);
    let scope = settings.get("scope").and_then(|column| usize::try_from(*column).ok());
    if let Some(column) = scope.filter(|column| *column >= key).and_then(|column| from.columns.get(column)) {
        let message = format!("the scope `{}` is not in the key of `{}`", column.name, from.name);
        return Err(Misfit::new(message, "a scope is a column of the key"));
    }
    let fit =
        key > 0 && from.columns.len() == key + 2 && same_types(&from.columns[..key], &to.columns[..key]);
    let is_int = |column: &Column| *column.ty.base() == Type::Int;
    if !fit || !from.columns[key..].iter().chain(&to.columns[key..]).all(is_int) {
        let (found, of) = (types(&to.columns), types(&from.columns));
        let message = format!("`{}` has the columns {found}, but `{}` has {of}", to.name, from.name);
        return Err(Misfit::new(message, shape));
    }
    let all: Vec<usize> = (0..key).collect();
    for (table, rest) in [(from, "the bounds"), (to, "the number")] {
        if table.key.as_deref() != Some(&all[..]) {
            let names: Vec<&str> = table.columns[..key].iter().map(|column| column.name.as_str()).collect();
            let message = format!("the key of `{}` is not all its columns but {rest}", table.name);
            return Err(Misfit::new(message, format!("declare the key: key({})", names.join(", "))));
        }
    }
    Ok(())
}

/// Whether the target can contain the rows of the source. A key could refuse a row while a deleted one is still shown,
/// so the only key of the target is the whole row.
fn hysteresis_fits(from: &Table, to: &Table) -> Result<(), Misfit> {
    if !same_types(&from.columns, &to.columns) {
        let (found, of) = (types(&to.columns), types(&from.columns));
        let message = format!("`{}` has the columns {found}, but `{}` has {of}", to.name, from.name);
        let help = "hysteresis fills a table with the column types of the one it reads";
        return Err(Misfit::new(message, help));
    }
    let whole = |key: &Vec<usize>| (0..to.columns.len()).all(|column| key.contains(&column));
    if to.key.as_ref().is_some_and(|key| !whole(key)) {
        let message = format!(
            "`{}` has a key, but while hysteresis holds an old row, the new row that replaces it can come",
            to.name
        );
        return Err(Misfit::new(message, "declare it without a key, and select one of the rows in a rule"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_in_the_order_of_their_names_and_are_found_by_them() {
        assert!(HookKind::ALL.windows(2).all(|pair| pair[0].name() < pair[1].name() && pair[0] < pair[1]));
        assert!(HookKind::ALL.iter().all(|hook| HookKind::by_name(hook.name()) == Some(*hook)));
    }
}

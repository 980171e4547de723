//! What the rules and the controller agree on, found in the rules: the tables that the controller fills, makes true or shows
//! (crate `switch-model` has the list), and constants.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nlog::index::{Symbol, SymbolKind};
use nlog::program::Place;
use nlog::{Program, Sources};
use nlog_data::{Role, TableId, Value};
use openflow_rs::message::TlvMapping;
use switch_model::interface::{ADDRESSES, INTERFACE};
use switch_model::{SwitchTable, Tables, ZONE_TABLE};

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

impl From<switch_model::Misfit> for Misfit {
    fn from(misfit: switch_model::Misfit) -> Misfit {
        let switch_model::Misfit { table, column, text, remedy } = misfit;
        let subject = Subject { table: Some(table), name: column.unwrap_or_else(|| table.to_owned()) };
        Misfit { subject: Some(subject), place: None, text, remedy }
    }
}

impl Misfit {
    /// One about a table or a kind of the rules.
    pub(crate) fn of_table(name: &str, text: String, remedy: String) -> Misfit {
        Misfit { subject: Some(Subject { table: None, name: name.to_owned() }), place: None, text, remedy }
    }

    /// One about a fact of the rules.
    pub(super) fn of_fact(place: &Place, text: String, remedy: String) -> Misfit {
        Misfit { subject: None, place: Some(place.clone()), text, remedy }
    }

    /// The same, with its place in the sources.
    pub(super) fn placed(mut self, sources: &Sources) -> Misfit {
        let Some(Subject { table, name }) = &self.subject else { return self };
        let (_, index) = nlog::compile_indexed(sources);
        let numbers = 0..sources.files().len() as u32;
        let declares = |symbol: &&Symbol, name: &str, kinds: &[SymbolKind]| {
            symbol.name == name && symbol.definition == Some(symbol.span) && kinds.contains(&symbol.kind)
        };
        let find = |file: u32| {
            let mut symbols = index.symbols(file);
            // Members and fields may have the same name.
            let outer = [SymbolKind::Table, SymbolKind::Constant];
            let outer = symbols.find(|symbol| declares(symbol, table.unwrap_or(name), &outer))?;
            // The columns of a table follow its name.
            let is_column = table.is_some_and(|table| table != name);
            let mut column = || symbols.find(|symbol| declares(symbol, name, &[SymbolKind::Column]));
            if is_column { column() } else { Some(outer) }
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
pub(super) struct Interface {
    found: BTreeMap<&'static str, TableId>,
    switch: Tables,
}

impl Interface {
    /// Compares a program with what the controller can do.
    pub(super) fn of(program: &Program) -> Result<Interface, Misfit> {
        let mut found = BTreeMap::new();
        for table in INTERFACE {
            if let Some(id) = table.find(&program.schema)? {
                found.insert(table.name, id);
            }
        }
        let interface = Interface { found, switch: Tables::find(&program.schema)? };
        let has_switches = interface.switch.flows.is_some() || interface.switch.tunnels.is_some();
        if has_switches && interface.table(&ADDRESSES).is_none() {
            let text = format!(
                "the rules have no table {}, so the controller would manage no switch",
                ADDRESSES.name
            );
            return Err(Misfit { subject: None, place: None, text, remedy: ADDRESSES.remedy() });
        }
        Ok(interface)
    }

    /// The table in the program.
    pub(super) fn table(&self, table: &SwitchTable) -> Option<TableId> {
        self.found.get(table.name).copied()
    }

    /// The tables of the kinds of things in a switch.
    pub(super) fn switch(&self) -> Tables {
        self.switch
    }

    /// Whether a table of the program is one of the interface.
    pub(super) fn has(&self, table: TableId) -> bool {
        self.found.values().copied().chain(self.switch.all()).any(|known| known == table)
    }

    /// The tables that the controller fills.
    pub(super) fn inputs(&self) -> impl Iterator<Item = (&'static str, TableId)> {
        let inputs = INTERFACE.iter().filter(|table| table.role == Role::Input);
        inputs.filter_map(|table| Some((table.name, self.table(table)?)))
    }
}

/// The agreement between rules and drivers besides tables: named constants of the rules
/// (`rules/interface/layout.nlog`, `driver.nlog`). Rules without them have neither learned tables nor a tunnel
/// option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conventions {
    /// The tables of flows that switches learn: `FDB`, `OUTSIDE_NEIGHBOUR`, `LED`, `SHARED_NEIGHBOUR`.
    pub learned_tables: BTreeSet<u8>,
    /// The table of flows that switches learn from announcements, if the rules have it: `ANNOUNCED`.
    pub watched_tables: BTreeSet<u8>,
    /// The table where switches note address conflicts: `CONFLICTS`.
    pub conflict_tables: BTreeSet<u8>,
    /// The geneve option that is `tun_metadata0`: `OPTION_CLASS`, `OPTION_TYPE`, `OPTION_LENGTH`.
    pub tunnel_option: Option<TlvMapping>,
}

impl Conventions {
    pub(super) fn of(program: &Program) -> Result<Conventions, Misfit> {
        let learned = |name| constant(program, name, "a table of learned flows", LEARNED_LAST);
        let learned_tables =
            [learned("FDB")?, learned("OUTSIDE_NEIGHBOUR")?, learned("LED")?, learned("SHARED_NEIGHBOUR")?];
        let watched_table = constant(program, "ANNOUNCED", "the table of announcements", LEARNED_LAST)?;
        let conflict_table = constant(program, "CONFLICTS", "the table of address conflicts", LEARNED_LAST)?;
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
        let number = |table: u16| table.to_be_bytes()[1];
        Ok(Conventions {
            learned_tables: learned_tables.into_iter().flatten().map(number).collect(),
            watched_tables: watched_table.into_iter().map(number).collect(),
            conflict_tables: conflict_table.into_iter().map(number).collect(),
            tunnel_option,
        })
    }
}

/// The last table whose flows switches may learn: the driver notes the owners of conntrack zones in the next one.
const LEARNED_LAST: u16 = ZONE_TABLE as u16 - 1;

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

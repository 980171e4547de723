//! The rules that the controller runs, and the match between their tables and the controller's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use include_dir::{Dir, include_dir};
use network::{Kinds, Rows};
use nlog::diagnostic::{Style, to_text};
use nlog::program::Place;
use nlog::source::{is_nlog, is_test_file};
use nlog::{LoadError, Program, Severity, Sources};
use nlog_data::{Role, Row, RuleId, Schema, TableId, Transaction, Type, Value};
use ovs_driver::TlvMapping;
use tracing::warn;
use tunnel_encap::Encap;

/// The built-in rules.
static BUILT_IN: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../rules");

/// The type of a column, as the controller uses it.
#[derive(Debug)]
enum ColumnType {
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
    fn accepts(&self, ty: &Type) -> bool {
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

const INT: ColumnType = ColumnType::Exactly(Type::Int);
const STRING: ColumnType = ColumnType::Exactly(Type::String);
const MATCH: ColumnType = ColumnType::Exactly(Type::Match);
const ACTIONS: ColumnType = ColumnType::Exactly(Type::Actions);
const ENCAP: ColumnType = ColumnType::Name(|| Encap::ALL.map(Encap::name).to_vec());

/// The input tables that the controller fills besides those of objects (`rules/interface/reports.nlog`).
const INPUTS: &[(&str, &[ColumnType])] = &[
    ("managed", &[STRING]),
    ("object_label", &[STRING, STRING, STRING, STRING]),
    ("patch_port", &[STRING, STRING, INT]),
    ("tunnel_port", &[STRING, STRING, INT]),
    ("vif", &[STRING, STRING, INT, STRING, INT]),
];

/// The output tables that go to switches (`rules/interface/driver.nlog`).
const FLOWS: (&str, &[ColumnType]) = ("of_flow", &[STRING, INT, INT, MATCH, ACTIONS]);
const BUCKETS: (&str, &[ColumnType]) = ("of_bucket", &[STRING, INT, INT, ACTIONS]);
const PATCHES: (&str, &[ColumnType]) = ("ovsdb_patch", &[STRING, STRING, STRING, STRING]);
const TUNNELS: (&str, &[ColumnType]) = ("ovsdb_tunnel", &[STRING, STRING, ENCAP, STRING]);

/// The output table with the addresses of switches. The kind that its first column refers to is that of transport nodes.
const ADDRESSES: (&str, &[ColumnType]) = (
    "switch_address",
    &[ColumnType::Reference, ColumnType::OptionalText, ColumnType::OptionalText, ColumnType::OptionalText],
);

/// The output table with the problems of objects (`rules/interface/driver.nlog`).
const PROBLEMS: (&str, &[ColumnType]) = ("problem", &[STRING, STRING, STRING, STRING]);

/// The tables of universal flows between the logical and the physical rules (`rules/interface/universal.nlog`). Nothing
/// depends on them; if the rules have them, the logical rule behind a flow is known.
const UNIVERSAL: &[(&str, &[ColumnType])] = &[
    ("logical_port_flow", &[STRING, INT, INT, MATCH, ACTIONS]),
    ("logical_flow", &[STRING, INT, INT, MATCH, ACTIONS]),
    ("logical_delivery", &[STRING, INT, INT, MATCH, STRING]),
];

/// The table with the number of each datapath in metadata (`rules/interface/labels.nlog`), from which the datapath of a
/// flow is known.
const DATAPATH_LABELS: (&str, &[ColumnType]) = ("datapath_label", &[STRING, INT]);

/// A program, and the ids of the controller's tables in it.
#[derive(Debug)]
pub struct Rules {
    program: Arc<Program>,
    kinds: Kinds,
    /// The kind of objects that are transport nodes.
    host_kind: Option<String>,
    inputs: BTreeMap<Arc<str>, TableId>,
    pub(crate) flows: Option<TableId>,
    pub(crate) buckets: Option<TableId>,
    pub(crate) tunnels: Option<TableId>,
    pub(crate) patches: Option<TableId>,
    pub(crate) addresses: Option<TableId>,
    pub(crate) states: Vec<StateTable>,
    pub(crate) problems: Option<TableId>,
    pub(crate) universal: Vec<TableId>,
    pub(crate) datapath_labels: Option<TableId>,
    /// The tables that hooks with a memory fill.
    pub(crate) remembered: Vec<TableId>,
    conventions: Conventions,
    fingerprints: Vec<u64>,
    sources: HashMap<u64, RuleSource>,
    /// Tables that the rules do not use and that have been logged.
    unused: Mutex<BTreeSet<Arc<str>>>,
}

/// A table with the state of objects.
#[derive(Debug)]
pub(crate) struct StateTable {
    pub(crate) table: TableId,
    /// The column with the id of the object.
    pub(crate) key: usize,
    /// The kinds of the objects.
    pub(crate) kinds: Vec<String>,
    /// The names of the columns.
    pub(crate) columns: Vec<String>,
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
    fn of(program: &Program) -> Result<Conventions, RulesError> {
        let tunnel_option = match [
            constant(program, "OPTION_CLASS", 0xffff)?,
            constant(program, "OPTION_TYPE", 0xff)?,
            constant(program, "OPTION_LENGTH", 124)?,
        ] {
            [Some(class), Some(kind), Some(len)] => {
                Some(TlvMapping { class, kind: kind.to_be_bytes()[1], len: len.to_be_bytes()[1], field: 0 })
            }
            _ => None,
        };
        let learned_table = constant(program, "FDB", 253)?.map(|table| table.to_be_bytes()[1]);
        Ok(Conventions { learned_tables: learned_table.into_iter().collect(), tunnel_option })
    }
}

/// A named constant of the rules, from 0 to `max`.
fn constant(program: &Program, name: &'static str, max: u16) -> Result<Option<u16>, RulesError> {
    let Some(value) = program.constants.get(name) else { return Ok(None) };
    let number = match value {
        Value::Int(number) => u16::try_from(*number).ok().filter(|number| *number <= max),
        _ => None,
    };
    let fault = || RulesError::Constant { name, value: value.to_string(), max };
    number.map(Some).ok_or_else(fault)
}

/// The source position of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSource {
    /// A hash of the rule's tokens; the cookie of its flows.
    pub fingerprint: u64,
    /// The file.
    pub file: Arc<str>,
    /// Its line, from 1.
    pub line: u32,
    /// Its column, from 1.
    pub column: u32,
    /// Its text.
    pub text: Arc<str>,
}

/// Why the controller cannot run a program.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A file cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The program has errors.
    #[error("the rules have errors\n{}", text.trim_end())]
    Mistakes {
        /// The diagnostics as text.
        text: String,
    },
    /// The columns of a table differ from the controller's.
    #[error(
        "table {name}: the rules declare {declared}, but the controller expects {ours}; see rules/interface/"
    )]
    Columns {
        /// The table.
        name: String,
        /// The columns in the rules.
        declared: String,
        /// The columns in the controller.
        ours: String,
    },
    /// A constant has a value outside the controller's range.
    #[error(
        "constant {name} of the rules is {value}, but the controller needs a number from 0 to {max}; see rules/interface/"
    )]
    Constant {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The greatest possible value.
        max: u16,
    },
    /// The rules have a hook that the controller cannot run.
    #[error("{place}: hook {hook} of the rules: {why}")]
    Hook {
        /// Its name.
        hook: &'static str,
        /// Its place.
        place: Place,
        /// The reason, and a remedy.
        why: String,
    },
    /// The rules have no output table for switches.
    #[error(
        "the rules have neither an output table of_flow nor an output table ovsdb_tunnel; see rules/interface/driver.nlog"
    )]
    NoOutput,
}

impl Rules {
    /// Reads the rules in a folder, or the built-in ones. Warnings are logged.
    pub fn load(folder: Option<&Path>) -> Result<Rules, RulesError> {
        let sources = match folder {
            Some(folder) => Sources::load(&[folder])?,
            None => Sources::from_texts(built_in()),
        };
        let compilation = nlog::compile(&sources);
        let (errors, warnings): (Vec<_>, Vec<_>) =
            compilation.diagnostics.iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
        for warning in warnings {
            warn!("{warning}");
        }
        let Some(program) = compilation.program else {
            let texts = errors.iter().map(|error| to_text(error, &sources, Style::Plain));
            return Err(RulesError::Mistakes { text: texts.collect() });
        };
        Rules::new(program)
    }

    /// Looks for the controller's tables in a program. Input tables that nothing fills are logged.
    pub fn new(program: Arc<Program>) -> Result<Rules, RulesError> {
        let schema = &*program.schema;
        let mut inputs: BTreeMap<Arc<str>, TableId> = BTreeMap::new();
        for &(name, types) in INPUTS {
            if let Some(table) = find(schema, name, Role::Input, types)? {
                inputs.insert(name.into(), table);
            }
        }
        inputs.extend(program.objects.iter().map(|kind| (kind.name.as_str().into(), kind.table)));
        let filled: BTreeSet<&str> = inputs.keys().map(|name| &**name).collect();
        check_hooks(&program, &filled)?;
        for (id, table) in schema.iter().filter(|(_, table)| table.role == Role::Input) {
            if !filled.contains(table.name.as_str()) && program.hook_of(id).is_none() {
                warn!(
                    table = table.name,
                    "the controller does not fill this input table of the rules; it stays empty"
                );
            }
        }
        let flows = find(schema, FLOWS.0, Role::Output, FLOWS.1)?;
        let buckets = find(schema, BUCKETS.0, Role::Output, BUCKETS.1)?;
        let tunnels = find(schema, TUNNELS.0, Role::Output, TUNNELS.1)?;
        let patches = find(schema, PATCHES.0, Role::Output, PATCHES.1)?;
        if flows.is_none() && tunnels.is_none() {
            return Err(RulesError::NoOutput);
        }
        let universal = UNIVERSAL.iter().map(|(name, types)| find(schema, name, Role::Internal, types));
        let universal = universal.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let source = |rule: &nlog::program::Rule| RuleSource {
            fingerprint: rule.fingerprint,
            file: rule.place.file.clone(),
            line: rule.place.line,
            column: rule.place.column,
            text: rule.text.clone(),
        };
        let fingerprints = program.rules.iter().map(|rule| rule.fingerprint).collect();
        let sources = program.rules.iter().map(|rule| (rule.fingerprint, source(rule))).collect();
        let datapath_labels = find(schema, DATAPATH_LABELS.0, Role::Input, DATAPATH_LABELS.1)?;
        let addresses = find(schema, ADDRESSES.0, Role::Output, ADDRESSES.1)?;
        let host_kind =
            addresses.and_then(|table| schema.table(table).columns[0].ty.kinds()?.first().cloned());
        let problems = find(schema, PROBLEMS.0, Role::Output, PROBLEMS.1)?;
        let remembered =
            program.hooks.iter().filter(|wiring| wiring.hook.has_memory()).map(|wiring| wiring.to);
        let remembered = remembered.collect();
        let unused = Mutex::default();
        let conventions = Conventions::of(&program)?;
        let (kinds, states) = (Kinds::new(program.objects.clone()), states(&program));
        Ok(Rules {
            program,
            kinds,
            host_kind,
            inputs,
            flows,
            buckets,
            tunnels,
            patches,
            addresses,
            states,
            problems,
            universal,
            datapath_labels,
            remembered,
            conventions,
            fingerprints,
            sources,
            unused,
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The kinds of objects.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The kind of objects that are transport nodes, if the rules say where their switches are.
    pub fn host_kind(&self) -> Option<&str> {
        self.host_kind.as_deref()
    }

    /// The agreed constants.
    pub fn conventions(&self) -> &Conventions {
        &self.conventions
    }

    /// The tables whose changes the controller observes.
    pub fn observed(&self) -> BTreeSet<TableId> {
        let of_switches = [self.flows, self.buckets, self.tunnels, self.patches];
        let others = [self.addresses, self.problems, self.datapath_labels];
        let states = self.states.iter().map(|state| state.table);
        let single = of_switches.into_iter().chain(others).flatten().chain(states);
        single.chain(self.universal.iter().chain(&self.remembered).copied()).collect()
    }

    /// The rule with this fingerprint.
    pub fn source(&self, fingerprint: u64) -> Option<&RuleSource> {
        self.sources.get(&fingerprint)
    }

    pub(crate) fn fingerprint(&self, rule: RuleId) -> u64 {
        self.fingerprints.get(rule.0 as usize).copied().unwrap_or(0)
    }

    /// A transaction of these rows. Drops the rows of tables that the rules lack, and logs each such table once.
    pub(crate) fn transaction(&self, rows: Rows) -> Transaction {
        for table in rows.insert.iter().filter(|(_, list)| !list.is_empty()).map(|(table, _)| table) {
            if self.inputs.contains_key(table) {
                continue;
            }
            let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
            if unused.insert(table.clone()) {
                warn!(%table, "the rules do not have this input table; its rows are ignored");
            }
        }
        let side = |side: BTreeMap<Arc<str>, Vec<Row>>| {
            let filled = side.into_iter().filter(|(_, rows)| !rows.is_empty());
            filled.filter_map(|(table, rows)| Some((*self.inputs.get(&table)?, rows))).collect()
        };
        Transaction { insert: side(rows.insert), delete: side(rows.delete) }
    }

    /// The rows of a transaction by the names of their tables.
    pub(crate) fn named(&self, transaction: Transaction) -> Rows {
        let side = |mut side: BTreeMap<TableId, Vec<Row>>| {
            let tables = self.inputs.iter();
            tables.filter_map(|(name, table)| Some((name.clone(), side.remove(table)?))).collect()
        };
        Rows { insert: side(transaction.insert), delete: side(transaction.delete) }
    }

    /// Whether the rules have the tables of all these rows.
    pub(crate) fn use_all(&self, rows: &Rows) -> bool {
        rows.insert.keys().chain(rows.delete.keys()).all(|table| self.inputs.contains_key(table))
    }
}

/// The tables of state of a program.
fn states(program: &Program) -> Vec<StateTable> {
    let state = |table: &TableId| {
        let declared = program.schema.table(*table);
        let key = *declared.key.as_ref()?.first()?;
        let kinds = declared.columns.get(key)?.ty.kinds()?.to_vec();
        let columns = declared.columns.iter().map(|column| column.name.clone()).collect();
        Some(StateTable { table: *table, key, kinds, columns })
    };
    program.states.iter().filter_map(state).collect()
}

/// Checks that the controller can run the hooks of the rules. It sends no ticks.
fn check_hooks(program: &Program, filled: &BTreeSet<&str>) -> Result<(), RulesError> {
    for wiring in &program.hooks {
        let table = &program.schema.table(wiring.to).name;
        let why = if filled.contains(table.as_str()) {
            format!("the controller fills table {table} itself; let the hook fill another table")
        } else if wiring.hook.is_timed() {
            "the controller does not support timed hooks yet, because it sends no ticks; remove it".to_owned()
        } else {
            continue;
        };
        return Err(RulesError::Hook { hook: wiring.hook.name(), place: wiring.place.clone(), why });
    }
    Ok(())
}

/// The built-in files, by their names in the repository.
fn built_in() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut folders = vec![&BUILT_IN];
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        let files = folder.files().filter(|file| is_nlog(file.path()) && !is_test_file(file.path()));
        texts.extend(files.map(|file| {
            let text = String::from_utf8_lossy(file.contents()).into_owned();
            (format!("rules/{}", file.path().display()), text)
        }));
    }
    texts.sort();
    texts
}

fn find(schema: &Schema, name: &str, role: Role, ours: &[ColumnType]) -> Result<Option<TableId>, RulesError> {
    let Some(id) = schema.find(name) else { return Ok(None) };
    let table = schema.table(id);
    let columns = || table.columns.iter().map(|column| &column.ty);
    let fit =
        table.columns.len() == ours.len() && ours.iter().zip(columns()).all(|(own, ty)| own.accepts(ty));
    if table.role == role && fit {
        return Ok(Some(id));
    }
    let role_name = |role| match role {
        Role::Input => "input",
        Role::Internal | Role::Hidden => "internal",
        Role::Output => "output",
        Role::Forbid => "forbid",
    };
    let declared: Vec<String> = columns().map(ToString::to_string).collect();
    let ours: Vec<String> = ours.iter().map(ToString::to_string).collect();
    Err(RulesError::Columns {
        name: name.to_owned(),
        declared: format!("{} ({})", role_name(table.role), declared.join(", ")),
        ours: format!("{} ({})", role_name(role), ours.join(", ")),
    })
}

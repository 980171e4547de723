//! The rules that the controller runs, and the match between their tables and the controller's.

mod edits;
mod interface;
mod relations;
mod taken_names;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nlog::diagnostic::{Style, to_text};
use nlog::program::{Expr, HeadTerm, Listing, Place, Rule};
use nlog::{LoadError, Program, Severity, Sources};
use nlog_data::{Role, Row, RuleId, TableId, Transaction, Value};
use objects::{Kinds, Rows, Spelling};
use pipeline::Names;
use switch_model::interface::{
    ADDRESSES, DATAPATH_LABELS, DROP_CAUSES, DROPPING_ACTIONS, DROPPING_FLOWS, DROPPING_METERS, PORT_HOMES,
    PROBE_COUNTERS, PROBE_HOSTS, PROBLEMS, TUNNEL_PROBES,
};
use tracing::warn;

use crate::builtin;
use crate::record::RulesText;
use crate::universal::{self, Universal};
use interface::Interface;
pub use interface::{Conventions, Misfit};
use relations::Relations;

/// A program, and the ids of the controller's tables in it.
#[derive(Debug)]
pub struct Rules {
    program: Arc<Program>,
    /// What they were read from; `None` for a program in memory.
    text: Option<RulesText>,
    kinds: Kinds,
    /// The kind of objects that are transport nodes.
    host_kind: Option<String>,
    inputs: BTreeMap<Arc<str>, TableId>,
    /// The tables of the kinds of things in a switch.
    pub switch: switch_model::Tables,
    pub(crate) homes: Option<TableId>,
    pub(crate) addresses: Option<TableId>,
    pub(crate) states: Vec<StateTable>,
    /// What applies to what, and what needs what.
    pub(crate) relations: Relations,
    pub(crate) problems: Option<TableId>,
    pub(crate) drop_causes: Option<TableId>,
    pub(crate) dropping_flows: Option<TableId>,
    pub(crate) dropping_actions: Option<TableId>,
    pub(crate) dropping_meters: Option<TableId>,
    pub(crate) probe_hosts: Option<TableId>,
    pub(crate) tunnel_probes: Option<TableId>,
    pub(crate) probe_counters: Option<TableId>,
    /// The tables of universal flows between the logical and the physical rules (`rules/interface/universal.nlog`). Nothing
    /// depends on them; if the rules have them, the logical rule behind a flow is known.
    pub(crate) universal: Vec<Universal>,
    /// What flows are called.
    names: Names,
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
    /// The column that says which interface an object lacks, if this is such a table.
    pub(crate) unattached: Option<usize>,
    /// The column that says on which host an object is.
    pub(crate) place: Option<usize>,
    /// The column that says why an object is on no host.
    pub(crate) waits: Option<usize>,
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
    /// A table or a constant does not fit the controller.
    #[error("{0}")]
    Interface(Box<Misfit>),
    /// The rules take files of the built-in rules, but leave out the others.
    #[error(
        "the rules import {file}, so they extend the built-in rules, which do not run: write \
         rules = [\"{name}\", FOLDER] in the configuration",
        name = builtin::NAME
    )]
    Partial {
        /// An imported file.
        file: String,
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
        "the rules have neither an output table of_flow nor an output table ovsdb_tunnel, so the controller would do nothing; if they \
         extend the built-in rules, write rules = [\"{name}\", FOLDER] in the configuration",
        name = builtin::NAME
    )]
    NoOutput,
}

impl From<Misfit> for RulesError {
    fn from(misfit: Misfit) -> RulesError {
        RulesError::Interface(Box::new(misfit))
    }
}

impl Rules {
    /// Reads the built-in rules.
    ///
    /// # Errors
    /// A bug: the tests read them as well.
    pub fn built_in() -> Result<Rules, RulesError> {
        Rules::load(&[builtin::NAME])
    }

    /// Reads the rules in these files and folders; `builtin` is the built-in ones. Warnings are logged.
    pub fn load<P: AsRef<Path>>(paths: &[P]) -> Result<Rules, RulesError> {
        let sources = builtin::load(paths)?;
        if !paths.iter().any(|path| builtin::owns(path.as_ref()))
            && let Some(file) = sources.files().iter().find(|file| sources.is_of_library(file))
        {
            return Err(RulesError::Partial { file: file.name.to_string() });
        }
        let packages = paths.iter().map(|path| path.as_ref().display().to_string()).collect();
        Rules::of_sources(&sources, packages)
    }

    /// The rules that a record has.
    ///
    /// # Errors
    /// This version of Weft cannot run them.
    pub fn of_text(text: &RulesText) -> Result<Rules, RulesError> {
        Rules::of_sources(&builtin::of_text(text), text.packages.clone())
    }

    fn of_sources(sources: &Sources, packages: Vec<String>) -> Result<Rules, RulesError> {
        let compilation = nlog::compile(sources);
        let (errors, warnings): (Vec<_>, Vec<_>) =
            compilation.diagnostics.iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
        for warning in warnings {
            warn!("{warning}");
        }
        let Some(program) = compilation.program else {
            let texts = errors.iter().map(|error| to_text(error, sources, Style::Plain));
            return Err(RulesError::Mistakes { text: texts.collect() });
        };
        let mut rules = Rules::new(program).map_err(|error| placed(error, sources))?;
        let files = sources.files().iter().map(|file| (file.name.clone(), file.text.clone())).collect();
        rules.text = Some(RulesText { packages, files });
        Ok(rules)
    }

    /// Looks for the controller's tables in a program. Tables that the controller neither fills nor reads are logged.
    pub fn new(program: Arc<Program>) -> Result<Rules, RulesError> {
        let schema = &*program.schema;
        let interface = Interface::of(&program)?;
        let mut inputs: BTreeMap<Arc<str>, TableId> =
            interface.inputs().map(|(name, table)| (name.into(), table)).collect();
        inputs.extend(program.objects.iter().map(|kind| (kind.name.as_str().into(), kind.table)));
        let filled: BTreeSet<&str> = inputs.keys().map(|name| &**name).collect();
        check_hooks(&program, &filled)?;
        warn_of_idle_tables(&program, &filled, &interface);
        let switch = interface.switch();
        let [addresses, problems, homes] =
            [ADDRESSES, PROBLEMS, PORT_HOMES].map(|table| interface.table(&table));
        let [drop_causes, dropping_flows, dropping_actions, dropping_meters] =
            [DROP_CAUSES, DROPPING_FLOWS, DROPPING_ACTIONS, DROPPING_METERS]
                .map(|table| interface.table(&table));
        let [probe_hosts, tunnel_probes, probe_counters] =
            [PROBE_HOSTS, TUNNEL_PROBES, PROBE_COUNTERS].map(|table| interface.table(&table));
        if switch.flows.is_none() && switch.tunnels.is_none() {
            return Err(RulesError::NoOutput);
        }
        let universal = universal::tables(&program);
        let names = Names::of(&program);
        let source = |rule: &nlog::program::Rule| RuleSource {
            fingerprint: rule.fingerprint,
            file: rule.place.file.clone(),
            line: rule.place.line,
            column: rule.place.column,
            text: rule.text.clone(),
        };
        let fingerprints = program.rules.iter().map(|rule| rule.fingerprint).collect();
        let sources = program.rules.iter().map(|rule| (rule.fingerprint, source(rule))).collect();
        // Nothing depends on it, so another table of this name is no fault.
        let datapath_labels = DATAPATH_LABELS.find(schema).ok().flatten();
        let kind_of = |table: TableId| schema.table(table).columns[0].ty.kinds()?.first().cloned();
        let host_kind = addresses.and_then(kind_of);
        let remembered =
            program.hooks.iter().filter(|wiring| wiring.hook.has_memory()).map(|wiring| wiring.to);
        let remembered = remembered.collect();
        let unused = Mutex::default();
        let conventions = Conventions::of(&program)?;
        let (kinds, states, relations) = (kinds(&program), states(&program), Relations::of(&program)?);
        taken_names::check(&program, &kinds)?;
        Ok(Rules {
            program,
            text: None,
            kinds,
            host_kind,
            inputs,
            switch,
            homes,
            addresses,
            states,
            relations,
            problems,
            drop_causes,
            dropping_flows,
            dropping_actions,
            dropping_meters,
            probe_hosts,
            tunnel_probes,
            probe_counters,
            universal,
            names,
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

    /// Their text; `None` for a program in memory.
    pub fn text(&self) -> Option<RulesText> {
        self.text.clone()
    }

    /// What tells these rules from others: a hash of their text; `None` for a program in memory.
    pub fn version(&self) -> Option<String> {
        self.text.as_ref().map(RulesText::fingerprint)
    }

    /// The files and folders that the rules were read from, of which `builtin` is the built-in rules.
    pub fn packages(&self) -> &[String] {
        self.text.as_ref().map_or(&[], |text| &text.packages)
    }

    /// The names of the tables that hooks with a memory fill.
    pub fn remembered_tables(&self) -> impl Iterator<Item = &str> {
        self.remembered.iter().map(|table| self.program.schema.table(*table).name.as_str())
    }

    /// Whether a hook with a memory fills a table of this name.
    pub(crate) fn remembers(&self, table: &str) -> bool {
        self.remembered_tables().any(|name| name == table)
    }

    /// The kinds of objects.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The kind of objects that are transport nodes, if the rules say where their switches are.
    pub fn host_kind(&self) -> Option<&str> {
        self.host_kind.as_deref()
    }

    /// Whether rules say of objects of this kind on which host they are.
    pub(crate) fn has_place(&self, kind: &str) -> bool {
        self.states.iter().any(|state| state.place.is_some() && state.kinds.iter().any(|own| own == kind))
    }

    /// The names of stages and fields.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The agreed constants.
    pub fn conventions(&self) -> &Conventions {
        &self.conventions
    }

    /// The tables whose changes the controller observes.
    pub fn observed(&self) -> BTreeSet<TableId> {
        let others = [self.addresses, self.problems, self.datapath_labels, self.homes];
        let drops = [self.drop_causes, self.dropping_flows, self.dropping_actions, self.dropping_meters];
        let probes = [self.probe_hosts, self.tunnel_probes, self.probe_counters];
        let single = others.into_iter().chain(drops).chain(probes).flatten();
        let single = single.chain(self.program.listings.iter().flat_map(tables_of));
        let states = self.states.iter().map(|state| state.table);
        let single = single.chain(self.switch.all()).chain(states);
        let universal = self.universal.iter().map(|universal| universal.table);
        single.chain(universal).chain(self.remembered.iter().copied()).collect()
    }

    /// The rule with this fingerprint.
    pub fn source(&self, fingerprint: u64) -> Option<&RuleSource> {
        self.sources.get(&fingerprint)
    }

    /// A rule by its fingerprint, for people: the table that it fills, and its place.
    pub fn told(&self, fingerprint: u64) -> String {
        let program = self.program();
        let rule = program.rules.iter().find(|rule| rule.fingerprint == fingerprint);
        rule.map(|rule| {
            let table = &program.schema.table(program.schema.shown(rule.head)).name;
            format!("{table} ({}:{})", rule.place.file, rule.place.line)
        })
        .unwrap_or_default()
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

    /// Whether the rules have this input table.
    pub(crate) fn uses(&self, table: &str) -> bool {
        self.inputs.contains_key(table)
    }

    /// Whether the rules have the tables of all these rows.
    pub(crate) fn use_all(&self, rows: &Rows) -> bool {
        rows.insert.keys().chain(rows.delete.keys()).all(|table| self.inputs.contains_key(table))
    }
}

/// The tables of a listing: its own, and that of the hosts to ask.
fn tables_of(listing: &Listing) -> impl Iterator<Item = TableId> {
    std::iter::once(listing.table).chain(listing.reads.as_ref().and_then(|reads| reads.on))
}

/// The column of a table of state by which rules say that an object has no interface. Interfaces whose ids no object has are compared with
/// the ids of these objects alone.
pub(crate) const UNATTACHED: &str = "unattached";
/// The column by which rules say on which host an object is.
const PLACE: &str = "node";
/// The column by which rules say why an object is on no host.
const WAITS_FOR: &str = "waits_for";

/// The tables of state of a program.
fn states(program: &Program) -> Vec<StateTable> {
    let state = |table: &TableId| {
        let declared = program.schema.table(*table);
        let key = *declared.key.as_ref()?.first()?;
        let kinds = declared.columns.get(key)?.ty.kinds()?.to_vec();
        let columns = declared.columns.iter().map(|column| column.name.clone());
        let columns: Vec<String> = columns.collect();
        let column = |name: &str| columns.iter().position(|column| column == name);
        let (unattached, place) = (column(UNATTACHED), column(PLACE));
        let waits = unattached.or_else(|| column(WAITS_FOR));
        Some(StateTable { table: *table, key, kinds, columns, unattached, place, waits })
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

/// Input tables of the built-in rules that only tests fill.
const ONLY_IN_TESTS: [&str; 1] = ["replication_limit"];

/// Logs the tables that the controller neither fills nor reads, though the rules leave that to it.
fn warn_of_idle_tables(program: &Program, filled: &BTreeSet<&str>, interface: &Interface) {
    for (id, table) in program.schema.iter() {
        let name = table.name.as_str();
        match table.role {
            Role::Input if ONLY_IN_TESTS.contains(&name) => {}
            Role::Input if !filled.contains(name) && program.hook_of(id).is_none() => {
                warn!(
                    table = name,
                    "the controller does not fill this input table of the rules; it stays empty"
                );
            }
            Role::Output
                if !interface.has(id)
                    && !program.states.contains(&id)
                    && !program.listings.iter().flat_map(tables_of).any(|listed| listed == id) =>
            {
                warn!(
                    table = name,
                    "the controller does nothing with the rows of this output table of the rules"
                );
            }
            _ => {}
        }
    }
}

/// The error, with its place if it is about a declaration.
fn placed(error: RulesError, sources: &Sources) -> RulesError {
    match error {
        RulesError::Interface(misfit) => RulesError::Interface(Box::new(misfit.placed(sources))),
        error => error,
    }
}

/// The table of the words that users of other systems write: the type, their word, and what is meant.
const SPELLING: &str = "spelling";

/// The kinds of objects that a program declares, with the hints that its facts give.
pub fn kinds(program: &Program) -> Kinds {
    let spelling = |(_, texts): (_, [String; 3])| {
        let [of, other, here] = texts;
        Spelling { of, other, here }
    };
    Kinds::new(program.objects.clone()).with_spellings(facts(program, SPELLING).map(spelling))
}

/// The facts of a table whose columns are texts.
fn facts<'p, const COLUMNS: usize>(
    program: &'p Program,
    table: &str,
) -> impl Iterator<Item = (&'p Rule, [String; COLUMNS])> {
    let text = |term: &HeadTerm| match term {
        HeadTerm::Value(Expr::Constant(Value::String(text))) => Some(text.to_string()),
        _ => None,
    };
    let table = program.schema.find(table);
    let facts = program.rules.iter().filter(move |rule| rule.body.is_empty() && Some(rule.head) == table);
    facts.filter_map(move |rule| {
        let texts: Option<Vec<String>> = rule.terms.iter().map(text).collect();
        Some((rule, texts?.try_into().ok()?))
    })
}

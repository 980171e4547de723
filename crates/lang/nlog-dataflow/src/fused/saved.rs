//! A saved engine: everything that it holds between two transactions, so that another engine goes on from there without deriving it.
//!
//! Saved are the symbols with their values, the rows of the inputs, the counts and hashes of relations, the indexes and
//! the tuples of groups; each trace is one batch. A restored engine has the same plan: the settings that lead to it
//! are saved, and its digest, which differs if the program, the planner or the observed tables do. Another release of Weft
//! refuses the file.
//!
//! Restoring does all or nothing: an engine that cannot use the bytes is as before.

use std::io::{self, Read, Take, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog_data::{RuleId, TableId};
use nlog_plan::Settings;
use nlog_plan::query::{Plan, RelationId};
use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::core::{Core, wanted};
use super::engine::State;
use super::inputs::Inputs;
use super::output;
use super::relation::SavedRelation;
use super::trace::View;
use crate::checked_bytes::{Broken, In, Out};
use crate::symbol::{SavedSymbols, Symbols, digest};

/// The first number. Machines with another order of bytes read another one.
const MARK: u64 = 0x7765_6674_2d64_7631;

/// The release, each of which may derive other rows and save them in another form.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why an engine cannot be saved, or not be restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedError {
    /// The bytes cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// They were damaged, or end too early.
    #[error("they are damaged or truncated")]
    Damaged,
    /// Another program, another plan, or another release of Weft has derived the rows.
    #[error("{0}")]
    Other(&'static str),
    /// The engine has several workers, or has run transactions already.
    #[error("{0}")]
    Engine(&'static str),
    /// A hook cannot go on from its memory.
    #[error("{0}")]
    Hook(String),
    /// The engine is broken.
    #[error("{0}")]
    Broken(String),
}

impl From<Broken> for SavedError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Io(error) => SavedError::Io(error),
            Broken::Damaged => SavedError::Damaged,
        }
    }
}

/// What leads to the plan of a saved engine, and what it did so far.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Whether rows name their rules.
    attribute: bool,
    settings: Settings,
    /// The digest of the plan and of the program.
    plan: u64,
    /// Whether the statistics are those of the engine itself.
    learned: bool,
    /// Whether the facts have been derived.
    facts: bool,
    transactions: u64,
    /// The fingerprint and the id of each number in attributed rows, and the number of each rule: edits of rules keep them.
    numbers: Vec<(u64, u32)>,
    of_rules: Vec<u32>,
}

/// The derived rows that are kept.
struct Rows {
    relations: Vec<SavedRelation>,
    indexes: Vec<Batch>,
    groups: Vec<Batch>,
}

impl Core {
    /// Writes everything that the engine holds, so that [`Core::restore_rows`] can go on from here.
    ///
    /// # Errors
    /// The engine has several workers or is broken, or writing fails.
    pub(crate) fn save(&mut self, to: &mut dyn Write) -> Result<(), SavedError> {
        self.is_sound().map_err(|error| SavedError::Broken(error.to_string()))?;
        if self.workers.is_some() {
            return Err(SavedError::Engine("an engine with several workers cannot save derived rows"));
        }
        // A collection of unused symbols visits all rows, and nobody wants to wait for that here.
        self.state.merge();
        let mut out = Out::new(to);
        out.number(MARK)?;
        out.all(VERSION.as_bytes())?;
        out.all(&serde_json::to_vec(&self.header()).map_err(io::Error::from)?)?;
        out.check()?;
        self.state.symbols.save(&mut out)?;
        self.inputs.save(&mut out)?;
        out.check()?;
        self.state.save(&mut out)?;
        out.check()?;
        Ok(())
    }

    fn header(&self) -> Header {
        Header {
            attribute: self.options.attribute,
            settings: self.state.plan.settings.clone(),
            plan: digest_of(&self.state.plan),
            learned: self.planning.learned.is_some(),
            facts: self.facts,
            transactions: self.transactions,
            numbers: self.state.numbers.rules.iter().map(|(fingerprint, id)| (*fingerprint, id.0)).collect(),
            of_rules: self.state.rules.iter().map(|rule| rule.number).collect(),
        }
    }

    /// Takes over everything that another engine of this program has saved. This engine has one worker and has run nothing yet. `from`
    /// knows how many bytes are left.
    ///
    /// # Errors
    /// The bytes cannot be used. The engine is as before.
    pub(crate) fn restore_rows(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), SavedError> {
        self.is_sound().map_err(|error| SavedError::Broken(error.to_string()))?;
        if self.workers.is_some() {
            return Err(SavedError::Engine("an engine with several workers cannot restore derived rows"));
        }
        if self.facts || self.transactions > 0 || self.inputs.total() > 0 {
            return Err(SavedError::Engine(
                "an engine that has run transactions cannot restore derived rows",
            ));
        }
        let restored = catch_unwind(AssertUnwindSafe(|| self.restore_checked(from)));
        restored.unwrap_or(Err(SavedError::Damaged))
    }

    fn restore_checked(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), SavedError> {
        let mut from = In::new(from);
        if from.number()? != MARK {
            return Err(SavedError::Damaged);
        }
        let (version, header): (Vec<u8>, Vec<u8>) = (from.all()?, from.all()?);
        from.check()?;
        if version != VERSION.as_bytes() {
            return Err(SavedError::Other("another release of weft has derived them"));
        }
        let header: Header = serde_json::from_slice(&header).map_err(|_| SavedError::Damaged)?;
        if header.attribute != self.options.attribute {
            return Err(SavedError::Other("they do not say which rule derived which row"));
        }
        let program = Arc::clone(self.program());
        let wanted = wanted(&program, &self.options);
        let settings = &header.settings;
        // Planning takes about as long as reading the values.
        let (plan, values) = std::thread::scope(|scope| {
            let plan = scope.spawn(|| {
                let plan = Plan::new(program, &wanted, settings);
                let digest = digest_of(&plan);
                (Arc::new(plan), digest)
            });
            let values = read_values(&self.inputs, &mut from);
            (plan.join(), values)
        });
        let (plan, digest) = plan.map_err(|_| SavedError::Damaged)?;
        if digest != header.plan {
            return Err(SavedError::Other(
                "another program has derived them, or a run that observed other tables",
            ));
        }
        let (symbols, inputs) = values?;
        let mut state = State::new(plan, Arc::new(symbols), self.options.attribute);
        state.restore_numbers(&header)?;
        let rows = Rows::read(&state, &mut from)?;
        rows.restore(&mut state)?;
        let symbols = Arc::clone(&state.symbols);
        let rows_of = |table: TableId| {
            if !header.facts {
                return Ok(Vec::new());
            }
            let rows = state.rows(RelationId(table.0), View::Before, &|table| inputs.rows(table));
            rows.map(|mut rows| {
                rows.make_set();
                output::to_rows(&rows, &symbols)
            })
        };
        let hooks = self.hooks.resume(
            &mut |source| rows_of(source).map_err(|_| "its source has too many derivations".to_owned()),
            &|target| output::to_rows(&inputs.rows(target), &symbols),
        );
        (self.hooks, self.state, self.inputs) = (hooks.map_err(SavedError::Hook)?, state, inputs);
        self.facts = header.facts;
        self.transactions = header.transactions;
        self.symbols_left = self.state.symbols.len();
        // Some may have been saved that were not in use.
        self.gone = true;
        self.planning.learned = header.settings.statistics.filter(|_| header.learned);
        Ok(())
    }
}

/// A digest of all that decides which rows there can be and which are derived. A plan names functions; what they compute is in the program.
pub(crate) fn digest_of(plan: &Plan) -> u64 {
    let program = &plan.program;
    let steps = digest(format!("{:?}\n{:?}\n{:?}", plan.relations, plan.indexes, plan.rules).as_bytes());
    let rules: Vec<u64> = program.rules.iter().map(|rule| rule.fingerprint).collect();
    let keys: Vec<Vec<&[usize]>> = program.schema.iter().map(|(_, table)| table.keys().collect()).collect();
    digest(format!("{steps:?}\n{rules:?}\n{:?}\n{keys:?}", program.functions).as_bytes())
}

/// Reads the symbols and the rows of the inputs.
fn read_values(empty: &Inputs, from: &mut In<'_, '_>) -> Result<(Symbols, Inputs), Broken> {
    let symbols = SavedSymbols::read(from)?;
    let tables = empty.read(from)?;
    from.check()?;
    let mut inputs = empty.like();
    inputs.restore(&tables);
    Ok((symbols.restore()?, inputs))
}

impl State {
    /// Takes over the numbers of rules.
    fn restore_numbers(&mut self, header: &Header) -> Result<(), Broken> {
        let numbers = &header.numbers;
        let is_known = |number: &u32| (*number as usize) < numbers.len();
        if header.of_rules.len() != self.rules.len() || !header.of_rules.iter().all(is_known) {
            return Err(Broken::Damaged);
        }
        self.numbers.rules = numbers.iter().map(|(fingerprint, id)| (*fingerprint, RuleId(*id))).collect();
        for (rule, number) in self.rules.iter_mut().zip(&header.of_rules) {
            rule.number = *number;
        }
        Ok(())
    }

    /// Writes all derived rows that are kept.
    fn save(&self, out: &mut Out<'_>) -> io::Result<()> {
        self.relations.iter().try_for_each(|relation| relation.save(out))?;
        self.indexes.iter().try_for_each(|index| index.trace.save(out))?;
        let mut groups = self.rules.iter().filter_map(|rule| rule.groups.as_ref());
        groups.try_for_each(|groups| groups.trace.save(out))
    }
}

impl Rows {
    /// Reads what an engine with this plan has saved. The state is empty.
    fn read(state: &State, from: &mut In<'_, '_>) -> Result<Self, Broken> {
        let relations = state.relations.iter().map(|relation| relation.read(from));
        let relations = relations.collect::<Result<_, _>>()?;
        let indexes = state.indexes.iter().map(|index| index.trace.read(from));
        let indexes = indexes.collect::<Result<_, _>>()?;
        let groups = state.rules.iter().filter_map(|rule| rule.groups.as_ref());
        let groups = groups.map(|groups| groups.trace.read(from)).collect::<Result<_, _>>()?;
        from.check()?;
        Ok(Rows { relations, indexes, groups })
    }

    fn restore(self, state: &mut State) -> Result<(), Broken> {
        for (relation, saved) in state.relations.iter_mut().zip(self.relations) {
            relation.restore(saved)?;
        }
        for (index, saved) in state.indexes.iter_mut().zip(self.indexes) {
            index.trace.restore(saved);
        }
        let groups = state.rules.iter_mut().filter_map(|rule| rule.groups.as_mut());
        for (groups, saved) in groups.zip(self.groups) {
            groups.trace.restore(saved);
        }
        Ok(())
    }
}

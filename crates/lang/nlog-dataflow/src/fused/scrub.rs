//! Compares the stored rows of an engine with its inputs, a part at a time, in idle time.
//!
//! All that an engine stores follows from its inputs. A scrub derives one relation after another again, each from the rows that its
//! rules read, and compares what comes out with what is stored: the counts or hashes of the relation, its indexes, and the tuples of its rules'
//! groups. A mistake in a relation thus shows there, and not in all relations behind it. Sums of hashes are compared, which do not depend on
//! the order of rows, so derived rows are neither sorted nor kept, and the work divides into parts of any size. A transaction
//! between two parts changes what is compared, so the relation begins anew.
//!
//! Two different sets of rows have one sum with a probability of about 2^-64.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use nlog_data::{CommitError, Committed, Scrubbed, TableId};
use nlog_plan::query::{Plan, RelationId};

use super::core::Core;
use super::delta::{Delta, Diff};
use super::engine::State;
use super::errors::Refusal;
use super::groups::Groups;
use super::pipeline::Pipeline;
use super::relation::Counts;
use super::trace::{Trace, View};
use super::watch::hash_of;
use crate::symbol::Symbol;

/// The number of rows that a part begins with.
const ROWS: usize = if cfg!(test) { 3 } else { 1 << 13 };

/// A sum over rows, in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    hashes: u64,
    rows: Diff,
}

impl Sum {
    fn add(&mut self, hash: u64, count: Diff) {
        self.hashes = self.hashes.wrapping_add(hash.wrapping_mul(count as u64));
        self.rows = self.rows.wrapping_add(count);
    }

    fn add_words(&mut self, words: impl Iterator<Item = Symbol>, count: Diff) {
        let mut hasher = foldhash::quality::FixedState::default().build_hasher();
        words.for_each(|word| hasher.write_u32(word));
        self.add(hasher.finish(), count);
    }

    fn of_trace(trace: &Trace) -> Sum {
        let mut sum = Sum::default();
        trace.for_each_change(|key, value, count| {
            sum.add_words(key.iter().chain(value).copied(), count);
        });
        sum
    }
}

/// The progress of a scrub.
#[derive(Default)]
pub(super) struct Scrub {
    /// The relation that is compared.
    relation: usize,
    /// Its progress; `None` before it has begun.
    begun: Option<Begun>,
}

/// The progress of one relation.
struct Begun {
    basis: Basis,
    /// The rules of the relation that are left, the next one last.
    rules: Vec<usize>,
    current: Option<Current>,
    /// What the rules derive: the rows as the relation keeps them, and by index those of its indexes.
    rows: Sum,
    indexes: Vec<Sum>,
    /// The tuples of the groups of the current rule.
    tuples: Sum,
}

/// The progress of one rule.
struct Current {
    rule: usize,
    pipeline: Pipeline,
    /// The rows with which the pipeline begins.
    rows: Delta,
    /// The number of those it has had.
    at: usize,
}

/// The state that a comparison is about. Another one makes it begin anew.
#[derive(Debug, Clone)]
struct Basis {
    transactions: u64,
    sweeps: u64,
    plan: Arc<Plan>,
}

impl Basis {
    fn is(&self, other: &Basis) -> bool {
        (self.transactions, self.sweeps) == (other.transactions, other.sweeps)
            && Arc::ptr_eq(&self.plan, &other.plan)
    }
}

impl Core {
    /// Compares a further part of what is stored with the inputs: [`Evaluator::scrub`](nlog_data::Evaluator::scrub). An engine
    /// with several workers compares nothing.
    pub(crate) async fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        self.guarded(async |engine| {
            if engine.shares || !engine.facts {
                return Ok(Scrubbed::Whole);
            }
            engine.phase = "comparing what is stored with the inputs";
            // Values that it computes are in use nowhere.
            engine.gone = true;
            let mut scrub = std::mem::take(&mut engine.scrub);
            let scrubbed = engine.scrub_part(&mut scrub);
            engine.scrub = scrub;
            scrubbed
        })
        .await
    }

    fn basis(&self) -> Basis {
        let plan = Arc::clone(&self.state.plan);
        Basis { transactions: self.transactions, sweeps: self.sweeps, plan }
    }

    fn scrub_part(&mut self, scrub: &mut Scrub) -> Result<Scrubbed, CommitError> {
        let basis = self.basis();
        if scrub.begun.as_ref().is_some_and(|begun| !begun.basis.is(&basis)) {
            scrub.begun = None;
        }
        let relations = self.state.relations.len();
        while scrub.begun.is_none() {
            if scrub.relation >= relations {
                *scrub = Scrub::default();
                return Ok(Scrubbed::Whole);
            }
            if self.state.stores(scrub.relation) {
                scrub.begun = Some(self.state.begin_scrub(scrub.relation, basis.clone()));
            } else {
                scrub.relation += 1;
            }
        }
        let Some(begun) = &mut scrub.begun else { return Ok(Scrubbed::More) };
        let inputs = &self.inputs;
        let rows_of = |table: TableId| inputs.rows(table);
        let done = self.state.scrub_relation(scrub.relation, begun, &rows_of);
        let differs = match done.map_err(|refusal| refusal.into_error(&self.state.plan))? {
            Part::More => return Ok(Scrubbed::More),
            Part::Done => None,
            Part::Differs(what) => Some(what),
        };
        let relation = std::mem::take(&mut scrub.begun).map(|_| scrub.relation);
        scrub.relation += 1;
        Ok(match (differs, relation) {
            (Some(what), Some(relation)) => {
                Scrubbed::Differs(format!("{}: {what}", self.state.name_of(relation)))
            }
            _ => Scrubbed::More,
        })
    }

    /// Derives all rows again from the inputs, and goes on with these: [`Evaluator::derive_anew`](nlog_data::Evaluator::derive_anew).
    pub(crate) async fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        self.guarded(async |engine| {
            engine.phase = "deriving all rows again";
            let plan = Arc::clone(&engine.state.plan);
            let loads = engine.loads().await?;
            let Some(changed) = engine.load_into(&plan, engine.workers.is_some()).await? else {
                return Err(CommitError::Engine("the rows of the inputs cannot be derived again".to_owned()));
            };
            engine.adopt(loads).await?;
            engine.scrub = Scrub::default();
            Ok(engine.all_inserted(changed, &|_| true))
        })
        .await
    }
}

/// The outcome of a part of a relation's comparison.
enum Part {
    More,
    Done,
    Differs(String),
}

type Rows<'a> = &'a dyn Fn(TableId) -> Delta;

impl State {
    /// Whether anything is stored that follows from the rows of a relation, or from the bodies of its rules.
    fn stores(&self, relation: usize) -> bool {
        let is_derived = self.is_derived(RelationId(relation as u32));
        !self.indexed[relation].is_empty()
            || (is_derived && self.relations[relation].keeps_rows())
            || self.rules_of(relation).any(|rule| self.rules[rule].groups.is_some())
    }

    fn rules_of(&self, relation: usize) -> impl Iterator<Item = usize> {
        let rules = self.rules.iter().enumerate();
        rules.filter(move |(_, rule)| rule.head.0 as usize == relation).map(|(at, _)| at)
    }

    /// What a reader calls a relation.
    fn name_of(&self, relation: usize) -> String {
        match self.plan.relations[relation].table {
            Some(table) => format!("table {}", self.plan.program.schema.table(table).name),
            None => format!("intermediate relation {relation}"),
        }
    }

    fn begin_scrub(&self, relation: usize, basis: Basis) -> Begun {
        Begun {
            basis,
            rules: self.rules_of(relation).collect(),
            current: None,
            rows: Sum::default(),
            indexes: vec![Sum::default(); self.indexed[relation].len()],
            tuples: Sum::default(),
        }
    }

    /// Compares a further part of a relation.
    fn scrub_relation(&self, relation: usize, begun: &mut Begun, inputs: Rows<'_>) -> Result<Part, Refusal> {
        if let Some(mut current) = begun.current.take() {
            self.scrub_rows(&mut current, begun)?;
            if current.at < current.rows.len() {
                begun.current = Some(current);
                return Ok(Part::More);
            }
            return Ok(self.end_of_rule(current.rule, begun));
        }
        if let Some(rule) = begun.rules.pop() {
            begun.tuples = Sum::default();
            let (pipeline, rows) = self.begin_rule(rule, 0, View::Before, inputs)?;
            begun.current = Some(Current { rule, pipeline, rows, at: 0 });
            return Ok(Part::More);
        }
        self.end_of_relation(relation, begun, inputs)
    }

    /// Runs a rule over some of its first rows.
    fn scrub_rows(&self, current: &mut Current, begun: &mut Begun) -> Result<(), Refusal> {
        let Current { rule, pipeline, rows, at } = current;
        let (rule, next) = (*rule, (*at + ROWS).min(rows.len()));
        let mut part = Delta::new(rows.width());
        (*at..next).for_each(|at| part.push(rows.row(at), rows.diff(at)));
        *at = next;
        let head = self.rules[rule].head.0 as usize;
        let groups = self.rules[rule].groups.as_ref();
        let mut out = Delta::new(groups.map_or(self.relations[head].columns, Groups::width));
        self.run_over(rule, pipeline, &part, &mut out)?;
        if groups.is_some() {
            out.rows().for_each(|(tuple, count)| begun.tuples.add_words(tuple.iter().copied(), count));
        } else {
            self.add_derived(head, self.rules[rule].number, &out, begun);
        }
        Ok(())
    }

    /// Compares the groups of a rule with its tuples, and derives its rows from them.
    fn end_of_rule(&self, rule: usize, begun: &mut Begun) -> Part {
        let Some(groups) = &self.rules[rule].groups else { return Part::More };
        let stored = Sum::of_trace(&groups.trace);
        if stored != begun.tuples {
            let (derived, stored) = (begun.tuples.rows, stored.rows);
            return Part::Differs(format!(
                "its rules find {derived} tuples for groups, and {stored} are stored, or others"
            ));
        }
        let head = self.rules[rule].head.0 as usize;
        let mut rows = Delta::new(self.relations[head].columns);
        groups.rows(View::Before, &self.symbols, &mut rows);
        self.add_derived(head, self.rules[rule].number, &rows, begun);
        Part::More
    }

    /// Adds derived rows of a relation to the sums.
    fn add_derived(&self, relation: usize, number: Symbol, rows: &Delta, begun: &mut Begun) {
        let of = &self.relations[relation];
        let places = of.split.places();
        let hashes = self.symbols.hashes();
        for (row, count) in rows.rows() {
            match &of.counts {
                Counts::Counted(_) => {
                    let word = |place: &usize| row.get(*place).copied().unwrap_or(number);
                    begun.rows.add_words(places.iter().map(word), count);
                    continue;
                }
                Counts::Watched(_) => {
                    let key = of.split.key.iter().map(|column| row[*column]);
                    begun.rows.add(spread(hash_of(key, &hashes)), count);
                }
                Counts::None => {}
            }
            self.add_to_indexes(relation, row, count, &mut begun.indexes);
        }
    }

    fn add_to_indexes(&self, relation: usize, row: &[Symbol], count: Diff, sums: &mut [Sum]) {
        for (index, sum) in self.indexed[relation].iter().zip(sums) {
            let index = &self.indexes[*index];
            if index.fit.fits(row) {
                sum.add_words(index.places().iter().map(|column| row[*column]), count);
            }
        }
    }

    /// Compares what a relation and its indexes have stored with the sums.
    fn end_of_relation(&self, relation: usize, begun: &mut Begun, inputs: Rows<'_>) -> Result<Part, Refusal> {
        let of = &self.relations[relation];
        let id = RelationId(relation as u32);
        let stored = match &of.counts {
            _ if !self.is_derived(id) => Sum::default(),
            Counts::None => Sum::default(),
            Counts::Watched(watch) => {
                let mut sum = Sum::default();
                watch.for_each(|hash| sum.add(spread(hash), 1));
                sum
            }
            Counts::Counted(trace) => Sum::of_trace(trace),
        };
        if stored != begun.rows {
            let (derived, stored) = (begun.rows.rows, stored.rows);
            return Ok(Part::Differs(format!(
                "its rules derive {derived} rows, each counted once for each derivation, and {stored} are stored, or others"
            )));
        }
        if self.indexed[relation].is_empty() {
            return Ok(Part::Done);
        }
        if !self.is_derived(id) || matches!(of.counts, Counts::Counted(_)) {
            // Readers see a row once, however many derivations it has.
            let rows = self.rows(id, View::Before, inputs)?;
            for (row, _) in rows.rows() {
                self.add_to_indexes(relation, row, 1, &mut begun.indexes);
            }
        }
        for (at, derived) in self.indexed[relation].iter().zip(&begun.indexes) {
            let stored = Sum::of_trace(&self.indexes[*at].trace);
            if stored != *derived {
                return Ok(Part::Differs(format!(
                    "it has {} rows for index {at}, which has {}, or others",
                    derived.rows, stored.rows
                )));
            }
        }
        Ok(Part::Done)
    }
}

/// A hash that differs in all bits from others, where few of them carry information.
fn spread(hash: u64) -> u64 {
    foldhash::quality::FixedState::default().hash_one(hash)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nlog_data::{Evaluator as _, Row, Tables, Transaction, Value};

    use super::*;
    use crate::Dataflow;
    use crate::dataflow::Options;

    /// Relations of every kind: counted, watched, kept in indexes alone, with groups, and with the rule of each row.
    const TEXT: &str = "
        input table a(x: int, y: int); input table b(x: int, y: int);
        table counted(x: int); output table watched(x: int, y: int) key(x); table kept(x: int, y: int);
        output table grouped(x: int, n: int); output table ruled(x: int); output table joined(x: int, y: int, z: int);
        counted(x) :- a(x, y), b(y, _);
        watched(x, y) :- a(x, y);
        kept(x, y + 1) :- b(x, y);
        grouped(x, count(y)) :- a(x, y), counted(x);
        ruled(x) :- counted(x); ruled(x) :- b(x, _);
        joined(x, y, z) :- kept(x, y), kept(y, z), counted(z);";

    fn row(x: i64, y: i64) -> Row {
        vec![Value::Int(x), Value::Int(y)]
    }

    fn engine() -> Dataflow {
        let sources = nlog::Sources::from_texts([("test.nlog", TEXT)]);
        let program = nlog::compile(&sources).program.expect("it compiles");
        let find = |name| program.schema.find(name).expect("the test declares it");
        let (a, b) = (find("a"), find("b"));
        let options = Options { observe: Tables::All, attribute: true, ..Options::default() };
        let mut engine = Dataflow::new(program, options).expect("it starts");
        let mut transaction = Transaction::default();
        transaction.insert.insert(a, (0..20).map(|x| row(x, x / 2)).collect());
        transaction.insert.insert(b, (0..20).flat_map(|x| [row(x, x), row(x, x + 1)]).collect());
        engine.commit(&transaction).expect("nothing is refused");
        let mut transaction = Transaction::default();
        transaction.delete.insert(a, vec![row(3, 1), row(7, 3)]);
        transaction.insert.insert(a, vec![row(3, 2)]);
        engine.commit(&transaction).expect("nothing is refused");
        engine
    }

    /// Scrubs to the end, and returns what is found first.
    fn scrub(engine: &mut Dataflow) -> Option<String> {
        loop {
            match engine.scrub().expect("it compares") {
                Scrubbed::More => {}
                Scrubbed::Whole => return None,
                Scrubbed::Differs(what) => return Some(what),
            }
        }
    }

    fn contents(engine: &mut Dataflow) -> BTreeMap<TableId, Vec<Row>> {
        let tables: Vec<TableId> = engine.program().schema.iter().map(|(id, _)| id).collect();
        tables.into_iter().map(|id| (id, engine.contents(id).expect("all are observed"))).collect()
    }

    /// Damages an engine, and returns the kind of store that it damaged; 9 if there is none of the kind.
    type Damage<'a> = Box<dyn Fn(&mut Dataflow) -> usize + 'a>;

    /// A row of zeros more, or one less, in a trace.
    fn damage(trace: &mut Trace, width: usize, count: Diff) {
        let mut delta = Delta::new(width);
        delta.push(&vec![0; width], count);
        let places: Vec<usize> = (0..width).collect();
        super::super::sorted::sort(&delta, &super::super::index::Fit::default(), &places, &mut *trace)
            .expect("a small number");
        trace.publish_if_touched();
    }

    #[test]
    fn d24_what_is_stored_follows_from_the_inputs() {
        let mut engine = engine();
        assert_eq!(scrub(&mut engine), None);
        engine.idle().expect("it merges");
        assert_eq!(scrub(&mut engine), None);
    }

    #[test]
    fn d24_a_scrub_finds_any_damage_and_a_new_derivation_mends_it() {
        let fresh = contents(&mut engine());
        let (relations, indexes, rules) = (
            engine().core.state.relations.len(),
            engine().core.state.indexes.len(),
            engine().core.state.rules.len(),
        );
        let of = |at: usize| RelationId(at as u32);
        let is_derived: Vec<bool> = (0..relations).map(|at| engine().core.state.is_derived(of(at))).collect();
        let widths: Vec<usize> =
            engine().core.state.relations.iter().map(|of| of.split.places().len()).collect();
        let (is_derived, widths) = (&is_derived, &widths);
        let mut damaged = [0; 4];
        for count in [1, -1] {
            let mut places: Vec<Damage<'_>> = Vec::new();
            for at in 0..relations {
                places.push(Box::new(move |engine| match &mut engine.core.state.relations[at].counts {
                    Counts::Counted(trace) if is_derived[at] => {
                        damage(trace, widths[at], count);
                        0
                    }
                    Counts::Watched(watch) => {
                        let first = watch.hashes()[0];
                        if count > 0 {
                            watch.insert(first ^ 1);
                        } else {
                            watch.remove(first);
                        }
                        watch.publish();
                        1
                    }
                    _ => 9,
                }));
            }
            for at in 0..indexes {
                places.push(Box::new(move |engine| {
                    let width = engine.core.state.indexes[at].places().len();
                    damage(&mut engine.core.state.indexes[at].trace, width, count);
                    2
                }));
            }
            for at in 0..rules {
                places.push(Box::new(move |engine| match &mut engine.core.state.rules[at].groups {
                    Some(groups) => {
                        let width = groups.width();
                        damage(&mut groups.trace, width, count);
                        3
                    }
                    None => 9,
                }));
            }
            for place in places {
                let mut engine = engine();
                let kind = place(&mut engine);
                if kind == 9 {
                    continue;
                }
                damaged[kind] += 1;
                assert!(scrub(&mut engine).is_some(), "kind {kind}");
                let derived = engine.derive_anew().expect("it derives");
                assert_eq!(scrub(&mut engine), None);
                assert_eq!(contents(&mut engine), fresh);
                for (table, mut rows) in fresh.clone() {
                    let mut found: Vec<Row> = derived
                        .delta
                        .tables
                        .get(&table)
                        .map(|delta| delta.insert.clone())
                        .unwrap_or_default();
                    found.sort();
                    rows.sort();
                    assert_eq!(found, rows);
                }
            }
        }
        assert!(damaged.iter().all(|count| *count > 0), "{damaged:?}");
    }

    #[test]
    fn d24_a_transaction_between_two_parts_is_no_difference() {
        let mut engine = engine();
        let a = engine.program().schema.find("a").expect("the test declares it");
        let (mut parts, mut at) = (0, 100);
        loop {
            match engine.scrub().expect("it compares") {
                Scrubbed::Whole => break,
                Scrubbed::More => parts += 1,
                Scrubbed::Differs(what) => panic!("{what}"),
            }
            if parts % 7 == 0 && at < 120 {
                at += 1;
                let mut transaction = Transaction::default();
                transaction.insert.insert(a, vec![row(at, 3)]);
                engine.commit(&transaction).expect("nothing is refused");
            }
        }
        assert!(at > 110, "{parts} parts");
    }
}

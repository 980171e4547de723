//! Runs one test, in a separate engine.
//!
//! A test runs in the dataflow engine, which users run, and in the reference evaluator, which explains why a row is present
//! or missing. If the two disagree, the test fails: every unit test of a rule also tests the engine. The tables of a test
//! are small, so most of its time goes into planning the program for the dataflow. Who only asks whether a test notices a
//! change of a rule, hundreds of times, leaves the dataflow out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nlog::Program;
use nlog::program::{ExpectedRow, ObjectsFile, Pattern, Place, Test, TestStep, TestStepKind};
use nlog_data::{
    CommitError, Delta, ErrorCode, Evaluator, Row, TableDelta, TableId, Tables, Transaction, TransactionError,
};
use nlog_dataflow::{Dataflow, Options, StartError};
use nlog_explain::{OnDemand, explanation, nearest};
use nlog_reference::{Hooked, Reference};
use objects::{Kinds, ObjectError, ObjectStore};

use crate::comparison::{Comparison, SHOWN};
use crate::switches::Switches;

/// How many rows of a failed expectation are explained.
const EXPLAINED: usize = 3;

/// The result of a test.
#[derive(Debug)]
pub struct Outcome {
    /// The test's name.
    pub name: Arc<str>,
    /// The test's place in its file.
    pub place: Place,
    /// The time that the test took.
    pub elapsed: Duration,
    /// The expectations that failed; none if the test passed.
    pub failures: Vec<Failure>,
}

/// One expectation that failed.
#[derive(Debug)]
pub struct Failure {
    /// The place of the expectation, or of the transaction that was refused.
    pub place: Place,
    /// The failure, in one line.
    pub message: String,
    /// Expected rows beside the rows found.
    pub comparison: Option<Box<Comparison>>,
    /// The reasons why rows are present or missing: questions, each with the lines of its answer.
    pub reasons: Vec<(String, Vec<String>)>,
}

impl Failure {
    pub(crate) fn new(place: &Place, message: impl Into<String>) -> Self {
        Failure { place: place.clone(), message: message.into(), comparison: None, reasons: Vec::new() }
    }

    /// The failure of a step that gives objects with faults.
    fn of_objects(place: &Place, faults: &[ObjectError]) -> Self {
        match faults {
            [fault] => Failure::new(place, format!("the objects are refused: {fault}")),
            faults => {
                let message = format!("the objects are refused for {} reasons", faults.len());
                let lines = faults.iter().map(ToString::to_string).collect();
                Failure { reasons: vec![("the reasons".to_owned(), lines)], ..Failure::new(place, message) }
            }
        }
    }
}

/// Runs a test to its end, or until a transaction is refused that should be accepted.
pub fn run(program: &Arc<Program>, test: &Test) -> Outcome {
    let start = Instant::now();
    let failures = failures(program, test, Evaluators::Both, usize::MAX);
    Outcome { name: test.name.clone(), place: test.place.clone(), elapsed: start.elapsed(), failures }
}

/// The evaluators that a test runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluators {
    /// The dataflow and the reference, which must agree.
    Both,
    /// The reference alone, which needs no plan.
    Reference,
}

/// Whether a test passes. It stops at the first expectation that fails.
pub fn passes(program: &Arc<Program>, test: &Test, evaluators: Evaluators) -> bool {
    failures(program, test, evaluators, 1).is_empty()
}

/// The failures of a test, up to this many expectations.
fn failures(program: &Arc<Program>, test: &Test, evaluators: Evaluators, most: usize) -> Vec<Failure> {
    let mut failures = Vec::new();
    let program = &for_test(program, test);
    let mut stage = match Switches::of_test(program, test)
        .and_then(|switches| Stage::new(program, switches, evaluators, &test.place))
    {
        Ok(stage) => stage,
        Err(failure) => return vec![failure],
    };
    for (at, step) in test.steps.iter().enumerate() {
        if let Err(failure) = stage.step(step, &test.steps[at + 1..], &mut failures) {
            failures.push(failure);
            break;
        }
        if failures.len() >= most {
            break;
        }
    }
    failures
}

/// The program of a test, without the hooks that fill tables whose rows the test gives itself.
fn for_test(program: &Arc<Program>, test: &Test) -> Arc<Program> {
    let given = |table: TableId| {
        test.steps.iter().any(|step| match &step.kind {
            TestStepKind::Transaction(Transaction { insert, delete }) => {
                insert.contains_key(&table) || delete.contains_key(&table)
            }
            _ => false,
        })
    };
    if !program.hooks.iter().any(|wiring| given(wiring.to)) {
        return Arc::clone(program);
    }
    let mut stubbed = Program::clone(program);
    stubbed.hooks.retain(|wiring| !given(wiring.to));
    Arc::new(stubbed)
}

/// The evaluators, the result of the last transaction, and the switches if the test has any.
pub(crate) struct Stage<'a> {
    pub(crate) program: &'a Arc<Program>,
    dataflow: Option<Dataflow>,
    reference: Hooked<Reference>,
    last: Result<Delta, TransactionError>,
    pub(crate) switches: Option<Switches>,
}

/// The maximum rounds of reports after a transaction: rules want a port, a switch reports it, rules react. More rounds mean
/// a loop.
const ROUNDS: usize = 6;

impl<'a> Stage<'a> {
    /// Starts with the program's facts.
    fn new(
        program: &'a Arc<Program>,
        switches: Option<Switches>,
        evaluators: Evaluators,
        place: &Place,
    ) -> Result<Self, Failure> {
        let failed = |error: StartError| Failure::new(place, format!("the engine does not start: {error}"));
        let dataflow = match evaluators {
            Evaluators::Both => {
                let options = Options { observe: Tables::All, ..Options::default() };
                Some(Dataflow::new(program.clone(), options).map_err(failed)?)
            }
            Evaluators::Reference => None,
        };
        let reference = Hooked::reference(program, Tables::All, false);
        let mut stage = Stage { program, dataflow, reference, last: Ok(Delta::default()), switches };
        stage.commit(&Transaction::default(), place)?;
        match &stage.last {
            Ok(_) => Ok(stage),
            Err(error) => {
                Err(Failure::new(place, format!("the program's facts are refused: {}", stage.refusal(error))))
            }
        }
    }

    /// Commits a transaction. The switches, if there are any, follow it; what they report is committed too.
    pub(crate) fn commit(&mut self, transaction: &Transaction, place: &Place) -> Result<(), Failure> {
        self.last = self.evaluate(transaction, place)?;
        let Ok(delta) = self.last.clone() else { return Ok(()) };
        let Some(mut switches) = self.switches.take() else { return Ok(()) };
        let followed = self.follow(&mut switches, delta, place);
        self.switches = Some(switches);
        followed
    }

    /// Lets the switches follow a change, and the rules their reports, until nothing changes.
    fn follow(&mut self, switches: &mut Switches, mut delta: Delta, place: &Place) -> Result<(), Failure> {
        for _ in 0..ROUNDS {
            let Some(reports) = switches.follow(self, &delta, place)? else { return Ok(()) };
            delta = self.evaluate(&reports, place)?.map_err(|error| {
                Failure::new(
                    place,
                    format!("the reports of the switches are refused: {}", self.refusal(&error)),
                )
            })?;
        }
        let message =
            format!("after {ROUNDS} rounds of reports the rules still want other ports of the switches");
        Err(Failure::new(place, message))
    }

    /// The result of a transaction in the evaluators.
    fn evaluate(
        &mut self,
        transaction: &Transaction,
        place: &Place,
    ) -> Result<Result<Delta, TransactionError>, Failure> {
        let reference = self.reference.commit(transaction);
        if let Some(dataflow) = &mut self.dataflow
            && let dataflow = dataflow.commit(transaction)
            && dataflow != reference
        {
            let message = "the engine and the reference evaluator disagree about this transaction: a bug of Weft, \
                           not of the rules";
            let mut failure = Failure::new(place, message);
            failure.reasons.push(("the engine".to_owned(), vec![format!("{dataflow:?}")]));
            failure.reasons.push(("the reference".to_owned(), vec![format!("{reference:?}")]));
            return Err(failure);
        }
        match reference {
            Ok(committed) => Ok(Ok(committed.delta)),
            Err(CommitError::Refused(error)) => Ok(Err(error)),
            Err(error @ (CommitError::Stopped(_) | CommitError::Engine(_))) => {
                Err(Failure::new(place, error.to_string()))
            }
        }
    }

    /// Takes one step. An error ends the test, because later steps would only repeat it.
    fn step(
        &mut self,
        step: &TestStep,
        rest: &[TestStep],
        failures: &mut Vec<Failure>,
    ) -> Result<(), Failure> {
        let place = &step.place;
        match &step.kind {
            TestStepKind::Transaction(transaction) => {
                self.commit(transaction, place)?;
                self.accepted_or_expected(rest, place)?;
            }
            TestStepKind::Objects(file) => self.objects(file, rest, place)?,
            TestStepKind::Holds(pattern) => failures.extend(self.holds(pattern, place)?),
            TestStepKind::Lacks(pattern) => failures.extend(self.lacks(pattern, place)?),
            TestStepKind::Exactly(rows) => self.exactly(rows, place, failures)?,
            TestStepKind::Delta { insert, delete } => self.delta(insert, delete, place, failures),
            TestStepKind::Error(code) => failures.extend(self.error(*code, place)),
            TestStepKind::Port { port, host } => {
                let appears = Switches::port_appears(self, port, host, place)?;
                self.commit(&appears, place)?;
                self.accepted_or_expected(rest, place)?;
            }
            TestStepKind::Packet(packet) => failures.extend(self.packet(packet, place)?),
        }
        Ok(())
    }

    /// Applies a file to the objects that are there.
    fn objects(&mut self, file: &ObjectsFile, rest: &[TestStep], place: &Place) -> Result<(), Failure> {
        let kinds = Kinds::new(self.program.objects.clone());
        // The store is made of the rows, so that rows given by hand are objects too.
        let store = ObjectStore::of_rows(&kinds, &self.program.schema, |table| self.contents(table, place))?;
        let changes = store
            .plan_document(&file.name, &file.text)
            .map_err(|faults| Failure::of_objects(place, &faults))?;
        self.commit(&changes.rows().transaction(&self.program.schema), place)?;
        let faults = self.last.as_ref().err().and_then(|error| changes.refused_by(error));
        self.accepted_or_expected(rest, place)
            .map_err(|failure| faults.map_or(failure, |faults| Failure::of_objects(place, &faults)))
    }

    /// Fails if the last transaction was refused and no expectation before the next one is of an error.
    fn accepted_or_expected(&self, rest: &[TestStep], place: &Place) -> Result<(), Failure> {
        let Err(error) = &self.last else { return Ok(()) };
        let mut before_the_next = rest.iter().take_while(|step| !step.kind.is_transaction());
        if before_the_next.any(|step| matches!(step.kind, TestStepKind::Error(_))) {
            return Ok(());
        }
        Err(Failure::new(place, format!("the transaction is refused: {}", self.refusal(error))))
    }

    /// The error, with the rule that causes it.
    fn refusal(&self, error: &TransactionError) -> String {
        let rule = error.rule.map(|rule| format!(" (the rule at {})", self.program.rule(rule).place));
        format!("{error}{}", rule.unwrap_or_default())
    }

    pub(crate) fn contents(&mut self, table: TableId, place: &Place) -> Result<Vec<Row>, Failure> {
        let contents = match &mut self.dataflow {
            Some(dataflow) => dataflow.contents(table),
            None => self.reference.contents(table),
        };
        contents.map_err(|error| Failure::new(place, error.to_string()))
    }

    fn holds(&mut self, pattern: &Pattern, place: &Place) -> Result<Option<Failure>, Failure> {
        let rows = self.contents(pattern.table, place)?;
        if rows.iter().any(|row| pattern.admits(row)) {
            return Ok(None);
        }
        let table = self.program.schema.table(pattern.table);
        let like = nearest(rows.iter(), pattern, table.key.as_deref());
        let empty = if rows.is_empty() { ", which is empty" } else { "" };
        let mut failure = Failure::new(place, format!("no such row in {}{empty}", table.name));
        let mut comparison = Comparison::of(table);
        comparison.pattern(pattern, "there is", &like);
        failure.comparison = Some(comparison.into());
        failure.reasons.push(self.why_not(pattern));
        Ok(Some(failure))
    }

    fn lacks(&mut self, pattern: &Pattern, place: &Place) -> Result<Option<Failure>, Failure> {
        let rows = self.contents(pattern.table, place)?;
        let surplus: Vec<&Row> = rows.iter().filter(|row| pattern.admits(row)).collect();
        if surplus.is_empty() {
            return Ok(None);
        }
        let table = self.program.schema.table(pattern.table);
        let message = match surplus.len() {
            1 => format!("such a row is in {}", table.name),
            count => format!("{count} such rows are in {}", table.name),
        };
        let mut failure = Failure::new(place, message);
        let mut comparison = Comparison::of(table);
        surplus.iter().take(SHOWN).for_each(|row| comparison.row("there is", row));
        failure.comparison = Some(comparison.into());
        for row in surplus.into_iter().take(EXPLAINED) {
            failure.reasons.push(self.why(pattern.table, row));
        }
        Ok(Some(failure))
    }

    fn exactly(
        &mut self,
        expected: &[ExpectedRow],
        place: &Place,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Failure> {
        for (id, expected) in by_table(expected) {
            let rows: BTreeSet<Row> = self.contents(id, place)?.into_iter().collect();
            let missing: Vec<Row> =
                expected.keys().filter(|row| !rows.contains(**row)).map(|row| (*row).clone()).collect();
            let surplus: Vec<Row> = rows.iter().filter(|row| !expected.contains_key(row)).cloned().collect();
            if missing.is_empty() && surplus.is_empty() {
                continue;
            }
            let table = self.program.schema.table(id);
            let message = format!(
                "{} does not hold exactly these rows: {}",
                table.name,
                counts(missing.len(), surplus.len())
            );
            // The place of a missing row tells more than that of the list.
            let place = missing.first().and_then(|row| expected.get(row)).copied().unwrap_or(place);
            let mut failure = Failure::new(place, message);
            let mut comparison = Comparison::of(table);
            comparison.rows(["expected", "there is"], &missing, &surplus, table);
            failure.comparison = Some(comparison.into());
            for row in missing.iter().take(EXPLAINED) {
                failure.reasons.push(self.why_not(&Pattern::of_row(id, row)));
            }
            for row in surplus.iter().take(EXPLAINED) {
                failure.reasons.push(self.why(id, row));
            }
            failures.push(failure);
        }
        Ok(())
    }

    fn delta(
        &self,
        insert: &[ExpectedRow],
        delete: &[ExpectedRow],
        place: &Place,
        failures: &mut Vec<Failure>,
    ) {
        let delta = match &self.last {
            Ok(delta) => delta,
            Err(error) => {
                let message =
                    format!("the transaction changed nothing, for it was refused: {}", self.refusal(error));
                return failures.push(Failure::new(place, message));
            }
        };
        let (insert, delete) = (by_table(insert), by_table(delete));
        let tables: BTreeSet<TableId> = insert.keys().chain(delete.keys()).copied().collect();
        let (none, unchanged) = (BTreeMap::new(), TableDelta::default());
        for id in tables {
            let table = self.program.schema.table(id);
            let changes = delta.tables.get(&id).unwrap_or(&unchanged);
            let (wanted_in, wanted_out) =
                (insert.get(&id).unwrap_or(&none), delete.get(&id).unwrap_or(&none));
            let [missing_in, surplus_in] = differences(wanted_in, &changes.insert);
            let [missing_out, surplus_out] = differences(wanted_out, &changes.delete);
            let missing = missing_in.len() + missing_out.len();
            let surplus = surplus_in.len() + surplus_out.len();
            if missing + surplus == 0 {
                continue;
            }
            let message = format!("{} did not change exactly so: {}", table.name, counts(missing, surplus));
            let row_place = missing_in.first().and_then(|row| wanted_in.get(row));
            let row_place = row_place.or(missing_out.first().and_then(|row| wanted_out.get(row)));
            let mut failure = Failure::new(row_place.copied().unwrap_or(place), message);
            let mut comparison = Comparison::of(table);
            comparison.rows(["expected insert", "inserted"], &missing_in, &surplus_in, table);
            comparison.rows(["expected delete", "deleted"], &missing_out, &surplus_out, table);
            failure.comparison = Some(comparison.into());
            for row in missing_in.iter().take(EXPLAINED) {
                failure.reasons.push(self.why_no_insert(id, row));
            }
            for row in surplus_in.iter().take(EXPLAINED) {
                failure.reasons.push(self.why(id, row));
            }
            for row in missing_out.iter().take(EXPLAINED) {
                failure.reasons.push(self.why_no_delete(id, row));
            }
            for row in surplus_out.iter().take(EXPLAINED) {
                failure.reasons.push(self.why_not(&Pattern::of_row(id, row)));
            }
            failures.push(failure);
        }
    }

    fn error(&self, code: ErrorCode, place: &Place) -> Option<Failure> {
        match &self.last {
            Err(error) if error.code == code => None,
            Err(error) => Some(Failure::new(
                place,
                format!("the transaction is refused for another reason: {}", self.refusal(error)),
            )),
            Ok(_) => Some(Failure::new(
                place,
                format!("the transaction is accepted, and not refused with {}", code.name()),
            )),
        }
    }

    /// The state, which explains its rows.
    pub(crate) fn state(&self) -> OnDemand {
        self.reference.evaluator().on_demand()
    }

    fn is_there(&self, table: TableId, row: &Row) -> bool {
        self.reference.evaluator().holds(table, row)
    }

    fn why(&self, table: TableId, row: &Row) -> (String, Vec<String>) {
        let question = format!("why {}", explanation::atom(self.program, table, row));
        (question, explanation::why(&self.state(), table, row))
    }

    fn why_not(&self, pattern: &Pattern) -> (String, Vec<String>) {
        let question = format!("why no {}", explanation::pattern(self.program, pattern));
        (question, explanation::why_not(self.program, &self.state().why_not(pattern)))
    }

    fn why_no_insert(&self, table: TableId, row: &Row) -> (String, Vec<String>) {
        if self.is_there(table, row) {
            let question = format!("why no insert of {}", explanation::atom(self.program, table, row));
            return (question, vec!["it was there before the transaction".to_owned()]);
        }
        self.why_not(&Pattern::of_row(table, row))
    }

    fn why_no_delete(&self, table: TableId, row: &Row) -> (String, Vec<String>) {
        if !self.is_there(table, row) {
            let question = format!("why no delete of {}", explanation::atom(self.program, table, row));
            return (question, vec!["it was not there before the transaction".to_owned()]);
        }
        self.why(table, row)
    }
}

/// Expected rows, with their places.
type Expected<'a> = BTreeMap<&'a Row, &'a Place>;

fn by_table(rows: &[ExpectedRow]) -> BTreeMap<TableId, Expected<'_>> {
    let mut tables: BTreeMap<TableId, Expected<'_>> = BTreeMap::new();
    for expected in rows {
        tables.entry(expected.table).or_default().insert(&expected.row, &expected.place);
    }
    tables
}

/// Rows expected that are not found, and rows found that are not expected.
fn differences(expected: &Expected<'_>, found: &[Row]) -> [Vec<Row>; 2] {
    let missing = expected.keys().filter(|row| !found.contains(row)).map(|row| (*row).clone());
    let surplus = found.iter().filter(|row| !expected.contains_key(row)).cloned();
    [missing.collect(), surplus.collect()]
}

fn counts(missing: usize, surplus: usize) -> String {
    match (missing, surplus) {
        (missing, 0) => format!("{missing} missing"),
        (0, surplus) => format!("{surplus} too many"),
        (missing, surplus) => format!("{missing} missing, {surplus} too many"),
    }
}

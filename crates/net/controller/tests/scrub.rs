//! D24: the running state is compared with its inputs, and mended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nlog_data::{
    CommitError, Committed, Evaluator, Memories, Row, Schema, Scrubbed, TableId, Transaction,
    TransactionError,
};
use weft_core::Rules;
use weft_core::core::{Core, History, Mended, ProblemChanges, Scrub};

use crate::core::state;
use crate::support::*;

/// The engine, except that it can lose a flow of a transaction, as a fault of its own would.
struct Losing {
    engine: Box<dyn Evaluator>,
    /// Whether the next transaction loses a flow.
    loses: Arc<AtomicBool>,
    has_lost: bool,
}

impl Evaluator for Losing {
    fn schema(&self) -> &Schema {
        self.engine.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.engine.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let mut committed = self.engine.commit(transaction)?;
        if self.loses.swap(false, Ordering::Relaxed) {
            let flows = self.schema().find("of_flow").expect("the rules declare it");
            let rows = committed.delta.tables.get_mut(&flows).expect("the transaction makes flows");
            rows.insert.pop().expect("the transaction makes flows");
            rows.rules.pop();
            self.has_lost = true;
        }
        Ok(committed)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.engine.contents(table)
    }

    fn memories(&self) -> Memories {
        self.engine.memories()
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        self.engine.restore(memories)
    }

    fn checkpoint(&mut self) {
        self.engine.checkpoint();
    }

    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.engine.undo(transaction)
    }

    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        if std::mem::take(&mut self.has_lost) {
            return Ok(Scrubbed::Differs("table of_flow".to_owned()));
        }
        self.engine.scrub()
    }

    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        self.engine.derive_anew()
    }
}

/// A core whose engine can lose a flow, and the order to lose one.
fn core_that_can_lose(rules: &Arc<Rules>) -> (Core, Arc<AtomicBool>) {
    let loses = Arc::new(AtomicBool::new(false));
    let engine = controller::evaluator(rules, 1).expect("it starts");
    let losing = Losing { engine, loses: loses.clone(), has_lost: false };
    let restored = Core::restore(Box::new(losing), rules.clone(), History::new(rules), now());
    (restored.unwrap_or_else(|error| panic!("{error}")).0, loses)
}

/// Scrubs to the end. Returns what was mended.
fn scrub(core: &mut Core) -> Vec<Mended> {
    let mut mended = Vec::new();
    loop {
        match core.scrub().unwrap_or_else(|error| panic!("{error}")) {
            Scrub::Whole => return mended,
            Scrub::More => {}
            Scrub::Mended(one) => mended.push(one),
        }
    }
}

#[test]
fn d24_a_flow_that_the_running_state_lost_comes_back() {
    let rules = rules(RULES);
    let (mut right, _) = core_that_can_lose(&rules);
    let (mut wrong, loses) = core_that_can_lose(&rules);
    for core in [&mut right, &mut wrong] {
        apply(core, NETWORK);
        core.journalled();
    }
    assert_eq!(state(&right), state(&wrong));
    loses.store(true, Ordering::Relaxed);
    for core in [&mut right, &mut wrong] {
        core.report("hv1", &report(&[("blue-1", 5)], &[]), now()).unwrap().unwrap();
        core.journalled();
    }
    assert_ne!(state(&right), state(&wrong), "a flow is lost");

    let (what, nodes) = ("table of_flow".to_owned(), BTreeSet::from(["hv1".to_owned()]));
    let mended = Mended { what, nodes, problems: ProblemChanges::default() };
    assert_eq!(scrub(&mut wrong), [mended]);
    assert_eq!(state(&right), state(&wrong));
    assert_eq!(scrub(&mut wrong), []);
    assert_eq!(scrub(&mut right), []);

    // Both go on alike.
    for core in [&mut right, &mut wrong] {
        core.report("hv1", &report(&[("blue-2", 6)], &[]), now()).unwrap().unwrap();
    }
    assert_eq!(state(&right), state(&wrong));
}

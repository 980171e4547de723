//! Weft's engine as an operator of a timely dataflow, driven like an engine: one transaction at a time.
//!
//! A transaction is timed from rows in memory to rows in memory, with everything timely and differential do for it: the
//! input sessions, the operator, the progress of time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use differential_dataflow::input::{Input, InputSession};
use nlog::Program;
use nlog_data::{Committed, Delta, Evaluator, Row, TableId, Transaction};
use nlog_dataflow::operator::Operator;
use timely::WorkerConfig;
use timely::communication::Allocator;
use timely::communication::allocator::thread::Thread;
use timely::dataflow::ProbeHandle;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Probe;
use timely::dataflow::operators::generic::Operator as _;
use timely::worker::Worker;

/// An engine, outside or inside timely.
pub(crate) enum Running {
    Outside(Box<dyn Evaluator>),
    Inside(Box<Inside>),
}

impl Running {
    /// Lets the engine do its maintenance. An operator is never told that nothing waits.
    pub(crate) fn idle(&mut self) -> Result<()> {
        match self {
            Running::Outside(engine) => Ok(engine.idle()?),
            Running::Inside(_) => Ok(()),
        }
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<Delta> {
        Ok(match self {
            Running::Outside(engine) => engine.commit(transaction).map(|Committed { delta, .. }| delta)?,
            Running::Inside(inside) => inside.commit(transaction)?,
        })
    }
}

/// A dataflow of one operator, and its worker.
pub(crate) struct Inside {
    worker: Worker,
    rows: InputSession<u64, (TableId, Row), isize>,
    probe: ProbeHandle<u64>,
    changes: Rc<RefCell<Delta>>,
    refused: Rc<RefCell<Option<String>>>,
    time: u64,
}

impl Inside {
    /// Builds the dataflow. It reports changes of output tables.
    pub(crate) fn new(program: Arc<Program>) -> Result<Self> {
        let allocator = Allocator::Thread(Thread::default());
        let mut worker = Worker::new(WorkerConfig::default(), allocator, Some(Instant::now()));
        let operator = Operator::new(program);
        let (changes, refused): (Rc<RefCell<Delta>>, Rc<RefCell<Option<String>>>) = Default::default();
        let probe = ProbeHandle::new();
        let rows = worker.dataflow::<u64, _, _>(|scope| {
            let (session, rows) = scope.new_collection();
            let (rows, errors) = operator.connect_rows(scope, rows);
            let all = Rc::clone(&changes);
            rows.inner.clone().sink(Pipeline, "Collect", move |(input, _)| {
                input.for_each(|_, updates| {
                    let mut changes = all.borrow_mut();
                    for ((table, row), _, diff) in updates.drain(..) {
                        let delta = changes.tables.entry(table).or_default();
                        if diff > 0 { delta.insert.push(row) } else { delta.delete.push(row) }
                    }
                });
            });
            rows.probe_with(&probe);
            let note = Rc::clone(&refused);
            errors.clone().sink(Pipeline, "Refused", move |(input, _)| {
                input.for_each(|_, errors| *note.borrow_mut() = errors.first().map(ToString::to_string));
            });
            errors.probe_with(&probe);
            anyhow::Ok(session)
        })?;
        Ok(Inside { worker, rows, probe, changes, refused, time: 0 })
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<Delta> {
        for (side, diff) in [(&transaction.delete, -1), (&transaction.insert, 1)] {
            for (table, rows) in side {
                for row in rows {
                    self.rows.update((*table, row.clone()), diff);
                }
            }
        }
        self.time += 1;
        self.rows.advance_to(self.time);
        self.rows.flush();
        let time = self.time;
        self.worker.step_while(|| self.probe.less_than(&time));
        if let Some(error) = self.refused.borrow_mut().take() {
            bail!(error);
        }
        Ok(self.changes.take())
    }
}

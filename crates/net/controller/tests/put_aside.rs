//! D25: a report that ends the controller does not end it at each start.

use std::path::Path;
use std::sync::Arc;

use controller::{DaemonError, Parts};
use nlog_data::{
    CommitError, Committed, Evaluator, Memories, Row, Schema, TableId, Transaction, TransactionError,
};

use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply, parts, start_with, status_when};
use crate::support::*;

/// The engine, with a fault: a row of table `vif` ends it if the interface has this number.
struct Fragile(Box<dyn Evaluator>);

const FATAL: i64 = 13;

impl Evaluator for Fragile {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.0.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let vif = self.schema().find("vif").expect("the rules declare it");
        let rows = transaction.insert.iter().filter(|(table, _)| **table == vif).flat_map(|(_, rows)| rows);
        assert!(!rows.into_iter().any(|row| row[2] == FATAL.into()), "a defect of the engine");
        self.0.commit(transaction)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.0.contents(table)
    }

    fn memories(&self) -> Memories {
        self.0.memories()
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        self.0.restore(memories)
    }

    fn checkpoint(&mut self) {
        self.0.checkpoint();
    }

    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.0.undo(transaction)
    }
}

async fn start(folder: &Path) -> Running {
    let (switches, rules) = (Switches::default(), rules(RULES));
    let parts = parts(folder, rules, &switches);
    let evaluator = Arc::new(|rules: &Rules| Ok(Box::new(Fragile(reference(rules))) as Box<dyn Evaluator>));
    start_with(Parts { evaluator, ..parts }, switches).await
}

#[tokio::test(flavor = "multi_thread")]
async fn d25_a_report_that_ended_two_controllers_is_put_aside_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    apply(&mut running.client().await, NETWORK).await.unwrap();
    running.switches.connect("hv1", report(&[("blue-1", 5)], &[])).await;
    status_when(&mut running.client().await, |status| status.switches[0].vifs == 1).await;
    running.stop().await;

    for _ in 0..2 {
        let running = start(folder.path()).await;
        // The others are connected first: that is no excuse for this one.
        running.switches.connect("hv2", report(&[("red-1", 6)], &[])).await;
        status_when(&mut running.client().await, |status| status.switches[1].vifs == 1).await;
        let switches = running.switches.clone();
        let connecting = tokio::spawn(async move {
            switches.connect("hv1", report(&[("blue-1", 5), ("blue-2", FATAL as u16)], &[])).await;
        });
        let end = running.ends().await;
        assert!(matches!(end, Err(DaemonError::Thread(_))), "{end:?}");
        connecting.abort();
    }

    let running = start(folder.path()).await;
    let mut client = running.client().await;
    running.switches.connect("hv1", report(&[("blue-1", 5), ("blue-2", FATAL as u16)], &[])).await;
    let is_aside = |error: &str| error.contains("its reports are put aside");
    let status = status_when(&mut client, |status| is_aside(&status.switches[0].last_error)).await;
    assert_eq!(status.switches[0].vifs, 1, "what it reported before holds");
    running.switches.connect("hv2", report(&[("red-1", 6), ("blue-2", 7)], &[])).await;
    let status = status_when(&mut client, |status| status.switches[1].vifs == 2).await;
    assert!(status.switches[0].connected && !is_aside(&status.switches[1].last_error));
    apply(&mut client, "{kind: switch, id: green}").await.unwrap();
    running.stop().await;
}

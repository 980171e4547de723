//! The output of the rules: its computation, and the parts that the controller keeps.

pub mod drop_causes;
pub(crate) mod listings;
pub(crate) mod probe_plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::{CommitError, Committed, ErrorCode, Evaluator, Row, Transaction, TransactionError};
use switch_model::{
    ByHost, Changes, Desired, Flow, FlowKey, Pool, RowError, Source, check_groups, split_by_host,
};

use crate::object_status::{ChangedStates, ObjectStatus, ProblemChanges};
use crate::port_moves::Moves;
use crate::provenance::Provenance;
use crate::record::RowChanges;
use crate::refusal::{CoreError, Refusal};
use crate::rules::Rules;
use crate::switch_address::{AddressChanges, SwitchAddresses};
use drop_causes::DropCauses;
use listings::Listings;
use probe_plan::ProbePlan;

/// The parts of the rules' output that the controller keeps.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub(crate) provenance: Provenance,
    pub(crate) status: ObjectStatus,
    pub(crate) addresses: SwitchAddresses,
    pub(crate) drop_causes: Arc<DropCauses>,
    pub(crate) listings: Listings,
    pub(crate) probes: ProbePlan,
    /// The encoded values of all switches.
    pub(crate) pool: Pool,
}

/// The output of the rules for a transaction.
pub(crate) struct RulesOutput {
    /// The changes of the switches, by transport node.
    pub(crate) changes: BTreeMap<String, Changes>,
    pub(crate) problems: ProblemChanges,
    pub(crate) states: ChangedStates,
    pub(crate) addresses: AddressChanges,
    pub(crate) moves: Moves,
    /// The changes of tables that hooks with a memory fill.
    pub(crate) filled: Option<RowChanges<Row>>,
}

/// The desired states of switches before a transaction.
pub(crate) trait DesiredStates {
    /// That of the switch of a transport node.
    fn of(&self, node: &str) -> Option<&Desired>;

    /// The cookie of a flow of that switch, if it has the flow.
    fn cookie(&self, node: &str, key: &FlowKey) -> Option<u64> {
        self.of(node)?.flows.get(key).map(Flow::cookie)
    }
}

/// Runs a transaction through the rules. It is either accepted and its output decoded, or has no effect.
pub(crate) fn run(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    desired: &dyn DesiredStates,
    transaction: &Transaction,
) -> Result<RulesOutput, CoreError> {
    let committed = evaluator.commit(transaction).map_err(|error| match error {
        CommitError::Refused(error) => CoreError::Refused(Refusal::Rules(with_rule(error, rules))),
        CommitError::Stopped(stopped) => CoreError::Refused(Refusal::Stopped(stopped)),
        CommitError::Engine(why) => CoreError::Failed(why),
    })?;
    // Every inserted row was new and every deleted row existed.
    decode_output(&committed, rules, derived, desired).map_err(|error| match evaluator.undo(transaction) {
        Ok(_) => CoreError::Refused(Refusal::Rules(error)),
        Err(failed) => CoreError::Failed(format!("cannot undo a transaction: {failed}")),
    })
}

/// An error whose message says which rule failed, for those who have no program at hand.
fn with_rule(mut error: TransactionError, rules: &Rules) -> TransactionError {
    let rule = error.rule.and_then(|rule| rules.program().rules.get(rule.0 as usize));
    if let Some(rule) = rule {
        error.message += &format!(" (the rule at {})", rule.place);
    }
    error
}

/// Decodes the output of the rules. After an error nothing has changed.
pub(crate) fn decode_output(
    committed: &Committed,
    rules: &Rules,
    derived: &mut Derived,
    desired: &dyn DesiredStates,
) -> Result<RulesOutput, TransactionError> {
    let changes = changes_of_switches(committed, rules, &mut derived.pool)?;
    check_groups(&changes, |node| desired.of(node)).map_err(refusal)?;
    derived.provenance.apply(committed, rules);
    let (problems, states) = derived.status.apply(committed, rules);
    let addresses = derived.addresses.apply(committed, rules);
    DropCauses::apply(&mut derived.drop_causes, committed, rules);
    derived.listings.apply(committed, rules);
    derived.probes.apply(committed, rules);
    let moves = Moves::of(committed, rules);
    let filled = RowChanges::of_tables(&committed.delta, &rules.remembered, &rules.program().schema);
    Ok(RulesOutput { changes, problems, states, addresses, moves, filled })
}

/// The changes of switches among those of the rules' tables.
pub(crate) fn changes_of_switches(
    committed: &Committed,
    rules: &Rules,
    pool: &mut Pool,
) -> Result<ByHost, TransactionError> {
    let mut split = |committed: &Committed| -> Result<ByHost, RowError> {
        let fingerprint = |rule| rules.fingerprint(rule);
        let source = Source { delta: &committed.delta, fingerprint: &fingerprint };
        split_by_host(&source, &rules.switch, pool)
    };
    let changes = split(committed).or_else(|_| {
        // The evaluator reports rows in no particular order, but the first error by table and row counts.
        let mut ascending = committed.clone();
        ascending.delta.sort();
        split(&ascending)
    });
    changes.map_err(refusal)
}

/// A value that no switch supports is a `range` error of the transaction, since rules cannot check it.
fn refusal(error: RowError) -> TransactionError {
    match error {
        RowError::Range(why) => TransactionError::new(ErrorCode::Range, why),
        RowError::Misfit(why) => TransactionError::new(ErrorCode::TypeMismatch, why),
    }
}

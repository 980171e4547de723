//! The whole controller as a machine: events in, effects out.
//!
//! It reads no clock, file or socket and starts no thread, so the same events at the same times have the same effects: in the daemon, in
//! tests and in simulations. The order of a step:
//!
//! 1. [`Machine::step`] takes what comes in: requests, news of switches, time that passes. At the end of a group, [`Event::Look`] compares what was
//!    observed, [`Machine::next_task`] says what follows from it, and a step for each [`Task`] computes that. Transactions and answers wait.
//! 2. The caller appends [`Machine::records`] to the journal, and says whether they are on disk. If they are, the orders for drivers
//!    and the answers come out; if not, the group is undone and refused.
//! 3. The caller carries out the orders, says which drivers could not be started, and calls [`Machine::publish`] before it sends answers.
//!
//! So nothing leaves before it is on disk, and observations that were undone are compared again later: they are levels, not messages.

mod observations;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nlog_data::{CommitError, StoredRows};
use objects::{Amendment, Batch, Cancel, ChangeSet, Deletion, ObjectKey};
use switch_model::FlowKey;
use tracing::{debug, error, info, warn};

use crate::answered::{Repeated, RequestKey};
use crate::core::{
    Accepted, AddressChange, AddressChanges, AppliedTransaction, Core, CoreError, EngineTransition, Mended,
    Problem, ProblemChanges, RULE_ROWS, Refusal, RulesTransition, Scrub,
};
use crate::fleet::{DriverOrder, Fleet, SwitchNews};
use crate::harm::CutOff;
use crate::lasting::{LINES_MAX, Lasting};
use crate::levels::{Difference, Moment, Patience};
use crate::now::Now;
use crate::peer::Origin;
use crate::receipt::{Receipt, Receipts};
use crate::record::{NewRecord, ObjectChanges};
use crate::rules::Rules;
use crate::snapshot::Snapshot;
use crate::status::{self, Published, Unpublished};
use crate::switch_delta::{RulesOfNew, State, SwitchDelta};
use crate::terms::Terms;
use crate::text::shown;
use crate::underlay::Measured;
pub use observations::Task;

/// The delay before what was observed is compared again after a failure of the journal.
const JOURNAL_REST: Duration = Duration::from_secs(2);

/// What an operator can change while a controller runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The most rows that a rule may derive from a request: [`RULE_ROWS`](crate::core::RULE_ROWS) unless configured.
    pub rule_rows: u64,
    /// Whether objects can name only tenants that are declared.
    pub declared_tenants: bool,
    /// When a switch counts as lost.
    pub patience: Patience,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { rule_rows: RULE_ROWS, declared_tenants: false, patience: Patience::default() }
    }
}

/// The state of a controller. After a [`Failed`] step it must not be used any more.
pub struct Machine {
    core: Core,
    fleet: Fleet,
    /// What waits for the journal, in order.
    group: Vec<Waiting>,
    /// The differences of switches that the group has taken. Until it is journalled, they may have to be put back.
    taken: Vec<(String, Difference)>,
    /// What is to be compared with the rules.
    to_compare: VecDeque<observations::Comparison>,
    /// After a failure of the journal, the time when what was observed of switches is compared with the rules again.
    retry_at: Option<Moment>,
    unpublished: Unpublished,
    published: Published,
    /// The problems of objects, each logged once it has lasted.
    problems: Lasting<Arc<Problem>>,
}

/// What comes in.
#[derive(Debug)]
pub enum Event {
    /// A client asks for a change of objects. The answer is [`Effect::Answer`].
    Request(Request),
    /// A driver tells something.
    News(SwitchNews),
    /// Compute what follows from an observation ([`Machine::next_task`]).
    Task(Task),
    /// Do not compute it, for this reason, which the status tells.
    PutAside(Task, String),
    /// Compare all that was observed: at the end of each group, and whenever [`Machine::looks_at`] says so.
    Look {
        /// Whether no news of switches waits. While some does, no connection is judged: what waits may say that a host is connected.
        heard_all: bool,
    },
    /// All of [`Machine::records`] are on disk.
    Journalled,
    /// None of them is, for this reason, and the journal is as it was.
    Unwritten(String),
}

/// A change of objects.
#[derive(Debug)]
pub struct Request {
    /// What the answer is known by.
    pub id: RequestId,
    /// The change.
    pub change: Change,
    /// The terms on which it takes effect.
    pub terms: Terms,
    /// The requester.
    pub by: Origin,
    /// When the request was there.
    pub accepted: Instant,
    /// Whether nobody waits for the answer any more.
    pub gone: Cancel,
}

/// The name of a request, which the caller gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What a request asks for.
#[derive(Debug)]
pub enum Change {
    /// Creates or replaces objects.
    Apply(Box<Batch>),
    /// Deletes objects.
    Delete(Vec<Deletion>),
    /// Changes some fields of an object.
    Set {
        /// The object.
        key: ObjectKey,
        /// What becomes of which fields.
        amendments: Vec<Amendment>,
        /// The transaction that changed the object last, as the requester knows it.
        expected: Option<u64>,
    },
    /// Changes an object by a JSON merge patch.
    Merge {
        /// The object.
        key: ObjectKey,
        /// A JSON mapping: see [`Batch::merge`].
        patch: String,
        /// The transaction that changed the object last, as the requester knows it.
        expected: Option<u64>,
    },
    /// Goes on with other rules.
    Rules {
        /// The rules.
        rules: Arc<Rules>,
        /// How the core comes to them.
        transition: RulesTransition,
    },
}

/// What is to be done outside.
#[derive(Debug)]
pub enum Effect {
    /// A driver is to do this. Orders are carried out one after another.
    Order(DriverOrder),
    /// The answer to a request, to be sent after [`Machine::publish`].
    Answer(RequestId, Box<Result<Applied, Refusal>>),
}

/// The outcome of a request that changes objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// The transaction; `None` if nothing changed.
    pub txn: Option<u64>,
    /// The change of each object.
    pub changes: ChangeSet,
    /// The problems that came and went.
    pub problems: ProblemChanges,
    /// The ports that are cut off.
    pub cut_off: Vec<CutOff>,
    /// The number of objects before.
    pub objects_before: usize,
    /// The request with the same key that this one repeats. `changes` and what follows from them is then empty.
    pub repeated: Option<Repeated>,
    /// Whether this is what would be, and nothing is.
    pub dry_run: bool,
    /// If so, or if the request changes the rules, what it changes in switches.
    pub delta: Option<Box<SwitchDelta>>,
    /// If the request changes the rules, how the engine comes to them.
    pub engine: Option<EngineTransition>,
    /// Work that the request leaves to the operator, one line each.
    pub warnings: Vec<String>,
    /// The transport nodes whose endpoints change, so that their switches are connected again.
    pub reconnecting: Vec<String>,
    /// The transport nodes whose switches are managed from now on.
    pub connecting: Vec<String>,
    /// The transport nodes whose switches are not managed any more.
    pub leaving: Vec<String>,
}

/// The state in memory cannot be trusted any more, for this reason. The journal is intact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

/// What waits for the journal.
#[derive(Debug)]
enum Waiting {
    Transaction {
        applied: Box<AppliedTransaction>,
        accepted: Instant,
        /// The time from acceptance until it was computed: until the step after the one that computes it.
        computed: Option<Duration>,
    },
    Answer(RequestId, Box<Result<Applied, Refusal>>),
}

impl Machine {
    /// A controller that starts with this state and follows this policy. Also returns the first orders for drivers. Readers find the status in
    /// `published`.
    pub fn start(core: Core, policy: &Policy, published: Published, now: Now) -> (Machine, Vec<DriverOrder>) {
        let mut fleet = Fleet::new(now);
        fleet.start(core.addresses());
        let orders = fleet.take_told();
        let mut machine = Machine {
            unpublished: Unpublished::all(&core, &fleet, now.wall),
            core,
            fleet,
            group: Vec::new(),
            taken: Vec::new(),
            to_compare: VecDeque::new(),
            retry_at: None,
            published,
            problems: Lasting::default(),
        };
        machine.follow(policy);
        (machine, orders)
    }

    /// Follows another policy from now on. What is in force already stays.
    pub fn follow(&mut self, policy: &Policy) {
        self.core.bound(policy.rule_rows);
        self.core.require_declared_tenants(policy.declared_tenants);
        self.fleet.wait_for_hosts(policy.patience);
    }

    /// Takes an event.
    ///
    /// # Errors
    /// The machine can go on no more.
    pub fn step(&mut self, now: Now, event: Event) -> Result<Vec<Effect>, Failed> {
        self.set_now(now);
        match event {
            Event::Request(request) => self.request(request, now)?,
            Event::News(news) => self.news(news),
            Event::Task(task) => self.run(task, now)?,
            Event::PutAside(task, why) => self.put_aside(&task, &why),
            Event::Look { heard_all } => self.look(heard_all),
            Event::Journalled => return Ok(self.journalled(now)),
            Event::Unwritten(why) => return self.unwritten(&why),
        }
        if self.records().next().is_none() {
            self.begin_to_write();
        }
        Ok(self.orders().collect())
    }

    /// What drivers are to do by now: orders that only follow from what is on disk.
    fn orders(&mut self) -> impl Iterator<Item = Effect> + use<> {
        self.fleet.take_told().into_iter().map(Effect::Order)
    }

    /// The records of the group that waits for the journal.
    pub fn records(&self) -> impl Iterator<Item = &NewRecord> {
        self.group.iter().filter_map(|waiting| match waiting {
            Waiting::Transaction { applied, .. } => Some(&applied.record),
            Waiting::Answer(..) => None,
        })
    }

    /// Objects, reports and desired states, the group that waits included.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The network around objects with these ids at this moment. If a change is to be tried out, `without` is what it deletes.
    ///
    /// # Errors
    /// The engine fails.
    pub fn snapshot(
        &mut self,
        ids: &[String],
        without: Option<&[ObjectKey]>,
    ) -> Result<Snapshot, CommitError> {
        Snapshot::of(&mut self.core, ids, without)
    }

    /// What was measured of the tunnels of a transport node, or of all tunnels.
    pub fn measured_tunnels(&self, node: Option<&str>) -> Vec<Measured> {
        self.fleet.measured(self.core.probe_plan(), node)
    }

    /// The outcomes of transactions.
    pub fn receipts(&mut self) -> &mut Receipts {
        &mut self.fleet.receipts
    }

    /// Does maintenance that makes later transactions cheaper, to be called while nothing waits. Has no visible effect.
    ///
    /// # Errors
    /// The machine can go on no more.
    pub fn idle(&mut self) -> Result<(), Failed> {
        self.core.idle().map_err(|error| Failed(error.to_string()))
    }

    /// The rows that the engine has stored, and the work of its rules.
    ///
    /// # Errors
    /// The machine can go on no more.
    pub fn stored(&mut self) -> Result<StoredRows, Failed> {
        self.core.stored().map_err(|error| Failed(error.to_string()))
    }

    /// Writes all rows that the engine has, while no group waits: [`Core::save_rows`].
    ///
    /// # Errors
    /// In plain words, why that is not possible.
    pub fn save_rows(&mut self, to: &mut dyn Write) -> Result<(), String> {
        debug_assert!(self.group.is_empty(), "all transactions are on disk");
        self.core.save_rows(to)
    }

    /// Compares a part of what the engine has stored with its inputs, while no group waits. Returns whether that was the last part, and
    /// orders that mend what differs.
    ///
    /// # Errors
    /// The machine can go on no more.
    pub fn scrub(&mut self, now: Now) -> Result<(bool, Vec<DriverOrder>), Failed> {
        self.set_now(now);
        match self.core.scrub().map_err(failed)? {
            Scrub::More => Ok((false, Vec::new())),
            Scrub::Whole => Ok((true, Vec::new())),
            Scrub::Mended(mended) => {
                self.mended(mended);
                Ok((false, self.fleet.take_told()))
            }
        }
    }

    /// Switches get the desired states that were derived again.
    fn mended(&mut self, Mended { what, nodes, problems }: Mended) {
        error!(
            what,
            switches = nodes.len(),
            "what the engine had stored did not follow from its inputs; all of it is derived again. Please report this with the log: it \
             is a fault of Weft or of this machine's memory"
        );
        for node in &nodes {
            self.fleet.correct(node, |node| self.core.given(node));
        }
        self.unpublished.nodes.extend(nodes);
        self.follow_problems(&problems);
        self.unpublished.problems.push(problems);
        // The state of any may be another one.
        self.unpublished.objects.extend(self.core.objects().iter().map(|(key, _)| key));
        self.publish();
    }

    fn set_now(&mut self, now: Now) {
        self.fleet.set_now(now);
        // Those of the step before. Earlier ones were computed earlier.
        for waiting in self.group.iter_mut().rev() {
            match waiting {
                Waiting::Transaction { computed: Some(_), .. } => break,
                Waiting::Transaction { accepted, computed, .. } => {
                    *computed = Some(now.instant.saturating_duration_since(*accepted));
                }
                Waiting::Answer(..) => {}
            }
        }
    }

    fn request(&mut self, request: Request, now: Now) -> Result<(), Failed> {
        let Request { id, change, terms, mut by, accepted, gone } = request;
        if terms.dry_run {
            by.key = None;
        }
        if let Some(answer) = by.key.as_ref().and_then(|key| self.repeated(key, &by, now)) {
            self.group.push(Waiting::Answer(id, Box::new(answer)));
            return Ok(());
        }
        self.core.next_is_cancelled_by(gone);
        let tenant = by.tenant.clone();
        let prunes = matches!(&change, Change::Apply(batch) if batch.prune);
        let result = match change {
            Change::Apply(batch) => self.core.apply(*batch, by, now.wall),
            Change::Delete(objects) => self.core.delete(objects, by, now.wall),
            Change::Set { key, amendments, expected } => {
                self.core.set(&key, &amendments, expected, by, now.wall)
            }
            Change::Merge { key, patch, expected } => self.core.merge(&key, &patch, expected, by, now.wall),
            Change::Rules { rules, transition } => self.core.change_rules(&rules, transition, by, now.wall),
        };
        let mut result = match result {
            Ok(change) => {
                let told = self.told(&change, tenant.as_deref());
                match terms.refusal(&change, &told.problems.new, prunes) {
                    Some(refusal) => self.take_back(change.transaction).map(|()| Err(refusal))?,
                    None if terms.dry_run => Ok(self.try_out(change, told)?),
                    None => Ok(self.accept(change, told, accepted)),
                }
            }
            Err(CoreError::Refused(refusal)) => Err(refusal),
            Err(CoreError::Failed(why)) => return Err(Failed(why)),
        };
        // Flows of several tenants are in one switch, and nothing says which are whose.
        if tenant.is_some()
            && let Ok(applied) = &mut result
        {
            applied.delta = None;
        }
        self.group.push(Waiting::Answer(id, Box::new(result)));
        Ok(())
    }

    /// The answer to a request that took effect before.
    fn repeated(&self, key: &RequestKey, by: &Origin, now: Now) -> Option<Result<Applied, Refusal>> {
        let request = self.core.answered(key, now.wall).transpose()?;
        // A tenant would learn how many objects others have.
        let objects_before = if by.tenant.is_some() { 0 } else { self.core.objects().len() };
        Some(request.map(|request| Applied {
            txn: Some(request.txn),
            objects_before,
            repeated: Some(request),
            ..Applied::default()
        }))
    }

    /// The outcome of a change as the requester may know it: a tenant learns only what happens to its own objects.
    fn told(&self, change: &Accepted, tenant: Option<&str>) -> Applied {
        let mut summary = Applied::of(change);
        if let Some(tenant) = tenant {
            let ProblemChanges { new, gone } = &mut summary.problems;
            for problems in [new, gone] {
                *problems = self.core.problems_of_tenant(problems, &summary.changes, tenant);
            }
        }
        summary
    }

    fn accept(&mut self, change: Accepted, mut summary: Applied, accepted: Instant) -> Applied {
        if let Some(applied) = change.transaction {
            summary.delta = SwitchDelta::of_rules(&applied, &self.core).map(Box::new);
            summary.warnings = self.fleet.prepare(&applied.addresses);
            self.wait(applied, accepted);
        }
        summary
    }

    /// What a change would do. It is as if it had never been.
    fn try_out(&mut self, change: Accepted, told: Applied) -> Result<Applied, Failed> {
        let mut summary = Applied { txn: None, dry_run: true, ..told };
        let Some(mut applied) = change.transaction else {
            summary.delta = Some(Box::default());
            return Ok(summary);
        };
        if let Some(delta) = SwitchDelta::of_rules(&applied, &self.core) {
            self.take_back(Some(applied))?;
            summary.delta = Some(Box::new(delta));
            return Ok(summary);
        }
        let changes = std::mem::take(&mut applied.changes);
        let after = RulesOfNew::of(&changes, &self.core.provenance());
        self.take_back(Some(applied))?;
        let cookie = |node: &str, key: &FlowKey| self.core.cookie(node, key);
        let before = State { cookie: &cookie, provenance: &self.core.provenance() };
        summary.delta = Some(Box::new(SwitchDelta::of(&changes, &before, &after)));
        Ok(summary)
    }

    /// Undoes the transaction that was computed last and does not wait for the journal yet.
    fn take_back(&mut self, transaction: Option<AppliedTransaction>) -> Result<(), Failed> {
        transaction.map_or(Ok(()), |applied| self.core.undo(applied)).map_err(failed)
    }

    /// A transaction waits for the journal.
    fn wait(&mut self, applied: AppliedTransaction, accepted: Instant) {
        self.group.push(Waiting::Transaction { applied: Box::new(applied), accepted, computed: None });
    }

    /// The group is on disk: its effects are released.
    fn journalled(&mut self, now: Now) -> Vec<Effect> {
        self.core.journalled();
        self.taken.clear();
        let mut answers = Vec::new();
        for waiting in std::mem::take(&mut self.group) {
            match waiting {
                Waiting::Transaction { applied, accepted, computed } => {
                    let computed = computed.unwrap_or_default();
                    self.release(*applied, accepted, computed, now);
                }
                Waiting::Answer(id, result) => answers.push(Effect::Answer(id, result)),
            }
        }
        self.begin_to_write();
        // The state includes the whole group, so no answer may leave before the last of its orders.
        self.orders().chain(answers).collect()
    }

    /// Nothing waits for the journal, so switches may get what the rules want.
    fn begin_to_write(&mut self) {
        let core = &self.core;
        self.fleet.begin_to_write(|node| core.has_ports_of_report(node), |node| core.given(node));
    }

    fn release(&mut self, applied: AppliedTransaction, accepted: Instant, computed: Duration, now: Now) {
        let journalled = now.instant.saturating_duration_since(accepted);
        self.unpublished.nodes.extend(applied.reporting().map(str::to_owned));
        let AppliedTransaction { record, changes, problems, states, addresses, moves, .. } = applied;
        let has_other_rules = record.rules.is_some();
        self.follow_problems(&problems);
        let ObjectChanges { put, delete } = &record.objects;
        let put =
            put.iter().map(|object| ObjectKey::new(object.kind().shared_name().clone(), object.id().clone()));
        let delete = delete.iter().map(|(kind, id)| ObjectKey::new(kind.as_str(), id.as_str()));
        self.unpublished.objects.extend(put.chain(delete));
        self.unpublished.states.extend(states);
        self.unpublished.problems.push(problems);
        self.unpublished.nodes.extend(changes.keys().cloned());
        self.unpublished.nodes.extend(addresses.keys().cloned());
        let switches = self.fleet.push_in_order(record.txn, changes, &moves);
        // Before drivers end, so that the receipt records the transactions that their switches have not answered.
        let (txn, by, at) = (record.txn, record.by, record.at);
        debug!(txn, by, switches = switches.len(), ?computed, "transaction accepted");
        self.fleet.receipts.add(Receipt { txn, by, at, accepted, computed, journalled, switches });
        // A driver that starts now receives the whole desired state, including this transaction.
        let core = &self.core;
        self.fleet.commit(txn, &addresses, |node| core.given(node));
        if has_other_rules {
            // Other tables say the state of every object and switch now, so all of it is published anew.
            self.unpublished = Unpublished::all(core, &self.fleet, now.wall);
        }
    }

    /// The group is not on disk: all its transactions are undone and refused.
    fn unwritten(&mut self, why: &str) -> Result<Vec<Effect>, Failed> {
        error!(why, "requests are refused");
        let (mut undone, mut answers) = (Vec::new(), Vec::new());
        for waiting in std::mem::take(&mut self.group) {
            match waiting {
                Waiting::Transaction { applied, .. } => undone.push(applied),
                // Even a refusal may depend on a transaction that is undone.
                Waiting::Answer(id, mut result) => {
                    if !undone.is_empty() {
                        *result = Err(Refusal::Journal(why.to_owned()));
                    }
                    answers.push(Effect::Answer(id, result));
                }
            }
        }
        while let Some(applied) = undone.pop() {
            self.core.undo(*applied).map_err(failed)?;
        }
        self.fleet.roll_back();
        self.to_compare.clear();
        self.put_back(why);
        self.core.pause_retries();
        self.retry_at = Some(self.fleet.now() + JOURNAL_REST);
        Ok(answers)
    }

    /// Follows which problems there are. One is logged once it has lasted, and its end only then.
    fn follow_problems(&mut self, changes: &ProblemChanges) {
        let now = self.fleet.now();
        for problem in &changes.new {
            self.problems.begins(problem.clone(), now);
        }
        for problem in changes.gone.iter().filter(|problem| self.problems.ends(problem)) {
            let Problem { kind, id, code, text } = &**problem;
            info!(kind, id, code, "problem resolved: {}", shown(text));
        }
    }

    /// Logs the problems and the faults of switches that have lasted.
    fn log_lasting(&mut self) {
        let due = self.problems.due(self.fleet.now());
        for Problem { kind, id, code, text } in due.iter().take(LINES_MAX).map(|problem| &**problem) {
            warn!(kind, id, code, "problem: {}", shown(text));
        }
        if let Some(more) = due.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
            warn!(more, "there are more problems; weft status lists all");
        }
        self.fleet.log_lasting();
    }

    /// Updates the status that everybody reads, before anybody learns of its causes by other ways. Whoever follows objects
    /// ([`Published::versions_after`]) finds what has changed; to wake them is up to the caller. Returns the kinds of objects that differ.
    pub fn publish(&mut self) -> BTreeSet<Arc<str>> {
        let kinds = self.published.update(&mut self.unpublished, &self.core, &self.fleet);
        if cfg!(debug_assertions) {
            let [published, computed] =
                [self.published.read(&BTreeSet::new()), status::computed(&self.core, &self.fleet)]
                    .map(status::without_the_past);
            assert!(published == computed, "the status is {computed:?}, but {published:?} is published");
            assert!(self.published.has_objects_of(&self.core), "other objects are published than there are");
        }
        kinds
    }
}

impl Applied {
    /// The outcome of a change, without warnings.
    fn of(change: &Accepted) -> Self {
        let none = AddressChanges::new();
        let transaction = change.transaction.as_ref();
        let addresses = transaction.map_or(&none, |applied| &applied.addresses);
        let nodes = |wanted: &dyn Fn(&AddressChange) -> bool| {
            addresses.iter().filter(|(_, change)| wanted(change)).map(|(node, _)| node.clone()).collect()
        };
        Applied {
            txn: transaction.map(|applied| applied.record.txn),
            changes: change.objects.clone(),
            problems: transaction.map(|applied| applied.problems.clone()).unwrap_or_default(),
            cut_off: change.cut_off.clone(),
            objects_before: change.objects_before,
            repeated: None,
            dry_run: false,
            delta: None,
            engine: transaction.and_then(AppliedTransaction::engine_transition),
            warnings: Vec::new(),
            reconnecting: nodes(&AddressChange::reconnects),
            connecting: nodes(&|change| change.before.is_none()),
            leaving: nodes(&|change| change.after.is_none()),
        }
    }
}

/// Converts an evaluator failure. A report that the rules refuse is not an error.
fn failed(error: CoreError) -> Failed {
    Failed(error.to_string())
}

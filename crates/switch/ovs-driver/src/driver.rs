//! The driver's task: keeps one switch in sync with its desired state.
//!
//! One procedure compares and corrects. It creates missing tunnel and patch ports, sets the limits of conntrack
//! zones, the sets of collectors and the BFD sessions, and waits until they are in force, then sends all changes of
//! groups and flows in one bundle (and of meters around it), then removes unwanted ports. It runs after every
//! connection and whenever the desired state or the database changes, and it sends nothing to a switch that is in
//! sync. While one of the two connections is down it does what the other allows, except that it removes no port that
//! flows may still output to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use openflow_rs::message::TlvMapping;
use ovsdb_client::open_vswitch::Interface;
use peer_connection::PeerMemory;

use crate::config::{Config, Timing, first_scrub};
use crate::database::{Database, Status};
use crate::foreign::RepairPace;
use crate::identity::{Identity, Verdict};
use crate::in_openflow::Batch;
use crate::intent::{Database as Wanted, Leaving, Shared};
use crate::openflow::{Lost, OpenFlow, RefusedChange, option_name};
use crate::outbox::Outbox;
use crate::ports::{Port, Ports};
use crate::refusals::RefusalPace;
use crate::view::View;
use switch_model::{BundleTimes, Event, ForeignChange, Rejection};

/// A port that the switch refused.
#[derive(Debug)]
struct RefusedPort {
    port: Port,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    /// The switch does not support the port.
    Unsupported,
    /// The database or ovs-vswitchd refused it while these interfaces had the names of its ends.
    Refused { namesakes: Vec<Interface> },
}

/// The switch state in which the ledgers were read. When it changes, the switch must be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Basis {
    connection: u64,
    flushes: u64,
}

pub(crate) struct Driver {
    name: String,
    memory: PeerMemory,
    timing: Timing,
    tunnel_option: Option<TlvMapping>,
    identity: Arc<Identity>,
    intent: Arc<Shared>,
    outbox: Arc<Outbox>,
    database: Database,
    openflow: OpenFlow,
    basis: Option<Basis>,
    /// The state of the database in which it had what it was to have, and nothing else: neither is looked at again until one of them changes.
    database_settled: Option<(Status, Arc<Wanted>)>,
    /// The database connection since which refused ports are remembered.
    ports_compared: Option<u64>,
    /// The versions of the intent up to which flows, and ports, are in force.
    flows_in_force: u64,
    ports_in_force: u64,
    /// When the last bundle was sent, until transactions are confirmed.
    sent: Option<BundleTimes>,
    /// Ports that the switch refused. They are retried when they change, when interfaces with their names change, and
    /// when the database reconnects. Unsupported ports are retried as soon as the switch supports them.
    ports_refused: BTreeMap<String, RefusedPort>,
    /// Whether the switch refused to map the tunnel option to a field.
    option_refused: bool,
    transactions_refused: BTreeSet<u64>,
    /// When flows, groups and meters that the switch refused are sent again, while there are any.
    retry: RefusalPace,
    /// The number of refused objects in the last report; `None` after a further refusal.
    refused_told: Option<usize>,
    comparison: Option<Comparison>,
    /// The pace of repairs, and the number of modifications made for them so far.
    repair: RepairPace,
    repairs: Option<usize>,
    /// The time of the next comparison of groups, and of the next one of all flows.
    compare_at: tokio::time::Instant,
    scrub_at: tokio::time::Instant,
    /// Whether the last pass ended early because the desired ports had changed.
    overtaken: bool,
}

/// The corrections made so far while comparing the whole switch.
#[derive(Debug, Default)]
struct Comparison {
    flow_mods: usize,
    tunnels_changed: usize,
}

/// The outcome of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Wait until something changes.
    Done,
    /// The desired state changed meanwhile. Start over.
    Again,
    /// Something failed. Retry later.
    Later,
}

/// Whether both want the same of the database. Usually they are one.
fn same(one: &Arc<Wanted>, other: &Arc<Wanted>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl Driver {
    pub(crate) fn new(
        config: &Config,
        (timing, memory): (&Timing, PeerMemory),
        identity: Arc<Identity>,
        intent: &Arc<Shared>,
        outbox: &Arc<Outbox>,
        database: Database,
        openflow: OpenFlow,
    ) -> Self {
        Driver {
            name: config.name.clone(),
            memory,
            timing: timing.clone(),
            tunnel_option: config.tunnel_option,
            identity,
            intent: intent.clone(),
            outbox: outbox.clone(),
            database,
            openflow,
            basis: None,
            database_settled: None,
            ports_compared: None,
            flows_in_force: 0,
            ports_in_force: 0,
            sent: None,
            ports_refused: BTreeMap::new(),
            option_refused: false,
            transactions_refused: BTreeSet::new(),
            retry: RefusalPace::new(timing.retry_after, timing.scrub_every),
            refused_told: Some(0),
            comparison: None,
            repair: RepairPace::new(timing.repair_min, timing.repair_max),
            repairs: None,
            compare_at: tokio::time::Instant::now(),
            scrub_at: tokio::time::Instant::now() + first_scrub(&config.name, timing.scrub_every),
            overtaken: false,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut reported = Arc::default();
        loop {
            {
                let intent = self.intent.lock();
                if !same(&intent.database, &reported) {
                    reported = intent.database.clone();
                    self.database.report_again();
                }
            }
            // In memory of its own: the driver waits nearly all the time.
            let pass = Box::pin(self.correct()).await;
            self.report_refused_total();
            self.confirm();
            if pass == Pass::Again {
                continue;
            }
            let (wake_at, is_read) = (self.wake_at(), self.basis.is_some());
            tokio::select! {
                () = self.intent.changed() => {}
                _ = self.database.status.changed() => {}
                _ = self.openflow.status.changed() => {}
                () = tokio::time::sleep(self.timing.retry_after), if pass == Pass::Later => {}
                () = tokio::time::sleep_until(wake_at), if is_read => {}
            }
        }
    }

    /// The time of the next repair or comparison.
    fn wake_at(&self) -> tokio::time::Instant {
        let next = self.compare_at.min(self.scrub_at);
        [self.repair.due(), self.retry.due()].into_iter().flatten().fold(next, tokio::time::Instant::min)
    }

    /// One pass: compares and corrects.
    async fn correct(&mut self) -> Pass {
        let mut database = *self.database.status.borrow_and_update();
        // No port is created while the database may describe a bridge other than the one behind the OpenFlow
        // endpoint.
        let is_held_back = database.ready && self.identity.verdict() != Verdict::Same;
        database.ready &= !is_held_back;
        let (version, want) = {
            let intent = self.intent.lock();
            if !intent.given {
                return Pass::Done;
            }
            self.memory.expect(intent.forwarding.expected_bytes());
            (intent.version(), intent.database.clone())
        };
        let is_settled =
            self.database_settled.as_ref().is_some_and(|(at, with)| *at == database && same(with, &want));
        let added = if is_settled { Ok(false) } else { self.add_to_database(database, &want).await };
        // Ports come first, but a steady stream of port changes must not delay flows for ever: the second pass in a
        // row continues although the desired ports have changed. It loses no flow, since rules output to a port only
        // once the switch has reported its number.
        let is_right = database.ready && added == Ok(false) && self.ports_refused.is_empty();
        self.database_settled = is_right.then(|| (database, want.clone()));
        let database_is = (database.ready && !self.overtaken).then_some(&want);
        let flows = self.correct_flows(database.flushes, database_is).await;
        self.overtaken = flows == Flows::Overtaken;
        if self.overtaken {
            return Pass::Again;
        }
        let flows_right = flows == Flows::Right;
        let removed = match (&added, flows_right) {
            (Ok(true), true) => self.remove_from_database().await,
            (Ok(unwanted), _) => Ok(!unwanted),
            (Err(why), _) => Err(why.clone()),
        };
        if is_held_back && self.identity.verdict() == Verdict::Same {
            return Pass::Again;
        }
        let ports_right = removed == Ok(true) && database.ready;
        if ports_right {
            self.ports_in_force = version;
            self.intent.lock().settle_ports(version);
        }
        if flows_right
            && database.known
            && (ports_right || !database.ready)
            && let Some(Comparison { flow_mods, tunnels_changed }) = self.comparison.take()
        {
            self.outbox.put(Event::Synced { flow_mods, tunnels_changed });
        }
        if flows_right && ports_right {
            self.leave().await;
        }
        match removed {
            Ok(_) => Pass::Done,
            Err(why) => {
                tracing::warn!(switch = self.name, why, "cannot correct ports");
                Pass::Later
            }
        }
    }

    /// Leaves the switch, which is in sync, if the owner wants that. The owner learns first that its last transaction is in force.
    async fn leave(&mut self) {
        let is_due = {
            let intent = self.intent.lock();
            // The last changes may have come since the pass began.
            let in_force = [self.flows_in_force, self.ports_in_force];
            intent.leaving == Leaving::Wanted && in_force == [intent.version(); 2]
        };
        if !is_due {
            return;
        }
        self.confirm();
        self.intent.lock().leaving = Leaving::Left;
        if let Err(why) = self.database.leave().await {
            tracing::warn!(
                switch = self.name,
                why,
                "cannot remove the mark of this controller from the switch"
            );
        }
        self.outbox.put(Event::Left);
    }

    /// Creates the missing ports and the other missing things of the database, and waits until all are in force. Returns whether there are others to remove. Does nothing while the database is disconnected. An
    /// error may be temporary.
    async fn add_to_database(&mut self, database: Status, want: &Wanted) -> Result<bool, String> {
        if !database.ready {
            return Ok(false);
        }
        let mut view = self.database.view();
        let ports = self.add_ports(database, &view, &want.ports).await?;
        if ports.were_made {
            // Things of new ports too.
            view = self.database.view();
        }
        for operations in view.things.additions(&want.things) {
            self.database.put_in_force(operations).await?;
        }
        Ok(ports.are_unwanted || !view.things.removals(&want.things).is_empty())
    }

    fn report_refused_total(&mut self) {
        let refused = self.intent.lock().forwarding.refused();
        self.retry.are_refused(refused);
        let refused = refused + self.ports_refused.len() + usize::from(self.option_refused);
        if self.refused_told.replace(refused) != Some(refused) {
            self.outbox.put(Event::RefusedTotal { refused });
        }
    }

    fn confirm(&mut self) {
        let at = Instant::now();
        let confirmed = self.intent.lock().confirm(
            self.flows_in_force,
            self.ports_in_force,
            &mut self.transactions_refused,
        );
        let sent = if confirmed.is_empty() { None } else { self.sent.take() };
        for txn in confirmed {
            self.outbox.put(Event::Confirmed { txn, at, sent });
        }
        let (learned, frames) = {
            let mut intent = self.intent.lock();
            let learned = intent.awaited.settled(self.flows_in_force);
            let now = tokio::time::Instant::now();
            (learned, intent.frames.start(self.flows_in_force, self.ports_in_force, now))
        };
        for event in learned {
            self.outbox.put(event);
        }
        if frames {
            self.intent.frames_are_due();
        }
    }

    /// Creates and changes tunnel and patch ports and waits until they are in force. An error may be temporary.
    async fn add_ports(&mut self, database: Status, view: &View, want: &Ports) -> Result<Added, String> {
        if self.ports_compared != Some(database.connection) {
            self.ports_compared = Some(database.connection);
            self.ports_refused.clear();
            self.comparison.get_or_insert_default();
        }
        let mut plan = view.port_plan(want);
        let missing: BTreeSet<&String> = plan.missing.iter().map(|port| &port.name).collect();
        self.ports_refused.retain(|name, RefusedPort { port, cause }| {
            let still_refused = match cause {
                Cause::Unsupported => plan.unsupported.contains_key(name),
                // The obstacle may be gone, or ovs-vswitchd may have configured the port by now.
                Cause::Refused { namesakes } if missing.contains(name) => {
                    view.namesakes(name, port) == *namesakes
                }
                Cause::Refused { .. } => plan.failed.contains(name),
            };
            want.get(name) == Some(port) && still_refused
        });
        let mut refusals = Refusals::default();
        for (name, why) in std::mem::take(&mut plan.unsupported) {
            self.refuse_port(&mut refusals, &name, want, Cause::Unsupported, why);
        }
        plan.missing.retain(|spec| !self.ports_refused.contains_key(&spec.name));
        let ensured = match plan.missing.as_slice() {
            [] => Ok(Vec::new()),
            missing => self.database.ensure_ports(missing).await,
        };
        for (name, result) in ensured.iter().flatten() {
            match result {
                Ok(()) => self.comparison.iter_mut().for_each(|counts| counts.tunnels_changed += 1),
                Err(why) => {
                    let namesakes = want.get(name).map(|port| view.namesakes(name, port));
                    let cause = Cause::Refused { namesakes: namesakes.unwrap_or_default() };
                    self.refuse_port(&mut refusals, name, want, cause, why.clone());
                }
            }
        }
        self.refuse(refusals);
        let were_made = !ensured?.is_empty();
        if plan.pending.is_empty() {
            Ok(Added { were_made, are_unwanted: !plan.unwanted.is_empty() })
        } else {
            let names = plan.pending.join(", ");
            Err(format!("ovs-vswitchd has assigned no port number to {names} yet; check that it is running"))
        }
    }

    /// Records that a port is refused, and adds it to `refusals` unless it has been reported already.
    fn refuse_port(&mut self, refusals: &mut Refusals, name: &str, want: &Ports, cause: Cause, why: String) {
        let Some(port) = want.get(name) else { return };
        let refused = RefusedPort { port: port.clone(), cause };
        if self.ports_refused.insert(name.to_owned(), refused).is_some() {
            return;
        }
        let txn = self.intent.lock().ports_touched.get(name).map(|(txn, _)| *txn);
        refusals.add(txn, why, || port.show(name));
    }

    /// Reports refusals, one event for each transaction.
    fn refuse(&mut self, refusals: Refusals) {
        for (txn, (count, first)) in refusals.0 {
            if let Some(Rejection { reason, what }) = first.first() {
                tracing::warn!(switch = self.name, txn, count, reason, what, "the switch refused");
            }
            self.transactions_refused.extend(txn);
            self.refused_told = None;
            self.outbox.put(Event::Refused { txn, count, first });
        }
    }

    /// Removes the things of the database that are still unwanted. Returns whether none is left.
    async fn remove_from_database(&mut self) -> Result<bool, String> {
        let want = self.intent.lock().database.clone();
        let view = self.database.view();
        self.database.put_in_force(view.things.removals(&want.things)).await?;
        let unwanted = view.unwanted(&want.ports);
        if !unwanted.is_empty() {
            let removed = self.database.remove_ports(&unwanted).await?;
            self.comparison.iter_mut().for_each(|counts| counts.tunnels_changed += removed);
        }
        Ok(true)
    }

    /// Brings the flows in sync, unless what the database is to have has changed since `database_is`.
    async fn correct_flows(&mut self, flushes: u64, database_is: Option<&Arc<Wanted>>) -> Flows {
        let status = *self.openflow.status.borrow_and_update();
        if status.up {
            let basis = Basis { connection: status.connection, flushes };
            if let Ok(flows) = self.try_correct_flows(basis, database_is).await {
                return flows;
            }
        }
        self.basis = None;
        self.intent.lock().forwarding.lost();
        Flows::Unknown
    }

    async fn try_correct_flows(
        &mut self,
        basis: Basis,
        database_is: Option<&Arc<Wanted>>,
    ) -> Result<Flows, Lost> {
        if self.basis != Some(basis) {
            let option_fault = self.openflow.read(basis.connection).await?;
            self.option_refused = option_fault.is_some();
            self.repair.cancel();
            self.repairs = None;
            self.compare_at = tokio::time::Instant::now() + self.timing.compare_every;
            if let Some(why) = option_fault {
                let mut refusals = Refusals::default();
                refusals.add(None, why, || self.tunnel_option.map_or_else(String::new, option_name));
                self.refuse(refusals);
            }
            self.basis = Some(basis);
            self.comparison.get_or_insert_default();
        }
        self.find_foreign_changes(basis.connection).await?;
        loop {
            let (batch, version) = {
                let mut intent = self.intent.lock();
                if database_is.is_some_and(|database| !same(database, &intent.database)) {
                    return Ok(Flows::Overtaken);
                }
                (intent.forwarding.take(), intent.version())
            };
            let more = match batch {
                Some(batch) => self.apply(basis.connection, &batch).await?,
                None => false,
            };
            self.flows_in_force = version;
            if !more {
                if let Some(flow_mods) = self.repairs.take() {
                    tracing::info!(switch = self.name, flow_mods, "changes of others are undone");
                    self.outbox.put(Event::Repaired { flow_mods });
                }
                return Ok(Flows::Right);
            }
        }
    }

    /// Looks for changes by others, reports them, and schedules their repair if it is due.
    async fn find_foreign_changes(&mut self, connection: u64) -> Result<(), Lost> {
        let is_time = self.compare_at <= tokio::time::Instant::now();
        if is_time {
            self.compare_at = tokio::time::Instant::now() + self.timing.compare_every;
            // An obstacle that the database does not show may be gone.
            self.ports_refused.retain(|_, port| matches!(port.cause, Cause::Unsupported));
        }
        let scrub = self.scrub_at <= tokio::time::Instant::now();
        if scrub {
            self.scrub_at = tokio::time::Instant::now() + self.timing.scrub_every;
        }
        if self.retry.begins() {
            // What a switch had no room for, or no port, it may take by now.
            self.intent.lock().forwarding.retry_refused();
        }
        let missed = self.intent.lock().forwarding.has_missed_changes();
        self.report_foreign_changes();
        if missed {
            self.repair.needed();
        }
        if is_time || scrub || self.repair.is_due() {
            // A change of a flow often comes with changes of groups, which no switch reports.
            self.openflow.compare(connection, scrub).await?;
            self.report_foreign_changes();
        }
        if self.repair.is_due() {
            self.intent.lock().forwarding.absorb();
            self.repair.repaired();
            self.repairs.get_or_insert_default();
        }
        Ok(())
    }

    /// Reports the changes of others found since the last call.
    fn report_foreign_changes(&mut self) {
        let Some((count, mut first)) = self.intent.lock().forwarding.take_found() else { return };
        let repair_in = self.repair.needed();
        let controllers = self.database.view().controllers();
        let who = match controllers.as_slice() {
            [] => {
                "no controller is set for the bridge, so it was a client of its management socket".to_owned()
            }
            controllers => format!("controllers set for the bridge: {}", controllers.join(", ")),
        };
        for change in &mut first {
            change.why = format!("{}; {who}", change.why);
        }
        for ForeignChange { what, why } in &first {
            tracing::warn!(
                switch = self.name,
                count,
                what,
                why,
                ?repair_in,
                "another client changed the switch"
            );
        }
        self.outbox.put(Event::ForeignChanges { count, first, repair_in });
    }

    /// Sends a batch and reports refusals. Returns whether the batch requires further changes.
    async fn apply(&mut self, connection: u64, batch: &Batch) -> Result<bool, Lost> {
        let applied = self.openflow.apply(connection, batch.clone()).await?;
        self.sent = applied.sent.or(self.sent);
        let places = applied.refused.iter().map(|refused| refused.place).collect();
        let mut contradicted = false;
        let more = {
            let mut intent = self.intent.lock();
            if intent.not_as_a_whole != applied.alone {
                intent.not_as_a_whole.clone_from(&applied.alone);
                self.database.report_again();
            }
            let more = intent.forwarding.settle(&places);
            if let Some(contents) = &applied.partly {
                intent.forwarding.correct_refused(contents);
            }
            for RefusedChange { place, reason } in &applied.refused {
                let change = batch.at(*place);
                contradicted |=
                    change.is_some_and(|change| intent.forwarding.is_contradiction(change, reason));
            }
            more
        };
        if contradicted {
            // The switch differs from the believed state: others have changed its groups.
            self.repair.needed();
        }
        self.repairs.iter_mut().for_each(|repairs| *repairs += applied.flow_mods);
        self.comparison.iter_mut().for_each(|counts| counts.flow_mods += applied.flow_mods);
        let mut refusals = Refusals::default();
        for refused in applied.refused {
            if let Some(change) = batch.at(refused.place) {
                refusals.add(change.txn(), refused.reason, || change.to_string());
            }
        }
        self.refuse(refusals);
        Ok(more)
    }
}

/// What is known of ports after missing ones were made.
struct Added {
    were_made: bool,
    /// Whether there are others to remove.
    are_unwanted: bool,
}

/// What the switch refused, by transaction: how many, and the first few.
#[derive(Debug, Default)]
struct Refusals(BTreeMap<Option<u64>, (usize, Vec<Rejection>)>);

impl Refusals {
    fn add(&mut self, txn: Option<u64>, reason: String, what: impl FnOnce() -> String) {
        let (count, first) = self.0.entry(txn).or_default();
        *count += 1;
        if first.len() < Rejection::REPORTED_MAX {
            first.push(Rejection { what: what(), reason });
        }
    }
}

/// The state of the flows after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flows {
    /// In sync, except for the flows that the switch refused.
    Right,
    /// The desired ports have changed, and ports come first.
    Overtaken,
    /// There is no connection, or it was lost.
    Unknown,
}

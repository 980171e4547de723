//! The stages of transactions, as the engine's thread sees them.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use nlog_data::quotation::cut;
use opentelemetry::trace::{Span as _, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::Span;
use switch_model::{BundleTimes, Changes, Event};
use weft_core::fleet::{News, SwitchNews};
use weft_core::machine::Event as Outcome;

use super::{Spans, Traced};

/// The most switches of a transaction that have spans of their own.
const SWITCHES_MAX: usize = 16;
/// The most transactions whose switches are awaited. Beyond it, the oldest is given up.
const AWAITED_MAX: usize = 256;

/// The spans of transactions under way. Does nothing while no call is traced.
pub(crate) struct Stages {
    spans: Option<Spans>,
    /// The transactions that wait for the journal.
    group: Vec<Transaction>,
    /// When the journal had them.
    on_disk: Option<Instant>,
    /// The transactions that switches get, by number.
    sent: BTreeMap<u64, Transaction>,
    /// What switches have got and not confirmed, by transport node and transaction.
    open: BTreeMap<String, BTreeMap<u64, Open>>,
}

/// A transaction of a traced call.
struct Transaction {
    txn: u64,
    /// The span of the call.
    call: Context,
    clock: Clock,
    /// The switches that have got it.
    switches: usize,
    /// Whether its answer is out.
    is_answered: bool,
}

/// What a switch has got.
#[derive(Clone, Copy)]
struct Open {
    begun: Instant,
    /// Whether it is in the database too. Flows do not wait for that, so each kind is confirmed in an order of its own.
    in_database: bool,
}

/// A moment on both clocks.
#[derive(Clone, Copy)]
struct Clock {
    instant: Instant,
    wall: SystemTime,
}

impl Clock {
    fn wall(self, moment: Instant) -> SystemTime {
        match self.instant.checked_duration_since(moment) {
            Some(before) => self.wall - before,
            None => self.wall + moment.duration_since(self.instant),
        }
    }
}

impl Transaction {
    /// The span of a stage that began at this time.
    fn begin(&self, spans: &Spans, name: &'static str, begun: Instant) -> Span {
        let span = spans.tracer.span_builder(name).with_start_time(self.clock.wall(begun));
        let txn = (self.txn > 0).then(|| KeyValue::new("weft.txn", self.txn as i64));
        span.with_attributes(txn).start_with_context(&spans.tracer, &self.call)
    }

    /// A stage from one time to another.
    fn span(&self, spans: &Spans, name: &'static str, (begun, ended): (Instant, Instant)) {
        self.begin(spans, name, begun).end_with_timestamp(self.clock.wall(ended));
    }

    /// What a switch did about it, which failed for this reason. Returns the parent of the parts of that.
    fn of_switch(
        &self,
        spans: &Spans,
        node: &str,
        (begun, ended): (Instant, Instant),
        failed: Option<String>,
    ) -> Context {
        let mut span = self.begin(spans, "switch", begun);
        span.set_attribute(KeyValue::new("weft.switch", node.to_owned()));
        if let Some(why) = failed {
            span.set_status(Status::error(cut(&why).into_owned()));
        }
        span.end_with_timestamp(self.clock.wall(ended));
        Context::new().with_remote_span_context(span.span_context().clone())
    }
}

impl Stages {
    pub(crate) fn new(spans: Option<Spans>) -> Stages {
        Stages { spans, group: Vec::new(), on_disk: None, sent: BTreeMap::new(), open: BTreeMap::new() }
    }

    /// The beginning of a stage; `None` if nobody wants to know.
    pub(crate) fn begin(&self) -> Option<Instant> {
        (!self.group.is_empty()).then(Instant::now)
    }

    /// A request has been computed: it came and began at these times, and is this transaction, if it changes something.
    pub(crate) fn derived(
        &mut self,
        traced: Option<Traced>,
        (accepted, begun): (Instant, Instant),
        txn: Option<u64>,
    ) {
        let (Some(spans), Some(Traced(call))) = (&self.spans, traced) else { return };
        let clock = Clock { instant: Instant::now(), wall: SystemTime::now() };
        let transaction =
            Transaction { txn: txn.unwrap_or_default(), call, clock, switches: 0, is_answered: false };
        transaction.span(spans, "queue", (accepted, begun));
        transaction.span(spans, "derive", (begun, clock.instant));
        if txn.is_some() {
            self.group.push(transaction);
        }
    }

    /// The journal has taken the group, which has so many transactions, or has not.
    pub(crate) fn appended(
        &mut self,
        begun: Option<Instant>,
        transactions: impl Fn() -> usize,
        outcome: &Outcome,
    ) {
        let (Some(spans), Some(begun)) = (&self.spans, begun) else { return };
        let (now, transactions) = (Instant::now(), transactions());
        let failed = match outcome {
            Outcome::Unwritten(why) => Some(why),
            _ => None,
        };
        for transaction in &self.group {
            let mut span = transaction.begin(spans, "append", begun);
            span.set_attribute(KeyValue::new("weft.transactions", transactions as i64));
            if let Some(why) = failed {
                span.set_status(Status::error(cut(why).into_owned()));
            }
            span.end_with_timestamp(transaction.clock.wall(now));
        }
        if failed.is_some() {
            self.group.clear();
        }
        self.on_disk = Some(now);
        self.sent.extend(
            std::mem::take(&mut self.group).into_iter().map(|transaction| (transaction.txn, transaction)),
        );
        while self.sent.len() > AWAITED_MAX {
            if let Some((txn, transaction)) = self.sent.pop_first() {
                self.give_up(txn, &transaction);
            }
        }
    }

    /// A driver gets a transaction.
    pub(crate) fn pushed<'a>(&mut self, txn: u64, changes: &Changes, node: impl FnOnce() -> Option<&'a str>) {
        let Some(transaction) = self.sent.get_mut(&txn) else { return };
        let Some(node) = node() else { return };
        transaction.switches += 1;
        if transaction.switches <= SWITCHES_MAX {
            let open = Open { begun: Instant::now(), in_database: changes.touches_database() };
            self.open.entry(node.to_owned()).or_default().insert(txn, open);
        }
    }

    /// The group has its answers.
    pub(crate) fn published(&mut self) {
        let (Some(spans), Some(begun)) = (&self.spans, self.on_disk.take()) else { return };
        let now = Instant::now();
        // Those of the group are the last.
        for transaction in self.sent.values_mut().rev().take_while(|transaction| !transaction.is_answered) {
            transaction.is_answered = true;
            let mut span = transaction.begin(spans, "publish", begun);
            span.set_attribute(KeyValue::new("weft.switches", transaction.switches as i64));
            span.end_with_timestamp(transaction.clock.wall(now));
        }
    }

    /// A switch has news: it may have confirmed transactions, or refused one.
    pub(crate) fn news(&mut self, news: &SwitchNews) {
        if self.open.is_empty() {
            return;
        }
        match &news.what {
            News::Event(Event::Confirmed { txn, at, sent }) => self.confirmed(&news.node, *txn, *at, *sent),
            News::Event(Event::Refused { txn: Some(txn), first, .. }) => {
                let why = first
                    .first()
                    .map_or_else(String::new, |first| format!("{}: {}", first.what, first.reason));
                let begun = self.open.get_mut(&news.node).and_then(|open| open.remove(txn));
                self.open.retain(|_, open| !open.is_empty());
                if let (Some(Open { begun, .. }), Some(transaction), Some(spans)) =
                    (begun, self.sent.get(txn), &self.spans)
                {
                    transaction.of_switch(spans, &news.node, (begun, Instant::now()), Some(why));
                }
            }
            _ => {}
        }
    }

    /// A switch has confirmed a transaction, and with it those of its kind before it.
    fn confirmed(&mut self, node: &str, txn: u64, at: Instant, sent: Option<BundleTimes>) {
        let (Some(spans), Some(open)) = (&self.spans, self.open.get_mut(node)) else { return };
        let Some(Open { in_database, .. }) = open.get(&txn).copied() else { return };
        let is_confirmed = |of: &u64, open: &Open| *of <= txn && open.in_database == in_database;
        let confirmed: Vec<(u64, Open)> =
            open.iter().filter(|(of, open)| is_confirmed(of, open)).map(|(of, open)| (*of, *open)).collect();
        open.retain(|of, open| !is_confirmed(of, open));
        for (txn, Open { begun, .. }) in confirmed {
            let Some(transaction) = self.sent.get(&txn) else { continue };
            let switch = transaction.of_switch(spans, node, (begun, at), None);
            // The last bundle may be an older one: this transaction needed none.
            if let Some(BundleTimes { begun: first, committed }) = sent.filter(|sent| sent.committed >= begun)
            {
                let part = Transaction { call: switch, ..*transaction };
                // The driver sends what has come by then.
                part.span(spans, "send", (first.max(begun), committed));
                part.span(spans, "barrier", (committed, at));
            }
        }
        if open.is_empty() {
            self.open.remove(node);
        }
    }

    /// Nobody waits any longer for the switches of a transaction.
    fn give_up(&mut self, txn: u64, transaction: &Transaction) {
        let Some(spans) = &self.spans else { return };
        self.open.retain(|node, open| {
            if let Some(Open { begun, .. }) = open.remove(&txn) {
                let why = "the switch has not confirmed it yet".to_owned();
                transaction.of_switch(spans, node, (begun, Instant::now()), Some(why));
            }
            !open.is_empty()
        });
    }
}

/// What has not been confirmed when the engine ends.
impl Drop for Stages {
    fn drop(&mut self) {
        while let Some((txn, transaction)) = self.sent.pop_first() {
            self.give_up(txn, &transaction);
        }
    }
}

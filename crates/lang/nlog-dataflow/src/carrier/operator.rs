//! A program's workers inside somebody else's dataflow.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use timely::ExchangeData;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::{Scope, Stream};
use timely::order::TotalOrder;
use timely::progress::Timestamp;

use super::Codec;
use super::port::{LEAD, Port, Site};
use super::start::Again;
use crate::panic::message;

/// The dataflow as the future of a worker sees it: requests in, results out. Clones are the same desk.
pub(crate) struct Desk<T: Timestamp, D, O>(Rc<RefCell<Times<T, D, O>>>);

impl<T: Timestamp, D, O> Clone for Desk<T, D, O> {
    fn clone(&self) -> Self {
        Desk(Rc::clone(&self.0))
    }
}

struct Times<T: Timestamp, D, O> {
    /// The right to send results at the time of the current request, and later. None after the last request.
    now: Option<Capability<T>>,
    /// Data of times at which more can arrive, or whose turn has not come.
    pending: BTreeMap<T, Vec<D>>,
    /// The earliest time at which more can arrive.
    frontier: Option<T>,
    results: Vec<(Capability<T>, Vec<O>)>,
}

/// Runs a program's workers in a dataflow: one future at each worker of timely.
///
/// All data with one time are one request. [`Desk::next`] gives it to worker 0 once no more data with that time, or an
/// earlier one, can arrive. What a worker emits has the time of the current request.
///
/// Each worker holds a capability, which timely gives it at the start. While worker 0 waits for the next request, all
/// capabilities move to the time of that request: worker 0 moves its own, and sends each other worker a note with the
/// time. The note stays in order with messages, so a worker can emit results at its time until the note arrives. A
/// worker drops its capability when its future is complete: worker 0 after the last request, the others when they have
/// seen worker 0 leave.
///
/// If a future panics or ends too early, the others lose that worker. The panic goes no further, because timely's other
/// workers would then wait for this one for ever. Once the future of worker 0 has ended, the operator answers the current
/// request and each later one with `refuse`, which gets the cause.
pub(crate) fn operator<'s, T, D, O, B, F>(
    scope: Scope<'s, T>,
    title: &str,
    requests: Stream<'s, T, Vec<D>>,
    codec: Arc<dyn Codec<B>>,
    local: std::ops::Range<usize>,
    work: impl FnOnce(Port<B>, Desk<T, D, O>) -> F,
    refuse: impl Fn(&str) -> O + 'static,
) -> Stream<'s, T, Vec<O>>
where
    T: Timestamp + TotalOrder,
    D: ExchangeData,
    O: Clone + 'static,
    B: Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let mut builder = OperatorBuilder::new(title.to_owned(), scope);
    let mut requests = builder.new_input(requests, Exchange::new(|_: &D| LEAD as u64));
    let (output, results) = builder.new_output();
    let mut output = OutputBuilder::<T, CapacityContainerBuilder<Vec<O>>>::from(output);
    let address = builder.operator_info().address;
    let activator = scope.activator_for(Rc::clone(&address));
    let site = Site { local, links: Arc::default(), addresses: Arc::default() };
    let port = Port::new(scope.worker(), address, site, codec);
    builder.build(|capabilities| {
        let mut pending = BTreeMap::new();
        if port.me() == LEAD {
            // There is a first request whether or not there are data for it.
            pending.insert(T::minimum(), Vec::new());
        }
        let now = capabilities.into_iter().next();
        let times = Times { now, pending, frontier: Some(T::minimum()), results: Vec::new() };
        let desk = Desk(Rc::new(RefCell::new(times)));
        let at = desk.clone();
        port.on_note(move |note| {
            if let Ok(time) = postcard::from_bytes(note) {
                at.0.borrow_mut().move_to(&time);
            }
        });
        let mut work: Option<Pin<Box<dyn Future<Output = ()>>>> =
            Some(Box::pin(work(port.clone(), desk.clone())));
        let again = Arc::<Again>::default();
        let waker = Waker::from(Arc::clone(&again));
        activator.activate();
        move |frontiers| {
            requests.for_each(|capability, data| {
                let mut times = desk.0.borrow_mut();
                times.pending.entry(capability.time().clone()).or_default().append(data);
            });
            desk.0.borrow_mut().frontier = frontiers[0].frontier().first().cloned();
            if let Some(future) = &mut work {
                let mut context = Context::from_waker(&waker);
                let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
                if let Err(panic) = &polled {
                    port.fail(&format!("{} panicked: {}", port.name(), message(panic.as_ref())));
                }
                if !matches!(polled, Ok(Poll::Pending)) {
                    work = None;
                    port.leave();
                    desk.end(&port, &refuse);
                }
            } else {
                desk.refuse_all(&port, &refuse);
            }
            let finished = std::mem::take(&mut desk.0.borrow_mut().results);
            if !finished.is_empty() {
                let mut output = output.activate();
                for (capability, results) in finished {
                    output.session(&capability).give_iterator(results.into_iter());
                }
            }
            if again.take() {
                activator.activate();
            }
        }
    });
    results
}

impl<T: Timestamp, D, O> Times<T, D, O> {
    /// Results have this time from now on.
    fn move_to(&mut self, time: &T) {
        if let Some(now) = &mut self.now {
            // Worker 0 never goes back.
            let _ = now.try_downgrade(time);
        }
    }
}

impl<T: Timestamp + TotalOrder, D, O> Desk<T, D, O> {
    /// Waits for the next request, at worker 0. The first one has the minimum time, even if it has no data. Returns
    /// `None` after the last one.
    pub(crate) async fn next<B>(&self, port: &Port<B>) -> Option<(T, Vec<D>)> {
        poll_fn(|_| self.poll_next(port)).await
    }

    fn poll_next<B>(&self, port: &Port<B>) -> Poll<Option<(T, Vec<D>)>> {
        let mut times = self.0.borrow_mut();
        let frontier = times.frontier.clone();
        let first = times.pending.first_entry();
        let complete = first.filter(|first| frontier.as_ref().is_none_or(|frontier| first.key() < frontier));
        let request = complete.map(OccupiedEntry::remove_entry);
        let Some(time) = request.as_ref().map(|(time, _)| time).or(frontier.as_ref()) else {
            times.now = None;
            return Poll::Ready(None);
        };
        if times.now.as_ref().is_some_and(|now| now.time() < time) {
            times.move_to(time);
            // Every timestamp can be written.
            port.send_note(&postcard::to_allocvec(time).unwrap_or_default());
        }
        request.map_or(Poll::Pending, |request| Poll::Ready(Some(request)))
    }

    /// The future of the worker has ended.
    fn end<B>(&self, port: &Port<B>, refuse: &impl Fn(&str) -> O) {
        if port.me() != LEAD {
            self.0.borrow_mut().now = None;
        } else if self.0.borrow().now.is_some() {
            self.emit(refuse(&port.why()));
            self.refuse_all(port, refuse);
        }
    }

    /// Refuses the requests that are complete, at worker 0.
    fn refuse_all<B>(&self, port: &Port<B>, refuse: &impl Fn(&str) -> O) {
        while port.me() == LEAD
            && let Poll::Ready(Some(_)) = self.poll_next(port)
        {
            self.emit(refuse(&port.why()));
        }
    }

    /// Emits a result at the time of the current request.
    pub(crate) fn emit(&self, result: O) {
        let mut times = self.0.borrow_mut();
        let Some(now) = times.now.clone() else { return };
        match times.results.last_mut().filter(|(capability, _)| *capability == now) {
            Some((_, results)) => results.push(result),
            None => times.results.push((now, vec![result])),
        }
    }
}

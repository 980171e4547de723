//! Workers as threads of one process: they share a table of symbols and exchange packets through channels.
//!
//! A worker that panics closes its channels, and every worker waiting for it gets an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nlog_plan::query::Plan;

use super::engine::State;
use super::rounds::{Carrier, Lost, Packet};
use super::workers::{Answer, Order, Others, Superior, Workers, part, serve};
use crate::panic::message;
use crate::symbol::Symbols;

/// The other threads, seen from worker 0.
struct Helpers {
    carrier: Channels,
    orders: Vec<Sender<Order>>,
    answers: Vec<Receiver<Answer>>,
    threads: Vec<JoinHandle<()>>,
    /// The messages of workers that panicked.
    last_words: Arc<Mutex<Vec<String>>>,
}

/// Worker 0, seen from another thread.
struct Caller {
    carrier: Channels,
    orders: Receiver<Order>,
    answers: Sender<Answer>,
}

/// One channel for each direction between two threads, so that each thread notices the end of another.
struct Channels {
    me: usize,
    to: Vec<Option<Sender<Packet>>>,
    from: Vec<Option<Receiver<Packet>>>,
}

impl Carrier for Channels {
    fn exchange(&mut self, out: Vec<Packet>) -> Result<Vec<Packet>, Lost> {
        for (packet, to) in out.into_iter().zip(&self.to) {
            if let Some(to) = to {
                to.send(packet).map_err(|_| Lost)?;
            }
        }
        let receive = |from: &Option<Receiver<Packet>>| match from {
            None => Ok(Packet::default()),
            Some(from) => receive(from),
        };
        debug_assert!(self.from[self.me].is_none());
        self.from.iter().map(receive).collect()
    }
}

/// How long a thread that waits for another one stays awake. A round of a small transaction takes a few microseconds, and it takes
/// tens of them to wake a thread that sleeps.
const AWAKE: Duration = Duration::from_micros(100);

/// Waits for what another thread sends during a transaction. Gives the processor to other threads first, then sleeps.
fn receive<T>(from: &Receiver<T>) -> Result<T, Lost> {
    let mut since = None;
    loop {
        match from.try_recv() {
            Ok(received) => return Ok(received),
            Err(TryRecvError::Disconnected) => return Err(Lost),
            Err(TryRecvError::Empty) => {}
        }
        if since.get_or_insert_with(Instant::now).elapsed() > AWAKE {
            return from.recv().map_err(|_| Lost);
        }
        std::thread::yield_now();
    }
}

impl Channels {
    fn between(peers: usize) -> Vec<Channels> {
        let mut all: Vec<Channels> = (0..peers)
            .map(|me| Channels {
                me,
                to: (0..peers).map(|_| None).collect(),
                from: (0..peers).map(|_| None).collect(),
            })
            .collect();
        for from in 0..peers {
            for to in (0..peers).filter(|to| *to != from) {
                let (sender, receiver) = channel();
                all[from].to[to] = Some(sender);
                all[to].from[from] = Some(receiver);
            }
        }
        all
    }
}

/// Starts all workers except worker 0, and returns the state of worker 0.
pub(crate) fn start(
    plan: &Arc<Plan>,
    symbols: &Arc<Symbols>,
    attribute: bool,
    peers: usize,
) -> Result<(State, Workers), String> {
    let mut carriers = Channels::between(peers).into_iter().enumerate();
    let Some((_, carrier)) = carriers.next() else { return Err("there is no worker".to_owned()) };
    let (mut orders, mut answers, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    let last_words: Arc<Mutex<Vec<String>>> = Arc::default();
    for (me, carrier) in carriers {
        let (order, to_do) = channel();
        let (answer, done) = channel();
        let (plan, symbols) = (Arc::clone(plan), Arc::clone(symbols));
        let work = move || {
            let mut state = part(&plan, &symbols, attribute, me, peers);
            let mut caller = Caller { carrier, orders: to_do, answers: answer };
            // An error means that a worker was lost, which worker 0 notices too.
            let _ = serve(&mut state, &mut caller);
        };
        let thread = std::thread::Builder::new().name(format!("weft worker {me}"));
        // A panic ends the worker. The others notice that its channels close.
        let said = Arc::clone(&last_words);
        let spawned = thread.spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.push(message(panic.as_ref()).to_owned());
            }
        });
        threads.push(spawned.map_err(|error| format!("worker {me}: {error}"))?);
        orders.push(order);
        answers.push(done);
    }
    let state = part(plan, symbols, attribute, 0, peers);
    let helpers = Helpers { carrier, orders, answers, threads, last_words };
    Ok((state, Workers::new(Box::new(helpers))))
}

impl Helpers {
    fn end_all(&mut self) {
        self.orders.clear();
        // A worker that waits for a packet of worker 0 notices that none will arrive.
        self.carrier = Channels { me: 0, to: Vec::new(), from: vec![None] };
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Carrier for Helpers {
    fn exchange(&mut self, out: Vec<Packet>) -> Result<Vec<Packet>, Lost> {
        self.carrier.exchange(out)
    }
}

impl Others for Helpers {
    fn tell(&mut self, order: &Order) -> Result<(), Lost> {
        self.orders.iter().try_for_each(|worker| worker.send(order.clone()).map_err(|_| Lost))
    }

    fn answers(&mut self) -> Result<Vec<Answer>, Lost> {
        self.answers.iter().map(receive).collect()
    }

    fn stop(&mut self) -> String {
        self.end_all();
        let said = std::mem::take(&mut *self.last_words.lock().unwrap_or_else(PoisonError::into_inner));
        format!("a worker panicked: {}", said.join("; "))
    }
}

impl Carrier for Caller {
    fn exchange(&mut self, out: Vec<Packet>) -> Result<Vec<Packet>, Lost> {
        self.carrier.exchange(out)
    }
}

impl Superior for Caller {
    fn order(&mut self) -> Result<Option<Order>, Lost> {
        Ok(self.orders.recv().ok())
    }

    fn answer(&mut self, answer: Answer) -> Result<(), Lost> {
        self.answers.send(answer).map_err(|_| Lost)
    }
}

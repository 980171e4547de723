//! Workers that are threads of one process.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::super::{Carrier, StartError, start};
use super::{Bytes, Codec, Fault, Log, Toy, entries, run_fault, run_rounds, serve};

fn started(workers: usize, log: &Log) -> Carrier<Toy> {
    with_codec(workers, log, Arc::new(Bytes))
}

fn with_codec(workers: usize, log: &Log, codec: Arc<dyn Codec<Toy>>) -> Carrier<Toy> {
    let log = Arc::clone(log);
    start(workers, None, codec, move |port| serve(port, Arc::clone(&log))).expect("threads start")
}

#[test]
fn workers_exchange_messages_and_end() {
    for workers in 1..=3 {
        let log = Log::default();
        let mut carrier = started(workers, &log);
        let port = carrier.port().clone();
        assert_eq!((port.me(), port.peers()), (0, workers));
        for count in [0, 1, 50] {
            carrier.block_on(run_rounds(&port, count)).unwrap_or_else(|_| panic!("{}", port.why()));
        }
        // A clone of the port does not keep the workers.
        drop(carrier);
        assert_eq!(entries(&log), vec!["ended well"; workers - 1]);
    }
}

#[test]
fn workers_that_nobody_uses_end() {
    let log = Log::default();
    drop(started(3, &log));
    assert_eq!(entries(&log), ["ended well"; 2]);
    let none = start(0, None, Arc::new(Bytes), |port| serve(port, Log::default()));
    assert_eq!(none.err(), Some(StartError::NoWorker));
}

/// Fails at any use.
struct NoBytes;

impl Codec<Toy> for NoBytes {
    fn encode(&self, _: Toy) -> Result<Vec<u8>, String> {
        Err("this process only".to_owned())
    }

    fn decode(&self, _: &[u8]) -> Result<Toy, String> {
        Err("this process only".to_owned())
    }
}

#[test]
fn messages_in_a_process_share_memory() {
    let mut carrier = with_codec(3, &Log::default(), Arc::new(NoBytes));
    let port = carrier.port().clone();
    let sent = Arc::new(vec![7; 10]);
    carrier.block_on(async {
        port.broadcast(Toy::Return(Arc::clone(&sent))).expect("nobody is lost");
        // A worker is also another one for itself.
        port.send(0, Toy::Returned(Arc::clone(&sent))).expect("nobody is lost");
        for from in 0..3 {
            let Ok(Toy::Returned(back)) = port.receive(from).await else { panic!("{}", port.why()) };
            assert!(Arc::ptr_eq(&sent, &back), "worker {from}");
        }
    });
}

#[test]
fn a_worker_that_panics_ends_the_others() {
    for worker in 1..3 {
        let log = Log::default();
        let mut carrier = started(3, &log);
        let why = format!("worker {worker} panicked: boom");
        assert_eq!(run_fault(&mut carrier, worker, Fault::Panics), why);
        drop(carrier);
        assert_eq!(entries(&log), [why], "the other one says it too");
    }
}

#[test]
fn a_worker_that_ends_too_early_ends_the_others() {
    let log = Log::default();
    let mut carrier = started(3, &log);
    let why = "worker 2 ended before worker 0";
    assert_eq!(run_fault(&mut carrier, 2, Fault::Ends), why);
    drop(carrier);
    assert_eq!(entries(&log), ["ended well", why]);
}

#[test]
fn a_caller_that_panics_ends_the_workers() {
    let log = Log::default();
    let again = Arc::clone(&log);
    let caller = std::thread::spawn(move || {
        let mut carrier = started(3, &again);
        let port = carrier.port().clone();
        carrier.block_on(run_rounds(&port, 2)).expect("nobody is lost");
        panic!("this test's own panic");
    });
    assert!(caller.join().is_err());
    assert_eq!(entries(&log), ["worker 0 panicked"; 2]);
}

#[test]
fn a_worker_that_fails_says_why() {
    let log = Log::default();
    let carrier = started(2, &log);
    carrier.port().fail("no more memory");
    assert_eq!(carrier.port().why(), "no more memory");
    drop(carrier);
    assert_eq!(entries(&log), ["no more memory"]);
}

/// Whether somebody asked for a poll.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_worker_stays_awake_in_the_middle_of_its_work_only() {
    let carrier = started(2, &Log::default());
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut rest = pin!(carrier.port().rest());
    assert!(rest.as_mut().poll(&mut context).is_pending());
    assert!(!woken.0.swap(false, Ordering::Relaxed), "at rest it sleeps at once");
    let mut wait = pin!(carrier.port().receive(1));
    assert!(wait.as_mut().poll(&mut context).is_pending());
    assert!(woken.0.load(Ordering::Relaxed), "it stays awake");
    while woken.0.swap(false, Ordering::Relaxed) {
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending, "nobody sends it anything");
    }
}

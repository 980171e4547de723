//! Starts the workers of one or several processes, and ends them.

use std::future::Future;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use timely::WorkerConfig;
use timely::communication::allocator::ProcessBuilder;
use timely::communication::allocator::zero_copy::allocator::TcpBuilder;
use timely::communication::allocator::zero_copy::initialize::{
    CommsGuard, initialize_networking_from_sockets,
};
use timely::communication::{Allocator, Hooks};
use timely::worker::Worker;

use super::meeting::meet;
use super::port::{Port, Site};
use super::socket::{Link, Socket};
use super::{Codec, Lost, Processes, StartError};
use crate::panic::message;

/// The number of empty buffers kept per connection.
const SPARE_BUFFERS: usize = 2;
/// How long a process that ends waits for each other one to end as well.
const GRACE: Duration = Duration::from_secs(5);

/// The worker of the caller's thread, and what else was started.
///
/// When it is dropped, this worker leaves, and all workers of this process end. In process 0 that ends the workers of
/// the other processes too.
pub(crate) struct Carrier<B> {
    /// Present until this is dropped.
    worker: Option<Worker>,
    port: Port<B>,
    threads: Vec<JoinHandle<()>>,
    network: Option<Network>,
}

/// The connections to other processes.
struct Network {
    threads: CommsGuard,
    connections: Vec<(TcpStream, Arc<Link>)>,
}

/// What becomes timely's part of a worker, in the worker's thread.
enum Builder {
    Process(ProcessBuilder),
    Tcp(TcpBuilder),
}

/// Starts `workers` workers in this process, or in each of several. All but the first one of this process run in
/// threads, each with its own future of `serve`. The first one is the caller's: in process 0 it is worker 0, which the
/// others serve, and in other processes the caller runs `serve` too.
pub(crate) fn start<B, S, F>(
    workers: usize,
    processes: Option<Processes>,
    codec: Arc<dyn Codec<B>>,
    serve: S,
) -> Result<Carrier<B>, StartError>
where
    B: Send + 'static,
    S: Fn(Port<B>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), Lost>>,
{
    if workers == 0 {
        return Err(StartError::NoWorker);
    }
    let first = processes.as_ref().map_or(0, |processes| processes.process * workers);
    let serve = Arc::new(serve);
    let (mut threads, mut seats) = (Vec::new(), Vec::new());
    for me in first + 1..first + workers {
        // The thread ends if it gets nothing to build.
        let (seat, builder) = channel::<(Builder, Site)>();
        let (codec, serve) = (Arc::clone(&codec), Arc::clone(&serve));
        let work = move || {
            let Ok((builder, site)) = builder.recv() else { return };
            let (mut worker, port) = build(builder, site, codec);
            let served = catch_unwind(AssertUnwindSafe(|| block_on(&mut worker, serve(port.clone()))));
            if let Err(panic) = served {
                port.fail(&format!("{} panicked: {}", port.name(), message(panic.as_ref())));
            }
            port.leave();
        };
        let thread = std::thread::Builder::new().name(format!("weft worker {me}")).spawn(work);
        threads.push(thread.map_err(|error| StartError::Thread(me, error.to_string()))?);
        seats.push(seat);
    }
    let (builders, site, network) = connect(workers, processes)?;
    let mut builders = builders.into_iter();
    let own = builders.next().ok_or(StartError::NoWorker)?;
    for (seat, builder) in seats.iter().zip(builders) {
        // The thread waits for it.
        let _ = seat.send((builder, site.clone()));
    }
    let (worker, port) = build(own, site, codec);
    Ok(Carrier { worker: Some(worker), port, threads, network })
}

/// Connects the workers of this process to each other and to those of other processes.
fn connect(
    workers: usize,
    processes: Option<Processes>,
) -> Result<(Vec<Builder>, Site, Option<Network>), StartError> {
    let mut hooks = Hooks::default();
    hooks.refill.limit = Some(SPARE_BUFFERS);
    let here = ProcessBuilder::new_typed_vector(workers, hooks.refill.clone(), None);
    let Some(processes) = processes else {
        let site = Site { local: 0..workers, links: Arc::default(), addresses: Arc::default() };
        return Ok((here.into_iter().map(Builder::Process).collect(), site, None));
    };
    let (process, addresses) = (processes.process, Arc::new(processes.addresses.clone()));
    let failed = |error: std::io::Error| StartError::Network(error.to_string());
    let (mut sockets, mut links, mut connections) = (Vec::new(), Vec::new(), Vec::new());
    for stream in meet(processes, workers)? {
        let link = stream.as_ref().map(|_| Arc::<Link>::default());
        if let (Some(stream), Some(link)) = (&stream, &link) {
            connections.push((stream.try_clone().map_err(failed)?, Arc::clone(link)));
        }
        sockets.push(stream.zip(link.clone()).map(|(stream, link)| Socket::new(stream, link)));
        links.push(link);
    }
    let (builders, threads) =
        initialize_networking_from_sockets(here, sockets, process, workers, hooks).map_err(failed)?;
    let local = process * workers..(process + 1) * workers;
    let site = Site { local, links: Arc::new(links), addresses };
    Ok((builders.into_iter().map(Builder::Tcp).collect(), site, Some(Network { threads, connections })))
}

/// Builds a worker in its thread. Waits for the other workers of this process.
fn build<B: Send + 'static>(builder: Builder, site: Site, codec: Arc<dyn Codec<B>>) -> (Worker, Port<B>) {
    let allocator = match builder {
        Builder::Process(builder) => Allocator::Process(builder.build()),
        Builder::Tcp(builder) => Allocator::Tcp(builder.build()),
    };
    let worker = Worker::new(WorkerConfig::default(), allocator, Some(Instant::now()));
    // There is no dataflow: what arrives only wakes the worker.
    let nobody = Rc::from([usize::MAX]);
    let port = Port::new(&worker, nobody, site, codec);
    (worker, port)
}

/// Whether a future that waits is to be polled again without an event.
#[derive(Default)]
pub(super) struct Again(AtomicBool);

impl Again {
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a future to its end. The worker sleeps while the future waits for other workers.
fn block_on<F: Future>(worker: &mut Worker, work: F) -> F::Output {
    let mut work = pin!(work);
    let again = Arc::<Again>::default();
    let waker = Waker::from(Arc::clone(&again));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = work.as_mut().poll(&mut context) {
            return output;
        }
        if again.take() {
            worker.step();
            std::thread::yield_now();
        } else {
            worker.step_or_park(None);
        }
    }
}

impl<B> Carrier<B> {
    /// The end of the caller's worker.
    pub(crate) fn port(&self) -> &Port<B> {
        &self.port
    }

    /// Runs a future in the caller's thread until it is complete.
    pub(crate) fn block_on<F: Future>(&mut self, work: F) -> F::Output {
        match &mut self.worker {
            Some(worker) => block_on(worker, work),
            None => unreachable!("the worker is there until the carrier is dropped"),
        }
    }
}

impl<B> Drop for Carrier<B> {
    fn drop(&mut self) {
        self.port.leave();
        let leaks = std::thread::panicking() && self.network.is_some();
        if leaks {
            // Timely would panic in all threads of the connections, and once more here, which would abort the process.
            // Therefore leak its parts. The others know already that this worker panics.
            std::mem::forget(self.worker.take());
        }
        self.worker = None;
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
        if let Some(Network { threads, connections }) = self.network.take() {
            close(&connections);
            if leaks {
                std::mem::forget(threads);
            }
        }
    }
}

/// Closes connections after the other processes have ended theirs, or have had enough time.
fn close(connections: &[(TcpStream, Arc<Link>)]) {
    let deadline = Instant::now() + GRACE;
    for (stream, link) in connections {
        link.await_end(deadline.saturating_duration_since(Instant::now()));
        let _ = stream.shutdown(Shutdown::Both);
    }
}

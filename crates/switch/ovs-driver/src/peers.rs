//! What the drivers of all switches share: the way to dial them, the memory that they may take, and the threads that decode
//! what they send.

use std::fmt;
use std::io;
use std::sync::Arc;

use peer_connection::{Dial, MemoryBudget};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::config::{Config, Timing};
use crate::handle::{Handle, spawn_within};
use switch_model::Event;

/// Shared by the drivers of all switches. Dropping it ends the tasks of its drivers.
pub struct Peers {
    dialler: Arc<dyn Dial>,
    memory: MemoryBudget,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl Peers {
    /// Switches that are reached by this dialler, and together take at most so many bytes beyond what is expected of them.
    /// `threads` threads do nothing but talk to them: a switch that floods its driver delays no one but other switches. They
    /// call `before_sleep` whenever they run out of work.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn start(
        dialler: Arc<dyn Dial>,
        threads: usize,
        memory: usize,
        before_sleep: fn(),
    ) -> io::Result<Peers> {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(threads).thread_name("switches").on_thread_park(before_sleep).enable_all();
        let threads = runtime.build()?;
        Ok(Peers { dialler, memory: MemoryBudget::new(memory), runtime: Some(threads) })
    }

    /// The memory that they share.
    pub fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// The threads that serve switches and nothing else.
    pub fn threads(&self) -> Option<&tokio::runtime::Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }

    /// Starts the driver of a switch, as [`spawn_with`](crate::spawn_with) does.
    pub fn spawn(&self, config: Config, timing: Timing, events: mpsc::Sender<(String, Event)>) -> Handle {
        let _threads = self.runtime.as_ref().map(Runtime::enter);
        let memory = self.memory.peer(config.name.as_str());
        spawn_within(config, timing, self.dialler.clone(), memory, events)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // A task may drop it, and must not wait for the threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

//! Keeps the tasks of a driver running. None of them should end: if one does, usually by a panic, all are stopped and
//! restarted after a delay, and the owner receives an event.

use std::any::Any;
use std::collections::HashMap;
use std::time::Duration;

use peer_connection::Reconnect;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};

/// The tasks of one driver, each with a name for errors. Dropping them aborts them.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl Tasks {
    /// Starts a task.
    pub(crate) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Waits until one of the tasks ends, and returns its name and the reason.
    async fn next_end(&mut self) -> String {
        let (id, reason) = match self.running.join_next_with_id().await {
            Some(Ok((id, ()))) => (id, "it returned".to_owned()),
            Some(Err(error)) => (error.id(), end_of(error)),
            None => return "the driver has no tasks".to_owned(),
        };
        format!("the task {} of the driver ended: {reason}", self.names.get(&id).unwrap_or(&"(unnamed)"))
    }
}

fn end_of(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => format!("panic: {}", panic_text(&*panic)),
        Err(error) => error.to_string(),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// Runs tasks until `stop` is sent or dropped, and returns when all of them have ended. `start` starts them, at first
/// and after each failure. `failed` receives the reason and the delay before the restart. The delay doubles with each
/// further failure, within the two limits.
pub(crate) async fn supervise(
    (shortest, longest): (Duration, Duration),
    mut stop: oneshot::Receiver<()>,
    mut start: impl FnMut() -> Tasks,
    mut failed: impl FnMut(String, Duration),
) {
    let mut restart = Reconnect::new(shortest, longest);
    loop {
        let mut tasks = start();
        restart.connected();
        let why = tokio::select! {
            why = tasks.next_end() => Some(why),
            // A dropped sender means stop too.
            _ = &mut stop => None,
        };
        tasks.running.shutdown().await;
        let Some(why) = why else { return };
        let delay = restart.failed(&why).delay;
        failed(why, delay);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = &mut stop => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::mpsc;

    const LIMITS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

    /// Sets a flag when it is dropped.
    struct Guard(Arc<AtomicUsize>);

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_end_are_started_again_with_growing_delays_and_stopped_at_the_end() {
        let (stop, stopped) = oneshot::channel();
        let (reasons, mut told) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicUsize::new(0));
        let (mut starts, guard) = (0, ended.clone());
        let start = move || {
            starts += 1;
            let (number, guard) = (starts, Guard(guard.clone()));
            let mut tasks = Tasks::default();
            tasks.spawn("lasting", async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            tasks.spawn("failing", async move {
                match number {
                    1 => {}
                    2..=6 => panic!("failure {number}"),
                    _ => std::future::pending::<()>().await,
                }
            });
            tasks
        };
        let failed = move |why, delay| {
            let _ = reasons.send((why, delay));
        };
        let supervisor = tokio::spawn(supervise(LIMITS, stopped, start, failed));
        let mut delays = Vec::new();
        for number in 1..=6 {
            let (why, delay): (String, Duration) = told.recv().await.expect("a failure");
            let reason =
                if number == 1 { "it returned".to_owned() } else { format!("panic: failure {number}") };
            assert_eq!(why, format!("the task failing of the driver ended: {reason}"));
            assert_eq!(ended.load(Ordering::Relaxed), number, "the other task was stopped too");
            delays.push(delay);
        }
        assert!(delays[5] > delays[0] * 4, "{delays:?}");
        drop(stop);
        supervisor.await.expect("no panic");
        // The tasks of the last start count only if they started before the stop.
        assert!((6..=7).contains(&ended.load(Ordering::Relaxed)));
    }
}

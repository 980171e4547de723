//! Notifies systemd (`sd_notify(3)`) that the controller serves, reads its configuration again, stops, and is alive.
//! Without systemd, it notifies nobody.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::Instant;
use tracing::{debug, error};

use crate::activity::Activity;

/// How often in the time of the watchdog the controller says that it is alive.
const TIMES: u32 = 4;

/// The controller serves: after its start, and after it has read its configuration again.
pub(crate) fn serves() {
    tell(&[NotifyState::Ready]);
}

/// It reads its configuration again, until it [serves].
pub(crate) fn reloads() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => debug!(%error, "systemd is not told of a reload"),
    }
}

/// It stops.
pub(crate) fn stops() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!(%error, "systemd cannot be told of the state of the service");
    }
}

/// Says that the controller is alive for as long as its engine thread makes progress, if systemd wants to know. Otherwise systemd
/// restarts it: a controller that answers and computes nothing is worse than none. Never completes.
pub(crate) async fn stay_alive(activity: Activity) {
    match sd_notify::watchdog_enabled() {
        Some(limit) => say_alive(activity, limit, || tell(&[NotifyState::Watchdog])).await,
        None => std::future::pending().await,
    }
}

/// Says it as often as a watchdog with this limit needs.
async fn say_alive(activity: Activity, limit: Duration, say: impl Fn()) {
    loop {
        match activity.stuck(Instant::now().into_std()) {
            None => say(),
            Some(time) if time > limit / 2 => {
                error!(
                    "the engine has made no progress for {time:?}; systemd restarts the controller after {limit:?}"
                );
            }
            Some(_) => {}
        }
        tokio::time::sleep(limit / TIMES).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::activity::Work;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Time is virtual here: it passes when nothing can run. The thread that works is a real one.
    #[tokio::test(start_paused = true)]
    async fn the_watchdog_of_an_engine_that_hangs_runs_out_and_that_of_one_that_works_does_not() {
        let (activity, said) = (Activity::default(), Arc::new(AtomicU32::new(0)));
        let counted = said.clone();
        let saying = say_alive(activity.clone(), LIMIT, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let saying = tokio::spawn(saying);
        let in_limit = async || {
            let before = said.load(Ordering::SeqCst);
            tokio::time::sleep(LIMIT).await;
            said.load(Ordering::SeqCst) - before
        };
        assert!(in_limit().await >= TIMES, "it rests");
        let (begun, begins) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let engine = std::thread::spawn(move || {
            activity.begin(Work::Transaction("alice".to_owned()));
            begun.send(()).unwrap();
            // It hangs.
            let _ = released.recv();
            activity.rest();
        });
        begins.recv().unwrap();
        assert!(in_limit().await <= 1, "at most once, when it began");
        assert_eq!(in_limit().await, 0);
        drop(release);
        engine.join().unwrap();
        assert!(in_limit().await >= TIMES - 1);
        saying.abort();
    }
}

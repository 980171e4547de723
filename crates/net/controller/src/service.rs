//! Notifies systemd (`sd_notify(3)`) that the controller serves, reads its configuration again, stops, and is alive.
//! Without systemd, it notifies nobody.

use std::time::Instant;

use sd_notify::NotifyState;
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
    let Some(limit) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    loop {
        match activity.stuck(Instant::now()) {
            None => tell(&[NotifyState::Watchdog]),
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

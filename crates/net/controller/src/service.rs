//! What systemd is told of its service (`sd_notify(3)`): that the controller serves, reads its configuration again, stops, and is alive.
//! Without systemd, nothing is told.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tracing::{debug, error};

use crate::activity::{Activity, Look};

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
    let mut pulse = Pulse::default();
    loop {
        match pulse.stuck(activity.look(), Instant::now()) {
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

/// What was last seen of the engine thread, and since when it is the same.
#[derive(Debug, Default)]
struct Pulse(Option<(Look, Instant)>);

impl Pulse {
    /// For how long the thread has been at one point of its work; `None` if it has gone on since the last look, or rests.
    fn stuck(&mut self, look: Option<Look>, now: Instant) -> Option<Duration> {
        let since = self.0.filter(|(last, _)| Some(*last) == look).map(|(_, since)| since);
        self.0 = look.map(|look| (look, since.unwrap_or(now)));
        Some(now.saturating_duration_since(since?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Work;

    #[test]
    fn a_thread_that_counts_rows_or_takes_up_other_work_is_alive() {
        let (activity, begun) = (Activity::default(), Instant::now());
        let mut pulse = Pulse::default();
        let mut stuck = |activity: &Activity, seconds| {
            let now = begun + Duration::from_secs(seconds);
            pulse.stuck(activity.look(), now).map(|time| time.as_secs())
        };
        assert_eq!([stuck(&activity, 0), stuck(&activity, 50)], [None; 2], "it rests");
        activity.begin(Work::Journal);
        assert_eq!(stuck(&activity, 60), None);
        assert_eq!([stuck(&activity, 70), stuck(&activity, 90)], [Some(10), Some(30)]);
        activity.begin(Work::Transaction("alice".to_owned()));
        assert_eq!(stuck(&activity, 100), None);
        activity.progress().add_rows(7);
        assert_eq!(stuck(&activity, 200), None, "a long derivation counts rows");
        assert_eq!(stuck(&activity, 210), Some(10));
        activity.rest();
        assert_eq!(stuck(&activity, 220), None);
    }
}

//! Backoff.

use std::time::Duration;

use crate::line_protocol::Lines;
use peer_connection::{Connection, Endpoint, InMemoryNetwork, PeerMemory, Reconnect, Retry, Timeouts};
use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Delays before jitter: doubling from the shortest to the longest.
fn whole_delays() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(SHORTEST), |delay| Some((*delay * 2).min(LONGEST)))
}

fn assert_jittered(delay: Duration, whole: Duration) {
    // Delays are computed in single precision.
    let tolerance = Duration::from_micros(1);
    assert!(
        (whole / 2..=whole + tolerance).contains(&(delay + tolerance / 2)),
        "{delay:?} is not from {whole:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_become_rarer_until_a_connection_lasts() {
    let network = InMemoryNetwork::default();
    let endpoint = Endpoint::Unix("peer".into());
    let timeouts = Timeouts {
        probe_interval: Duration::MAX,
        probe_timeout: Duration::MAX,
        write_timeout: Duration::MAX,
        message_timeout: None,
    };
    let dial = async || {
        let deadline = Instant::now() + Duration::from_secs(1);
        Connection::open(&network, &endpoint, deadline, Lines, timeouts, PeerMemory::default().account())
            .await
    };
    let mut reconnect = Reconnect::new(SHORTEST, LONGEST);
    let mut delays = whole_delays();

    // Nobody listens.
    for attempt in 0..4 {
        let why = dial().await.unwrap_err().to_string();
        let Retry { delay, report } = reconnect.failed(&why);
        assert_jittered(delay, delays.next().unwrap());
        assert_eq!(report, attempt == 0, "the same reason is reported once");
        tokio::time::sleep(delay).await;
    }
    // The peer accepts connections and closes them before they have lasted.
    let mut listener = network.listen(endpoint.clone());
    for lasts in [Duration::ZERO, Duration::ZERO, Duration::from_millis(4999)] {
        let mut connection = dial().await.unwrap();
        reconnect.connected();
        let server = listener.accept().await.unwrap();
        tokio::time::sleep(lasts).await;
        drop(server);
        let why = connection.receive().await.unwrap_err().to_string();
        let Retry { delay, report } = reconnect.failed(&why);
        assert_jittered(delay, delays.next().unwrap());
        assert!(report, "the end of each connection is reported");
    }
    // It works again.
    let mut connection = dial().await.unwrap();
    reconnect.connected();
    let server = listener.accept().await.unwrap();
    tokio::time::sleep(LONGEST).await;
    drop(server);
    let why = connection.receive().await.unwrap_err().to_string();
    for whole in whole_delays().take(10) {
        assert_jittered(reconnect.failed(&why).delay, whole);
    }
}

#[test]
fn peers_that_failed_together_are_not_dialled_together() {
    let delays: Vec<Duration> =
        (0..100).map(|_| Reconnect::new(LONGEST, LONGEST).failed("why").delay).collect();
    for delay in &delays {
        assert_jittered(*delay, LONGEST);
    }
    assert!(delays.iter().any(|delay| *delay < LONGEST * 5 / 8), "{delays:?}");
    assert!(delays.iter().any(|delay| *delay > LONGEST * 7 / 8), "{delays:?}");
}

#[test]
fn any_limits_are_possible() {
    for (shortest, longest) in [(Duration::ZERO, Duration::MAX), (Duration::MAX, Duration::MAX)] {
        let mut reconnect = Reconnect::new(shortest, longest);
        for _ in 0..100 {
            reconnect.failed("why");
        }
    }
    let short = Duration::from_millis(10);
    assert!(Reconnect::new(LONGEST, short).failed("why").delay <= short);
}

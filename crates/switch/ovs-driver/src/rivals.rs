//! Second connections of a switch that dials in. Each is refused, and a problem of the switch for a while.

use std::time::Duration;

use peer_connection::{Expected, Refused};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long it is a problem after the last attempt. Open vSwitch tries again after eight seconds at most.
const SHOWN: Duration = Duration::from_secs(30);

/// The last connection that was refused at one place.
type Place = watch::Receiver<Option<Refused>>;

/// The last refused connection at each place where the switch dials in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rivals {
    database: Option<Place>,
    openflow: Option<Place>,
    /// Until when a problem is shown.
    until: Option<Instant>,
}

impl Rivals {
    /// Those of a switch that is expected there.
    pub(crate) fn of([database, openflow]: &[Option<Expected>; 2]) -> Rivals {
        let place = |expected: &Option<Expected>| expected.as_ref().map(Expected::refused);
        Rivals { database: place(database), openflow: place(openflow), until: None }
    }

    /// Completes when another connection was refused, or when the last one is no problem any more. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let Rivals { database, openflow, until } = self;
        tokio::select! {
            () = refusal(database) => {}
            () = refusal(openflow) => {}
            () = tokio::time::sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => *until = None,
        }
    }

    /// The problem to report, for as long as it lasts.
    pub(crate) fn problem(&mut self) -> Option<String> {
        let places = [&self.database, &self.openflow].into_iter().flatten();
        let last = places.filter_map(|place| place.borrow().clone()).max_by_key(|refused| refused.at);
        let Refused { from, connected, at } = last.filter(|refused| refused.at.elapsed() < SHOWN)?;
        self.until = Some(at + SHOWN);
        Some(format!(
            "a second switch has dialled in from {from} with the certificate of this node, while the one from {connected} is connected; \
             it was refused. If two hosts have this certificate, give each its own. A switch that was cut off is admitted again within \
             twenty seconds"
        ))
    }
}

/// Waits until a connection is refused at a place, for ever if there is none.
async fn refusal(place: &mut Option<Place>) {
    if let Some(place) = place
        && place.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

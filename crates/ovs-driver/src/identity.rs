//! Checks that both endpoints of a switch lead to the same bridge.
//!
//! The database has the datapath id of the bridge, and the OpenFlow endpoint reports its own. Flows, groups and ports
//! are sent only while the two ids agree, so that a wrong socket in the configuration cannot change somebody else's
//! bridge.

use tokio::sync::watch;

/// The ids reported by both endpoints so far, shared between the tasks of a driver.
#[derive(Debug)]
pub(crate) struct Identity {
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// The id of the bridge in the database. Keeps its last value while the database is disconnected.
    database: Option<u64>,
    openflow: Answer,
    /// The last id that the OpenFlow endpoint reported. Keeps its value when the connection is lost.
    last_answer: Option<u64>,
}

/// The result of the last attempt to dial the OpenFlow endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// No attempt so far.
    NotTried,
    /// The attempt failed.
    None,
    /// The endpoint reported this datapath id.
    Id(u64),
}

/// The result of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The endpoints lead to the same bridge.
    Same,
    /// One of the ids is not known yet.
    Unknown,
    /// The endpoints lead to different bridges.
    Different { database: u64, openflow: u64 },
}

impl Identity {
    /// `known` is the id of the bridge until the database reports one.
    pub(crate) fn new(known: Option<u64>) -> Self {
        let state = State { database: known, openflow: Answer::NotTried, last_answer: None };
        Identity { state: watch::Sender::new(state) }
    }

    /// Records the id of the bridge in the database, or that it has none yet.
    pub(crate) fn database_says(&self, id: Option<u64>) {
        self.change(|state| state.database = id);
    }

    /// Records the id that the OpenFlow endpoint reported.
    pub(crate) fn openflow_says(&self, id: u64) {
        self.change(|state| (state.openflow, state.last_answer) = (Answer::Id(id), Some(id)));
    }

    /// Records that dialling the OpenFlow endpoint failed.
    pub(crate) fn openflow_is_silent(&self) {
        self.change(|state| state.openflow = Answer::None);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_if_modified(|state| {
            let before = *state;
            change(state);
            *state != before
        });
    }

    /// Compares the id in the database with the last one that the OpenFlow endpoint reported.
    pub(crate) fn verdict(&self) -> Verdict {
        let State { database, last_answer, .. } = *self.state.borrow();
        match (database, last_answer) {
            (Some(database), Some(openflow)) if database == openflow => Verdict::Same,
            (Some(database), Some(openflow)) => Verdict::Different { database, openflow },
            _ => Verdict::Unknown,
        }
    }

    /// Waits for the first attempt to dial the OpenFlow endpoint. Returns whether the driver may change the settings
    /// of the bridge in the database: either the endpoint does not answer yet, or it leads to the same bridge.
    pub(crate) async fn may_configure(&self) -> bool {
        let mut state = self.state.subscribe();
        let tried = state.wait_for(|state| state.openflow != Answer::NotTried).await;
        let answer = tried.map_or(Answer::None, |state| state.openflow);
        answer == Answer::None || self.verdict() == Verdict::Same
    }

    /// Completes when something has changed since the last call on this receiver.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }
}

/// See [`Identity::changes`].
pub(crate) struct Changes(watch::Receiver<State>);

impl Changes {
    /// Waits for the next change.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The driver is ending, and this task with it.
            std::future::pending::<()>().await;
        }
    }
}

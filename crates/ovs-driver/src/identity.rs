//! Whether both end points of a switch lead to the same bridge.
//!
//! The bridge in the database has a datapath id, and so has the OpenFlow end point. Flows, groups and ports are sent only
//! while the two ids agree: a wrong socket in the configuration must not change the bridge of somebody else.

use tokio::sync::watch;

/// What the two ends have said so far, shared between the tasks of a driver.
#[derive(Debug)]
pub(crate) struct Identity {
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// The id of the bridge in the database; the last one while the database is not connected.
    database: Option<u64>,
    openflow: Answer,
    /// The id that the OpenFlow end point gave last, also after the connection was lost.
    last_answer: Option<u64>,
}

/// What the OpenFlow end point said when it was last dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It has not been dialled yet.
    NotTried,
    /// There was no connection.
    None,
    /// This datapath id.
    Id(u64),
}

/// The result of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The end points lead to the same bridge.
    Same,
    /// One of the ids is not known yet.
    Unknown,
    /// The end points lead to different bridges.
    Different { database: u64, openflow: u64 },
}

impl Identity {
    /// `known` is the id that the bridge has until the database says one.
    pub(crate) fn new(known: Option<u64>) -> Self {
        let state = State { database: known, openflow: Answer::NotTried, last_answer: None };
        Identity { state: watch::Sender::new(state) }
    }

    /// The database says that the bridge has this id, or has none yet.
    pub(crate) fn database_says(&self, id: Option<u64>) {
        self.change(|state| state.database = id);
    }

    /// The OpenFlow end point gave this id.
    pub(crate) fn openflow_says(&self, id: u64) {
        self.change(|state| (state.openflow, state.last_answer) = (Answer::Id(id), Some(id)));
    }

    /// The OpenFlow end point was dialled without success.
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

    /// Compares the id in the database with the last one that the OpenFlow end point gave.
    pub(crate) fn verdict(&self) -> Verdict {
        let State { database, last_answer, .. } = *self.state.borrow();
        match (database, last_answer) {
            (Some(database), Some(openflow)) if database == openflow => Verdict::Same,
            (Some(database), Some(openflow)) => Verdict::Different { database, openflow },
            _ => Verdict::Unknown,
        }
    }

    /// Waits until the OpenFlow end point has been dialled once. Returns whether the settings of the bridge in the
    /// database may be changed: nothing answers yet, or the same bridge does.
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
            // The driver ends, and this task with it.
            std::future::pending::<()>().await;
        }
    }
}

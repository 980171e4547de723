//! Checks that both endpoints of a switch lead to the same bridge.
//!
//! The database has the datapath id of the bridge, and the OpenFlow endpoint reports its own. Flows, groups and ports
//! are sent only while the two ids agree, so that a wrong socket in the configuration cannot change somebody else's
//! bridge. The same holds for a bridge that belongs to somebody else (`ownership`).

use std::sync::Arc;

use tokio::sync::watch;

/// The ids reported by both endpoints so far, shared between the tasks of a driver.
#[derive(Debug)]
pub(crate) struct Identity {
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    /// The id of the bridge in the database. Keeps its last value while the database is disconnected.
    database: Option<u64>,
    openflow: Answer,
    /// The last id that the OpenFlow endpoint reported. Keeps its value when the connection is lost.
    last_answer: Option<u64>,
    standing: Standing,
}

/// Whether the bridge is the driver's. Keeps its last value while the database is disconnected.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Unknown,
    Own,
    /// Why it is not.
    Other(Arc<str>),
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
    /// The endpoints lead to the same bridge, and it is the driver's.
    Same,
    /// One of the ids, or whose the bridge is, is not known yet.
    Unknown,
    /// The endpoints lead to different bridges.
    Different { database: u64, openflow: u64 },
    /// The bridge is not the driver's.
    Withheld,
}

impl Identity {
    /// `known` is the id of the bridge until the database reports one. The bridge `may_be_others` if its mark has to be read first.
    pub(crate) fn new(known: Option<u64>, may_be_others: bool) -> Self {
        let standing = if may_be_others { Standing::Unknown } else { Standing::Own };
        let state = State { database: known, openflow: Answer::NotTried, last_answer: None, standing };
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
            let before = state.clone();
            change(state);
            *state != before
        });
    }

    /// Records that the bridge is the driver's.
    pub(crate) fn is_own(&self) {
        self.change(|state| state.standing = Standing::Own);
    }

    /// Records why the bridge is not the driver's.
    pub(crate) fn is_others(&self, why: &str) {
        self.change(|state| state.standing = Standing::Other(why.into()));
    }

    /// Why the bridge is not the driver's; `None` if it is, or if that is not known.
    pub(crate) fn withheld(&self) -> Option<Arc<str>> {
        match &self.state.borrow().standing {
            Standing::Other(why) => Some(why.clone()),
            Standing::Own | Standing::Unknown => None,
        }
    }

    /// Whether the driver may write to the bridge.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.state.borrow().standing {
            Standing::Own => {}
            Standing::Unknown => return Verdict::Unknown,
            Standing::Other(_) => return Verdict::Withheld,
        }
        self.end_points()
    }

    /// Compares the id in the database with the last one that the OpenFlow endpoint reported.
    fn end_points(&self) -> Verdict {
        let State { database, last_answer, .. } = *self.state.borrow();
        match (database, last_answer) {
            (Some(database), Some(openflow)) if database == openflow => Verdict::Same,
            (Some(database), Some(openflow)) => Verdict::Different { database, openflow },
            _ => Verdict::Unknown,
        }
    }

    /// Whether the last attempt to dial the OpenFlow endpoint failed.
    pub(crate) fn openflow_fails(&self) -> bool {
        self.state.borrow().openflow == Answer::None
    }

    /// Waits for the first attempt to dial the OpenFlow endpoint. Returns whether the driver may change the settings
    /// of the bridge in the database: either the endpoint does not answer yet, or it leads to the same bridge.
    pub(crate) async fn may_configure(&self) -> bool {
        let mut state = self.state.subscribe();
        let tried = state.wait_for(|state| state.openflow != Answer::NotTried).await;
        let answer = tried.map_or(Answer::None, |state| state.openflow);
        answer == Answer::None || self.end_points() == Verdict::Same
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

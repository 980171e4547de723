//! The role of the driver at the switch (OpenFlow 1.5, sections 6.3.6, 7.3.8 and 7.4.4): it is the primary controller, so that a switch
//! takes no change from a controller that another one has replaced.

use openflow_rs::message::{Role, RoleRequest};
use openflow_rs::{Body, Message};

use super::connection::SessionError;
use super::error;
use super::session::Session;
use crate::wire::kind;
use openflow_connection::Frame;

/// No short id.
const NO_SHORT_ID: u32 = u32::MAX;
/// The error of a request with an old generation, as `error` names it.
const STALE: &str = "OFPRRFC_STALE";

impl Session {
    /// Becomes the primary controller. Fails if another one has become that with a later generation than `epoch`. A switch without
    /// roles needs none.
    pub(crate) async fn become_primary(&mut self, epoch: u64) -> Result<(), SessionError> {
        let role = RoleRequest { role: Role::Primary, short_id: NO_SHORT_ID, generation_id: epoch };
        let refusal = self.ask_for_role(Body::RoleRequest(role)).await?;
        match refusal {
            Ok(()) => Ok(()),
            Err(why) if why.contains(STALE) => Err(SessionError::Superseded { epoch }),
            Err(why) => {
                tracing::debug!(why, "the switch has no roles for controllers");
                Ok(())
            }
        }
    }

    /// Whether another controller has become the primary one.
    pub(super) fn check_role(&self) -> Result<(), SessionError> {
        if self.is_demoted() { Err(SessionError::Demoted) } else { Ok(()) }
    }
}

/// Whether a message makes the driver a secondary controller.
pub(super) fn demotes(frame: &Frame) -> bool {
    frame.header.kind == kind::ROLE_STATUS
        && matches!(
            Message::decode(&frame.bytes).map(|message| message.body),
            Ok(Body::RoleStatus(status)) if status.role == Role::Secondary
        )
}

/// The answer to a role request, or why the switch refuses it; `None` if the frame is neither.
pub(super) fn answer(frame: &Frame) -> Option<Result<(), String>> {
    match frame.header.kind {
        kind::ROLE_REPLY => Some(Ok(())),
        kind::ERROR => Some(Err(error::describe(frame))),
        _ => None,
    }
}

//! The roles of the controllers of a fake switch (OpenFlow 1.5, section 6.3.6).

use std::collections::BTreeMap;

use openflow_rs::message::{Role, RoleReason, RoleRequest, RoleStatus};
use openflow_rs::{Body, Message};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::table::Refusal;

/// The connections, and which one is that of the primary controller.
#[derive(Default)]
pub(super) struct Roles {
    connections: BTreeMap<usize, Connection>,
    generation: Option<u64>,
    last: usize,
}

struct Connection {
    role: Role,
    notices: UnboundedSender<Vec<u8>>,
}

impl Roles {
    /// A new connection: its number, and what it is told.
    pub(super) fn connect(&mut self) -> (usize, UnboundedReceiver<Vec<u8>>) {
        let (notices, receiver) = mpsc::unbounded_channel();
        self.last += 1;
        self.connections.insert(self.last, Connection { role: Role::Equal, notices });
        (self.last, receiver)
    }

    pub(super) fn disconnect(&mut self, number: usize) {
        self.connections.remove(&number);
    }

    /// What a restarted switch knows of the generation: nothing.
    pub(super) fn forget(&mut self) {
        self.generation = None;
    }

    /// Whether a connection may change the switch.
    pub(super) fn may_write(&self, number: usize) -> bool {
        self.connections.get(&number).is_none_or(|connection| connection.role != Role::Secondary)
    }

    /// Whether there is a primary controller.
    pub(super) fn has_primary(&self) -> bool {
        self.connections.values().any(|connection| connection.role == Role::Primary)
    }

    /// Serves a request.
    pub(super) fn request(&mut self, number: usize, request: RoleRequest) -> Result<RoleRequest, Refusal> {
        let RoleRequest { role, generation_id, .. } = request;
        if matches!(role, Role::Primary | Role::Secondary) {
            // Generations are compared around the circle.
            let is_stale =
                self.generation.is_some_and(|last| generation_id.wrapping_sub(last).cast_signed() < 0);
            if is_stale {
                return Err(Refusal::STALE_ROLE);
            }
            self.generation = Some(generation_id);
        }
        if role == Role::Primary {
            for (_, other) in self
                .connections
                .iter_mut()
                .filter(|(other, there)| **other != number && there.role == Role::Primary)
            {
                other.role = Role::Secondary;
                let (role, reason) = (Role::Secondary, RoleReason::PrimaryRequest);
                let body = Body::RoleStatus(RoleStatus { role, reason, generation_id });
                if let Ok(bytes) = (Message { xid: 0, body }).encode() {
                    // A connection that has ended is told nothing.
                    let _ = other.notices.send(bytes);
                }
            }
        }
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(request) };
        if role != Role::NoChange {
            connection.role = role;
        }
        let generation_id = self.generation.unwrap_or(u64::MAX);
        Ok(RoleRequest { role: connection.role, generation_id, ..request })
    }
}

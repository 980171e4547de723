//! `transport_zone`: transport nodes with tunnels between them.

use std::fmt;

use nlog_data::{Row, Value};
use serde::Serialize;

use crate::ObjectKey;
use crate::field::{Fields, Labels, number, one_of};
use crate::object::{Claim, ObjectKind};
use crate::transport_node::name_of;

/// Transport nodes with tunnels between them. Nodes of different zones have no tunnels. A node without a zone is in the
/// default zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransportZone {
    /// Its id; empty for the default zone.
    pub id: String,
    /// Its labels.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The form of its tunnel ports; `flow` by default.
    pub tunnels: TunnelForm,
    /// The MTU of the network between its nodes, in bytes; 1500 by default.
    pub mtu: u16,
}

/// The form of tunnel ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TunnelForm {
    /// One port for each encapsulation; flows set the peer of each frame.
    Flow,
    /// One port for each encapsulation and peer.
    Port,
}

impl TunnelForm {
    const NAMES: &[(&'static str, TunnelForm)] = &[("flow", TunnelForm::Flow), ("port", TunnelForm::Port)];

    /// The names of all forms, as in documents and rules.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TunnelForm::NAMES.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for TunnelForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(TunnelForm::NAMES, self))
    }
}

impl TransportZone {
    /// The minimum MTU of an IPv6 link.
    const MTU_MIN: u16 = 1280;
    const MTU_DEFAULT: u16 = 1500;

    /// The zone of nodes without a zone. It always exists.
    pub fn default_zone() -> TransportZone {
        TransportZone {
            id: String::new(),
            labels: Labels::new(),
            tunnels: TunnelForm::Flow,
            mtu: TransportZone::MTU_DEFAULT,
        }
    }

    /// The row of the zone, with its input table.
    pub fn row(&self) -> (&'static str, Row) {
        let text = |text: &str| Value::String(text.into());
        let row = vec![text(&self.id), text(&self.tunnels.to_string()), Value::Int(self.mtu.into())];
        ("transport_zone", row)
    }
}

impl ObjectKind for TransportZone {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let labels = fields.labels();
        let default = TransportZone::default_zone();
        let tunnels = fields.optional("tunnels", |value| one_of(value, TunnelForm::NAMES));
        let mtu = fields.optional("mtu", |value| number(value, TransportZone::MTU_MIN..=u16::MAX));
        let (tunnels, mtu) = (tunnels.unwrap_or(default.tunnels), mtu.unwrap_or(default.mtu));
        Some(TransportZone { id, labels, tunnels, mtu })
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn rows(&self) -> Vec<(&'static str, Row)> {
        vec![self.row()]
    }

    fn references(&self) -> Vec<(String, ObjectKey)> {
        Vec::new()
    }

    fn claims(&self) -> Vec<(String, Claim)> {
        Vec::new()
    }
}

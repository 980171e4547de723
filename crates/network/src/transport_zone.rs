//! `transport_zone`: transport nodes whose tunnel end points reach each other.

use std::fmt;

use nlog_data::{Row, Value};
use serde::Serialize;

use crate::ObjectKey;
use crate::field::{Fields, number, one_of};
use crate::object::{Claim, Described};
use crate::transport_node::name_of;

/// Transport nodes whose tunnel end points reach each other. There are tunnels inside a zone alone. Nodes that name none
/// are in the default zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransportZone {
    /// Its id; that of the default zone is empty.
    pub id: String,
    /// How its tunnels are made; by flow if not said.
    pub tunnels: TunnelForm,
    /// How large IP packets the network between its nodes carries, in bytes; 1500 if not said.
    pub mtu: u16,
}

/// How tunnels are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TunnelForm {
    /// One port for each encapsulation; flows say which peer a frame goes to.
    Flow,
    /// One port for each encapsulation and peer.
    Port,
}

impl TunnelForm {
    const NAMES: &[(&'static str, TunnelForm)] = &[("flow", TunnelForm::Flow), ("port", TunnelForm::Port)];

    /// What documents and rules call them.
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
    /// What IPv6 asks of every link.
    const MTU_MIN: u16 = 1280;
    const MTU_DEFAULT: u16 = 1500;

    /// The zone of nodes that name none. It is there without being applied.
    pub fn default_zone() -> TransportZone {
        TransportZone { id: String::new(), tunnels: TunnelForm::Flow, mtu: TransportZone::MTU_DEFAULT }
    }

    /// The row that the zone is to rules, with its table.
    pub fn row(&self) -> (&'static str, Row) {
        let text = |text: &str| Value::String(text.into());
        let row = vec![text(&self.id), text(&self.tunnels.to_string()), Value::Int(self.mtu.into())];
        ("transport_zone", row)
    }
}

impl Described for TransportZone {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let default = TransportZone::default_zone();
        let tunnels = fields.optional("tunnels", |value| one_of(value, TunnelForm::NAMES));
        let mtu = fields.optional("mtu", |value| number(value, TransportZone::MTU_MIN..=u16::MAX));
        let (tunnels, mtu) = (tunnels.unwrap_or(default.tunnels), mtu.unwrap_or(default.mtu));
        Some(TransportZone { id, tunnels, mtu })
    }

    fn id(&self) -> &str {
        &self.id
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

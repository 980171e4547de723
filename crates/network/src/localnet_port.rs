//! `localnet_port`: connects a logical switch to a physical network.

use nlog_data::{Row, Value};
use serde::Serialize;

use crate::field::{Fields, Labels, TAG_MAX, name, number};
use crate::object::{Claim, ObjectKind};
use crate::{Kind, ObjectKey};

/// Connects a logical switch to a VLAN of a physical network, on every host with a bridge mapping for that network. A VLAN
/// belongs to at most one switch. Between hosts, frames of the switch use the physical network instead of tunnels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocalnetPort {
    /// Its id. No `switch_port` can have the same id.
    pub id: String,
    /// Its labels.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The logical switch. It can have only one localnet port.
    pub switch: String,
    /// The physical network: a name in the `bridge_mappings` of transport nodes.
    pub network: String,
    /// The VLAN; 0, the default, means untagged frames.
    pub tag: u16,
}

impl ObjectKind for LocalnetPort {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let labels = fields.labels();
        let switch = fields.required("switch", name);
        let network = fields.required("network", name);
        let tag = fields.optional("tag", |value| number(value, 0..=TAG_MAX)).unwrap_or(0);
        Some(LocalnetPort { id, labels, switch: switch?, network: network?, tag })
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn rows(&self) -> Vec<(&'static str, Row)> {
        let text = |text: &str| Value::String(text.into());
        let row = vec![text(&self.id), text(&self.switch), text(&self.network), Value::Int(self.tag.into())];
        vec![("localnet_port", row)]
    }

    fn references(&self) -> Vec<(String, ObjectKey)> {
        vec![("switch".to_owned(), ObjectKey::new(Kind::Switch, &self.switch))]
    }

    fn claims(&self) -> Vec<(String, Claim)> {
        vec![
            ("id".to_owned(), Claim::PortId(self.id.clone())),
            ("switch".to_owned(), Claim::Localnet(self.switch.clone())),
            ("tag".to_owned(), Claim::Vlan(self.network.clone(), self.tag)),
        ]
    }
}

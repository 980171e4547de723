//! `localnet_port`: where a logical switch meets a physical network.

use nlog_data::{Row, Value};
use serde::Serialize;

use crate::field::{Fields, TAG_MAX, name, number};
use crate::object::{Claim, Described};
use crate::{Kind, ObjectKey};

/// Joins a logical switch to a VLAN of a physical network, which is no other switch's, on every host that has a bridge mapping of that network.
/// Between hosts the switch's frames then go over the physical network, not through tunnels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocalnetPort {
    /// Its id; no `switch_port` has the same.
    pub id: String,
    /// The switch; it has no other localnet port.
    pub switch: String,
    /// The physical network, as `bridge_mappings` of transport nodes call it.
    pub network: String,
    /// The VLAN; 0: untagged frames, which is so if not said.
    pub tag: u16,
}

impl Described for LocalnetPort {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let switch = fields.required("switch", name);
        let network = fields.required("network", name);
        let tag = fields.optional("tag", |value| number(value, 0..=TAG_MAX)).unwrap_or(0);
        Some(LocalnetPort { id, switch: switch?, network: network?, tag })
    }

    fn id(&self) -> &str {
        &self.id
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

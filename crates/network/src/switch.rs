//! `switch`: a logical switch.

use nlog_data::{Row, Value};
use serde::Serialize;

use crate::ObjectKey;
use crate::field::{Fields, Labels, name};
use crate::object::{Claim, ObjectKind};

/// A logical switch: an Ethernet segment that spans hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Switch {
    /// Its id.
    pub id: String,
    /// Its labels.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The tenant that owns it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl ObjectKind for Switch {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let labels = fields.labels();
        let tenant = fields.optional("tenant", name);
        Some(Switch { id, labels, tenant })
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn rows(&self) -> Vec<(&'static str, Row)> {
        let tenant = self.tenant.as_deref().unwrap_or_default();
        vec![("logical_switch", vec![Value::String(self.id.as_str().into()), Value::String(tenant.into())])]
    }

    fn references(&self) -> Vec<(String, ObjectKey)> {
        Vec::new()
    }

    fn claims(&self) -> Vec<(String, Claim)> {
        Vec::new()
    }
}

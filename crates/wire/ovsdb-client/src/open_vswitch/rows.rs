//! Rows of the tables that describe bridges and their ports.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::Controller;
use crate::replica::MonitorSpec;
use crate::row::{ColumnError, Row};

/// A row of table `Interface`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The UUID of the row.
    pub uuid: Uuid,
    /// Unique name. For a network device, also the device's name.
    pub name: String,
    /// `""` or `system`, `internal`, `geneve`, `vxlan`, …
    pub interface_type: String,
    /// The `OpenFlow` port number: -1 if `ovs-vswitchd` could not create the interface, none if it has not tried yet.
    pub ofport: Option<i64>,
    /// The reason why `ovs-vswitchd` could not create it.
    pub error: Option<String>,
    /// Keys include `iface-id`.
    pub external_ids: BTreeMap<String, String>,
    /// Keys depend on the type.
    pub options: BTreeMap<String, String>,
    /// The Ethernet address in use, as text.
    pub mac_in_use: Option<String>,
    /// `up` or `down`; none if the interface has no device.
    pub link_state: Option<String>,
}

/// Whether an interface has its `OpenFlow` port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortStatus {
    /// Its port number.
    Assigned(u32),
    /// `ovs-vswitchd` could not create it (`ofport` -1).
    Failed {
        /// Column `error`.
        error: String,
    },
    /// `ovs-vswitchd` has not tried to create it yet.
    Pending,
}

impl Interface {
    /// The table.
    pub const TABLE: &str = "Interface";
    /// The columns that [`from_row`](Self::from_row) reads.
    pub(crate) const COLUMNS: &[&str] =
        &["name", "type", "ofport", "error", "external_ids", "options", "mac_in_use", "link_state"];

    /// Converts a row that has at least these columns.
    pub fn from_row(uuid: Uuid, row: &Row) -> Result<Self, ColumnError> {
        Ok(Interface {
            uuid,
            name: row.get("name")?,
            interface_type: row.get("type")?,
            ofport: row.get("ofport")?,
            error: row.get("error")?,
            external_ids: row.get("external_ids")?,
            options: row.get("options")?,
            mac_in_use: row.get("mac_in_use")?,
            link_state: row.get("link_state")?,
        })
    }

    /// The status according to `ofport` and `error`.
    pub fn status(&self) -> PortStatus {
        match (self.ofport.map(u32::try_from), &self.error) {
            (Some(Ok(ofport)), _) => PortStatus::Assigned(ofport),
            (_, Some(error)) => PortStatus::Failed { error: error.clone() },
            (Some(Err(_)), None) => {
                PortStatus::Failed { error: "no reason given; see the log of ovs-vswitchd".to_owned() }
            }
            (None, None) => PortStatus::Pending,
        }
    }
}

/// A row of table `Port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The UUID of the row.
    pub uuid: Uuid,
    /// Unique name.
    pub name: String,
    /// One interface, or several if the port is a bond.
    pub interfaces: BTreeSet<Uuid>,
    /// Keys of other programs.
    pub external_ids: BTreeMap<String, String>,
}

impl Port {
    /// The table.
    pub const TABLE: &str = "Port";
    /// The columns that [`from_row`](Self::from_row) reads.
    pub(crate) const COLUMNS: &[&str] = &["name", "interfaces", "external_ids"];

    /// Converts a row that has at least these columns.
    pub fn from_row(uuid: Uuid, row: &Row) -> Result<Self, ColumnError> {
        Ok(Port {
            uuid,
            name: row.get("name")?,
            interfaces: row.get("interfaces")?,
            external_ids: row.get("external_ids")?,
        })
    }
}

/// A row of table `Bridge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// The UUID of the row.
    pub uuid: Uuid,
    /// Unique name.
    pub name: String,
    /// `""` or `system`: the kernel's datapath; `netdev`: the one in `ovs-vswitchd`.
    pub datapath_type: String,
    /// Its OpenFlow datapath id, as 16 hexadecimal digits; none until `ovs-vswitchd` has created the bridge.
    pub datapath_id: Option<String>,
    /// `secure` or `standalone`; none means standalone.
    pub fail_mode: Option<String>,
    /// The `OpenFlow` versions accepted; none means all.
    pub protocols: BTreeSet<String>,
    /// Its ports.
    pub ports: BTreeSet<Uuid>,
    /// Its controllers.
    pub controllers: BTreeSet<Uuid>,
    /// The settings of its OpenFlow tables, by number.
    pub flow_tables: BTreeMap<i64, Uuid>,
    /// Further settings.
    pub other_config: BTreeMap<String, String>,
    /// Keys of other programs.
    pub external_ids: BTreeMap<String, String>,
}

impl Bridge {
    /// The table.
    pub const TABLE: &str = "Bridge";
    /// The columns that [`from_row`](Self::from_row) reads.
    pub(crate) const COLUMNS: &[&str] = &[
        "name",
        "datapath_type",
        "datapath_id",
        "fail_mode",
        "protocols",
        "ports",
        "controller",
        "flow_tables",
        "other_config",
        "external_ids",
    ];

    /// Converts a row that has at least these columns.
    pub fn from_row(uuid: Uuid, row: &Row) -> Result<Self, ColumnError> {
        Ok(Bridge {
            uuid,
            name: row.get("name")?,
            datapath_type: row.get("datapath_type")?,
            datapath_id: row.get("datapath_id")?,
            fail_mode: row.get("fail_mode")?,
            protocols: row.get("protocols")?,
            ports: row.get("ports")?,
            controllers: row.get("controller")?,
            flow_tables: row.get("flow_tables")?,
            other_config: row.get("other_config")?,
            external_ids: row.get("external_ids")?,
        })
    }
}

/// A row of table `Flow_Table`: the settings of an OpenFlow table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowTable {
    /// The most flows; none for no limit.
    pub flow_limit: Option<i64>,
    /// What happens to a flow too many: `refuse` or `evict`; none means `refuse`.
    pub overflow_policy: Option<String>,
    /// The fields by which flows are grouped for eviction: the largest group loses a flow.
    pub groups: BTreeSet<String>,
}

impl FlowTable {
    /// The table.
    pub const TABLE: &str = "Flow_Table";
    /// The columns that [`from_row`](Self::from_row) reads.
    pub(crate) const COLUMNS: &[&str] = &["flow_limit", "overflow_policy", "groups"];

    /// Converts a row that has at least these columns.
    pub fn from_row(row: &Row) -> Result<Self, ColumnError> {
        Ok(FlowTable {
            flow_limit: row.get("flow_limit")?,
            overflow_policy: row.get("overflow_policy")?,
            groups: row.get("groups")?,
        })
    }

    /// At most `limit` flows. Above, one that has a timeout is evicted: of the largest group of flows with equal values of
    /// `field`, the one that would time out first.
    pub fn evicting(limit: u32, field: &str) -> Self {
        FlowTable {
            flow_limit: Some(limit.into()),
            overflow_policy: Some("evict".to_owned()),
            groups: [field.to_owned()].into(),
        }
    }

    /// A row with these settings.
    pub fn row(&self) -> Row {
        Row::new(Self::TABLE)
            .with("flow_limit", self.flow_limit)
            .with("overflow_policy", self.overflow_policy.clone())
            .with("groups", self.groups.clone())
    }
}

/// The only row of table `Open_vSwitch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenVswitch {
    /// The UUID of the row.
    pub uuid: Uuid,
    /// Incremented by clients that wait for their change to be in force.
    pub next_cfg: i64,
    /// The `next_cfg` that `ovs-vswitchd` has applied.
    pub cur_cfg: i64,
    /// Keys include `system-id`.
    pub external_ids: BTreeMap<String, String>,
    /// The datapath types that the switch supports.
    pub datapath_types: BTreeSet<String>,
    /// The interface types that the switch lists. A listed type may still fail to work.
    pub iface_types: BTreeSet<String>,
    /// The version of Open vSwitch.
    pub ovs_version: Option<String>,
}

impl OpenVswitch {
    /// The table.
    pub const TABLE: &str = "Open_vSwitch";
    /// The columns that [`from_row`](Self::from_row) reads.
    pub(crate) const COLUMNS: &[&str] =
        &["next_cfg", "cur_cfg", "external_ids", "datapath_types", "iface_types", "ovs_version"];

    /// Converts a row that has at least these columns.
    pub fn from_row(uuid: Uuid, row: &Row) -> Result<Self, ColumnError> {
        Ok(OpenVswitch {
            uuid,
            next_cfg: row.get("next_cfg")?,
            cur_cfg: row.get("cur_cfg")?,
            external_ids: row.get("external_ids")?,
            datapath_types: row.get("datapath_types")?,
            iface_types: row.get("iface_types")?,
            ovs_version: row.get("ovs_version")?,
        })
    }

    /// `external_ids:system-id`, the switch's own name.
    pub fn system_id(&self) -> Option<&str> {
        self.external_ids.get("system-id").map(String::as_str)
    }
}

/// Monitors every column that the structs of this module read.
pub fn monitor() -> MonitorSpec {
    MonitorSpec::nothing()
        .table(Interface::TABLE, Interface::COLUMNS)
        .table(Port::TABLE, Port::COLUMNS)
        .table(Bridge::TABLE, Bridge::COLUMNS)
        .table(FlowTable::TABLE, FlowTable::COLUMNS)
        .table(Controller::TABLE, Controller::COLUMNS)
        .table(OpenVswitch::TABLE, OpenVswitch::COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datum;

    #[test]
    fn status_of_an_interface() {
        let row = |ofport: Option<i64>, error: Option<&str>| {
            let empty = || Datum::map::<&str, &str>([]);
            let row = Row::new("Interface")
                .with("name", "g")
                .with("type", "geneve")
                .with("mac_in_use", None::<i64>)
                .with("link_state", None::<String>);
            let row = row.with("external_ids", empty()).with("options", empty());
            let row = row.with("ofport", ofport).with("error", error);
            Interface::from_row(Uuid::nil(), &row).expect("all columns").status()
        };
        assert_eq!(row(Some(7), None), PortStatus::Assigned(7));
        assert_eq!(row(Some(-1), Some("why")), PortStatus::Failed { error: "why".to_owned() });
        assert!(matches!(row(Some(-1), None), PortStatus::Failed { .. }));
        assert_eq!(row(None, None), PortStatus::Pending);
    }
}

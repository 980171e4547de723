//! The schema of the fake database: the part of `Open_vSwitch` that describes bridges, their ports, their
//! controllers and the settings of their tables.

use std::sync::{Arc, LazyLock};

use ovsdb_client::open_vswitch::DATABASE;
use ovsdb_client::schema::Schema;
use serde_json::{Value, json};

/// The references that keep a row alive: table, column, and the table that the column refers to. The rows of
/// `Open_vSwitch` need none.
pub(super) const REFERENCES: &[(&str, &str, &str)] = &[
    ("Open_vSwitch", "bridges", "Bridge"),
    ("Open_vSwitch", "datapaths", "Datapath"),
    ("Datapath", "ct_zones", "CT_Zone"),
    ("CT_Zone", "timeout_policy", "CT_Timeout_Policy"),
    ("Bridge", "ports", "Port"),
    ("Bridge", "controller", "Controller"),
    ("Bridge", "flow_tables", "Flow_Table"),
    ("Port", "interfaces", "Interface"),
    ("Flow_Sample_Collector_Set", "bridge", "Bridge"),
    ("Flow_Sample_Collector_Set", "ipfix", "IPFIX"),
];

/// The table of the one row that is always there.
pub(super) const ROOT: &str = "Open_vSwitch";

/// The tables whose rows need no reference.
pub(super) const ROOTS: &[&str] = &[ROOT, "Flow_Sample_Collector_Set"];

/// The tables in which column `name` is unique and cannot be changed.
pub(super) const NAMED: &[&str] = &["Bridge", "Port", "Interface"];

/// A version of the schema that the fake can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaVersion {
    /// That of Open vSwitch 3.1: a conntrack zone has timeouts, and no limit.
    WithoutZoneLimits,
    /// That of Open vSwitch 3.3 and later: a conntrack zone has a limit too.
    WithZoneLimits,
}

/// A schema as `get_schema` returns it, and as types.
pub(super) struct Published {
    pub(super) notation: Value,
    pub(super) types: Schema,
}

/// The schema of a version, which all databases share.
pub(super) fn published(version: SchemaVersion) -> Arc<Published> {
    static WITHOUT: LazyLock<Arc<Published>> =
        LazyLock::new(|| Published::of(SchemaVersion::WithoutZoneLimits));
    static WITH: LazyLock<Arc<Published>> = LazyLock::new(|| Published::of(SchemaVersion::WithZoneLimits));
    match version {
        SchemaVersion::WithoutZoneLimits => WITHOUT.clone(),
        SchemaVersion::WithZoneLimits => WITH.clone(),
    }
}

impl Published {
    fn of(version: SchemaVersion) -> Arc<Published> {
        let notation = schema(version);
        let types = Schema::from_json(&notation).expect("the schema of the fake is well-formed");
        Arc::new(Published { notation, types })
    }
}

/// The result of `get_schema`.
fn schema(version: SchemaVersion) -> Value {
    let strings = || json!({"key": "string", "min": 0, "max": "unlimited"});
    let map = || json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"});
    let numbers = || json!({"key": "string", "value": "integer", "min": 0, "max": "unlimited"});
    let optional = |key: &str| json!({"key": key, "min": 0});
    let references = |table: &str, min: u8, max: Value| json!({"key": {"type": "uuid", "refTable": table}, "min": min, "max": max});
    let unlimited = || json!("unlimited");
    let mut zones =
        vec![("timeout_policy", references("CT_Timeout_Policy", 0, json!(1))), ("external_ids", map())];
    if version == SchemaVersion::WithZoneLimits {
        zones.push(("limit", optional("integer")));
    }
    let tables = [
        (
            "Open_vSwitch",
            vec![
                ("next_cfg", json!("integer")),
                ("cur_cfg", json!("integer")),
                ("bridges", references("Bridge", 0, unlimited())),
                (
                    "datapaths",
                    json!({"key": "string", "value": {"type": "uuid", "refTable": "Datapath"}, "min": 0, "max": "unlimited"}),
                ),
                ("external_ids", map()),
                ("other_config", map()),
                ("datapath_types", strings()),
                ("iface_types", strings()),
                ("ovs_version", optional("string")),
                ("system_type", optional("string")),
                ("system_version", optional("string")),
            ],
        ),
        (
            "Bridge",
            vec![
                ("name", json!("string")),
                ("datapath_type", json!("string")),
                ("datapath_id", optional("string")),
                ("datapath_version", json!("string")),
                ("fail_mode", optional("string")),
                ("protocols", strings()),
                ("ports", references("Port", 0, unlimited())),
                ("controller", references("Controller", 0, unlimited())),
                (
                    "flow_tables",
                    json!({"key": "integer", "value": {"type": "uuid", "refTable": "Flow_Table"}, "min": 0, "max": "unlimited"}),
                ),
                ("external_ids", map()),
                ("other_config", map()),
                ("status", map()),
            ],
        ),
        (
            "Port",
            vec![
                ("name", json!("string")),
                ("interfaces", references("Interface", 1, unlimited())),
                ("fake_bridge", json!("boolean")),
                ("tag", optional("integer")),
                ("trunks", json!({"key": "integer", "min": 0, "max": 4096})),
                ("external_ids", map()),
                ("other_config", map()),
            ],
        ),
        (
            "Interface",
            vec![
                ("name", json!("string")),
                ("type", json!("string")),
                ("options", map()),
                ("ofport", optional("integer")),
                ("ofport_request", optional("integer")),
                ("error", optional("string")),
                ("mac", optional("string")),
                ("mac_in_use", optional("string")),
                ("admin_state", optional("string")),
                ("link_state", optional("string")),
                ("mtu", optional("integer")),
                ("bfd", map()),
                ("bfd_status", map()),
                ("external_ids", map()),
                ("other_config", map()),
                ("statistics", numbers()),
                ("status", map()),
            ],
        ),
        (
            "Flow_Table",
            vec![
                ("name", optional("string")),
                ("flow_limit", optional("integer")),
                ("overflow_policy", optional("string")),
                ("groups", strings()),
                ("external_ids", map()),
            ],
        ),
        (
            "Datapath",
            vec![
                ("datapath_version", json!("string")),
                (
                    "ct_zones",
                    json!({"key": "integer", "value": {"type": "uuid", "refTable": "CT_Zone"}, "min": 0, "max": "unlimited"}),
                ),
                ("external_ids", map()),
            ],
        ),
        ("CT_Zone", zones),
        ("CT_Timeout_Policy", vec![("timeouts", numbers()), ("external_ids", map())]),
        (
            "Flow_Sample_Collector_Set",
            vec![
                ("id", json!("integer")),
                ("bridge", references("Bridge", 1, json!(1))),
                ("ipfix", references("IPFIX", 0, json!(1))),
                ("external_ids", map()),
            ],
        ),
        (
            "IPFIX",
            vec![
                ("targets", strings()),
                ("cache_active_timeout", optional("integer")),
                ("cache_max_flows", optional("integer")),
                ("external_ids", map()),
            ],
        ),
        (
            "Controller",
            vec![
                ("target", json!("string")),
                ("max_backoff", optional("integer")),
                ("is_connected", json!("boolean")),
                ("role", optional("string")),
                ("external_ids", map()),
                ("other_config", map()),
                ("status", map()),
            ],
        ),
    ];
    let number = match version {
        SchemaVersion::WithoutZoneLimits => "8.3.1",
        SchemaVersion::WithZoneLimits => "8.5.0",
    };
    let tables: serde_json::Map<String, Value> = tables
        .into_iter()
        .map(|(table, columns)| {
            let columns: serde_json::Map<String, Value> = columns
                .into_iter()
                .map(|(column, kind)| (column.to_owned(), json!({ "type": kind })))
                .collect();
            (table.to_owned(), json!({ "columns": columns, "isRoot": ROOTS.contains(&table) }))
        })
        .collect();
    json!({"name": DATABASE, "version": number, "tables": tables})
}

//! Creates and configures bridges.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use uuid::Uuid;

use super::{
    Bridge, Connecting, Controller, Ensured, Error, FlowTable, Interface, OpenVswitch, Plan, Port, carry_out,
};
use crate::row::{ColumnError, Row};
use crate::session::Client;
use crate::transact::{Condition, Mutation, Mutator, Operation, Outcomes};
use crate::value::{Atom, Datum};

/// The setting of a bridge without in-band control.
const DISABLE_IN_BAND: &str = "disable-in-band";

/// The desired state of a bridge. Settings that it does not mention stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeSpec {
    /// Its name.
    pub name: String,
    /// `system` or `netdev`.
    pub datapath_type: String,
    /// `secure` or `standalone`.
    pub fail_mode: String,
    /// The exact set of `OpenFlow` versions that it accepts.
    pub protocols: BTreeSet<String>,
    /// The settings of some of its OpenFlow tables.
    pub flow_tables: BTreeMap<u8, FlowTable>,
    /// Further settings. Other keys stay unchanged.
    pub other_config: BTreeMap<String, String>,
    /// The owner's OpenFlow connections: where it waits for them, or where it dials; `None` leaves its controllers as they are.
    pub connecting: Option<Connecting>,
    /// External ids that mark its owner. A bridge that exists without them is not changed ([`Error::Appeared`]). Other external ids
    /// stay unchanged.
    pub external_ids: BTreeMap<String, String>,
}

impl BridgeSpec {
    /// A bridge that forwards by its controller's flows only, and accepts `OpenFlow` 1.5 only.
    ///
    /// Without in-band control (`in-band.c` of Open vSwitch): if a bridge or its database dials a controller or a manager, hidden flows above
    /// all others would forward ARP and TCP of that address for every port, whatever the controller's flows say.
    pub fn secure(name: impl Into<String>, datapath_type: impl Into<String>) -> Self {
        BridgeSpec {
            name: name.into(),
            datapath_type: datapath_type.into(),
            fail_mode: "secure".to_owned(),
            protocols: ["OpenFlow15".to_owned()].into(),
            flow_tables: BTreeMap::new(),
            other_config: [(DISABLE_IN_BAND.to_owned(), "true".to_owned())].into(),
            connecting: None,
            external_ids: BTreeMap::new(),
        }
    }
}

/// Creates the bridge with its local port, or corrects its settings. Sends only a select if nothing has to change.
/// With a `patience`, waits until the change is in force.
pub async fn ensure_bridge(
    client: &Client,
    spec: &BridgeSpec,
    patience: Option<Duration>,
) -> Result<Ensured, Error> {
    let columns: Vec<&str> = Bridge::COLUMNS.iter().copied().chain(["_uuid"]).collect();
    let settings: Vec<&str> = FlowTable::COLUMNS.iter().copied().chain(["_uuid"]).collect();
    let controllers: Vec<&str> = Controller::COLUMNS.iter().copied().chain(["_uuid"]).collect();
    let reads = [
        Operation::select(Bridge::TABLE, vec![Condition::equal("name", spec.name.as_str())], &columns),
        Operation::select(OpenVswitch::TABLE, vec![], &["_uuid"]),
        Operation::select(FlowTable::TABLE, vec![], &settings),
        Operation::select(Controller::TABLE, vec![], &controllers),
    ];
    let (ensured, _) = carry_out(client, &reads, patience, |found| plan(spec, found)).await?;
    Ok(ensured)
}

fn plan(spec: &BridgeSpec, found: &Outcomes) -> Result<Plan<Ensured>, Error> {
    let root = found.rows(1).first().ok_or(Error::NotInitialised)?.uuid()?;
    let Some(row) = found.rows(0).first() else {
        return Ok(Plan::Send(creation(spec, root), Ensured::Created));
    };
    let bridge = Bridge::from_row(row.uuid()?, row)?;
    if spec.external_ids.iter().any(|(key, value)| bridge.external_ids.get(key) != Some(value)) {
        return Err(Error::Appeared { bridge: spec.name.clone() });
    }
    let mut wrong = wrong_settings(spec, &bridge);
    let mut guard = Row::new(Bridge::TABLE).with("name", spec.name.as_str());
    let mut operations = Vec::new();
    if let Some(tables) = flow_tables(spec, &bridge, found.rows(2), &mut operations)? {
        wrong = wrong.with("flow_tables", tables);
        // The settings of other tables stay.
        guard = guard.with("flow_tables", Datum::map(bridge.flow_tables.clone()));
    }
    if !wrong.is_empty() {
        operations.push(Operation::update(wrong, vec![Condition::uuid(bridge.uuid)]));
    }
    let missing = missing_settings(spec, &bridge);
    if !missing.is_empty() {
        // An insert keeps the value of an existing key.
        let keys = Datum::set(missing.keys().map(String::as_str).collect::<Vec<_>>());
        let mutations = vec![
            Mutation::new("other_config", Mutator::Delete, keys),
            Mutation::new("other_config", Mutator::Insert, missing),
        ];
        operations.push(Operation::mutate(Bridge::TABLE, vec![Condition::uuid(bridge.uuid)], mutations));
    }
    if let Some(connecting) = &spec.connecting {
        let rows = found.rows(3).iter().map(|row| Controller::from_row(row.uuid()?, row));
        let rows: Vec<Controller> = rows.collect::<Result<_, ColumnError>>()?;
        let own = rows.iter().filter(|row| bridge.controllers.contains(&row.uuid));
        operations.extend(connecting.corrections(bridge.uuid, own));
    }
    if operations.is_empty() {
        return Ok(Plan::Nothing(Ensured::Unchanged));
    }
    operations.insert(0, Operation::guard(bridge.uuid, guard));
    Ok(Plan::Send(operations, Ensured::Updated))
}

/// Creates the bridge in the database whose only row of `Open_vSwitch` is `root`.
fn creation(spec: &BridgeSpec, root: Uuid) -> Vec<Operation> {
    let attach = Mutation::new("bridges", Mutator::Insert, Datum::named_uuid("bridge"));
    let mut operations = Vec::new();
    let tables = spec.flow_tables.iter().map(|(number, settings)| {
        operations.push(Operation::insert_named(table_name(*number), settings.row()));
        (i64::from(*number), Atom::NamedUuid(table_name(*number)))
    });
    let tables = Datum::map(tables);
    let mut bridge = Row::new(Bridge::TABLE)
        .with("name", spec.name.as_str())
        .with("ports", Datum::named_uuid("port"))
        .with("datapath_type", spec.datapath_type.as_str())
        .with("fail_mode", spec.fail_mode.as_str())
        .with("protocols", spec.protocols.clone())
        .with("flow_tables", tables)
        .with("other_config", spec.other_config.clone())
        .with("external_ids", spec.external_ids.clone());
    if let Some(connecting) = &spec.connecting {
        let (insert, controllers) = connecting.creation();
        operations.extend(insert);
        bridge = bridge.with("controller", controllers);
    }
    operations.extend([
        Operation::insert_named(
            "interface",
            Row::new(Interface::TABLE).with("name", spec.name.as_str()).with("type", "internal"),
        ),
        Operation::insert_named(
            "port",
            Row::new(Port::TABLE)
                .with("name", spec.name.as_str())
                .with("interfaces", Datum::named_uuid("interface")),
        ),
        Operation::insert_named("bridge", bridge),
        Operation::mutate(OpenVswitch::TABLE, vec![Condition::uuid(root)], vec![attach]),
    ]);
    operations
}

/// The name by which a transaction refers to the settings of a table that it inserts.
fn table_name(number: u8) -> String {
    format!("table{number}")
}

/// The desired value of column `flow_tables` if it or one of the rows that it names differs, with the rows to insert. Rows
/// that lose their table go by themselves.
fn flow_tables(
    spec: &BridgeSpec,
    bridge: &Bridge,
    rows: &[Row],
    operations: &mut Vec<Operation>,
) -> Result<Option<Datum>, Error> {
    let mut tables: BTreeMap<i64, Atom> =
        bridge.flow_tables.iter().map(|(number, row)| (*number, Atom::Uuid(*row))).collect();
    for (number, settings) in &spec.flow_tables {
        let at = bridge.flow_tables.get(&i64::from(*number));
        let row = rows.iter().find(|row| row.uuid().ok().as_ref() == at);
        if row.map(FlowTable::from_row).transpose()?.as_ref() != Some(settings) {
            operations.push(Operation::insert_named(table_name(*number), settings.row()));
            tables.insert((*number).into(), Atom::NamedUuid(table_name(*number)));
        }
    }
    Ok((!operations.is_empty()).then(|| Datum::map(tables)))
}

/// The settings of column `other_config` that the bridge lacks.
fn missing_settings(spec: &BridgeSpec, bridge: &Bridge) -> BTreeMap<String, String> {
    let mut settings = spec.other_config.clone();
    settings.retain(|key, value| bridge.other_config.get(key) != Some(value));
    settings
}

/// The desired values of the columns that differ.
fn wrong_settings(spec: &BridgeSpec, bridge: &Bridge) -> Row {
    let mut wrong = Row::new(Bridge::TABLE);
    if normal_datapath_type(&bridge.datapath_type) != normal_datapath_type(&spec.datapath_type) {
        wrong = wrong.with("datapath_type", spec.datapath_type.as_str());
    }
    if bridge.fail_mode.as_deref() != Some(spec.fail_mode.as_str()) {
        wrong = wrong.with("fail_mode", spec.fail_mode.as_str());
    }
    if bridge.protocols != spec.protocols {
        wrong = wrong.with("protocols", spec.protocols.clone());
    }
    wrong
}

/// The empty string means `system`.
fn normal_datapath_type(datapath_type: &str) -> &str {
    if datapath_type.is_empty() { "system" } else { datapath_type }
}

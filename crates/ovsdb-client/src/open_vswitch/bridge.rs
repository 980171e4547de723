//! Creates and configures bridges.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Bridge, Ensured, Error, Interface, OpenVswitch, Plan, Port, carry_out};
use crate::row::Row;
use crate::session::Client;
use crate::transact::{Condition, Mutation, Mutator, Operation, Outcomes};
use crate::value::Datum;

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
}

impl BridgeSpec {
    /// A bridge that forwards by its controller's flows only, and accepts `OpenFlow` 1.5 only.
    pub fn secure(name: impl Into<String>, datapath_type: impl Into<String>) -> Self {
        BridgeSpec {
            name: name.into(),
            datapath_type: datapath_type.into(),
            fail_mode: "secure".to_owned(),
            protocols: ["OpenFlow15".to_owned()].into(),
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
    let reads = [
        Operation::select(Bridge::TABLE, vec![Condition::equal("name", spec.name.as_str())], &columns),
        Operation::select(OpenVswitch::TABLE, vec![], &["_uuid"]),
    ];
    let (ensured, _) = carry_out(client, &reads, patience, |found| plan(spec, found)).await?;
    Ok(ensured)
}

fn plan(spec: &BridgeSpec, found: &Outcomes) -> Result<Plan<Ensured>, Error> {
    let root = found.rows(1).first().ok_or(Error::NotInitialised)?.uuid()?;
    let Some(row) = found.rows(0).first() else {
        let attach = Mutation::new("bridges", Mutator::Insert, Datum::named_uuid("bridge"));
        return Ok(Plan::Send(
            vec![
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
                Operation::insert_named(
                    "bridge",
                    Row::new(Bridge::TABLE)
                        .with("name", spec.name.as_str())
                        .with("ports", Datum::named_uuid("port"))
                        .with("datapath_type", spec.datapath_type.as_str())
                        .with("fail_mode", spec.fail_mode.as_str())
                        .with("protocols", spec.protocols.clone()),
                ),
                Operation::mutate(OpenVswitch::TABLE, vec![Condition::uuid(root)], vec![attach]),
            ],
            Ensured::Created,
        ));
    };
    let bridge = Bridge::from_row(row.uuid()?, row)?;
    let wrong = wrong_settings(spec, &bridge);
    if wrong.is_empty() {
        return Ok(Plan::Nothing(Ensured::Unchanged));
    }
    let guard = Operation::guard(bridge.uuid, Row::new(Bridge::TABLE).with("name", spec.name.as_str()));
    Ok(Plan::Send(
        vec![guard, Operation::update(wrong, vec![Condition::uuid(bridge.uuid)])],
        Ensured::Updated,
    ))
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

//! Tunnel ports brought to a wanted state, any number of them in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::{Bridge, Ensured, Error, Interface, Plan, Port, PortStatus, carry_out};
use crate::row::{ColumnError, Row};
use crate::session::Client;
use crate::transact::{Condition, Mutation, Mutator, Operation, Outcomes};
use crate::value::Datum;

/// The interface types of tunnels in Open vSwitch 3.1. An interface of any other type is never taken over.
const TUNNEL_TYPES: &[&str] =
    &["geneve", "vxlan", "gre", "ip6gre", "erspan", "ip6erspan", "stt", "lisp", "gtpu", "bareudp", "srv6"];

/// A tunnel port as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelSpec {
    /// The name of port and interface.
    pub name: String,
    /// `geneve`, `vxlan`, `gre`, …
    pub tunnel_type: String,
    /// Exactly these, such as `remote_ip=flow` and `key=flow`.
    pub options: BTreeMap<String, String>,
    /// At least these, on the interface; they mark whose it is. Others are left alone.
    pub external_ids: BTreeMap<String, String>,
}

impl TunnelSpec {
    /// A port whose remote address and key are set by flows (`tun_dst`, `tun_id`).
    pub fn by_flow(name: impl Into<String>, tunnel_type: impl Into<String>) -> Self {
        TunnelSpec { name: name.into(), tunnel_type: tunnel_type.into(), ..TunnelSpec::empty() }
            .option("remote_ip", "flow")
            .option("key", "flow")
    }

    fn empty() -> Self {
        TunnelSpec {
            name: String::new(),
            tunnel_type: String::new(),
            options: BTreeMap::new(),
            external_ids: BTreeMap::new(),
        }
    }

    /// With this option.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }

    /// With this external id.
    pub fn external_id(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.external_ids.insert(key.into(), value.into());
        self
    }
}

/// What became of one [`TunnelSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelOutcome {
    /// The port's name.
    pub name: String,
    /// What was needed.
    pub ensured: Ensured,
    /// Its number, or what the switch says is wrong with it. Pending if nobody waited.
    pub status: PortStatus,
}

/// Creates the ports that are not there and corrects those that differ, in one transaction; if all are right only
/// selects are sent. With a `patience`, waits until the change is in force, and so for each port's number.
///
/// A tunnel port of a wanted name on this bridge is taken over, whoever made it. A port of another kind, or on
/// another bridge, is [`Error::NameTaken`], and nothing is done.
pub async fn ensure_tunnels(
    client: &Client,
    bridge: &str,
    specs: &[TunnelSpec],
    patience: Option<Duration>,
) -> Result<Vec<TunnelOutcome>, Error> {
    let (ensured, sent) =
        carry_out(client, &reads(bridge), patience, |found| plan(bridge, specs, found)).await?;
    let mut outcomes = Vec::new();
    // What was sent may have changed the status since it was read.
    let reread =
        if sent { Some(State::read(bridge, &client.transact(&reads(bridge)).await?)?) } else { None };
    for (spec, (ensured, status)) in specs.iter().zip(ensured) {
        let status = match &reread {
            Some(state) => state.interfaces.get(&spec.name).map_or(PortStatus::Pending, Interface::status),
            None => status,
        };
        outcomes.push(TunnelOutcome { name: spec.name.clone(), ensured, status });
    }
    Ok(outcomes)
}

/// Deletes those of the named ports that are on the bridge, with their interfaces, and returns their names. If
/// none is there only selects are sent.
pub async fn delete_ports(
    client: &Client,
    bridge: &str,
    names: &[&str],
    patience: Option<Duration>,
) -> Result<Vec<String>, Error> {
    let plan = |found: &Outcomes| {
        let state = State::read(bridge, found)?;
        let ports: Vec<&Port> = state
            .ports
            .values()
            .filter(|port| state.bridge.ports.contains(&port.uuid) && names.contains(&port.name.as_str()))
            .collect();
        let deleted: Vec<String> = ports.iter().map(|port| port.name.clone()).collect();
        if ports.is_empty() {
            return Ok(Plan::Nothing(deleted));
        }
        let detach = Datum::set(ports.iter().map(|port| port.uuid));
        let detach = Mutation::new("ports", Mutator::Delete, detach);
        Ok(Plan::Send(vec![state.guard(), state.mutate(detach)], deleted))
    };
    Ok(carry_out(client, &reads(bridge), patience, plan).await?.0)
}

/// The interfaces that have this external id, in no order.
pub async fn interfaces_marked(client: &Client, key: &str, value: &str) -> Result<Vec<Interface>, Error> {
    let marked = Condition::includes("external_ids", Datum::map([(key, value)]));
    let found = client.transact(&[select(Interface::TABLE, vec![marked], Interface::COLUMNS)]).await?;
    found.rows(0).iter().map(|row| Ok(Interface::from_row(row.uuid()?, row)?)).collect()
}

fn select(table: &str, conditions: Vec<Condition>, columns: &[&str]) -> Operation {
    let columns: Vec<&str> = columns.iter().copied().chain(["_uuid"]).collect();
    Operation::select(table, conditions, &columns)
}

fn reads(bridge: &str) -> [Operation; 3] {
    [
        select(Bridge::TABLE, vec![Condition::equal("name", bridge)], Bridge::COLUMNS),
        select(Port::TABLE, vec![], Port::COLUMNS),
        select(Interface::TABLE, vec![], Interface::COLUMNS),
    ]
}

/// What the reads found.
struct State {
    bridge: Bridge,
    ports: BTreeMap<String, Port>,
    interfaces: BTreeMap<String, Interface>,
}

impl State {
    fn read(bridge: &str, found: &Outcomes) -> Result<Self, Error> {
        let no_bridge = || Error::NoBridge { bridge: bridge.to_owned() };
        let row = found.rows(0).first().ok_or_else(no_bridge)?;
        let port = |row: &Row| {
            let port = Port::from_row(row.uuid()?, row)?;
            Ok((port.name.clone(), port))
        };
        let interface = |row: &Row| {
            let interface = Interface::from_row(row.uuid()?, row)?;
            Ok((interface.name.clone(), interface))
        };
        Ok(State {
            bridge: Bridge::from_row(row.uuid()?, row)?,
            ports: found.rows(1).iter().map(port).collect::<Result<_, ColumnError>>()?,
            interfaces: found.rows(2).iter().map(interface).collect::<Result<_, ColumnError>>()?,
        })
    }

    /// Without it ports for a bridge that is gone by now would be collected without a word.
    fn guard(&self) -> Operation {
        Operation::guard(self.bridge.uuid, Row::new(Bridge::TABLE).with("name", self.bridge.name.as_str()))
    }

    fn mutate(&self, mutation: Mutation) -> Operation {
        Operation::mutate(Bridge::TABLE, vec![Condition::uuid(self.bridge.uuid)], vec![mutation])
    }

    /// The interface under that name if it may be changed, `None` if the name is free.
    fn tunnel(&self, name: &str) -> Result<Option<&Interface>, Error> {
        let taken = |by: &str| Err(Error::NameTaken { name: name.to_owned(), by: by.to_owned() });
        match (self.ports.get(name), self.interfaces.get(name)) {
            (None, None) => Ok(None),
            (Some(port), _) if !self.bridge.ports.contains(&port.uuid) => {
                taken("a port of another bridge has it")
            }
            (Some(port), Some(interface)) if port.interfaces == [interface.uuid].into() => {
                if TUNNEL_TYPES.contains(&interface.interface_type.as_str()) {
                    Ok(Some(interface))
                } else {
                    taken("a port that is no tunnel has it")
                }
            }
            _ => taken("a bond or a part of one has it"),
        }
    }
}

type Planned = Vec<(Ensured, PortStatus)>;

fn plan(bridge: &str, specs: &[TunnelSpec], found: &Outcomes) -> Result<Plan<Planned>, Error> {
    let state = State::read(bridge, found)?;
    let mut operations = vec![state.guard()];
    let mut attached = Vec::new();
    let mut planned = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        match state.tunnel(&spec.name)? {
            None => {
                operations.extend(creation(spec, index));
                attached.push(crate::Atom::NamedUuid(format!("port{index}")));
                planned.push((Ensured::Created, PortStatus::Pending));
            }
            Some(interface) => {
                let corrections = corrections(spec, interface);
                let ensured = if corrections.is_empty() { Ensured::Unchanged } else { Ensured::Updated };
                if ensured == Ensured::Updated {
                    operations.push(name_guard(interface.uuid, &spec.name));
                    operations.extend(corrections);
                }
                planned.push((ensured, interface.status()));
            }
        }
    }
    if planned.iter().all(|(ensured, _)| *ensured == Ensured::Unchanged) {
        return Ok(Plan::Nothing(planned));
    }
    if !attached.is_empty() {
        operations.push(state.mutate(Mutation::new("ports", Mutator::Insert, Datum::set(attached))));
    }
    Ok(Plan::Send(operations, planned))
}

fn name_guard(interface: Uuid, name: &str) -> Operation {
    Operation::guard(interface, Row::new(Interface::TABLE).with("name", name))
}

fn creation(spec: &TunnelSpec, index: usize) -> [Operation; 2] {
    let interface = format!("interface{index}");
    [
        Operation::insert_named(
            interface.clone(),
            Row::new(Interface::TABLE)
                .with("name", spec.name.as_str())
                .with("type", spec.tunnel_type.as_str())
                .with("options", spec.options.clone())
                .with("external_ids", spec.external_ids.clone()),
        ),
        Operation::insert_named(
            format!("port{index}"),
            Row::new(Port::TABLE)
                .with("name", spec.name.as_str())
                .with("interfaces", Datum::named_uuid(interface)),
        ),
    ]
}

/// Operations that bring an interface to its wanted state; none if it is there.
fn corrections(spec: &TunnelSpec, interface: &Interface) -> Vec<Operation> {
    let here = || vec![Condition::uuid(interface.uuid)];
    let mut operations = Vec::new();
    let mut wrong = Row::new(Interface::TABLE);
    if interface.interface_type != spec.tunnel_type {
        wrong = wrong.with("type", spec.tunnel_type.as_str());
    }
    if interface.options != spec.options {
        wrong = wrong.with("options", spec.options.clone());
    }
    if !wrong.is_empty() {
        operations.push(Operation::update(wrong, here()));
    }
    let ids: BTreeMap<String, String> = spec
        .external_ids
        .iter()
        .filter(|(key, value)| interface.external_ids.get(*key) != Some(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !ids.is_empty() {
        // An insert keeps the value that a key has, so wrong ones go first.
        let keys = Datum::set(ids.keys().cloned());
        let mutations = vec![
            Mutation::new("external_ids", Mutator::Delete, keys),
            Mutation::new("external_ids", Mutator::Insert, ids),
        ];
        operations.push(Operation::mutate(Interface::TABLE, here(), mutations));
    }
    operations
}

//! Creates, corrects and deletes tunnel and patch ports, any number of them in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::{Bridge, Ensured, Error, Interface, Plan, Port, PortStatus, carry_out};
use crate::row::{ColumnError, Row};
use crate::session::Client;
use crate::transact::{Condition, Mutation, Mutator, Operation, Outcomes};
use crate::value::Datum;

/// The interface types of tunnels in Open vSwitch 3.1.
const TUNNEL_TYPES: &[&str] =
    &["geneve", "vxlan", "gre", "ip6gre", "erspan", "ip6erspan", "stt", "lisp", "gtpu", "bareudp", "srv6"];

/// The option that names the peer of a patch port.
const PEER: &str = "peer";
/// The interface type of patch ports.
const PATCH: &str = "patch";

/// The desired state of a tunnel port or of a patch port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelSpec {
    /// The bridge of the port, unless it is the bridge named in the call.
    pub bridge: Option<String>,
    /// The name of the port and of its interface.
    pub name: String,
    /// `geneve`, `vxlan`, `gre`, …
    pub tunnel_type: String,
    /// The exact set of options, such as `remote_ip=flow` and `key=flow`.
    pub options: BTreeMap<String, String>,
    /// External ids of the interface, which mark its owner. Other external ids stay unchanged.
    pub external_ids: BTreeMap<String, String>,
}

impl TunnelSpec {
    /// A port whose remote address and key are set by flows (`tun_dst`, `tun_id`).
    pub fn by_flow(name: impl Into<String>, tunnel_type: impl Into<String>) -> Self {
        TunnelSpec { name: name.into(), tunnel_type: tunnel_type.into(), ..TunnelSpec::empty() }
            .option("remote_ip", "flow")
            .option("key", "flow")
    }

    /// A patch port whose peer is `peer`.
    pub fn patch(name: impl Into<String>, peer: impl Into<String>) -> Self {
        TunnelSpec { name: name.into(), tunnel_type: PATCH.to_owned(), ..TunnelSpec::empty() }
            .option(PEER, peer)
    }

    /// Puts the port on this bridge.
    pub fn on(mut self, bridge: impl Into<String>) -> Self {
        self.bridge = Some(bridge.into());
        self
    }

    fn empty() -> Self {
        TunnelSpec {
            bridge: None,
            name: String::new(),
            tunnel_type: String::new(),
            options: BTreeMap::new(),
            external_ids: BTreeMap::new(),
        }
    }

    /// Adds an option.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }

    /// Adds an external id.
    pub fn external_id(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.external_ids.insert(key.into(), value.into());
        self
    }
}

/// The result for one [`TunnelSpec`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelOutcome {
    /// The port's name.
    pub name: String,
    /// The action taken.
    pub ensured: Ensured,
    /// Its port number or the switch's error. Pending if the call did not wait.
    pub status: PortStatus,
}

/// Creates missing ports and corrects ports that differ, in one transaction. Sends only selects if nothing has to
/// change. With a `patience`, waits until the change is in force and each port has its number.
///
/// An existing tunnel port with this name on the right bridge is adopted, no matter who created it. An existing patch
/// port is adopted only if it has the external ids. A tunnel or patch port of another kind or on another bridge is replaced in
/// the same transaction if it has external ids with the same keys, which mark its owner. Any other port of this name causes
/// [`Error::NameTaken`], and nothing is changed.
pub async fn ensure_tunnels(
    client: &Client,
    bridge: &str,
    specs: &[TunnelSpec],
    patience: Option<Duration>,
) -> Result<Vec<TunnelOutcome>, Error> {
    let (ensured, sent) = carry_out(client, &reads(), patience, |found| plan(bridge, specs, found)).await?;
    let mut outcomes = Vec::new();
    // The transaction may have changed the status since it was read.
    let reread = if sent { Some(State::read(&client.transact(&reads()).await?)?) } else { None };
    for (spec, (ensured, status)) in specs.iter().zip(ensured) {
        let status = match &reread {
            Some(state) => state.interfaces.get(&spec.name).map_or(PortStatus::Pending, Interface::status),
            None => status,
        };
        outcomes.push(TunnelOutcome { name: spec.name.clone(), ensured, status });
    }
    Ok(outcomes)
}

/// Deletes the named ports from the bridge, with their interfaces. Returns the names of the ports that existed. Sends
/// only selects if none exists.
pub async fn delete_ports(
    client: &Client,
    bridge: &str,
    names: &[&str],
    patience: Option<Duration>,
) -> Result<Vec<String>, Error> {
    let ports: Vec<(&str, &str)> = names.iter().map(|name| (bridge, *name)).collect();
    let find = |state: &State| state.bridge(bridge).map(drop);
    let deleted = delete(client, &ports, patience, find).await?;
    Ok(deleted.into_iter().map(|(_, name)| name).collect())
}

/// Deletes ports, each named with its bridge, in one transaction. Returns the ports that existed. Sends only selects
/// if none exists.
pub async fn delete_ports_of(
    client: &Client,
    ports: &[(&str, &str)],
    patience: Option<Duration>,
) -> Result<Vec<(String, String)>, Error> {
    delete(client, ports, patience, |_| Ok(())).await
}

async fn delete(
    client: &Client,
    ports: &[(&str, &str)],
    patience: Option<Duration>,
    check: impl Fn(&State) -> Result<(), Error>,
) -> Result<Vec<(String, String)>, Error> {
    let plan = |found: &Outcomes| {
        let state = State::read(found)?;
        check(&state)?;
        let (mut operations, mut deleted) = (Vec::new(), Vec::new());
        for bridge in state.bridges.values() {
            let wanted = |port: &&Port| {
                bridge.ports.contains(&port.uuid)
                    && ports.contains(&(bridge.name.as_str(), port.name.as_str()))
            };
            let here: Vec<&Port> = state.ports.values().filter(wanted).collect();
            if here.is_empty() {
                continue;
            }
            deleted.extend(here.iter().map(|port| (bridge.name.clone(), port.name.clone())));
            let detach = Datum::set(here.iter().map(|port| port.uuid));
            operations.push(guard(bridge));
            operations.push(mutate(bridge, Mutation::new("ports", Mutator::Delete, detach)));
        }
        Ok(if deleted.is_empty() { Plan::Nothing(deleted) } else { Plan::Send(operations, deleted) })
    };
    Ok(carry_out(client, &reads(), patience, plan).await?.0)
}

/// The interfaces that have this external id, in no particular order.
pub async fn interfaces_marked(client: &Client, key: &str, value: &str) -> Result<Vec<Interface>, Error> {
    let marked = Condition::includes("external_ids", Datum::map([(key, value)]));
    let found = client.transact(&[select(Interface::TABLE, vec![marked], Interface::COLUMNS)]).await?;
    found.rows(0).iter().map(|row| Ok(Interface::from_row(row.uuid()?, row)?)).collect()
}

fn select(table: &str, conditions: Vec<Condition>, columns: &[&str]) -> Operation {
    let columns: Vec<&str> = columns.iter().copied().chain(["_uuid"]).collect();
    Operation::select(table, conditions, &columns)
}

fn reads() -> [Operation; 3] {
    [
        select(Bridge::TABLE, vec![], Bridge::COLUMNS),
        select(Port::TABLE, vec![], Port::COLUMNS),
        select(Interface::TABLE, vec![], Interface::COLUMNS),
    ]
}

/// The rows read, by name.
struct State {
    bridges: BTreeMap<String, Bridge>,
    ports: BTreeMap<String, Port>,
    interfaces: BTreeMap<String, Interface>,
}

/// A guard against the deletion of the bridge, after which the server would silently garbage-collect its new ports.
fn guard(bridge: &Bridge) -> Operation {
    Operation::guard(bridge.uuid, Row::new(Bridge::TABLE).with("name", bridge.name.as_str()))
}

fn mutate(bridge: &Bridge, mutation: Mutation) -> Operation {
    Operation::mutate(Bridge::TABLE, vec![Condition::uuid(bridge.uuid)], vec![mutation])
}

impl State {
    fn read(found: &Outcomes) -> Result<Self, Error> {
        let bridge = |row: &Row| {
            let bridge = Bridge::from_row(row.uuid()?, row)?;
            Ok((bridge.name.clone(), bridge))
        };
        let port = |row: &Row| {
            let port = Port::from_row(row.uuid()?, row)?;
            Ok((port.name.clone(), port))
        };
        let interface = |row: &Row| {
            let interface = Interface::from_row(row.uuid()?, row)?;
            Ok((interface.name.clone(), interface))
        };
        Ok(State {
            bridges: found.rows(0).iter().map(bridge).collect::<Result<_, ColumnError>>()?,
            ports: found.rows(1).iter().map(port).collect::<Result<_, ColumnError>>()?,
            interfaces: found.rows(2).iter().map(interface).collect::<Result<_, ColumnError>>()?,
        })
    }

    fn bridge(&self, name: &str) -> Result<&Bridge, Error> {
        self.bridges.get(name).ok_or_else(|| Error::NoBridge { bridge: name.to_owned() })
    }

    /// What has the spec's name.
    fn namesake(&self, bridge: &Bridge, spec: &TunnelSpec) -> Result<Namesake<'_>, Error> {
        let name = &spec.name;
        let taken = |by: &str| Err(Error::NameTaken { name: name.clone(), by: by.to_owned() });
        let (port, interface) = match (self.ports.get(name), self.interfaces.get(name)) {
            (None, None) => return Ok(Namesake::None),
            (Some(port), Some(interface)) if port.interfaces == [interface.uuid].into() => (port, interface),
            (Some(port), _) if !bridge.ports.contains(&port.uuid) => {
                return taken("a port of another bridge has it");
            }
            _ => return taken("a bond or a part of one has it"),
        };
        let is_here = bridge.ports.contains(&port.uuid);
        let is_patch = interface.interface_type == PATCH;
        let has_mark = |(key, value): (&String, &String)| interface.external_ids.get(key) == Some(value);
        if is_here && spec.tunnel_type == PATCH && is_patch && spec.external_ids.iter().all(has_mark) {
            return Ok(Namesake::Kept(interface));
        }
        let is_tunnel = TUNNEL_TYPES.contains(&interface.interface_type.as_str());
        if is_here && spec.tunnel_type != PATCH && is_tunnel {
            return Ok(Namesake::Kept(interface));
        }
        let keys = spec.external_ids.keys();
        let is_own =
            !spec.external_ids.is_empty() && keys.clone().all(|key| interface.external_ids.contains_key(key));
        let owner = self.bridges.values().find(|bridge| bridge.ports.contains(&port.uuid));
        match owner {
            Some(owner) if is_own && (is_patch || is_tunnel) => Ok(Namesake::Replaced(owner, port)),
            _ if !is_here => taken("a port of another bridge has it"),
            _ if spec.tunnel_type == PATCH => taken("a port that is not ours has it"),
            _ => taken("a port that is no tunnel has it"),
        }
    }
}

/// What has the name of a spec.
enum Namesake<'a> {
    /// Nothing.
    None,
    /// An interface that becomes the desired one.
    Kept(&'a Interface),
    /// A port of the same owner on this bridge. It is of another kind or on another bridge, so it makes way in the transaction
    /// that creates the desired one.
    Replaced(&'a Bridge, &'a Port),
}

type Planned = Vec<(Ensured, PortStatus)>;

fn plan(bridge: &str, specs: &[TunnelSpec], found: &Outcomes) -> Result<Plan<Planned>, Error> {
    let state = State::read(found)?;
    // The bridge of the call is guarded even if only ports of other bridges change.
    let mut attached: BTreeMap<&str, Vec<crate::Atom>> = [(bridge, Vec::new())].into();
    let mut detached = Vec::new();
    let mut operations = Vec::new();
    let mut planned = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let bridge = spec.bridge.as_deref().unwrap_or(bridge);
        match state.namesake(state.bridge(bridge)?, spec)? {
            namesake @ (Namesake::None | Namesake::Replaced(..)) => {
                if let Namesake::Replaced(owner, port) = namesake {
                    attached.entry(&owner.name).or_default();
                    let delete = Mutation::new("ports", Mutator::Delete, Datum::set([port.uuid]));
                    detached.push(mutate(owner, delete));
                }
                operations.extend(creation(spec, index));
                attached.entry(bridge).or_default().push(crate::Atom::NamedUuid(format!("port{index}")));
                planned.push((Ensured::Created, PortStatus::Pending));
            }
            Namesake::Kept(interface) => {
                let corrections = corrections(spec, interface);
                let ensured = if corrections.is_empty() { Ensured::Unchanged } else { Ensured::Updated };
                if ensured == Ensured::Updated {
                    attached.entry(bridge).or_default();
                    operations.push(name_guard(interface.uuid, &spec.name));
                    operations.extend(corrections);
                }
                planned.push((ensured, interface.status()));
            }
        }
    }
    if planned.iter().all(|(ensured, _)| *ensured == Ensured::Unchanged) {
        state.bridge(bridge)?;
        return Ok(Plan::Nothing(planned));
    }
    let mut guarded = Vec::new();
    for (bridge, ports) in attached {
        let bridge = state.bridge(bridge)?;
        guarded.push(guard(bridge));
        if !ports.is_empty() {
            operations.push(mutate(bridge, Mutation::new("ports", Mutator::Insert, Datum::set(ports))));
        }
    }
    guarded.append(&mut detached);
    guarded.append(&mut operations);
    Ok(Plan::Send(guarded, planned))
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

/// The operations that bring an interface to its desired state; none if it is in that state.
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
        // An insert keeps the value of an existing key, so wrong values are deleted first.
        let keys = Datum::set(ids.keys().cloned());
        let mutations = vec![
            Mutation::new("external_ids", Mutator::Delete, keys),
            Mutation::new("external_ids", Mutator::Insert, ids),
        ];
        operations.push(Operation::mutate(Interface::TABLE, here(), mutations));
    }
    operations
}

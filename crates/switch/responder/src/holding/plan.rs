//! What has to be written to the database. No I/O here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovsdb_client::{Condition, Datum, MonitorSpec, Mutation, Mutator, Operation, Replica, Row};
use packet_answers::{Readiness, Tunnels};
use uuid::Uuid;

pub(super) const BRIDGE: &str = "Bridge";
const PORT: &str = "Port";
const INTERFACE: &str = "Interface";
/// Settings of the session of BFD of an interface, and the key by which the other end is told that the port is down.
const BFD: &str = "bfd";
const DOWN: &str = "cpath_down";
const ENABLED: &str = "enable";
/// Keys of other programs than Open vSwitch, and the key of the bridge by which it is remembered what is held until the flows are in.
pub(super) const EXTERNAL: &str = "external_ids";
const REMEMBERED: &str = "weft-hold";
/// The value of that key for all tunnel ports. Otherwise, it is their names, joined by commas.
const EVERY: &str = "all";

/// What is read.
pub(super) fn monitor() -> MonitorSpec {
    MonitorSpec::nothing()
        .table(BRIDGE, &["name", "ports", EXTERNAL])
        .table(PORT, &["interfaces"])
        .table(INTERFACE, &["name", "type", BFD, "link_state"])
}

/// What is known of the switch.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// It has no flow that says that it is ready.
    NotReady,
    /// It has.
    Ready(Arc<Readiness>),
}

/// What has to be written.
#[derive(Debug)]
pub(super) struct Plan {
    /// One transaction; nothing if the database is as it should be.
    pub(super) operations: Vec<Operation>,
    /// How many tunnel ports are held then.
    pub(super) held: usize,
    /// Whether some are held now, and none then.
    pub(super) is_release: bool,
    /// Why.
    pub(super) why: String,
}

impl Plan {
    /// The plan for a bridge; none if there is no such bridge.
    pub(super) fn new(replica: &Replica, bridge: &str, known: &Known) -> Option<Plan> {
        let (uuid, row) = named(replica, BRIDGE, bridge)?;
        let external: BTreeMap<String, String> = row.get(EXTERNAL).unwrap_or_default();
        let before = external.get(REMEMBERED).map_or(Tunnels::These(Vec::new()), |text| read(text));
        let (after, why) = match known {
            Known::NotReady => (before.clone(), Some("the switch does not have its flows".to_owned())),
            Known::Ready(readiness) => {
                let down = readiness.uplinks.iter().find(|uplink| is_down(replica, uplink));
                (readiness.hold.clone(), down.map(|uplink| format!("the uplink {uplink} is down")))
            }
        };
        let mut plan = Plan {
            operations: Vec::new(),
            held: 0,
            is_release: false,
            why: why.clone().unwrap_or_else(|| "the switch has its flows".to_owned()),
        };
        let mut held_before = 0;
        for (port, interface) in interfaces(replica, row) {
            let Ok(name) = interface.get::<String>("name") else { continue };
            if !covers(&before, &name) && !covers(&after, &name) {
                continue;
            }
            let bfd: BTreeMap<String, String> = interface.get(BFD).unwrap_or_default();
            let has_session = bfd.get(ENABLED).is_some_and(|value| value == "true");
            let is_held = why.is_some() && covers(&after, &name) && has_session;
            let found = bfd.get(DOWN).map(String::as_str);
            held_before += usize::from(found == Some("true"));
            plan.held += usize::from(is_held);
            let wanted = is_held.then_some("true");
            plan.operations.extend(correction(INTERFACE, port, (BFD, DOWN), found, wanted));
        }
        plan.is_release = held_before > 0 && plan.held == 0;
        let (found, wanted) = (external.get(REMEMBERED).map(String::as_str), written(&after));
        plan.operations.extend(correction(BRIDGE, uuid, (EXTERNAL, REMEMBERED), found, wanted.as_deref()));
        Some(plan)
    }
}

/// Sets a key of a map, or removes it, and leaves the other keys alone; none if it is right.
fn correction(
    table: &str,
    row: Uuid,
    (column, key): (&str, &str),
    found: Option<&str>,
    wanted: Option<&str>,
) -> Option<Operation> {
    let removal = found.map(|_| Mutation::new(column, Mutator::Delete, Datum::set([key])));
    let value = wanted.map(|value| Mutation::new(column, Mutator::Insert, Datum::map([(key, value)])));
    let mutations = removal.into_iter().chain(value).collect();
    (found != wanted).then(|| Operation::mutate(table, vec![Condition::uuid(row)], mutations))
}

/// The text by which ports are remembered; none if there are none.
fn written(tunnels: &Tunnels) -> Option<String> {
    match tunnels {
        Tunnels::All => Some(EVERY.to_owned()),
        Tunnels::These(names) => (!names.is_empty()).then(|| names.join(",")),
    }
}

fn read(text: &str) -> Tunnels {
    if text == EVERY { Tunnels::All } else { Tunnels::These(text.split(',').map(str::to_owned).collect()) }
}

fn covers(tunnels: &Tunnels, name: &str) -> bool {
    match tunnels {
        Tunnels::All => true,
        Tunnels::These(names) => names.iter().any(|other| other == name),
    }
}

pub(super) fn named<'a>(replica: &'a Replica, table: &str, name: &str) -> Option<(Uuid, &'a Row)> {
    replica.rows(table).find(|(_, row)| row.get::<String>("name").is_ok_and(|other| other == name))
}

/// The interfaces of a bridge.
fn interfaces<'a>(replica: &'a Replica, bridge: &Row) -> impl Iterator<Item = (Uuid, &'a Row)> {
    let ports: BTreeSet<Uuid> = bridge.get("ports").unwrap_or_default();
    let ports = ports.into_iter().filter_map(|port| replica.row(PORT, port));
    let interfaces = ports.flat_map(|port| port.get::<BTreeSet<Uuid>>("interfaces").unwrap_or_default());
    interfaces.filter_map(|interface| Some((interface, replica.row(INTERFACE, interface)?)))
}

/// Whether nothing gets out by an uplink: an interface that is not there or has no carrier, or a bridge with interfaces to the physical
/// network of which none has. Of a bridge without any, such as one that passes on to another, nothing is known.
fn is_down(replica: &Replica, uplink: &str) -> bool {
    let has_carrier = |row: &Row| {
        let state: Option<String> = row.get("link_state").ok().flatten();
        state.as_deref() == Some("up")
    };
    let Some((_, bridge)) = named(replica, BRIDGE, uplink) else {
        return !named(replica, INTERFACE, uplink).is_some_and(|(_, row)| has_carrier(row));
    };
    let physical = |row: &Row| {
        row.get::<String>("type").is_ok_and(|kind| ["", "system", "dpdk", "afxdp"].contains(&kind.as_str()))
    };
    let mut physical = interfaces(replica, bridge).map(|(_, row)| row).filter(|row| physical(row)).peekable();
    physical.peek().is_some() && !physical.any(has_carrier)
}

#[cfg(test)]
mod tests;

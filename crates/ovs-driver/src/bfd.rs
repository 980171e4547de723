//! BFD sessions (RFC 5880) of tunnel ports, in column `bfd` of `Interface`. No I/O here.
//!
//! ovs-vswitchd runs the sessions and sets from them whether a port is live, which the buckets of a fast failover group watch. The
//! driver sets and clears the column of its own tunnel ports alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use ovsdb_client::open_vswitch::Interface;
use ovsdb_client::{Condition, Datum, MonitorSpec, Operation, Replica, Row};
use switch_model::BfdSession;
use uuid::Uuid;

const COLUMN: &str = "bfd";

/// The sessions by the name of the tunnel port.
pub(crate) type Sessions = Arc<BTreeMap<String, BfdSession>>;

/// Adds what this module reads.
pub(crate) fn monitor(spec: MonitorSpec) -> MonitorSpec {
    spec.where_present(Interface::TABLE, &[COLUMN])
}

/// The sessions of the driver's tunnel ports in the database.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionView {
    ports: BTreeMap<String, (Uuid, BTreeMap<String, String>)>,
}

impl SessionView {
    /// Reads those of `ports`, which are tunnel ports of the driver.
    pub(crate) fn read<'a>(replica: &Replica, ports: impl Iterator<Item = &'a Interface>) -> SessionView {
        let read = |port: &Interface| {
            let settings = replica.row(Interface::TABLE, port.uuid)?.get(COLUMN).unwrap_or_default();
            Some((port.name.clone(), (port.uuid, settings)))
        };
        SessionView { ports: ports.filter_map(read).collect() }
    }

    /// The operations that begin the missing sessions and change the others; none if they are there. A port that does not exist gets
    /// none.
    pub(crate) fn additions(&self, want: &BTreeMap<String, BfdSession>) -> Vec<Operation> {
        let wrong = want.iter().filter_map(|(name, session)| {
            let (port, found) = self.ports.get(name)?;
            let settings = session.settings();
            (*found != settings).then(|| set(*port, settings))
        });
        wrong.collect()
    }

    /// The operations that end all other sessions; none if there is none.
    pub(crate) fn removals(&self, want: &BTreeMap<String, BfdSession>) -> Vec<Operation> {
        let gone =
            self.ports.iter().filter(|(name, (_, found))| !found.is_empty() && !want.contains_key(*name));
        gone.map(|(_, (port, _))| set(*port, BTreeMap::new())).collect()
    }
}

fn set(port: Uuid, settings: BTreeMap<String, String>) -> Operation {
    let row = Row::new(Interface::TABLE).with(COLUMN, Datum::map(settings));
    Operation::update(row, vec![Condition::uuid(port)])
}

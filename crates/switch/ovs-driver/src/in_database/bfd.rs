//! BFD sessions (RFC 5880) of tunnel ports, in column `bfd` of `Interface`. No I/O here.
//!
//! ovs-vswitchd runs the sessions and sets from them whether a port is live, which the buckets of a fast failover group watch. The
//! driver sets and clears the column of its own tunnel ports alone.

use std::collections::BTreeMap;

use ovsdb_client::open_vswitch::Interface;
use ovsdb_client::{Client, Condition, Datum, MonitorSpec, Operation, Row};
use switch_model::{BfdSession, BfdSessions};
use uuid::Uuid;

use super::{Here, InDatabase};

const COLUMN: &str = "bfd";

/// The sessions of the driver's tunnel ports in the database.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    ports: BTreeMap<String, (Uuid, BTreeMap<String, String>)>,
}

impl InDatabase for BfdSessions {
    type Support = ();
    type View = View;

    fn monitor(spec: MonitorSpec) -> MonitorSpec {
        spec.where_present(Interface::TABLE, &[COLUMN])
    }

    fn support(_: &Client) {}

    fn view(here: &Here<'_>, (): ()) -> View {
        let read = |port: &&Interface| {
            let settings = here.replica.row(Interface::TABLE, port.uuid)?.get(COLUMN).unwrap_or_default();
            Some((port.name.clone(), (port.uuid, settings)))
        };
        View { ports: here.tunnels.iter().filter_map(read).collect() }
    }

    /// A port that does not exist gets no session.
    fn additions(view: &View, want: &BTreeMap<String, BfdSession>) -> Vec<Operation> {
        let wrong = want.iter().filter_map(|(name, session)| {
            let (port, found) = view.ports.get(name)?;
            let settings = session.settings();
            (*found != settings).then(|| set(*port, settings))
        });
        wrong.collect()
    }

    fn removals(view: &View, want: &BTreeMap<String, BfdSession>) -> Vec<Operation> {
        let gone =
            view.ports.iter().filter(|(name, (_, found))| !found.is_empty() && !want.contains_key(*name));
        gone.map(|(_, (port, _))| set(*port, BTreeMap::new())).collect()
    }
}

fn set(port: Uuid, settings: BTreeMap<String, String>) -> Operation {
    let row = Row::new(Interface::TABLE).with(COLUMN, Datum::map(settings));
    Operation::update(row, vec![Condition::uuid(port)])
}

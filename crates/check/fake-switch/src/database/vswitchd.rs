//! The fake `ovs-vswitchd`: assigns port numbers to interfaces, and reports which configuration is in force.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ovsdb_client::open_vswitch::{Bridge, Interface, OpenVswitch, Port, PortStatus};
use ovsdb_client::{Change, Replica, Row};
use uuid::Uuid;

/// The port number of a bridge's own interface (`OFPP_LOCAL`).
const LOCAL: i64 = 65534;

type Refuse = Box<dyn Fn(&Interface) -> Option<String> + Send>;

pub(super) struct Vswitchd {
    pub(super) running: bool,
    pub(super) refuse: Option<Refuse>,
    /// Datapath ids by bridge name.
    pub(super) datapath_ids: BTreeMap<String, u64>,
    next_datapath_id: u64,
    /// The last port number assigned, by bridge. Numbers are not reused.
    ofports: BTreeMap<Uuid, i64>,
}

impl Default for Vswitchd {
    fn default() -> Self {
        Vswitchd {
            running: true,
            refuse: None,
            datapath_ids: BTreeMap::new(),
            next_datapath_id: 0xfa4e,
            ofports: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for Vswitchd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vswitchd").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Vswitchd {
    /// Puts the configuration in force and returns the resulting changes of the database.
    pub(super) fn take_up(&mut self, rows: &mut Replica) -> Vec<Change> {
        if !self.running {
            return Vec::new();
        }
        let mut later = rows.clone();
        for (uuid, row) in rows.rows(Bridge::TABLE) {
            let Ok(bridge) = Bridge::from_row(uuid, row) else { continue };
            let id = self.datapath_of(&bridge.name);
            set(&mut later, uuid, row.clone().with("datapath_id", format!("{id:016x}")));
            self.take_up_ports(&bridge, rows, &mut later);
        }
        for (uuid, row) in rows.rows(OpenVswitch::TABLE) {
            if let Some(next_cfg) = row.datum("next_cfg") {
                set(&mut later, uuid, row.clone().with("cur_cfg", next_cfg.clone()));
            }
        }
        let changes = rows.difference(&later);
        *rows = later;
        changes
    }

    /// Takes the numbers of all ports away but those of bridges and those that were requested, and returns the changes of the database.
    pub(super) fn forget_numbers(rows: &mut Replica) -> Vec<Change> {
        let mut later = rows.clone();
        for (uuid, row) in rows.rows(Interface::TABLE) {
            let number = row.get::<Option<i64>>("ofport").ok().flatten();
            if number.is_some_and(|number| number != LOCAL) {
                set(&mut later, uuid, row.clone().with("ofport", None::<i64>));
            }
        }
        let changes = rows.difference(&later);
        *rows = later;
        changes
    }

    fn datapath_of(&mut self, bridge: &str) -> u64 {
        if let Some(id) = self.datapath_ids.get(bridge) {
            return *id;
        }
        let id = self.next_datapath_id;
        self.next_datapath_id += 1;
        self.datapath_ids.insert(bridge.to_owned(), id);
        id
    }

    fn take_up_ports(&mut self, bridge: &Bridge, rows: &Replica, later: &mut Replica) {
        let ports =
            bridge.ports.iter().filter_map(|port| Port::from_row(*port, rows.row(Port::TABLE, *port)?).ok());
        let uuids: BTreeSet<Uuid> = ports.flat_map(|port| port.interfaces).collect();
        for uuid in uuids {
            let Some(row) = rows.row(Interface::TABLE, uuid) else { continue };
            let Ok(interface) = Interface::from_row(uuid, row) else { continue };
            let refused = self.refuse.as_ref().and_then(|refuse| refuse(&interface));
            let taken_up = match (refused, interface.status()) {
                (Some(why), _) => row.clone().with("ofport", -1).with("error", why),
                (None, PortStatus::Assigned(_)) => continue,
                (None, _) => {
                    let ofport = self.ofport(bridge, &interface, row);
                    row.clone().with("ofport", ofport).with("error", None::<String>)
                }
            };
            set(later, uuid, taken_up);
        }
    }

    fn ofport(&mut self, bridge: &Bridge, interface: &Interface, row: &Row) -> i64 {
        if interface.name == bridge.name {
            return LOCAL;
        }
        if let Ok(Some(requested)) = row.get::<Option<i64>>("ofport_request") {
            return requested;
        }
        let last = self.ofports.entry(bridge.uuid).or_default();
        *last += 1;
        *last
    }
}

fn set(rows: &mut Replica, uuid: Uuid, row: Row) {
    rows.apply(&[Change { table: row.table().into(), uuid, old: None, new: Some(row) }]);
}

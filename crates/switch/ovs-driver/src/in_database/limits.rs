//! Limits of conntrack zones in the database: how long connections are remembered, and how many. No I/O here.
//!
//! Column `ct_zones` of `Datapath` maps a zone to a row of `CT_Zone`, which names a `CT_Timeout_Policy`. Zones with equal limits
//! share their rows, and ovs-vswitchd makes one policy of the datapath from them. The driver's rows of `CT_Zone` have
//! `external_ids:weft=limits`; rows that no zone refers to go by themselves. The row of the datapath does not exist by
//! itself: the driver inserts it, and leaves it.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb_client::{Atom, Client, Condition, Datum, MonitorSpec, Mutation, Mutator, Operation, Replica, Row};
use switch_model::{ZoneLimits, ZonesLimits};
use uuid::Uuid;

use ovsdb_client::open_vswitch::OpenVswitch;

use super::{Here, InDatabase};

/// The mark of the driver's rows.
pub(crate) const OWNER: (&str, &str) = ("weft", "limits");

const DATAPATH: &str = "Datapath";
const ZONE: &str = "CT_Zone";
const POLICY: &str = "CT_Timeout_Policy";

/// What the database of a switch can say of zones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Support {
    /// How long connections are remembered.
    timeouts: bool,
    /// How many.
    connections: bool,
}

impl Support {
    /// What a switch with this database can do of `limits`; none if nothing.
    fn possible(self, limits: ZoneLimits) -> Option<ZoneLimits> {
        let connections = limits.connections.filter(|_| self.connections);
        self.timeouts.then_some(ZoneLimits { connections, ..limits })
    }

    /// Column `limit` of a row with these limits. 0 is no limit; without a value, the datapath keeps the last one.
    fn column(self, limits: &ZoneLimits) -> Option<i64> {
        self.connections.then(|| limits.connections.map_or(0, i64::from))
    }

    /// What this switch cannot do of the desired limits.
    fn problem(self, want: &BTreeMap<u16, ZoneLimits>) -> Option<String> {
        if !self.timeouts {
            let why = "cannot set how long connections are remembered (its database has no table CT_Timeout_Policy), so a machine \
                       that opens many may fill the table of the host; update Open vSwitch";
            return (!want.is_empty()).then(|| why.to_owned());
        }
        let unlimited = want.values().filter(|limits| limits.connections.is_some()).count();
        (unlimited > 0 && !self.connections).then(|| {
            format!(
                "cannot limit the number of connections (its database has no column `limit` in table CT_Zone), so {unlimited} of its \
                 ports are bounded by `rate` and timeouts alone, and may fill the table of the host together; update Open vSwitch \
                 to 3.3, or lower `rate` or `established` of `connections`, or enlarge the table and say so in `connection_table`"
            )
        })
    }
}

/// A row of `CT_Zone`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Zone {
    is_own: bool,
    timeouts: BTreeMap<String, i64>,
    limit: Option<i64>,
}

impl Zone {
    fn read(replica: &Replica, row: &Row) -> Zone {
        let marks: BTreeMap<String, String> = row.get("external_ids").unwrap_or_default();
        let policy = row.get::<Option<Uuid>>("timeout_policy").ok().flatten();
        let policy = policy.and_then(|policy| replica.row(POLICY, policy));
        Zone {
            is_own: marks.get(OWNER.0).is_some_and(|mark| mark == OWNER.1),
            timeouts: policy.and_then(|policy| policy.get("timeouts").ok()).unwrap_or_default(),
            limit: row.get("limit").ok().flatten(),
        }
    }

    fn has(&self, limits: &ZoneLimits, support: Support) -> bool {
        self.is_own && self.limit == support.column(limits) && self.timeouts == limits.timeouts()
    }
}

/// The zones of a datapath in the database.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    support: Support,
    /// The row of `Open_vSwitch`, and the datapaths that it names.
    root: Option<(Uuid, BTreeMap<String, Uuid>)>,
    /// The type of the bridge's datapath.
    datapath_type: String,
    /// By zone, the row of `CT_Zone`.
    zones: BTreeMap<i64, Uuid>,
    rows: BTreeMap<Uuid, Zone>,
}

impl InDatabase for ZonesLimits {
    type Support = Support;
    type View = View;

    fn monitor(spec: MonitorSpec) -> MonitorSpec {
        spec.where_present(OpenVswitch::TABLE, &["datapaths"])
            .where_present(DATAPATH, &["ct_zones"])
            .where_present(ZONE, &["timeout_policy", "external_ids", "limit"])
            .where_present(POLICY, &["timeouts"])
    }

    fn support(client: &Client) -> Support {
        let timeouts = client.monitors(ZONE, "timeout_policy") && client.monitors(POLICY, "timeouts");
        Support { timeouts, connections: timeouts && client.monitors(ZONE, "limit") }
    }

    /// The zones of the datapath of the bridge.
    fn view(here: &Here<'_>, support: Support) -> View {
        let replica = here.replica;
        let mut view = View { support, datapath_type: here.datapath_type.to_owned(), ..View::default() };
        let root = replica.rows(OpenVswitch::TABLE).next();
        view.root = root.and_then(|(uuid, row)| Some((uuid, row.get("datapaths").ok()?)));
        let Some(datapath) = view.datapath().and_then(|datapath| replica.row(DATAPATH, datapath)) else {
            return view;
        };
        view.zones = datapath.get("ct_zones").unwrap_or_default();
        let used: BTreeSet<Uuid> = view.zones.values().copied().collect();
        let read = |uuid: Uuid| Some((uuid, Zone::read(replica, replica.row(ZONE, uuid)?)));
        view.rows = used.into_iter().filter_map(read).collect();
        view
    }

    /// Others' zones stay.
    fn additions(view: &View, want: &BTreeMap<u16, ZoneLimits>) -> Vec<Operation> {
        let Some((root, datapaths)) = &view.root else { return Vec::new() };
        let wrong: Vec<(i64, ZoneLimits)> = want
            .iter()
            .filter_map(|(zone, limits)| Some((i64::from(*zone), view.support.possible(*limits)?)))
            .filter(|(zone, limits)| !view.row_of(*zone).is_some_and(|row| row.has(limits, view.support)))
            .collect();
        if wrong.is_empty() {
            return Vec::new();
        }
        let mut operations = Vec::new();
        let distinct: BTreeSet<ZoneLimits> = wrong.iter().map(|(_, limits)| *limits).collect();
        let rows: BTreeMap<ZoneLimits, Atom> = distinct
            .into_iter()
            .zip(0..)
            .map(|(limits, number)| {
                let row = view.shared(&limits);
                (limits, row.unwrap_or_else(|| view.insertion(&limits, number, &mut operations)))
            })
            .collect();
        let zones: BTreeMap<i64, Atom> =
            wrong.iter().filter_map(|(zone, limits)| Some((*zone, rows.get(limits)?.clone()))).collect();
        if let Some(datapath) = view.datapath() {
            let old = Mutation::new("ct_zones", Mutator::Delete, Datum::set(zones.keys().copied()));
            let new = Mutation::new("ct_zones", Mutator::Insert, Datum::map(zones));
            operations.push(Operation::mutate(DATAPATH, vec![Condition::uuid(datapath)], vec![old, new]));
        } else {
            // Another client must not insert the row meanwhile, of which there would be two.
            let guard = Row::new(OpenVswitch::TABLE).with("datapaths", Datum::map(datapaths.clone()));
            operations.insert(0, Operation::guard(*root, guard));
            let row = Row::new(DATAPATH).with("ct_zones", Datum::map(zones));
            operations.push(Operation::insert_named("datapath", row));
            let pair = (view.datapath_type.as_str(), Atom::NamedUuid("datapath".to_owned()));
            let attach = Mutation::new("datapaths", Mutator::Insert, Datum::map([pair]));
            operations.push(Operation::mutate(
                OpenVswitch::TABLE,
                vec![Condition::uuid(*root)],
                vec![attach],
            ));
        }
        operations
    }

    fn removals(view: &View, want: &BTreeMap<u16, ZoneLimits>) -> Vec<Operation> {
        let is_wanted = |zone: &i64| u16::try_from(*zone).is_ok_and(|zone| want.contains_key(&zone));
        let gone: Vec<i64> = view
            .zones
            .keys()
            .filter(|zone| !is_wanted(zone) && view.row_of(**zone).is_some_and(|row| row.is_own))
            .copied()
            .collect();
        let Some(datapath) = view.datapath().filter(|_| !gone.is_empty()) else { return Vec::new() };
        let remove = Mutation::new("ct_zones", Mutator::Delete, Datum::set(gone));
        vec![Operation::mutate(DATAPATH, vec![Condition::uuid(datapath)], vec![remove])]
    }

    fn problem(view: &View, want: &BTreeMap<u16, ZoneLimits>) -> Option<String> {
        view.support.problem(want)
    }
}

impl View {
    fn datapath(&self) -> Option<Uuid> {
        self.root.as_ref()?.1.get(&self.datapath_type).copied()
    }

    fn row_of(&self, zone: i64) -> Option<&Zone> {
        self.rows.get(self.zones.get(&zone)?)
    }

    /// A row that some zone has, with these limits.
    fn shared(&self, limits: &ZoneLimits) -> Option<Atom> {
        let (uuid, _) = self.rows.iter().find(|(_, row)| row.has(limits, self.support))?;
        Some(Atom::Uuid(*uuid))
    }

    /// Inserts rows with these limits.
    fn insertion(&self, limits: &ZoneLimits, number: u32, operations: &mut Vec<Operation>) -> Atom {
        let mark = || Datum::map([OWNER]);
        let (policy, zone) = (format!("policy{number}"), format!("zone{number}"));
        let timeouts = Row::new(POLICY).with("timeouts", limits.timeouts()).with("external_ids", mark());
        operations.push(Operation::insert_named(policy.clone(), timeouts));
        let mut row =
            Row::new(ZONE).with("timeout_policy", Datum::named_uuid(policy)).with("external_ids", mark());
        if let Some(limit) = self.support.column(limits) {
            row = row.with("limit", limit);
        }
        operations.push(Operation::insert_named(zone.clone(), row));
        Atom::NamedUuid(zone)
    }
}

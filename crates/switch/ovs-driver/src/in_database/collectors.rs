//! Sets of IPFIX collectors in the database, which actions `sample` name by number. No I/O here.
//!
//! A row of `Flow_Sample_Collector_Set` gives a set its number on a bridge and names a row of `IPFIX`, which has the targets and goes
//! by itself once nothing refers to it. The driver's rows have `external_ids:weft=collectors`. A set of somebody else that has
//! the number of a desired one is left alone, and reported.

use std::collections::BTreeMap;

use ovsdb_client::{Client, Condition, Datum, MonitorSpec, Operation, Replica, Row};
use switch_model::{CollectorSet, CollectorSets};
use uuid::Uuid;

use super::{Here, InDatabase};

/// The mark of the driver's rows.
const OWNER: (&str, &str) = ("weft", "collectors");

const SET: &str = "Flow_Sample_Collector_Set";
const EXPORTER: &str = "IPFIX";

/// A row of `Flow_Sample_Collector_Set` with its row of `IPFIX`.
#[derive(Debug, Clone)]
struct Found {
    uuid: Uuid,
    is_own: bool,
    set: Option<CollectorSet>,
}

impl Found {
    fn read(replica: &Replica, uuid: Uuid, row: &Row) -> Found {
        let marks: BTreeMap<String, String> = row.get("external_ids").unwrap_or_default();
        let exporter = row.get::<Option<Uuid>>("ipfix").ok().flatten();
        let exporter = exporter.and_then(|exporter| replica.row(EXPORTER, exporter));
        Found {
            uuid,
            is_own: marks.get(OWNER.0).is_some_and(|mark| mark == OWNER.1),
            set: exporter.and_then(read_exporter),
        }
    }
}

fn read_exporter(row: &Row) -> Option<CollectorSet> {
    let number = |column| row.get::<Option<i64>>(column).ok().flatten().unwrap_or(0);
    Some(CollectorSet {
        targets: row.get("targets").ok()?,
        active_timeout: number("cache_active_timeout").try_into().ok()?,
        flows_max: number("cache_max_flows").try_into().ok()?,
    })
}

/// The sets of the integration bridge in the database.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    supported: bool,
    bridge: Option<Uuid>,
    found: BTreeMap<i64, Found>,
}

impl InDatabase for CollectorSets {
    /// Whether the database has the tables.
    type Support = bool;
    type View = View;

    fn monitor(spec: MonitorSpec) -> MonitorSpec {
        spec.where_present(SET, &["id", "bridge", "ipfix", "external_ids"])
            .where_present(EXPORTER, &["targets", "cache_active_timeout", "cache_max_flows"])
    }

    fn support(client: &Client) -> bool {
        client.monitors(SET, "ipfix") && client.monitors(EXPORTER, "targets")
    }

    fn view(here: &Here<'_>, supported: bool) -> View {
        let (replica, bridge) = (here.replica, here.bridge.uuid);
        let of_bridge = replica.rows(SET).filter(|(_, row)| row.get::<Uuid>("bridge") == Ok(bridge));
        let found =
            of_bridge.filter_map(|(uuid, row)| Some((row.get("id").ok()?, Found::read(replica, uuid, row))));
        View { supported, bridge: Some(bridge), found: found.collect() }
    }

    fn additions(view: &View, want: &BTreeMap<u32, CollectorSet>) -> Vec<Operation> {
        let Some(bridge) = view.bridge.filter(|_| view.supported) else { return Vec::new() };
        let mut operations = Vec::new();
        for (id, set) in want {
            let found = view.found.get(&i64::from(*id));
            if found.is_some_and(|found| !found.is_own || found.set.as_ref() == Some(set)) {
                continue;
            }
            let exporter = format!("exporter{id}");
            operations.push(Operation::insert_named(exporter.clone(), exporter_row(set)));
            let row = Row::new(SET).with("ipfix", Datum::named_uuid(exporter));
            operations.push(match found {
                Some(found) => Operation::update(row, vec![Condition::uuid(found.uuid)]),
                None => Operation::insert(
                    row.with("id", i64::from(*id))
                        .with("bridge", bridge)
                        .with("external_ids", Datum::map([OWNER])),
                ),
            });
        }
        operations
    }

    fn removals(view: &View, want: &BTreeMap<u32, CollectorSet>) -> Vec<Operation> {
        let is_wanted = |id: &i64| u32::try_from(*id).is_ok_and(|id| want.contains_key(&id));
        let gone = view.found.iter().filter(|(id, found)| found.is_own && !is_wanted(id));
        gone.map(|(_, found)| Operation::delete(SET, vec![Condition::uuid(found.uuid)])).collect()
    }

    /// Why packets that flows sample are not reported.
    fn problem(view: &View, want: &BTreeMap<u32, CollectorSet>) -> Option<String> {
        if !view.supported {
            let why = "cannot report packets to collectors (its database has no table Flow_Sample_Collector_Set), so ACLs log \
                       nothing there; update Open vSwitch";
            return (!want.is_empty()).then(|| why.to_owned());
        }
        let taken =
            want.keys().find(|id| view.found.get(&i64::from(**id)).is_some_and(|found| !found.is_own))?;
        Some(format!(
            "has a row of Flow_Sample_Collector_Set with id={taken} that is not Weft's, so what ACLs log goes there; remove the row"
        ))
    }
}

fn exporter_row(set: &CollectorSet) -> Row {
    Row::new(EXPORTER)
        .with("targets", Datum::set(set.targets.iter().cloned()))
        .with("cache_active_timeout", i64::from(set.active_timeout))
        .with("cache_max_flows", i64::from(set.flows_max))
        .with("external_ids", Datum::map([OWNER]))
}

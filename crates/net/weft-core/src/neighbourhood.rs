//! The input rows that concern some objects, as the ports of a packet: enough to explain, away from the engine, what happens to packets
//! between them.
//!
//! A small network is taken whole. Of a large one, the objects around the ports are taken: the ports, switches and routers that
//! packets can come to from them, what says something of these (ACLs, groups, routes), the hosts where they have interfaces,
//! what those report, and the numbers that hooks gave to any of them. What is left out cannot add a flow to those that concern
//! the ports alone; but a number that stands for several objects, such as the identity of an address, can need more of them
//! than are taken, and then flows that use it stay unexplained.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use nlog_data::{CommitError, Evaluator, Row, TableId, Value};
use objects::{Object, ObjectKey, ObjectStore, Rows};

use crate::input_rows::{MANAGED, all_rows, managed};
use crate::reports::Reports;
use crate::rules::Rules;

/// A network with at most so many objects is taken whole.
pub const WHOLE_MAX: usize = 5_000;
/// The most objects of a larger one that are taken. The nearest ones come first.
const AROUND_MAX: usize = 20_000;
/// Sets with more values name what lies further away, such as the members of a large group.
const LARGE_SET: usize = 64;

/// The input rows that concern some ports.
#[derive(Debug, Default)]
pub(crate) struct Neighbourhood {
    /// The rows, those of hooks included.
    pub(crate) rows: Vec<(TableId, Row)>,
    /// Whether objects were left out because there are too many around the ports.
    pub(crate) is_cut: bool,
    /// Whether nothing was left out at all.
    pub(crate) is_whole: bool,
}

/// How an object was come to: what of its surroundings concerns the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// It is named by what says something of ports, switches or routers.
    Below,
    /// It says something of them.
    Above,
    /// It is one of them.
    Structure,
}

/// What is needed to find them.
pub(crate) struct Search<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) objects: &'a ObjectStore,
    pub(crate) reports: &'a Reports,
    pub(crate) evaluator: &'a mut dyn Evaluator,
    /// See [`WHOLE_MAX`].
    pub(crate) whole_max: usize,
}

impl Search<'_> {
    /// The rows that concern objects with these ids.
    ///
    /// # Errors
    /// The engine fails.
    pub(crate) fn around(self, ids: &[String]) -> Result<Neighbourhood, CommitError> {
        let all: usize = self.objects.kinds().iter().map(|kind| self.objects.count(kind.name())).sum();
        if all <= self.whole_max {
            return self.whole();
        }
        let (objects, mut hosts, is_cut) = self.objects_around(ids);
        hosts.extend(
            self.reports.nodes_with(&objects.keys().map(|key| &*key.id).collect()).map(str::to_owned),
        );
        let mut names: HashSet<Value> = HashSet::from([Value::String("".into())]);
        let mut rows = Rows::default();
        let host_kind = self.rules.host_kind();
        let host_object = |host: &String| self.objects.get(&ObjectKey::new(host_kind?, host.as_str()));
        let declared: Vec<&Arc<Object>> = hosts.iter().filter_map(host_object).collect();
        // What hosts refer to, such as zones, says how packets go between them.
        let named: BTreeSet<ObjectKey> =
            declared.iter().flat_map(|host| self.objects.references(host)).collect();
        let named = named.iter().filter(|key| !objects.contains_key(*key));
        let named: Vec<&Arc<Object>> = named.filter_map(|key| self.objects.get(key)).collect();
        for object in objects.values().chain(&declared).chain(&named) {
            object.row().iter().for_each(|value| collect(value, &mut names));
            for (table, row) in object.rows() {
                rows.insert.entry(table.clone()).or_default().push(row);
            }
        }
        let managed_hosts = declared.iter().map(|host| managed(&host.key().id)).collect();
        rows.insert.insert(MANAGED.into(), managed_hosts);
        for host in &hosts {
            rows.add(self.reports.rows_of(host));
        }
        let filled = self.evaluator.rows_with(&self.filled(), &names)?;
        Ok(Neighbourhood { rows: self.named(rows).chain(filled).collect(), is_cut, is_whole: false })
    }

    fn whole(self) -> Result<Neighbourhood, CommitError> {
        let rows = all_rows(self.objects, self.reports, self.rules);
        let mut filled = Vec::new();
        for table in self.filled() {
            filled.extend(self.evaluator.contents(table)?.into_iter().map(|row| (table, row)));
        }
        Ok(Neighbourhood { rows: self.named(rows).chain(filled).collect(), is_cut: false, is_whole: true })
    }

    fn named(&self, rows: Rows) -> impl Iterator<Item = (TableId, Row)> + use<> {
        let tables = self.rules.transaction(rows).insert.into_iter();
        tables.flat_map(|(table, rows)| rows.into_iter().map(move |row| (table, row)))
    }

    /// The tables that hooks fill.
    fn filled(&self) -> Vec<TableId> {
        self.rules.program().hooks.iter().map(|wiring| wiring.to).collect()
    }

    /// The objects around those with these ids, the hosts that they name, and whether there are more.
    fn objects_around(&self, ids: &[String]) -> (BTreeMap<ObjectKey, &Arc<Object>>, BTreeSet<String>, bool) {
        let (mut found, mut hosts) = (BTreeMap::new(), BTreeSet::new());
        let mut ways: BTreeMap<ObjectKey, Way> = BTreeMap::new();
        let mut waiting: VecDeque<(ObjectKey, Way)> = VecDeque::new();
        for id in ids {
            for key in self.objects.kinds().iter().map(|kind| ObjectKey::new(kind.name(), id.as_str())) {
                if !self.is_host(&key) {
                    waiting.push_back((key, Way::Structure));
                } else if self.objects.get(&key).is_some() {
                    hosts.insert(id.clone());
                }
            }
        }
        while let Some((key, way)) = waiting.pop_front() {
            if found.len() == AROUND_MAX {
                return (found, hosts, true);
            }
            if ways.get(&key).is_some_and(|known| *known >= way) {
                continue;
            }
            let Some(object) = self.objects.get(&key) else { continue };
            ways.insert(key.clone(), way);
            if way > Way::Below {
                let way_to = |key: ObjectKey| {
                    let way = if self.is_structure(&key) { Way::Structure } else { Way::Above };
                    (key, way)
                };
                let next = self.objects.referrers(&key).filter(|key| !self.is_host(key)).map(way_to);
                // What says something of an object above leads to no other ports.
                waiting.extend(next.filter(|(_, next)| *next <= way));
            }
            for named in self.objects.references(object) {
                if self.is_host(&named) {
                    hosts.insert(named.id.to_string());
                } else if !self.is_structure(&named) {
                    waiting.push_back((named, Way::Below));
                } else if way == Way::Structure {
                    waiting.push_back((named, Way::Structure));
                }
            }
            found.insert(key, object);
        }
        (found, hosts, false)
    }

    fn is_host(&self, key: &ObjectKey) -> bool {
        self.rules.host_kind() == Some(&*key.kind)
    }

    /// Whether packets pass objects of this kind: these own universal flows.
    fn is_structure(&self, key: &ObjectKey) -> bool {
        let space = self.objects.kinds().get(&key.kind).map(|kind| &kind.declared().id_space);
        self.rules.universal.iter().any(|form| form.space.is_some() && form.space.as_ref() == space)
    }
}

/// The names and addresses in a value.
fn collect(value: &Value, names: &mut HashSet<Value>) {
    match value {
        Value::String(_) | Value::Ip(_) => drop(names.insert(value.clone())),
        Value::Set(values) | Value::List(values) if values.len() <= LARGE_SET => {
            values.iter().for_each(|value| collect(value, names));
        }
        Value::Record(values) => values.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

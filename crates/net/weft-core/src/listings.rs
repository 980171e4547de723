//! Questions about objects that the rules declare: listings, whose rows are the answer ([`Asked::rows`]), and tables of counters, which
//! name what to read on which host ([`Plan`]) and say what the counters are of ([`Plan::answer`]).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use nlog::program::{Counted, Counter, Listing, Reading};
use nlog_data::json::write_value;
use nlog_data::{Row, Table, Type, Value};
use objects::ObjectKey;
use openflow_rs::{Field, MacAddr, Match};
use serde_json::{Map, Value as Json};
use switch_model::{Desired, FlowCount, FlowKey, LearnedFlow, MeterCount};

use crate::core::Core;
use crate::derived::listings::{flow_key, int, match_of, table_of, text};
use crate::rules::Rules;
use crate::totals::{Count, Sample, Source, counts_of_flows, counts_of_meters};

/// The column of an answer with the transport node whose switch counts, if the table has none.
const NODE: &str = "node";
/// The column of an answer that says whether a count has reached its limit.
const REACHED: &str = "reached";

/// A listing or a table of counters, for those who ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its name.
    pub name: String,
    /// The kinds of the objects that it is about.
    pub kinds: Vec<String>,
    /// Its documentation.
    pub doc: String,
    /// The columns of an answer, in order. The first is the object.
    pub columns: Vec<Column>,
    /// The text in place of no rows; empty if the rules have none.
    pub otherwise: String,
    /// Whether hosts count.
    pub counted: bool,
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Whether its values are numbers.
    pub number: bool,
    /// Whether it is a list that only those get who ask for it.
    pub detail: bool,
}

impl Description {
    /// All that the rules declare, in the order of their names.
    pub fn all(rules: &Rules) -> Vec<Description> {
        rules.program().listings.iter().map(|listing| Description::of(rules, listing)).collect()
    }

    fn of(rules: &Rules, listing: &Listing) -> Description {
        let schema = &rules.program().schema;
        let table = schema.table(listing.table);
        let plain = |at: usize| Column {
            name: table.columns[at].name.clone(),
            number: *table.columns[at].ty.base() == Type::Int,
            detail: false,
        };
        let mut columns: Vec<Column> = shown(table, listing.reads.as_ref()).map(plain).collect();
        if let Some(reads) = &listing.reads {
            if reads.host.is_none() {
                let node = Column { name: NODE.to_owned(), number: false, detail: false };
                columns.insert(1.min(columns.len()), node);
            }
            columns.extend(reads.counts.iter().map(|count| Column {
                name: count.name.clone(),
                number: count.counted != Counted::EthDst,
                detail: count.counted == Counted::EthDst,
            }));
        }
        Description {
            name: listing.name(schema),
            kinds: listing.kinds(schema).to_vec(),
            doc: table.doc.clone(),
            columns,
            otherwise: listing.otherwise.clone(),
            counted: listing.reads.is_some(),
        }
    }
}

/// The columns that an answer has.
fn shown(table: &Table, reads: Option<&Reading>) -> impl Iterator<Item = usize> {
    let counter = reads.map(|reads| reads.counter);
    (0..table.columns.len()).filter(move |at| counter.is_none_or(|counter| !counter.has(*at)))
}

/// Which counts of a table of counters only grow, and so add up to totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Growing {
    /// That of packets.
    pub packets: bool,
    /// That of bytes.
    pub bytes: bool,
    /// That of packets that a meter drops.
    pub dropped: bool,
}

impl Growing {
    fn of(reads: &Reading) -> Growing {
        let has = |wanted| reads.counts.iter().any(|count| count.counted == wanted);
        Growing { packets: has(Counted::Packets), bytes: has(Counted::Bytes), dropped: has(Counted::Dropped) }
    }
}

/// The names of the tables of counters that have counts which only grow.
pub fn growing(rules: &Rules) -> impl Iterator<Item = String> {
    let program = rules.program();
    let grows = |listing: &&Listing| {
        listing.reads.as_ref().is_some_and(|reads| Growing::of(reads) != Growing::default())
    };
    program.listings.iter().filter(grows).map(|listing| listing.name(&program.schema))
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoListing {
    /// The rules declare no such listing. These are there: of the kind that was asked for, or all.
    Name(Vec<String>),
    /// No object of these kinds has the id.
    Object(Vec<String>),
}

/// A question, and all that is needed to answer it. It shares what it looks at with the engine, which goes on.
#[derive(Debug)]
pub struct Asked {
    rules: Arc<Rules>,
    listing: usize,
    rows: Vec<Row>,
    /// The hosts to ask, if a table says it.
    hosts: Option<BTreeSet<Arc<str>>>,
    /// The desired states of switches, where these say who has a flow.
    desired: BTreeMap<String, Arc<Desired>>,
}

impl Asked {
    /// The question about the object with this id, or about all, and about objects of this kind alone if one is given.
    pub fn of(core: &Core, name: &str, kind: Option<&str>, id: Option<&str>) -> Result<Asked, NoListing> {
        let rules = core.rules();
        let (schema, listings) = (&rules.program().schema, &rules.program().listings);
        let of_kind =
            |each: &&Listing| kind.is_none_or(|kind| each.kinds(schema).iter().any(|own| own == kind));
        let Some(at) = listings.iter().position(|each| each.name(schema) == name && of_kind(&each)) else {
            let there = listings.iter().filter(of_kind);
            return Err(NoListing::Name(there.map(|each| each.name(schema)).collect()));
        };
        let exists = |kind: &str, id: &str| core.objects().get(&ObjectKey::new(kind, id)).is_some();
        let kinds = match kind {
            Some(kind) => vec![kind.to_owned()],
            None => listings[at].kinds(schema).to_vec(),
        };
        if id.is_some_and(|id| !kinds.iter().any(|kind| exists(kind, id))) {
            return Err(NoListing::Object(kinds));
        }
        let reads = listings[at].reads.as_ref();
        let hosts = reads.and_then(|reads| reads.on).map(|_| core.listings().hosts(at, id));
        let everywhere = reads.is_some_and(|reads| reads.host.is_none() && reads.on.is_none());
        let desired = if everywhere { core.all_desired() } else { BTreeMap::new() };
        Ok(Asked { rules: rules.clone(), listing: at, rows: core.listings().rows(at, id), hosts, desired })
    }

    fn listing(&self) -> &Listing {
        &self.rules.program().listings[self.listing]
    }

    fn table(&self) -> &Table {
        self.rules.program().schema.table(self.listing().table)
    }

    /// The answer's columns.
    pub fn description(&self) -> Description {
        Description::of(&self.rules, self.listing())
    }

    /// Whether hosts are to be asked.
    pub fn is_counted(&self) -> bool {
        self.listing().reads.is_some()
    }

    /// The rows of a listing, in the order of their columns.
    pub fn rows(mut self) -> Vec<Map<String, Json>> {
        self.rows.sort_by(|a, b| {
            a.iter()
                .zip(b.iter())
                .map(|(a, b)| in_order(a, b))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        let columns = &self.table().columns;
        let member = |(column, value): (&nlog_data::Column, &Value)| (column.name.clone(), json(value));
        self.rows.iter().map(|row| columns.iter().zip(row.iter()).map(member).collect()).collect()
    }

    /// What to read on which host. Takes a while in a large network.
    pub fn plan(self) -> Plan {
        let mut hosts: BTreeMap<String, Arc<OfHost>> = BTreeMap::new();
        let Some(reads) = self.listing().reads.clone() else { return Plan { asked: self, hosts } };
        match (&self.hosts, reads.host) {
            (Some(known), _) => {
                let all = Arc::new(OfHost::of(&reads, self.rows.iter().enumerate()));
                hosts.extend(known.iter().map(|host| (host.to_string(), all.clone())));
            }
            (None, Some(column)) => {
                let mut of_host: BTreeMap<Arc<str>, Vec<(usize, &Row)>> = BTreeMap::new();
                for (at, row) in self.rows.iter().enumerate() {
                    if let Some(host) = text(row, column) {
                        of_host.entry(host).or_default().push((at, row));
                    }
                }
                let of_hosts = of_host.into_iter();
                hosts
                    .extend(of_hosts.map(|(host, rows)| (host.to_string(), OfHost::of(&reads, rows).into())));
            }
            (None, None) => {
                let all = OfHost::of(&reads, self.rows.iter().enumerate());
                for (host, desired) in self.desired.iter().filter(|_| !self.rows.is_empty()) {
                    let mut here = all.clone();
                    here.flows.retain(|key, _| desired.flows.contains_key(key));
                    if !here.flows.is_empty() || here.learned.is_some() {
                        hosts.insert(host.clone(), here.into());
                    }
                }
            }
        }
        hosts.retain(|_, of| !of.is_empty());
        Plan { asked: self, hosts }
    }
}

/// The order in which people read values: of networks, IPv4 and the longest prefix first; addresses by number, also in texts.
fn in_order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Net(a), Value::Net(b)) => {
            let family = a.addr().is_ipv6().cmp(&b.addr().is_ipv6());
            family.then(b.prefix_len().cmp(&a.prefix_len())).then_with(|| a.cmp(b))
        }
        (Value::String(a), Value::String(b)) => match (a.parse::<IpAddr>(), b.parse::<IpAddr>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => a.cmp(b),
        },
        _ => a.cmp(b),
    }
}

/// A value as JSON; an empty text is none.
fn json(value: &Value) -> Json {
    if matches!(value, Value::String(text) if text.is_empty()) {
        return Json::Null;
    }
    let mut bytes = Vec::new();
    write_value(&mut bytes, value);
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// What to read on a host, and the numbers of the rows that it is for.
#[derive(Debug, Clone, Default)]
struct OfHost {
    meters: BTreeMap<u32, Vec<usize>>,
    flows: BTreeMap<FlowKey, Vec<usize>>,
    cookies: BTreeMap<u64, Vec<usize>>,
    /// The learned flows to read.
    learned: Option<(u8, Match)>,
}

impl OfHost {
    fn of<'a>(reads: &Reading, rows: impl IntoIterator<Item = (usize, &'a Row)>) -> OfHost {
        let mut of = OfHost::default();
        for (at, row) in rows {
            match reads.counter {
                Counter::Meter { meter } => {
                    if let Some(meter) = int(row, meter).and_then(|meter| u32::try_from(meter).ok()) {
                        of.meters.entry(meter).or_default().push(at);
                    }
                }
                Counter::Flow { .. } => {
                    if let Some(key) = flow_key(reads.counter, row) {
                        of.flows.entry(key).or_default().push(at);
                    }
                }
                Counter::Learned { table, matching, cookie } => {
                    let cookie = int(row, cookie).and_then(|cookie| u64::try_from(cookie).ok());
                    let (Some(cookie), Some(table), Some(matching)) =
                        (cookie, table_of(row, table), match_of(row, matching))
                    else {
                        continue;
                    };
                    of.cookies.entry(cookie).or_default().push(at);
                    of.learned = Some(match of.learned.take() {
                        // Each question takes a while, so there is one for all matches.
                        Some((known, other)) if known == table && other != matching => (known, Match::any()),
                        Some(known) => known,
                        None => (table, matching),
                    });
                }
            }
        }
        of
    }

    fn is_empty(&self) -> bool {
        self.meters.is_empty() && self.flows.is_empty() && self.cookies.is_empty()
    }
}

/// What to read on hosts.
#[derive(Debug)]
pub struct Plan {
    asked: Asked,
    hosts: BTreeMap<String, Arc<OfHost>>,
}

/// What to read on a host.
#[derive(Debug, Clone, Default)]
pub struct ToRead {
    /// The flows whose counters are read.
    pub flows: Vec<FlowKey>,
    /// Whether the counters of meters are read.
    pub meters: bool,
    /// The learned flows that are read: those of a table that a match covers.
    pub learned: Option<(u8, Match)>,
}

/// What a host has counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Of flows.
    pub flows: Vec<FlowCount>,
    /// Of meters.
    pub meters: Vec<MeterCount>,
    /// The learned flows.
    pub learned: Vec<LearnedFlow>,
}

/// The counters of one row of an answer.
#[derive(Debug, Default)]
struct Sums {
    packets: u64,
    bytes: u64,
    dropped: u64,
    entries: u64,
    addresses: BTreeSet<MacAddr>,
}

impl Sums {
    fn add(&mut self, packets: u64, bytes: u64, dropped: u64) {
        self.packets = self.packets.saturating_add(packets);
        self.bytes = self.bytes.saturating_add(bytes);
        self.dropped = self.dropped.saturating_add(dropped);
    }
}

impl Plan {
    /// What to read, by host.
    pub fn to_read(&self) -> BTreeMap<String, ToRead> {
        let to_read = |of: &Arc<OfHost>| ToRead {
            flows: of.flows.keys().cloned().collect(),
            meters: !of.meters.is_empty(),
            learned: of.learned.clone(),
        };
        self.hosts.iter().map(|(host, of)| (host.clone(), to_read(of))).collect()
    }

    /// The answer's columns.
    pub fn description(&self) -> Description {
        self.asked.description()
    }

    /// The counts that only grow.
    pub fn growing(&self) -> Growing {
        self.asked.listing().reads.as_ref().map(Growing::of).unwrap_or_default()
    }

    /// The ids of the objects that something counts for. Objects of two kinds with one id would share a total, so the kinds of a listing should
    /// share an id space.
    pub fn owners(&self) -> BTreeSet<Arc<str>> {
        self.asked.rows.iter().filter_map(|row| text(row, 0)).collect()
    }

    /// Whether something is read on a host.
    pub fn has_host(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// What a host has counted, by flow or meter and object. Those that it does not have yet, or not any more, have counted nothing.
    pub fn samples(&self, host: &str, counts: &Counts) -> Vec<Sample> {
        let Some(of) = self.hosts.get(host) else { return Vec::new() };
        let mut samples = Vec::new();
        let mut add = |source: Source, rows: &[usize], count: Count| {
            // Several rows of an object may name one flow, and its packets count once.
            let owners: BTreeSet<Arc<str>> =
                rows.iter().filter_map(|at| text(self.asked.rows.get(*at)?, 0)).collect();
            samples.extend(owners.into_iter().map(|owner| Sample { source, owner, count }));
        };
        let (flows, meters) = (counts_of_flows(&counts.flows), counts_of_meters(&counts.meters));
        for (key, rows) in &of.flows {
            add(Source::flow(key), rows, flows.get(key).copied().unwrap_or_default());
        }
        for (meter, rows) in &of.meters {
            add(Source::meter(*meter), rows, meters.get(meter).copied().unwrap_or_default());
        }
        samples
    }

    /// The rows of the answer that a host has counted for, in the order of their columns. Lists are there if `details` are asked for.
    pub fn answer(&self, host: &str, counts: &Counts, details: bool) -> Vec<Map<String, Json>> {
        let (Some(reads), Some(of)) = (&self.asked.listing().reads, self.hosts.get(host)) else {
            return Vec::new();
        };
        let mut sums: BTreeMap<Vec<Value>, Sums> = BTreeMap::new();
        let shown: Vec<usize> = shown(self.asked.table(), Some(reads)).collect();
        let named = |at: &usize| -> Vec<Value> {
            let row = self.asked.rows.get(*at);
            shown.iter().filter_map(|column| row?.get(*column).cloned()).collect()
        };
        // A flow or a meter that the switch does not have yet has counted nothing.
        for at in of.flows.values().chain(of.meters.values()).flatten() {
            sums.entry(named(at)).or_default();
        }
        for FlowCount { key, packets, bytes } in &counts.flows {
            for at in of.flows.get(key).into_iter().flatten() {
                sums.entry(named(at)).or_default().add(*packets, *bytes, 0);
            }
        }
        for MeterCount { meter, packets, bytes, dropped } in &counts.meters {
            for at in of.meters.get(meter).into_iter().flatten() {
                sums.entry(named(at)).or_default().add(*packets, *bytes, *dropped);
            }
        }
        // Flows with another cookie are of an object that is gone, or have another age: the switch is about to forget them.
        for flow in &counts.learned {
            for at in of.cookies.get(&flow.cookie()).into_iter().flatten() {
                let sums = sums.entry(named(at)).or_default();
                sums.entries += 1;
                if details {
                    sums.addresses.extend(address(flow));
                }
            }
        }
        sums.into_iter()
            .map(|(values, sums)| self.row(reads, host, (&shown, &values), &sums, details))
            .collect()
    }

    fn row(
        &self,
        reads: &Reading,
        host: &str,
        (shown, values): (&[usize], &[Value]),
        sums: &Sums,
        details: bool,
    ) -> Map<String, Json> {
        let columns = &self.asked.table().columns;
        let members = shown.iter().zip(values);
        let mut row: Map<String, Json> =
            members.clone().map(|(at, value)| (columns[*at].name.clone(), json(value))).collect();
        if reads.host.is_none() {
            row.insert(NODE.to_owned(), host.into());
        }
        for count in &reads.counts {
            let number = match count.counted {
                Counted::Packets => sums.packets,
                Counted::Bytes => sums.bytes,
                Counted::Dropped => sums.dropped,
                Counted::Entries => sums.entries,
                Counted::EthDst => {
                    if details {
                        let addresses = sums.addresses.iter().map(|address| Json::from(address.to_string()));
                        row.insert(count.name.clone(), addresses.collect());
                    }
                    continue;
                }
            };
            row.insert(count.name.clone(), number.into());
            let limit = count.limit.and_then(|limit| members.clone().find(|(at, _)| **at == limit));
            if let Some((_, Value::Int(limit))) = limit {
                let reached = u64::try_from(*limit).is_ok_and(|limit| number >= limit);
                row.insert(REACHED.to_owned(), reached.into());
            }
        }
        row
    }
}

/// The address that a learned flow leads to.
fn address(flow: &LearnedFlow) -> Option<MacAddr> {
    let (mac, _) = flow.matching().ok()?.get(Field::EthDst)?;
    u64::try_from(mac).ok().map(MacAddr::from_u64)
}

#[cfg(test)]
mod tests;

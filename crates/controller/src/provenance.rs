//! The logical rules behind flows that the physical rules only placed.
//!
//! The cookie of a flow identifies the rule that derived it. For universal flows that is always the rule that places
//! them, but readers want the logical rule. A universal row and its flows share table, priority and match, except that the
//! flows match the number of the datapath too.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use nlog_data::{Canonical, Committed, Row, Value};
use openflow_rs::{Field, Match};
use ovs_driver::FlowKey;

use crate::rules::Rules;

/// The number of parts. While a reader holds an older copy, a change copies only its part.
const PARTS: usize = 256;

/// The logical rules behind universal flows. A copy costs no more than `PARTS` pointers.
#[derive(Debug, Clone)]
pub(crate) struct Provenance {
    /// A hash of the key determines its part.
    parts: Vec<Arc<Part>>,
    /// The datapath of each number in metadata.
    datapaths: Arc<HashMap<i64, Arc<str>>>,
}

type Part = HashMap<Key, Origins>;

/// Table, priority and match of a universal flow. The match is shared with the engine: encoded again as a [`FlowKey`], the
/// matches of a large network would take twice the memory.
type Key = (u8, u16, Arc<Canonical<Match>>);

/// The fingerprint of the rule for each datapath or port with such a flow.
#[derive(Debug, Clone)]
enum Origins {
    /// Almost always: most matches have an address or the label of a port.
    One(Arc<str>, u64),
    More(BTreeMap<Arc<str>, u64>),
}

impl Origins {
    fn insert(&mut self, owner: Arc<str>, rule: u64) {
        match self {
            Origins::One(own, own_rule) if *own == owner => *own_rule = rule,
            Origins::One(own, own_rule) => {
                *self = Origins::More(BTreeMap::from([(own.clone(), *own_rule), (owner, rule)]));
            }
            Origins::More(owners) => drop(owners.insert(owner, rule)),
        }
    }

    /// Removes an owner. Returns whether none is left.
    fn remove(&mut self, owner: &str) -> bool {
        match self {
            Origins::One(own, _) => **own == *owner,
            Origins::More(owners) => {
                owners.remove(owner);
                owners.is_empty()
            }
        }
    }

    /// The rule for a datapath. A flow of a port has the port's label in its match, so its only rule is that of the port.
    fn of(&self, datapath: Option<&str>) -> Option<u64> {
        match self {
            Origins::One(_, rule) => Some(*rule),
            Origins::More(owners) => {
                datapath.and_then(|datapath| owners.get(datapath)).or_else(|| owners.values().next()).copied()
            }
        }
    }
}

impl Default for Provenance {
    fn default() -> Self {
        Provenance { parts: vec![Arc::default(); PARTS], datapaths: Arc::default() }
    }
}

impl Provenance {
    /// Applies the changes of the universal tables.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        if let Some(delta) = rules.datapath_labels.and_then(|table| committed.delta.tables.get(&table)) {
            let datapaths = Arc::make_mut(&mut self.datapaths);
            for (label, _) in delta.delete.iter().filter_map(labelled) {
                datapaths.remove(&label);
            }
            datapaths.extend(delta.insert.iter().filter_map(labelled));
        }
        for delta in rules.universal.iter().filter_map(|table| committed.delta.tables.get(table)) {
            for (key, owner) in delta.delete.iter().filter_map(universal) {
                let part = Arc::make_mut(&mut self.parts[part(&key)]);
                if part.get_mut(&key).is_some_and(|origins| origins.remove(&owner)) {
                    part.remove(&key);
                }
            }
            let inserted = delta.insert.iter().zip(&delta.rules);
            let reattributed = delta.reattributed.iter().map(|(row, rule)| (row, rule));
            for (row, rule) in inserted.chain(reattributed) {
                if let Some((key, owner)) = universal(row) {
                    let part = Arc::make_mut(&mut self.parts[part(&key)]);
                    let rule = rules.fingerprint(*rule);
                    part.entry(key)
                        .and_modify(|origins| origins.insert(owner.clone(), rule))
                        .or_insert_with(|| Origins::One(owner.clone(), rule));
                }
            }
        }
    }

    /// The logical rule behind a universal flow.
    pub(crate) fn logical_rule(&self, key: &FlowKey) -> Option<u64> {
        let whole = key.matching().ok()?;
        let label = whole.get(Field::Metadata).and_then(|(label, _)| i64::try_from(label).ok());
        let datapath = label.and_then(|label| self.datapaths.get(&label)).map(|datapath| &**datapath);
        let origin = |matching: Match| {
            let key = (key.table(), key.priority(), Arc::new(Canonical::new(matching)));
            self.parts[part(&key)].get(&key)?.of(datapath)
        };
        // Other rules than the built-in ones may say the datapath in their universal flows.
        without_datapath(&whole).filter(|_| datapath.is_some()).and_then(origin).or_else(|| origin(whole))
    }
}

/// A match of a flow without the datapath.
fn without_datapath(whole: &Match) -> Option<Match> {
    let rest = whole.iter().filter(|demand| demand.field != Field::Metadata);
    rest.into_iter()
        .try_fold(Match::any(), |rest, demand| rest.with_masked(demand.field, demand.value, demand.mask))
        .ok()
}

/// The number and the id of a datapath.
fn labelled(row: &Row) -> Option<(i64, Arc<str>)> {
    match row.as_slice() {
        [Value::String(datapath), Value::Int(label)] => Some((*label, datapath.clone())),
        _ => None,
    }
}

fn part(key: &Key) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as usize % PARTS
}

/// The key that a universal row shares with its flows, and its datapath or port. A row that no switch supports yields no flow
/// either; the transaction that inserts it is refused elsewhere.
fn universal(row: &Row) -> Option<(Key, Arc<str>)> {
    let [Value::String(owner), Value::Int(table), Value::Int(priority), Value::Match(matching), _] =
        row.as_slice()
    else {
        return None;
    };
    let (table, priority) = (u8::try_from(*table).ok()?, u16::try_from(*priority).ok()?);
    Some(((table, priority, matching.clone()), owner.clone()))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use network::{Batch, Cancel};
    use nlog::Sources;
    use nlog_data::{Evaluator, Tables};
    use nlog_reference::Reference;

    use super::*;
    use crate::core::Core;

    const RULES: &str = r#"
        object switch { tenant: opt<string>; }
        object node { }
        output table switch_address(
            hv: ref node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>,
        ) key(hv);
        table wants(sw: string);
        wants(sw) :- switch(sw, _);
        input table datapath_label(sw: string, label: int) key(sw) from allocate(wants, first: 1, last: 9);
        table logical_flow(sw: string, table_id: int, priority: int, match: match, actions: actions);
        output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
            key(hv, table_id, priority, match);
        logical_flow(sw, 1, 1, match_reg0(7), set_reg0(7)) :- switch(id: sw, tenant: tenant), is_none(tenant);
        logical_flow(sw, 1, 1, match_reg0(7), set_reg0(8)) :- switch(id: sw, tenant: tenant), is_some(tenant);
        of_flow("hv1", id, priority, matching & match_metadata(label), actions) :-
            logical_flow(sw, id, priority, matching, actions), datapath_label(sw, label);
    "#;

    #[test]
    fn a_copy_stays_as_it_was_and_shares_what_has_not_changed() {
        let compilation = nlog::compile(&Sources::from_texts([("test.nlog", RULES)]));
        let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
        let rules = Arc::new(Rules::new(program).unwrap());
        let make = |program, observe| {
            Ok(Box::new(Reference::new(program, observe).with_attribution()) as Box<dyn Evaluator>)
        };
        let evaluator = nlog_hooks::start(rules.program(), Tables::These(rules.observed()), make).unwrap();
        let now = SystemTime::UNIX_EPOCH;
        let (mut core, _) =
            Core::restore(evaluator, rules.clone(), crate::core::History::new(&rules), now).unwrap();
        let apply = |core: &mut Core, switch: &str| {
            let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
            batch.add_json("test", switch);
            core.apply(batch, "test", now).unwrap();
        };
        apply(&mut core, r#"{"kind": "switch", "id": "a"}"#);
        let before = core.provenance();
        apply(&mut core, r#"{"kind": "switch", "id": "b", "tenant": "acme"}"#);
        let after = core.provenance();

        let known = |origins: &Provenance| {
            let desired = core.desired("hv1");
            desired.flows.keys().filter_map(|key| origins.logical_rule(key)).collect::<Vec<_>>()
        };
        let logical = known(&after);
        assert_eq!((known(&before).len(), logical.len()), (1, 2));
        // The two flows differ in their datapath alone, and each has its own rule.
        let texts: Vec<&str> = logical.iter().map(|rule| &*rules.source(*rule).unwrap().text).collect();
        let with = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
        assert_eq!((with("is_none(tenant)"), with("is_some(tenant)")), (1, 1), "{texts:?}");
        let shared = before.parts.iter().zip(&after.parts).filter(|(old, new)| Arc::ptr_eq(old, new));
        assert_eq!(shared.count(), PARTS - 1);
    }
}

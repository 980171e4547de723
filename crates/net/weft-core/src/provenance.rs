//! The universal flows: the logical rules behind flows that the physical rules only placed, and the flows of a datapath.
//!
//! The cookie of a flow identifies the rule that derived it. For universal flows that is always the rule that places
//! them, but readers want the logical rule. A universal row and its flows share table, priority and match, but for the
//! datapath, which placement adds to the match.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use nlog_data::{Committed, Packed, Row, Value};
use openflow_rs::{Field, Match};
use switch_model::FlowKey;

use crate::rules::Rules;
use crate::universal::Key;

/// The number of parts. While a reader holds an older copy, a change copies only its part.
const PARTS: usize = 256;

/// The universal flows. A copy costs no more than `PARTS` pointers.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// A hash of the key determines its part.
    parts: Vec<Arc<Part>>,
    /// The datapath of each number in metadata.
    datapaths: Arc<HashMap<i64, Arc<str>>>,
}

type Part = HashMap<Key, Origins>;

/// The owner of a flow: the index of the flow's table, and an id.
type Owner = (u8, Arc<str>);

/// What is known of a flow besides its key.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The fingerprint of the logical rule.
    pub(crate) rule: u64,
    /// The values of the other columns ([`UniversalFlow`](crate::universal::UniversalFlow)).
    pub(crate) rest: Value,
}

/// The flows with one key, by owner.
#[derive(Debug, Clone)]
enum Origins {
    One(Owner, Origin),
    More(BTreeMap<Owner, Origin>),
}

impl Origins {
    fn insert(&mut self, owner: Owner, origin: Origin) {
        match self {
            Origins::One(own, known) if *own == owner => *known = origin,
            Origins::One(own, known) => {
                *self = Origins::More(BTreeMap::from([(own.clone(), known.clone()), (owner, origin)]));
            }
            Origins::More(origins) => drop(origins.insert(owner, origin)),
        }
    }

    /// Removes an owner. Returns whether none is left.
    fn remove(&mut self, owner: &Owner) -> bool {
        match self {
            Origins::One(own, _) => own == owner,
            Origins::More(origins) => {
                origins.remove(owner);
                origins.is_empty()
            }
        }
    }

    /// That of a datapath. A flow of a port has the port's label in its match, so its only owner is the port.
    fn of(&self, datapath: Option<&str>) -> Option<(&Owner, &Origin)> {
        let own = self.iter().find(|((_, id), _)| Some(&**id) == datapath);
        own.or_else(|| self.iter().next())
    }

    fn iter(&self) -> Box<dyn Iterator<Item = (&Owner, &Origin)> + '_> {
        match self {
            Origins::One(owner, origin) => Box::new(std::iter::once((owner, origin))),
            Origins::More(origins) => Box::new(origins.iter()),
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
        for (number, form) in (0..).zip(&rules.universal) {
            let Some(delta) = committed.delta.tables.get(&form.table) else { continue };
            for flow in delta.delete.iter().filter_map(|row| form.flow(row)) {
                let part = Arc::make_mut(&mut self.parts[part(&flow.key)]);
                if part.get_mut(&flow.key).is_some_and(|origins| origins.remove(&(number, flow.owner))) {
                    part.remove(&flow.key);
                }
            }
            let inserted = delta.insert.iter().zip(&delta.rules);
            let reattributed = delta.reattributed.iter().map(|(row, rule)| (row, rule));
            for (row, rule) in inserted.chain(reattributed) {
                let Some(flow) = form.flow(row) else { continue };
                let part = Arc::make_mut(&mut self.parts[part(&flow.key)]);
                let owner = (number, flow.owner);
                let origin = Origin { rule: rules.fingerprint(*rule), rest: flow.rest };
                match part.get_mut(&flow.key) {
                    Some(origins) => origins.insert(owner, origin),
                    None => drop(part.insert(flow.key, Origins::One(owner, origin))),
                }
            }
        }
    }

    /// The number of a datapath in metadata. Looks at all.
    pub fn datapath_label(&self, datapath: &str) -> Option<u64> {
        let (label, _) = self.datapaths.iter().find(|(_, id)| &***id == datapath)?;
        u64::try_from(*label).ok()
    }

    /// The logical rule behind a placed flow.
    pub fn logical_rule(&self, key: &FlowKey) -> Option<u64> {
        let (datapath, origins) = self.origins(key)?;
        origins.of(datapath).map(|(_, origin)| origin.rule)
    }

    /// The datapath of a placed flow, and the universal flows that it may be.
    fn origins(&self, key: &FlowKey) -> Option<(Option<&str>, &Origins)> {
        let whole = key.matching().ok()?;
        let datapath = self.datapath(&whole);
        let origins = |matching: Match| {
            let key = (key.table(), key.priority(), Packed::new(&matching));
            self.parts[part(&key)].get(&key)
        };
        // Other rules than the built-in ones may say the datapath in their universal flows.
        let found = without_datapath(&whole)
            .filter(|_| datapath.is_some())
            .and_then(origins)
            .or_else(|| origins(whole));
        found.map(|found| (datapath, found))
    }

    /// The datapath that a match names.
    fn datapath(&self, matching: &Match) -> Option<&str> {
        let (label, _) = matching.get(Field::Metadata)?;
        self.datapaths.get(&i64::try_from(label).ok()?).map(|datapath| &**datapath)
    }

    /// The ids of objects that a flow names: those of the universal flow that it is, if there is one, and the datapath in its match.
    pub fn owners(&self, key: &FlowKey) -> Vec<String> {
        let mut names = Vec::new();
        if let Some(((_, owner), origin)) =
            self.origins(key).and_then(|(datapath, origins)| origins.of(datapath))
        {
            names.push(owner.to_string());
            let rest = match &origin.rest {
                Value::Record(values) => values,
                one => std::slice::from_ref(one),
            };
            names.extend(rest.iter().filter_map(|value| match value {
                Value::String(text) => Some(text.to_string()),
                _ => None,
            }));
        }
        let datapath = key.matching().ok().and_then(|whole| self.datapath(&whole).map(str::to_owned));
        names.extend(datapath);
        names
    }

    /// The flows that these owners have, in no particular order. An owner is the number of a table of universal flows and
    /// an id.
    pub(crate) fn flows<'a>(
        &'a self,
        owns: impl Fn(u8, &str) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a Key, &'a Owner, &'a Origin)> + 'a {
        let all = self.parts.iter().flat_map(|part| part.iter());
        let origins =
            all.flat_map(|(key, origins)| origins.iter().map(move |(owner, origin)| (key, owner, origin)));
        origins.filter(move |(_, (form, id), _)| owns(*form, id))
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::test_core;

    const RULES: &str = r#"
        object switch { tenant: opt<string>; }
        object node { }
        output table switch_address(
            hv: ref node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>,
        ) key(hv);
        table wants(sw: string);
        wants(sw) :- switch(sw, _);
        input table datapath_label(datapath: string, label: int) key(datapath) from allocate(wants, first: 1, last: 9);
        table logical_flow(switch: string, table_id: int, priority: int, match: match, actions: actions);
        output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
            key(hv, table_id, priority, match);
        logical_flow(sw, 1, 1, match_reg0(7), set_reg0(7)) :- switch(id: sw, tenant: tenant), is_none(tenant);
        logical_flow(sw, 1, 1, match_reg0(7), set_reg0(8)) :- switch(id: sw, tenant: tenant), is_some(tenant);
        of_flow("hv1", id, priority, matching & match_metadata(label), actions) :-
            logical_flow(sw, id, priority, matching, actions), datapath_label(sw, label);
    "#;

    #[test]
    fn a_copy_stays_as_it_was_and_shares_what_has_not_changed() {
        let (rules, now) = (test_core::rules(RULES), SystemTime::UNIX_EPOCH);
        let mut core = test_core::core(&rules, [], now);
        test_core::apply(&mut core, r#"{"kind": "switch", "id": "a"}"#, now);
        let before = core.provenance();
        test_core::apply(&mut core, r#"{"kind": "switch", "id": "b", "tenant": "acme"}"#, now);
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

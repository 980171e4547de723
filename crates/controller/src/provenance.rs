//! The logical rules behind flows that the physical rules only placed.
//!
//! The cookie of a flow identifies the rule that derived it. For universal flows that is always the rule that places
//! them, but readers want the logical rule. A universal row and its flows share table, priority and match.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use nlog_data::{Canonical, Committed, Row, Value};
use openflow_rs::Match;
use ovs_driver::FlowKey;

use crate::rules::Rules;

/// The number of parts. While a reader holds an older copy, a change copies only its part.
const PARTS: usize = 256;

/// The logical rules behind universal flows. A copy costs no more than `PARTS` pointers.
#[derive(Debug, Clone)]
pub(crate) struct Provenance {
    /// A hash of the key determines its part.
    parts: Vec<Arc<Part>>,
}

type Part = HashMap<Key, Origins>;

/// Table, priority and match of a universal flow. The match is shared with the engine: encoded again as a [`FlowKey`], the
/// matches of a large network would take twice the memory.
type Key = (u8, u16, Arc<Canonical<Match>>);

/// The fingerprint of the rule for each logical switch with such a flow.
#[derive(Debug, Clone)]
enum Origins {
    /// Almost always, because matches include the datapath.
    One(Arc<str>, u64),
    More(BTreeMap<Arc<str>, u64>),
}

impl Origins {
    fn insert(&mut self, switch: Arc<str>, rule: u64) {
        match self {
            Origins::One(own, own_rule) if *own == switch => *own_rule = rule,
            Origins::One(own, own_rule) => {
                *self = Origins::More(BTreeMap::from([(own.clone(), *own_rule), (switch, rule)]));
            }
            Origins::More(switches) => drop(switches.insert(switch, rule)),
        }
    }

    /// Removes a switch. Returns whether none is left.
    fn remove(&mut self, switch: &str) -> bool {
        match self {
            Origins::One(own, _) => **own == *switch,
            Origins::More(switches) => {
                switches.remove(switch);
                switches.is_empty()
            }
        }
    }

    fn first(&self) -> Option<u64> {
        match self {
            Origins::One(_, rule) => Some(*rule),
            Origins::More(switches) => switches.values().next().copied(),
        }
    }
}

impl Default for Provenance {
    fn default() -> Self {
        Provenance { parts: vec![Arc::default(); PARTS] }
    }
}

impl Provenance {
    /// Applies the changes of the universal tables.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        for delta in rules.universal.iter().filter_map(|table| committed.delta.tables.get(table)) {
            for (key, switch) in delta.delete.iter().filter_map(universal) {
                let part = Arc::make_mut(&mut self.parts[part(&key)]);
                if part.get_mut(&key).is_some_and(|origins| origins.remove(&switch)) {
                    part.remove(&key);
                }
            }
            let inserted = delta.insert.iter().zip(&delta.rules);
            let reattributed = delta.reattributed.iter().map(|(row, rule)| (row, rule));
            for (row, rule) in inserted.chain(reattributed) {
                if let Some((key, switch)) = universal(row) {
                    let part = Arc::make_mut(&mut self.parts[part(&key)]);
                    let rule = rules.fingerprint(*rule);
                    part.entry(key)
                        .and_modify(|origins| origins.insert(switch.clone(), rule))
                        .or_insert_with(|| Origins::One(switch.clone(), rule));
                }
            }
        }
    }

    /// The logical rule behind a universal flow. Switches that share a key share the rule, since matches include the
    /// datapath.
    pub(crate) fn logical_rule(&self, key: &FlowKey) -> Option<u64> {
        let matching = Arc::new(Canonical::new(key.matching().ok()?));
        let key = (key.table(), key.priority(), matching);
        self.parts[part(&key)].get(&key)?.first()
    }
}

fn part(key: &Key) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as usize % PARTS
}

/// The key that a universal row shares with its flows, and its switch. A row that no switch supports yields no flow
/// either; the transaction that inserts it is refused elsewhere.
fn universal(row: &Row) -> Option<(Key, Arc<str>)> {
    let [Value::String(switch), Value::Int(table), Value::Int(priority), Value::Match(matching), _] =
        row.as_slice()
    else {
        return None;
    };
    let (table, priority) = (u8::try_from(*table).ok()?, u16::try_from(*priority).ok()?);
    Some(((table, priority, matching.clone()), switch.clone()))
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
        logical_flow(sw, 1, 1, match_reg0(label), set_reg0(label)) :- datapath_label(sw, label);
        of_flow("hv1", id, priority, matching, actions) :- logical_flow(_, id, priority, matching, actions);
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
        let apply = |core: &mut Core, id: &str| {
            let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
            batch.add_json("test", &format!(r#"{{"kind": "switch", "id": "{id}"}}"#));
            core.apply(batch, "test", now).unwrap();
        };
        apply(&mut core, "a");
        let before = core.provenance();
        apply(&mut core, "b");
        let after = core.provenance();

        let known = |origins: &Provenance| {
            let desired = core.desired("hv1");
            desired.flows.keys().filter_map(|key| origins.logical_rule(key)).collect::<Vec<_>>()
        };
        let logical = known(&after);
        assert_eq!((known(&before).len(), logical.len()), (1, 2));
        assert!(rules.source(logical[0]).unwrap().text.starts_with("logical_flow("));
        let shared = before.parts.iter().zip(&after.parts).filter(|(old, new)| Arc::ptr_eq(old, new));
        assert_eq!(shared.count(), PARTS - 1);
    }
}

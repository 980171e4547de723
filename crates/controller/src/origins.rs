//! Where flows come from that the logical rules made and the physical ones only placed.
//!
//! A flow's cookie names the rule whose head it is: for universal flows always the one rule that places them. What a
//! reader wants to know is which logical rule made the row; a universal row and the flows that it becomes have table,
//! priority and match in common.

use std::collections::BTreeMap;

use nlog_data::{Committed, Row, Value};
use switch::FlowKey;

use crate::rules::Rules;

/// The logical rules behind universal flows.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// By what universal row and flow have in common: the fingerprint of the rule, by logical switch.
    rules: BTreeMap<FlowKey, BTreeMap<String, u64>>,
}

impl Origins {
    /// Takes in the changes of the universal tables.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        for delta in rules.universal.iter().filter_map(|table| committed.delta.tables.get(table)) {
            for (key, switch) in delta.delete.iter().filter_map(universal) {
                if let Some(switches) = self.rules.get_mut(&key) {
                    switches.remove(&switch);
                    if switches.is_empty() {
                        self.rules.remove(&key);
                    }
                }
            }
            let inserted = delta.insert.iter().zip(&delta.rules);
            let reattributed = delta.reattributed.iter().map(|(row, rule)| (row, rule));
            for (row, rule) in inserted.chain(reattributed) {
                if let Some((key, switch)) = universal(row) {
                    self.rules.entry(key).or_default().insert(switch, rules.fingerprint(*rule));
                }
            }
        }
    }

    /// The logical rule that made this flow, if it is a universal one. Two switches that share a key have it from one
    /// rule, since matches name the datapath.
    pub(crate) fn of(&self, key: &FlowKey) -> Option<u64> {
        self.rules.get(key)?.values().next().copied()
    }
}

/// What a universal row has in common with its flows, and its switch. A row that no switch can have makes no flow
/// either; the transaction that brings it is refused elsewhere.
fn universal(row: &Row) -> Option<(FlowKey, String)> {
    let [Value::String(switch), Value::Int(table), Value::Int(priority), Value::Match(matching), _] =
        row.as_slice()
    else {
        return None;
    };
    let (table, priority) = (u8::try_from(*table).ok()?, u16::try_from(*priority).ok()?);
    Some((FlowKey::new(table, priority, matching.get()).ok()?, switch.to_string()))
}

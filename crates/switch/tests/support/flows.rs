//! Flows from text.

use std::collections::BTreeMap;

use openflow_rs::FlowEntry;
use switch::{Flow, FlowKey};

pub fn flow(text: &str) -> (FlowKey, Flow) {
    let entry: FlowEntry = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a match that fits");
    (key, Flow::new(entry.cookie, &entry.actions).expect("actions that fit"))
}

pub fn flows<T: AsRef<str>>(texts: &[T]) -> BTreeMap<FlowKey, Flow> {
    texts.iter().map(|text| flow(text.as_ref())).collect()
}

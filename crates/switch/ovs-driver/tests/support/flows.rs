//! Flows from text.

use std::collections::BTreeMap;

use openflow_rs::FlowEntry;
use ovs_driver::{Bucket, Flow, FlowKey, TlvMapping};

/// A geneve option that flows use.
pub const TUNNEL_OPTION: TlvMapping = TlvMapping { class: 0x102, kind: 0x80, len: 4, field: 0 };

pub fn flow(text: &str) -> (FlowKey, Flow) {
    let entry: FlowEntry = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a match that fits");
    (key, Flow::new(entry.cookie, &entry.actions).expect("actions that fit"))
}

pub fn flows<T: AsRef<str>>(texts: &[T]) -> BTreeMap<FlowKey, Flow> {
    texts.iter().map(|text| flow(text.as_ref())).collect()
}

/// Buckets from group, number and actions.
pub fn buckets<T: AsRef<str>>(rows: &[(u32, u32, T)]) -> BTreeMap<(u32, u32), Bucket> {
    let bucket = |(group, bucket, actions): &(u32, u32, T)| {
        let actions = actions.as_ref().parse().expect("actions");
        ((*group, *bucket), Bucket::new(7, &actions).expect("a bucket that fits"))
    };
    rows.iter().map(bucket).collect()
}

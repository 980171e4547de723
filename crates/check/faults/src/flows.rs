//! The flows and groups that a switch has, beside those that the controller wants it to have.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use weft_client::Flows;

/// The most differences that are printed.
const PRINTED: usize = 8;

/// Table, priority and match of a flow.
type Key = (u32, u32, String);
/// Its cookie and its actions.
type Entry = (u64, String);

/// How the flows and groups of a switch compare with what is wanted.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// What is different; empty if nothing is.
    pub different: Vec<String>,
    /// The number of flows and groups that were compared.
    pub compared: usize,
}

/// Compares what `ovs-ofctl --no-names --no-stats dump-flows` and `dump-groups` print with what the controller wants. Flows are compared as
/// texts, not by code that the controller uses.
pub fn compare(flows: &str, groups: &str, wanted: &Flows) -> Result<Comparison> {
    let found = flows
        .lines()
        .filter(|line| line.contains(" actions="))
        .map(|line| read(line.trim()).with_context(|| format!("this is no flow: {line}")));
    let found: BTreeMap<Key, Entry> = found.collect::<Result<_>>()?;
    let wanted_flows: BTreeMap<Key, Entry> = wanted
        .flows
        .iter()
        .map(|flow| {
            let key = (flow.table_id, flow.priority, flow.r#match.clone());
            (key, (flow.cookie, flow.actions.clone()))
        })
        .collect();
    let mut different = Vec::new();
    for (key, entry) in &wanted_flows {
        match found.get(key) {
            None => different.push(format!("{key:?} is missing")),
            Some(other) if other != entry => {
                different.push(format!("{key:?} is {other:?}, and should be {entry:?}"));
            }
            Some(_) => {}
        }
    }
    let more = found.iter().filter(|(key, _)| !wanted_flows.contains_key(*key));
    different.extend(more.map(|(key, entry)| format!("{key:?} {entry:?} is there, and nobody wants it")));
    let found: BTreeSet<u32> = groups.lines().filter_map(group).collect();
    let wanted: BTreeSet<u32> = wanted.buckets.iter().map(|bucket| bucket.group).collect();
    if found != wanted {
        different.push(format!("the groups are {found:?}, and should be {wanted:?}"));
    }
    let compared = wanted_flows.len() + wanted.len();
    let all = different.len();
    different.truncate(PRINTED);
    if all > PRINTED {
        different.push(format!("and {} more", all - PRINTED));
    }
    Ok(Comparison { different, compared })
}

/// Reads a line of `ovs-ofctl --no-stats dump-flows`, such as
/// `cookie=0x1f, table=3, priority=100,ip,reg1=0x2 actions=output:3`. Absent fields have their defaults.
fn read(line: &str) -> Option<(Key, Entry)> {
    let (head, actions) = line.split_once(" actions=")?;
    let (mut cookie, mut table, mut priority) = (0, 0, 0x8000);
    let mut matches = Vec::new();
    // Flags of a flow stand before its match, after a blank.
    for word in head.split([',', ' ']).filter(|word| !word.is_empty()) {
        if let Some(hex) = word.strip_prefix("cookie=0x") {
            cookie = u64::from_str_radix(hex, 16).ok()?;
        } else if let Some(number) = word.strip_prefix("table=") {
            table = number.parse().ok()?;
        } else if let Some(number) = word.strip_prefix("priority=") {
            priority = number.parse().ok()?;
        } else if !FLAGS.contains(&word)
            && !word.starts_with("idle_timeout=")
            && !word.starts_with("importance=")
        {
            matches.push(word);
        }
    }
    Some(((table, priority, matches.join(",")), (cookie, actions.to_owned())))
}

/// Flags that a flow may have.
const FLAGS: [&str; 5] =
    ["send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts"];

fn group(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("group_id=")?;
    rest.split(',').next()?.trim().parse().ok()
}

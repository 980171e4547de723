//! The results of probes in the database: a key of the bridge for each. No I/O here.

use std::collections::BTreeMap;

use ovsdb_client::{Condition, Datum, Mutation, Mutator, Operation, Replica};
use packet_answers::{PROBE_KEY, ProbeResult};

use super::plan::{BRIDGE, EXTERNAL, named};
use crate::probing::{Remembered, Results};

/// The results that are there. Others may have written anything.
pub(super) fn read(replica: &Replica, bridge: &str) -> Remembered {
    let found = found(replica, bridge).map(|(_, found)| found).unwrap_or_default();
    let results = found
        .iter()
        .filter_map(|(key, text)| Some((key.strip_prefix(PROBE_KEY)?.into(), ProbeResult::parse(text)?)));
    results.collect()
}

/// What has to be written so that the results are there: single keys, whatever else there is; none if all is right.
pub(super) fn correction(replica: &Replica, bridge: &str, results: &Results) -> Option<Operation> {
    let (uuid, found) = found(replica, bridge)?;
    let (mut deleted, mut written) = (Vec::new(), Vec::new());
    for (id, result) in &results.probes {
        let key = format!("{PROBE_KEY}{id}");
        let Some(result) = result.as_ref().map(ToString::to_string) else { continue };
        let before = found.get(&key);
        if before == Some(&result) {
            continue;
        }
        if before.is_some() {
            deleted.push(key.clone());
        }
        written.push((key, result));
    }
    let is_probe = |id: &str| results.probes.contains_key(id);
    let is_gone = |key: &&String| key.strip_prefix(PROBE_KEY).is_some_and(|id| !is_probe(id));
    deleted.extend(found.keys().filter(|_| results.others_go).filter(is_gone).cloned());
    if deleted.is_empty() && written.is_empty() {
        return None;
    }
    let mutations = vec![
        Mutation::new(EXTERNAL, Mutator::Delete, Datum::set(deleted)),
        Mutation::new(EXTERNAL, Mutator::Insert, Datum::map(written)),
    ];
    Some(Operation::mutate(BRIDGE, vec![Condition::uuid(uuid)], mutations))
}

fn found(replica: &Replica, bridge: &str) -> Option<(uuid::Uuid, BTreeMap<String, String>)> {
    let (uuid, row) = named(replica, BRIDGE, bridge)?;
    Some((uuid, row.get(EXTERNAL).unwrap_or_default()))
}

//! An anonymised network behaves as the real one, and has none of its names and addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::InterfaceAddress;
use objects::{Batch, Cancel, Object, ObjectError, ObjectKey};
use serde_json::Value as Json;
use weft_core::anonymise::{self, Mapping, Secret};
use weft_core::core::{Core, CoreError, Refusal};
use weft_core::rules::Rules;

use crate::random_networks::{Recorder, base_of, records_of};

const SECRET: Secret = [7; anonymise::SECRET_BYTES];

/// All texts of a document, but for the text of rules.
fn texts(json: &Json, found: &mut BTreeSet<String>) {
    match json {
        Json::String(text) => drop(found.insert(text.clone())),
        Json::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Json::Object(members) => {
            found.extend(members.keys().cloned());
            members.values().for_each(|item| texts(item, found));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// What can be counted of a network, without names: by switch in the order of names, by problem, and by kind with the names of its state.
fn counts(core: &Core) -> Vec<String> {
    let nodes = core.all_desired();
    let mut counts: Vec<String> =
        nodes.keys().map(|node| format!("{:?}", core.desired_counts(node))).collect();
    counts.sort_unstable();
    let mut problems: Vec<String> =
        core.problems().map(|problem| format!("{} {}", problem.kind, problem.code)).collect();
    problems.sort_unstable();
    counts.extend(problems);
    let mut states = BTreeMap::<_, usize>::new();
    for (key, _) in core.objects().iter() {
        let state: Vec<String> =
            core.state_of(&key.kind, &key.id).into_iter().map(|(name, _)| name).collect();
        *states.entry((key.kind, state)).or_default() += 1;
    }
    counts.extend(states.iter().map(|(state, count)| format!("{state:?}: {count}")));
    counts
}

/// What is refused, without names.
fn outcome<T>(outcome: Result<T, CoreError>) -> Vec<String> {
    let fault = |fault: &ObjectError| {
        // Behind the field, an entry of a mapping has its name.
        let field = fault.path.split('.').next().unwrap_or_default();
        format!("{:?} {:?} {field}", fault.code, fault.kind)
    };
    match outcome {
        Ok(_) => vec!["accepted".to_owned()],
        Err(CoreError::Refused(Refusal::Objects { faults })) => {
            let mut faults: Vec<String> = faults.iter().map(fault).collect();
            faults.sort_unstable();
            faults
        }
        Err(error) => panic!("{error}"),
    }
}

fn apply(core: &mut Core, object: &Object) -> Vec<String> {
    let mut batch = Batch::new(core.rules().kinds(), Cancel::default());
    batch.add_json("request", &object.to_json());
    outcome(core.apply(batch, "test", SystemTime::UNIX_EPOCH))
}

fn delete(core: &mut Core, key: ObjectKey) -> Vec<String> {
    outcome(core.delete([key], "test", SystemTime::UNIX_EPOCH))
}

/// Asks both networks for the same: a copy of each object, the object with the id of the next one of its kind, and to be without it.
fn assert_same_refusals(real: &mut Core, other: &mut Core, mapping: &mut Mapping, seed: u64) -> usize {
    let objects: Vec<Arc<Object>> = real.objects().iter().map(|(_, object)| object.clone()).collect();
    let mut refused = 0;
    for object in objects.iter().take(60) {
        let copy = object.with("another", object.labels().clone(), object.values().to_vec());
        let answers = [
            (apply(real, &copy), apply(other, &mapping.object(&copy).unwrap())),
            (delete(real, object.key()), delete(other, mapping.key(&object.key()))),
        ];
        for (real, other) in answers {
            assert_eq!(real, other, "seed {seed}: {}", object.to_json());
            refused += usize::from(real != ["accepted"]);
        }
    }
    refused
}

#[test]
fn an_anonymised_network_works_alike_and_has_no_real_name() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let (mut refused, mut problems) = (0, 0);
    for seed in test_random::seeds!("an_anonymised_network_works_alike_and_has_no_real_name", 6) {
        let record = base_of(&rules, &records_of(&rules, seed));
        let (other, mut mapping) = anonymise::anonymise(&record, &rules, SECRET).unwrap();
        let mut found = BTreeSet::new();
        let mut document = serde_json::to_value(&other).unwrap();
        document["base"]["rules"].take();
        texts(&document, &mut found);
        for (old, new) in mapping.pairs() {
            // An address can be the new one of another.
            if old.parse::<IpAddr>().is_ok() || old.parse::<InterfaceAddress>().is_ok() {
                continue;
            }
            assert!(!found.contains(&old), "seed {seed}: {old} is still there, and should be {new}");
        }
        let [mut real, mut other] = [record, other].map(|record| {
            let Recorder { core, records, .. } = Recorder::after(&rules, vec![record]);
            // A start corrects rows that are others than the rules make of the objects.
            let correction = records.get(1).map(serde_json::to_string);
            assert!(correction.is_none(), "seed {seed}: {correction:?}");
            core
        });
        assert_eq!(counts(&real), counts(&other), "seed {seed}");
        problems += real.problems().count();
        refused += assert_same_refusals(&mut real, &mut other, &mut mapping, seed);
        assert_eq!(counts(&real), counts(&other), "seed {seed}, after the requests");
    }
    assert!(refused > 20 && problems > 5, "{refused} refused, {problems} problems");
}

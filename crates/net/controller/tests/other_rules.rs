//! The start of a controller with other rules than those that wrote its journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::{key, state};
use crate::support::*;
use nlog_data::json;
use weft_core::core::Core;
use weft_core::record::Record;

#[test]
fn other_rules_start_from_the_same_journal() {
    let rules_now = rules(RULES);
    let (mut core, _) = core(&rules_now, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    records.extend(
        core.report("hv1", &report(&[("blue-1", 5)], &[]), now()).unwrap().map(|done| done.journalled()),
    );

    // Rules with another field of ports: their rows become others, and everything else is as it was.
    let more = RULES.replace(
        "    port_security: bool = false;",
        "    port_security: bool = false; enabled: bool = true;",
    );
    let (other, correction) = crate::support::core(&rules(&more), &records);
    let correction = correction.expect("rows go and come");
    assert_eq!((correction.txn, &*correction.by), (3, "upgrade"));
    let changed = |rows: &BTreeMap<Arc<str>, Vec<Vec<serde_json::Value>>>| {
        rows.iter().map(|(table, rows)| (table.clone(), rows.len())).collect::<Vec<_>>()
    };
    assert_eq!(changed(&correction.delete), [("switch_port".into(), 3)]);
    assert_eq!(changed(&correction.insert), [("switch_port".into(), 3)]);
    assert_eq!(shown(&other.desired("hv1")), shown(&core.desired("hv1")));

    // And back.
    records.push(correction);
    let (back, correction) = crate::support::core(&rules_now, &records);
    let correction = correction.expect("rows come");
    assert_eq!(changed(&correction.insert), [("switch_port".into(), 3)]);
    assert_eq!(state(&back)[1..], state(&core)[1..]);
    records.push(correction);
    assert!(crate::support::core(&rules_now, &records).1.is_none());
}

/// Rules may rename a field. If they drop or narrow one that objects have, the controller says so and does not start.
#[test]
fn fields_that_the_rules_have_no_more_are_named() {
    let rules_now = rules(RULES);
    let (mut core, _) = core(&rules_now, &[]);
    let records = vec![apply(&mut core, NETWORK).journalled()];
    let restore = |from: &str, to: &str| {
        assert!(RULES.contains(from), "{from}");
        let rules = rules(&RULES.replace(from, to));
        let history = history(&rules, &records);
        Core::restore(reference(&rules), rules, history, now()).map(|_| ()).map_err(|error| error.to_string())
    };
    let security = "    port_security: bool = false;";
    assert_eq!(restore(security, "    secured: bool was port_security = false;"), Ok(()));
    let dropped = restore(security, "").unwrap_err();
    assert!(dropped.contains("switch_port blue-1: port_security: unknown field"), "{dropped}");
    let narrowed = restore("unknown_addresses: bool = false;", "unknown_addresses: int = 0;");
    let narrowed = narrowed.unwrap_err();
    assert!(narrowed.contains("switch_port blue-1: unknown_addresses: must be"), "{narrowed}");
}

#[test]
fn what_switches_reported_outlives_rules_without_a_table_for_it() {
    let whole = rules(RULES);
    let (mut first, _) = core(&whole, &[]);
    let mut records = vec![apply(&mut first, NETWORK).journalled()];
    let told = |core: &mut Core, records: &mut Vec<Record>, vifs: &[(&str, u16)]| {
        let done = core.report("hv1", &report(vifs, &[("weft-geneve", 1)]), now()).unwrap();
        records.extend(done.map(|done| done.journalled()));
    };
    told(&mut first, &mut records, &[("blue-1", 5)]);
    assert_eq!(records[1].reports, None, "the rows say it");
    let before = state(&first);

    // There and back with nothing reported meanwhile.
    let fewer = RULES.lines().filter(|line| !line.contains("vif(")).collect::<Vec<_>>().join("\n");
    let fewer = rules(&fewer);
    let (mut second, correction) = core(&fewer, &records);
    records.extend(correction);
    assert_eq!(second.vif_count("hv1"), 1);
    let (back, correction) = core(&whole, &records);
    assert_eq!(correction.expect("rows come").insert["vif"].len(), 1);
    assert_eq!(state(&back)[1..], before[1..]);

    // What is reported meanwhile counts as well, and every record can be replayed with the rules that wrote it.
    told(&mut second, &mut records, &[("blue-2", 6), ("red-1", 7)]);
    let last = records.last().unwrap();
    assert!(last.insert.is_empty() && last.delete.is_empty(), "{last:?}");
    let line = serde_json::to_vec(last).unwrap();
    json::parse_line(&line, 1, &fewer.program().schema).unwrap_or_else(|error| panic!("{error}"));
    let gone = second.delete(&[key("transport_node", "hv2")], "test", now()).unwrap();
    records.extend(gone.transaction.map(|done| done.journalled()));

    let (back, correction) = core(&whole, &records);
    assert_eq!(correction.as_ref().expect("rows come").insert["vif"].len(), 2);
    assert_eq!(back.vif_count("hv1"), 2);
    let outputs = |core: &Core| {
        shown(&core.desired("hv1"))
            .iter()
            .filter(|line| line.contains("output:"))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(outputs(&back), ["0 100 reg0=0x102 output:6", "0 100 reg0=0x103 output:7"]);
    records.extend(correction);
    let (again, correction) = core(&whole, &records);
    assert!(correction.is_none(), "{correction:?}");
    assert_eq!(state(&again), state(&back));
}

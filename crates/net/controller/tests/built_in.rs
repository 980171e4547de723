//! The rules that the controller carries with it, on the engine that it runs.

use std::path::Path;
use std::sync::Arc;

use crate::support::*;
use nlog_data::Evaluator;
use weft_core::Rules;
use weft_core::core::Core;
use weft_core::record::Record;

fn dataflow(rules: &Rules, workers: usize) -> Box<dyn Evaluator> {
    controller::evaluator(rules, workers).unwrap_or_else(|error| panic!("{error}"))
}

fn core_on(evaluator: Box<dyn Evaluator>, rules: &Arc<Rules>, records: &[Record]) -> Core {
    Core::restore(evaluator, rules.clone(), history(rules, records), now())
        .unwrap_or_else(|error| panic!("{error}"))
        .0
}

#[test]
fn the_rules_built_in_are_those_of_the_repository() {
    let built_in = Rules::built_in().unwrap();
    assert!(built_in.program().tests.is_empty(), "unit tests stay out of the daemon");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules");
    let folder = Rules::load(&[folder]).unwrap();
    let all = |rules: &Rules| rules.program().rules.iter().map(|rule| rule.fingerprint).collect::<Vec<_>>();
    assert!(!all(&built_in).is_empty());
    assert_eq!(all(&built_in), all(&folder));
    let place = &built_in.program().rules[0].place;
    assert!(place.file.starts_with("builtin/") && place.file.ends_with(".nlog"), "{place}");
}

/// What follows from the demo's kind of network is the same on the reference and on the dataflow, for each transaction
/// and after a restart.
#[test]
fn the_engine_gives_switches_what_the_reference_gives_them() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let mut cores = [
        core_on(reference(&rules), &rules, &[]),
        core_on(dataflow(&rules, 1), &rules, &[]),
        core_on(dataflow(&rules, 3), &rules, &[]),
    ];
    let mut records: Vec<Record> = Vec::new();
    let mut step = |name: &str, run: &dyn Fn(&mut Core) -> Record| {
        let made: Vec<Record> = cores.iter_mut().map(run).collect();
        assert!(made.iter().all(|record| *record == made[0]), "{name}");
        records.push(made[0].clone());
        let restored = core_on(dataflow(&rules, 1), &rules, &records);
        for node in ["hv1", "hv2"] {
            let wanted = cores[0].desired(node);
            for core in cores[1..].iter().chain([&restored]) {
                assert_eq!(core.desired(node), wanted, "{name}: {node}");
            }
        }
        cores[0].desired("hv1").flows.len()
    };
    step("apply", &|core| apply(core, NETWORK).journalled());
    let tunnels = [("weft-geneve", 1), ("weft-vxlan", 2), ("weft-gre", 3)];
    let plugged = step("hv1 reports", &|core| {
        core.report("hv1", &report(&[("blue-1", 101), ("red-1", 102)], &tunnels), now())
            .unwrap()
            .unwrap()
            .journalled()
    });
    let with_remote = step("hv2 reports", &|core| {
        core.report("hv2", &report(&[("blue-2", 101)], &tunnels), now()).unwrap().unwrap().journalled()
    });
    assert!(with_remote > 0 && plugged > 0);
    step("blue-2 migrates", &|core| {
        let vifs = [("blue-1", 101), ("red-1", 102), ("blue-2", 103)];
        core.report("hv1", &report(&vifs, &tunnels), now()).unwrap().unwrap().journalled()
    });
    step("blue-2 is gone where it was", &|core| {
        core.report("hv2", &report(&[], &tunnels), now()).unwrap().unwrap().journalled()
    });
    step("all ports go", &|core| {
        let ports = ["blue-1", "blue-2", "red-1"];
        let keys = ports.map(|id| objects::ObjectKey::new("switch_port", id));
        core.delete(&keys, "test", now()).unwrap().transaction.unwrap().journalled()
    });
}

/// Ports of switches that the rules join, flooded within each island.
const ISLANDS: &str = concat!(
    objects!(),
    "
table wants_label(sw: string);
wants_label(sw) :- switch(sw, _);
input table datapath_label(sw: string, label: int) key(sw) from allocate(wants_label, first: 1, last: 9);
table link(a: string, b: string);
link(sw, sw) :- switch(sw, _);
link(a, b) :- switch(a, tenant), switch(b, tenant), is_some(tenant);
input table island(sw: string, island: string) key(sw) from connected_components(link);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
of_flow(node, 0, 1, match{metadata: label}, actions[set(reg0, name)]) :-
    transport_node(id: node, ..), island(sw, island), datapath_label(sw, label), datapath_label(island, name);
",
    addresses!(),
);

/// The hooks of the rules run beside the engine, also after a restart and when a transaction is undone.
#[test]
fn the_controller_runs_the_hooks_of_its_rules() {
    let rules = rules(ISLANDS);
    let mut core = core_on(dataflow(&rules, 1), &rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let apart = core.desired("hv1");
    assert_eq!(apart.flows.len(), 2);
    let joined = apply(&mut core, "{kind: switch, id: red, tenant: acme}");
    assert_ne!(core.desired("hv1"), apart, "red is on the island of blue");
    core.undo(joined).unwrap();
    assert_eq!(core.desired("hv1"), apart);
    records.push(apply(&mut core, "{kind: switch, id: red, tenant: acme}").journalled());
    let restored = core_on(dataflow(&rules, 2), &rules, &records);
    assert_eq!(core.desired("hv1"), restored.desired("hv1"));
}

#[test]
fn hooks_that_the_controller_cannot_run_are_refused_with_the_rules() {
    let refusal = |from: &str, to: &str| {
        assert!(ISLANDS.contains(from));
        let sources = nlog::Sources::from_texts([("test.nlog", ISLANDS.replace(from, to))]);
        let compilation = nlog::compile(&sources);
        Rules::new(compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics)))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal(
            "island(sw: string, island: string) key(sw) from connected_components(link)",
            "island(sw: string, island: string) from hysteresis(link, rise: 1, fall: 1)"
        ),
        "test.nlog:45:48: hook hysteresis of the rules: the controller does not support timed hooks yet, because it sends no ticks; remove it"
    );
    let wired = "table wants(hv: string, tunnel: string); wants(id, id) :- switch_port(id: id, ..); \
                 input table tunnel_port(hv: string, tunnel: string, ofport: int) key(hv, tunnel) \
                 from allocate(wants, first: 1, last: 9);\ntable link(";
    let said = refusal("table link(", wired);
    assert!(
        said.ends_with("the controller fills table tunnel_port itself; let the hook fill another table"),
        "{said}"
    );
}

//! What an explanation from the rows around a flow says is true in the whole network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use nlog::program::Pattern;
use nlog_data::Cancel;
use nlog_data::json::to_json;
use nlog_explain::OnDemand;
use packet_trace::Question;
use serde_json::Value as Json;
use test_random::Random;
use weft_core::core::Core;
use weft_core::rules::Rules;
use weft_core::snapshot::Snapshot;

use super::{Case, Form, names_of};
use crate::random_networks::{core_of, network_of};

/// No transaction of these networks is in a journal.
const NO_JOURNAL: &str = "/nonexistent/journal.jsonl";
/// The flows of a network that are explained.
const FLOWS: usize = 12;

/// The rows of the whole network, by table.
struct Truth {
    state: OnDemand,
    tables: BTreeMap<String, BTreeSet<String>>,
}

impl Truth {
    fn has(&mut self, table: &str, row: &Json) -> bool {
        let state = &self.state;
        let rows = self.tables.entry(table.to_owned()).or_insert_with(|| {
            let table = state.program().schema.find(table).unwrap();
            let text =
                |row: &Vec<nlog_data::Value>| Json::Array(row.iter().map(to_json).collect()).to_string();
            state.rows(table).iter().map(text).collect()
        });
        rows.contains(&row.to_string())
    }

    /// Checks each row of an explanation that does not depend on a count or a default. Returns whether this one does.
    fn check(&mut self, node: &Json, checked: &mut usize) -> bool {
        let mut is_unsure = node["unsure"] == true;
        for from in node["from"].as_array().into_iter().flatten() {
            is_unsure |= self.check(from, checked);
        }
        // What was told above may depend on one there.
        is_unsure |= node["told"] == true;
        if !is_unsure {
            let table = node["table"].as_str().unwrap();
            assert!(self.has(table, &node["row"]), "{node}");
            *checked += 1;
        }
        is_unsure
    }
}

/// The answer about a flow of a host.
fn explained(core: &mut Core, host: &str, flow: &str, whole_max: usize) -> Json {
    let question = Question::of_flow(core.rules().program(), host, flow).unwrap();
    let Question::Flow(asked) = &question else { panic!("a flow is asked about") };
    let provenance = core.provenance();
    let names = names_of(asked, &core.desired(host), &|key| provenance.owners(key));
    let snapshot = Snapshot::of_at_most(core, &names, whole_max).unwrap();
    let case = Case { names: &names, question: &question, snapshot, journal: Path::new(NO_JOURNAL) };
    let text = case.answer(&Form::Explanation { rows: 1, json: true }, &Cancel::default()).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn an_explanation_from_the_rows_around_a_flow_is_true_in_the_whole_network() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let (mut checked, mut same, mut asked) = (0, 0, 0);
    for seed in
        test_random::seeds!("an_explanation_from_the_rows_around_a_flow_is_true_in_the_whole_network", 8)
    {
        let (world, _) = network_of(seed);
        let mut core = core_of(&rules, &world);
        let whole = Snapshot::of_at_most(&mut core, &[], usize::MAX).unwrap();
        let state = OnDemand::new(rules.program().clone(), whole.origins.into_keys());
        let mut truth = Truth { state, tables: BTreeMap::new() };
        let unnamed = Question::Rows(Pattern { table: rules.switch.flows.unwrap(), columns: vec![None; 5] });
        let snapshot = Snapshot::of_at_most(&mut core, &[], 0).unwrap();
        let refused = Case { names: &[], question: &unnamed, snapshot, journal: Path::new(NO_JOURNAL) }
            .answer(&Form::WhyNot { json: false }, &Cancel::default());
        assert!(refused.unwrap_err().message().contains("the question names none"), "seed {seed}");
        let mut random = Random::new(seed);
        let hosts: Vec<String> = world.nodes.keys().cloned().collect();
        // A history can end without hosts.
        if hosts.is_empty() {
            continue;
        }
        for _ in 0..FLOWS {
            let host = &hosts[random.below(hosts.len() as u64) as usize];
            let desired = core.desired(host);
            if desired.flows.is_empty() {
                continue;
            }
            let at = random.below(desired.flows.len() as u64) as usize;
            let Some((key, flow)) = desired.flows.iter().nth(at) else { continue };
            let (matches, actions) = (key.matching().unwrap(), flow.actions().unwrap());
            let text = openflow_rs::FlowEntry::new(key.table(), key.priority(), matches, actions).to_string();
            let all = explained(&mut core, host, &text, usize::MAX);
            let some = explained(&mut core, host, &text, 0);
            assert!(all.get("notes").is_none() && some["notes"][0].as_str().unwrap().contains(host.as_str()));
            assert_eq!(some["rows"][0]["row"], all["rows"][0]["row"], "seed {seed}: {text}");
            truth.check(&some["rows"][0], &mut checked);
            same += usize::from(some["rows"][0]["rule"] == all["rows"][0]["rule"]);
            asked += 1;
        }
    }
    println!("{asked} flows, {same} with the same rule, {checked} rows checked");
    assert!(
        checked > 4 * asked && 2 * same > asked,
        "{asked} flows, {same} with the same rule, {checked} rows checked"
    );
}

#[test]
fn a_row_is_read_with_the_rules_that_run_and_with_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.nlog");
    let own = "import \"builtin/interface/objects.nlog\";\noutput table mine(sw: string);\nmine(sw) :- switch(id: sw, ..);\n";
    std::fs::write(&file, own).unwrap();
    let rules = Rules::load(&[Path::new("builtin"), folder.path()]).unwrap();
    let read = |row: &str| super::pattern(&rules, row);
    assert_eq!(read("mine(\"blue\")").unwrap().columns, [Some(nlog_data::Value::String("blue".into()))]);
    assert!(read("yours(_)").unwrap_err().contains("unknown table `yours`"));
    assert!(read("no mine(_)").unwrap_err().contains("is not a row"));
    std::fs::write(&file, own.to_owned() + "mine(router) :- router(id: router, ..);\n").unwrap();
    // A row as it is printed needs no file; an expression does.
    assert_eq!(read("mine(_)").unwrap().columns, [None]);
    let expression = "mine(\"bl\" ++ \"ue\")";
    assert!(read(expression).unwrap_err().contains("they have changed since it started"));
    std::fs::remove_file(&file).unwrap();
    assert!(read(expression).unwrap_err().contains("they have changed since it started"));
}

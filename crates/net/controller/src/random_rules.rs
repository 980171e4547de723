//! Random edits of rules, loaded at random moments: a controller that takes them is what a restart with them is.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::Arc;

use conformance::{NumberedWorld, Step};
use nlog_data::Cancel;
use test_random::Random;
use weft_core::core::{Core, MakeEvaluator, PreparedRows, RulesTransition};
use weft_core::record::RulesText;
use weft_core::rules::Rules;

use crate::random_networks::{Recorder, STEPS, history_of};

/// The changes of a network: each load and each restart takes a second.
const CHANGES: usize = 8;

/// Rules with a random edit of one rule: it moves to the end of its file, its variables get other names, or it goes. None if that is no
/// program.
fn edited(random: &mut Random, rules: &Rules) -> Option<Arc<Rules>> {
    let RulesText { packages, mut files } = rules.text()?;
    let rule = random.pick(&rules.program().rules);
    let file = files.get_mut(&rule.place.file)?;
    let begin = file.find(&*rule.text)?;
    file.replace_range(begin..begin + rule.text.len(), "");
    match random.below(4) {
        0 => {}
        1 => *file += &format!("\n{}\n", renamed(&rule.text)),
        _ => *file += &format!("\n{}\n", rule.text),
    }
    Rules::of_text(&RulesText { packages, files }).ok().map(Arc::new)
}

/// A rule whose variables have other names, as far as they are not the names of something else.
fn renamed(rule: &str) -> String {
    let head = rule.split(":-").next().unwrap_or_default();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = head.split(|c| !is_part(c)).filter(|word| word.len() > 1).collect();
    let Some(name) =
        words.iter().find(|word| !head.starts_with(**word) && !head.contains(&format!("{word}(")))
    else {
        return rule.to_owned();
    };
    let mut text = String::new();
    for part in rule.split_inclusive(|c| !is_part(c)) {
        let word = part.trim_end_matches(|c| !is_part(c));
        let end = &part[word.len()..];
        // A column in the place of an argument keeps its name.
        let is_column = end == ":";
        text += &if word == *name && !is_column { format!("{word}_2{end}") } else { part.to_owned() };
    }
    text
}

/// The rows that rules make of the present state, unless it refuses them.
fn prepared_rows(core: &Core, rules: &Arc<Rules>) -> Option<PreparedRows> {
    let make: MakeEvaluator = Arc::new(|rules| crate::evaluator(rules, 1));
    let mut rows = Vec::new();
    let written = core.state_for_rules().derive(rules, &make, Cancel::default(), &mut rows).ok()?;
    let bytes = rows.len() as u64;
    Some(written.with(Box::new(Cursor::new(rows)), bytes))
}

fn assert_same(these: &Core, those: &Core, seed: u64) {
    let objects = |core: &Core| -> Vec<String> {
        core.objects().iter().map(|(_, object)| serde_json::to_string(object).unwrap()).collect()
    };
    assert_eq!(these.rules().version(), those.rules().version(), "seed {seed}");
    assert_eq!(objects(these), objects(those), "seed {seed}");
    assert!(these.problems().eq(those.problems()), "seed {seed}");
    assert!(these.addresses().eq(those.addresses()), "seed {seed}");
    assert!(these.all_desired() == those.all_desired(), "seed {seed}: other states of switches");
    for (key, _) in these.objects().iter() {
        assert_eq!(
            these.state_of(&key.kind, &key.id),
            those.state_of(&key.kind, &key.id),
            "seed {seed}: {key}"
        );
    }
    for (node, desired) in these.all_desired() {
        for flow in desired.flows.keys() {
            let [this, that] = [these, those].map(|core| core.provenance().logical_rule(flow));
            assert_eq!(this, that, "seed {seed}: {node}");
        }
    }
}

/// An edit that is undone has never been.
fn tried_out(configured: &Arc<Rules>, recorder: &mut Recorder, edited: &Arc<Rules>, seed: u64) {
    let before = Recorder::after(configured, recorder.records.clone());
    let last_txn = recorder.core.last_txn();
    if let Ok(Some(done)) = recorder.change_rules(edited, RulesTransition::Edit) {
        recorder.core.undo(done).unwrap();
    }
    assert_eq!(recorder.core.last_txn(), last_txn, "seed {seed}");
    assert_same(&before.core, &recorder.core, seed);
}

#[test]
fn rules_that_are_loaded_make_what_a_restart_with_them_makes() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let (mut loads, mut prepared_loads, mut edits) = (0, 0, 0);
    let seeds = test_random::seeds!("rules_that_are_loaded_make_what_a_restart_with_them_makes", 2);
    for seed in seeds {
        let (history, mut random) = (history_of(seed), Random::new(seed));
        let mut world = NumberedWorld::new(history.scattered);
        let mut recorder = Recorder::new(&rules);
        let mut has_other_rules = false;
        for steps in history.steps.chunks(STEPS).take(CHANGES) {
            let edited = if random.chance(50) { edited(&mut random, recorder.core.rules()) } else { None };
            // Objects and reports change between the moment of the rows and the load.
            let prepared = edited.as_ref().filter(|_| random.chance(70));
            let prepared = prepared.and_then(|edited| prepared_rows(&recorder.core, edited));
            for change in steps.iter().flat_map(Step::changes) {
                world.apply(change);
            }
            recorder.follow(&world);
            let before = recorder.records.len();
            let fits = |edited: &Arc<Rules>| {
                prepared.as_ref().is_some_and(|prepared| prepared.fit(edited, &recorder.core))
            };
            let fits = edited.as_ref().is_some_and(fits);
            let is_edit = random.chance(60)
                && edited.as_ref().is_some_and(|edited| {
                    if random.chance(50) {
                        tried_out(&rules, &mut recorder, edited, seed);
                    }
                    recorder.load(edited, RulesTransition::Edit)
                });
            let prepared = RulesTransition::Replace(prepared.map(Box::new));
            if is_edit || edited.is_some_and(|edited| recorder.load(&edited, prepared)) {
                loads += 1;
                edits += usize::from(is_edit);
                prepared_loads += usize::from(fits && !is_edit);
                has_other_rules = true;
            } else if !has_other_rules || random.chance(50) {
                assert_eq!(recorder.records.len(), before);
                continue;
            }
            let restarted = Recorder::after(&rules, recorder.records.clone());
            assert_eq!(restarted.records.len(), recorder.records.len(), "seed {seed}: rows to correct");
            assert_same(&restarted.core, &recorder.core, seed);
        }
    }
    assert!(
        loads > prepared_loads + edits && prepared_loads > 0 && edits > 0,
        "{loads} loads, {prepared_loads} of them of prepared rows, {edits} by an edit"
    );
}

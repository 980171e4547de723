//! Rules that change while a controller runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

use controller::Parts;
use objects::ObjectKey;
use weft_client::{Changes, Client, ClientError, pb};
use weft_core::Rules;
use weft_core::core::{
    Accepted, AppliedTransaction, Core, CoreError, MakeEvaluator, Refusal, RulesTransition,
};
use weft_core::record::Record;

use crate::core::state;
use crate::support::drivers::Switches;
use crate::support::running::{Running, apply as apply_by, parts, start_with, within};
use crate::support::*;

/// The flow that a rule makes for each port of a switch.
const PLACED: &str = "of_flow(hv, 1, 100, match_reg1(label), set_reg0(datapath))";
/// The same rules, of which that one has another priority.
fn others() -> String {
    assert!(RULES.contains(PLACED));
    RULES.replace(PLACED, &PLACED.replace("100", "200"))
}

fn core_of(rules: &Arc<Rules>, records: &[Record]) -> (Core, Option<Record>) {
    let (mut core, correction) = core(rules, records);
    core.make_evaluators_with(Arc::new(|rules| Ok(reference(rules))));
    (core, correction)
}

fn load(core: &mut Core, rules: &Arc<Rules>) -> Result<Option<AppliedTransaction>, CoreError> {
    core.change_rules(rules, RulesTransition::Replace(None), "test", now())
        .map(|Accepted { transaction, .. }| transaction)
}

/// All that is known of a network besides the number of the last transaction.
fn known(core: &Core) -> Vec<String> {
    state(core)[1..].to_vec()
}

#[test]
fn other_rules_change_what_they_say_and_a_restart_goes_on_with_them() {
    let rules = rules_of_text(RULES);
    let (mut core, _) = core_of(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    let plugged = core.report("hv1", &report(&[("blue-1", 5)], &[]), now()).unwrap();
    records.extend(plugged.map(|done| done.journalled()));
    let before = known(&core);

    let other = rules_of_text(&others());
    let done = load(&mut core, &other).unwrap().expect("flows change");
    assert_eq!(done.changes.keys().collect::<Vec<_>>(), ["hv1", "hv2"]);
    // Three ports: each flow goes and comes. That of the interface stays as it is.
    assert_eq!(done.changes["hv1"].flows.each().count(), 6);
    assert!(done.record.insert.is_empty() && done.record.delete.is_empty(), "{:?}", done.record);
    let after = known(&core);
    assert_ne!(after, before);

    // It can be undone as long as it is not on disk.
    let line = done.journalled();
    core.undo(done).unwrap();
    assert_eq!((known(&core), core.last_txn()), (before.clone(), 2));
    let done = load(&mut core, &other).unwrap().expect("flows change");
    assert_eq!(done.journalled(), line);
    core.journalled();
    records.push(line);
    assert!(load(&mut core, &other).unwrap().is_none(), "they run already");

    // Numbers go on where they were.
    records.push(apply(&mut core, "{kind: switch_port, id: red-2, switch: red}").journalled());
    let chosen = history(&rules, &records).rules_to_run(&rules);
    assert_eq!(chosen.version(), other.version());
    let (again, correction) = core_of(&chosen, &records);
    assert_eq!((known(&again), correction), (known(&core), None));

    // Back to the rules of the configuration.
    let done = load(&mut core, &rules).unwrap().expect("flows change");
    assert_eq!(done.record.rules.as_ref().unwrap().instead_of, None);
    records.push(done.journalled());
    assert_eq!(history(&rules, &records).rules_to_run(&rules).version(), rules.version());
    let (again, correction) = core_of(&rules, &records);
    assert_eq!((known(&again), correction), (known(&core), None));
    let versions = again.rules_versions().all().iter().map(|version| (version.txn, &*version.by));
    assert_eq!(versions.collect::<Vec<_>>(), [(0, ""), (3, "test"), (5, "test")]);
}

#[test]
fn an_edit_that_no_switch_supports_leaves_the_numbers_of_hooks_as_they_were() {
    let rules = rules_of_text(RULES);
    // Switch blue loses its number, another name gets one, and a flow is in a table that no switch has.
    let text = RULES
        .replace(
            "wants_datapath_label(sw) :- switch(sw, _);",
            r#"wants_datapath_label(sw) :- switch(sw, _), sw != "blue"; wants_datapath_label("zzz");"#,
        )
        .replace(r#"logical_switch(sw, "beyond")"#, r#"logical_switch(sw, "")"#);
    let edited = rules_of_text(&text);
    let [mut core, mut untouched] = [(); 2].map(|()| {
        let evaluator = controller::evaluator(&rules, 1).unwrap();
        let (mut core, _) = Core::restore(evaluator, rules.clone(), history(&rules, &[]), now()).unwrap();
        core.edit_evaluators_with(Arc::new(controller::edit));
        apply(&mut core, NETWORK);
        core.journalled();
        core
    });
    let before = state(&core);
    let refused = core.change_rules(&edited, RulesTransition::Edit, "test", now()).unwrap_err();
    assert!(refused.to_string().contains("table 300 does not exist"), "{refused}");
    assert_eq!(state(&core), before);
    let [record, wanted] = [&mut core, &mut untouched].map(|core| {
        apply(core, "{kind: switch, id: green}\n---\n{kind: switch_port, id: g, switch: green}").journalled()
    });
    assert_eq!(record, wanted);
    assert_eq!(state(&core), state(&untouched));
}

#[test]
fn rules_that_would_lose_something_are_refused_by_name_and_change_nothing() {
    let rules = rules_of_text(RULES);
    let (mut core, _) = core_of(&rules, &[]);
    apply(&mut core, NETWORK);
    let before = state(&core);
    let mut refused = |changes: &[(&str, &str)]| {
        let text = changes.iter().fold(RULES.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        let error = load(&mut core, &rules_of_text(&text)).map(|_| ()).unwrap_err();
        assert!(matches!(error, CoreError::Refused(_)), "{error}");
        assert_eq!(state(&core), before);
        error.to_string()
    };
    let field = refused(&[("    port_security: bool = false;", "")]);
    assert!(field.contains("switch_port blue-1: port_security: unknown field"), "{field}");
    let numbers = refused(&[
        (
            "input table datapath_label(sw: string, label: int) key(sw) from allocate(wants_datapath_label, first: 1, last: 0xffffff);",
            "table datapath_label(sw: string, label: int) key(sw); datapath_label(sw, 7) :- wants_datapath_label(sw);",
        ),
        (", element(encaps, encap);", ", element(encaps, encap);"),
    ]);
    assert!(numbers.starts_with("no hook of the new rules fills table datapath_label"), "{numbers}");
    let forbidden = refused(&[(r#"logical_switch(sw, "reserved")"#, r#"logical_switch(sw, "acme")"#)]);
    assert!(forbidden.contains("the new rules refuse what is there"), "{forbidden}");
    assert!(forbidden.contains(r#"reserved_tenant(sw: "blue")"#), "{forbidden}");

    let kind = RULES.replace("localnet_port", "provider_port");
    apply(&mut core, "{kind: localnet_port, id: out, switch: red, network: physical}");
    let error = load(&mut core, &rules_of_text(&kind)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("kinds of which there are objects: localnet_port (1)"), "{error}");
}

#[test]
fn objects_that_were_read_as_other_kinds_are_refused() {
    let rules = rules_of_text(RULES);
    let (mut core, _) = core_of(&rules, &[]);
    apply(&mut core, NETWORK);
    let batch = || batch_of(rules.kinds(), "{kind: switch, id: green}");
    // The same kinds may be said otherwise.
    load(&mut core, &rules_of_text(&others())).unwrap().expect("flows change");
    core.apply(batch(), "test", now()).unwrap();
    let more =
        others().replace("port_security: bool = false;", "port_security: bool = false; note: opt<string>;");
    load(&mut core, &rules_of_text(&more)).unwrap().expect("rows change");
    let refused = core.apply(batch(), "test", now()).map(|_| ()).unwrap_err();
    assert_eq!(refused, CoreError::Refused(Refusal::RulesChanged));
}

#[test]
fn the_configuration_overrules_what_was_loaded_once_it_names_others() {
    let (rules, other) = (rules_of_text(RULES), rules_of_text(&others()));
    let (mut core, _) = core_of(&rules, &[]);
    let mut records = vec![apply(&mut core, NETWORK).journalled()];
    records.push(load(&mut core, &other).unwrap().expect("flows change").journalled());
    let third = rules_of_text(&RULES.replace(PLACED, &PLACED.replace("100", "300")));

    let chosen = history(&third, &records).rules_to_run(&third);
    assert_eq!(chosen.version(), third.version());
    let (core, correction) = core_of(&chosen, &records);
    let correction = correction.expect("the journal says which rules run");
    assert_eq!((correction.rules.as_ref().unwrap().instead_of.as_ref(), &*correction.by), (None, "upgrade"));
    records.push(correction);
    // Whatever is configured from now on runs, also what was configured when the others were loaded.
    for configured in [&third, &rules] {
        let chosen = history(configured, &records).rules_to_run(configured);
        assert_eq!(chosen.version(), configured.version());
    }
    let (again, correction) = core_of(&third, &records);
    assert_eq!((known(&again), correction), (known(&core), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_has_named_the_loaded_rules_counts_again() {
    let folder = tempfile::tempdir().unwrap();
    let (configured, loaded) = (rules_of_text(RULES), rules_of_text(&others()));
    let flows =
        |running: &Running| running.switches.look("hv1", |switch| shown(switch.desired.as_ref().unwrap()));
    let running = start(folder.path(), &configured).await;
    let mut client = running.client().await;
    apply_by(&mut client, NETWORK).await.unwrap();
    let before = flows(&running);
    client.change(request(&others(), pb::Terms::default())).await.unwrap();
    let after = flows(&running);
    assert_ne!(after, before);
    running.stop().await;

    // Each start: what is configured, what runs, and the versions with the number of the last transaction.
    let versions = [vec![(2, true), (0, true)], vec![(4, true), (2, true), (0, true)]];
    let starts = [
        (&loaded, &after, &versions[0]),
        // The same again says nothing new.
        (&loaded, &after, &versions[0]),
        (&configured, &before, &versions[1]),
        (&configured, &before, &versions[1]),
    ];
    for (number, (rules, expected, versions)) in starts.into_iter().enumerate() {
        let running = start(folder.path(), rules).await;
        answers(&running).await;
        assert_eq!(flows(&running), *expected, "start {number}");
        let mut client = running.client().await;
        assert_eq!(history_of(&mut client).await, *versions, "start {number}");
        running.stop().await;
    }
}

async fn start(folder: &Path, rules: &Arc<Rules>) -> Running {
    let switches = Switches::default();
    start_with(parts(folder, rules.clone(), &switches), switches).await
}

/// Connects a switch without interfaces to a controller that was started again, and waits until its driver may write.
async fn answers(running: &Running) {
    running.switches.connect("hv1", report(&[], &[])).await;
    within(async {
        while running.switches.look("hv1", |switch| switch.desired.is_none()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn request(text: &str, terms: pb::Terms) -> Changes {
    let files = vec![pb::RulesFile { name: "test.nlog".to_owned(), text: text.to_owned() }];
    let packages = vec!["test.nlog".to_owned()];
    Changes::LoadRules(pb::LoadRulesRequest { files, packages, by: "test".to_owned(), terms: Some(terms) })
}

async fn history_of(client: &mut Client) -> Vec<(u64, bool)> {
    let versions = client.rules_history().await.expect("it serves");
    versions.iter().map(|version| (version.txn, version.configured)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_controller_takes_other_rules_and_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_of_text(RULES);
    let running = start(folder.path(), &rules).await;
    let mut client = running.client().await;
    apply_by(&mut client, NETWORK).await.unwrap();
    assert_eq!(history_of(&mut client).await, [(0, true)]);
    let flows =
        |running: &Running| running.switches.look("hv1", |switch| shown(switch.desired.as_ref().unwrap()));
    let before = flows(&running);

    let dry = pb::Terms { dry_run: true, ..pb::Terms::default() };
    let tried = client.change(request(&others(), dry)).await.unwrap();
    let delta = tried.delta.expect("what would change");
    assert_eq!((tried.txn, delta.switches, delta.added, delta.deleted), (None, 2, 6, 6));
    assert!(delta.flows.iter().all(|flow| flow.derived_by.starts_with("of_flow (test.nlog:")), "{delta:?}");
    assert_eq!(flows(&running), before);

    // A kind with another field is known at once.
    let more = others().replace("object switch { tenant", "object switch { note: opt<string>; tenant");
    let more = more.replace(":- switch(sw, _)", ":- switch(sw, _, _)");
    let more = more.replace(":- switch(sw, tenant)", ":- switch(sw, _, tenant)");
    let keyed = pb::Terms { key: "k".to_owned(), ..pb::Terms::default() };
    let done = client.change(request(&more, keyed.clone())).await.unwrap();
    assert_eq!((done.txn, done.delta.map(|delta| delta.added)), (Some(2), Some(6)));
    assert_ne!(flows(&running), before);
    assert_eq!(running.switches.look("hv1", |switch| switch.pushed.clone()), [2]);
    let again = client.change(request(&more, keyed)).await.unwrap();
    assert_eq!((again.txn, again.repeated), (Some(2), true));
    apply_by(&mut client, "{kind: switch, id: blue, tenant: acme, note: ours}").await.unwrap();
    assert_eq!(history_of(&mut client).await, [(2, false), (0, true)]);

    // The field is set, so the rules before cannot come again as long as it is.
    let back =
        || Changes::RollbackRules(pb::RollbackRulesRequest { by: "test".to_owned(), ..Default::default() });
    let ClientError::Refused(refusal) = client.change(back()).await.unwrap_err() else {
        panic!("not refused")
    };
    assert_eq!(&*refusal.code, "bad-rules");
    assert!(refusal.message.contains("switch blue: note: unknown field"), "{refusal:?}");
    let ClientError::Refused(refusal) =
        client.change(request("of_flow(", pb::Terms::default())).await.unwrap_err()
    else {
        panic!("not refused")
    };
    assert!(refusal.message.contains("test.nlog:1"), "{refusal:?}");

    let fewer = client.change(request(&others(), pb::Terms::default())).await;
    assert!(fewer.is_err(), "{fewer:?}");
    running.stop().await;

    // The next start runs what was loaded.
    let running = start(folder.path(), &rules).await;
    let mut client = running.client().await;
    assert_eq!(history_of(&mut client).await, [(2, false), (0, true)]);
    let note = client.get("switch", Some("blue")).await.unwrap();
    assert!(note[0].contains(r#""note":"ours""#), "{note:?}");
    client
        .delete(&["blue-1", "blue-2"].map(|port| ObjectKey::new("switch_port", port)), "test")
        .await
        .unwrap();
    client.delete(&[ObjectKey::new("switch", "blue")], "test").await.unwrap();
    client.delete(&[ObjectKey::new("switch_port", "red-1")], "test").await.unwrap();
    client.delete(&[ObjectKey::new("switch", "red")], "test").await.unwrap();
    let done = client.change(back()).await.unwrap();
    assert_eq!(done.txn, Some(8));
    assert_eq!(history_of(&mut client).await, [(8, true), (2, false), (0, true)]);
    let to = |to| Changes::RollbackRules(pb::RollbackRulesRequest { to, ..Default::default() });
    let missing = client.change(to(Some(3))).await.unwrap_err().to_string();
    assert!(missing.contains("no version of transaction 3 is kept"), "{missing}");
    assert_eq!(client.change(to(Some(2))).await.unwrap().txn, Some(9));
    running.stop().await;
}

/// Starts a controller that makes its engines so, and a client of it.
async fn start_making(folder: &Path, rules: &Arc<Rules>, evaluator: MakeEvaluator) -> (Running, Client) {
    let switches = Switches::default();
    let parts = Parts { evaluator, ..parts(folder, rules.clone(), &switches) };
    let running = start_with(parts, switches).await;
    let client = running.client().await;
    (running, client)
}

/// Those with one more kind of objects, for which no engine can be edited.
fn others_with_a_kind() -> String {
    others() + "object extra { note: opt<string>; }\n"
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_is_edited_to_rules_that_differ_in_what_they_derive() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules_of_text(RULES);
    let versions = Arc::new(Mutex::new(Vec::new()));
    let made = versions.clone();
    let evaluator = move |rules: &Rules| {
        made.lock().unwrap().push(rules.version());
        controller::evaluator(rules, 1)
    };
    let (running, mut client) = start_making(folder.path(), &rules, Arc::new(evaluator)).await;
    apply_by(&mut client, NETWORK).await.unwrap();
    let dry_run = pb::Terms { dry_run: true, ..pb::Terms::default() };
    let flows =
        |running: &Running| running.switches.look("hv1", |switch| shown(switch.desired.as_ref().unwrap()));
    let before = flows(&running);
    let tried = client.change(request(&others(), dry_run)).await.unwrap();
    let done = client.change(request(&others(), pb::Terms::default())).await.unwrap();
    assert_eq!((tried.txn, &tried.delta), (None, &done.delta), "a dry run says what a load does");
    assert_eq!(done.txn, Some(2));
    // Three ports on two hosts: each flow goes and comes.
    let delta = done.delta.unwrap();
    assert_eq!((delta.added, delta.deleted, delta.replaced), (6, 6, 0));
    let after = flows(&running);
    assert_ne!(after, before);
    assert_eq!(*versions.lock().unwrap(), [rules.version()], "only the first engine was made");
    apply_by(&mut client, "{kind: switch_port, id: red-9, switch: red}").await.unwrap();
    let loaded = flows(&running);
    running.stop().await;
    let running = start(folder.path(), &rules).await;
    answers(&running).await;
    assert_eq!(flows(&running), loaded, "the restart derives the same");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_go_on_while_other_rules_derive_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, other) = (rules_of_text(RULES), rules_of_text(&others_with_a_kind()));
    // The first engine of the other rules takes as long as the test wants.
    let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let (slow, first) = (other.version(), Mutex::new(Some((begin, released))));
    let evaluator = move |rules: &Rules| {
        if rules.version() == slow
            && let Some((begin, released)) = first.lock().unwrap().take()
        {
            begin.send(()).unwrap();
            let _ = released.recv();
        }
        controller::evaluator(rules, 1)
    };
    let (running, mut client) = start_making(folder.path(), &rules, Arc::new(evaluator)).await;
    apply_by(&mut client, NETWORK).await.unwrap();

    let mut loader = running.client().await;
    let load =
        tokio::spawn(
            async move { loader.change(request(&others_with_a_kind(), pb::Terms::default())).await },
        );
    within(tokio::task::spawn_blocking(move || begun.recv())).await.unwrap().unwrap();
    let meanwhile =
        within(apply_by(&mut client, "{kind: switch_port, id: red-9, switch: red}")).await.unwrap();
    assert_eq!(meanwhile.txn, Some(2));
    release.send(()).unwrap();
    assert_eq!(within(load).await.unwrap().unwrap().txn, Some(3));

    let flows =
        |running: &Running| running.switches.look("hv1", |switch| shown(switch.desired.as_ref().unwrap()));
    let loaded = flows(&running);
    assert_eq!(fs::read_dir(folder.path().join("state")).unwrap().flatten().filter(is_of_rules).count(), 0);
    running.stop().await;
    let running = start(folder.path(), &rules).await;
    answers(&running).await;
    assert_eq!(flows(&running), loaded, "the restart derives the same");
    running.stop().await;
}

fn is_of_rules(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with("rules")
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_change_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), &rules_of_text(RULES)).await;
    let mut web = running.web().await;
    let body = serde_json::json!({"files": BTreeMap::from([("test.nlog", others())]), "packages": ["mine"]});
    let load = |query: &str| format!("/v1/rules{query}");
    web.ask("POST", &load("?dry_run=true"), &[], &body.to_string()).await.expect(200);
    web.ask("POST", &load(""), &[("if-match", "\"1\"")], &body.to_string()).await.expect(400);
    web.ask("POST", &load(""), &[], r#"{"files": {"a.nlog": "of_flow("}}"#).await.expect(422);
    let done = web.ask("POST", &load(""), &[], &body.to_string()).await.expect(200);
    assert_eq!(done["txn"], 1, "{done}");
    let versions = web.ask("GET", "/v1/rules", &[], "").await.expect(200);
    assert_eq!(versions["versions"][0]["packages"], serde_json::json!(["mine"]), "{versions}");
    web.ask("POST", "/v1/rules/rollback?to=7", &[], "").await.expect(410);
    let back = web.ask("POST", "/v1/rules/rollback", &[], "").await.expect(200);
    assert_eq!(back["txn"], 2, "{back}");
    running.stop().await;
}

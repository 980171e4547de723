//! Edits of rules in a running engine: the delta of each edit is the difference of the reference's results for the two
//! programs, and afterwards the engine behaves like one that always had the new rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::generate::Case;
use crate::support::{Random, compile, transaction};
use nlog::Program;
use nlog_data::{
    Bound, Cancel, CommitError, Delta, ErrorCode, Evaluator, Most, Progress, Role, Row, RuleId, TableDelta,
    TableId, Tables, Transaction, TransactionError, json,
};
use nlog_dataflow::fused::ChangeError;
use nlog_dataflow::{Dataflow, Options};
use nlog_reference::Reference;

fn options(attribute: bool) -> Options {
    options_of(attribute, 1)
}

fn options_of(attribute: bool, workers: usize) -> Options {
    // Combine attribution with re-planning, so that both are tested.
    let plan_anew_from = if attribute { 1 } else { usize::MAX };
    Options { observe: Tables::All, attribute, plan_anew_from, workers, ..Options::default() }
}

/// The same program with only some of its rules, of which some are written in other words.
fn some_rules(program: &Arc<Program>, random: &mut Random) -> Arc<Program> {
    let mut some = Program::clone(program);
    some.rules.retain(|_| random.chance(70));
    for rule in some.rules.iter_mut().filter(|_| random.chance(15)) {
        rule.fingerprint = rule.fingerprint.rotate_left(7);
    }
    some.rules.sort_by_key(|rule| rule.fingerprint);
    Arc::new(some)
}

/// The fingerprint of the rule that each row is attributed to, by table.
type RulesOfRows = BTreeMap<(TableId, Row), u64>;

/// Follows the changes of a program's derived tables.
fn attribute(rules: &mut RulesOfRows, delta: &Delta, program: &Program) {
    for (table, changed) in &delta.tables {
        if program.schema.table(*table).role == Role::Input {
            continue;
        }
        for row in &changed.delete {
            rules.remove(&(*table, row.clone()));
        }
        let new = changed.insert.iter().zip(&changed.rules);
        let others = changed.reattributed.iter().map(|(row, rule)| (row, rule));
        let fingerprint = |rule: RuleId| program.rule(rule).fingerprint;
        rules.extend(new.chain(others).map(|(row, rule)| ((*table, row.clone()), fingerprint(*rule))));
    }
}

/// The same of a program with these inputs.
fn rules_of_rows(program: &Arc<Program>, inputs: &Transaction) -> RulesOfRows {
    let mut reference = Reference::new(Arc::clone(program), Tables::All).with_attribution();
    let mut rules = RulesOfRows::new();
    attribute(&mut rules, &reference.commit(inputs).expect("it is accepted").delta, program);
    rules
}

/// All input rows as one transaction.
fn inputs(engine: &mut Dataflow) -> Transaction {
    let program = Arc::clone(engine.program());
    let mut all = Transaction::default();
    for (id, _) in program.schema.iter().filter(|(_, table)| table.role == Role::Input) {
        all.insert.insert(id, engine.contents(id).expect("inputs are always there"));
    }
    all
}

/// A reference that has seen these inputs.
fn reference(
    program: &Arc<Program>,
    inputs: &Transaction,
    attribute: bool,
) -> Result<Reference, TransactionError> {
    let reference = Reference::new(Arc::clone(program), Tables::All);
    let mut reference = if attribute { reference.with_attribution() } else { reference };
    match reference.commit(inputs) {
        Ok(_) => Ok(reference),
        Err(CommitError::Refused(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// The difference of the derived tables between two programs.
fn difference(program: &Program, old: &mut Reference, new: &mut Reference) -> Delta {
    let mut delta = Delta::default();
    let derived = |table: &nlog_data::Table| !matches!(table.role, Role::Input | Role::Hidden);
    for (id, _) in program.schema.iter().filter(|(_, table)| derived(table)) {
        let (was, is) = (old.contents(id).expect("asked for"), new.contents(id).expect("asked for"));
        let insert: Vec<_> = is.iter().filter(|row| was.binary_search(row).is_err()).cloned().collect();
        let delete: Vec<_> = was.iter().filter(|row| is.binary_search(row).is_err()).cloned().collect();
        if !(insert.is_empty() && delete.is_empty()) {
            delta.tables.insert(id, TableDelta { insert, delete, ..TableDelta::default() });
        }
    }
    delta
}

fn line(delta: &Delta, program: &Program) -> String {
    let mut line = Vec::new();
    json::write_delta_line(&mut line, 1, delta, &program.schema);
    String::from_utf8(line).expect("JSON is text").trim_end().to_owned()
}

fn contents_are_equal(engine: &mut Dataflow, reference: &mut Reference) -> Result<(), String> {
    let program = Arc::clone(engine.program());
    for (id, table) in program.schema.iter().filter(|(_, table)| table.role != Role::Hidden) {
        let (ours, theirs) =
            (engine.contents(id).expect("asked for"), reference.contents(id).expect("asked for"));
        if ours != theirs {
            return Err(format!("table {}: {ours:?}, not {theirs:?}", table.name));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Tally {
    accepted: usize,
    dropped: usize,
    refused: usize,
    /// Of them, those that would make a table have rows that it forbids.
    forbidden: usize,
    changed: usize,
}

fn run(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let case = Case::random(seed);
    let Some(whole) = case.compile() else { return Ok(()) };
    let mut random = Random::new(seed);
    let attribute = seed.is_multiple_of(2);
    // Threads go over to one worker for an edit, and back in idle time.
    let options = options_of(attribute, [1, 1, 2, 3][seed as usize / 2 % 4]);
    let mut engine = Dataflow::new(some_rules(&whole, &mut random), options.clone()).expect("it starts");
    let mut begun = false;
    for step in 0..case.steps() {
        if random.chance(50) {
            engine.idle().expect("it works");
            let workers = engine.loads().expect("it works").len();
            if workers != options.workers {
                return Err(format!("step {step}: {workers} workers, not {}", options.workers));
            }
        }
        let program = Arc::clone(engine.program());
        let transaction = case.transaction(step, &program, &mut |table: TableId| {
            engine.contents(table).expect("inputs are always there")
        });
        let rows = inputs(&mut engine);
        let mut oracle = reference(&program, &rows, attribute).ok();
        let ours = engine.commit(&transaction);
        begun |= ours.is_ok();
        if let Some(oracle) = &mut oracle {
            let theirs = oracle.commit(&transaction);
            match (&ours, &theirs) {
                (Ok(_), Ok(_)) => {}
                (Err(ours), Err(theirs)) if ours == theirs => {}
                _ => return Err(format!("step {step}: {ours:?}, not {theirs:?}")),
            }
            if ours.is_ok() {
                contents_are_equal(&mut engine, oracle).map_err(|why| format!("step {step}: {why}"))?;
            }
        }
        let rows = inputs(&mut engine);
        let before = Arc::clone(engine.program());
        let Ok(mut old) = reference(&program, &rows, attribute) else { continue };
        let next = some_rules(&whole, &mut random);
        let new = reference(&next, &rows, attribute);
        let accept = random.chance(60);
        let ours = engine.propose(Arc::clone(&next), &options).map(|proposal| {
            let delta = proposal.delta().to_rows();
            assert_eq!(proposal.rows().delta, delta);
            if accept {
                proposal.accept();
            }
            delta
        });
        match (ours, new) {
            // The facts hold from the first accepted transaction on. Until then nothing is derived.
            _ if !begun => {}
            (Ok(delta), Ok(mut new)) => {
                let (ours, theirs) =
                    (line(&delta, &next), line(&difference(&next, &mut old, &mut new), &next));
                if ours != theirs {
                    return Err(format!("step {step}: the edit is\n{ours}, not\n{theirs}"));
                }
                if attribute {
                    let mut rules = rules_of_rows(&before, &rows);
                    self::attribute(&mut rules, &delta, &next);
                    if rules != rules_of_rows(&next, &rows) {
                        return Err(format!("step {step}: rows are attributed to other rules: {delta:?}"));
                    }
                }
                tally.changed += usize::from(!ours.ends_with(r#""insert":{},"delete":{}}"#));
                let (count, now) =
                    if accept { (&mut tally.accepted, &mut new) } else { (&mut tally.dropped, &mut old) };
                *count += 1;
                contents_are_equal(&mut engine, now)
                    .map_err(|why| format!("step {step}, accepted {accept}: {why}"))?;
            }
            (Err(ChangeError::Commit(CommitError::Refused(ours))), Err(theirs)) if ours == theirs => {
                tally.refused += 1;
                tally.forbidden += usize::from(ours.code == ErrorCode::Forbidden);
                contents_are_equal(&mut engine, &mut old).map_err(|why| format!("refused: {why}"))?;
            }
            (ours, theirs) => {
                return Err(format!("step {step}: the edit: {ours:?}, not {:?}", theirs.map(drop)));
            }
        }
    }
    Ok(())
}

#[test]
fn an_edited_engine_is_one_that_always_had_these_rules() {
    let mut tally = Tally::default();
    let seeds = test_random::seeds!("an_edited_engine_is_one_that_always_had_these_rules", 300);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        if let Err(why) = run(seed, &mut tally) {
            panic!("seed {seed}: {why}\n{}", Case::random(seed));
        }
    }
    let Tally { accepted, dropped, refused, forbidden, changed } = tally;
    println!(
        "edits: {accepted} accepted, {dropped} dropped, {refused} refused ({forbidden} by tables that forbid); \
         {changed} changed rows"
    );
    assert!(forbidden > 20 || !is_whole, "too few edits are forbidden");
}

const PEERS: &str = "input table on(port: string, hv: string) key(port);
     input table at(hv: string, ip: int) key(hv);
     output table reach(port: string, ip: int);
     reach(port, ip) :- on(port, hv), at(hv, ip);";

#[test]
fn tables_come_and_go_with_their_rows() {
    let first = compile(PEERS);
    let mut engine = Dataflow::new(Arc::clone(&first), options(false)).expect("it starts");
    let rows = transaction(&first, r#"{"insert":{"on":[["p","h"],["q","g"]],"at":[["h",1],["g",2]]}}"#);
    engine.commit(&rows).expect("it is right");

    let more = compile(&format!(
        "{PEERS} input table blocked(ip: int); output table alone(hv: string); table seen(hv: string);
         seen(hv) :- on(_, hv); alone(hv) :- seen(hv), at(hv, 1);"
    ));
    let proposal = engine.propose(Arc::clone(&more), &options(false)).expect("it is right");
    assert_eq!(
        line(&proposal.delta().to_rows(), &more),
        r#"{"txn":1,"insert":{"alone":[["h"]],"seen":[["g"],["h"]]},"delete":{}}"#
    );
    proposal.accept();
    let rows = transaction(&more, r#"{"insert":{"blocked":[[7]]},"delete":{"on":[["p","h"]]}}"#);
    let delta = engine.commit(&rows).expect("it is right").delta;
    assert_eq!(
        line(&delta, &more),
        r#"{"txn":1,"insert":{"blocked":[[7]]},"delete":{"alone":[["h"]],"on":[["p","h"]],"reach":[["p",1]],"seen":[["h"]]}}"#
    );

    drop(engine.propose(Arc::clone(&first), &options(false)).expect("it is right"));
    let blocked = more.schema.find("blocked").expect("declared");
    assert_eq!(engine.contents(blocked).expect("it is there").len(), 1, "a dry run takes nothing away");
    engine.propose(Arc::clone(&first), &options(false)).expect("it is right").accept();
    assert_eq!(engine.contents(first.schema.find("on").expect("declared")).expect("it is there").len(), 1);
}

fn most(rows: u64) -> Bound {
    Bound { most: Most { rows, ..Most::ANY }, cancel: Cancel::default(), progress: Progress::default() }
}

#[test]
fn an_edit_stops_at_its_bound() {
    let first = compile(PEERS);
    let mut engine = Dataflow::new(Arc::clone(&first), options(false)).expect("it starts");
    let ports: Vec<String> = (0..100).map(|port| format!(r#"["p{port}","h"]"#)).collect();
    let rows = format!(r#"{{"insert":{{"on":[{}],"at":[["h",1]]}}}}"#, ports.join(","));
    engine.commit(&transaction(&first, &rows)).expect("it is right");
    let pairs = compile(&format!(
        "{PEERS} output table pair(one: string, other: string); pair(one, other) :- on(one, hv), on(other, hv);"
    ));
    engine.bound(most(1000));
    let stopped = engine.propose(Arc::clone(&pairs), &options(false)).err().expect("ten times as many rows");
    assert!(matches!(stopped, ChangeError::Commit(CommitError::Stopped(_))), "{stopped}");
    let gone = transaction(&first, r#"{"delete":{"on":[["p99","h"]]}}"#);
    let delta = engine.commit(&gone).expect("it is as it was").delta;
    assert!(line(&delta, &first).contains(r#""reach":[["p99",1]]"#));
    engine.bound(most(10_000));
    let proposal = engine.propose(Arc::clone(&pairs), &options(false)).expect("it is within the bound");
    assert_eq!(proposal.rows().delta.tables.values().map(|table| table.insert.len()).sum::<usize>(), 99 * 99);
    proposal.accept();
    // The rows of a rule that goes are derived once more, to take them away.
    let twins = compile(&format!(
        "{PEERS} output table pair(one: string, other: string); pair(one, one) :- on(one, _);"
    ));
    engine.bound(most(1000));
    let stopped = engine.propose(Arc::clone(&twins), &options(false)).err().expect("as many rows");
    assert!(matches!(stopped, ChangeError::Commit(CommitError::Stopped(_))), "{stopped}");
    engine.bound(most(10_000));
    let proposal = engine.propose(Arc::clone(&twins), &options(false)).expect("it is within the bound");
    let gone = proposal.rows().delta.tables.values().map(|table| table.delete.len()).sum::<usize>();
    assert_eq!(gone, 99 * 99 - 99);
}

#[test]
fn a_rule_whose_constant_or_function_changes_is_another_rule() {
    let program = |limit: i64, more: i64| {
        compile(&format!(
            "const limit: int = {limit}; function more(x: int) -> int = x + {more};
             function shifted(x: int) -> int = more(x);
             input table i(x: int); output table near(x: int); output table far(x: int);
             near(x) :- i(x), x < limit; far(shifted(x)) :- i(x);"
        ))
    };
    let first = program(2, 0);
    let mut engine = Dataflow::new(Arc::clone(&first), options(false)).expect("it starts");
    engine.commit(&transaction(&first, r#"{"insert":{"i":[[1],[2]]}}"#)).expect("it is right");
    let next = program(3, 10);
    let proposal = engine.propose(Arc::clone(&next), &options(false)).expect("it is right");
    let delta = proposal.delta();
    assert_eq!(proposal.words().to_columns(), delta);
    proposal.accept();
    assert_eq!(
        line(&delta.to_rows(), &next),
        r#"{"txn":1,"insert":{"far":[[11],[12]],"near":[[2]]},"delete":{"far":[[1],[2]]}}"#
    );
}

#[test]
fn an_edit_derives_nothing_for_rules_that_stay() {
    let program = |limit: i64| {
        compile(&format!(
            "type vlan = int 1..4094; type side = enum {{left, right}}; type place = record {{side: side, vlan: vlan}};
             function doubled(x: int) -> int = x * 2; function fourfold(x: int) -> int = doubled(doubled(x));
             function placed(x: int) -> place = place{{side: if x < 3 then \"left\" else \"right\", vlan: x}};
             input table i(x: int); table at(x: int, place: place); output table far(x: int);
             output table list(xs: list<int>, m: match, a: actions); output table name(x: int, side: string);
             output table near(x: int);
             far(fourfold(x)) :- i(x); at(x, placed(x)) :- i(x); name(x, to_string(p.side)) :- at(x, p);
             list([x, 1], match{{reg0: x}}, actions[output(x)]) :- i(x);
             near(x) :- i(x), x < {limit};"
        ))
    };
    let first = program(2);
    let mut engine = Dataflow::new(Arc::clone(&first), options(false)).expect("it starts");
    let rows: Vec<String> = (1..100).map(|row| format!("[{row}]")).collect();
    let rows = format!(r#"{{"insert":{{"i":[{}]}}}}"#, rows.join(","));
    engine.commit(&transaction(&first, &rows)).expect("it is right");
    // Another compilation makes each function anew, also those of literals, records and enumerations.
    engine.bound(most(10));
    let next = program(4);
    let delta = engine.propose(Arc::clone(&next), &options(false)).expect("it is within the bound").delta();
    assert_eq!(line(&delta.to_rows(), &next), r#"{"txn":1,"insert":{"near":[[2],[3]]},"delete":{}}"#);
}

#[test]
fn a_first_transaction_is_planned_for_after_an_edit_too() {
    let one = compile("input table i(x: int); output table far(x: int); far(x) :- i(x);");
    let next = compile(
        "output table a(x: int); input table i(x: int); output table near(x: int); a(1); near(x) :- i(x);",
    );
    let these = |program: &Arc<Program>, name: &str| Options {
        observe: Tables::These([program.schema.find(name).expect("it is there")].into()),
        plan_anew_from: 1,
        ..Options::default()
    };
    let mut engine = Dataflow::new(Arc::clone(&one), these(&one, "far")).expect("it starts");
    engine.propose(Arc::clone(&next), &these(&next, "near")).expect("it is right").accept();
    let committed = engine.commit(&transaction(&next, r#"{"insert":{"i":[[1],[2]]}}"#)).expect("it is right");
    assert_eq!(line(&committed.delta, &next), r#"{"txn":1,"insert":{"near":[[1],[2]]},"delete":{}}"#);
}

#[test]
fn an_input_table_with_rows_keeps_its_form() {
    let first = compile(PEERS);
    let mut engine = Dataflow::new(Arc::clone(&first), options(false)).expect("it starts");
    let rows = transaction(&first, r#"{"insert":{"on":[["p","h"]]}}"#);
    engine.commit(&rows).expect("it is right");
    let other = compile(&PEERS.replace("key(port)", "key(port, hv)"));
    let error = engine.propose(other, &options(false)).err().expect("rows do not fit");
    assert_eq!(error, ChangeError::Input { table: "on".to_owned(), rows: 1 });
    let rows = transaction(&first, r#"{"insert":{"at":[["h",1]]}}"#);
    let delta = engine.commit(&rows).expect("it is as it was").delta;
    assert!(line(&delta, &first).contains(r#""reach":[["p",1]]"#));
}

//! Rows with very many derivations: all engines agree, however the rows behind them arrive.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::generate::products::Products;
use crate::support::setup::{Kind, Setup};
use crate::support::{ENGINES, Random, Runs, compile, transaction};
use nlog::Program;
use nlog_data::{CommitError, Tables, json};
use nlog_dataflow::Options;
use nlog_plan::Settings;
use test_random::{Seeds, seeds};

/// Engines of all kinds: with threads, and with plans without stages and inlining.
fn runs(program: &Arc<Program>, attribute: bool) -> Runs {
    let mut runs = Runs::alone(program, &Tables::All, attribute);
    let plain = Settings { without_stages: true, without_inlining: true, ..Settings::default() };
    for (engine, workers) in ENGINES {
        runs.add(Setup::new(engine, workers));
        if workers < 4 {
            runs.add(Setup { planned: "plain", planning: plain.clone(), ..Setup::new(engine, workers) });
        }
    }
    runs.add(Setup { planned: "planned anew", plans_anew: true, ..Setup::new(Kind::Fused, 1) });
    runs
}

/// Runs transactions, and checks that all engines agree with the reference. Returns the lines of the reference.
fn run(text: &str, lines: &[String]) -> Vec<String> {
    let program = compile(text);
    let mut runs = runs(&program, false);
    let said = lines.iter().map(|line| {
        let said = runs.commit(&transaction(&program, line));
        assert!(runs.agreed(), "{text}\n{line}\n{}", runs.difference());
        said
    });
    let said = said.collect();
    assert!(runs.contents_are_equal(), "{text}");
    said
}

/// Inserts rows into the tables in this many transactions, then deletes them all.
fn lines(tables: &[&str], rows: i64, transactions: i64) -> Vec<String> {
    let line = |member: &str, rows: &[i64]| {
        let rows: Vec<String> = rows.iter().map(|row| format!("[1,{row}]")).collect();
        let tables: Vec<String> =
            tables.iter().map(|table| format!("\"{table}\": [{}]", rows.join(","))).collect();
        format!("{{\"{member}\": {{{}}}}}", tables.join(", "))
    };
    let all: Vec<i64> = (0..rows).collect();
    let mut lines: Vec<String> =
        all.chunks((rows / transactions).max(1) as usize).map(|rows| line("insert", rows)).collect();
    lines.push(line("delete", &all[1..]));
    lines.push(line("delete", &all[..1]));
    lines
}

/// The table behind three atoms grows from 1,200 to 1,400 rows, so that the ways of a tuple grow beyond 2³¹.
#[test]
fn a_group_stays_when_its_tuples_get_more_ways() {
    let text = "input table e(h: int, x: int); input table f(h: int, x: int); output table r(h: int, n: int);
        r(h, count(x)) :- e(h, x), f(h, a), f(h, b), f(h, c);";
    let rows = |range: std::ops::Range<i64>| {
        let rows: Vec<String> = range.map(|row| format!("[1,{row}]")).collect();
        rows.join(",")
    };
    let said = run(
        text,
        &[
            format!(r#"{{"insert": {{"e": [[1,1]], "f": [{}]}}}}"#, rows(0..1200)),
            format!(r#"{{"insert": {{"f": [{}]}}}}"#, rows(1200..1400)),
            format!(r#"{{"delete": {{"f": [{}]}}}}"#, rows(1..1400)),
            r#"{"delete": {"f": [[1,0]]}}"#.to_owned(),
        ],
    );
    assert!(said[0].contains(r#""r":[[1,1]]"#), "{}", said[0]);
    assert!(said[1].contains(r#""delete":{}"#) && said[2].contains(r#""insert":{}"#), "{said:?}");
    assert!(said[3].contains(r#""r":[[1,1]]"#), "{}", said[3]);
}

/// Up to 3·10¹⁶ ways without the planner's stages. With stages, nothing multiplies.
#[test]
fn a_row_with_ten_thousand_million_ways_is_a_row() {
    let one_table = "input table e(h: int, x: int); output table r(h: int);
        r(h) :- e(h, a), e(h, b), e(h, c), e(h, d), e(h, f);";
    let five = "input table e(h: int, x: int); input table f(h: int, x: int); input table g(h: int, x: int);
        input table k(h: int, x: int); input table l(h: int, x: int); output table r(h: int, y: int) key(h);
        table m(h: int); m(h) :- e(h, _), f(h, _), g(h, _); r(h, h + 1) :- m(h), k(h, _), l(h, _), e(h, x), f(h, x);";
    let product = "input table e(h: int, x: int); output table r(h: int); output table n(n: int);
        r(7) :- e(a, _), e(_, b), e(_, c), e(_, d), e(_, f); n(count(a)) :- e(a, _), e(_, b), e(_, c), e(_, d), e(_, f);";
    for (text, tables, rows) in [
        (one_table, &["e"][..], 100),
        (one_table, &["e"][..], 2000),
        (five, &["e", "f", "g", "k", "l"][..], 100),
        (five, &["e", "f", "g", "k", "l"][..], 1500),
        (product, &["e"][..], 100),
        (product, &["e"][..], 1500),
    ] {
        for transactions in [1, 3] {
            let said = run(text, &lines(tables, rows, transactions));
            assert!(said[0].contains(r#""r":[["#), "{text}\n{said:?}");
            assert!(said.iter().all(|line| !line.contains("error")), "{text}\n{said:?}");
            assert!(said.last().is_some_and(|line| line.contains(r#""delete":{"e":[[1,0]]"#)), "{said:?}");
        }
    }
}

/// The planner does not split bodies with so many atoms, so ways multiply: by 2 with each `e`, and by the number of
/// rows in `f`. The test leaves the reference out, because it walks all ways.
#[test]
fn a_row_with_more_ways_than_may_be_is_refused_and_the_engine_goes_on() {
    let tables =
        "input table e(h: int, x: int); input table f(h: int, x: int); input table g(h: int, x: int);";
    let product = "e(h, _), ".repeat(61) + "f(h, _)";
    for text in [
        format!("{tables} output table r(h: int, x: int); r(h, x) :- g(h, x), {product};"),
        format!("{tables} output table r(h: int, n: int); r(h, count(x)) :- g(h, x), {product};"),
    ] {
        let program = compile(&text);
        let plain = Settings { without_stages: true, without_inlining: true, ..Settings::default() };
        let plain = Setup { planned: "plain", planning: plain, ..Setup::new(Kind::Fused, 1) };
        let setups = ENGINES.map(|(engine, workers)| Setup::new(engine, workers));
        for setup in setups.into_iter().chain([plain]) {
            let options = Options { observe: Tables::Outputs, ..Options::default() };
            let mut engine = setup.start(&program, options);
            let mut commit = |line: &str, wanted: &str| {
                let said = match engine.commit(&transaction(&program, line)) {
                    Ok(committed) => {
                        let mut line = Vec::new();
                        json::write_delta_line(&mut line, 1, &committed.delta, &program.schema);
                        String::from_utf8(line).expect("JSON is text")
                    }
                    Err(CommitError::Refused(error)) => format!("{:?}: {}", error.code, error.message),
                    Err(error) => panic!("{}: {error}", setup.name()),
                };
                assert!(said.contains(wanted), "{}: {line}: {said}\n{text}", setup.name());
            };
            let refused = "Overflow: table r: a row is derived in more than 4611686018427387904 ways";
            let unchanged = r#""insert":{},"delete":{}"#;
            // 2⁶² ways are the maximum.
            let insert = r#"{"insert": {"e": [[1,0],[1,1]], "f": [[1,0],[1,1]], "g": [[1,1]]}}"#;
            commit(insert, r#""insert":{"r":[[1,1]]}"#);
            commit(r#"{"insert": {"f": [[1,2]]}}"#, refused);
            // Another row fits, and so does the same row once there is room.
            let insert = r#"{"insert": {"e": [[2,0]], "f": [[2,0]], "g": [[2,1]]}}"#;
            commit(insert, r#""insert":{"r":[[2,1]]}"#);
            commit(r#"{"delete": {"f": [[1,1]]}, "insert": {"f": [[1,2]]}}"#, unchanged);
            // Too many ways in one transaction, then even more than fit into 64 bits.
            for rows in ["[3,0],[3,1],[3,2]", "[3,0],[3,1],[3,2],[3,3],[3,4]"] {
                let e_and_g = r#""e": [[3,0],[3,1]], "g": [[3,1]]"#;
                commit(&format!(r#"{{"insert": {{{e_and_g}, "f": [{rows}]}}}}"#), refused);
            }
            commit(r#"{"delete": {"e": [[1,0]]}}"#, unchanged);
            commit(r#"{"delete": {"e": [[1,1]]}}"#, r#""delete":{"r":[[1,1]]}"#);
        }
    }
}

/// Dropped variables make different bindings equal. Without summing them up, each step would touch 40 times as many.
#[test]
fn a_path_of_many_steps_is_found_without_walking_all_paths() {
    let text =
        "input table e(a: int, b: int); output table r(a: int, h: int); output table n(a: int, n: int);
        r(a, h) :- e(a, b), e(b, c), e(c, d), e(d, f), e(f, g), e(g, h);
        n(a, count(h)) :- e(a, b), e(b, c), e(c, d), e(d, f), e(f, g), e(g, h);";
    let pairs: Vec<String> = (0..40).flat_map(|a| (0..40).map(move |b| format!("[{a},{b}]"))).collect();
    let lines: Vec<String> = pairs
        .chunks(800)
        .map(|rows| format!(r#"{{"insert": {{"e": [{}]}}}}"#, rows.join(",")))
        .chain([format!(r#"{{"delete": {{"e": [{}]}}}}"#, pairs[..1590].join(","))])
        .collect();
    let said = run(text, &lines);
    assert!(said.iter().all(|line| !line.contains("error")), "{said:?}");
}

fn many_ways_seeds() -> Seeds {
    seeds!("rows_with_many_ways_agree", 12)
}

fn rows_with_many_ways_agree(part: usize) {
    for seed in many_ways_seeds().part(part, 2) {
        let mut random = Random::new(seed);
        let case = Products::random(&mut random);
        let text = case.text();
        let program = compile(&text);
        let mut contents = Vec::new();
        for transactions in [1, 4] {
            let mut runs = runs(&program, random.chance(50));
            for (at, line) in case.transactions(transactions).iter().enumerate() {
                runs.commit(&transaction(&program, line));
                assert!(runs.agreed(), "seed {seed}: {text}\n{line}\n{}", runs.difference());
                assert!(!runs.refused(), "seed {seed}: {text}\n{line}\n{}", runs.difference());
                if at + 1 == transactions {
                    assert!(runs.contents_are_equal(), "seed {seed}: {text}");
                    let r = program.schema.find("r").expect("the program declares it");
                    contents.push(runs.inputs(r));
                }
            }
            assert!(runs.contents_are_equal(), "seed {seed}: {text}");
        }
        assert_eq!(contents[0], contents[1], "seed {seed}: {text}");
    }
}

#[test]
fn the_cases_have_rows_with_many_ways() {
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    let seeds = many_ways_seeds();
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let ways = Products::random(&mut Random::new(seed)).most_ways();
        for (what, least) in [("2^31", 1 << 31), ("2^32", 1 << 32), ("10^10", 10_u128.pow(10))] {
            *tally.entry(what).or_default() += usize::from(ways > least);
        }
    }
    println!("cases with a row of more ways than: {tally:?}");
    assert!(!is_whole || tally.values().all(|cases| *cases > 1), "too few ways: {tally:?}");
}

#[test]
fn rows_with_many_ways_agree_1() {
    rows_with_many_ways_agree(0);
}

#[test]
fn rows_with_many_ways_agree_2() {
    rows_with_many_ways_agree(1);
}

//! Defaults compared with their definition at `nlog::program::Rule`, computed here without hidden tables: the
//! ordinary rows, each default's candidates, the candidates whose key no ordinary row has, and their rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::{Program, Sources, compile};
use nlog_data::{Evaluator, Row, Tables, Transaction, Value};
use nlog_reference::Reference;
use proptest::prelude::*;
use proptest::sample::select;

const INPUTS: &str = "input table a(x: int, y: int); input table b(x: int, y: int);\n";

/// Bodies that give `x` and `y` values; some can fail, some have several results or none.
const BODIES: [&str; 8] = [
    "a(x, y)",
    "b(x, y)",
    "a(x, y), b(y, _)",
    "b(x, y), x < 2",
    "a(x, y), y != 6 / x",
    "a(x, w), y = w + 1",
    "b(x, w), element([0, w], y)",
    "b(w, x), y = parse_int(if w == 1 then \"no\" else \"2\")",
];
const KEYS: [&str; 6] = ["x", "x", "x", "y", "x + 1", "6 / x"];
const VALUES: [&str; 8] = ["y", "x * y", "6 / y", "7", "at([1, 2], y)", "count()", "max(y)", "sum(y, x)"];

#[derive(Debug, Clone)]
struct Rule {
    default: bool,
    key: &'static str,
    value: &'static str,
    body: &'static str,
}

fn any_rule() -> impl Strategy<Value = Rule> {
    (any::<bool>(), select(&KEYS[..]), select(&VALUES[..]), select(&BODIES[..]))
        .prop_map(|(default, key, value, body)| Rule { default, key, value, body })
}

fn program(text: &str) -> Arc<Program> {
    let compilation = compile(&Sources::from_texts([("test.nlog", text)]));
    compilation.program.unwrap_or_else(|| panic!("{text}: {:?}", compilation.diagnostics))
}

/// The rows of a program's tables after these inputs, or the error.
fn rows<const N: usize>(
    text: &str,
    inputs: &[(&str, &[Row])],
    tables: [&str; N],
) -> Result<[Vec<Row>; N], String> {
    let program = program(text);
    let schema = Arc::clone(&program.schema);
    let mut reference = Reference::new(program, Tables::All);
    let mut transaction = Transaction::default();
    for (table, rows) in inputs {
        transaction.insert.insert(schema.find(table).expect("an input"), rows.to_vec());
    }
    reference.commit(&transaction).map_err(|error| error.to_string())?;
    Ok(tables.map(|table| reference.contents(schema.find(table).expect("a table")).expect("contents")))
}

/// The table's rows by definition; an error if the transaction is refused.
fn by_meaning(rules: &[Rule], a: &[Row], b: &[Row]) -> Result<BTreeSet<Row>, String> {
    let inputs = [("a", a), ("b", b)];
    // A table that only defaults fill behaves like one that only ordinary rules fill.
    let alone = rules.iter().all(|rule| rule.default);
    let counts_as_default = |rule: &&Rule| rule.default && !alone;
    let mut text = format!("{INPUTS}output table n(k: int, v: int);\n");
    for Rule { key, value, body, .. } in rules.iter().filter(|rule| !counts_as_default(rule)) {
        text += &format!("n({key}, {value}) :- {body};\n");
    }
    let [ordinary] = rows(&text, &inputs, ["n"])?;
    let taken: BTreeSet<Value> = ordinary.iter().map(|row| row[0].clone()).collect();
    let mut all: BTreeSet<Row> = ordinary.into_iter().collect();
    for Rule { key, value, body, .. } in rules.iter().filter(counts_as_default) {
        let text = format!("{INPUTS}output table c(k: int, x: int, y: int); c({key}, x, y) :- {body};");
        let [candidates] = rows(&text, &inputs, ["c"])?;
        let free: Vec<Row> = candidates.into_iter().filter(|row| !taken.contains(&row[0])).collect();
        let text = format!(
            "input table c(k: int, x: int, y: int); output table d(k: int, v: int); d({key}, {value}) :- c(_, x, y);"
        );
        let [of_free] = rows(&text, &[("c", &free)], ["d"])?;
        all.extend(of_free);
    }
    let keys: BTreeSet<&Value> = all.iter().map(|row| &row[0]).collect();
    if keys.len() < all.len() {
        return Err("key-conflict".to_owned());
    }
    Ok(all)
}

fn pairs() -> impl Strategy<Value = Vec<Row>> {
    let value = || prop_oneof![8 => -1..4i64, 1 => Just(i64::MAX)];
    let row = (value(), value()).prop_map(|(x, y)| vec![Value::Int(x), Value::Int(y)]);
    prop::collection::vec(row, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn defaults_mean_what_is_written_of_them(
        rules in prop::collection::vec(any_rule(), 1..4),
        a in pairs(),
        b in pairs(),
    ) {
        // A variable that the head does not use would be unused, which is only a warning.
        let mut text = format!("{INPUTS}output table t(k: int, v: int) key(k);\n");
        for Rule { default, key, value, body } in &rules {
            let default = if *default { "default " } else { "" };
            text += &format!("{default}t({key}, {value}) :- {body};\n");
        }
        let compiled = rows(&text, &[("a", &a), ("b", &b)], ["t"]);
        let meant = by_meaning(&rules, &a, &b);
        match (&compiled, &meant) {
            (Ok([compiled]), Ok(meant)) => {
                prop_assert_eq!(&compiled.iter().cloned().collect::<BTreeSet<Row>>(), meant, "{}", text);
            }
            (Err(_), Err(_)) => {}
            _ => prop_assert!(false, "{text}compiled: {compiled:?}\nmeant: {meant:?}"),
        }
    }
}

//! A program does not depend on the order of files, rules and items.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use nlog::program::{Program, Rule};
use nlog::{Sources, compile};
use proptest::prelude::*;

const DECLARATIONS: [&str; 5] = [
    "input table e(a: int, b: int);",
    "input table s(of: set<int>, n: int);",
    "const K = 3;",
    "table mid(a: int, b: int);",
    "output table out(a: int, b: int);",
];

/// Heads and items of bodies.
const RULES: [(&str, &[&str]); 5] = [
    ("mid(x, z)", &["e(x, y)", "e(y, z)", "x != z", "z > K"]),
    ("out(x, v)", &["mid(x, y)", "v = y + 1", "v = w * 2", "w = x & 7", "e(w, _)"]),
    ("out(x, i)", &["s(of, n)", "element(of, x)", "range(1, n, i)", "x = n % K", "i < x"]),
    ("out(x, count(y))", &["mid(x, y)", "element({1, 2}, y)"]),
    ("out(a, b)", &["e(a + 1, b)", "e(b, a)", "c = a", "c = b + 0", "d = c", "mid(d, 4)"]),
];

fn compiled(files: &[(String, String)]) -> std::sync::Arc<Program> {
    let compilation = compile(&Sources::from_texts(files.to_vec()));
    compilation.program.unwrap_or_else(|| panic!("{:?}\n{files:?}", compilation.diagnostics))
}

/// The rule without places and layout, with variables by name and items in no order.
fn meaning(rule: &Rule) -> Vec<String> {
    let name = |text: String| {
        // Longest numbers first, so that `VariableId(1)` is not mistaken for a part of `VariableId(12)`.
        let mut text = text;
        for (number, variable) in rule.variables.iter().enumerate().rev() {
            let own = if variable.name.contains('.') { "fresh" } else { &variable.name };
            text = text.replace(&format!("VariableId({number})"), own);
        }
        text
    };
    let mut items: Vec<String> = rule
        .body
        .iter()
        .map(|item| match item {
            nlog::program::BodyItem::Atom { table, terms, .. } => name(format!("{table:?} {terms:?}")),
            other => name(format!("{other:?}")),
        })
        .collect();
    items.sort();
    items.push(name(format!("{:?}", rule.terms)));
    items
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn order_does_not_show(
        declarations in Just(DECLARATIONS.to_vec()).prop_shuffle(),
        rules in Just((0..RULES.len()).collect::<Vec<_>>()).prop_shuffle(),
        items in RULES.map(|(_, items)| Just(items.to_vec()).prop_shuffle()),
        split in 0..DECLARATIONS.len() + RULES.len(),
        swapped: bool,
        layout in prop::sample::select(vec![" ", "\n    ", " # why\n", "\r\n\t"]),
    ) {
        let mut parts: Vec<String> = declarations.iter().map(|text| (*text).to_owned()).collect();
        for rule in rules {
            parts.push(format!("{} :-{layout}{}{layout};", RULES[rule].0, items[rule].join(&format!(",{layout}"))));
        }
        let file = |name: &str, parts: &[String]| (name.to_owned(), parts.join("\n"));
        let (first, second) = parts.split_at(split);
        let mut files = vec![file("b.nlog", first), file("a.nlog", second)];
        if swapped {
            files.reverse();
        }
        let mut plain = String::new();
        for part in DECLARATIONS {
            writeln!(plain, "{part}").unwrap();
        }
        for (head, items) in RULES {
            writeln!(plain, "{head} :- {};", items.join(", ")).unwrap();
        }
        let expected = compiled(&[("plain.nlog".to_owned(), plain)]);
        let program = compiled(&files);
        prop_assert_eq!(&program.schema, &expected.schema);
        prop_assert_eq!(&program.order, &expected.order);
        let fingerprints = |program: &Program| program.rules.iter().map(|rule| rule.fingerprint).collect::<Vec<_>>();
        prop_assert_eq!(fingerprints(&program), fingerprints(&expected));
        for (rule, other) in program.rules.iter().zip(&expected.rules) {
            prop_assert_eq!(meaning(rule), meaning(other), "{}", rule.text);
        }
    }
}

#[test]
fn fingerprints_are_stable() {
    // They are the cookies of flows in switches that outlive a controller: changing them rewrites every flow.
    let program =
        compiled(&[("a.nlog".to_owned(), include_str!("../../../examples/figure6.nlog").to_owned())]);
    let fingerprints: Vec<String> =
        program.rules.iter().map(|rule| format!("{:016x}", rule.fingerprint)).collect();
    assert_eq!(fingerprints, ["57c780b1f78f2fc2", "72048b42cefb2429", "b011b506638ce488"]);
}

#[test]
fn trailing_commas_and_layout_are_no_other_rule() {
    let tables = "input table e(a: int, b: int); output table out(a: int);";
    let one = compiled(&[("a".to_owned(), format!("{tables} out(x) :- e(x, 1), x > 2;"))]);
    let other =
        compiled(&[("a".to_owned(), format!("{tables} ## Why.\nout ( x , ) :-\n  x>2, e(x,1,) # yes\n,;"))]);
    let different = compiled(&[("a".to_owned(), format!("{tables} out(x) :- e(x, 1), x > 21;"))]);
    assert_eq!(one.rules[0].fingerprint, other.rules[0].fingerprint);
    assert_ne!(one.rules[0].fingerprint, different.rules[0].fingerprint);
    assert_eq!(&*other.rules[0].text, "out ( x , ) :-\n  x>2, e(x,1,) # yes\n,;");
    assert_eq!((other.rules[0].place.line, other.rules[0].place.column), (2, 1));
}

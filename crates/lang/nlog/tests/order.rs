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
        compiled(&[("a.nlog".to_owned(), include_str!("../../../../examples/figure6.nlog").to_owned())]);
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

/// The kinds of objects in the types of ids below.
const KINDS: [&str; 3] = ["a", "b", "c"];

/// A subset of the kinds, as bits; none for plain text.
fn id_type(kinds: usize) -> String {
    let of: Vec<&str> =
        (0..KINDS.len()).filter(|kind| kinds >> kind & 1 == 1).map(|kind| KINDS[kind]).collect();
    if of.is_empty() { "string".to_owned() } else { format!("ref {}", of.join(" | ")) }
}

/// An item about variables: the first has a type, or both are equal.
#[derive(Debug, Clone)]
enum Fact {
    Column(usize, usize),
    Id(usize, usize),
    Element(usize, usize),
    Present(usize, usize),
    Same(usize, usize),
    Differ(usize, usize),
    Least(usize, usize),
    Branch(usize, usize),
    Text(usize),
}

const NAMES: [&str; 4] = ["w", "x", "y", "z"];

impl Fact {
    fn text(&self) -> String {
        match *self {
            Fact::Column(of, kinds) => format!("t{kinds}({})", NAMES[of]),
            Fact::Id(of, kind) => format!("{}({}, _)", KINDS[kind], NAMES[of]),
            Fact::Element(of, kinds) => {
                format!("lists(k{kinds}: l{kinds}, ..), element(l{kinds}, {})", NAMES[of])
            }
            Fact::Present(of, kinds) => format!("options(k{kinds}: some({}), ..)", NAMES[of]),
            Fact::Same(one, other) => format!("{} == {}", NAMES[one], NAMES[other]),
            Fact::Differ(one, other) => format!("{} != {}", NAMES[one], NAMES[other]),
            Fact::Least(one, other) => format!("min_of({}, {}) < \"m\"", NAMES[one], NAMES[other]),
            Fact::Branch(one, other) => {
                format!("(if n == 1 then {} else {}) != \"\"", NAMES[one], NAMES[other])
            }
            Fact::Text(of) => format!("{} != \"id\"", NAMES[of]),
        }
    }

    /// The variables that it makes equal in type, and the kinds that it allows.
    fn says(&self) -> (usize, usize, usize) {
        const ALL: usize = 7;
        match *self {
            Fact::Column(of, 0) | Fact::Element(of, 0) | Fact::Present(of, 0) | Fact::Text(of) => {
                (of, of, ALL)
            }
            Fact::Column(of, kinds) | Fact::Element(of, kinds) | Fact::Present(of, kinds) => (of, of, kinds),
            Fact::Id(of, kind) => (of, of, 1 << kind),
            Fact::Same(one, other)
            | Fact::Differ(one, other)
            | Fact::Least(one, other)
            | Fact::Branch(one, other) => (one, other, ALL),
        }
    }
}

/// Whether every variable can be an id of some kind: those that meet have the kinds that all of them allow.
fn kinds_remain(facts: &[Fact]) -> bool {
    let mut class: [usize; 4] = [0, 1, 2, 3];
    for (one, other, _) in facts.iter().map(Fact::says) {
        let (from, to) = (class[one], class[other]);
        class.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
    }
    (0..4).all(|of| {
        facts.iter().map(Fact::says).filter(|says| class[says.0] == of).fold(7, |all, says| all & says.2) != 0
    })
}

fn facts() -> impl Strategy<Value = Vec<Fact>> {
    let fact = (0..9, 0..4_usize, 0..8_usize).prop_map(|(form, of, number)| {
        let (kind, other) = (number % KINDS.len(), number % NAMES.len());
        match form {
            0 => Fact::Column(of, number),
            1 => Fact::Id(of, kind),
            2 => Fact::Element(of, number),
            3 => Fact::Present(of, number),
            4 => Fact::Same(of, other),
            5 => Fact::Differ(of, other),
            6 => Fact::Least(of, other),
            7 => Fact::Branch(of, other),
            _ => Fact::Text(of),
        }
    });
    prop::collection::vec(fact, 1..6)
}

/// The codes of the errors in rules with these bodies, whose head has this type.
fn errors(head: usize, rules: &[Vec<Fact>]) -> Vec<&'static str> {
    let mut text = String::new();
    for kind in KINDS {
        writeln!(text, "object {kind} {{ n: int; }}").unwrap();
    }
    writeln!(text, "input table bound(w: string, x: string, y: string, z: string, n: int);").unwrap();
    let columns = |of: &dyn Fn(usize) -> String| (0..8).map(of).collect::<Vec<_>>().join(", ");
    writeln!(text, "input table lists({});", columns(&|kinds| format!("k{kinds}: list<{}>", id_type(kinds))))
        .unwrap();
    writeln!(
        text,
        "input table options({});",
        columns(&|kinds| format!("k{kinds}: opt<{}>", id_type(kinds)))
    )
    .unwrap();
    for kinds in 0..8 {
        writeln!(text, "input table t{kinds}(id: {});", id_type(kinds)).unwrap();
    }
    writeln!(text, "output table out(id: {});", id_type(head)).unwrap();
    for facts in rules {
        let items: Vec<String> = facts.iter().map(Fact::text).collect();
        writeln!(text, "out(w) :- bound(w, x, y, z, n), {};", items.join(", ")).unwrap();
    }
    let compilation = compile(&Sources::from_texts([("a.nlog", text)]));
    let errors =
        compilation.diagnostics.iter().filter(|found| found.code.severity() == nlog::Severity::Error);
    let mut codes: Vec<&str> = errors.map(|found| found.code.name()).collect();
    assert_eq!(compilation.program.is_none(), !codes.is_empty());
    codes.dedup();
    codes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whether the kinds of ids fit follows from the sets of kinds alone, in whatever order the checker meets them.
    #[test]
    fn kinds_of_ids_do_not_depend_on_order(
        head in 0..8_usize,
        (rules, shuffled) in prop::collection::vec(
            facts().prop_flat_map(|facts| (Just(facts.clone()), Just(facts).prop_shuffle())),
            1..4,
        ).prop_map(|rules| rules.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()),
    ) {
        let head_too = |facts: &Vec<Fact>| [&facts[..], &[Fact::Column(0, head)]].concat();
        let fits = rules.iter().all(|facts| kinds_remain(&head_too(facts)));
        let wanted: &[&str] = if fits { &[] } else { &["type-mismatch"] };
        prop_assert_eq!(errors(head, &rules), wanted);
        let reversed: Vec<Vec<Fact>> = shuffled.into_iter().rev().collect();
        prop_assert_eq!(errors(head, &reversed), wanted);
    }
}

//! Whatever the text: a lossless tree, an answer, and that in time.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use nlog::syntax::{MAX_NESTING, parse};
use nlog::{Compilation, Sources, compile};
use proptest::prelude::*;

const GOOD: &str = include_str!("../../../examples/figure6.nlog");
const EVERYTHING: &str = include_str!("diagnostics/valid-everything/main.nlog");
const TABLES: &str = include_str!("diagnostics/valid-everything/tables.nlog");

fn check(text: &str) -> Compilation {
    let tree = parse(text);
    assert_eq!(tree.root().text().to_string(), text, "the tree is not the text");
    let sources = Sources::from_texts([("main.nlog", text), ("tables.nlog", TABLES)]);
    let compilation = compile(&sources);
    for diagnostic in &compilation.diagnostics {
        // Rendering takes spans apart; none may lie outside of its file.
        let text = nlog::diagnostic::to_text(diagnostic, &sources, nlog::diagnostic::Style::Colour);
        assert!(text.contains(diagnostic.code.name()));
    }
    compilation
}

/// Pieces that rules are made of, and some that they are not.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "input",
        "output",
        "table",
        "key",
        "import",
        "const",
        "not",
        "true",
        "false",
        "if",
        "then",
        "else",
        "vif",
        "located",
        "flow",
        "x",
        "hv",
        "_",
        "_y",
        "length",
        "count",
        "arg_min",
        "element",
        "12",
        "0x1f",
        "9z",
        "\"text\"",
        "\"open",
        "ip\"10.0.0.1\"",
        "mac\"x\"",
        "\"\\q\"",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        ":",
        ":-",
        "..",
        ".",
        "=",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "<<",
        "+",
        "++",
        "-",
        "*",
        "/",
        "%",
        "&",
        "|",
        "^",
        "!",
        "&&",
        "||",
        "# c\n",
        "## d\n",
        "\n",
        "\r\n",
        "é",
        "\u{feff}",
        "\0",
        "'",
        "vif(x, hv, _)",
        "located(x, hv)",
    ];
    prop_oneof![
        8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,3}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn token_soup(pieces in prop::collection::vec(piece(), 0..60), spaced: bool) {
        check(&pieces.join(if spaced { " " } else { "" }));
    }

    #[test]
    fn good_programs_with_a_piece_replaced(at: prop::sample::Index, length in 0usize..12, piece in piece(), which: bool) {
        let good = if which { GOOD } else { EVERYTHING };
        let bounds: Vec<usize> = good.char_indices().map(|(at, _)| at).chain([good.len()]).collect();
        let start = at.index(bounds.len());
        let end = (start + length).min(bounds.len() - 1);
        let text = [&good[..bounds[start]], &piece, &good[bounds[end]..]].concat();
        check(&text);
    }

    #[test]
    fn good_programs_cut_short(at: prop::sample::Index) {
        let bounds: Vec<usize> = EVERYTHING.char_indices().map(|(at, _)| at).collect();
        check(&EVERYTHING[..*at.get(&bounds)]);
    }
}

#[test]
fn a_mistake_hides_nothing_after_it() {
    // Every token of the rules replaced in turn by one that fits nowhere: one syntax error, and the other
    // declarations are still there.
    let rules =
        "input table a(x: int);\noutput table o(x: int);\no(x) :- a(x), x > 3;\no(y) :- a(x), y = x + 1;\n";
    for (at, _) in rules.char_indices().filter(|(_, character)| " (:;,".contains(*character)) {
        let text = format!("{}§{}", &rules[..at], &rules[at..]);
        let compilation = check(&text);
        let syntax = compilation.diagnostics.iter().filter(|d| d.code.name() == "syntax").count();
        assert_eq!(syntax, 1, "{text}");
        let others: Vec<_> = compilation
            .diagnostics
            .iter()
            .filter(|d| &*d.file == "main.nlog" && d.code.name() != "syntax")
            .collect();
        assert!(others.is_empty(), "{text}\n{others:?}");
    }
}

#[test]
fn nesting_has_a_bound() {
    let texts = [
        format!("const A = {}1{};", "(".repeat(MAX_NESTING * 2), ")".repeat(MAX_NESTING * 2)),
        format!("const A = {}1;", "- ".repeat(100_000)),
        format!("const A = 1{};", " + 1".repeat(100_000)),
        format!("const A = {}1{};", "[".repeat(100_000), "]".repeat(100_000)),
        format!("const A = {}1;", "if true then 1 else ".repeat(100_000)),
        format!("const A = {}1{};", "hash(".repeat(100_000), ")".repeat(100_000)),
        format!("output table a(x: {}int{});", "set<".repeat(100_000), ">".repeat(100_000)),
        "(".repeat(1_000_000),
    ];
    for text in texts {
        // A thread of tests has 2 MiB of stack; so has this one, whatever runs it.
        let run = std::thread::Builder::new().stack_size(2 << 20).spawn(move || check(&text)).unwrap();
        let diagnostics = run.join().unwrap().diagnostics;
        let errors: Vec<&str> =
            diagnostics.iter().map(|d| d.code.name()).filter(|code| *code == "syntax").collect();
        assert_eq!(errors.len(), 1);
    }
    let deep = format!("const A = {}1{};\noutput table o(x: int);\no(A);", "(".repeat(100), ")".repeat(100));
    assert!(check(&deep).program.is_some());
    let chain = format!("output table o(x: int);\no(1{});", " + 1".repeat(100));
    assert!(check(&chain).program.is_some());
}

/// How long it takes with a text twice as long, against once: about two where time is linear, four where quadratic.
fn growth(text: impl Fn(usize) -> String, size: usize) -> f64 {
    let time = |text: String| (0..3).map(|_| timed(&text)).min().unwrap_or_default();
    let once = time(text(size));
    let twice = time(text(4 * size));
    twice.as_secs_f64() / once.as_secs_f64().max(1e-9) / 4.0
}

fn timed(text: &str) -> Duration {
    let start = Instant::now();
    compile(&Sources::from_texts([("a.nlog", text)]));
    start.elapsed()
}

#[test]
fn time_grows_with_the_text() {
    let tables = "input table e(a: int, b: int);\noutput table t(a: int);\n";
    let repeat = |head: &str, count: usize, part: &dyn Fn(usize) -> String, tail: &str| {
        let mut text = format!("{tables}{head}");
        (0..count).for_each(|number| write!(text, "{}", part(number)).unwrap());
        text + tail
    };
    let growths = [
        ("rules", growth(|n| repeat("", n, &|i| format!("t(x) :- e(x, {i}), e({i}, x);\n"), ""), 500)),
        ("mistakes", growth(|n| repeat("", n, &|i| format!("t(x{i}) :- f(x);\n"), ""), 500)),
        ("one line", growth(|n| repeat("", n, &|_| "t(x) :- f(x);".into(), ""), 500)),
        (
            "one rule",
            growth(|n| repeat("t(x0) :- e(x0, _)", n, &|i| format!(", e(x{i}, x{})", i + 1), ";"), 1000),
        ),
        (
            "definitions",
            growth(|n| repeat("t(x0) :- e(x0, _)", n, &|i| format!(", x{} = x{i} & 1", i + 1), ";"), 500),
        ),
        ("constants", growth(|n| repeat("", n, &|i| format!("const C{i} = C{} + 1;", i + 1), ""), 1000)),
        (
            "circle",
            growth(
                |n| repeat("", n, &|i| format!("table t{i}(a: int); t{i}(a) :- t{}(a);", (i + 1) % n), ""),
                500,
            ),
        ),
        ("brackets", growth(|n| "(".repeat(n), 20_000)),
        ("semicolons", growth(|n| ";".repeat(n), 2000)),
        (
            "columns",
            growth(
                |n| format!("table w({});", (0..n).map(|i| format!("c{i}: int,")).collect::<String>()),
                1000,
            ),
        ),
    ];
    // Quadratic time would be 4 times this. The machine may be busy.
    let slow: Vec<_> = growths.iter().filter(|(_, growth)| *growth > 2.5).collect();
    assert!(slow.is_empty(), "{slow:?} of {growths:?}");
}

#[test]
fn files_without_rules() {
    for text in ["", "\u{feff}", "\n", "# only a comment", "## only a comment\n", " \t\r\n"] {
        let compilation = check(text);
        assert!(compilation.diagnostics.iter().all(|d| &*d.file == "tables.nlog"), "{text:?}");
    }
}

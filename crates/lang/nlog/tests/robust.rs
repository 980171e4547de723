//! For any text: a lossless tree and a result, within bounded time.

#![allow(clippy::unwrap_used)]

use nlog::limits::{MAX_ELEMENTS, MAX_NAME, MAX_NESTING};
use nlog::syntax::parse;
use nlog::{Compilation, Sources, compile};
use proptest::prelude::*;

const GOOD: &str = include_str!("../../../../examples/figure6.nlog");
const EVERYTHING: &str = include_str!("diagnostics/valid-everything/main.nlog");
const OBJECTS: &str = include_str!("diagnostics/valid-objects.nlog");
const TABLES: &str = include_str!("diagnostics/valid-everything/tables.nlog");

fn check(text: &str) -> Compilation {
    let tree = parse(text);
    assert_eq!(tree.root().text().to_string(), text, "the tree is not the text");
    let sources = Sources::from_texts([("main.nlog", text), ("tables.nlog", TABLES)]);
    let compilation = compile(&sources);
    for diagnostic in &compilation.diagnostics {
        // Rendering slices files by spans; none may be outside its file.
        let text = nlog::diagnostic::to_text(diagnostic, &sources, nlog::diagnostic::Style::Colour);
        assert!(text.contains(diagnostic.code.name()));
    }
    compilation
}

/// Fragments of rules, and some invalid ones.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "input",
        "output",
        "table",
        "key",
        "import",
        "const",
        "object",
        "state",
        "listing",
        "counter",
        "reads",
        "as",
        "ref",
        "was",
        "unique",
        "id_space",
        "field",
        "stage",
        "priority",
        "reserve",
        "of",
        "map",
        "choice",
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
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn token_soup(pieces in prop::collection::vec(piece(), 0..60), spaced: bool) {
        check(&pieces.join(if spaced { " " } else { "" }));
    }

    #[test]
    fn good_programs_with_a_piece_replaced(at: prop::sample::Index, length in 0usize..12, piece in piece(), which in 0usize..3) {
        let good = [GOOD, EVERYTHING, OBJECTS][which];
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
        let bounds: Vec<usize> = OBJECTS.char_indices().map(|(at, _)| at).collect();
        check(&OBJECTS[..*at.get(&bounds)]);
    }
}

#[test]
fn a_syntax_error_hides_nothing_and_causes_nothing() {
    // An invalid character before every token in turn: one syntax error and no other diagnostic.
    for (name, text) in [("main.nlog", EVERYTHING), ("tables.nlog", TABLES), ("objects.nlog", OBJECTS)] {
        let tokens = parse(text).root().descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
        for token in tokens.filter(|token| !token.kind().is_trivia()) {
            let at = usize::from(token.text_range().start());
            let spoilt = format!("{}§{}", &text[..at], &text[at..]);
            let other = match name {
                "main.nlog" => Some(("tables.nlog", TABLES)),
                "tables.nlog" => Some(("main.nlog", EVERYTHING)),
                _ => None,
            };
            let sources = Sources::from_texts([(name, spoilt.as_str())].into_iter().chain(other));
            let said: Vec<String> = compile(&sources).diagnostics.iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), 1, "{said:#?}\n{spoilt}");
            assert!(said[0].contains("error[syntax]"), "{said:#?}\n{spoilt}");
        }
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
        // Test threads have 2 MiB of stack; this thread does too, whatever runs it.
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

/// The element of a list with this number.
type Element = dyn Fn(usize) -> String;

#[test]
fn lists_of_declarations_and_calls_have_a_bound() {
    let list = |count: usize, element: &dyn Fn(usize) -> String| -> String {
        (0..count).map(element).collect::<Vec<_>>().join(", ")
    };
    let forms: [(&str, &Element, &str); 10] = [
        ("table t(", &|n| format!("c{n}: int"), ");"),
        ("type r = record {", &|n| format!("c{n}: int"), "};"),
        ("type e = enum {", &|n| format!("m{n}"), "};"),
        ("function f(", &|n| format!("p{n}: int"), ") -> int = 1;"),
        ("object o { x: int was ", &|n| format!("f{n}"), "; }"),
        ("object o { x: int; unique(", &|n| format!("f{n}"), "); }"),
        ("table t(x: int) unique(", &|n| format!("c{n}"), ");"),
        ("output table o(x: bool); o(x) :- vif(", &|_| "_".to_owned(), ");"),
        ("const M = match{", &|_| "reg0: 1".to_owned(), "};"),
        ("const A = actions[", &|_| "output(1)".to_owned(), "];"),
    ];
    for (before, element, after) in forms {
        let bound = |count| {
            let compilation = check(&format!("{before}{}{after}", list(count, element)));
            compilation.diagnostics.iter().any(|d| d.message == format!("more than {MAX_ELEMENTS} elements"))
        };
        assert!(!bound(MAX_ELEMENTS), "{before}");
        assert!(bound(MAX_ELEMENTS + 1), "{before}");
        assert!(bound(100_000), "{before}");
    }
    let fields = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!("f{n}: int;")).collect();
        let kinds: Vec<String> = (0..count).map(|n| format!("k{n}")).collect();
        [
            format!("object o {{ {} }}", fields.join(" ")),
            format!("object o {{ x: ref {}; }}", kinds.join(" | ")),
        ]
    };
    for (fine, long) in fields(MAX_ELEMENTS).into_iter().zip(fields(MAX_ELEMENTS + 1)) {
        assert!(check(&fine).diagnostics.iter().all(|d| d.code.name() != "syntax"));
        assert!(
            check(&long)
                .diagnostics
                .iter()
                .any(|d| d.message == format!("more than {MAX_ELEMENTS} elements"))
        );
    }
    let values = format!("const L = [{}];", list(MAX_ELEMENTS + 1, &|n| n.to_string()));
    assert!(check(&values).diagnostics.iter().all(|d| d.code.name() != "syntax"), "a list of data is longer");
}

#[test]
fn names_have_a_bound() {
    let message = |length: usize| {
        let text = format!("input table {}(x: int);", "a".repeat(length));
        let first = check(&text).diagnostics.into_iter().find(|d| &*d.file == "main.nlog");
        first.map(|d| d.message).unwrap_or_default()
    };
    assert!(message(MAX_NAME).starts_with("no rule reads the input table `aaa"));
    assert_eq!(message(MAX_NAME + 1), "a name of 256 bytes is too long");
    assert_eq!(message(10_000_000), "a name of 10,000,000 bytes is too long");
}

#[test]
fn mistakes_are_found_in_linear_time_and_told_briefly() {
    // Each took minutes, or a message of megabytes.
    let unbound: Vec<String> = (0..20_000).map(|n| format!("a{n} == {n}")).collect();
    let unbound = format!("output table o(x: int); o(1) :- vif(_, _, _), {};", unbound.join(", "));
    let many: Vec<String> =
        (0..20_000).map(|n| format!("table r{n}(x: int); r{n}(x) :- r{}(x);", (n + 1) % 20_000)).collect();
    let many = many.concat();
    let text = format!("const A = ip\"{}\";", "x".repeat(1 << 20));
    let actions = format!("const A = actions\"{}\";", "clone(".repeat(100_000));
    let string = format!("const A = 1 \"{}\";", "x".repeat(1 << 20));
    for text in [unbound, many, text, actions, string] {
        let sources = Sources::from_texts([("main.nlog", text.as_str()), ("tables.nlog", TABLES)]);
        let diagnostics = compile(&sources).diagnostics;
        assert!(diagnostics.iter().any(|d| d.severity == nlog::Severity::Error));
        for diagnostic in diagnostics.iter().take(10) {
            let shown = nlog::diagnostic::to_text(diagnostic, &sources, nlog::diagnostic::Style::Plain);
            assert!(shown.len() < 40_000, "{} bytes: {}", shown.len(), &shown[..1000]);
        }
    }
}

#[test]
fn files_without_rules() {
    for text in ["", "\u{feff}", "\n", "# only a comment", "## only a comment\n", " \t\r\n"] {
        let compilation = check(text);
        assert!(compilation.diagnostics.iter().all(|d| &*d.file == "tables.nlog"), "{text:?}");
    }
}

#[test]
fn a_rule_of_too_many_atoms_is_refused_with_the_limit() {
    let rule = |atoms: usize| {
        let body: Vec<String> = (0..atoms).map(|at| format!("next(v{at}, v{})", at + 1)).collect();
        format!(
            "input table next(a: int, b: int); output table far(a: int, b: int);\nfar(v0, v{atoms}) :- {};",
            body.join(", ")
        )
    };
    let said = |atoms: usize| -> Vec<(String, String)> {
        let compilation = nlog::compile(&nlog::Sources::from_texts([("long.nlog", rule(atoms))]));
        let diagnostics = compilation.diagnostics.into_iter();
        diagnostics.map(|diagnostic| (diagnostic.code.name().to_owned(), diagnostic.message)).collect()
    };
    assert_eq!(said(256), []);
    let refused = |atoms: usize| {
        vec![("too-large".to_owned(), format!("this rule has {atoms} atoms; the limit is 256"))]
    };
    assert_eq!(said(257), refused(257));
    assert_eq!(said(2_000), refused(2_000));
}

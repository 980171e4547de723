//! For any text: a lossless tree and a result, within bounded time.

#![allow(clippy::unwrap_used)]

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
fn a_syntax_error_hides_nothing_and_causes_nothing() {
    // An invalid character before every token in turn: one syntax error and no other diagnostic.
    for (name, text) in [("main.nlog", EVERYTHING), ("tables.nlog", TABLES)] {
        let tokens = parse(text).root().descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
        for token in tokens.filter(|token| !token.kind().is_trivia()) {
            let at = usize::from(token.text_range().start());
            let spoilt = format!("{}§{}", &text[..at], &text[at..]);
            let other = if name == "main.nlog" { ("tables.nlog", TABLES) } else { ("main.nlog", EVERYTHING) };
            let sources = Sources::from_texts([(name, spoilt.as_str()), other]);
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

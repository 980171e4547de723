//! Mistakes in types, functions, literals, defaults and tests: their messages, and that they affect nothing
//! else.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use nlog::syntax::{MAX_NESTING, SyntaxKind, lower, parse};
use proptest::prelude::*;

/// The errors of a text: place, message, help.
fn said(text: &str) -> Vec<String> {
    let parsed = parse(text);
    assert_eq!(parsed.root().text().to_string(), text, "the tree is not the text");
    let _ = lower(&parsed.root(), 0);
    parsed
        .errors
        .iter()
        .map(|error| format!("{} {}; {}", error.range.start, error.message, error.help))
        .collect()
}

/// Each of these declarations has one mistake; the next declaration is still read.
#[test]
fn each_mistake_has_its_message_and_remedy() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/syntax");
    let programs = std::fs::read_to_string(folder.join("mistakes.nlog")).unwrap();
    let mut shown = String::new();
    for program in programs.split("\n\n") {
        let text = format!("{program}\nlast(1) :- u(1);\n");
        let errors = said(&text);
        assert_eq!(errors.len(), 1, "{text}\n{errors:#?}");
        let file = lower(&parse(&text).root(), 0);
        let last = file.rules.last().is_some_and(|rule| rule.head.name.name == "last");
        assert!(last, "the last rule is lost: {text}");
        let error = &parse(&text).errors[0];
        let line_start = text[..error.range.start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].lines().next().unwrap_or_default();
        let column = text[line_start..error.range.start].chars().count();
        let width = text[error.range.clone()].chars().count().max(1);
        shown += &format!("{line}\n{}{} {}\n", " ".repeat(column), "^".repeat(width), error.message);
        shown += &format!("    help: {}\n\n", error.help);
    }
    expect_test::expect_file![folder.join("mistakes.txt")].assert_eq(&shown);
}

/// An invalid character before every token in turn: one error, and all other declarations are read.
#[test]
fn a_mistake_spoils_one_declaration() {
    let text = crate::support::EVERYTHING_NEW;
    let whole = parse(text);
    let items: Vec<_> = whole.root().children().collect();
    for token in whole.root().descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token) {
        if token.kind().is_trivia() {
            continue;
        }
        for piece in ["§", "]]"] {
            let at = usize::from(token.text_range().start());
            let spoilt = format!("{} {piece} {}", &text[..at], &text[at..]);
            let parsed = parse(&spoilt);
            let found: Vec<_> = parsed.root().children().collect();
            assert_eq!(parsed.errors.len(), 1, "{:#?}\n{spoilt}", parsed.errors);
            // Before a declaration, the fragment is a mistake in it or a separate mistake.
            let same =
                items.iter().filter(|item| found.iter().any(|other| other.text() == item.text())).count();
            assert!(same >= items.len() - 1, "{same} of {} in\n{spoilt}", items.len());
        }
    }
}

/// So is an object.
#[test]
fn a_missing_brace_of_an_object_does_not_swallow_the_file() {
    let object = "object a {\n    x: set<int> = {};\n    unique(x);\n}\n";
    let after = [
        "table x(a: int);\n",
        "state table x(a: int);\n",
        "const X = 1;\n",
        "type x = int;\n",
        "function x(a: int) -> int = a;\n",
        "test \"b\" {\n    given { t(2); }\n}\n",
        "default x(1) :- y(1);\n",
        "object b {\n    x: int;\n}\n",
        "x(1) :- y(1);\n",
    ];
    for at in [object.find('{').unwrap(), object.rfind('}').unwrap()] {
        let spoilt = format!("{}{}", &object[..at], &object[at + 1..]);
        for after in after {
            for gap in ["", "\n", "\n# Comment.\n"] {
                let text = format!("{spoilt}{gap}{after}last(1);\n");
                let parsed = parse(&text);
                assert_eq!(parsed.errors.len(), 1, "{:#?}\n{text}", parsed.errors);
                for item in [after.trim_end(), "last(1);"] {
                    assert!(
                        parsed.root().children().any(|found| found.text().to_string().ends_with(item)),
                        "{item} is lost: {:#?}\n{text}",
                        parsed.errors
                    );
                }
            }
        }
    }
}

/// A test that lacks one of its braces is skipped, and the declarations after it are read.
#[test]
fn a_missing_brace_does_not_swallow_the_file() {
    let tests = "test \"a\" {\n    given {\n        t(1);\n        u(1);\n    }\n    expect t(1);\n}\n";
    let after = [
        "table x(a: int);\n",
        "output table x(a: int);\n",
        "import \"x.nlog\";\n",
        "const X = 1;\n",
        "type x = int;\n",
        "function x(a: int) -> int = a;\n",
        "test \"b\" {\n    given { t(2); }\n}\n",
        "default x(1) :- y(1);\n",
    ];
    for (at, _) in tests.match_indices(['{', '}']) {
        let spoilt = format!("{}{}", &tests[..at], &tests[at + 1..]);
        for after in after {
            for gap in ["", "\n", "\n# Comment.\n"] {
                let text = format!("{spoilt}{gap}{after}last(1);\n");
                let parsed = parse(&text);
                assert_eq!(parsed.errors.len(), 1, "{:#?}\n{text}", parsed.errors);
                let after = after.trim_end();
                assert!(
                    parsed.root().children().any(|item| item.text().to_string().ends_with(after)),
                    "{after} is lost: {:#?}\n{text}",
                    parsed.errors
                );
            }
        }
        // The first rule is read as a row up to its `:-` and is lost; the one after it is not.
        let text = format!("{spoilt}\nx(1) :- y(1);\nlast(1) :- y(1);\n");
        let parsed = parse(&text);
        assert_eq!(parsed.errors.len(), 1, "{:#?}\n{text}", parsed.errors);
        assert!(parsed.root().children().any(|item| item.text() == "last(1) :- y(1);"), "{text}");
    }
}

#[test]
fn the_names_of_spoilt_declarations_are_known() {
    let text = "type a = enum {1};\nfunction b(x int) -> int = used(x);\ntype = int;\nfunction f(x: int) -> c;\ntest \"t\" { expect used2(§); }";
    let file = lower(&parse(text).root(), 0);
    assert_eq!(
        file.types.iter().map(|ty| (ty.name.name.as_str(), ty.definition.is_some())).collect::<Vec<_>>(),
        [("a", false)]
    );
    let functions: Vec<_> = file
        .functions
        .iter()
        .map(|function| (function.name.name.as_str(), function.body.is_some()))
        .collect();
    assert_eq!(functions, [("b", false), ("f", false)]);
    assert!(file.mentions.contains(&"used".to_owned()) && file.mentions.contains(&"used2".to_owned()));
    assert!(file.tests.is_empty());
    assert!(file.nameless);
}

#[test]
fn nesting_has_a_bound() {
    let deep =
        |open: &str, close: &str| format!("const A = {}1{};", open.repeat(50_000), close.repeat(50_000));
    let texts = [
        format!("const A = a{};", ".b".repeat(100_000)),
        deep("r{a: ", "}"),
        deep("match{a: ", "}"),
        deep("actions[a(", ")]"),
        deep("actions[", "]"),
        format!("type a = {}int{};", "set<".repeat(100_000), ">".repeat(100_000)),
        format!("type a = record {{a: {}int{}}};", "set<".repeat(100_000), ">".repeat(100_000)),
        format!("function a(x: int) -> int = {}x;", "-".repeat(100_000)),
        format!("test \"a\" {{ expect t({}); }}", "(".repeat(100_000)),
        format!("t(x) :- a(x){};", " . b".repeat(100_000)),
    ];
    for text in texts {
        let run = std::thread::Builder::new().stack_size(2 << 20).spawn(move || said(&text)).unwrap();
        assert_eq!(run.join().unwrap().len(), 1);
    }
    let fine = format!("const A = a{};", ".b".repeat(MAX_NESTING - 2));
    assert_eq!(said(&fine), Vec::<String>::new());
    let fine = format!("const A = {}1{};", "r{a: ".repeat(60), "}".repeat(60));
    assert_eq!(said(&fine), Vec::<String>::new());
}

/// The processor time of this thread, which does not include delays by other work on the machine.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a clock does not go below zero")
}

/// Texts that repeat one mistake take time in proportion to their length.
#[test]
fn mistakes_take_linear_time() {
    let pieces = [
        "test \"a\" ; ",
        "test \"a\" { given { a( ",
        "test \"a\" {\n",
        "test {\n",
        "type x = record {a: int; ",
        "\ntype x = enum {",
        "# weft: allow(a)\n",
        "a(1); # weft: allow(a)\n",
        "t(x) :-\n# weft: allow(a)\n",
        "default t(",
        "match{ ",
        "actions[ct(",
        "\na(",
        "}",
        "a.b.",
        "function f(",
    ];
    for piece in pieces {
        let time = |count: usize| {
            let text = piece.repeat(count);
            let start = processor_time();
            let parsed = parse(&text);
            let _ = lower(&parsed.root(), 0);
            processor_time().saturating_sub(start)
        };
        // Forty times the text: a quadratic parser would take 1600 times as long.
        let short = time(250).max(Duration::from_millis(1));
        let long = time(10_000);
        assert!(long < short * 400, "{piece:?}: {short:?} and {long:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_text_there_is_a_tree(
        pieces in prop::collection::vec((any::<prop::sample::Index>(), 1usize..8), 0..40),
        spaced: bool,
    ) {
        let tokens: Vec<(SyntaxKind, String)> = crate::support::all_tokens(crate::support::EVERYTHING_NEW);
        let mut text = String::new();
        for (at, length) in pieces {
            let at = at.index(tokens.len());
            for (_, token) in tokens.iter().skip(at).take(length) {
                text += token;
                text += if spaced { " " } else { "" };
            }
        }
        said(&text);
    }
}

//! Programs: any text, and real programs after edits.

use nlog::diagnostic::{self, Style};
use nlog::syntax::{self, SyntaxKind};
use nlog::{Sources, compile};

/// Bytes through the parser: the tree holds every character of the text, and errors lie inside it.
pub fn parse(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parsed = syntax::parse(&text);
    assert_eq!(parsed.root().text().to_string(), *text, "the tree is not the text");
    for error in &parsed.errors {
        assert!(text.get(error.range.clone()).is_some(), "an error outside of the text: {error:?}");
        assert!(!error.message.is_empty() && !error.help.is_empty(), "an error without words: {error:?}");
    }
}

/// Bytes through the checker: every diagnostic can be rendered in every form.
pub fn check(bytes: &[u8]) {
    check_text(&String::from_utf8_lossy(bytes));
}

/// Bytes through the formatter: the result has the same tokens and comments, and formatting it again does not change it.
pub fn format(bytes: &[u8]) {
    format_text(&String::from_utf8_lossy(bytes));
}

/// A real program after the edits that the bytes encode, such as typing mistakes make, through checker and formatter.
pub fn edit(bytes: &[u8]) {
    let text = edited(bytes);
    check_text(&text);
    format_text(&text);
}

fn check_text(text: &str) {
    let sources = Sources::from_texts([("main.nlog", text)]);
    let compilation = compile(&sources);
    for diagnostic in &compilation.diagnostics {
        for style in [Style::Plain, Style::Colour] {
            let shown = diagnostic::to_text(diagnostic, &sources, style);
            assert!(shown.contains(diagnostic.code.name()), "a diagnostic lacks its code");
        }
        let json = diagnostic::to_json(diagnostic);
        assert!(json.contains("\"line\""), "a diagnostic lacks its place");
    }
    let errors = compilation.diagnostics.iter().any(|d| d.severity == nlog::Severity::Error);
    assert_eq!(
        errors,
        compilation.program.is_none(),
        "a program despite errors, or no program without errors"
    );
}

/// The programs that edits start from.
const SEEDS: &[&str] = &[
    include_str!("../../../../examples/figure6.nlog"),
    include_str!("../../../../examples/tour.nlog"),
    include_str!("../../../../rules/locators/location.nlog"),
    include_str!("../../../../rules/logical/port_security/port_security.nlog"),
    include_str!("../../../../crates/lang/nlog/tests/diagnostics/valid-everything/main.nlog"),
];

/// Tokens that edits insert, beside the program's own.
const PIECES: &[&str] = &[
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
    "=",
    "==",
    "<",
    ">",
    ">>",
    "/",
    "&",
    "++",
    "-",
    "!",
    ".",
    "input",
    "output",
    "table",
    "key",
    "const",
    "not",
    "if",
    "then",
    "else",
    "type",
    "enum",
    "record",
    "function",
    "default",
    "test",
    "given",
    "change",
    "expect",
    "match{",
    "actions[",
    "set(reg0, ",
    "ip_dst: ",
    "tcp",
    "opt<int>",
    "_",
    "0x1f",
    "-9223372036854775808",
    "\"x\"",
    "ip\"10.0.0.1\"",
    "# weft: allow(unused-table)\n",
    "## doc\n",
    "ct(commit, exec(",
    "learn(table: 1, ",
    "[0..15]",
    "->",
    "\u{feff}",
    "é",
    "\"\\u{1f600}\"",
];

/// A seed program after the edits that the bytes encode.
fn edited(bytes: &[u8]) -> String {
    let Some((seed, edits)) = bytes.split_first() else { return String::new() };
    let text = SEEDS[usize::from(*seed) % SEEDS.len()];
    let mut tokens: Vec<String> = syntax::parse(text)
        .root()
        .descendants_with_tokens()
        .filter_map(rowan::NodeOrToken::into_token)
        .map(|token| token.text().to_owned())
        .collect();
    for edit in edits.chunks_exact(4).take(64) {
        let count = tokens.len().max(1);
        let at = (usize::from(edit[1]) << 8 | usize::from(edit[2])) % count;
        let other = usize::from(edit[3]);
        match edit[0] % 6 {
            _ if tokens.is_empty() => break,
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at].clone()),
            2 => tokens.swap(at, (at + other) % count),
            3 => PIECES[other % PIECES.len()].clone_into(&mut tokens[at]),
            4 => tokens.insert(at, format!(" {} ", PIECES[other % PIECES.len()])),
            _ => {
                let piece = PIECES[other % PIECES.len()];
                tokens.insert(at, piece.repeat(1 + other * 2));
            }
        }
    }
    tokens.concat()
}

/// The tokens of a text, except white space and commas, which the formatter may add or remove.
fn tokens(text: &str) -> Vec<String> {
    let root = syntax::parse(text).root();
    let tokens = root.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    let mut tokens: Vec<String> = tokens
        .filter(|token| token.kind() != SyntaxKind::Whitespace && token.kind() != SyntaxKind::Comma)
        .map(|token| token.text().trim_end().to_owned())
        .collect();
    // The formatter may move a comment past the end of a line.
    tokens.sort();
    tokens
}

fn format_text(text: &str) {
    let Ok(formatted) = nlog::format(text) else { return };
    assert_eq!(tokens(text), tokens(&formatted), "formatting lost or added a token");
    let again = nlog::format(&formatted).expect("formatted text is nlog");
    assert_eq!(formatted, again, "formatting twice gives another text");
}

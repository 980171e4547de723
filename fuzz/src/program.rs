//! Programs: any text, and real programs after edits.

use nlog::diagnostic::{self, Style};
use nlog::syntax::{SyntaxKind, parse};
use nlog::{Sources, compile};

/// Checks a program and renders its diagnostics in every form.
pub fn check(text: &str) {
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
    include_str!("../../examples/figure6.nlog"),
    include_str!("../../examples/tour.nlog"),
    include_str!("../../rules/locators/location.nlog"),
    include_str!("../../rules/logical/port_security/port_security.nlog"),
    include_str!("../../crates/lang/nlog/tests/diagnostics/valid-everything/main.nlog"),
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
pub fn edited(bytes: &[u8]) -> String {
    let Some((seed, edits)) = bytes.split_first() else { return String::new() };
    let text = SEEDS[usize::from(*seed) % SEEDS.len()];
    let mut tokens: Vec<String> = parse(text)
        .root()
        .descendants_with_tokens()
        .filter_map(|element| element.into_token())
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
            3 => tokens[at] = PIECES[other % PIECES.len()].to_owned(),
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
    let root = parse(text).root();
    let tokens = root.descendants_with_tokens().filter_map(|element| element.into_token());
    let mut tokens: Vec<String> = tokens
        .filter(|token| token.kind() != SyntaxKind::Whitespace && token.kind() != SyntaxKind::Comma)
        .map(|token| token.text().trim_end().to_owned())
        .collect();
    // The formatter may move a comment past the end of a line.
    tokens.sort();
    tokens
}

/// Formats a text. The result must have the same tokens and comments, and formatting it again must not change it.
pub fn format(text: &str) {
    let Ok(formatted) = nlog::format(text) else { return };
    assert_eq!(tokens(text), tokens(&formatted), "formatting lost or added a token");
    let again = nlog::format(&formatted).expect("formatted text is nlog");
    assert_eq!(formatted, again, "formatting twice gives another text");
}

//! The lexer: text to tokens.

use logos::Logos;

use super::SyntaxKind;

/// A token: its kind and its end; it starts at the end of the previous one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: SyntaxKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Splits a text of less than 4 GiB into tokens, whose concatenation is the text. A byte order mark at its start
/// counts as white space; neighbouring characters that start no token become one [`SyntaxKind::Unknown`].
pub(crate) fn lex(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::with_capacity(text.len() / 3 + 1);
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let offset = text.len() - body.len();
    if offset > 0 {
        tokens.push(Token { kind: SyntaxKind::Whitespace, start: 0, end: offset as u32 });
    }
    for (kind, span) in SyntaxKind::lexer(body).spanned() {
        let (start, end) = ((span.start + offset) as u32, (span.end + offset) as u32);
        match kind {
            Ok(SyntaxKind::Comment) if is_doc(&body[span]) => {
                tokens.push(Token { kind: SyntaxKind::DocComment, start, end });
            }
            Ok(kind) => tokens.push(Token { kind, start, end }),
            Err(()) => match tokens.last_mut() {
                Some(last) if last.kind == SyntaxKind::Unknown => last.end = end,
                _ => tokens.push(Token { kind: SyntaxKind::Unknown, start, end }),
            },
        }
    }
    tokens
}

/// Whether a comment is documentation: `##` is, and a line of more signs is decoration.
fn is_doc(comment: &str) -> bool {
    comment.starts_with("##") && !comment.starts_with("###")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(SyntaxKind, &str)> {
        let significant = lex(text).into_iter().filter(|token| token.kind != SyntaxKind::Whitespace);
        significant.map(|token| (token.kind, &text[token.start as usize..token.end as usize])).collect()
    }

    #[test]
    fn reserved_words_are_not_prefixes_of_names() {
        assert_eq!(kinds("table tables"), [(SyntaxKind::TableKw, "table"), (SyntaxKind::Ident, "tables")]);
        assert_eq!(kinds("_ _a"), [(SyntaxKind::Underscore, "_"), (SyntaxKind::Ident, "_a")]);
    }

    #[test]
    fn strings_know_their_escapes_and_ends() {
        assert_eq!(kinds(r#""a\"b" c"#), [(SyntaxKind::String, r#""a\"b""#), (SyntaxKind::Ident, "c")]);
        assert_eq!(kinds("\"a\nb"), [(SyntaxKind::OpenString, "\"a"), (SyntaxKind::Ident, "b")]);
        assert_eq!(kinds(r#"ip"::1""#), [(SyntaxKind::PrefixedString, r#"ip"::1""#)]);
        assert_eq!(kinds("\"a\\"), [(SyntaxKind::OpenString, "\"a\\")]);
    }

    #[test]
    fn comments_document_or_not() {
        assert_eq!(
            kinds("# a\n## b\r\n### c"),
            [
                (SyntaxKind::Comment, "# a"),
                (SyntaxKind::DocComment, "## b\r"),
                (SyntaxKind::Comment, "### c")
            ]
        );
    }

    #[test]
    fn unknown_characters_come_in_runs() {
        assert_eq!(kinds("a §§§ b").len(), 4 - 1);
        assert_eq!(kinds("\u{feff}a"), [(SyntaxKind::Whitespace, "\u{feff}"), (SyntaxKind::Ident, "a")][1..]);
    }
}

//! The kinds of tokens and nodes.

use logos::Logos;

/// Defines the kinds, and the list of them by number that the tree library needs.
macro_rules! kinds {
    ($(#[$($outer:tt)*])* $name:ident { $($(#[$($inner:tt)*])* $kind:ident,)* }) => {
        $(#[$($outer)*])*
        pub enum $name { $($(#[$($inner)*])* $kind,)* }

        impl $name {
            /// Every kind, by its number.
            pub(crate) const ALL: &[$name] = &[$($name::$kind),*];
        }
    };
}

kinds! {
/// What a token or node is.
///
/// Tokens that people spell wrongly in the manner of other languages (`&&`, `.`) are kinds of their own, so that the
/// parser can say what to write instead.
#[derive(Logos, Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
#[allow(missing_docs)] // The spelling beside each kind says what it is.
SyntaxKind {
    // Trivia.
    #[regex(r"[ \t\r\n\x0c]+")]
    Whitespace,
    #[regex(r"#[^\n]*", allow_greedy = true)]
    Comment,
    /// `## …`: documents the declaration that follows. Made from [`SyntaxKind::Comment`] by the lexer.
    DocComment,

    // Reserved words.
    #[token("input")]
    InputKw,
    #[token("output")]
    OutputKw,
    #[token("table")]
    TableKw,
    #[token("key")]
    KeyKw,
    #[token("import")]
    ImportKw,
    #[token("const")]
    ConstKw,
    #[token("not")]
    NotKw,
    #[token("true")]
    TrueKw,
    #[token("false")]
    FalseKw,
    #[token("if")]
    IfKw,
    #[token("then")]
    ThenKw,
    #[token("else")]
    ElseKw,

    // Names and literals.
    #[regex("[A-Za-z_][A-Za-z0-9_]*", priority = 2)]
    Ident,
    #[token("_", priority = 10)]
    Underscore,
    /// Digits and whatever letters follow; lowering reads the number and refuses malformed ones.
    #[regex("[0-9][0-9A-Za-z_]*")]
    Number,
    #[regex(r#""([^"\\\n\r]|\\[^\n\r])*""#)]
    String,
    /// A literal of another type: `ip"10.0.0.1"`.
    #[regex(r#"[A-Za-z_][A-Za-z0-9_]*"([^"\\\n\r]|\\[^\n\r])*""#)]
    PrefixedString,
    /// A string that its line does not end.
    #[regex(r#"([A-Za-z_][A-Za-z0-9_]*)?"([^"\\\n\r]|\\[^\n\r])*\\?"#)]
    OpenString,

    // Punctuation and operators.
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token(":-")]
    ColonMinus,
    #[token("..")]
    DotDot,
    #[token("=")]
    Eq,
    #[token("==")]
    EqEq,
    #[token("!=")]
    NotEq,
    #[token("<")]
    Lt,
    #[token("<=")]
    LtEq,
    /// `>>` is two of these without trivia between, so that `set<set<int>>` closes twice.
    #[token(">")]
    Gt,
    #[token(">=")]
    GtEq,
    #[token("<<")]
    Shl,
    #[token("+")]
    Plus,
    #[token("++")]
    PlusPlus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("&")]
    Amp,
    #[token("|")]
    Pipe,
    #[token("^")]
    Caret,
    #[token("!")]
    Bang,

    // No part of the language.
    #[token("&&")]
    AmpAmp,
    #[token("||")]
    PipePipe,
    #[token(".")]
    Dot,
    /// Characters that start no token.
    Unknown,
    /// After the last token; in no tree.
    Eof,

    // Nodes.
    /// A file.
    Root,
    /// `import "path";`
    Import,
    /// `const NAME = value;`
    Const,
    /// `input table name(columns) key(names);`
    Table,
    /// `(name: type, …)` of a table.
    Columns,
    /// `name: type`
    Column,
    /// `key(names)`
    Key,
    /// `name` or `name<type>`
    Type,
    /// `head :- body;` or `head;`
    Rule,
    /// What follows `:-`.
    Body,
    /// `name = value` in a body.
    Binding,
    /// `name(arguments)`: an atom or a call.
    Call,
    /// `(…)` of a call.
    Arguments,
    /// `name: value` or a value.
    Argument,
    /// A name that stands for a value.
    Name,
    /// `_`
    Wildcard,
    /// A literal token.
    Literal,
    /// `-value`
    Negative,
    /// `not value` or `!value`: always an error, kept so that the checker can say what to do.
    Negation,
    /// `left operator right`
    Binary,
    /// `if c then a else b`
    If,
    /// `(value)`
    Paren,
    /// `[values]`
    List,
    /// `{values}`
    Set,
    /// Tokens that the parser could not use, or none where it missed some.
    Error,
}
}

impl SyntaxKind {
    /// Whether the token means nothing to the parser.
    pub fn is_trivia(self) -> bool {
        matches!(self, SyntaxKind::Whitespace | SyntaxKind::Comment | SyntaxKind::DocComment)
    }

    /// Whether the token is a reserved word.
    pub fn is_keyword(self) -> bool {
        (SyntaxKind::InputKw..=SyntaxKind::ElseKw).contains(&self)
    }

    /// Whether the token can only stand at the start of a declaration.
    pub fn starts_declaration(self) -> bool {
        matches!(
            self,
            SyntaxKind::InputKw
                | SyntaxKind::OutputKw
                | SyntaxKind::TableKw
                | SyntaxKind::ImportKw
                | SyntaxKind::ConstKw
        )
    }
}

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
/// The kind of a token or node.
///
/// Operators of other languages (`&&`, `||`) have separate kinds, so that the parser can suggest the right spelling.
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

    // Contextual words, which are names elsewhere. The lexer makes them names; in the tree they have these kinds
    // where they are keywords.
    /// `type`
    TypeKw,
    /// `enum`
    EnumKw,
    /// `record`
    RecordKw,
    /// `function`
    FunctionKw,
    /// `default`
    DefaultKw,
    /// `forbid` before `table`
    ForbidKw,
    /// `from` of a table that a hook fills
    FromKw,
    /// `match` of a literal
    MatchKw,
    /// `actions` of a literal
    ActionsKw,
    /// `test`
    TestKw,
    /// `given`
    GivenKw,
    /// `objects` after `given`
    ObjectsKw,
    /// `change`
    ChangeKw,
    /// `insert`
    InsertKw,
    /// `delete`
    DeleteKw,
    /// `expect`
    ExpectKw,
    /// `no`
    NoKw,
    /// `exactly`
    ExactlyKw,
    /// `delta`
    DeltaKw,
    /// `error`
    ErrorKw,
    /// `port` after `given`
    PortKw,
    /// `on` before a host
    OnKw,
    /// `packet` after `expect`
    PacketKw,
    /// `at` before the receivers of a packet
    AtKw,
    /// `nowhere` of a packet without receivers
    NowhereKw,
    /// `where`
    WhereKw,
    /// `object` of a kind of objects
    ObjectKw,
    /// `state` before `table`
    StateKw,
    /// `listing` before `table`
    ListingKw,
    /// `counter` before `table`
    CounterKw,
    /// `reads` of a table of counters
    ReadsKw,
    /// `as` before the counts of a table of counters
    AsKw,
    /// `ref` of a type
    RefKw,
    /// `was` of an object's field
    WasKw,
    /// `unique` of an object or a table
    UniqueKw,
    /// `id_space` of an object
    IdSpaceKw,
    /// `field` of a packet
    FieldKw,
    /// `stage` of the pipeline
    StageKw,
    /// `priority` of a stage
    PriorityKw,
    /// `reserve` of numbers
    ReserveKw,
    /// `of` after the name of a priority or of reserved numbers
    OfKw,

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
    /// A string without a closing quote on its line.
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
    #[token("->")]
    Arrow,
    /// Before the name of a record's field.
    #[token(".")]
    Dot,
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

    // Not part of the language.
    #[token("&&")]
    AmpAmp,
    #[token("||")]
    PipePipe,
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
    /// `input table name(columns) key(names) unique(names) from hook(table);`
    Table,
    /// `(name: type, …)` of a table.
    Columns,
    /// `name: type` of a table, a record or a function's parameters.
    Column,
    /// `key(names)`
    Key,
    /// `from hook(table, setting: value, …)` of a table.
    Hook,
    /// `name: value` of a hook.
    Setting,
    /// `reads counter(columns) on table as (counts)` of a table of counters.
    Reads,
    /// `name: counted of column` of a table of counters.
    Count,
    /// `else "text"` of a listing or a table of counters.
    Otherwise,
    /// `name`, `name<type>` or `ref name | name`
    Type,
    /// `type NAME = …;`: an alias, a constrained type, an enumeration or a record.
    TypeDeclaration,
    /// `least..greatest` of a constrained type.
    Range,
    /// `where condition else "text"` of a constrained type.
    Where,
    /// `enum {member, …}` of a type's declaration.
    EnumType,
    /// `name` or `"text"` of an enumeration.
    Member,
    /// `record {name: type, …}` of a type's declaration.
    RecordType,
    /// `object name { fields }`
    Object,
    /// `name: type was name = value;` of an object.
    ObjectField,
    /// `was name, name` of an object's field.
    Was,
    /// `unique(path, …);` of an object, or `unique(names)` of a table.
    Unique,
    /// `name.name` of what is unique among objects.
    Path,
    /// `id_space name;` of an object.
    IdSpace,
    /// `field name = register[first..last];`
    FieldDeclaration,
    /// `stage NAME = number;`
    StageDeclaration,
    /// `priority NAME of STAGE = least..greatest;`
    PriorityDeclaration,
    /// `reserve NAME of TYPE = least..greatest;`
    ReserveDeclaration,
    /// `function name(parameters) -> type = value;`
    Function,
    /// `(name: type, …)` of a function.
    Parameters,
    /// `test "name" { steps }`
    Test,
    /// `given { rows }`, `given objects "file";` or `given port "port" on "host";` of a test.
    Given,
    /// `change { insert row; delete row; }` of a test.
    Change,
    /// `expect row;`, `expect no row;`, `expect exactly { rows }`, `expect delta { … }`, `expect error "code";` or
    /// `expect packet from "port" match{…} at "port", …;`
    Expect,
    /// `row;`, `insert row;` or `delete row;` of a test.
    Row,
    /// `head :- body;` or `head;`, after `default` or not.
    Rule,
    /// The items after `:-`.
    Body,
    /// `name = value` in a body.
    Binding,
    /// `name(arguments)`: an atom or a call.
    Call,
    /// `(…)` of a call.
    Arguments,
    /// `name: value` or a value.
    Argument,
    /// A name used as a value.
    Name,
    /// `_`
    Wildcard,
    /// A literal token.
    Literal,
    /// `-value`
    Negative,
    /// `not value` or `!value`: always an error, kept so that the checker can suggest a remedy.
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
    /// `name{field: value, …}`: a value of a record type.
    Record,
    /// `field: value` of a record.
    RecordField,
    /// `value.name`: a record's field.
    Field,
    /// `match{field: value, …}`
    Match,
    /// `field`, `field: value` or `field[0..15]: value/mask` of a match.
    MatchTerm,
    /// `actions[action, …]`
    Actions,
    /// `name[0..15]`: bits of an OpenFlow field.
    Bits,
    /// `[0..15]` or `[0]` after a field's name.
    BitRange,
    /// Tokens that the parser could not use, or none where it missed some.
    Error,
}
}

impl SyntaxKind {
    /// The reserved words.
    pub const RESERVED_WORDS: &[(&str, SyntaxKind)] = &[
        ("input", SyntaxKind::InputKw),
        ("output", SyntaxKind::OutputKw),
        ("table", SyntaxKind::TableKw),
        ("key", SyntaxKind::KeyKw),
        ("import", SyntaxKind::ImportKw),
        ("const", SyntaxKind::ConstKw),
        ("not", SyntaxKind::NotKw),
        ("true", SyntaxKind::TrueKw),
        ("false", SyntaxKind::FalseKw),
        ("if", SyntaxKind::IfKw),
        ("then", SyntaxKind::ThenKw),
        ("else", SyntaxKind::ElseKw),
    ];

    /// The contextual words, which are names elsewhere.
    pub const CONTEXTUAL_WORDS: &[(&str, SyntaxKind)] = &[
        ("type", SyntaxKind::TypeKw),
        ("enum", SyntaxKind::EnumKw),
        ("record", SyntaxKind::RecordKw),
        ("function", SyntaxKind::FunctionKw),
        ("default", SyntaxKind::DefaultKw),
        ("forbid", SyntaxKind::ForbidKw),
        ("from", SyntaxKind::FromKw),
        ("match", SyntaxKind::MatchKw),
        ("actions", SyntaxKind::ActionsKw),
        ("test", SyntaxKind::TestKw),
        ("given", SyntaxKind::GivenKw),
        ("objects", SyntaxKind::ObjectsKw),
        ("change", SyntaxKind::ChangeKw),
        ("insert", SyntaxKind::InsertKw),
        ("delete", SyntaxKind::DeleteKw),
        ("expect", SyntaxKind::ExpectKw),
        ("no", SyntaxKind::NoKw),
        ("exactly", SyntaxKind::ExactlyKw),
        ("delta", SyntaxKind::DeltaKw),
        ("error", SyntaxKind::ErrorKw),
        ("port", SyntaxKind::PortKw),
        ("on", SyntaxKind::OnKw),
        ("packet", SyntaxKind::PacketKw),
        ("at", SyntaxKind::AtKw),
        ("nowhere", SyntaxKind::NowhereKw),
        ("where", SyntaxKind::WhereKw),
        ("object", SyntaxKind::ObjectKw),
        ("state", SyntaxKind::StateKw),
        ("listing", SyntaxKind::ListingKw),
        ("counter", SyntaxKind::CounterKw),
        ("reads", SyntaxKind::ReadsKw),
        ("as", SyntaxKind::AsKw),
        ("ref", SyntaxKind::RefKw),
        ("was", SyntaxKind::WasKw),
        ("unique", SyntaxKind::UniqueKw),
        ("id_space", SyntaxKind::IdSpaceKw),
        ("field", SyntaxKind::FieldKw),
        ("stage", SyntaxKind::StageKw),
        ("priority", SyntaxKind::PriorityKw),
        ("reserve", SyntaxKind::ReserveKw),
        ("of", SyntaxKind::OfKw),
    ];

    /// Whether the parser ignores the token.
    pub fn is_trivia(self) -> bool {
        matches!(self, SyntaxKind::Whitespace | SyntaxKind::Comment | SyntaxKind::DocComment)
    }

    /// Whether the token is a reserved word.
    pub fn is_keyword(self) -> bool {
        (SyntaxKind::InputKw..=SyntaxKind::ElseKw).contains(&self)
    }

    /// Whether the token is a contextual keyword: a keyword here, a name elsewhere.
    pub fn is_contextual_keyword(self) -> bool {
        (SyntaxKind::TypeKw..=SyntaxKind::OfKw).contains(&self)
    }

    /// Whether the token can only start a declaration.
    pub(crate) fn starts_declaration(self) -> bool {
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

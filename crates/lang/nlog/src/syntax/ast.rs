//! The AST: the content of a file for the checker, without layout but with a [`Span`] for everything.

use nlog_data::Role;

/// A range of a file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file's number among the sources.
    pub file: u32,
    /// Its first byte.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
}

/// A name where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// The place.
    pub span: Span,
}

/// A file's declarations and rules.
#[derive(Debug, Clone, Default)]
pub struct File {
    /// Its imports.
    pub imports: Vec<Import>,
    /// Its named constants.
    pub constants: Vec<Constant>,
    /// Its types.
    pub types: Vec<TypeDeclaration>,
    /// Its functions.
    pub functions: Vec<FunctionDeclaration>,
    /// Its names of fields.
    pub fields: Vec<FieldDeclaration>,
    /// Its stages, each of which is a constant too.
    pub stages: Vec<StageDeclaration>,
    /// Its priorities, each of which is a constant too.
    pub priorities: Vec<RangeDeclaration>,
    /// The numbers that it reserves. The first of each is a constant too.
    pub reservations: Vec<RangeDeclaration>,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its rules and facts.
    pub rules: Vec<Rule>,
    /// Its tests.
    pub tests: Vec<Test>,
    /// The warnings that comments allow.
    pub allowances: Vec<Allowance>,
    /// The names in declarations and rules with syntax errors: the tables among them count as used.
    pub mentions: Vec<String>,
    /// The first words of the text that syntax errors hide: each may be the name of a table or constant.
    pub perhaps: Vec<String>,
    /// Whether a syntax error hides the name of a table or constant altogether.
    pub nameless: bool,
    /// Errors that the tree cannot represent: invalid numbers and escapes.
    pub errors: Vec<(Span, String, String)>,
}

/// `import "path";`
#[derive(Debug, Clone)]
pub struct Import {
    /// The path as written, escapes resolved.
    pub path: String,
    /// The path's place.
    pub span: Span,
}

/// `const NAME: type = value;`
#[derive(Debug, Clone)]
pub struct Constant {
    /// Its name.
    pub name: Ident,
    /// Its type, if declared.
    pub ty: Option<TypeRef>,
    /// Its value; `None` if the declaration has a syntax error.
    pub value: Option<Expr>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// `field name = register[first..last];`
#[derive(Debug, Clone)]
pub struct FieldDeclaration {
    /// Its name.
    pub name: Ident,
    /// The field of Open vSwitch; `None` if the declaration has a syntax error.
    pub of: Option<Ident>,
    /// The first and last bit of it, if only some are meant.
    pub bits: Option<(u16, u16)>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// `stage NAME = number;`
#[derive(Debug, Clone)]
pub struct StageDeclaration {
    /// Its name. The constant of this name has the number.
    pub name: Ident,
    /// The number; `None` if the declaration has a syntax error.
    pub number: Option<Span>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// `priority NAME of STAGE = least..greatest;` or `reserve NAME of TYPE = least..greatest;`
#[derive(Debug, Clone)]
pub struct RangeDeclaration {
    /// Its name. The constant of this name has the least value.
    pub name: Ident,
    /// The name of the stage or of the type; `None` if the declaration has a syntax error.
    pub of: Option<Ident>,
    /// The least value; `None` if the declaration has a syntax error.
    pub least: Option<Span>,
    /// The greatest value, if it is a range.
    pub greatest: Option<Expr>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// `type NAME = …;`
#[derive(Debug, Clone)]
pub struct TypeDeclaration {
    /// Its name.
    pub name: Ident,
    /// Its definition; `None` if the declaration has a syntax error.
    pub definition: Option<TypeDefinition>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// The definition of a declared type.
#[derive(Debug, Clone)]
pub enum TypeDefinition {
    /// Another name of a type.
    Alias(TypeRef),
    /// `base least..greatest where condition else "text" …`: a constrained type.
    Constrained(Box<ConstrainedType>),
    /// `enum {a, "b c"}`: the texts of its members.
    Enum(Vec<Ident>),
    /// `record {name: type, …}`
    Record(Vec<(Ident, TypeRef)>),
}

/// `base least..greatest where condition else "text" …`
#[derive(Debug, Clone)]
pub struct ConstrainedType {
    /// The type that it restricts.
    pub base: TypeRef,
    /// The least and the greatest value.
    pub range: Option<Range>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// `least..greatest`
#[derive(Debug, Clone)]
pub struct Range {
    /// The least value.
    pub least: Expr,
    /// The greatest value.
    pub greatest: Expr,
}

/// `where condition else "text"`, in which `value` is the value.
#[derive(Debug, Clone)]
pub struct Condition {
    /// A `bool`.
    pub holds: Expr,
    /// The text for a value that does not satisfy it.
    pub message: Option<String>,
}

/// `function name(parameter: type, …) -> type = value;`
#[derive(Debug, Clone)]
pub struct FunctionDeclaration {
    /// Its name.
    pub name: Ident,
    /// Its parameters; `None` if the declaration has a syntax error.
    pub parameters: Option<Vec<(Ident, TypeRef)>>,
    /// The type of its value; `None` if the declaration has a syntax error.
    pub result: Option<TypeRef>,
    /// Its value; `None` if the declaration has a syntax error.
    pub body: Option<Expr>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// `# weft: allow(code, …)`: warnings to suppress.
#[derive(Debug, Clone)]
pub struct Allowance {
    /// The codes.
    pub codes: Vec<Ident>,
    /// The scope in which the warnings are allowed: a declaration, or the whole file.
    pub scope: Span,
}

/// `test "name" { … }`
#[derive(Debug, Clone)]
pub struct Test {
    /// Its name.
    pub name: Ident,
    /// Its steps, in order.
    pub steps: Vec<TestStep>,
    /// All of it.
    pub span: Span,
}

/// A step of a test.
#[derive(Debug, Clone)]
pub struct TestStep {
    /// Its kind.
    pub kind: TestStepKind,
    /// All of it.
    pub span: Span,
}

/// The kinds of steps.
#[derive(Debug, Clone)]
pub enum TestStepKind {
    /// `given {rows}` or `change {insert row; delete row;}`: a transaction.
    Transaction(Vec<Change>),
    /// `given objects "file";`: a transaction that applies the file.
    Objects(Ident),
    /// `given port "port" on "host";`: a transaction in which the host reports the port's interface.
    Port {
        /// The port.
        port: Ident,
        /// The host.
        host: Ident,
    },
    /// `expect row;`: a table contains such a row.
    Holds(Call),
    /// `expect no row;`: a table contains no such row.
    Lacks(Call),
    /// `expect exactly {rows}`: each of the tables contains exactly these rows.
    Exactly(Vec<Call>),
    /// `expect delta {insert row; delete row;}`: the changes that the last transaction made to each of
    /// the tables.
    Delta(Vec<Change>),
    /// `expect error "code";`: the last transaction was refused.
    Error(Ident),
    /// `expect packet …;`: a packet goes to exactly these ports.
    Packet(Packet),
}

/// `packet from "port" match{…} at "port", …` or `packet from "port" match{…} nowhere`
#[derive(Debug, Clone)]
pub struct Packet {
    /// The port that sends it.
    pub from: Ident,
    /// The match with its fields.
    pub frame: Expr,
    /// The ports that receive it; none if it goes nowhere.
    pub at: Vec<Ident>,
}

/// A row inserted or deleted.
#[derive(Debug, Clone)]
pub struct Change {
    /// Whether it is inserted.
    pub insert: bool,
    /// The row.
    pub row: Call,
}

/// A table's declaration.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its role.
    pub role: Role,
    /// Its name.
    pub name: Ident,
    /// Its columns; `None` if the declaration has a syntax error.
    pub columns: Option<Vec<(Ident, TypeRef)>>,
    /// Its key.
    pub key: Option<Vec<Ident>>,
    /// The columns of each `unique(…)`. Those of an object are its [paths](Object::uniques).
    pub uniques: Vec<Vec<Ident>>,
    /// The hook that fills it.
    pub hook: Option<Hook>,
    /// Whether it is the state of objects.
    pub state: bool,
    /// If it is a listing or a table of counters, or is written like one: what the declaration says besides its columns.
    pub listing: Option<Box<Listing>>,
    /// If its rows are the objects of a kind: what the declaration says of them besides their columns, of which the
    /// first is the id.
    pub object: Option<Box<Object>>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// The word before `table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingWord {
    /// `listing`
    Listing,
    /// `counter`
    Counter,
    /// Another one, or none: a mistake.
    Neither,
}

/// What a `listing table` or a `counter table` says besides its columns.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Which of the two it is.
    pub word: ListingWord,
    /// The counters that hosts are asked for.
    pub reads: Option<Reading>,
    /// `else "text"`: the text in place of no rows.
    pub otherwise: Option<(String, Span)>,
    /// Whether a syntax error hides parts of it.
    pub broken: bool,
}

/// `reads meter(host, meter) on table as (counts)`
#[derive(Debug, Clone)]
pub struct Reading {
    /// The thing that counts.
    pub what: Ident,
    /// The columns that name it.
    pub columns: Vec<Ident>,
    /// The table of the hosts to ask.
    pub on: Option<Ident>,
    /// The counts.
    pub counts: Vec<Count>,
    /// The whole clause.
    pub span: Span,
}

/// `name: counted of column`
#[derive(Debug, Clone)]
pub struct Count {
    /// The name of the column in answers.
    pub name: Ident,
    /// What it counts.
    pub counted: Ident,
    /// The column with the greatest value that it can have.
    pub limit: Option<Ident>,
}

/// `object name { fields }`, besides the table of its objects.
#[derive(Debug, Clone)]
pub struct Object {
    /// One for each column of the table but the first.
    pub fields: Vec<ObjectField>,
    /// `unique(path, …);`: the parts of each path.
    pub uniques: Vec<Vec<Vec<Ident>>>,
    /// `id_space name;`, each time it is written.
    pub id_spaces: Vec<Ident>,
}

/// `name: type was name, … = value;`, besides its name and type.
#[derive(Debug, Clone)]
pub struct ObjectField {
    /// Its former names.
    pub formers: Vec<Ident>,
    /// The value of an absent field.
    pub default: Option<Expr>,
    /// The text of its `##` comments.
    pub doc: String,
}

/// `from name(source, setting: value, …)`: a hook that fills a table.
#[derive(Debug, Clone)]
pub struct Hook {
    /// The hook's name.
    pub name: Ident,
    /// The table that it reads.
    pub source: Ident,
    /// Its settings: a name is that of a constant or of a column.
    pub settings: Vec<(Ident, Expr)>,
    /// All of it.
    pub span: Span,
}

/// A type where it is written.
#[derive(Debug, Clone)]
pub struct TypeRef {
    /// `int`, `set`.
    pub name: Ident,
    /// The type in angle brackets.
    pub of: Option<Box<TypeRef>>,
    /// The kinds after `ref`; none for any other type.
    pub kinds: Vec<Ident>,
    /// All of it.
    pub span: Span,
}

/// A rule or fact without syntax errors.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The head. Its arguments may be aggregates.
    pub head: Call,
    /// The word before a default's head.
    pub default: Option<Span>,
    /// The sign or word before a negated head.
    pub negated_head: Option<Span>,
    /// Whether `:-` is there.
    pub is_fact: bool,
    /// The items of the body.
    pub body: Vec<Item>,
    /// The range from head to semicolon.
    pub span: Span,
    /// See [`crate::program::Rule::fingerprint`].
    pub fingerprint: u64,
    /// The text of its `##` comments.
    pub doc: String,
}

/// An item of a body.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its kind.
    pub kind: ItemKind,
    /// All of it.
    pub span: Span,
    /// A hash of its tokens, for decisions that must not depend on the order of items.
    pub fingerprint: u64,
}

/// The kinds of items.
#[derive(Debug, Clone)]
pub enum ItemKind {
    /// `name(arguments)`, not in brackets: a table or a function with its results.
    Atom(Call),
    /// `left = right`
    Binding(Expr, Expr),
    /// A `bool` expression.
    Condition(Expr),
}

/// `name(arguments)`
#[derive(Debug, Clone)]
pub struct Call {
    /// The table or function.
    pub name: Ident,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// `..`
    pub rest: Option<Span>,
    /// All of it.
    pub span: Span,
}

/// A term or argument.
#[derive(Debug, Clone)]
pub struct Argument {
    /// The column it is for, if named.
    pub name: Option<Ident>,
    /// Its value.
    pub value: Expr,
}

/// An expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// The place.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A variable or named constant.
    Name(String),
    /// `_`
    Wildcard,
    /// A number, its sign included.
    Int(i64),
    /// `true`, `false`
    Bool(bool),
    /// `"text"`
    String(String),
    /// `ip"text"`: the prefix and the text.
    Prefixed(String, String),
    /// An invalid literal; the error is recorded.
    Malformed,
    /// A function's result.
    Call(Call),
    /// `-value`
    Negative(Box<Expr>),
    /// `not value`, `!value`: the place of the sign or word, and the value.
    Negation(Span, Box<Expr>),
    /// `left operator right`: the operator's text and place.
    Binary(Ident, Box<Expr>, Box<Expr>),
    /// `if condition then a else b`
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `[values]`
    List(Vec<Expr>),
    /// `{values}`
    Set(Vec<Expr>),
    /// `name{field: value, …}`: a record.
    Record(Ident, Vec<(Ident, Expr)>),
    /// `value.name`: a record's field.
    Field(Box<Expr>, Ident),
    /// `match{field: value, …}`
    Match(Vec<MatchTerm>),
    /// `actions[action, …]`: calls, and names of actions without arguments.
    Actions(Vec<Expr>),
    /// `name[bit]`, `name[first..last]`: bits of an OpenFlow field, of which the last is included.
    Bits(Ident, u16, u16),
    /// `value/mask` in a match or action.
    Masked(Box<Expr>, Box<Expr>),
}

/// `field: value`, `field[0..15]: value/mask` or `keyword` in a match.
#[derive(Debug, Clone)]
pub struct MatchTerm {
    /// The field or keyword.
    pub name: Ident,
    /// Its first and last bit, if named.
    pub bits: Option<(u16, u16)>,
    /// The value, [`ExprKind::Masked`] if it has a mask; `None` for a keyword.
    pub value: Option<Expr>,
    /// All of it.
    pub span: Span,
}

impl Expr {
    /// The direct parts of the expression.
    pub fn parts(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Call(call) => call.arguments.iter().map(|argument| &argument.value).collect(),
            ExprKind::Negative(operand) | ExprKind::Negation(_, operand) => vec![operand],
            ExprKind::Binary(_, left, right) => vec![left, right],
            ExprKind::If(condition, then, otherwise) => vec![condition, then, otherwise],
            ExprKind::List(values) | ExprKind::Set(values) | ExprKind::Actions(values) => {
                values.iter().collect()
            }
            ExprKind::Record(_, fields) => fields.iter().map(|(_, value)| value).collect(),
            ExprKind::Field(value, _) => vec![value],
            ExprKind::Match(terms) => terms.iter().filter_map(|term| term.value.as_ref()).collect(),
            ExprKind::Masked(value, mask) => vec![value, mask],
            ExprKind::Name(_)
            | ExprKind::Wildcard
            | ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::Prefixed(..)
            | ExprKind::Bits(..)
            | ExprKind::Malformed => Vec::new(),
        }
    }
}

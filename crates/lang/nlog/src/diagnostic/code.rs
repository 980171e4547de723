//! The kinds of mistakes.

use super::Severity;
use crate::check::nearest;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:literal $variant:ident $severity:ident,)*) => {
        /// What kind of mistake a diagnostic reports. Scripts rely on the names. Each has a [page](super::page).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// Its name in output.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }

            /// Its meaning, in a sentence or two.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),*).trim_ascii(),)* }
            }

            /// The severity.
            pub fn severity(self) -> Severity {
                match self { $(Code::$variant => Severity::$severity,)* }
            }
        }
    };
}

impl Code {
    /// The code of this name.
    pub fn by_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// The code that was probably meant by an unknown name.
    pub fn nearest(name: &str) -> Option<Code> {
        nearest(name, Code::ALL.iter().map(|code| code.name())).and_then(Code::by_name)
    }
}

codes! {
    /// The text is not valid nlog.
    "syntax" Syntax Error,
    /// An atom or a rule head names a table that is not declared.
    "unknown-table" UnknownTable Error,
    /// An expression calls a function that is neither built in nor declared by the program.
    "unknown-function" UnknownFunction Error,
    /// A column, constant, parameter or field is declared with a type that does not exist.
    "unknown-type" UnknownType Error,
    /// A table is declared twice.
    "duplicate-table" DuplicateTable Error,
    /// An atom, a head or a call has too few or too many terms.
    "arity" Arity Error,
    /// A value does not have the expected type.
    "type-mismatch" TypeMismatch Error,
    /// A variable is not bound by the body of its rule.
    "unbound-variable" UnboundVariable Error,
    /// A table depends on itself, directly or through other tables.
    "recursion" Recursion Error,
    /// A rule negates an atom or a condition.
    "negation" Negation Error,
    /// The head of a rule names an input table.
    "head-is-input" HeadIsInput Error,
    /// The head of a rule names a function.
    "head-is-function" HeadIsFunction Error,
    /// A rule, a hook or a test reads a table that forbids its rows.
    "reads-forbid" ReadsForbid Error,
    /// A file imports itself, directly or through other files.
    "import-cycle" ImportCycle Error,
    /// A variable is used only once in its rule.
    "unused-variable" UnusedVariable Warning,
    /// No rule reads a table, and it is not an output table.
    "unused-table" UnusedTable Warning,
    /// The atoms of a body form groups that share no variable.
    "cartesian-product" CartesianProduct Warning,
    /// A rule never derives a row.
    "never-fires" NeverFires Warning,
    /// Rules read a table that is always empty: it is not an input table, and no rule derives its rows.
    "unfilled-table" UnfilledTable Warning,
    /// A condition is always true.
    "constant-condition" ConstantCondition Warning,
    /// The rules of an output table can derive two different rows with the same key, or the same unique columns.
    "key-clash" KeyClash Warning,
    /// `sum(x)` adds equal values of different rows once.
    "sum-of-distinct" SumOfDistinct Warning,
    /// A literal names a field as Open vSwitch does, although the program has a name for it.
    "bare-field" BareField Warning,
    /// No declaration reserves the stage or the priority of a flow, or its name reserves others.
    "unreserved-priority" UnreservedPriority Warning,
    /// An `allow` comment has no effect.
    "useless-allow" UselessAllow Warning,

    /// An aggregate is used outside a column of a rule head.
    "aggregate" Aggregate Error,
    /// The type of a value is ambiguous.
    "ambiguous-type" AmbiguousType Error,
    /// A literal is not a valid value of its type.
    "bad-literal" BadLiteral Error,
    /// Named constants are defined in terms of each other.
    "constant-cycle" ConstantCycle Error,
    /// A constant expression overflows `int`.
    "constant-overflow" ConstantOverflow Error,
    /// A constant does not fit where it is used.
    "constant-range" ConstantRange Error,
    /// No packet satisfies a match literal.
    "contradiction" Contradiction Error,
    /// A key column of a table with defaults contains an aggregate.
    "default-key" DefaultKey Error,
    /// A rule defines a default for a table without a key.
    "default-without-key" DefaultWithoutKey Error,
    /// A declaration, a key, a `unique` or an atom names the same column twice.
    "duplicate-column" DuplicateColumn Error,
    /// A constant is defined twice.
    "duplicate-constant" DuplicateConstant Error,
    /// A match, a record, or the declaration of a record or an object names the same field twice, or the name of a
    /// packet field is taken.
    "duplicate-field" DuplicateField Error,
    /// A function is defined twice, or has the name of a built-in function, an aggregate or a table.
    "duplicate-function" DuplicateFunction Error,
    /// An enumeration lists the same member twice.
    "duplicate-member" DuplicateMember Error,
    /// Two parameters of a function have the same name.
    "duplicate-parameter" DuplicateParameter Error,
    /// The same rule is written twice.
    "duplicate-rule" DuplicateRule Warning,
    /// A type is declared twice, or has the name of a built-in type.
    "duplicate-type" DuplicateType Error,
    /// A function calls itself, directly or through other functions.
    "function-cycle" FunctionCycle Error,
    /// The declaration of a kind of objects or of their state contradicts itself, or names what does not exist.
    "object" Object Error,
    /// A refusal names a kind or a field that does not exist, or depends on what switches report.
    "refuse" Refuse Error,
    /// No hook has this name, or its settings or tables do not fit.
    "hook" Hook Error,
    /// A field of a match or a parameter of an action has an invalid argument.
    "literal-argument" LiteralArgument Error,
    /// A record is missing a field.
    "missing-field" MissingField Error,
    /// The file that an import names does not exist.
    "missing-import" MissingImport Error,
    /// Named and positional terms are mixed, or the arguments of a function are named.
    "named-argument" NamedArgument Error,
    /// A match on a field lacks the protocol that the field requires.
    "prerequisite" Prerequisite Error,
    /// An action writes a field that cannot be written there.
    "read-only-field" ReadOnlyField Error,
    /// `unique` names columns that the key, or another `unique`, keeps unique already.
    "redundant-unique" RedundantUnique Error,
    /// Two declarations reserve the same bits of a field, the same stage, the same priority of a stage, or the same numbers of a type.
    "reserved-twice" ReservedTwice Error,
    /// A function with several results is used as a single value.
    "several-results" SeveralResults Error,
    /// A type, a function, a constant or a rule exceeds a size limit.
    "too-large" TooLarge Error,
    /// A type contains itself, directly or through other types.
    "type-cycle" TypeCycle Error,
    /// No action has this name, or the action is not allowed here.
    "unknown-action" UnknownAction Error,
    /// A key, a `unique` or an atom names a column that the table does not have.
    "unknown-column" UnknownColumn Error,
    /// The value of a constant uses a name that is not a constant.
    "unknown-constant" UnknownConstant Error,
    /// A match, an action or a record names a field that does not exist.
    "unknown-field" UnknownField Error,
    /// A priority is declared for a stage that does not exist.
    "unknown-stage" UnknownStage Error,
    /// Two tests in a file have the same name.
    "duplicate-test" DuplicateTest Error,
    /// A test expects changes or an error before its first transaction.
    "early-expectation" EarlyExpectation Error,
    /// A test is in a file that is not a test file.
    "misplaced-test" MisplacedTest Error,
    /// A test, or a list of expected rows, is empty.
    "no-expectation" NoExpectation Warning,
    /// A transaction of a test changes a table that rules or a hook fill.
    "not-an-input" NotAnInput Error,
    /// A test gives the objects of a file that does not exist or cannot be read.
    "objects-file" ObjectsFile Error,
    /// A test cannot send or receive a packet as it is described.
    "packet" Packet Error,
    /// A test expects an error code that does not exist.
    "unknown-error" UnknownError Error,
}

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

            /// What it means, in a sentence or two.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),*).trim_ascii(),)* }
            }

            /// How bad it is.
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

    /// The code that was probably meant by a name that is none.
    pub fn nearest(name: &str) -> Option<Code> {
        nearest(name, Code::ALL.iter().map(|code| code.name())).and_then(Code::by_name)
    }
}

codes! {
    /// The text is no nlog, or no UTF-8.
    "syntax" Syntax Error,
    /// An atom or head names what is neither a declared table nor a function.
    "unknown-table" UnknownTable Error,
    /// An expression calls what is no function.
    "unknown-function" UnknownFunction Error,
    /// A column's type is none.
    "unknown-type" UnknownType Error,
    /// A table is declared a second time; the first declaration stands.
    "duplicate-table" DuplicateTable Error,
    /// Too few or too many terms or arguments.
    "arity" Arity Error,
    /// A value is of another type than is wanted where it stands.
    "type-mismatch" TypeMismatch Error,
    /// Nothing in the body gives a variable its value.
    "unbound-variable" UnboundVariable Error,
    /// Tables depend on themselves; one for each strongly connected component.
    "recursion" Recursion Error,
    /// `not` or `!`.
    "negation" Negation Error,
    /// A rule would fill an input table.
    "head-is-input" HeadIsInput Error,
    /// A rule would fill a function.
    "head-is-function" HeadIsFunction Error,
    /// Files import each other in a circle.
    "import-cycle" ImportCycle Error,
    /// A variable stands once in its rule.
    "unused-variable" UnusedVariable Warning,
    /// No rule reads a table that is no output.
    "unused-table" UnusedTable Warning,
    /// Atoms of a body share no variable.
    "cartesian-product" CartesianProduct Warning,
    /// Constants or types contradict each other in a rule, so that it derives nothing.
    "never-fires" NeverFires Warning,
    /// Rules read a table that none fills.
    "unfilled-table" UnfilledTable Warning,
    /// A condition holds whatever its variables are.
    "constant-condition" ConstantCondition Warning,
    /// Rules of an output table can derive two rows with one key.
    "key-clash" KeyClash Warning,
    /// `sum(x)` adds equal values of different rows once.
    "sum-of-distinct" SumOfDistinct Warning,
    /// A comment allows what is no warning, or none that there is.
    "useless-allow" UselessAllow Warning,

    /// An aggregate stands elsewhere than as a column of a rule's head.
    "aggregate" Aggregate Error,
    /// Nothing tells of which type a value is.
    "ambiguous-type" AmbiguousType Error,
    /// A literal that stands for no value of its type.
    "bad-literal" BadLiteral Error,
    /// Named constants are defined by each other in a circle.
    "constant-cycle" ConstantCycle Error,
    /// An expression of constants leaves 64 bits.
    "constant-overflow" ConstantOverflow Error,
    /// An expression of constants does not fit, such as a register that a switch has not.
    "constant-range" ConstantRange Error,
    /// A literal of a match that no packet satisfies.
    "contradiction" Contradiction Error,
    /// An aggregate stands in a key column of a table with defaults.
    "default-key" DefaultKey Error,
    /// A default for a table that has no key.
    "default-without-key" DefaultWithoutKey Error,
    /// A column is named a second time, in a declaration, a key or an atom.
    "duplicate-column" DuplicateColumn Error,
    /// A constant is defined a second time; the first definition stands.
    "duplicate-constant" DuplicateConstant Error,
    /// A field is named a second time, in the declaration of a record, in a record or in a match.
    "duplicate-field" DuplicateField Error,
    /// A function is defined a second time, or has the name of a built-in one, an aggregate or a table.
    "duplicate-function" DuplicateFunction Error,
    /// A member of an enumeration is named a second time.
    "duplicate-member" DuplicateMember Error,
    /// A parameter of a function is named a second time.
    "duplicate-parameter" DuplicateParameter Error,
    /// A rule stands twice; it counts once.
    "duplicate-rule" DuplicateRule Warning,
    /// A type is declared a second time, or has the name of a built-in one.
    "duplicate-type" DuplicateType Error,
    /// Functions call each other in a circle.
    "function-cycle" FunctionCycle Error,
    /// A match or action is not written as its fields and parameters want it.
    "literal-argument" LiteralArgument Error,
    /// A record lacks a field.
    "missing-field" MissingField Error,
    /// The file that an import names is not there.
    "missing-import" MissingImport Error,
    /// Named and positional arguments are mixed, or a function's arguments are named.
    "named-argument" NamedArgument Error,
    /// A match of a field without the protocol that gives it a meaning.
    "prerequisite" Prerequisite Error,
    /// An action writes a field that cannot be written there.
    "read-only-field" ReadOnlyField Error,
    /// A function with several results stands where one value is wanted.
    "several-results" SeveralResults Error,
    /// A type nests too deep or has too many parts, or a function takes too many steps.
    "too-large" TooLarge Error,
    /// Types are made of each other in a circle.
    "type-cycle" TypeCycle Error,
    /// No action has this name, or not in this place.
    "unknown-action" UnknownAction Error,
    /// A key or an atom names a column that its table has not.
    "unknown-column" UnknownColumn Error,
    /// The value of a constant uses a name that is no constant.
    "unknown-constant" UnknownConstant Error,
    /// A record or a match names a field that there is not.
    "unknown-field" UnknownField Error,
    /// Two tests of a file have one name.
    "duplicate-test" DuplicateTest Error,
    /// A test expects what only a transaction brings, and there is none before.
    "early-expectation" EarlyExpectation Error,
    /// A test stands in a file that is not named `*.test.nlog`.
    "misplaced-test" MisplacedTest Error,
    /// A test, or a list of expected rows, that expects nothing.
    "no-expectation" NoExpectation Warning,
    /// A test's transaction changes a table that rules fill.
    "not-an-input" NotAnInput Error,
    /// A test expects an error that there is not.
    "unknown-error" UnknownError Error,
}

//! The one table of functions and operators: signatures, documentation, examples, evaluation.
//!
//! To add a function, add an entry with examples to the file of its subject below this module. The examples are
//! both documentation and test vectors. Then update `docs/reference/functions.md`: `UPDATE_EXPECT=1 cargo nextest
//! run -p nlog-data reference`.
//!
//! ```
//! use nlog_data::function;
//! let plus: Vec<String> = function::lookup("+").iter().map(|f| f.signature()).collect();
//! assert_eq!(plus, ["+(a: int, b: int) -> sum: int"]);
//! ```

mod address;
mod comparison;
mod define;
mod ethernet;
mod hash;
mod integer;
mod list;
mod logic;
mod openflow_actions;
mod openflow_examples;
mod openflow_field;
mod openflow_match;
mod optional;
mod packet_filter;
mod pattern;
mod prefix;
mod reference;
mod set;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, LazyLock};

use crate::{Type, Value};

pub use hash::hash_values;
pub use integer::sum_overflow;
pub use reference::{describe, reference_markdown};

/// The kind of failure of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureCode {
    /// Integer arithmetic left 64 bits.
    Overflow,
    /// A value is out of range for its use. Division by zero is included.
    Range,
}

/// A failure to evaluate an expression. Ordered by code, then message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The code.
    pub code: FailureCode,
    /// The operation with its values, and the violated bound.
    pub message: Arc<str>,
}

impl Failure {
    /// Integer arithmetic exceeded 64 bits.
    pub fn overflow(message: impl Into<Arc<str>>) -> Self {
        Failure { code: FailureCode::Overflow, message: message.into() }
    }

    /// A value is out of range for its use.
    pub fn range(message: impl Into<Arc<str>>) -> Self {
        Failure { code: FailureCode::Range, message: message.into() }
    }
}

/// The results of a function for its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Results {
    /// No result: the rule derives nothing for this binding.
    None,
    /// One value (functions with one result column).
    One(Value),
    /// Any number of tuples of result columns.
    Many(Tuples),
}

/// Tuples of one width, one after the other: a function may have many thousands, and an allocation for each takes longer
/// than all else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuples {
    width: usize,
    values: Vec<Value>,
}

impl Tuples {
    /// The tuples with these values; `width` values make a tuple.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn new(width: usize, values: Vec<Value>) -> Self {
        assert!(width > 0, "a tuple has values");
        Tuples { width, values }
    }

    /// Each tuple.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, Value> {
        self.values.chunks_exact(self.width)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<'a> IntoIterator for &'a Tuples {
    type Item = &'a [Value];
    type IntoIter = std::slice::ChunksExact<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The number of results of a function for one list of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Multiplicity {
    /// Always one; usable as an expression.
    One,
    /// One or none; usable as an expression.
    AtMostOne,
    /// Any number; usable only as an atom.
    Many,
}

/// The shape of a parameter or result, which may contain type variables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Exactly this type.
    Is(Type),
    /// Any type; within one call, equal numbers mean equal types.
    Any(u8),
    /// A set of elements of the shape.
    SetOf(Box<Shape>),
    /// A list of elements of the shape.
    ListOf(Box<Shape>),
    /// An optional value of the shape.
    OptOf(Box<Shape>),
}

impl Shape {
    /// Whether a type has this shape, given the types that earlier `Any`s were bound to; `bound[n]` is the type of
    /// `Any(n)`.
    fn admits(&self, ty: &Type, bound: &mut [Option<Type>; 4]) -> bool {
        match (self, ty) {
            (Shape::Is(own), ty) => own == ty,
            (Shape::Any(n), ty) => match bound.get_mut(usize::from(*n)) {
                Some(Some(bound)) => bound == ty,
                Some(free) => {
                    *free = Some(ty.clone());
                    true
                }
                None => false,
            },
            (Shape::SetOf(shape), Type::Set(of))
            | (Shape::ListOf(shape), Type::List(of))
            | (Shape::OptOf(shape), Type::Opt(of)) => shape.admits(of, bound),
            _ => false,
        }
    }

    /// The type that the shape stands for, once its `Any`s are bound.
    fn instance(&self, bound: &[Option<Type>; 4]) -> Option<Type> {
        match self {
            Shape::Is(ty) => Some(ty.clone()),
            Shape::Any(n) => bound.get(usize::from(*n))?.clone(),
            Shape::SetOf(shape) => shape.instance(bound).map(Type::set),
            Shape::ListOf(shape) => shape.instance(bound).map(Type::list),
            Shape::OptOf(shape) => shape.instance(bound).map(Type::opt),
        }
    }
}

/// Writes the shape as documentation does: `set<T>`, `list<int>`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Is(ty) => write!(f, "{ty}"),
            Shape::Any(0) => f.write_str("T"),
            Shape::Any(n) => write!(f, "T{n}"),
            Shape::SetOf(of) => write!(f, "set<{of}>"),
            Shape::ListOf(of) => write!(f, "list<{of}>"),
            Shape::OptOf(of) => write!(f, "opt<{of}>"),
        }
    }
}

/// A named parameter or result column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in documentation.
    pub name: Cow<'static, str>,
    /// Its shape.
    pub shape: Shape,
}

/// A call and its result, both as nlog text: documentation and test vector in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The arguments, as nlog literals with commas between them.
    pub arguments: Cow<'static, str>,
    /// The result as an nlog literal; `none` for no result; `error CODE` for a failure; the tuples of a function
    /// with many results: `(1, 2) (3, 4)`.
    pub result: Cow<'static, str>,
}

/// The implementation of a function.
pub type Evaluate = dyn Fn(&[Value]) -> Result<Results, Failure> + Send + Sync;

/// A function or operator. Several may share a name and differ in parameters.
pub struct Function {
    /// Its name in rules; operators are named by their sign.
    pub name: Cow<'static, str>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Whether the last parameter may be repeated any number of times (`hash`), each time with a different type.
    pub variadic: bool,
    /// Its result columns; a predicate has one of type `bool`.
    pub results: Vec<Parameter>,
    /// The possible number of results.
    pub multiplicity: Multiplicity,
    /// Whether it can fail for some arguments.
    pub may_fail: bool,
    /// Its description, in one or two sentences.
    pub doc: Cow<'static, str>,
    /// Its test vectors.
    pub examples: Vec<Example>,
    /// Distinguishes functions that share a signature: two functions with the same signature and definition behave
    /// alike, even if different compilations made them. Empty for built-in functions ([`functions`]), which their
    /// signatures identify.
    pub definition: Cow<'static, str>,
    /// Its implementation. The arguments conform to the parameters.
    pub evaluate: Box<Evaluate>,
}

impl Function {
    /// The types of the result columns for arguments of these types, if the function accepts them.
    pub fn result_types(&self, arguments: &[Type]) -> Option<Vec<Type>> {
        let count = self.parameters.len();
        let fits = arguments.len() == count || self.variadic && arguments.len() > count;
        if !fits {
            return None;
        }
        let mut bound = [const { None }; 4];
        for (parameter, ty) in self.parameters.iter().zip(arguments) {
            if !parameter.shape.admits(ty, &mut bound) {
                return None;
            }
        }
        if let (Some(last), Some(repeated)) = (self.parameters.last(), arguments.get(count..)) {
            let fits = repeated.iter().all(|ty| last.shape.admits(ty, &mut [const { None }; 4]));
            if !fits {
                return None;
            }
        }
        self.results.iter().map(|result| result.shape.instance(&bound)).collect()
    }

    /// Its name, parameters and results: `element_at(list: list<T>) -> (rank: int, x: T)`.
    pub fn signature(&self) -> String {
        let list = |columns: &[Parameter]| {
            let columns: Vec<String> = columns.iter().map(|c| format!("{}: {}", c.name, c.shape)).collect();
            columns.join(", ")
        };
        let dots = if self.variadic { ", …" } else { "" };
        let (parameters, results) = (list(&self.parameters), list(&self.results));
        if self.results.len() == 1 {
            format!("{}({parameters}{dots}) -> {results}", self.name)
        } else {
            format!("{}({parameters}{dots}) -> ({results})", self.name)
        }
    }
}

impl Function {
    /// A name that functions share only if they behave alike.
    pub fn identity(&self) -> String {
        if self.definition.is_empty() {
            return self.signature();
        }
        // Definitions contain the identities of other functions, so their whole text could grow without bound.
        let mut hasher = DefaultHasher::new();
        self.definition.hash(&mut hasher);
        format!("{} {:016x}", self.signature(), hasher.finish())
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.identity())
    }
}

/// A section of the documentation: a title, and the functions in reading order.
type Subject = (&'static str, fn() -> Vec<Function>);

/// All functions except the generated ones for OpenFlow fields.
const SUBJECTS: [Subject; 14] = [
    ("Integers", integer::functions),
    ("Truth values", logic::functions),
    ("Text", text::functions),
    ("Ethernet addresses", ethernet::functions),
    ("IP addresses", address::functions),
    ("Prefixes", prefix::functions),
    ("Sets", set::functions),
    ("Lists", list::functions),
    ("Optional values", optional::functions),
    ("Comparisons", comparison::functions),
    ("Hashes", hash::functions),
    ("Packet filters", packet_filter::functions),
    ("OpenFlow matches", openflow_match::functions),
    ("OpenFlow actions", openflow_actions::functions),
];

/// All functions and operators, in name order.
pub fn functions() -> &'static [Arc<Function>] {
    static FUNCTIONS: LazyLock<Vec<Arc<Function>>> = LazyLock::new(|| {
        let mut functions: Vec<Function> = SUBJECTS.iter().flat_map(|(_, functions)| functions()).collect();
        functions.extend(openflow_match::of_fields());
        functions.extend(openflow_actions::of_fields());
        functions.sort_by(|a, b| a.name.cmp(&b.name));
        functions.into_iter().map(Arc::new).collect()
    });
    &FUNCTIONS
}

/// A number that differs if a function is documented otherwise or has other [examples](Function::examples), to which its results are
/// tested. Programs of other releases have other numbers.
pub fn digest() -> u64 {
    let mut hasher = DefaultHasher::new();
    for function in functions() {
        (function.signature(), &function.doc).hash(&mut hasher);
        function.examples.iter().for_each(|example| (&example.arguments, &example.result).hash(&mut hasher));
    }
    hasher.finish()
}

/// The functions of this name, which differ in parameters; none if the name is unknown.
pub fn lookup(name: &str) -> &'static [Arc<Function>] {
    let all = functions();
    let start = all.partition_point(|function| *function.name < *name);
    let count = all[start..].partition_point(|function| *function.name == *name);
    &all[start..start + count]
}

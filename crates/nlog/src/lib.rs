//! nlog: source text to typed program, with diagnostics.
//!
//! A program is tables and rules without recursion or negation. This crate reads its files, finds every mistake in
//! them in one run, each with its place and a remedy, and hands what is left over as a [`Program`] in which names are
//! resolved, types known and constants computed. The order of files, rules and items shows in nothing.
//!
//! ```
//! use nlog::{Sources, compile};
//!
//! let text = "
//!     input table log_port_presence(lport: string, hv: string) key(lport);
//!     output table hypervisor(hv: string);
//!     hypervisor(hv) :- log_port_presence(_, hv);
//!     hypervisor(hv) :- log_port_presense(_, hv);
//! ";
//! let sources = Sources::from_texts([("ports.nlog", text)]);
//! let compilation = compile(&sources);
//! assert!(compilation.program.is_none());
//! let mistake = &compilation.diagnostics[0];
//! assert_eq!(mistake.to_string(), "ports.nlog:5:23: error[unknown-table]: unknown table `log_port_presense`");
//! assert_eq!(mistake.help, "did you mean `log_port_presence`?");
//! ```
//!
//! In reading order: [`source`] (files, and those that they import), [`syntax`] (text to a lossless tree, and that to
//! plain structures), `check` (names, types, normal form, lints), [`program`] (the result, and what a rule means),
//! [`diagnostic`] (mistakes, as text and JSON), [`mod@format`] (the one layout), [`workspace`] (a program that is edited),
//! [`index`] (names by position, for editors and shells).
//!
//! # The language's finer points
//! - Operators, loosest first: comparisons (which do not chain), `++`, `|`, `^`, `&`, `<<` and `>>`, `+` and `-`, `*` and
//!   `/` and `%`, the sign `-`. `if` reaches as far right as it can.
//! - An item of a body that is a call and nothing else is an atom, of a table if one has that name, else of a function.
//!   A table may have the name of a function: it counts in atoms and heads, the function in expressions.
//! - `[a, b]` is a list, `{a, b}` a set; `match"…"` and `actions"…"` are literals as Open vSwitch prints them.
//! - A constant defined by a string alone stands for the literal, so it can be read as an address too.
//! - A function with several results in an expression stands for each of them; not in a branch of `if`, nor in an
//!   aggregate.
//! - `..` skips columns after positional terms as well. A head names every column.
//! - A declared type is an alias, which is the type that it names, or an enumeration or record, which is no other. Where
//!   an enumeration is wanted, a string literal is read as its member; a string that is no literal never is.
//! - Where `e.field` stands, something must tell the type of `e`; it can be anything in the rule, before or after.
//! - In a function's body a parameter counts before a constant of the same name. The program's functions have names that
//!   no built-in function, aggregate or table has.
//! - Tests stand in files named `*.test.nlog`, which a folder's program leaves out. Their rows are values: no variables.
//!   Facts hold before a test's first transaction.
//! - Expressions nest [`MAX_NESTING`](syntax::MAX_NESTING) deep, operators of one chain included.
//!
//! # Left out on purpose
//! Evaluation (crate `nlog-reference`), plans (`nlog-plan`), and any I/O but reading source files.
#![forbid(unsafe_code)]

mod check;
pub mod diagnostic;
pub mod format;
pub mod index;
pub mod program;
pub mod source;
pub mod syntax;
pub mod workspace;

pub use check::{ATOM, Compilation, compile, compile_indexed, compile_with_atom};
pub use diagnostic::{Diagnostic, Severity};
pub use format::format;
pub use program::Program;
pub use source::{LoadError, Sources};
pub use workspace::Workspace;

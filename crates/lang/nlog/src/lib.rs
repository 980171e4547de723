//! The nlog compiler front end: from source text to a typed program, with diagnostics.
//!
//! A program consists of tables and rules without recursion or negation. This crate reads its files, reports all
//! mistakes in one run, each with its place and a remedy, and produces a [`Program`] with resolved names, known types
//! and computed constants. The result does not depend on the order of files, rules and items.
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
//! In reading order: [`source`] (files and their imports), [`syntax`] (text to a lossless tree, and the tree to an
//! AST), `check` (names, types, normal form, lints), [`program`] (the result and the meaning of a rule),
//! [`hook`] (the hooks that a program can use), [`diagnostic`] (diagnostics as text and JSON), [`mod@format`] (the formatter), [`workspace`] (incremental
//! checking), [`index`] (names by position, for editors and shells), [`limits`].
//!
//! # The language's finer points
//! - Operators, in order of increasing precedence: comparisons (which do not chain), `++`, `|`, `^`, `&`, `<<` and
//!   `>>`, `+` and `-`, `*` and `/` and `%`, unary `-`. `if` extends as far to the right as possible.
//! - A body item that consists of a single call is an atom: of a table if one has that name, otherwise of a function.
//!   A table may have the name of a function: atoms and heads mean the table, expressions the function.
//! - `[a, b]` is a list, `{a, b}` a set; `match"…"` and `actions"…"` are literals as Open vSwitch prints them.
//! - A constant defined as a string literal stands for the literal, so it can also be read as an address.
//! - A function with several results in an expression stands for each of them, but not in a branch of `if` or in an
//!   aggregate.
//! - `..` also skips columns after positional terms. A head has a term for every column.
//! - A declared type is an alias, which is the same type as the one it names, or an enumeration or record, which is a
//!   distinct type. Where an enumeration is expected, a string literal is read as a member; other strings are not.
//! - In `e.field`, the type of `e` must be known from anywhere else in the rule, before or after.
//! - In the body of a function, a parameter shadows a constant of the same name. A function of the program cannot
//!   have the name of a built-in function, an aggregate or a table.
//! - Tests are in files named `*.test.nlog`, which a folder program excludes. Their rows contain no variables. Facts
//!   hold before the first transaction of a test.
//! - Expressions nest at most [`MAX_NESTING`](syntax::MAX_NESTING) levels deep, including the operators of one chain.
//!
//! # Out of scope
//! Evaluation (crate `nlog-reference`), query plans (`nlog-plan`), and any I/O except reading source files.
#![forbid(unsafe_code)]

mod check;
pub mod diagnostic;
pub mod format;
pub mod hook;
pub mod index;
pub mod limits;
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

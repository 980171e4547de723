//! Names by position: their types, declarations and references.
//!
//! For editors and shells. [`compile_indexed`](crate::compile_indexed) builds an index on demand; checking alone does
//! not. For a program with errors, the index contains everything that could be resolved.
//!
//! ```
//! use nlog::{Sources, compile_indexed, index::SymbolKind};
//!
//! let text = "type port = record {name: string}; input table up(p: port); output table o(n: string); o(p.name) :- up(p);";
//! let sources = Sources::from_texts([("ports.nlog", text)]);
//! let (_, index) = compile_indexed(&sources);
//! let variable = index.at(0, text.rfind('p').unwrap() as u32).unwrap();
//! assert_eq!((variable.kind, variable.name.as_str()), (SymbolKind::Variable, "p"));
//! assert_eq!(variable.ty.as_ref().unwrap().to_string(), "port");
//! assert_eq!(index.references(variable.definition.unwrap()).len(), 2);
//! ```
//!
//! The index does not contain keywords, operators and literals, which have the same meaning everywhere, except the kind
//! and the path in the head of a `refuse` rule.

use nlog_data::Type;

use crate::syntax::ast::Span;

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SymbolKind {
    /// A table.
    Table,
    /// A column of a table.
    Column,
    /// A variable of a rule.
    Variable,
    /// A named constant.
    Constant,
    /// A function, of the program or built in.
    Function,
    /// A parameter of a function of the program.
    Parameter,
    /// An aggregate.
    Aggregate,
    /// A type, declared or built in.
    Type,
    /// A member of an enumeration.
    Member,
    /// A field of a record.
    Field,
    /// A field of packets that the program names.
    PacketField,
    /// A field, or a word, of OpenFlow matches.
    OpenFlowField,
    /// An OpenFlow action.
    OpenFlowAction,
    /// A test.
    Test,
}

impl SymbolKind {
    /// Whether it belongs in the outline of a file: declarations and their parts, but not variables of rules.
    pub(crate) fn is_declared(self) -> bool {
        use SymbolKind::{Column, Constant, Field, Function, Member, PacketField, Table, Test, Type};
        matches!(self, Table | Column | Constant | Function | Type | Member | Field | PacketField | Test)
    }
}

/// An occurrence of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its kind.
    pub kind: SymbolKind,
    /// The name.
    pub name: String,
    /// Its place.
    pub span: Span,
    /// The declaration of the name, or the first occurrence of a variable. `None` for built-in names.
    pub definition: Option<Span>,
    /// The type of its value; the type itself for a type, the result type for a function. `None` if it is unknown or
    /// differs between calls.
    pub ty: Option<Type>,
    /// Its documentation; empty if there is none.
    pub doc: String,
}

/// All names of a program's files.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// The symbols, sorted by place.
    symbols: Vec<Symbol>,
}

impl Index {
    pub(crate) fn new(mut symbols: Vec<Symbol>) -> Self {
        symbols.sort_by_key(|symbol| symbol.span);
        // A name that is visited twice (a term of an atom, a shared part) counts once.
        symbols.dedup_by_key(|symbol| symbol.span);
        Index { symbols }
    }

    /// The name at a byte offset of a file, or directly before it, as for a cursor after a word.
    pub fn at(&self, file: u32, offset: u32) -> Option<&Symbol> {
        let after =
            self.symbols.partition_point(|symbol| (symbol.span.file, symbol.span.start) <= (file, offset));
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        (symbol.span.file == file && offset <= symbol.span.end).then_some(symbol)
    }

    /// All occurrences of the name declared here, including the declaration, sorted by place.
    pub fn references(&self, definition: Span) -> Vec<Span> {
        let here = self.symbols.iter().filter(|symbol| symbol.definition == Some(definition));
        here.map(|symbol| symbol.span).collect()
    }

    /// The outline of a file: its declarations, sorted by place.
    pub fn definitions(&self, file: u32) -> Vec<&Symbol> {
        let of_file = self.symbols.iter().filter(|symbol| symbol.span.file == file);
        of_file.filter(|symbol| symbol.kind.is_declared() && symbol.definition == Some(symbol.span)).collect()
    }

    /// All names of a file, by place.
    pub fn symbols(&self, file: u32) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(move |symbol| symbol.span.file == file)
    }
}

//! Rows of tables, as far as the rules say it.

use std::collections::BTreeMap;

use nlog_data::RuleId;

use crate::term::{MatchTerm, Part, Piece, Symbol, SymbolId, Term, Token};

/// A condition that one of several alternatives assumes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assumption {
    pub(crate) text: Vec<Token>,
    pub(crate) holds: bool,
}

/// The operator in the text of a condition.
pub(crate) const EQUALS: &str = " == ";

/// Of a condition that a symbol equals a constant, both. An assumption can have several constants, with `|` between them.
pub(crate) fn equality(condition: &[Token]) -> Option<(SymbolId, &str)> {
    match condition {
        [Token::Symbol(subject), Token::Text(operator), Token::Text(value)] if operator == EQUALS => {
            Some((*subject, value))
        }
        _ => None,
    }
}

/// A row of a table on its own.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) columns: Vec<Term>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) assumed: Vec<Assumption>,
    pub(crate) via: Vec<RuleId>,
}

impl Row {
    /// The row with these columns, whose symbols `symbol` knows. It keeps only those that occur in it and their owners, in order.
    pub(crate) fn numbered(
        columns: &[Term],
        assumed: &[Assumption],
        via: Vec<RuleId>,
        symbol: &impl Fn(SymbolId) -> Symbol,
    ) -> Row {
        let mut numbers = Numbers::default();
        for term in columns {
            numbers.note(term, symbol);
        }
        for assumption in assumed {
            symbols_of_text(&assumption.text, &mut |id| numbers.note_symbol(id, symbol));
        }
        let number = |id: SymbolId| numbers.of(id).unwrap_or(id);
        let own = |id: &SymbolId| {
            let symbol = symbol(*id);
            Symbol { owner: symbol.owner.map(number), ..symbol }
        };
        let assumed = assumed.iter().map(|assumption| Assumption {
            text: renumbered_text(&assumption.text, &number),
            holds: assumption.holds,
        });
        Row {
            columns: columns.iter().map(|term| renumbered(term, &number)).collect(),
            symbols: numbers.order.iter().map(own).collect(),
            assumed: assumed.collect(),
            via,
        }
    }

    /// Equal for rows that differ only in names.
    pub(crate) fn key(&self) -> String {
        let symbols = self.symbols.iter().map(|symbol| (symbol.version, symbol.object, symbol.owner));
        let symbols: Vec<_> = symbols.collect();
        format!("{:?} {symbols:?} {:?} {:?}", self.columns, self.assumed, self.via)
    }
}

/// Numbers of symbols in the order in which they occur, each before its owner.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    numbers: BTreeMap<SymbolId, usize>,
    order: Vec<SymbolId>,
}

impl Numbers {
    /// Numbers the symbols of a term that have no number.
    pub(crate) fn note(&mut self, term: &Term, symbol: &impl Fn(SymbolId) -> Symbol) {
        symbols_of(term, &mut |id| self.note_symbol(id, symbol));
    }

    fn note_symbol(&mut self, id: SymbolId, symbol: &impl Fn(SymbolId) -> Symbol) {
        let mut next = Some(id);
        while let Some(id) = next.filter(|id| !self.numbers.contains_key(id)) {
            self.numbers.insert(id, self.order.len());
            self.order.push(id);
            next = symbol(id).owner;
        }
    }

    /// The number of a symbol.
    pub(crate) fn of(&self, id: SymbolId) -> Option<usize> {
        self.numbers.get(&id).copied()
    }

    /// The symbols in order.
    pub(crate) fn order(&self) -> &[SymbolId] {
        &self.order
    }
}

fn symbols_of_text(text: &[Token], note: &mut impl FnMut(SymbolId)) {
    for token in text {
        match token {
            Token::Text(_) => {}
            Token::Symbol(id) => note(*id),
            Token::Hole(inner) => symbols_of_text(inner, note),
        }
    }
}

fn symbols_of(term: &Term, note: &mut impl FnMut(SymbolId)) {
    match term {
        Term::Constant(_) => {}
        Term::Symbol(id) => note(*id),
        Term::Computed(computed) => symbols_of_text(&computed.text, note),
        Term::Match(of) => {
            for part in &of.parts {
                for text in part.bits.texts() {
                    symbols_of_text(text, note);
                }
            }
            of.rest.iter().for_each(|text| symbols_of_text(text, note));
        }
        Term::Actions(pieces) => {
            for Piece::One(text) | Piece::Any(text) in pieces {
                symbols_of_text(text, note);
            }
        }
    }
}

/// The text with other numbers for its symbols.
pub(crate) fn renumbered_text(text: &[Token], number: &impl Fn(SymbolId) -> SymbolId) -> Vec<Token> {
    text.iter()
        .map(|token| match token {
            Token::Text(text) => Token::Text(text.clone()),
            Token::Symbol(id) => Token::Symbol(number(*id)),
            Token::Hole(inner) => Token::Hole(renumbered_text(inner, number)),
        })
        .collect()
}

/// The term with other numbers for its symbols.
pub(crate) fn renumbered(term: &Term, number: &impl Fn(SymbolId) -> SymbolId) -> Term {
    let text = |text: &[Token]| renumbered_text(text, number);
    match term {
        Term::Constant(value) => Term::Constant(value.clone()),
        Term::Symbol(id) => Term::Symbol(number(*id)),
        Term::Computed(computed) => {
            Term::Computed(crate::term::Computed { text: text(&computed.text), ..computed.clone() })
        }
        Term::Match(of) => {
            let part = |part: &Part| Part { bits: part.bits.map(&text), ..part.clone() };
            Term::Match(MatchTerm {
                parts: of.parts.iter().map(part).collect(),
                rest: of.rest.iter().map(|rest| text(rest)).collect(),
            })
        }
        Term::Actions(pieces) => {
            let piece = |piece: &Piece| match piece {
                Piece::One(one) => Piece::One(text(one)),
                Piece::Any(any) => Piece::Any(text(any)),
            };
            Term::Actions(pieces.iter().map(piece).collect())
        }
    }
}

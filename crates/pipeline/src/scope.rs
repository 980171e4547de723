//! What is known while the body of a rule is read: the values of its variables, and what must hold of them.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::{RuleId, TableId, Type, Value};

use crate::term::{Bits, Computed, MatchTerm, Part, Piece, Symbol, SymbolId, Term, Token, Version};

/// A condition that one of several alternatives assumes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assumption {
    pub(crate) text: Vec<Token>,
    pub(crate) holds: bool,
}

/// The knowledge about one alternative of a rule.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    symbols: Vec<Symbol>,
    /// What a symbol turned out to be, by its number.
    known: Vec<Option<Term>>,
    /// By the number of the rule's variable.
    pub(crate) variables: Vec<Option<Term>>,
    pub(crate) assumed: Vec<Assumption>,
    /// The rules that made the matches and actions.
    pub(crate) via: Vec<RuleId>,
    /// The symbols for parts of values, by the expressions of the parts.
    parts: Vec<(Vec<Token>, SymbolId)>,
    /// The symbols that a variable of this rule gave a name.
    named: BTreeSet<SymbolId>,
}

/// A row of a table, as far as the rules say it, on its own.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) columns: Vec<Term>,
    pub(crate) symbols: Vec<Symbol>,
    pub(crate) assumed: Vec<Assumption>,
    pub(crate) via: Vec<RuleId>,
}

impl Row {
    /// Equal for rows that differ only in names.
    pub(crate) fn key(&self) -> String {
        let symbols = self.symbols.iter().map(|symbol| (symbol.version, symbol.object, symbol.owner));
        let symbols: Vec<_> = symbols.collect();
        format!("{:?} {symbols:?} {:?} {:?}", self.columns, self.assumed, self.via)
    }
}

impl Scope {
    /// A scope of a rule with this many variables.
    pub(crate) fn new(variables: usize) -> Scope {
        Scope { variables: vec![None; variables], ..Scope::default() }
    }

    /// Adds a symbol.
    pub(crate) fn fresh(&mut self, name: &str, ty: &Type) -> SymbolId {
        let symbol = Symbol {
            name: name.to_owned(),
            ty: ty.clone(),
            owner: None,
            version: Version::Any,
            object: None,
        };
        self.symbols.push(symbol);
        self.known.push(None);
        self.symbols.len() - 1
    }

    /// The symbol for a part of a value: the same for the same expression.
    pub(crate) fn part(&mut self, text: Vec<Token>, name: &str, ty: &Type) -> SymbolId {
        if let Some((_, id)) = self.parts.iter().find(|(known, _)| *known == text) {
            return *id;
        }
        let id = self.fresh(name, ty);
        self.parts.push((text, id));
        id
    }

    pub(crate) fn symbol(&self, id: SymbolId) -> &Symbol {
        &self.symbols[id]
    }

    pub(crate) fn symbol_mut(&mut self, id: SymbolId) -> &mut Symbol {
        &mut self.symbols[id]
    }

    /// Adds the symbols of a row, and returns its columns in terms of this scope, and its assumptions.
    pub(crate) fn include(&mut self, row: &Row) -> (Vec<Term>, Vec<Assumption>) {
        let first = self.symbols.len();
        for symbol in &row.symbols {
            let owner = symbol.owner.map(|owner| owner + first);
            self.symbols.push(Symbol { owner, ..symbol.clone() });
            self.known.push(None);
        }
        let shift = |id: SymbolId| id + first;
        let columns = row.columns.iter().map(|term| renumbered(term, &shift)).collect();
        let assumed = row.assumed.iter().map(|assumption| Assumption {
            text: renumbered_text(&assumption.text, &shift),
            holds: assumption.holds,
        });
        (columns, assumed.collect())
    }

    /// The term itself, or what its symbol turned out to be.
    pub(crate) fn find(&self, term: &Term) -> Term {
        let mut found = term;
        while let Term::Symbol(id) = found
            && let Some(known) = &self.known[*id]
        {
            found = known;
        }
        found.clone()
    }

    /// The symbol that stands for this one.
    fn root(&self, id: SymbolId) -> SymbolId {
        match self.find(&Term::Symbol(id)) {
            Term::Symbol(root) => root,
            _ => id,
        }
    }

    /// Takes two terms as equal. Returns false if they cannot be.
    pub(crate) fn unify(&mut self, a: &Term, b: &Term, disjoint: &impl Fn(TableId, TableId) -> bool) -> bool {
        match (self.find(a), self.find(b)) {
            (Term::Constant(a), Term::Constant(b)) => a == b,
            (Term::Symbol(a), Term::Symbol(b)) => a == b || self.merge(a, b, disjoint),
            (Term::Symbol(id), Term::Constant(value)) | (Term::Constant(value), Term::Symbol(id)) => {
                let fits = match (self.symbols[id].version, &value) {
                    (Version::Four, Value::Ip(ip)) => ip.is_ipv4(),
                    (Version::Six, Value::Ip(ip)) => ip.is_ipv6(),
                    _ => true,
                };
                self.known[id] = Some(Term::Constant(value));
                fits
            }
            // A symbol reads better than an expression; nothing is known that would contradict.
            _ => true,
        }
    }

    fn merge(
        &mut self,
        kept: SymbolId,
        gone: SymbolId,
        disjoint: &impl Fn(TableId, TableId) -> bool,
    ) -> bool {
        let old = self.symbols[gone].clone();
        let new = &mut self.symbols[kept];
        match (new.version, old.version) {
            (Version::Four, Version::Six) | (Version::Six, Version::Four) => return false,
            (Version::Any, version) => new.version = version,
            _ => {}
        }
        match (new.object, old.object) {
            (Some(a), Some(b)) if disjoint(a, b) => return false,
            (None, object) => new.object = object,
            _ => {}
        }
        new.owner = new.owner.or(old.owner);
        self.known[gone] = Some(Term::Symbol(kept));
        true
    }

    /// Gives a symbol the name of a variable. The first variable counts.
    pub(crate) fn rename(&mut self, term: &Term, name: &str) {
        // The checker's own variables have names with a period.
        if let Term::Symbol(id) = self.find(term)
            && !name.contains('.')
            && !name.starts_with('_')
            && self.named.insert(id)
        {
            name.clone_into(&mut self.symbols[id].name);
        }
    }

    /// The text in terms of what its symbols turned out to be.
    pub(crate) fn ground_text(&self, text: &[Token]) -> Vec<Token> {
        let mut grounded = Vec::new();
        for token in text {
            match token {
                Token::Text(text) => grounded.push(Token::Text(text.clone())),
                Token::Hole(inner) => match self.ground_text(inner).as_slice() {
                    [Token::Text(constant)] if inner.len() == 1 => {
                        grounded.push(Token::Text(constant.clone()));
                    }
                    inner => grounded.push(Token::Hole(inner.to_vec())),
                },
                Token::Symbol(id) => match self.find(&Term::Symbol(*id)) {
                    Term::Symbol(root) => grounded.push(Token::Symbol(root)),
                    Term::Constant(value) => grounded.push(Token::Text(crate::text::constant(&value))),
                    Term::Computed(computed) => grounded.extend(self.ground_text(&computed.text)),
                    Term::Match(_) | Term::Actions(_) => grounded.push(Token::Symbol(*id)),
                },
            }
        }
        grounded
    }

    /// The term in terms of what its symbols turned out to be.
    pub(crate) fn ground(&self, term: &Term) -> Term {
        match self.find(term) {
            Term::Computed(computed) => {
                Term::Computed(Computed { text: self.ground_text(&computed.text), ..computed })
            }
            Term::Match(of) => Term::Match(self.ground_match(&of)),
            Term::Actions(pieces) => {
                Term::Actions(pieces.iter().map(|piece| self.ground_piece(piece)).collect())
            }
            found => found,
        }
    }

    fn ground_piece(&self, piece: &Piece) -> Piece {
        match piece {
            Piece::One(text) => Piece::One(self.ground_text(text)),
            Piece::Any(text) => Piece::Any(self.ground_text(text)),
        }
    }

    fn ground_match(&self, of: &MatchTerm) -> MatchTerm {
        let part = |part: &Part| match &part.bits {
            Bits::Constant(_) => part.clone(),
            Bits::Open(text) => {
                let constant = match text.as_slice() {
                    [Token::Symbol(id)] => match self.find(&Term::Symbol(*id)) {
                        Term::Constant(Value::Int(value)) => u128::try_from(value).ok(),
                        _ => None,
                    },
                    _ => None,
                };
                let place = part.mask.trailing_zeros();
                let bits = match constant {
                    Some(value) => Bits::Constant(value << place & part.mask),
                    None => Bits::Open(self.ground_text(text)),
                };
                Part { bits, ..part.clone() }
            }
        };
        MatchTerm {
            parts: of.parts.iter().map(part).collect(),
            rest: of.rest.iter().map(|text| self.ground_text(text)).collect(),
        }
    }

    /// These terms on their own, with only the symbols that occur in them and their owners.
    pub(crate) fn row(&self, terms: &[Term]) -> Row {
        let columns: Vec<Term> = terms.iter().map(|term| self.ground(term)).collect();
        let assumed: Vec<Assumption> = self
            .assumed
            .iter()
            .map(|assumption| Assumption { text: self.roots(&assumption.text), holds: assumption.holds })
            .collect();
        let mut numbers = BTreeMap::new();
        let mut order = Vec::new();
        let mut note = |id: SymbolId| {
            let mut next = Some(id);
            while let Some(id) = next {
                if numbers.contains_key(&id) {
                    break;
                }
                numbers.insert(id, order.len());
                order.push(id);
                next = self.symbols[id].owner.map(|owner| self.root(owner));
            }
        };
        for term in &columns {
            symbols_of(term, &mut note);
        }
        for assumption in &assumed {
            symbols_of_text(&assumption.text, &mut note);
        }
        let symbols = order.iter().map(|id| {
            let symbol = &self.symbols[*id];
            let owner = symbol.owner.and_then(|owner| numbers.get(&self.root(owner)).copied());
            Symbol { owner, ..symbol.clone() }
        });
        let symbols = symbols.collect();
        let number = |id: SymbolId| numbers.get(&id).copied().unwrap_or(id);
        Row {
            columns: columns.iter().map(|term| renumbered(term, &number)).collect(),
            symbols,
            assumed: assumed
                .iter()
                .map(|assumption| Assumption {
                    text: renumbered_text(&assumption.text, &number),
                    holds: assumption.holds,
                })
                .collect(),
            via: self.via.clone(),
        }
    }

    /// The text with the symbols that stand for others, but no values: an assumption names what it is about.
    fn roots(&self, text: &[Token]) -> Vec<Token> {
        text.iter()
            .map(|token| match token {
                Token::Symbol(id) => Token::Symbol(self.root(*id)),
                other => other.clone(),
            })
            .collect()
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
                if let Bits::Open(text) = &part.bits {
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

fn renumbered_text(text: &[Token], number: &impl Fn(SymbolId) -> SymbolId) -> Vec<Token> {
    text.iter()
        .map(|token| match token {
            Token::Text(text) => Token::Text(text.clone()),
            Token::Symbol(id) => Token::Symbol(number(*id)),
            Token::Hole(inner) => Token::Hole(renumbered_text(inner, number)),
        })
        .collect()
}

fn renumbered(term: &Term, number: &impl Fn(SymbolId) -> SymbolId) -> Term {
    let text = |text: &[Token]| renumbered_text(text, number);
    match term {
        Term::Constant(value) => Term::Constant(value.clone()),
        Term::Symbol(id) => Term::Symbol(number(*id)),
        Term::Computed(computed) => {
            Term::Computed(Computed { text: text(&computed.text), ..computed.clone() })
        }
        Term::Match(of) => Term::Match(MatchTerm {
            parts: of
                .parts
                .iter()
                .map(|part| match &part.bits {
                    Bits::Constant(_) => part.clone(),
                    Bits::Open(open) => Part { bits: Bits::Open(text(open)), ..part.clone() },
                })
                .collect(),
            rest: of.rest.iter().map(|rest| text(rest)).collect(),
        }),
        Term::Actions(pieces) => Term::Actions(
            pieces
                .iter()
                .map(|piece| match piece {
                    Piece::One(one) => Piece::One(text(one)),
                    Piece::Any(any) => Piece::Any(text(any)),
                })
                .collect(),
        ),
    }
}

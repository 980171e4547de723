//! What is known while the body of a rule is read: the values of its variables, and what must hold of them.

use std::collections::BTreeSet;

use nlog_data::{RuleId, TableId, Type, Value};

use crate::row::{Assumption, EQUALS, Row, equality, renumbered, renumbered_text};
use crate::term::{Bits, Computed, MatchTerm, Part, Piece, Symbol, SymbolId, Term, Token, Version};

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

    /// Whether a condition holds, as far as it follows from what is assumed.
    pub(crate) fn assumes(&self, condition: &[Token]) -> Option<bool> {
        let excludes = |assumption: &Assumption| {
            let (subject, value) = equality(condition)?;
            let (_, own) =
                equality(&assumption.text).filter(|(own, _)| assumption.holds && *own == subject)?;
            own.split('|').all(|own| own != value).then_some(false)
        };
        let same = |assumption: &Assumption| (*assumption.text == *condition).then_some(assumption.holds);
        self.assumed.iter().find_map(|assumption| same(assumption).or_else(|| excludes(assumption)))
    }

    /// Assumes that a condition holds, or that it does not.
    pub(crate) fn assume(&mut self, condition: Vec<Token>, holds: bool) {
        let subject = equality(&condition).map(|(subject, _)| subject);
        self.assumed.push(Assumption { text: condition, holds });
        let Some(subject) = subject else { return };
        let own = |assumption: &Assumption| equality(&assumption.text).is_some_and(|(own, _)| own == subject);
        let known = if holds { self.assumed.pop() } else { self.only_one_left(subject) };
        if let Some(known) = known {
            // What the value is not goes without saying.
            self.assumed.retain(|assumption| !own(assumption));
            self.assumed.push(known);
        }
    }

    /// That a value of an enumeration is the one member that it is not assumed not to be.
    fn only_one_left(&self, subject: SymbolId) -> Option<Assumption> {
        let Type::Enum(of) = self.symbols[subject].ty.base() else { return None };
        let condition = |member: &String| {
            vec![Token::Symbol(subject), Token::Text(EQUALS.to_owned()), Token::Text(member.clone())]
        };
        let mut left = of.members.iter().map(condition).filter(|text| self.assumes(text).is_none());
        let only = left.next().filter(|_| left.next().is_none())?;
        Some(Assumption { text: only, holds: true })
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
        let part = |part: &Part| Part { bits: self.ground_bits(&part.bits, part.mask), ..part.clone() };
        MatchTerm {
            parts: of.parts.iter().map(part).collect(),
            rest: of.rest.iter().map(|text| self.ground_text(text)).collect(),
        }
    }

    fn ground_bits(&self, bits: &Bits, mask: u128) -> Bits {
        match bits {
            Bits::Constant(value) => Bits::Constant(*value),
            Bits::OneOf(values) => Bits::one_of(values.iter().map(|value| self.ground_bits(value, mask))),
            Bits::Open(text) => {
                let constant = match text.as_slice() {
                    [Token::Symbol(id)] => match self.find(&Term::Symbol(*id)) {
                        Term::Constant(Value::Int(value)) => u128::try_from(value).ok(),
                        _ => None,
                    },
                    _ => None,
                };
                match constant {
                    Some(value) => Bits::Constant(value << mask.trailing_zeros() & mask),
                    None => Bits::Open(self.ground_text(text)),
                }
            }
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
        let symbol = |id: SymbolId| {
            let symbol = &self.symbols[id];
            Symbol { owner: symbol.owner.map(|owner| self.root(owner)), ..symbol.clone() }
        };
        Row::numbered(&columns, &assumed, self.via.clone(), &symbol)
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

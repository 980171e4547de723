//! Joins the rows of a table that differ in one part of a match: in its values, or in whether it is there.
//!
//! Without that, a rule that reads a table with `n` such parts has a way for each combination of them, and a rule that reads several such
//! tables a way for each combination of these. Rows are joined only if they stand for the same combinations as before.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use nlog_data::{RuleId, Type};
use openflow_rs::Field;

use crate::evaluate::as_match;
use crate::row::{Assumption, EQUALS, Numbers, Row, equality, renumbered, renumbered_text};
use crate::term::{Bits, MatchTerm, Part, Symbol, SymbolId, Term, Token};

/// Bits of a field that some of the rows match.
type Slot = (Field, u128);

/// The rows, joined where they differ in one part of the match in a column.
///
/// The rows keep apart what the rules that `matter` made.
pub(crate) fn joined(rows: Vec<Row>, column: usize, matter: &impl Fn(RuleId) -> bool) -> Vec<Row> {
    let mut groups: Vec<Vec<Row>> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        let place = match as_match(&row.columns[column]) {
            Some(_) => {
                let rules: Vec<RuleId> = row.via.iter().copied().filter(|rule| matter(*rule)).collect();
                let key = format!("{rules:?} {}", Skeleton::of(&row, column, None).key);
                *places.entry(key).or_insert(groups.len())
            }
            None => groups.len(),
        };
        match groups.get_mut(place) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.into_iter().flat_map(|group| join_group(group, column)).collect()
}

/// Joins rows that agree in everything but the match.
fn join_group(mut rows: Vec<Row>, column: usize) -> Vec<Row> {
    loop {
        let before = rows.len();
        let slots: BTreeSet<Slot> = rows.iter().flat_map(|row| slots(row, column)).collect();
        for slot in slots {
            let mut left: Vec<Row> = Vec::new();
            let mut places: BTreeMap<String, usize> = BTreeMap::new();
            for row in rows {
                match places.entry(Skeleton::of(&row, column, Some(slot)).key) {
                    Entry::Occupied(place) => {
                        let own = &mut left[*place.get()];
                        *own = join(own, &row, column, slot);
                    }
                    Entry::Vacant(place) => {
                        place.insert(left.len());
                        left.push(row);
                    }
                }
            }
            rows = left;
        }
        if rows.len() == before {
            return rows;
        }
    }
}

fn slots(row: &Row, column: usize) -> Vec<Slot> {
    let of = as_match(&row.columns[column]).unwrap_or_default();
    of.parts.iter().map(|part| (part.field, part.mask)).collect()
}

/// One row for two that differ in a slot alone. What only one of them assumes is not assumed of both.
fn join(own: &Row, other: &Row, column: usize, slot: Slot) -> Row {
    let (ours, theirs) = (Skeleton::of(own, column, Some(slot)), Skeleton::of(other, column, Some(slot)));
    let mut symbols = own.symbols.clone();
    // The symbols of the other row: those that both have, and new ones.
    let first = symbols.len();
    symbols.extend(other.symbols.iter().cloned());
    let shared = |id: SymbolId| {
        let number = theirs.numbers.of(id)?;
        ours.numbers.order().get(number).copied()
    };
    let theirs_here = |id: SymbolId| shared(id).unwrap_or(id + first);
    for symbol in &mut symbols[first..] {
        symbol.owner = symbol.owner.map(theirs_here);
    }
    let other_part = theirs.part.as_ref().map(|part| Part {
        bits: part.bits.map(&|text| renumbered_text(text, &theirs_here)),
        ..part.clone()
    });
    let part = joined_part(ours.part.clone(), other_part, &symbols);
    let mut columns = own.columns.clone();
    columns[column] = Term::Match(MatchTerm {
        parts: ours.rest.parts.iter().cloned().chain(part).collect(),
        ..ours.rest.clone()
    });
    let common = |assumption: &Assumption| {
        let text = said(&assumption.text, own, &ours.numbers);
        let same = |known: &Assumption| {
            assumption.holds == known.holds && said(&known.text, other, &theirs.numbers) == text
        };
        if other.assumed.iter().any(same) {
            return Some(assumption.clone());
        }
        either(assumption, (own, &ours.numbers), (other, &theirs.numbers))
    };
    let common: Vec<Assumption> = own.assumed.iter().filter_map(common).collect();
    Row::numbered(&columns, &common, own.via.clone(), &|id| symbols[id].clone())
}

/// The values of both parts; optional if one row has none.
fn joined_part(own: Option<Part>, other: Option<Part>, symbols: &[Symbol]) -> Option<Part> {
    let (own, other) = match (own, other) {
        (Some(own), Some(other)) => (own, other),
        (one, other) => return one.or(other).map(|part| Part { optional: true, ..part }),
    };
    // A value of a row of its own that reads like one of the other row says nothing more.
    let read = |bits: &Bits| match bits {
        Bits::Constant(value) => format!("{value:x}"),
        bits => bits.texts().map(|text| read(text, symbols)).collect(),
    };
    let mut values = own.bits.values().to_vec();
    for value in other.bits.values() {
        if !values.iter().any(|own| read(own) == read(value)) {
            values.push(value.clone());
        }
    }
    Some(Part { bits: Bits::one_of(values), optional: own.optional || other.optional, ..own })
}

/// A row without a slot of a match, or without the match.
struct Skeleton {
    /// Equal for rows that differ only there, in what they assume and in their rules.
    key: String,
    numbers: Numbers,
    /// The match without the slot.
    rest: MatchTerm,
    /// What is in the slot.
    part: Option<Part>,
}

impl Skeleton {
    /// Without a slot, the whole match is left out.
    fn of(row: &Row, column: usize, slot: Option<Slot>) -> Skeleton {
        let mut rest = as_match(&row.columns[column]).unwrap_or_default();
        rest.parts.sort_by_key(|part| (part.field, part.mask));
        let at = rest.parts.iter().position(|part| Some((part.field, part.mask)) == slot);
        let part = at.map(|at| rest.parts.remove(at));
        let mut columns = row.columns.clone();
        columns[column] = Term::Match(MatchTerm::default());
        if slot.is_some() {
            columns.push(Term::Match(rest.clone()));
        }
        let symbol = |id: SymbolId| row.symbols[id].clone();
        let mut numbers = Numbers::default();
        for term in &columns {
            numbers.note(term, &symbol);
        }
        let number = |id: SymbolId| numbers.of(id).unwrap_or(id);
        let columns: Vec<Term> = columns.iter().map(|term| renumbered(term, &number)).collect();
        let symbols = numbers.order().iter().map(|id| {
            let symbol = symbol(*id);
            (symbol.version, symbol.object, symbol.owner.map(number))
        });
        let key = format!("{columns:?} {:?}", symbols.collect::<Vec<_>>());
        Skeleton { key, numbers, rest, part }
    }
}

/// That a value is one of those that the rows assume, if both assume one.
fn either(own: &Assumption, ours: (&Row, &Numbers), theirs: (&Row, &Numbers)) -> Option<Assumption> {
    let subject = |id: SymbolId, (row, numbers): (&Row, &Numbers)| said(&[Token::Symbol(id)], row, numbers);
    let (id, value) = equality(&own.text).filter(|_| own.holds)?;
    let other = theirs.0.assumed.iter().filter(|other| other.holds).find_map(|other| {
        let (of, value) = equality(&other.text)?;
        (subject(of, theirs) == subject(id, ours)).then_some(value)
    })?;
    let mut values: Vec<&str> = value.split('|').collect();
    values.extend(other.split('|').filter(|other| value.split('|').all(|own| own != *other)));
    // That it is any member of an enumeration says nothing.
    let any = matches!(ours.0.symbols[id].ty.base(), Type::Enum(of) if of.members.len() == values.len());
    let text = vec![Token::Symbol(id), Token::Text(EQUALS.to_owned()), Token::Text(values.join("|"))];
    (!any).then_some(Assumption { text, holds: true })
}

/// A text in words that are the same for both rows: symbols that both have by number, others by name.
fn said(text: &[Token], row: &Row, numbers: &Numbers) -> String {
    let word = |token: &Token| match token {
        Token::Text(text) => text.clone(),
        Token::Symbol(id) => match numbers.of(*id) {
            Some(number) => format!("#{number}"),
            None => row.symbols[*id].name.clone(),
        },
        Token::Hole(inner) => said(inner, row, numbers),
    };
    text.iter().map(word).collect()
}

/// A text with the names of its symbols and of their owners.
fn read(text: &[Token], symbols: &[Symbol]) -> String {
    let token = |token: &Token| match token {
        Token::Text(text) => text.clone(),
        Token::Hole(inner) => read(inner, symbols),
        Token::Symbol(id) => {
            let chain = std::iter::successors(Some(*id), |id| symbols[*id].owner);
            chain.map(|id| format!("<{}>", symbols[id].name)).collect::<Vec<_>>().concat()
        }
    };
    text.iter().map(token).collect()
}

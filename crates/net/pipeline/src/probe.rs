//! Finds what a function of values that are not known does to a match or a list of actions.
//!
//! A literal of the rules is compiled to a function of its variable parts. It is called with some values, and with one
//! value changed at a time: what changes in the result depends on that value, and the rest is constant. So this needs no
//! second description of fields and actions.

use nlog_data::function::{Function, Results};
use nlog_data::{Type, Value};
use openflow_rs::{Actions, Match};

use crate::evaluate::{Alternatives, version};
use crate::names::Names;
use crate::scope::Scope;
use crate::term::{Bits, MatchTerm, Part, Piece, Term, Token, Version};

/// Values of a type, which differ in every digit. None for types that no field has.
pub(crate) fn samples(ty: &Type, version: Version) -> Vec<Value> {
    let texts: &[&str] = match (ty.base(), version) {
        // A whole VLAN id has the present bit.
        (Type::Int, _) => return [1, 2, 0x1001, 0x1002, 0].map(Value::Int).to_vec(),
        (Type::Mac, _) => &["22:22:22:22:22:22", "44:44:44:44:44:44"],
        (Type::Ip, Version::Six) => {
            &["2222:2222:2222:2222:2222:2222:2222:2222", "4444:4444:4444:4444:4444:4444:4444:4444"]
        }
        (Type::Ip, _) => &["2.2.2.2", "4.4.4.4"],
        (Type::Net, Version::Six) => &["2222::/16", "4444::/16"],
        (Type::Net, _) => &["2.0.0.0/8", "4.0.0.0/8"],
        _ => &[],
    };
    texts.iter().filter_map(|text| ty.base().parse_text(text).ok()).collect()
}

/// An argument of the function.
struct Argument {
    /// The values to try: one for a constant.
    values: Vec<Value>,
    /// What stands for the value in the result.
    text: Vec<Token>,
}

/// The results of a function with values that are not known: one for each combination of IP versions that has one.
pub(crate) fn call(
    names: &Names,
    scope: Scope,
    function: &Function,
    arguments: &[Term],
    ty: &Type,
) -> Alternatives<Term> {
    let mut results = Vec::new();
    for (scope, arguments) in versions(scope, arguments) {
        let Some(arguments) = arguments else {
            results.push((scope, unknown(function, ty)));
            continue;
        };
        let probe = Probe { function, arguments };
        let Some(base) = probe.base() else { continue };
        let term = match ty {
            Type::Match => Term::Match(probe.matching(&base)),
            _ => Term::Actions(probe.actions(&base, names)),
        };
        results.push((scope, term));
    }
    results
}

/// A result of which nothing is known.
fn unknown(function: &Function, ty: &Type) -> Term {
    let text = vec![Token::Text(format!("{}(…)", function.name))];
    match ty {
        Type::Match => Term::Match(MatchTerm { rest: vec![text], ..MatchTerm::default() }),
        _ => Term::Actions(vec![Piece::Any(text)]),
    }
}

/// The arguments with the values to try, for each combination of the IP versions that the addresses can have. None for
/// arguments that no values stand for.
fn versions(scope: Scope, arguments: &[Term]) -> Alternatives<Option<Vec<Argument>>> {
    let mut open: Alternatives<Option<Vec<Argument>>> = vec![(scope, Some(Vec::new()))];
    for argument in arguments {
        let mut next = Vec::new();
        for (scope, done) in open {
            let Some(done) = done else {
                next.push((scope, None));
                continue;
            };
            let done: Vec<(Vec<Value>, Vec<Token>)> =
                done.into_iter().map(|argument| (argument.values, argument.text)).collect();
            for (scope, new) in choices(scope, argument) {
                let with = new.map(|new| {
                    let known = done.iter().cloned().map(|(values, text)| Argument { values, text });
                    known.chain([new]).collect()
                });
                next.push((scope, with));
            }
        }
        open = next;
    }
    open
}

/// The values to try for an argument.
fn choices(scope: Scope, argument: &Term) -> Alternatives<Option<Argument>> {
    let (ty, text) = match argument {
        Term::Constant(value) => {
            return vec![(scope, Some(Argument { values: vec![value.clone()], text: Vec::new() }))];
        }
        Term::Symbol(id) => (scope.symbol(*id).ty.clone(), vec![Token::Symbol(*id)]),
        Term::Computed(computed) => (computed.ty.clone(), computed.text.clone()),
        Term::Match(_) | Term::Actions(_) => return vec![(scope, None)],
    };
    let address = matches!(ty.base(), Type::Ip | Type::Net);
    let versions = match version(&scope, argument) {
        Version::Any if address => vec![Version::Four, Version::Six],
        known => vec![known],
    };
    let choice = |version| {
        let mut scope = scope.clone();
        if let Term::Symbol(id) = argument {
            scope.symbol_mut(*id).version = version;
        }
        let values = samples(&ty, version);
        let argument = (!values.is_empty()).then(|| Argument { values, text: text.clone() });
        (scope, argument)
    };
    versions.into_iter().map(choice).collect()
}

struct Probe<'a> {
    function: &'a Function,
    arguments: Vec<Argument>,
}

/// The values of one call, and its result.
struct Call {
    values: Vec<Value>,
    result: Value,
}

impl Probe<'_> {
    fn result(&self, values: &[Value]) -> Option<Value> {
        match (self.function.evaluate)(values) {
            Ok(Results::One(value)) => Some(value),
            _ => None,
        }
    }

    /// The first combination of values with a result.
    fn base(&self) -> Option<Call> {
        let first = |place: usize| {
            let values = self.arguments.iter().map(|argument| {
                argument.values.get(place).or(argument.values.first()).cloned().unwrap_or(Value::None)
            });
            let values: Vec<Value> = values.collect();
            self.result(&values).map(|result| Call { values, result })
        };
        let most = self.arguments.iter().map(|argument| argument.values.len()).max().unwrap_or(1);
        (0..most).find_map(first)
    }

    /// The results with another value of one argument.
    fn variations(&self, base: &Call, argument: usize) -> Vec<Value> {
        let with = |value: &Value| {
            let mut values = base.values.clone();
            values[argument] = value.clone();
            self.result(&values)
        };
        let others = self.arguments[argument].values.iter().filter(|value| **value != base.values[argument]);
        let mut results: Vec<Value> = others.filter_map(with).collect();
        if let Value::Int(_) = base.values[argument] {
            // The most that fits shows all bits that depend on the value.
            let most = (1..63).rev().find_map(|bits| with(&Value::Int((1 << bits) - 1)));
            results.extend(most);
        }
        results
    }

    /// The arguments that are not constants, with their texts.
    fn open(&self) -> impl Iterator<Item = (usize, &[Token])> {
        let arguments = self.arguments.iter().enumerate();
        arguments
            .filter(|(_, argument)| !argument.text.is_empty())
            .map(|(at, argument)| (at, &*argument.text))
    }

    fn matching(&self, base: &Call) -> MatchTerm {
        let Value::Match(of) = &base.result else { return MatchTerm::default() };
        let mut term = constant_match(&of.get());
        for (argument, text) in self.open() {
            for other in self.variations(base, argument) {
                if let Value::Match(other) = other {
                    open_bits(&mut term, &of.get(), &other.get(), text);
                }
            }
        }
        whole_fields(&mut term);
        term
    }

    fn actions(&self, base: &Call, names: &Names) -> Vec<Piece> {
        let texts = |value: &Value| -> Vec<String> {
            let Value::Actions(actions) = value else { return Vec::new() };
            let Actions(actions) = actions.get();
            actions.iter().map(|action| names.action(action)).collect()
        };
        let first = texts(&base.result);
        // The places in the texts that depend on an argument.
        let mut places: Vec<Vec<(usize, usize, &[Token])>> = vec![Vec::new(); first.len()];
        for (argument, text) in self.open() {
            let Some(other) = self.variations(base, argument).first().map(texts) else { continue };
            if other.len() != first.len() {
                return vec![Piece::Any(vec![Token::Text("actions".to_owned())])];
            }
            for ((own, other), places) in first.iter().zip(&other).zip(&mut places) {
                places.extend(difference(own, other).map(|(start, end)| (start, end, text)));
            }
        }
        let pieces = first.iter().zip(places);
        pieces.map(|(text, places)| Piece::One(with_holes(text, places))).collect()
    }
}

/// The parts of a match, all constant.
pub(crate) fn constant_match(of: &Match) -> MatchTerm {
    let part =
        |demand: openflow_rs::Demand| Part::new(demand.field, demand.mask, Bits::Constant(demand.value));
    MatchTerm { parts: of.iter().map(part).collect(), rest: Vec::new() }
}

/// Makes the bits open that differ between two matches.
fn open_bits(term: &mut MatchTerm, one: &Match, other: &Match, text: &[Token]) {
    for demand in one.iter() {
        let Some((value, mask)) = other.get(demand.field) else { continue };
        let differing = (demand.value ^ value) | (demand.mask ^ mask);
        let mut opened = 0;
        for part in term.parts.iter_mut().filter(|part| part.field == demand.field) {
            if let Bits::Constant(bits) = &mut part.bits {
                opened |= part.mask & differing;
                part.mask &= !differing;
                *bits &= !differing;
            }
        }
        term.parts.retain(|part| part.mask != 0);
        if opened == 0 {
            continue;
        }
        let own = |part: &&mut Part| part.field == demand.field && part.bits == Bits::Open(text.to_vec());
        match term.parts.iter_mut().find(own) {
            Some(part) => part.mask |= opened,
            None => {
                term.parts.push(Part::new(demand.field, opened, Bits::Open(text.to_vec())));
            }
        }
    }
}

/// A value that reaches the highest bits of a field only with numbers that are reserved still stands for the whole field:
/// constant zeros beside the only open bits of a field belong to these.
fn whole_fields(term: &mut MatchTerm) {
    let fields: Vec<_> = term.parts.iter().map(|part| part.field).collect();
    for field in fields {
        let own = || term.parts.iter().filter(|part| part.field == field);
        let open = own().filter(|part| matches!(part.bits, Bits::Open(_))).count();
        let zeros: u128 = own()
            .filter(|part| part.bits == Bits::Constant(0))
            .map(|part| part.mask)
            .fold(0, |all, mask| all | mask);
        if open != 1 || zeros == 0 {
            continue;
        }
        term.parts.retain(|part| part.field != field || part.bits != Bits::Constant(0));
        for part in
            term.parts.iter_mut().filter(|part| part.field == field && matches!(part.bits, Bits::Open(_)))
        {
            part.mask |= zeros;
        }
    }
}

/// The range of the first text in which the second differs.
fn difference(one: &str, other: &str) -> Option<(usize, usize)> {
    if one == other {
        return None;
    }
    let start = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let most = (one.len() - start).min(other.len() - start);
    let common = one.bytes().rev().zip(other.bytes().rev()).take(most).take_while(|(a, b)| a == b).count();
    // The prefix of a hexadecimal number belongs to it.
    let start = if one[..start].ends_with("0x") { start - 2 } else { start };
    Some((start, one.len() - common))
}

/// The text with holes at these places.
fn with_holes(text: &str, mut places: Vec<(usize, usize, &[Token])>) -> Vec<Token> {
    places.sort_by_key(|(start, end, _)| (*start, *end));
    let (mut tokens, mut at) = (Vec::new(), 0);
    for (start, end, hole) in places {
        if start < at {
            // Two values make one number: only the first is shown.
            continue;
        }
        if start > at {
            tokens.push(Token::Text(text[at..start].to_owned()));
        }
        tokens.push(Token::Hole(hole.to_vec()));
        at = end;
    }
    if at < text.len() {
        tokens.push(Token::Text(text[at..].to_owned()));
    }
    tokens
}

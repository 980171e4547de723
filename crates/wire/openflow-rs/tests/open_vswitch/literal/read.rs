//! Literals from text, for tests: `set(reg0, 0x10/0x10), ct(commit, zone: 5)`.
//!
//! [`Call`] decides the meaning of a name or call, as it does for the checker of the rule language.

use openflow_rs::literal::{ActionTerm, Argument, Call, Context, Kind, MatchItem, Shape, Term, Value, Wants};

#[derive(Clone, Debug)]
enum Raw {
    Value(Value),
    Text(String),
    Name(String),
    Bits(String, u16, u16),
    Call(String, Vec<(Option<String>, Raw)>),
    Masked(Box<Raw>, Box<Raw>),
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word.to_owned()
    }

    fn quoted(&mut self) -> String {
        let (text, rest) = self.rest.split_once('"').expect("a closing quote");
        self.rest = rest;
        text.to_owned()
    }

    fn term(&mut self) -> Raw {
        let value = self.single();
        if self.eat("/") { Raw::Masked(Box::new(value), Box::new(self.single())) } else { value }
    }

    fn single(&mut self) -> Raw {
        if self.eat("\"") {
            return Raw::Text(self.quoted());
        }
        let word = self.word();
        if let Some(digits) = word.strip_prefix("0x") {
            return Raw::Value(Value::Int(i64::from_str_radix(digits, 16).expect("hexadecimal")));
        }
        if let Ok(number) = word.parse() {
            return Raw::Value(Value::Int(number));
        }
        if self.rest.starts_with('"') {
            self.rest = &self.rest[1..];
            let text = self.quoted();
            return Raw::Value(match word.as_str() {
                "mac" => Value::Mac(text.parse().expect("a MAC address")),
                "ip" => Value::Ip(text.parse().expect("an IP address")),
                "net" => {
                    let (ip, len) = text.split_once('/').expect("a prefix");
                    Value::Net(ip.parse().expect("an IP address"), len.parse().expect("a length"))
                }
                other => panic!("{other}"),
            });
        }
        if self.eat("[") {
            let first = self.word().parse().expect("a bit");
            let last = if self.eat("..") { self.word().parse().expect("a bit") } else { first };
            assert!(self.eat("]"));
            return Raw::Bits(word, first, last);
        }
        if !self.eat("(") {
            return Raw::Name(word);
        }
        let mut arguments = Vec::new();
        while !self.eat(")") {
            let before = self.rest;
            let name = self.word();
            if !name.is_empty() && self.eat(":") {
                arguments.push((Some(name), self.term()));
            } else {
                self.rest = before;
                arguments.push((None, self.term()));
            }
            self.eat(",");
        }
        Raw::Call(word, arguments)
    }
}

/// The term that the text looks like, where the expected kind is unknown.
fn by_looks(raw: &Raw) -> Term {
    match raw {
        Raw::Value(value) => Term::Constant(*value),
        Raw::Text(text) => Term::Text(text.clone()),
        Raw::Name(name) => Term::Name(name.clone()),
        Raw::Bits(name, first, last) => Term::Bits(name.clone(), *first, *last),
        Raw::Call(..) => Term::Action(action(Context::Flow, raw)),
        Raw::Masked(value, mask) => Term::masked(by_looks(value), by_looks(mask)),
    }
}

fn shape(raw: &Raw) -> Shape<'_> {
    match raw {
        Raw::Name(name) => Shape::Name(name),
        Raw::Bits(name, first, last) => Shape::Bits(name, *first, *last),
        Raw::Call(name, _) => Shape::Call(name),
        Raw::Text(_) => Shape::Text,
        Raw::Value(_) | Raw::Masked(..) => Shape::Value,
    }
}

fn action(context: Context, raw: &Raw) -> ActionTerm {
    let (name, arguments): (&str, &[_]) = match raw {
        Raw::Name(name) => (name, &[]),
        Raw::Call(name, arguments) => (name, arguments),
        other => panic!("no action: {other:?}"),
    };
    let mut call = Call::new(context, name).ok();
    let arguments = arguments.iter().map(|(name, raw)| {
        let wants = call.as_mut().and_then(|call| call.argument(name.as_deref(), shape(raw)).ok());
        let term = match wants {
            Some(Wants::Action(inner)) => Term::Action(action(inner, raw)),
            Some(Wants::Value(wanted)) => {
                if let Raw::Value(value) = raw
                    && !wanted.kinds.contains(&value.kind())
                {
                    // The template reports this too.
                    assert!(!wanted.kinds.is_empty());
                }
                by_looks(raw)
            }
            _ => by_looks(raw),
        };
        Argument { name: name.clone(), term }
    });
    ActionTerm { name: name.to_owned(), arguments: arguments.collect() }
}

/// Reads an action list.
pub(crate) fn actions(text: &str) -> Vec<ActionTerm> {
    let mut reader = Reader { rest: text };
    let mut terms = Vec::new();
    while !reader.rest.trim().is_empty() {
        terms.push(action(Context::Flow, &reader.term()));
        reader.eat(",");
    }
    terms
}

/// Reads the inside of a match.
pub(crate) fn matches(text: &str) -> Vec<MatchItem> {
    let mut reader = Reader { rest: text };
    let mut items = Vec::new();
    while !reader.rest.trim().is_empty() {
        let (name, bits) = match reader.single() {
            Raw::Name(name) => (name, None),
            Raw::Bits(name, first, last) => (name, Some((first, last))),
            other => panic!("{other:?}"),
        };
        let term = reader.eat(":").then(|| by_looks(&reader.term()));
        items.push(MatchItem { name, bits, term });
        reader.eat(",");
    }
    items
}

/// The term with holes in place of its values, which are added to `values`.
pub(crate) fn hollow(term: &Term, values: &mut Vec<Value>) -> Term {
    match term {
        Term::Constant(value) => {
            values.push(*value);
            Term::Hole(values.len() - 1, value.kind())
        }
        Term::Masked(value, mask) => Term::masked(hollow(value, values), hollow(mask, values)),
        Term::Action(action) => Term::Action(hollow_action(action, values)),
        other => other.clone(),
    }
}

/// The action with holes in place of its values.
pub(crate) fn hollow_action(action: &ActionTerm, values: &mut Vec<Value>) -> ActionTerm {
    let arguments = action.arguments.iter();
    let arguments = arguments.map(|a| Argument { name: a.name.clone(), term: hollow(&a.term, values) });
    ActionTerm { name: action.name.clone(), arguments: arguments.collect() }
}

/// A value of a type that fits a field of this many bits.
pub(crate) fn sample(kind: Kind, bits: u16) -> Option<Value> {
    let v6 = bits == 128;
    Some(match kind {
        Kind::Int => Value::Int(1),
        Kind::Mac => Value::Mac("02:00:00:00:00:01".parse().expect("a MAC address")),
        Kind::Ip => Value::Ip(if v6 { "fd00::1" } else { "10.0.0.1" }.parse().expect("an address")),
        Kind::Net if v6 => Value::Net("fd00::".parse().expect("an address"), 64),
        Kind::Net => Value::Net("10.0.0.0".parse().expect("an address"), 8),
        Kind::Text => return None,
    })
}

//! The messages between workers as bytes, for those of other processes.
//!
//! Symbols have no meaning in another process. Each message therefore carries a dictionary of its values and failures,
//! each once, and refers to them by position. Small integers and truth values are the same everywhere. No process
//! tracks which symbols a peer knows, because it would have to follow the collections of the peer's table.

use std::sync::Arc;

use hashbrown::HashMap;
use nlog_data::state::{read_value, write_value};
use nlog_data::{Failure, FailureCode};
use serde::{Deserialize, Serialize};

use crate::carrier::Codec;
use crate::fused::relation::Attributed;
use crate::fused::workers::{Answer, Message, Order};
use crate::symbol::{HashBuilder, Meaning, NONE, Reader, Symbol, Symbols, meaning, place_of, place_word};

/// Replaces every symbol in a message.
fn translate(message: &mut Message, each: &mut dyn FnMut(&mut Symbol)) {
    match message {
        Message::Packet(packet) => packet.translate(each),
        Message::Order(Order::Run(pass, _)) => {
            let changes = Arc::make_mut(pass).changes.iter_mut();
            changes.flat_map(|(_, delta)| delta.symbols_mut(0)).for_each(each);
        }
        Message::Order(Order::Again(again)) => {
            let inputs = Arc::make_mut(again).inputs.iter_mut();
            inputs.flat_map(|(_, rows)| rows.symbols_mut(0)).for_each(each);
        }
        Message::Answer(Answer::Ran(ran)) => {
            for (_, delta, report) in &mut ran.changed {
                delta.symbols_mut(0).for_each(&mut *each);
                report.iter_mut().flat_map(Attributed::symbols_mut).for_each(&mut *each);
            }
            ran.errors.translate(each);
        }
        Message::Answer(Answer::Again(Some(rows))) => rows.symbols_mut(0).for_each(each),
        Message::Order(
            Order::Plan(_)
            | Order::Keep(_)
            | Order::Rest
            | Order::End(_)
            | Order::Merge
            | Order::Mark
            | Order::Load,
        )
        | Message::Answer(Answer::Again(None) | Answer::Marks(_) | Answer::Collected | Answer::Load(_))
        | Message::Marks(_) => {}
    }
}

/// A message and its dictionary.
#[derive(Debug, Serialize, Deserialize)]
struct Translated {
    /// The values one after another, in the format of [`write_value`].
    values: Vec<u8>,
    /// Whether the failure is an overflow, and its message.
    failures: Vec<(bool, Arc<str>)>,
    message: Message,
}

/// A dictionary under construction.
struct Dictionary<'a> {
    symbols: &'a Symbols,
    reader: Reader<'a>,
    places: HashMap<Symbol, Symbol, HashBuilder>,
    count: usize,
    values: Vec<u8>,
    failures: Vec<(bool, Arc<str>)>,
    too_many: bool,
}

impl Dictionary<'_> {
    /// The word that represents a symbol.
    fn word(&mut self, symbol: Symbol) -> Symbol {
        let meaning = meaning(symbol);
        if meaning == Meaning::Same {
            return symbol;
        }
        if let Some(word) = self.places.get(&symbol) {
            return *word;
        }
        let place = if meaning == Meaning::Value {
            write_value(&self.reader.value(symbol), &mut self.values);
            self.count += 1;
            self.count - 1
        } else {
            let Failure { code, message } = self.symbols.failure(symbol);
            self.failures.push((code == FailureCode::Overflow, message));
            self.failures.len() - 1
        };
        let word = place_word(meaning, place);
        self.too_many |= word.is_none();
        let word = word.unwrap_or(NONE);
        self.places.insert(symbol, word);
        word
    }
}

/// Writes and reads the messages of the workers of a process.
pub(crate) struct SymbolCodec {
    symbols: Arc<Symbols>,
}

impl SymbolCodec {
    pub(crate) fn new(symbols: Arc<Symbols>) -> Self {
        SymbolCodec { symbols }
    }
}

impl Codec<Message> for SymbolCodec {
    fn encode(&self, message: Message) -> Result<Vec<u8>, String> {
        encode(message, &self.symbols)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Message, String> {
        decode(bytes, &self.symbols)
    }
}

/// Encodes a message.
fn encode(mut message: Message, symbols: &Symbols) -> Result<Vec<u8>, String> {
    let mut dictionary = Dictionary {
        symbols,
        reader: symbols.reader(),
        places: HashMap::default(),
        count: 0,
        values: Vec::new(),
        failures: Vec::new(),
        too_many: false,
    };
    translate(&mut message, &mut |symbol| *symbol = dictionary.word(*symbol));
    let Dictionary { values, failures, too_many, .. } = dictionary;
    if too_many {
        return Err("a message has too many values".to_owned());
    }
    postcard::to_allocvec(&Translated { values, failures, message }).map_err(|error| error.to_string())
}

/// Decodes a message into the symbols of this process.
fn decode(bytes: &[u8], symbols: &Symbols) -> Result<Message, String> {
    let Translated { values: bytes, failures, mut message } =
        postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
    let (mut rest, mut values) = (bytes.as_slice(), Vec::new());
    while !rest.is_empty() {
        let value = read_value(&mut rest).map_err(|_| "it contains an invalid value")?;
        values.push(symbols.intern_owned(value));
    }
    let failure = |(overflow, message): (bool, Arc<str>)| {
        symbols.fail(if overflow { Failure::overflow(message) } else { Failure::range(message) })
    };
    let failures: Vec<Symbol> = failures.into_iter().map(failure).collect();
    let mut missing = false;
    translate(&mut message, &mut |word| {
        let dictionary = match meaning(*word) {
            Meaning::Same => return,
            Meaning::Value => &values,
            Meaning::Failure => &failures,
        };
        match dictionary.get(place_of(*word)) {
            Some(symbol) => *word = *symbol,
            None => missing = true,
        }
    });
    if missing { Err("it refers to a missing value".to_owned()) } else { Ok(message) }
}

#[cfg(test)]
mod tests {
    use nlog_data::Value;
    use nlog_plan::query::RelationId;

    use super::*;
    use crate::fused::delta::Delta;
    use crate::fused::engine::Pass;

    #[test]
    fn a_message_means_the_same_in_another_process() {
        let (here, there) = (Symbols::of_several_processes(), Symbols::of_several_processes());
        // Numbers that differ from those of the other process.
        (0..100).for_each(|number| {
            there.intern(&Value::from(format!("other {number}")));
            there.fail(Failure::range(format!("other {number}")));
        });
        let values = [
            Value::from("a"),
            Value::Int(7),
            Value::Int(-1 << 40),
            Value::Bool(true),
            Value::None,
            Value::record([Value::from("a"), Value::set([1.into(), 2.into()])]),
        ];
        let mut rows = Delta::new(values.len());
        rows.push_words(values.iter().map(|value| here.intern(value)), 3);
        rows.push_words(values.iter().rev().map(|value| here.intern(value)), -1);
        let pass = Pass { changes: vec![(RelationId(4), rows)], facts: true, hooks: Some(vec![2]) };
        let bytes = encode(Message::Order(Order::Run(Arc::new(pass), None)), &here).expect("it is small");
        let Ok(Message::Order(Order::Run(pass, None))) = decode(&bytes, &there) else { panic!("an order") };
        let Pass { changes, facts: true, hooks: Some(hooks) } = &*pass else { panic!("{pass:?}") };
        assert_eq!(hooks, &[2]);
        let [(RelationId(4), rows)] = changes.as_slice() else { panic!("{changes:?}") };
        let read: Vec<(Vec<Value>, i64)> = rows
            .rows()
            .map(|(row, diff)| (row.iter().map(|word| there.value(*word)).collect(), diff))
            .collect();
        let reversed: Vec<Value> = values.iter().rev().cloned().collect();
        assert_eq!(read, [(values.to_vec(), 3), (reversed, -1)]);
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], &there).is_err());
        }
    }
}

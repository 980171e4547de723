//! A transaction that gives every input table a few rows.
//!
//! There are a few of each entity, and every table about an entity has a row for each of them, so that lookups succeed;
//! most conditions hold.

use serde_json::{Map, Value, json};

use super::random::Random;
use super::vocabulary::{Class, KINDS, OF_EACH};
use super::{Column, Program, Role, Table};

/// One line of JSON.
pub(super) fn transaction(program: &Program) -> String {
    let mut random = Random::new(program.seed ^ 0x6461_7461);
    let inputs = program.tables.iter().filter(|table| table.role == Role::Input);
    let insert: Map<String, Value> =
        inputs.map(|table| (table.name.clone(), Value::from(rows(table, &mut random)))).collect();
    json!({"txn": 1, "insert": insert}).to_string()
}

fn rows(table: &Table, random: &mut Random) -> Vec<Value> {
    let keys = table.unique.as_ref().map_or(0, Vec::len);
    let count = OF_EACH.pow(keys as u32);
    (0..count)
        .map(|row| {
            let columns = table.columns.iter().enumerate();
            columns
                .map(|(at, column)| {
                    if at < keys {
                        // Every combination once.
                        return entity(column, row / OF_EACH.pow(at as u32) % OF_EACH);
                    }
                    value(column, random)
                })
                .collect()
        })
        .collect()
}

fn entity(column: &Column, number: usize) -> Value {
    Value::from(format!("{}-{}", KINDS[column.kind].name, number + 1))
}

fn value(column: &Column, random: &mut Random) -> Value {
    match KINDS[column.kind].class {
        Class::Entity => entity(column, random.below(OF_EACH)),
        Class::Label => Value::from(256 + random.below(0xffff)),
        Class::Vlan => Value::from(1 + random.below(4094)),
        Class::Port => Value::from(1 + random.below(200)),
        Class::Service => Value::from(*random.pick(&[22, 53, 80, 443, 8080])),
        Class::Number | Class::Step => Value::from(random.below(40)),
        Class::Flag => Value::from(random.percent(85)),
        Class::Choice(words) => Value::from(if random.percent(60) { words[0] } else { random.pick(words) }),
        Class::Mac => Value::from(format!("02:00:00:00:{:02x}:{:02x}", random.below(256), random.below(256))),
        Class::Ip => {
            Value::from(format!("10.{}.{}.{}", random.below(256), random.below(256), 1 + random.below(254)))
        }
        Class::Net => Value::from(format!("10.{}.{}.0/24", random.below(256), random.below(256))),
        Class::Text => Value::from(format!("{} {}", column.name, random.below(1000))),
        // No input has these.
        Class::Match | Class::Actions => Value::from(""),
        Class::Members => Value::from(Vec::<Value>::new()),
    }
}

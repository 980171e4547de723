//! The project's own rules on random networks: the engines agree with the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::support::{Random, Runs};
use nlog::Program;
use nlog::program::BodyItem;
use nlog_data::{Meaning, Role, TableId, Tables, Transaction, Type, Value, literal};

/// A value from a small domain, so that rows join. `None` if the test has no values of the type.
fn value(random: &mut Random, column: &str, ty: &Type) -> Option<Value> {
    let number = random.below(3);
    Some(match (ty, column) {
        (Type::Enum(of), "role") => Value::from(of.members.first()?.clone()),
        (Type::Enum(of), _) => Value::from(random.pick(&of.members).clone()),
        (Type::String, "tunnel") => {
            Value::String(["weft-geneve", "weft-vxlan", "weft-gre"][number as usize].into())
        }
        // The `mac` of a report is text that a guest chooses.
        (Type::String, "mac") => Value::String("02:00:00:00:00:01".into()),
        // All objects have the same few names, so that references find them.
        (Type::String, "id" | "hv" | "node") => Value::String(format!("i{number}").into()),
        (Type::String, _) => Value::String(format!("{}{number}", &column[..1]).into()),
        (Type::Int, _) => Value::Int(1 + number as i64),
        (Type::Ip, _) => Value::Ip([10, 0, 0, number as u8].into()),
        (Type::Mac, _) => literal::parse(&format!(r#"mac"02:00:00:00:00:0{number}""#)).ok()?,
        (Type::Bool, _) => Value::Bool(number == 0),
        (Type::Net, _) => literal::parse(&format!(r#"net"10.0.{number}.0/24""#)).ok()?,
        (Type::InterfaceAddress, _) => Value::InterfaceAddress(format!("10.0.{number}.254/24").parse().ok()?),
        // Mostly absent, as users leave fields out.
        (Type::Opt(_), _) if !random.chance(20) => Value::None,
        (Type::Opt(of), _) => value(random, column, of).unwrap_or(Value::None),
        (Type::Set(of), _) => Value::set((0..number).filter_map(|_| value(random, column, of))),
        (Type::List(of), _) => Value::list((0..number).filter_map(|_| value(random, column, of))),
        (Type::Record(of), _) => {
            let fields = of.fields.iter().map(|(name, ty)| value(random, name, ty));
            Value::Record(fields.collect::<Option<Vec<_>>>()?.into())
        }
        (Type::Constrained(of), _) if of.meaning != Meaning::Value => value(random, "id", &of.base)?,
        (Type::Constrained(of), _) => {
            let candidate = |random: &mut Random| match of.base {
                // The least timeouts, leases and MTUs.
                Type::Int => Some(Value::Int(*random.pick(&[1, 20, 60, 1280]) + number as i64)),
                _ => value(random, column, &of.base),
            };
            let mut candidates = (0..10).filter_map(|_| candidate(random));
            candidates.find(|value| ty.violation(value).is_none())?
        }
        _ => return None,
    })
}

#[test]
fn the_projects_rules_agree_on_random_networks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules");
    let sources = nlog::Sources::load(&[folder]).expect("the rules are there");
    let compilation = nlog::compile(&sources);
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    // The tables that hooks fill get random rows too.
    let schema = Arc::clone(&program.schema);
    // No network is refused: most random ones would be, and the others have few flows.
    let rules = program.rules.iter().filter(|rule| schema.table(rule.head).role != Role::Forbid);
    let program = Program { hooks: Vec::new(), rules: rules.cloned().collect(), ..Program::clone(&program) };
    let program = Arc::new(program);
    let read = program.rules.iter().flat_map(|rule| &rule.body).filter_map(|item| match item {
        BodyItem::Atom { table, .. } => Some(*table),
        _ => None,
    });
    let read: BTreeSet<TableId> = read.collect();
    let is_read = |id: TableId, role| role == Role::Input && read.contains(&id);
    let inputs: Vec<_> = program.schema.iter().filter(|(id, table)| is_read(*id, table.role)).collect();
    let (mut networks, mut accepted, mut flows) = (0, 0, 0);
    for seed in test_random::seeds!("the_projects_rules_agree_on_random_networks", 2) {
        let mut random = Random::new(seed);
        let mut runs = Runs::new(&program, &Tables::All, true);
        for step in 0..30 {
            let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for _ in 0..=random.below(20) {
                let (id, table) = random.pick(&inputs);
                let row = table.columns.iter().map(|column| value(&mut random, &column.name, &column.ty));
                let Some(row) = row.collect::<Option<Vec<Value>>>() else { continue };
                rows.entry(*id).or_default().push(row);
            }
            let mut transaction = Transaction::default();
            for (id, rows) in rows {
                let table = program.schema.table(id);
                // Insert one row for each key, in place of the present one.
                let by_key: BTreeMap<_, _> = rows.into_iter().map(|row| (table.key_of(&row), row)).collect();
                let there = runs.inputs(id).into_iter().filter(|row| by_key.contains_key(&table.key_of(row)));
                transaction.delete.insert(id, there.collect());
                if !random.chance(25) {
                    transaction.insert.insert(id, by_key.into_values().collect());
                }
            }
            let line = runs.commit(&transaction);
            assert!(runs.agreed(), "seed {seed}, step {step}: {line}\n{}", runs.difference());
            accepted += usize::from(!runs.refused());
            flows += usize::from(line.contains(r#""of_flow":"#));
        }
        assert!(runs.contents_are_equal(), "seed {seed}");
        networks += 1;
    }
    println!("{accepted} transactions accepted, {flows} changed flows");
    assert!(flows > 3 * networks, "the networks are not all empty");
}

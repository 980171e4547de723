//! Random programs and transactions compared with an oracle without joins, which tries every assignment of values
//! to a rule's variables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::reference::build::{B, Builder, Run, T};
use nlog::program::{Aggregate, Pattern};
use nlog_data::{Delta, Evaluator, Role, Row, RuleId, TableId, Tables, Value};
use nlog_explain::ObstacleKind;
use proptest::prelude::*;

const VARIABLES: [&str; 4] = ["w", "x", "y", "z"];
const INPUTS: [&str; 2] = ["in0", "in1"];
const DERIVED: [&str; 4] = ["t0", "t1", "t2", "t3"];
/// This table has a key: its first column.
const KEYED: usize = 1;
/// This table forbids its rows. It is the last, which no rule reads.
const FORBIDDING: usize = 3;

/// A term of an atom, or an operand; which variables operands may name depends on the atoms.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Term {
    Variable(usize),
    Constant(i64),
    Any,
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Less,
    NotEqual,
    Divide,
    Add,
}

impl Operator {
    fn name(self) -> &'static str {
        match self {
            Operator::Less => "<",
            Operator::NotEqual => "!=",
            Operator::Divide => "/",
            Operator::Add => "+",
        }
    }
}

/// `head(first, second) :- atoms, v = a op b, c op v, d op e;` with parts left out.
#[derive(Debug, Clone)]
struct Rule {
    head: usize,
    first: Term,
    second: Term,
    aggregate: Option<Aggregate>,
    /// Tables by number: inputs, then derived ones below the head.
    atoms: Vec<(usize, [Term; 2])>,
    /// Binds `v`.
    binding: Option<(Operator, Term, Term)>,
    /// A comparison of `v` with an operand.
    on_binding: Option<(Operator, Term)>,
    condition: Option<(Operator, Term, Term)>,
}

type Rows = BTreeSet<[i64; 2]>;

fn any_term() -> impl Strategy<Value = Term> {
    prop_oneof![
        6 => (0..VARIABLES.len()).prop_map(Term::Variable),
        1 => (0..3i64).prop_map(Term::Constant),
        1 => Just(Term::Any),
    ]
}

fn any_comparison() -> impl Strategy<Value = Operator> {
    prop::sample::select(vec![Operator::Less, Operator::NotEqual])
}

fn any_arithmetic() -> impl Strategy<Value = Operator> {
    prop::sample::select(vec![Operator::Divide, Operator::Add])
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let aggregates = vec![Aggregate::Count, Aggregate::Min, Aggregate::Max, Aggregate::Sum];
    let head = (
        prop_oneof![9 => 0..FORBIDDING, 1 => Just(FORBIDDING)],
        any_term(),
        any_term(),
        prop::option::weighted(0.3, prop::sample::select(aggregates)),
    );
    let atoms = prop::collection::vec((0..5usize, any_term(), any_term()), 1..4);
    let binding = prop::option::of((any_arithmetic(), any_term(), any_term()));
    let on_binding = prop::option::of((any_comparison(), any_term()));
    let condition = prop::option::of((any_comparison(), any_term(), any_term()));
    (head, atoms, binding, on_binding, condition).prop_map(|(head, atoms, binding, on_binding, condition)| {
        let (head, first, second, aggregate) = head;
        let atoms: Vec<_> = atoms.into_iter().map(|(table, a, b)| (table % (2 + head), [a, b])).collect();
        let bound: Vec<usize> = (atoms.iter().flat_map(|(_, terms)| terms))
            .filter_map(|term| if let Term::Variable(n) = term { Some(*n) } else { None })
            .collect();
        // Operands name variables that atoms bind.
        let operand = |term| match term {
            Term::Variable(n) if !bound.is_empty() => Term::Variable(bound[n % bound.len()]),
            Term::Variable(n) => Term::Constant(n as i64),
            Term::Any => Term::Constant(i64::MAX),
            term @ Term::Constant(_) => term,
        };
        Rule {
            head,
            first: operand(first),
            second: operand(second),
            aggregate,
            atoms,
            binding: binding.map(|(op, a, b)| (op, operand(a), operand(b))),
            on_binding: on_binding.filter(|_| binding.is_some()).map(|(op, a)| (op, operand(a))),
            condition: condition.map(|(op, a, b)| (op, operand(a), operand(b))),
        }
    })
}

/// A transaction: rows to delete from and to insert into each input.
type Change = [(Vec<[i64; 2]>, Vec<[i64; 2]>); 2];

fn any_change() -> impl Strategy<Value = Change> {
    let rows = || prop::collection::vec([0..4i64, 0..4i64], 0..4);
    [(rows(), rows()), (rows(), rows())]
}

// The results of the reference.

fn to_build(term: Term) -> T {
    match term {
        Term::Variable(n) => T::V(VARIABLES[n]),
        Term::Constant(n) => T::C(Value::Int(n)),
        Term::Any => T::Any,
    }
}

fn table_name(number: usize) -> &'static str {
    INPUTS.get(number).copied().unwrap_or_else(|| DERIVED[number - INPUTS.len()])
}

fn builder<'a>(rules: impl Iterator<Item = &'a Rule>, atoms_reversed: bool) -> Builder {
    let mut builder =
        INPUTS.iter().fold(Builder::default(), |builder, name| builder.input(name, &["a", "b"]));
    for (number, name) in DERIVED.iter().enumerate() {
        let key = (number == KEYED).then_some(&[0][..]);
        let role = if number == FORBIDDING { Role::Forbid } else { Role::Output };
        builder = builder.table(role, name, &["a", "b"], key);
    }
    for rule in rules {
        let call = |(op, a, b): (Operator, Term, Term)| T::Call(op.name(), vec![to_build(a), to_build(b)]);
        let mut body: Vec<B> = rule
            .atoms
            .iter()
            .map(|(table, terms)| B::Atom(table_name(*table), terms.map(to_build).to_vec()))
            .collect();
        if atoms_reversed {
            body.reverse();
        }
        body.extend(rule.binding.map(|binding| B::Let("v", call(binding))));
        body.extend(
            rule.on_binding.map(|(op, a)| B::Where(T::Call(op.name(), vec![to_build(a), T::V("v")]))),
        );
        body.extend(rule.condition.map(|condition| B::Where(call(condition))));
        let second = match rule.aggregate {
            Some(aggregate) => T::Agg(aggregate, vec![to_build(rule.second)]),
            None => to_build(rule.second),
        };
        builder = builder.rule(DERIVED[rule.head], &[to_build(rule.first), second], &body);
    }
    builder
}

fn line(change: &Change) -> String {
    let mut line = String::new();
    for (side, rows) in [("delete", [&change[0].0, &change[1].0]), ("insert", [&change[0].1, &change[1].1])] {
        let comma = if line.is_empty() { "{" } else { "," };
        write!(line, r#"{comma}"{side}":{{"in0":{:?},"in1":{:?}}}"#, rows[0], rows[1])
            .expect("a string takes all");
    }
    line.push('}');
    line
}

// The oracle.

/// An error: the table, whether it concerns rows and not an expression, the code (overflow before range), the message.
type Error = (usize, bool, &'static str, String);

fn evaluate(op: Operator, a: i64, b: i64) -> Result<i64, (&'static str, String)> {
    match op {
        Operator::Less => Ok(i64::from(a < b)),
        Operator::NotEqual => Ok(i64::from(a != b)),
        Operator::Divide if b == 0 => Err(("range", format!("{a} / 0: division by zero"))),
        Operator::Divide => Ok(a / b),
        Operator::Add => i64::try_from(i128::from(a) + i128::from(b))
            .map_err(|_| ("overflow", format!("{a} + {b} overflows int"))),
    }
}

fn oracle_rule(rule: &Rule, tables: &[Rows], errors: &mut Vec<Error>) -> Rows {
    let values: BTreeSet<i64> =
        rule.atoms.iter().flat_map(|(table, _)| tables[*table].iter().flatten().copied()).collect();
    let values: Vec<i64> = values.into_iter().collect();
    let used: BTreeSet<usize> = (rule.atoms.iter().flat_map(|(_, terms)| terms))
        .filter_map(|term| if let Term::Variable(n) = term { Some(*n) } else { None })
        .collect();
    let mut rows = Rows::new();
    let mut groups: BTreeMap<i64, BTreeSet<(Vec<i64>, i64)>> = BTreeMap::new();
    for number in 0..values.len().pow(used.len() as u32) {
        let mut assignment = [0; 4];
        let mut rest = number;
        for variable in &used {
            assignment[*variable] = values[rest % values.len()];
            rest /= values.len();
        }
        let value = |term: Term| match term {
            Term::Variable(n) => assignment[n],
            Term::Constant(n) => n,
            Term::Any => unreachable!("no operand"),
        };
        let holds = rule.atoms.iter().all(|(table, terms)| {
            tables[*table]
                .iter()
                .any(|row| terms.iter().zip(row).all(|(t, v)| *t == Term::Any || value(*t) == *v))
        });
        let condition = rule.condition.is_none_or(|(op, a, b)| evaluate(op, value(a), value(b)) == Ok(1));
        if !holds || !condition {
            continue;
        }
        match rule.binding.map(|(op, a, b)| evaluate(op, value(a), value(b))) {
            Some(Err((code, message))) => {
                errors.push((rule.head, false, code, message));
                continue;
            }
            Some(Ok(v)) if rule.on_binding.is_some_and(|(op, a)| evaluate(op, value(a), v) != Ok(1)) => {
                continue;
            }
            _ => {}
        }
        if rule.aggregate.is_none() {
            rows.insert([value(rule.first), value(rule.second)]);
        } else {
            let of_head = [rule.first, rule.second].map(value).to_vec();
            groups.entry(value(rule.first)).or_default().insert((of_head, value(rule.second)));
        }
    }
    for (group, tuples) in groups {
        let arguments = || tuples.iter().map(|(_, argument)| *argument);
        let total: i128 = arguments().map(i128::from).sum();
        let constant = matches!(rule.second, Term::Constant(_));
        let result = match rule.aggregate {
            // A constant is no variable: one tuple.
            Some(Aggregate::Count) if constant => Some(1),
            Some(Aggregate::Count) => i64::try_from(tuples.len()).ok(),
            Some(Aggregate::Min) => arguments().min(),
            Some(Aggregate::Max) => arguments().max(),
            _ => i64::try_from(total).ok(),
        };
        match result {
            Some(result) => {
                rows.insert([group, result]);
            }
            None => {
                errors.push((rule.head, false, "overflow", format!("sum: {total} overflows int")));
            }
        }
    }
    rows
}

/// All tables, or the message of the refusal.
fn oracle(rules: &[Rule], inputs: &[Rows]) -> Result<Vec<Rows>, String> {
    let mut tables = inputs.to_vec();
    let mut errors = Vec::new();
    for (head, name) in DERIVED.iter().enumerate() {
        let mut rows = Rows::new();
        for rule in rules.iter().filter(|rule| rule.head == head) {
            rows.extend(oracle_rule(rule, &tables, &mut errors));
        }
        if head == KEYED {
            let conflict = rows.iter().zip(rows.iter().skip(1)).find(|(a, b)| a[0] == b[0]);
            errors.extend(conflict.map(|([k, a], [_, b])| {
                let message = format!(
                    "the rules derive two rows with the same key (a: {k}): b is {a} in one and {b} in the other"
                );
                (head, true, "key-conflict", message)
            }));
        }
        if let Some([a, b]) = rows.first().filter(|_| head == FORBIDDING) {
            let others = match rows.len() - 1 {
                0 => String::new(),
                1 => " and 1 more row".to_owned(),
                others => format!(" and {others} more rows"),
            };
            errors.push((head, true, "forbidden", format!("{name} forbids {name}(a: {a}, b: {b}){others}")));
        }
        assert_eq!(table_name(tables.len()), *name);
        tables.push(rows);
    }
    match errors.into_iter().min() {
        None => Ok(tables),
        Some((_, _, "forbidden", message)) => Err(format!("forbidden: table {message}")),
        Some((head, _, code, message)) => Err(format!("{code}: table {}: {message}", DERIVED[head])),
    }
}

fn rows_of(run: &mut Run, table: &str) -> Rows {
    let pair = |row: &Row| match row.as_slice() {
        [Value::Int(a), Value::Int(b)] => [*a, *b],
        other => panic!("{other:?}"),
    };
    run.rows(table).iter().map(pair).collect()
}

/// Applies deltas to tables, as a reader of the output would.
fn apply(tables: &mut BTreeMap<TableId, BTreeSet<Row>>, delta: &Delta) {
    for (id, changes) in &delta.tables {
        let rows = tables.entry(*id).or_default();
        for row in &changes.delete {
            assert!(rows.remove(row), "{row:?} is deleted but was not there");
        }
        for row in &changes.insert {
            assert!(rows.insert(row.clone()), "{row:?} is inserted but was there");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_reference_agrees_with_trying_every_assignment(
        rules in prop::collection::vec(any_rule(), 1..6),
        changes in prop::collection::vec(any_change(), 1..6),
    ) {
        let mut run = builder(rules.iter(), false).run_with(Tables::All);
        let mut turned = builder(rules.iter().rev(), true).run_with(Tables::All);
        let mut inputs = vec![Rows::new(); 2];
        let mut read: BTreeMap<TableId, BTreeSet<Row>> = BTreeMap::new();
        for change in &changes {
            let mut after = inputs.clone();
            for (rows, (delete, insert)) in after.iter_mut().zip(change) {
                rows.retain(|row| !delete.contains(row));
                rows.extend(insert);
            }
            let said = run.commit(&line(change));
            // Nothing depends on the order of rules and atoms, not even messages.
            prop_assert_eq!(
                said.clone().map_err(|error| error.to_string()),
                turned.commit(&line(change)).map_err(|error| error.to_string())
            );
            match (oracle(&rules, &after), said) {
                (Ok(tables), Ok(committed)) => {
                    apply(&mut read, &committed.delta);
                    inputs = after;
                    for (number, rows) in tables.iter().enumerate() {
                        prop_assert_eq!(&rows_of(&mut run, table_name(number)), rows, "{}", table_name(number));
                    }
                }
                (Err(expected), Err(error)) => {
                    prop_assert_eq!(error.to_string(), expected);
                    prop_assert_eq!(&rows_of(&mut run, "in0"), &inputs[0]);
                }
                (expected, said) => prop_assert!(false, "{expected:?} expected, {said:?} found"),
            }
            // Deltas add up to contents.
            let schema = run.0.schema().clone();
            for (id, table) in schema.iter() {
                let rows: BTreeSet<_> = run.rows(&table.name).into_iter().collect();
                prop_assert_eq!(read.get(&id).cloned().unwrap_or_default(), rows);
            }
        }
    }

    #[test]
    fn rows_on_demand_are_those_of_the_whole_tables(
        rules in prop::collection::vec(any_rule(), 1..6),
        changes in prop::collection::vec(any_change(), 1..4),
        turns in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let mut run = builder(rules.iter(), false).run_with(Tables::All);
        for change in &changes {
            // Whether it is refused does not matter here.
            let _said = run.commit(&line(change));
        }
        let run = run.0;
        let asked = DERIVED.iter().chain(&INPUTS).filter_map(|name| run.schema().find(name));
        let asked: Vec<Pattern> = asked.flat_map(patterns).collect();
        // One state is asked many questions in some order, so later answers build on earlier ones.
        let state = run.on_demand();
        for pattern in turns.iter().map(|turn| turn.get(&asked)) {
            let whole: Vec<&Row> = run.rows(pattern.table).filter(|row| pattern.admits(row)).collect();
            prop_assert_eq!(&state.matching(pattern.table, &pattern.columns), &whole, "{:?}", pattern);
            for row in whole {
                let all = state.derivations(pattern.table, row, usize::MAX);
                prop_assert!(!all.is_empty() || run.schema().table(pattern.table).role == Role::Input);
                let first = state.derivations(pattern.table, row, 1);
                prop_assert_eq!(first.len(), all.len());
                for (first, all) in first.iter().zip(&all) {
                    prop_assert_eq!(&first.bodies[..], &all.bodies[..1]);
                    prop_assert_eq!(first.more, all.bodies.len() > 1);
                    prop_assert!(all.bodies.is_sorted());
                }
            }
        }
    }

    #[test]
    fn a_rule_has_an_obstacle_if_it_derives_no_such_row(
        rules in prop::collection::vec(any_rule(), 1..6),
        changes in prop::collection::vec(any_change(), 1..4),
    ) {
        let mut run = builder(rules.iter(), false).run_with(Tables::All);
        for change in &changes {
            // Whether it is refused does not matter here.
            let _said = run.commit(&line(change));
        }
        let run = run.0;
        let state = run.on_demand();
        for name in DERIVED {
            let Some(table) = run.schema().find(name) else { continue };
            for pattern in patterns(table) {
                let like = run.rows(table).filter(|row| pattern.admits(row));
                let deriving: BTreeSet<RuleId> =
                    like.flat_map(|row| state.derivations(table, row, usize::MAX)).map(|way| way.rule).collect();
                let answer = state.why_not(&pattern);
                for obstacle in &answer.obstacles {
                    let derives = deriving.contains(&obstacle.rule);
                    prop_assert_eq!(obstacle.kind == ObstacleKind::None, derives, "{:?}: {:?}", pattern, obstacle);
                }
                prop_assert!(answer.unfit.iter().all(|rule| !deriving.contains(rule)));
                let known = answer.obstacles.len() + answer.unfit.len();
                prop_assert_eq!(known, run.program().rules_of(table).count());
            }
        }
    }
}

/// Every pattern of two columns.
fn patterns(table: TableId) -> Vec<Pattern> {
    let values: Vec<Option<Value>> = [None].into_iter().chain((-1..4).map(|n| Some(Value::Int(n)))).collect();
    let pairs = values.iter().flat_map(|a| values.iter().map(move |b| vec![a.clone(), b.clone()]));
    pairs.map(|columns| Pattern { table, columns }).collect()
}

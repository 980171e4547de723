//! Random programs and histories, as text and rows, so that a failing case can be read, cut down and kept.

use std::fmt;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{Role, Row, Transaction, Value};

use super::Random;

/// A program and what happens to it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    declarations: Vec<Declaration>,
    rules: Vec<Rule>,
    history: Vec<Vec<Change>>,
}

#[derive(Debug, Clone)]
struct Declaration {
    name: String,
    role: Role,
    columns: Vec<Type>,
    key: Option<Vec<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    String,
    IntSet,
    IntList,
}

#[derive(Debug, Clone)]
struct Rule {
    head: String,
    body: Vec<String>,
}

#[derive(Debug, Clone)]
struct Change {
    table: String,
    insert: bool,
    /// Take away first whatever has the row's key.
    replace: bool,
    row: Row,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Type::Int => "int",
            Type::String => "string",
            Type::IntSet => "set<int>",
            Type::IntList => "list<int>",
        }
    }
}

const TEXTS: [&str; 4] = ["a", "b", "1", ""];
/// Mostly small, some at the limits of what fits into a symbol, some at those of 64 bits.
const INTEGERS: [i64; 12] = [0, 0, 1, 1, 2, 2, 3, 3, -1, 1 << 30, i64::MAX, i64::MIN];

impl Case {
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut case = Case { declarations: Vec::new(), rules: Vec::new(), history: Vec::new() };
        let inputs = 1 + random.below(4);
        for number in 0..inputs {
            let wide = random.chance(8);
            let columns = if wide { 8 + random.below(3) } else { 1 + random.below(3) };
            let types =
                (0..columns).map(|_| if random.chance(70) { Type::Int } else { Type::String }).collect();
            case.declare(&mut random, format!("i{number}"), Role::Input, types, 40);
        }
        for number in 0..=random.below(5) {
            case.derive(&mut random, number);
        }
        for _ in 0..4 + random.below(12) {
            let changes = (0..random.below(7)).map(|_| case.change(&mut random)).collect();
            case.history.push(changes);
        }
        case
    }

    fn declare(&mut self, random: &mut Random, name: String, role: Role, columns: Vec<Type>, keyed: u64) {
        let key = random.chance(keyed).then(|| {
            let mut key: Vec<usize> = (0..columns.len()).filter(|_| random.chance(50)).collect();
            if key.is_empty() {
                key.push(random.below(columns.len() as u64) as usize);
            }
            key
        });
        self.declarations.push(Declaration { name, role, columns, key });
    }

    /// A derived table and its rules.
    fn derive(&mut self, random: &mut Random, number: u64) {
        let role = if random.chance(50) { Role::Output } else { Role::Internal };
        let columns = if random.chance(10) { 5 + random.below(6) } else { 1 + random.below(3) };
        let types: Vec<Type> = (0..columns)
            .map(|_| match random.below(20) {
                0..12 => Type::Int,
                12..18 => Type::String,
                18 => Type::IntSet,
                _ => Type::IntList,
            })
            .collect();
        let rules = if random.chance(60) { 1 } else { 2 + random.below(2) };
        let readable = self.declarations.len();
        let name = format!("d{number}");
        for _ in 0..rules {
            let rule = Writer::new(random, &self.declarations[..readable]).rule(&name, &types);
            self.rules.push(rule);
        }
        self.declare(random, name, role, types, 25);
    }

    fn change(&self, random: &mut Random) -> Change {
        let inputs: Vec<&Declaration> =
            self.declarations.iter().filter(|declaration| declaration.role == Role::Input).collect();
        let table = *random.pick(&inputs);
        let row = table
            .columns
            .iter()
            .map(|ty| match ty {
                Type::String => Value::String((*random.pick(&TEXTS)).into()),
                _ => Value::Int(*random.pick(&INTEGERS)),
            })
            .collect();
        Change { table: table.name.clone(), insert: random.chance(70), replace: random.chance(60), row }
    }

    /// The program's text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Declaration { name, role, columns, key } in &self.declarations {
            let role = match role {
                Role::Input => "input ",
                Role::Internal | Role::Hidden => "",
                Role::Output => "output ",
            };
            let columns: Vec<String> =
                columns.iter().enumerate().map(|(at, ty)| format!("c{at}: {}", ty.name())).collect();
            let key: Option<Vec<String>> =
                key.as_ref().map(|key| key.iter().map(|column| format!("c{column}")).collect());
            let key = key.map_or(String::new(), |key| format!(" key({})", key.join(", ")));
            text += &format!("{role}table {name}({}){key};\n", columns.join(", "));
        }
        for Rule { head, body } in &self.rules {
            let body = if body.is_empty() { String::new() } else { format!(" :- {}", body.join(", ")) };
            text += &format!("{head}{body};\n");
        }
        text
    }

    /// The program, if it compiles: cut-down ones may not.
    pub(crate) fn compile(&self) -> Option<Arc<Program>> {
        nlog::compile(&nlog::Sources::from_texts([("case.nlog", self.text())])).program
    }

    pub(crate) fn steps(&self) -> usize {
        self.history.len()
    }

    /// A step's transaction, given how to find the rows of a table.
    pub(crate) fn transaction(
        &self,
        step: usize,
        program: &Program,
        rows: &mut dyn FnMut(nlog_data::TableId) -> Vec<Row>,
    ) -> Transaction {
        let mut transaction = Transaction::default();
        for Change { table, insert, replace, row } in &self.history[step] {
            let Some(id) = program.schema.find(table) else { continue };
            if !insert {
                transaction.delete.entry(id).or_default().push(row.clone());
                continue;
            }
            if let (true, Some(key)) = (*replace, program.schema.table(id).key_of(row)) {
                let same_key = |other: &Row| program.schema.table(id).key_of(other).as_ref() == Some(&key);
                let there = rows(id).into_iter().filter(same_key);
                transaction.delete.entry(id).or_default().extend(there);
                let inserts = transaction.insert.entry(id).or_default();
                inserts.retain(|other| !same_key(other));
            }
            transaction.insert.entry(id).or_default().push(row.clone());
        }
        transaction
    }

    /// Cases that are a little smaller.
    fn smaller(&self) -> Vec<Case> {
        let mut smaller = Vec::new();
        let mut add = |change: &dyn Fn(&mut Case)| {
            let mut case = self.clone();
            change(&mut case);
            smaller.push(case);
        };
        for size in [8, 4, 2, 1] {
            for at in (0..self.history.len()).step_by(size) {
                add(&|case| {
                    case.history.drain(at..(at + size).min(case.history.len()));
                });
            }
        }
        for at in 0..self.rules.len() {
            add(&|case| {
                case.rules.remove(at);
            });
            for item in 0..self.rules[at].body.len() {
                add(&|case| {
                    case.rules[at].body.remove(item);
                });
            }
        }
        for at in 0..self.declarations.len() {
            add(&|case| {
                case.declarations.remove(at);
            });
            add(&|case| case.declarations[at].key = None);
        }
        for at in 0..self.history.len() {
            for change in 0..self.history[at].len() {
                add(&|case| {
                    case.history[at].remove(change);
                });
            }
        }
        smaller
    }

    /// The smallest case found that still fails.
    pub(crate) fn shrink(self, fails: &dyn Fn(&Case) -> bool) -> Case {
        let mut case = self;
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while let Some(smaller) = case.smaller().into_iter().find(|smaller| fails(smaller)) {
            case = smaller;
            if std::time::Instant::now() > deadline {
                break;
            }
        }
        case
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())?;
        for (at, step) in self.history.iter().enumerate() {
            writeln!(f, "step {at}:")?;
            for Change { table, insert, replace, row } in step {
                let what = if *insert { "insert" } else { "delete" };
                let replace = if *insert && *replace { " (replacing)" } else { "" };
                writeln!(f, "  {what}{replace} {table} {row:?}")?;
            }
        }
        Ok(())
    }
}

/// Writes a rule.
struct Writer<'a> {
    random: &'a mut Random,
    tables: &'a [Declaration],
    bound: Vec<(String, Type)>,
    /// How many names were made up.
    names: usize,
}

impl<'a> Writer<'a> {
    fn new(random: &'a mut Random, tables: &'a [Declaration]) -> Self {
        Writer { random, tables, bound: Vec::new(), names: 0 }
    }

    fn rule(mut self, head: &str, columns: &[Type]) -> Rule {
        let mut body = Vec::new();
        let atoms = [0, 1, 1, 1, 2, 2, 2, 3, 3, 4][self.random.below(10) as usize];
        for _ in 0..atoms {
            body.push(self.atom());
        }
        for _ in 0..[0, 0, 1, 1, 2, 3][self.random.below(6) as usize] {
            body.push(self.item());
        }
        // The order of a body means nothing: let it say nothing.
        for at in (1..body.len()).rev() {
            let other = self.random.below(at as u64 + 1) as usize;
            body.swap(at, other);
        }
        let aggregates = !self.bound.is_empty() && self.random.chance(25);
        let terms: Vec<String> = columns.iter().map(|ty| self.head_term(*ty, aggregates)).collect();
        Rule { head: format!("{head}({})", terms.join(", ")), body }
    }

    fn atom(&mut self) -> String {
        let table = self.random.pick(self.tables).clone();
        let mut terms = Vec::new();
        // Expressions over variables of other atoms, not of this one, which would be a mere filter.
        let others = self.bound.clone();
        for ty in &table.columns {
            let term = match self.random.below(100) {
                0..12 => "_".to_owned(),
                12..20 => self.constant(*ty).unwrap_or_else(|| "_".to_owned()),
                20..30 if *ty == Type::Int => self.integer_over(&others),
                30..70 => match self.variable(*ty) {
                    Some(variable) => variable,
                    None => self.fresh(*ty),
                },
                _ => self.fresh(*ty),
            };
            terms.push(term);
        }
        format!("{}({})", table.name, terms.join(", "))
    }

    fn item(&mut self) -> String {
        match self.random.below(12) {
            0..3 => {
                let left = self.integer();
                let name = self.fresh(Type::Int);
                format!("{name} = {left}")
            }
            3 => match self.variable(Type::String) {
                Some(text) => {
                    let name = self.fresh(Type::Int);
                    format!("{name} = parse_int({text})")
                }
                None => "1 == 1".to_owned(),
            },
            4 => {
                let (a, b) = (self.text(), self.text());
                let name = self.fresh(Type::String);
                format!("{name} = {a} ++ {b}")
            }
            5 => match self.variable(Type::IntSet) {
                Some(set) => {
                    let name = self.fresh(Type::Int);
                    format!("element({set}, {name})")
                }
                None => "0 <= 1".to_owned(),
            },
            6 => match self.variable(Type::IntList) {
                Some(list) => {
                    let (rank, name) = (self.fresh(Type::Int), self.fresh(Type::Int));
                    format!("element_at({list}, {rank}, {name})")
                }
                None => "2 > 1".to_owned(),
            },
            7 => {
                let (a, b) = (self.text(), self.text());
                format!("{a} {} {b}", self.random.pick(&["!=", "<=", "=="]))
            }
            _ => {
                let (a, b) = (self.integer(), self.integer());
                format!("{a} {} {b}", self.random.pick(&["==", "!=", "<", "<=", ">", "==", "=="]))
            }
        }
    }

    fn head_term(&mut self, ty: Type, aggregates: bool) -> String {
        if aggregates && self.random.chance(60) {
            let any = self.bound.clone();
            let (other, _) = self.random.pick(&any).clone();
            let integer = self.integer();
            return match ty {
                Type::Int => match self.random.below(7) {
                    0 => "count()".to_owned(),
                    1 => format!("count({other})"),
                    2 => format!("min({integer})"),
                    3 => format!("max({integer})"),
                    4 => format!("sum({integer})"),
                    5 => format!("sum({integer}, {other})"),
                    _ => format!("arg_{}({other}, {integer})", self.random.pick(&["min", "max"])),
                },
                Type::String => match self.variable(Type::String) {
                    Some(text) => format!("arg_{}({other}, {text})", self.random.pick(&["min", "max"])),
                    None => "\"\"".to_owned(),
                },
                Type::IntSet => format!("set({integer})"),
                Type::IntList => format!("list({integer})"),
            };
        }
        match ty {
            Type::Int if self.random.chance(25) => self.integer(),
            Type::String if self.random.chance(15) => self.text() + " ++ " + &self.text(),
            _ => match (self.variable(ty), ty) {
                (Some(variable), _) => variable,
                (None, Type::Int) => self.integer(),
                (None, Type::String) => self.text(),
                (None, Type::IntSet) => format!("set({})", self.integer()),
                (None, Type::IntList) => format!("list({})", self.integer()),
            },
        }
    }

    fn fresh(&mut self, ty: Type) -> String {
        self.names += 1;
        let name = format!("v{}", self.names);
        self.bound.push((name.clone(), ty));
        name
    }

    fn variable(&mut self, ty: Type) -> Option<String> {
        let fit: Vec<String> =
            self.bound.iter().filter(|(_, of)| *of == ty).map(|(name, _)| name.clone()).collect();
        (!fit.is_empty()).then(|| self.random.pick(&fit).clone())
    }

    fn constant(&mut self, ty: Type) -> Option<String> {
        match ty {
            Type::Int => Some(self.random.pick(&INTEGERS[..9]).to_string()),
            Type::String => Some(format!("{:?}", self.random.pick(&TEXTS))),
            Type::IntSet | Type::IntList => None,
        }
    }

    fn integer(&mut self) -> String {
        let bound = self.bound.clone();
        self.integer_over(&bound)
    }

    fn integer_over(&mut self, bound: &[(String, Type)]) -> String {
        let fit: Vec<&String> =
            bound.iter().filter(|(_, ty)| *ty == Type::Int).map(|(name, _)| name).collect();
        let operand = |random: &mut Random| {
            if fit.is_empty() || random.chance(15) {
                random.pick(&INTEGERS[..9]).to_string()
            } else {
                (*random.pick(&fit)).clone()
            }
        };
        let (a, b) = (operand(self.random), operand(self.random));
        match self.random.below(12) {
            0..4 => a,
            4..6 => format!("{a} + {b}"),
            6 => format!("({a} - {b})"),
            7 => format!("({a} / {b})"),
            8 => format!("({a} * {b})"),
            9 => format!("({a} ^ {b})"),
            10 => format!("(if {a} < {b} then {b} - {a} else {b})"),
            _ => format!("max_of({a}, {b})"),
        }
    }

    fn text(&mut self) -> String {
        match self.variable(Type::String) {
            Some(variable) if self.random.chance(80) => variable,
            _ => format!("{:?}", self.random.pick(&TEXTS)),
        }
    }
}

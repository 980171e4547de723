//! Random programs and histories, as text and rows, so that a failing case can be read, shrunk and kept.

mod domain;
pub(crate) mod products;
mod writer;

use std::fmt;
use std::sync::Arc;

use nlog::{Program, Sources};
use nlog_data::{Role, Row, Transaction, Type, Value};

use super::Random;
use domain::value;
use writer::{Vocabulary, Wish, Writer};

/// The sign by which a feature of the language is recognised, and its name.
const SIGNS: [(&str, &str); 13] = [
    ("default ", "defaults"),
    ("= enum", "enumerations"),
    ("= record", "records"),
    ("opt<", "optional values"),
    ("function ", "functions"),
    ("match{", "match literals"),
    ("actions[", "actions literals"),
    ("(c0:", "named terms"),
    ("const ", "constants"),
    ("= int;", "aliases"),
    ("forbid ", "forbidding tables"),
    ("= int -4..", "constrained types"),
    (" unique(", "unique columns"),
];

/// The features of the language that [`Case::features`] recognises.
pub(crate) const FEATURES: [&str; SIGNS.len()] = {
    let mut names = [""; SIGNS.len()];
    let mut at = 0;
    while at < SIGNS.len() {
        names[at] = SIGNS[at].1;
        at += 1;
    }
    names
};

/// A program and its history of transactions.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Types, constants and functions.
    words: Vec<String>,
    declarations: Vec<Declaration>,
    rules: Vec<Rule>,
    history: Vec<Vec<Change>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Declaration {
    name: String,
    role: Role,
    columns: Vec<Type>,
    /// The columns' types, as the program names them.
    types: Vec<String>,
    key: Option<Vec<usize>>,
    uniques: Vec<Vec<usize>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Rule {
    default: bool,
    head: String,
    body: Vec<String>,
}

#[derive(Debug, Clone)]
struct Change {
    table: String,
    insert: bool,
    /// Whether to delete the row with the same key first.
    replace: bool,
    row: Row,
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Input => "input ",
            Role::Internal | Role::Hidden => "",
            Role::Output => "output ",
            Role::Forbid => "forbid ",
        };
        let columns: Vec<String> =
            self.types.iter().enumerate().map(|(at, ty)| format!("c{at}: {ty}")).collect();
        write!(f, "{role}table {}({})", self.name, columns.join(", "))?;
        let uniques = self.uniques.iter().map(|columns| ("unique", columns));
        for (word, columns) in self.key.iter().map(|key| ("key", key)).chain(uniques) {
            let names: Vec<String> = columns.iter().map(|column| format!("c{column}")).collect();
            write!(f, " {word}({})", names.join(", "))?;
        }
        f.write_str(";")
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = if self.default { "default " } else { "" };
        let body = if self.body.is_empty() { String::new() } else { format!(" :- {}", self.body.join(", ")) };
        write!(f, "{default}{}{body};", self.head)
    }
}

impl Case {
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (known, words) = Vocabulary::random(&mut random);
        let mut case = Case { words, declarations: Vec::new(), rules: Vec::new(), history: Vec::new() };
        let inputs = 1 + random.below(4);
        for number in 0..inputs {
            let wide = random.chance(8);
            let columns = if wide { 5 + random.below(8) } else { 1 + random.below(3) };
            let columns = (0..columns).map(|_| known.types.column(&mut random)).collect();
            let key = random.chance(40);
            let table = declaration(&mut random, &known, format!("i{number}"), Role::Input, columns, key);
            case.declarations.push(table);
        }
        let chain = random.chance(10);
        let derived = if chain { 6 + random.below(5) } else { 1 + random.below(5) };
        for number in 0..derived {
            // An internal table that perhaps only the next one reads.
            let link = case.declarations.last().is_some_and(|last| last.role == Role::Internal);
            let uses =
                (number > 0 && (chain || link && random.chance(40))).then(|| case.declarations.len() - 1);
            case.derive(&mut random, &known, number, uses);
        }
        for _ in 0..4 + random.below(12) {
            let changes = (0..random.below(7)).map(|_| case.change(&mut random)).collect();
            case.history.push(changes);
        }
        for _ in 0..random.below(3) {
            let changes = case.provocation(&mut random);
            let at = random.below(case.history.len() as u64) as usize;
            case.history[at].extend(changes);
        }
        for number in 0..[0, 0, 0, 1, 1, 2][random.below(6) as usize] {
            case.forbid(&mut random, &known, number);
        }
        case
    }

    /// Adds a table that forbids its rows. No rule reads it.
    fn forbid(&mut self, random: &mut Random, known: &Vocabulary, number: u64) {
        let columns = if random.chance(10) { 5 + random.below(8) } else { 1 + random.below(3) };
        let columns = (0..columns).map(|_| known.types.column(random)).collect();
        let key = random.chance(10);
        let table = declaration(random, known, format!("f{number}"), Role::Forbid, columns, key);
        let readable: Vec<Declaration> =
            self.declarations.iter().filter(|table| table.role != Role::Forbid).cloned().collect();
        for _ in 0..=random.below(2) {
            let uses = Some(random.below(readable.len() as u64) as usize);
            let wish = Wish { uses, ..Wish::default() };
            let rules = (0..2).map(|_| Writer::new(random, known).rule(&table, &readable, &wish));
            // A rule that any row satisfies would refuse nearly every transaction.
            self.rules.extend(rules.max_by_key(|rule| rule.body.len()));
        }
        self.declarations.push(table);
    }

    /// Changes that are likely to be refused: two rows with one key, or integers at the limits of their range.
    fn provocation(&self, random: &mut Random) -> Vec<Change> {
        let first = self.change(random);
        let Some(table) = self.declarations.iter().find(|table| table.name == first.table) else {
            return Vec::new();
        };
        let mut row = first.row.clone();
        let keys: Vec<&Vec<usize>> = table.key.iter().chain(&table.uniques).collect();
        if !keys.is_empty() && random.chance(50) {
            let key = random.pick(&keys);
            for (column, ty) in table.columns.iter().enumerate().filter(|(at, _)| !key.contains(at)) {
                row[column] = value(random, ty);
            }
            let second = Change { row, insert: true, replace: false, ..first.clone() };
            return vec![Change { insert: true, ..first }, second];
        }
        for (cell, _) in row.iter_mut().zip(&table.columns).filter(|(_, ty)| **ty == Type::Int) {
            *cell = Value::Int(*random.pick(&[i64::MAX, i64::MIN]));
        }
        vec![Change { row, insert: true, replace: true, ..first }]
    }

    /// Adds a derived table and its rules. `uses` is a table that the first rule must read.
    fn derive(&mut self, random: &mut Random, known: &Vocabulary, number: u64, uses: Option<usize>) {
        // A link has one rule that derives plain rows, so the planner may inline it.
        let link = random.chance(15);
        let role = if !link && random.chance(50) { Role::Output } else { Role::Internal };
        let columns = if random.chance(10) { 5 + random.below(8) } else { 1 + random.below(3) };
        let columns = (0..columns).map(|_| known.types.column(random)).collect();
        let defaults = !link && random.chance(30);
        let key = !link && (defaults || random.chance(20));
        let table = declaration(random, known, format!("d{number}"), role, columns, key);
        let rules = if defaults {
            2 + random.below(2)
        } else if link || random.chance(60) {
            1
        } else {
            2 + random.below(2)
        };
        let mut wish = Wish { no_aggregates: link, uses, ..Wish::default() };
        if defaults {
            wish.plain = table.key.clone().unwrap_or_default();
        }
        // Rules whose rows never share a key, because each rule has its own constant in one key column.
        let told_apart = (table.key.iter().flatten().copied())
            .find(|column| table.columns[*column] == Type::Int)
            .filter(|_| !defaults && random.chance(50));
        for number in 0..rules {
            wish.constant = told_apart.map(|column| (column, number as i64));
            let rule = Writer::new(random, known).rule(&table, &self.declarations, &wish);
            wish.uses = None;
            // Mostly one rule of each kind, because rows that share a key refuse the transaction.
            let default = defaults && (number == 0 || (number > 1 && random.chance(50)));
            self.rules.push(Rule { default, ..rule });
        }
        self.declarations.push(table);
    }

    fn change(&self, random: &mut Random) -> Change {
        let inputs: Vec<&Declaration> =
            self.declarations.iter().filter(|declaration| declaration.role == Role::Input).collect();
        let table = *random.pick(&inputs);
        let row = table.columns.iter().map(|ty| value(random, ty)).collect();
        Change { table: table.name.clone(), insert: random.chance(70), replace: random.chance(60), row }
    }

    /// The program's text.
    pub(crate) fn text(&self) -> String {
        self.statements().map(|statement| statement + "\n").collect()
    }

    fn statements(&self) -> impl Iterator<Item = String> + '_ {
        let declarations = self.declarations.iter().map(ToString::to_string);
        let rules = self.rules.iter().map(ToString::to_string);
        self.words.iter().cloned().chain(declarations).chain(rules)
    }

    /// Compiles the same program with another order of rules and atoms, in several files.
    pub(crate) fn compile_in_another_order(&self, random: &mut Random) -> Option<Arc<Program>> {
        let mut other = self.clone();
        for rule in &mut other.rules {
            random.shuffle(&mut rule.body);
        }
        let mut statements: Vec<String> = other.statements().collect();
        random.shuffle(&mut statements);
        let mut files = vec![String::new(); 1 + random.below(3) as usize];
        for statement in statements {
            let file = random.below(files.len() as u64) as usize;
            files[file] += &(statement + "\n");
        }
        let named = files.into_iter().zip(["z", "a", "m"]).map(|(text, name)| (format!("{name}.nlog"), text));
        nlog::compile(&Sources::from_texts(named.collect::<Vec<_>>())).program
    }

    /// The errors of the program, if it does not compile.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let sources = Sources::from_texts([("case.nlog", self.text())]);
        let diagnostics = nlog::compile(&sources).diagnostics.into_iter();
        let errors = diagnostics.filter(|diagnostic| diagnostic.severity == nlog::Severity::Error);
        let text = self.text();
        let line = |line: u32| text.lines().nth(line as usize - 1).unwrap_or_default();
        errors.map(|error| format!("{error}\n    {}", line(error.line))).collect()
    }

    /// The features of the language that the program has, for a tally.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        let text = self.text();
        SIGNS.into_iter().filter(|(sign, _)| text.contains(sign)).map(|(_, name)| name).collect()
    }

    /// The program, if it compiles. Shrunk programs may not.
    pub(crate) fn compile(&self) -> Option<Arc<Program>> {
        nlog::compile(&nlog::Sources::from_texts([("case.nlog", self.text())])).program
    }

    pub(crate) fn steps(&self) -> usize {
        self.history.len()
    }

    /// The transaction of a step. `rows` returns the rows of a table.
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
            let keys: Vec<&[usize]> = program.schema.table(id).keys().collect();
            if *replace && !keys.is_empty() {
                let same =
                    |other: &Row, key: &[usize]| key.iter().all(|column| other[*column] == row[*column]);
                let same_key = |other: &Row| keys.iter().any(|key| same(other, key));
                let there = rows(id).into_iter().filter(same_key);
                transaction.delete.entry(id).or_default().extend(there);
                let inserts = transaction.insert.entry(id).or_default();
                inserts.retain(|other| !same_key(other));
            }
            transaction.insert.entry(id).or_default().push(row.clone());
        }
        transaction
    }

    /// Cases that are slightly smaller.
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
        for at in 0..self.words.len() {
            add(&|case| {
                case.words.remove(at);
            });
        }
        for at in 0..self.rules.len() {
            add(&|case| {
                case.rules.remove(at);
            });
            if self.rules[at].default {
                add(&|case| case.rules[at].default = false);
            }
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
            if self.declarations[at].key.is_some() {
                add(&|case| case.declarations[at].key = None);
            }
            for unique in 0..self.declarations[at].uniques.len() {
                add(&|case| {
                    case.declarations[at].uniques.remove(unique);
                });
            }
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

fn declaration(
    random: &mut Random,
    known: &Vocabulary,
    name: String,
    role: Role,
    columns: Vec<Type>,
    keyed: bool,
) -> Declaration {
    let key = keyed.then(|| {
        let mut key: Vec<usize> = (0..columns.len()).filter(|_| random.chance(50)).collect();
        if key.is_empty() {
            key.push(random.below(columns.len() as u64) as usize);
        }
        key
    });
    let uniques = uniques(random, key.as_ref(), columns.len());
    let types = columns.iter().map(|ty| known.types.name(random, ty)).collect();
    Declaration { name, role, columns, types, key, uniques }
}

/// Columns that are unique besides the key, or without one.
fn uniques(random: &mut Random, key: Option<&Vec<usize>>, width: usize) -> Vec<Vec<usize>> {
    let whole = (0..width).collect();
    let mut known: Vec<Vec<usize>> = vec![key.cloned().unwrap_or(whole)];
    // Few tables, because rows that share these columns refuse the transaction.
    let count = if random.chance(12) { 1 + random.below(2) } else { 0 };
    for _ in 0..count {
        let unique: Vec<usize> = (0..width).filter(|_| random.chance(60)).collect();
        let implies = |some: &[usize], other: &[usize]| some.iter().all(|column| other.contains(column));
        let of_key = implies(&known[0], &unique);
        let of_others = known[1..].iter().any(|other| implies(other, &unique) || implies(&unique, other));
        if !unique.is_empty() && !of_key && !of_others {
            known.push(unique);
        }
    }
    known.split_off(1)
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

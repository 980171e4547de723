//! Defaults: rows that hold unless an ordinary rule overrides them.
//!
//! [`crate::program::Rule`] defines their meaning. This module converts them to ordinary rules over hidden tables,
//! so that planner and evaluators need no support for them. The names of these tables contain a dot, which no name
//! of the source does. From
//!
//! ```text
//! table t(k: int, v: int) key(k);
//!         t(k, v)    :- a(k, v);
//! default t(k, x+1)  :- b(k, x);
//! ```
//!
//! the following rules result (`N` is the default's fingerprint):
//!
//! ```text
//! t(k, v)            :- a(k, v);
//! t.default.N(k, x)  :- b(k, x);
//! t.has(k, 1)        :- a(k, v);
//! t.has(k, 0)        :- t.default.N(k, x);
//! t.level(k, max(l)) :- t.has(k, l);
//! t(k, x+1)          :- t.default.N(k, x), t.level(k, 0);
//! ```
//!
//! A constraint on the type of `v` is a condition of the last rule.
//!
//! The rules for `t` keep their fingerprints, so that rows are attributed to the rules that the user wrote.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::function::{Multiplicity, hash_values};
use nlog_data::{Column, Role, Table, TableId, Type, Value};

use super::declarations::{Columns, Declarations};
use super::{aggregate, constraints};
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Aggregate, BodyItem, Expr, HeadTerm, Rule, Term, Variable, VariableId};
use crate::syntax::ast::{self, Argument, ExprKind};

/// Reports defaults of tables without a key, and aggregates in the key columns of tables with defaults.
pub(super) fn check(files: &[&ast::File], declarations: &Declarations<'_>, reports: &mut Reports) {
    let rules = || files.iter().flat_map(|file| &file.rules);
    let table_of = |rule: &ast::Rule| declarations.table(&rule.head.name.name);
    let mut with_defaults = BTreeSet::new();
    for rule in rules() {
        let (Some(word), Some(table)) = (rule.default, table_of(rule)) else { continue };
        let declared = &declarations.tables[table];
        // For an input table, this report would name the wrong mistake.
        if declared.role == Role::Input || declared.columns.is_none() {
            continue;
        }
        if declared.key.is_some() {
            with_defaults.insert(table);
            continue;
        }
        let name = &declared.name.name;
        let message = format!("table `{name}` has defaults but no key: a default is overridden by key");
        let help = format!(
            "declare a key, as in table {name}(…) key(…); a default row holds unless an ordinary rule \
            derives a row with its key"
        );
        let report = Report::new(Code::DefaultWithoutKey, word, message, help);
        reports.push(report.label(declared.name.span, "declared here"));
    }
    for rule in rules() {
        let Some(table) = table_of(rule).filter(|table| with_defaults.contains(table)) else { continue };
        let declared = &declarations.tables[table];
        let (Some(columns), Some(key)) = (&declared.columns, &declared.key) else { continue };
        for &column in key {
            let Some(argument) = argument_of(rule, columns, column) else { continue };
            if let ExprKind::Call(call) = &argument.value.kind
                && aggregate::by_name(&call.name.name).is_some()
            {
                let (name, column) = (&declared.name.name, &columns[column].name.name);
                let message = format!("aggregate in key column `{column}` of `{name}`, which has defaults");
                let help = "group by the key and aggregate in the other columns, or aggregate in another \
                table and read that";
                reports.push(Report::new(Code::DefaultKey, argument.value.span, message, help));
            }
        }
    }
}

/// A head's argument for a column, as far as it is known.
fn argument_of<'r>(rule: &'r ast::Rule, columns: &Columns<'_>, column: usize) -> Option<&'r Argument> {
    let arguments = &rule.head.arguments;
    if arguments.iter().all(|argument| argument.name.is_none()) {
        return arguments.get(column);
    }
    let name = &columns[column].name.name;
    arguments.iter().find(|argument| argument.name.as_ref().is_some_and(|own| own.name == *name))
}

/// A rule, and whether it is a default.
pub(super) struct Checked {
    pub(super) rule: Rule,
    pub(super) default: bool,
}

/// The parts of a program.
pub(super) struct Parts {
    /// All tables in name order; the index is the number.
    pub(super) tables: Vec<Table>,
    pub(super) rules: Vec<Rule>,
    /// Bodies before heads.
    pub(super) order: Vec<TableId>,
}

/// Makes ordinary rules of the defaults.
pub(super) fn compile(tables: Vec<Table>, rules: Vec<Checked>, order: &[TableId]) -> Parts {
    let heads = |default: bool| -> BTreeSet<TableId> {
        rules.iter().filter(|rule| rule.default == default).map(|rule| rule.rule.head).collect()
    };
    // If a table has only defaults, nothing overrides them.
    let overridable: BTreeSet<TableId> = heads(true).intersection(&heads(false)).copied().collect();
    let hidden = Hidden::new(tables, &overridable, &rules);
    let mut made = Vec::new();
    for Checked { mut rule, default } in rules {
        let old_head = rule.head;
        renumbered(&mut rule, &hidden.numbers);
        let Some(of_head) = hidden.of.get(&old_head) else {
            if default {
                let head = &hidden.tables[rule.head.0 as usize];
                let key = head.key.as_deref().unwrap_or_default();
                rule.body.extend(constraints::conditions(&rule.terms, &head.columns, key));
            }
            made.push(rule);
            continue;
        };
        if default {
            made.extend(default_rules(&rule, of_head, &hidden.tables));
        } else {
            made.push(has_of_ordinary(&rule, of_head));
            made.push(rule);
        }
    }
    made.extend(hidden.of.values().map(|of_head| level_rule(of_head, &hidden.tables)));
    let order = order.iter().flat_map(|old| {
        let before = hidden.of.get(old).into_iter().flat_map(OfTable::all);
        before.chain([hidden.numbers[old.0 as usize]]).collect::<Vec<_>>()
    });
    let order = order.collect();
    Parts { tables: hidden.tables, rules: made, order }
}

/// The hidden tables of a table with defaults.
struct OfTable {
    /// The table's key.
    key: Vec<usize>,
    /// Candidates by the fingerprint of the default.
    candidates: BTreeMap<u64, Candidates>,
    has: TableId,
    level: TableId,
    /// A default, whose place is used for rules that concern the whole table.
    witness: Rule,
}

/// The table of a default's candidate rows, before overriding.
struct Candidates {
    id: TableId,
    /// Its columns: the key columns that have to be computed, then the head's variables.
    columns: Vec<Expr>,
    /// The default's key columns over `columns`.
    key: Vec<Term>,
}

impl OfTable {
    fn all(&self) -> impl Iterator<Item = TableId> + '_ {
        self.candidates.values().map(|candidates| candidates.id).chain([self.has, self.level])
    }
}

/// All tables, hidden ones among them.
struct Hidden {
    tables: Vec<Table>,
    /// The new number of each table, by old number.
    numbers: Vec<TableId>,
    /// The hidden tables, by old number.
    of: BTreeMap<TableId, OfTable>,
}

impl Hidden {
    fn new(old: Vec<Table>, overridable: &BTreeSet<TableId>, rules: &[Checked]) -> Self {
        let mut hidden = Hidden { tables: Vec::new(), numbers: Vec::new(), of: BTreeMap::new() };
        for (id, table) in (0..).map(TableId).zip(old) {
            let number = hidden.add(table);
            hidden.numbers.push(number);
            if overridable.contains(&id) {
                let defaults = rules.iter().filter(|rule| rule.default && rule.rule.head == id);
                let of_table = hidden.of_table(number, defaults.map(|rule| &rule.rule));
                hidden.of.extend(of_table.map(|of_table| (id, of_table)));
            }
        }
        hidden
    }

    fn add(&mut self, table: Table) -> TableId {
        // A dot sorts before every character of names, so name order is kept.
        debug_assert!(self.tables.last().is_none_or(|last| last.name < table.name));
        self.tables.push(table);
        TableId(self.tables.len() as u32 - 1)
    }

    /// `None` for a table without defaults or key.
    fn of_table<'r>(&mut self, table: TableId, defaults: impl Iterator<Item = &'r Rule>) -> Option<OfTable> {
        let declared = self.tables[table.0 as usize].clone();
        let key = declared.key.clone()?;
        let by_fingerprint: BTreeMap<u64, &Rule> = defaults.map(|rule| (rule.fingerprint, rule)).collect();
        let witness = (*by_fingerprint.values().next()?).clone();
        let mut candidates = BTreeMap::new();
        for (fingerprint, rule) in by_fingerprint {
            let (columns, types, key) = candidate_columns(rule, &declared, &key);
            let name = format!("{}.default.{fingerprint:016x}", declared.name);
            let id = self.add(hidden_table(name, types, None));
            candidates.insert(fingerprint, Candidates { id, columns, key });
        }
        let mut types: Vec<Type> = key.iter().map(|column| declared.columns[*column].ty.clone()).collect();
        types.push(Type::Int);
        let has = self.add(hidden_table(format!("{}.has", declared.name), types.clone(), None));
        let of_key = (0..key.len()).collect();
        let level = self.add(hidden_table(format!("{}.level", declared.name), types, Some(of_key)));
        Some(OfTable { key, candidates, has, level, witness })
    }
}

/// Gives the tables of a rule their new numbers, by old number.
pub(super) fn renumbered(rule: &mut Rule, numbers: &[TableId]) {
    rule.head = numbers[rule.head.0 as usize];
    for item in &mut rule.body {
        if let BodyItem::Atom { table, .. } = item {
            *table = numbers[table.0 as usize];
        }
    }
}

fn hidden_table(name: String, types: Vec<Type>, key: Option<Vec<usize>>) -> Table {
    let columns = types.into_iter().enumerate();
    let columns = columns.map(|(at, ty)| Column { name: format!("c{at}"), ty }).collect();
    Table { name, role: Role::Hidden, columns, key, uniques: Vec::new(), doc: String::new() }
}

/// The columns of a default's candidates with their types, and its key over them.
fn candidate_columns(rule: &Rule, table: &Table, key: &[usize]) -> (Vec<Expr>, Vec<Type>, Vec<Term>) {
    let (mut columns, mut types, mut terms) = (Vec::new(), Vec::new(), Vec::new());
    let variables: Vec<VariableId> = head_variables(&rule.terms).into_iter().collect();
    for &variable in &variables {
        columns.push(Expr::Variable(variable));
        types.push(rule.variables[variable.0 as usize].ty.clone());
    }
    for &column in key {
        let place = |at: usize| Term::Variable(VariableId(at as u32));
        terms.push(match &rule.terms[column] {
            HeadTerm::Value(Expr::Constant(value)) => Term::Constant(value.clone()),
            HeadTerm::Value(Expr::Variable(variable)) => {
                // Every variable of the head is a column.
                place(variables.iter().position(|own| own == variable).unwrap_or_default())
            }
            HeadTerm::Value(expr) => {
                columns.push(expr.clone());
                types.push(table.columns[column].ty.clone());
                place(columns.len() - 1)
            }
            // An aggregate here is an error, and then nothing is compiled.
            HeadTerm::Aggregate { .. } => Term::Any,
        });
    }
    if columns.is_empty() {
        columns.push(Expr::Constant(Value::Bool(true)));
        types.push(Type::Bool);
    }
    (columns, types, terms)
}

/// The rules for a default: its candidates, their keys, and its rows where nothing overrides them.
fn default_rules(rule: &Rule, of: &OfTable, tables: &[Table]) -> Vec<Rule> {
    let Some(Candidates { id, columns, key }) = of.candidates.get(&rule.fingerprint) else {
        return Vec::new();
    };
    let types = tables[id.0 as usize].columns.iter().map(|column| column.ty.clone());
    let variables: Vec<Variable> = (columns.iter().zip(types).enumerate())
        .map(|(at, (column, ty))| {
            let name = match column {
                Expr::Variable(variable) => rule.variables[variable.0 as usize].name.clone(),
                _ => format!("key.{at}"),
            };
            Variable { name, ty }
        })
        .collect();
    // A variable of the head has the number of its column.
    let number = |variable: VariableId| {
        let at = columns.iter().position(|own| matches!(own, Expr::Variable(own) if *own == variable));
        VariableId(at.unwrap_or_default() as u32)
    };
    let of_key = |at: &VariableId| key.contains(&Term::Variable(*at));
    let atom = |used: &dyn Fn(&VariableId) -> bool| BodyItem::Atom {
        table: *id,
        terms: (0..columns.len() as u32)
            .map(VariableId)
            .map(|at| if used(&at) { Term::Variable(at) } else { Term::Any })
            .collect(),
        place: rule.place.clone(),
    };
    let candidates = Rule {
        head: *id,
        terms: columns.iter().cloned().map(HeadTerm::Value).collect(),
        fingerprint: derived(rule.fingerprint, "default"),
        ..rule.clone()
    };
    let has = Rule {
        head: of.has,
        terms: key.iter().map(of_term).chain([level(0)]).collect(),
        variables: variables.clone(),
        body: vec![atom(&of_key)],
        fingerprint: derived(rule.fingerprint, "has"),
        ..rule.clone()
    };
    let terms: Vec<HeadTerm> = rule.terms.iter().map(|term| renamed_term(term, &number)).collect();
    let in_head = head_variables(&terms);
    let free = BodyItem::Atom {
        table: of.level,
        terms: key.iter().cloned().chain([Term::Constant(Value::Int(0))]).collect(),
        place: rule.place.clone(),
    };
    let used = |at: &VariableId| of_key(at) || in_head.contains(at);
    let held = constraints::conditions(&terms, &tables[rule.head.0 as usize].columns, &of.key);
    let body = [atom(&used), free].into_iter().chain(held).collect();
    let rows = Rule { terms, variables, body, ..rule.clone() };
    vec![candidates, has, rows]
}

/// The keys of an ordinary rule's rows. The values of the other columns do not matter, but they must exist.
fn has_of_ordinary(rule: &Rule, of: &OfTable) -> Rule {
    let key = of.key.iter().map(|column| rule.terms[*column].clone());
    let mut has = Rule {
        head: of.has,
        terms: key.chain([level(1)]).collect(),
        fingerprint: derived(rule.fingerprint, "has"),
        ..rule.clone()
    };
    for (column, term) in rule.terms.iter().enumerate() {
        if of.key.contains(&column) {
            continue;
        }
        for expr in expressions(term).iter().filter(|expr| may_lack_value(expr)) {
            let variable = VariableId(has.variables.len() as u32);
            // Nothing reads it, so its type does not matter.
            has.variables.push(Variable { name: format!("column.{column}"), ty: Type::Bool });
            has.body.push(BodyItem::Let { variable, expr: expr.clone() });
        }
    }
    has
}

/// For each key: 1 if an ordinary rule has a row with it, otherwise 0.
fn level_rule(of: &OfTable, tables: &[Table]) -> Rule {
    let columns = &tables[of.level.0 as usize].columns;
    let variables: Vec<Variable> =
        columns.iter().map(|column| Variable { name: column.name.clone(), ty: column.ty.clone() }).collect();
    let numbers = || (0..variables.len() as u32).map(VariableId);
    let terms = numbers().map(|at| {
        let value = Expr::Variable(at);
        if at.0 as usize == of.key.len() {
            HeadTerm::Aggregate { aggregate: Aggregate::Max, arguments: vec![value] }
        } else {
            HeadTerm::Value(value)
        }
    });
    let atom = BodyItem::Atom {
        table: of.has,
        terms: numbers().map(Term::Variable).collect(),
        place: of.witness.place.clone(),
    };
    Rule {
        head: of.level,
        terms: terms.collect(),
        variables: variables.clone(),
        body: vec![atom],
        fingerprint: derived(of.witness.fingerprint, "level"),
        place: of.witness.place.clone(),
        text: of.witness.text.clone(),
        docs: None,
    }
}

/// The fingerprint of a rule made from another.
fn derived(fingerprint: u64, what: &str) -> u64 {
    hash_values(&[Value::Int(fingerprint as i64), Value::String(what.into())]) as u64
}

fn level(level: i64) -> HeadTerm {
    HeadTerm::Value(Expr::Constant(Value::Int(level)))
}

fn of_term(term: &Term) -> HeadTerm {
    HeadTerm::Value(match term {
        Term::Variable(variable) => Expr::Variable(*variable),
        Term::Constant(value) => Expr::Constant(value.clone()),
        // Only an aggregate leads here, which is an error.
        Term::Any => Expr::Constant(Value::Bool(true)),
    })
}

fn expressions(term: &HeadTerm) -> &[Expr] {
    match term {
        HeadTerm::Value(expr) => std::slice::from_ref(expr),
        HeadTerm::Aggregate { arguments, .. } => arguments,
    }
}

fn head_variables(terms: &[HeadTerm]) -> BTreeSet<VariableId> {
    let mut variables = BTreeSet::new();
    for expr in terms.iter().flat_map(expressions) {
        expr.variables(&mut variables);
    }
    variables
}

/// Whether an expression can fail or have no value.
fn may_lack_value(expr: &Expr) -> bool {
    match expr {
        Expr::Variable(_) | Expr::Constant(_) => false,
        Expr::Call { function, arguments } => {
            function.may_fail
                || function.multiplicity != Multiplicity::One
                || arguments.iter().any(may_lack_value)
        }
        Expr::If { condition, then, otherwise } => {
            [condition, then, otherwise].into_iter().any(|part| may_lack_value(part))
        }
    }
}

fn renamed_term(term: &HeadTerm, number: &impl Fn(VariableId) -> VariableId) -> HeadTerm {
    match term {
        HeadTerm::Value(expr) => HeadTerm::Value(renamed(expr, number)),
        HeadTerm::Aggregate { aggregate, arguments } => HeadTerm::Aggregate {
            aggregate: *aggregate,
            arguments: arguments.iter().map(|expr| renamed(expr, number)).collect(),
        },
    }
}

fn renamed(expr: &Expr, number: &impl Fn(VariableId) -> VariableId) -> Expr {
    match expr {
        Expr::Variable(variable) => Expr::Variable(number(*variable)),
        Expr::Constant(value) => Expr::Constant(value.clone()),
        Expr::Call { function, arguments } => Expr::Call {
            function: function.clone(),
            arguments: arguments.iter().map(|argument| renamed(argument, number)).collect(),
        },
        Expr::If { condition, then, otherwise } => {
            let part = |part: &Expr| Box::new(renamed(part, number));
            Expr::If { condition: part(condition), then: part(then), otherwise: part(otherwise) }
        }
    }
}

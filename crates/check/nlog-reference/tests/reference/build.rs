//! Programs built by hand, as the front end would make them from text.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog::program::{Aggregate, BodyItem, Expr, HeadTerm, Place, Rule, Term, Variable, VariableId};
use nlog_data::{
    CommitError, Committed, Evaluator, Role, Row, Schema, Table, Tables, Transaction, Type, Value, function,
    json,
};
use nlog_reference::Reference;

/// A term: `_`, a variable's name, or a value.
#[derive(Debug, Clone)]
pub(crate) enum T {
    V(&'static str),
    C(Value),
    Any,
    Call(&'static str, Vec<T>),
    If(Box<[T; 3]>),
    Agg(Aggregate, Vec<T>),
}

pub(crate) fn c(value: impl Into<Value>) -> T {
    T::C(value.into())
}

pub(crate) fn call(function: &'static str, arguments: &[T]) -> T {
    T::Call(function, arguments.to_vec())
}

pub(crate) fn if_then_else(condition: T, then: T, otherwise: T) -> T {
    T::If(Box::new([condition, then, otherwise]))
}

/// A part of a body.
#[derive(Debug, Clone)]
pub(crate) enum B {
    Atom(&'static str, Vec<T>),
    Let(&'static str, T),
    Where(T),
    Each(Vec<T>, &'static str, Vec<T>),
}

pub(crate) fn atom(table: &'static str, terms: &[T]) -> B {
    B::Atom(table, terms.to_vec())
}

/// Tables and rules; `program` makes a program of them.
#[derive(Default)]
pub(crate) struct Builder {
    tables: Vec<Table>,
    rules: Vec<(&'static str, Vec<T>, Vec<B>)>,
}

impl Builder {
    /// A table of integer columns unless `name:type` says otherwise.
    pub(crate) fn table(mut self, role: Role, name: &str, columns: &[&str], key: Option<&[usize]>) -> Self {
        let columns = columns.iter().map(|column| {
            let (name, ty) = column.split_once(':').unwrap_or((column, "int"));
            let ty = match ty {
                "int" => Type::Int,
                "string" => Type::String,
                "ip" => Type::Ip,
                "match" => Type::Match,
                "actions" => Type::Actions,
                "list" => Type::list(Type::Int),
                "set" => Type::set(Type::Int),
                other => panic!("no type {other}"),
            };
            nlog_data::Column { name: name.to_string(), ty }
        });
        let columns = columns.collect();
        let key = key.map(<[usize]>::to_vec);
        self.tables.push(Table {
            name: name.to_string(),
            role,
            columns,
            key,
            uniques: Vec::new(),
            doc: String::new(),
        });
        self
    }

    pub(crate) fn input(self, name: &str, columns: &[&str]) -> Self {
        self.table(Role::Input, name, columns, None)
    }

    pub(crate) fn output(self, name: &str, columns: &[&str]) -> Self {
        self.table(Role::Output, name, columns, None)
    }

    pub(crate) fn rule(mut self, head: &'static str, terms: &[T], body: &[B]) -> Self {
        self.rules.push((head, terms.to_vec(), body.to_vec()));
        self
    }

    /// Rules are numbered in the order in which they were added.
    pub(crate) fn program(self) -> Arc<Program> {
        let schema = Arc::new(Schema::new(self.tables));
        let rules: Vec<Rule> = (self.rules.iter().zip(0..))
            .map(|((head, terms, body), number)| build_rule(&schema, number, head, terms, body))
            .collect();
        let order = order(&schema, &rules);
        Arc::new(Program {
            schema,
            rules,
            order,
            hooks: Vec::new(),
            tests: Vec::new(),
            constants: BTreeMap::new(),
            functions: BTreeMap::new(),
            objects: Vec::new(),
            states: Vec::new(),
            listings: Vec::new(),
            stages: Vec::new(),
            priorities: Vec::new(),
            fields: Vec::new(),
            reservations: Vec::new(),
        })
    }

    pub(crate) fn run(self) -> Run {
        self.run_with(Tables::Outputs)
    }

    pub(crate) fn run_with(self, tables: Tables) -> Run {
        Run(Reference::new(self.program(), tables))
    }
}

/// Tables by their longest path from a table without rules.
fn order(schema: &Schema, rules: &[Rule]) -> Vec<nlog_data::TableId> {
    let mut order = Vec::new();
    while order.len() < schema.len() {
        let before = order.len();
        for (id, _) in schema.iter() {
            let ready = rules
                .iter()
                .filter(|rule| rule.head == id)
                .flat_map(|rule| &rule.body)
                .all(|item| !matches!(item, BodyItem::Atom { table, .. } if !order.contains(table)));
            if ready && !order.contains(&id) {
                order.push(id);
            }
        }
        assert!(order.len() > before, "recursion");
    }
    order
}

struct Scope<'a> {
    schema: &'a Schema,
    variables: Vec<Variable>,
}

fn build_rule(schema: &Schema, number: u64, head: &str, terms: &[T], body: &[B]) -> Rule {
    let mut scope = Scope { schema, variables: Vec::new() };
    // Here only overload resolution needs the types of variables, so atoms come first.
    let (atoms, others): (Vec<&B>, Vec<&B>) = body.iter().partition(|item| matches!(item, B::Atom(..)));
    let body = atoms.into_iter().chain(others).map(|item| scope.item(item)).collect();
    let terms = terms.iter().map(|term| scope.head_term(term)).collect();
    let place = Place { file: "test.nlog".into(), line: number as u32 + 1, column: 1 };
    Rule {
        head: schema.find(head).expect("a table"),
        terms,
        variables: scope.variables,
        body,
        fingerprint: number,
        place,
        text: head.into(),
        docs: None,
    }
}

impl Scope<'_> {
    fn variable(&mut self, name: &str, ty: &Type) -> VariableId {
        if let Some(number) = self.variables.iter().position(|variable| variable.name == name) {
            return VariableId(number as u32);
        }
        self.variables.push(Variable { name: name.to_string(), ty: ty.clone() });
        VariableId(self.variables.len() as u32 - 1)
    }

    fn item(&mut self, item: &B) -> BodyItem {
        match item {
            B::Atom(name, terms) => {
                let table = self.schema.find(name).expect("a table");
                let columns = &self.schema.table(table).columns;
                assert_eq!(terms.len(), columns.len(), "{name}");
                let terms = terms.iter().zip(columns).map(|(term, column)| match term {
                    T::V(name) => Term::Variable(self.variable(name, &column.ty)),
                    T::C(value) => Term::Constant(value.clone()),
                    T::Any => Term::Any,
                    other => panic!("{other:?} in an atom"),
                });
                let terms = terms.collect();
                let place = Place { file: "test.nlog".into(), line: 1, column: 1 };
                BodyItem::Atom { table, terms, place }
            }
            B::Let(name, expr) => {
                let (expr, ty) = self.expr(expr);
                BodyItem::Let { variable: self.variable(name, &ty), expr }
            }
            B::Where(condition) => BodyItem::Filter(self.expr(condition).0),
            B::Each(arguments, name, results) => {
                let (function, arguments, types) = self.call(name, arguments);
                let results = results.iter().zip(types).map(|(result, ty)| match result {
                    T::V(name) => Some(self.variable(name, &ty)),
                    _ => None,
                });
                BodyItem::Generate { function, arguments, results: results.collect() }
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &[T]) -> (Arc<function::Function>, Vec<Expr>, Vec<Type>) {
        let (arguments, types): (Vec<Expr>, Vec<Type>) = arguments.iter().map(|a| self.expr(a)).unzip();
        let mut fitting = function::lookup(name).iter().filter_map(|f| Some((f, f.result_types(&types)?)));
        let (function, results) = fitting.next().unwrap_or_else(|| panic!("no {name} of {types:?}"));
        (function.clone(), arguments, results)
    }

    fn expr(&mut self, term: &T) -> (Expr, Type) {
        match term {
            T::V(name) => {
                let known = self.variables.iter().position(|variable| variable.name == *name);
                let number = known.unwrap_or_else(|| panic!("{name} is not bound"));
                (Expr::Variable(VariableId(number as u32)), self.variables[number].ty.clone())
            }
            T::C(value) => {
                let ty = [
                    Type::Int,
                    Type::String,
                    Type::Bool,
                    Type::Ip,
                    Type::list(Type::Int),
                    Type::set(Type::Int),
                ]
                .into_iter()
                .find(|ty| ty.admits(value));
                (Expr::Constant(value.clone()), ty.expect("a type"))
            }
            T::Call(name, arguments) => {
                let (function, arguments, types) = self.call(name, arguments);
                (Expr::Call { function, arguments }, types[0].clone())
            }
            T::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let (then, ty) = self.expr(then);
                let [condition, otherwise] = [condition, otherwise].map(|part| Box::new(self.expr(part).0));
                (Expr::If { condition, then: Box::new(then), otherwise }, ty)
            }
            other => panic!("{other:?} in an expression"),
        }
    }

    fn head_term(&mut self, term: &T) -> HeadTerm {
        match term {
            T::Agg(aggregate, arguments) => {
                let arguments = arguments.iter().map(|argument| self.expr(argument).0).collect();
                HeadTerm::Aggregate { aggregate: *aggregate, arguments }
            }
            term => HeadTerm::Value(self.expr(term).0),
        }
    }
}

/// A reference fed with JSON lines.
pub(crate) struct Run(pub(crate) Reference);

impl Run {
    pub(crate) fn transaction(&self, line: &str) -> Transaction {
        let read = json::parse_line(line.as_bytes(), 1, self.0.schema());
        read.unwrap_or_else(|error| panic!("{line}: {error}")).transaction
    }

    pub(crate) fn commit(&mut self, line: &str) -> Result<Committed, CommitError> {
        let transaction = self.transaction(line);
        self.0.commit(&transaction)
    }

    /// The line that `weft eval` would print, without its number.
    pub(crate) fn eval(&mut self, line: &str) -> String {
        let mut out = Vec::new();
        match self.commit(line) {
            Ok(committed) => json::write_delta_line(&mut out, 1, &committed.delta, self.0.schema()),
            Err(CommitError::Refused(error)) => return error.to_string(),
            Err(error) => panic!("{error}"),
        }
        let text = String::from_utf8(out).expect("UTF-8");
        text.trim_end().replace(r#""txn":1,"#, "").clone()
    }

    pub(crate) fn rows(&mut self, table: &str) -> Vec<Row> {
        let id = self.0.schema().find(table).expect("a table");
        self.0.contents(id).expect("contents")
    }

    pub(crate) fn row_text(&mut self, table: &str) -> String {
        let mut out = Vec::new();
        for row in self.rows(table) {
            json::write_row(&mut out, &row);
        }
        String::from_utf8(out).expect("UTF-8")
    }
}

//! Writes rules as text: atoms, conditions, and expressions of every type.

use std::collections::HashMap;
use std::sync::Arc;

use nlog_data::function::{self, Multiplicity, Shape};
use nlog_data::{Function, Type};

use super::domain::{Declared, written};
use super::{Declaration, Random, Rule};

/// The names that expressions may use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vocabulary {
    pub(crate) types: Declared,
    pub(crate) constants: Vec<(String, Type)>,
    pub(crate) functions: Vec<UserFunction>,
}

/// A function that the program defines.
#[derive(Debug, Clone)]
pub(crate) struct UserFunction {
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, Type)>,
    pub(crate) result: Type,
}

impl Vocabulary {
    /// Makes up types, constants and functions. Returns their declarations as well.
    pub(crate) fn random(random: &mut Random) -> (Self, Vec<String>) {
        let mut known = Vocabulary { types: Declared::random(random), ..Vocabulary::default() };
        let mut statements = known.types.statements();
        for number in 0..random.below(3) {
            let (name, ty) = (format!("k{number}"), known.types.column(random));
            statements.push(format!("const {name}: {ty} = {};", written(random, &ty)));
            known.constants.push((name, ty));
        }
        for number in 0..random.below(3) {
            let parameters: Vec<(String, Type)> =
                (0..random.below(3)).map(|at| (format!("p{at}"), known.types.column(random))).collect();
            let result = known.types.column(random);
            let name = format!("u{number}");
            let listed: Vec<String> = parameters.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
            let mut writer = Writer { bound: parameters.clone(), ..Writer::new(random, &known) };
            let body = writer.expression(&result, 2);
            statements.push(format!("function {name}({}) -> {result} = {body};", listed.join(", ")));
            known.functions.push(UserFunction { name, parameters, result });
        }
        (known, statements)
    }
}

/// Writes a rule.
pub(crate) struct Writer<'a> {
    random: &'a mut Random,
    known: &'a Vocabulary,
    bound: Vec<(String, Type)>,
    /// The number of names made up so far.
    names: usize,
    /// Whether atoms share variables wherever possible.
    joined: bool,
    /// Whether atoms share no variables.
    apart: bool,
}

/// The requirements for a rule.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    /// Columns of the head that must not be aggregates.
    pub(crate) plain: Vec<usize>,
    /// A column of the head that must be this constant.
    pub(crate) constant: Option<(usize, i64)>,
    /// The number of a table that the body must read.
    pub(crate) uses: Option<usize>,
    /// Whether the head must be a plain row.
    pub(crate) no_aggregates: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(random: &'a mut Random, known: &'a Vocabulary) -> Self {
        Writer { random, known, bound: Vec::new(), names: 0, joined: false, apart: false }
    }

    /// A rule for a table.
    pub(crate) fn rule(mut self, head: &Declaration, tables: &[Declaration], wish: &Wish) -> Rule {
        let mut body = self.atoms(tables, wish.uses);
        for _ in 0..[0, 0, 1, 1, 2, 3][self.random.below(6) as usize] {
            body.push(self.item());
        }
        self.random.shuffle(&mut body);
        let aggregates = !self.bound.is_empty() && !wish.no_aggregates && self.random.chance(25);
        let terms: Vec<Option<String>> = (head.columns.iter().enumerate())
            .map(|(at, ty)| match wish.constant {
                Some((column, number)) if column == at => Some(number.to_string()),
                _ => Some(self.head_term(ty, aggregates && !wish.plain.contains(&at))),
            })
            .collect();
        Rule { default: false, head: self.call(&head.name, &terms), body }
    }

    /// The atoms of a body: a few of any tables, or a shape for which plans differ.
    fn atoms(&mut self, tables: &[Declaration], uses: Option<usize>) -> Vec<String> {
        let first = uses.map(|table| tables[table].clone());
        let any = |random: &mut Random| random.pick(tables).clone();
        let chosen: Vec<Declaration> = match self.random.below(100) {
            0..74 => {
                let atoms = [0, 1, 1, 1, 2, 2, 2, 3, 3, 4][self.random.below(10) as usize];
                (0..atoms).map(|_| any(self.random)).collect()
            }
            // Many atoms that share variables.
            74..84 => {
                self.joined = true;
                (0..5 + self.random.below(2)).map(|_| any(self.random)).collect()
            }
            // Several atoms of the same table.
            84..93 => {
                self.joined = self.random.chance(70);
                vec![any(self.random); 2 + self.random.below(2) as usize]
            }
            // Few atoms without shared variables.
            _ => {
                self.apart = true;
                (0..2 + self.random.below(2)).map(|_| any(self.random)).collect()
            }
        };
        let atoms = first.iter().chain(&chosen).map(|table| self.atom(table)).collect();
        (self.joined, self.apart) = (false, false);
        atoms
    }

    /// An atom with its terms, by position or by name. A column with the term `None` may be omitted.
    fn call(&mut self, table: &str, terms: &[Option<String>]) -> String {
        if self.random.chance(85) {
            let terms: Vec<&str> = terms.iter().map(|term| term.as_deref().unwrap_or("_")).collect();
            return format!("{table}({})", terms.join(", "));
        }
        let mut named: Vec<String> = (terms.iter().enumerate())
            .filter_map(|(at, term)| term.as_ref().map(|term| format!("c{at}: {term}")))
            .collect();
        self.random.shuffle(&mut named);
        if named.len() < terms.len() {
            named.push("..".to_owned());
        }
        format!("{table}({})", named.join(", "))
    }

    fn atom(&mut self, table: &Declaration) -> String {
        let mut terms = Vec::new();
        // Expressions use variables of other atoms. With variables of this one they would only be filters.
        let others = self.bound.clone();
        for ty in &table.columns {
            let term = match self.random.below(100) {
                _ if self.apart && self.random.chance(80) => Some(self.fresh(ty)),
                12..70 if self.joined => match self.variable_of(ty, &others) {
                    Some(variable) => Some(variable),
                    None => Some(self.fresh(ty)),
                },
                0..12 => None,
                12..20 => Some(self.constant(ty)),
                20..30 if *ty == Type::Int => Some(self.integer_over(&others)),
                20..23 => {
                    let all = std::mem::replace(&mut self.bound, others.clone());
                    let term = self.expression(ty, 1);
                    self.bound = all;
                    Some(term)
                }
                30..70 => match self.variable(ty) {
                    Some(variable) => Some(variable),
                    None => Some(self.fresh(ty)),
                },
                _ => Some(self.fresh(ty)),
            };
            terms.push(term);
        }
        self.call(&table.name.clone(), &terms)
    }

    /// An item of a body other than an atom of a table.
    fn item(&mut self) -> String {
        match self.random.below(15) {
            // Both sides can fail, and one of them becomes a join key if possible.
            14 => {
                let left = self.variable(&Type::Int).unwrap_or_else(|| self.integer());
                let (a, b) = (self.integer(), self.integer());
                match self.variable(&Type::Int) {
                    Some(divisor) => format!("{left} == ({a} / {divisor}) + {b}"),
                    None => format!("{left} == {a} * {b}"),
                }
            }
            0..3 => {
                let left = self.integer();
                let name = self.fresh(&Type::Int);
                format!("{name} = {left}")
            }
            3..5 => {
                let ty = self.known.types.column(self.random);
                let value = self.expression(&ty, 2);
                // The type must be known where the variable is defined.
                let (ty, value) = if needs_type(&value) { (Type::Int, self.integer()) } else { (ty, value) };
                let name = self.fresh(&ty);
                format!("{name} = {value}")
            }
            5..7 => self.several(),
            // Parentheses prevent a function from being read as an atom with its result.
            7..9 => format!("({})", self.condition(1)),
            _ => {
                let (a, b) = (self.integer(), self.integer());
                format!("{a} {} {b}", self.random.pick(&["==", "!=", "<", "<=", ">", "==", "=="]))
            }
        }
    }

    /// An atom of a function with one result or any number of results.
    fn several(&mut self) -> String {
        let functions: Vec<&Arc<Function>> = (function::functions().iter())
            .filter(|function| function.name.starts_with(|c: char| c.is_ascii_alphabetic()))
            .filter(|function| function.multiplicity != Multiplicity::One && !function.variadic)
            // To the engine it is what packet_filter is; without it, seeds keep their cases.
            .filter(|function| *function.name != *"connection_filter")
            .collect();
        let function = Arc::clone(self.random.pick::<&Arc<Function>>(&functions));
        let mut types = HashMap::new();
        let parameters: Vec<Type> =
            function.parameters.iter().map(|parameter| self.instance(&parameter.shape, &mut types)).collect();
        if *function.name == *"range" {
            // The number of results is the distance between the arguments.
            let (from, to) = (self.random.below(3), self.random.below(5));
            return format!("range({from}, {to}, {})", self.fresh(&Type::Int));
        }
        let mut terms: Vec<String> = parameters.iter().map(|ty| self.operand(ty)).collect();
        for result in &function.results {
            let ty = self.instance(&result.shape, &mut types);
            terms.push(match self.random.below(10) {
                0 => "_".to_owned(),
                1..4 => self.variable(&ty).unwrap_or_else(|| self.fresh(&ty)),
                _ => self.fresh(&ty),
            });
        }
        format!("{}({})", function.name, terms.join(", "))
    }

    fn head_term(&mut self, ty: &Type, aggregates: bool) -> String {
        if aggregates && self.random.chance(60) {
            let any = self.bound.clone();
            let (other, _) = self.random.pick(&any).clone();
            if *ty == Type::Int && self.random.chance(60) {
                let integer = self.integer();
                return match self.random.below(4) {
                    0 => "count()".to_owned(),
                    1 => format!("count({other})"),
                    2 => format!("sum({integer})"),
                    _ => format!("sum({integer}, {other})"),
                };
            }
            let of = match ty {
                Type::Set(of) | Type::List(of) if self.random.chance(70) => of,
                ty => ty,
            };
            let value = self.operand(of);
            return match (ty, of == ty) {
                (Type::Set(_), false) => format!("set({value})"),
                (Type::List(_), false) => format!("list({value})"),
                _ => match self.random.below(4) {
                    0 => format!("min({value})"),
                    1 => format!("max({value})"),
                    2 => format!("arg_min({other}, {value})"),
                    _ => format!("arg_max({other}, {value})"),
                },
            };
        }
        let of_flows = matches!(ty, Type::Match | Type::Actions);
        if self.random.chance(if of_flows { 20 } else { 70 })
            && let Some(variable) = self.variable(ty)
        {
            return variable;
        }
        self.expression(ty, 2)
    }

    fn fresh(&mut self, ty: &Type) -> String {
        self.names += 1;
        let name = format!("v{}", self.names);
        self.bound.push((name.clone(), ty.clone()));
        name
    }

    fn variable(&mut self, ty: &Type) -> Option<String> {
        let bound = std::mem::take(&mut self.bound);
        let variable = self.variable_of(ty, &bound);
        self.bound = bound;
        variable
    }

    fn variable_of(&mut self, ty: &Type, bound: &[(String, Type)]) -> Option<String> {
        let fit: Vec<String> =
            bound.iter().filter(|(_, of)| of == ty).map(|(name, _)| name.clone()).collect();
        (!fit.is_empty()).then(|| self.random.pick(&fit).clone())
    }

    /// A constant, by name or as a literal.
    fn constant(&mut self, ty: &Type) -> String {
        let named: Vec<String> =
            (self.known.constants.iter()).filter(|(_, of)| of == ty).map(|(name, _)| name.clone()).collect();
        if !named.is_empty() && self.random.chance(50) {
            return self.random.pick(&named).clone();
        }
        written(self.random, ty)
    }

    // Expressions.

    /// Mostly a variable, otherwise a constant.
    fn operand(&mut self, ty: &Type) -> String {
        match self.variable(ty) {
            Some(variable) if self.random.chance(85) => variable,
            _ => self.constant(ty),
        }
    }

    /// An expression for a place where its type is known.
    pub(crate) fn expression(&mut self, ty: &Type, depth: usize) -> String {
        let of_flows = matches!(ty, Type::Match | Type::Actions);
        if depth == 0 || self.random.chance(if of_flows { 10 } else { 40 }) {
            return self.operand(ty);
        }
        match self.random.below(20) {
            0..2 => {
                let condition = self.condition(depth - 1);
                let then = self.expression(ty, depth - 1);
                let otherwise = self.operand(ty);
                format!("(if {condition} then {then} else {otherwise})")
            }
            2..5 => self.field(ty).unwrap_or_else(|| self.operand(ty)),
            5..8 => self.user_function(ty, depth).unwrap_or_else(|| self.operand(ty)),
            8..14 => self.literal(ty, depth),
            _ => self.builtin(ty, depth),
        }
    }

    /// An access to a field of a record.
    fn field(&mut self, ty: &Type) -> Option<String> {
        let mut fields = Vec::new();
        for (name, of) in &self.bound {
            if let Type::Record(record) = of {
                let fit = record.fields.iter().filter(|(_, own)| own == ty);
                fields.extend(fit.map(|(field, _)| format!("{name}.{field}")));
            }
        }
        (!fields.is_empty()).then(|| self.random.pick(&fields).clone())
    }

    fn user_function(&mut self, ty: &Type, depth: usize) -> Option<String> {
        let fit: Vec<UserFunction> =
            self.known.functions.iter().filter(|function| function.result == *ty).cloned().collect();
        if fit.is_empty() {
            return None;
        }
        let function = self.random.pick(&fit).clone();
        let arguments: Vec<String> =
            function.parameters.iter().map(|(_, ty)| self.expression(ty, depth - 1)).collect();
        Some(format!("{}({})", function.name, arguments.join(", ")))
    }

    /// An expression in the form that is specific to its type.
    fn literal(&mut self, ty: &Type, depth: usize) -> String {
        match ty {
            Type::Int => self.integer(),
            Type::Bool => format!("({})", self.condition(depth - 1)),
            Type::Record(of) => {
                let mut fields: Vec<String> = (of.fields.iter())
                    .map(|(name, ty)| format!("{name}: {}", self.expression(ty, depth - 1)))
                    .collect();
                self.random.shuffle(&mut fields);
                format!("{}{{{}}}", of.name, fields.join(", "))
            }
            Type::Opt(of) => format!("some({})", self.expression(of, depth - 1)),
            Type::Set(of) => {
                format!("{{{}, {}}}", self.expression(of, depth - 1), self.operand(of))
            }
            Type::List(of) => {
                format!("[{}, {}]", self.expression(of, depth - 1), self.operand(of))
            }
            Type::Match => self.match_literal(),
            Type::Actions => self.actions_literal(),
            _ => self.operand(ty),
        }
    }

    fn match_literal(&mut self) -> String {
        let mut fields = vec![format!("metadata: {}", self.operand(&Type::Int))];
        fields.push(format!("reg0: {}", self.operand(&Type::Int)));
        fields.push("reg1: 0x10/0x30".to_owned());
        fields.push(format!("reg2[0..15]: {}", self.operand(&Type::Int)));
        fields.push(format!("eth_dst: {}", self.operand(&Type::Mac)));
        let address = if self.random.chance(50) { Type::Ip } else { Type::Net };
        fields.push(format!("ip_src: {}", self.operand(&address)));
        fields.push("tcp, tcp_dst: 80".to_owned());
        fields.push("ct_state: \"+trk-new\"".to_owned());
        self.random.shuffle(&mut fields);
        fields.truncate(self.random.below(4) as usize);
        format!("match{{{}}}", fields.join(", "))
    }

    fn actions_literal(&mut self) -> String {
        let mut actions = vec![format!("set(reg0, {})", self.operand(&Type::Int))];
        actions.push("set(reg1, 0x10/0x30)".to_owned());
        actions.push(format!("set(eth_dst, {})", self.operand(&Type::Mac)));
        actions.push(format!("set(reg2[0..15], {})", self.operand(&Type::Int)));
        actions.push("move(reg0, reg1)".to_owned());
        actions.push("move(xreg1[0..47], eth_src)".to_owned());
        actions.push(format!("ct(commit, zone: 5, exec(set(ct_mark, {})))", self.operand(&Type::Int)));
        actions.push(format!(
            "learn(table: 21, priority: 50, copy(metadata), match(reg0, {}), set(reg1, 7))",
            self.operand(&Type::Int)
        ));
        actions.push("resubmit(32)".to_owned());
        actions.push("dec_ttl".to_owned());
        self.random.shuffle(&mut actions);
        actions.truncate(self.random.below(4) as usize);
        if self.random.chance(40) {
            actions.push(format!("output({})", self.operand(&Type::Int)));
        }
        format!("actions[{}]", actions.join(", "))
    }

    /// A call of any function or operator with a result of this type.
    fn builtin(&mut self, ty: &Type, depth: usize) -> String {
        let functions: Vec<&Arc<Function>> = (function::functions().iter())
            .filter(|function| function.multiplicity != Multiplicity::Many && function.results.len() == 1)
            .filter(|function| function.parameters.len() <= 4)
            .filter(|function| unify(&function.results[0].shape, ty, &mut HashMap::new()))
            .collect();
        if functions.is_empty() {
            return self.operand(ty);
        }
        let mut function = Arc::clone(self.random.pick::<&Arc<Function>>(&functions));
        for _ in 0..2 {
            // Prefer functions that cannot fail: histories of refusals test little.
            if function.may_fail {
                function = Arc::clone(self.random.pick::<&Arc<Function>>(&functions));
            }
        }
        let mut types = HashMap::new();
        unify(&function.results[0].shape, ty, &mut types);
        if types.values().any(|ty| matches!(ty, Type::Opt(_))) {
            return self.operand(ty);
        }
        let arguments: Vec<String> = (function.parameters.iter())
            .map(|parameter| {
                let ty = self.instance(&parameter.shape, &mut types);
                let simple = matches!(parameter.shape, Shape::Any(_) | Shape::OptOf(_));
                // Where nothing else determines the type, use an expression that has a type of its own.
                if simple {
                    self.variable(&ty).unwrap_or_else(|| plain(self.random, &ty))
                } else {
                    self.expression(&ty, depth - 1)
                }
            })
            .collect();
        // Constants that fail are errors at compile time.
        let constant = !self.bound.iter().any(|(name, _)| arguments.iter().any(|text| names(text, name)));
        if constant && function.may_fail {
            return self.operand(ty);
        }
        let is_word = function.name.starts_with(|c: char| c.is_ascii_alphabetic());
        match (is_word, arguments.as_slice()) {
            (false, [a, b]) => format!("({a} {} {b})", function.name),
            (false, [a]) => format!("({}{a})", function.name),
            _ => format!("{}({})", function.name, arguments.join(", ")),
        }
    }

    /// The type of a parameter, given the types that the other parameters have determined.
    fn instance(&mut self, shape: &Shape, types: &mut HashMap<u8, Type>) -> Type {
        match shape {
            Shape::Is(ty) => ty.clone(),
            Shape::Any(number) => {
                let ty = types.get(number).cloned();
                ty.unwrap_or_else(|| {
                    // Optional types cannot be nested.
                    let of_bound = self.bound.iter().map(|(_, ty)| ty.clone());
                    let of_bound: Vec<Type> = of_bound.filter(|ty| !matches!(ty, Type::Opt(_))).collect();
                    let ty =
                        if of_bound.is_empty() { Type::Int } else { self.random.pick(&of_bound).clone() };
                    types.insert(*number, ty.clone());
                    ty
                })
            }
            Shape::SetOf(of) => Type::set(self.instance(of, types)),
            Shape::ListOf(of) => Type::list(self.instance(of, types)),
            Shape::OptOf(of) => Type::opt(self.instance(of, types)),
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        match self.random.below(10) {
            0..4 => {
                let (a, b) = (self.integer(), self.integer());
                format!("{a} {} {b}", self.random.pick(&["==", "!=", "<", "<="]))
            }
            4..7 if !self.bound.is_empty() => {
                let bound = self.bound.clone();
                let (name, ty) = self.random.pick(&bound);
                let other = self.expression(ty, depth);
                format!("{name} {} {other}", self.random.pick(&["==", "!=", "==", "<", ">="]))
            }
            _ => self.builtin(&Type::Bool, 1),
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
                written(random, &Type::Int)
            } else {
                (*random.pick(&fit)).clone()
            }
        };
        let (a, b) = (operand(self.random), operand(self.random));
        match self.random.below(12) {
            0..4 => a,
            4..6 => format!("({a} + {b})"),
            6 => format!("({a} - {b})"),
            7 if fit.iter().any(|name| **name == b) => format!("({a} / {b})"),
            8 => format!("({a} * {b})"),
            9 => format!("({a} ^ {b})"),
            10 => format!("(if {a} < {b} then {b} - {a} else {b})"),
            _ => format!("max_of({a}, {b})"),
        }
    }
}

/// Whether a shape matches a type. Records the types of numbered shapes.
fn unify(shape: &Shape, ty: &Type, types: &mut HashMap<u8, Type>) -> bool {
    match (shape, ty) {
        (Shape::Is(own), ty) => own == ty,
        (Shape::Any(number), ty) => *types.entry(*number).or_insert_with(|| ty.clone()) == *ty,
        (Shape::SetOf(shape), Type::Set(of))
        | (Shape::ListOf(shape), Type::List(of))
        | (Shape::OptOf(shape), Type::Opt(of)) => unify(shape, of, types),
        _ => false,
    }
}

/// Whether an expression needs its context to determine its type.
fn needs_type(text: &str) -> bool {
    text.contains("none()") || text.starts_with('"')
}

/// Whether a text contains this name as a whole word.
fn names(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
}

/// A value whose text determines its type.
fn plain(random: &mut Random, ty: &Type) -> String {
    match ty {
        Type::Enum(of) => format!("{}{:?}", of.name, random.pick(&of.members)),
        Type::Opt(of) => format!("some({})", plain(random, of)),
        Type::Set(of) => format!("{{{}}}", plain(random, of)),
        Type::List(of) => format!("[{}]", plain(random, of)),
        _ => written(random, ty),
    }
}

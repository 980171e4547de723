//! The consequences of two rows of a table having the same key.
//!
//! The *chase* of relational theory (Maier, Mendelzon, Sagiv: "Testing implications of data dependencies", TODS
//! 1979), with functions: the bodies of the rules that derive the two rows are combined, the keys are made equal, and
//! then everything that must be equal: the rest of two rows of a keyed table with the same key, the results of a
//! function for equal arguments, and the arguments of an injective function with equal results. If two different
//! constants become equal, no two such rows exist.

use std::collections::HashMap;
use std::sync::Arc;

use nlog_data::{Function, Role, Value};

use super::WholeProgram;
use super::bindings::joined;
use super::domain::Domain;
use super::injective::Injective;
use crate::check::CheckedRule;
use crate::program::{BodyItem, Expr, HeadTerm, Term};

/// The number of levels to which an atom of a table that one rule fills is replaced by that rule's body.
const DEPTH: usize = 3;
/// The maximum number of nodes; a larger chase is abandoned.
const MOST_NODES: usize = 2000;

/// A value in one of the rows' derivations.
pub(super) type Node = usize;

/// Arguments of two applications, side by side.
type Pairs = Vec<(Node, Node)>;

/// A function applied to nodes.
struct Application {
    /// Functions are compared by address.
    function: Option<Arc<Function>>,
    arguments: Vec<Node>,
    result: Node,
}

/// An atom of a keyed table, for one of the table's keys.
struct KeyedAtom {
    /// The table, and the number of the key.
    by: (usize, usize),
    key: Vec<Node>,
    rest: Vec<Node>,
}

/// The derivations side by side.
pub(super) struct Chase<'w, 'a> {
    whole: &'w WholeProgram<'a>,
    injective: &'w mut Injective,
    parent: Vec<Node>,
    domains: Vec<Domain>,
    constants: HashMap<Value, Node>,
    applications: Vec<Application>,
    atoms: Vec<KeyedAtom>,
    differ: Vec<(Node, Node)>,
    contradiction: bool,
    changed: bool,
}

/// A rule's derivation of a row.
pub(super) struct Derivation {
    /// A node for each variable.
    pub(super) variables: Vec<Node>,
    /// A node for each column of the head; none for an aggregate.
    pub(super) head: Vec<Option<Node>>,
    /// All columns of the body's atoms.
    pub(super) columns: Vec<Node>,
}

impl<'w, 'a> Chase<'w, 'a> {
    pub(super) fn new(whole: &'w WholeProgram<'a>, injective: &'w mut Injective) -> Self {
        Chase {
            whole,
            injective,
            parent: Vec::new(),
            domains: Vec::new(),
            constants: HashMap::new(),
            applications: Vec::new(),
            atoms: Vec::new(),
            differ: Vec::new(),
            contradiction: false,
            changed: false,
        }
    }

    /// Adds a rule's derivation of a row. `domains` has the possible values of its variables.
    pub(super) fn derivation(
        &mut self,
        checked: &CheckedRule<'_>,
        domains: &dyn Fn(usize) -> Domain,
    ) -> Derivation {
        let variables: Vec<Node> =
            (0..checked.rule.variables.len()).map(|variable| self.fresh(domains(variable))).collect();
        self.body(checked, &variables, DEPTH)
    }

    fn body(&mut self, checked: &CheckedRule<'_>, variables: &[Node], depth: usize) -> Derivation {
        let mut columns = Vec::new();
        for item in &checked.rule.body {
            match item {
                BodyItem::Atom { table, terms, .. } => {
                    let nodes: Vec<Node> = terms
                        .iter()
                        .map(|term| match term {
                            Term::Any => self.fresh(Domain::Anything),
                            Term::Variable(variable) => variables[variable.0 as usize],
                            Term::Constant(value) => self.constant(value),
                        })
                        .collect();
                    self.atom(table.0 as usize, &nodes, depth);
                    columns.extend(nodes);
                }
                BodyItem::Let { variable, expr } => {
                    let node = self.expr(expr, variables);
                    self.unite(variables[variable.0 as usize], node);
                }
                BodyItem::Filter(Expr::Call { function, arguments }) => {
                    let sides: Vec<Node> =
                        arguments.iter().map(|argument| self.expr(argument, variables)).collect();
                    match (&*function.name, sides.as_slice()) {
                        ("==", &[a, b]) => self.unite(a, b),
                        ("!=" | "not_equal" | "<" | ">", &[a, b]) => self.differ.push((a, b)),
                        _ => {}
                    }
                }
                BodyItem::Filter(_) | BodyItem::Generate { .. } => {}
            }
        }
        let head = checked.rule.terms.iter().map(|term| match term {
            HeadTerm::Value(expr) => Some(self.expr(expr, variables)),
            HeadTerm::Aggregate { .. } => None,
        });
        let head = head.collect();
        Derivation { variables: variables.to_vec(), head, columns }
    }

    fn atom(&mut self, table: usize, nodes: &[Node], depth: usize) {
        for (number, key) in self.whole.keys(table).enumerate() {
            let is_key = |index: &usize| key.contains(index);
            let pick = |wanted: bool| {
                (0..nodes.len()).filter(|index| is_key(index) == wanted).map(|index| nodes[index]).collect()
            };
            self.atoms.push(KeyedAtom { by: (table, number), key: pick(true), rest: pick(false) });
        }
        let &[rule] = self.whole.rules_of[table].as_slice() else { return };
        let inner = &self.whole.rules[rule];
        let internal = self.whole.declarations.tables[table].role != Role::Input;
        if !internal || depth == 0 || self.parent.len() > MOST_NODES {
            return;
        }
        let count = inner.rule.variables.len();
        let variables: Vec<Node> = (0..count).map(|_| self.fresh(Domain::Anything)).collect();
        let derivation = self.body(inner, &variables, depth - 1);
        for (&node, head) in nodes.iter().zip(derivation.head) {
            if let Some(head) = head {
                self.unite(node, head);
            }
        }
    }

    /// The node of an expression over a derivation's variables.
    pub(super) fn expr(&mut self, expr: &Expr, variables: &[Node]) -> Node {
        match expr {
            Expr::Variable(variable) => variables[variable.0 as usize],
            Expr::Constant(value) => self.constant(value),
            Expr::Call { function, arguments } if function.name == "&" => {
                // A chain is one application, so that its parts can be compared in any position.
                let mut parts = Vec::new();
                for argument in arguments {
                    joined(argument, &mut parts);
                }
                let nodes = parts.into_iter().map(|part| self.expr(part, variables)).collect();
                self.apply(Some(function.clone()), nodes)
            }
            Expr::Call { function, arguments } => {
                let nodes = arguments.iter().map(|argument| self.expr(argument, variables)).collect();
                self.apply(Some(function.clone()), nodes)
            }
            Expr::If { condition, then, otherwise } => {
                let nodes = [condition, then, otherwise].map(|part| self.expr(part, variables)).to_vec();
                self.apply(None, nodes)
            }
        }
    }

    fn apply(&mut self, function: Option<Arc<Function>>, arguments: Vec<Node>) -> Node {
        let result = self.fresh(Domain::Anything);
        self.applications.push(Application { function, arguments, result });
        result
    }

    fn fresh(&mut self, domain: Domain) -> Node {
        self.parent.push(self.parent.len());
        self.domains.push(domain);
        self.parent.len() - 1
    }

    fn constant(&mut self, value: &Value) -> Node {
        if let Some(&node) = self.constants.get(value) {
            return node;
        }
        let node = self.fresh(Domain::only(value.clone()));
        self.constants.insert(value.clone(), node);
        node
    }

    // Equality.

    pub(super) fn root(&self, node: Node) -> Node {
        let mut at = node;
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }

    /// Whether the two are known to be equal.
    pub(super) fn same(&self, a: Node, b: Node) -> bool {
        self.root(a) == self.root(b)
    }

    pub(super) fn unite(&mut self, a: Node, b: Node) {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return;
        }
        let both = self.domains[a].and(&self.domains[b]);
        self.contradiction |= both.is_empty();
        if let Some(value) = both.single().cloned() {
            let constant = self.constants.get(&value).copied();
            self.parent[b] = a;
            self.domains[a] = both;
            self.changed = true;
            match constant {
                Some(constant) => self.unite(a, constant),
                None => {
                    self.constants.insert(value, a);
                }
            }
            return;
        }
        self.parent[b] = a;
        self.domains[a] = both;
        self.changed = true;
    }

    /// Makes equal whatever must be equal. Returns whether such rows can exist.
    pub(super) fn run(&mut self) -> bool {
        loop {
            self.changed = false;
            self.rows_of_one_key();
            self.functions();
            let differ = self.differ.iter().any(|&(a, b)| self.same(a, b));
            self.contradiction |= differ;
            if self.contradiction || !self.changed {
                return !self.contradiction;
            }
        }
    }

    fn rows_of_one_key(&mut self) {
        let mut first: HashMap<((usize, usize), Vec<Node>), usize> = HashMap::new();
        for index in 0..self.atoms.len() {
            let atom = &self.atoms[index];
            let key = atom.key.iter().map(|&node| self.root(node)).collect();
            let earlier = *first.entry((atom.by, key)).or_insert(index);
            if earlier != index {
                for (a, b) in self.atoms[earlier].rest.clone().into_iter().zip(self.atoms[index].rest.clone())
                {
                    self.unite(a, b);
                }
            }
        }
    }

    fn functions(&mut self) {
        let mut by_arguments: HashMap<(usize, Vec<Node>), Node> = HashMap::new();
        let mut by_result: HashMap<Node, Vec<usize>> = HashMap::new();
        for index in 0..self.applications.len() {
            let Application { function, arguments, result } = &self.applications[index];
            let name = function.as_ref().map_or(0, |function| Arc::as_ptr(function) as usize);
            let result = self.root(*result);
            let mut arguments: Vec<Node> = arguments.iter().map(|&node| self.root(node)).collect();
            if function.as_ref().is_some_and(|function| function.name == "&") {
                // Order and repetition do not matter.
                arguments.sort_unstable();
                arguments.dedup();
            }
            let other = *by_arguments.entry((name, arguments)).or_insert(result);
            self.unite(result, other);
            by_result.entry(self.root(result)).or_default().push(index);
        }
        let mut equal: Vec<usize> = Vec::new();
        for applications in by_result.into_values().filter(|applications| applications.len() > 1) {
            equal.extend(applications);
        }
        equal.sort_unstable();
        for (at, &a) in equal.iter().enumerate() {
            for &b in &equal[at + 1..] {
                if self.same(self.applications[a].result, self.applications[b].result) {
                    self.equal_results(a, b);
                }
            }
        }
    }

    /// Handles two applications with one result: if the function is injective, the arguments are equal too.
    fn equal_results(&mut self, a: usize, b: usize) {
        let (Some(f), Some(g)) = (&self.applications[a].function, &self.applications[b].function) else {
            return;
        };
        let mut equal = Vec::new();
        if f.name == "&" && g.name == "&" {
            // A part's demand on certain bits is also a demand of the whole.
            for (function, pairs) in self.common_parts(a, b) {
                let kept = self.injective.arguments_within(&function, pairs.len());
                equal.extend(pairs.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(pair, _)| pair));
            }
        } else if Arc::ptr_eq(f, g) {
            let function = f.clone();
            let pairs = self.pairs(a, b);
            let same: Vec<bool> = pairs.iter().map(|&(a, b)| self.same(a, b)).collect();
            let kept = self.injective.arguments(&function, &same);
            equal.extend(pairs.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(pair, _)| pair));
        }
        for (a, b) in equal {
            self.unite(a, b);
        }
    }

    /// The arguments of two applications in pairs; none if their numbers differ.
    fn pairs(&self, a: usize, b: usize) -> Pairs {
        let (a, b) = (&self.applications[a].arguments, &self.applications[b].arguments);
        if a.len() == b.len() { a.iter().copied().zip(b.iter().copied()).collect() } else { Vec::new() }
    }

    /// For two joined matches, the functions that have a part in both, with their arguments in the two.
    fn common_parts(&self, a: usize, b: usize) -> Vec<(Arc<Function>, Pairs)> {
        let parts = |of: usize| -> Vec<usize> {
            let roots: Vec<Node> =
                self.applications[of].arguments.iter().map(|&node| self.root(node)).collect();
            let made = |made: &Application| roots.contains(&self.root(made.result));
            (0..self.applications.len()).filter(|&index| made(&self.applications[index])).collect()
        };
        let (a, b) = (parts(a), parts(b));
        let mut common = Vec::new();
        for &x in &a {
            for &y in &b {
                if let (Some(f), Some(g)) = (&self.applications[x].function, &self.applications[y].function)
                    && Arc::ptr_eq(f, g)
                    && f.name != "&"
                {
                    common.push((f.clone(), self.pairs(x, y)));
                }
            }
        }
        common
    }
}

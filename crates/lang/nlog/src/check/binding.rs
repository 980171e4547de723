//! Checks that every variable of a rule is bound.

use std::collections::HashMap;

use super::declarations::quoted;
use super::resolve::{Item, ItemIr, Node, NodeKind, Resolver, Term};
use crate::diagnostic::Code;
use crate::syntax::ast::Span;

impl Resolver<'_, '_> {
    /// Reports unbound variables; of several that depend on each other, only the root.
    pub(super) fn check_bound(&mut self, items: &[Item], is_fact: bool) {
        let mut bound: Vec<bool> = self.variables.iter().map(|variable| variable.in_atom).collect();
        let mut has_binder = bound.clone();
        let mut open: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for item in items {
            let (mut inputs, mut targets) = (Vec::new(), Vec::new());
            match &item.kind {
                ItemIr::Binding(variable, node) => {
                    variables_of(node, &mut inputs);
                    targets.push(*variable);
                }
                ItemIr::Function(site, terms) => {
                    // In a faulty call, every variable counts as a result.
                    let arguments =
                        self.sites[*site].chosen.as_ref().map_or(0, |candidate| candidate.arguments);
                    for (index, term) in terms.iter().enumerate() {
                        match term {
                            Term::Any => {}
                            Term::Variable(variable, _) if index < arguments => inputs.push(*variable),
                            Term::Variable(variable, _) => targets.push(*variable),
                            Term::Node(node) if index < arguments => variables_of(node, &mut inputs),
                            // A result that is compared binds nothing; the comparison comes later.
                            Term::Node(_) => {}
                        }
                    }
                }
                ItemIr::Table(..) | ItemIr::Condition(_) => continue,
            }
            for &target in &targets {
                has_binder[target] = true;
            }
            open.push((inputs, targets));
        }
        close(&open, &mut bound);
        let unbound: Vec<usize> = (0..bound.len()).filter(|&variable| !bound[variable]).collect();
        let roots: Vec<usize> = unbound.iter().copied().filter(|&variable| !has_binder[variable]).collect();
        self.failed |= !unbound.is_empty();
        if self.lacks_term {
            return;
        }
        if is_fact {
            self.variables_in_fact(&roots);
        } else {
            let compared = self.comparisons(items);
            for &root in &roots {
                self.unbound(root, compared.get(&root).copied());
            }
        }
        let first = unbound.iter().copied().min_by_key(|&variable| self.variables[variable].first);
        if let (true, Some(first)) = (roots.is_empty(), first) {
            let names = quoted(unbound.iter().map(|&variable| self.variables[variable].name.as_str()));
            let (message, help) = match unbound.len() {
                1 => (
                    format!("{names} is defined in terms of itself"),
                    "define it in terms of variables \
                that the body binds",
                ),
                _ => (
                    format!("{names} are defined in terms of each other"),
                    "bind one of them in a table atom",
                ),
            };
            self.report(Code::UnboundVariable, self.variables[first].first, message, help);
        }
    }

    fn unbound(&mut self, index: usize, compared: Option<Span>) {
        let variable = &self.variables[index];
        let reported = self.scope.reports.is_unknown(Code::UnknownConstant, &variable.name);
        if variable.in_fault || reported || self.scope.declarations.excuses(&variable.name) {
            return;
        }
        let (name, span) = (variable.name.clone(), variable.first);
        let others = self.variables.iter().filter(|other| other.in_atom).map(|other| other.name.as_str());
        let constants = self.scope.declarations.constants.keys().copied();
        let compared = compared.map(|span| self.scope.sources.text(span));
        let help = match (self.scope.nearest(&name, others.chain(constants)), compared) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(other)) => format!("`==` only compares; write `{name} = {other}` to bind `{name}`"),
            _ if openflow_rs::Field::from_name(&name).is_some() => format!(
                "`{name}` is an OpenFlow field, but a value is expected here; only move(…) and \
                output_field(…) take fields"
            ),
            _ => format!("use it as a column in a table atom of the body, or define it: `{name} = …`"),
        };
        let message = format!("variable `{name}` is not bound");
        self.report(Code::UnboundVariable, span, message, help);
    }

    /// For each variable that an item compares by `==`, the first value that it is compared with.
    fn comparisons(&self, items: &[Item]) -> HashMap<usize, Span> {
        let mut found = HashMap::new();
        for item in items {
            let ItemIr::Condition(Node { kind: NodeKind::Call(_, sides), .. }) = &item.kind else { continue };
            let [left, right] = sides.as_slice() else { continue };
            let between = Span { start: left.span.end, end: right.span.start, ..left.span };
            if between.start > between.end || self.scope.sources.text(between).trim() != "==" {
                continue;
            }
            match (&left.kind, &right.kind) {
                (NodeKind::Variable(left), NodeKind::Variable(right)) if left == right => {}
                _ => {
                    for (side, other) in [(left, right), (right, left)] {
                        if let NodeKind::Variable(variable) = side.kind {
                            found.entry(variable).or_insert(other.span);
                        }
                    }
                }
            }
        }
        found
    }

    /// Reports all variables of a fact at once: most likely its body is missing.
    fn variables_in_fact(&mut self, variables: &[usize]) {
        let declarations = self.scope.declarations;
        let unknown = variables.iter().map(|&index| &self.variables[index]);
        let unknown = unknown.filter(|variable| !variable.in_fault && !declarations.excuses(&variable.name));
        let Some(span) = unknown.clone().map(|variable| variable.first).min() else { return };
        let names: Vec<&str> = unknown.map(|variable| variable.name.as_str()).collect();
        let message = match names.as_slice() {
            [name] => format!("variable `{name}` is not bound: a fact contains only constants"),
            _ => format!("variables {} are not bound: a fact contains only constants", quoted(names)),
        };
        let help = "write text in double quotes; a rule with variables needs a body after `:-`";
        self.report(Code::UnboundVariable, span, message, help);
    }
}

/// Binds the targets of every item whose inputs are bound, until nothing changes.
fn close(open: &[(Vec<usize>, Vec<usize>)], bound: &mut [bool]) {
    let mut waiting: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut missing = vec![0_usize; open.len()];
    let mut ready = Vec::new();
    for (index, (inputs, _)) in open.iter().enumerate() {
        for &input in inputs.iter().filter(|&&input| !bound[input]) {
            waiting.entry(input).or_default().push(index);
            missing[index] += 1;
        }
        if missing[index] == 0 {
            ready.push(index);
        }
    }
    while let Some(index) = ready.pop() {
        for &target in &open[index].1 {
            if std::mem::replace(&mut bound[target], true) {
                continue;
            }
            for waiter in waiting.remove(&target).unwrap_or_default() {
                missing[waiter] -= 1;
                if missing[waiter] == 0 {
                    ready.push(waiter);
                }
            }
        }
    }
}

fn variables_of(node: &Node, into: &mut Vec<usize>) {
    match &node.kind {
        NodeKind::Variable(variable) => into.push(*variable),
        NodeKind::Call(_, nodes)
        | NodeKind::Apply(_, nodes)
        | NodeKind::List(nodes)
        | NodeKind::Set(nodes)
        | NodeKind::Literal(_, nodes) => {
            for node in nodes {
                variables_of(node, into);
            }
        }
        NodeKind::Field(_, node) => variables_of(node, into),
        NodeKind::If(a, b, c) => {
            for node in [a, b, c] {
                variables_of(node, into);
            }
        }
        NodeKind::Constant(_) | NodeKind::Text(_) | NodeKind::Faulty => {}
    }
}

//! A rule under construction: atoms, conditions, and how often each variable is used.

use super::random::Random;
use super::vocabulary::{Class, ENTITIES, KINDS, LIMITS, named};
use super::{Column, Table};

#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) kind: usize,
    pub(super) detail: u32,
    uses: usize,
}

#[derive(Debug, Clone)]
enum Item {
    /// A table and the variable of each column; `None` is `_`.
    Atom {
        table: usize,
        terms: Vec<Option<usize>>,
        named: bool,
    },
    Text(String),
}

/// A column of a head: its text, name, kind and detail.
pub(super) type Term = (String, Column);

#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    pub(super) variables: Vec<Variable>,
    items: Vec<Item>,
}

/// Fields of a match, as bits: two parts of one match never use the same field.
const MATCHES: [(&str, Class); 9] = [
    ("match_metadata", Class::Label),
    ("match_reg0", Class::Label),
    ("match_tun_id", Class::Label),
    ("match_in_port", Class::Port),
    ("match_eth_dst", Class::Mac),
    ("match_eth_src", Class::Mac),
    ("match_ip_dst", Class::Ip),
    ("match_tcp_dst", Class::Service),
    ("match_tagged", Class::Vlan),
];
const ACTIONS: [(&str, Class); 7] = [
    ("set_metadata", Class::Label),
    ("set_reg0", Class::Label),
    ("set_reg1", Class::Label),
    ("set_tun_dst", Class::Ip),
    ("set_reg12", Class::Port),
    ("set_eth_dst", Class::Mac),
    ("flow_output_action", Class::Port),
];
/// The length from which a list of actions is not extended.
const MOST_ACTIONS: u32 = 6;

impl Draft {
    pub(super) fn atoms(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Item::Atom { .. })).count()
    }

    pub(super) fn reads(&self) -> Vec<usize> {
        let tables = self.items.iter().filter_map(|item| match item {
            Item::Atom { table, .. } => Some(*table),
            Item::Text(_) => None,
        });
        tables.collect()
    }

    /// The tables whose columns are named in this rule.
    pub(super) fn reads_by_name(&self) -> impl Iterator<Item = usize> {
        self.items.iter().filter_map(|item| match item {
            Item::Atom { table, named: true, .. } => Some(*table),
            _ => None,
        })
    }

    /// Variables of this kind.
    pub(super) fn of_kind(&self, kind: usize) -> Vec<usize> {
        (0..self.variables.len()).filter(|at| self.variables[*at].kind == kind).collect()
    }

    pub(super) fn of_class(&self, class: Class) -> Vec<usize> {
        (0..self.variables.len()).filter(|at| KINDS[self.variables[*at].kind].class == class).collect()
    }

    pub(super) fn entities(&self) -> Vec<usize> {
        (0..self.variables.len()).filter(|at| self.variables[*at].kind < ENTITIES).collect()
    }

    /// The variable's name, which uses it.
    pub(super) fn mention(&mut self, variable: usize) -> String {
        self.variables[variable].uses += 1;
        self.variables[variable].name.clone()
    }

    fn fresh(&mut self, column: &Column) -> usize {
        let taken = |name: &str, variables: &[Variable]| variables.iter().any(|other| other.name == name);
        let mut name = column.name.clone();
        for prefix in ["remote", "other", "third", "fourth", "fifth", "sixth", "seventh"] {
            if !taken(&name, &self.variables) {
                break;
            }
            name = format!("{prefix}_{}", column.name);
        }
        self.variables.push(Variable { name, kind: column.kind, detail: column.detail, uses: 0 });
        self.variables.len() - 1
    }

    /// Adds an atom that binds all its columns except the given ones.
    pub(super) fn atom(
        &mut self,
        at: usize,
        table: &Table,
        given: &[(usize, usize)],
        random: &mut Random,
    ) -> Vec<usize> {
        let mut variables = Vec::with_capacity(table.columns.len());
        for (index, column) in table.columns.iter().enumerate() {
            let shared = given.iter().find(|(of, _)| *of == index).map(|(_, variable)| *variable);
            let variable = shared.unwrap_or_else(|| self.fresh(column));
            self.variables[variable].uses += 1;
            variables.push(variable);
        }
        let named = table.columns.len() > 4 && random.percent(60);
        let terms = variables.iter().copied().map(Some).collect();
        self.items.push(Item::Atom { table: at, terms, named });
        variables
    }

    pub(super) fn text(&mut self, text: String) {
        self.items.push(Item::Text(text));
    }

    /// A condition that most rows satisfy, or `None` if there is nothing to compare.
    pub(super) fn condition(&mut self, random: &mut Random) -> Option<String> {
        self.either_or(random).map(|(yes, _)| yes)
    }

    /// A condition and its opposite.
    pub(super) fn either_or(&mut self, random: &mut Random) -> Option<(String, String)> {
        let compared = |at: &usize| {
            let class = KINDS[self.variables[*at].kind].class;
            matches!(class, Class::Flag | Class::Number | Class::Ip | Class::Choice(_))
        };
        let choices: Vec<usize> = (0..self.variables.len()).filter(compared).collect();
        if choices.is_empty() {
            return None;
        }
        let at = *random.pick(&choices);
        let kind = self.variables[at].kind;
        let name = self.mention(at);
        Some(match KINDS[kind].class {
            Class::Flag => (name.clone(), format!("{name} == false")),
            Class::Ip => (format!("is_ipv4({name})"), format!("is_ipv6({name})")),
            Class::Choice(words) => (
                format!("{name} != \"{}\"", words[words.len() - 1]),
                format!("{name} == \"{}\"", words[words.len() - 1]),
            ),
            _ => {
                let limit = if random.percent(60) {
                    let small = |value: &str| value.parse::<u16>().is_ok_and(|value| value <= 100);
                    let numbers = LIMITS.iter().filter(|(_, value, _)| small(value));
                    let numbers: Vec<&str> = numbers.map(|(name, ..)| *name).collect();
                    (*random.pick(&numbers)).to_owned()
                } else {
                    (20 + random.below(28)).to_string()
                };
                (format!("{name} < {limit}"), format!("{name} >= {limit}"))
            }
        })
    }

    /// A condition and its opposite that every rule can have.
    pub(super) fn by_hash(&mut self, variable: usize) -> (String, String) {
        let name = self.mention(variable);
        (format!("hash({name}) & 1 == 0"), format!("hash({name}) & 1 == 1"))
    }

    /// A match on bound variables, if any can be matched.
    pub(super) fn matching(&mut self, random: &mut Random) -> Option<(String, u32)> {
        let (mut parts, mut fields) = (Vec::new(), 0_u32);
        let bound = self.of_kind(named("expr"));
        if let Some(&expr) = bound.first()
            && random.percent(70)
        {
            fields |= self.variables[expr].detail;
            parts.push(self.mention(expr));
        }
        let start = random.below(MATCHES.len());
        let most = 1 + random.below(3) + parts.len();
        for step in 0..MATCHES.len() {
            let bit = (start + step) % MATCHES.len();
            let (function, class) = MATCHES[bit];
            let variables = self.of_class(class);
            if parts.len() >= most || fields & 1 << bit != 0 || variables.is_empty() {
                continue;
            }
            fields |= 1 << bit;
            let variable = *random.pick(&variables);
            parts.push(format!("{function}({})", self.mention(variable)));
        }
        (!parts.is_empty()).then(|| (parts.join(" & "), fields))
    }

    /// Actions with bound variables, which lead to a stage.
    pub(super) fn acting(&mut self, random: &mut Random, stage: &str) -> (String, u32) {
        let (mut parts, mut length) = (Vec::new(), 1);
        let bound = self.of_kind(named("actions"));
        if let Some(&actions) = bound.first()
            && self.variables[actions].detail < MOST_ACTIONS
            && random.percent(70)
        {
            length += self.variables[actions].detail;
            parts.push(self.mention(actions));
        }
        let start = random.below(ACTIONS.len());
        let most = 1 + random.below(3) + parts.len();
        for step in 0..ACTIONS.len() {
            let (function, class) = ACTIONS[(start + step) % ACTIONS.len()];
            let variables = self.of_class(class);
            if parts.len() >= most || variables.is_empty() {
                continue;
            }
            length += 1;
            let variable = *random.pick(&variables);
            parts.push(format!("{function}({})", self.mention(variable)));
        }
        if random.percent(15) {
            parts.push("move_field(\"reg1\", \"tun_id[0..31]\")".to_owned());
            length += 1;
        }
        parts.push(format!("resubmit({stage})"));
        (parts.join(" ++ "), length)
    }

    /// A value computed from bound variables, as a column of a head.
    pub(super) fn computed(&mut self, random: &mut Random, stage: &str) -> Option<Term> {
        let column = |kind: &str, detail| Column { name: kind.to_owned(), kind: named(kind), detail };
        let made = match random.weighted(&[35, 25, 20, 10, 10]) {
            0 => {
                let (text, fields) = self.matching(random)?;
                (text, column("expr", fields))
            }
            1 => {
                let (text, length) = self.acting(random, stage);
                (text, column("actions", length))
            }
            2 => {
                let numbers = self.of_class(Class::Number);
                let entities = self.entities();
                let text = match (numbers.is_empty(), random.below(4)) {
                    (false, 0) => {
                        format!("{} + {}", self.mention(*random.pick(&numbers)), random.below(50) + 1)
                    }
                    (false, 1) => {
                        let name = self.mention(*random.pick(&numbers));
                        format!("if {name} < PREFERRED then {name} else PREFERRED")
                    }
                    (false, 2) => format!(
                        "({} & SPREAD) * {}",
                        self.mention(*random.pick(&numbers)),
                        random.below(9) + 2
                    ),
                    _ => format!("hash({}) & SPREAD", self.mention(*random.pick(&entities))),
                };
                (text, column("weight", 0))
            }
            3 => {
                let entity = *random.pick(&self.entities());
                let kind = KINDS[self.variables[entity].kind].name;
                (format!("MANAGED ++ \"{kind}-\" ++ {}", self.mention(entity)), column("name", 0))
            }
            _ => {
                let (yes, _) = self.either_or(random)?;
                (yes, column("enabled", 0))
            }
        };
        Some(made)
    }

    /// The items of the body as texts. A variable that is used once becomes `_`.
    pub(super) fn body(&self, tables: &[Table]) -> Vec<String> {
        self.items
            .iter()
            .map(|item| match item {
                Item::Text(text) => text.clone(),
                Item::Atom { table, terms, named } => self.render(&tables[*table], terms, *named),
            })
            .collect()
    }

    fn render(&self, table: &Table, terms: &[Option<usize>], by_name: bool) -> String {
        let used = |term: &Option<usize>| {
            let variable = &self.variables[(*term)?];
            (variable.uses > 1).then_some(variable.name.as_str())
        };
        let terms: Vec<String> = if by_name {
            let columns = table.columns.iter().zip(terms);
            let shown =
                columns.filter_map(|(column, term)| Some(format!("{}: {}", column.name, used(term)?)));
            shown.chain(["..".to_owned()]).collect()
        } else {
            terms.iter().map(|term| used(term).unwrap_or("_").to_owned()).collect()
        };
        format!("{}({})", table.name, terms.join(", "))
    }
}

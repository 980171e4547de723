//! Plans as text that the author of a rule can follow.

use std::fmt::{self, Write as _};

use nlog::program::Aggregate;
use nlog_data::{Schema, Value};

use crate::plan::{
    Arrangement, ArrangementId, Chain, GroupColumn, Keep, Operand, Output, Plan, RulePlan, Scalar, Selection,
    Source, Step,
};

impl fmt::Display for ArrangementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = self.users();
        if !self.arrangements.is_empty() {
            f.write_str("arrangements\n")?;
        }
        for (arrangement, at) in self.arrangements.iter().zip(0..) {
            let id = ArrangementId(at);
            write!(f, "  {id} = ")?;
            self.write_chain(f, &arrangement.chain)?;
            let name = |slot: &usize| arrangement.chain.names[*slot].clone();
            let key: Vec<String> = arrangement.key.iter().map(name).collect();
            let mut value: Vec<String> = arrangement.value.iter().map(name).collect();
            if arrangement.failure {
                value.push("(failure)".to_owned());
            }
            write!(f, " by ({}) for ({})", key.join(", "), value.join(", "))?;
            if arrangement.distinct {
                f.write_str(", distinct")?;
            }
            if arrangement.wide {
                f.write_str(", wide")?;
            }
            match users[at as usize] {
                0 | 1 => f.write_str("\n")?,
                users => writeln!(f, ", used {users} times")?,
            }
        }
        f.write_str("rules\n")?;
        for rule in &self.rules {
            self.write_rule(f, rule)?;
        }
        f.write_str("tables\n")?;
        for ((_, table), plan) in self.program.schema.iter().zip(&self.tables) {
            let keep = match &plan.keep {
                _ if !plan.needed => "not needed".to_owned(),
                Keep::AsIs => "as it is".to_owned(),
                Keep::Distinct => "distinct".to_owned(),
                Keep::Key(key) => {
                    let names: Vec<&str> =
                        key.iter().map(|column| table.columns[*column].name.as_str()).collect();
                    format!("distinct, key ({}) checked", names.join(", "))
                }
            };
            writeln!(f, "  {}: {keep}", table.name)?;
        }
        Ok(())
    }
}

impl Plan {
    /// By arrangement, how many joins read it.
    pub fn users(&self) -> Vec<usize> {
        let mut users = vec![0; self.arrangements.len()];
        let of_rules = self.rules.iter().flat_map(|rule| std::iter::once(&rule.chain).chain(&rule.failures));
        for chain in self.arrangements.iter().map(|arrangement| &arrangement.chain).chain(of_rules) {
            if let Source::Join { left, right } = &chain.source {
                users[left.0 as usize] += 1;
                users[right.0 as usize] += 1;
            }
        }
        users
    }

    fn write_rule(&self, f: &mut fmt::Formatter<'_>, plan: &RulePlan) -> fmt::Result {
        let rule = self.program.rule(plan.rule);
        writeln!(f, "  {} ({})", self.program.schema.table(plan.head).name, rule.place)?;
        f.write_str("    ")?;
        self.write_chain(f, &plan.chain)?;
        let names = &plan.chain.names;
        match &plan.output {
            Output::Rows(columns) => writeln!(f, " -> ({})", list(columns, names))?,
            Output::Groups { group, tuple, aggregates, columns, .. } => {
                let mut over: Vec<String> = group.iter().map(|scalar| scalar.text(names)).collect();
                over.extend(tuple.iter().map(|slot| names[*slot].clone()));
                let columns: Vec<String> = columns
                    .iter()
                    .map(|column| match column {
                        GroupColumn::Group(at) => over[*at].clone(),
                        GroupColumn::Aggregate(at) => {
                            let aggregate = &aggregates[*at];
                            format!("{}({})", name_of(aggregate.aggregate), list(&aggregate.arguments, &over))
                        }
                    })
                    .collect();
                writeln!(f, " -> group by ({}): ({})", list(group, names), columns.join(", "))?;
            }
        }
        for chain in &plan.failures {
            f.write_str("    failures: ")?;
            self.write_chain(f, chain)?;
            f.write_str("\n")?;
        }
        Ok(())
    }

    fn write_chain(&self, f: &mut fmt::Formatter<'_>, chain: &Chain) -> fmt::Result {
        f.write_str(&source_text(&chain.source, &self.program.schema))?;
        let mut next = chain.source.width(&self.arrangements);
        for step in &chain.steps {
            match step {
                Step::Let(scalar) => write!(f, ", {} = {}", chain.names[next], scalar.text(&chain.names))?,
                Step::Key(scalar) => {
                    write!(f, ", key {} = {}", chain.names[next], scalar.text(&chain.names))?;
                }
                Step::Filter(scalar) => write!(f, ", if {}", scalar.text(&chain.names))?,
                Step::Failed(scalar) => write!(f, ", if {} fails", scalar.text(&chain.names))?,
                Step::Generate { function, arguments, wanted } => {
                    let results: Vec<&str> = names_of_results(wanted, &chain.names[next..]);
                    let arguments = list(arguments, &chain.names);
                    write!(f, ", ({}) in {}({arguments})", results.join(", "), function.name)?;
                }
            }
            next += step.slots();
        }
        Ok(())
    }
}

impl Step {
    /// How many slots it fills.
    pub fn slots(&self) -> usize {
        match self {
            Step::Let(_) | Step::Key(_) => 1,
            Step::Filter(_) | Step::Failed(_) => 0,
            Step::Generate { wanted, .. } => wanted.iter().filter(|wanted| **wanted).count(),
        }
    }

    /// What it does, without regard to names.
    fn identity(&self) -> String {
        match self {
            Step::Let(scalar) => format!("let {}", scalar.text(&[])),
            Step::Key(scalar) => format!("key {}", scalar.text(&[])),
            Step::Filter(scalar) => format!("filter {}", scalar.text(&[])),
            Step::Failed(scalar) => format!("failed {}", scalar.text(&[])),
            Step::Generate { function, arguments, wanted } => {
                format!("generate {:p} {} {wanted:?}", *function, list(arguments, &[]))
            }
        }
    }
}

impl Arrangement {
    /// A text that is equal for arrangements that hold the same.
    pub(crate) fn identity(&self) -> String {
        let steps: Vec<String> = self.chain.steps.iter().map(Step::identity).collect();
        let Arrangement { key, value, failure, distinct, wide, chain } = self;
        format!("{:?} {steps:?} {key:?} {value:?} {failure} {distinct} {wide}", chain.source)
    }
}

impl Scalar {
    /// The expression with these names for its slots; without names, one that tells functions of one name apart.
    pub(crate) fn text(&self, names: &[String]) -> String {
        match self {
            Scalar::Slot(slot) => names.get(*slot).map_or_else(|| format!("#{slot}"), Clone::clone),
            Scalar::Constant(value) => constant(value),
            Scalar::Call { function, arguments } => {
                let name = &function.name;
                let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic());
                match arguments.as_slice() {
                    [a, b] if !is_word && !names.is_empty() => {
                        format!("({} {name} {})", a.text(names), b.text(names))
                    }
                    _ if names.is_empty() => format!("{:p}({})", *function, list(arguments, names)),
                    _ => format!("{name}({})", list(arguments, names)),
                }
            }
            Scalar::If { condition, then, otherwise } => {
                format!(
                    "(if {} then {} else {})",
                    condition.text(names),
                    then.text(names),
                    otherwise.text(names)
                )
            }
        }
    }
}

fn names_of_results<'a>(wanted: &[bool], names: &'a [String]) -> Vec<&'a str> {
    let mut names = names.iter();
    wanted.iter().map(|wanted| if *wanted { names.next().map_or("_", String::as_str) } else { "_" }).collect()
}

fn list(scalars: &[Scalar], names: &[String]) -> String {
    let texts: Vec<String> = scalars.iter().map(|scalar| scalar.text(names)).collect();
    texts.join(", ")
}

fn constant(value: &Value) -> String {
    let mut text = Vec::new();
    nlog_data::json::write_value(&mut text, value);
    String::from_utf8_lossy(&text).into_owned()
}

fn source_text(source: &Source, schema: &Schema) -> String {
    match source {
        Source::Unit => "once".to_owned(),
        Source::Join { left, right } => format!("{left} * {right}"),
        Source::Table { table, select, .. } => {
            let table = schema.table(*table);
            let mut text = table.name.clone();
            for (at, Selection { column, equals }) in select.iter().enumerate() {
                text.push_str(if at == 0 { "[" } else { ", " });
                let equals = match equals {
                    Operand::Column(column) => table.columns[*column].name.clone(),
                    Operand::Constant(value) => constant(value),
                };
                let _ = write!(text, "{} = {equals}", table.columns[*column].name);
            }
            if !select.is_empty() {
                text.push(']');
            }
            text
        }
    }
}

fn name_of(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Count => "count",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::Sum => "sum",
        Aggregate::Set => "set",
        Aggregate::List => "list",
        Aggregate::ArgMin => "arg_min",
        Aggregate::ArgMax => "arg_max",
    }
}

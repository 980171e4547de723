//! Finds the flows that rules derive, and gathers those of one shape.

use std::collections::{BTreeMap, BTreeSet};

use nlog::Program;
use nlog::program::{BodyItem, Rule};
use nlog_data::{Role, RuleId, TableId, Type, Value};

use crate::evaluate::as_match;
use crate::model::{Entry, Form, Group, Outcome, Placed, Priority, Stage};
use crate::names::Names;
use crate::row::Row;
use crate::shape::{ActionsShape, MatchShape};
use crate::term::{Piece, Symbol, Term, Token};
use crate::unfold::Unfolding;

/// What is found.
pub(crate) struct Found {
    pub(crate) forms: Vec<Form>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) groups: Vec<Group>,
}

/// All priorities: nothing is known of one.
const ANY: (u16, u16) = (0, u16::MAX);

/// The columns of a table of flows.
pub(crate) struct Columns {
    table: usize,
    priority: usize,
    matching: usize,
    /// A flow without a host may have its actions elsewhere.
    actions: Option<usize>,
}

impl Columns {
    /// The columns of a table that holds flows.
    pub(crate) fn of(program: &Program, table: TableId) -> Option<Columns> {
        let columns = &program.schema.table(table).columns;
        let of_type = |ty: &Type| columns.iter().position(|column| column.ty.base() == ty);
        let number = |name: &str| {
            columns.iter().position(|column| column.name == name && *column.ty.base() == Type::Int)
        };
        Some(Columns {
            table: number("table_id")?,
            priority: number("priority")?,
            matching: of_type(&Type::Match)?,
            actions: of_type(&Type::Actions),
        })
    }
}

/// One way in which a rule derives a flow.
struct Flow {
    stage: u8,
    priority: (u16, u16),
    matching: MatchShape,
    outcome: Outcome,
    rule: RuleId,
}

/// The internal tables of flows that rules derive without a host, and others place on hosts: those with columns `table_id`,
/// `priority` and a match, except for tables that only pass on the flows of another. In name order.
pub fn forms(program: &Program) -> Vec<TableId> {
    let holds_flows = |table: TableId| Columns::of(program, table).is_some();
    let passes_on = |table: TableId| {
        let items = program.rules_of(table).flat_map(|(_, rule)| &rule.body);
        items.into_iter().any(|item| matches!(item, BodyItem::Atom { table, .. } if holds_flows(*table)))
    };
    let internal = program.schema.iter().filter(|(_, table)| table.role == Role::Internal);
    internal.map(|(id, _)| id).filter(|id| holds_flows(*id) && !passes_on(*id)).collect()
}

/// Everything that the rules of a program put into switches.
pub(crate) fn find(program: &Program, names: &Names) -> Found {
    let tables = || program.schema.iter();
    let is_output = |role: Role| role == Role::Output;
    let flows: Vec<(TableId, Columns)> = tables()
        .filter(|(_, table)| is_output(table.role))
        .filter_map(|(id, _)| {
            Some((id, Columns::of(program, id).filter(|columns| columns.actions.is_some())?))
        })
        .collect();
    let forms: BTreeSet<TableId> = forms(program).into_iter().collect();
    let buckets: Vec<TableId> = tables()
        .filter(|(id, table)| is_output(table.role) && !flows.iter().any(|(flow, _)| flow == id))
        .filter(|(_, table)| table.columns.iter().any(|column| *column.ty.base() == Type::Actions))
        .map(|(id, _)| id)
        .collect();
    let wanted = flows.iter().map(|(id, _)| *id).chain(buckets.iter().copied()).collect();
    let unfolding = Unfolding::new(program, names, &wanted);
    let gatherer = Gatherer { program, names, unfolding, forms };
    Found {
        forms: gatherer.form_docs(),
        stages: gatherer.stages(&flows),
        groups: buckets.iter().flat_map(|table| gatherer.groups(*table)).collect(),
    }
}

struct Gatherer<'p> {
    program: &'p Program,
    names: &'p Names,
    unfolding: Unfolding<'p>,
    /// The tables of flows without hosts.
    forms: BTreeSet<TableId>,
}

impl Gatherer<'_> {
    fn form_docs(&self) -> Vec<Form> {
        let form = |id: &TableId| {
            let table = self.program.schema.table(*id);
            Form { table: table.name.clone(), doc: sentence(&table.doc) }
        };
        self.forms.iter().map(form).collect()
    }

    fn stages(&self, tables: &[(TableId, Columns)]) -> Vec<Stage> {
        let mut flows: Vec<Flow> = Vec::new();
        for (table, columns) in tables {
            let rows = self.unfolding.rows(*table);
            flows.extend(rows.iter().filter_map(|row| self.flow(row, columns)));
        }
        let mut by_stage: BTreeMap<u8, BTreeMap<(u16, u16), Vec<Flow>>> = BTreeMap::new();
        for stage in &self.names.stages {
            by_stage.entry(stage.number).or_default();
        }
        for flow in flows {
            by_stage.entry(flow.stage).or_default().entry(flow.priority).or_default().push(flow);
        }
        by_stage.into_iter().map(|(number, priorities)| self.stage(number, priorities)).collect()
    }

    fn stage(&self, number: u8, priorities: BTreeMap<(u16, u16), Vec<Flow>>) -> Stage {
        let named = self.names.stages.iter().find(|stage| stage.number == number);
        let priority = |((first, last), flows): ((u16, u16), Vec<Flow>)| {
            let named = Some(first)
                .filter(|first| (*first, last) != ANY)
                .and_then(|first| self.names.priority(number, first));
            let doc = named.map(|named| one_line(named.docs.as_deref())).unwrap_or_default();
            Priority {
                first,
                last,
                name: named.map(|named| named.name.clone()),
                entries: self.entries(flows),
                doc,
            }
        };
        Stage {
            number,
            name: named.map(|stage| stage.name.clone()),
            doc: self.names.stage_doc(number),
            priorities: priorities.into_iter().rev().map(priority).collect(),
        }
    }

    /// The flow of a row; none if its table is not known.
    fn flow(&self, row: &Row, columns: &Columns) -> Option<Flow> {
        let Term::Constant(Value::Int(stage)) = &row.columns[columns.table] else { return None };
        let stage = u8::try_from(*stage).ok()?;
        let priority = self.priority(stage, &row.columns[columns.priority]);
        let reader = Reader::new(row);
        let text = |tokens: &[Token]| reader.text(tokens);
        let matching = MatchShape::new(&as_match(&row.columns[columns.matching])?, &text);
        let actions =
            columns.actions.map(|column| self.unfolding.evaluator().as_actions(&row.columns[column]));
        let logical = row.via.iter().find(|rule| self.forms.contains(&self.program.rule(**rule).head));
        let rule = *logical.or(row.via.last())?;
        let outcome = self.outcome(row, &reader, actions.unwrap_or_default());
        Some(Flow { stage, priority, matching, outcome, rule })
    }

    /// The priorities that a flow can have. A computed one that cannot be tried out is in the range that the stage declares, if
    /// that is one.
    fn priority(&self, stage: u8, term: &Term) -> (u16, u16) {
        let number = |value: &Value| match value {
            Value::Int(number) => u16::try_from(*number).ok(),
            _ => None,
        };
        match term {
            Term::Constant(value) => number(value).map_or(ANY, |number| (number, number)),
            Term::Computed(computed) => {
                let sample = computed.sample.as_ref().and_then(number);
                let named = sample.and_then(|sample| self.names.priority(stage, sample));
                named
                    .or_else(|| self.names.only_range(stage))
                    .map_or(ANY, |named| (named.least, named.greatest))
            }
            _ => ANY,
        }
    }

    /// What happens to the packets of a row, and in which of several cases: what the rules on the way say, and what was
    /// assumed.
    fn outcome(&self, row: &Row, reader: &Reader, actions: Vec<Piece>) -> Outcome {
        let shape = ActionsShape::new(&actions, &|tokens: &[Token]| reader.text(tokens));
        let alone = |rule: &Rule| self.program.rules_of(rule.head).count() == 1;
        let placing = row.via.last();
        // The outermost rule comes last, and says most.
        let details = row.via.iter().rev().filter(|id| Some(*id) != placing);
        let details = details.map(|id| self.program.rule(*id));
        let details: Vec<&Rule> =
            details.filter(|rule| !self.forms.contains(&rule.head) && !alone(rule)).collect();
        let docs = details.iter().map(|rule| one_line(rule.docs.as_deref()));
        let assumed = row.assumed.iter().map(|assumption| {
            let text = reader.text(&assumption.text);
            if assumption.holds { format!("If `{text}`.") } else { format!("Unless `{text}`.") }
        });
        let case: Vec<String> = docs.chain(assumed).filter(|text| !text.is_empty()).collect();
        let order = details.iter().map(|rule| (rule.place.file.to_string(), rule.place.line)).collect();
        Outcome { actions: shape.text(), case: case.join(" "), shape, order }
    }

    /// The entries of a priority.
    fn entries(&self, flows: Vec<Flow>) -> Vec<Entry> {
        // One for each rule and match, in the order of the source.
        let mut of_rules: Vec<(RuleId, MatchShape, Vec<Outcome>)> = Vec::new();
        for flow in flows {
            let own = of_rules
                .iter_mut()
                .find(|(rule, matching, _)| *rule == flow.rule && *matching == flow.matching);
            match own {
                Some((_, _, outcomes)) if !outcomes.contains(&flow.outcome) => outcomes.push(flow.outcome),
                Some(_) => {}
                None => of_rules.push((flow.rule, flow.matching, vec![flow.outcome])),
            }
        }
        for (_, _, outcomes) in &mut of_rules {
            unite_cases(outcomes);
        }
        of_rules.sort_by_cached_key(|(rule, matching, _)| {
            let place = &self.program.rule(*rule).place;
            (place.file.clone(), place.line, matching.text(self.names))
        });
        let mut entries: Vec<Entry> = Vec::new();
        for (rule, shape, outcomes) in of_rules {
            let placed = self.placed(rule);
            // Where both rules can give one match the same actions, a flow does not say which one it is of.
            let known = |own: &[Outcome], new: &Outcome| own.iter().any(|own| own.shape.same(&new.shape));
            let same = |entry: &&mut Entry| {
                entry.shape.same(&shape) && outcomes.iter().any(|outcome| known(&entry.outcomes, outcome))
            };
            match entries.iter_mut().find(same) {
                Some(entry) => {
                    if !entry.rules.contains(&placed) {
                        entry.rules.push(placed);
                    }
                    for outcome in outcomes {
                        if !known(&entry.outcomes, &outcome) {
                            entry.outcomes.push(outcome);
                        }
                    }
                }
                None => entries.push(Entry {
                    matching: shape.text(self.names),
                    outcomes,
                    rules: vec![placed],
                    shape,
                }),
            }
        }
        entries
    }

    fn placed(&self, id: RuleId) -> Placed {
        let rule = self.program.rule(id);
        let form = self.forms.contains(&rule.head).then(|| self.program.schema.table(rule.head).name.clone());
        let doc = one_line(rule.docs.as_deref());
        Placed { form, file: rule.place.file.to_string(), line: rule.place.line, doc }
    }

    fn groups(&self, table: TableId) -> Vec<Group> {
        let columns = &self.program.schema.table(table).columns;
        let number = |name: &str| columns.iter().position(|column| column.name == name);
        let actions = columns.iter().position(|column| *column.ty.base() == Type::Actions);
        let (Some(group), Some(bucket), Some(actions)) = (number("group"), number("bucket"), actions) else {
            return Vec::new();
        };
        let mut groups: Vec<(RuleId, Group)> = Vec::new();
        for row in self.unfolding.rows(table).iter() {
            let reader = Reader::new(row);
            let actions = self.unfolding.evaluator().as_actions(&row.columns[actions]);
            let Some(rule) = row.via.last().copied() else { continue };
            let outcome = self.outcome(row, &reader, actions);
            let (group, bucket) =
                (self.number(&reader, &row.columns[group]), self.number(&reader, &row.columns[bucket]));
            let same = |(own, known): &&mut (RuleId, Group)| {
                *own == rule && known.group == group && known.bucket == bucket
            };
            match groups.iter_mut().find(same) {
                Some((_, known)) if !known.outcomes.contains(&outcome) => known.outcomes.push(outcome),
                Some(_) => {}
                None => groups
                    .push((rule, Group { group, bucket, outcomes: vec![outcome], rule: self.placed(rule) })),
            }
        }
        for (_, group) in &mut groups {
            unite_cases(&mut group.outcomes);
        }
        groups.sort_by(|(_, a), (_, b)| (&a.rule.file, a.rule.line).cmp(&(&b.rule.file, b.rule.line)));
        groups.into_iter().map(|(_, group)| group).collect()
    }

    fn number(&self, reader: &Reader, term: &Term) -> String {
        match term {
            Term::Constant(value) => self.names.constant(value),
            Term::Symbol(id) => format!("<{}>", reader.text(&[Token::Symbol(*id)])),
            Term::Computed(computed) => format!("<{}>", reader.text(&computed.text)),
            Term::Match(_) | Term::Actions(_) => String::new(),
        }
    }
}

/// One outcome for all cases with the same actions; without a case if there is only one.
fn unite_cases(outcomes: &mut Vec<Outcome>) {
    let mut united: Vec<Outcome> = Vec::new();
    for outcome in outcomes.drain(..) {
        match united.iter_mut().find(|own| own.shape == outcome.shape) {
            // What distinguishes the cases makes no difference.
            Some(own) => {
                own.case = common(&own.case, &outcome.case);
                own.order = own.order.clone().min(outcome.order);
            }
            None => united.push(outcome),
        }
    }
    united.sort_by(|a, b| (&a.order, &a.actions).cmp(&(&b.order, &b.actions)));
    // What all have in common tells none from another.
    if united.iter().all(|outcome| outcome.case == united[0].case) {
        for outcome in &mut united {
            outcome.case.clear();
        }
    }
    *outcomes = united;
}

/// What both cases have in common; both, if rules say of each what it is.
fn common(a: &str, b: &str) -> String {
    if a == b {
        return a.to_owned();
    }
    if let Some(either) = either(a, b) {
        return either;
    }
    let sentences =
        |case: &str| case.split_inclusive(". ").map(|part| part.trim().to_owned()).collect::<Vec<_>>();
    let of_b = sentences(b);
    let both: Vec<String> = sentences(a).into_iter().filter(|sentence| of_b.contains(sentence)).collect();
    let is_said = |case: &str| !case.is_empty() && !case.starts_with("If `") && !case.starts_with("Unless `");
    if both.is_empty() && is_said(a) && is_said(b) {
        return format!("{a} Or: {b}");
    }
    both.join(" ")
}

/// Either case, if both say only what one value is: "If `action == drop|reject`."
fn either(a: &str, b: &str) -> Option<String> {
    let read = |case: &str| {
        let (subject, values) = case.strip_prefix("If `")?.strip_suffix("`.")?.split_once(" == ")?;
        Some((subject.to_owned(), values.to_owned()))
    };
    let ((subject, a), (other, b)) = (read(a)?, read(b)?);
    // Nothing else of a condition has quotes: a case of several sentences is not read.
    let plain = subject == other && ![&subject, &a, &b].iter().any(|part| part.contains('`'));
    plain.then(|| format!("If `{subject} == {a}|{b}`."))
}

/// The sentence of a declaration or a rule: the first paragraph of its documentation, on one line.
pub fn one_line(docs: Option<&str>) -> String {
    sentence(docs.unwrap_or_default())
}

/// Documentation on one line.
fn sentence(doc: &str) -> String {
    let paragraph = doc.trim().split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads the symbols of a row.
struct Reader {
    /// The text of each symbol.
    texts: Vec<String>,
}

impl Reader {
    fn new(row: &Row) -> Reader {
        let mut texts: Vec<String> = Vec::new();
        for (place, symbol) in row.symbols.iter().enumerate() {
            // What one owner has under one name is one value.
            let same = |other: &&Symbol| {
                symbol.owner.is_some() && (other.owner, &other.name) == (symbol.owner, &symbol.name)
            };
            if let Some(same) = row.symbols[..place].iter().position(|other| same(&other)) {
                texts.push(texts[same].clone());
                continue;
            }
            let owner = symbol.owner.and_then(|owner| row.symbols.get(owner));
            let own = match (symbol.ty.base(), owner) {
                (Type::Int, Some(owner)) => format!("{} of {}", symbol.name, owner.name),
                _ => symbol.name.clone(),
            };
            let mut text = own.clone();
            let mut number = 2;
            while texts.contains(&text) {
                text = format!("{own} {number}");
                number += 1;
            }
            texts.push(text);
        }
        Reader { texts }
    }

    fn text(&self, tokens: &[Token]) -> String {
        let text = |token: &Token| match token {
            Token::Text(text) => text.clone(),
            Token::Symbol(id) => self.texts.get(*id).cloned().unwrap_or_default(),
            Token::Hole(inner) => self.text(inner),
        };
        tokens.iter().map(text).collect()
    }
}

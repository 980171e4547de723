//! Interprets a plan by nested loops: runs every pipeline of a rule from all rows; all must have the same result.

use std::collections::{BTreeMap, BTreeSet};

use nlog::program::Aggregate;
use nlog_data::{
    DerivedCause, DerivedError, Failure, MOST_FORBIDDEN, Results, Row, TableId, Value, function,
};
use nlog_plan::query::{End, Index, Joins, Output, Pipeline, Plan, Probe, RelationId, RulePlan, Start, Step};
use nlog_plan::{AggregatePlan, GroupColumn, Keep, Operand, Scalar, Selection};

/// A slot: a value, or the least failure that it is instead.
type Held = Result<Value, Failure>;

/// The result: all rows of all relations.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) relations: Vec<BTreeSet<Row>>,
    pub(crate) errors: BTreeSet<DerivedError>,
    /// The number of rows and bindings that the pipelines `whole` touched.
    pub(crate) touched: u64,
}

/// Computes all relations from the rows of the input tables.
pub(crate) fn evaluate(plan: &Plan, inputs: &BTreeMap<TableId, Vec<Row>>) -> Result<Contents, String> {
    let mut contents =
        Contents { relations: vec![BTreeSet::new(); plan.relations.len()], ..Contents::default() };
    for (table, rows) in inputs {
        contents.relations[table.0 as usize] = rows.iter().cloned().collect();
    }
    let mut order: Vec<usize> = (0..plan.relations.len()).collect();
    order.sort_by_key(|relation| plan.relations[*relation].level);
    let mut repeated = Vec::new();
    for relation in order {
        let head = RelationId(relation as u32);
        let mut rows: BTreeMap<Row, u64> = BTreeMap::new();
        for rule in plan.rules.iter().filter(|rule| rule.head == head) {
            for row in of_rule(plan, rule, &mut contents)? {
                *rows.entry(row).or_default() += 1;
            }
        }
        let planned = &plan.relations[relation];
        if planned.keep == Keep::AsIs && rows.values().any(|count| *count > 1) {
            repeated.push(head);
        }
        if let Keep::Key(key) = &planned.keep {
            key_conflicts(plan, head, key, &rows, &mut contents.errors);
        }
        if let Some(table) = planned.table.filter(|_| plan.forbids(head) && !rows.is_empty()) {
            let least = rows.keys().take(MOST_FORBIDDEN).cloned().collect();
            let cause = DerivedCause::Forbidden { rows: least, count: rows.len() };
            contents.errors.insert(DerivedError { table, cause });
        }
        if planned.level > 0 && plan.rules.iter().any(|rule| rule.head == head) {
            contents.relations[relation] = rows.into_keys().collect();
        }
    }
    let read: BTreeSet<RelationId> = plan.rules.iter().flat_map(|rule| rule.body.atoms.clone()).collect();
    repeated.retain(|head| plan.relations[head.0 as usize].wanted || read.contains(head));
    if contents.errors.is_empty() && !repeated.is_empty() {
        return Err(format!("rows come twice in {repeated:?}, which is kept as it is"));
    }
    Ok(contents)
}

fn key_conflicts(
    plan: &Plan,
    head: RelationId,
    key: &[usize],
    rows: &BTreeMap<Row, u64>,
    errors: &mut BTreeSet<DerivedError>,
) {
    let mut by_key: BTreeMap<Vec<Value>, Vec<&Row>> = BTreeMap::new();
    for row in rows.keys() {
        by_key.entry(key.iter().map(|column| row[*column].clone()).collect()).or_default().push(row);
    }
    for rows in by_key.values() {
        if let [first, second, ..] = rows.as_slice() {
            let (first, second) = ((*first).clone(), (*second).clone());
            errors.insert(DerivedError::key_conflict(&plan.program.schema, TableId(head.0), first, second));
        }
    }
}

/// The rows that a rule derives, with duplicates.
fn of_rule(plan: &Plan, rule: &RulePlan, contents: &mut Contents) -> Result<Vec<Row>, String> {
    let level = plan.relations[rule.head.0 as usize].level;
    if rule.body.atoms.iter().any(|atom| plan.relations[atom.0 as usize].level >= level) {
        return Err(format!("{:?} is not above what it reads", rule.head));
    }
    let mut touched = 0;
    let ends = of_joins(plan, &rule.body, contents, &mut touched)?;
    let mut failures: BTreeSet<Failure> = ends.failures.keys().cloned().collect();
    for joins in &rule.failures {
        let ends = of_joins(plan, joins, contents, &mut touched)?;
        if !ends.rows.is_empty() {
            return Err("bindings that have not failed are followed".to_owned());
        }
        failures.extend(ends.failures.into_keys());
    }
    contents.touched += touched;
    let mut rows: Vec<Row> = Vec::new();
    match &rule.output {
        Output::Rows => {
            for (row, count) in ends.rows {
                rows.extend(std::iter::repeat_n(row, count));
            }
        }
        Output::Groups { group, tuple, aggregates, columns } => {
            let mut groups: BTreeMap<Vec<Value>, BTreeSet<Vec<Value>>> = BTreeMap::new();
            for both in ends.rows.into_keys() {
                assert_eq!(both.len(), group + tuple);
                groups.entry(both[..*group].to_vec()).or_default().insert(both);
            }
            for (group, tuples) in groups {
                match of_group(&group, &tuples, aggregates, columns) {
                    Ok(row) => rows.push(row),
                    Err(failure) => {
                        failures.insert(failure);
                    }
                }
            }
        }
    }
    let table = plan.program.schema.shown(TableId(rule.head.0));
    for failure in failures {
        let cause = DerivedCause::Failure { failure, rule: rule.rule };
        contents.errors.insert(DerivedError { table, cause });
    }
    Ok(rows)
}

fn of_group(
    group: &[Value],
    tuples: &BTreeSet<Vec<Value>>,
    aggregates: &[AggregatePlan],
    columns: &[GroupColumn],
) -> Result<Row, Failure> {
    let computed: Vec<Result<Value, Failure>> = (aggregates.iter())
        .map(|plan| {
            let arguments: Vec<Vec<Value>> = (tuples.iter())
                .map(|tuple| {
                    let slots: Vec<Held> = tuple.iter().cloned().map(Ok).collect();
                    let values = plan.arguments.iter().map(|argument| scalar(argument, &slots));
                    values.map(|value| value.expect("checked").expect("checked")).collect()
                })
                .collect();
            aggregate(plan.aggregate, &arguments)
        })
        .collect();
    // All are computed, so that the least failure is known.
    if let Some(failure) = computed.iter().filter_map(|value| value.as_ref().err()).min() {
        return Err(failure.clone());
    }
    let column = |column: &GroupColumn| match column {
        GroupColumn::Group(at) => group[*at].clone(),
        GroupColumn::Aggregate(at) => computed[*at].clone().expect("none failed"),
    };
    Ok(columns.iter().map(column).collect())
}

fn aggregate(which: Aggregate, tuples: &[Vec<Value>]) -> Result<Value, Failure> {
    let first = || tuples.iter().map(|arguments| arguments[0].clone());
    let pairs = || tuples.iter().map(|arguments| (arguments[0].clone(), arguments[1].clone()));
    Ok(match which {
        Aggregate::Count => Value::Int(tuples.len() as i64),
        Aggregate::Min => first().min().expect("a group has a tuple"),
        Aggregate::Max => first().max().expect("a group has a tuple"),
        Aggregate::Sum => {
            let total: i128 =
                first().map(|value| if let Value::Int(n) = value { i128::from(n) } else { 0 }).sum();
            Value::Int(i64::try_from(total).map_err(|_| function::sum_overflow(total))?)
        }
        Aggregate::Set => Value::set(first()),
        Aggregate::List => {
            let mut values: Vec<Value> = first().collect();
            values.sort();
            Value::list(values)
        }
        Aggregate::ArgMin => pairs().min().expect("a group has a tuple").1,
        Aggregate::ArgMax => pairs().max().expect("a group has a tuple").1,
    })
}

/// The results of bindings, with their numbers.
#[derive(Debug, Default, PartialEq)]
struct Ends {
    /// Rows, or groups and tuples.
    rows: BTreeMap<Row, usize>,
    /// The least failure of each binding that has one.
    failures: BTreeMap<Failure, usize>,
}

fn of_joins(plan: &Plan, joins: &Joins, contents: &Contents, touched: &mut u64) -> Result<Ends, String> {
    if joins.pipelines.len() != joins.atoms.len().max(1) {
        return Err("there is a pipeline for each atom".to_owned());
    }
    let mut all = Vec::new();
    for (at, pipeline) in joins.pipelines.iter().enumerate() {
        let mut here = 0;
        all.push(of_pipeline(plan, joins, pipeline, contents, &mut here)?);
        *touched += if at == joins.full { here } else { 0 };
    }
    if let Some(other) = all.iter().position(|ends| *ends != all[0]) {
        return Err(format!("pipelines differ: {:?}\nand {other}: {:?}", all[0], all[other]));
    }
    Ok(all.swap_remove(joins.full))
}

/// A binding.
#[derive(Debug, Clone, Default)]
struct Binding {
    slots: Vec<Held>,
    /// The least failure that is no longer in a slot.
    remembered: Option<Failure>,
}

impl Binding {
    fn remember(&mut self, failure: &Failure) {
        if self.remembered.as_ref().is_none_or(|known| failure < known) {
            self.remembered = Some(failure.clone());
        }
    }
}

fn of_pipeline(
    plan: &Plan,
    joins: &Joins,
    pipeline: &Pipeline,
    contents: &Contents,
    touched: &mut u64,
) -> Result<Ends, String> {
    let mut bindings = match &pipeline.start {
        Start::Once => vec![Binding::default()],
        Start::Row { atom, select, columns, names } => {
            assert_eq!(columns.len(), names.len());
            let rows = &contents.relations[joins.atoms[*atom].0 as usize];
            let rows = rows.iter().filter(|row| fits(row, select));
            let slots = |row: &Row| columns.iter().map(|column| Ok(row[*column].clone())).collect();
            rows.map(|row| Binding { slots: slots(row), remembered: None }).collect()
        }
    };
    *touched += bindings.len() as u64;
    let mut atoms: BTreeSet<usize> = BTreeSet::new();
    // The first atom is the start of the pipeline.
    let mut probed = 1;
    if let Start::Row { atom, .. } = &pipeline.start {
        atoms.insert(*atom);
    }
    for step in &pipeline.steps {
        if let Step::Probe(probe) = step {
            let found = plan.indexes[probe.index.0 as usize].relation;
            let wanted = match &pipeline.through {
                Some(through) => through.order.get(probed).map(|atom| through.atoms[*atom]),
                None => Some(joins.atoms[probe.atom]),
            };
            if wanted != Some(found) {
                return Err("an atom is not probed in its own relation".to_owned());
            }
            probed += 1;
            atoms.insert(probe.atom);
        }
        let mut after = Vec::new();
        for binding in bindings {
            of_step(plan, step, binding, contents, &mut after)?;
        }
        bindings = after;
        *touched += if matches!(step, Step::Probe(_)) { bindings.len() as u64 } else { 0 };
    }
    let is_whole = pipeline.through.as_ref().is_none_or(|through| probed == through.atoms.len());
    if atoms.len() != joins.atoms.len() || !is_whole {
        return Err("not every atom is joined".to_owned());
    }
    let mut ends = Ends::default();
    for binding in bindings {
        of_end(&pipeline.end, binding, pipeline.may_fail, &mut ends)?;
    }
    Ok(ends)
}

fn of_end(end: &End, mut binding: Binding, may_fail: bool, ends: &mut Ends) -> Result<(), String> {
    for failure in binding.slots.clone().iter().filter_map(|slot| slot.as_ref().err()) {
        binding.remember(failure);
    }
    if binding.remembered.is_some() && !may_fail {
        return Err("a pipeline that cannot fail has failed".to_owned());
    }
    let none = Vec::new();
    let (computed, slots, checked) = match end {
        End::Row(columns) => (columns, &[][..], &none),
        End::Group { group, tuple, check } => (group, tuple.as_slice(), check),
        End::Failure => {
            let failure = binding.remembered.ok_or("a binding without a failure is followed")?;
            *ends.failures.entry(failure).or_default() += 1;
            return Ok(());
        }
    };
    let mut row = Vec::new();
    for column in computed {
        match scalar(column, &binding.slots) {
            None => return Ok(()),
            Some(Ok(value)) => row.push(value),
            Some(Err(failure)) => binding.remember(&failure),
        }
    }
    row.extend(slots.iter().filter_map(|slot| binding.slots[*slot].clone().ok()));
    for check in checked {
        match scalar(check, &binding.slots) {
            None => return Ok(()),
            Some(Ok(_)) => {}
            Some(Err(failure)) => binding.remember(&failure),
        }
    }
    match binding.remembered {
        Some(failure) => *ends.failures.entry(failure).or_default() += 1,
        None => *ends.rows.entry(row).or_default() += 1,
    }
    Ok(())
}

fn of_step(
    plan: &Plan,
    step: &Step,
    mut binding: Binding,
    contents: &Contents,
    after: &mut Vec<Binding>,
) -> Result<(), String> {
    match step {
        Step::Let { scalar: expr, .. } => {
            if let Some(value) = scalar(expr, &binding.slots) {
                binding.slots.push(value);
                after.push(binding);
            }
        }
        Step::Key { scalar: expr, .. } => {
            if let Some(Ok(value)) = scalar(expr, &binding.slots) {
                binding.slots.push(Ok(value));
                after.push(binding);
            }
        }
        Step::Filter(expr) => match scalar(expr, &binding.slots) {
            Some(Ok(Value::Bool(true))) => after.push(binding),
            Some(Err(failure)) => {
                binding.remember(&failure);
                after.push(binding);
            }
            _ => {}
        },
        Step::Must(expr) => {
            if let Some(Ok(Value::Bool(true))) = scalar(expr, &binding.slots) {
                after.push(binding);
            }
        }
        Step::Failed(expr) => {
            if let Some(Err(failure)) = scalar(expr, &binding.slots) {
                binding.remember(&failure);
                after.push(binding);
            }
        }
        Step::Generate { function, arguments, wanted, names } => {
            assert_eq!(wanted.iter().filter(|wanted| **wanted).count(), names.len());
            let arguments: Vec<Option<Held>> =
                arguments.iter().map(|argument| scalar(argument, &binding.slots)).collect();
            let Some(arguments) = arguments.into_iter().collect::<Option<Vec<Held>>>() else { return Ok(()) };
            let results = match all_or_least(arguments) {
                Err(failure) => Err(failure),
                Ok(arguments) => (function.evaluate)(&arguments),
            };
            match results {
                Ok(Results::None) => {}
                Ok(Results::One(value)) => after.push(generated(binding, &[value], wanted)),
                Ok(Results::Many(rows)) => {
                    after.extend(rows.iter().map(|row| generated(binding.clone(), row, wanted)));
                }
                Err(failure) => {
                    binding.remember(&failure);
                    binding.slots.extend(names.iter().map(|_| Err(failure.clone())));
                    after.push(binding);
                }
            }
        }
        Step::Probe(probe) => of_probe(plan, probe, &binding, contents, after)?,
    }
    Ok(())
}

fn generated(mut binding: Binding, row: &[Value], wanted: &[bool]) -> Binding {
    let values = row.iter().zip(wanted).filter(|(_, wanted)| **wanted);
    binding.slots.extend(values.map(|(value, _)| Ok(value.clone())));
    binding
}

fn of_probe(
    plan: &Plan,
    probe: &Probe,
    binding: &Binding,
    contents: &Contents,
    after: &mut Vec<Binding>,
) -> Result<(), String> {
    let Index { relation, select, key, value, .. } = &plan.indexes[probe.index.0 as usize];
    if key.len() != probe.key.len() || probe.names.len() != probe.keep.len() + probe.take.len() {
        return Err(format!("a probe does not fit its index: {probe:?}"));
    }
    let wanted: Result<Vec<Value>, Failure> =
        probe.key.iter().map(|slot| binding.slots[*slot].clone()).collect();
    let wanted = wanted.map_err(|_| "a failure is looked for".to_owned())?;
    let mut kept = Binding { slots: Vec::new(), remembered: binding.remembered.clone() };
    for (slot, held) in binding.slots.iter().enumerate() {
        if let (Err(failure), false) = (held, probe.keep.contains(&slot)) {
            kept.remember(failure);
        }
    }
    kept.slots.extend(probe.keep.iter().map(|slot| binding.slots[*slot].clone()));
    let rows = contents.relations[relation.0 as usize].iter().filter(|row| fits(row, select));
    for row in rows.filter(|row| key.iter().zip(&wanted).all(|(column, wanted)| row[*column] == *wanted)) {
        let mut found = kept.clone();
        found.slots.extend(probe.take.iter().map(|at| Ok(row[value[*at]].clone())));
        after.push(found);
    }
    Ok(())
}

fn fits(row: &Row, select: &[Selection]) -> bool {
    select.iter().all(|Selection { column, equals }| match equals {
        Operand::Column(other) => row[*column] == row[*other],
        Operand::Constant(value) => row[*column] == *value,
    })
}

/// All values, or the least failure.
fn all_or_least(held: Vec<Held>) -> Result<Vec<Value>, Failure> {
    match held.iter().filter_map(|held| held.as_ref().err()).min() {
        Some(failure) => Err(failure.clone()),
        None => Ok(held.into_iter().flatten().collect()),
    }
}

/// The expression's value or failure, if it has either.
fn scalar(expr: &Scalar, slots: &[Held]) -> Option<Held> {
    match expr {
        Scalar::Slot(slot) => Some(slots[*slot].clone()),
        Scalar::Constant(value) => Some(Ok(value.clone())),
        Scalar::If { condition, then, otherwise } => match scalar(condition, slots)? {
            Ok(Value::Bool(true)) => scalar(then, slots),
            Ok(_) => scalar(otherwise, slots),
            Err(failure) => Some(Err(failure)),
        },
        Scalar::Call { function, arguments } => {
            let arguments: Vec<Option<Held>> =
                arguments.iter().map(|argument| scalar(argument, slots)).collect();
            let arguments = arguments.into_iter().collect::<Option<Vec<Held>>>()?;
            let result = all_or_least(arguments).and_then(|arguments| (function.evaluate)(&arguments));
            match result {
                Ok(Results::None) => None,
                Ok(Results::One(value)) => Some(Ok(value)),
                Ok(Results::Many(rows)) => rows.iter().flatten().next().cloned().map(Ok),
                Err(failure) => Some(Err(failure)),
            }
        }
    }
}

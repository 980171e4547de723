//! The rows of the fake database, and transactions on them (RFC 7047, section 5.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovsdb_client::schema::ColumnType;
use ovsdb_client::{Atom, Atoms, Change, Datum, Replica, Row};
use serde_json::{Value, json};
use uuid::Uuid;

use super::schema::{NAMED, Published, REFERENCES, ROOT, ROOTS, SchemaVersion, published};

pub(super) struct Tables {
    pub(super) schema: Arc<Published>,
    pub(super) rows: Replica,
    next_uuid: u64,
}

/// The outcome of a transaction.
pub(super) enum Run {
    /// A `wait` is not satisfied yet.
    Waits,
    /// The result array, and the changes if the transaction was committed.
    Done { result: Value, changes: Vec<Change> },
}

/// Why an operation failed: the error and its details.
type Failure = (&'static str, String);

enum Step {
    Failed(Failure),
    Waits,
}

impl From<Failure> for Step {
    fn from(failure: Failure) -> Self {
        Step::Failed(failure)
    }
}

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Tables {
    /// The database after `ovs-vsctl init`, with an ovs-vswitchd that supports both datapath types.
    pub(super) fn initialised(version: SchemaVersion) -> Tables {
        let mut tables = Tables { schema: published(version), rows: Replica::default(), next_uuid: 0 };
        let row = json!({
            "ovs_version": "3.1.0",
            "datapath_types": ["set", ["netdev", "system"]],
            "iface_types": ["set", ["geneve", "gre", "internal", "patch", "stt", "system", "tap", "vxlan"]],
        });
        tables.run(&[json!({"op": "insert", "table": ROOT, "row": row})], &|_| false, false);
        tables
    }

    /// Runs a transaction of a client that `holds` some locks.
    pub(super) fn run(&mut self, operations: &[Value], holds: &dyn Fn(&str) -> bool, may_wait: bool) -> Run {
        let mut names = BTreeMap::new();
        for operation in operations {
            if let Some(name) = operation.get("uuid-name").and_then(Value::as_str) {
                names.insert(name.to_owned(), self.new_uuid());
            }
        }
        let mut staged = self.rows.clone();
        let mut results = Vec::new();
        for operation in operations {
            let result = match asserted(operation) {
                Some(lock) if holds(lock) => Ok(json!({})),
                Some(lock) => Err(Step::Failed(("not owner", format!("Asserted lock {lock} not held.")))),
                None => self.step(&mut staged, &resolved(operation, &names), &names),
            };
            match result {
                Ok(result) => results.push(result),
                Err(Step::Waits) if may_wait => return Run::Waits,
                Err(step) => {
                    let (error, details) = match step {
                        Step::Failed(failure) => failure,
                        Step::Waits => ("timed out", "\"wait\" timed out".to_owned()),
                    };
                    results.push(json!({"error": error, "details": details}));
                    results.resize(operations.len(), Value::Null);
                    return Run::Done { result: Value::Array(results), changes: Vec::new() };
                }
            }
        }
        collect_garbage(&mut staged);
        if let Err((error, details)) = self.check(&staged) {
            results.push(json!({"error": error, "details": details}));
            return Run::Done { result: Value::Array(results), changes: Vec::new() };
        }
        let changes = self.rows.difference(&staged);
        self.rows = staged;
        Run::Done { result: Value::Array(results), changes }
    }

    fn new_uuid(&mut self) -> Uuid {
        self.next_uuid += 1;
        Uuid::from_u64_pair(0xfa4e_0000_0000_4000, 0x8000_0000_0000_0000 | self.next_uuid)
    }

    fn step(
        &mut self,
        staged: &mut Replica,
        operation: &Value,
        names: &BTreeMap<String, Uuid>,
    ) -> Result<Value, Step> {
        let text = |member: &str| operation.get(member).and_then(Value::as_str);
        let op = text("op").unwrap_or_default();
        match op {
            "comment" => return Ok(json!({})),
            "abort" => return Err(("aborted", "aborted by request".to_owned()).into()),
            _ => {}
        }
        let table = text("table").ok_or_else(|| syntax("a table", operation))?;
        if !self.schema.types.tables.contains_key(table) {
            return Err(syntax("a table of the schema", operation).into());
        }
        if op == "insert" {
            let named = text("uuid-name").and_then(|name| names.get(name)).copied();
            let uuid = named.unwrap_or_else(|| self.new_uuid());
            let mut row = Row::new(table);
            for (column, column_type) in self.schema.types.tables.get(table).into_iter().flatten() {
                row = row.with(column.clone(), column_type.default_datum());
            }
            put(staged, table, uuid, Some(assigned(row, self.values(table, operation)?)));
            return Ok(json!({"uuid": ["uuid", uuid.to_string()]}));
        }
        let found = self.find(staged, table, operation)?;
        let count = json!({"count": found.len()});
        match op {
            "select" => {
                let columns = self.selected(table, operation)?;
                let shown = |uuid, row: &Row| -> Value {
                    columns
                        .iter()
                        .map(|column| (column.clone(), datum(uuid, row, column).to_json()))
                        .collect()
                };
                Ok(json!({"rows": found.iter().map(|(uuid, row)| shown(*uuid, row)).collect::<Vec<_>>()}))
            }
            "update" => {
                let values = self.values(table, operation)?;
                values.iter().try_for_each(|(column, _)| changeable(table, column))?;
                for (uuid, row) in found {
                    put(staged, table, uuid, Some(assigned(row, values.clone())));
                }
                Ok(count)
            }
            "mutate" => {
                let mutations =
                    list(operation, "mutations")?.iter().map(|mutation| self.mutation(table, mutation));
                let mutations: Vec<Mutation> = mutations.collect::<Result<_>>()?;
                for (uuid, row) in found {
                    let row = mutations.iter().try_fold(row, |row, mutation| mutation.apply(row))?;
                    put(staged, table, uuid, Some(row));
                }
                Ok(count)
            }
            "delete" => {
                for (uuid, _) in found {
                    put(staged, table, uuid, None);
                }
                Ok(count)
            }
            "wait" => {
                if self.wait_holds(&found, table, operation)? {
                    Ok(json!({}))
                } else if operation.get("timeout").and_then(Value::as_u64) == Some(0) {
                    Err(("timed out", "\"wait\" timed out".to_owned()).into())
                } else {
                    Err(Step::Waits)
                }
            }
            _ => Err(syntax("an operation that the fake knows", operation).into()),
        }
    }

    fn column(&self, table: &str, column: &str) -> Result<ColumnType> {
        self.schema
            .types
            .column(table, column)
            .ok_or_else(|| syntax("a column of the schema", &json!(column)))
    }

    /// The columns of member `row`.
    fn values(&self, table: &str, operation: &Value) -> Result<Vec<(String, Datum)>> {
        let columns = operation.get("row").and_then(Value::as_object);
        let columns = columns.ok_or_else(|| syntax("a row", operation))?;
        let value = |(column, notation): (&String, &Value)| {
            let unknown = |_| ("unknown column", format!("No column {column} in table {table}."));
            Ok((column.clone(), decode(self.column(table, column).map_err(unknown)?, notation)?))
        };
        columns.iter().map(value).collect()
    }

    /// The rows that satisfy member `where`.
    fn find(&self, rows: &Replica, table: &str, operation: &Value) -> Result<Vec<(Uuid, Row)>> {
        let conditions = list(operation, "where")?.iter().map(|condition| self.condition(table, condition));
        let conditions: Vec<Condition> = conditions.collect::<Result<_>>()?;
        let satisfies =
            |(uuid, row): &(Uuid, &Row)| conditions.iter().all(|condition| condition.holds(*uuid, row));
        Ok(rows.rows(table).filter(satisfies).map(|(uuid, row)| (uuid, row.clone())).collect())
    }

    fn condition(&self, table: &str, condition: &Value) -> Result<Condition> {
        let Some([Value::String(column), Value::String(function), notation]) =
            condition.as_array().map(Vec::as_slice)
        else {
            return Err(syntax("a condition", condition));
        };
        let function: fn(&Datum, &Datum) -> bool = match function.as_str() {
            "==" => |datum, value| datum == value,
            "!=" => |datum, value| datum != value,
            "<" => |datum, value| datum < value,
            "<=" => |datum, value| datum <= value,
            ">" => |datum, value| datum > value,
            ">=" => |datum, value| datum >= value,
            "includes" => |datum, value| common(datum, value) == value.len(),
            "excludes" => |datum, value| common(datum, value) == 0,
            _ => return Err(syntax("a function", condition)),
        };
        let value = decode(self.column(table, column)?, notation)?;
        Ok(Condition { column: column.clone(), function, value })
    }

    /// The columns that a select returns.
    fn selected(&self, table: &str, operation: &Value) -> Result<Vec<String>> {
        let Some(columns) = operation.get("columns").and_then(Value::as_array) else {
            let all = self
                .schema
                .types
                .tables
                .get(table)
                .into_iter()
                .flatten()
                .map(|(column, _)| column.to_string());
            return Ok(all.chain(["_uuid".to_owned(), "_version".to_owned()]).collect());
        };
        let columns: Vec<String> = columns.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        columns.iter().try_for_each(|column| self.column(table, column).map(drop))?;
        Ok(columns)
    }

    fn mutation(&self, table: &str, mutation: &Value) -> Result<Mutation> {
        let Some([Value::String(column), Value::String(mutator), notation]) =
            mutation.as_array().map(Vec::as_slice)
        else {
            return Err(syntax("a mutation", mutation));
        };
        let column_type = self.column(table, column)?;
        changeable(table, column)?;
        let any = ColumnType { min: 0, max: usize::MAX, ..column_type };
        let keys = ColumnType { value: None, ..any };
        let value = decode(any, notation).or_else(|failure| match mutator.as_str() {
            "delete" => decode(keys, notation),
            _ => Err(failure),
        })?;
        Ok(Mutation { column: column.clone(), mutator: mutator.clone(), value })
    }

    fn wait_holds(&self, found: &[(Uuid, Row)], table: &str, operation: &Value) -> Result<bool> {
        let columns: Vec<&str> = list(operation, "columns")?.iter().filter_map(Value::as_str).collect();
        let mut wanted = BTreeSet::new();
        for row in list(operation, "rows")? {
            let cells = columns.iter().map(|column| match row.get(column) {
                Some(notation) => decode(self.column(table, column)?, notation),
                None => Ok(self.column(table, column)?.default_datum()),
            });
            wanted.insert(cells.collect::<Result<Vec<Datum>>>()?);
        }
        let present: BTreeSet<Vec<Datum>> = found
            .iter()
            .map(|(uuid, row)| columns.iter().map(|column| datum(*uuid, row, column)).collect())
            .collect();
        match operation.get("until").and_then(Value::as_str) {
            Some("==") => Ok(present == wanted),
            Some("!=") => Ok(present != wanted),
            _ => Err(syntax("== or !=", operation)),
        }
    }

    /// Checks the constraints of a commit: names are unique, columns have an allowed number of elements, and
    /// references lead to rows.
    fn check(&self, staged: &Replica) -> Result<()> {
        for table in NAMED {
            let mut names = BTreeSet::new();
            for (_, row) in staged.rows(table) {
                if let Some(name) = row.datum("name").filter(|name| !names.insert((*name).clone())) {
                    let details = format!(
                        "Transaction causes multiple rows in \"{table}\" table to have identical values ({}) for index \
                         on column \"name\".",
                        name.to_json()
                    );
                    return Err(("constraint violation", details));
                }
            }
        }
        for (table, column, to) in REFERENCES {
            for (uuid, row) in staged.rows(table) {
                let least = self.column(table, column)?.min;
                let targets = targets(row, column);
                if targets.len() < least {
                    let details = format!("table {table} row {uuid} column {column}: too few elements");
                    return Err(("constraint violation", details));
                }
                if let Some(lost) = targets.iter().find(|target| staged.row(to, **target).is_none()) {
                    let details = format!(
                        "Table {table} column {column} row {uuid} references nonexistent row {lost} in table {to}."
                    );
                    return Err(("referential integrity violation", details));
                }
            }
        }
        Ok(())
    }
}

struct Condition {
    column: String,
    function: fn(&Datum, &Datum) -> bool,
    value: Datum,
}

impl Condition {
    fn holds(&self, uuid: Uuid, row: &Row) -> bool {
        (self.function)(&datum(uuid, row, &self.column), &self.value)
    }
}

struct Mutation {
    column: String,
    mutator: String,
    value: Datum,
}

impl Mutation {
    fn apply(&self, row: Row) -> Result<Row> {
        let Some(before) = row.datum(&self.column).cloned() else { return Ok(row) };
        let after = match (self.mutator.as_str(), before, self.value.clone()) {
            ("insert", Datum::Set(before), Datum::Set(more)) => {
                Datum::Set(before.into_iter().chain(more).collect())
            }
            // An existing key keeps its value.
            ("insert", Datum::Map(before), Datum::Map(more)) => {
                Datum::Map(more.into_iter().chain(before).collect())
            }
            ("delete", Datum::Set(before), Datum::Set(less)) => {
                Datum::Set(before.into_iter().filter(|atom| !less.has(atom)).collect())
            }
            ("delete", Datum::Map(before), Datum::Map(less)) => {
                Datum::Map(before.into_iter().filter(|(key, value)| less.get(key) != Some(value)).collect())
            }
            ("delete", Datum::Map(before), Datum::Set(less)) => {
                Datum::Map(before.into_iter().filter(|(key, _)| !less.has(key)).collect())
            }
            (mutator @ ("+=" | "-=" | "*=" | "/=" | "%="), Datum::Set(before), Datum::Set(by)) => {
                let Some(Atom::Integer(by)) = by.first() else {
                    return Err(syntax("an integer", &self.value.to_json()));
                };
                let computed = before.iter().map(|atom| computed(atom, mutator, *by));
                Datum::Set(computed.collect::<Result<_>>()?)
            }
            (mutator, ..) => return Err(syntax("a mutation that the fake knows", &json!(mutator))),
        };
        Ok(row.with(self.column.as_str(), after))
    }
}

/// The lock that an operation asserts, if it does.
fn asserted(operation: &Value) -> Option<&str> {
    let is_assertion = operation.get("op").and_then(Value::as_str) == Some("assert");
    operation.get("lock").and_then(Value::as_str).filter(|_| is_assertion)
}

fn assigned(row: Row, values: Vec<(String, Datum)>) -> Row {
    values.into_iter().fold(row, |row, (column, datum)| row.with(column, datum))
}

fn put(rows: &mut Replica, table: &str, uuid: Uuid, new: Option<Row>) {
    rows.apply(&[Change { table: table.into(), uuid, old: None, new }]);
}

/// Deletes the rows that are not reachable from the root tables.
fn collect_garbage(rows: &mut Replica) {
    let mut alive: BTreeSet<(&str, Uuid)> = BTreeSet::new();
    let mut next: Vec<(&str, Uuid)> =
        ROOTS.iter().flat_map(|root| rows.rows(root).map(|(uuid, _)| (*root, uuid))).collect();
    while let Some((table, uuid)) = next.pop() {
        if !alive.insert((table, uuid)) {
            continue;
        }
        let Some(row) = rows.row(table, uuid) else { continue };
        for (_, column, to) in REFERENCES.iter().filter(|(from, ..)| *from == table) {
            let targets = targets(row, column);
            next.extend(targets.into_iter().map(|target| (*to, target)));
        }
    }
    let dead: Vec<(&str, Uuid)> = REFERENCES
        .iter()
        .flat_map(|(_, _, table)| rows.rows(table).map(|(uuid, _)| (*table, uuid)))
        .filter(|row| !alive.contains(row))
        .collect();
    for (table, uuid) in dead {
        put(rows, table, uuid, None);
    }
}

/// The rows that a column of references, a set or the values of a map, refers to.
fn targets(row: &Row, column: &str) -> BTreeSet<Uuid> {
    let by_number = || row.get::<BTreeMap<i64, Uuid>>(column).map(|map| map.into_values().collect());
    let by_name = || row.get::<BTreeMap<String, Uuid>>(column).map(|map| map.into_values().collect());
    row.get(column).or_else(|_| by_number()).or_else(|_| by_name()).unwrap_or_default()
}

fn changeable(table: &str, column: &str) -> Result<()> {
    if column == "name" && NAMED.contains(&table) {
        return Err((
            "constraint violation",
            format!("Cannot update immutable column {column} in table {table}."),
        ));
    }
    Ok(())
}

/// The value of a column, including `_uuid` and `_version`.
fn datum(uuid: Uuid, row: &Row, column: &str) -> Datum {
    match column {
        "_uuid" => Datum::from(uuid),
        "_version" => Datum::from(Uuid::nil()),
        _ => row.datum(column).cloned().unwrap_or_else(|| Datum::Set(Atoms::default())),
    }
}

/// The number of elements of `value` that the datum has.
fn common(datum: &Datum, value: &Datum) -> usize {
    match (datum, value) {
        (Datum::Set(have), Datum::Set(value)) => value.iter().filter(|atom| have.has(atom)).count(),
        (Datum::Map(have), Datum::Map(value)) => {
            value.iter().filter(|(key, value)| have.get(key) == Some(value)).count()
        }
        _ => 0,
    }
}

fn computed(atom: &Atom, mutator: &str, by: i64) -> Result<Atom> {
    let Atom::Integer(integer) = atom else { return Err(syntax("an integer", &atom.to_json())) };
    if by == 0 && matches!(mutator, "/=" | "%=") {
        return Err(("domain error", "Division by zero.".to_owned()));
    }
    let result = match mutator {
        "+=" => integer.checked_add(by),
        "-=" => integer.checked_sub(by),
        "*=" => integer.checked_mul(by),
        "/=" => integer.checked_div(by),
        _ => integer.checked_rem(by),
    };
    result.map(Atom::Integer).ok_or_else(|| ("range error", format!("{integer} {mutator} {by}")))
}

fn decode(column_type: ColumnType, notation: &Value) -> Result<Datum> {
    column_type.decode(notation).map_err(|error| ("syntax error", error.to_string()))
}

fn list<'a>(operation: &'a Value, member: &str) -> Result<&'a [Value]> {
    operation
        .get(member)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .ok_or_else(|| syntax(member, operation))
}

fn syntax(wanted: &str, got: &Value) -> Failure {
    ("syntax error", format!("wanted {wanted}, got {got}"))
}

/// The operation with the named rows resolved to their UUIDs.
fn resolved(value: &Value, names: &BTreeMap<String, Uuid>) -> Value {
    match value {
        Value::Array(elements) => match elements.as_slice() {
            [Value::String(tag), Value::String(name)] if tag == "named-uuid" && names.contains_key(name) => {
                json!(["uuid", names.get(name).map(Uuid::to_string)])
            }
            _ => elements.iter().map(|element| resolved(element, names)).collect(),
        },
        Value::Object(members) => {
            members.iter().map(|(member, value)| (member.clone(), resolved(value, names))).collect()
        }
        other => other.clone(),
    }
}

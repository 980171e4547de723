//! The demo without switches: rules, input rows and output deltas.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use nlog::Program;
use nlog_data::{Delta, Evaluator, Row, TableId, Transaction, Value, json};
use nlog_dataflow::{Dataflow, Options};
use objects::{Batch, Cancel, Kinds, ObjectStore};
use weft_core::rules::Rules;

use testbed::tenants::{MACHINES, NETWORK, mac};

use super::{DESTINATION, MIGRANT, heading};

/// The hosts of the demo, as a lab would print them.
const HOSTS: &str = "
{kind: transport_node, id: hv1, ip: 172.31.0.1, encaps: [geneve], ovsdb: 'unix:/run/hv1/db.sock', openflow: 'unix:/run/hv1/br-int.mgmt'}
---
{kind: transport_node, id: hv2, ip: 172.31.0.2, encaps: [geneve], ovsdb: 'unix:/run/hv2/db.sock', openflow: 'unix:/run/hv2/br-int.mgmt'}
";
/// OpenFlow numbers as a switch would give them.
const TUNNEL_OFPORT: i64 = 1;
const FIRST_OFPORT: i64 = 101;

/// Shows each step's rows and delta.
pub(super) fn run() -> Result<()> {
    let rules = Rules::built_in().map_err(|error| anyhow!("{error}"))?;
    let program = Arc::clone(rules.program());
    heading("The rules");
    for rule in sorted_by_place(&program) {
        println!("  {}\n{}\n", rule.place, indented(&rule.text));
    }
    let mut engine = Dataflow::new(Arc::clone(&program), Options::default())?;
    let mut show = |title: &str, rows: Rows| -> Result<()> {
        heading(title);
        let transaction = rows.transaction(&program);
        println!("  rows");
        print!("{}", lines(&program, &transaction.delete, "-"));
        print!("{}", lines(&program, &transaction.insert, "+"));
        let start = std::time::Instant::now();
        let delta = engine.commit(&transaction)?.delta;
        println!("  delta, after {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        print!("{}", delta_lines(&program, &delta));
        Ok(())
    };

    show("Two hypervisors and two tenants' switches are applied", objects(rules.kinds())?)?;
    let mut rows = Rows::default();
    for host in ["hv1", "hv2"] {
        rows.insert("tunnel_port", vec![text(host), text("weft-geneve"), Value::Int(TUNNEL_OFPORT)]);
    }
    for (number, (port, host, address)) in (0..).zip(MACHINES) {
        rows.insert("vif", vif(host, port, FIRST_OFPORT + number, address, 2));
    }
    show("The switches report their tunnel ports and six vNICs", rows)?;

    let (_, from, address) =
        MACHINES.into_iter().find(|(name, ..)| *name == MIGRANT).context("no migrant")?;
    let mut rows = Rows::default();
    rows.insert("vif", vif(DESTINATION, MIGRANT, 120, address, 3));
    show(&format!("{DESTINATION} reports {MIGRANT}: it has migrated"), rows)?;
    let number = MACHINES.iter().position(|(name, ..)| *name == MIGRANT).context("no migrant")?;
    let mut rows = Rows::default();
    rows.delete("vif", vif(from, MIGRANT, FIRST_OFPORT + number as i64, address, 2));
    show(&format!("{from} reports that {MIGRANT} is gone: nothing is left to change"), rows)
}

/// Rows to insert and delete, by table name.
#[derive(Default)]
struct Rows {
    insert: BTreeMap<String, Vec<Row>>,
    delete: BTreeMap<String, Vec<Row>>,
}

impl Rows {
    fn insert(&mut self, table: &str, row: Row) {
        self.insert.entry(table.to_owned()).or_default().push(row);
    }

    fn delete(&mut self, table: &str, row: Row) {
        self.delete.entry(table.to_owned()).or_default().push(row);
    }

    /// Converts rows to a transaction as the controller does: rows of tables that the rules do not
    /// have are dropped.
    fn transaction(self, program: &Program) -> Transaction {
        let find = |rows: BTreeMap<String, Vec<Row>>| -> BTreeMap<TableId, Vec<Row>> {
            rows.into_iter().filter_map(|(name, rows)| Some((program.schema.find(&name)?, rows))).collect()
        };
        Transaction { insert: find(self.insert), delete: find(self.delete) }
    }
}

/// The rows of the demo's objects.
fn objects(kinds: &Kinds) -> Result<Rows> {
    let mut batch = Batch::new(kinds, Cancel::default());
    batch.add_document("hosts.yaml", HOSTS);
    batch.add_document("two-tenants.yaml", NETWORK);
    let changes = ObjectStore::new(kinds)
        .plan(batch)
        .map_err(|faults| anyhow!(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let mut rows = Rows::default();
    for (table, table_rows) in changes.rows().insert {
        for row in table_rows {
            rows.insert(&table, row);
        }
    }
    for host in ["hv1", "hv2"] {
        rows.insert("managed", vec![text(host)]);
    }
    Ok(rows)
}

fn vif(host: &str, port: &str, ofport: i64, address: u8, since: i64) -> Row {
    vec![text(host), text(port), Value::Int(ofport), text(&mac(address)), Value::Int(since)]
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn sorted_by_place(program: &Program) -> Vec<&nlog::program::Rule> {
    let mut rules: Vec<_> = program.rules.iter().collect();
    rules.sort_by(|a, b| a.place.cmp(&b.place));
    rules
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn lines(program: &Program, tables: &BTreeMap<TableId, Vec<Row>>, sign: &str) -> String {
    let mut out = String::new();
    for (table, rows) in tables {
        for row in rows {
            out += &line(&program.schema.table(*table).name, row, sign);
        }
    }
    out
}

fn delta_lines(program: &Program, delta: &Delta) -> String {
    let mut out = String::new();
    for (table, changes) in &delta.tables {
        let name = &program.schema.table(*table).name;
        for (rows, sign) in [(&changes.delete, "-"), (&changes.insert, "+")] {
            out.extend(rows.iter().map(|row| line(name, row, sign)));
        }
    }
    if out.is_empty() { "    nothing\n".to_owned() } else { out }
}

fn line(table: &str, row: &[Value], sign: &str) -> String {
    let mut cells = Vec::new();
    json::write_row(&mut cells, row);
    format!("    {sign} {table} {}\n", String::from_utf8_lossy(&cells))
}

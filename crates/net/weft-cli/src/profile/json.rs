//! The figures as one JSON object, for scripts.

use nlog_dataflow::fused::{IndexProfile, PipelineProfile, RelationProfile, RuleProfile};
use serde_json::{Value as Json, json};

use super::{Account, sum, thousandths};

/// The figures, with at most this many rules, tables and indexes.
pub(super) fn object(account: &Account<'_>, shown: usize) -> Json {
    let figures = &account.figures;
    let (rules_nanos, workers_nanos) = (account.rules_nanos(), account.workers_nanos());
    let rules: Vec<Json> =
        figures.rules.iter().take(shown).map(|one| rule(account, one, rules_nanos)).collect();
    let tables: Vec<Json> = figures.relations.iter().take(shown).map(table).collect();
    let indexes: Vec<Json> = figures.indexes.iter().take(shown).map(index).collect();
    let workers: Vec<Json> = (figures.workers.iter().zip(0_u32..))
        .map(|(worker, number)| {
            json!({
                "worker": number,
                "nanos": worker.nanos,
                "share": share(worker.nanos, workers_nanos),
                "rows_in": worker.rows,
                "bindings": worker.bindings,
                "rows_out": worker.derived,
            })
        })
        .collect();
    json!({
        "transactions": figures.transactions,
        "nanos": u64::try_from(account.elapsed.as_nanos()).unwrap_or(u64::MAX),
        "rules_nanos": rules_nanos,
        "symbols": figures.symbols,
        "rules": rules,
        "tables": tables,
        "indexes": indexes,
        "workers": workers,
    })
}

fn rule(account: &Account<'_>, rule: &RuleProfile, rules_nanos: u64) -> Json {
    let work = sum(&rule.pipelines);
    let (file, line) = account.place(rule);
    json!({
        "head": rule.head,
        "file": file,
        "line": line,
        "nanos": work.nanos,
        "share": share(work.nanos, rules_nanos),
        "runs": work.runs,
        "rows_in": work.rows,
        "bindings": work.bindings,
        "rows_out": work.derived,
        "pipelines": rule.pipelines.iter().map(pipeline).collect::<Vec<Json>>(),
    })
}

fn pipeline(pipeline: &PipelineProfile) -> Json {
    json!({
        "begins": pipeline.begins,
        "nanos": pipeline.nanos,
        "runs": pipeline.runs,
        "rows_in": pipeline.rows,
        "bindings": pipeline.bindings,
        "rows_out": pipeline.derived,
    })
}

fn table(table: &RelationProfile) -> Json {
    json!({
        "table": table.name,
        "changes": table.changes,
        "counted": table.counted,
        "watched": table.watched,
        "bytes": table.bytes,
    })
}

fn index(index: &IndexProfile) -> Json {
    json!({
        "table": index.relation,
        "key": index.key,
        "value": index.value,
        "rows": index.rows,
        "bytes": index.bytes,
    })
}

/// A part of the whole, from 0 to 1, in thousandths.
fn share(part: u64, whole: u64) -> f64 {
    thousandths(part, whole) as f64 / 1000.0
}

//! Who asked for what, read from a journal: for those who ask why something is as it is. The controller keeps none of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memchr::memmem::Finder;
use memchr::memrchr;
use nlog_data::{Row, Schema, TableId};
use nlog_explain::{Call, Origin, ShowsInputs};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The end of a journal that is looked through for the origin of rows, in bytes: some 10,000 changes of ports. To look through
/// twice as much takes twice as long.
const LOOKED_AT: u64 = 16 << 20;

/// What a journal's line says of its transaction's origin.
#[derive(Deserialize)]
struct Line<'a> {
    txn: u64,
    at: String,
    by: String,
    #[serde(default, borrow)]
    insert: BTreeMap<Cow<'a, str>, &'a RawValue>,
    /// If it stands for all lines before it: then it does not say who asked for what.
    #[serde(default)]
    base: Option<IgnoredAny>,
}

impl From<Line<'_>> for Origin {
    fn from(line: Line<'_>) -> Origin {
        Origin { transaction: line.txn, call: Some(Call { by: line.by, at: line.at }) }
    }
}

/// A row of an input table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Inserted {
    table: String,
    row: Row,
}

/// The requests behind some transactions. Lines that are no records of a controller say nothing of theirs.
fn calls(mut journal: impl BufRead, transactions: &BTreeSet<u64>) -> io::Result<BTreeMap<u64, Call>> {
    let (mut calls, mut text) = (BTreeMap::new(), Vec::new());
    let Some(last) = transactions.last() else { return Ok(calls) };
    while journal.read_until(b'\n', &mut text)? > 0 {
        match number(&text) {
            Some(number) if number > *last => break,
            Some(number) if transactions.contains(&number) => {
                if let Ok(Line { txn, at, by, base: None, .. }) = serde_json::from_slice(&text) {
                    calls.insert(txn, Call { by, at });
                }
            }
            _ => {}
        }
        text.clear();
    }
    Ok(calls)
}

/// The number of a record, which begins with it.
pub(crate) fn number(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(br#"{"txn":"#)?;
    let digits = rest.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Adds the requests behind the transactions that an answer names.
///
/// # Errors
/// The journal cannot be read.
pub fn add_calls(answer: &mut impl ShowsInputs, journal: impl BufRead) -> io::Result<()> {
    let mut transactions = BTreeSet::new();
    answer.for_each_input(&mut |_, _, origin| {
        transactions.extend(origin.as_ref().map(|origin| origin.transaction));
    });
    let calls = calls(journal, &transactions)?;
    answer.for_each_input(&mut |_, _, origin| {
        if let Some(origin) = origin {
            origin.call = calls.get(&origin.transaction).cloned();
        }
    });
    Ok(())
}

/// Adds where the rows of an answer come from that does not say so, which are there now, as far as the newest part of the journal has it.
///
/// # Errors
/// The journal cannot be read.
pub(crate) fn add_origins(answer: &mut impl ShowsInputs, schema: &Schema, journal: &Path) -> io::Result<()> {
    let inserted =
        |table: TableId, row: &Row| Inserted { table: schema.table(table).name.clone(), row: row.clone() };
    let mut rows = BTreeSet::new();
    answer.for_each_input(&mut |table, row, origin| {
        if origin.is_none() {
            rows.insert(inserted(table, row));
        }
    });
    if rows.is_empty() {
        return Ok(());
    }
    let mut file = File::open(journal)?;
    let begin = file.metadata()?.len().saturating_sub(LOOKED_AT);
    file.seek(SeekFrom::Start(begin))?;
    let mut text = Vec::new();
    file.take(LOOKED_AT).read_to_end(&mut text)?;
    let origins = newest(&text, begin == 0, rows);
    answer.for_each_input(&mut |table, row, origin| {
        if origin.is_none() {
            *origin = origins.get(&inserted(table, row)).cloned();
        }
    });
    Ok(())
}

/// The newest of some lines that inserts each row. A first line that is not whole says nothing, nor does the end of the last one, which
/// is being written.
fn newest(text: &[u8], is_whole: bool, rows: BTreeSet<Inserted>) -> BTreeMap<Inserted, Origin> {
    let mut wanted: Vec<(Finder<'static>, Inserted)> = rows
        .into_iter()
        .filter_map(|row| Some((Finder::new(&serde_json::to_vec(&row.row).ok()?).into_owned(), row)))
        .collect();
    let mut found = BTreeMap::new();
    let mut end = memrchr(b'\n', text).unwrap_or(0);
    while end > 0 && !wanted.is_empty() {
        let begin = match memrchr(b'\n', &text[..end]) {
            Some(feed) => feed + 1,
            None if is_whole => 0,
            None => break,
        };
        let line = &text[begin..end];
        if wanted.iter().any(|(finder, _)| finder.find(line).is_some())
            && let Ok(line) = serde_json::from_slice::<Line<'_>>(line)
            && line.base.is_none()
        {
            let inserted = wanted.extract_if(.., |(finder, row)| {
                let rows = line.insert.get(row.table.as_str());
                rows.is_some_and(|rows| finder.find(rows.get().as_bytes()).is_some())
            });
            let inserted: Vec<Inserted> = inserted.map(|(_, row)| row).collect();
            let origin = Origin::from(line);
            found.extend(inserted.into_iter().map(|row| (row, origin.clone())));
        }
        end = begin.saturating_sub(1);
    }
    found
}

#[cfg(test)]
mod tests {
    use nlog_data::Value;

    use super::*;

    const JOURNAL: &str = concat!(
        r#"{"txn":1,"at":"2026-01-01T00:00:00Z","by":"api","insert":{"port":[["p1","a"],["p2","a"]],"node":[["p1","a"]]}}"#,
        "\n",
        r#"{"txn":2,"at":"2026-01-02T00:00:00Z","by":"ann","insert":{"port":[["p1","b"]]},"delete":{"port":[["p1","a"]]}}"#,
        "\n",
        r#"{"txn":3,"at":"2026-01-03T00:00:00Z","by":"bob","insert":{"port":[["p1","a"]]},"delete":{"port":[["p1","b"]]}}"#,
        "\n",
        r#"{"insert":{"port":[["p3","a"]]}}"#,
        "\n",
        r#"{"txn":5,"at":"2026-01-05T00:00:00Z","by":"switch hv1","insert":{"node":[["p2","a"]]}}"#,
        "\n",
        r#"{"txn":6,"at":"2026-01-06T00:00:00Z","by":"torn","insert":{"port":[["p2","a"]"#,
    );

    fn row(table: &str, columns: [&str; 2]) -> Inserted {
        Inserted { table: table.to_owned(), row: columns.map(Value::from).to_vec() }
    }

    fn transactions(text: &str, is_whole: bool, rows: &[Inserted]) -> Vec<Option<u64>> {
        let found = newest(text.as_bytes(), is_whole, rows.iter().cloned().collect());
        rows.iter().map(|row| found.get(row).map(|origin| origin.transaction)).collect()
    }

    #[test]
    fn the_newest_transaction_that_inserts_a_row_is_its_origin() {
        let rows = [row("port", ["p1", "a"]), row("port", ["p2", "a"]), row("node", ["p1", "a"])];
        assert_eq!(transactions(JOURNAL, true, &rows), [Some(3), Some(1), Some(1)]);
        // Of one text in two tables, the table decides.
        assert_eq!(transactions(JOURNAL, true, &[row("node", ["p2", "a"])]), [Some(5)]);
        // What says nothing of its origin has none, and what was never inserted has none either.
        assert_eq!(
            transactions(JOURNAL, true, &[row("port", ["p3", "a"]), row("port", ["p9", "a"])]),
            [None, None]
        );
    }

    #[test]
    fn a_line_that_is_cut_says_nothing() {
        let rows = [row("port", ["p2", "a"])];
        assert_eq!(transactions(JOURNAL, false, &rows), [None], "as if the first line were a part of one");
        assert_eq!(transactions("", true, &rows), [None]);
        assert_eq!(transactions(&JOURNAL[10..], false, &[row("port", ["p1", "a"])]), [Some(3)]);
    }

    #[test]
    fn the_request_behind_a_transaction_is_in_its_line() {
        let calls = calls(JOURNAL.as_bytes(), &BTreeSet::from([2, 4, 5])).unwrap();
        let by: Vec<_> = calls.iter().map(|(number, call)| (*number, &*call.by)).collect();
        assert_eq!(by, [(2, "ann"), (5, "switch hv1")]);
        assert_eq!(calls[&2].at, "2026-01-02T00:00:00Z");
    }
}

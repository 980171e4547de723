//! The tables as a page of the book.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::catalogue::{Catalogue, Column, Entry, NamedType, OBJECT, Party};

/// How to read the page.
const INTRODUCTION: &str = "\
A package fills and reads these tables of the built-in rules, which change with notice in the changelog; all others can change
with any version. [Write a package](../howto/add-a-feature.md) builds one. `weft tables` prints the same of every table of a
program, and of packages with it: `weft tables builtin quarantine`.

A rule whose value is not of the type of its column is an error if the value is a constant, and refuses the transaction
otherwise. `key` marks columns of the key: there is at most one row for each of its values.
";

impl Catalogue {
    /// The page of the book.
    pub(super) fn markdown(&self) -> String {
        let mut page = format!("# Tables for packages\n\n{INTRODUCTION}\n");
        let (mut kinds, mut files): (Vec<&Entry>, BTreeMap<&str, Vec<&Entry>>) = Default::default();
        for table in &self.tables {
            match table.kind {
                OBJECT => kinds.push(table),
                _ => files.entry(table.file.as_deref().unwrap_or_default()).or_default().push(table),
            }
        }
        for (file, tables) in files {
            let _ = write!(page, "## {file}\n\n");
            for table in tables {
                table.markdown(&mut page);
            }
        }
        if !kinds.is_empty() {
            page.push_str(
                "## Objects\n\nEach kind of object is a table too, whose columns are `id` and the fields. \
                 [Network objects](objects.md) describes them:\n\n",
            );
            for kind in kinds {
                kind.kind_of_objects(&mut page);
            }
            page.push('\n');
        }
        self.types_of_columns(&mut page);
        page.push('\n');
        self.numbers.markdown(&mut page);
        page.truncate(page.trim_end().len());
        page.push('\n');
        page
    }

    fn types_of_columns(&self, page: &mut String) {
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let columns =
            self.tables.iter().filter(|table| table.kind != OBJECT).flat_map(|table| &table.columns);
        let mut texts: Vec<&str> = columns.map(|column| column.ty.as_str()).collect();
        while let Some(text) = texts.pop() {
            let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            for word in words {
                if let Some((name, ty)) = self.types.get_key_value(word)
                    && used.insert(name)
                {
                    texts.push(&ty.definition);
                }
            }
        }
        if used.is_empty() {
            return;
        }
        page.push_str("## Types\n\n| type | values | |\n|---|---|---|\n");
        for name in used {
            let Some(NamedType { definition, doc }) = self.types.get(name) else { continue };
            let _ = writeln!(page, "| `{name}` | `{}` | {} |", in_cell(definition), in_cell(doc));
        }
    }
}

impl Entry {
    fn markdown(&self, page: &mut String) {
        let _ = write!(page, "### {}\n\n", self.table);
        let doc = self.doc.strip_prefix("Each row: ").unwrap_or(&self.doc);
        let _ = write!(page, "A row of this {}: {doc}\n\n", self.kind);
        page.push_str("| column | type | |\n|---|---|---|\n");
        for Column { name, ty, .. } in &self.columns {
            let key = if self.is_key(name) { " key" } else { "" };
            let _ = writeln!(page, "| `{name}` | `{}` |{key} |", in_cell(ty));
        }
        page.push('\n');
        for names in &self.unique {
            let _ = writeln!(page, "- Unique: `{}`", names.join("`, `"));
        }
        parties(page, "Filled by", &self.filled_by, true);
        parties(page, "Read by", &self.read_by, false);
        page.push('\n');
    }

    fn kind_of_objects(&self, page: &mut String) {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let _ = writeln!(page, "- `{}({})`", self.table, names.join(", "));
    }
}

fn parties(page: &mut String, what: &str, parties: &[Party], fills: bool) {
    let all: Vec<String> = parties.iter().map(|party| party.outside(fills, "`")).collect();
    let all = if all.is_empty() { "no built-in rule".to_owned() } else { all.join("; ") };
    let _ = writeln!(page, "- {what}: {all}");
}

fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

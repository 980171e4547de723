//! The tables for a terminal.

use std::fmt;

use super::catalogue::{Catalogue, Column, Entry, Party};

impl fmt::Display for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, table) in self.tables.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            table.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.table)?;
        match (&self.file, self.line) {
            (Some(file), Some(line)) => writeln!(f, "  {file}:{line}")?,
            _ => writeln!(f)?,
        }
        if !self.doc.is_empty() {
            writeln!(f, "    {}", self.doc)?;
        }
        let width = self.columns.iter().map(|column| column.name.len()).max().unwrap_or_default();
        for column in &self.columns {
            let key = if self.is_key(&column.name) { "  key" } else { "" };
            writeln!(f, "    {:width$}  {}{key}", column.name, column.written())?;
        }
        for names in &self.unique {
            writeln!(f, "    unique({})", names.join(", "))?;
        }
        write_parties(f, "filled by", &self.filled_by, true)?;
        write_parties(f, "read by", &self.read_by, false)
    }
}

impl Entry {
    /// Whether a column is part of the key.
    pub(super) fn is_key(&self, column: &str) -> bool {
        self.key.as_ref().is_some_and(|key| key.iter().any(|name| name == column))
    }
}

fn write_parties(f: &mut fmt::Formatter<'_>, what: &str, parties: &[Party], fills: bool) -> fmt::Result {
    if parties.is_empty() {
        return writeln!(f, "    {what}: no rule");
    }
    writeln!(f, "    {what}:")?;
    parties.iter().try_for_each(|party| writeln!(f, "        {}", party.in_words(fills)))
}

impl Column {
    /// `vlan (int 1..4094)`
    fn written(&self) -> String {
        match &self.definition {
            Some(definition) => format!("{} ({definition})", self.ty),
            None => self.ty.clone(),
        }
    }
}

impl Party {
    /// Who it is, of those who fill a table or of those who read it.
    fn in_words(&self, fills: bool) -> String {
        match self {
            Party::Rules { file, rules: 1 } => format!("{file} (1 rule)"),
            Party::Rules { file, rules } => format!("{file} ({rules} rules)"),
            other => other.outside(fills, ""),
        }
    }

    /// The same of all but rules, with marks around what a program has.
    pub(super) fn outside(&self, fills: bool, mark: &str) -> String {
        match self {
            Party::Objects { kind } => format!("objects of kind {mark}{kind}{mark} (`weft apply`)"),
            Party::Controller => "the controller".to_owned(),
            Party::Driver => "the driver of each switch, which makes the rows true".to_owned(),
            Party::Hook { hook, .. } if fills => format!("hook {mark}{hook}{mark}"),
            Party::Hook { hook, table } => {
                format!("hook {mark}{hook}{mark}, which fills {mark}{table}{mark}")
            }
            Party::State { kind } => format!("`weft get {kind}`"),
            Party::Refusal => "the engine: a row refuses the transaction".to_owned(),
            Party::Transactions => "transactions (`weft eval -i`)".to_owned(),
            Party::Rules { file, .. } => format!("{mark}{file}{mark}"),
        }
    }
}

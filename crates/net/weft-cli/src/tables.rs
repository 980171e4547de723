//! `weft tables`: the tables of a program, who fills them and who reads them.

mod catalogue;
mod numbers;
mod page;
mod text;

use std::path::{Path, PathBuf};

use clap::Args;
use nlog::source::is_nlog;
use openflow_rs::nearest;
use weft_core::builtin;

use crate::exit::{Failure, print, print_as};
use crate::program::{compile_indexed, load};
use catalogue::{Catalogue, Entry};
use numbers::Numbers;

/// The end of `--help`.
const READING: &str = "\
Examples:
  weft tables                             every table of the built-in rules
  weft tables of_flow                     one table
  weft tables builtin quarantine          the built-in rules with a package

A word that is no program is the name of a table, or a part of the names of several. Each table has
its columns with their types, who fills it and who reads it. `--interface` is for authors of
packages: these tables change with notice in the changelog, and all others with any version.";

/// Arguments of `weft tables`.
#[derive(Args)]
#[command(after_help = READING)]
pub(crate) struct TablesCommand {
    /// `.nlog` files or folders [default: builtin], and names of tables
    #[arg(value_name = "PROGRAM|NAME")]
    words: Vec<PathBuf>,
    /// Print only the built-in tables that packages may fill and read
    #[arg(long)]
    interface: bool,
    /// Print which numbers and bits of registers are reserved, and which are free
    #[arg(long, conflicts_with_all = ["interface", "markdown"])]
    numbers: bool,
    /// Print a page in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON object per table, one per line
    #[arg(long)]
    json: bool,
}

impl TablesCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (mut programs, names): (Vec<PathBuf>, Vec<PathBuf>) =
            self.words.into_iter().partition(|word| is_program(word));
        if programs.is_empty() {
            programs.push(builtin::NAME.into());
        }
        let sources = load(&programs)?;
        let (program, index) = compile_indexed(&sources)?;
        let mut catalogue = Catalogue::new(&program, &sources, &index);
        if self.numbers {
            return print_numbers(&catalogue.numbers, self.json);
        }
        if self.interface {
            catalogue.tables.retain(Entry::is_of_interface);
        }
        let mut kept = vec![names.is_empty(); catalogue.tables.len()];
        for name in &names {
            for at in chosen(&name.to_string_lossy(), &catalogue.tables)? {
                kept[at] = true;
            }
        }
        let mut kept = kept.into_iter();
        catalogue.tables.retain(|_| kept.next().unwrap_or_default());
        if self.json {
            let lines: Result<Vec<String>, _> = catalogue.tables.iter().map(serde_json::to_string).collect();
            let lines = lines.map_err(|error| Failure::outside("cannot print the tables", error))?;
            let text: String = lines.into_iter().map(|line| line + "\n").collect();
            print_as(true, &text)
        } else if self.markdown {
            print(&catalogue.markdown())
        } else {
            print(&catalogue.to_string())
        }
    }
}

fn print_numbers(numbers: &Numbers, json: bool) -> Result<(), Failure> {
    let line = serde_json::to_string(numbers)
        .map_err(|error| Failure::outside("cannot print the numbers", error))?;
    print_as(json, &if json { line + "\n" } else { numbers.to_string() })
}

/// Whether a word of the command line is a path of a program rather than the name of a table.
fn is_program(word: &Path) -> bool {
    builtin::owns(word) || is_nlog(word) || word.components().count() > 1 || word.exists()
}

/// The table of this name, or else those whose names contain it.
fn chosen(name: &str, tables: &[Entry]) -> Result<Vec<usize>, Failure> {
    if let Some(at) = tables.iter().position(|table| table.table == name) {
        return Ok(vec![at]);
    }
    let containing = (0..tables.len()).filter(|at| tables[*at].table.contains(name));
    let containing: Vec<usize> = containing.collect();
    if !containing.is_empty() {
        return Ok(containing);
    }
    let remedy = match nearest(name, tables.iter().map(|table| table.table.as_str())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`weft tables` without a name prints all; write ./NAME for a folder".to_owned(),
    };
    Err(Failure::Usage(format!("no table has `{name}` in its name, and no file is called so: {remedy}")))
}

//! The numbers that a program reserves, and the bits that it has no name for.

use std::fmt::{self, Write as _};

use nlog::Program;
use nlog::program::Place;
use openflow_rs::{Field, Subfield};
use serde::Serialize;

use super::catalogue::one_line;

/// Numbers and bits.
#[derive(Serialize)]
pub(super) struct Numbers {
    pub(super) reserved: Vec<Reserved>,
    /// The bits of registers and of connections that the program has no name for, as it would write them.
    pub(super) free: Vec<String>,
}

/// Numbers that a declaration reserves.
#[derive(Serialize)]
pub(super) struct Reserved {
    name: String,
    #[serde(rename = "type")]
    of: String,
    first: i64,
    last: i64,
    doc: String,
    file: String,
    line: u32,
}

impl Numbers {
    /// The numbers of a program.
    pub(super) fn new(program: &Program) -> Self {
        let reserved = program.reservations.iter().map(|reservation| {
            let Place { file, line, .. } = &reservation.place;
            Reserved {
                name: reservation.name.clone(),
                of: reservation.of.clone(),
                first: reservation.least,
                last: reservation.greatest,
                doc: one_line(reservation.docs.as_deref().unwrap_or_default()),
                file: file.to_string(),
                line: *line,
            }
        });
        let registers = (0..=u8::MAX).map_while(Field::reg);
        let of_connections = ["ct_mark", "ct_label"].into_iter().filter_map(Field::from_name);
        let free = registers.chain(of_connections).flat_map(|field| free_bits(field, program));
        Numbers { reserved: reserved.collect(), free: free.collect() }
    }

    /// For a page of the book.
    pub(super) fn markdown(&self, page: &mut String) {
        page.push_str("## Numbers\n\nA declaration `reserve` keeps these for those who use its name:\n\n");
        page.push_str("| name | of type | numbers | |\n|---|---|---|---|\n");
        for reserved in &self.reserved {
            let Reserved { name, of, doc, .. } = reserved;
            let _ = writeln!(page, "| `{name}` | `{of}` | {} | {doc} |", reserved.numbers());
        }
        let free: Vec<String> = self.free.iter().map(|bits| format!("`{bits}`")).collect();
        let _ = write!(page, "\nThese bits have no name in the built-in rules: {}.\n\n", free.join(", "));
    }
}

impl Reserved {
    fn numbers(&self) -> String {
        if self.first == self.last {
            self.first.to_string()
        } else {
            format!("{}..{}", self.first, self.last)
        }
    }
}

/// The numbers for a terminal.
impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for reserved in &self.reserved {
            let Reserved { name, of, doc, file, line, .. } = reserved;
            writeln!(f, "{of} {}  {name}  {file}:{line}\n    {doc}", reserved.numbers())?;
        }
        writeln!(
            f,
            "free bits: {}",
            if self.free.is_empty() { "none".to_owned() } else { self.free.join(", ") }
        )
    }
}

/// The bits of a field that no name of the program stands for.
fn free_bits(field: Field, program: &Program) -> Vec<String> {
    let taken = |bit: u16| {
        let one = Subfield::new(field, bit, 1);
        one.is_ok_and(|one| program.fields.iter().any(|named| named.field.overlaps(one)))
    };
    let mut free: Vec<String> = Vec::new();
    let mut bit = 0;
    while bit < field.bits() {
        let length = (bit..field.bits()).take_while(|bit| !taken(*bit)).count() as u16;
        let whole = if length == 0 { None } else { Subfield::new(field, bit, length).ok() };
        free.extend(whole.map(Subfield::written));
        bit += length + 1;
    }
    free
}

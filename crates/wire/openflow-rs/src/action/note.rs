//! `note:01.02.03`: bytes that annotate the flow and have no effect.

use super::*;
use crate::field::text::{Dotted, bytes_of_hex};

/// The most bytes that are kept.
const BYTES_MAX: usize = 65_000;

/// Bytes carried with the flow; their number is six more than a multiple of eight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    bytes: Vec<u8>,
}

impl Note {
    /// A note of these bytes, padded with zeros as the switch returns them.
    /// More than 65,000 bytes are cut off.
    pub fn new(bytes: &[u8]) -> Note {
        let mut bytes = bytes[..bytes.len().min(BYTES_MAX)].to_vec();
        bytes.resize((bytes.len() + 2).next_multiple_of(8).max(8) - 2, 0);
        Note { bytes }
    }

    /// The bytes with their padding.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for Note {
    const NAMES: &'static [&'static str] = &["note"];
    const WIRE: &'static [Wire] = &[Wire::Nx(8)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "note",
        "Does nothing; its bytes annotate the flow for readers.",
        &[Parameter::text(
            "bytes",
            "note: hexadecimal byte pairs separated by dots",
            "The bytes, zero-padded.",
        )],
        &[(r#"note("01.02.03")"#, "note:01.02.03.00.00.00")],
        |given| {
            let note = Note::read(given.text("bytes")?);
            note.map(Into::into)
                .map_err(|error| Refusal::arguments(error.to_string(), "write note(\"01.02.03\")"))
        },
    )];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        Ok(Note { bytes: body.rest().to_vec() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(8).put(out, |out| out.extend_from_slice(&self.bytes));
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "note:{}", Dotted(&self.bytes))
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Note::read(call.arg).map(Action::from)
    }
}

impl Note {
    /// Reads pairs of hexadecimal digits, dots between.
    fn read(text: &str) -> Result<Note, ParseError> {
        let form = "note: hexadecimal byte pairs separated by dots";
        let bytes = bytes_of_hex(text, form)?;
        if bytes.len() > BYTES_MAX {
            return Err(ParseError::value(text, form));
        }
        Ok(Note::new(&bytes))
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([("note:01.02.03.00.00.00", "ffff 0010 00002320 0008 010203000000")]);
    testing::check_spellings([
        ("note:01.02.03", "note:01.02.03.00.00.00"),
        ("note:", "note:00.00.00.00.00.00"),
        ("note:0102.03.04.05.06.07", "note:01.02.03.04.05.06.07.00.00.00.00.00.00.00"),
    ]);
    testing::check_refused(["note:0", "note:xy"]);
}

//! `note:01.02.03`: bytes that annotate the flow and have no effect.

use super::*;

/// Bytes carried with the flow; their number is six more than a multiple of eight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    bytes: Vec<u8>,
}

impl Note {
    /// A note of these bytes, padded with zeros as the switch returns them.
    /// More than 65,000 bytes are cut off.
    pub fn new(bytes: &[u8]) -> Note {
        let mut bytes = bytes[..bytes.len().min(65_000)].to_vec();
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
        for (place, byte) in self.bytes.iter().enumerate() {
            write!(f, "{}{byte:02x}", if place == 0 { "note:" } else { "." })?;
        }
        Ok(())
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        Note::read(call.arg).map(Action::from)
    }
}

impl Note {
    /// Reads pairs of hexadecimal digits, dots between.
    fn read(text: &str) -> Result<Note, ParseError> {
        let bad = || ParseError::value(text, "note: hexadecimal byte pairs separated by dots");
        let digits: String = text.chars().filter(|c| *c != '.').collect();
        if !digits.len().is_multiple_of(2)
            || !digits.bytes().all(|c| c.is_ascii_hexdigit())
            || digits.len() > 130_000
        {
            return Err(bad());
        }
        let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
        let bytes: Vec<u8> = pairs.collect::<Result<_, _>>().map_err(|_| bad())?;
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

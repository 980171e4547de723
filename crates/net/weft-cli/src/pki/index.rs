//! `issued.txt`: every certificate that the CA has issued, a line for each, so that a name can be revoked with all its serials.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use mutual_tls::Role;
use weft_core::times::to_the_second;

use super::names::Name;

/// The first line.
const HEAD: &str = "# serial name role not-after";

/// The serial number of a certificate, as the bytes in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Serial(pub(super) Vec<u8>);

impl fmt::Display for Serial {
    /// As `openssl x509 -serial` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl FromStr for Serial {
    type Err = String;

    fn from_str(text: &str) -> Result<Serial, String> {
        let pairs = text.as_bytes().chunks(2);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
        bytes.map(Serial).ok_or_else(|| "a serial number is not in hexadecimal digits".to_owned())
    }
}

fn digit(sign: u8) -> Option<u8> {
    char::from(sign).to_digit(16).map(|digit| digit as u8)
}

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) serial: Serial,
    pub(super) name: Name,
    pub(super) role: Role,
    /// When it expires.
    pub(super) not_after: SystemTime,
}

/// The certificates that were issued, the oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index(pub(super) Vec<Entry>);

impl Index {
    /// The certificates of a name, the oldest first.
    pub(super) fn of<'a>(&'a self, name: &'a Name) -> impl DoubleEndedIterator<Item = &'a Entry> {
        self.0.iter().filter(move |entry| entry.name == *name)
    }
}

impl FromStr for Index {
    type Err = String;

    /// Reads the file. An error names the line.
    fn from_str(text: &str) -> Result<Index, String> {
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let entry =
            |(at, line): (usize, &str)| entry(line).map_err(|error| format!("line {}: {error}", at + 1));
        Ok(Index(lines.map(entry).collect::<Result<_, _>>()?))
    }
}

fn entry(line: &str) -> Result<Entry, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[serial, name, role, not_after] = words.as_slice() else {
        return Err(format!("{} words instead of a serial number, name, role and date", words.len()));
    };
    let not_after = humantime::parse_rfc3339(not_after).map_err(|error| format!("{not_after}: {error}"))?;
    let role = Role::of_organisation(role).ok_or("this is not a role that weft gives")?;
    Ok(Entry { serial: serial.parse()?, name: name.parse()?, role, not_after })
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for Entry { serial, name, role, not_after } in &self.0 {
            writeln!(f, "{serial} {name} {} {}", role.organisation(), to_the_second(*not_after))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# serial name role not-after
0A1F hv1 weft:node 2029-02-03T04:05:06Z
7F00 alice weft:viewer 2029-02-03T04:05:07Z
0B hv1 weft:node 2030-01-01T00:00:00Z
";

    #[test]
    fn the_index_is_read_as_it_is_written() {
        let index: Index = TEXT.parse().expect("an index");
        assert_eq!(index.to_string(), TEXT);
        let of = |name: &str| {
            let name = name.parse().expect("a name");
            index.of(&name).map(|entry| entry.serial.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((of("hv1"), of("hv2")), (vec!["0A1F".to_owned(), "0B".to_owned()], vec![]));
    }

    #[test]
    fn a_damaged_line_is_named() {
        for (line, why) in [
            ("0A1F hv1 weft:node", "3 words"),
            ("0A1 hv1 weft:node 2029-02-03T04:05:06Z", "hexadecimal"),
            ("0A1F hv1 node 2029-02-03T04:05:06Z", "role"),
            ("0A1F ../x weft:node 2029-02-03T04:05:06Z", "a name consists"),
            ("0A1F hv1 weft:node tomorrow", "tomorrow"),
        ] {
            let error = format!("{HEAD}\n{line}\n").parse::<Index>().expect_err(line);
            assert!(error.starts_with("line 2: ") && error.contains(why), "{error}");
        }
    }
}

//! The last members of a line: its length and its checksum.
//!
//! A sealed line is an object that ends with `"len":L,"group":G,"sum":"S"}`. `L` is the number of bytes before the
//! comma in front of `"len"`. `G` is the number of the first record of the group. `S` is the CRC-32, as eight
//! hexadecimal digits, of the checksum of the previous line (four bytes, little-endian; 0 before the first line)
//! followed by all bytes in front of `,"sum"`. A line that was changed, lost, repeated or moved therefore does not
//! fit its position.

use std::str;

/// A decoded seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal {
    /// The number of bytes of the line without its seal and its last bracket.
    pub(super) object: usize,
    /// The first record of the group.
    pub(super) group: u64,
    /// The checksum.
    pub(super) sum: u32,
    /// The number of bytes of the line that the checksum covers.
    covered: usize,
}

/// Seals the object in `bytes` from `start` on, which must have at least one member. Returns its checksum.
pub(crate) fn seal(bytes: &mut Vec<u8>, start: usize, group: u64, before: u32) -> u32 {
    let bracket = bytes.pop();
    debug_assert_eq!(bracket, Some(b'}'), "only objects are sealed");
    let object = bytes.len() - start;
    bytes.extend_from_slice(format!(r#","len":{object},"group":{group}"#).as_bytes());
    let sum = checksum(before, &bytes[start..]);
    bytes.extend_from_slice(format!(r#","sum":"{sum:08x}"}}"#).as_bytes());
    sum
}

/// The checksum of a line, or of a part of one, given the checksum of the previous line.
pub(super) fn checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&before.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

impl Seal {
    /// Decodes the seal at the end of a line without its line feed, if it has one. Checks nothing.
    pub(super) fn of(line: &[u8]) -> Option<Seal> {
        let rest = line.strip_suffix(br#""}"#)?;
        let (rest, sum) = rest.split_at_checked(rest.len().checked_sub(8)?)?;
        let sum_text = str::from_utf8(sum).ok()?;
        let sum = u32::from_str_radix(sum_text, 16).ok()?;
        if format!("{sum:08x}") != sum_text {
            return None;
        }
        let rest = rest.strip_suffix(br#","sum":""#)?;
        let covered = rest.len();
        let (rest, group) = number(rest)?;
        let (rest, object) = number(rest.strip_suffix(br#","group":"#)?)?;
        let rest = rest.strip_suffix(br#","len":"#)?;
        Some(Seal { object: usize::try_from(object).ok()?, group, sum, covered }).filter(|_| !rest.is_empty())
    }

    /// Whether the line of this seal has the right length and checksum after a line with checksum `before`.
    pub(super) fn fits(&self, line: &[u8], before: u32) -> bool {
        let end = format!(r#","len":{},"group":{}"#, self.object, self.group);
        self.object + end.len() == self.covered
            && line.get(..self.covered).is_some_and(|covered| checksum(before, covered) == self.sum)
    }

    /// The object of the line of this seal, as it was before it was sealed.
    pub(super) fn unsealed(&self, mut line: Vec<u8>) -> Vec<u8> {
        line.truncate(self.object);
        line.push(b'}');
        line
    }
}

/// Lines that are read one after the other.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The checksum of the last line.
    sum: u32,
}

impl Chain {
    /// Whether a line, without its line feed, is the next one that was sealed. Otherwise nothing that comes later is.
    pub(crate) fn follows(&mut self, line: &[u8]) -> bool {
        let seal = Seal::of(line).filter(|seal| seal.fits(line, self.sum));
        self.sum = seal.map_or(self.sum, |seal| seal.sum);
        seal.is_some()
    }

    /// The line that was read last stands for one with this checksum.
    pub(crate) fn stands_for(&mut self, sum: u32) {
        self.sum = sum;
    }
}

/// Splits a number off the end.
fn number(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, digits) = bytes.split_at_checked(bytes.len() - digits)?;
    Some((rest, str::from_utf8(digits).ok()?.parse().ok()?))
}

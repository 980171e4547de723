//! A compact form of matches and actions, for programs that keep millions of them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use crate::field::Field;
use crate::wire::{Reader, put_uint};
use crate::{Actions, Demand, Match};

/// A [`Match`] or [`Actions`] as bytes, about a fifth of the size. Equal values have equal bytes.
///
/// ```
/// use openflow_rs::{Match, Packed};
/// let m: Match = "metadata=7,ip,nw_dst=10.0.0.0/8".parse()?;
/// let packed = Packed::new(&m);
/// assert_eq!(packed.get(), m);
/// assert_eq!(packed.bytes(), 21);
/// # Ok::<(), openflow_rs::ParseError>(())
/// ```
pub struct Packed<T> {
    bytes: Box<[u8]>,
    of: PhantomData<fn() -> T>,
}

/// Values that can be packed.
pub trait Pack: Sized {
    /// Appends the value.
    fn pack(&self, out: &mut Vec<u8>);

    /// Reads the result of [`Pack::pack`]; `None` for other bytes.
    fn unpack(bytes: &[u8]) -> Option<Self>;
}

impl<T: Pack> Packed<T> {
    /// Packs a value.
    pub fn new(value: &T) -> Self {
        let mut bytes = Vec::with_capacity(64);
        value.pack(&mut bytes);
        Packed { bytes: bytes.into(), of: PhantomData }
    }

    /// The value.
    pub fn get(&self) -> T {
        T::unpack(&self.bytes).expect("what was packed is read back")
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        Packed { bytes: self.bytes.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Packed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Packed<T> {}

impl<T> Hash for Packed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl<T: Pack + fmt::Debug> fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Flag in a field's number: a mask follows the value.
const MASKED: u8 = 0x80;

/// Each part of the match: the field's number, its value, and its mask if it has one, in as many bytes as on the wire.
impl Pack for Match {
    fn pack(&self, out: &mut Vec<u8>) {
        for Demand { field, value, mask } in self.iter() {
            let masked = !field.is_exact(mask);
            out.push(field as u8 | if masked { MASKED } else { 0 });
            put_uint(out, value, field.wire_bytes());
            if masked {
                put_uint(out, mask, field.wire_bytes());
            }
        }
    }

    fn unpack(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new("packed match", bytes);
        let mut demands = Vec::with_capacity(8);
        while !reader.is_empty() {
            let number = reader.u8().ok()?;
            let field = Field::numbered(number & !MASKED)?;
            let value = reader.uint(field.wire_bytes()).ok()?;
            let mask = if number & MASKED == 0 {
                field.max_value()
            } else {
                reader.uint(field.wire_bytes()).ok()?
            };
            demands.push(Demand { field, value, mask });
        }
        Some(Match::of(demands))
    }
}

/// `OFPIT_APPLY_ACTIONS`.
const APPLY_ACTIONS: u16 = 4;
/// The first byte of instructions on the wire; no text begins with it.
const WIRE: u8 = 0;

/// The instructions in wire format, or as text if they are too long for the wire format.
impl Pack for Actions {
    fn pack(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.encode_instructions(out);
        if out.len() - start > usize::from(u16::MAX) {
            out.truncate(start);
            out.extend_from_slice(self.to_string().as_bytes());
        }
    }

    fn unpack(bytes: &[u8]) -> Option<Self> {
        match bytes.first() {
            None => Some(Actions::drop()),
            Some(&WIRE) => Actions::decode_instructions(&mut Reader::new("packed actions", bytes)).ok(),
            Some(_) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        }
    }
}

/// Type, length and padding of instructions.
const HEADER: usize = 8;

impl Packed<Actions> {
    /// Concatenates two lists, as [`Actions::then`] does, without decoding them. Returns `None` if decoding is
    /// necessary: a list has instructions besides actions, or the result is too long for the wire format.
    pub fn then(&self, more: &Packed<Actions>) -> Option<Packed<Actions>> {
        if self.bytes.is_empty() || more.bytes.is_empty() {
            return Some(if self.bytes.is_empty() { more.clone() } else { self.clone() });
        }
        let (first, second) = (plain(&self.bytes)?, plain(&more.bytes)?);
        let length = u16::try_from(HEADER + first.len() + second.len()).ok()?;
        let mut bytes = Vec::with_capacity(length.into());
        bytes.extend_from_slice(&self.bytes[..HEADER]);
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        Some(Packed { bytes: bytes.into(), of: PhantomData })
    }
}

/// The actions, if the bytes are a single apply-actions instruction.
fn plain(bytes: &[u8]) -> Option<&[u8]> {
    let (header, list) = bytes.split_at_checked(HEADER)?;
    let is_apply = header[..2] == APPLY_ACTIONS.to_be_bytes();
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    (is_apply && length == bytes.len()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;

    #[test]
    fn fields_have_numbers_that_leave_room_for_the_mark() {
        for field in Field::all() {
            assert!((field as u8) & MASKED == 0, "{field}");
            assert_eq!(Field::numbered(field as u8), Some(field));
        }
        assert_eq!(Field::numbered(0x7f), None);
    }

    #[test]
    fn what_the_wire_has_no_room_for_is_kept_all_the_same() {
        for count in [0, 1, 4094, 4095, 4096, 10_000] {
            let actions = Actions(vec![Action::resubmit_table(4); count]);
            assert_eq!(Packed::new(&actions).get(), actions, "{count}");
        }
    }

    #[test]
    fn lists_are_joined_as_they_are_where_nothing_moves() {
        let texts =
            ["drop", "output:1", "resubmit(,4),set_field:5->reg1", "goto_table:4", "output:2,goto_table:5"];
        let long = Actions(vec![Action::resubmit_table(4); 3000]);
        let lists: Vec<Actions> = texts.iter().map(|text| text.parse().unwrap()).chain([long]).collect();
        let mut joined = 0;
        for first in &lists {
            for second in &lists {
                if let Some(both) = Packed::new(first).then(&Packed::new(second)) {
                    assert_eq!(both, Packed::new(&first.clone().then(second)), "{first} ++ {second}");
                    joined += 1;
                }
            }
        }
        // The empty list joins with every list, and plain lists join with each other, except the long one with itself.
        assert_eq!(joined, 19);
    }
}

//! A compact form of matches and actions, for programs that keep and compute millions of them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use once_cell::race::OnceBox;
use smallvec::SmallVec;
use triomphe::ThinArc;

use crate::MatchError;
use crate::field::Field;
use crate::wire::{Reader, put_uint};
use crate::{Actions, Demand, Match};

/// A [`Match`] or [`Actions`] as bytes, about a fifth of the size. Equal values have equal bytes, and clones share them. The order
/// is that of canonical texts.
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
    /// The text, kept from the first comparison on, and the bytes: one allocation.
    shared: ThinArc<OnceBox<Box<str>>, u8>,
    of: PhantomData<fn() -> T>,
}

/// Values that can be packed.
pub trait Pack: Sized {
    /// Appends the value.
    fn pack(&self, out: &mut Vec<u8>);

    /// Reads the result of [`Pack::pack`]; `None` for other bytes.
    fn unpack(bytes: &[u8]) -> Option<Self>;
}

impl<T> Packed<T> {
    /// Packs what `write` writes, unless it fails. Bytes are written to a buffer of the thread, so that nothing is allocated but
    /// the result.
    fn written<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<Self, E> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = RefCell::default();
        }
        BUFFER.with(|buffer| {
            // Taken out, because what writes may pack something else.
            let mut bytes = buffer.take();
            bytes.clear();
            let written = write(&mut bytes);
            let packed = written.map(|()| Packed::of(&bytes));
            buffer.replace(bytes);
            packed
        })
    }

    fn of(bytes: &[u8]) -> Self {
        Packed { shared: ThinArc::from_header_and_slice(OnceBox::new(), bytes), of: PhantomData }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.shared.slice
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.as_bytes().len()
    }
}

impl<T: Pack> Packed<T> {
    /// Packs a value.
    pub fn new(value: &T) -> Self {
        let Ok(packed) = Packed::written(|out| {
            value.pack(out);
            Ok::<(), Infallible>(())
        });
        packed
    }

    /// The value.
    pub fn get(&self) -> T {
        T::unpack(self.as_bytes()).expect("what was packed is read back")
    }
}

impl<T: Pack + fmt::Display> Packed<T> {
    /// The canonical text, as Open vSwitch prints it.
    pub fn text(&self) -> Cow<'_, str> {
        match self.shared.header.header.get() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(self.get().to_string()),
        }
    }

    /// The text, kept from now on.
    fn compared(&self) -> &str {
        self.shared.header.header.get_or_init(|| Box::new(self.get().to_string().into_boxed_str()))
    }
}

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        Packed { shared: self.shared.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Packed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl<T> Eq for Packed<T> {}

impl<T> Hash for Packed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl<T: Pack + fmt::Display> PartialOrd for Packed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Pack + fmt::Display> Ord for Packed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        self.compared().cmp(other.compared())
    }
}

impl<T: Pack + fmt::Display> fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// Flag in a field's number: a mask follows the value.
const MASKED: u8 = 0x80;

/// Each part of the match: the field's number, its value, and its mask if it has one, in as many bytes as on the wire. Parts ascend by
/// field.
impl Pack for Match {
    fn pack(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|part| put_part(part, out));
    }

    fn unpack(bytes: &[u8]) -> Option<Self> {
        let mut parts = Parts(bytes);
        let mut demands = Vec::with_capacity(8);
        while !parts.0.is_empty() {
            demands.push(parts.next()?.demand()?);
        }
        Some(Match::of(demands))
    }
}

fn put_part(Demand { field, value, mask }: Demand, out: &mut Vec<u8>) {
    let masked = !field.is_exact(mask);
    out.push(field as u8 | if masked { MASKED } else { 0 });
    put_uint(out, value, field.wire_bytes());
    if masked {
        put_uint(out, mask, field.wire_bytes());
    }
}

/// The parts of a packed match.
struct Parts<'a>(&'a [u8]);

/// A part of a packed match.
#[derive(Clone, Copy)]
struct Part<'a> {
    field: Field,
    /// The bytes of the part: number, value, and mask if it has one.
    bytes: &'a [u8],
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let number = *self.0.first()?;
        let field = Field::numbered(number & !MASKED)?;
        let words = if number & MASKED == 0 { 1 } else { 2 };
        let (bytes, rest) = self.0.split_at_checked(1 + words * field.wire_bytes())?;
        self.0 = rest;
        Some(Part { field, bytes })
    }
}

impl Part<'_> {
    fn demand(self) -> Option<Demand> {
        let Part { field, bytes } = self;
        let mut reader = Reader::new("packed match", &bytes[1..]);
        let value = reader.uint(field.wire_bytes()).ok()?;
        let mask =
            if reader.is_empty() { field.max_value() } else { reader.uint(field.wire_bytes()).ok()? };
        Some(Demand { field, value, mask })
    }
}

/// Writes the match of packets that match both, as [`Match::and`] does, without a list of parts.
fn put_both(one: &[u8], other: &[u8], out: &mut Vec<u8>) -> Result<(), MatchError> {
    let (mut ones, mut others) = (Parts(one), Parts(other));
    let (mut first, mut second) = (ones.next(), others.next());
    loop {
        let (a, b) = match (first, second) {
            (None, None) => return Ok(()),
            (Some(part), None) => {
                out.extend_from_slice(part.bytes);
                first = ones.next();
                continue;
            }
            (None, Some(part)) => {
                out.extend_from_slice(part.bytes);
                second = others.next();
                continue;
            }
            (Some(a), Some(b)) => (a, b),
        };
        match a.field.cmp(&b.field) {
            Ordering::Less => {
                out.extend_from_slice(a.bytes);
                first = ones.next();
            }
            Ordering::Greater => {
                out.extend_from_slice(b.bytes);
                second = others.next();
            }
            Ordering::Equal if a.bytes == b.bytes => {
                out.extend_from_slice(a.bytes);
                (first, second) = (ones.next(), others.next());
            }
            Ordering::Equal => {
                if let (Some(a), Some(b)) = (a.demand(), b.demand()) {
                    put_part(a.and(b)?, out);
                }
                (first, second) = (ones.next(), others.next());
            }
        }
    }
}

impl Packed<Match> {
    /// The match of packets that both match; see [`Match::and`].
    ///
    /// # Errors
    /// [`MatchError::Conflict`] when no packet can match both.
    pub fn and(&self, other: &Self) -> Result<Self, MatchError> {
        Packed::written(|out| put_both(self.as_bytes(), other.as_bytes(), out))
    }

    /// This match and `field` & `mask` = `value` & `mask`; see [`Match::with_masked`].
    ///
    /// # Errors
    /// As [`Match::with_masked`].
    pub fn with_masked(&self, field: Field, value: u128, mask: u128) -> Result<Self, MatchError> {
        let slots = field.slots(value, mask)?;
        if slots.iter().any(|(field, ..)| field == Field::VlanTci) {
            // A tag's priority depends on its other bits; see `Demand::canonical`.
            return self.get().with_masked(field, value, mask).map(|both| Packed::new(&both));
        }
        Packed::written(|out| {
            for (field, value, mask) in slots.iter() {
                put_part(Demand { field, value, mask }, out);
            }
            if !self.as_bytes().is_empty() {
                let parts: SmallVec<[u8; PARTS]> = SmallVec::from_slice(out);
                out.clear();
                put_both(self.as_bytes(), &parts, out)?;
            }
            Ok(())
        })
    }
}

/// The bytes of the most parts of one field: four registers, each with a mask.
const PARTS: usize = 4 * (1 + 2 * 4);

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
    /// The list as the instructions of a flow-mod: what [`Actions::to_wire`] makes. `None` if it is too long for any message.
    pub fn instructions(&self) -> Option<&[u8]> {
        Some(self.as_bytes()).filter(|bytes| bytes.first().is_none_or(|first| *first == WIRE))
    }

    /// Concatenates two lists, as [`Actions::then`] does, without decoding them. Returns `None` if decoding is
    /// necessary: a list has instructions besides actions, or the result is too long for the wire format.
    pub fn then(&self, more: &Packed<Actions>) -> Option<Packed<Actions>> {
        let (own, others) = (self.as_bytes(), more.as_bytes());
        if own.is_empty() || others.is_empty() {
            return Some(if own.is_empty() { more.clone() } else { self.clone() });
        }
        let (first, second) = (plain(own)?, plain(others)?);
        let length = u16::try_from(HEADER + first.len() + second.len()).ok()?;
        let Ok(joined) = Packed::written(|out| {
            out.extend_from_slice(&own[..HEADER]);
            out[2..4].copy_from_slice(&length.to_be_bytes());
            out.extend_from_slice(first);
            out.extend_from_slice(second);
            Ok::<(), Infallible>(())
        });
        Some(joined)
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
            let packed = Packed::new(&actions);
            assert_eq!(packed.get(), actions, "{count}");
            let wire = actions.to_wire();
            let fits = u16::try_from(wire.len()).is_ok();
            assert_eq!(packed.instructions(), fits.then_some(&*wire), "{count}");
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

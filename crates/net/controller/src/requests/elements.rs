//! Counts the elements of a request before it is decoded.
//!
//! An empty text or message takes two bytes of a request, and tens of bytes of memory once decoded. All repeated fields of
//! requests are at the top level of their messages, or in one field there ([`Elements::within`]), whose fields count too.

/// The fields of a gRPC message at its top level, counted as its bytes arrive.
#[derive(Debug)]
pub(super) struct Elements {
    next: Next,
    count: usize,
    /// The number of the field at the top level that has repeated fields itself.
    within: Option<u64>,
    /// The bytes that are left of that field.
    left_within: u64,
}

/// The part of a field that the next byte belongs to.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// The number and the form of a field.
    Key(Number),
    /// A number.
    Number,
    /// The length of a text or message, and whether it is the field whose fields count.
    Length(Number, bool),
    /// So many bytes of a value.
    Value(u64),
    /// Undecodable. The decoder gets no further either.
    Unknown,
}

/// A number that has arrived in part: seven bits in each byte, the lowest first.
#[derive(Debug, Clone, Copy, Default)]
struct Number {
    value: u64,
    bits: u32,
}

impl Elements {
    /// Counts from the first byte of a message, after the prefix that gRPC puts there.
    pub(super) fn after_prefix(bytes: usize) -> Self {
        Elements { next: Next::Value(bytes as u64), count: 0, within: None, left_within: 0 }
    }

    /// Counts the fields in this field too.
    pub(super) fn within(self, field: Option<u64>) -> Self {
        Elements { within: field, ..self }
    }

    /// The number of fields so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Takes the bytes that have arrived.
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while let [byte, rest @ ..] = bytes {
            self.next = match self.next {
                Next::Value(left) if left > 0 => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[taken..];
                    self.next = Next::Value(left - taken as u64);
                    self.left_within = self.left_within.saturating_sub(taken as u64);
                    continue;
                }
                Next::Value(_) => {
                    self.next = Next::Key(Number::default());
                    continue;
                }
                Next::Key(number) => number.with(*byte, Next::Key, |key| {
                    self.count += 1;
                    match key & 7 {
                        0 => Next::Number,
                        1 => Next::Value(8),
                        2 => {
                            let is_within = self.within == Some(key >> 3) && self.left_within == 0;
                            Next::Length(Number::default(), is_within)
                        }
                        // The fields of a group, which no request has, count like others.
                        3 | 4 => Next::Key(Number::default()),
                        5 => Next::Value(4),
                        _ => Next::Unknown,
                    }
                }),
                Next::Number if byte & 0x80 == 0 => Next::Key(Number::default()),
                Next::Number => Next::Number,
                Next::Length(number, false) => {
                    number.with(*byte, |number| Next::Length(number, false), Next::Value)
                }
                Next::Length(number, true) => number.with(
                    *byte,
                    |number| Next::Length(number, true),
                    |length| {
                        // The byte that is read now is not of it.
                        self.left_within = length.saturating_add(1);
                        Next::Key(Number::default())
                    },
                ),
                Next::Unknown => return,
            };
            self.left_within = self.left_within.saturating_sub(1);
            bytes = rest;
        }
    }
}

impl Number {
    fn with(self, byte: u8, more: impl FnOnce(Number) -> Next, whole: impl FnOnce(u64) -> Next) -> Next {
        if self.bits >= u64::BITS {
            return Next::Unknown;
        }
        let value = self.value | u64::from(byte & 0x7f) << self.bits;
        if byte & 0x80 == 0 { whole(value) } else { more(Number { value, bits: self.bits + 7 }) }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use weft_client::pb;

    fn count(message: &[u8], piece: usize) -> usize {
        let bytes = [&[0; 5], message].concat();
        let mut elements = Elements::after_prefix(5).within(Some(8));
        bytes.chunks(piece).for_each(|piece| elements.add(piece));
        elements.count()
    }

    #[test]
    fn fields_are_counted_however_they_arrive() {
        let document =
            |text: usize| pb::Document { name: "a".to_owned(), text: "x".repeat(text), object: None };
        let apply = pb::ApplyRequest {
            documents: vec![document(0), document(300), document(20_000)],
            objects: vec![String::new(); 1000],
            by: "me".to_owned(),
            prune: true,
            ..Default::default()
        };
        let watch = pb::WatchReceiptsRequest { from_txn: Some(u64::MAX), strict: true, ..Default::default() };
        for piece in [1, 2, 7, 1000, 100_000] {
            assert_eq!(count(&apply.encode_to_vec(), piece), 1005);
            assert_eq!(count(&watch.encode_to_vec(), piece), 2);
            let change = pb::TriedChange { documents: vec![document(0), document(300)], without: Vec::new() };
            let trace = pb::TraceRequest {
                from: "a".to_owned(),
                change: Some(change),
                live: true,
                ..Default::default()
            };
            assert_eq!(count(&trace.encode_to_vec(), piece), 5);
            // Another field of that number in it is not entered, and what follows it is at the top level again.
            let inner = [&[0x42, 4, 0x0a, 0, 0x0a, 0, 0x0a, 0][..], &[0x42, 4, 0x0a, 0, 0x0a, 0]].concat();
            let twice = [&[0x42, 8][..], &inner].concat();
            assert_eq!(count(&twice, piece), 6);
            // Numbers of four and of eight bytes, and a group with a field.
            assert_eq!(count(b"\x0d\0\0\0\0\x09\0\0\0\0\0\0\0\0\x0b\x08\x01\x0c\x08\x01", piece), 6);
            // A form that there is not, and a number without an end.
            assert_eq!(count(&[&b"\x08\x01\x0f"[..], &[0x0a, 0].repeat(100)].concat(), piece), 2);
            assert_eq!(count(&[&[0xff; 100][..], &[0x0a, 0].repeat(100)].concat(), piece), 0);
        }
    }
}

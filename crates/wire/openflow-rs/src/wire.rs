//! Reading and writing big-endian bytes. Every read is checked; offsets are kept for errors.

use crate::error::{DecodeError, Fault};

/// A cursor over one structure inside a larger buffer.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, offset: 0, what }
    }

    /// The same cursor; its errors name `what`.
    pub(crate) fn named(self, what: &'static str) -> Reader<'a> {
        Reader { what, ..self }
    }

    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn fault(&self, fault: impl Into<Fault>) -> DecodeError {
        DecodeError { what: self.what, offset: self.offset, fault: fault.into() }
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let Some((head, tail)) = self.rest.split_at_checked(n) else {
            return Err(self.fault(Fault::Truncated { needed: n, left: self.rest.len() }));
        };
        self.rest = tail;
        self.offset += n;
        Ok(head)
    }

    /// A cursor over the next `n` bytes; this one moves past them.
    pub(crate) fn sub(&mut self, what: &'static str, n: usize) -> Result<Reader<'a>, DecodeError> {
        let offset = self.offset;
        let rest = self.bytes(n)?;
        Ok(Reader { rest, offset, what })
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.offset += rest.len();
        self.rest = &[];
        rest
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// An unsigned number of `n` bytes, at most 16.
    pub(crate) fn uint(&mut self, n: usize) -> Result<u128, DecodeError> {
        Ok(self.bytes(n)?.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
    }

    /// Skips `n` bytes that the protocol reserves; receivers ignore their content.
    pub(crate) fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        self.bytes(n).map(|_| ())
    }

    /// Skips `n` bytes that must be zero.
    pub(crate) fn zeros(&mut self, n: usize) -> Result<(), DecodeError> {
        let at = self.clone();
        if self.bytes(n)?.iter().any(|byte| *byte != 0) {
            return Err(at.fault(Fault::Padding));
        }
        Ok(())
    }

    /// Requires that nothing is left.
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.fault(Fault::Length(self.rest.len()))) }
    }

    /// Requires that only zeros, fewer than eight, are left: padding to a multiple of eight.
    pub(crate) fn end_padded(mut self) -> Result<(), DecodeError> {
        if self.left() >= 8 {
            return Err(self.fault(Fault::Length(self.left())));
        }
        self.zeros(self.left())
    }
}

/// Appends the low `n` bytes of `value`, highest first.
pub(crate) fn put_uint(out: &mut Vec<u8>, value: u128, n: usize) {
    let bytes = value.to_be_bytes();
    out.extend_from_slice(&bytes[bytes.len() - n..]);
}

/// Appends zeros until `out` is a multiple of eight longer than `start`.
pub(crate) fn pad8(out: &mut Vec<u8>, start: usize) {
    let len = (out.len() - start).next_multiple_of(8);
    out.resize(start + len, 0);
}

/// Writes the 16-bit length of everything from `start` on into `out[at..]`.
pub(crate) fn patch_len(out: &mut [u8], start: usize, at: usize) {
    let len = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
    out[at..at + 2].copy_from_slice(&len.to_be_bytes());
}

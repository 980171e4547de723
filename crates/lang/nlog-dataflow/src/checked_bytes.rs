//! How a saved engine is written: numbers and vectors of them, with a checksum.
//!
//! Vectors are in the machine's own order of bytes, so that they are copied and not converted. The header has a number that
//! another kind of machine reads as another one.

use std::io::{self, Read, Take, Write};

use bytemuck::Pod;

/// How many bytes are written at once.
const PART: usize = 1 << 20;

/// What is wrong with saved bytes.
#[derive(Debug)]
pub(crate) enum Broken {
    /// They cannot be read.
    Io(io::Error),
    /// They are not what was written.
    Damaged,
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Broken::Damaged } else { Broken::Io(error) }
    }
}

/// Writes, and sums what it writes.
pub(crate) struct Out<'a> {
    to: &'a mut dyn Write,
    sum: crc32fast::Hasher,
}

impl<'a> Out<'a> {
    pub(crate) fn new(to: &'a mut dyn Write) -> Self {
        Out { to, sum: crc32fast::Hasher::new() }
    }

    pub(crate) fn number(&mut self, number: u64) -> io::Result<()> {
        self.put(&number.to_ne_bytes())
    }

    /// A vector, after its length.
    pub(crate) fn all<T: Pod>(&mut self, numbers: &[T]) -> io::Result<()> {
        self.number(numbers.len() as u64)?;
        self.put(bytemuck::cast_slice(numbers))
    }

    /// Writes a part at a time: the writer may want to look up in between.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PART).try_for_each(|part| {
            self.sum.update(part);
            self.to.write_all(part)
        })
    }

    /// The checksum of everything since the last one.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        let sum = std::mem::take(&mut self.sum).finalize();
        self.to.write_all(&sum.to_ne_bytes())
    }
}

/// Reads, and sums what it reads. Nothing it has read may be used before [`In::check`] has succeeded.
pub(crate) struct In<'a, 'b> {
    from: &'a mut Take<&'b mut dyn Read>,
    sum: crc32fast::Hasher,
}

impl<'a, 'b> In<'a, 'b> {
    /// `from` knows how much is left, so that a damaged length does not take all memory.
    pub(crate) fn new(from: &'a mut Take<&'b mut dyn Read>) -> Self {
        In { from, sum: crc32fast::Hasher::new() }
    }

    pub(crate) fn number(&mut self) -> Result<u64, Broken> {
        let mut bytes = [0; size_of::<u64>()];
        self.fill(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// A vector.
    pub(crate) fn all<T: Pod>(&mut self) -> Result<Vec<T>, Broken> {
        let len = self.number()?;
        if len > self.from.limit() / size_of::<T>() as u64 {
            return Err(Broken::Damaged);
        }
        let mut all = vec![T::zeroed(); len as usize];
        self.fill(bytemuck::cast_slice_mut(&mut all))?;
        Ok(all)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Broken> {
        self.from.read_exact(bytes)?;
        self.sum.update(bytes);
        Ok(())
    }

    /// Compares the checksum of everything since the last one.
    pub(crate) fn check(&mut self) -> Result<(), Broken> {
        let sum = std::mem::take(&mut self.sum).finalize();
        let mut bytes = [0; size_of::<u32>()];
        self.from.read_exact(&mut bytes)?;
        if u32::from_ne_bytes(bytes) == sum { Ok(()) } else { Err(Broken::Damaged) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(u64, Vec<u32>, Vec<i64>), Broken> {
        let mut from: &[u8] = bytes;
        let mut from = (&mut from as &mut dyn Read).take(bytes.len() as u64);
        let mut input = In::new(&mut from);
        let read = (input.number()?, input.all()?, input.all()?);
        input.check()?;
        Ok(read)
    }

    #[test]
    fn what_was_written_is_read_and_any_damage_is_noticed() {
        let mut bytes = Vec::new();
        let mut out = Out::new(&mut bytes);
        out.number(7).unwrap();
        out.all(&[1_u32, 2, 3]).unwrap();
        out.all(&[-1_i64]).unwrap();
        out.check().unwrap();
        assert_eq!(read(&bytes).unwrap(), (7, vec![1, 2, 3], vec![-1]));
        for at in 0..bytes.len() {
            assert!(matches!(read(&bytes[..at]), Err(Broken::Damaged)), "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(matches!(read(&damaged), Err(Broken::Damaged)), "byte {at}");
        }
    }
}

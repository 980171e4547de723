//! The flows and buckets that many switches should have, as bytes: a start reads them in a fraction of the time that rules take to derive
//! them. All else about a switch is little.
//!
//! Each match, action list and cookie is written once, and flows and buckets name them by number. The bytes are parts of `postcard`, each
//! after its length and its CRC-32: one for each switch, with what it names that no earlier one does, and an empty one at the end.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::io::{self, Read, Write};
use std::sync::Arc;

use hashbrown::HashMap;
use nlog_data::TableId;
use serde::{Deserialize, Serialize};

use crate::flow::{Flow, FlowKey};
use crate::group::Bucket;
use crate::pool::Pool;
use crate::{Desired, Tables};

/// The flows and buckets of one switch, in the order of their keys.
#[derive(Serialize, Deserialize)]
struct OfSwitch<'a> {
    node: &'a str,
    /// The encoded matches, instructions and buckets with the next numbers.
    #[serde(borrow)]
    bytes: Vec<&'a [u8]>,
    /// The cookies of flows, and the rules of buckets, with the next numbers.
    cookies: Vec<u64>,
    flows: Vec<SavedFlow>,
    buckets: Vec<SavedBucket>,
}

#[derive(Serialize, Deserialize)]
struct SavedFlow {
    table: u8,
    priority: u16,
    matching: u32,
    cookie: u32,
    instructions: u32,
}

#[derive(Serialize, Deserialize)]
struct SavedBucket {
    group: u32,
    bucket: u32,
    cookie: u32,
    bytes: u32,
}

/// The numbers of values, which count from 0.
struct Numbers<T> {
    known: HashMap<T, u32>,
    /// Those that got their number last.
    new: Vec<T>,
}

impl<T: Hash + Eq + Copy> Numbers<T> {
    fn new() -> Self {
        Numbers { known: HashMap::new(), new: Vec::new() }
    }

    fn of(&mut self, value: T) -> u32 {
        // More do not fit into memory.
        let next = self.known.len() as u32;
        *self.known.entry(value).or_insert_with(|| {
            self.new.push(value);
            next
        })
    }
}

/// The numbers of all that flows and buckets name.
struct Naming<'a> {
    bytes: Numbers<&'a [u8]>,
    /// By place in memory: switches share equal bytes, so that most are known without a look at them.
    places: HashMap<*const u8, u32>,
    cookies: Numbers<u64>,
}

impl<'a> Naming<'a> {
    fn bytes(&mut self, shared: &'a Arc<[u8]>) -> u32 {
        let Naming { bytes, places, .. } = self;
        *places.entry(shared.as_ptr()).or_insert_with(|| bytes.of(shared))
    }

    fn of_switch(&mut self, node: &'a str, state: &'a Desired) -> OfSwitch<'a> {
        let flows = state.flows.iter().map(|(key, flow)| SavedFlow {
            table: key.table,
            priority: key.priority,
            matching: self.bytes(&key.matching),
            cookie: self.cookies.of(flow.cookie),
            instructions: self.bytes(&flow.instructions),
        });
        let flows = flows.collect();
        let buckets = state.buckets.iter().map(|(&(group, number), bucket)| SavedBucket {
            group,
            bucket: number,
            cookie: self.cookies.of(bucket.rule),
            bytes: self.bytes(&bucket.bytes),
        });
        let buckets = buckets.collect();
        let (bytes, cookies) = (std::mem::take(&mut self.bytes.new), std::mem::take(&mut self.cookies.new));
        OfSwitch { node, bytes, cookies, flows, buckets }
    }
}

/// What the numbers stand for.
#[derive(Default)]
struct Named {
    bytes: Vec<Arc<[u8]>>,
    cookies: Vec<u64>,
}

impl Named {
    /// The flows and buckets of the next switch, if they name what there is.
    fn state(&mut self, of: OfSwitch<'_>, pool: &mut Pool) -> Option<Desired> {
        let shared = |bytes: &[u8]| {
            let mut bytes = Arc::from(bytes);
            pool.share(&mut bytes);
            bytes
        };
        self.bytes.extend(of.bytes.into_iter().map(shared));
        self.cookies.extend(of.cookies);
        let bytes = |number: u32| self.bytes.get(number as usize).cloned();
        let cookie = |number: u32| self.cookies.get(number as usize).copied();
        let flow = |saved: SavedFlow| {
            let SavedFlow { table, priority, .. } = saved;
            let key = FlowKey { table, priority, matching: bytes(saved.matching)? };
            let (cookie, instructions) = (cookie(saved.cookie)?, bytes(saved.instructions)?);
            Some((key, Flow { cookie, attributes: [0; 8], instructions }))
        };
        let bucket = |saved: SavedBucket| {
            let bucket = Bucket { rule: cookie(saved.cookie)?, bytes: bytes(saved.bytes)? };
            Some(((saved.group, saved.bucket), bucket))
        };
        let flows = of.flows.into_iter().map(flow).collect::<Option<_>>()?;
        let buckets = of.buckets.into_iter().map(bucket).collect::<Option<_>>()?;
        Some(Desired { flows, buckets, ..Desired::default() })
    }
}

/// Whether the rows of this table are among what is saved.
pub fn has(table: TableId, tables: &Tables) -> bool {
    [tables.flows, tables.buckets].contains(&Some(table))
}

/// Writes the flows and buckets of switches, by the names of their transport nodes. No flow has a timeout.
///
/// # Errors
/// Writing fails.
pub fn write<'a>(
    switches: impl Iterator<Item = (&'a str, &'a Desired)>,
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut naming = Naming { bytes: Numbers::new(), places: HashMap::new(), cookies: Numbers::new() };
    for (node, state) in switches {
        write_part(&naming.of_switch(node, state), to)?;
    }
    write_bytes(&[], to)
}

fn write_part(part: &impl Serialize, to: &mut dyn Write) -> io::Result<()> {
    write_bytes(&postcard::to_stdvec(part).map_err(io::Error::other)?, to)
}

fn write_bytes(bytes: &[u8], to: &mut dyn Write) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&len.to_le_bytes())?;
    to.write_all(&crc32fast::hash(bytes).to_le_bytes())?;
    to.write_all(bytes)
}

/// Reads what [`write()`] has written, and nothing beyond. Encoded parts are shared with those in the pool.
///
/// # Errors
/// Reading fails, or the bytes are not those that were written.
pub fn read(from: &mut dyn Read, pool: &mut Pool) -> io::Result<BTreeMap<String, Desired>> {
    let (mut named, mut switches) = (Named::default(), BTreeMap::new());
    loop {
        let part = read_bytes(from)?;
        if part.is_empty() {
            return Ok(switches);
        }
        let of: OfSwitch<'_> = postcard::from_bytes(&part).map_err(|_| damaged())?;
        let node = of.node.to_owned();
        switches.insert(node, named.state(of, pool).ok_or_else(damaged)?);
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the states of switches are damaged or truncated")
}

fn read_bytes(mut from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let (mut len, mut sum) = ([0; 4], [0; 4]);
    from.read_exact(&mut len)?;
    from.read_exact(&mut sum)?;
    let len = u32::from_le_bytes(len);
    let mut bytes = Vec::new();
    // The length may be damaged, so memory is taken as bytes come.
    (&mut from).take(len.into()).read_to_end(&mut bytes)?;
    if bytes.len() == len as usize && crc32fast::hash(&bytes) == u32::from_le_bytes(sum) {
        return Ok(bytes);
    }
    Err(damaged())
}

#[cfg(test)]
mod tests {
    use openflow_rs::{Actions, Field, Match};

    use super::*;

    fn flow(priority: u16, register: u32) -> (FlowKey, Flow) {
        let matching = Match::any().with(Field::Reg0, register.into()).unwrap();
        let flow = Flow::new(u64::from(register) << 40, &Actions::drop()).unwrap();
        (FlowKey::new(3, priority, &matching).unwrap(), flow)
    }

    fn switches() -> BTreeMap<String, Desired> {
        let of = |flows: &[(u16, u32)], buckets: &[(u32, u32)]| {
            let bucket = |of: &(u32, u32)| (*of, Bucket::new(u64::from(of.1), &Actions::drop()).unwrap());
            let flows = flows.iter().map(|(priority, register)| flow(*priority, *register)).collect();
            Desired { flows, buckets: buckets.iter().map(bucket).collect(), ..Desired::default() }
        };
        let one = of(&[(7, 1), (7, 2), (9, 1)], &[(1, 1), (1, 2)]);
        let all = [("hv1", one), ("hv2", of(&[(7, 2)], &[(5, 2)])), ("hv3", of(&[], &[]))];
        all.map(|(node, state)| (node.to_owned(), state)).into()
    }

    fn written() -> Vec<u8> {
        let (switches, mut bytes) = (switches(), Vec::new());
        write(switches.iter().map(|(node, state)| (&**node, state)), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_was_written_is_read_and_equal_parts_are_shared() {
        let mut bytes = written();
        bytes.extend(b"more");
        let mut from = bytes.as_slice();
        let read = read(&mut from, &mut Pool::default()).unwrap();
        assert_eq!(from, b"more");
        assert_eq!(read, switches());
        let [one, other] =
            ["hv1", "hv2"].map(|node| read[node].flows.keys().nth(usize::from(node == "hv1")).unwrap());
        assert!(one.shares_with(other));
    }

    #[test]
    fn any_damage_is_noticed() {
        let bytes = written();
        for at in 0..bytes.len() {
            assert!(read(&mut &bytes[..at], &mut Pool::default()).is_err(), "truncated to {at} bytes");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(
                    read(&mut damaged.as_slice(), &mut Pool::default()).is_err(),
                    "bit {bit} of byte {at}"
                );
            }
        }
    }
}

//! Decodes values, columns and states. No input causes harm: invalid bytes are an error, and the length of the input
//! bounds all allocations.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use openflow_rs::MacAddr;

use super::encode::cell_bytes;
use super::{Kind, MAGIC, SavedState, StateError, Trailer, VERSION, signature};
use crate::{Columns, InterfaceAddress, Role, Schema, Table, TableId, Type, Value};

/// The size of the checksum in bytes.
const SUM: usize = 4;
/// The maximum nesting of values of unknown type.
const MAX_DEPTH: u8 = 100;

/// Reads a state of a program with these tables. Ignores derived rows after it.
pub fn read(bytes: &[u8], schema: &Schema) -> Result<SavedState, StateError> {
    let state = Trailer::of(bytes).and_then(|trailer| bytes.get(..usize::try_from(trailer.state).ok()?));
    let bytes = state.unwrap_or(bytes);
    let rest = bytes.strip_prefix(MAGIC.as_slice()).ok_or(StateError::NoState)?;
    let (version, _) = rest.split_first_chunk().ok_or(damaged("the header is incomplete"))?;
    let found = u32::from_le_bytes(*version);
    if found != VERSION {
        return Err(StateError::Version { found });
    }
    let (summed, sum) = bytes.split_last_chunk::<SUM>().ok_or(damaged("the header is incomplete"))?;
    let body = summed.get(MAGIC.len() + version.len()..).ok_or(damaged("the header is incomplete"))?;
    if crc32fast::hash(summed) != u32::from_le_bytes(*sum) {
        return Err(damaged("checksum mismatch"));
    }
    let mut bytes = Bytes(body);
    let inputs = inputs_of(&mut bytes, schema)?;
    let mut state = SavedState::default();
    loop {
        let place = bytes.number()?;
        let Some(place) = place.checked_sub(1) else { break };
        let table = usize::try_from(place).ok().and_then(|place| inputs.get(place));
        let (id, table) = table.ok_or(damaged("invalid table number"))?;
        let rows = bytes.columns(table)?;
        if state.tables.insert(*id, rows).is_some() {
            return Err(damaged("duplicate table"));
        }
    }
    for _ in 0..bytes.number()? {
        let name = bytes.text()?.to_owned();
        let length = bytes.count()?;
        state.sections.insert(name, bytes.take(length)?.to_vec());
    }
    if bytes.0.is_empty() { Ok(state) } else { Err(damaged("unexpected data after the end")) }
}

/// Reads a value that [`write_value`](super::write_value) wrote, and advances `bytes` past it.
///
/// # Errors
/// [`StateError::Damaged`] if the bytes are not a value.
pub fn read_value(bytes: &mut &[u8]) -> Result<Value, StateError> {
    let mut rest = Bytes(bytes);
    let value = rest.any_value(MAX_DEPTH)?;
    *bytes = rest.0;
    Ok(value)
}

fn damaged(what: &'static str) -> StateError {
    StateError::Damaged { what }
}

/// Reads the list of input tables, and checks it against the program's.
fn inputs_of<'a>(bytes: &mut Bytes<'_>, schema: &'a Schema) -> Result<Vec<(TableId, &'a Table)>, StateError> {
    let other = |difference| Err(StateError::OtherProgram { difference });
    let mut saved = BTreeMap::new();
    for _ in 0..bytes.number()? {
        saved.insert(bytes.text()?, bytes.text()?);
    }
    let inputs: Vec<(TableId, &Table)> =
        schema.iter().filter(|(_, table)| table.role == Role::Input).collect();
    for (_, table) in &inputs {
        let (name, ours) = (&table.name, signature(table));
        match saved.remove(name.as_str()) {
            None => return other(format!("it has no input table {name}")),
            Some(theirs) if theirs != ours => {
                return other(format!("table {name} is {theirs} in the state and {ours} in the program"));
            }
            Some(_) => {}
        }
    }
    match saved.keys().next() {
        None => Ok(inputs),
        Some(name) => other(format!("the program has no input table {name}")),
    }
}

/// The unread bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(damaged("unexpected end"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(damaged("unexpected end"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, StateError> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64, StateError> {
        let mut value = 0;
        for place in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << place;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged("a number is too long"))
    }

    /// Reads the number of items. Each item takes at least one byte, so the count cannot exceed the remaining bytes.
    fn count(&mut self) -> Result<usize, StateError> {
        let count = usize::try_from(self.number()?).ok();
        count.filter(|count| *count <= self.0.len()).ok_or(damaged("unexpected end"))
    }

    fn text(&mut self) -> Result<&'a str, StateError> {
        let length = self.count()?;
        str::from_utf8(self.take(length)?).map_err(|_| damaged("a string is not valid UTF-8"))
    }

    fn columns(&mut self, table: &Table) -> Result<Columns, StateError> {
        let too_many = damaged("a table has more rows than bytes");
        let rows = usize::try_from(self.number()?).map_err(|_| too_many.clone())?;
        let width = table.columns.len();
        // Ascending rows are distinct, so at most one row takes no bytes.
        if rows > self.0.len().max(1) {
            return Err(too_many);
        }
        let mut cells = vec![0; rows.checked_mul(width).ok_or(too_many)?];
        let mut dictionaries = Vec::with_capacity(width);
        for (at, column) in table.columns.iter().enumerate() {
            let count = self.count()?;
            let mut dictionary = Vec::with_capacity(count.min(rows));
            for _ in 0..count {
                dictionary.push(self.value(&column.ty)?);
            }
            self.cells(&mut cells, at, width, rows, count)?;
            dictionaries.push(dictionary);
        }
        let columns = Columns::from_parts(dictionaries, cells, rows);
        // The text of a match, and so the order, may have changed since the state was saved.
        columns.map(Columns::into_ascending).map_err(|_| damaged("a cell refers to a missing value"))
    }

    /// The cells of one column, given the size of its dictionary.
    fn cells(
        &mut self,
        cells: &mut [u32],
        column: usize,
        width: usize,
        rows: usize,
        values: usize,
    ) -> Result<(), StateError> {
        let bytes = usize::from(self.byte()?);
        if bytes != cell_bytes(values) {
            return Err(damaged("a column has cells of the wrong width"));
        }
        let taken = self.take(bytes.checked_mul(rows).ok_or(damaged("unexpected end"))?)?;
        let cells = cells.iter_mut().skip(column).step_by(width);
        match bytes {
            0 => {}
            1 => cells.zip(taken).for_each(|(cell, byte)| *cell = u32::from(*byte)),
            2 => fill(cells, taken, |[low, high]: &[u8; 2]| u32::from_le_bytes([*low, *high, 0, 0])),
            3 => fill(cells, taken, |[low, mid, high]: &[u8; 3]| u32::from_le_bytes([*low, *mid, *high, 0])),
            _ => fill(cells, taken, |bytes: &[u8; 4]| u32::from_le_bytes(*bytes)),
        }
        Ok(())
    }

    fn value(&mut self, ty: &Type) -> Result<Value, StateError> {
        let kind = *Kind::ALL.get(usize::from(self.byte()?)).ok_or(damaged("a value is of no kind"))?;
        self.value_of(kind, ty)
    }

    fn value_of(&mut self, kind: Kind, ty: &Type) -> Result<Value, StateError> {
        Ok(match (ty.base(), kind) {
            (Type::Opt(_), Kind::None) => Value::None,
            (Type::Opt(of), kind) => return self.value_of(kind, of),
            (Type::Bool, Kind::False) => Value::Bool(false),
            (Type::Bool, Kind::True) => Value::Bool(true),
            (Type::Int, Kind::Int) => {
                let zigzag = self.number()?;
                Value::Int((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
            }
            (Type::String | Type::Enum(_), Kind::String)
            | (Type::Match, Kind::Match)
            | (Type::Actions, Kind::Actions)
            | (Type::PacketFilter, Kind::PacketFilter) => ty.parse_text(self.text()?).map_err(|_| {
                damaged(
                    "a string does not have the type of its \
                column",
                )
            })?,
            (Type::Mac, Kind::Mac) => Value::Mac(MacAddr(self.array()?)),
            (Type::Ip, Kind::Ipv4 | Kind::Ipv6) => Value::Ip(self.address(kind)?),
            (Type::Net, Kind::Net4 | Kind::Net6) => {
                let address = self.address(kind)?;
                let net = IpNet::new(address, self.byte()?);
                let net = net.ok().filter(|net| net.trunc() == *net);
                Value::Net(net.ok_or(damaged("a prefix is too long for its address"))?)
            }
            (Type::InterfaceAddress, Kind::Interface4 | Kind::Interface6) => {
                let address = InterfaceAddress::new(self.address(kind)?, self.byte()?);
                address.ok_or(damaged("a prefix is too long for its address"))?.into()
            }
            (Type::Set(of), Kind::Set) => Value::set(self.values(of)?),
            (Type::List(of), Kind::List) => Value::list(self.values(of)?),
            (Type::Record(of), Kind::Record) => {
                let fields = of.fields.iter().map(|(_, ty)| self.value(ty));
                Value::record(fields.collect::<Result<Vec<_>, _>>()?)
            }
            _ => return Err(damaged("a value does not have the type of its column")),
        })
    }

    /// Reads a value of unknown type. The types of all programs are nested less deeply than the limit.
    fn any_value(&mut self, depth: u8) -> Result<Value, StateError> {
        let kind = *Kind::ALL.get(usize::from(self.byte()?)).ok_or(damaged("a value is of no kind"))?;
        let ty = match kind {
            Kind::None => return Ok(Value::None),
            Kind::Set | Kind::List | Kind::Record => {
                let depth = depth.checked_sub(1).ok_or(damaged("a value is nested too deeply"))?;
                let values =
                    (0..self.count()?).map(|_| self.any_value(depth)).collect::<Result<Vec<_>, _>>()?;
                return Ok(match kind {
                    Kind::Set => Value::set(values),
                    Kind::List => Value::list(values),
                    _ => Value::record(values),
                });
            }
            Kind::False | Kind::True => Type::Bool,
            Kind::Int => Type::Int,
            Kind::String => Type::String,
            Kind::Mac => Type::Mac,
            Kind::Ipv4 | Kind::Ipv6 => Type::Ip,
            Kind::Net4 | Kind::Net6 => Type::Net,
            Kind::Interface4 | Kind::Interface6 => Type::InterfaceAddress,
            Kind::Match => Type::Match,
            Kind::Actions => Type::Actions,
            Kind::PacketFilter => Type::PacketFilter,
        };
        self.value_of(kind, &ty)
    }

    fn values(&mut self, ty: &Type) -> Result<Vec<Value>, StateError> {
        (0..self.count()?).map(|_| self.value(ty)).collect()
    }

    fn address(&mut self, kind: Kind) -> Result<IpAddr, StateError> {
        Ok(match kind {
            Kind::Ipv4 | Kind::Net4 | Kind::Interface4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            _ => IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)),
        })
    }
}

/// Fills cells, each from `N` bytes.
fn fill<'a, const N: usize>(
    cells: impl Iterator<Item = &'a mut u32>,
    bytes: &[u8],
    cell: impl Fn(&[u8; N]) -> u32,
) {
    for (to, bytes) in cells.zip(bytes.as_chunks().0) {
        *to = cell(bytes);
    }
}

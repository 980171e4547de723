//! The mapping of tunnel options to fields: messages of Open vSwitch (`NXT_TLV_TABLE_*`).

use std::fmt::Write;

use crate::DecodeError;
use crate::error::Fault;
use crate::wire::Reader;

/// Bytes of one mapping.
const MAPPING_LEN: usize = 8;
/// Bytes without meaning before a reply's mappings.
const RESERVED: usize = 10;

/// The mapping of one geneve option to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlvMapping {
    /// The option's class.
    pub class: u16,
    /// Its type.
    pub kind: u8,
    /// Bytes of its content, a multiple of 4.
    pub len: u8,
    /// The field: N for `tun_metadataN`.
    pub field: u16,
}

impl TlvMapping {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.class.to_be_bytes());
        out.extend_from_slice(&[self.kind, self.len]);
        out.extend_from_slice(&self.field.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
    }

    fn decode_all(reader: &mut Reader<'_>) -> Result<Vec<TlvMapping>, DecodeError> {
        let mut mappings = Vec::with_capacity(reader.left() / MAPPING_LEN);
        while !reader.is_empty() {
            let (class, kind, len, field) = (reader.u16()?, reader.u8()?, reader.u8()?, reader.u16()?);
            reader.skip(2)?;
            mappings.push(TlvMapping { class, kind, len, field });
        }
        Ok(mappings)
    }
}

fn table(mappings: &[TlvMapping]) -> String {
    let mut text =
        " mapping table:\n  class  type  length  match field\n ------  ----  ------  --------------"
            .to_owned();
    for TlvMapping { class, kind, len, field } in mappings {
        let _ = write!(
            text,
            "\n {:>6}  {:>4}  {len:>6}  tun_metadata{field}",
            format!("{class:#x}"),
            format!("{kind:#x}")
        );
    }
    text
}

/// The command of a [`TlvTableMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlvCommand {
    /// Adds mappings.
    Add,
    /// Removes some mappings.
    Delete,
    /// Removes all mappings.
    Clear,
}

impl TlvCommand {
    const ALL: [TlvCommand; 3] = [TlvCommand::Add, TlvCommand::Delete, TlvCommand::Clear];
}

/// Changes the mapping. Open vSwitch does not remove a mapping that a flow uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvTableMod {
    /// The command.
    pub command: TlvCommand,
    /// The mappings.
    pub mappings: Vec<TlvMapping>,
}

impl TlvTableMod {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.command as u16).to_be_bytes());
        out.extend_from_slice(&[0; 6]);
        self.mappings.iter().for_each(|mapping| mapping.encode(out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<TlvTableMod, DecodeError> {
        let at = reader.clone();
        let command = reader.u16()?;
        let known = TlvCommand::ALL.get(usize::from(command)).copied();
        let command = known.ok_or_else(|| at.fault(Fault::Unknown(command.into())))?;
        reader.skip(6)?;
        Ok(TlvTableMod { command, mappings: TlvMapping::decode_all(reader)? })
    }

    pub(super) fn print(&self) -> String {
        let table = || table(&self.mappings);
        match self.command {
            TlvCommand::Add => format!("\n ADD{}", table()),
            TlvCommand::Delete => format!("\n DEL{}", table()),
            TlvCommand::Clear => "\n CLEAR".to_owned(),
        }
    }
}

/// The current mappings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvTableReply {
    /// Bytes for all options together.
    pub max_space: u32,
    /// The maximum number of fields.
    pub max_fields: u16,
    /// The mappings.
    pub mappings: Vec<TlvMapping>,
}

impl TlvTableReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.max_space.to_be_bytes());
        out.extend_from_slice(&self.max_fields.to_be_bytes());
        out.extend_from_slice(&[0; RESERVED]);
        self.mappings.iter().for_each(|mapping| mapping.encode(out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<TlvTableReply, DecodeError> {
        let (max_space, max_fields) = (reader.u32()?, reader.u16()?);
        reader.skip(RESERVED)?;
        Ok(TlvTableReply { max_space, max_fields, mappings: TlvMapping::decode_all(reader)? })
    }

    pub(super) fn print(&self) -> String {
        let used: u32 = self.mappings.iter().map(|mapping| u32::from(mapping.len)).sum();
        format!(
            "\n max option space={} max fields={}\n allocated option space={used}\n\n{}",
            self.max_space,
            self.max_fields,
            table(&self.mappings)
        )
    }
}

//! Patch ports between the integration bridge and others.

use std::fmt;

use nlog_data::{Row, Value};
use openflow_rs::DecodeError;

use crate::kind::{Kind, Lasting, Reader, RowError, text};
use crate::table::{STRING, SwitchTable};
use crate::tunnel::check_name;

/// A pair of patch ports between the integration bridge and another bridge. A packet that leaves through one end
/// enters through the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Patch {
    /// The other bridge, which the driver does not create.
    pub bridge: String,
    /// The name of the port on the other bridge.
    pub peer: String,
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to {} of {}", self.peer, self.bridge)
    }
}

/// The patch ports of a switch, by name.
#[derive(Debug)]
pub enum Patches {}

impl Kind for Patches {
    const TABLE: SwitchTable = SwitchTable::output(
        "ovsdb_patch",
        &[("hv", STRING), ("patch", STRING), ("bridge", STRING), ("peer", STRING)],
    );
    type Key = String;
    type Value = Patch;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, String, Patch), RowError> {
        let [Value::String(host), Value::String(name), Value::String(bridge), Value::String(peer)] = &row[..]
        else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        check_name(&Self::TABLE, host, name)?;
        check_name(&Self::TABLE, host, peer)?;
        Ok((host, name.to_string(), Patch { bridge: bridge.to_string(), peer: peer.to_string() }))
    }
}

impl Lasting for Patches {
    fn row(host: &str, name: &String, Patch { bridge, peer }: &Patch) -> Result<Row, DecodeError> {
        Ok([host, name, bridge, peer].map(text).to_vec())
    }
}

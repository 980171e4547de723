//! Tunnel ports.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use nlog_data::{Row, Value};
use openflow_rs::DecodeError;
use tunnel_encap::Encap;

use crate::kind::{Kind, Lasting, Reader, RowError, text};
use crate::table::{ColumnType, STRING, SwitchTable};

pub(crate) const ENCAP: ColumnType = ColumnType::Name(|| Encap::ALL.map(Encap::name).to_vec());

/// The maximum length of a port's name, which is the name of a network device.
const NAME_MAX: usize = 15;

/// A tunnel port. Flows set the key of each packet (`options:key=flow`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tunnel {
    /// The encapsulation.
    pub encap: Encap,
    /// The other end.
    pub remote: Remote,
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.encap, self.remote)
    }
}

/// The remote end of a tunnel port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remote {
    /// The flow that outputs to the port sets `tun_dst`.
    Flow,
    /// One host.
    Address(IpAddr),
}

/// A text that is neither an IP address nor `flow`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the remote end of a tunnel; use an IPv4 or IPv6 address, or `flow`")]
pub struct RemoteError(String);

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Flow => f.write_str("flow"),
            Remote::Address(address) => write!(f, "{address}"),
        }
    }
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        match text {
            "flow" => Ok(Remote::Flow),
            _ => text.parse().map(Remote::Address).map_err(|_| RemoteError(text.to_owned())),
        }
    }
}

/// The tunnel ports of a switch, by name.
#[derive(Debug)]
pub enum Tunnels {}

impl Kind for Tunnels {
    const TABLE: SwitchTable = SwitchTable::output(
        "ovsdb_tunnel",
        &[("hv", STRING), ("tunnel", STRING), ("encap", ENCAP), ("remote", STRING)],
    );
    type Key = String;
    type Value = Tunnel;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, String, Tunnel), RowError> {
        let [Value::String(host), Value::String(name), Value::String(encap), Value::String(remote)] =
            &row[..]
        else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        check_name(&Self::TABLE, host, name)?;
        let fault =
            |error: &dyn fmt::Display| RowError::range(&Self::TABLE, host, format!("{name}: {error}"));
        let encap = encap.parse().map_err(|error: tunnel_encap::UnknownEncap| fault(&error))?;
        let remote = remote.parse().map_err(|error: RemoteError| fault(&error))?;
        Ok((host, name.to_string(), Tunnel { encap, remote }))
    }
}

impl Lasting for Tunnels {
    fn row(host: &str, name: &String, Tunnel { encap, remote }: &Tunnel) -> Result<Row, DecodeError> {
        Ok(vec![text(host), text(name), text(encap.to_string()), text(remote.to_string())])
    }
}

/// Refuses the name of a port that no network device can have.
pub(crate) fn check_name(table: &SwitchTable, host: &str, name: &str) -> Result<(), RowError> {
    if name.len() <= NAME_MAX {
        return Ok(());
    }
    let why =
        format!("{name} cannot be the name of a port: it has {} bytes, the most are {NAME_MAX}", name.len());
    Err(RowError::range(table, host, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_read_as_they_print() {
        for text in ["flow", "172.31.0.2", "2001:db8::1"] {
            assert_eq!(text.parse::<Remote>().map(|remote| remote.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("hv2".parse::<Remote>(), Err(RemoteError("hv2".to_owned())));
    }
}

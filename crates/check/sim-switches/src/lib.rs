//! Thousands of Open vSwitches in one process, on real sockets.
//!
//! Each is a switch and a database of `fake-switch`. All of them share two listeners on the loopback interface: one for OVSDB and one for
//! OpenFlow. Host number n has the nth address after the first one, and the address that a client dials says which host it wants.
//!
//! In reading order: [`Fleet`], [`SimulatedHost`], [`faults`]. Left out on purpose: packets. No switch here forwards anything.
#![forbid(unsafe_code)]

pub mod faults;
mod host;
mod listening;

use std::io;
use std::net::Ipv4Addr;

use tokio::task::AbortHandle;

pub use host::{SimulatedHost, Streams, Totals};

/// Where the hosts are, and how many there are.
#[derive(Debug, Clone)]
pub struct Layout {
    /// How many hosts.
    pub hosts: usize,
    /// The address that the first one listens on. It must be in 127.0.0.0/8, as must that of the last one.
    pub first: Ipv4Addr,
    /// The TCP port of all databases; 0 takes a free one.
    pub ovsdb_port: u16,
    /// The TCP port of all switches; 0 takes a free one.
    pub openflow_port: u16,
    /// The names of the hosts before their numbers.
    pub prefix: String,
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            hosts: 3000,
            first: Ipv4Addr::new(127, 64, 0, 1),
            ovsdb_port: 6640,
            openflow_port: 6653,
            prefix: "hv-".to_owned(),
        }
    }
}

impl Layout {
    /// The address that a host listens on; none if that is not an address of the loopback interface.
    pub fn address(&self, host: usize) -> Option<Ipv4Addr> {
        let address = u32::from(self.first).checked_add(u32::try_from(host).ok()?)?;
        Some(Ipv4Addr::from(address)).filter(Ipv4Addr::is_loopback)
    }

    /// The name of a host.
    pub fn id(&self, host: usize) -> String {
        format!("{}{host}", self.prefix)
    }

    /// The endpoints of a host's database and of its switch, as objects have them.
    pub fn endpoints(&self, host: usize) -> Option<(String, String)> {
        let address = self.address(host)?;
        Some((format!("tcp:{address}:{}", self.ovsdb_port), format!("tcp:{address}:{}", self.openflow_port)))
    }
}

/// Running hosts. Dropping it closes all their connections.
#[derive(Debug)]
pub struct Fleet {
    layout: Layout,
    hosts: Vec<SimulatedHost>,
    listening: [AbortHandle; 2],
}

impl Fleet {
    /// Starts the hosts, each with an empty integration bridge. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A port is taken, the hosts do not fit into the loopback network, or the process may not have as many open files as they need.
    pub fn start(layout: &Layout) -> io::Result<Fleet> {
        listening::raise_file_limit(layout.hosts)?;
        if layout.hosts > 0 && layout.address(layout.hosts - 1).is_none() {
            let why = format!("{} hosts from {} are not all in 127.0.0.0/8", layout.hosts, layout.first);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let ovsdb = listening::bind(layout.ovsdb_port)?;
        let openflow = listening::bind(layout.openflow_port)?;
        let (ovsdb_port, openflow_port) = (ovsdb.local_addr()?.port(), openflow.local_addr()?.port());
        let mut hosts = Vec::with_capacity(layout.hosts);
        let (mut to_databases, mut to_switches) = (Vec::new(), Vec::new());
        for number in 0..layout.hosts {
            let (host, streams) = SimulatedHost::start(layout.id(number), number);
            hosts.push(host);
            to_databases.push(streams.to_database);
            to_switches.push(streams.to_switch);
        }
        let first = layout.first;
        let listening = [(ovsdb, to_databases), (openflow, to_switches)]
            .map(|(listener, to)| tokio::spawn(listening::hand_over(listener, first, to)).abort_handle());
        let layout = Layout { ovsdb_port, openflow_port, ..layout.clone() };
        Ok(Fleet { layout, hosts, listening })
    }

    /// Where the hosts are, with the ports that were free if the layout asked for port 0.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The hosts, by number.
    pub fn hosts(&self) -> &[SimulatedHost] {
        &self.hosts
    }

    /// A host.
    pub fn host(&self, number: usize) -> Option<&SimulatedHost> {
        self.hosts.get(number)
    }

    /// What all hosts have, and have received.
    pub fn totals(&self) -> Totals {
        self.hosts.iter().map(SimulatedHost::totals).sum()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for task in &self.listening {
            task.abort();
        }
    }
}

//! Thousands of Open vSwitches in one process, on real sockets.
//!
//! Each is a switch and a database of `fake-switch`. All of them share two listeners on the loopback interface: one for OVSDB and one for
//! OpenFlow. Host number n has the nth address after the first one, and the address that a client dials says which host it wants. Or they
//! dial their controller ([`DialIn`]), each from its own address.
//!
//! In reading order: [`Fleet`], [`SimulatedHost`], [`DialIn`], [`faults`]. Left out on purpose: packets. No switch here forwards anything.
#![forbid(unsafe_code)]

mod dialling;
pub mod faults;
mod host;
mod listening;

use std::io;
use std::net::Ipv4Addr;

use fake_switch::Stream;
use mutual_tls::Credentials;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use dialling::Caller;

pub use dialling::DialIn;
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
    streams: Vec<Streams>,
    tasks: Vec<AbortHandle>,
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
        let (hosts, streams): (Vec<_>, Vec<_>) =
            (0..layout.hosts).map(|number| SimulatedHost::start(layout.id(number), number)).unzip();
        let to_databases = streams.iter().map(|streams| streams.to_database.clone()).collect();
        let to_switches = streams.iter().map(|streams| streams.to_switch.clone()).collect();
        let first = layout.first;
        let tasks = [(ovsdb, to_databases), (openflow, to_switches)]
            .map(|(listener, to)| tokio::spawn(listening::hand_over(listener, first, to)).abort_handle());
        let layout = Layout { ovsdb_port, openflow_port, ..layout.clone() };
        Ok(Fleet { layout, hosts, streams, tasks: tasks.into() })
    }

    /// Lets all hosts dial their controller from now on, besides being dialled: each gets the id of its transport node, and its name. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// The files of a host cannot be read.
    pub fn dial_in(&mut self, how: &DialIn<'_>) -> io::Result<()> {
        for (number, (host, streams)) in self.hosts.iter().zip(&self.streams).enumerate() {
            let id = host.id();
            let credentials = Credentials::load((how.files)(id)).map_err(io::Error::other)?;
            host.database().set_system_id(id).map_err(io::Error::other)?;
            let from = self.layout.address(number).ok_or(io::ErrorKind::AddrNotAvailable)?;
            let caller = |to: &UnboundedSender<Stream>| Caller {
                from,
                credentials: credentials.clone(),
                to: to.clone(),
            };
            let manager = caller(&streams.to_database).keep_manager(how.manager);
            let controller = caller(&streams.to_switch).keep_controller(host.database().watch());
            self.tasks
                .extend([tokio::spawn(manager).abort_handle(), tokio::spawn(controller).abort_handle()]);
        }
        Ok(())
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
        for task in &self.tasks {
            task.abort();
        }
    }
}

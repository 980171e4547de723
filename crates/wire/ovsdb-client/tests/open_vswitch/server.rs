//! A real ovsdb-server, and clients of it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::ops::{Deref, DerefMut};
use std::process::Command;

use ovs_testing::OpenVswitch;
use ovsdb_client::{Client, Endpoint, Event, MonitorSpec, Options};
use serde_json::Value;
use tokio::sync::mpsc::Receiver;

/// An ovsdb-server, and an ovs-vswitchd if the test starts one.
pub(crate) struct Server(pub(crate) OpenVswitch);

impl Server {
    /// A standalone database with the schema of Open vSwitch, initialised.
    pub(crate) fn start() -> Server {
        Server(OpenVswitch::start_database_only())
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.path("db.sock"))
    }

    /// Listens on a TCP port of the loopback interface as well.
    pub(crate) fn listen_on_tcp(&self) -> Endpoint {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        self.database_appctl(&["ovsdb-server/add-remote", &format!("ptcp:{free}:127.0.0.1")]);
        format!("tcp:127.0.0.1:{free}").parse().unwrap()
    }

    /// Runs a transaction on the database file while the server is stopped.
    pub(crate) fn transact_offline(&self, transaction: &Value) {
        let mut command = Command::new("ovsdb-tool");
        command.arg("transact").arg(self.path("conf.db")).arg(transaction.to_string());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The size of the database file, which grows with every transaction that changes something.
    pub(crate) fn log_size(&self) -> u64 {
        std::fs::metadata(self.path("conf.db")).unwrap().len()
    }

    pub(crate) fn client(&self, monitor: MonitorSpec) -> (Client, Receiver<Event>) {
        Client::spawn(self.endpoint(), "Open_vSwitch", monitor, Options::default())
    }
}

impl Deref for Server {
    type Target = OpenVswitch;

    fn deref(&self) -> &OpenVswitch {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut OpenVswitch {
        &mut self.0
    }
}

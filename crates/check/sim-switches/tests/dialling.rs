//! Hosts that dial in.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mutual_tls::{Credentials, Files, SecureStream, Strangers};
use ovsdb_client::open_vswitch::{Bridge, Controller, OpenVswitch};
use ovsdb_client::{Datum, Operation, Row};
use sim_switches::{DialIn, SimulatedHost};
use test_authority::{Authority, Leaf, controller};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::start;

const DEADLINE: Duration = Duration::from_mins(2);
const HOSTS: usize = 3;

/// Where hosts dial.
struct Entrance {
    listener: TcpListener,
    credentials: Arc<Credentials>,
}

impl Entrance {
    async fn new(credentials: &Arc<Credentials>) -> Entrance {
        Entrance {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            credentials: credentials.clone(),
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// The next connections, by the name of the host.
    async fn connections(&self, count: usize) -> BTreeMap<String, SecureStream<TcpStream>> {
        let all = async {
            let mut found = BTreeMap::new();
            while found.len() < count {
                let (stream, _) = self.listener.accept().await.unwrap();
                let stream = self.credentials.accept(stream, Strangers::Refused).await.unwrap();
                let name = stream.peer().unwrap().of_switch().unwrap().to_owned();
                assert!(found.insert(name, stream).is_none());
            }
            found
        };
        tokio::time::timeout(DEADLINE, all).await.expect("hosts dial")
    }
}

/// Makes the bridge dial this, and nothing else.
fn control(host: &SimulatedHost, address: SocketAddr) {
    let row = Row::new(Controller::TABLE).with("target", format!("ssl:{address}"));
    let bridge = Row::new(Bridge::TABLE).with("controller", Datum::named_uuid("new"));
    host.database()
        .transact(&[Operation::insert_named("new", row), Operation::update(bridge, vec![])])
        .unwrap();
}

#[test]
fn hosts_dial_their_manager_and_the_controller_of_their_bridge_again_and_again() {
    let (controllers, members) = (Authority::new(), Authority::new());
    let own = controllers.issue(&Leaf { host: Some("127.0.0.1"), ..controller() }).own;
    let credentials = Credentials::load(Files { own, ..members.trust() }).unwrap();
    let (runtime, mut fleet) = start(HOSTS);
    let names: Vec<String> = fleet.hosts().iter().map(|host| host.id().to_owned()).collect();
    let entrance = || runtime.block_on(Entrance::new(&credentials));
    let (manager, first, second) = (entrance(), entrance(), entrance());
    let files = move |name: &str| Files { own: members.issue(&Leaf::new(name)).own, ..controllers.trust() };
    {
        let _in_it = runtime.enter();
        fleet.dial_in(&DialIn { manager: manager.address(), files: Box::new(files) }).unwrap();
    }
    for _ in 0..2 {
        // Dropped at once, so they dial again.
        let dialled = runtime.block_on(manager.connections(HOSTS));
        assert!(dialled.keys().eq(&names), "{:?}", dialled.keys());
    }
    for host in fleet.hosts() {
        let rows = host.database().rows();
        let (_, row) = rows.rows(OpenVswitch::TABLE).next().unwrap();
        let ids: BTreeMap<String, String> = row.get("external_ids").unwrap();
        assert_eq!(ids["system-id"], host.id());
    }

    // A bridge dials when its database says so, and what it says.
    for entrance in [&first, &second] {
        fleet.hosts().iter().for_each(|host| control(host, entrance.address()));
        for _ in 0..2 {
            let mut dialled = runtime.block_on(entrance.connections(HOSTS));
            assert!(dialled.keys().eq(&names), "{:?}", dialled.keys());
            for stream in dialled.values_mut() {
                let mut header = [0; 8];
                runtime.block_on(stream.read_exact(&mut header)).unwrap();
                assert_eq!(header[..2], [6, 0], "a hello of OpenFlow 1.5");
            }
        }
    }

    // One that stands still does not see that its connection has ended. It dials when it has heard nothing for long.
    fleet.hosts()[0].switch().freeze();
    let mut kept = runtime.block_on(second.connections(HOSTS));
    kept.remove(&names[0]);
    // The others hear nothing either, and may dial again before it.
    while !runtime.block_on(second.connections(1)).contains_key(&names[0]) {}
}

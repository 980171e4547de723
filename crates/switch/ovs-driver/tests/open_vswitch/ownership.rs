//! Several drivers at one real Open vSwitch, and one that dials it over TCP.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use ovs_driver::{Channel, Config, Desired, Dial, Endpoint, Event, Owner, Sockets, Timing};
use peer_connection::Dialling;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::setting::{adding, eventually};

fn owner(controller: &str, epoch: u64) -> Arc<Owner> {
    Arc::new(Owner::new(controller, epoch, "ctl", "2026-11-25T00:00:00Z"))
}

fn drive(config: Config, node: &str, owner: &Arc<Owner>, flow: &str) -> Driven {
    let driven = Driven::start(Config { name: node.to_owned(), owner: Some(owner.clone()), ..config });
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&[flow]), ..Desired::default() }));
    driven
}

async fn withheld(driven: &mut Driven) -> String {
    driven
        .wait("that it is somebody else's", |event| match event {
            Event::Withheld { why } => why.clone(),
            _ => None,
        })
        .await
}

const FIRST: &str = "table=1, actions=drop";
const SECOND: &str = "table=2, actions=drop";

#[tokio::test]
async fn d18_two_addresses_of_one_switch_are_one_node() {
    let ovs = Switch::start();
    let owner = owner("a", 1);
    let mut first = drive(ovs.config(), "hv1", &owner, FIRST);
    first.synced().await;
    for file in ["db.sock", "br-int.mgmt"] {
        symlink(ovs.path(file), ovs.path(&format!("link-{file}"))).unwrap();
    }
    let link = |file: &str| format!("unix:{}", ovs.path(&format!("link-{file}")).display()).parse().unwrap();
    let config = Config { ovsdb: link("db.sock"), openflow: link("br-int.mgmt"), ..ovs.config() };
    let mut second = drive(config, "hv2", &owner, SECOND);
    let why = withheld(&mut second).await;
    assert!(why.contains("hv1") && why.contains("hv2"), "{why}");
    first.handle.push(1, adding(&["table=3, actions=drop"]));
    first.confirmed(1).await;
    assert_eq!(ovs.flows(), [" table=1, actions=drop", " table=3, actions=drop"].map(str::trim));
    let foreign = first.seen.iter().any(|event| matches!(event, Event::ForeignChanges { .. }));
    assert!(!foreign, "{:#?}", first.seen);

    // The node that has it is deleted, and takes its flows along.
    first.handle.set_desired(Arc::new(Desired::default()));
    first.handle.leave();
    first.wait("that it has left", |event| matches!(event, Event::Left).then_some(())).await;
    first.handle.end().await;
    second.synced().await;
    assert_eq!(ovs.flows(), [SECOND]);
    assert_eq!(ovs.vsctl(&["get", "bridge", "br-int", "external_ids:weft-node"]).trim(), "hv2");
}

#[tokio::test]
async fn d19_d30_a_switch_has_one_controller_in_its_latest_start() {
    let ovs = Switch::start();
    let mut first = drive(ovs.config(), "hv1", &owner("a", 5), FIRST);
    first.synced().await;
    let mut stranger = drive(ovs.config(), "n1", &owner("b", 9), SECOND);
    let why = withheld(&mut stranger).await;
    assert!(why.contains("belongs to another controller"), "{why}");

    let mut again = drive(ovs.config(), "hv1", &owner("a", 6), SECOND);
    again.synced().await;
    let why = withheld(&mut first).await;
    assert!(why.contains("a later start of this controller"), "{why}");
    first.handle.push(1, adding(&[FIRST]));
    again.handle.push(1, adding(&["table=3, actions=drop"]));
    again.confirmed(1).await;
    assert_eq!(ovs.flows(), [SECOND, "table=3, actions=drop"]);

    // The mark is removed on purpose.
    again.handle.end().await;
    ovs.vsctl(&["remove", "bridge", "br-int", "external_ids", "weft-controller"]);
    stranger.synced().await;
    assert_eq!(ovs.flows(), [SECOND]);
    assert_eq!(ovs.vsctl(&["get", "bridge", "br-int", "external_ids:weft-controller"]).trim(), "b");
}

/// Dials from within the network namespace of a switch.
struct Inside(PathBuf, Sockets);

impl Dial for Inside {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        let Endpoint::Tcp { host, port } = endpoint else { return self.1.dial(endpoint) };
        Box::pin(async move {
            let (network, address) = (self.0.clone(), (host.clone(), *port));
            // A thread of its own, because it never comes back to the namespace of the others.
            let thread = std::thread::spawn(move || {
                let network = File::open(network)?;
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
                let stream = TcpStream::connect(address)?;
                stream.set_nonblocking(true)?;
                std::io::Result::Ok(stream)
            });
            let stream = tokio::task::spawn_blocking(|| thread.join().unwrap()).await??;
            Ok(Box::new(tokio::net::TcpStream::from_std(stream)?) as peer_connection::Stream)
        })
    }
}

#[tokio::test]
async fn d27_the_bridge_of_a_remote_host_waits_for_the_driver_and_flows_stay() {
    const PORT: u16 = 6653;
    let ovs = Switch::start();
    let network = format!("--net={}", ovs.network().display());
    ovs_testing::run("nsenter", &[&network, "ip", "link", "set", "lo", "up"]);
    let openflow = format!("tcp:127.0.0.1:{PORT}").parse().unwrap();
    let config = Config { name: "hv1".to_owned(), openflow, owner: Some(owner("a", 1)), ..ovs.config() };
    let mut driven =
        Driven::start_on(Arc::new(Inside(ovs.network(), Sockets::default())), config, Timing::default());
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&[FIRST]), ..Desired::default() }));
    driven.synced().await;
    let targets = || {
        let targets = ovs.vsctl(&["get-controller", "br-int"]);
        targets.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let own = format!("ptcp:{PORT}:127.0.0.1");
    assert_eq!(targets(), std::slice::from_ref(&own));
    assert_eq!(ovs.flow_mods(), 1);

    // Somebody removes it, as `ovs-vsctl set-controller` of another target does.
    ovs.vsctl(&["set-controller", "br-int", "ptcp:0:127.0.0.2"]);
    eventually("it is there again, beside the other one", || targets().len() == 2).await;
    assert!(targets().contains(&own));
    driven.handle.push(1, adding(&["table=3, actions=drop"]));
    driven.confirmed(1).await;
    assert_eq!(ovs.flows(), [FIRST, "table=3, actions=drop"]);
    assert_eq!(ovs.flow_mods(), 2, "no flow was sent again: none was lost");

    // The bridge goes, and is made again.
    ovs.vsctl(&["del-br", "br-int"]);
    driven.disconnected(Channel::OpenFlow).await;
    driven.synced().await;
    assert_eq!(targets(), [own]);
    assert_eq!(ovs.flows(), [FIRST, "table=3, actions=drop"]);

    // The node goes, and what others have set stays.
    ovs.vsctl(&[
        "--",
        "--id=@c",
        "create",
        "Controller",
        "target=\"ptcp:0:127.0.0.3\"",
        "--",
        "add",
        "bridge",
        "br-int",
        "controller",
        "@c",
    ]);
    driven.handle.set_desired(Arc::new(Desired::default()));
    driven.handle.leave();
    driven.wait("that it has left", |event| matches!(event, Event::Left).then_some(())).await;
    assert_eq!(targets(), ["ptcp:0:127.0.0.3"]);
    let marks = ovs.vsctl(&["get", "bridge", "br-int", "external_ids"]);
    assert_eq!(marks.trim(), "{}");
}

//! BFD sessions of tunnel ports.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use ovs_driver::{BfdSession, Changes, Desired, Edits, Tunnel};
use ovs_testing::wait_until;

/// A port to an address where nobody answers.
fn to_nobody() -> (String, Tunnel) {
    ("gnv".to_owned(), Tunnel { encap: "geneve".parse().unwrap(), remote: "192.0.2.1".parse().unwrap() })
}

fn every(interval: u16) -> (String, BfdSession) {
    ("gnv".to_owned(), BfdSession { interval })
}

fn settings(ovs: &Switch) -> String {
    ovs.vsctl(&["get", "interface", "gnv", "bfd"]).trim().to_owned()
}

/// Whether the switch gives packets to buckets that watch the port.
fn is_live(ovs: &Switch) -> bool {
    let ports = ovs.ofctl(&["dump-ports-desc", "BRIDGE"]);
    let port = ports.split("(gnv)").nth(1).unwrap();
    let state = port.lines().find_map(|line| line.trim().strip_prefix("state:")).unwrap();
    state.contains("LIVE")
}

/// One transaction creates a port with its session. The session decides whether the port is live: it is not, since nobody answers, and
/// is once the session has ended.
#[tokio::test]
async fn a_session_begins_with_its_port_and_decides_whether_it_is_live() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::default());
    driven.synced().await;
    let changes =
        Changes { tunnels: Edits::add([to_nobody()]), bfd: Edits::add([every(200)]), ..Changes::default() };
    driven.handle.push(1, changes);
    driven.confirmed(1).await;
    assert_eq!(settings(&ovs), r#"{enable="true", min_rx="200", min_tx="200"}"#);
    wait_until("the port is not live", || !is_live(&ovs));

    driven.handle.push(2, Changes { bfd: Edits::add([every(300)]), ..Changes::default() });
    driven.confirmed(2).await;
    assert_eq!(settings(&ovs), r#"{enable="true", min_rx="300", min_tx="300"}"#);

    driven.handle.push(3, Changes { bfd: Edits::delete(["gnv".to_owned()]), ..Changes::default() });
    driven.confirmed(3).await;
    assert_eq!(settings(&ovs), "{}");
    wait_until("the port is live", || is_live(&ovs));
}

/// A driver writes nothing to a switch that is right. It corrects a session that others have changed, and ends one of its ports that
/// nobody wants. The sessions of others' ports are left alone.
#[tokio::test]
async fn sessions_are_corrected_like_ports() {
    let ovs = Switch::start();
    let desired = Desired { tunnels: [to_nobody()].into(), bfd: [every(200)].into(), ..Desired::default() };
    let desired = Arc::new(desired);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    driven.synced().await;
    driven.handle.end().await;
    let version = || ovs.vsctl(&["get", "open_vswitch", ".", "next_cfg"]);
    let before = version();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!(version(), before);
    driven.handle.end().await;

    ovs.vsctl(&["set", "interface", "gnv", "bfd:min_tx=999", "bfd:decay_min_rx=1"]);
    ovs.vsctl(&["add-port", "br-int", "theirs", "--", "set", "interface", "theirs", "bfd:enable=true"]);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    driven.synced().await;
    assert_eq!(settings(&ovs), r#"{enable="true", min_rx="200", min_tx="200"}"#);
    driven.handle.end().await;

    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired { bfd: [].into(), ..(*desired).clone() }));
    driven.synced().await;
    assert_eq!(settings(&ovs), "{}");
    assert_eq!(ovs.vsctl(&["get", "interface", "theirs", "bfd"]).trim(), r#"{enable="true"}"#);
}

/// The responder of the host holds this key. It survives a change of the session, another driver, and the comparison that finds
/// something else wrong.
#[tokio::test]
async fn what_the_responder_holds_stays() {
    let ovs = Switch::start();
    let desired = Desired { tunnels: [to_nobody()].into(), bfd: [every(200)].into(), ..Desired::default() };
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired.clone()));
    driven.synced().await;
    ovs.vsctl(&["set", "interface", "gnv", "bfd:cpath_down=true"]);
    let held = |interval: u16| {
        format!(r#"{{cpath_down="true", enable="true", min_rx="{interval}", min_tx="{interval}"}}"#)
    };
    assert_eq!(settings(&ovs), held(200));

    driven.handle.push(1, Changes { bfd: Edits::add([every(300)]), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(settings(&ovs), held(300));
    driven.handle.end().await;

    let desired = Desired { bfd: [every(300)].into(), ..desired };
    let version = || ovs.vsctl(&["get", "open_vswitch", ".", "next_cfg"]);
    let before = version();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired.clone()));
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!(version(), before, "nothing is wrong");
    driven.handle.end().await;

    ovs.vsctl(&["set", "interface", "gnv", "bfd:min_tx=999"]);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired));
    driven.synced().await;
    assert_eq!(settings(&ovs), held(300));

    driven.handle.push(2, Changes { bfd: Edits::delete(["gnv".to_owned()]), ..Changes::default() });
    driven.confirmed(2).await;
    assert_eq!(settings(&ovs), r#"{cpath_down="true"}"#);
}

//! Learned flows that the owner waits for, and frames that it sends, on real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use ovs_driver::{Changes, Config, Desired, Edits, Event, Frame, Patch};
use ovs_testing::wait_until;

use super::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;

/// The table of announcements, and the cookie of one.
const ANNOUNCED: u8 = 12;
const COOKIE: u64 = 0x77;

/// A RARP frame from the bridge's own port makes the switch learn.
const LEARNER: &str = "cookie=0x11, table=0, priority=5,in_port=LOCAL,dl_type=0x8035 \
     actions=learn(table=12,priority=50,delete_learned,cookie=0x77,NXM_OF_IN_PORT[]),resubmit(,12)";

fn announce(ovs: &Switch) {
    let frame = "in_port=LOCAL,dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x8035";
    ovs.appctl(&["ofproto/trace", "br-int", frame, "-generate"]);
}

async fn learned(driven: &mut Driven) -> bool {
    driven
        .wait("a learned flow", |event| match event {
            Event::Learned { table: ANNOUNCED, cookie: COOKIE, is_new } => Some(*is_new),
            _ => None,
        })
        .await
}

fn count(driven: &Driven) -> usize {
    driven.seen.iter().filter(|event| matches!(event, Event::Learned { .. })).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_a_packet_makes_the_switch_learn_is_reported() {
    let mut ovs = Switch::start();
    let config = Config { watched_tables: [ANNOUNCED].into(), ..ovs.config() };
    let awaited = [((ANNOUNCED, COOKIE), "p".into())].into();
    let desired = Arc::new(Desired { flows: flows(&[LEARNER]), awaited, ..Desired::default() });
    let mut driven = Driven::start(config.clone());
    driven.handle.set_desired(desired.clone());
    driven.synced().await;
    announce(&ovs);
    assert!(learned(&mut driven).await);
    // A repeated announcement writes the same flow, and is not reported again.
    announce(&ovs);
    driven
        .handle
        .push(1, Changes { flows: Edits::add(flows(&["table=9 actions=drop"])), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(count(&driven), 1, "{:#?}", driven.seen);

    // Another driver finds what is there, and touches nothing.
    let (before, mods) = (ovs.flows(), ovs.flow_mods());
    driven.handle.end().await;
    let mut driven = Driven::start(config);
    let with_drop = flows(&[LEARNER, "table=9 actions=drop"]);
    driven.handle.set_desired(Arc::new(Desired { flows: with_drop, ..(*desired).clone() }));
    assert_eq!(driven.synced().await, (0, 0));
    if count(&driven) == 0 {
        assert!(!learned(&mut driven).await);
    }
    assert_eq!((ovs.flows(), ovs.flow_mods()), (before, mods));

    // The learned flow goes with the flow that learned it, and an announcement after that is new.
    let delete = Changes { flows: Edits::delete(flows(&[LEARNER]).into_keys()), ..Changes::default() };
    driven.handle.push(2, delete);
    driven.confirmed(2).await;
    assert!(!ovs.flows().iter().any(|flow| flow.contains("table=12")), "{:#?}", ovs.flows());
    driven.handle.push(3, Changes { flows: Edits::add(flows(&[LEARNER])), ..Changes::default() });
    driven.confirmed(3).await;
    announce(&ovs);
    assert!(learned(&mut driven).await);

    // A restart of the switch loses it.
    ovs.kill_vswitchd();
    driven.disconnected(ovs_driver::Channel::OpenFlow).await;
    ovs.start_vswitchd();
    driven.synced().await;
    let before = count(&driven);
    announce(&ovs);
    assert!(learned(&mut driven).await);
    assert_eq!(count(&driven), before + 1, "{:#?}", driven.seen);
    assert!(
        !driven.seen.iter().any(|event| matches!(event, Event::ForeignChanges { .. })),
        "{:#?}",
        driven.seen
    );
}

/// A RARP frame of QEMU's form, in VLAN 7.
fn rarp() -> Vec<u8> {
    let mac = [2, 0, 0, 0, 0, 1];
    let mut frame = [[0xff; 6], mac].concat();
    frame.extend([0x81, 0, 0, 7, 0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
    for part in [&mac[..], &[0; 4], &mac, &[0; 4]] {
        frame.extend(part);
    }
    frame.resize(64, 0);
    frame
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_leaves_through_its_port() {
    let mut ovs = Switch::start();
    ovs.vsctl(&["add-br", "br-phy", "--", "set", "bridge", "br-phy", "datapath_type=netdev"]);
    let physical = ovs.bridge("br-phy");
    let count = |ovs: &Switch| {
        let is_right = "dl_vlan=7,dl_src=02:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff,rarp,arp_op=3,arp_spa=0.0.0.0,\
                        arp_tpa=0.0.0.0,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:01";
        let flows = [format!("priority=9,{is_right},actions=LOCAL"), "priority=1,actions=drop".to_owned()];
        let dump = ovs.try_ofctl(&["dump-flows", &physical]).unwrap();
        if !dump.contains("rarp") {
            ovs.try_ofctl(&["del-flows", &physical]).unwrap();
            for flow in &flows {
                ovs.try_ofctl(&["add-flow", &physical, flow]).unwrap();
            }
        }
        let line = dump.lines().find(|line| line.contains("rarp"))?.to_owned();
        let number = |name: &str| line.split(name).nth(1)?.split(',').next()?.parse::<u64>().ok();
        number("n_packets=").zip(number("n_bytes="))
    };
    let mut driven = Driven::start(ovs.config());
    let patch = Patch { bridge: "br-phy".to_owned(), peer: "phy-int".to_owned() };
    let patches = [("int-phy".to_owned(), patch)].into();
    driven.handle.set_desired(Arc::new(Desired { patches, ..Desired::default() }));
    let ofport = driven
        .wait("the patch port", |event| match event {
            Event::Report(report) => report.patches.get("int-phy").copied(),
            _ => None,
        })
        .await;
    if !driven.seen.iter().any(|event| matches!(event, Event::Synced { .. })) {
        driven.synced().await;
    }
    wait_until("the other bridge counts", || count(&ovs) == Some((0, 0)));

    let frame = Frame { ofport, bytes: rarp().into() };
    let sending = Changes { frames: Edits::add([("vm".to_owned(), frame)]), ..Changes::default() };
    driven.handle.push(1, sending.clone());
    driven.confirmed(1).await;
    wait_until("five frames arrive", || count(&ovs) == Some((5, 5 * 64)));

    // A port that does not exist harms nobody.
    let frame = Frame { ofport: 999, bytes: rarp().into() };
    driven.handle.push(2, Changes { frames: Edits::add([("vm".to_owned(), frame)]), ..Changes::default() });
    driven
        .handle
        .push(3, Changes { flows: Edits::add(flows(&["table=9 actions=drop"])), ..Changes::default() });
    driven.confirmed(3).await;

    ovs.kill_vswitchd();
    driven.disconnected(ovs_driver::Channel::OpenFlow).await;
    ovs.start_vswitchd();
    driven.synced().await;
    wait_until("the other bridge counts", || count(&ovs) == Some((0, 0)));
    driven.handle.push(4, sending);
    driven.confirmed(4).await;
    wait_until("five frames arrive", || count(&ovs) == Some((5, 5 * 64)));
}

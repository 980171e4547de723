//! Learned flows that the owner waits for, and frames that it sends, on the fake switch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use openflow_rs::message::PacketOut;
use ovs_driver::{Changes, Config, Desired, Edits, Event, Frame};
use tokio::time::Instant;

use crate::support::driven::Driven;
use crate::support::flows::{flow, flows};
use crate::support::setting::{Setting, adding, config, eventually, patient, some_flows};

/// The table of announcements.
const ANNOUNCED: u8 = 12;

fn watching() -> Config {
    Config { learned_tables: [21].into(), watched_tables: [ANNOUNCED].into(), ..config() }
}

fn awaiting(cookies: &[u64]) -> Desired {
    let awaited = cookies.iter().map(|cookie| ((ANNOUNCED, *cookie), "p".into())).collect();
    Desired { flows: some_flows(3), awaited, ..Desired::default() }
}

fn drive(setting: &Setting) -> Driven {
    Driven::start_on(Arc::new(setting.network.clone()), watching(), patient())
}

/// The switch learns the flow of a port, or forgets it.
fn learn(setting: &Setting, port: u16, cookie: Option<u64>) {
    let (key, value) = flow(&format!("table={ANNOUNCED},in_port={port} actions=drop"));
    setting.fake.learn(key, cookie.map(|cookie| value.with_cookie(cookie)));
}

async fn learned(driven: &mut Driven) -> (u64, bool) {
    driven
        .wait("a learned flow", |event| match event {
            Event::Learned { table: ANNOUNCED, cookie, is_new } => Some((*cookie, *is_new)),
            _ => None,
        })
        .await
}

fn count(driven: &Driven) -> usize {
    driven.seen.iter().filter(|event| matches!(event, Event::Learned { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn what_a_switch_learns_is_reported_once_and_again_after_it_was_gone() {
    let setting = Setting::new();
    learn(&setting, 1, Some(7));
    learn(&setting, 2, Some(99));
    let mut driven = drive(&setting);
    driven.handle.set_desired(Arc::new(awaiting(&[7, 8])));
    assert_eq!(learned(&mut driven).await, (7, false), "it was there");
    learn(&setting, 3, Some(8));
    assert_eq!(learned(&mut driven).await, (8, true));

    // A lost connection makes no news of what is known, and misses nothing.
    setting.fake.disconnect();
    learn(&setting, 3, None);
    driven.synced().await;
    learn(&setting, 3, Some(8));
    assert_eq!(learned(&mut driven).await, (8, true));
    setting.fake.disconnect();
    driven.synced().await;
    driven
        .handle
        .push(1, Changes { awaited: Edits::add([((ANNOUNCED, 99), "p".into())]), ..Changes::default() });
    assert_eq!(learned(&mut driven).await, (99, false));
    assert_eq!(count(&driven), 4, "{:#?}", driven.seen);

    // Reports that were left out.
    driven
        .handle
        .push(2, Changes { awaited: Edits::add([((ANNOUNCED, 5), "p".into())]), ..Changes::default() });
    driven.confirmed(2).await;
    let (key, value) = flow(&format!("table={ANNOUNCED},in_port=5 actions=drop"));
    setting.fake.install_unreported(key, value.with_cookie(5));
    setting.fake.leave_out_reports();
    assert_eq!(learned(&mut driven).await, (5, true));
    // The flows are the switch's own.
    assert!(!driven.seen.iter().any(|event| matches!(event, Event::ForeignChanges { .. })));
    assert_eq!(setting.fake.flows().len(), 3 + 4);
}

fn frame(byte: u8) -> Frame {
    Frame { ofport: 4, bytes: vec![byte; 60].into() }
}

fn sending(name: &str, byte: u8) -> Changes {
    Changes { frames: Edits::add([(name.to_owned(), frame(byte))]), ..Changes::default() }
}

fn packet(byte: u8) -> PacketOut {
    PacketOut::new("output:4".parse().unwrap(), vec![byte; 60])
}

#[tokio::test(start_paused = true)]
async fn a_frame_is_sent_after_the_confirmation_five_times_unless_it_is_taken_back() {
    let setting = Setting::new();
    let mut driven = drive(&setting);
    driven.handle.set_desired(Arc::new(Desired { flows: some_flows(3), ..Desired::default() }));
    driven.synced().await;
    let flows = adding(&["table=9 actions=drop"]).flows;
    driven.handle.push(1, Changes { flows, ..sending("a", 1) });
    driven.confirmed(1).await;
    let confirmed = Instant::now();
    eventually("the first is sent", || setting.fake.packets() == [packet(1)]).await;
    assert!(confirmed.elapsed() < Duration::from_millis(100), "{:?}", confirmed.elapsed());
    eventually("the last is sent", || setting.fake.packets().len() == 5).await;
    let took = confirmed.elapsed();
    assert!((1200..1400).contains(&took.as_millis()), "{took:?}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(setting.fake.packets(), vec![packet(1); 5]);

    driven.handle.push(2, sending("a", 2));
    driven.handle.push(3, sending("b", 3));
    eventually("both are sent", || setting.fake.packets().len() == 7).await;
    driven.handle.push(4, Changes { frames: Edits::delete(["a".to_owned()]), ..Changes::default() });
    tokio::time::sleep(Duration::from_secs(10)).await;
    let sent = setting.fake.packets();
    assert_eq!([2, 3].map(|byte| sent.iter().filter(|sent| **sent == packet(byte)).count()), [1, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_frame_waits_for_a_switch_that_is_away() {
    let setting = Setting::new();
    let mut driven = drive(&setting);
    driven.handle.set_desired(Arc::new(Desired { flows: some_flows(3), ..Desired::default() }));
    driven.synced().await;
    setting.fake.freeze();
    setting.fake.disconnect();
    driven.disconnected(ovs_driver::Channel::OpenFlow).await;
    driven.handle.push(1, Changes { flows: Edits::add(flows(&["table=9 actions=drop"])), ..sending("a", 1) });
    setting.fake.thaw();
    driven.confirmed(1).await;
    eventually("it is sent", || setting.fake.packets() == vec![packet(1); 5]).await;
    // Nothing is sent again after a restart of the switch.
    setting.fake.restart();
    driven.synced().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(setting.fake.packets().len(), 5);
}

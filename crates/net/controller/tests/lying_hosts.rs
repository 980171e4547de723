//! Hosts whose switches and databases lie: the controller serves the others, in bounded memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller::Parts;
use controller::drivers::RealDrivers;
use fake_switch::openflow::{Fault, Stage};
use fake_switch::{FakeDatabase, FakeSwitch};
use ovs_driver::{Peers, Sockets};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use weft_client::pb;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start_with, status_when};
use crate::support::*;

/// The memory of this process that is used, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

/// A server that answers each connection with this text, again and again, until nobody reads it.
fn babbling(socket: &Path, text: String) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).expect("a new socket");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let text = text.clone();
            tokio::spawn(async move {
                // A request is there first.
                let _ = stream.read(&mut [0; 1000]).await;
                let begin = r#"{"id":1,"error":null,"result":["#;
                let mut sent = stream.write_all(begin.as_bytes()).await;
                while sent.is_ok() {
                    sent = stream.write_all(text.as_bytes()).await;
                }
            });
        }
    })
}

/// What a host is: its database, its switch, and what keeps them.
enum Host {
    /// The answer about the schema never ends.
    Schema,
    /// Groups are described without an end.
    Groups,
    /// Flows are described without an end.
    Flows,
    Honest,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d16_twenty_lying_hosts_take_little_memory_and_the_rest_goes_on() {
    const LIARS: usize = 20;
    /// What the controller may take for them.
    const MORE_MAX: usize = 256 << 20;
    let folder = tempfile::tempdir().unwrap();
    let peers = Peers::start(Arc::new(Sockets::default()), 2, 128 << 20, || {}).unwrap();
    let switches = Switches::default();
    let drivers = Box::new(RealDrivers { learned_addresses: 100.try_into().unwrap(), peers });
    let parts = Parts { drivers, ..parts(folder.path(), rules(RULES), &switches) };
    let running = start_with(parts, switches).await;
    let mut client = running.client().await;
    let before = resident();

    let (mut kept, mut objects) = (Vec::new(), String::new());
    for n in 0..=LIARS {
        let host = match n {
            LIARS => Host::Honest,
            _ => [Host::Schema, Host::Groups, Host::Flows].into_iter().nth(n % 3).unwrap(),
        };
        let socket = |name: &str| folder.path().join(format!("{name}{n}"));
        let (ovsdb, openflow) = (socket("db"), socket("mgmt"));
        let switch = FakeSwitch::start(&openflow).unwrap();
        // Otherwise all of them would be one switch.
        let id = FakeSwitch::DATAPATH_ID + n as u64;
        switch.datapath_id(id);
        match host {
            Host::Schema => kept.push((Some(babbling(&ovsdb, "[],".repeat(10_000))), None, switch)),
            host => {
                let stage = match host {
                    Host::Groups => Some(Stage::Groups),
                    Host::Flows => Some(Stage::Dump),
                    _ => None,
                };
                // Again and again.
                for stage in stage.into_iter().cycle().take(100) {
                    switch.fault(stage, Fault::Endless);
                }
                let database = FakeDatabase::start(&ovsdb).unwrap();
                database.datapath_id("br-int", id);
                kept.push((None, Some(database), switch));
            }
        }
        objects += &format!(
            "---\n{{kind: transport_node, id: hv{n}, ip: 10.0.0.{}, ovsdb: 'unix:{}', openflow: 'unix:{}'}}\n",
            n + 1,
            ovsdb.display(),
            openflow.display()
        );
    }
    let watching = Arc::new(AtomicUsize::new(before));
    let watcher = tokio::spawn({
        let watching = watching.clone();
        async move {
            loop {
                watching.fetch_max(resident(), Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    apply(&mut client, &objects).await.unwrap();
    let status = status_when(&mut client, |status| {
        let cut = |node: &pb::SwitchStatus| {
            node.last_error.contains("larger than 1048576 bytes")
                || node.last_error.contains("reached the limit of")
        };
        let liars = status.switches.iter().filter(|node| cut(node)).count();
        // All floods together never fill the budget's last part, so the last of them may still be read.
        let honest = status.switches.iter().any(|node| node.node == format!("hv{LIARS}") && node.synced);
        liars >= LIARS - 6 && honest
    })
    .await;
    assert_eq!(status.switches.len(), LIARS + 1);
    watcher.abort();
    let more = watching.load(Ordering::SeqCst).saturating_sub(before);
    assert!(more < MORE_MAX, "{} MiB more", more >> 20);
    running.stop().await;
}
